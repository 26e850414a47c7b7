/* counters.c: sums and reports the counters of a pool's threads. Layer 7.
 *
 * Each seat's counters have one writer, its thread, which adds without a read-modify-write. */
#include <string.h>

#include "observe/state.h"

/* The counters that a pool's sums and a thread's share have in common, and where a seat has them. */
#define COUNTERS(X)                                                                                                         \
    X(task_run_count, load_rlx(&seat->tasks_run))                                                                           \
    X(task_dropped_count, load_rlx(&seat->tasks_dropped))                                                                   \
    X(claim_count, 0 /* counts_of adds up */)                                                                               \
    X(steal_count, load_rlx(&seat->claims_made[CLAIM_STOLEN]))                                                              \
    X(claim_revoked_count, load_rlx(&seat->claims_made[CLAIM_REVOKED]))                                                     \
    X(task_helped_count, load_rlx(&seat->helped))                                                                           \
    X(fork_taken_count, load_rlx(&seat->forks_taken))                                                                       \
    X(loop_helped_count, load_rlx(&seat->loops_helped))                                                                     \
    X(park_count, load_rlx(&seat->parks))                                                                                   \
    X(wake_count, load_rlx(&seat->wakes))                                                                                   \
    X(woken_count, 0 /* counts_of adds up */)                                                                               \
    X(spin_ns, observe_ns(load_rlx(&seat->spin_ticks)))                                                                     \
    X(expect_hit_count, load_rlx(&seat->expect_hits))                                                                       \
    X(expect_miss_count, load_rlx(&seat->expect_misses))                                                                    \
    X(heap_payload_count, load_rlx(&seat->heap_payloads))                                                                   \
    X(task_late_count, load_rlx(&seat->tasks_late))

/* ---- gathering ---------------------------------------------------------------------------------------------------- */

static enum weft_worker_kind kind_of(const weft_pool *pool, const struct weft_worker *seat) {
    if (seat == NULL) return WEFT_KIND_NONE;
    if (seat->index < pool->workers_max) return WEFT_KIND_WORKER;
    return seat->index < pool->workers_max + pool->spare_seats ? WEFT_KIND_SPARE : WEFT_KIND_OUTSIDE;
}

static void counts_of(const struct weft_worker *seat, weft_worker_counts *counts) {
#define READ(name, value) counts->name = value;
    COUNTERS(READ)
#undef READ
    counts->claim_count = load_rlx(&seat->claims_made[CLAIM_LANE]) + counts->steal_count + counts->claim_revoked_count;
    for (unsigned i = 0; i < WEFT_WAKE_BUCKETS; i++) {
        counts->wake_ns_log2_count[i] = load_rlx(&seat->wakes_timed[i]);
        counts->woken_count += counts->wake_ns_log2_count[i];
    }
}

static weft_worker_counts counts_at(const weft_pool *pool, uint32_t index) {
    const struct weft_worker *seat = worker_seat(pool, index);
    weft_worker_counts counts = {.struct_size = sizeof counts, .index = index, .kind = kind_of(pool, seat)};
    if (seat != NULL) counts_of(seat, &counts);
    return counts;
}

static void stats_add(weft_stats *sum, const weft_worker_counts *counts) {
#define ADD(name, value) sum->name += counts->name;
    COUNTERS(ADD)
#undef ADD
    for (unsigned i = 0; i < WEFT_WAKE_BUCKETS; i++) sum->wake_ns_log2_count[i] += counts->wake_ns_log2_count[i];
}

static weft_stats stats_of(const weft_pool *pool) {
    weft_stats sum = {
        .struct_size = sizeof sum, .workers = load_rlx(&pool->workers), .threads = load_rlx(&pool->seat_count)};
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        weft_worker_counts counts = counts_at(pool, all.seat->index);
        stats_add(&sum, &counts);
        sum.lane_count += load_rlx(&all.seat->lanes_made);
    }
    sum.queue_bytes = segments_bytes(&pool->segments);
    sum.spare_started_count = load_rlx(&pool->spares_made);
    sum.spares_peak = load_rlx(&pool->blocked_peak);
    return sum;
}

int weft_pool_stats(const weft_pool *pool, weft_stats *stats) {
    if (pool == NULL || stats == NULL) return WEFT_EINVAL;
    weft_stats sum = stats_of(pool);
    return struct_write(stats, &sum, sizeof sum) ? WEFT_OK : WEFT_EINVAL;
}

int weft_worker_stats(const weft_pool *pool, unsigned index, weft_worker_counts *counts) {
    if (pool == NULL || counts == NULL || index >= load_rlx(&pool->seat_count)) return WEFT_EINVAL;
    weft_worker_counts own = counts_at(pool, index);
    return struct_write(counts, &own, sizeof own) ? WEFT_OK : WEFT_EINVAL;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"none", "worker", "spare", "outside"};

static void put_wakes(struct text *text, const uint64_t wakes[WEFT_WAKE_BUCKETS]) {
    text_put(text, "\"wake_ns_log2_count\": [");
    for (unsigned i = 0; i < WEFT_WAKE_BUCKETS; i++) {
        text_format(text, "%s%lu", i > 0 ? ", " : "", wakes[i]);
    }
    text_put(text, "]");
}

