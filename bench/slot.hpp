// slot.hpp: the uplink slot of a 5G base station: 13 symbol tasks, joined, then 12 decodes, joined, one slot every half millisecond.
#ifndef WEFT_BENCH_SLOT_HPP
#define WEFT_BENCH_SLOT_HPP

#include "workload.hpp"

constexpr unsigned slot_symbols = 13, slot_decodes = 12, slot_period_us = 500;

// Tasks that one of `threads` has to run after one another at the least.
unsigned slot_rounds(unsigned threads);

// The case's name is the load: the ideal slot takes so many percent of the period; the tasks are as long as that makes them. NULL for
// another workload.
std::unique_ptr<Workload> slot_workload_make(const WorkloadConfig &config);

#endif
