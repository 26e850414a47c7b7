// Parts of `weft race` alone: processes that cannot be started or that end, verdicts, JSON.
#include <doctest/doctest.h>

#include "../tools/race/alloc.hpp"
#include "../tools/race/probe.hpp"
#include "../tools/race/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// What these parts want of the rest.
bool interrupted() { return false; }
bool alloc_is(const std::string &) { return false; }
void allocator_preload(const std::string &) {}
uint64_t clock_ns() { return 0; }

static bool forks = true;
static pid_t child = -1;
static std::vector<pid_t> signalled;

// The linker puts these in their places (CMakeLists.txt). The child's end of the pipe is closed before it ends.
extern "C" {
pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) {
    if (!forks) {
        errno = EAGAIN;
        return -1;
    }
    child = __real_fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_range(3, ~0u, 0);
        for (;;) pause();
    }
    return child;
}

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number) {
    signalled.push_back(pid);
    return pid > 0 ? __real_kill(pid, number) : 0;
}

// The child ends while somebody waits for that.
int __wrap_usleep(useconds_t);
int __wrap_usleep(useconds_t) {
    siginfo_t info;
    const pid_t pid = child;
    child = -1;
    if (pid <= 0) return 0; // these are all processes there are
    __real_kill(pid, SIGKILL);
    return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
}
}

static const Seat seat = {"static", "submit", "int", 1, 1, 1, false};

TEST_CASE("no process is started: none is signalled") {
    forks = false;
    signalled.clear();
    {
        Process process(seat);
        CHECK(process.error() == "no process");
        process.stop();
        process.resume();
    }
    CHECK(signalled.empty());
    forks = true;
}

TEST_CASE("a process whose pipe is closed before it has ended") {
    Process process(seat);
    CHECK(process.error() == "its process was ended by Killed");
}

// Six rounds; a peer's are ours over these ratios.
static Row row(const std::string &pool, std::vector<double> rounds, uint32_t flags = 0) {
    Row row;
    row.workload = "submit";
    row.pool = pool;
    row.flags = flags;
    row.round_ns = rounds;
    std::sort(rounds.begin(), rounds.end());
    row.ns = (rounds[2] + rounds[3]) / 2;
    return row;
}

static Row ours() { return row("weft", {1, 1, 1, 1, 1, 1}, ENTRANT_OURS); }

static Row peer(const std::string &pool, double low, double middle, double high) {
    return row(pool, {1 / low, 1 / middle, 1 / middle, 1 / middle, 1 / middle, 1 / high});
}

static Standing standing_of(const std::vector<Row> &rows) {
    auto standing = heat_standing(rows);
    REQUIRE(standing);
    return *standing;
}

TEST_CASE("behind one peer for sure, whatever another's median") {
    auto standing = standing_of({ours(), peer("wide", 0.6, 1.02, 1.5), peer("sure", 1.005, 1.01, 1.02)});
    CHECK(standing.verdict() == RaceVerdict::loses);
    CHECK(standing.best_peer == "sure");
    CHECK(standing.paired.low == doctest::Approx(1.005));
}

TEST_CASE("first only beside all") {
    auto standing = standing_of({ours(), peer("sure", 0.95, 0.97, 0.99), peer("wide", 0.8, 0.96, 1.3)});
    CHECK(standing.verdict() == RaceVerdict::undecided);
    CHECK(standing.best_peer == "wide");
    CHECK(standing_of({ours(), peer("a", 0.95, 0.97, 0.99), peer("b", 0.5, 0.6, 0.7)}).best_peer == "a");
    CHECK(standing_of({ours(), peer("a", 0.95, 0.97, 0.99), peer("b", 0.5, 0.6, 0.7)}).verdict() == RaceVerdict::first);
    CHECK(standing_of({ours(), peer("a", 0.95, 0.97, 0.99), peer("b", 0.95, 1, 1.05)}).verdict() == RaceVerdict::level);
    CHECK(standing_of({ours(), peer("level", 0.95, 1, 1.05), peer("wide", 0.8, 0.9, 1.3)}).verdict() ==
          RaceVerdict::undecided);
}

TEST_CASE("rounds of different minutes decide nothing") {
    std::vector<Row> rows = {ours(), peer("sure", 0.5, 0.6, 0.7)};
    CHECK(standing_of(rows).in_turns);
    for (auto &row : rows) row.in_turns = false;
    CHECK(standing_of(rows).verdict() == RaceVerdict::undecided);
    CHECK(!standing_of(rows).in_turns);
}

TEST_CASE("memory is compared round by round") {
    std::vector<Row> rows = {ours(), peer("other", 1, 1, 1)};
    for (auto &row : rows) {
        row.workload = "alloc-memory";
        row.bytes = 1;
        row.round_bytes = {1, 1, 1, 1, 1, 1};
    }
    rows[0].round_bytes = {1.3, 1, 0.99, 0.99, 0.99, 0.99};
    rows[0].bytes = 0.99;
    CHECK(standing_of(rows).verdict() == RaceVerdict::undecided);
    CHECK(standing_of(rows).paired.high == doctest::Approx(1.3));
    for (auto &row : rows) row.round_bytes.resize(1);
    CHECK(standing_of(rows).verdict() == RaceVerdict::undecided);
}

TEST_CASE("an error's text that is cut within a character costs no more than that character") {
    const std::string name = "race_parts." + std::to_string(getpid()) + ".json";
    Results results;
    results.rows.push_back(ours());
    results.rows[0].error = "no such file: m\xc3";
    json_write(name, {}, results, {}, {});
    std::ifstream file(name);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    unlink(name.c_str());
    CHECK(text.find("no such file: m\xef\xbf\xbd\"") != std::string::npos);
}
