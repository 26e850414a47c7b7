// cpus.hpp: how many CPUs there are for this process.
#ifndef WEFT_BENCH_CPUS_HPP
#define WEFT_BENCH_CPUS_HPP

#include <algorithm>
#include <sched.h>
#include <thread>

// The CPUs in the calling thread's affinity, at least 1. glibc's hardware_concurrency ignores the affinity.
inline unsigned cpus_allowed() {
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) return static_cast<unsigned>(CPU_COUNT(&own));
    return std::max(1u, std::thread::hardware_concurrency()); // a cpu_set_t is too small for this machine
}

#endif
