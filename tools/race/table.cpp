// The race's tables and summary, for reading.
#include "alloc.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>

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

// The fastest first, errors last.
std::vector<Row> by_time(std::vector<Row> rows) {
    auto earlier = [](const Row &a, const Row &b) {
        bool good = a.error.empty() && a.ns, other = b.error.empty() && b.ns;
        return good && other ? *a.score() < *b.score() : good && !other;
    };
    std::stable_sort(rows.begin(), rows.end(), earlier);
    return rows;
}

// What stands behind the row: weft's verdict, or that the row is no contender.
std::string remark(const Row &row, const std::optional<Standing> &standing) {
    if (row.pool == "serial") return "baseline";
    if (row.is_control()) return "ceiling";
    return standing && row.pool == standing->ours ? std::string("<- ") + verdict_word(standing->verdict()) : "";
}

struct Column {
    const char *title;
    int width;
    std::string (*cell)(const Row &row);
};

// What the columns of tasks and of patterns have in common, first and last.
const std::vector<Column> times = {
    {"", 9, [](const Row &row) { return short_number(row.ns); }},
    {"min", 7, [](const Row &row) { return short_number(row.ns_min); }},
    {"max", 7, [](const Row &row) { return short_number(row.ns_max); }},
    {"first", 7, [](const Row &row) { return short_number(row.first_ns); }},
    {"ratio", 6, [](const Row &row) { return row.is_peer() || row.is_ours() ? fixed(row.ratio, 2) : "-"; }},
    {"eff%", 5, [](const Row &row) { return row.efficiency ? fixed(scaled(row.efficiency, 100), 1) : "-"; }},
};
const std::vector<Column> spending = {
    {"user", 7, [](const Row &row) { return short_number(row.user_ns); }},
    {"sys", 6, [](const Row &row) { return short_number(row.system_ns); }},
    {"ctxsw", 5, [](const Row &row) { return short_number(sum(row.switches_voluntary, row.switches_involuntary)); }},
    {"migr", 5, [](const Row &row) { return short_number(row.migrations); }},
    {"faults", 6, [](const Row &row) { return short_number(row.faults); }},
    {"alloc", 5, [](const Row &row) { return short_number(sum(row.malloc_calls, row.memory_calls)); }},
    {"futex", 6, [](const Row &row) { return short_number(row.futex_calls); }},
    {"MiB", 6, [](const Row &row) { return fixed(scaled(row.peak_bytes, 1.0 / (1 << 20)), 1); }},
};
const Column bytes = {"B/task", 6, [](const Row &row) { return short_number(row.bytes); }};
const Column to_serial = {"/serial", 7, [](const Row &row) { return fixed(row.serial_ratio, 3); }};
const Column idle = {"idle ms", 7, [](const Row &row) { return short_number(row.idle_ms); }};

const std::vector<Column> slots = {
    {"p50", 5, [](const Row &row) { return row.slot ? fixed(row.slot->over_ideal_p50, 2) : "-"; }},
    {"p99", 5, [](const Row &row) { return row.slot ? fixed(row.slot->over_ideal_p99, 2) : "-"; }},
    {"p99.9", 5, [](const Row &row) { return row.slot ? fixed(row.slot->over_ideal_p999, 2) : "-"; }},
    {"late%", 5, [](const Row &row) { return row.slot ? fixed(row.slot->missed_percent, 1) : "-"; }},
};

std::vector<Column> columns_of(const Heat &heat) {
    std::vector<Column> all = times;
    if (heat.what == "slot") all.insert(all.end(), slots.begin(), slots.end());
    if (heat.is_pattern()) all.push_back(to_serial);
    all.insert(all.end(), spending.begin(), spending.end());
    if (!heat.is_pattern()) all.push_back(bytes);
    if (heat.idle) all.push_back(idle);
    return all;
}

void titles_print(const std::vector<Column> &columns, const std::string &what) {
    printf("  %-19s", "pool");
    for (const auto &column : columns) {
        printf(" %*s", column.width, column.title[0] != 0 ? column.title : ("ns/" + what).c_str());
    }
    printf("\n");
}

void error_print(const Row &row) { printf("  %-19s ERROR: %s\n", row.pool.c_str(), row.error.c_str()); }

