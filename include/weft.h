/**
 * @file weft.h
 * Short jobs, run now: the one header to include. It includes the topic headers in weft/.
 *
 * A pool of worker threads, tasks whose payload is stored in the queue itself, and groups to wait for them.
 *
 *     weft_pool *pool;
 *     weft_group group = WEFT_GROUP_INIT;
 *     if (weft_pool_create(&pool, NULL) != WEFT_OK) ...
 *     weft_submit(pool, &group, fn, &payload, sizeof payload);
 *     weft_group_wait(pool, &group);
 *     weft_pool_destroy(&pool);
 *
 * **Results.** A function that returns int returns WEFT_OK (0) or a negative WEFT_E* code, unless its comment says
 * otherwise. A wait returns the group's own error when a task has failed.
 *
 * **Threads.** "Any thread" means any thread of the process, workers and tasks included, at any time between the
 * creation and the end of the object. No function may be called in a signal handler unless its comment says so. None is
 * a cancellation point.
 *
 * **Units.** Sizes are in bytes. A time has its unit in its name: `_ns`, `_us`, `_ms`. Moments are on CLOCK_MONOTONIC.
 *
 * **Names.** A function is `weft_noun_verb`, after what it acts on. Three sets have the verb alone: submitting
 * (`weft_submit` and its kin, `weft_run`), patterns (`weft_for`, `weft_reduce`, `weft_sort`), and what the C library
 * has words for (`weft_alloc`, `weft_free`, `weft_trim`, `weft_strerror`, ...). A flag or an enumerator begins with the
 * name of what it belongs to: `WEFT_POOL_*`, `WEFT_GROUP_*`, `WEFT_HELP_*`.
 *
 * **Counters.** In weft_stats, weft_worker_counts and weft_heap_counts a field that ends in `_count` counts events and
 * only grows. `_ns` and `_bytes` are amounts in that unit. A plain plural (`workers`, `threads`, `classes`) is how many
 * there are now, and `_peak` is the most there ever were at once.
 *
 * **Structures with a struct_size.** The caller sets struct_size to the size of the structure. That tells the library
 * which version of the structure the caller was compiled with, so the two may differ:
 *
 * - An older caller's structure is shorter. Fields that it lacks have their defaults, or are not written.
 * - A newer caller's structure is longer. In a structure that the library reads, all bytes beyond the part that it knows
 *   must be zero; otherwise it returns WEFT_EINVAL. So a new field at its default works with an old library, and a
 *   request that the library does not know is refused rather than ignored. In a structure that the library fills, it
 *   sets these bytes to zero.
 * - A size that is not a multiple of 8, or is less than 8 or over 4096, is invalid: WEFT_EINVAL.
 *
 * **Environment.** weft reads environment variables only where a comment says so. In addition, the first pool reads
 * WEFT_FENCE: with `full`, weft does not use membarrier(2). An empty variable counts as not set.
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
