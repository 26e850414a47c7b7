// frame_jobs.hpp: a small job system as games write it: 64-byte jobs with a parent, a deque per thread, threads that steal,
// and a main thread that helps. The source of the jobs is a template parameter; nothing else differs between the frame's
// entrants.
#ifndef WEFT_BENCH_FRAME_JOBS_HPP
#define WEFT_BENCH_FRAME_JOBS_HPP

#include "../patterns.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sched.h>
#include <thread>
#include <vector>

namespace frame {

// The most jobs of one frame, a power of two: 4096 children and their root; or a loop of 2^20 in groups of 64, with the jobs
// that halve it.
constexpr uint32_t frame_jobs = 8192, loop_jobs = 65536;
constexpr size_t data_bytes = 40;

struct alignas(64) Job {
    entrant_fn fn;
    Job *parent;
    std::atomic<int32_t> unfinished; // itself and its children
    uint32_t index;                  // used by the allocator
    unsigned char data[data_bytes];
};
static_assert(sizeof(Job) == 64, "one cache line");

// Chase and Lev's deque (DOI 10.1145/1073970.1073974), of fixed size, sequentially consistent wherever the order matters.
class Deque {
    alignas(64) std::atomic<int64_t> bottom{0};
    alignas(64) std::atomic<int64_t> top{0};
    std::unique_ptr<std::atomic<Job *>[]> jobs;
    size_t mask;

    std::atomic<Job *> &at(int64_t i) { return jobs[static_cast<size_t>(i) & mask]; }

  public:
    explicit Deque(uint32_t jobs_max) : jobs(new std::atomic<Job *>[jobs_max]), mask(jobs_max - 1) {}
    Deque(const Deque &) = delete;
    Deque &operator=(const Deque &) = delete;
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

// Finished jobs, which are deleted when the frame is over, because a parent may be accessed until then.
class Deferred {
    std::vector<Job *> jobs;
    alignas(64) std::atomic<uint32_t> count{0};

  public:
    explicit Deferred(uint32_t jobs_max) : jobs(jobs_max) {}
    void add(Job *job) { jobs[count.fetch_add(1, std::memory_order_relaxed) & (jobs.size() - 1)] = job; }
    template <class Delete> void drain(Delete remove) {
        uint32_t n = count.load(std::memory_order_relaxed);
        for (uint32_t i = 0; i < n; i++) remove(jobs[i]);
        count.store(0, std::memory_order_relaxed);
    }
};

// new and delete, deferred.
struct NewDelete {
    Deferred deferred;
    NewDelete(uint32_t jobs_max, size_t) : deferred(jobs_max) {}
    Job *allocate(size_t) { return new Job; }
    void finished(Job *job) { deferred.add(job); }
    void frame_end() {
        deferred.drain([](Job *job) { delete job; });
    }
};

// A lock-free stack of unused jobs with a tagged head, against ABA. Jobs go back when the frame is over.
struct FreeList {
    Deferred deferred;
    uint32_t jobs_max;
    std::vector<Job> jobs;
    std::vector<std::atomic<uint32_t>> next;
    alignas(64) std::atomic<uint64_t> head{0}; // tag << 32 | index

    FreeList(uint32_t most, size_t) : deferred(most), jobs_max(most), jobs(most), next(most) {
        for (uint32_t i = 0; i < jobs_max; i++) {
            next[i].store(i + 1, std::memory_order_relaxed);
            jobs[i].index = i;
        }
    }
    Job *allocate(size_t) {
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
    std::vector<Job> jobs;
    alignas(64) std::atomic<uint32_t> next{0};
    GlobalRing(uint32_t jobs_max, size_t) : jobs(jobs_max) {}
    Job *allocate(size_t) { return &jobs[next.fetch_add(1, std::memory_order_relaxed) & (jobs.size() - 1)]; }
    void finished(Job *) {}
    void frame_end() {}
};

// A ring per thread: a plain counter, nothing to free.
class ThreadRing {
    struct alignas(64) Ring {
        std::vector<Job> jobs;
        uint32_t next = 0;
    };
    std::vector<Ring> rings;

