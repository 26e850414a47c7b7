// Which cases run, with whom, how long.
#include "alloc.hpp"

#include "../../bench/cpus.hpp"
#include "../../bench/pattern.hpp"

#include <algorithm>
#include <stdexcept>

namespace {

constexpr uint64_t million = 1u << 20;
constexpr uint64_t ms = 1000000;

const std::vector<CaseSet> &task_sets() {
    static const std::vector<CaseSet> sets = {
        {"submit",
         "500,000 jobs with an int, from one outside thread; a counter per worker, and one shared by all",
         {"int", "shared-counter"},
         500000,
         24 * ms},
        {"payload",
         "the same with payloads of 4 to 1024 bytes",
         {"4", "64", "416", "48", "328", "1024"},
         500000,
         12 * ms,
         3},
        {"one", "one job, submitted and waited for; again and again", {"int"}, 200000, 24 * ms},
        {"chain", "each job submits the next", {"int"}, 200000, 24 * ms},
        {"fib19", "the coliseum: 2^20 tasks of fib(19)", {"independent"}, million, 40 * ms, 0, "task", 500, 2000},
        {"fib19x1-3",
         "the coliseum: 2^20 tasks of one to three times fib(19)",
         {"independent"},
         million,
         40 * ms,
         0,
         "task",
         500,
         2000},
        {"fib17-19",
         "the coliseum: 2^20 tasks of fib(17) to fib(19)",
         {"independent"},
         million,
         40 * ms,
         0,
         "task",
         500,
         2000},
        {"handoff", "one producer, one consumer", {"spinning", "blocking"}, 4000000, 48 * ms},
        {"frame", "4096 children of one root per frame", {"4096-children"}, million, 24 * ms},
        {"x264-shape",
         "the five steps of a sliced encoder's frame; its tails outlive the call",
         {"sliced"},
         512,
         20 * ms,
         0,
         "task",
         1,
         40},
        {"slot",
         "the uplink slot of a 5G base station: 13 symbol tasks, then 12 decodes, every 0.5 ms; the case is the load in "
         "percent",
         {"60", "30", "90"},
         4000,
         60 * ms,
         1,
         "slot",
         40,
         200,
         7},
    };
    return sets;
}

const std::vector<CaseSet> &pattern_sets() {
    static const std::vector<CaseSet> sets = {
        {"fib", "fib(38), a fork per call", {"forked"}, 126491971, 24 * ms, 0, "call", 200000, 50000},
        {"nqueens",
         "the ways to put 13 queens, a fork per placement",
         {"forked"},
         4674890,
         20 * ms,
         0,
         "node",
         50000,
         50000},
        {"uts",
         "unbalanced trees of 4 million nodes, a fork per child",
         {"geometric", "binomial"},
         4540473,
         20 * ms,
         0,
         "node",
         50000,
         50000},
        {"loop-empty64", "64 indices with nothing to do", {"hot"}, 200000, 8 * ms, 0, "region", 500, 2000},
        {"loop-spin64",
         "64 indices of 0.4 us; the second case with another program's busy thread on one of the CPUs",
         {"hot", "stranger"},
         20000,
         15 * ms,
         0,
         "region",
         200,
         1000},
        {"loop-axpy", "y += x, 2^20 doubles", {"hot"}, 4000, 20 * ms, 0, "region", 50, 200},
        {"loop-groups",
         "y += x, 2^20 doubles, in groups of so many",
         {"64", "256", "1024", "4096"},
         4000,
         20 * ms,
         2,
         "region",
         20,
         100},
        {"loop-cold",
         "loop-spin64 after 1 ms asleep: 50th and 99th percentile",
         {"p50"},
         1000,
         120 * ms,
         0,
         "region",
         20,
         100,
         7},
        {"graph",
         "4096 nodes, a wavefront and a random order, 0.4 us each or none",
         {"wavefront", "dag", "wavefront-empty", "dag-empty"},
         million,
         10 * ms,
         0,
         "node",
         16384,
         40960},
    };
    return sets;
}

const std::vector<CaseSet> &case_sets() {
    static const std::vector<CaseSet> all = [] {
        std::vector<CaseSet> sets = task_sets();
        for (const auto *more : {&pattern_sets(), &alloc_case_sets()}) sets.insert(sets.end(), more->begin(), more->end());
        return sets;
    }();
    return all;
}

std::vector<std::string> names_of(const std::vector<CaseSet> &sets) {
    std::vector<std::string> names;
    names.reserve(sets.size());
    for (const auto &set : sets) names.push_back(set.workload);
    return names;
}

// What is asked for twice runs once.
template <class Item> std::vector<Item> each_once(const std::vector<Item> &all) {
    std::vector<Item> once;
    for (const auto &item : all)
        if (std::find(once.begin(), once.end(), item) == once.end()) once.push_back(item);
    return once;
}

// Names that stand for several workloads.
std::vector<std::string> collection(const std::string &name) {
    if (name == "coliseum") return {"fib19", "fib19x1-3", "fib17-19"};
    if (name == "patterns") return names_of(pattern_sets());
    if (name == "alloc") return names_of(alloc_case_sets());
    return {};
}

std::vector<std::string> wanted_workloads(const Options &options) {
    std::vector<std::string> all = names_of(case_sets());
    // Who asks for some pools, worker counts or tasks does not mean the encoder.
    bool everything = options.workloads.empty() && options.pools.empty() && options.workers.empty() && options.tasks == 0;
    if (everything || !options.workloads.empty()) all.push_back("x264");
    if (options.workloads.empty()) return all;
    std::vector<std::string> wanted;
    for (const auto &name : options.workloads) {
        std::vector<std::string> several = collection(name);
        if (!several.empty())
            wanted.insert(wanted.end(), several.begin(), several.end());
        else if (std::find(all.begin(), all.end(), name) != all.end())
            wanted.push_back(name);
        else
            throw std::invalid_argument("no workload is called " + name + "; --list shows them");
    }
    return wanted;
}

std::vector<unsigned> worker_counts(const std::string &workload, const std::string &name, const Options &options) {
    if (workload == "handoff") return {1};
    if (alloc_is(workload)) return alloc_worker_counts(workload, options);
    if (!options.workers.empty()) return options.workers;
    bool asked = std::find(options.workloads.begin(), options.workloads.end(), "slot") != options.workloads.end();
    if (workload == "slot" && (asked || options.full)) return {1, 2, 4, 8, 16, 24};
    if (workload == "slot") return {2};
    unsigned cpus = std::min(std::max(cpus_allowed(), 2u), 8u);
    if (workload == "fib") return cpus > 2 ? std::vector<unsigned>{1, 2, cpus} : std::vector<unsigned>{1, 2};
    if (pattern_needs(workload) != 0)
        return options.full && cpus > 2 ? std::vector<unsigned>{2, cpus} : std::vector<unsigned>{2};
    bool named = options.full || !options.workloads.empty();
    if (workload == "submit" && name == "int")
        return named ? std::vector<unsigned>{1, 2, 4, 8} : std::vector<unsigned>{2, 4, 8};
    if (options.full) return {2, 4, 8};
    if (workload == "x264-shape") return {2, 4};
    std::vector<unsigned> counts = {2};
    if (cpus != 2 && workload != "payload" && workload != "submit") counts.push_back(cpus);
    return counts;
}

// Why an entrant has no place in a heat; empty: it has one.
std::string unfit(const Entrant &entrant, const Heat &heat) {
    unsigned needs = pattern_needs(heat.workload);
    if (entrant.is_allocator != alloc_is(heat.workload)) return "-";
    if ((entrant.offers != 0) != (needs != 0) || (entrant.offers & needs) != needs) return "-";
    if (!entrant.workload.empty() && entrant.workload != heat.workload) return "-";
    if ((entrant.flags & ENTRANT_GROUPS) != 0 && heat.workload != "loop-groups") return "-";
    bool specific = heat.workload == "frame" || heat.workload == "handoff";
    bool ours = (entrant.flags & ENTRANT_OURS) != 0, baseline = entrant.name == "serial";
    if (specific && entrant.workload.empty() && !ours && !baseline) return "-";
    if (heat.workload == "handoff" && (entrant.flags & ENTRANT_CALLER_RUNS) != 0) return "-";
    if (heat.workload == "chain" && baseline) return "calls each job in the one before";
    if (baseline) return "";
    if (heat.workload == "chain" && (entrant.flags & ENTRANT_NESTED) == 0) return "its jobs submit none";
    bool split_ahead = !specific && heat.workload != "one" && heat.workload != "chain" && heat.workload != "x264-shape" &&
                       heat.workload != "slot";
    if (entrant.file == "static") return split_ahead ? "" : "-";
    if (heat.workers < entrant.workers_min) return "needs " + std::to_string(entrant.workers_min) + " workers";
    if (entrant.workers_max != 0 && heat.workers > entrant.workers_max) return "has fewer workers";
    if (heat.workload == "x264-shape" && (entrant.flags & ENTRANT_FORK_JOIN) != 0) return "its tasks end inside the call";
    if (heat.workload == "x264-shape" && (entrant.flags & ENTRANT_CALLER_RUNS) != 0) return "the caller has its own work";
    return "";
}

bool wanted_pool(const Entrant &entrant, const Options &options) {
    const auto &pools = options.pools;
    if (pools.empty() || entrant.name == "serial") return true;
    return std::find(pools.begin(), pools.end(), entrant.name) != pools.end();
}

uint64_t task_unit(const Heat &heat) {
    if (alloc_is(heat.workload)) return alloc_unit(heat);
    if (heat.workload == "frame") return 4096;
    if (heat.workload == "x264-shape") return uint64_t{2} * heat.workers;
    return 1;
}

// The sizes that a case can have.
std::function<uint64_t(uint64_t)> sizes_of(const Heat &heat) {
    if (heat.is_pattern()) {
        std::shared_ptr<Pattern> pattern = pattern_make({heat.workload, heat.name, 0, 0});
        return [pattern](uint64_t tasks) { return pattern->fit(tasks); };
    }
    return [unit = task_unit(heat)](uint64_t tasks) { return std::max<uint64_t>(tasks / unit, 1) * unit; };
}

Heat heat_make(const CaseSet &set, const std::string &name, unsigned workers, const Options &options) {
    Heat heat;
    heat.workload = set.workload;
    heat.name = name;
    heat.workers = workers;
    heat.rounds = options.rounds != 0 ? options.rounds : set.rounds;
    heat.tasks = options.tasks != 0 ? options.tasks : set.tasks;
    heat.budget_ns = options.full || options.tasks != 0 ? 0 : set.quick_budget_ns;
    heat.what = set.what;
    heat.pilot_tasks = set.pilot_tasks;
    heat.count_tasks = set.count_tasks;
    heat.idle = heat.workload == "fib" && workers > 1;
    heat.fit = sizes_of(heat);
    heat.tasks = heat.fit(heat.tasks);
    return heat;
}

void heat_fill(Heat &heat, const Options &options, const std::vector<Entrant> &entrants, Plan &plan) {
    for (const auto &entrant : entrants) {
        if (!wanted_pool(entrant, options)) continue;
        std::string reason = entrant.file.empty() ? entrant.reason : unfit(entrant, heat);
        if (reason.empty())
            heat.entrants.push_back(entrant);
        else if (reason != "-")
            plan.skipped[(entrant.file.empty() ? "" : heat.workload + ": ") + entrant.name] = reason;
    }
}

void check_pools(const Options &options, const std::vector<Entrant> &entrants) {
    for (const auto &name : options.pools) {
        bool known = std::any_of(entrants.begin(), entrants.end(), [&](const Entrant &e) { return e.name == name; });
        if (!known) throw std::invalid_argument("no pool is called " + name + "; --list shows them");
    }
}

// Of the pools asked for at least one has to run something; why not, is told.
void check_runs(const Plan &plan, const Options &options) {
    auto asked = [&](const Entrant &entrant) {
        return std::find(options.pools.begin(), options.pools.end(), entrant.name) != options.pools.end();
    };
    auto runs = [&](const Heat &heat) {
        return options.pools.empty() || std::any_of(heat.entrants.begin(), heat.entrants.end(), asked);
    };
    if (plan.x264 || std::any_of(plan.heats.begin(), plan.heats.end(), runs)) return;
    std::string reasons;
    for (const auto &[who, why] : plan.skipped) reasons.append("; ").append(who).append(": ").append(why);
    throw std::invalid_argument("none of these pools runs any of these workloads" + reasons);
}

std::vector<std::string> chosen_names(const CaseSet &set, const Options &options) {
    bool all = options.full || !options.workloads.empty() || set.names_quick == 0;
    auto end = all ? set.names.end() : set.names.begin() + static_cast<std::ptrdiff_t>(set.names_quick);
    return {set.names.begin(), end};
}

} // namespace

