// Parts of `weft race` alone: processes that cannot be started or that end.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "../tools/race/alloc.hpp"
#include "../tools/race/probe.hpp"
#include "../tools/race/process.hpp"

#include <cerrno>
#include <csignal>
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
        for (int fd = 3; fd < 64; fd++) close(fd);
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
