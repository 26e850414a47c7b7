// weft simulate: the order of things.
#include "simulate.hpp"
#include "workload.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace {

std::vector<std::string> workloads_of(const SimulateOptions &options) {
    if (!options.workloads.empty()) return options.workloads;
    std::vector<std::string> all;
    for (const struct workload *one = workloads; one->name != nullptr; one++) all.emplace_back(one->name);
    return all;
}

std::vector<unsigned> workers_of(const SimulateOptions &options, const SimulatedMachine &machine) {
    if (!options.workers.empty()) return options.workers;
    std::vector<unsigned> all;
    for (unsigned workers = 1; workers < machine.cpus; workers *= 2) all.push_back(workers);
    all.push_back(std::min(machine.cpus, WEFT_WORKERS_MAX));
    return all;
}

// What --set says of the machine. The engine gets the same words, and refuses those that are wrong.
void machine_change(SimulatedMachine &machine, const std::vector<std::string> &settings) {
    for (const auto &word : settings) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) continue;
        char *end = nullptr;
        const double value = strtod(word.c_str() + equals + 1, &end);
        if (!std::isfinite(value) || *end != 0) continue;
        const std::string name = word.substr(0, equals);
        auto is_it = [&](const auto &one) { return one.first == name; };
        auto at = std::find_if(machine.values.begin(), machine.values.end(), is_it);
        if (at != machine.values.end()) at->second = value;
        if (name == "cpus" && value >= 1 && value < 100000) machine.cpus = static_cast<unsigned>(value);
    }
}

void list() {
    for (const struct workload *one = workloads; one->name != nullptr; one++) printf("%-10s  %s\n", one->name, one->about);
}

void require_known(const std::vector<std::string> &names) {
    for (const auto &name : names)
        if (workload_find(name.c_str()) == nullptr)
            throw std::invalid_argument("there is no workload " + name + "; --list shows them");
}

int run(const SimulateOptions &options) {
    SimulatedMachine machine = machine_load(options.machine);
    machine_change(machine, options.settings);
    std::vector<std::string> names = workloads_of(options);
    std::vector<SimulatedRow> rows;
    require_known(names);
    simulate_table_head(options, machine);
    for (const auto &name : names) {
        for (unsigned workers : workers_of(options, machine)) {
            rows.push_back(simulate_run(options, machine, name, workers));
            if (options.real && rows.back().error.empty()) real_run(options, rows.back());
            simulate_table_row(options, rows.back());
        }
    }
    if (!options.json_file.empty()) simulate_json_write(options, machine, rows);
    if (!options.plot_file.empty()) simulate_plot_write(options, machine, rows);
    return std::all_of(rows.begin(), rows.end(), [](const SimulatedRow &row) { return row.error.empty(); }) ? 0 : 1;
}

} // namespace

int simulate_main(const SimulateOptions &options) {
    if (options.list) {
        list();
        return 0;
    }
    try {
        return run(options);
    } catch (const std::invalid_argument &wrong) {
        fprintf(stderr, "weft simulate: %s\n", wrong.what());
        return 2;
    }
}
