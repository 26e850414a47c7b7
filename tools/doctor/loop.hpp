// loop.hpp: a loop that does nothing but work, on one CPU: what disturbs it, and by how much?
#ifndef WEFT_DOCTOR_LOOP_HPP
#define WEFT_DOCTOR_LOOP_HPP

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct LoopOptions {
    double seconds = 10;
    int cpu = -1;          // -1: the last this process may use
    std::string plot_file; // fib(19)'s time over time
};

// The kernel's own account of what happened on one CPU, from its construction to stop(). Needs a mounted tracefs and the right to use it.
class KernelTrace {
    std::string folder; // an instance of its own, removed at the end; empty: none
    std::string reason_text;
    unsigned cpu;

  public:
    explicit KernelTrace(int cpu);
    ~KernelTrace();
    KernelTrace(const KernelTrace &) = delete;
    KernelTrace &operator=(const KernelTrace &) = delete;
    const std::string &reason() const { return reason_text; } // why there is no trace; empty: there is one
    void stop();
    uint64_t overrun() const; // events that newer ones replaced, or that found no room, on all CPUs
    // "event: what" on the CPU -> how often, but for the thread of this name. wake_us gets the microseconds from each sched_wakeup to its
    // sched_switch, on any CPU.
    std::map<std::string, uint64_t> causes(const std::string &own_name, std::vector<double> &wake_us) const;
};

// Prints what it found. The command's exit status. Throws std::exception.
int loop_main(const LoopOptions &options);

#endif
