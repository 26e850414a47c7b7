// One picture: how many of the bursts took no longer than so many times ideal, by gnuplot.
#include "latency.hpp"

#include "../gnuplot.hpp"
#include "../race/race.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace {

constexpr size_t points_max = 400; // of a curve

// The share that took longer, so that the rare ones are seen on a logarithmic scale.
std::string block(const LatencyRow &row, size_t index) {
    std::vector<float> sorted = row.over_ideal;
    std::sort(sorted.begin(), sorted.end());
    auto all = static_cast<double>(sorted.size());
    std::string text = "$row" + std::to_string(index) + " << EOD\n";
    double next = 0; // position on an axis that counts the decades of what is left
    for (size_t i = 0; i < sorted.size(); i++) {
        double left = static_cast<double>(sorted.size() - i) / all;
        if (i + 1 < sorted.size() && 1 - left < next && left > 100.0 / all) continue;
        next = 1 - left + left / points_max * 4;
        char line[64];
        snprintf(line, sizeof line, "%.4f %.6f\n", static_cast<double>(sorted[i]), 100 * left);
        text += line;
    }
    return text + "EOD\n";
}

std::string curve(const LatencyRow &row, size_t index) {
    bool ours = (row.who.flags & ENTRANT_OURS) != 0;
    return "$row" + std::to_string(index) + " with steps lw " + (ours ? "3" : "1.5") + " title " +
           gnuplot_quoted(row.who.pool + ", " + row.who.mode) + " noenhanced";
}

std::string script(const LatencyResult &result, const Machine &machine) {
    const LatencyOptions &options = result.options;
    std::string data, curves;
    for (size_t i = 0; i < result.rows.size(); i++) {
        if (!result.rows[i].measured()) continue;
        data += block(result.rows[i], i);
        curves += (curves.empty() ? "" : ", ") + curve(result.rows[i], i);
    }
    if (curves.empty()) throw std::runtime_error("nothing to plot");
    char title[160];
    snprintf(title, sizeof title, "%u tasks of %u us every %u us, jitter %g %%, misses %g %%", options.tasks,
             options.task_us, options.period_us, options.jitter_percent, options.miss_percent);
    std::string out = gnuplot_output(options.plot_file, 1100, 620) + data;
    out += "set title " + gnuplot_quoted(title) + ".\"\\n\"." + gnuplot_quoted(machine.cpu + ", " + machine.compiler) +
           " noenhanced\n";
    out += "set logscale xy\nset xrange [0.95:20]\nset yrange [0.01:100]\nset grid\nset key outside right\n";
    out += "set xtics (1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20)\nset xlabel 'makespan / ideal'\n";
    out += "set ylabel 'bursts that took longer (%)'\nplot " + curves + "\n";
    return out;
}

} // namespace

void latency_plot_write(const LatencyResult &result) {
    gnuplot_run(script(result, machine_describe()), result.options.plot_file);
}
