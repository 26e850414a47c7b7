// See process.hpp.
#include "process.hpp"
#include "alloc.hpp"
#include "probe.hpp"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

constexpr uint64_t start_limit_ns = 20000000000u;

void process_exec(const Seat &seat, int in, int out) {
    std::vector<std::string> words = {"weft", "race-child", std::to_string(in), std::to_string(out)};
    for (const auto &word : seat_arguments(seat)) words.push_back(word);
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (auto &word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); // a terminal sends these to all; the race decides
    signal(SIGHUP, SIG_IGN);
    if (alloc_is(seat.workload)) allocator_preload(seat.entrant);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
}

Process::Process(const Seat &seat) {
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        failure = "no pipe";
        return;
    }
    pid = fork();
    if (pid == 0) {
        fcntl(down[0], F_SETFD, 0);
        fcntl(up[1], F_SETFD, 0);
        process_exec(seat, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    to = down[1];
    from = up[0];
    if (pid < 0)
        failure = "no process";
    else
        answer(start_limit_ns);
}

Process::~Process() {
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    if (to >= 0) close(to);
    if (from >= 0) close(from);
}

void Process::stop() {
    if (pid > 0) kill(pid, SIGSTOP);
}

void Process::resume() {
    if (pid <= 0) return;
    kill(pid, SIGCONT);
    usleep(1000); // its sleepers go back to sleep
}

// How the process ended, for the row. Its pipe is closed before it can be waited for.
static std::string end_text(pid_t pid) {
    siginfo_t info{};
    auto look = [&] { return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT); };
    for (int i = 0; i < 100 && look() == 0 && info.si_pid == 0; i++) usleep(1000);
    if (info.si_pid == 0) return "its process closed the pipe";
    if (info.si_code == CLD_EXITED) return "its process ended with status " + std::to_string(info.si_status);
    return std::string("its process was ended by ") + strsignal(info.si_status);
}

Reply Process::answer(uint64_t limit_ns) {
    Reply reply{};
    uint64_t end_ns = clock_ns() + limit_ns;
    while (!interrupted()) {
        pollfd wait = {from, POLLIN, 0};
        int ready = poll(&wait, 1, 100);
        if (ready > 0) {
            if (!read_all(from, &reply, sizeof reply))
                failure = end_text(pid);
            else if (reply.ok == 0)
                failure = reply.error;
            return reply;
        }
        if (clock_ns() > end_ns) {
            failure = "no answer within " + std::to_string(limit_ns / 1000000000u) + " s";
            return reply;
        }
    }
    failure = "interrupted";
    return reply;
}

void Process::send(const Command &command) {
    if (!write_all(to, &command, sizeof command)) failure = end_text(pid);
}

Reply Process::round(const Command &command, uint64_t limit_ns) {
    send(command);
    return failure.empty() ? answer(limit_ns) : Reply{};
}
