// One slice: bursts at their beats, in the process of the contestant.
#include "latency.hpp"

#include "../../bench/jobs.h"
#include "../race/probe.hpp"

#include <algorithm>
#include <cerrno>
#include <random>
#include <sched.h>
#include <stdexcept>
#include <time.h>

namespace {

// What a task leaves behind.
struct alignas(128) Trace {
    uint32_t runs;
    int cpu;
    const void *thread;
};

struct Task {
    Trace *trace;
    uint32_t iterations;
};

thread_local char this_thread; // its address tells threads apart

int task_run(void *payload, weft_worker *) {
    const Task task = *static_cast<const Task *>(payload);
    task.trace->cpu = sched_getcpu();
    task.trace->thread = &this_thread;
    job_spin(task.iterations);
    task.trace->runs++;
    return 0;
}

uint64_t cpu_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Of every thread of this process but the calling one.
uint64_t others_cpu_ns() {
    uint64_t own = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
}

void sleep_until(double at_ns) {
    auto ns = static_cast<uint64_t>(at_ns);
    timespec at{};
    at.tv_sec = static_cast<time_t>(ns / 1000000000u);
    at.tv_nsec = static_cast<long>(ns % 1000000000u);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {}
}

class Burst {
    const Team &team;
    uint32_t iterations;
    std::vector<Trace> traces;
    int error = 0;
    int submitter_cpu = -1;
    const void *submitter = nullptr;

    static void submit_all(void *arg) {
        auto *self = static_cast<Burst *>(arg);
        self->submitter_cpu = sched_getcpu();
        self->submitter = &this_thread;
        for (size_t i = 0; i < self->traces.size() && self->error == 0; i++) {
            Task task = {&self->traces[i], self->iterations};
            self->error = self->team.table->submit(self->team.pool, task_run, &task, sizeof task);
        }
    }

  public:
    Burst(const Team &who, const SliceOrder &order) : team(who), iterations(order.iterations), traces(order.tasks) {}

    // The time from the first submit to the wait's return.
    uint64_t run() {
        for (auto &trace : traces) trace = Trace{};
        uint64_t start_ns = clock_ns();
        if (team.table->enter != nullptr)
            team.table->enter(team.pool, submit_all, this);
        else
            submit_all(this);
        int waited = team.table->wait(team.pool);
        uint64_t makespan_ns = clock_ns() - start_ns;
        if (error != 0 || waited != 0) throw std::runtime_error("submit or wait failed");
        if (!std::all_of(traces.begin(), traces.end(), [](const Trace &trace) { return trace.runs == 1; }))
            throw std::runtime_error("not every task ran exactly once");
        return makespan_ns;
    }

    void account(SliceReport &report) const {
        for (const auto &trace : traces) {
            if (trace.thread == submitter) continue;
            report.on_workers++;
            if (trace.cpu == submitter_cpu) report.on_same_cpu++;
        }
    }
};

// When the bursts are due. The time between two is the period, give or take the jitter; a missed beat adds another.
class Beats {
    const Team &team;
    double at_ns, period_ns;
    double late_ns = 50000; // a running median: this thread has to be woken itself
    std::mt19937_64 random;
    std::uniform_real_distribution<double> factor;
    std::bernoulli_distribution missed;

  public:
    Beats(const Team &who, const SliceOrder &order)
        : team(who), at_ns(0), period_ns(order.period_ns), random(order.seed), factor(1 - order.jitter, 1 + order.jitter),
          missed(order.miss) {
        std::uniform_real_distribution<double> phase(0, 1);
        at_ns = static_cast<double>(clock_ns()) + period_ns * phase(random);
    }
    // Sleeps until the next beat; one that is over is now. The nanoseconds it is late.
    double next() {
        do at_ns += period_ns * factor(random);
        while (missed(random));
        at_ns = std::max(at_ns, static_cast<double>(clock_ns()));
        if (team.expect != nullptr) team.expect(team.pool, static_cast<uint64_t>(at_ns + late_ns));
        sleep_until(at_ns);
        double late = static_cast<double>(clock_ns()) - at_ns;
        late_ns += late > late_ns ? 2000 : -2000;
        return late;
    }
};

} // namespace

void slice_run(const Team &team, const SliceOrder &order, std::vector<float> &makespans_ns, SliceReport &report) {
    Burst burst(team, order);
    Beats beats(team, order);
    std::vector<double> late_ns;
    for (uint32_t i = 0; i < order.warm; i++) {
        beats.next();
        burst.run();
    }
    late_ns.push_back(beats.next());
    uint64_t start_ns = clock_ns(), start_cpu_ns = others_cpu_ns();
    for (uint32_t i = 0; i < order.bursts; i++) {
        makespans_ns.push_back(static_cast<float>(burst.run()));
        burst.account(report);
        late_ns.push_back(beats.next());
    }
    report.worker_cpu_ns = others_cpu_ns() - start_cpu_ns;
    report.wall_ns = clock_ns() - start_ns;
    std::nth_element(late_ns.begin(), late_ns.begin() + static_cast<std::ptrdiff_t>(late_ns.size() / 2), late_ns.end());
    report.late_ns = static_cast<uint64_t>(late_ns[late_ns.size() / 2]);
}
