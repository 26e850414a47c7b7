// See gnuplot.hpp.
#include "gnuplot.hpp"

#include <cstdio>
#include <stdexcept>

std::string gnuplot_quoted(const std::string &text) {
    std::string out = "\"";
    for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
}

std::string gnuplot_output(const std::string &file, unsigned width, unsigned height) {
    bool svg = file.size() > 4 && file.compare(file.size() - 4, 4, ".svg") == 0;
    std::string size = std::to_string(width) + "," + std::to_string(height);
    std::string out = svg ? "set terminal svg size " + size + " font 'sans,13' background 'white'\n"
                          : "set terminal pngcairo size " + size + " font 'sans,10'\n";
    return out + "set output " + gnuplot_quoted(file) + "\n";
}

void gnuplot_run(const std::string &script) {
    FILE *gnuplot = popen("gnuplot", "w");
    if (gnuplot == nullptr) throw std::runtime_error("gnuplot cannot be started");
    fwrite(script.data(), 1, script.size(), gnuplot);
    if (pclose(gnuplot) != 0) throw std::runtime_error("gnuplot failed; package gnuplot-nox makes the plot");
}
