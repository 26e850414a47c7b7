/* claim.c: claims of several tasks.
 *
 * No task may wait behind a running one while a worker is idle, also when the running one's worker has claimed it. So what a
 * worker has claimed and not begun stays open to all. It is one word, which says all there is to know: segment, first slot,
 * end, stride.
 *
 *   Runner                                         Thief
 *     open: 0 -> all but the first (C1)              load rest; 0, or held: nothing
 *     fence, who sleeps? (D4)                        begin -> the middle (C3): the first half is its own
 *     next: begin -> begin + stride (C2), 0 last
 *
 * Each change is a CAS of the whole word, but for the opening, which finds it 0, and then nobody else changes it. So a task is in
 * the word, or it is of who moved `begin` past it. The word may have been another in between and come back: it says the same
 * then, and the CAS is right. Thieves take the first half, for these were submitted first.
 *
 * The word stands on a line of its own: without thieves, the runner's CAS finds it there.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   C1  claim_open: store rest    release  C3  a thief runs tasks that it does not see yet
 *   C2  claim_next: CAS rest      relaxed  C3  split: a task runs twice
 *   C3  claim_take: CAS rest      acquire  C1  see C1, and the segment, which it looks up after; split: see C2
 *   C4  claim_offer: CAS rest     relaxed  C3  split: what was taken is offered
 */
#include "sched/claim.h"

#define REST_BEGIN_SHIFT 17
#define REST_END_SHIFT 25
#define REST_STRIDE_SHIFT 33
#define REST_SEGMENT_SHIFT 41

INLINE uint32_t begin_of(uint64_t rest) { return (uint32_t)(rest >> REST_BEGIN_SHIFT) & 0xff; }
INLINE uint32_t end_of(uint64_t rest) { return (uint32_t)(rest >> REST_END_SHIFT) & 0xff; }
INLINE uint32_t stride_of(uint64_t rest) { return (uint32_t)(rest >> REST_STRIDE_SHIFT) & 0x7f; }
/* Without its first `slots`. */
INLINE uint64_t rest_after(uint64_t rest, uint32_t slots) {
    return begin_of(rest) + slots >= end_of(rest) ? 0 : rest + ((uint64_t)slots << REST_BEGIN_SHIFT);
}

void claim_open(struct claim *claim, const struct piece *piece, bool is_held) {
    ASSERT(load_rlx(&claim->rest) == 0 && piece->begin < piece->end && piece->stride <= 0x7f);
    store_rel(C1, &claim->rest,
              (uint64_t)piece->segment->item.index << REST_SEGMENT_SHIFT | (uint64_t)piece->stride << REST_STRIDE_SHIFT |
                  (uint64_t)piece->end << REST_END_SHIFT | (uint64_t)piece->begin << REST_BEGIN_SHIFT |
                  (is_held ? CLAIM_HELD : 0));
}

bool claim_next(struct claim *claim, uint32_t *begin) {
    uint64_t rest = load_rlx(&claim->rest);
    while (rest != 0) {
        *begin = begin_of(rest);
        if (cas_rlx(C2, &claim->rest, &rest, rest_after(rest, stride_of(rest)))) return true;
    }
    return false;
}

bool claim_offer(struct claim *claim) {
    uint64_t rest = load_rlx(&claim->rest);
    while ((rest & CLAIM_HELD) != 0)
        if (cas_rlx(C4, &claim->rest, &rest, rest & ~CLAIM_HELD)) return true;
    return rest != 0;
}

uint32_t claim_tasks(const struct claim *claim) {
    uint64_t rest = load_rlx(&claim->rest);
    return rest == 0 ? 0 : (end_of(rest) - begin_of(rest)) / stride_of(rest);
}

bool claim_take(struct claim *claim, const struct pile *segments, bool force, uint32_t most, struct piece *piece) {
    uint64_t rest = load_rlx(&claim->rest);
    while (rest != 0 && (force || (rest & CLAIM_HELD) == 0)) {
        uint32_t stride = stride_of(rest);
        uint32_t tasks = (end_of(rest) - begin_of(rest)) / stride;
        uint32_t slots = (uint32_t)min_u64((tasks + 1) / 2, most) * stride;
        uint64_t taken = rest;
        if (!cas_acq(C3, &claim->rest, &rest, rest_after(rest, slots))) continue;
        struct segment *segment = segment_at(segments, (uint32_t)(taken >> REST_SEGMENT_SHIFT));
        *piece = (struct piece){segment, begin_of(taken), begin_of(taken) + slots, stride};
        return true;
    }
    return false;
}
