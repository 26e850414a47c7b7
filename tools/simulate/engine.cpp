// The engine's process: one for each run, so that each begins with the same memory, and a failure of one is a row's.
#include "simulate.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using nlohmann::json;

namespace {

constexpr rlim_t cpu_seconds_max = 900; // a run that loops for ever ends

std::string beside_this(const char *name) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    std::string self(path, length > 0 ? static_cast<size_t>(length) : 0);
    return self.substr(0, self.rfind('/') + 1) + name;
}

struct Output {
    std::string out, err;
    int status = 0;
};

[[noreturn]] void child(const std::vector<std::string> &words, const int *out, const int *err) {
    std::vector<char *> argv;
    argv.reserve(words.size() + 1);
    for (const auto &word : words) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    rlimit limit{cpu_seconds_max, cpu_seconds_max};
    setrlimit(RLIMIT_CPU, &limit);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (int end : {out[0], out[1], err[0], err[1]}) close(end);
    execvp(argv[0], argv.data());
    _exit(127);
}

std::string read_all(int from) {
    std::string text;
    char part[65536];
    for (ssize_t got; (got = read(from, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
    close(from);
    return text;
}

// What a program prints. Its words to standard error are few: they fit a pipe while its output is read.
Output capture(const std::vector<std::string> &words) {
    int out[2], err[2];
    if (pipe(out) != 0) throw std::runtime_error("no pipe to be had");
    if (pipe(err) != 0) throw std::runtime_error("no pipe to be had");
    pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("no process to be had");
    if (pid == 0) child(words, out, err);
    close(out[1]);
    close(err[1]);
    Output output;
    output.out = read_all(out[0]);
    output.err = read_all(err[0]);
    while (waitpid(pid, &output.status, 0) < 0 && errno == EINTR) {}
    return output;
}

std::string failure_of(const Output &output) {
    if (WIFSIGNALED(output.status)) return std::string("the engine was ended by ") + strsignal(WTERMSIG(output.status));
    if (WEXITSTATUS(output.status) == 127) return "weft-simulate is not in the directory of this program";
    std::string text = output.err.substr(0, output.err.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
}

std::string short_place(const std::string &place) {
    std::string path = "/" + place; // the sources may be named from their root
    size_t at = path.rfind("/src/");
    return at == std::string::npos ? path.substr(path.rfind('/') + 1) : path.substr(at + 5);
}

// Lines of code addresses, as file:line; by binutils, which come with any compiler.
std::map<std::string, std::string> places_of(const std::string &engine, const std::vector<std::string> &codes) {
    std::map<std::string, std::string> places;
    if (codes.empty()) return places;
    std::vector<std::string> words = {"addr2line", "-e", engine};
    for (const auto &code : codes) {
        char before[32]; // the call stands before the address that it returns to
        snprintf(before, sizeof before, "%#llx", strtoull(code.c_str(), nullptr, 16) - 1);
        words.emplace_back(before);
    }
    std::string text = capture(words).out;
    size_t at = 0;
    for (const auto &code : codes) {
        size_t end = text.find('\n', at);
        if (end == std::string::npos) break;
        std::string place = text.substr(at, end - at);
        places[code] = short_place(place.substr(0, place.find(" (")));
        at = end + 1;
    }
    return places;
}

void add_line(std::map<std::string, CostLine> &all, const std::string &place, const json &site) {
    CostLine &line = all[place];
    double ns = site["ns"];
    line.place = place;
    std::string kind = site["kind"];
    if (line.kind.find(kind) == std::string::npos) line.kind += (line.kind.empty() ? "" : "+") + kind;
    line.ns += ns;
    line.count += site["count"].get<uint64_t>();
    line.moved += site["moved"].get<uint64_t>();
    line.failed += site["failed"].get<uint64_t>();
}

std::vector<CostLine> lines_of(const std::string &engine, const json &sites) {
    std::vector<std::string> codes;
    for (const auto &site : sites)
        if (site.contains("code")) codes.push_back(site["code"]);
    auto places = places_of(engine, codes);
    std::map<std::string, CostLine> all;
    for (const auto &site : sites) {
        std::string place = site.contains("code")
                                ? places[site["code"]]
                                : short_place(site["file"]) + ":" + std::to_string(site["line"].get<int>());
        add_line(all, place.empty() ? site["code"].get<std::string>() : place, site);
    }
    std::vector<CostLine> lines;
    lines.reserve(all.size());
    for (const auto &[place, line] : all) lines.push_back(line);
    std::stable_sort(lines.begin(), lines.end(), [](const CostLine &a, const CostLine &b) { return a.ns > b.ns; });
    return lines;
}

void read_row(SimulatedRow &row, const json &found) {
    const std::pair<const char *, double *> fields[] = {{"tasks", &row.tasks},
                                                        {"work_ns", &row.work_ns},
                                                        {"elapsed_ns", &row.elapsed_ns},
                                                        {"ideal_ns", &row.ideal_ns},
                                                        {"worst_ns", &row.worst_ns},
                                                        {"cpu_ns", &row.cpu_ns},
                                                        {"waits", &row.waits},
                                                        {"wait_p50_ns", &row.wait_p50_ns},
                                                        {"wait_p99_ns", &row.wait_p99_ns},
                                                        {"claims", &row.claims},
                                                        {"steals", &row.steals},
                                                        {"cas", &row.cas},
                                                        {"cas_failed", &row.cas_failed},
                                                        {"rmws", &row.rmws},
                                                        {"pauses", &row.pauses},
                                                        {"transfers", &row.transfers},
                                                        {"sleeps", &row.sleeps},
                                                        {"wakes", &row.wakes},
                                                        {"preemptions", &row.preemptions},
                                                        {"revoked", &row.revoked},
                                                        {"helped", &row.helped},
                                                        {"wakes_in_vain", &row.wakes_in_vain}};
    for (const auto &[name, value] : fields) *value = found.at(name);
}

std::string setting(const char *name, uint64_t value) { return std::string(name) + "=" + std::to_string(value); }

} // namespace

SimulatedRow simulate_run(const SimulateOptions &options, const SimulatedMachine &machine, const std::string &workload,
                          unsigned workers) {
    SimulatedRow row;
    row.workload = workload;
    row.workers = workers;
    std::string engine = beside_this("weft-simulate");
    std::vector<std::string> words = {engine, workload, std::to_string(workers)};
    for (const auto &[name, value] : machine.values) {
        words.push_back(name);
        words.back().append("=").append(json(value).dump());
    }
    words.push_back(setting("seed", options.seed));
    words.push_back(setting("rounds", options.rounds));
    if (options.tasks != 0) words.push_back(setting("tasks", options.tasks));
    if (options.task_ns != 0) words.push_back(setting("task_ns", options.task_ns));
    if (options.submitters != 0) words.push_back(setting("submitters", options.submitters));
    if (!options.plant.empty()) words.push_back("plant=" + options.plant);
    words.insert(words.end(), options.settings.begin(), options.settings.end());
    Output output = capture(words);
    if (!WIFEXITED(output.status) || WEXITSTATUS(output.status) != 0) {
        row.error = failure_of(output);
        return row;
    }
    json found = json::parse(output.out);
    read_row(row, found);
    row.lines = lines_of(engine, found["lines"]);
    return row;
}

// {"name": ..., "about": ..., and the engine's values by name}
SimulatedMachine machine_load(const std::string &name) {
    std::string file = name;
    if (name.find('/') == std::string::npos && name.find('.') == std::string::npos)
        file = std::string(WEFT_MACHINES) + "/" + name + ".json";
    std::ifstream in(file);
    bool is_beside = !in && file != name && std::ifstream(name).good();
    if (is_beside) throw std::invalid_argument("there is no machine " + name + "; for the file, write ./" + name);
    if (!in) throw std::invalid_argument("cannot read the machine " + file);
    json found = json::parse(in, nullptr, false);
    if (!found.is_object()) throw std::invalid_argument(file + " is no JSON object");
    SimulatedMachine machine;
    machine.name = name;
    for (const auto &[key, value] : found.items()) {
        if (key == "name" && value.is_string())
            machine.name = value;
        else if (key == "about" && value.is_string())
            machine.about = value;
        else if (value.is_number())
            machine.values.emplace_back(key, value.get<double>());
        else
            throw std::invalid_argument(std::string(file).append(": ").append(key).append(" is no number"));
        if (key == "cpus" && value.is_number() && value > 0 && value < 100000) machine.cpus = value;
    }
    if (machine.cpus == 0) throw std::invalid_argument(file + " does not say how many cpus there are");
    return machine;
}
