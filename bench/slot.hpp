// slot.hpp: the uplink slot of a 5G base station: 13 symbol tasks are joined, then 12 decodes are joined. There is one slot
// every half millisecond.
#ifndef WEFT_BENCH_SLOT_HPP
#define WEFT_BENCH_SLOT_HPP

#include "workload.hpp"

constexpr unsigned slot_symbols = 13, slot_decodes = 12, slot_period_us = 500;

// The least number of tasks that some one of `threads` has to run one after the other.
unsigned slot_rounds(unsigned threads);

// The case's name is the load: the percentage of the period that an ideal slot takes, which sets the length of the tasks.
// NULL: another workload.
std::unique_ptr<Workload> slot_workload_make(const WorkloadConfig &config);

#endif
