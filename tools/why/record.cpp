// See record.hpp.
#include "perf.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

std::vector<uint32_t> numbers_in(const std::string &directory) {
    std::vector<uint32_t> numbers;
    DIR *open = opendir(directory.c_str());
    if (open == nullptr) return numbers;
    while (const dirent *entry = readdir(open))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            numbers.push_back(static_cast<uint32_t>(strtoul(entry->d_name, nullptr, 10)));
    closedir(open);
    return numbers;
}

std::string line_of(const std::string &file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

// ---- the quota

// The cpu.stat files of the process's cgroup and those above it.
std::vector<std::string> stats_of(pid_t pid) {
    std::vector<std::string> files;
    std::ifstream groups("/proc/" + std::to_string(pid) + "/cgroup");
    for (std::string line; std::getline(groups, line);) {
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
        bool is_new = controllers == ",,";
        if (!is_new && controllers.find(",cpu,") == std::string::npos) continue;
        std::ifstream mounts("/proc/self/mounts");
        for (std::string device, where, type, options, rest;
             mounts >> device >> where >> type >> options && std::getline(mounts, rest);) {
            bool fits =
                is_new ? type == "cgroup2" : type == "cgroup" && ("," + options + ",").find(",cpu,") != std::string::npos;
            if (!fits) continue;
            for (std::string at = path; at.size() > 1; at = at.substr(0, at.rfind('/')))
                files.push_back(where + at + "/cpu.stat");
            files.push_back(where + "/cpu.stat"); // of a container that sees its own cgroup as the root
        }
    }
    return files;
}

uint64_t throttled_ns(const std::vector<std::string> &files) {
    uint64_t sum = 0;
    for (const std::string &file : files) {
        std::ifstream in(file);
        std::string name;
        for (uint64_t value; in >> name >> value;) {
            if (name == "throttled_time") sum += value;
            if (name == "throttled_usec") sum += 1000 * value;
        }
    }
    return sum;
}

// ---- without perf_event_open: what /proc tells of each thread, again and again

class Proc {
    struct Seen {
        uint64_t when, ran, waited;
    };
    std::map<uint32_t, Seen> last;

  public:
    void look(pid_t pid, Record &record) {
        std::string directory = "/proc/" + std::to_string(pid) + "/task/";
        for (uint32_t tid : numbers_in(directory)) {
            Seen seen{};
            std::istringstream in(line_of(directory + std::to_string(tid) + "/schedstat"));
            if (!(in >> seen.ran >> seen.waited)) continue; // it has ended since it was listed
            seen.when = now_ns();
            auto before = last.find(tid);
            if (before != last.end()) note(before->second, seen, record.away[tid]);
            last[tid] = seen;
        }
    }

  private:
    // When within the interval it was away is unknown: the end is assumed.
    static void note(const Seen &before, const Seen &now, std::vector<Away> &away) {
        uint64_t span = now.when - before.when, waited = std::min(now.waited - before.waited, span);
        uint64_t ran = std::min(now.ran - before.ran, span - waited);
        if (waited > span / 10)
            away.push_back({now.when - waited, now.when, true, 0});
        else if (ran < span / 10)
            join(away, before.when, now.when);
    }
    static void join(std::vector<Away> &away, uint64_t from, uint64_t until) {
        if (!away.empty() && !away.back().is_ready && away.back().until == from)
            away.back().until = until;
        else
            away.push_back({from, until, false, 0});
    }
};

// ---- the program

pid_t start(const std::vector<std::string> &command, const std::string &timeline, const int (&go)[2], Signals &signals) {
    pid_t child = fork();
    if (child < 0) throw std::runtime_error(std::string("fork: ") + strerror(errno));
    if (child > 0) return child;
    char byte;
    signals.undo();
    close(go[1]);                               // else it would wait for ever for a parent that has died
    if (read(go[0], &byte, 1) != 1) _exit(127); // it is not to start before it is watched
    setenv("WEFT_TRACE", timeline.c_str(), 1);
    std::vector<char *> words;
    words.reserve(command.size() + 1);
    for (const std::string &word : command) words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    fprintf(stderr, "weft: %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

// Until the program has ended: its status. Notes when it was stopped.
int watch_stops(pid_t child, Record &record) {
    for (int status;;) {
        if (waitpid(child, &status, WUNTRACED | WCONTINUED) < 0) {
            if (errno == EINTR) continue;
            throw std::runtime_error(std::string("waitpid: ") + strerror(errno));
        }
        if (WIFSTOPPED(status)) record.stops.push_back({now_ns(), UINT64_MAX});
        bool is_known = !record.stops.empty() && record.stops.back().until == UINT64_MAX;
        if (WIFCONTINUED(status) && !is_known) record.stops.push_back({now_ns(), UINT64_MAX}); // when, is told by `gaps`
        if (WIFCONTINUED(status)) record.stops.back().until = now_ns();
        if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
    }
}

void names_of_all(Record &record) {
    for (uint32_t pid : numbers_in("/proc")) {
        std::string name = line_of("/proc/" + std::to_string(pid) + "/comm");
        record.names.emplace(pid, name);
        record.process.emplace(pid, pid);
    }
}

constexpr uint64_t late_ns = 1000000000; // so late at most does this process see a stop afterwards

// While this process was itself stopped it could not see the program stop: the program's stop began when the gap did.
void widen_stops(std::vector<Span> &stops, const std::vector<Span> &gaps) {
    for (const Span &gap : gaps)
        for (Span &stop : stops)
            if (stop.from > gap.from && stop.from < gap.until + late_ns) {
                stop.from = gap.from;
                break;
            }
}

// This process may have got no CPU when it was told of a stop, or of its end; but it was woken then.
void date_stops(std::vector<Span> &stops, const Perf &perf, uint32_t watcher) {
    uint64_t before = 0;
    for (Span &stop : stops) {
        uint64_t from = perf.woken_before(watcher, stop.from), until = perf.woken_before(watcher, stop.until);
        if (from > before) stop.from = from;
        if (until > stop.from) stop.until = until;
        before = stop.until;
    }
}

void watch(pid_t child, Perf *perf, const std::atomic<bool> &ends, Record &record, std::vector<Span> &gaps) {
    uint64_t before = now_ns(), now;
    Span longest = {before, before}; // of the last turns
    uint32_t continued = Signals::continued();
    constexpr unsigned every_us = 1000, groups_every = 20;
    std::vector<std::string> files;
    Proc proc;
    for (unsigned turn = 0; !ends; turn++, before = now) {
        uint32_t seen = Signals::continued();
        now = now_ns(); // the stop may have come before the last look at the clock
        if (now - before >= longest.until - longest.from || now - longest.until > late_ns) longest = {before, now};
        // Another thread counts the signal, perhaps only some turns after the one that the stop made long.
        if (seen != continued) gaps.push_back({longest.from, now});
        continued = seen;
        if (turn % groups_every == 0) files = stats_of(child);
        if (!files.empty()) record.throttles.push_back({now, throttled_ns(files)});
        if (perf != nullptr)
            perf->drain();
        else
            proc.look(child, record);
        usleep(every_us);
    }
}

} // namespace

int record_run(const RunOptions &options, Signals &signals, Record &record) {
    int go[2];
    if (pipe2(go, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + strerror(errno));
    pid_t child = start(options.command, options.timeline, go, signals);
    std::unique_ptr<Perf> perf;
    std::string refused;
    for (bool all : {true, false}) {
        bool is_wanted = options.source == Source::best || options.source == (all ? Source::all : Source::own);
        if (!is_wanted || perf) continue;
        perf = std::make_unique<Perf>(&record);
        refused = perf->open(child, all);
        if (!refused.empty()) perf.reset();
    }
    if (!perf)
        record.source = "/proc/PID/task/TID/schedstat, each millisecond" +
                        (refused.empty() ? "" : " (perf_event_open: " + refused + ")");
    names_of_all(record);
    std::atomic<bool> ends{false};
    std::vector<Span> gaps;
    std::thread watcher([&] { watch(child, perf.get(), ends, record, gaps); });
    bool went = write(go[1], "", 1) == 1;
    Signals::pass_to(child);
    int status = watch_stops(child, record);
    Signals::pass_to(0);
    ends = true;
    watcher.join();
    close(go[0]);
    close(go[1]);
    if (!went) throw std::runtime_error("the program was not started");
    names_of_all(record);
    if (perf) {
        perf->drain();
        perf->finish();
        date_stops(record.stops, *perf, static_cast<uint32_t>(getpid()));
    }
    widen_stops(record.stops, gaps);
    return status;
}
