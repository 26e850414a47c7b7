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

double real_run(const SimulateOptions &options, const std::string &workload, unsigned workers) {
    double least = 0;
    uint64_t start = clock_ns();
    if (spins_per_us == 0) spins_per_us = spin_calibrate();
    prctl(PR_SET_TIMERSLACK, 1);
    for (unsigned i = 0; i < runs_max && (i < runs_min || clock_ns() - start < runs_ns); i++) {
        struct play play = {};
        struct outcome outcome;
        play.on = &here;
        play.workers = workers;
        play.submitters = options.submitters;
        play.tasks = options.tasks;
        play.task_ns = options.task_ns;
        play.seed = options.seed;
        play.rounds = std::max(options.rounds, 1u);
        weft_config_init(&play.config);
        int error = workload_play(workload_find(workload.c_str()), &play, &outcome);
        if (error != 0) throw std::runtime_error(workload + " on this machine: " + weft_strerror(error));
        double ns = static_cast<double>(outcome.elapsed_ns) / static_cast<double>(outcome.tasks);
        least = i == 0 ? ns : std::min(least, ns);
    }
    return least;
}
