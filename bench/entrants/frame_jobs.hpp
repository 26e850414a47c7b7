// frame_jobs.hpp: a small job system as games write it: 64-byte jobs with a parent, a deque per thread, threads that steal
// and a main thread that helps. Where the jobs come from is a template parameter: nothing else differs between the frame's
// entrants.
#ifndef WEFT_BENCH_FRAME_JOBS_HPP
#define WEFT_BENCH_FRAME_JOBS_HPP

#include "../entrant.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sched.h>
#include <thread>
#include <vector>

namespace frame {

constexpr uint32_t jobs_max = 8192; // of one frame: 4096 children and their root, rounded up to a power of two
constexpr size_t data_bytes = 40;

struct alignas(64) Job {
    entrant_fn fn;
    Job *parent;
    std::atomic<int32_t> unfinished; // itself and its children
    uint32_t index;                  // the allocator's
    unsigned char data[data_bytes];
};
static_assert(sizeof(Job) == 64, "one cache line");

// Chase and Lev's deque (DOI 10.1145/1073970.1073974), of fixed size, every order sequentially consistent where it matters.
class Deque {
    alignas(64) std::atomic<int64_t> bottom{0};
    alignas(64) std::atomic<int64_t> top{0};
    std::unique_ptr<std::atomic<Job *>[]> jobs { new std::atomic<Job *>[ jobs_max ] };

    std::atomic<Job *> &at(int64_t i) { return jobs[static_cast<size_t>(i) & (jobs_max - 1)]; }

  public:
    void push(Job *job) {
        int64_t b = bottom.load(std::memory_order_relaxed);
        at(b).store(job, std::memory_order_relaxed);
        bottom.store(b + 1, std::memory_order_release);
    }

    Job *pop() {
        int64_t b = bottom.load(std::memory_order_relaxed) - 1;
        bottom.store(b, std::memory_order_seq_cst);
        int64_t t = top.load(std::memory_order_seq_cst);
        if (t < b) return at(b).load(std::memory_order_relaxed);
        Job *job = nullptr;
        if (t == b && top.compare_exchange_strong(t, t + 1)) job = at(b).load(std::memory_order_relaxed);
        bottom.store(b + 1, std::memory_order_relaxed);
        return job;
    }

    Job *steal() {
        int64_t t = top.load(std::memory_order_seq_cst);
        int64_t b = bottom.load(std::memory_order_seq_cst);
        if (t >= b) return nullptr;
        Job *job = at(t).load(std::memory_order_relaxed);
        return top.compare_exchange_strong(t, t + 1) ? job : nullptr;
    }
};

// Finished jobs that are deleted when the frame is over, because a parent may still be looked at until then.
class Deferred {
    std::vector<Job *> jobs = std::vector<Job *>(jobs_max);
    alignas(64) std::atomic<uint32_t> count{0};

  public:
    void add(Job *job) { jobs[count.fetch_add(1, std::memory_order_relaxed) & (jobs_max - 1)] = job; }
    template <class Delete> void drain(Delete remove) {
        uint32_t n = count.load(std::memory_order_relaxed);
        for (uint32_t i = 0; i < n; i++) remove(jobs[i]);
        count.store(0, std::memory_order_relaxed);
    }
};

// new and delete, deferred.
struct NewDelete {
    Deferred deferred;
    Job *allocate() { return new Job; }
    void finished(Job *job) { deferred.add(job); }
    void frame_end() {
        deferred.drain([](Job *job) { delete job; });
    }
};

// A lock-free stack of unused jobs, the head tagged against reuse; freed when the frame is over.
struct FreeList {
    Deferred deferred;
    std::vector<Job> jobs = std::vector<Job>(jobs_max);
    std::vector<std::atomic<uint32_t>> next = std::vector<std::atomic<uint32_t>>(jobs_max);
    alignas(64) std::atomic<uint64_t> head{0}; // tag << 32 | index

