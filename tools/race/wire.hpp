// wire.hpp: what the race and an entrant's process say to each other through two pipes, and how that process is started.
#ifndef WEFT_RACE_WIRE_HPP
#define WEFT_RACE_WIRE_HPP

#include "../../bench/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

enum class Order : uint32_t {
    round = 1,  // run `warm` jobs, then `tasks` jobs, and report on the latter
    sample = 2, // the same with the hardware's counters running
    idle = 3    // run `warm` jobs, then none for idle_us
};

constexpr unsigned idle_us = 2000000;

struct Command {
    Order order;
    uint32_t padding;
    uint64_t warm;
    uint64_t tasks;
};

enum Hardware { hardware_instructions, hardware_cycles, hardware_branches, hardware_branch_misses, hardware_count };

struct Reply {
    uint32_t ok;
    char error[156];
    uint64_t tasks;
    uint64_t wall_ns;
    uint64_t elapsed_ns; // what the round took, whatever wall_ns says
    uint64_t tail_ns;  // where samples are taken, wall_ns is their median and this their 99th percentile, each times `tasks`
    uint32_t has_slot; // the figures of slots are there
    SlotFigures slot;
    uint64_t user_ns;
    uint64_t system_ns;
    uint64_t switches_voluntary;
    uint64_t switches_involuntary;
    uint64_t faults;
    int64_t migrations;               // -1: not known
    int64_t malloc_calls;             // -1: not counted
    uint64_t peak_bytes;              // of the process
    uint64_t before_bytes;            // resident before the pool was created
    int64_t hardware[hardware_count]; // -1: not available
};

// What a process is started for.
struct Seat {
    std::string entrant; // path of the shared object, or "static"
    std::string workload;
    std::string name; // the case
    unsigned workers;
    unsigned slices;
    unsigned iterations_per_us;
    bool traced; // the process asks for its system calls to be reported to a tracer
};

std::vector<std::string> seat_arguments(const Seat &seat);
// `weft race-child`: runs the commands that come on descriptor `in`, answers on `out`; returns the exit status.
int race_child(const std::vector<std::string> &arguments);
// `weft race-solo TASKS ...`: one round without a parent, for a profiler.
int race_solo(const std::vector<std::string> &arguments);

// Signs that a traced process gives by prctl, and the classes of its reported system calls.
constexpr unsigned long mark_prctl = 0x77656674;
enum Trace : uint32_t { trace_futex = 1, trace_memory = 2, trace_begin = 3, trace_end = 4 };

// Whole transfers; false on the end of the pipe.
bool write_all(int fd, const void *data, size_t size);
bool read_all(int fd, void *data, size_t size);

#endif
