// stranger.hpp: other programs on the CPUs a pool runs on.
#ifndef WEFT_RACE_STRANGER_HPP
#define WEFT_RACE_STRANGER_HPP

#include <sched.h>
#include <string>
#include <sys/types.h>
#include <vector>

enum class Busy {
    spins,    // one thread that never sleeps
    compiles, // a C compiler over and over, on a source file of its own
};

// While it lives, processes started from here have one CPU for each worker, and on the last `count` of these a process each is
// busy; of more than there are CPUs several share one. Throws std::runtime_error.
class Stranger {
    std::vector<pid_t> groups; // process groups of their own
    cpu_set_t before;
    std::string folder; // for what is compiled; empty: none

    void signal_all(int signal) const;

  public:
    explicit Stranger(unsigned workers, unsigned count = 1, Busy busy = Busy::spins);
    ~Stranger();
    void stop() const; // until they are to go on
    void go_on() const;
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;
};

#endif
