/* observe.h: what a pool notes beside running tasks, when it is asked to: a timeline, tasks that run too long. Layer 4.
 *
 * Nothing of it costs anything while nobody asks: run_cell looks at `extras` once, for this and for the bounded queue. */
#ifndef WEFT_OBSERVE_INTERNAL_H
#define WEFT_OBSERVE_INTERNAL_H

#include "worker.h"

/* Opens the files and starts what the configuration asks for. WEFT_OK; WEFT_EINVAL: a file cannot be written;
 * WEFT_EAGAIN: no thread for the watchdog; WEFT_ENOMEM. On error nothing is left open. */
int observe_start(weft_pool *pool);
/* Writes what the configuration asks for; no thread of the pool runs any more. */
void observe_end(weft_pool *pool);

/* A task is about to run whose function is in seat->running: what to call in its place. */
weft_fn observe_task(struct weft_worker *seat, weft_fn fn);
/* The same for a task that has not been queued. */
weft_fn observe_inline(const struct weft_worker *seat, weft_fn fn);

/* A node of a graph, inside a task that is observed (running_since is not 0). */
int observe_node(struct weft_worker *seat, weft_fn fn, void *context);

/* The clock, where anybody wants to know how long things run; else 0. */
INLINE uint64_t observe_clock(const struct weft_worker *seat) {
    return UNLIKELY((load_rlx(&seat->pool->extras) & (EXTRA_TRACED | EXTRA_WATCHED)) != 0) ? os_ticks() : 0;
}
/* Is a timeline recorded? Its clock then; else 0. */
INLINE uint64_t trace_begin(const struct weft_worker *seat) {
    return UNLIKELY((load_rlx(&seat->pool->extras) & EXTRA_TRACED) != 0) ? os_ticks() : 0;
}
/* What began then ends now. Nothing if trace_begin gave 0. */
void observe_span(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what);
INLINE void trace_end(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what) {
    if (UNLIKELY(start != 0)) observe_span(seat, kind, start, what);
}
/* A sleep and the wake that ended it. */
void observe_wake(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now);

/* The seat of that index, or NULL. Any thread. */
struct weft_worker *observe_seat(const weft_pool *pool, uint32_t index);
/* Its newest lane, or NULL. */
struct lane *observe_lanes(const struct weft_worker *seat);
/* Cells of tasks in its lanes that nobody has begun. */
uint64_t observe_backlog(const struct weft_worker *seat);
/* Its events; NULL: it has recorded none yet. */
const struct trace_ring *observe_ring(const struct weft_worker *seat);
/* Nanoseconds of a span of ticks. */
uint64_t observe_ns(uint64_t ticks);

#endif
