// record.hpp: what the kernel did to a program's threads while it ran: who left its CPU when, and why; page faults; stops; a quota.
#ifndef WEFT_WHY_RECORD_HPP
#define WEFT_WHY_RECORD_HPP

#include "signals.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// A thread was on a CPU.
struct Run {
    uint32_t tid, cpu;
    uint64_t from, until; // CLOCK_MONOTONIC ns, as all times here
};

// A thread was on none.
struct Away {
    uint64_t from, until;
    bool is_ready;         // it would have run
    uint32_t cpu;          // it came back to
    bool is_woken = false; // it is ready because it was woken, after a sleep
};

struct Span {
    uint64_t from, until;
};

struct Throttle {
    uint64_t when, total_ns; // the cgroup's time without CPU so far
};

struct Record {
    std::string source; // in words
    bool sees_others = false;
    bool sees_wakes = false;                    // how long a thread slept, and how long it waited for a CPU then
    std::map<uint32_t, std::vector<Away>> away; // by thread, sorted; so the next two
    std::map<uint32_t, std::vector<uint64_t>> faults,
        served; // page faults: their beginnings, and ends of those that needed no disk
    std::vector<std::vector<Run>> cpus;
    std::vector<Span> stops;
    std::vector<Throttle> throttles;
    std::map<uint32_t, std::string> names; // of threads; and their processes:
    std::map<uint32_t, uint32_t> process;
    uint64_t lost = 0; // records that the kernel had no room for
};

enum class Source { best, all, own, proc };

struct RunOptions {
    std::vector<std::string> command;
    std::string timeline; // for WEFT_TRACE
    Source source;
};

// Runs the command until it has ended. Its wait status. Throws std::runtime_error.
int record_run(const RunOptions &options, Signals &signals, Record &record);

#endif
