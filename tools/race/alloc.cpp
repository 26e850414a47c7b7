// See alloc.hpp.
#include "alloc.hpp"

#include "../../bench/alloc.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr uint64_t ms = 1000000;

std::string resolved(const std::string &file) {
    char path[PATH_MAX];
    return realpath(file.c_str(), path) == nullptr ? file : path;
}

std::string base(const std::string &file) { return file.substr(file.rfind('/') + 1); }

// What serves malloc in a process with that library preloaded.
std::string server_of(const std::string &file) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_t child = fork();
    if (child == 0) {
        alarm(load_limit_s); // its constructors may never return
        allocator_preload(file);
        dup2(ends[1], STDOUT_FILENO);
        close(STDERR_FILENO); // a library that cannot be preloaded is told in other words
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "weft", "race-malloc", nullptr);
        _exit(127);
    }
    close(ends[1]);
    std::string text;
    char part[256];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
    close(ends[0]);
    if (child > 0) waitpid(child, nullptr, 0);
    return text;
}

bool serves(const std::string &file, const std::string &server) {
    if (file == alloc_libc)
        return base(server).compare(0, 4, "libc") == 0 && base(server).find("alloc") == std::string::npos;
    return server == resolved(file);
}

Entrant allocator(const std::string &name, const std::string &file, uint32_t flags) {
    Entrant found;
    found.name = name;
    found.is_allocator = true;
    found.flags = flags;
    if (file != alloc_libc && access(file.c_str(), R_OK) != 0) {
        found.reason = file + " cannot be read";
        return found;
    }
    found.text = file == alloc_libc ? "glibc's own allocator" : "allocator, " + file;
    found.file = file;
    std::string server = server_of(file);
    if (serves(file, server)) return found;
    found.file.clear();
    found.reason = server.empty() ? "a process that preloads it does not run" : "preloaded, it leaves malloc to " + server;
    return found;
}

Entrant listed(const std::string &line, const std::string &dir) {
    size_t first = line.find('\t'), second = line.find('\t', first + 1);
    std::string name = line.substr(0, first), file = line.substr(first + 1, second - first - 1);
    if (file == "-") {
        Entrant missing;
        missing.name = name;
        missing.is_allocator = true;
        missing.reason = line.substr(second + 1);
        return missing;
    }
    bool is_path = file == alloc_libc || file[0] == '/';
    return allocator(name, is_path ? file : resolved(dir + "/" + file), name == "weft" ? uint32_t{ENTRANT_OURS} : 0);
}

} // namespace

bool alloc_is(const std::string &workload) { return workload.compare(0, 6, "alloc-") == 0; }

const std::vector<CaseSet> &alloc_case_sets() {
    static const std::vector<CaseSet> sets = {
        {"alloc-mixed",
         "allocators: random blocks of a live set freed and replaced",
         {"16..1024, 4096 live", "16..1024, 256 live", "16..1024, 65536 live", "16..256, 4096 live", "16..256, 256 live",
          "16..256, 65536 live"},
         4000000,
         20 * ms,
         1},
        {"alloc-hot", "allocators: 16 bytes again and again", {"16, depth 1", "16, depth 64"}, 4000000, 10 * ms, 2},
        {"alloc-cold",
         "allocators: 65536 blocks at once and freed; a thread with 100 blocks",
         {"burst", "short-thread"},
         65536,
         20 * ms,
         1},
        {"alloc-middle",
         "allocators: alloc-mixed with larger blocks",
         {"1024..32768, 1024 live", "32768..262144, 64 live"},
         4000000,
         20 * ms,
         1},
        {"alloc-remote",
         "allocators: made on one thread, freed on another",
         {"128, one way", "128, both ways", "48, one way", "48, both ways", "512, one way", "512, both ways",
          "128, one way, filled", "512, one way, filled", "512, both ways, filled"},
         1000000,
         20 * ms,
         2},
        {"alloc-memory",
         "allocators: resident for each byte that is (or was) live",
         {"thread-only-frees", "tiny", "freed", "freed-trim", "freed-1s", "20-threads-exited"},
         32u << 20,
         0,
         2,
         "task",
         2000,
         0,
         6},
    };
    return sets;
}

std::vector<unsigned> alloc_worker_counts(const std::string &workload, const Options &options) {
    if (workload == "alloc-remote") return {2};
    if (workload != "alloc-mixed") return {1};
    return options.workers.empty() ? std::vector<unsigned>{1, 2} : options.workers;
}

uint64_t alloc_unit(const Heat &heat) {
    if (heat.workload == "alloc-memory") return 4u << 20;
    if (heat.workload == "alloc-remote") return 128;
    if (heat.workload == "alloc-hot") return 64;
    return heat.workload == "alloc-cold" ? 1 : uint64_t{2} * heat.workers;
}

const char *alloc_note(const std::string &workload) {
    if (workload == "alloc-mixed" || workload == "alloc-middle") return "a task is one malloc or one free";
    if (workload == "alloc-cold") return "a task is a malloc and its free, or a thread";
    if (workload == "alloc-memory")
        return "a task is a live byte; ratio is of resident bytes for each (B/task), not of time";
    return "a task is a malloc and its free";
}

std::vector<Entrant> allocators_find(const std::string &dir) {
    std::vector<Entrant> all;
    std::ifstream list(dir + "/allocators.txt");
    for (std::string line; std::getline(list, line);) {
        if (std::count(line.begin(), line.end(), '\t') == 2) all.push_back(listed(line, dir));
    }
    return all;
}

Entrant allocator_peer(const std::string &file, const std::vector<Entrant> &others) {
    std::string name = base(file);
    name = name.substr(0, name.find(".so"));
    if (name.compare(0, 3, "lib") == 0) name = name.substr(3);
    auto taken = [&name](const Entrant &other) { return other.name == name; };
    while (std::any_of(others.begin(), others.end(), taken)) name += "-peer";
    return allocator(name, resolved(file), 0);
}

void allocator_preload(const std::string &file) {
    if (file == alloc_libc)
        unsetenv("LD_PRELOAD");
    else
        setenv("LD_PRELOAD", file.c_str(), 1);
}

void allocator_require(const std::string &file) {
    std::string server = alloc_library();
    if (!serves(file, server)) throw std::runtime_error("malloc is served by " + server);
}

int race_malloc() {
    std::string server = alloc_library();
    return write_all(STDOUT_FILENO, server.data(), server.size()) ? 0 : 1;
}
