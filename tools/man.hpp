// man.hpp: the manual pages of the command, section 1, made of what --help shows.
#ifndef WEFT_TOOLS_MAN_HPP
#define WEFT_TOOLS_MAN_HPP

#include <CLI/CLI.hpp>

#include <string>

// A page for the command and one for each subcommand, at any depth: weft.1, weft-race.1, ... Throws what cannot be written.
void man_write(const CLI::App &app, const std::string &directory);

#endif