Plan plan_make(const Options &options, const std::vector<Entrant> &entrants) {
    check_pools(options, entrants);
    Plan plan;
    for (const auto &workload : each_once(wanted_workloads(options))) {
        if (workload == "x264") plan.x264 = true;
        for (const auto &set : case_sets()) {
            if (workload != set.workload) continue;
            for (const auto &name : chosen_names(set, options)) {
                for (unsigned workers : each_once(worker_counts(workload, name, options))) {
                    Heat heat = heat_make(set, name, workers, options);
                    heat_fill(heat, options, entrants, plan);
                    if (!heat.entrants.empty()) plan.heats.push_back(heat);
                }
            }
        }
    }
    check_runs(plan, options);
    for (size_t i = 0; i < plan.heats.size(); i++) {
        plan.heats[i].position = std::to_string(i + 1) + "/" + std::to_string(plan.heats.size());
    }
    return plan;
}

std::vector<std::pair<std::string, std::string>> workload_list() {
    std::vector<std::pair<std::string, std::string>> list;
    for (const auto &set : case_sets()) {
        std::string cases;
        for (const auto &name : set.names) cases += (cases.empty() ? "" : " | ") + name;
        list.emplace_back(set.workload, std::string(set.text) + " [" + cases + "]");
    }
    list.emplace_back("x264", "the real encoder on real clips, with its own pool and with weft");
    list.emplace_back("alloc", "all of alloc-*");
    list.emplace_back("patterns", "fib, nqueens, uts, the loops and graph");
    list.emplace_back("coliseum", "fib19, fib19x1-3 and fib17-19");
    return list;
}
