/* claim.h: what a worker has claimed beyond the task that it runs, for itself or for whoever comes first. Layer 3. Protocol in
 * claim.c. */
#ifndef WEFT_CLAIM_H
#define WEFT_CLAIM_H

#include "sched/lane.h"

/* 0: nothing is left; else segment (24 bits) | first slot (8) | slot after the last task (8) | slots from task to task (8) |
 * CLAIM_HELD. */
struct claim {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) rest;
};

/* Only who has looked in vain takes from it: its tasks are tiny, and their runner will have done before another has them. */
#define CLAIM_HELD UINT64_C(1)
#ifndef CLAIM_MAX
#define CLAIM_MAX 32u /* tasks in one claim */
#endif

/* Runner, whose claim is empty: lets others see the piece, none of whose tasks has begun. */
void claim_open(struct claim *claim, const struct piece *piece, bool is_held);
/* Runner: the first task left is its own now, and stands at *begin. false: nothing is left. */
bool claim_next(struct claim *claim, uint32_t *begin);
/* Runner, about to block inside a task: the rest is held no longer. Whether there is any. */
bool claim_offer(struct claim *claim);

/* Any thread, a glance: is there a rest; may it be taken by whoever looks; how many tasks are in it. */
INLINE bool claim_has_rest(const struct claim *claim) { return load_rlx(&claim->rest) != 0; }
INLINE bool claim_is_open(const struct claim *claim) {
    uint64_t rest = load_rlx(&claim->rest);
    return rest != 0 && (rest & CLAIM_HELD) == 0;
}
uint32_t claim_tasks(const struct claim *claim);
/* Any thread: differs from the one before if a task has begun since, unless all have; 0: nothing is left. */
INLINE uint64_t claim_mark(const struct claim *claim) { return load_rlx(&claim->rest); }
/* Any thread: takes the first half of the rest, one task at least and `most` at most. true: *piece is the caller's, to be run
 * and ended with piece_done. `force`: also of what is held. */
bool claim_take(struct claim *claim, const struct pile *segments, bool force, uint32_t most, struct piece *piece);

#endif
