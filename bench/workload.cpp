// See workload.hpp.
#include "workload.hpp"
#include "alloc.hpp"
#include "slot.hpp"

#include <cstdlib>
#include <cstring>
#include <semaphore.h>

namespace {

constexpr size_t payload_bytes_max = 1024;

// ---- streams: one thread submits all jobs, then waits

struct IntFill {
    uint32_t payload;
    size_t size() const { return sizeof payload; }
    const void *fill(uint64_t i) {
        payload = static_cast<uint32_t>(i);
        return &payload;
    }
    uint64_t check(uint64_t i) const { return job_scramble(static_cast<uint32_t>(i)); }
};

struct BlockFill {
    alignas(16) unsigned char payload[payload_bytes_max];
    uint32_t bytes;
    explicit BlockFill(uint32_t size) : bytes(size) { memset(payload, 0x5a, sizeof payload); }
    size_t size() const { return bytes; }
    const void *fill(uint64_t i) {
        job_block_head head = {static_cast<uint32_t>(i), bytes};
        uint32_t last = job_scramble(head.number);
        memcpy(payload, &head, sizeof head);
        memcpy(payload + bytes - sizeof last, &last, sizeof last);
        return payload;
    }
    uint64_t check(uint64_t i) const { return job_scramble(static_cast<uint32_t>(i)); }
};

// The coliseum's three: the same task; one to three times the task; tasks of three lengths, in a fixed random order.
struct FibFill {
    job_fib_payload payload{};
    unsigned n_min, n_max, times_max;
    FibFill(unsigned least, unsigned most, unsigned times) : n_min(least), n_max(most), times_max(times) {}
    size_t size() const { return sizeof payload; }
    job_fib_payload at(uint64_t i) const {
        uint32_t number = static_cast<uint32_t>(i), random = job_scramble(number) >> 8;
        return {number, static_cast<uint16_t>(n_min + random % (n_max - n_min + 1)),
                static_cast<uint16_t>(1 + random % times_max)};
    }
    const void *fill(uint64_t i) {
        payload = at(i);
        return &payload;
    }
    uint64_t check(uint64_t i) const {
        job_fib_payload job = at(i);
        return job.times * job_fib_value(job.n);
    }
};

template <class Fill> struct Batch {
    const entrant &table;
    void *pool;
    entrant_fn fn;
    Fill fill;
    uint64_t first, end;
    int error;

    static void submit_all(void *arg) {
        auto *self = static_cast<Batch *>(arg);
        auto submit = self->table.submit;
        size_t size = self->fill.size();
        for (uint64_t i = self->first; i < self->end && self->error == 0; i++) {
            self->error = submit(self->pool, self->fn, self->fill.fill(i), size);
        }
    }

    int run() {
        if (table.enter != nullptr)
            table.enter(pool, submit_all, this);
        else
            submit_all(this);
        int waited = table.wait(pool);
        return error != 0 ? error : waited;
    }
};

template <class Fill> class Stream : public Workload {
    entrant_fn fn;
    Fill fill;
    uint64_t batch_tasks; // how many are submitted between two waits; 0: all
    bool spins;

  public:
    Stream(entrant_fn job, Fill payload, uint64_t batch = 0, bool spin = false)
        : fn(job), fill(payload), batch_tasks(batch), spins(spin) {}

    size_t payload_max() const override { return fill.size(); }
    bool spin() const override { return spins; }

    int run(const entrant &table, void *pool, uint64_t tasks) override {
        uint64_t step = batch_tasks != 0 ? batch_tasks : tasks;
        int error = 0;
        for (uint64_t first = 0; first < tasks && error == 0; first += step) {
            error = Batch<Fill>{table, pool, fn, fill, first, first + step, 0}.run();
        }
        return error;
    }

    bool run_range(uint64_t first, uint64_t end) override {
        Fill mine = fill;
        alignas(
            16) unsigned char copy[payload_bytes_max]; // a job may write to its payload, so it gets a copy, as from a pool
        size_t size = fill.size();
        for (uint64_t i = first; i < end; i++) {
            memcpy(copy, mine.fill(i), size);
            fn(copy, nullptr);
        }
        return true;
    }

    job_totals expected(uint64_t tasks) const override {
        job_totals all = {tasks, tasks * (tasks - 1) / 2, 0};
        for (uint64_t i = 0; i < tasks; i++) all.check += fill.check(i);
        if (fn == job_shared) all.count = all.sum = 0;
        return all;
    }
};

// ---- a chain: each job submits the next

// What all jobs of a chain share. The last job posts `done` itself: a wait that is a job queued behind others would not
// cover the jobs that these submit.
struct Links {
    const entrant *table;
    void *pool;
    uint32_t tasks;
    sem_t done;
};

// Each job passes it on to the next.
struct Link {
    Links *links;
    uint32_t number;
};

int link_run(void *payload, weft_worker *self) {
    auto *link = static_cast<Link *>(payload);
    Links *links = link->links;
    uint32_t number = link->number;
    job_int(&number, self);
    if (number + 1 == links->tasks) return sem_post(&links->done);
    Link next = {links, number + 1};
    int error = links->table->submit(links->pool, link_run, &next, sizeof next);
    if (error != 0) sem_post(&links->done);
    return error;
}

class Chain : public Stream<IntFill> {
    struct Start {
        Link first;
        int error;
        static void submit(void *arg) {
            auto *self = static_cast<Start *>(arg);
            const Links *links = self->first.links;
            self->error = links->table->submit(links->pool, link_run, &self->first, sizeof self->first);
        }
    };

