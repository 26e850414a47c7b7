// Does a thread that asks for a short time slice get the CPU from a busy one when it wakes? Tried for a moment, on one CPU.
#include "doctor.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace {

constexpr uint64_t short_ns = 100000; // the kernel's shortest
constexpr unsigned wakes = 60;
constexpr long wake_ns = 1000000;      // one so often
constexpr uint64_t waited_ns = 500000; // what is longer is a turn of the busy thread

// The kernel's struct sched_attr.
struct Attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
};

// Of the calling thread. Why not; empty: it has that slice.
std::string slice_set(uint64_t slice_ns) {
    Attributes now{};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0U) != 0) return strerror(errno);
    if (now.slice_ns == 0) return "this kernel has none that a program can choose";
    now.size = sizeof now;
    now.slice_ns = slice_ns;
    if (syscall(SYS_sched_setattr, 0, &now, 0U) != 0) return strerror(errno);
    return syscall(SYS_sched_getattr, 0, &now, sizeof now, 0U) == 0 && now.slice_ns == slice_ns ? "" : "it is not kept";
}

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// How many of the wakes waited for the CPU.
unsigned wakes_that_waited() {
    unsigned waited = 0;
    for (unsigned i = 0; i < wakes; i++) {
        uint64_t start = now_ns();
        timespec pause{0, wake_ns};
        nanosleep(&pause, nullptr);
        if (now_ns() - start > static_cast<uint64_t>(wake_ns) + waited_ns) waited++;
    }
    return waited;
}

struct Trial {
    unsigned usual = 0, with_short = 0;
    std::string refused;
};

// Both threads are on the last CPU that this process may use.
Trial trial() {
    Trial found;
    cpu_set_t allowed[cpu_sets], one[cpu_sets];
    CPU_ZERO_S(sizeof allowed, allowed);
    if (sched_getaffinity(0, sizeof allowed, allowed) != 0) return {0, 0, "the affinity cannot be read"};
    CPU_ZERO_S(sizeof one, one);
    for (size_t cpu = cpu_sets * CPU_SETSIZE; cpu-- > 0 && CPU_COUNT_S(sizeof one, one) == 0;)
        if (CPU_ISSET_S(cpu, sizeof allowed, allowed)) CPU_SET_S(cpu, sizeof one, one);
    std::atomic<bool> ends{false};
    std::thread busy([&] {
        sched_setaffinity(0, sizeof one, one);
        while (!ends.load(std::memory_order_relaxed)) {}
    });
    std::thread sleeper([&] {
        sched_setaffinity(0, sizeof one, one);
        found.usual = wakes_that_waited();
        found.refused = slice_set(short_ns);
        if (found.refused.empty()) found.with_short = wakes_that_waited();
    });
    sleeper.join();
    ends.store(true, std::memory_order_relaxed);
    busy.join();
    return found;
}

} // namespace

std::vector<Finding> findings_slices(const DoctorOptions &options) {
    Finding found(
        "time slices", "only tried on this machine itself",
        "a worker that wakes beside another program's busy thread waits for the end of its turn (3 ms, by default)");
    if (!options.root.empty()) return {found};
    Trial tried = trial();
    char text[160];
    if (!tried.refused.empty()) {
        snprintf(text, sizeof text, "refused: %s; %u of %u wakes beside a busy thread waited", tried.refused.c_str(),
                 tried.usual, wakes);
        found.judge(false);
        found.command = "Linux 6.12 or later, and a sandbox that lets sched_setattr through";
    } else {
        snprintf(text, sizeof text, "of %u wakes beside a busy thread %u waited, %u with a slice of 0.1 ms", wakes,
                 tried.usual, tried.with_short);
        bool helps = tried.with_short <= 3 || 2 * tried.with_short <= tried.usual;
        found.verdict = helps ? Verdict::good : Verdict::given;
    }
    found.now = text;
    return {found};
}
