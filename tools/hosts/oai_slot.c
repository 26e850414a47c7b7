/* oai_slot.c: OpenAirInterface's slot on its pool of tasks: every half millisecond 13 symbol tasks, then 12 decodes, each
 * batch joined by an answer, at 60 percent of two CPUs. Prints time over ideal (13 tasks one after the other): median, 99th
 * and 99.9th percentile, and how many slots took longer than their half millisecond.
 *
 *     gcc -O2 -Iinclude -Iadapters/oai/shape/2025 -Iadapters/oai/shape tools/hosts/oai_slot.c adapters/oai/thread-pool.c \
 *         adapters/oai/task_ans.c build/release/libweft.a -pthread -o oai_slot
 *     chrt -r 97 ./oai_slot [SLOTS]       the joining thread with the pool's priority, as the host's L1 threads have it
 *
 * With the tree's own pool: its thread-pool.c, task_ans.c and what tools/hosts/oai.py compiles beside them (BESIDE) instead,
 * and a call of logInit before the pool is opened.
 * -DFLOOR, without the pool's files: two pinned threads that spin for each other and do nothing else, the machine's own part. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#ifndef FLOOR
#include "task_ans.h"
#include "thread-pool.h"
#endif

enum { SYMBOLS = 13, DECODES = 12, IDEAL = 13, WARM_SLOTS = 200, TRIES = 25 };
#define PERIOD_NS 500e3
#define LOAD 0.6

static unsigned iterations = 100000;

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void sleep_until(double at_ns) {
    const double seconds = (double)(time_t)(at_ns / 1e9);
    const struct timespec at = {(time_t)seconds, (long)(at_ns - seconds * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
}

static void compute(void) {
    unsigned x = 1;
    for (unsigned i = 0; i < iterations; i++) {
        x = x * 1664525u + 1013904223u;
        __asm__ volatile("" : "+r"(x));
    }
}

#ifdef FLOOR
static atomic_uint begun, ended, count;

static void pin(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    (void)sched_setaffinity(0, sizeof cpus, &cpus);
}

static void *peer(void *unused) {
    pin(1);
    for (unsigned seen = 0;; seen++) {
        while (atomic_load(&begun) == seen) {}
        for (unsigned i = 0; i < atomic_load(&count); i++) compute();
        atomic_store(&ended, seen + 1);
    }
    return unused;
}

static int pool_open(void) {
    pthread_t thread;
    pin(0);
    return pthread_create(&thread, NULL, peer, NULL);
}

static void batch(unsigned tasks) {
    atomic_store(&count, tasks / 2);
    const unsigned round = atomic_fetch_add(&begun, 1) + 1;
    for (unsigned i = 0; i < tasks - tasks / 2; i++) compute();
    while (atomic_load(&ended) != round) {}
}
#else
static tpool_t pool;

static void task(void *answer) {
    compute();
    completed_task_ans(answer);
}

static int pool_open(void) {
    initFloatingCoresTpool(2, &pool, false, "slot");
    return 0;
}

static void batch(unsigned tasks) {
    task_ans_t answer;
    init_task_ans(&answer, tasks);
    for (unsigned i = 0; i < tasks; i++) pushTpool(&pool, (task_t){.args = &answer, .func = task});
    join_task_ans(&answer);
}
#endif

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What one task takes by itself. */
static double alone_ns(void) {
    double took_ns[TRIES];
    for (int i = 0; i < TRIES; i++) {
        const double start_ns = now_ns();
        compute();
        took_ns[i] = now_ns() - start_ns;
    }
    qsort(took_ns, TRIES, sizeof *took_ns, compare);
    return took_ns[TRIES / 2];
}

/* A slot that ends after the next is due puts off all that follow. */
static unsigned run(double *over, int slots) {
    const double ideal_ns = IDEAL * alone_ns();
    unsigned missed = 0;
    double beat_ns = now_ns();
    for (int i = -WARM_SLOTS; i < slots; i++) {
        beat_ns = beat_ns + PERIOD_NS > now_ns() ? beat_ns + PERIOD_NS : now_ns();
        sleep_until(beat_ns);
        const double start_ns = now_ns();
        batch(SYMBOLS);
        batch(DECODES);
        const double took_ns = now_ns() - start_ns;
        if (i < 0) continue;
        over[i] = took_ns / ideal_ns;
        missed += took_ns > PERIOD_NS;
    }
    return missed;
}

int main(int argc, char **argv) {
    const int slots = argc > 1 ? atoi(argv[1]) : 2000;
    double *over = slots >= 100 ? calloc((size_t)slots, sizeof *over) : NULL;
    if (over == NULL) return fprintf(stderr, "oai_slot: the number of slots, at least 100, not \"%s\"\n", argv[1]), 2;
    iterations = (unsigned)(iterations * LOAD * PERIOD_NS / IDEAL / alone_ns());
    if (pool_open() != 0) return fprintf(stderr, "oai_slot: no thread\n"), 1;
    prctl(PR_SET_TIMERSLACK, 1);
    const unsigned missed = run(over, slots);
    qsort(over, (size_t)slots, sizeof *over, compare);
    printf("%.3f %.3f %.3f %u\n", over[slots / 2], over[slots * 99 / 100], over[(int)(slots * 0.999)], missed);
    return 0;
}
