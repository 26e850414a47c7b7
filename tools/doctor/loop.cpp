// fib(19) over and over on one CPU, each call timed.
#include "loop.hpp"

#include "../../bench/jobs.h"
#include "../gnuplot.hpp"
#include "../race/probe.hpp"
#include "../race/race.hpp"
#include "doctor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sched.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace {

// How long the calls took: a histogram whose bins are a five-hundredth wide at most, so its size does not depend on the time. Touched
// when it is made: no fault inside the loop.
class Calls {
    static constexpr unsigned bits = 10, octaves = 40; // of nanoseconds; the last one ends after 13 days
    std::vector<uint64_t> bins = std::vector<uint64_t>((octaves + 1) << bits, 0);

    static size_t bin_of(uint64_t ns) {
        unsigned shift = ns >> bits == 0 ? 0 : static_cast<unsigned>(63 - __builtin_clzll(ns)) - bits + 1;
        return std::min(octaves * (size_t{1} << bits), (size_t{shift} << bits)) + (ns >> shift);
    }
    static double us_of(size_t bin) {
        size_t shift = bin >> bits, low = bin & ((1U << bits) - 1);
        return std::ldexp(static_cast<double>(low), static_cast<int>(shift)) * 1e-3;
    }

  public:
    uint64_t count = 0, total_ns = 0, longest_ns = 0;

    void add(uint64_t ns) {
        bins[std::min(bin_of(ns), bins.size() - 1)]++;
        count++;
        total_ns += ns;
        longest_ns = std::max(longest_ns, ns);
    }
    double percentile_us(double percent) const {
        auto rank = static_cast<uint64_t>(percent / 100 * static_cast<double>(count));
        uint64_t seen = 0;
        for (size_t bin = 0; bin < bins.size(); bin++) {
            seen += bins[bin];
            if (seen > rank) return us_of(bin);
        }
        return static_cast<double>(longest_ns) * 1e-3;
    }
    // So many took longer, and by so much in all.
    std::pair<uint64_t, double> beyond_us(double us) const {
        std::pair<uint64_t, double> sum{0, 0};
        for (size_t bin = 0; bin < bins.size(); bin++) {
            if (us_of(bin) <= us) continue;
            sum.first += bins[bin];
            sum.second += static_cast<double>(bins[bin]) * (us_of(bin) - us);
        }
        return sum;
    }
};

struct Loop {
    static constexpr size_t stretches = 2000;
    Calls calls;
    std::vector<uint64_t> longest_ns = std::vector<uint64_t>(stretches, 0); // of each stretch of the time, for the plot
    double seconds = 0;
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
    loop.seconds = seconds;
    job_fib_payload fib = {0, 19, 1};
    loop.switches = -switches_now();
    uint64_t start_ns = clock_ns(), at_ns = start_ns;
    auto span_ns = static_cast<uint64_t>(seconds * 1e9);
    do {
        job_fib(&fib, nullptr);
        uint64_t now_ns = clock_ns();
        uint64_t &longest = loop.longest_ns[(at_ns - start_ns) * Loop::stretches / span_ns];
        longest = std::max(longest, now_ns - at_ns);
        loop.calls.add(now_ns - at_ns);
        at_ns = now_ns;
    } while (at_ns - start_ns < span_ns && !interrupted());
    loop.switches += switches_now();
    return loop;
}

void loop_print(const Loop &loop, int cpu) {
    const Calls &calls = loop.calls;
    double median = calls.percentile_us(50), total_us = static_cast<double>(calls.total_ns) * 1e-3;
    double lost_us = calls.beyond_us(median).second;
    auto disturbed = static_cast<double>(calls.beyond_us(1.2 * median).first);
    printf(
        "fib(19) on CPU %d, %llu calls in %.1f s: median %.2f us, 99 %% %.2f, 99.9 %% %.2f, 99.99 %% %.2f, longest %.1f\n",
        cpu, static_cast<unsigned long long>(calls.count), total_us / 1e6, median, calls.percentile_us(99),
        calls.percentile_us(99.9), calls.percentile_us(99.99), static_cast<double>(calls.longest_ns) * 1e-3);
    printf("%.2f %% of the time went elsewhere; %.0f calls a second took a fifth longer than the median; the CPU was taken "
           "away %ld times\n",
           100 * lost_us / total_us, disturbed * 1e6 / total_us, loop.switches);
}

double percentile(const std::vector<double> &sorted, double percent) {
    auto rank = static_cast<size_t>(percent / 100 * static_cast<double>(sorted.size()));
    return sorted[std::min(rank, sorted.size() - 1)];
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
    if (trace.overrun() > 0)
        printf("  %llu events were lost (the kernel keeps the newest 8 MiB of each CPU): the counts are of the end only\n",
               static_cast<unsigned long long>(trace.overrun()));
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
    std::string data = "$calls << EOD\n";
    for (size_t i = 0; i < Loop::stretches; i++) {
        char line[64];
        if (loop.longest_ns[i] == 0) continue;
        snprintf(line, sizeof line, "%.5f %.3f\n", loop.seconds * static_cast<double>(i) / Loop::stretches,
                 static_cast<double>(loop.longest_ns[i]) * 1e-3);
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
    loop_print(loop, cpu);
    trace_print(trace);
    if (!options.plot_file.empty()) plot(loop, options, cpu);
    return interrupted() ? 130 : 0;
}
