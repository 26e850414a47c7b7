// See slot.hpp.
#include "slot.hpp"
#include "cpus.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sys/prctl.h>
#include <time.h>

namespace {

constexpr double period_ns = 1e3 * slot_period_us;

double now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void sleep_until(double at_ns) {
    timespec at{};
    at.tv_sec = static_cast<time_t>(at_ns / 1e9);
    at.tv_nsec = static_cast<long>(at_ns - static_cast<double>(at.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {}
}

double nearest_rank(std::vector<double> values, double share) {
    auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

class Slot : public Workload {
    unsigned rounds;
    uint32_t iterations;
    double alone_ns = 0;           // the time of a task by itself
    std::vector<double> last_ns;   // makespans of the last round
    std::vector<double> over;      // makespans of all rounds told, divided by the ideal
    uint64_t missed = 0, told = 0; // `over` and `missed` leave out the first round, which runs on cold memory
    uint32_t number = 0;

    struct Batch {
        Slot *slot;
        const entrant &table;
        void *pool;
        unsigned count;
        int error;
    };

    static void submit_all(void *arg) {
        auto *batch = static_cast<Batch *>(arg);
        for (unsigned i = 0; i < batch->count && batch->error == 0; i++) {
            job_work_payload job = {batch->slot->number++, batch->slot->iterations, 0, JOB_NO_LATCH, JOB_NO_LATCH};
            batch->error = batch->table.submit(batch->pool, job_work, &job, sizeof job);
        }
    }

    int join(const entrant &table, void *pool, unsigned count) {
        Batch batch = {this, table, pool, count, 0};
        if (table.enter != nullptr)
            table.enter(pool, submit_all, &batch);
        else
            submit_all(&batch);
        int waited = table.wait(pool);
        return batch.error != 0 ? batch.error : waited;
    }

  public:
    Slot(double load, unsigned threads, unsigned iterations_per_us)
        : rounds(slot_rounds(threads)),
          iterations(static_cast<uint32_t>(load * slot_period_us / rounds * static_cast<double>(iterations_per_us))) {}

    size_t payload_max() const override { return sizeof(job_work_payload); }

    void reset() override {
        prctl(PR_SET_TIMERSLACK, 1); // for the caller alone: the pool's threads exist already
        std::vector<double> times_ns;
        for (int i = 0; i < 25; i++) {
            double start_ns = now_ns();
            job_spin(iterations);
            times_ns.push_back(now_ns() - start_ns);
        }
        alone_ns = nearest_rank(times_ns, 0.5);
    }

    // A slot that ends after the next one is due delays all that follow.
    int run(const entrant &table, void *pool, uint64_t slots) override {
        int error = 0;
        number = 0;
        last_ns.clear();
        double beat_ns = now_ns();
        for (uint64_t i = 0; i < slots && error == 0; i++) {
            beat_ns = std::max(beat_ns + period_ns, now_ns());
            sleep_until(beat_ns);
            double start_ns = now_ns();
            error = join(table, pool, slot_symbols);
            if (error == 0) error = join(table, pool, slot_decodes);
            last_ns.push_back(now_ns() - start_ns);
        }
        return error;
    }

    bool run_range(uint64_t, uint64_t) override { return false; }

    job_totals expected(uint64_t slots) const override {
        uint64_t tasks = slots * (slot_symbols + slot_decodes);
        job_totals all = {tasks, tasks * (tasks - 1) / 2, 0};
        for (uint64_t i = 0; i < tasks; i++) all.check += job_scramble(static_cast<uint32_t>(i));
        return all;
    }

    bool tell(SlotFigures &figures) override {
        if (told++ == 1) { // drops the first round
            over.clear();
            missed = 0;
        }
        for (double ns : last_ns) {
            over.push_back(ns / (rounds * alone_ns));
            missed += ns > period_ns ? 1 : 0;
        }
        figures.over_ideal_p50 = nearest_rank(over, 0.5);
        figures.over_ideal_p99 = nearest_rank(over, 0.99);
        figures.over_ideal_p999 = nearest_rank(over, 0.999);
        figures.missed_percent = 100 * static_cast<double>(missed) / static_cast<double>(over.size());
        figures.task_times_p50 = figures.over_ideal_p50 * rounds;
        figures.makespan_ns = nearest_rank(last_ns, 0.5);
        return true;
    }
};

} // namespace

unsigned slot_rounds(unsigned threads) {
    unsigned useful = std::min(threads, cpus_allowed());
    return (slot_symbols + useful - 1) / useful + (slot_decodes + useful - 1) / useful;
}

std::unique_ptr<Workload> slot_workload_make(const WorkloadConfig &config) {
    if (config.workload != "slot") return nullptr;
    double load = strtod(config.name.c_str(), nullptr) / 100;
    if (load <= 0 || load > 1) return nullptr;
    return std::make_unique<Slot>(load, config.slices, config.iterations_per_us);
}