static void put_thread(struct text *text, const weft_worker_counts *c) {
    text_put_field(text, "index", c->index);
    text_format(text, "\"kind\": \"%s\", ", kind_names[c->kind]);
#define PUT(name, value) text_put_field(text, #name, c->name);
    COUNTERS(PUT)
    put_wakes(text, c->wake_ns_log2_count);
}

void stats_put_sums(struct text *text, const weft_pool *pool) {
    weft_stats sum = stats_of(pool), *c = &sum;
    text_put_field(text, "workers", sum.workers);
    text_put_field(text, "spare_started_count", sum.spare_started_count);
    text_put_field(text, "spares_peak", sum.spares_peak);
    text_put_field(text, "lane_count", sum.lane_count);
    text_put_field(text, "queue_bytes", sum.queue_bytes);
    COUNTERS(PUT)
    put_wakes(text, c->wake_ns_log2_count);
}
#undef PUT

static void put_json(struct text *text, const weft_pool *pool) {
    text_put(text, "{");
    stats_put_sums(text, pool);
    const char *before = ",\n \"threads\": [\n  {";
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        weft_worker_counts counts = counts_at(pool, all.seat->index);
        text_put(text, before);
        put_thread(text, &counts);
        text_put(text, "}");
        before = ",\n  {";
    }
    text_put(text, "]}\n");
}

int weft_pool_stats_json(const weft_pool *pool, char *to, size_t size) {
    if (pool == NULL || (to == NULL && size != 0)) return WEFT_EINVAL;
    struct text text = {.size = size, .fd = TEXT_TO_MEMORY};
    text.to = to;
    put_json(&text, pool);
    return text_end(&text);
}

/* ---- a table for people ------------------------------------------------------------------------------------------- */

struct column {
    const char *head;
    size_t offset; /* of a uint64_t in weft_worker_counts */
    unsigned width;
};

static const struct column columns[] = {
    {"tasks", offsetof(weft_worker_counts, task_run_count), 12},
    {"claims", offsetof(weft_worker_counts, claim_count), 11},
    {"steals", offsetof(weft_worker_counts, steal_count), 10},
    {"revoked", offsetof(weft_worker_counts, claim_revoked_count), 8},
    {"helped", offsetof(weft_worker_counts, task_helped_count), 9},
    {"forks", offsetof(weft_worker_counts, fork_taken_count), 9},
    {"loops", offsetof(weft_worker_counts, loop_helped_count), 8},
    {"parks", offsetof(weft_worker_counts, park_count), 9},
    {"wakes", offsetof(weft_worker_counts, wake_count), 9},
    {"woken", offsetof(weft_worker_counts, woken_count), 9},
    {"spin_us", offsetof(weft_worker_counts, spin_ns), 11},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void pad_to(struct text *text, size_t used, size_t width) {
    for (; used < width; used++) text_put_char(text, ' ');
}

static void print_row(struct text *text, const weft_worker_counts *counts) {
    for (size_t i = 0; i < COLUMNS; i++) {
        uint64_t n;
        memcpy(&n, (const char *)counts + columns[i].offset, sizeof n);
        if (columns[i].offset == offsetof(weft_worker_counts, spin_ns)) n /= 1000;
        text_put_column(text, n, columns[i].width);
    }
    text_put(text, "\n");
}

static void print_head(struct text *text, const weft_pool *pool) {
    text_put(text, "weft pool ");
    text_put_name(text, pool->name);
    text_format(text, ": counters of %u workers and whoever submitted or helped\n    thread  ", load_rlx(&pool->workers));
    for (size_t i = 0; i < COLUMNS; i++) {
        pad_to(text, strlen(columns[i].head), columns[i].width);
        text_put(text, columns[i].head);
    }
    text_put(text, "\n");
}

static void print_wakes(struct text *text, const uint64_t wakes[WEFT_WAKE_BUCKETS]) {
    for (unsigned i = 0; i < WEFT_WAKE_BUCKETS; i++) {
        if (wakes[i] == 0) continue;
        text_put(text, "    woken after ");
        text_put_decimal(text, i == 0 ? 0 : UINT64_C(1) << i, 3);
        text_put(text, i + 1 == WEFT_WAKE_BUCKETS ? " us and more:" : " us:");
        text_put_column(text, wakes[i], 10);
        text_put(text, "\n");
    }
}

int weft_pool_stats_print(const weft_pool *pool, int fd) {
    char buffer[1024];
    if (pool == NULL || fd < 0) return WEFT_EINVAL;
    struct text text = {.to = buffer, .size = sizeof buffer, .fd = fd};
    uint64_t wakes[WEFT_WAKE_BUCKETS] = {0};
    print_head(&text, pool);
    for (struct seats all = seats_made(pool); seats_next(&all);) {
        weft_worker_counts counts = counts_at(pool, all.seat->index);
        text_put_column(&text, counts.index, 4);
        text_format(&text, " %s", kind_names[counts.kind]);
        pad_to(&text, strlen(kind_names[counts.kind]), 7);
        print_row(&text, &counts);
        for (unsigned b = 0; b < WEFT_WAKE_BUCKETS; b++) wakes[b] += counts.wake_ns_log2_count[b];
    }
    print_wakes(&text, wakes);
    return text_end(&text) == 0 ? WEFT_OK : WEFT_EINVAL;
}
