// why.hpp: `weft why`: for each task that was late the chain of what it waited for, from its timeline and the scheduler's records.
#ifndef WEFT_WHY_HPP
#define WEFT_WHY_HPP

#include <string>
#include <vector>

struct WhyOptions {
    std::vector<std::string> command; // to run and to watch
    std::string timeline;             // or what it has written
    std::string source = "best";
    std::string task; // only this function's tasks, late or not
    double late_us = 1000;
    unsigned rows = 20;
    std::string json_file, perfetto_file;
};

// The status of the command that was run, if it is not 0; 3: events are lost, so a late task may be, too; else 0. Throws std::runtime_error.
int why_main(const WhyOptions &options);

#endif
