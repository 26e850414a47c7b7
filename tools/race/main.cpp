// weft race: the order of things.
#include "race.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <set>
#include <stdexcept>

static std::atomic<bool> signalled; // lock-free, so a handler may store to it

bool interrupted() { return signalled.load(); }

static void on_signal(int) { signalled.store(true); }

void interrupt_prepare() {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, nullptr); // else nohup
    signal(SIGPIPE, SIG_IGN);
}

void interrupt_undo() {
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction now {};
        if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == on_signal) signal(number, SIG_DFL);
    }
}

// The serial baseline runs in every heat; one of its rows per case is enough in the result.
static void keep(Results &results, const std::vector<Row> &rows, std::set<std::string> &seen) {
    for (const auto &row : rows) {
        std::string key = row.workload + "\t" + row.name + "\t" + row.pool + "\t" + std::to_string(row.workers);
        if (seen.insert(key).second) results.rows.push_back(row);
    }
}

// Nothing can be printed any more (`weft race | head`), and no file is to get the result.
static bool nobody_reads(const Options &options) {
    return ferror(stdout) != 0 && options.json_file.empty() && options.plot_file.empty();
}

static void heats_run(const Plan &plan, const Options &options, Results &results) {
    unsigned per_us = spin_calibrate();
    std::set<std::string> seen;
    for (const auto &heat : plan.heats) {
        if (interrupted() || nobody_reads(options)) return;
        Bystanders bystanders;
        std::vector<Row> rows = heat_run(heat, options, per_us);
        double others = bystanders.share();
        for (auto &row : rows) row.others = others;
        for (const auto &part : {rows, heat_tail(rows, heat)}) {
            auto standing = heat_standing(part);
            (options.verbose ? table_print : verdict_print)(heat, part, others, standing);
            keep(results, part, seen);
            if (standing) results.standings.push_back(*standing);
        }
    }
}

static int status_of(const Results &results) {
    if (results.interrupted) return 130;
    bool failed = std::any_of(results.rows.begin(), results.rows.end(), [](const Row &row) { return !row.error.empty(); });
    return failed || results.x264_failed ? 1 : 0;
}

static void head_print(const Machine &machine, bool verbose) {
    printf("weft %s race, %s\n%s, %u CPUs, %s\n%s %s\n", machine.version.c_str(), machine.date.c_str(), machine.cpu.c_str(),
           machine.cpus, machine.kernel.c_str(), machine.compiler.c_str(), machine.flags.c_str());
    printf("First, level, undecided or behind (LOSES): by the ratios of times in the same turn, with 95 %% confidence; the "
           "worst\nbeside any peer counts. Level: less than a tenth apart; undecided: the interval is too wide to say.\n");
    if (verbose)
        printf(
            "All figures per task (call, node, region): ns (wall: median, min, max of the warmed rounds; first round), CPU "
            "ns "
            "in "
            "user and system mode,\ncontext switches, migrations, page faults; allocations and futex calls from a run of "
            "their "
            "own. W workers: W threads\nrun tasks; *: the waiting caller is one of them; i: jobs can be submitted inside "
            "the "
            "pool's own region alone.\nratio: to the best peer; eff: serial / (min(W, CPUs) x wall); /serial: to the serial "
            "time; "
            "idle ms: CPU in 2 s without\nwork. Pools take turns.\n");
    if (machine.load > 0.5) printf("Load %.1f at the start: other programs run, the figures will show it.\n", machine.load);
    if (!machine.hardware) printf("Instructions per cycle and branch misses: not available on this machine.\n");
    fflush(stdout);
}

int race_main(Options options) {
    Results results;
    options.entrant_dir = entrant_dir_find(options);
    interrupt_prepare();
    try {
        std::vector<Entrant> entrants = entrants_find(options);
        if (options.list) {
            list_print(entrants);
            return 0;
        }
        Plan plan = plan_make(options, entrants);
        if (!options.plot_file.empty()) plot_require(plan);
        Machine machine = machine_describe();
        head_print(machine, options.verbose);
        heats_run(plan, options, results);
        if (plan.x264 && !interrupted() && !nobody_reads(options)) x264_run(options, results);
        results.interrupted = interrupted();
        summary_print(results, plan, options.count);
        if (!options.json_file.empty()) json_write(options.json_file, machine, results, options, plan);
        if (!options.plot_file.empty()) plot_write(options.plot_file, machine, results);
    } catch (const std::invalid_argument &wrong) {
        fprintf(stderr, "weft race: %s\n", wrong.what());
        return 2;
    } catch (const std::exception &failure) {
        fprintf(stderr, "weft race: %s\n", failure.what());
        return interrupted() ? 130 : 1;
    }
    return status_of(results);
}
