// pattern.hpp: one case of recursion, of a loop or of a graph, run against one entrant in its own process.
#ifndef WEFT_BENCH_PATTERN_HPP
#define WEFT_BENCH_PATTERN_HPP

#include "patterns.h"
#include "workload.hpp"

class Pattern {
  public:
    virtual ~Pattern() = default;
    // The most tasks (calls, nodes, regions) that a round can have, up to this number; if even the smallest round has more,
    // that.
    virtual uint64_t fit(uint64_t tasks) = 0;
    // Call it before a round of fit(tasks). Not timed.
    virtual void reset(uint64_t tasks) = 0;
    // Runs a round of fit(tasks). 0 or the entrant's error.
    virtual int run(const patterns &table, void *pool, uint64_t tasks) = 0;
    // What went wrong in the round; empty: nothing.
    virtual std::string wrong(uint64_t tasks) = 0;
    // The nanoseconds of each region of the round, if regions are timed one by one.
    virtual std::vector<double> samples() { return {}; }
};

// NULL: there is no such case.
std::unique_ptr<Pattern> pattern_make(const WorkloadConfig &config);

// What a table must have for a workload.
enum PatternNeed : unsigned { need_fib = 1, need_nqueens = 2, need_uts = 4, need_loop = 8, need_graph = 16 };
unsigned pattern_needs(const std::string &workload); // 0: not a pattern
unsigned pattern_offers(const patterns &table);

#endif
