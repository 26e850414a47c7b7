// signals.hpp: what `weft why` does with signals while a program runs in its charge.
#ifndef WEFT_WHY_SIGNALS_HPP
#define WEFT_WHY_SIGNALS_HPP

#include <csignal>
#include <cstdint>
#include <sys/types.h>

// One at a time. What a terminal sends to all (SIGINT, SIGQUIT) is for the program, SIGTERM and SIGHUP are passed on to it: this
// process stays, and tells what was seen until the program ended.
class Signals {
    static constexpr int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCONT};
    struct sigaction before[sizeof numbers / sizeof numbers[0]];
    bool is_undone = false;

  public:
    Signals();
    ~Signals() { undo(); }
    Signals(const Signals &) = delete;
    Signals &operator=(const Signals &) = delete;
    void undo(); // also in a forked child
    // From now on to that process; 0: to none.
    static void pass_to(pid_t child);
    // How often this process was told to go on, after a stop or without one.
    static uint32_t continued();
    // After undo: dies of a signal that no process got.
    static void heed();
};

#endif
