// top.hpp: `weft top`: what the pools of running programs do, from the files that they write (WEFT_TOP).
#ifndef WEFT_TOP_HPP
#define WEFT_TOP_HPP

#include <string>

struct TopOptions {
    std::string directory; // empty: WEFT_TOP of the environment
    double interval = 1;   // seconds between two looks
    bool once = false;
    bool json = false;
};

// The command's exit status. Throws std::runtime_error.
int top_main(const TopOptions &options);

#endif
