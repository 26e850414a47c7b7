/* weft: short jobs, run now.
 *
 * A pool of worker threads, tasks with their payload stored in the queue itself, and groups to wait for them.
 *
 *     weft_pool *pool;
 *     weft_group group = WEFT_GROUP_INIT;
 *     if (weft_pool_create(&pool, NULL) != WEFT_OK) ...
 *     weft_submit(pool, &group, fn, &payload, sizeof payload);
 *     weft_group_wait(pool, &group);
 *     weft_pool_destroy(&pool);
 *
 * Every function that returns int returns WEFT_OK (0) or one of the negative WEFT_E* codes below, except that a wait returns
 * the group's own error when a task failed. Every function may be called from any thread, and none in a signal handler,
 * unless its comment says otherwise; none is a cancellation point. Sizes are in bytes; times say their unit in their name.
 * The environment is read where that is said; WEFT_FENCE=full (no
 * membarrier) by the first pool.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_H
#define WEFT_H

#include <weft/base.h>    /* version, results */
#include <weft/pool.h>    /* pools */
#include <weft/task.h>    /* tasks, groups, waits */
#include <weft/pattern.h> /* loops, graphs, fork and join */
#include <weft/heap.h>    /* memory */
#include <weft/observe.h> /* counters, timeline, watchdog */

#endif
