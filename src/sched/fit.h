/* fit.h: keeps the number of workers at the number of CPUs, or as weft_pool_resize says. Layer 4. See fit.c. */
#ifndef WEFT_FIT_H
#define WEFT_FIT_H

#include "sched/worker.h"

/* By who makes the pool: how many CPUs and workers it has, and whether it is to follow. */
void fit_configure(weft_pool *pool);
/* What its threads may spin, ns or WEFT_SPIN_NONE, and be awake ahead of work, percent, with these CPUs. */
int64_t fit_spin_ns(const weft_pool *pool);
uint32_t fit_expect_percent(const weft_pool *pool);

/* Background tasks at once, where half as many as workers may run. */
INLINE uint32_t fit_background(uint32_t workers) { return (uint32_t)max_u64(workers / 2, 1); }
/* Under the pool's lock, or while it is made: so many workers may run. */
INLINE void fit_count(weft_pool *pool, uint32_t workers) {
    store_rlx(&pool->workers, workers);
    store_rlx(&pool->surely, pool->has_tokens ? 0 : workers);
}
/* Under the pool's lock: so many workers, of those wanted, have been started. */
uint32_t fit_start(weft_pool *pool, uint32_t wanted);

/* Under the pool's lock: the CPUs that a thread started now is to have, where the calling thread, whose CPUs it would have by itself, may
 * not be on just those that the workers may be on. false: it is on these, or they cannot be told. */
bool fit_cpus(const weft_pool *pool, os_cpuset *set);

/* By a worker, between tasks: looks how many CPUs there are, if it is time. */
void fit_look_slow(weft_pool *pool);
INLINE void fit_look(weft_pool *pool) {
    if (UNLIKELY(os_ticks() >= load_rlx(&pool->fit_due))) fit_look_slow(pool);
}
/* By the seat's own thread, whose affinity is to lack a CPU for a while: with FIT_UNSURE before that is changed, with that CPU when it
 * lacks it, and with OS_NO_CPU when it has it back. The CPU is still counted among those that the thread may use. */
#define FIT_UNSURE (OS_NO_CPU - 1)
void fit_keep_off(struct weft_worker *seat, uint32_t cpu);
/* Is the seat a worker's that is to rest, while fewer run? */
INLINE bool fit_is_over(const struct weft_worker *seat) {
    return UNLIKELY(seat->index >= load_rlx(&seat->pool->workers)) && seat->index < seat->pool->workers_max;
}

#endif
