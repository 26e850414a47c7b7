// cpus.hpp: how many CPUs there are for this process.
#ifndef WEFT_BENCH_CPUS_HPP
#define WEFT_BENCH_CPUS_HPP

#include <algorithm>
#include <sched.h>
#include <thread>

// Those of the calling thread's affinity, which glibc's hardware_concurrency does not look at; at least 1.
inline unsigned cpus_allowed() {
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) == 0) return static_cast<unsigned>(CPU_COUNT(&own));
    return std::max(1u, std::thread::hardware_concurrency()); // there are more than a set can tell
}

#endif
