// One picture: ns per job of `submit` at 2 and 4 workers, every entrant, by gnuplot.
#include "race.hpp"

#include "../gnuplot.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>

namespace {

// What is drawn.
bool is_shown(const std::string &workload, const std::string &name, unsigned workers) {
    return workload == "submit" && name == "int" && (workers == 2 || workers == 4);
}

struct Bar {
    std::string pool;
    const Row *two = nullptr, *four = nullptr; // at 2 and 4 workers
    bool ours = false;
    double key() const { return *(two != nullptr ? two : four)->ns; }
};

std::vector<Bar> bars(const Results &results) {
    std::map<std::string, Bar> by_pool;
    for (const auto &row : results.rows) {
        if (!is_shown(row.workload, row.name, row.workers) || !row.ns || !row.error.empty()) continue;
        if (row.pool == "serial") continue;
        Bar &bar = by_pool[row.pool];
        bar.pool = row.pool;
        bar.ours = row.is_ours();
        (row.workers == 2 ? bar.two : bar.four) = &row;
    }
    std::vector<Bar> all;
    all.reserve(by_pool.size());
    for (const auto &[name, bar] : by_pool) all.push_back(bar);
    std::stable_sort(all.begin(), all.end(), [](const Bar &a, const Bar &b) { return a.key() > b.key(); });
    return all;
}

// One data block: position, median, min, max in the order of the bars.
std::string block(const std::string &name, const std::vector<Bar> &all, const Row *Bar::*row, double shift) {
    std::string text = "$" + name + " << EOD\n";
    for (size_t i = 0; i < all.size(); i++) {
        const Row *figures = all[i].*row;
        if (figures == nullptr) continue;
        char line[128];
        snprintf(line, sizeof line, "%.3f %.2f %.2f %.2f\n", static_cast<double>(i) + shift, *figures->ns, *figures->ns_min,
                 *figures->ns_max);
        text += line;
    }
    return text + "EOD\n";
}

std::string labels(const std::vector<Bar> &all) {
    std::string out;
    for (size_t i = 0; i < all.size(); i++) {
        out +=
            (i == 0 ? "" : ", ") + gnuplot_quoted(all[i].ours ? "▶ " + all[i].pool : all[i].pool) + " " + std::to_string(i);
    }
    return out;
}

std::string series(const std::string &name, const std::string &title, const std::string &style) {
    return name + " using 2:1:3:4 with xerrorbars " + style + " title '" + title + "', " + name +
           " using 4:1:(sprintf($2 < 100 ? '  %.3g' : '  %.0f', $2)) with labels left font ',9' notitle";
}

std::string script(const std::string &file, const Machine &machine, const std::vector<Bar> &all) {
    std::string out = gnuplot_output(file, 900, static_cast<unsigned>(130 + 28 * all.size()));
    out += block("two", all, &Bar::two, 0.18) + block("four", all, &Bar::four, -0.18);
    out += "set title " + gnuplot_quoted("Short jobs submitted by one thread: ns per job (median, min, max), log scale") +
           ".\"\\n\"." +
           gnuplot_quoted(machine.cpu + ", " + std::to_string(machine.cpus) + " CPUs, " + machine.compiler + " " +
                          machine.flags) +
           " noenhanced\n";
    out += "set logscale x\nset grid xtics lc rgb '#dddddd'\nset xlabel 'ns per job'\nset key bottom left\n";
    out += "set yrange [-0.7:" + std::to_string(all.size()) + "-0.3]\nset offsets graph 0, graph 0.15, 0, 0\n";
    out += "set ytics nomirror noenhanced (" + labels(all) + ")\n";
    out += "plot " + series("$two", "2 workers", "pt 7 ps 1 lc rgb '#0060ad'") + ", " +
           series("$four", "4 workers", "pt 6 ps 1 lc rgb '#dd4411'") + "\n";
    return out;
}

} // namespace

void plot_require(const Plan &plan) {
    bool any = std::any_of(plan.heats.begin(), plan.heats.end(),
                           [](const Heat &heat) { return is_shown(heat.workload, heat.name, heat.workers); });
    if (!any) throw std::invalid_argument("nothing to plot: it shows `submit` at 2 and 4 workers");
}

void plot_write(const std::string &file, const Machine &machine, const Results &results) {
    std::vector<Bar> all = bars(results);
    if (all.empty()) throw std::runtime_error("nothing to plot: it shows `submit` at 2 and 4 workers");
    gnuplot_run(script(file, machine, all), file);
}
