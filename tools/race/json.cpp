// The race's result as JSON.
#include "race.hpp"

#include "../../bench/slot.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::ordered_json;

namespace {

ordered_json number(Figure value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

Figure sum(Figure a, Figure b) { return a && b ? Figure(*a + *b) : std::nullopt; }

ordered_json identity(const Row &row) {
    return {{"workload", row.workload}, {"case", row.name}, {"pool", row.pool}, {"workers", row.workers}};
}

ordered_json row_json(const Row &row) {
    ordered_json json = identity(row);
    json["rounds"] = row.rounds;
    json["tasks"] = row.tasks;
    json["ns_per_task"] = number(row.ns);
    json["ns_per_task_min"] = number(row.ns_min);
    json["ns_per_task_max"] = number(row.ns_max);
    json["first_round_ns_per_task"] = number(row.first_ns);
    json["cpu_ns_per_task"] = number(sum(row.user_ns, row.system_ns));
    json["context_switches_per_task"] = number(sum(row.switches_voluntary, row.switches_involuntary));
    json["allocations_per_task"] = number(sum(row.malloc_calls, row.memory_calls));
    json["futex_calls_per_task"] = number(row.futex_calls);
    json["peak_bytes"] = number(row.peak_bytes);
    json["bytes_per_task"] = number(row.bytes);
    json["efficiency"] = number(row.efficiency);
    if (row.slot) {
        json["period_us"] = slot_period_us;
        json["makespan_over_ideal_p50"] = row.slot->over_ideal_p50;
        json["makespan_over_ideal_p99"] = row.slot->over_ideal_p99;
        json["makespan_over_ideal_p999"] = row.slot->over_ideal_p999;
        json["missed_deadline_percent"] = row.slot->missed_percent;
        json["makespan_in_task_times_p50"] = row.slot->task_times_p50;
    }
    return json;
}

ordered_json details_json(const Row &row) {
    ordered_json json = identity(row);
    json["user_ns_per_task"] = number(row.user_ns);
    json["system_ns_per_task"] = number(row.system_ns);
    json["voluntary_switches_per_task"] = number(row.switches_voluntary);
    json["involuntary_switches_per_task"] = number(row.switches_involuntary);
    json["migrations_per_task"] = number(row.migrations);
    json["page_faults_per_task"] = number(row.faults);
    json["malloc_calls_per_task"] = number(row.malloc_calls);
    json["memory_system_calls_per_task"] = number(row.memory_calls);
    json["instructions_per_task"] = number(row.instructions);
    json["instructions_per_cycle"] = number(row.instructions_per_cycle);
    json["branch_miss_percent"] = number(row.branch_miss_percent);
    json["callgrind_instructions_per_task"] = number(row.callgrind_instructions);
    json["ratio_to_best_peer"] = number(row.ratio);
    json["ratio_to_serial"] = number(row.serial_ratio);
    json["idle_cpu_ms_in_2_s"] = number(row.idle_ms);
    json["other_programs_cpu_share"] = number(row.others);
    json["in_turns"] = row.in_turns;
    return json;
}

ordered_json machine_json(const Machine &machine) {
    return {{"cpu", machine.cpu},
            {"cpus", machine.cpus},
            {"memory_bytes", machine.memory_bytes},
            {"kernel", machine.kernel},
            {"load_at_start", machine.load},
            {"event_counters", machine.hardware ? ordered_json(true) : ordered_json("not available")}};
}

ordered_json summary_json(const Results &results) {
    int first = 0;
    ordered_json level = ordered_json::array(), undecided = ordered_json::array(), loses = ordered_json::array();
    for (const auto &standing : results.standings) {
        if (standing.verdict() == RaceVerdict::first) {
            first++;
            continue;
        }
        (standing.verdict() == RaceVerdict::loses   ? loses
         : standing.verdict() == RaceVerdict::level ? level
                                                    : undecided)
            .push_back({{"workload", standing.workload},
                        {"case", standing.name},
                        {"workers", standing.workers},
                        {"pool", standing.ours},
                        {"best_peer", standing.best_peer},
                        {"ratio", standing.paired.ratio},
                        {"ratio_low", standing.paired.low},
                        {"ratio_high", standing.paired.high},
                        {"in_turns", standing.in_turns},
                        {"best_outside_peer", standing.best_outside_peer},
                        {"outside_ratio", number(standing.outside_ratio)}});
    }
    return {
        {"rows", results.standings.size()}, {"first", first}, {"level", level}, {"undecided", undecided}, {"loses", loses}};
}

} // namespace

void json_write(const std::string &file, const Machine &machine, const Results &results, const Options &options,
                const Plan &plan) {
    ordered_json json;
    json["program"] = "weft race";
    json["version"] = machine.version;
    json["date"] = machine.date;
    json["machine"] = machine_json(machine);
    json["compiler"] = machine.compiler;
    json["flags"] = machine.flags;
    json["build_type"] = machine.build_type;
    json["profile"] = options.full ? "full" : "quick";
    json["interrupted"] = results.interrupted;
    json["rows"] = ordered_json::array();
    json["details"] = ordered_json::array();
    json["errors"] = ordered_json::array();
    json["not_in_the_race"] = plan.skipped;
    for (const auto &row : results.rows) {
        if (row.error.empty()) {
            json["rows"].push_back(row_json(row));
            json["details"].push_back(details_json(row));
        } else {
            ordered_json error = identity(row);
            error["error"] = row.error;
            json["errors"].push_back(error);
        }
    }
    for (const auto &row : results.x264_rows) json["rows"].push_back(ordered_json::parse(row));
    if (!results.x264_reason.empty()) json["x264"] = results.x264_reason;
    if (!results.x264_standings.empty()) json["x264_standings"] = results.x264_standings;
    json["summary"] = summary_json(results);
    std::ofstream output(file);
    // An error's text may be cut within a character.
    output << json.dump(1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
    if (!output.flush()) throw std::runtime_error("cannot write " + file);
}
