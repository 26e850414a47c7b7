// What more workers do to the slot: they must not make it slower.
#include "race.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace {

constexpr double slower = 1.05;

using Line = std::map<unsigned, double>; // by workers: the slot's median over a task's time

void line_print(const std::string &pool, const Line &line) {
    printf("    %-19s", pool.c_str());
    double best = 0;
    for (const auto &[workers, task_times] : line) {
        bool worse = best > 0 && task_times > slower * best;
        printf(" %3u: %6.2f%s", workers, task_times, worse ? "!" : " ");
        best = best > 0 ? std::min(best, task_times) : task_times;
    }
    printf("\n");
}

} // namespace

void slot_scaling_print(const Results &results) {
    std::map<std::string, std::map<std::string, Line>> loads;
    for (const auto &row : results.rows) {
        if (row.slot && row.error.empty() && row.pool != "serial")
            loads[row.name][row.pool][row.workers] = row.slot->task_times_p50;
    }
    for (auto &[load, pools] : loads) {
        for (auto it = pools.begin(); it != pools.end();) it = it->second.size() > 1 ? std::next(it) : pools.erase(it);
        if (pools.empty()) continue;
        printf("slot, load %s %%: median in times of a task, by workers; !: more than 5 %% slower than fewer were\n",
               load.c_str());
        for (const auto &[pool, line] : pools) line_print(pool, line);
    }
}
