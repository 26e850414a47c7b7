/* See jobs.h. */
#include "jobs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct counter {
    _Alignas(128) struct job_totals totals;
};

static struct counter counters[JOB_THREADS_MAX];
static atomic_uint counters_used;
static _Thread_local struct job_totals *mine;
static _Alignas(128) atomic_uint_fast64_t shared;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t zero;
    unsigned left;
} latches[JOB_LATCHES] = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
                          {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
                          {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
                          {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};

static __attribute__((noinline)) struct job_totals *counter_first(void) {
    unsigned index = atomic_fetch_add(&counters_used, 1);
    if (index >= JOB_THREADS_MAX) abort();
    mine = &counters[index].totals;
    return mine;
}

static inline struct job_totals *counter(void) { return __builtin_expect(mine != NULL, 1) ? mine : counter_first(); }

void jobs_reset(void) {
    unsigned used = atomic_load(&counters_used);
    for (unsigned i = 0; i < used; i++) memset(&counters[i].totals, 0, sizeof counters[i].totals);
    atomic_store(&shared, 0);
}

struct job_totals jobs_total(void) {
    struct job_totals all = {0, 0, atomic_load(&shared)};
    unsigned used = atomic_load(&counters_used);
    for (unsigned i = 0; i < used; i++) {
        all.count += counters[i].totals.count;
        all.sum += counters[i].totals.sum;
        all.check += counters[i].totals.check;
    }
    return all;
}

uint32_t job_scramble(uint32_t number) { return (number ^ (number >> 15)) * 2654435761u; }

int job_int(void *payload, struct weft_worker *self) {
    (void)self;
    struct job_totals *totals = counter();
    uint32_t number = *(const uint32_t *)payload;
    totals->count++;
    totals->sum += number;
    totals->check += job_scramble(number);
    return 0;
}

int job_shared(void *payload, struct weft_worker *self) {
    (void)self;
    atomic_fetch_add_explicit(&shared, job_scramble(*(const uint32_t *)payload), memory_order_relaxed);
    return 0;
}

int job_block(void *payload, struct weft_worker *self) {
    (void)self;
    const struct job_block_head *head = (const struct job_block_head *)payload;
    struct job_totals *totals = counter();
    uint32_t last;
    memcpy(&last, (const char *)payload + head->size - sizeof last, sizeof last);
    totals->count++;
    totals->sum += head->number;
    totals->check += last;
    return 0;
}

/* Plain recursion. The empty assembly keeps the compiler from folding calls or moving them out of a loop. */
static __attribute__((noinline)) uint64_t fib(unsigned n) {
    __asm__ volatile("" : "+r"(n));
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int job_fib(void *payload, struct weft_worker *self) {
    (void)self;
    const struct job_fib_payload *job = (const struct job_fib_payload *)payload;
    struct job_totals *totals = counter();
    totals->count++;
    totals->sum += job->number;
    for (unsigned i = 0; i < job->times; i++) totals->check += fib(job->n);
    return 0;
}

uint64_t job_fib_value(unsigned n) {
    uint64_t a = 0, b = 1;
    for (unsigned i = 0; i < n; i++) {
        uint64_t next = a + b;
        a = b;
        b = next;
    }
    return a;
}

void job_spin(uint32_t iterations) {
    uint64_t x = iterations;
    for (uint32_t i = 0; i < iterations; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x)); /* keeps each step */
    }
}

int job_range_empty(size_t begin, size_t end, void *context, struct weft_worker *self) {
    (void)context;
    (void)self;
    if (begin >= end) return 0;
    struct job_totals *totals = counter();
    totals->count += end - begin;
    totals->sum += (end - begin) * (begin + end - 1) / 2;
    return 0;
}

int job_range_spin(size_t begin, size_t end, void *context, struct weft_worker *self) {
    uint32_t iterations = *(const uint32_t *)context;
    for (size_t i = begin; i < end; i++) job_spin(iterations);
    return job_range_empty(begin, end, NULL, self);
}

int job_range_axpy(size_t begin, size_t end, void *context, struct weft_worker *self) {
    const double *restrict x = ((const struct job_axpy_context *)context)->x;
    double *restrict y = ((const struct job_axpy_context *)context)->y;
    for (size_t i = begin; i < end; i++) y[i] += x[i];
    return job_range_empty(begin, end, NULL, self);
}

static void latch_down(unsigned latch) {
    if (latch >= JOB_LATCHES) return;
    pthread_mutex_lock(&latches[latch].lock);
    if (--latches[latch].left == 0) pthread_cond_signal(&latches[latch].zero);
    pthread_mutex_unlock(&latches[latch].lock);
}

int job_work(void *payload, struct weft_worker *self) {
    (void)self;
    struct job_work_payload job = *(const struct job_work_payload *)payload;
    struct job_totals *totals = counter();
    job_spin(job.iterations_before);
    latch_down(job.latch_before);
    job_spin(job.iterations_after);
    totals->count++;
    totals->sum += job.number;
    totals->check += job_scramble(job.number);
    latch_down(job.latch_after);
    return 0;
}

void latch_set(unsigned latch, unsigned count) {
    pthread_mutex_lock(&latches[latch].lock);
    latches[latch].left = count;
    pthread_mutex_unlock(&latches[latch].lock);
}

void latch_wait(unsigned latch) {
    pthread_mutex_lock(&latches[latch].lock);
    while (latches[latch].left != 0) pthread_cond_wait(&latches[latch].zero, &latches[latch].lock);
    pthread_mutex_unlock(&latches[latch].lock);
}
