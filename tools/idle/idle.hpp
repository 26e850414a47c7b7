// idle.hpp: `weft idle`: what a pool costs that has nothing to do, and its end.
#ifndef WEFT_IDLE_HPP
#define WEFT_IDLE_HPP

#include <vector>

struct IdleOptions {
    std::vector<unsigned> workers = {2, 8, 64};
    double seconds = 2;
    unsigned tasks = 200000;
};

// Prints a row for each worker count. The command's exit status. Throws std::runtime_error.
int idle_main(const IdleOptions &options);

#endif