  public:
    ThreadRing(uint32_t jobs_max, size_t threads) : rings(threads) {
        for (auto &ring : rings) ring.jobs = std::vector<Job>(jobs_max);
    }
    Job *allocate(size_t self) {
        Ring &ring = rings[self];
        return &ring.jobs[ring.next++ & (ring.jobs.size() - 1)];
    }
    void finished(Job *) {}
    void frame_end() {}
};

// A part of a loop, in a job's data. It is halved into two children until it is no larger than a group.
struct Part {
    void *system;
    const pattern_loop *loop;
    size_t begin, end;
};
static_assert(sizeof(Part) <= data_bytes, "it lies in the job");

template <class Allocator> class System {
    const uint32_t jobs_max;
    Allocator allocator;
    std::vector<std::unique_ptr<Deque>> deques;
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    std::atomic<bool> root_has_gone{false}; // no thread accesses the root any more
    std::atomic<int> error{0};
    Job *root = nullptr;
    uint32_t created = 0; // children of the root, in this frame
    static inline thread_local size_t current = 0;

    Job *create(Job *parent, entrant_fn fn) {
        Job *job = allocator.allocate(current);
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
            if (parent == nullptr) {
                root_has_gone.store(true, std::memory_order_release);
                return;
            }
            job = parent;
        }
    }

    Job *find(size_t self) {
        Job *job = deques[self]->pop();
        for (size_t i = 1; job == nullptr && i < deques.size(); i++) job = deques[(self + i) % deques.size()]->steal();
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

    void part_push(Job *parent, const Part &part) {
        Job *job = create(parent, part_run);
        memcpy(job->data, &part, sizeof part);
        deques[current]->push(job);
    }

    static int part_run(void *data, weft_worker *) {
        Part part;
        memcpy(&part, data, sizeof part);
        auto *self = static_cast<System *>(part.system);
        if (part.end - part.begin <= part.loop->grain) {
            int code = part.loop->body(part.begin, part.end, part.loop->context, nullptr);
            if (code != 0) self->error.store(code, std::memory_order_relaxed);
            return code;
        }
        auto *job = reinterpret_cast<Job *>(static_cast<unsigned char *>(data) - offsetof(Job, data));
        size_t middle = part.begin + (part.end - part.begin) / 2;
        self->part_push(job, {self, part.loop, middle, part.end});
        self->part_push(job, {self, part.loop, part.begin, middle});
        return 0;
    }

    void root_run() {
        root_has_gone.store(false, std::memory_order_relaxed);
        deques[0]->push(root);
        while (!root_has_gone.load(std::memory_order_acquire)) step(0);
        allocator.frame_end();
        root = nullptr;
        created = 0;
    }

  public:
    System(unsigned workers, uint32_t most) : jobs_max(most), allocator(most, workers) {
        for (unsigned i = 0; i < workers; i++) deques.push_back(std::make_unique<Deque>(most));
        for (unsigned i = 1; i < workers; i++) {
            threads.emplace_back([this, i] {
                current = i;
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
        deques[0]->push(job);
        return 0;
    }

    int wait() {
        if (root != nullptr) root_run();
        return 0;
    }

    int loop(const pattern_loop *loop) {
        Part part{this, loop, 0, loop->n};
        if (4 * (loop->n / loop->grain) > jobs_max) return -1; // a ring would wrap round to jobs in use
        root = create(nullptr, part_run);
        memcpy(root->data, &part, sizeof part);
        root_run();
        return error.exchange(0, std::memory_order_relaxed);
    }
};

template <class Allocator> struct Table {
    using Pool = System<Allocator>;
    static void *create(const entrant_config *config) { return new Pool(config->workers, frame_jobs); }
    static void *create_for_loops(const entrant_config *config) { return new Pool(config->workers, loop_jobs); }
    static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
        return static_cast<Pool *>(pool)->submit(fn, payload, size);
    }
    static int wait(void *pool) { return static_cast<Pool *>(pool)->wait(); }
    static int loop(void *pool, const pattern_loop *loop) { return static_cast<Pool *>(pool)->loop(loop); }
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
    static constexpr patterns loops(const char *name, const char *text) {
        return {PATTERNS_VERSION,
                ENTRANT_CALLER_RUNS | ENTRANT_SPINS | ENTRANT_GROUPS,
                name,
                text,
                1,
                0,
                create_for_loops,
                destroy,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                loop,
                nullptr,
                nullptr};
    }
};

} // namespace frame

#endif
