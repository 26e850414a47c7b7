// What was found: table, JSON, picture.
#include "simulate.hpp"

#include "../gnuplot.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::ordered_json;

void simulate_table_head(const SimulateOptions &options, const SimulatedMachine &machine) {
    printf("%s: %s\n", machine.name.c_str(), machine.about.c_str());
    printf("ns/task: time of all / tasks. eff: the least time that so many threads need / time. wait: from submission to "
           "beginning.\n");
    printf("cas: those that failed. For each task: rmws, line transfers, wakes.\n");
    printf("workload   workers   ns/task   eff %%  wait p50 us  p99 us  steals  cas failed   rmws  lines  wakes");
    printf(options.real ? "  real least  median   off %%\n" : "\n");
}

static void print_lines(const SimulateOptions &options, const SimulatedRow &row) {
    for (size_t i = 0; i < row.lines.size() && i < options.lines; i++) {
        const CostLine &line = row.lines[i];
        printf("                     %9.1f  %-28s %-14s %7.2f times, %.2f lines", line.ns / row.tasks, line.place.c_str(),
               line.kind.c_str(), static_cast<double>(line.count) / row.tasks, static_cast<double>(line.moved) / row.tasks);
        if (line.failed != 0) printf(", %.2f failed", static_cast<double>(line.failed) / row.tasks);
        printf("\n");
    }
}

void simulate_table_row(const SimulateOptions &options, const SimulatedRow &row) {
    if (!row.error.empty()) {
        printf("%-10s %7u  failed: %s\n", row.workload.c_str(), row.workers, row.error.c_str());
        return;
    }
    char efficiency[16] = "-", p50[16] = "-", p99[16] = "-";
    if (row.efficiency_percent() >= 0) snprintf(efficiency, sizeof efficiency, "%.1f", row.efficiency_percent());
    if (row.waits > 0) snprintf(p50, sizeof p50, "%.2f", row.wait_p50_ns / 1000);
    if (row.waits > 0) snprintf(p99, sizeof p99, "%.2f", row.wait_p99_ns / 1000);
    printf("%-10s %7u %9.1f %7s %12s %7s %7.0f %11.0f %6.2f %6.2f %6.3f", row.workload.c_str(), row.workers,
           row.ns_per_task(), efficiency, p50, p99, row.steals, row.cas_failed, row.rmws / row.tasks,
           row.transfers / row.tasks, row.wakes / row.tasks);
    if (row.real_ns > 0) printf("  %10.1f %7.1f %+7.1f", row.real_ns, row.real_median_ns, row.error_percent());
    printf("\n");
    print_lines(options, row);
    fflush(stdout);
}

static ordered_json line_json(const CostLine &line) {
    return {{"place", line.place}, {"kind", line.kind},   {"ns", line.ns},
            {"count", line.count}, {"lines", line.moved}, {"failed", line.failed}};
}

static ordered_json row_json(const SimulateOptions &options, const SimulatedRow &row) {
    ordered_json out = {{"workload", row.workload}, {"workers", row.workers}};
    if (!row.error.empty()) {
        out["error"] = row.error;
        return out;
    }
    out["tasks"] = row.tasks;
    out["ns_per_task"] = row.ns_per_task();
    out["efficiency_percent"] =
        row.efficiency_percent() < 0 ? ordered_json(nullptr) : ordered_json(row.efficiency_percent());
    out["elapsed_ns"] = row.elapsed_ns;
    out["ideal_ns"] = row.ideal_ns;
    out["work_ns"] = row.work_ns;
    out["worst_ns"] = row.worst_ns;
    out["cpu_ns"] = row.cpu_ns;
    out["wait_p50_ns"] = row.wait_p50_ns;
    out["wait_p99_ns"] = row.wait_p99_ns;
    out["claims"] = row.claims;
    out["steals"] = row.steals;
    out["claims_revoked"] = row.revoked;
    out["helped"] = row.helped;
    out["cas"] = row.cas;
    out["cas_failed"] = row.cas_failed;
    out["rmws"] = row.rmws;
    out["pauses"] = row.pauses;
    out["transfers"] = row.transfers;
    out["sleeps"] = row.sleeps;
    out["wakes"] = row.wakes;
    out["wakes_in_vain"] = row.wakes_in_vain;
    out["preemptions"] = row.preemptions;
    if (row.real_ns > 0) out["real_ns_per_task"] = row.real_ns;
    if (row.real_ns > 0) out["real_median_ns_per_task"] = row.real_median_ns;
    for (size_t i = 0; i < row.lines.size() && i < options.lines; i++) out["lines"].push_back(line_json(row.lines[i]));
    return out;
}

void simulate_json_write(const SimulateOptions &options, const SimulatedMachine &machine,
                         const std::vector<SimulatedRow> &rows) {
    ordered_json out = {{"machine", machine.name}, {"about", machine.about}, {"seed", options.seed}};
    for (const auto &[name, value] : machine.values) out["values"][name] = value;
    for (const auto &row : rows) out["rows"].push_back(row_json(options, row));
    std::ofstream file(options.json_file);
    file << std::setw(2) << out << "\n";
    file.flush();
    if (!file) throw std::runtime_error("cannot write " + options.json_file);
}

// ---- the picture: ns per task where tasks do nothing, else the efficiency; over the workers

namespace {

struct Curve {
    std::string workload, points;
    bool works = false;
};

std::vector<Curve> curves_of(const std::vector<SimulatedRow> &rows) {
    std::vector<Curve> all;
    for (const auto &row : rows) {
        if (!row.error.empty()) continue;
        if (all.empty() || all.back().workload != row.workload) all.push_back({row.workload, "", false});
        all.back().works = row.efficiency_percent() >= 0;
        char point[64];
        snprintf(point, sizeof point, "%u %.3f\n", row.workers,
                 all.back().works ? row.efficiency_percent() : row.ns_per_task());
        all.back().points += point;
    }
    return all;
}

std::string panel(const std::vector<Curve> &all, bool works) {
    std::string out;
    for (size_t i = 0; i < all.size(); i++)
        if (all[i].works == works)
            out += (out.empty() ? "plot " : ", ") + std::string("$curve") + std::to_string(i) +
                   " with linespoints lw 2 pt 7 ps 0.6 title " + gnuplot_quoted(all[i].workload);
    if (out.empty()) return out;
    return (works ? "set ylabel 'efficiency (%)'\nunset logscale y\nset yrange [0:105]\n"
                  : "set ylabel 'ns for each task'\nset logscale y\nset yrange [*:*]\n") +
           out + "\n";
}

} // namespace

void simulate_plot_write(const SimulateOptions &options, const SimulatedMachine &machine,
                         const std::vector<SimulatedRow> &rows) {
    std::vector<Curve> all = curves_of(rows);
    std::string idle = panel(all, false), working = panel(all, true);
    if (all.empty()) throw std::runtime_error("nothing to plot");
    unsigned panels = (idle.empty() ? 0 : 1) + (working.empty() ? 0 : 1);
    std::string out = gnuplot_output(options.plot_file, 560 * panels + 40, 460);
    for (size_t i = 0; i < all.size(); i++) out += "$curve" + std::to_string(i) + " << EOD\n" + all[i].points + "EOD\n";
    out +=
        "set multiplot layout 1," + std::to_string(panels) + " title " + gnuplot_quoted("simulated: " + machine.name) + "\n";
    out += "set logscale x 2\nset xlabel 'workers'\nset grid\nset key top left\n" + idle;
    out += "set key bottom left\n" + working + "unset multiplot\n";
    gnuplot_run(out, options.plot_file);
}
