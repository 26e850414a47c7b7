// gnuplot.hpp: what the commands that draw have in common.
#ifndef WEFT_GNUPLOT_HPP
#define WEFT_GNUPLOT_HPP

#include <string>

// A text as gnuplot's string.
std::string gnuplot_quoted(const std::string &text);
// `set terminal` and `set output` for an .svg, or else a .png, of this size.
std::string gnuplot_output(const std::string &file, unsigned width, unsigned height);
// Runs a script that begins with gnuplot_output of that file. Throws std::runtime_error; of the file what is there stays.
void gnuplot_run(const std::string &script, const std::string &file);

#endif
