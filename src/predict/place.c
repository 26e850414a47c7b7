/* place.c: decides when a parked worker should avoid its waker's CPU: while another CPU is free. affinity.c does it. */
#include "predict/state.h"

/* The CPU to keep off: that of the thread that woke the worker, or, if the clock did, that of the thread that submits. A
 * caller that only waits gives up its CPU at once: if it woke the worker, there is no such CPU. */
static uint32_t wakers_cpu(const struct weft_worker *seat, bool was_woken) {
    const weft_pool *pool = seat->pool;
    uint32_t submits = load_rlx(&pool->from_cpu);
    uint32_t from = was_woken ? load_rlx(&pool->park.slots[seat->index].sent_from) : submits;
    return from == submits && load_rlx(&pool->outside_sleeps) ? OS_NO_CPU : from;
}

static bool is_placed(const struct weft_worker *seat) { /* as ADR 13 says */
    return seat->pool->placing && load_rlx(&seat->task_ticks) < seat->pool->short_ticks;
}
/* As many workers as this are woken first; one CPU is their waker's. */
static bool is_first(const struct weft_worker *seat) { return seat->index + 1 < load_rlx(&seat->pool->cpus_allowed); }

void place_before_park(struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    struct predict_seat *mine = predict_of(seat);
    mine->is_placed = is_placed(seat);
    if (!mine->is_placed) return;
    mine->affinity.wished = pool->config.cpus == NULL ? NULL : &pool->cpus;
    if (mine->by_clock || mine->affinity.turns == 0) return; /* the clock wakes threads where they fell asleep */
    fit_keep_off(seat, FIT_UNSURE);
    affinity_before_sleep(&mine->affinity,
                          is_first(seat) && workers_awake(pool) < load_rlx(&pool->cpus_allowed)); /* it is awake itself */
    fit_keep_off(seat, mine->affinity.is_narrowed ? mine->affinity.cpu : OS_NO_CPU);
}

void place_after_park(struct weft_worker *seat, bool was_woken) {
    const weft_pool *pool = seat->pool;
    struct predict_seat *mine = predict_of(seat);
    if (!mine->is_placed) return;
    bool has_room = is_first(seat) && workers_leave_room(pool);
    bool was_kept_off = mine->affinity.is_narrowed;
    bool is_there = affinity_after_sleep(&mine->affinity, has_room, wakers_cpu(seat, was_woken));
    if (was_kept_off) fit_keep_off(seat, OS_NO_CPU);
    mine->by_clock = !was_woken && mine->plan.wake != 0;
    /* The clock woke it for an arrival, and the submitting thread will then run on that CPU: there it would delay that
     * arrival. */
    if (!is_there || !mine->by_clock) return;
    fit_keep_off(seat, FIT_UNSURE);
    affinity_leave(&mine->affinity);
    fit_keep_off(seat, OS_NO_CPU);
}

void place_moved(struct weft_worker *seat) {
    uint32_t here = os_cpu();
    if (load_rlx(&seat->runs_on) != here + 1) store_rlx(&seat->runs_on, here + 1); /* OS_NO_CPU + 1: not known */
}
