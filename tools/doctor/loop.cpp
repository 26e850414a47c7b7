// fib(19) over and over on one CPU, each call timed.
#include "loop.hpp"

#include "../../bench/jobs.h"
#include "../gnuplot.hpp"
#include "../race/probe.hpp"
#include "../race/race.hpp"
#include "doctor.hpp"

#include <algorithm>
#include <cstdio>
#include <sched.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace {

struct Sample {
    float at_s, us;
};

struct Loop {
    std::vector<Sample> samples;
    long switches = 0; // times the CPU was taken away
};

// The CPUs this process may use; the loop runs on the last, or the one asked for.
int cpu_take(int wanted) {
    cpu_set_t allowed[cpu_sets], own[cpu_sets];
    constexpr int cpus = cpu_sets * CPU_SETSIZE;
    CPU_ZERO_S(sizeof allowed, allowed);
    if (sched_getaffinity(0, sizeof allowed, allowed) != 0) throw std::runtime_error("the affinity cannot be read");
    int last = 0;
    for (int cpu = 0; cpu < cpus; cpu++) {
        if (CPU_ISSET_S(cpu, sizeof allowed, allowed)) last = cpu;
    }
    int cpu = wanted < 0 ? last : wanted;
    CPU_ZERO_S(sizeof own, own);
    if (cpu < cpus) CPU_SET_S(cpu, sizeof own, own);
    if (sched_setaffinity(0, sizeof own, own) != 0)
        throw std::invalid_argument("CPU " + std::to_string(cpu) + " is not to be had");
    return cpu;
}

long switches_now() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

Loop loop_run(double seconds) {
    Loop loop;
    loop.samples.reserve(static_cast<size_t>(seconds * 400000)); // touched before: no fault inside the loop
    std::fill_n(std::back_inserter(loop.samples), loop.samples.capacity(), Sample{});
    loop.samples.clear();
    job_fib_payload fib = {0, 19, 1};
    loop.switches = -switches_now();
    uint64_t start_ns = clock_ns(), at_ns = start_ns;
    auto end_ns = start_ns + static_cast<uint64_t>(seconds * 1e9);
    while (at_ns < end_ns && loop.samples.size() < loop.samples.capacity() && !interrupted()) {
        job_fib(&fib, nullptr);
        uint64_t now_ns = clock_ns();
        loop.samples.push_back({static_cast<float>(static_cast<double>(at_ns - start_ns) * 1e-9),
                                static_cast<float>(static_cast<double>(now_ns - at_ns) * 1e-3)});
        at_ns = now_ns;
    }
    loop.switches += switches_now();
    return loop;
}

double percentile(const std::vector<double> &sorted, double percent) {
    auto rank = static_cast<size_t>(percent / 100 * static_cast<double>(sorted.size()));
    return sorted[std::min(rank, sorted.size() - 1)];
}

void loop_print(const Loop &loop, int cpu) {
    std::vector<double> us;
    double total = 0, lost = 0;
    size_t disturbed = 0;
    us.reserve(loop.samples.size());
    for (const auto &sample : loop.samples) us.push_back(static_cast<double>(sample.us));
    std::sort(us.begin(), us.end());
    double median = percentile(us, 50);
    for (double one : us) {
        total += one;
        lost += std::max(0.0, one - median);
        disturbed += one > 1.2 * median ? 1 : 0;
    }
    printf("fib(19) on CPU %d, %zu calls in %.1f s: median %.2f us, 99 %% %.2f, 99.9 %% %.2f, 99.99 %% %.2f, longest %.1f\n",
           cpu, us.size(), total / 1e6, median, percentile(us, 99), percentile(us, 99.9), percentile(us, 99.99), us.back());
    printf("%.2f %% of the time went elsewhere; %.0f calls a second took a fifth longer than the median; the CPU was taken "
           "away %ld times\n",
           100 * lost / total, static_cast<double>(disturbed) * 1e6 / total, loop.switches);
}

void trace_print(const KernelTrace &trace) {
    if (!trace.reason().empty()) {
        printf("no trace events: %s\n", trace.reason().c_str());
        return;
    }
    std::vector<double> wake_us;
    std::vector<std::pair<uint64_t, std::string>> causes;
    for (const auto &[name, count] : trace.causes("weft-loop", wake_us)) causes.emplace_back(count, name);
    std::sort(causes.rbegin(), causes.rend());
    printf("what the kernel did on this CPU meanwhile\n");
    for (size_t i = 0; i < std::min<size_t>(causes.size(), 15); i++)
        printf("  %8llu  %s\n", static_cast<unsigned long long>(causes[i].first), causes[i].second.c_str());
    if (causes.empty()) printf("  nothing\n");
    if (wake_us.empty()) return;
    std::sort(wake_us.begin(), wake_us.end());
    printf("from sched_wakeup to sched_switch, all CPUs, %zu wakes: median %.0f us, 99 %% %.0f, longest %.0f\n",
           wake_us.size(), percentile(wake_us, 50), percentile(wake_us, 99), wake_us.back());
}

// The longest call of each of 2000 stretches of time, so that a rare one is seen.
void plot(const Loop &loop, const LoopOptions &options, int cpu) {
    constexpr size_t stretches = 2000;
    std::string data = "$calls << EOD\n";
    size_t each = std::max<size_t>(1, loop.samples.size() / stretches);
    for (size_t i = 0; i < loop.samples.size(); i += each) {
        auto end = loop.samples.begin() + static_cast<std::ptrdiff_t>(std::min(i + each, loop.samples.size()));
        auto longest = std::max_element(loop.samples.begin() + static_cast<std::ptrdiff_t>(i), end,
                                        [](const Sample &a, const Sample &b) { return a.us < b.us; });
        char line[64];
        snprintf(line, sizeof line, "%.5f %.3f\n", static_cast<double>(longest->at_s), static_cast<double>(longest->us));
        data += line;
    }
    std::string title = "fib(19) over and over on CPU " + std::to_string(cpu) + ": the longest call of each moment";
    gnuplot_run(
        gnuplot_output(options.plot_file, 1000, 450) + data + "EOD\nset title " + gnuplot_quoted(title) +
            "\nset logscale y\nset grid\nunset key\nset xlabel 's'\nset ylabel 'us'\nplot $calls with points pt 7 ps 0.3\n",
        options.plot_file);
}

} // namespace

int loop_main(const LoopOptions &options) {
    interrupt_prepare();
    int cpu = 0;
    try {
        cpu = cpu_take(options.cpu);
    } catch (const std::invalid_argument &wrong) {
        fprintf(stderr, "weft doctor loop: %s\n", wrong.what());
        return 2;
    }
    prctl(PR_SET_NAME, "weft-loop");
    KernelTrace trace(cpu);
    Loop loop = loop_run(options.seconds);
    trace.stop();
    if (loop.samples.empty()) return 130;
    loop_print(loop, cpu);
    trace_print(trace);
    if (!options.plot_file.empty()) plot(loop, options, cpu);
    return interrupted() ? 130 : 0;
}
