// weft: the command. Each subcommand has a folder of its own.
#include "checks.hpp"
#include "chunks/chunks.hpp"
#include "doctor/doctor.hpp"
#include "doctor/loop.hpp"
#include "idle/idle.hpp"
#include "latency/latency.hpp"
#include "man.hpp"
#include "race/alloc.hpp"
#include "simulate/simulate.hpp"
#include "top/top.hpp"
#include "why/why.hpp"

#include <CLI/CLI.hpp>
#include <weft.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

static void race_options(CLI::App &race, Options &options) {
    race.add_option("--workload", options.workloads, "Only these workloads (--list shows them)")->delimiter(',');
    race.add_option("--pool", options.pools, "Only these pools, and serial")->delimiter(',');
    race.add_option("--workers", options.workers, "Worker counts")->delimiter(',')->check(CLI::Range(1, 512));
    race.add_option("--rounds", options.rounds, "Warmed rounds per row")->check(CLI::Range(1, 1000));
    race.add_option("--tasks", options.tasks, "Tasks per round")->check(CLI::Range(1, 1000000000));
    race.add_option("--peer", options.peers, "A shared object with another entrant (bench/entrant.h)")
        ->allow_extra_args(false);
    race.add_option("--json", options.json_file, "Write the result as JSON")->check(writable_file());
    race.add_option("--plot", options.plot_file, "Draw `submit` at 2 and 4 workers, .png or .svg")->check(plot_file());
    race.add_option("--entrants", options.entrant_dir, "Where the entrants are");
    race.add_flag("--full", options.full, "The published sizes: hours, not minutes");
    race.add_flag("--callgrind", options.callgrind, "Instructions per task by valgrind: slow");
    race.add_flag_callback(
        "--no-count", [&options] { options.count = false; }, "Skip the runs that count allocations and futex calls");
    race.add_flag("--verbose", options.verbose, "Tables with all columns");
    race.add_flag("--list", options.list, "Show workloads and pools");
}

static void idle_options(CLI::App &idle, IdleOptions &options) {
    idle.add_option("--workers", options.workers, "Worker counts")->delimiter(',')->check(CLI::Range(1U, WEFT_WORKERS_MAX));
    idle.add_option("--seconds", options.seconds, "How long the idle pool is watched")->check(number_between(0, 3600));
    idle.add_option("--tasks", options.tasks, "Tasks that run before")->check(CLI::Range(1, 1000000000));
}

static void latency_options(CLI::App &latency, LatencyOptions &options) {
    latency.add_option("--period-us", options.period_us, "Time from one burst to the next")->check(CLI::Range(10, 10000000));
    latency.add_option("--task-us", options.task_us, "How long a task works")->check(CLI::Range(1, 1000000));
    latency.add_option("--tasks", options.tasks, "Tasks of a burst")->check(CLI::Range(1, 4096));
    latency
        .add_option("--jitter-percent", options.jitter_percent,
                    "Times between bursts differ from the period by at most this")
        ->check(number_between(0, 90));
    latency.add_option("--miss-percent", options.miss_percent, "Share of bursts that are left out")
        ->check(number_between(0, 90));
    latency.add_option("--vary-percent", options.vary_percent, "The period differs between slices by at most this")
        ->check(number_between(0, 90));
    latency.add_option("--seconds", options.seconds, "Time for each row")->check(number_between(0.001, 36000));
    latency.add_option("--workers", options.workers, "Threads that run tasks; by default one for each CPU")
        ->check(CLI::Range(2, 512));
    latency.add_flag("--stranger", options.stranger, "Run beside another program's busy thread on the last CPU");
    CLI::Option *hogs =
        latency.add_option("--hogs", options.hogs, "Run beside so many busy threads of another program, one on each CPU")
            ->check(CLI::Range(1, 512));
    latency.add_flag("--compile", options.compile, "Run beside a C compiler on each CPU (CC in the environment, or cc)")
        ->excludes("--stranger")
        ->excludes(hogs->excludes("--stranger"));
    latency.add_option("--quota-percent", options.quota_percent, "Run each pool in a cgroup with this share of one CPU")
        ->check(CLI::Range(1, 100000));
    latency.add_option("--pool", options.pools, "Only these pools, or pool/mode")->delimiter(',');
    latency.add_option("--peer", options.peers, "A shared object with another entrant (bench/entrant.h)")
        ->allow_extra_args(false);
    latency.add_option("--json", options.json_file, "Write the result as JSON")->check(writable_file());
    latency.add_option("--plot", options.plot_file, "Draw the distributions, .png or .svg")->check(plot_file());
    latency.add_option("--entrants", options.entrant_dir, "Where the entrants are");
    latency.add_flag("--list", options.list, "Show pools and modes");
    latency.add_flag("--machine", options.machine,
                     "Measure cache lines, wake-ups and fences of this machine, for weft simulate, instead of bursts");
}