void row_print(const Row &row, const std::vector<Column> &columns, const std::optional<Standing> &standing) {
    if (!row.error.empty()) {
        error_print(row);
        return;
    }
    std::string name = row.pool + (row.counts_caller() && row.pool != "serial" ? " *" : "") + (row.is_outside() ? "" : " i");
    printf("  %-19s", name.c_str());
    for (const auto &column : columns) printf(" %*s", column.width, column.cell(row).c_str());
    printf("  %s\n", remark(row, standing).c_str());
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

void table_print(const Heat &heat, const std::vector<Row> &rows, double others, const std::optional<Standing> &standing) {
    if (rows.empty()) return;
    std::vector<Row> sorted = by_time(rows);
    uint64_t tasks = 0;
    for (const auto &row : rows) tasks = std::max(tasks, row.tasks);
    printf("\n%s, %s, %u worker%s, up to %llu %ss a round%s\n", heat.workload.c_str(), rows[0].name.c_str(), heat.workers,
           heat.workers == 1 ? "" : "s", static_cast<unsigned long long>(tasks), heat.what.c_str(),
           rows[0].in_turns ? "" : ", one pool after the other");
    if (others > 0.03) printf("  (other programs used %.0f %% of the CPUs meanwhile)\n", 100 * others);
    if (alloc_is(heat.workload)) printf("  %s\n", alloc_note(heat.workload));
    std::vector<Column> columns = columns_of(heat);
    if (heat.what == "slot")
        printf("  p50, p99, p99.9: over ceil(13 / n) + ceil(12 / n) times a task alone, n = min(W, CPUs); late: longer than "
               "0.5 ms\n");
    titles_print(columns, heat.what);
    for (const auto &row : sorted) row_print(row, columns, standing);
    for (const auto &row : rows) hardware_print(row);
    if (heat.workload == "handoff") {
        for (const auto &row : sorted) {
            if (row.ns) printf("  %-19s %.2f M hand-offs per second\n", row.pool.c_str(), 1e3 / *row.ns);
        }
    }
    fflush(stdout);
}

void verdict_print(const Heat &heat, const std::vector<Row> &rows, double others, const std::optional<Standing> &standing) {
    if (rows.empty()) return;
    printf("%-13s %-22s W=%-3u ", heat.workload.c_str(), rows[0].name.c_str(), heat.workers);
    if (standing) {
        auto ours = std::find_if(rows.begin(), rows.end(), [&](const Row &row) { return row.pool == standing->ours; });
        printf("%-9s %s %s %s, %.2f (%.2f to %.2f) x %s", verdict_word(standing->verdict()), ours->pool.c_str(),
               short_number(ours->score()).c_str(), ours->is_memory() ? "B" : "ns", standing->paired.ratio,
               standing->paired.low, standing->paired.high, standing->best_peer.c_str());
    } else {
        printf("-         none to compare");
    }
    if (!rows[0].in_turns) printf("; one pool after the other");
    if (others > 0.1) printf("; other programs used %.0f %% of the CPUs", 100 * others);
    printf("\n");
    for (const auto &row : rows)
        if (!row.error.empty()) error_print(row);
    fflush(stdout);
}

static void standing_print(const Standing &standing) {
    printf("  %s, %s, %u workers: %.2f (%.2f to %.2f) x %s", standing.workload.c_str(), standing.name.c_str(),
           standing.workers, standing.paired.ratio, standing.paired.low, standing.paired.high, standing.best_peer.c_str());
    if (standing.outside_ratio && standing.best_outside_peer != standing.best_peer) {
        printf("; %.2f x %s, the best that takes jobs from any thread", *standing.outside_ratio,
               standing.best_outside_peer.c_str());
    }
    if (!standing.in_turns) printf("; one pool after the other: more rounds will not tell, fewer --tasks or pools may");
    printf("\n");
}

static void standings_print(const std::vector<Standing> &standings) {
    if (standings.empty()) return;
    auto counted = [&](RaceVerdict verdict) {
        return std::count_if(standings.begin(), standings.end(), [&](const Standing &s) { return s.verdict() == verdict; });
    };
    printf("weft first in %td of %zu rows, level in %td, undecided in %td, behind in %td\n", counted(RaceVerdict::first),
           standings.size(), counted(RaceVerdict::level), counted(RaceVerdict::undecided), counted(RaceVerdict::loses));
    const std::pair<RaceVerdict, const char *> kinds[] = {{RaceVerdict::level, "level"},
                                                          {RaceVerdict::undecided, "undecided: more rounds may tell"},
                                                          {RaceVerdict::loses, "behind"}};
    for (const auto &[verdict, title] : kinds) {
        if (counted(verdict) != 0) printf("%s:\n", title);
        for (const auto &standing : standings)
            if (standing.verdict() == verdict) standing_print(standing);
    }
}

void summary_print(const Results &results, const Plan &plan, bool counted) {
    size_t errors = 0, uncounted = 0, disturbed = 0;
    for (const auto &row : results.rows) {
        errors += row.error.empty() || row.error == "interrupted" ? 0 : 1;
        disturbed += row.others && *row.others > 0.1 ? 1 : 0;
        uncounted += row.error.empty() && !row.futex_calls && counted && !results.interrupted ? 1 : 0;
    }
    printf("\n");
    for (const auto &[who, why] : plan.skipped) printf("not in the race: %s: %s\n", who.c_str(), why.c_str());
    if (uncounted != 0) printf("%zu rows could not be counted: no ptrace or seccomp here, or not in time\n", uncounted);
    if (disturbed != 0)
        printf("in %zu of %zu rows other programs used more than a tenth of the CPUs\n", disturbed, results.rows.size());
    if (errors != 0) printf("%zu row%s in error\n", errors, errors == 1 ? "" : "s");
    if (!results.x264_reason.empty()) printf("x264: %s\n", results.x264_reason.c_str());
    for (const auto &text : results.x264_standings) printf("x264: %s\n", text.c_str());
    slot_scaling_print(results);
    if (results.interrupted) printf("interrupted: what is above is all there is\n");
    standings_print(results.standings);
    fflush(stdout);
}

void list_print(const std::vector<Entrant> &entrants) {
    printf("workloads\n");
    for (const auto &[name, text] : workload_list()) printf("  %-12s %s\n", name.c_str(), text.c_str());
    printf("pools\n");
    for (const auto &entrant : entrants) {
        if (entrant.offers != 0) continue;
        if (entrant.file.empty())
            printf("  %-20s not here: %s\n", entrant.name.c_str(), entrant.reason.c_str());
        else
            printf("  %-20s %s\n", entrant.name.c_str(), entrant.text.c_str());
    }
    printf("pools with recursion, loops or graphs\n");
    for (const auto &entrant : entrants) {
        if (entrant.offers != 0) printf("  %-20s %s\n", entrant.name.c_str(), entrant.text.c_str());
    }
}
