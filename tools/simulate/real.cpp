// The same workloads on this machine, to see how far the model is off.
#include "simulate.hpp"
#include "workload.h"

#include "../../bench/jobs.h"
#include "../race/probe.hpp"
#include "../race/race.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <time.h>

namespace {

constexpr unsigned runs_min = 7, runs_max = 100;
constexpr uint64_t runs_ns = 400000000; // and no more after that
unsigned spins_per_us;

void work(uint64_t ns) { job_spin(static_cast<uint32_t>(ns * spins_per_us / 1000)); }

void sleep_until(uint64_t when_ns) {
    timespec at{};
    at.tv_sec = static_cast<time_t>(when_ns / 1000000000);
    at.tv_nsec = static_cast<long>(when_ns % 1000000000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {}
}

void together(unsigned threads, void (*body)(unsigned index, void *context), void *context) {
    std::vector<std::thread> all;
    all.reserve(threads);
    for (unsigned i = 0; i < threads; i++) all.emplace_back(body, i, context);
    for (auto &one : all) one.join();
}

void nothing(weft_pool *) {}

const struct stage here = {clock_ns, work, sleep_until, together, nothing, nothing};

} // namespace

static double run_once(const SimulateOptions &options, const SimulatedRow &row) {
    struct play play = {};
    struct outcome outcome;
    play.on = &here;
    play.workers = row.workers;
    play.submitters = options.submitters;
    play.tasks = options.tasks;
    play.task_ns = options.task_ns;
    play.seed = options.seed;
    play.rounds = options.rounds;
    weft_config_init(&play.config);
    int error = workload_play(workload_find(row.workload.c_str()), &play, &outcome);
    if (error != 0) throw std::runtime_error(row.workload + " on this machine: " + weft_strerror(error));
    return static_cast<double>(outcome.elapsed_ns) / static_cast<double>(outcome.tasks);
}

void real_run(const SimulateOptions &options, SimulatedRow &row) {
    std::vector<double> times;
    if (spins_per_us == 0) spins_per_us = spin_calibrate();
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t start = clock_ns();
    while (times.size() < runs_min || (times.size() < runs_max && clock_ns() - start < runs_ns))
        times.push_back(run_once(options, row));
    std::sort(times.begin(), times.end());
    row.real_ns = times.front();
    row.real_median_ns = times[times.size() / 2];
}
