/* recording.c: what submitting costs while a timeline is recorded, compared with submitting without recording. One pool
 * takes both in turns, so the two samples of a pair are adjacent in time. Prints medians over the pairs, and the quartiles
 * of the pairs' ratios. */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft.h>

#define PAIRS_MAX 10001u
#define PAYLOAD_MAX 64u

static const struct shape {
    const char *name;
    uint32_t bursts, tasks, bytes, pause_ns; /* in one sample; `pause_ns` is between two tasks */
} shapes[] = {
    {"rush of 20,000 tasks of 8 bytes", 1, 20000, 8, 0},
    {"rush of 20,000 tasks of 40 bytes", 1, 20000, 40, 0},
    {"bursts of 200 tasks of 8 bytes", 100, 200, 8, 0},
    {"bursts of 50 tasks of 8 bytes", 200, 50, 8, 0},
    {"a task each 1 us", 1, 1000, 8, 1000},
    {"a task each 10 us", 1, 200, 8, 10000},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* Nanoseconds per task: of submitting alone, and of everything until the group has ended. */
struct cost {
    double submit, whole;
};
struct pair {
    struct cost off, on, ratio;
};

static int nothing(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void fail(const char *what, int error) {
    fprintf(stderr, "recording: %s: %s\n", what, weft_strerror(error));
    exit(1);
}

static void submit(weft_pool *pool, weft_group *group, const struct shape *shape) {
    char payload[PAYLOAD_MAX] = {0};
    int error = weft_submit(pool, group, nothing, payload, shape->bytes);
    if (error != WEFT_OK) fail("weft_submit", error);
}

/* How long the calls took. The pauses are spent awake and not counted; the clock readings beside each call are, with and
 * without recording. */
static uint64_t submit_spaced(weft_pool *pool, weft_group *group, const struct shape *shape) {
    uint64_t ns = 0;
    for (uint32_t i = 0; i < shape->tasks; i++) {
        uint64_t start = now_ns();
        submit(pool, group, shape);
        uint64_t end = now_ns();
        ns += end - start;
        while (now_ns() < end + shape->pause_ns) continue;
    }
    return ns;
}

static uint64_t submit_fast(weft_pool *pool, weft_group *group, const struct shape *shape) {
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < shape->tasks; i++) submit(pool, group, shape);
    return now_ns() - start;
}

static struct cost sample(weft_pool *pool, const struct shape *shape) {
    uint64_t ns = 0, start = now_ns();
    double tasks = (double)shape->bursts * shape->tasks;
    for (uint32_t i = 0; i < shape->bursts; i++) {
        weft_group group = WEFT_GROUP_INIT;
        ns += shape->pause_ns > 0 ? submit_spaced(pool, &group, shape) : submit_fast(pool, &group, shape);
        int error = weft_group_wait(pool, &group);
        if (error != WEFT_OK) fail("weft_group_wait", error);
    }
    return (struct cost){(double)ns / tasks, (double)(now_ns() - start) / tasks};
}

static struct cost sample_recorded(weft_pool *pool, const struct shape *shape) {
    int error = weft_trace_start(pool);
    if (error != WEFT_OK) fail("weft_trace_start", error);
    struct cost cost = sample(pool, shape);
    weft_trace_stop(pool);
    return cost;
}

static void take_pair(weft_pool *pool, const struct shape *shape, bool is_recorded_first, struct pair *pair) {
    if (is_recorded_first) pair->on = sample_recorded(pool, shape);
    pair->off = sample(pool, shape);
    if (!is_recorded_first) pair->on = sample_recorded(pool, shape);
    pair->ratio = (struct cost){pair->on.submit / pair->off.submit, pair->on.whole / pair->off.whole};
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The quantile `quarter` / 4 of one of the numbers in the pairs. */
static double quantile(const struct pair *pairs, uint32_t count, size_t offset, uint32_t quarter) {
    static double sorted[PAIRS_MAX];
    for (uint32_t i = 0; i < count; i++) memcpy(&sorted[i], (const char *)&pairs[i] + offset, sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    return sorted[(count - 1) * quarter / 4];
}

static void put_row(const char *name, const struct pair *pairs, uint32_t count, size_t offset) {
    size_t off = offsetof(struct pair, off) + offset, on = offsetof(struct pair, on) + offset;
    size_t ratio = offsetof(struct pair, ratio) + offset;
    printf("%-34s %8.2f %8.2f", name, quantile(pairs, count, off, 2), quantile(pairs, count, on, 2));
    for (uint32_t quarter = 1; quarter <= 3; quarter++) printf(" %8.1f", 100 * (quantile(pairs, count, ratio, quarter) - 1));
    printf("\n");
}

static void measure(weft_pool *pool, const struct shape *shape, uint32_t count) {
    static struct pair pairs[PAIRS_MAX];
    take_pair(pool, shape, true, &pairs[0]); /* a warm-up: the first recording's rings are new memory */
    for (uint32_t i = 0; i < count; i++) take_pair(pool, shape, i % 2 == 0, &pairs[i]);
    put_row(shape->name, pairs, count, offsetof(struct cost, submit));
    if (shape->pause_ns == 0) put_row("  until all have run", pairs, count, offsetof(struct cost, whole));
    fflush(stdout);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 201;
    const char *only = argc > 2 ? argv[2] : "";
    weft_config config;
    weft_pool *pool;
    if (count < 1 || count > (long)PAIRS_MAX || argc > 3) {
        fprintf(stderr, "usage: recording [PAIRS] [SHAPE]; pairs of 1 to %u, the beginning of a shape's name\n", PAIRS_MAX);
        return 2;
    }
    weft_config_init(&config);
    config.workers = 1;
    int error = weft_pool_create(&pool, &config);
    if (error != WEFT_OK) fail("weft_pool_create", error);
    printf("%-34s %8s %8s %8s %8s %8s\n", "submitting, ns a task", "off", "on", "q1 %", "median %", "q3 %");
    for (size_t i = 0; i < SHAPES; i++)
        if (strncmp(shapes[i].name, only, strlen(only)) == 0) measure(pool, &shapes[i], (uint32_t)count);
    weft_pool_destroy(&pool);
    return 0;
}
