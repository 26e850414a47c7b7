// race.hpp: what `weft race` is asked for, what it plans, and what it finds.
#ifndef WEFT_RACE_RACE_HPP
#define WEFT_RACE_RACE_HPP

#include "wire.hpp"

#include "../../bench/entrant.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

struct Options {
    std::vector<std::string> workloads;
    std::vector<std::string> pools;
    std::vector<unsigned> workers;
    std::vector<std::string> peers; // shared objects
    unsigned rounds = 0;            // 0: the profile's
    uint64_t tasks = 0;             // 0: the profile's
    std::string entrant_dir;        // empty: to be found
    std::string json_file;
    std::string plot_file;
    bool full = false;
    bool list = false;
    bool count = true; // the counting runs
    bool callgrind = false;
    bool verbose = false; // tables, not a line for each
};

constexpr unsigned load_limit_s = 20; // for a shared object to say what it is

// A pool that can race, or the reason why not.
struct Entrant {
    std::string name;
    std::string file; // "static" for the built-in; empty: missing
    std::string reason;
    std::string text;
    std::string workload;      // the only one it is for; empty: any
    bool is_allocator = false; // a library to preload, for the alloc workloads
    unsigned offers = 0;       // of a table of patterns, enum PatternNeed; 0: a table of tasks
    uint32_t flags = 0;
    unsigned workers_min = 1;
    unsigned workers_max = 0;
    size_t payload_max = 0;
};

// Where the entrants are: as asked, in the build tree, or installed.
std::string entrant_dir_find(const Options &options);
// All entrants of a directory and the peers given; throws for a peer that cannot be loaded.
std::vector<Entrant> entrants_find(const Options &options);

// The cases of a workload.
struct CaseSet {
    const char *workload;
    const char *text;
    std::vector<std::string> names;
    uint64_t tasks;
    uint64_t quick_budget_ns;
    size_t names_quick = 0;      // so many of the first run when no workload is named and not all is asked for; 0: all
    const char *what = "task";   // a task is: "call", "node", "region", "slot"
    uint64_t pilot_tasks = 2000; // enough to estimate the time of one
    uint64_t count_tasks = 0;    // enough for the counting run; 0: by the time of one
    unsigned rounds = 15;        // in the quick profile as well
};

// One case at one worker count: everything in it is interleaved.
struct Heat {
    std::string workload;
    std::string name;
    unsigned workers;
    unsigned rounds;
    uint64_t tasks;
    std::string what;     // as in CaseSet
    std::string position; // in the plan, for the progress line
    // The most tasks up to a number that a round can have; its least when that is more.
    std::function<uint64_t(uint64_t)> fit;
    uint64_t budget_ns;                // a round takes about so long at most; 0: all tasks
    uint64_t pilot_tasks, count_tasks; // as in CaseSet
    std::vector<Entrant> entrants;
    bool idle = false; // the pools' use of the CPUs after it is measured too
    bool is_pattern() const { return what != "task" && what != "slot"; }
};

struct Plan {
    std::vector<Heat> heats;
    std::map<std::string, std::string> skipped; // "workload: pool" -> reason
    bool x264 = false;
};

// Throws std::invalid_argument for an unknown workload or pool, or a peer without a place.
Plan plan_make(const Options &options, const std::vector<Entrant> &entrants);
// Workload names with one line each.
std::vector<std::pair<std::string, std::string>> workload_list();

using Figure = std::optional<double>;

// One entrant in one case at one worker count.
struct Row {
    std::string workload;
    std::string name;
    std::string pool;
    uint32_t flags = 0;
    unsigned workers = 0;
    unsigned rounds = 0;
    uint64_t tasks = 0;
    std::string error;    // empty: the figures hold
    bool in_turns = true; // all pools were alive at once; not when their memory would not fit: then one after the other
    Figure ns, ns_min, ns_max, first_ns;
    Figure tail_ns, tail_min, tail_max, tail_first; // the 99th percentile, where single times are taken
    std::vector<double> round_ns, round_tail_ns;    // of the warmed rounds, in their order
    std::vector<double> round_bytes;                // where the case is about memory
    Figure serial_ratio;                            // to the serial time
    Figure idle_ms;                                 // CPU time of two seconds without work
    Figure user_ns, system_ns;
    Figure switches_voluntary, switches_involuntary, migrations, faults;
    Figure malloc_calls, memory_calls, futex_calls;
    Figure peak_bytes, bytes;
    Figure instructions, instructions_per_cycle, branch_miss_percent;
    Figure callgrind_instructions;
    Figure efficiency;
    Figure ratio; // to the best peer's time
    std::optional<SlotFigures> slot;
    Figure others; // share of the CPUs that other programs used meanwhile
    // What is compared: time, or memory where the case is about memory.
    bool is_memory() const { return workload == "alloc-memory"; }
    Figure score() const { return is_memory() ? bytes : ns; }
    const std::vector<double> &round_scores() const { return is_memory() ? round_bytes : round_ns; }
    bool is_control() const { return pool == "serial" || pool.compare(0, 6, "static") == 0; } // no pool
    bool is_peer() const { return (flags & ENTRANT_OURS) == 0 && !is_control(); }
    bool is_ours() const { return (flags & ENTRANT_OURS) != 0; }
    bool is_outside() const {
        return (flags & ENTRANT_INSIDE_ONLY) == 0;
    } // takes jobs from any thread, not inside its own region alone
    bool counts_caller() const { return (flags & ENTRANT_CALLER_RUNS) != 0; }
};

