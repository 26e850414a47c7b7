// timeline.hpp: the timelines that a program's pools have written, as one.
#ifndef WEFT_WHY_TIMELINE_HPP
#define WEFT_WHY_TIMELINE_HPP

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

struct Timeline {
    nlohmann::ordered_json json; // null: there is none
    uint64_t lost = 0;           // events that newer ones had replaced before they were written
    uint64_t kept = 0;           // so many a thread keeps
    size_t unfinished = 0;       // pools that have begun a file and not ended it
};

// Throws std::runtime_error if it is none.
Timeline timeline_of_file(const std::string &file);
// All that were written there. If there are several, the threads' names tell their pools.
Timeline timeline_of_directory(const std::string &directory);

#endif
