/* claim.c: revocable claims.
 *
 * No task may wait behind a running one while a worker is idle, even if both are in one claim. So a claim of several tasks
 * stays open to thieves, and the thieves pay: the runner makes one plain store and one plain load per task, the thief a
 * heavy fence (after E. Dijkstra's mutual exclusion as in M. Frigo, C. Leiserson, K. Randall, "The implementation of the
 * Cilk-5 multithreaded language", PLDI 1998, doi:10.1145/277650.277725, with the fence made asymmetric and the lock replaced
 * by a state that either side can change back).
 *
 * Runner                                           Thief
 *   started = next slot (plain)                      state: OPEN -> WANTED (C3)
 *   light fence (C1)                                 heavy fence (C4)
 *   state OPEN: run the task                         reads started
 *   WANTED: changes it back to OPEN, runs (C2)       nothing left: WANTED -> OPEN
 *   TAKEN: the tasks from bound on are gone          else WANTED -> TAKEN with bound = started (C5)
 *
 * Because of the two fences, either the thief reads the `started` that the runner stored, or the runner reads WANTED or a
 * later state. In the second case, the runner runs the task only after it has changed WANTED back, which makes the thief's
 * last CAS fail. `state` counts its changes, so a late CAS of an earlier attempt, or of an earlier claim, fails, too.
 *
 * A runner that is about to block changes OPEN to OFFERED with the bound in it: then one CAS takes the rest, without a
 * fence.
 *
 * A task that waits, or helps its group once, may begin the claim's next tasks itself (claim_take_next). It does what the runner
 * does between two tasks, in the same thread; the runner then goes on from `started`.
 *
 * A loose claim is OFFERED from the first: before each task, its runner moves the bound behind that task with a CAS (C12).
 * Where tasks are tiny, a CAS costs more than two plain accesses. Beside a task of a microsecond it costs nothing, and
 * thieves need no fence.
 *
 * state: CLOSED -> OPEN or OFFERED -> CLOSED by the runner; OPEN <-> WANTED, WANTED -> TAKEN by a thief; WANTED -> OPEN,
 * OFFERED or CLOSED by the runner; OPEN <-> OFFERED, OFFERED with a higher bound by the runner; OFFERED -> TAKEN by a thief,
 * while something is left; TAKEN -> CLOSED by the runner.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   C1  claim_start: light fence            light    C4  each side misses the other's store (started, state): a task runs twice
 *   C2  claim_start_slow: CAS state         relaxed  C5  split: both sides believe that they own the task
 *   C3  claim_revoke: CAS OPEN to WANTED    relaxed  C2  split: two thieves at once take the same rest
 *   C4  claim_revoke: heavy fence           heavy    C1  see C1
 *   C5  claim_revoke: CAS WANTED to TAKEN   relaxed  C2  see C2
 *   C6  claim_revoke: load state            acquire  C7  segment, end and the tasks themselves are not visible yet
 *   C7  claim_open: store state             release  C6  see C6
 *   C8  claim_close: CAS state              relaxed  C5  split: a thief takes from a claim that has ended
 *   C9  claim_offer: CAS OPEN to OFFERED    relaxed  C3  split: an offer overwrites a thief's WANTED
 *   C10 claim_revoke: CAS OFFERED to TAKEN  release  C8  segment and end are those of the next claim, which the runner
 *                                                    opened after it saw TAKEN; split: runner and thief both take the rest
 *   C11 claim_unoffer: CAS OFFERED to OPEN  relaxed  C10 see C10
 *   C12 claim_start_slow: CAS OFFERED       relaxed  C10 split: the runner and a thief of a loose claim run the same task
 */
#include "queue/claim.h"

INLINE enum claim_kind kind_of(uint64_t state) { return (enum claim_kind)(state & 0xff); }
INLINE uint32_t bound_of(uint64_t state) { return (uint32_t)(state >> 8) & 0xff; }
/* The state that follows `state`, one change later. */
INLINE uint64_t state_after(uint64_t state, enum claim_kind kind, uint32_t bound) {
    return ((state >> 16) + 1) << 16 | (uint64_t)bound << 8 | kind;
}

void claim_open(struct claim *claim, const struct piece *piece, uint32_t started, bool is_loose) {
    uint64_t state = load_rlx(&claim->state);
    store_rlx(&claim->started, started);
    store_rlx(&claim->end, piece->end);
    store_rlx(&claim->segment, piece->segment);
    store_rel(C7, &claim->state, is_loose ? state_after(state, CLAIM_OFFERED, started) : state_after(state, CLAIM_OPEN, 0));
}

