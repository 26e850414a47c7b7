/* priority.h: which tasks run first, and which run only when there is nothing else. Layer 4. The protocol is in priority.c. */
#ifndef WEFT_PRIORITY_H
#define WEFT_PRIORITY_H

#include "sched/worker.h"

/* Filters for lane_claim: tasks of urgent groups; of all but background ones; of background ones. `context` is the pool. */
bool priority_is_urgent(const void *context, uint32_t record);
bool priority_is_prompt(const void *context, uint32_t record);
bool priority_is_background(const void *context, uint32_t record);

bool priority_is_record(const void *context, uint32_t record); /* `context`: a record's index */
/* The deadline of the lane's waiting tasks, ns, and their record's index; UINT64_MAX: no task, not urgent, or no deadline. */
uint64_t priority_deadline_ns(const weft_pool *pool, const struct lane *lane, uint32_t *record);
/* Called if groups have deadlines (EXTRA_DUE): before the seat's task starts; before tasks of the record are counted as
 * completed. */
void priority_before_task(struct weft_worker *seat);
INLINE void priority_before_count(const weft_pool *pool, struct record *record) {
    if (UNLIKELY((load_rlx(&pool->extras) & EXTRA_DUE) != 0)) (void)record_is_late(record);
}

/* Are there groups of that kind? A hint. */
INLINE bool priority_has_urgent(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.urgent) != 0); }
INLINE bool priority_has_background(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.background) != 0); }

/* May other threads help with the loops and forked calls of tasks of that record's group? Not with those of background tasks,
 * because only a few workers may run these. */
INLINE bool priority_lets_help(const weft_pool *pool, uint32_t record) {
    return !priority_has_background(pool) || !priority_is_background(pool, record);
}

/* May the group of those flags have tasks in this pool? */
bool priority_allows(const weft_pool *pool, uint32_t flags);

/* Must the lane's tasks wait, because they are background tasks and there is no slot? Any thread. */
bool priority_holds_slow(const weft_pool *pool, const struct lane *lane);
INLINE bool priority_holds(const weft_pool *pool, const struct lane *lane) {
    return priority_has_background(pool) && priority_holds_slow(pool, lane);
}

/* Called by a thread that is about to sleep, or to run something else, while tasks wait for a slot: wakes the waits that may help
 * with them. */
void priority_wake_helpers_slow(weft_pool *pool);
INLINE void priority_wake_helpers(weft_pool *pool) {
    if (priority_has_background(pool) && load_rlx(&pool->park.word[0].helpers) > 0) priority_wake_helpers_slow(pool);
}

/* Slots: one for each background task that may run. priority_take takes one; false: there is none, or no background task waits.
 * priority_give gives it back and wakes a worker if a background task waits. */
bool priority_take(weft_pool *pool);
void priority_give(struct weft_worker *seat);

/* begin, end: around a task that runs in a slot; if no worker is left for other tasks, a spare stands in; end gives the slot back.
 * pause, resume: around a blocking section in that task; pause gives the slot back, resume takes one even if none is left.
 * give, take_back: the same around a sleep in a wait, in which the task still counts among those that take a worker. */
void priority_begin(struct weft_worker *seat);
void priority_end(struct weft_worker *seat);
void priority_pause(struct weft_worker *seat);
void priority_resume(weft_pool *pool);
void priority_take_back(weft_pool *pool);

#endif
