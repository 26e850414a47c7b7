// alloc.hpp: the allocator workloads. They call the process's own malloc and free, whatever library provides them: the race
// starts one process per allocator, with its library preloaded.
#ifndef WEFT_BENCH_ALLOC_HPP
#define WEFT_BENCH_ALLOC_HPP

#include "workload.hpp"

// NULL: there is no such case. `threads` run it, including the caller.
std::unique_ptr<Workload> alloc_workload_make(const std::string &workload, const std::string &name, unsigned threads);

// The file that serves malloc in this process, with symbolic links resolved.
std::string alloc_library();

#endif
