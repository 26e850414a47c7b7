// simulate.hpp: `weft simulate`: the library on a machine in virtual time (verify/simulate), which this one need not be.
#ifndef WEFT_SIMULATE_SIMULATE_HPP
#define WEFT_SIMULATE_SIMULATE_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct SimulateOptions {
    std::vector<std::string> workloads; // empty: all
    std::vector<unsigned> workers;      // empty: 1, 2, 4 .. as many as the machine has CPUs
    std::string machine = "epyc-128";   // a file, or the name of one that is known
    std::vector<std::string> settings;  // name=value, for the engine
    uint64_t tasks = 0, task_ns = 0, seed = 1;
    unsigned submitters = 0, rounds = 1, lines = 5;
    std::string plant; // FILE:LINE:NS
    std::string json_file, plot_file;
    bool real = false; // on this machine, too
    bool list = false;
};

// A machine's file: values by name, as the engine takes them.
struct SimulatedMachine {
    std::string name, about;
    std::vector<std::pair<std::string, double>> values;
    unsigned cpus = 0;
};
// Throws std::invalid_argument.
SimulatedMachine machine_load(const std::string &name);

// What one line of the sources has cost.
struct CostLine {
    std::string place, kind; // file:line; what it does
    double ns = 0;
    uint64_t count = 0, moved = 0, failed = 0;
};

struct SimulatedRow {
    std::string workload, error;
    unsigned workers = 0;
    double tasks = 0, work_ns = 0, elapsed_ns = 0, ideal_ns = 0, worst_ns = 0, cpu_ns = 0, wait_p50_ns = 0, wait_p99_ns = 0;
    double claims = 0, steals = 0, cas = 0, cas_failed = 0, rmws = 0, pauses = 0, transfers = 0, sleeps = 0, wakes = 0,
           wakes_in_vain = 0, preemptions = 0, waits = 0, revoked = 0, helped = 0;
    std::vector<CostLine> lines; // the dearest first
    double real_ns = 0;          // for each task, on this machine, in the shortest of some runs; 0: not asked for
    double real_median_ns = 0;   // in the middle one
    double ns_per_task() const { return elapsed_ns / tasks; }
    // Of what so many threads could have done; negative: its tasks do nothing.
    double efficiency_percent() const { return work_ns > 0 && ideal_ns > 0 ? 100 * ideal_ns / elapsed_ns : -1; }
    // How far the model is off; 0 where nothing was measured.
    double error_percent() const { return real_ns > 0 ? 100 * (ns_per_task() / real_ns - 1) : 0; }
};

// One run of the engine. Its failure is the row's error.
SimulatedRow simulate_run(const SimulateOptions &options, const SimulatedMachine &machine, const std::string &workload,
                          unsigned workers);
// Runs the row's workload on this machine. What else that does only makes runs longer, so the shortest is told as well as the
// median. Throws std::runtime_error.
void real_run(const SimulateOptions &options, SimulatedRow &row);

void simulate_table_head(const SimulateOptions &options, const SimulatedMachine &machine);
void simulate_table_row(const SimulateOptions &options, const SimulatedRow &row);
void simulate_json_write(const SimulateOptions &options, const SimulatedMachine &machine,
                         const std::vector<SimulatedRow> &rows);
void simulate_plot_write(const SimulateOptions &options, const SimulatedMachine &machine,
                         const std::vector<SimulatedRow> &rows);

// The command's exit status. Throws std::exception.
int simulate_main(const SimulateOptions &options);

#endif
