// The counting run: allocations by a preloaded library, futex and memory system calls by a tracer. A process of its own per
// row, so that the timed rounds know nothing of it.
#include "process.hpp"
#include "alloc.hpp"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr unsigned limit_s = 30;

struct Calls {
    uint64_t futex = 0;
    uint64_t memory = 0;
    bool counting = false;
};

// The tracer's own process starts the entrant's, writes its orders beforehand, and only follows.
struct Tracer {
    pid_t child = -1;
    Calls calls;

    void note(pid_t thread) {
        unsigned long message = 0;
        ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &message);
        if (message == trace_begin) {
            calls = Calls();
            calls.counting = true;
        }
        if (message == trace_end) calls.counting = false;
        if (calls.counting && message == trace_futex) calls.futex++;
        if (calls.counting && message == trace_memory) calls.memory++;
    }

    // One report of a thread; the thread goes on.
    void handle(pid_t thread, int status) {
        int signal = WSTOPSIG(status);
        if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_SECCOMP << 8))) note(thread);
        bool ours = signal == SIGTRAP || signal == SIGSTOP;
        ptrace(PTRACE_CONT, thread, nullptr, reinterpret_cast<void *>(static_cast<uintptr_t>(ours ? 0 : signal)));
    }

    // Until the process has ended; true when it ended well.
    bool follow() {
        int status = 0;
        if (waitpid(child, &status, __WALL) != child || !WIFSTOPPED(status)) return false;
        auto options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC;
        if (ptrace(PTRACE_SETOPTIONS, child, nullptr, options) != 0) return false;
        ptrace(PTRACE_CONT, child, nullptr, nullptr);
        for (;;) {
            pid_t thread = waitpid(-1, &status, __WALL);
            if (thread < 0) return false;
            if (WIFSTOPPED(status))
                handle(thread, status);
            else if (thread == child)
                return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
    }
};

[[noreturn]] void traced_exec(const Seat &seat, int in, int out) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(126);
    raise(SIGSTOP);
    process_exec(seat, in, out);
}

struct Report {
    Reply reply;
    Calls calls;
    bool ok;
};

// In the tracer's process: the whole run, as many jobs warm as counted.
Report trace(const Seat &seat, uint64_t tasks) {
    Report report{};
    int down[2], up[2];
    Command command = {Order::round, 0, tasks, tasks};
    if (pipe(down) != 0 || pipe(up) != 0) return report;
    if (!write_all(down[1], &command, sizeof command)) return report;
    Tracer tracer;
    tracer.child = fork();
    if (tracer.child == 0) {
        close(down[1]);
        close(up[0]);
        traced_exec(seat, down[0], up[1]);
    }
    close(down[0]);
    close(down[1]); // the entrant reads one order, then the end
    close(up[1]);
    if (tracer.child < 0 || !tracer.follow()) return report;
    Reply created;
    report.ok = read_all(up[0], &created, sizeof created) && created.ok != 0 &&
                read_all(up[0], &report.reply, sizeof report.reply) && report.reply.ok != 0;
    report.calls = tracer.calls;
    return report;
}

bool on_path(const std::string &program) {
    const char *path = getenv("PATH");
    std::string all = path == nullptr ? "" : path;
    for (size_t start = 0; start <= all.size();) {
        size_t end = std::min(all.find(':', start), all.size());
        if (access((all.substr(start, end - start) + "/" + program).c_str(), X_OK) == 0) return true;
        start = end + 1;
    }
    return false;
}

} // namespace

Counts count_run(const Seat &seat, const std::string &entrant_dir, uint64_t tasks) {
    int ends[2];
    Counts counts;
    if (pipe2(ends, O_CLOEXEC) != 0) return counts;
    Seat traced = seat;
    traced.traced = true;
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(limit_s); // ends the tracer, and PTRACE_O_EXITKILL the entrant with it
        std::string preload = entrant_dir + "/count_malloc.so";
        if (access(preload.c_str(), R_OK) == 0 && !alloc_is(seat.workload)) setenv("LD_PRELOAD", preload.c_str(), 1);
        Report report = trace(traced, tasks);
        _exit(write_all(ends[1], &report, sizeof report) ? 0 : 1);
    }
    close(ends[1]);
    Report report{};
    pollfd wait = {ends[0], POLLIN, 0};
    while (tracer > 0 && !interrupted() && poll(&wait, 1, 100) <= 0) {}
    if (tracer > 0 && interrupted()) kill(tracer, SIGKILL);
    bool told = tracer > 0 && read_all(ends[0], &report, sizeof report);
    close(ends[0]);
    if (tracer > 0) waitpid(tracer, nullptr, 0);
    if (!told || !report.ok) return counts;
    auto per_task = [&](uint64_t n) { return static_cast<double>(n) / static_cast<double>(tasks); };
    counts.futex_calls = per_task(report.calls.futex);
    counts.memory_calls = per_task(report.calls.memory);
    if (report.reply.malloc_calls >= 0) counts.malloc_calls = per_task(static_cast<uint64_t>(report.reply.malloc_calls));
    return counts;
}

// Instructions of a whole process with that many tasks; negative on failure.
static double callgrind_total(const Seat &seat, uint64_t tasks) {
    std::string command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null";
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return -1;
    self[length] = 0;
    if (alloc_is(seat.workload) && seat.entrant != alloc_libc) command = "LD_PRELOAD='" + seat.entrant + "' " + command;
    command += std::string(" '") + self + "' race-solo " + std::to_string(tasks);
    for (const auto &word : seat_arguments(seat)) command += " '" + word + "'";
    FILE *output = popen((command + " 2>&1").c_str(), "r");
    if (output == nullptr) return -1;
    char line[512];
    double total = -1;
    while (fgets(line, sizeof line, output) != nullptr) {
        std::string text = line;
        size_t at = text.find("Collected :");
        if (at != std::string::npos) total = std::stod(text.substr(at + 11));
    }
    return pclose(output) == 0 ? total : -1;
}

// The difference of two lengths: what does not depend on the number of tasks falls out.
Figure callgrind_run(const Seat &seat, const Heat &heat) {
    if (!on_path("valgrind")) return std::nullopt;
    uint64_t some = alloc_is(seat.workload) ? 200000 : 1000; // an allocator's rare slow ways are part of its figure
    uint64_t few = heat.fit(some), many = heat.fit(3 * few);
    double less = callgrind_total(seat, few), more = callgrind_total(seat, many);
    if (less < 0 || more < less || many == few) return std::nullopt;
    return (more - less) / static_cast<double>(many - few);
}