enum class RaceVerdict { first, level, undecided, loses }; // the worse the later

// One pool's times over another's, round by round: the median, and where it lies with 95 % confidence; with too few rounds
// for that, the least and the most.
struct Paired {
    double ratio, low, high;
    bool is_sure; // there are enough rounds, and those of a pair are of the same moment
    // The interval tells: the difference is less than that, either way.
    static constexpr double level_within = 1.1;
    RaceVerdict verdict() const {
        if (is_sure && high < 1) return RaceVerdict::first;
        if (is_sure && low > 1) return RaceVerdict::loses;
        return is_sure && high <= level_within && low >= 1 / level_within ? RaceVerdict::level : RaceVerdict::undecided;
    }
};

// Where weft stands in one heat: the faster of its entrants beside the peer with the worst verdict for it; of several, the one that
// it does worst against.
struct Standing {
    std::string workload;
    std::string name;
    unsigned workers;
    std::string ours;
    std::string best_peer;
    Paired paired;
    std::string best_outside_peer; // of those that take jobs from any thread
    Figure outside_ratio;
    bool in_turns; // as in Row
    RaceVerdict verdict() const { return paired.verdict(); }
};
const char *verdict_word(RaceVerdict verdict);

struct Results {
    std::vector<Row> rows;
    std::vector<Standing> standings;
    std::vector<std::string> x264_rows;      // each a JSON object
    std::string x264_reason;                 // why there are none, or what went wrong
    std::vector<std::string> x264_standings; // weft beside stock and beside the control, in words
    bool x264_failed = false;
    bool interrupted = false;
};

struct Machine {
    std::string cpu, kernel, compiler, flags, build_type, date, version;
    unsigned cpus = 0;
    uint64_t memory_bytes = 0;
    double load = 0;       // of the last minute
    bool hardware = false; // event counters
};
Machine machine_describe();

// What others on this machine used of its CPUs since this was made.
class Bystanders {
    double busy_s, own_s, wall_s;

  public:
    Bystanders();
    double share() const; // 0 to 1
};

// True from the first SIGINT, SIGTERM or SIGHUP on.
bool interrupted();
void interrupt_prepare();
void interrupt_undo(); // in a child that it is to end

// Runs a heat; rows in the order of its entrants, efficiency and ratios filled in.
std::vector<Row> heat_run(const Heat &heat, const Options &options, unsigned iterations_per_us);
// The heat's rows again for their 99th percentiles, as a case of its own; empty when none were taken.
std::vector<Row> heat_tail(const std::vector<Row> &rows, const Heat &heat);
// Empty: there is nothing to compare.
std::optional<Standing> heat_standing(const std::vector<Row> &rows);
// Iterations of the jobs' spin in a microsecond here.
unsigned spin_calibrate();

// Counts of a run of its own, per task; errors leave the figures empty.
struct Counts {
    Figure malloc_calls, memory_calls, futex_calls;
};
Counts count_run(const Seat &seat, const std::string &entrant_dir, uint64_t tasks);
// Instructions per task under callgrind; empty when valgrind is missing.
Figure callgrind_run(const Seat &seat, const Heat &heat);

// What more workers do to the slot, for each pool and load; nothing when there is nothing to compare.
void slot_scaling_print(const Results &results);

// The x264 part, by scripts/x264-race, which prints its own table.
void x264_run(const Options &options, Results &results);

// `others`: the bystanders' share of the CPUs meanwhile.
void table_print(const Heat &heat, const std::vector<Row> &rows, double others, const std::optional<Standing> &standing);
// The same in a line: weft's figure and verdict; and each row in error.
void verdict_print(const Heat &heat, const std::vector<Row> &rows, double others, const std::optional<Standing> &standing);
void summary_print(const Results &results, const Plan &plan, bool counted);
void list_print(const std::vector<Entrant> &entrants);
// Throw std::runtime_error when the file cannot be written.
void json_write(const std::string &file, const Machine &machine, const Results &results, const Options &options,
                const Plan &plan);
// Throws std::invalid_argument when the plan has nothing of what the plot shows.
void plot_require(const Plan &plan);
void plot_write(const std::string &file, const Machine &machine, const Results &results);

// `weft race`; the exit status.
int race_main(Options options);

#endif
