/* topology.h: from which workers a worker takes first. See topology.c. */
#ifndef WEFT_NEAR_H
#define WEFT_NEAR_H

#include "predict/state.h"

/* Near: workers whose CPUs share a core, a cache or a node. */

/* How far two CPUs are from each other: 0 the same one, then by the first level at which they share; OS_NEAR_LEVELS + 1:
 * nothing. */
uint32_t topology_distance(const uint16_t *shared, uint32_t one, uint32_t other);
/* The numbers of all workers, nearest to number `self` first, of equals those after it first. `cpus`: where each runs;
 * OS_NO_CPU: nobody knows. */
void topology_sort(const uint16_t *shared, const uint32_t *cpus, uint16_t *order, uint32_t workers, uint32_t self);

/* Reads the topology where it makes a difference. No memory: nothing is near. */
void topology_configure(weft_pool *pool);
/* By a worker that begins, or may have been moved to another CPU meanwhile. */
void topology_moved(struct weft_worker *seat);

#endif
