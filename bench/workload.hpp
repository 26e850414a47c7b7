// workload.hpp: one case of one workload, run against one entrant in its own process.
#ifndef WEFT_BENCH_WORKLOAD_HPP
#define WEFT_BENCH_WORKLOAD_HPP

#include "jobs.h"

#include <memory>
#include <string>
#include <vector>

struct WorkloadConfig {
    std::string workload;
    std::string name;           // of the case
    unsigned slices;            // of a frame of x264-shape; or threads of an allocator workload or of a slot
    unsigned iterations_per_us; // of job_spin on this machine
};

// Figures of slots that should end in time, over all rounds but the first.
struct SlotFigures {
    double over_ideal_p50, over_ideal_p99, over_ideal_p999; // the slot's time over the least possible
    double missed_percent;                                  // slots longer than the period
    double task_times_p50; // the slot's time over a task's: suited to compare numbers of workers
    double makespan_ns;    // the median of the last round
};

class Workload {
  public:
    virtual ~Workload() = default;
    virtual size_t payload_max() const = 0;
    virtual bool spin() const { return false; } // whether entrants are asked to spin
    // Called before a warm-up, not timed: checks what a timed round cannot afford to check. Throws.
    virtual void prove() {}
    // Called before a round.
    virtual void reset() {}
    // Called after a round: adds to the figures of slots. False: the workload has none.
    virtual bool tell(SlotFigures &) { return false; }
    // The memory that the round was about; 0: the process's peak.
    virtual uint64_t held_bytes() const { return 0; }
    // How much of it was there before the first round.
    virtual uint64_t held_before() const { return 0; }
    // Runs `tasks` jobs to their end; 0 or the entrant's error.
    virtual int run(const entrant &table, void *pool, uint64_t tasks) = 0;
    // The same without a pool: runs jobs first to end - 1 on this thread. False: the workload has no such form.
    virtual bool run_range(uint64_t first, uint64_t end) = 0;
    // What the counters hold when each job ran once.
    virtual job_totals expected(uint64_t tasks) const = 0;
};

// NULL: there is no such case.
std::unique_ptr<Workload> workload_make(const WorkloadConfig &config);

#endif
