// stranger.hpp: another program's busy thread on one of the CPUs a pool runs on.
#ifndef WEFT_RACE_STRANGER_HPP
#define WEFT_RACE_STRANGER_HPP

#include <sched.h>
#include <sys/types.h>

// While it lives, processes started from here have one CPU for each worker, and on the last of these a process is busy.
class Stranger {
    pid_t pid = -1;
    cpu_set_t before;

  public:
    explicit Stranger(unsigned workers);
    ~Stranger();
    void stop() const; // until it is to go on
    void go_on() const;
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;
};

#endif
