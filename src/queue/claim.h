/* claim.h: a worker's claim of several tasks, whose unstarted rest another worker may take. Layer 3. Protocol in claim.c.
 *
 * Used only where the light fence is free (os_fence_is_asymmetric); otherwise claims are of one task. */
#ifndef WEFT_CLAIM_H
#define WEFT_CLAIM_H

#include "queue/lane.h"

enum claim_kind { CLAIM_CLOSED = 0, CLAIM_OPEN = 1, CLAIM_WANTED = 2, CLAIM_TAKEN = 3, CLAIM_OFFERED = 4 };

struct claim {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) state; /* count of changes | bound (slot) | kind */
    ATOMIC(uint32_t) started;                   /* slot after the last task that the runner has begun */
    ATOMIC(uint32_t) end;                       /* slot after the claim's last task */
    ATOMIC(struct segment *) segment;
};

/* Runner: lets others see the piece. Its first task, up to before slot `started`, has begun. Loose: any thread may take the
 * rest without a fence. */
void claim_open(struct claim *claim, const struct piece *piece, uint32_t started, bool is_loose);
/* Runner, before the task in slots `begin` to before `next`: may the task run? false: it and all tasks after it belong to
 * another thread, and piece->end is set. */
bool claim_start_slow(struct claim *claim, struct piece *piece, uint32_t begin, uint32_t next);
INLINE bool claim_start(struct claim *claim, struct piece *piece, uint32_t begin, uint32_t next) {
    store_rlx(&claim->started, next);
    os_fence_light(C1);
    return LIKELY((load_rlx(&claim->state) & 0xff) == CLAIM_OPEN) || claim_start_slow(claim, piece, begin, next);
}
/* Runner, inside a task of the claim: begins the next one before that task has ended. true: *piece is that next task. */
bool claim_take_next(struct claim *claim, struct piece *piece);
/* Runner, after its last task: closes the claim; piece->end is the end of the tasks that it kept. */
void claim_close(struct claim *claim, struct piece *piece);
/* Runner, about to block inside a task: the rest may be taken without a fence. False: nothing to offer. */
bool claim_offer(struct claim *claim);
/* Runner, back again: ends the offer. */
void claim_unoffer(struct claim *claim);

/* Any thread: might there be a rest to take? A glance. */
bool claim_has_rest(const struct claim *claim);
/* Any other thread: may the rest be taken at once? A glance. */
INLINE bool claim_is_offered(const struct claim *claim) {
    uint64_t state = load_rlx(&claim->state);
    return (state & 0xff) == CLAIM_OFFERED && (state >> 8 & 0xff) < load_rlx(&claim->end);
}
/* Any other thread: 0 if there is no rest; else a number that has changed since the last call if the runner has moved on. */
uint64_t claim_mark(const struct claim *claim);
/* Any other thread: takes the unstarted rest. true: *piece is the caller's, which must run it and call piece_done. `force`
 * false: takes only an offered rest. */
bool claim_revoke(struct claim *claim, bool force, struct piece *piece);

#endif
