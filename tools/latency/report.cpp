// What was found: the table with its histograms, and the JSON.
#include "latency.hpp"

#include "../race/race.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::ordered_json;

double LatencyRow::percentile(double percent) const {
    std::vector<float> values = over_ideal;
    auto rank = static_cast<size_t>(std::ceil(static_cast<double>(values.size()) * percent / 100));
    auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return static_cast<double>(*at);
}

double LatencyRow::mean() const {
    double sum = 0;
    for (float value : over_ideal) sum += static_cast<double>(value);
    return sum / static_cast<double>(over_ideal.size());
}

double LatencyRow::worker_cpu_percent() const {
    return 100 * static_cast<double>(worker_cpu_ns) / static_cast<double>(wall_ns);
}

double LatencyRow::same_cpu_percent() const {
    return on_workers == 0 ? -1 : 100 * static_cast<double>(on_same_cpu) / static_cast<double>(on_workers);
}

namespace {

constexpr unsigned bins = 24;         // from ideal on, the last for all that is beyond
constexpr double bins_of_double = 12; // so many cover a factor of two

// One character for each bin; the heights are logarithmic, so that one burst in ten thousand is seen.
std::string histogram(const LatencyRow &row) {
    static const char *const heights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    std::vector<unsigned> count(bins);
    for (float ratio : row.over_ideal) {
        double bin = bins_of_double * std::log2(std::max(1.0, static_cast<double>(ratio)));
        count[std::min(bins - 1, static_cast<unsigned>(bin))]++;
    }
    std::string text;
    for (unsigned n : count) {
        double share = static_cast<double>(n) / static_cast<double>(row.over_ideal.size());
        double height = n == 0 ? 0 : std::max(1.0, 8 + 2 * std::log10(share));
        text += heights[static_cast<unsigned>(height)];
    }
    return text;
}

std::string figure(double value, int digits) {
    if (value < 0) return "-";
    char text[32];
    snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

void row_print(const LatencyRow &row) {
    const char *helps = (row.who.flags & ENTRANT_CALLER_RUNS) != 0 ? " *" : "";
    printf("  %-21s %-12s", (row.who.pool + helps).c_str(), row.who.mode.c_str());
    if (!row.measured()) {
        printf(" %s\n", row.error.c_str());
        return;
    }
    for (double percent : {50.0, 90.0, 99.0, 99.9}) printf(" %7s", figure(row.percentile(percent), 3).c_str());
    printf(" %7s %9s %9s  |%s|\n", figure(row.mean(), 2).c_str(), figure(row.worker_cpu_percent(), 1).c_str(),
           figure(row.same_cpu_percent(), 1).c_str(), histogram(row).c_str());
}

ordered_json row_json(const LatencyRow &row, const LatencyOptions &options) {
    double same = row.same_cpu_percent();
    return {{"pool", row.who.pool},
            {"mode", row.who.mode},
            {"period_us", options.period_us},
            {"task_us", options.task_us},
            {"tasks", options.tasks},
            {"jitter_percent", options.jitter_percent},
            {"makespan_over_ideal_p50", row.percentile(50)},
            {"makespan_over_ideal_p90", row.percentile(90)},
            {"makespan_over_ideal_p99", row.percentile(99)},
            {"makespan_over_ideal_p999", row.percentile(99.9)},
            {"worker_cpu_percent", row.worker_cpu_percent()},
            {"same_cpu_percent", same < 0 ? ordered_json(nullptr) : ordered_json(same)}};
}

ordered_json details_json(const LatencyRow &row) {
    std::vector<double> late = row.late_ns;
    std::sort(late.begin(), late.end());
    return {{"pool", row.who.pool},
            {"mode", row.who.mode},
            {"caller_runs_tasks", (row.who.flags & ENTRANT_CALLER_RUNS) != 0},
            {"bursts", row.over_ideal.size()},
            {"makespan_over_ideal_mean", row.mean()},
            {"makespan_over_ideal_max", *std::max_element(row.over_ideal.begin(), row.over_ideal.end())},
            {"tasks_on_workers", row.on_workers},
            {"caller_late_us_p50", late[late.size() / 2] / 1e3}};
}

} // namespace

void latency_head_print(const LatencyResult &result) {
    const LatencyOptions &options = result.options;
    Machine machine = machine_describe();
    printf("weft %s latency, %s\n%s, %u CPUs, %s\n%s %s\n", machine.version.c_str(), machine.date.c_str(),
           machine.cpu.c_str(), machine.cpus, machine.kernel.c_str(), machine.compiler.c_str(), machine.flags.c_str());
    printf("%u tasks of %u us every %u us, jitter %g %%, %g %% of the bursts missed; %u threads run tasks, * the caller is "
           "one of "
           "them\n"
           "First submit to the wait's return, over ideal = ceil(tasks / threads) x a task alone. worker%%: CPU time of all "
           "threads "
           "but\n"
           "the caller, of one CPU. same%%: tasks that a worker started on the submitter's CPU. The histogram goes from 1 "
           "to 4 x "
           "ideal.\n\n",
           options.tasks, options.task_us, options.period_us, options.jitter_percent, options.miss_percent, options.workers);
    if (options.stranger) printf("Another program's thread is busy on the last CPU.\n");
    if (options.hogs > 0) printf("Beside other programs' busy threads: %u, one on each CPU.\n", options.hogs);
    if (options.compile) printf("Beside a C compiler on each CPU.\n");
    if (options.quota_percent > 0) printf("Each pool's process may use %u %% of a CPU.\n", options.quota_percent);
    if (machine.load > 0.5) printf("Load %.1f at the start: other programs run, the figures will show it.\n", machine.load);
    fflush(stdout);
}

unsigned latency_table_print(const LatencyResult &result) {
    printf("  %-21s %-12s %7s %7s %7s %7s %7s %9s %9s\n", "pool", "mode", "p50", "p90", "p99", "p99.9", "mean", "worker%",
           "same%");
    for (const auto &row : result.rows) row_print(row);
    if (result.alone_us > 0) printf("a task alone took %.1f us here\n", result.alone_us);
    if (result.interrupted) printf("interrupted: what is above is all there is\n");
    fflush(stdout);
    return static_cast<unsigned>(result.rows.size() + 1);
}

void latency_list_print(const std::vector<Contestant> &all) {
    for (const auto &who : all) {
        std::string name = who.pool + "/" + who.mode;
        printf("  %-24s %s%s\n", name.c_str(),
               who.reason.empty() ? "" : "not here: ", who.reason.empty() ? who.text.c_str() : who.reason.c_str());
    }
}

void latency_json_write(const LatencyResult &result) {
    Machine machine = machine_describe();
    const LatencyOptions &options = result.options;
    ordered_json json = {
        {"program", "weft latency"},
        {"version", machine.version},
        {"date", machine.date},
        {"machine", {{"cpu", machine.cpu}, {"cpus", machine.cpus}, {"kernel", machine.kernel}}},
        {"compiler", machine.compiler},
        {"flags", machine.flags},
        {"build_type", machine.build_type},
        {"workers", options.workers},
        {"stranger", options.stranger},
        {"hogs", options.hogs},
        {"compile", options.compile},
        {"quota_percent", options.quota_percent == 0 ? ordered_json(nullptr) : ordered_json(options.quota_percent)},
        {"miss_percent", options.miss_percent},
        {"vary_percent", options.vary_percent},
        {"seconds", options.seconds},
        {"slices", result.slices},
        {"task_alone_us", result.alone_us},
        {"interrupted", result.interrupted},
        {"rows", ordered_json::array()},
        {"details", ordered_json::array()},
        {"errors", ordered_json::array()}};
    for (const auto &row : result.rows) {
        if (row.measured()) {
            json["rows"].push_back(row_json(row, options));
            json["details"].push_back(details_json(row));
        } else {
            json["errors"].push_back(
                {{"pool", row.who.pool}, {"mode", row.who.mode}, {"error", row.error.empty() ? "interrupted" : row.error}});
        }
    }
    std::ofstream output(options.json_file);
    // An error's text may be cut within a character.
    output << json.dump(1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    if (!output.flush()) throw std::runtime_error("cannot write " + options.json_file);
}
