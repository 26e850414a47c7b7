// weft latency: the order of things.
#include "crew.hpp"
#include "latency.hpp"

#include "../../bench/cpus.hpp"
#include "../../bench/jobs.h"
#include "../race/probe.hpp"
#include "../race/race.hpp"
#include "../race/stranger.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

constexpr double slice_seconds = 0.5;
constexpr unsigned slices_min = 5;
constexpr unsigned warm_bursts = 32; // of a slice, before those that count

double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// One task on this thread, while everybody else is stopped.
double alone_ns(uint32_t iterations) {
    std::vector<double> times_ns;
    for (int i = 0; i < 15; i++) {
        uint64_t start_ns = clock_ns();
        job_spin(iterations);
        times_ns.push_back(static_cast<double>(clock_ns() - start_ns));
    }
    return median(times_ns);
}

// The bursts of each row come in slices, in rotation, so that whatever the machine does meanwhile concerns all of them.
class Rotation {
    LatencyResult &result;
    std::unique_ptr<Stranger> stranger; // or strangers; stopped whenever nobody is measured
    std::vector<std::unique_ptr<Crew>> crews;
    std::mt19937_64 random{std::random_device{}()};
    SliceOrder order{};
    unsigned rounds; // tasks that one thread has to run after one another
    std::vector<double> alone;

    void slice(size_t i) {
        LatencyRow &row = result.rows[i];
        if (!row.error.empty() || interrupted()) return;
        double vary = result.options.vary_percent / 100;
        order.seed = random();
        order.period_ns =
            1e3 * result.options.period_us * std::uniform_real_distribution<double>(1 - vary, 1 + vary)(random);
        alone.push_back(alone_ns(order.iterations));
        double ideal_ns = rounds * alone.back();
        std::vector<float> makespans_ns;
        if (stranger != nullptr) stranger->go_on();
        SliceReport report = crews[i]->slice(order, makespans_ns);
        if (stranger != nullptr) stranger->stop();
        if (!crews[i]->error().empty()) {
            row.error = crews[i]->error();
            return;
        }
        for (float ns : makespans_ns) row.over_ideal.push_back(static_cast<float>(ns / ideal_ns));
        row.wall_ns += report.wall_ns;
        row.worker_cpu_ns += report.worker_cpu_ns;
        row.on_workers += report.on_workers;
        row.on_same_cpu += report.on_same_cpu;
        row.late_ns.push_back(static_cast<double>(report.late_ns));
    }

    void stranger_start() {
        const LatencyOptions &options = result.options;
        if (!options.stranger && !options.compile && options.hogs == 0) return;
        unsigned cpus = std::min(options.workers, cpus_allowed());
        unsigned count = options.compile ? cpus : std::max(1u, options.hogs);
        stranger = std::make_unique<Stranger>(options.workers, count, options.compile ? Busy::compiles : Busy::spins);
        stranger->stop();
    }

    static bool fits_terminal(size_t lines) {
        winsize size{};
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > lines && size.ws_col > 110;
    }

  public:
    explicit Rotation(LatencyResult &what) : result(what) {
        const LatencyOptions &options = result.options;
        unsigned threads = std::min(options.workers, cpus_allowed());
        rounds = (options.tasks + threads - 1) / threads;
        result.slices = std::max(slices_min, static_cast<unsigned>(options.seconds / slice_seconds));
        double bursts = options.seconds * 1e6 / (options.period_us * static_cast<double>(result.slices));
        order.bursts = std::max(1u, static_cast<uint32_t>(bursts));
        order.warm = std::min(warm_bursts, 4 * order.bursts);
        order.tasks = options.tasks;
        order.iterations = options.task_us * spin_calibrate();
        order.jitter = options.jitter_percent / 100;
        order.miss = options.miss_percent / 100;
    }

    void start() {
        stranger_start();
        for (auto &row : result.rows) {
            if (interrupted()) return;
            crews.push_back(row.error.empty() ? std::make_unique<Crew>(row.who, result.options) : nullptr);
            if (crews.back() != nullptr) row.error = crews.back()->error();
        }
    }

    void run() {
        bool live = isatty(STDOUT_FILENO) != 0 && fits_terminal(result.rows.size() + 4);
        unsigned lines = 0;
        for (unsigned round = 0; round < result.slices && !interrupted(); round++) {
            for (size_t i = 0; i < crews.size(); i++) {
                if (isatty(STDERR_FILENO) != 0 && !live)
                    fprintf(stderr, "\r\033[K[%u/%u] %s", round + 1, result.slices, result.rows[i].who.pool.c_str());
                slice(i);
            }
            if (!live) continue;
            if (lines != 0) printf("\033[%uA", lines);
            lines = latency_table_print(result);
        }
        if (isatty(STDERR_FILENO) != 0 && !live) fprintf(stderr, "\r\033[K");
        result.interrupted = interrupted();
        result.alone_us = alone.empty() ? 0 : median(alone) / 1e3;
        if (!live) latency_table_print(result);
    }
};

LatencyResult result_of(const LatencyOptions &options) {
    LatencyResult result;
    result.options = options;
    if (options.workers == 0) result.options.workers = std::max(2u, cpus_allowed());
    for (const auto &who : contestants_find(options)) {
        LatencyRow row;
        row.who = who;
        row.error = who.reason;
        result.rows.push_back(row);
    }
    return result;
}

int measure(LatencyResult &result) {
    Rotation rotation(result);
    latency_head_print(result);
    rotation.start();
    rotation.run();
    if (!result.options.json_file.empty()) latency_json_write(result);
    if (!result.options.plot_file.empty()) latency_plot_write(result);
    bool any = std::any_of(result.rows.begin(), result.rows.end(), [](const LatencyRow &row) { return row.measured(); });
    return result.interrupted ? 130 : any ? 0 : 1;
}

} // namespace

int latency_main(const LatencyOptions &options) {
    if (options.machine) return latency_machine(options.json_file);
    interrupt_prepare();
    try {
        if (options.list) {
            latency_list_print(contestants_find(options));
            return 0;
        }
        LatencyResult result = result_of(options);
        return measure(result);
    } catch (const std::invalid_argument &wrong) {
        fprintf(stderr, "weft latency: %s\n", wrong.what());
        return 2;
    }
}
