// See stranger.hpp.
#include "stranger.hpp"

#include "../../bench/jobs.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// What takes a compiler about a second: functions that differ, with loops to turn about.
void source_write(const std::string &path) {
    std::ofstream file(path);
    for (int i = 0; i < 300; i++)
        file << "int f" << i << "(int *a, int n) { int s = " << i
             << "; for (int i = 0; i < n; i++) for (int k = 0; k < n; k++) s += a[i] * a[k] ^ (s >> " << i % 31
             << "); return s; }\n";
    file << std::flush;
    if (!file) throw std::runtime_error("no compile: " + path + " cannot be written");
}

std::string compile_command(const std::string &folder) {
    const char *compiler = getenv("CC");
    return std::string(compiler == nullptr ? "cc" : compiler) + " -O2 -w -c -o /dev/null '" + folder + "/source.c'";
}

// Compiles once, with its errors, before anybody counts on it.
std::string compile_prepare() {
    std::string folder = (std::filesystem::temp_directory_path() / "weft-compile-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no compile: " + folder + " cannot be made");
    source_write(folder + "/source.c");
    if (system(compile_command(folder).c_str()) == 0) return folder;
    std::filesystem::remove_all(folder);
    throw std::runtime_error("no compile: no C compiler works here (CC in the environment, or cc)");
}

[[noreturn]] void be_busy(int cpu, const std::string &folder) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(static_cast<size_t>(cpu), &own);
    setpgid(0, 0); // no terminal's signals: who started it decides
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setaffinity(0, sizeof own, &own) != 0) _exit(1);
    if (folder.empty()) {
        for (;;) job_spin(1000000);
    }
    while (system(compile_command(folder).c_str()) == 0) {}
    _exit(1);
}

} // namespace

Stranger::Stranger(unsigned workers, unsigned count, Busy busy) {
    cpu_set_t few;
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof before, &before) != 0) throw std::runtime_error("the affinity cannot be read");
    CPU_ZERO(&few);
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < workers; cpu++) {
        if (!CPU_ISSET(static_cast<size_t>(cpu), &before)) continue;
        CPU_SET(static_cast<size_t>(cpu), &few);
        cpus.push_back(cpu);
    }
    if (busy == Busy::compiles) folder = compile_prepare();
    sched_setaffinity(0, sizeof few, &few);
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) be_busy(cpus[cpus.size() - 1 - i % cpus.size()], folder);
        if (pid < 0) continue;
        setpgid(pid, pid); // whoever is first
        groups.push_back(pid);
    }
}

Stranger::~Stranger() {
    signal_all(SIGKILL);
    for (pid_t pid : groups) waitpid(pid, nullptr, 0);
    sched_setaffinity(0, sizeof before, &before);
    if (!folder.empty()) std::filesystem::remove_all(folder);
}

void Stranger::signal_all(int signal) const {
    for (pid_t group : groups) kill(-group, signal);
}

void Stranger::stop() const { signal_all(SIGSTOP); }

void Stranger::go_on() const { signal_all(SIGCONT); }
