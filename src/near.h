/* near.h: whom a worker takes from first: those whose CPUs share most with its own. Layer 4. The rest is told in near.c. */
#ifndef WEFT_NEAR_H
#define WEFT_NEAR_H

#include "worker.h"

/* How far two CPUs are from each other: 0 the same one, then by the first level at which they share; OS_NEAR_LEVELS + 1:
 * nothing. */
uint32_t near_distance(const uint16_t *shared, uint32_t one, uint32_t other);
/* The numbers of all workers, nearest to number `self` first, of equals those after it first. `cpus`: where each runs;
 * OS_NO_CPU: nobody knows. */
void near_sort(const uint16_t *shared, const uint32_t *cpus, uint16_t *order, uint32_t workers, uint32_t self);

/* Reads the topology where it makes a difference. No memory: nothing is near. */
void near_configure(weft_pool *pool);
/* By a worker that begins, or may have been moved to another CPU meanwhile. */
void near_moved_slow(struct weft_worker *seat);
INLINE void near_moved(struct weft_worker *seat) {
    if (UNLIKELY(seat->pool->shared != NULL)) near_moved_slow(seat);
}

#endif