static void simulate_options(CLI::App &simulate, SimulateOptions &options) {
    simulate.add_option("--workload", options.workloads, "Only these workloads (--list shows them)")->delimiter(',');
    simulate.add_option("--workers", options.workers, "Worker counts")
        ->delimiter(',')
        ->check(CLI::Range(1U, WEFT_WORKERS_MAX));
    simulate.add_option(
        "--machine", options.machine,
        "Machine: epyc-128, or a file (a word without / or . is no file: ./NAME); weft latency --machine writes one "
        "for this machine");
    simulate.add_option("--set", options.settings, "name=value: changes a value of the machine")->allow_extra_args(false);
    simulate.add_option("--tasks", options.tasks, "Tasks, hops, groups or loops of a round")->check(CLI::Range(1, 10000000));
    simulate.add_option("--task-ns", options.task_ns, "Work of each task")->check(CLI::Range(1, 1000000000));
    simulate.add_option("--submitters", options.submitters, "Threads that submit, in the workload producers")
        ->check(CLI::Range(1, 1024));
    simulate.add_option("--rounds", options.rounds, "Warmed rounds")->check(CLI::Range(1, 1000));
    simulate.add_option("--seed", options.seed, "Seed for the durations of tasks");
    simulate.add_option("--lines", options.lines, "How many of the most expensive source lines are shown")
        ->check(CLI::Range(0, 1000));
    simulate.add_option("--plant", options.plant, "FILE:LINE:NS: makes each atomic access on that line cost so much more");
    simulate.add_option("--json", options.json_file, "Write the result as JSON")->check(writable_file());
    simulate.add_option("--plot", options.plot_file, "Draw the result over the number of workers, .png or .svg")
        ->check(plot_file());
    simulate.add_flag("--real", options.real, "Also run each workload on this machine, and show the model's error");
    simulate.add_flag("--list", options.list, "Show the workloads");
}

static void doctor_options(CLI::App &doctor, DoctorOptions &options) {
    doctor.add_option("--root", options.root, "Examine this tree instead of this machine's")->check(CLI::ExistingDirectory);
    doctor.add_option("--json", options.json_file, "Write the findings as JSON")->check(writable_file());
    doctor.add_flag("--script", options.script, "Print a script that changes what can be changed, and can undo it");
}

static void loop_options(CLI::App &loop, LoopOptions &options) {
    loop.add_option("--seconds", options.seconds, "How long to measure")->check(number_between(0.001, 600));
    loop.add_option("--cpu", options.cpu, "CPU to run on; by default the last")->check(CLI::Range(0, 1023));
    loop.add_option("--plot", options.plot_file, "Draw the calls over time, .png or .svg")->check(plot_file());
}

static void why_options(CLI::App &why, WhyOptions &options) {
    why.add_option("command", options.command, "The program to run, after --, and its arguments");
    why.add_option("--timeline", options.timeline,
                   "Timeline that a program has written (WEFT_TRACE), instead of running one")
        ->check(CLI::ExistingFile);
    why.add_option(
           "--source", options.source,
           "Source of the kernel's events: switches of all CPUs, the program's own, /proc; by default the best available")
        ->check(CLI::IsMember({"best", "all", "own", "proc"}));
    why.add_option("--late-us", options.late_us,
                   "A task is late if submission to end took this much longer than usual for its function")
        ->check(number_between(0, 1e9));
    why.add_option("--task", options.task, "Show all tasks of this function, and no others");
    why.add_option("--rows", options.rows, "How many of the latest tasks are shown one by one")
        ->check(CLI::Range(0, 100000));
    why.add_option("--json", options.json_file, "Write the result as JSON")->check(writable_file());
    why.add_option("--perfetto", options.perfetto_file, "Write the timeline with tracks for late tasks and for the CPUs")
        ->check(writable_file());
}

static void top_options(CLI::App &top, TopOptions &options) {
    top.add_option("directory", options.directory, "Where programs write their counters; WEFT_TOP of the environment");
    top.add_option("--interval", options.interval, "Seconds from one look to the next; rates are of that time")
        ->check(number_between(0.1, 3600));
    top.add_flag("--once", options.once, "Two looks, one table");
    top.add_flag("--json", options.json, "Each look as one line of JSON");
}

// Added to --help and the manual pages; a line that begins with blanks is a command.
static const std::pair<const char *, const char *> footer_texts[] = {
    {"race",
     "Runs the same work on weft and on the pools and allocators that it replaces, in turns, and prints medians with\n"
     "the interval of the ratio to the best peer. Compare within a row: the machine's speed drifts between rows.\n"
     "  weft race --workload submit,payload\n"
     "  weft race --workload fib --rounds 9 --peer ./lace.so --json fib.json"},
    {"idle", "  weft idle --workers 1,8 --seconds 2"},
    {"latency",
     "Rows take turns in slices of half a second, and all others are stopped meanwhile. Times are relative to the ideal:\n"
     "what the burst would take if no thread had to be woken.\n"
     "  weft latency --period-us 3000\n"
     "  weft latency --hogs 2 --seconds 4"},
    {"doctor",
     "Shows the value of each item now, what it costs short jobs, and the command that changes it. Changes nothing itself.\n"
     "  weft doctor --script > tune.sh"},
    {"simulate", "Runs weft's own sources on a machine in virtual time, so the figures are the same everywhere.\n"
                 "  weft simulate --workload submit --workers 16,128 --lines 10"},
    {"top",
     "A pool made with weft_config.top, or with WEFT_TOP in the environment, keeps a file with its counters in that\n"
     "directory. silent: the process exists but has not written lately (it is stopped, or gets no CPU); gone: it was\n"
     "killed, or exited without ending its pool. Queueing delays are known while the program records a timeline.\n"
     "  mkdir -m 700 tops && WEFT_TOP=tops ./program & weft top tops\n"
     "  weft top --once --json tops"},
    {"chunks",
     "Any number of machines that share a directory may run the same line.\n"
     "  weft chunks run --dir queue --end 1000 --chunk 10 -o 'out/part{chunk}' -- ./simulate --from {begin} --to {end}\n"
     "  weft chunks status --dir queue"},
};

