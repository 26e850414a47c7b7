// pools.hpp: the files of a directory, one for each pool, as they are now.
#ifndef WEFT_TOP_POOLS_HPP
#define WEFT_TOP_POOLS_HPP

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>

// What became of the process, as far as this user can see.
enum class State { live, silent, gone, unreadable };
const char *state_name(State state);

struct Pool {
    State state = State::unreadable;
    std::string problem; // why it is unreadable
    nlohmann::json now;  // what the file says
    uint64_t rss_bytes = 0;
    std::string command;
};

// By file name. Throws std::runtime_error when the directory cannot be read.
std::map<std::string, Pool> pools_in(const std::string &directory);

#endif