  public:
    Chain() : Stream<IntFill>(job_int, IntFill{}) {}
    size_t payload_max() const override { return sizeof(Link); }

    int run(const entrant &table, void *pool, uint64_t tasks) override {
        Links links = {&table, pool, static_cast<uint32_t>(tasks), {}};
        if (sem_init(&links.done, 0, 0) != 0) return -1;
        Start start = {{&links, 0}, 0};
        if (table.enter != nullptr)
            table.enter(pool, Start::submit, &start);
        else
            Start::submit(&start);
        bool caller_runs = (table.flags & ENTRANT_CALLER_RUNS) != 0;                     // then its wait runs the chain
        while (start.error == 0 && !caller_runs && sem_wait(&links.done) != 0) continue; // again after a signal
        int waited = table.wait(pool);
        sem_destroy(&links.done);
        return start.error != 0 ? start.error : waited;
    }
};

// ---- the shape of a video encoder's frame

constexpr unsigned latch_lookahead = 0, latch_signalled = 1, latch_tail = 2;
constexpr unsigned serial_us = 200, lookahead_us = 500, encode_us = 2400, tail_us = 600, after_us = 100;

// A frame of X slices has five steps: (1) the last frame's slices are still finishing; (2) serial preparation; (3) X
// lookahead pieces, joined; (4) the rest of (1); (5) X slices that signal and go on; a serial end runs while they finish.
class Shape : public Workload {
    unsigned slices;
    unsigned per_us;
    uint32_t next = 0;

    int submit(const entrant &table, void *pool, job_work_payload job) {
        job.number = next++;
        return table.submit(pool, job_work, &job, sizeof job);
    }

    int submit_all(const entrant &table, void *pool, const job_work_payload &job) {
        int error = 0;
        for (unsigned i = 0; i < slices && error == 0; i++) error = submit(table, pool, job);
        return error;
    }

    int frame(const entrant &table, void *pool) {
        job_spin(serial_us * per_us);
        latch_set(latch_lookahead, slices);
        int error = submit_all(table, pool, {0, lookahead_us * per_us, 0, latch_lookahead, JOB_NO_LATCH});
        if (error != 0) return error;
        latch_wait(latch_lookahead);
        latch_wait(latch_tail);
        latch_set(latch_signalled, slices);
        latch_set(latch_tail, slices);
        error = submit_all(table, pool, {0, encode_us * per_us, tail_us * per_us, latch_signalled, latch_tail});
        if (error != 0) return error;
        latch_wait(latch_signalled);
        job_spin(after_us * per_us);
        return 0;
    }

  public:
    Shape(unsigned count, unsigned iterations_per_us) : slices(count), per_us(iterations_per_us) {}
    size_t payload_max() const override { return sizeof(job_work_payload); }

    int run(const entrant &table, void *pool, uint64_t tasks) override {
        int error = 0;
        next = 0;
        for (uint64_t i = 0; i < tasks / (uint64_t{2} * slices) && error == 0; i++) error = frame(table, pool);
        if (error == 0) latch_wait(latch_tail);
        int waited = table.wait(pool);
        return error != 0 ? error : waited;
    }

    bool run_range(uint64_t, uint64_t) override { return false; }

    job_totals expected(uint64_t tasks) const override {
        job_totals all = {tasks, tasks * (tasks - 1) / 2, 0};
        for (uint64_t i = 0; i < tasks; i++) all.check += job_scramble(static_cast<uint32_t>(i));
        return all;
    }
};

template <class Fill> std::unique_ptr<Workload> stream(entrant_fn fn, Fill fill, uint64_t batch = 0, bool spin = false) {
    return std::make_unique<Stream<Fill>>(fn, fill, batch, spin);
}

std::unique_ptr<Workload> payload_case(const std::string &name) {
    unsigned long size = strtoul(name.c_str(), nullptr, 10);
    if (size == sizeof(uint32_t)) return stream(job_int, IntFill{});
    if (size < sizeof(job_block_head) + sizeof(uint32_t) || size > payload_bytes_max) return nullptr;
    return stream(job_block, BlockFill(static_cast<uint32_t>(size)));
}

} // namespace

std::unique_ptr<Workload> workload_make(const WorkloadConfig &config) {
    const std::string &workload = config.workload;
    if (workload == "submit") return stream(config.name == "shared-counter" ? job_shared : job_int, IntFill{});
    if (workload == "one") return stream(job_int, IntFill{}, 1);
    if (workload == "chain") return std::make_unique<Chain>();
    if (workload == "payload") return payload_case(config.name);
    if (workload == "fib19") return stream(job_fib, FibFill(19, 19, 1));
    if (workload == "fib19x1-3") return stream(job_fib, FibFill(19, 19, 3));
    if (workload == "fib17-19") return stream(job_fib, FibFill(17, 19, 1));
    if (workload == "handoff") return stream(job_int, IntFill{}, 0, config.name == "spinning");
    if (workload == "frame") return stream(job_int, IntFill{}, 4096);
    if (workload == "x264-shape") return std::make_unique<Shape>(config.slices, config.iterations_per_us);
    if (auto slot = slot_workload_make(config)) return slot;
    return alloc_workload_make(workload, config.name, config.slices);
}
