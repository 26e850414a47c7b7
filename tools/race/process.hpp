// process.hpp: an entrant's process as its parent sees it.
#ifndef WEFT_RACE_PROCESS_HPP
#define WEFT_RACE_PROCESS_HPP

#include "wire.hpp"

#include <sys/types.h>

// Stopped (SIGSTOP) whenever it is not its turn, killed at the end.
class Process {
    pid_t pid = -1;
    int to = -1, from = -1;
    std::string failure; // why it can no longer be used

  public:
    explicit Process(const Seat &seat);
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    const std::string &error() const { return failure; }
    // Neither does anything when no process was started.
    void stop();
    void resume();
    // An order, and the reply to it. On failure error() is set.
    void send(const Command &command);
    Reply answer(uint64_t limit_ns);
    // Both.
    Reply round(const Command &command, uint64_t limit_ns);
};

// Starts `weft race-child` with the descriptors the caller has set up; to be called in a forked process. Never returns.
[[noreturn]] void process_exec(const Seat &seat, int in, int out);

#endif
