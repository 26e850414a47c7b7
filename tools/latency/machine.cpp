// weft latency --machine: what things cost on this machine, as `weft simulate --machine` takes it.
//
// What disturbs a trial only makes it longer: each is shorter than a time slice, and the shortest of many counts. Two threads on two
// CPUs where lines or wakes pass between them. What cannot be measured here is given, and named so in the file.
#include "latency.hpp"

#include "../../bench/jobs.h"
#include "../race/probe.hpp"
#include "../race/race.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <sched.h>
#include <set>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace {

using nlohmann::ordered_json;

struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
};

constexpr unsigned trials = 61;
constexpr size_t line_bytes = 64, huge_bytes = size_t{2} << 20;
uint64_t sink;

double least_of(const std::function<double()> &measure) {
    double least = measure();
    for (unsigned i = 1; i < trials; i++) least = std::min(least, measure());
    return least;
}

// ns for each of `times` calls.
template <class Body> double each_ns(unsigned times, Body body) {
    return least_of([&] {
        uint64_t start = clock_ns();
        for (unsigned i = 0; i < times; i++) body(i);
        return static_cast<double>(clock_ns() - start) / times;
    });
}

void stay_on(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("this thread cannot be put on a CPU");
}

std::vector<unsigned> cpus_allowed() {
    cpu_set_t set;
    std::vector<unsigned> cpus;
    if (sched_getaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("the CPUs are not told");
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

// ---- one CPU

// Loads that wait for nothing, as many as the processor does at once: programs' accesses mostly hide behind each other so.
double access_ns() {
    constexpr unsigned words = 512;
    std::vector<std::atomic<uint64_t>> table(words);
    return each_ns(200,
                   [&](unsigned) {
                       for (const auto &word : table) {
                           uint64_t value = word.load(std::memory_order_relaxed);
                           __asm__("" : : "r"(value));
                       }
                   }) /
           words;
}

// How much longer work takes on one CPU while the other works, too: cores may be shared.
double pair_percent(unsigned one, unsigned other) {
    constexpr unsigned iterations = 20000;
    stay_on(one);
    double alone = each_ns(1, [](unsigned) { job_spin(iterations); });
    std::atomic<bool> is_there{false}, ends{false};
    std::thread partner([&] {
        stay_on(other);
        is_there = true;
        while (!ends) job_spin(iterations);
    });
    while (!is_there) {}
    double together = each_ns(1, [](unsigned) { job_spin(iterations); });
    ends = true;
    partner.join();
    return std::max(100.0, 100 * together / alone);
}

// A chain of loads through so many bytes, in no order.
double chase_ns(size_t bytes) {
    size_t count = bytes / line_bytes;
    void *memory = mmap(nullptr, bytes + huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory");
    madvise(memory, bytes + huge_bytes, MADV_HUGEPAGE);
    auto *next =
        reinterpret_cast<size_t *>((reinterpret_cast<uintptr_t>(memory) + huge_bytes - 1) / huge_bytes * huge_bytes);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin() + 1, order.end(), std::mt19937_64(std::random_device{}()));
    for (size_t i = 0; i < count; i++)
        next[order[i] * (line_bytes / sizeof(size_t))] = order[(i + 1) % count] * (line_bytes / sizeof(size_t));
    size_t at = 0;
    for (size_t i = 0; i < count; i++) at = next[at];
    double ns = each_ns(2000, [&](unsigned) { at = next[at]; });
    sink += at;
    munmap(memory, bytes + huge_bytes);
    return ns;
}

double fault_ns() {
    constexpr size_t pages = 512, page = 4096;
    return least_of([] {
        void *memory = mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::runtime_error("no memory");
        madvise(memory, pages * page, MADV_NOHUGEPAGE);
        uint64_t start = clock_ns();
        for (size_t i = 0; i < pages; i++) static_cast<char *>(memory)[i * page] = 1;
        double ns = static_cast<double>(clock_ns() - start) / pages;
        munmap(memory, pages * page);
        return ns;
    });
}

long futex(std::atomic<uint32_t> &word, int what, uint32_t value) {
    return syscall(SYS_futex, &word, what | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

double thread_start_ns() {
    return least_of([] {
        uint64_t start = clock_ns();
        std::thread thread([] {});
        double ns = static_cast<double>(clock_ns() - start);
        thread.join();
        return ns;
    });
}

// ---- two CPUs

// A line goes back and forth: a hop is the way of who writes to who reads, and of what tells that it may write.
double hop_ns(unsigned one, unsigned other) {
    constexpr uint64_t hops = 200;
    return least_of([=] {
        Line line;
        std::thread partner([&] {
            stay_on(other);
            for (uint64_t i = 1; i < 2 * hops; i += 2) {
                while (line.value.load(std::memory_order_acquire) != i) {}
                line.value.store(i + 1, std::memory_order_release);
            }
        });
        stay_on(one);
        uint64_t start = 0;
        for (uint64_t i = 0; i < 2 * hops; i += 2) {
            while (line.value.load(std::memory_order_acquire) != i) {}
            if (i == 2) start = clock_ns(); // the partner is there
            line.value.store(i + 1, std::memory_order_release);
        }
        while (line.value.load(std::memory_order_acquire) != 2 * hops) {}
        double ns = static_cast<double>(clock_ns() - start) / (2 * hops - 2);
        partner.join();
        return ns;
    });
}

// Reads many lines that another CPU has written: ns for each, in a loop whose loads wait for nothing.
double scan_ns(unsigned one, unsigned other) {
    constexpr uint64_t lines = 128, turns = 40;
    return least_of([=] {
        std::vector<Line> all(lines);
        std::atomic<unsigned> turn{0};
        std::thread writer([&] {
            stay_on(other);
            for (unsigned i = 1; i < 2 * turns; i += 2) {
                for (auto &line : all) line.value.store(i, std::memory_order_relaxed);
                turn.store(i, std::memory_order_release);
                while (turn.load(std::memory_order_acquire) != i + 1) {}
            }
        });
        stay_on(one);
        std::vector<uint64_t> times;
        for (unsigned i = 1; i < 2 * turns; i += 2) {
            while (turn.load(std::memory_order_acquire) != i) {}
            uint64_t start = clock_ns(), sum = 0;
            for (auto &line : all) sum += line.value.load(std::memory_order_relaxed);
            times.push_back(clock_ns() - start);
            sink += sum;
            turn.store(i + 1, std::memory_order_release);
        }
        writer.join();
        std::nth_element(times.begin(), times.begin() + turns / 2, times.end());
        return static_cast<double>(times[turns / 2]) / lines;
    });
}

struct WakeCosts {
    double send_ns, run_ns;
};

// A thread that has slept for so long is woken: the lower quartile.
WakeCosts wake_costs(unsigned one, unsigned other, unsigned asleep_us) {
    constexpr unsigned wakes = 61;
    std::vector<double> sends, runs;
    std::atomic<uint32_t> word{0};
    std::atomic<uint64_t> ran_ns{0};
    std::thread sleeper([&] {
        stay_on(other);
        for (uint32_t i = 0; i < wakes; i++) {
            while (word.load() == i) futex(word, FUTEX_WAIT, i);
            ran_ns.store(clock_ns());
        }
    });
    stay_on(one);
    for (uint32_t i = 0; i < wakes; i++) {
        uint64_t until = clock_ns() + uint64_t{1000} * asleep_us;
        while (clock_ns() < until) {}
        ran_ns.store(0);
        word.store(i + 1);
        uint64_t before = clock_ns();
        futex(word, FUTEX_WAKE, 1);
        uint64_t sent = clock_ns();
        while (ran_ns.load() == 0) {}
        sends.push_back(static_cast<double>(sent - before));
        runs.push_back(std::max(100.0, static_cast<double>(ran_ns.load()) - static_cast<double>(sent)));
    }
    sleeper.join();
    std::nth_element(sends.begin(), sends.begin() + wakes / 4, sends.end());
    std::nth_element(runs.begin(), runs.begin() + wakes / 4, runs.end());
    return {sends[wakes / 4], runs[wakes / 4]};
}

// Two threads on one CPU wake each other in turn: what one turn takes.
double turn_ns(unsigned cpu) {
    constexpr uint32_t turns = 100;
    return least_of([=] {
        std::atomic<uint32_t> word{0};
        std::thread partner([&] {
            stay_on(cpu);
            for (uint32_t i = 1; i < 2 * turns; i += 2) {
                for (uint32_t seen; (seen = word.load()) != i;) futex(word, FUTEX_WAIT, seen);
                word.store(i + 1);
                futex(word, FUTEX_WAKE, 1);
            }
        });
        stay_on(cpu);
        uint64_t start = 0;
        for (uint32_t i = 0; i < 2 * turns; i += 2) {
            if (i == 2) start = clock_ns();
            word.store(i + 1);
            futex(word, FUTEX_WAKE, 1);
            for (uint32_t seen; (seen = word.load()) != i + 2;) futex(word, FUTEX_WAIT, seen);
        }
        double ns = static_cast<double>(clock_ns() - start) / (2 * turns - 2);
        partner.join();
        return ns;
    });
}

struct BarrierCosts {
    double alone_ns, with_another_ns, interrupt_ns;
};

// membarrier, while no other thread runs, and while one does: what that one loses.
BarrierCosts barrier_costs(unsigned one, unsigned other) {
    auto barrier = [](unsigned) { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); };
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    stay_on(one);
    BarrierCosts costs{};
    costs.alone_ns = each_ns(50, barrier);
    std::atomic<bool> ends{false};
    std::atomic<uint64_t> gap_ns{UINT64_MAX};
    std::thread spinner([&] {
        stay_on(other);
        for (uint64_t last = clock_ns(); !ends.load(std::memory_order_relaxed);) {
            uint64_t now = clock_ns();
            if (now - last > 400) gap_ns = std::min(gap_ns.load(), now - last);
            last = now;
        }
    });
    costs.with_another_ns = each_ns(50, barrier);
    ends = true;
    spinner.join();
    costs.interrupt_ns = gap_ns == UINT64_MAX ? 0 : static_cast<double>(gap_ns);
    return costs;
}

// ---- what the system tells

std::string first_line(const std::string &file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

std::string cpu_file(unsigned cpu, const std::string &what) {
    return first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + what);
}

unsigned list_count(const std::string &list) {
    unsigned long count = 0;
    for (const char *at = list.c_str(); *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        count += last - first + 1;
        at = *end == ',' ? end + 1 : end;
    }
    return static_cast<unsigned>(count);
}

double kilobytes(const std::string &text, double otherwise) {
    char *unit;
    double number = strtod(text.c_str(), &unit);
    if (number <= 0) return otherwise;
    return *unit == 'M' ? number * 1024 : number;
}

double rounded(double value) { return value < 10 ? std::round(value * 100) / 100 : std::round(value); }

class Found {
    std::vector<std::pair<std::string, double>> values;
    std::string measured, given;

  public:
    void measure(const char *name, double value) {
        values.emplace_back(name, rounded(value));
        measured += (measured.empty() ? "" : " ") + std::string(name);
    }
    void give(const char *name, double value) {
        values.emplace_back(name, value);
        given += (given.empty() ? "" : " ") + std::string(name);
    }
    ordered_json finish(const std::string &name) {
        ordered_json out = {{"name", name}, {"about", "measured: " + measured + "; given: " + given}};
        for (const auto &[key, value] : values) out[key] = value;
        return out;
    }
};

void measure_one(Found &found) {
    Line line;
    found.measure("access_ns", access_ns());
    found.measure("rmw_ns", each_ns(10000, [&](unsigned) { line.value.fetch_add(1); }));
    found.measure("fence_ns", each_ns(10000, [](unsigned) { std::atomic_thread_fence(std::memory_order_seq_cst); }));
#if defined(__x86_64__)
    found.measure("pause_ns", each_ns(2000, [](unsigned) { __builtin_ia32_pause(); }));
    found.measure("ticks_ns", each_ns(2000, [](unsigned) { sink += __builtin_ia32_rdtsc(); }));
#else
    found.measure("pause_ns", each_ns(2000, [](unsigned) { __asm__ volatile("isb" ::: "memory"); }));
    found.measure("ticks_ns", each_ns(2000, [](unsigned) { sink += clock_ns(); }));
#endif
    found.measure("now_ns", each_ns(2000, [](unsigned) { sink += clock_ns(); }));
    found.measure("l2_ns", chase_ns(size_t{256} << 10));
    found.measure("l3_ns", chase_ns(size_t{6} << 20));
    found.measure("memory_ns", chase_ns(size_t{128} << 20));
    found.measure("fault_ns", fault_ns());
    std::atomic<uint32_t> word{0};
    found.measure("syscall_ns", each_ns(2000, [&](unsigned) { futex(word, FUTEX_WAKE, 1); }));
    found.measure("thread_start_ns", thread_start_ns());
}

// A pair of CPUs that share no level-3 cache, or no package; the first CPU twice: there is none.
unsigned partner_of(const std::vector<unsigned> &cpus, const std::string &what) {
    std::string mine = cpu_file(cpus[0], what);
    for (unsigned cpu : cpus)
        if (cpu_file(cpu, what) != mine) return cpu;
    return cpus[0];
}

// A hop of the ping-pong is a way there and one back: twice what a line takes.
void measure_two(Found &found, const std::vector<unsigned> &cpus) {
    constexpr double socket_over_cluster = 3, remote_over_cluster = 6; // where there is no such pair
    double near_ns = hop_ns(cpus[0], cpus[1]) / 2;
    found.measure("cluster_ns", near_ns);
    unsigned in_socket = partner_of(cpus, "cache/index3/shared_cpu_list"),
             remote = partner_of(cpus, "topology/physical_package_id");
    if (in_socket != cpus[0] && in_socket != remote)
        found.measure("socket_ns", hop_ns(cpus[0], in_socket) / 2);
    else
        found.give("socket_ns", std::round(near_ns * socket_over_cluster));
    if (remote != cpus[0])
        found.measure("remote_ns", hop_ns(cpus[0], remote) / 2);
    else
        found.give("remote_ns", std::round(near_ns * remote_over_cluster));
    found.measure("overlap_percent", std::min(100.0, 100 * scan_ns(cpus[0], cpus[1]) / near_ns));
    found.measure("pair_percent", pair_percent(cpus[0], cpus[1]));
    WakeCosts brief = wake_costs(cpus[0], cpus[1], 30), middle = wake_costs(cpus[0], cpus[1], 500),
              slow = wake_costs(cpus[0], cpus[1], 5000);
    found.measure("wake_ns", brief.send_ns);
    found.measure("run_short_ns", brief.run_ns);
    found.measure("run_middle_ns", middle.run_ns);
    found.measure("run_long_ns", slow.run_ns);
    double turn = turn_ns(cpus[0]); // a wake, a sleep and a switch
    found.measure("sleep_ns", turn / 3);
    found.measure("switch_ns", turn / 3);
    BarrierCosts barrier = barrier_costs(cpus[0], cpus[1]);
    found.measure("barrier_ns", barrier.alone_ns);
    found.measure("barrier_cpu_ns", std::max(0.0, barrier.with_another_ns - barrier.alone_ns));
    found.measure("interrupt_ns", barrier.interrupt_ns);
}

ordered_json measure_machine() {
    std::vector<unsigned> cpus = cpus_allowed();
    if (cpus.size() < 2) throw std::runtime_error("--machine needs two CPUs, to pass lines between them");
    Found found;
    std::set<std::string> packages;
    for (unsigned cpu : cpus) packages.insert(cpu_file(cpu, "topology/physical_package_id"));
    unsigned cluster = list_count(cpu_file(cpus[0], "cache/index3/shared_cpu_list"));
    found.measure("cpus", static_cast<double>(cpus.size()));
    found.measure("sockets", static_cast<double>(packages.size()));
    found.measure("cluster_cpus", cluster == 0 ? static_cast<double>(cpus.size()) : cluster);
    found.measure("l1_lines", kilobytes(cpu_file(cpus[0], "cache/index0/size"), 32) * 1024 / line_bytes);
    found.measure("l2_lines", kilobytes(cpu_file(cpus[0], "cache/index2/size"), 1024) * 1024 / line_bytes);
    stay_on(cpus[0]);
    measure_one(found);
    measure_two(found, cpus);
    found.give("store_buffer", 16);
    found.give("call_ns", 0.3);
    found.give("share_ns", 5);
    found.give("migrate_ns", 2000);
    found.give("slice_ns", 3000000);
    found.give("timer_slack_ns", 50000);
    found.give("skew_ns", 5);
    return found.finish(machine_describe().cpu);
}

} // namespace

int latency_machine(const std::string &json_file) {
    ordered_json machine = measure_machine();
    if (json_file.empty()) {
        std::cout << std::setw(2) << machine << "\n";
        return 0;
    }
    std::ofstream file(json_file);
    file << std::setw(2) << machine << "\n";
    file.flush();
    if (!file) throw std::runtime_error("cannot write " + json_file);
    return 0;
}
