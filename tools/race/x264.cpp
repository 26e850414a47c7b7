// The x264 part of the race: its runner is a script of its own, which prints a table; its rows join the race's JSON.
#include "race.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

using nlohmann::ordered_json;

// The runner's exit status, negative when there is none. A signal to the race is passed on.
static int runner_run(const Options &options, const char *json_file) {
    std::vector<const char *> words = {WEFT_X264_RACE, "--json", json_file, options.full ? "--full" : "--quick"};
    if (access(WEFT_STATIC_LIBRARY, R_OK) == 0) words.insert(words.end(), {"--library", WEFT_STATIC_LIBRARY});
    words.push_back(nullptr);
    pid_t runner = fork();
    if (runner == 0) {
        execv(words[0], const_cast<char **>(words.data()));
        _exit(127);
    }
    int status = -1;
    while (runner > 0 && waitpid(runner, &status, 0) < 0 && errno == EINTR) kill(runner, SIGINT);
    return runner > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// {"rows": [...], "reason": null or text}
static void runner_read(const char *file, Results &results) {
    std::ifstream input(file);
    ordered_json all = ordered_json::parse(input, nullptr, false);
    if (!all.is_object()) return;
    if (all.contains("reason") && all["reason"].is_string())
        results.x264_reason = "not run: " + all["reason"].get<std::string>();
    for (const auto &row : all.value("rows", ordered_json::array())) {
        ordered_json with_name = {{"workload", "x264"}};
        with_name.update(row);
        results.x264_rows.push_back(with_name.dump());
    }
}

// "clip mode threads: ratio" of a row, as the runner's JSON has it.
static std::string row_text(const ordered_json &row, double ratio) {
    char figures[64];
    snprintf(figures, sizeof figures, " %d threads, %d CPUs: %.3f", row.value("threads", 0), row.value("cpus", 0), ratio);
    std::string lookahead =
        row.contains("lookahead_threads") && row["lookahead_threads"].is_number() ? ", serial lookahead" : "";
    return row.value("clip", "") + " " + row.value("mode", "") + lookahead + figures;
}

// Where weft stands beside the encoder's own pool.
static std::string standing(const std::vector<std::string> &rows) {
    constexpr double level = 0.99; // from here on it is called even
    size_t all = 0, held = 0;
    std::string below;
    for (const auto &text : rows) {
        ordered_json row = ordered_json::parse(text);
        if (row.value("pool", "") != "weft" || !row.contains("ratio_to_stock")) continue;
        double ratio = row.value("ratio_to_stock", 0.0);
        all++;
        if (ratio >= level)
            held++;
        else
            below += "\n  " + row_text(row, ratio);
    }
    if (all == 0) return "";
    return "weft at or above 0.99 of stock's fps in " + std::to_string(held) + " of " + std::to_string(all) +
           (below.empty() ? " rows" : " rows; below:") + below;
}

void x264_run(const Options &options, Results &results) {
    char file[] = "/tmp/weft-x264-XXXXXX";
    int fd = access(WEFT_X264_RACE, X_OK) == 0 ? mkstemp(file) : -1;
    if (fd < 0) {
        results.x264_reason = "not run: there is no scripts/x264-race, or no temporary file";
        return;
    }
    close(fd);
    printf("\nx264\n");
    fflush(stdout);
    int status = runner_run(options, file);
    runner_read(file, results);
    unlink(file);
    results.x264_standing = standing(results.x264_rows);
    if (status == 0 || interrupted()) return;
    results.x264_failed = true;
    results.x264_reason = "FAILED: see above";
}
