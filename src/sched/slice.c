/* slice.c: the time slices of a pool's threads.
 *
 * Beside another program's busy thread one that wakes gets the CPU at once if it asks for a shorter slice than the other's (Linux
 * 6.12 and later; no privilege is needed), else mostly when the other's turn is over: milliseconds, for a task of
 * microseconds. So workers ask for one. The kernel protects a thread from being preempted for as long as its slice, and what
 * wakes again and again within its share keeps being preferred. A short slice gives no more CPU time than a long one.
 *
 * How short: what tasks take, twice, so that one is rarely cut in two; at least 0.1 ms, the kernel's least; nothing where
 * that comes to what the thread had. A worker looks before it sleeps, for it is at wakes that it counts: so where tasks stay what
 * they are it costs nothing. A background task runs with a long one: it has time, and others wake beside it. */
#include "sched/slice.h"

#define SLICE_LEAST_NS UINT64_C(100000)
#define SLICE_LONG_NS UINT64_C(20000000)

static void note(weft_pool *pool, int error) {
    if (error == 0) return;
    store_rlx(&pool->slices.error, error);
    add_rlx(&pool->slices.refused, 1);
}

/* What it is to have now: its own one where that is as short. */
static uint64_t slice_for(const struct weft_worker *seat, uint64_t task_ticks) {
    const weft_pool *pool = seat->pool;
    if (pool->config.slice_ns > 0) return (uint64_t)pool->config.slice_ns;
    uint64_t task_ns = task_ticks * 1000 / pool->ticks_per_us;
    uint64_t slice_ns = SLICE_LEAST_NS;
    while (slice_ns < 2 * task_ns && slice_ns < pool->slices.own_ns) slice_ns *= 2; /* few steps: it is rarely changed */
    return min_u64(slice_ns, pool->slices.own_ns);
}

static void slice_set(struct weft_worker *seat, uint64_t slice_ns) {
    if (slice_ns == seat->slice_ns) return;
    int error = os_slice_set(slice_ns);
    seat->slice_ns = error == 0 ? slice_ns : 0; /* not again */
    note(seat->pool, error);
}

void slice_configure(weft_pool *pool) {
    const weft_config *config = &pool->config;
    if (config->slice_ns == WEFT_SLICE_NONE || config->policy != WEFT_POLICY_INHERIT) return;
    store_rlx(&pool->slices.error, os_slice_get(&pool->slices.own_ns));
}

void slice_begin(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if (pool->slices.own_ns == 0)
        note(pool, load_rlx(&pool->slices.error));
    else
        slice_set(seat, slice_for(seat, 0));
}

NOINLINE void slice_before_sleep_slow(struct weft_worker *seat) {
    seat->slice_ticks = load_rlx(&seat->task_ticks);
    slice_set(seat, slice_for(seat, seat->slice_ticks));
}

void slice_stretch(struct weft_worker *seat) {
    if (seat->slice_ns != 0) slice_set(seat, max_u64(SLICE_LONG_NS, seat->pool->slices.own_ns));
}

void slice_back(struct weft_worker *seat) {
    if (seat->slice_ns != 0) slice_set(seat, slice_for(seat, load_rlx(&seat->task_ticks)));
}
