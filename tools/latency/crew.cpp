// See crew.hpp.
#include "crew.hpp"

#include "../race/race.hpp"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr uint64_t second_ns = 1000000000u;
constexpr uint64_t look_ns = second_ns / 10;
constexpr uint64_t start_limit_ns = 20 * second_ns;

const entrant &table_of(const Contestant &who) {
    if (who.table != nullptr) return *who.table;
    void *library = dlopen(who.file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto *table = static_cast<const entrant *>(dlsym(library, "weft_entrant"));
    if (table == nullptr || table->version != ENTRANT_VERSION) throw std::runtime_error("it has no table of this version");
    return *table;
}

void report_error(SliceReport &report, const char *text) {
    report.ok = 0;
    strncpy(report.error, text, sizeof report.error - 1);
}

void obey(const Team &team, int in, int out) {
    SliceOrder order;
    while (read_all(in, &order, sizeof order)) {
        SliceReport report{};
        report.ok = 1;
        std::vector<float> makespans_ns;
        makespans_ns.reserve(order.bursts);
        try {
            slice_run(team, order, makespans_ns, report);
        } catch (const std::exception &failure) {
            report_error(report, failure.what());
        }
        if (!write_all(out, &report, sizeof report)) return;
        if (report.ok != 0 && !write_all(out, makespans_ns.data(), makespans_ns.size() * sizeof(float))) return;
    }
}

// The process of a contestant. It never tears its pool down: some need seconds for that.
[[noreturn]] void live(const Contestant &who, unsigned workers, int in, int out) {
    char go = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); // a terminal sends these to all; the parent decides
    signal(SIGHUP, SIG_IGN);
    if (!read_all(in, &go, 1)) _exit(1);
    SliceReport ready{};
    ready.ok = 1;
    Team team = {nullptr, nullptr, who.expect};
    try {
        team.table = &table_of(who);
        const entrant_config config = {workers, 0, 64};
        team.pool = team.table->create(&config);
        if (team.pool == nullptr) throw std::runtime_error("the pool could not be created");
        prctl(PR_SET_TIMERSLACK, 1); // of the caller alone: the pool's threads have theirs
    } catch (const std::exception &failure) {
        report_error(ready, failure.what());
    }
    if (write_all(out, &ready, sizeof ready) && ready.ok != 0) obey(team, in, out);
    _exit(0);
}

} // namespace

Crew::Crew(const Contestant &who, const LatencyOptions &options) {
    try {
        if (options.quota_percent > 0) quota = std::make_unique<Quota>(options.quota_percent, who.pool + "-" + who.mode);
    } catch (const std::runtime_error &reason) {
        failure = reason.what();
        return;
    }
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) {
        failure = "no pipe";
        return;
    }
    fflush(nullptr);
    pid = fork();
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        live(who, options.workers, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    to = down[1];
    from = up[0];
    if (pid < 0) {
        failure = "no process";
        return;
    }
    SliceReport ready{};
    if (join_quota() && receive(ready, start_limit_ns)) kill(pid, SIGSTOP);
}

// Before its pool looks how many CPUs it has.
bool Crew::join_quota() {
    try {
        if (quota != nullptr) quota->join(pid);
        if (!write_all(to, "g", 1)) failure = "its process ended";
    } catch (const std::runtime_error &reason) {
        failure = reason.what();
    }
    return failure.empty();
}

Crew::~Crew() {
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    if (to >= 0) close(to);
    if (from >= 0) close(from);
}

// A whole report; on false error() is set.
bool Crew::receive(SliceReport &report, uint64_t limit_ns) {
    pollfd wait = {from, POLLIN, 0};
    // By looks, not by the clock: time in which this process was stopped as well does not count.
    for (uint64_t look = 0; !interrupted() && look < limit_ns / look_ns; look++) {
        if (poll(&wait, 1, look_ns / 1000000) <= 0) continue;
        if (!read_all(from, &report, sizeof report))
            failure = "its process ended";
        else if (report.ok == 0)
            failure = report.error;
        return failure.empty();
    }
    failure = interrupted() ? "interrupted" : "no answer within " + std::to_string(limit_ns / second_ns) + " s";
    return false;
}

SliceReport Crew::slice(const SliceOrder &order, std::vector<float> &makespans_ns) {
    SliceReport report{};
    std::vector<float> more(order.bursts);
    kill(pid, SIGCONT);
    usleep(1000); // its sleepers go back to sleep
    double beats_ns = order.period_ns * (order.bursts + order.warm) * (1 + order.jitter) / (1 - order.miss);
    if (!write_all(to, &order, sizeof order)) failure = "its process ended";
    if (failure.empty() && receive(report, 30 * second_ns + static_cast<uint64_t>(4 * beats_ns))) {
        if (read_all(from, more.data(), more.size() * sizeof(float)))
            makespans_ns.insert(makespans_ns.end(), more.begin(), more.end());
        else
            failure = "its process ended";
    }
    kill(pid, SIGSTOP);
    return report;
}
