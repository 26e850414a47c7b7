// perf.hpp: the scheduler's own records by perf_event_open: switches of all CPUs, or of the program's threads, and its page faults.
#ifndef WEFT_WHY_PERF_HPP
#define WEFT_WHY_PERF_HPP

#include "record.hpp"

#include <sys/types.h>

class Perf {
    struct Ring {
        int fd, faults, served, wakes; // -1: none
        char *base;
    };
    struct Switch {
        uint64_t when;
        uint32_t tid, cpu;
        bool out, ready;
    };
    struct Tracepoint {
        uint64_t number = 0; // the kernel's; 0: not to be had
        size_t pid_at = 0;   // where its data tell who is woken
    };
    Tracepoint waking;
    std::vector<Ring> rings;
    std::vector<Switch> switches;
    std::map<uint32_t, std::vector<uint64_t>> wakes; // by who was woken
    size_t bytes = 0;
    Record *record;
    void take(const char *event);
    void take_sample(const char *event, uint16_t size);
    void add_away(const Switch &out, const Switch &in);
    static Tracepoint waking_find();
    void add_cpu(pid_t child, unsigned cpu, bool all);

  public:
    explicit Perf(Record *to) : record(to) {}
    ~Perf();
    Perf(const Perf &) = delete;
    // Of all CPUs, or only of the child and the threads it will make. The empty string, or why not.
    std::string open(pid_t child, bool all);
    void drain();
    // After the last: who was away when.
    void finish();
    // After that: when the thread was last woken up to that moment; 0: not seen.
    uint64_t woken_before(uint32_t tid, uint64_t when) const;
};

#endif
