// checks.hpp: what the command asks of its arguments and of its output before and after it works.
#ifndef WEFT_CHECKS_HPP
#define WEFT_CHECKS_HPP

#include <CLI/CLI.hpp>

// A number from `least` to `most`, not NaN.
CLI::Validator number_between(double least, double most);
// A file that can be written now: what is measured in minutes is not lost for it at the end.
CLI::Validator writable_file();
// The same, an .svg or .png, and gnuplot to draw it.
CLI::Validator plot_file();

// Sees to it that no file or pipe is opened as one of the three standard descriptors: one that is closed refuses what is written.
void standard_open();
// False: what was printed did not arrive in full.
bool standard_flush();

#endif
