// The race's result as JSON, and the x264 rows read from one.
#include "race.hpp"

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

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
    return json;
}

ordered_json x264_json(const X264Row &row) {
    ordered_json json = {{"workload", "x264"}, {"clip", row.clip}, {"mode", row.mode}};
    json["threads"] = row.threads;
    json["pool"] = row.pool;
    json["fps"] = number(row.fps);
    json["context_switches_per_frame"] = number(row.switches_per_frame);
    json["cpu_percent"] = number(row.cpu_percent);
    json["identical"] = row.identical ? ordered_json(*row.identical) : ordered_json(nullptr);
    return json;
}

ordered_json machine_json(const Machine &machine) {
    return {{"cpu", machine.cpu},
            {"cpus", machine.cpus},
            {"memory_bytes", machine.memory_bytes},
            {"kernel", machine.kernel},
            {"event_counters", machine.hardware ? ordered_json(true) : ordered_json("not available")}};
}

ordered_json summary_json(const Results &results) {
    ordered_json json = {{"first", 0}, {"rows", results.standings.size()}, {"loses", ordered_json::array()}};
    for (const auto &standing : results.standings) {
        if (standing.first()) {
            json["first"] = json["first"].get<int>() + 1;
            continue;
        }
        json["loses"].push_back({{"workload", standing.workload},
                                 {"case", standing.name},
                                 {"workers", standing.workers},
                                 {"pool", standing.ours},
                                 {"best_peer", standing.best_peer},
                                 {"ratio", standing.ratio}});
    }
    return json;
}

Figure figure(const nlohmann::json &row, const char *key) {
    auto found = row.find(key);
    return found != row.end() && found->is_number() ? Figure(found->get<double>()) : std::nullopt;
}

X264Row x264_row(const nlohmann::json &json) {
    X264Row row;
    row.clip = json.value("clip", "");
    row.mode = json.value("mode", "");
    row.pool = json.value("pool", "");
    row.threads = json.value("threads", 0);
    row.fps = figure(json, "fps");
    row.switches_per_frame = figure(json, "context_switches_per_frame");
    row.cpu_percent = figure(json, "cpu_percent");
    auto same = json.find("identical");
    if (same != json.end() && same->is_boolean()) row.identical = same->get<bool>();
    return row;
}

// The rows of a file that is a list of rows or has one as "rows".
void x264_read(const std::string &file, Results &results) {
    std::ifstream input(file);
    nlohmann::json all = nlohmann::json::parse(input, nullptr, false);
    if (all.is_object() && all.contains("rows")) all = nlohmann::json(all["rows"]);
    if (!all.is_array()) return;
    for (const auto &row : all) {
        if (row.is_object()) results.x264.push_back(x264_row(row));
    }
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
    for (const auto &row : results.x264) json["rows"].push_back(x264_json(row));
    if (!results.x264_reason.empty()) json["x264_not_run"] = results.x264_reason;
    json["summary"] = summary_json(results);
    std::ofstream output(file);
    output << std::setw(1) << json << "\n";
    if (!output.flush()) throw std::runtime_error("cannot write " + file);
}

void x264_run(const Options &options, Results &results) {
    const char *script = WEFT_X264_RACE;
    if (access(script, X_OK) != 0) {
        results.x264_reason = "no x264 runner beside this build";
        return;
    }
    char file[] = "/tmp/weft-x264-XXXXXX";
    int fd = mkstemp(file);
    if (fd < 0) {
        results.x264_reason = "no temporary file";
        return;
    }
    close(fd);
    fflush(stdout);
    std::string command = std::string("'") + script + "' --json " + file + (options.full ? "" : " --quick");
    int status = system(command.c_str());
    x264_read(file, results);
    unlink(file);
    if (results.x264.empty()) {
        results.x264_reason = "its runner " + (WIFEXITED(status) ? "ended with status " + std::to_string(WEXITSTATUS(status))
                                                                 : std::string("was ended by a signal"));
    }
}
