// Who is measured: weft's modes, and the race's entrants that take a batch from one thread.
#include "latency.hpp"

#include "../race/race.hpp"

#include <algorithm>
#include <stdexcept>

namespace {

bool is_control(const Entrant &entrant) { return entrant.name.compare(0, 7, "static-") == 0; }

// Not weft, which has its modes, and not what is no pool for this.
bool takes_bursts(const Entrant &entrant) {
    if (entrant.is_allocator || entrant.offers != 0 || (entrant.flags & ENTRANT_OURS) != 0) return false;
    if (entrant.name == "serial" || entrant.name == "static") return false;
    return entrant.workload.empty() || is_control(entrant);
}

Contestant contestant_from(const Entrant &entrant) {
    Contestant who;
    who.pool = entrant.name;
    who.mode = (entrant.flags & ENTRANT_SPINS) != 0 ? "spinning" : "parked";
    who.text = entrant.text;
    who.file = entrant.file;
    who.reason = entrant.reason;
    who.flags = entrant.flags;
    return who;
}

bool wanted(const Contestant &who, const std::vector<std::string> &names) {
    return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string &name) {
               return name == who.pool || name == who.pool + "/" + who.mode;
           });
}

void check_names(const std::vector<Contestant> &all, const std::vector<std::string> &names) {
    for (const auto &name : names) {
        if (!std::any_of(all.begin(), all.end(), [&](const Contestant &who) { return wanted(who, {name}); }))
            throw std::invalid_argument("no pool is called " + name + "; --list shows them");
    }
}

} // namespace

std::vector<Contestant> contestants_find(const LatencyOptions &options) {
    Options race;
    race.entrant_dir = options.entrant_dir;
    race.peers = options.peers;
    race.entrant_dir = entrant_dir_find(race);
    std::vector<Contestant> all = weft_modes();
    std::vector<Entrant> entrants = entrants_find(race);
    std::stable_partition(entrants.begin(), entrants.end(), is_control);
    for (const auto &entrant : entrants) {
        if (takes_bursts(entrant)) all.push_back(contestant_from(entrant));
    }
    check_names(all, options.pools);
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Contestant &who) { return !wanted(who, options.pools); }),
              all.end());
    return all;
}
