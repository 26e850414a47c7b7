/* rank.h: which tasks go first, and which wait until there is nothing else. Layer 4. The protocol stands in rank.c. */
#ifndef WEFT_RANK_H
#define WEFT_RANK_H

#include "sched/worker.h"

/* Filters for lane_claim: tasks of urgent groups; of all but background ones; of background ones. `context` is the pool. */
bool rank_is_urgent(const void *context, uint32_t record);
bool rank_is_prompt(const void *context, uint32_t record);
bool rank_is_background(const void *context, uint32_t record);

bool rank_is_record(const void *context, uint32_t record); /* `context`: a record's index */
/* When what waits in the lane is due, ns; UINT64_MAX: there is nothing, or no deadline. */
uint64_t rank_deadline_ns(const weft_pool *pool, const struct lane *lane, uint32_t *record);
/* Around tasks where groups have deadlines (EXTRA_DUE): the seat's task is about to begin; what it has run is about to be
 * counted. */
void rank_before_task(struct weft_worker *seat);
INLINE void rank_before_count(const weft_pool *pool, struct record *record) {
    if (UNLIKELY((load_rlx(&pool->extras) & EXTRA_DUE) != 0)) (void)record_is_late(record);
}

/* Are there groups of that kind? A hint. */
INLINE bool rank_has_urgent(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.urgent) != 0); }
INLINE bool rank_has_background(const weft_pool *pool) { return UNLIKELY(load_rlx(&pool->groups.background) != 0); }

/* May the group of those flags have tasks in this pool? */
bool rank_allows(const weft_pool *pool, uint32_t flags);

/* Must the lane's tasks wait, background ones for which there is no slot? Any thread. */
bool rank_holds_slow(const weft_pool *pool, const struct lane *lane);
INLINE bool rank_holds(const weft_pool *pool, const struct lane *lane) {
    return rank_has_background(pool) && rank_holds_slow(pool, lane);
}

/* By who is about to sleep, or to do something else, beside tasks that wait for a slot: wakes the waits that may help
 * with them. */
void rank_wake_helpers_slow(weft_pool *pool);
INLINE void rank_wake_helpers(weft_pool *pool) {
    if (rank_has_background(pool) && load_rlx(&pool->park.word[0].helpers) > 0) rank_wake_helpers_slow(pool);
}

/* Slots: as many as background tasks may run. rank_take: false, there is none, or nothing to run in it. What was taken is
 * given back by rank_give, which wakes a worker if that lets one do something. rank_retake: one more, though there may be
 * none left. */
bool rank_take(weft_pool *pool);
void rank_give(struct weft_worker *seat);
void rank_retake(weft_pool *pool);

/* Around the task that runs in a slot. Where no worker is left for others, a spare stands in. */
void rank_begin(struct weft_worker *seat);
void rank_end(struct weft_worker *seat);

#endif
