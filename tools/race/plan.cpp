// Which cases run, with whom, how long.
#include "alloc.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace {

constexpr uint64_t million = 1u << 20;
constexpr uint64_t ms = 1000000;
constexpr unsigned rounds_default = 7;

std::vector<CaseSet> case_sets_make() {
    std::vector<CaseSet> sets = {
        {"submit",
         "500,000 jobs with an int, from one outside thread; a counter per worker, and one shared by all",
         {"int", "shared-counter"},
         500000,
         50 * ms},
        {"payload", "the same with payloads of 4 to 1024 bytes", {"4", "48", "64", "328", "416", "1024"}, 500000, 25 * ms},
        {"fib19", "the coliseum: 2^20 tasks of fib(19)", {"independent"}, million, 100 * ms},
        {"fib19x1-3", "the coliseum: 2^20 tasks of one to three times fib(19)", {"independent"}, million, 100 * ms},
        {"fib17-19", "the coliseum: 2^20 tasks of fib(17) to fib(19)", {"independent"}, million, 100 * ms},
        {"handoff", "one producer, one consumer", {"spinning", "blocking"}, 4000000, 100 * ms},
        {"frame", "4096 children of one root per frame", {"4096-children"}, million, 50 * ms},
        {"x264-shape", "the five steps of a sliced encoder's frame; its tails outlive the call", {"sliced"}, 512, 60 * ms},
    };
    sets.insert(sets.end(), alloc_case_sets().begin(), alloc_case_sets().end());
    return sets;
}

const std::vector<CaseSet> &case_sets() {
    static const std::vector<CaseSet> sets = case_sets_make();
    return sets;
}

const std::vector<std::string> coliseum = {"fib19", "fib19x1-3", "fib17-19"};

std::vector<std::string> wanted_workloads(const Options &options) {
    std::vector<std::string> all;
    for (const auto &set : case_sets()) all.push_back(set.workload);
    // Who asks for some pools, worker counts or tasks does not mean the encoder.
    bool everything = options.workloads.empty() && options.pools.empty() && options.workers.empty() && options.tasks == 0;
    if (everything || !options.workloads.empty()) all.push_back("x264");
    if (options.workloads.empty()) return all;
    std::vector<std::string> wanted;
    for (const auto &name : options.workloads) {
        if (name == "coliseum")
            wanted.insert(wanted.end(), coliseum.begin(), coliseum.end());
        else if (name == "alloc")
            for (const auto &set : alloc_case_sets()) wanted.push_back(set.workload);
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
    unsigned cpus = std::min(std::max(std::thread::hardware_concurrency(), 2u), 8u);
    if (workload == "submit" && name == "int") return {1, 2, 4, 8};
    if (options.full) return {2, 4, 8};
    if (workload == "x264-shape") return {2, 4};
    std::vector<unsigned> counts = {2};
    if (cpus != 2 && workload != "payload" && workload != "submit") counts.push_back(cpus);
    return counts;
}

// Why an entrant has no place in a heat; empty: it has one.
std::string unfit(const Entrant &entrant, const Heat &heat) {
    if (entrant.is_allocator != alloc_is(heat.workload)) return "-";
    if (!entrant.workload.empty() && entrant.workload != heat.workload) return "-";
    bool specific = heat.workload == "frame" || heat.workload == "handoff";
    bool ours = (entrant.flags & ENTRANT_OURS) != 0, baseline = entrant.name == "serial";
    if (specific && entrant.workload.empty() && !ours && !baseline) return "-";
    if (heat.workload == "handoff" && (entrant.flags & ENTRANT_CALLER_RUNS) != 0) return "-";
    if (baseline) return "";
    if (entrant.file == "static") return specific || heat.workload == "x264-shape" ? "-" : "";
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

uint64_t heat_unit(const Heat &heat) {
    if (alloc_is(heat.workload)) return alloc_unit(heat);
    if (heat.workload == "frame") return 4096;
    if (heat.workload == "x264-shape") return uint64_t{2} * heat.workers;
    return 1;
}

Heat heat_make(const CaseSet &set, const std::string &name, unsigned workers, const Options &options) {
    Heat heat;
    heat.workload = set.workload;
    heat.name = name;
    heat.workers = workers;
    heat.rounds = options.rounds != 0 ? options.rounds : rounds_default;
    heat.tasks = options.tasks != 0 ? options.tasks : set.tasks;
    heat.budget_ns = options.full || options.tasks != 0 ? 0 : set.quick_budget_ns;
    heat.unit = heat_unit(heat);
    heat.tasks = (heat.tasks + heat.unit - 1) / heat.unit * heat.unit;
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

std::vector<std::string> chosen_names(const CaseSet &set, const Options &options) {
    bool all = options.full || !options.workloads.empty() || set.names_quick == 0;
    auto end = all ? set.names.end() : set.names.begin() + static_cast<std::ptrdiff_t>(set.names_quick);
    return {set.names.begin(), end};
}

} // namespace

Plan plan_make(const Options &options, const std::vector<Entrant> &entrants) {
    check_pools(options, entrants);
    Plan plan;
    for (const auto &workload : wanted_workloads(options)) {
        if (workload == "x264") plan.x264 = true;
        for (const auto &set : case_sets()) {
            if (workload != set.workload) continue;
            for (const auto &name : chosen_names(set, options)) {
                for (unsigned workers : worker_counts(workload, name, options)) {
                    Heat heat = heat_make(set, name, workers, options);
                    heat_fill(heat, options, entrants, plan);
                    if (!heat.entrants.empty()) plan.heats.push_back(heat);
                }
            }
        }
    }
    for (size_t i = 0; i < plan.heats.size(); i++) {
        plan.heats[i].position = std::to_string(i + 1) + "/" + std::to_string(plan.heats.size());
    }
    return plan;
}

std::vector<std::pair<std::string, std::string>> workload_list() {
    std::vector<std::pair<std::string, std::string>> list;
    for (const auto &set : case_sets()) {
        std::string cases;
        for (const auto &name : set.names) cases += (cases.empty() ? "" : ", ") + name;
        list.emplace_back(set.workload, std::string(set.text) + " [" + cases + "]");
    }
    list.emplace_back("x264", "the real encoder on real clips, with its own pool and with weft");
    list.emplace_back("alloc", "all of alloc-*");
    list.emplace_back("coliseum", "fib19, fib19x1-3 and fib17-19");
    return list;
}
