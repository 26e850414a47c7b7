// See probe.hpp.
#include "probe.hpp"

#include <cstddef>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fstream>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// A line "Name:  123 kB" of /proc/self/status, in bytes.
static uint64_t status_bytes(const std::string &name) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, name.size() + 1, name + ":") == 0) return std::stoull(line.substr(name.size() + 1)) * 1024;
    }
    return 0;
}

uint64_t resident_bytes() { return status_bytes("VmRSS"); }
uint64_t peak_bytes() { return status_bytes("VmHWM"); }

// Over the threads that live; -1 where the kernel does not say.
static int64_t migrations_now() {
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == nullptr) return -1;
    int64_t all = -1;
    while (dirent *entry = readdir(tasks)) {
        std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/sched");
        for (std::string line; std::getline(file, line);) {
            if (line.compare(0, 16, "se.nr_migrations") != 0) continue;
            all = (all < 0 ? 0 : all) + std::stoll(line.substr(line.find(':') + 1));
            break;
        }
    }
    closedir(tasks);
    return all;
}

static int64_t malloc_calls_now() {
    static auto *calls = reinterpret_cast<uint64_t (*)()>(dlsym(RTLD_DEFAULT, "weft_race_malloc_calls"));
    return calls == nullptr ? -1 : static_cast<int64_t>(calls());
}

// ---- system calls, for a tracer

static bool traced;

static void trace_mark(Trace mark) {
    if (traced) prctl(static_cast<int>(mark_prctl), static_cast<unsigned long>(mark), 0, 0, 0);
}

void trace_request() {
    constexpr uint32_t number = offsetof(seccomp_data, nr), first = offsetof(seccomp_data, args[0]);
    constexpr uint32_t second = offsetof(seccomp_data, args[1]);
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(mark_prctl), 4, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | trace_futex),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | trace_memory),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, trace_begin, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | trace_begin),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | trace_end),
    };
    sock_fprog filter = {sizeof program / sizeof program[0], program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        throw std::runtime_error("seccomp filters are not allowed here");
    }
    traced = true;
}

// ---- the processor's counters

static int hardware_fd[hardware_count] = {-1, -1, -1, -1};

static int hardware_one(uint64_t event) {
    perf_event_attr what;
    memset(&what, 0, sizeof what);
    what.size = sizeof what;
    what.type = PERF_TYPE_HARDWARE;
    what.config = event;
    what.disabled = 1;
    what.inherit = 1;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    return static_cast<int>(syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
}

void hardware_open() {
    constexpr uint64_t events[hardware_count] = {PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES,
                                                 PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES};
    for (int i = 0; i < hardware_count; i++) hardware_fd[i] = hardware_one(events[i]);
}

bool hardware_available() {
    int fd = hardware_one(PERF_COUNT_HW_INSTRUCTIONS);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void hardware_start() {
    for (int fd : hardware_fd) {
        if (fd < 0) continue;
        ioctl(fd, PERF_EVENT_IOC_RESET, 0);
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    }
}

static void hardware_stop(int64_t *values) {
    for (int i = 0; i < hardware_count; i++) {
        uint64_t value;
        if (hardware_fd[i] < 0) continue;
        ioctl(hardware_fd[i], PERF_EVENT_IOC_DISABLE, 0);
        if (read(hardware_fd[i], &value, sizeof value) == sizeof value) values[i] = static_cast<int64_t>(value);
    }
}

// ---- a probe

static uint64_t time_ns(const timeval &time) {
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_usec) * 1000u;
}

Probe::Probe(bool with_hardware) : migrations(migrations_now()), malloc_calls(malloc_calls_now()), hardware(with_hardware) {
    if (hardware) hardware_start();
    trace_mark(trace_begin);
    getrusage(RUSAGE_SELF, &usage);
    start_ns = clock_ns();
}

void Probe::stop(Reply &reply) {
    reply.wall_ns = clock_ns() - start_ns;
    rusage now;
    getrusage(RUSAGE_SELF, &now);
    trace_mark(trace_end);
    for (auto &value : reply.hardware) value = -1;
    if (hardware) hardware_stop(reply.hardware);
    int64_t calls = malloc_calls_now(), moved = migrations_now();
    reply.user_ns = time_ns(now.ru_utime) - time_ns(usage.ru_utime);
    reply.system_ns = time_ns(now.ru_stime) - time_ns(usage.ru_stime);
    reply.switches_voluntary = static_cast<uint64_t>(now.ru_nvcsw - usage.ru_nvcsw);
    reply.switches_involuntary = static_cast<uint64_t>(now.ru_nivcsw - usage.ru_nivcsw);
    reply.faults = static_cast<uint64_t>(now.ru_minflt + now.ru_majflt - usage.ru_minflt - usage.ru_majflt);
    reply.migrations = moved < 0 || migrations < 0 ? -1 : moved - migrations;
    reply.malloc_calls = calls < 0 ? -1 : calls - malloc_calls;
    reply.peak_bytes = peak_bytes();
}
