/* slice.c: the time slices of a pool's threads.
 *
 * If a thread wakes up while another program's busy thread has its CPU, it gets the CPU at once if its slice is shorter than the
 * other's (Linux 6.12 and later; no privilege is needed). Otherwise it mostly waits for the end of the other's turn: milliseconds,
 * for a task of microseconds. So workers ask for a short slice. The kernel does not preempt a thread within its slice, and a
 * thread that wakes up repeatedly within its share keeps being preferred. A short slice gives no more CPU time than a long one.
 *
 * How short: twice what tasks take, so that a task is rarely interrupted; at least 0.1 ms, the kernel's minimum; unchanged if that
 * is no shorter than what the thread had. A worker sets it before it sleeps, because slices matter at wake-ups. So it costs nothing
 * while tasks take the same time. A background task runs with a long slice: it has time, and other threads wake up beside it. */
#include "sched/slice.h"

#define SLICE_LEAST_NS UINT64_C(100000)
#define SLICE_LONG_NS UINT64_C(20000000)

static void note(weft_pool *pool, int error) {
    if (error == 0) return;
    store_rlx(&pool->slices.error, error);
    add_rlx(&pool->slices.refused, 1);
}

/* The slice that the thread should have now: its own one if that is as short. */
static uint64_t slice_for(const struct weft_worker *seat, uint64_t task_ticks) {
    const weft_pool *pool = seat->pool;
    if (pool->config.slice_ns > 0) return (uint64_t)pool->config.slice_ns;
    uint64_t task_ns = task_ticks * 1000 / pool->ticks_per_us;
    uint64_t slice_ns = SLICE_LEAST_NS;
    while (slice_ns < 2 * task_ns && slice_ns < pool->slices.own_ns) slice_ns *= 2; /* few steps: it rarely changes */
    return min_u64(slice_ns, pool->slices.own_ns);
}

static void slice_set(struct weft_worker *seat, uint64_t slice_ns) {
    if (slice_ns == seat->slice_ns) return;
    int error = os_slice_set(slice_ns);
    seat->slice_ns = error == 0 ? slice_ns : 0; /* 0: no further tries */
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
