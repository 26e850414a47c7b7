// See pools.hpp.
#include "pools.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

using nlohmann::json;

namespace {

constexpr size_t bytes_max = 1 << 16; // of a file: there are some kilobytes in it
constexpr int tries = 20;             // it may be read while it is written: then it differs the next time

// Does somebody keep the file? Its pool does, also where its process's number means another one here, or none.
bool is_locked(int fd) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Whole, as it is at this moment. errno on failure.
bool read_file(const std::string &file, std::string &text, bool &is_kept) {
    text.clear();
    int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return false;
    struct stat what {};
    char part[8192];
    ssize_t got = -1;
    if (fstat(fd, &what) == 0 && S_ISREG(what.st_mode))
        while ((got = read(fd, part, sizeof part)) > 0 && text.size() + static_cast<size_t>(got) <= bytes_max)
            text.append(part, static_cast<size_t>(got));
    else
        errno = EINVAL;
    int error = got > 0 ? EFBIG : errno;
    is_kept = is_locked(fd);
    close(fd);
    errno = error;
    return got == 0;
}

// Of one writing, with every number that the table uses.
bool is_whole(const json &pool) {
    if (!pool.is_object()) return false;
    for (const char *name : {"number", "end", "process", "pool_id", "monotonic_ns", "period_ns", "running", "searching",
                             "polling", "sleeping", "waiting", "blocked", "queue_cells", "workers", "task_run_count",
                             "wake_count", "steal_count", "heap_live_bytes", "spare_started_count"})
        if (!pool.contains(name) || !pool[name].is_number_unsigned()) return false;
    for (const char *name :
         {"queued_task_count", "queued_ns_mean", "queued_ns_max", "queued_unseen_count"}) // while a timeline is recorded
        if (pool.contains(name) && !pool[name].is_number_unsigned()) return false;
    return pool["number"] == pool["end"] && pool.contains("pool") && pool["pool"].is_string();
}

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t boot_ns() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// On CLOCK_MONOTONIC, at the earliest: /proc counts from the boot on, also while the machine sleeps. 0: not known.
uint64_t started_ns(uint64_t process) {
    constexpr int field = 22, after_name = 3;
    std::string line, word;
    std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), line, '\0');
    size_t name_end = line.rfind(')'); // the name may hold anything
    if (name_end == std::string::npos) return 0;
    std::istringstream words(line.substr(name_end + 1));
    for (int i = after_name; i <= field; i++) words >> word;
    uint64_t ticks = strtoull(word.c_str(), nullptr, 10);
    uint64_t now = now_ns(), asleep_ns = boot_ns() - now; // in this order: the second clock is never behind the first
    uint64_t started = ticks * (1000000000U / static_cast<uint64_t>(sysconf(_SC_CLK_TCK)));
    return started > asleep_ns ? started - asleep_ns : 0;
}

// After a restart of the machine its clock began anew; a process that began after the last writing is another one.
bool is_seen(uint64_t process, uint64_t written) {
    bool is_there = process != 0 && process <= INT32_MAX && (kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH);
    return is_there && started_ns(process) <= written;
}

State state_of(const json &pool, bool is_kept, bool is_seen) {
    uint64_t written = pool["monotonic_ns"], now = now_ns();
    bool is_late = written > now || now - written > 4 * pool["period_ns"].get<uint64_t>() + 1000000000U;
    if (!is_seen) return is_kept && !is_late ? State::live : State::gone;
    return written > now ? State::gone : is_late ? State::silent : State::live;
}

void look_at_process(Pool &pool) {
    std::string place = "/proc/" + std::to_string(pool.now["process"].get<uint64_t>());
    uint64_t pages = 0, resident = 0;
    std::ifstream(place + "/statm") >> pages >> resident;
    pool.rss_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    std::getline(std::ifstream(place + "/comm"), pool.command);
}

// false: there is none any more.
bool look_at(const std::string &file, Pool &pool) {
    std::string text, before;
    bool is_kept = false;
    timespec pause{0, 2000000};
    for (int i = 0; i < tries; i++) {
        if (!read_file(file, text, is_kept)) {
            pool.problem = errno == EFBIG ? "larger than what a pool writes" : strerror(errno);
            return errno != ENOENT;
        }
        if (i > 0 && text == before && !text.empty()) break; // an empty one is about to be written
        before = text;
        pool.now = json::parse(text, nullptr, false);
        if (is_whole(pool.now)) {
            bool is_there = is_seen(pool.now["process"], pool.now["monotonic_ns"]);
            pool.state = state_of(pool.now, is_kept, is_there);
            if (is_there && pool.state != State::gone) look_at_process(pool);
            return true;
        }
        nanosleep(&pause, nullptr);
    }
    pool.now = json::object();
    pool.problem = "not what a pool writes";
    return true;
}

bool is_of_pool(const std::string &name) {
    return name.size() > 10 && name.compare(0, 5, "weft-") == 0 && name.compare(name.size() - 5, 5, ".json") == 0;
}

} // namespace

const char *state_name(State state) {
    switch (state) {
    case State::live: return "live";
    case State::silent: return "silent";
    case State::gone: return "gone";
    default: return "unreadable";
    }
}

std::map<std::string, Pool> pools_in(const std::string &directory) {
    DIR *open_one = opendir(directory.c_str());
    if (open_one == nullptr) throw std::runtime_error("cannot read the directory " + directory + ": " + strerror(errno));
    std::map<std::string, Pool> pools;
    while (const dirent *entry = readdir(open_one)) {
        Pool pool;
        if (is_of_pool(entry->d_name) && look_at(directory + "/" + entry->d_name, pool)) pools[entry->d_name] = pool;
    }
    closedir(open_one);
    return pools;
}
