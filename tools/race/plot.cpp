// One picture: ns per job of `submit` at 2 and 4 workers, every entrant, by gnuplot.
#include "race.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <unistd.h>

namespace {

struct Bar {
    std::string pool;
    Figure two, four;
    bool ours;
    double key() const { return two ? *two : four ? *four : 0; }
};

std::vector<Bar> bars(const Results &results) {
    std::map<std::string, Bar> by_pool;
    for (const auto &row : results.rows) {
        if (row.workload != "submit" || row.name != "int" || !row.ns || !row.error.empty()) continue;
        if (row.pool == "serial" || (row.workers != 2 && row.workers != 4)) continue;
        Bar &bar = by_pool[row.pool];
        bar.pool = row.pool;
        bar.ours = row.is_ours();
        (row.workers == 2 ? bar.two : bar.four) = row.ns;
    }
    std::vector<Bar> all;
    for (const auto &[name, bar] : by_pool) all.push_back(bar);
    std::stable_sort(all.begin(), all.end(), [](const Bar &a, const Bar &b) { return a.key() > b.key(); });
    return all;
}

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
}

// One data block: position, value, label in the order of the bars.
std::string block(const std::string &name, const std::vector<Bar> &all, Figure Bar::*value, double shift) {
    std::string text = "$" + name + " << EOD\n";
    for (size_t i = 0; i < all.size(); i++) {
        Figure figure = all[i].*value;
        if (!figure) continue;
        char line[128];
        snprintf(line, sizeof line, "%.3f %.2f\n", static_cast<double>(i) + shift, *figure);
        text += line;
    }
    return text + "EOD\n";
}

std::string script(const std::string &file, const Machine &machine, const std::vector<Bar> &all) {
    bool svg = file.size() > 4 && file.compare(file.size() - 4, 4, ".svg") == 0;
    size_t height = 120 + 26 * all.size();
    std::string size = "900," + std::to_string(height);
    std::string out = svg ? "set terminal svg size " + size + " font 'sans,13' background 'white'\n"
                          : "set terminal pngcairo size " + size + " font 'sans,10'\n";
    out += "set output " + quoted(file) + "\n";
    out += block("two", all, &Bar::two, 0.17) + block("four", all, &Bar::four, -0.17);
    out += "set title " + quoted("500,000 jobs from one thread, ns per job (median), log scale\\n" + machine.cpu + ", " +
                                 std::to_string(machine.cpus) + " CPUs, " + machine.compiler) + " noenhanced\n";
    out += "set logscale x\nset grid xtics lc rgb '#dddddd'\nset xlabel 'ns per job'\nset key bottom right\n";
    out += "set yrange [-0.7:" + std::to_string(all.size()) + "-0.3]\nset ytics nomirror noenhanced (";
    for (size_t i = 0; i < all.size(); i++) {
        out += (i == 0 ? "" : ", ") + quoted(all[i].ours ? "▶ " + all[i].pool : all[i].pool) + " " + std::to_string(i);
    }
    out += ")\nset xrange [1:*]\n";
    out += "plot $two using 2:1 with points pt 7 ps 1.1 lc rgb '#0060ad' title '2 workers', \\\n"
           "     $two using 2:1:(sprintf('  %.0f',$2)) with labels left font ',9' tc rgb '#0060ad' notitle, \\\n"
           "     $four using 2:1 with points pt 6 ps 1.1 lc rgb '#dd4411' title '4 workers', \\\n"
           "     $four using 2:1:(sprintf('  %.0f',$2)) with labels left font ',9' tc rgb '#dd4411' notitle\n";
    return out;
}

} // namespace

void plot_write(const std::string &file, const Machine &machine, const Results &results) {
    std::vector<Bar> all = bars(results);
    if (all.empty()) throw std::runtime_error("nothing to plot: it shows `submit` at 2 and 4 workers");
    FILE *gnuplot = popen("gnuplot", "w");
    if (gnuplot == nullptr) throw std::runtime_error("gnuplot cannot be started");
    std::string text = script(file, machine, all);
    fwrite(text.data(), 1, text.size(), gnuplot);
    if (pclose(gnuplot) != 0) throw std::runtime_error("gnuplot failed; package gnuplot-nox makes the plot");
}
