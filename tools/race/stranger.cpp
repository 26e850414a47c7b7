// See stranger.hpp.
#include "stranger.hpp"

#include "../../bench/jobs.h"

#include <csignal>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

[[noreturn]] static void be_busy(int cpu) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); // a terminal sends these to all; the race decides
    signal(SIGHUP, SIG_IGN);
    if (sched_setaffinity(0, sizeof own, &own) != 0) _exit(1);
    for (;;) job_spin(1000000);
}

Stranger::Stranger(unsigned workers) {
    cpu_set_t few;
    int last = 0;
    if (sched_getaffinity(0, sizeof before, &before) != 0) throw std::runtime_error("the affinity cannot be read");
    CPU_ZERO(&few);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < static_cast<int>(workers); cpu++) {
        if (!CPU_ISSET(cpu, &before)) continue;
        CPU_SET(cpu, &few);
        last = cpu;
    }
    sched_setaffinity(0, sizeof few, &few);
    pid = fork();
    if (pid == 0) be_busy(last);
}

Stranger::~Stranger() {
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    sched_setaffinity(0, sizeof before, &before);
}

void Stranger::stop() const {
    if (pid > 0) kill(pid, SIGSTOP);
}

void Stranger::go_on() const {
    if (pid > 0) kill(pid, SIGCONT);
}
