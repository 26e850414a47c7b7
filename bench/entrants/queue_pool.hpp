// queue_pool.hpp: the pool that most projects write by hand: one list, one mutex, condition variables. The baselines that
// stand for real pools differ in a few decisions, so they are one template.
#ifndef WEFT_BENCH_QUEUE_POOL_HPP
#define WEFT_BENCH_QUEUE_POOL_HPP

#include "../entrant.h"

#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <vector>

enum class Memory {
    two_blocks, // a malloc each for job and payload
    slots,      // finished jobs are reused; the payload is a malloc
    inline_64   // finished jobs are reused; payloads up to 64 bytes lie inside
};

constexpr size_t inline_bytes = 64;

// bounded: at most as many queued jobs as threads. broadcast: each job wakes every worker.
template <Memory memory, bool bounded, bool broadcast> class QueuePool {
    static constexpr bool recycles = memory == Memory::slots || memory == Memory::inline_64;

    struct Job {
        Job *next;
        entrant_fn fn;
        void *payload;
    };
    struct alignas(16) InlineJob : Job {
        alignas(16) unsigned char bytes[inline_bytes];
    };
    using Slot = std::conditional_t<memory == Memory::inline_64, InlineJob, Job>;

    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
    pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
    pthread_cond_t all_done = PTHREAD_COND_INITIALIZER;
    Job *head = nullptr;
    Job *tail = nullptr;
    Job *unused = nullptr; // finished slots, under the lock
    size_t queued = 0;
    size_t running = 0;
    bool stop = false;
    std::vector<std::thread> threads;

    static bool is_inline(const Job *job) {
        if constexpr (memory == Memory::inline_64) return job->payload == static_cast<const InlineJob *>(job)->bytes;
        return false;
    }

    // Memory for a job and its payload: a finished slot if there is one. Recycling pools call this under the lock.
    Job *room(size_t size) {
        Job *job = unused;
        if (recycles && job != nullptr)
            unused = job->next;
        else
            job = static_cast<Job *>(malloc(sizeof(Slot)));
        if (job == nullptr) return nullptr;
        if constexpr (memory == Memory::inline_64) job->payload = static_cast<InlineJob *>(job)->bytes;
        if (memory != Memory::inline_64 || size > inline_bytes) job->payload = malloc(size);
        return job->payload != nullptr ? job : nullptr;
    }

    Job *job_new(entrant_fn fn, const void *payload, size_t size) {
        Job *job = room(size);
        if (job == nullptr) return nullptr;
        memcpy(job->payload, payload, size);
        job->fn = fn;
        job->next = nullptr;
        return job;
    }

    void memory_free(Job *job) {
        if (!is_inline(job)) free(job->payload);
        if constexpr (!recycles) free(job);
    }

    void push(Job *job) {
        if (tail != nullptr)
            tail->next = job;
        else
            head = job;
        tail = job;
        queued++;
    }

    Job *pop() {
        Job *job = head;
        head = job->next;
        if (head == nullptr) tail = nullptr;
        queued--;
        if constexpr (bounded) pthread_cond_signal(&not_full);
        return job;
    }

    void finished(Job *job) {
        if constexpr (recycles) {
            job->next = unused;
            unused = job;
        }
        running--;
        if (running == 0 && head == nullptr) pthread_cond_signal(&all_done);
    }

    int unlock_and_fail() {
        pthread_mutex_unlock(&lock);
        return -1;
    }

    void work() {
        pthread_mutex_lock(&lock);
        for (;;) {
            while (head == nullptr && !stop) pthread_cond_wait(&not_empty, &lock);
            if (head == nullptr) break;
            Job *job = pop();
            running++;
            pthread_mutex_unlock(&lock);
            job->fn(job->payload, nullptr);
            memory_free(job);
            pthread_mutex_lock(&lock);
            finished(job);
        }
        pthread_mutex_unlock(&lock);
    }

  public:
    explicit QueuePool(unsigned workers) {
        for (unsigned i = 0; i < workers; i++) threads.emplace_back([this] { work(); });
    }

    ~QueuePool() {
        pthread_mutex_lock(&lock);
        stop = true;
        pthread_cond_broadcast(&not_empty);
        pthread_mutex_unlock(&lock);
        for (auto &thread : threads) thread.join();
        while (unused != nullptr) {
            Job *next = unused->next;
            free(unused);
            unused = next;
        }
    }

    int submit(entrant_fn fn, const void *payload, size_t size) {
        Job *job = recycles ? nullptr : job_new(fn, payload, size);
        pthread_mutex_lock(&lock);
        if constexpr (recycles) job = job_new(fn, payload, size);
        if (job == nullptr) return unlock_and_fail();
        if constexpr (bounded) {
            while (queued >= threads.size()) pthread_cond_wait(&not_full, &lock);
        }
        push(job);
        if constexpr (broadcast)
            pthread_cond_broadcast(&not_empty);
        else
            pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
        return 0;
    }

    int wait() {
        pthread_mutex_lock(&lock);
        while (head != nullptr || running != 0) pthread_cond_wait(&all_done, &lock);
        pthread_mutex_unlock(&lock);
        return 0;
    }
};

// The entrant's functions for a pool class with submit, wait and a constructor from the worker count.
template <class Pool> struct Table {
    static void *create(const entrant_config *config) { return new Pool(config->workers); }
    static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
        return static_cast<Pool *>(pool)->submit(fn, payload, size);
    }
    static int wait(void *pool) { return static_cast<Pool *>(pool)->wait(); }
    static void destroy(void *pool) { delete static_cast<Pool *>(pool); }

    static constexpr entrant entry(const char *name, const char *text, uint32_t flags) {
        return {ENTRANT_VERSION, flags, name, text, nullptr, 1, 0, 0, create, nullptr, submit, wait, destroy};
    }
};

#endif