    FreeList() {
        for (uint32_t i = 0; i < jobs_max; i++) {
            next[i].store(i + 1, std::memory_order_relaxed);
            jobs[i].index = i;
        }
    }
    Job *allocate() {
        uint64_t old = head.load(std::memory_order_acquire);
        for (;;) {
            uint32_t index = static_cast<uint32_t>(old);
            if (index == jobs_max) return nullptr;
            uint64_t now = ((old >> 32) + 1) << 32 | next[index].load(std::memory_order_relaxed);
            if (head.compare_exchange_weak(old, now, std::memory_order_acquire)) return &jobs[index];
        }
    }
    void give_back(Job *job) {
        uint64_t old = head.load(std::memory_order_relaxed);
        do {
            next[job->index].store(static_cast<uint32_t>(old), std::memory_order_relaxed);
        } while (!head.compare_exchange_weak(old, ((old >> 32) + 1) << 32 | job->index, std::memory_order_release));
    }
    void finished(Job *job) { deferred.add(job); }
    void frame_end() {
        deferred.drain([this](Job *job) { give_back(job); });
    }
};

// One ring for all threads: an atomic counter, nothing to free.
struct GlobalRing {
    std::vector<Job> jobs = std::vector<Job>(jobs_max);
    alignas(64) std::atomic<uint32_t> next{0};
    Job *allocate() { return &jobs[next.fetch_add(1, std::memory_order_relaxed) & (jobs_max - 1)]; }
    void finished(Job *) {}
    void frame_end() {}
};

// A ring per thread: a plain counter, nothing to free. Only the main thread makes jobs here, so it has the only ring.
struct ThreadRing {
    std::vector<Job> jobs = std::vector<Job>(jobs_max);
    uint32_t next = 0;
    Job *allocate() { return &jobs[next++ & (jobs_max - 1)]; }
    void finished(Job *) {}
    void frame_end() {}
};

template <class Allocator> class System {
    Allocator allocator;
    std::vector<Deque> deques;
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    Job *root = nullptr;
    uint32_t created = 0; // in this frame

    Job *create(Job *parent, entrant_fn fn) {
        Job *job = allocator.allocate();
        job->fn = fn;
        job->parent = parent;
        job->unfinished.store(1, std::memory_order_relaxed);
        if (parent != nullptr) parent->unfinished.fetch_add(1, std::memory_order_relaxed);
        return job;
    }

    void finish(Job *job) {
        while (job->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            Job *parent = job->parent;
            allocator.finished(job);
            if (parent == nullptr) return;
            job = parent;
        }
    }

    Job *find(size_t self) {
        Job *job = deques[self].pop();
        for (size_t i = 1; job == nullptr && i < deques.size(); i++) job = deques[(self + i) % deques.size()].steal();
        return job;
    }

    void step(size_t self) {
        Job *job = find(self);
        if (job == nullptr) {
            sched_yield();
            return;
        }
        job->fn(job->data, nullptr);
        finish(job);
    }

    static int nothing(void *, weft_worker *) { return 0; }

  public:
    explicit System(unsigned workers) : deques(workers) {
        for (unsigned i = 1; i < workers; i++) {
            threads.emplace_back([this, i] {
                while (!stop.load(std::memory_order_acquire)) step(i);
            });
        }
    }
    ~System() {
        stop.store(true, std::memory_order_release);
        for (auto &thread : threads) thread.join();
    }

    int submit(entrant_fn fn, const void *payload, size_t size) {
        if (size > data_bytes || created == jobs_max - 1) return -1;
        if (root == nullptr) root = create(nullptr, nothing);
        created++;
        Job *job = create(root, fn);
        memcpy(job->data, payload, size);
        deques[0].push(job);
        return 0;
    }

    int wait() {
        if (root == nullptr) return 0;
        deques[0].push(root);
        while (root->unfinished.load(std::memory_order_acquire) != 0) step(0);
        allocator.frame_end();
        root = nullptr;
        created = 0;
        return 0;
    }
};

template <class Allocator> struct Table {
    using Pool = System<Allocator>;
    static void *create(const entrant_config *config) { return new Pool(config->workers); }
    static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
        return static_cast<Pool *>(pool)->submit(fn, payload, size);
    }
    static int wait(void *pool) { return static_cast<Pool *>(pool)->wait(); }
    static void destroy(void *pool) { delete static_cast<Pool *>(pool); }

    static constexpr entrant entry(const char *name, const char *text) {
        return {ENTRANT_VERSION,
                ENTRANT_CALLER_RUNS | ENTRANT_SPINS,
                name,
                text,
                "frame",
                1,
                0,
                data_bytes,
                create,
                nullptr,
                submit,
                wait,
                destroy};
    }
};

} // namespace frame

#endif
