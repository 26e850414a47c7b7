/* observe.h: the room's door: the functions that src/rooms.c binds to sched's hooks (sched/hooks.h says when each is called).
 *
 * observe/ records and reports what a pool does: a timeline (trace.c, timeline.c, trace_file.c), tasks that run too long (observe.c), counters
 * (counters.c), the file that weft top reads (publish.c), a pool's state as text (dump.c).
 *
 * What may not be touched: observation only reads. Nothing in the rooms below waits for it, and it writes none of their
 * fields. While it is off it costs nothing but one load of pool->extras at a task's start, which other features share. The
 * state that it keeps for each seat and pool is in state.h. */
#ifndef WEFT_OBSERVE_INTERNAL_H
#define WEFT_OBSERVE_INTERNAL_H

#include "sched/sched.h"

int observer_start(weft_pool *pool);
void observer_end(weft_pool *pool);
void observer_forked(void);
int observer_run(void *payload, weft_worker *self);
int observer_node(struct weft_worker *seat, weft_fn fn, void *context);
void observer_span(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what);
void observer_wake(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now);
void observer_submits(struct weft_worker *seat, struct lane *lane);

#endif
