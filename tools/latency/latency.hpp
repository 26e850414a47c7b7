// latency.hpp: `weft latency`, cyclictest for pools: bursts of a few tasks, one burst each period. How much longer than ideal does
// each take, and what does being awake in time cost?
#ifndef WEFT_LATENCY_LATENCY_HPP
#define WEFT_LATENCY_LATENCY_HPP

#include "../../bench/entrant.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct LatencyOptions {
    unsigned period_us = 500;
    unsigned task_us = 50;
    unsigned tasks = 2; // of a burst
    double jitter_percent = 0;
    double miss_percent = 0;
    double vary_percent = 0;
    double seconds = 2;             // of bursts, for each row
    unsigned workers = 0;           // 0: as many as CPUs
    unsigned quota_percent = 0;     // of a CPU, for each pool's process; 0: no quota
    bool stranger = false;          // another program's thread is busy on the last CPU
    unsigned hogs = 0;              // so many other programs' threads are busy, one on each CPU
    bool compile = false;           // a C compiler runs on each CPU
    std::vector<std::string> pools; // "pool" or "pool/mode"; empty: all
    std::vector<std::string> peers; // shared objects
    std::string json_file, plot_file, entrant_dir;
    bool list = false;
    bool machine = false; // what things cost here, in place of bursts
};

// Who is measured: a pool in one of its modes.
struct Contestant {
    std::string pool, mode, text;
    const entrant *table = nullptr; // built in; else:
    std::string file;               // the shared object with a table
    std::string reason;             // why it cannot be measured; empty: it can
    uint32_t flags = 0;
    void (*expect)(void *pool, uint64_t when_ns) = nullptr; // told when the next burst is due; NULL: nobody wants to know
};

// weft's modes, then the controls and the peers. Throws std::invalid_argument for a name or peer that is not there.
std::vector<Contestant> contestants_find(const LatencyOptions &options);
// The tables of weft's modes.
std::vector<Contestant> weft_modes();

// What the caller does in one slice of a row's time.
struct SliceOrder {
    uint32_t bursts;     // that count
    uint32_t warm;       // before them
    uint32_t tasks;      // of a burst
    uint32_t iterations; // of a task's spin
    double period_ns;
    double jitter, miss; // shares, 0 to 1
    uint64_t seed;
};

struct SliceReport {
    uint32_t ok;
    char error[140];
    uint64_t wall_ns;       // from the first burst's beat to the one after the last
    uint64_t worker_cpu_ns; // of all threads but the caller
    uint64_t on_workers;    // tasks that another thread than the submitter ran
    uint64_t on_same_cpu;   // ... of them started on the CPU where the submitter was
    uint64_t late_ns;       // how late the caller was at its beats, the median
};

// A contestant in its own process.
struct Team {
    const entrant *table;
    void *pool;
    void (*expect)(void *pool, uint64_t when_ns); // as in Contestant
};

// Runs the order; makespans_ns gets one value for each burst. Throws.
void slice_run(const Team &team, const SliceOrder &order, std::vector<float> &makespans_ns, SliceReport &report);

struct LatencyRow {
    Contestant who;
    std::string error; // why there are no figures
    std::vector<float> over_ideal;
    uint64_t wall_ns = 0, worker_cpu_ns = 0, on_workers = 0, on_same_cpu = 0;
    std::vector<double> late_ns;
    bool measured() const { return error.empty() && !over_ideal.empty(); }
    // Nearest rank, of a row that was measured.
    double percentile(double percent) const;
    double mean() const;
    double worker_cpu_percent() const;
    double same_cpu_percent() const; // negative: no task ran on a worker
};

struct LatencyResult {
    LatencyOptions options; // every default replaced
    std::vector<LatencyRow> rows;
    double alone_us = 0; // a task alone, the median
    unsigned slices = 0;
    bool interrupted = false;
};

void latency_head_print(const LatencyResult &result);
// The table; sorted percentiles of what there is so far. Returns its lines.
unsigned latency_table_print(const LatencyResult &result);
void latency_json_write(const LatencyResult &result);
void latency_plot_write(const LatencyResult &result);
void latency_list_print(const std::vector<Contestant> &all);

// Measures what lines, wakes and fences cost on this machine and writes it as JSON, for `weft simulate`; "": to standard output.
// The command's exit status. Throws std::runtime_error.
int latency_machine(const std::string &json_file);

// The command's exit status. Throws std::exception.
int latency_main(const LatencyOptions &options);

#endif
