// The race's tables and summary, for reading.
#include "race.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace {

std::string fixed(Figure value, int digits) {
    if (!value) return "-";
    char text[32];
    snprintf(text, sizeof text, "%.*f", digits, *value);
    return text;
}

// Three significant digits or more, no exponent.
std::string short_number(Figure value) {
    if (!value) return "-";
    double size = std::fabs(*value);
    if (size == 0) return "0";
    if (size >= 100) return fixed(value, 0);
    if (size >= 10) return fixed(value, 1);
    if (size >= 1) return fixed(value, 2);
    return size >= 0.0005 ? fixed(value, 3) : "<.001";
}

Figure sum(Figure a, Figure b) { return a && b ? Figure(*a + *b) : a ? a : b; }

Figure scaled(Figure value, double factor) { return value ? Figure(*value * factor) : value; }

std::vector<const Row *> by_time(const std::vector<Row> &rows) {
    std::vector<const Row *> sorted;
    for (const auto &row : rows) sorted.push_back(&row);
    auto earlier = [](const Row *a, const Row *b) {
        bool good = a->error.empty() && a->ns, other = b->error.empty() && b->ns;
        return good && other ? *a->ns < *b->ns : good && !other;
    };
    std::stable_sort(sorted.begin(), sorted.end(), earlier);
    return sorted;
}

// What stands behind the row: weft's verdict, or that the row is no contender.
const char *remark(const Row &row, bool best_of_ours) {
    if (row.pool == "serial") return "baseline";
    if (row.pool == "static") return "ceiling";
    if (!row.is_ours() || !row.ratio || !best_of_ours) return "";
    return *row.ratio <= 1.01 ? "<- first" : "<- LOSES";
}

void row_print(const Row &row, bool best_of_ours) {
    if (!row.error.empty()) {
        printf("  %-19s ERROR: %s\n", row.pool.c_str(), row.error.c_str());
        return;
    }
    std::string efficiency = row.efficiency ? fixed(scaled(row.efficiency, 100), 1) : "-";
    printf("  %-19s%8s%8s%8s%8s%7s%6s%8s%7s%6s%6s%7s%6s%7s%7s%7s  %s\n", row.pool.c_str(), short_number(row.ns).c_str(),
           short_number(row.ns_min).c_str(), short_number(row.ns_max).c_str(), short_number(row.first_ns).c_str(),
           row.is_peer() || row.is_ours() ? fixed(row.ratio, 2).c_str() : "-", efficiency.c_str(),
           short_number(row.user_ns).c_str(), short_number(row.system_ns).c_str(),
           short_number(sum(row.switches_voluntary, row.switches_involuntary)).c_str(), short_number(row.migrations).c_str(),
           short_number(row.faults).c_str(), short_number(sum(row.malloc_calls, row.memory_calls)).c_str(),
           short_number(row.futex_calls).c_str(), fixed(scaled(row.peak_bytes, 1.0 / (1 << 20)), 1).c_str(),
           short_number(row.bytes).c_str(), remark(row, best_of_ours));
}

void hardware_print(const Row &row) {
    if (row.instructions) {
        printf("  %-19s instructions/task %s, per cycle %s, branch misses %s %%\n", row.pool.c_str(),
               short_number(row.instructions).c_str(), fixed(row.instructions_per_cycle, 2).c_str(),
               fixed(row.branch_miss_percent, 2).c_str());
    }
    if (row.callgrind_instructions) {
        printf("  %-19s instructions/task under callgrind: %s\n", row.pool.c_str(),
               short_number(row.callgrind_instructions).c_str());
    }
}

} // namespace

void table_print(const std::vector<Row> &rows) {
    if (rows.empty()) return;
    const Row *best = nullptr, *largest = &rows[0];
    for (const auto &row : rows) {
        if (row.is_ours() && row.error.empty() && row.ns && (best == nullptr || *row.ns < *best->ns)) best = &row;
        if (row.workers >= largest->workers && row.tasks > largest->tasks) largest = &row;
    }
    unsigned workers = 0;
    for (const auto &row : rows) workers = std::max(workers, row.workers);
    printf("\n%s, %s, %u worker%s, up to %llu tasks a round\n", rows[0].workload.c_str(), rows[0].name.c_str(), workers,
           workers == 1 ? "" : "s", static_cast<unsigned long long>(largest->tasks));
    printf("  %-19s%8s%8s%8s%8s%7s%6s%8s%7s%6s%6s%7s%6s%7s%7s%7s\n", "pool", "ns/task", "min", "max", "first", "ratio",
           "eff%", "user", "sys", "ctxsw", "migr", "faults", "alloc", "futex", "MiB", "B/task");
    for (const Row *row : by_time(rows)) row_print(*row, row == best);
    for (const auto &row : rows) hardware_print(row);
    if (rows[0].workload == "handoff") {
        for (const Row *row : by_time(rows)) {
            if (row->ns) printf("  %-19s %.2f M hand-offs per second\n", row->pool.c_str(), 1e3 / *row->ns);
        }
    }
    fflush(stdout);
}

void summary_print(const Results &results, const Plan &plan) {
    size_t first = 0, errors = 0;
    std::string losses;
    for (const auto &standing : results.standings) {
        first += standing.first() ? 1 : 0;
        if (standing.first()) continue;
        char text[256];
        snprintf(text, sizeof text, "\n  %s, %s, %u workers: %.2f x %s", standing.workload.c_str(), standing.name.c_str(),
                 standing.workers, standing.ratio, standing.best_peer.c_str());
        losses += text;
    }
    for (const auto &row : results.rows) errors += row.error.empty() ? 0 : 1;
    printf("\n");
    for (const auto &[who, why] : plan.skipped) printf("not in the race: %s: %s\n", who.c_str(), why.c_str());
    if (errors != 0) printf("%zu row%s in error\n", errors, errors == 1 ? "" : "s");
    if (!results.x264_reason.empty()) printf("x264: %s\n", results.x264_reason.c_str());
    if (results.interrupted) printf("interrupted: what is above is all there is\n");
    if (!results.standings.empty()) {
        printf("weft first in %zu of %zu rows%s%s\n", first, results.standings.size(),
               losses.empty() ? "" : "; loses:", losses.c_str());
    }
    fflush(stdout);
}

void list_print(const std::vector<Entrant> &entrants) {
    printf("workloads\n");
    for (const auto &[name, text] : workload_list()) printf("  %-12s %s\n", name.c_str(), text.c_str());
    printf("pools\n");
    for (const auto &entrant : entrants) {
        if (entrant.file.empty())
            printf("  %-20s not here: %s\n", entrant.name.c_str(), entrant.reason.c_str());
        else
            printf("  %-20s %s\n", entrant.name.c_str(), entrant.text.c_str());
    }
}
