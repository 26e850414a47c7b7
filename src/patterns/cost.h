/* cost.h: predicts how long a loop takes from earlier loops of the same kind on the same thread. Layer 6. See cost.c. */
#ifndef WEFT_COST_H
#define WEFT_COST_H

#include "patterns/state.h"

#define COST_SHORT_US 1u    /* a shorter loop is its caller's alone */
#define COST_LONG_NS 50000u /* a longer loop is worth a wake: about twice a wake's delay */

INLINE uint64_t cost_short_ticks(const weft_pool *pool) { return COST_SHORT_US * pool->ticks_per_us; }
INLINE uint64_t cost_long_ticks(const weft_pool *pool) { return COST_LONG_NS * pool->ticks_per_us / 1000; }

/* The site if the user gives none: the body's context, and about how many indices. */
INLINE uint64_t cost_site(const void *context, size_t count) {
    return (uint64_t)(uintptr_t)context ^ (uint64_t)__builtin_clzll(count | 1) << 57;
}
/* The kind of loops with that body at that site. Two kinds collide only by bad luck. */
INLINE uint64_t cost_key(uintptr_t function, uint64_t site) {
    return (function ^ (site << 17 | site >> 47)) * UINT64_C(0x9e3779b97f4a7c15);
}
INLINE struct loop_cost *cost_at(struct weft_worker *seat, uint64_t key) {
    return &patterns_of(seat)->loop_costs[key >> 32 & (LOOP_COSTS - 1)];
}

/* Replaces what is remembered in the kind's place by a kind that the seat does not remember. */
void cost_begin(struct weft_worker *seat, uint64_t key, uintptr_t function);

/* What the seat remembers of the kind. Valid until the seat begins another loop. */
INLINE struct loop_cost *cost_of(struct weft_worker *seat, uint64_t key, uintptr_t function) {
    struct loop_cost *cost = cost_at(seat, key);
    if (UNLIKELY(cost->key != key)) cost_begin(seat, key, function);
    return cost;
}

/* Will a loop of `count` indices be over before a helper could come? */
INLINE bool cost_is_short(const struct loop_cost *cost, size_t count) { return count <= cost->short_max; }

/* Have COST_NEAR loops of the kind in a row been short, so that this one will be? */
#define COST_NEAR 128u
INLINE bool cost_is_sure(const struct loop_cost *cost) { return cost->since >= COST_NEAR; }

/* How many ticks the body takes for `indices` indices; UINT64_MAX: not known, or in doubt. */
uint64_t cost_ticks(const struct loop_cost *cost, size_t indices);
/* Does the time depend on the number of indices? Else it depends on the number of calls: no body handles an index in 1/256
 * ticks. */
INLINE bool cost_is_by_index(const struct loop_cost *cost) { return cost->ticks_256 > 1; }

/* A loop of `count` indices is over; `indices` of them took `ticks`. */
void cost_learn(struct weft_worker *seat, uint64_t key, uint64_t ticks, uint64_t indices, size_t count);

/* Whether a loop that its caller begins alone is to be looked at, so that cost_confirm or cost_learn is told how long it took.
 * It costs a reading of the clock. Where such loops follow each other closely, it is the first and then one of a kind in
 * COST_LOOK_EVERY; where the caller does other things in between, for as long as a short loop may take, it is each. Called
 * once for each such loop. `look` below COST_LOOK_EVERY: so many more loops are not looked at; from there on: so many, less
 * COST_LOOK_EVERY - 1, are. */
#define COST_LOOK_EVERY 8u
INLINE bool cost_looks(struct loop_cost *cost) {
    bool looks = cost->look - 1u >= COST_LOOK_EVERY - 1;
    cost->look -= !looks;
    return looks;
}
/* A loop of the kind, not looked at, may have been long: the next COST_NEAR alone are looked at. */
INLINE void cost_suspect(struct loop_cost *cost) { cost->look = COST_LOOK_EVERY - 1 + COST_NEAR; }
/* A loop that was looked at was short, as expected. */
void cost_confirm(struct weft_worker *seat, uint64_t key, uint64_t ticks, size_t count);

#endif