/* true: the runner keeps the task that begins at slot `begin`. */
NOINLINE bool claim_start_slow(struct claim *claim, struct piece *piece, uint32_t begin, uint32_t next) {
    uint64_t state = load_rlx(&claim->state);
    while (kind_of(state) == CLAIM_OFFERED)
        if (cas_rlx(C12, &claim->state, &state, state_after(state, CLAIM_OFFERED, next))) return true;
    while (kind_of(state) == CLAIM_WANTED)
        if (cas_rlx(C2, &claim->state, &state, state_after(state, CLAIM_OPEN, 0))) return true;
    if (kind_of(state) != CLAIM_TAKEN) return true;
    piece->end = bound_of(state);
    return begin < piece->end;
}

bool claim_take_next(struct claim *claim, struct piece *piece) {
    if (!claim_has_rest(claim)) return false;
    piece->segment = load_rlx(&claim->segment);
    piece->stride = shape_stride(load_rlx(&piece->segment->shape));
    piece->begin = load_rlx(&claim->started);
    piece->end = piece->begin + piece->stride;
    return claim_start(claim, piece, piece->begin, piece->end);
}

void claim_close(struct claim *claim, struct piece *piece) {
    uint64_t state = load_rlx(&claim->state);
    while (kind_of(state) != CLAIM_TAKEN)
        if (cas_rlx(C8, &claim->state, &state, state_after(state, CLAIM_CLOSED, 0))) return;
    piece->end = bound_of(state);
    store_rlx(&claim->state, state_after(state, CLAIM_CLOSED, 0));
}

bool claim_offer(struct claim *claim) {
    uint64_t state = load_rlx(&claim->state);
    uint32_t started = load_rlx(&claim->started);
    while (kind_of(state) == CLAIM_OPEN || kind_of(state) == CLAIM_WANTED) {
        if (started >= load_rlx(&claim->end)) return false;
        if (cas_rlx(C9, &claim->state, &state, state_after(state, CLAIM_OFFERED, started))) return true;
    }
    return false;
}

void claim_unoffer(struct claim *claim) {
    uint64_t state = load_rlx(&claim->state);
    if (kind_of(state) == CLAIM_OFFERED) cas_rlx(C11, &claim->state, &state, state_after(state, CLAIM_OPEN, 0));
}

bool claim_has_rest(const struct claim *claim) {
    enum claim_kind kind = kind_of(load_rlx(&claim->state));
    return (kind == CLAIM_OPEN || kind == CLAIM_WANTED || kind == CLAIM_OFFERED) &&
           load_rlx(&claim->started) < load_rlx(&claim->end);
}

uint64_t claim_mark(const struct claim *claim) {
    if (!claim_has_rest(claim)) return 0;
    return (load_rlx(&claim->state) | 0xffff) ^ load_rlx(&claim->started) << 1;
}

bool claim_revoke(struct claim *claim, bool force, struct piece *piece) {
    uint64_t state = load_acq(C6, &claim->state);
    if (kind_of(state) != CLAIM_OFFERED && (!force || kind_of(state) != CLAIM_OPEN)) return false;
    piece->segment = load_rlx(&claim->segment);
    piece->end = load_rlx(&claim->end);
    piece->stride = piece->segment == NULL ? 1 : shape_stride(load_rlx(&piece->segment->shape));
    if (kind_of(state) == CLAIM_OFFERED) {
        piece->begin = bound_of(state);
        if (piece->begin >= piece->end) return false;
        return cas_rel(C10, &claim->state, &state, state_after(state, CLAIM_TAKEN, piece->begin));
    }
    if (load_rlx(&claim->started) >= piece->end) return false;
    uint64_t wanted = state_after(state, CLAIM_WANTED, 0);
    if (!cas_rlx(C3, &claim->state, &state, wanted)) return false;
    os_fence_heavy(C4);
    piece->begin = load_rlx(&claim->started);
    bool has_rest = piece->begin < piece->end;
    uint64_t after = has_rest ? state_after(wanted, CLAIM_TAKEN, piece->begin) : state_after(wanted, CLAIM_OPEN, 0);
    return cas_rlx(C5, &claim->state, &wanted, after) && has_rest;
}
