/* observe.h: the room's door: what src/rooms.c binds to sched's hooks (sched/hooks.h says when each is called).
 *
 * observe/ notes and tells what a pool does: a timeline (trace.c), tasks that run too long (observe.c), counters (counters.c), those
 * for weft top (publish.c), a pool's state in words (dump.c). It only looks: nothing in the rooms below waits for it, and what it reads of theirs it
 * writes nowhere. Nothing of it costs anything while nobody asks: a task's start looks at pool->extras once, for this and for
 * what else there is. What it keeps of a seat and of a pool is in state.h. */
#ifndef WEFT_OBSERVE_INTERNAL_H
#define WEFT_OBSERVE_INTERNAL_H

#include "sched/sched.h"

int observer_start(weft_pool *pool);
void observer_end(weft_pool *pool);
int observer_run(void *payload, weft_worker *self);
int observer_node(struct weft_worker *seat, weft_fn fn, void *context);
void observer_span(struct weft_worker *seat, enum trace_kind kind, uint64_t start, uintptr_t what);
void observer_wake(struct weft_worker *seat, uint64_t slept, uint64_t sent, uint64_t now);
void observer_submits(struct weft_worker *seat, struct lane *lane);

#endif
