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
    if (!options.verbose) words.push_back("--verdicts");
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

// How weft's rows stand beside the encoder's own pool, or the control of two workers, by the name of the ratio to it.
static std::string standing(const std::vector<std::string> &rows, const char *other, const std::string &ratio_name) {
    std::map<std::string, int> counts;
    int all = 0;
    for (const auto &text : rows) {
        ordered_json row = ordered_json::parse(text);
        if (row.value("pool", "") != "weft" || !row.contains(ratio_name + "_verdict")) continue;
        counts[row.value(ratio_name + "_verdict", "")]++;
        all++;
    }
    if (all == 0) return "";
    std::string out = std::string("beside ") + other + ", ahead in " + std::to_string(counts["first"]) + " of " +
                      std::to_string(all) + " rows";
    for (const char *verdict : {"level", "undecided", "behind"})
        out += std::string(", ") + verdict + " in " + std::to_string(counts[verdict]);
    return out;
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
    for (const std::string &text : {standing(results.x264_rows, "stock", "ratio_to_stock"),
                                    standing(results.x264_rows, "the control of two workers", "ratio_to_control")})
        if (!text.empty()) results.x264_standings.push_back(text);
    if (status == 0 || interrupted()) return;
    results.x264_failed = true;
    results.x264_reason = "FAILED: see above";
}