static void footers(CLI::App &app) {
    for (CLI::App *found : app.get_subcommands([](const CLI::App *) { return true; }))
        for (const auto &text : footer_texts)
            if (found->get_name() == text.first) found->footer(text.second);
}

// A first word that is no option and none of the subcommands.
static bool is_unknown(const CLI::App &app, const char *word) {
    auto names_it = [word](const CLI::App *one) { return one->get_name() == word; };
    return word[0] != '-' && app.get_subcommands(names_it).empty();
}

static int command(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "race-child") == 0) return race_child({argv + 2, argv + argc});
    if (argc > 1 && strcmp(argv[1], "race-solo") == 0) return race_solo({argv + 2, argv + argc});
    if (argc > 1 && strcmp(argv[1], "race-malloc") == 0) return race_malloc();
    Options options;
    CLI::App app("weft: short jobs, run now", "weft");
    app.set_version_flag("--version", weft_version());
    app.require_subcommand(1);
    CLI::App *race = app.add_subcommand("race", "weft beside its peers");
    race_options(*race, options);
    IdleOptions idle_wish;
    CLI::App *idle = app.add_subcommand("idle", "what an idle pool costs, and its end");
    idle_options(*idle, idle_wish);
    LatencyOptions latency_wish;
    CLI::App *latency =
        app.add_subcommand("latency", "bursts of a few tasks, one each period: late by how much, at what cost");
    latency_options(*latency, latency_wish);
    DoctorOptions doctor_wish;
    CLI::App *doctor = app.add_subcommand("doctor", "what on this machine keeps short jobs waiting, and what changes it");
    doctor_options(*doctor, doctor_wish);
    SimulateOptions simulate_wish;
    CLI::App *simulate =
        app.add_subcommand("simulate", "weft on a machine in virtual time: what each line costs on 128 CPUs");
    simulate_options(*simulate, simulate_wish);
    WhyOptions why_wish;
    CLI::App *why = app.add_subcommand("why", "why tasks were late: a program's timeline beside what the kernel did");
    why_options(*why, why_wish);
    TopOptions top_wish;
    CLI::App *top = app.add_subcommand("top", "what the pools of running programs do now");
    top_options(*top, top_wish);
    LoopOptions loop_wish;
    CLI::App *loop = doctor->add_subcommand("loop", "fib(19) over and over on one CPU: what disturbs it");
    loop_options(*loop, loop_wish);
#if defined(WEFT_CHUNKS_COMMAND)
    ChunksOptions chunks_wish;
    CLI::App *chunks = app.add_subcommand("chunks", "a program over a range, on any number of machines, by a directory");
    chunks_options(*chunks, chunks_wish);
#endif
    footers(app);
    if (argc > 2 && strcmp(argv[1], "man-pages") == 0) return man_write(app, argv[2]), 0;
    if (argc == 1) {
        fputs(app.help().c_str(), stderr);
        return 2;
    }
    if (is_unknown(app, argv[1])) {
        fprintf(stderr, "weft: there is no subcommand %s; weft --help shows them\n", argv[1]);
        return 2;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &wrong) {
        return app.exit(wrong) == 0 ? 0 : 2;
    }
#if defined(WEFT_CHUNKS_COMMAND)
    if (chunks->parsed()) return chunks_main(*chunks, chunks_wish);
#endif
    if (loop->parsed()) return loop_main(loop_wish);
    if (doctor->parsed()) return doctor_main(doctor_wish);
    if (latency->parsed()) return latency_main(latency_wish);
    if (simulate->parsed()) return simulate_main(simulate_wish);
    if (why->parsed()) return why_main(why_wish);
    if (top->parsed()) return top_main(top_wish);
    return idle->parsed() ? idle_main(idle_wish) : race_main(options);
}

static int guarded(int argc, char **argv) {
    try {
        return command(argc, argv);
    } catch (const std::exception &failure) {
        fprintf(stderr, "weft: %s\n", failure.what());
        return 1;
    }
}

int main(int argc, char **argv) {
    standard_open();
    int status = guarded(argc, argv);
    if (standard_flush()) return status;
    fprintf(stderr, "weft: standard output took not all of it\n");
    return status != 0 ? status : 1;
}
