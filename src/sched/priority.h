/* priority.h: which tasks run first, and which run only when there is nothing else. Layer 4. The protocol is in priority.c. */
#ifndef WEFT_PRIORITY_H
#define WEFT_PRIORITY_H

#include "sched/worker.h"

/* Filters for lane_claim: tasks of urgent groups; of all but background ones; of background ones. `context` is the pool. */
bool priority_is_urgent(const void *context, uint32_t record);
bool priority_is_prompt(const void *context, uint32_t record);
bool priority_is_background(const void *context, uint32_t record);

bool priority_is_record(const void *context, uint32_t record); /* `context`: a record's index */
/* When what waits in the lane is due, ns; UINT64_MAX: there is nothing, or no deadline. */
uint64_t priority_deadline_ns(const weft_pool *pool, const struct lane *lane, uint32_t *record);
/* Around tasks where groups have deadlines (EXTRA_DUE): the seat's task is about to begin; what it has run is about to be
 * counted. */
void priority_before_task(struct weft_worker *seat);
INLINE void priority_before_count(const weft_pool *pool, struct record *record) {
    if (UNLIKELY((load_rlx(&pool->extras) & EXTRA_DUE) != 0)) (void)record_is_late(record);
}

/* Are there groups of that kind? A hint. */
INLINE bool priority_has_urgent(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.urgent) != 0); }
INLINE bool priority_has_background(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.background) != 0); }

/* May others help with the loops and forked calls of tasks of that record's group? Not with background ones: a few workers are
 * to run these. */
INLINE bool priority_lets_help(const weft_pool *pool, uint32_t record) {
    return !priority_has_background(pool) || !priority_is_background(pool, record);
}

/* May the group of those flags have tasks in this pool? */
bool priority_allows(const weft_pool *pool, uint32_t flags);

/* Must the lane's tasks wait, background ones for which there is no slot? Any thread. */
bool priority_holds_slow(const weft_pool *pool, const struct lane *lane);
INLINE bool priority_holds(const weft_pool *pool, const struct lane *lane) {
    return priority_has_background(pool) && priority_holds_slow(pool, lane);
}

/* By who is about to sleep, or to do something else, beside tasks that wait for a slot: wakes the waits that may help
 * with them. */
void priority_wake_helpers_slow(weft_pool *pool);
INLINE void priority_wake_helpers(weft_pool *pool) {
    if (priority_has_background(pool) && load_rlx(&pool->park.word[0].helpers) > 0) priority_wake_helpers_slow(pool);
}

/* Slots: as many as background tasks may run. priority_take: false, there is none, or nothing to run in it. What was taken
 * is given back by priority_give, which wakes a worker if that lets one do something. */
bool priority_take(weft_pool *pool);
void priority_give(struct weft_worker *seat);

/* Around the task that runs in a slot; where no worker is left for others, a spare stands in. Around a section of it, which
 * has no slot: then it takes one again, though there may be none left. */
void priority_begin(struct weft_worker *seat);
void priority_end(struct weft_worker *seat);
void priority_pause(struct weft_worker *seat);
void priority_resume(weft_pool *pool);

#endif
