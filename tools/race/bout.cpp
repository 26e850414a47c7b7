// See bout.hpp.
#include "bout.hpp"
#include "alloc.hpp"
#include "probe.hpp"

#include "../../bench/pattern.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace {

// Static threads: no pool, the jobs split ahead. The ceiling of what any pool can reach.
class StaticThreads {
    Workload &work;
    unsigned workers;
    std::vector<std::thread> threads;
    std::mutex lock;
    std::condition_variable changed;
    uint64_t tasks = 0, round = 0;
    unsigned running = 0;
    bool stop = false;

    void thread_main(unsigned self) {
        std::unique_lock<std::mutex> held(lock);
        for (uint64_t seen = 0;; seen = round) {
            changed.wait(held, [&] { return round != seen || stop; });
            if (stop) return;
            uint64_t n = tasks;
            held.unlock();
            work.run_range(n * self / workers, n * (self + 1) / workers);
            held.lock();
            if (--running == 0) changed.notify_all();
        }
    }

  public:
    StaticThreads(Workload &workload, unsigned count) : work(workload), workers(count) {
        for (unsigned i = 0; i < count; i++) threads.emplace_back([this, i] { thread_main(i); });
    }
    ~StaticThreads() {
        {
            std::lock_guard<std::mutex> held(lock);
            stop = true;
            changed.notify_all();
        }
        for (auto &thread : threads) thread.join();
    }
    void run(uint64_t n) {
        std::unique_lock<std::mutex> held(lock);
        tasks = n;
        running = workers;
        round++;
        changed.notify_all();
        changed.wait(held, [this] { return running == 0; });
    }
};

template <class Table> const Table &load(const std::string &file, const char *symbol, uint32_t version) {
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    auto *found = static_cast<const Table *>(dlsym(library, symbol));
    if (found == nullptr) throw std::runtime_error(std::string("it exports no ") + symbol);
    if (found->version != version) throw std::runtime_error("it was built for another version of the table");
    return *found;
}

template <class Table> void *create(const Table &table, const entrant_config &config) {
    void *pool = table.create(&config);
    if (pool == nullptr) throw std::runtime_error("the pool could not be created");
    return pool;
}

void expect_success(int error) {
    if (error != 0) throw std::runtime_error("submit or wait failed: " + std::to_string(error));
}

// Jobs for a pool with the five functions, or for static threads.
class TaskBout : public Bout {
    std::unique_ptr<Workload> work;
    const entrant *table = nullptr;
    void *pool = nullptr;
    std::unique_ptr<StaticThreads> threads;

  public:
    TaskBout(const Seat &seat, std::unique_ptr<Workload> workload) : work(std::move(workload)) {
        note_memory();
        if (alloc_is(seat.workload)) {
            static const entrant no_pool{};
            allocator_require(seat.entrant);
            table = &no_pool;
            return;
        }
        if (seat.entrant == "static") {
            threads = std::make_unique<StaticThreads>(*work, seat.workers);
            return;
        }
        table = &load<entrant>(seat.entrant, "weft_entrant", ENTRANT_VERSION);
        note_memory();
        pool = create(*table, {seat.workers, work->spin() ? 1u : 0u, work->payload_max()});
    }
    void prove() override { work->prove(); }
    void reset(uint64_t) override {
        jobs_reset();
        work->reset();
    }
    void run(uint64_t tasks) override {
        if (threads != nullptr)
            threads->run(tasks);
        else
            expect_success(work->run(*table, pool, tasks));
    }
    void check(uint64_t tasks) override {
        job_totals want = work->expected(tasks), have = jobs_total();
        if (memcmp(&want, &have, sizeof want) == 0) return;
        throw std::runtime_error("not every job ran exactly once: " + std::to_string(have.count) + " calls for " +
                                 std::to_string(want.count) + " jobs, checks " + std::to_string(have.check) + " for " +
                                 std::to_string(want.check));
    }
    void amend(Reply &reply) override {
        if (work->tell(reply.slot)) {
            reply.has_slot = 1;
            reply.wall_ns = static_cast<uint64_t>(reply.slot.makespan_ns * static_cast<double>(reply.tasks));
        }
        if (work->held_bytes() == 0) return;
        reply.peak_bytes = work->held_bytes();
        reply.before_bytes = work->held_before();
    }
};

// The nearest-rank percentile of sorted values.
double percentile(const std::vector<double> &sorted, unsigned percent) {
    return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

class PatternBout : public Bout {
    std::unique_ptr<Pattern> work;
    const patterns &table;
    void *pool;

  public:
    PatternBout(const Seat &seat, std::unique_ptr<Pattern> pattern)
        : work(std::move(pattern)), table(load<patterns>(seat.entrant, "weft_patterns", PATTERNS_VERSION)) {
        note_memory();
        pool = create(table, {seat.workers, 0, 0});
    }
    void reset(uint64_t tasks) override { work->reset(tasks); }
    void run(uint64_t tasks) override {
        struct Call {
            PatternBout *self;
            uint64_t tasks;
            int error;
        } call = {this, tasks, 0};
        auto body = [](void *arg) {
            auto *it = static_cast<Call *>(arg);
            it->error = it->self->work->run(it->self->table, it->self->pool, it->tasks);
        };
        if (table.enter != nullptr)
            table.enter(pool, body, &call);
        else
            body(&call);
        expect_success(call.error);
    }
    void check(uint64_t tasks) override {
        std::string wrong = work->wrong(tasks);
        if (!wrong.empty()) throw std::runtime_error(wrong);
    }
    void amend(Reply &reply) override {
        std::vector<double> times_ns = work->samples();
        if (times_ns.empty()) return;
        std::sort(times_ns.begin(), times_ns.end());
        auto all = static_cast<double>(times_ns.size());
        reply.wall_ns = static_cast<uint64_t>(percentile(times_ns, 50) * all);
        reply.tail_ns = static_cast<uint64_t>(percentile(times_ns, 99) * all);
    }
};

} // namespace

void Bout::note_memory() { before_bytes = resident_bytes(); }

std::unique_ptr<Bout> bout_make(const Seat &seat) {
    WorkloadConfig config = {seat.workload, seat.name, seat.slices, seat.iterations_per_us};
    if (auto pattern = pattern_make(config)) return std::make_unique<PatternBout>(seat, std::move(pattern));
    auto work = workload_make(config);
    if (work == nullptr) throw std::runtime_error("no such case");
    return std::make_unique<TaskBout>(seat, std::move(work));
}
