// See gnuplot.hpp.
#include "gnuplot.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>

namespace {

bool is_svg(const std::string &file) { return file.size() > 4 && file.compare(file.size() - 4, 4, ".svg") == 0; }

// An .svg or .png ends with a mark of its own. What is no file of its own (a pipe, a device) cannot be read again.
bool is_whole(const std::string &file) {
    struct stat what {};
    if (stat(file.c_str(), &what) != 0) return false;
    if (!S_ISREG(what.st_mode)) return true;
    std::string end(static_cast<size_t>(std::min<off_t>(what.st_size, 16)), ' ');
    std::ifstream in(file, std::ios::binary);
    in.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end);
    in.read(&end[0], static_cast<std::streamsize>(end.size()));
    return in.good() && end.find(is_svg(file) ? "</svg>" : "IEND") != std::string::npos;
}

} // namespace

std::string gnuplot_quoted(const std::string &text) {
    std::string out = "\"";
    for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
}

std::string gnuplot_output(const std::string &file, unsigned width, unsigned height) {
    std::string size = std::to_string(width) + "," + std::to_string(height);
    std::string out = is_svg(file) ? "set terminal svg size " + size + " font 'sans,13' background 'white'\n"
                                   : "set terminal pngcairo size " + size + " font 'sans,10'\n";
    return out + "set output " + gnuplot_quoted(file) + "\n";
}

// gnuplot ends with 0 also where the disk was full.
void gnuplot_run(const std::string &script, const std::string &file) {
    FILE *gnuplot = popen("gnuplot", "w");
    if (gnuplot == nullptr) throw std::runtime_error("gnuplot cannot be started");
    fwrite(script.data(), 1, script.size(), gnuplot);
    if (pclose(gnuplot) != 0) throw std::runtime_error("gnuplot failed; package gnuplot-nox makes the plot");
    if (!is_whole(file)) throw std::runtime_error(file + " is incomplete: gnuplot could not write all of it");
}
