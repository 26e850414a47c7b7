// alloc.hpp: allocators as entrants. Each is a library that is preloaded into a process of its own; `libc` needs none.
#ifndef WEFT_RACE_ALLOC_HPP
#define WEFT_RACE_ALLOC_HPP

#include "race.hpp"

// Stands for glibc's own allocator in place of a library's path.
constexpr const char *alloc_libc = "libc";

// Is it one of the workloads that allocators run?
bool alloc_is(const std::string &workload);
// Their cases.
const std::vector<CaseSet> &alloc_case_sets();
// Threads of a case.
std::vector<unsigned> alloc_worker_counts(const std::string &workload, const Options &options);
// Tasks come in multiples of this.
uint64_t alloc_unit(const Heat &heat);
// What a task is, for the table's reader.
const char *alloc_note(const std::string &workload);

// The allocators listed in a directory's allocators.txt.
std::vector<Entrant> allocators_find(const std::string &dir);
// A library as a peer; `reason` says why not when its malloc does not serve a process that preloads it.
Entrant allocator_peer(const std::string &file, const std::vector<Entrant> &others);

// Before an exec: has the next program served by that allocator.
void allocator_preload(const std::string &file);
// In a process so started: throws when another serves malloc.
void allocator_require(const std::string &file);
// `weft race-malloc`: writes the file that serves malloc here.
int race_malloc();

#endif
