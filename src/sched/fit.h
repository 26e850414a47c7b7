/* fit.h: keeps the number of workers at the number of CPUs, or as weft_pool_resize says. Layer 4. See fit.c. */
#ifndef WEFT_FIT_H
#define WEFT_FIT_H

#include "sched/worker.h"

/* Called by the pool's maker: sets the numbers of CPUs and workers, and whether the workers follow the CPUs. */
void fit_configure(weft_pool *pool);
/* With the pool's present CPUs: how long its threads may spin (ns, or WEFT_SPIN_NONE), and what share of its time a worker may be
 * awake ahead of work (percent). */
int64_t fit_spin_ns(const weft_pool *pool);
uint32_t fit_expect_percent(const weft_pool *pool);

/* How many background tasks may run at once by default: half the number of workers, at least one. */
INLINE uint32_t fit_background(uint32_t workers) { return (uint32_t)max_u64(workers / 2, 1); }
/* Under the pool's lock: starts workers until `wanted` have been started. Returns how many of these there are. */
uint32_t fit_start(weft_pool *pool, uint32_t wanted);

/* Under the pool's lock: the CPUs to set for a thread started now. It would inherit the CPUs of the calling thread, which may differ
 * from those of the workers. false: they do not differ, or the workers' CPUs are not known. */
bool fit_cpus(const weft_pool *pool, os_cpuset *set);

/* Called by a worker between tasks, or between some of many tiny ones, and when it has polled: counts the CPUs, if it is time. */
void fit_look_slow(weft_pool *pool);
INLINE bool fit_is_due(const weft_pool *pool) { return UNLIKELY(os_ticks() >= load_rlx(&pool->fit_due)); }
INLINE void fit_look(weft_pool *pool) {
    if (fit_is_due(pool)) fit_look_slow(pool);
}
/* Called by the seat's own thread when it takes a CPU out of its affinity for a while: with FIT_UNSURE before the change, with that
 * CPU after it, and with OS_NO_CPU once the CPU is back. The CPU still counts among those that the thread may use. */
#define FIT_UNSURE (OS_NO_CPU - 1)
void fit_keep_off(struct weft_worker *seat, uint32_t cpu);
/* Is it the seat of a worker that must rest, because fewer workers are to run? A spare is none. */
INLINE bool fit_is_over(const struct weft_worker *seat) {
    return UNLIKELY(seat->index >= load_rlx(&seat->pool->workers)) && seat->index < seat->pool->workers_max;
}

/* Is the seat's thread to run tasks, as one of the workers that are to run, or as a spare that stands in for a blocked one? */
bool fit_spare_is_wanted(const struct weft_worker *seat);
INLINE bool fit_is_wanted(const struct weft_worker *seat) {
    return LIKELY(seat->index < load_rlx(&seat->pool->workers)) || fit_spare_is_wanted(seat);
}
/* Its thread sleeps until it is wanted, or the pool ends. */
void fit_rest(struct weft_worker *seat);

#endif
