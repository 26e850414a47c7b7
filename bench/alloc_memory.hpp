// alloc_memory.hpp: how much memory an allocator holds for what is live.
#ifndef WEFT_BENCH_ALLOC_MEMORY_HPP
#define WEFT_BENCH_ALLOC_MEMORY_HPP

#include "workload.hpp"

// NULL: there is no such case. A task is a live byte.
std::unique_ptr<Workload> alloc_memory_make(const std::string &name);

#endif
