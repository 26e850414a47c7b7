/* spec.c: what weft.h promises, as code.
 *
 * What a thread may rely on is what it can know: each frame (a task, a thread's body, a piece of a loop) has a set of
 * submissions that happened before what it does now. A task begins with what its submitter knew; a wait that returns, a
 * loop, a join and a run of a graph add what all that they waited for knew at its end. So:
 *
 *   - A wait for a group covers every task of it whose submission happened before the wait, or before the end of a task that
 *     the wait covers. When it returns, these have ended, and what they wrote is visible.
 *   - A task runs once, or is given to clean once, or its submission was refused.
 *   - Two relations between groups say what waits may do. X `waits` for Y: a task of X is in a wait for Y, or a task of X is
 *     to start after Y. Y is `below` X: a task of X has made use of Y, or a task of X starts after Y. WEFT_EDEADLK needs a
 *     way of the first from the group to one whose task the caller is in; what runs inside a wait for a group must be on a
 *     way of the second.
 *
 * The bookkeeping is relaxed atomics and memory handed over by weft alone, so it hides no missing order. */
#include "spec.h"

#include <stdio.h>
#include <string.h>

/* ---- knowledge ---------------------------------------------------------------------------------------------------- */

void known_add(mask *known, uint32_t number) {
    if (number < KNOWN) known->word[number / 64] |= UINT64_C(1) << number % 64;
}
bool known_has(const mask *known, uint32_t number) {
    return number < KNOWN && (known->word[number / 64] >> number % 64 & 1) != 0;
}
void known_join(mask *known, const shared_mask *more) {
    for (uint32_t i = 0; i < KNOWN / 64; i++) known->word[i] |= atomic_load_explicit(&more->word[i], memory_order_relaxed);
}
void known_tell(shared_mask *known, const mask *more) {
    for (uint32_t i = 0; i < KNOWN / 64; i++)
        if (more->word[i] != 0) atomic_fetch_or_explicit(&known->word[i], more->word[i], memory_order_relaxed);
}

static uint32_t get(const _Atomic uint32_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }
static void add(_Atomic uint32_t *count, uint32_t n) { atomic_fetch_add_explicit(count, n, memory_order_relaxed); }

static const char *group_text(const struct group *group) {
    static char text[4][24];
    static _Atomic uint32_t turn;
    char *into = text[atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % 4];
    if (group == NULL) return "no group";
    if (group->is_pools) return "the pool's group";
    snprintf(into, sizeof text[0], group->is_shared ? "shared group %u" : "local group %u", (unsigned)group->serial);
    return into;
}

/* All tasks of that group which are known to have been submitted have ended; what they knew is known now. */
static void covers(mask *known, uint32_t serial, const char *what) {
    mask seen = {{0}};
    for (bool finds = true; finds;) {
        finds = false;
        uint32_t count = get(&play.batches);
        for (uint32_t i = 0; i < count && i < KNOWN; i++) {
            const struct batch *batch = &play.batch[i];
            if (!known_has(known, i) || known_has(&seen, i) || batch->serial != serial || batch->op == NULL) continue;
            finds = true;
            known_add(&seen, i);
            /* Of a task without payload clean is not told which it was. */
            uint32_t nameless = batch->op->size == 0 ? get(&play.null_cleaned) : 0;
            if (get(&batch->ended) + nameless < get(&batch->accepted))
                play_fail("%s, but %u of %u tasks have not ended: %s, task %u and so on", what,
                          get(&batch->accepted) - get(&batch->ended), get(&batch->accepted), op_name(batch->op->kind),
                          batch->first);
            known_join(known, &batch->end);
            for (uint32_t k = 0; k < batch->given && k < 64; k++) {
                const struct slot *slot = &play.slot[batch->first + k];
                uint8_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
                if (state == SLOT_FREE || state == SLOT_REFUSED || (state == SLOT_GIVEN && nameless != 0)) continue;
                world_reads(&slot->written, sizeof slot->written);
                if (slot->written != batch->first + k + 1)
                    play_fail("%s, but what task %u wrote is not there", what, batch->first + k);
            }
        }
    }
}

/* ---- relations ---------------------------------------------------------------------------------------------------- */

uint8_t relations_begin(void) {
    uint64_t used = atomic_load_explicit(&play.numbers, memory_order_relaxed);
    while (used != UINT64_MAX) {
        uint32_t number = (uint32_t)__builtin_ctzll(~used);
        if (atomic_compare_exchange_weak(&play.numbers, &used, used | UINT64_C(1) << number)) return (uint8_t)number;
    }
    atomic_store_explicit(&play.has_untracked, 1, memory_order_relaxed);
    return UNTRACKED;
}
/* What is below it stays below those above it: a claim may be older than the end. */
void relations_end(uint8_t number) {
    if (number == UNTRACKED) return;
    uint64_t bit = UINT64_C(1) << number;
    uint64_t lower = atomic_load(&play.below[number]) & ~bit;
    atomic_fetch_add(&play.ends_begun, 1);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if ((atomic_load(&play.below[i]) & bit) == 0) continue;
        atomic_fetch_or(&play.below[i], lower);
        atomic_fetch_and(&play.below[i], ~bit);
    }
    atomic_store(&play.below[number], 0);
    atomic_fetch_add(&play.ends_done, 1);
    atomic_fetch_and(&play.numbers, ~bit);
}
static bool are_known(void) { return get(&play.has_untracked) == 0; }

static bool waits_for(uint32_t from, uint32_t to) {
    uint64_t seen = UINT64_C(1) << from, open = seen;
    while (open != 0) {
        uint32_t at = (uint32_t)__builtin_ctzll(open);
        open &= open - 1;
        if (at == to) return true;
        for (uint32_t i = 0; i < NUMBERS; i++)
            if ((seen >> i & 1) == 0 && atomic_load(&play.waits[at][i]) != 0) {
                seen |= UINT64_C(1) << i;
                open |= UINT64_C(1) << i;
            }
    }
    return false;
}

static bool is_reached(const struct group *group, const struct group *upper) {
    uint64_t seen = UINT64_C(1) << upper->number, open = seen;
    while (open != 0) {
        uint32_t at = (uint32_t)__builtin_ctzll(open);
        open &= open - 1;
        uint64_t more = atomic_load(&play.below[at]) & ~seen;
        seen |= more;
        open |= more;
    }
    return (seen >> group->number & 1) != 0;
}

static bool is_below(const struct group *group, const struct group *upper) {
    if (group == upper) return true;
    if (group == NULL || upper == NULL) return false;
    if (!are_known()) return true;
    for (;;) { /* again, if a group has ended meanwhile */
        uint32_t done = atomic_load(&play.ends_done);
        if (is_reached(group, upper)) return true;
        if (atomic_load(&play.ends_begun) == done) return false;
        world_step();
    }
}

static void puts_below(const struct group *group, const struct group *upper) {
    if (upper == NULL || group->number == UNTRACKED || upper->number == UNTRACKED) return;
    atomic_fetch_or_explicit(&play.below[upper->number], UINT64_C(1) << group->number, memory_order_relaxed);
}

static void change_waits(uint8_t from, uint8_t to, uint32_t change) {
    if (change != 1) atomic_fetch_add(&play.waits_ended, 1); /* first: who sees that it has ended sees this */
    if (from != UNTRACKED && to != UNTRACKED) atomic_fetch_add(&play.waits[from][to], change);
}

/* Of all tasks that the calling thread is in. */
static void stack_waits(const struct frame *frame, const struct group *group, uint32_t change) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->group != NULL) change_waits(frame->group->number, group->number, change);
}

bool stands_on(const struct frame *frame, const struct group *group) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->group == group) return true;
    return false;
}

/* `after` cannot end before `group`. */
static bool ends_after(const struct group *after, const struct group *group) {
    if (after == group || !are_known()) return true;
    return waits_for(after->number, group->number);
}

/* A wait for the group would wait for its caller. */
static bool is_deadlock(const struct frame *frame, const struct group *group) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->group != NULL && ends_after(group, frame->group)) return true;
    return false;
}

static bool is_in_task(const struct frame *frame) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->self != NULL) return true;
    return false;
}

bool is_local_of(const struct frame *frame, const struct group *group) {
    return frame->local[0] == group || frame->local[1] == group;
}

/* ---- cancelling --------------------------------------------------------------------------------------------------- */

bool may_be_cancelled(const struct group *group) {
    if (get(&play.aborting) != 0) return true;
    if (group == NULL) return false;
    return get(&group->cancels) != 0 || ((group->flags & WEFT_GROUP_DROP_LATE) != 0 && get(&group->deadlines) != 0);
}

/* A task of it need not run. */
static bool may_be_dropped(const struct group *group) {
    return may_be_cancelled(group) || ((group->flags & WEFT_GROUP_CANCEL_ON_ERROR) != 0 && get(&group->failures) != 0);
}

/* weft_submit: "flags that are not known, both of WEFT_GROUP_URGENT and WEFT_GROUP_BACKGROUND, and either in an ordered
 * pool". */
static bool flags_are_refused(const struct group *group) {
    uint32_t priority = group->flags & (WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND);
    return priority == (WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND) ||
           (priority != 0 && (play.drawn->flags & WEFT_POOL_ORDERED) != 0);
}

/* ---- submitting --------------------------------------------------------------------------------------------------- */

static struct group *after_of(const struct frame *frame, const struct batch *batch) {
    return batch->is_held ? group_named((struct frame *)(uintptr_t)frame, batch->op->after) : NULL;
}

void spec_submits(struct frame *frame, struct batch *batch) {
    struct group *group = batch->group;
    puts_below(group, frame->group);
    if (batch->is_held) puts_below(after_of(frame, batch), group);
    if (batch->op->kind == OP_AWAIT) spec_awaits(frame, batch, after_of(frame, batch));
    if (is_local_of(frame, group)) group->has_changed |= group->is_awaited;
    if (!group->is_shared && !is_local_of(frame, group)) add(&group->others, 1);
    if (group->is_shared || get(&group->others) != 0) return;
    if (group->batch_count == OWN_BATCHES) group->is_unsure = true;
    if (!group->is_unsure) group->batch[group->batch_count++] = (uint16_t)(batch - play.batch);
}

/* Before each call. */
void spec_submit_begins(const struct frame *frame, struct batch *batch) {
    if (!batch->is_held) return;
    batch->was_circle = ends_after(after_of(frame, batch), batch->group);
    batch->waits_ended = atomic_load(&play.waits_ended);
    change_waits(batch->number, batch->after_number, 1);
}

static bool may_be_full(const struct batch *batch) {
    return play.drawn->queue_max != 0 && play.drawn->full == WEFT_FULL_ERROR && batch->op->kind != OP_RUN;
}

/* A circle that was there during the call may be gone. */
static bool is_circle(const struct batch *batch, const struct group *after) {
    return batch->was_circle || ends_after(after, batch->group) || atomic_load(&play.waits_ended) != batch->waits_ended;
}

static bool may_be_refused(const struct frame *frame, const struct batch *batch, const struct group *after, int error) {
    switch (error) {
    case WEFT_ECANCELED: return may_be_dropped(batch->group);
    case WEFT_EFULL: return may_be_full(batch);
    case WEFT_EINVAL: return flags_are_refused(batch->group);
    case WEFT_EDEADLK: return after != NULL && is_circle(batch, after);
    case 1: return batch->op->kind == OP_AWAIT && after != batch->group;
    default: (void)frame; return false;
    }
}

/* What it must not have been accepted for. */
static const char *reason_against(const struct frame *frame, const struct batch *batch, const struct group *after) {
    const struct group *group = batch->group;
    if (after == group) return "the groups are the same";
    if (flags_are_refused(group)) return "the group's flags do not go here";
    if (batch->op->kind == OP_AWAIT && await_is_needless(frame, after) != NULL) return await_is_needless(frame, after);
    bool is_sole = is_local_of(frame, group) && get(&group->others) == 0 && !group->is_unsure && !group->is_awaited;
    if (is_sole && group->is_open && group->is_cancelled) return "the group is cancelled";
    return NULL;
}

void spec_submitted(const struct frame *frame, struct batch *batch, uint32_t slot, int error) {
    struct group *group = batch->group;
    const struct group *after = after_of(frame, batch);
    bool is_local = is_local_of(frame, group);
    if (error == WEFT_OK) {
        const char *against = reason_against(frame, batch, after);
        if (against != NULL) play_fail("%s to %s was accepted: %s", op_name(batch->op->kind), group_text(group), against);
        add(&batch->accepted, 1);
        if (is_local) group->is_open = group->has_tasks = true;
        if (batch->op->kind == OP_AWAIT && is_local_of(frame, batch->after)) batch->after->is_awaited = true;
        return;
    }
    if (!may_be_refused(frame, batch, after, error))
        play_fail("%s to %s was refused: %s", op_name(batch->op->kind), group_text(group), weft_strerror(error));
    if (error == 1) spec_await_needless(frame, batch, after);
    if (is_local && !group->is_open) group->is_unsure = true; /* weft may have opened it, or not */
    uint8_t was = SLOT_GIVEN;
    if (!atomic_compare_exchange_strong_explicit(&play.slot[slot].state, &was, SLOT_REFUSED, memory_order_relaxed,
                                                 memory_order_relaxed))
        play_fail("task %u was refused (%s), but has run or been cleaned", slot, weft_strerror(error));
    if (atomic_load_explicit(&play.slot[slot].moved, memory_order_relaxed) != 0)
        play_fail("task %u was refused (%s), but its object was moved", slot, weft_strerror(error));
    if (atomic_load_explicit(&play.slot[slot].told, memory_order_relaxed) != 0)
        play_fail("task %u was refused (%s), but was told what it awaits", slot, weft_strerror(error));
    if (batch->is_held) change_waits(batch->number, batch->after_number, UINT32_MAX);
}

/* ---- what runs on top of what ------------------------------------------------------------------------------------- */

static bool pool_helps(void) { return (play.drawn->flags & (WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP)) == 0; }

/* A wait, for that group, lets what belongs to the other run. */
static bool wait_lets_run(const struct frame *waiter, const struct group *group) {
    bool is_outside = !is_in_task(waiter);
    if (is_outside && !pool_helps()) return false;
    if (waiter->doing == RUNS_GRAPH)
        return (play.drawn->flags & WEFT_POOL_ORDERED) != 0 || is_below(group, waiter->waits_for);
    if (is_outside && waiter->help == WEFT_HELP_NONE) return false;
    if (waiter->help == WEFT_HELP_ANY && (play.drawn->flags & WEFT_POOL_ORDERED) == 0) return true;
    return is_below(group, waiter->waits_for);
}

/* A task of the batch begins in what the thread was doing. */
static bool lets_run(const struct frame *frame, uint32_t batch, const struct group *group) {
    switch (frame->doing) {
    case SUBMITS:
    case RUNS: return frame->batch == batch;
    case WAITS:
    case RUNS_GRAPH: return wait_lets_run(frame, group);
    default: return false;
    }
}

/* Nodes are let through in joins and loops: who waits inside the joined call may walk the graph on top of it, and hand on
 * nodes as calls of its own, of which the regions say nothing. */
static bool lets_part_run(const struct frame *frame, const struct region *region) {
    switch (frame->doing) {
    case WAITS: return wait_lets_run(frame, region->group);
    case RUNS_GRAPH: return region_is_inside(region, frame->joins) || wait_lets_run(frame, region->group);
    case CALLS: return region->above == &frame->own;
    case LOOPS:
    case JOINS: return region->op == NULL || region_is_inside(region, frame->joins);
    default: return false;
    }
}

static const char *doing_text(const struct frame *frame) {
    static const char *const texts[] = {
        "nothing of weft's", "a submission",    "weft_run", "a wait", "a loop", "a join", "a call",
        "a graph's run",     "weft_block_begin"};
    return texts[frame->doing];
}

void spec_part_begins(const struct frame *frame) {
    if (frame->self == NULL) play_fail("a piece or call has no worker");
    if (frame->beneath == NULL || lets_part_run(frame->beneath, frame->part_of)) return;
    play_fail("%s of %s was run inside %s for %s", frame->part_of->op == NULL ? "a node" : op_name(frame->part_of->op->kind),
              group_text(frame->group), doing_text(frame->beneath), group_text(frame->beneath->waits_for));
}

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

static const char *slot_text(uint8_t state) {
    static const char *const texts[] = {"was never submitted", "was submitted", "has begun",  "has run",
                                        "has run, and failed", "was cleaned",   "was refused"};
    return state <= SLOT_REFUSED ? texts[state] : "?";
}

static void slot_change(uint32_t slot, uint8_t from, uint8_t to) {
    uint8_t was = from;
    if (slot >= get(&play.slots)) play_fail("a payload is not the one submitted: it names task %u", slot);
    if (!atomic_compare_exchange_strong_explicit(&play.slot[slot].state, &was, to, memory_order_relaxed,
                                                 memory_order_relaxed))
        play_fail("task %u %s, but %s already", slot,
                  to == SLOT_BEGUN     ? "begins"
                  : to == SLOT_CLEANED ? "is cleaned"
                                       : "ends",
                  slot_text(was));
}

void spec_task_begins(struct frame *frame, uint32_t number) {
    const struct slot *slot = &play.slot[number];
    const struct batch *batch = &play.batch[slot->batch];
    slot_change(number, SLOT_GIVEN, SLOT_BEGUN);
    if (frame->self == NULL || weft_worker_pool(frame->self) != play.pool ||
        weft_worker_index(frame->self) >= WEFT_THREADS_MAX)
        play_fail("task %u got a worker that is none of its pool", number);
    const struct frame *beneath = frame->beneath;
    if (beneath != NULL && !lets_run(beneath, slot->batch, batch->group))
        play_fail("task %u of %s was run inside %s for %s", number, group_text(batch->group), doing_text(beneath),
                  group_text(beneath->waits_for));
    if (beneath != NULL && is_local_of(beneath, batch->group) && batch->group->is_cancelled && !batch->group->is_awaited &&
        get(&batch->group->others) == 0 && beneath->doing == WAITS)
        play_fail("task %u of %s begins in the thread that has cancelled it", number, group_text(batch->group));
    frame->known = batch->known;
    if (batch->op->kind == OP_AWAIT) spec_await_begins(number);
    if (!batch->is_held) return;
    change_waits(batch->number, batch->after_number, UINT32_MAX);
    covers(&frame->known, batch->after_serial, "a task that is to start after a group began");
}

static void task_over(uint32_t number, const mask *known) {
    struct slot *slot = &play.slot[number];
    struct batch *batch = &play.batch[slot->batch];
    world_writes(&slot->written, sizeof slot->written);
    slot->written = number + 1;
    known_tell(&batch->end, known);
}

void spec_task_ends(struct frame *frame, uint32_t number, int code) {
    struct batch *batch = &play.batch[play.slot[number].batch];
    if (code != 0) {
        atomic_fetch_or_explicit(&batch->group->failures, UINT32_C(1) << code, memory_order_relaxed);
        atomic_fetch_or_explicit(&account_of(batch->serial)->failures, UINT32_C(1) << code, memory_order_relaxed);
    }
    task_over(number, &frame->known);
    slot_change(number, SLOT_BEGUN, code == 0 ? SLOT_ENDED : SLOT_FAILED);
    add(&batch->ended, 1);
}

void spec_task_cleaned(uint32_t number) {
    slot_change(number, SLOT_GIVEN, SLOT_CLEANED);
    struct batch *batch = &play.batch[play.slot[number].batch];
    if (!may_be_dropped(batch->group))
        play_fail("task %u of %s was dropped without a reason", number, group_text(batch->group));
    if (batch->is_held) change_waits(batch->number, batch->after_number, UINT32_MAX);
    task_over(number, &batch->known);
    add(&batch->ended, 1);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

void spec_wait_begins(struct frame *frame, struct group *group, struct wait *wait) {
    wait->was_justified = is_deadlock(frame, group);
    frame->doing = WAITS;
    frame->help = wait->help;
    frame->waits_for = group;
    add(&account_of(group->serial)->ends_begun, 1);
    stack_waits(frame, group, 1);
}

static uint8_t state_of(uint32_t slot) { return atomic_load_explicit(&play.slot[slot].state, memory_order_relaxed); }

/* "the error of the failed task that was submitted first", where one frame has submitted all; 0: none failed. And of these
 * the ones that were dropped had a reason: with WEFT_GROUP_CANCEL_ON_ERROR one before them failed. */
static int first_failure(const struct group *group) {
    bool may_drop = may_be_cancelled(group);
    int code = 0;
    for (uint32_t i = 0; i < group->batch_count; i++) {
        const struct batch *batch = &play.batch[group->batch[i]];
        for (uint32_t k = 0; k < batch->given; k++) {
            uint8_t state = state_of(batch->first + k);
            if (state == SLOT_FAILED && code == 0) code = batch->op->code;
            if (state == SLOT_CLEANED && !may_drop && code == 0)
                play_fail("task %u was dropped, and none before it has failed", batch->first + k);
        }
    }
    return code;
}

/* What a wait returns for a group that its caller alone has used. */
static void check_sole(const struct group *group, int error) {
    if (!group->is_open) {
        if (error != WEFT_OK) play_fail("a wait for %s, never used, returned: %s", group_text(group), weft_strerror(error));
        return;
    }
    int failed = first_failure(group);
    bool may_be_late = get(&group->deadlines) != 0, is_late = group->must_be_late && group->has_tasks;
    if (failed != 0 ? error == failed
                    : (may_be_late && error == WEFT_ELATE) ||
                          (!is_late && error == (group->is_cancelled ? WEFT_ECANCELED : WEFT_OK)))
        return;
    if (failed == 0 && may_be_late && error == WEFT_ECANCELED && (group->flags & WEFT_GROUP_DROP_LATE) != 0) return;
    play_fail("a wait for %s returned %d: %s; expected %d%s%s", group_text(group), error, weft_strerror(error), failed,
              is_late ? ", late" : "", group->is_cancelled ? ", cancelled" : "");
}

/* A wait of a task that the caller submitted may have ended the group instead. "Each gets its result", or WEFT_OK: another has
 * ended the group already. */
static void check_awaited(const struct frame *frame, const struct group *group, int error) {
    bool was_told = get(&group->ends_told) != 0;
    int told = atomic_load_explicit(&group->told, memory_order_relaxed);
    if (was_told && group->has_changed) return;
    check_sole(group, was_told ? told : error);
    if (!was_told && group->is_awaited) spec_await_ended(frame, group, error);
    if (was_told && error != told && error != WEFT_OK)
        play_fail("a wait for %s, of which a task was told %d, returned %d: %s", group_text(group), told, error,
                  weft_strerror(error));
}

/* ... and for others. */
static void check_result(const struct group *group, int error) {
    bool is_known = error == WEFT_OK || (error > 0 && error < 32 && (get(&group->failures) >> error & 1) != 0) ||
                    (error == WEFT_ECANCELED && may_be_cancelled(group)) ||
                    (error == WEFT_ELATE && get(&group->deadlines) != 0);
    if (!is_known) play_fail("a wait for %s returned %d: %s", group_text(group), error, weft_strerror(error));
}

static void check_not_ended(struct frame *frame, const struct group *group, const struct wait *wait, int error) {
    if (error == WEFT_EDEADLK && !wait->was_justified && !is_deadlock(frame, group))
        play_fail("WEFT_EDEADLK: %s does not wait for the caller", group_text(group));
    if (error == WEFT_ETIMEDOUT && (wait->until_ns == 0 || world_now_ns() < wait->until_ns))
        play_fail("WEFT_ETIMEDOUT before the deadline");
    if (error == WEFT_EAGAIN && ((play.drawn->flags & WEFT_POOL_ORDERED) == 0 || !is_in_task(frame)))
        play_fail("WEFT_EAGAIN outside a task of an ordered pool");
}

void spec_wait_returns(struct frame *frame, struct group *group, const struct wait *wait, int error) {
    add(&account_of(group->serial)->ends_over, 1);
    stack_waits(frame, group, UINT32_MAX);
    frame->doing = DOES_NOTHING;
    frame->waits_for = NULL;
    if (get(&play.aborting) != 0) return;
    if (error == WEFT_EDEADLK || error == WEFT_ETIMEDOUT || error == WEFT_EAGAIN) {
        check_not_ended(frame, group, wait, error);
        return;
    }
    if (stands_on(frame, group)) play_fail("a task waited for its own %s: %s", group_text(group), weft_strerror(error));
    check_result(group, error);
    covers(&frame->known, group->serial, "a wait returned");
    if (!is_local_of(frame, group)) return;
    if (get(&group->others) == 0 && !group->is_unsure) check_awaited(frame, group, error);
    group->is_awaited = group->has_changed = false;
    atomic_store_explicit(&group->ends_told, 0, memory_order_relaxed);
    group->is_open = group->is_cancelled = group->must_be_late = group->is_unsure = group->has_tasks = false;
    group->batch_count = 0;
    atomic_store_explicit(&group->cancels, 0, memory_order_relaxed);
    atomic_store_explicit(&group->deadlines, 0, memory_order_relaxed);
    atomic_store_explicit(&group->failures, 0, memory_order_relaxed);
    atomic_store_explicit(&group->others, 0, memory_order_relaxed);
}

/* ---- cancel, deadline, boost -------------------------------------------------------------------------------------- */

/* `cancels` was counted before the call. */
void spec_cancelled(struct frame *frame, struct group *group, int error) {
    if (error != WEFT_OK) play_fail("weft_group_cancel of %s: %s", group_text(group), weft_strerror(error));
    spec_await_cancelled(frame, group);
    if (is_local_of(frame, group)) {
        group->has_changed |= group->is_awaited;
        if (group->is_open) group->is_cancelled = true;
    } else if (!group->is_shared) {
        add(&group->others, 1);
    }
    if (frame->group == group && frame->self != NULL && frame->is_task && weft_worker_cancelled(frame->self) == 0)
        play_fail("a task has cancelled its own %s, which weft_worker_cancelled does not tell", group_text(group));
}

static bool is_ordered(void) { return (play.drawn->flags & WEFT_POOL_ORDERED) != 0; }

/* The call may begin the group, so others' tasks may come to be below the caller's group before it returns. */
void spec_deadline_begins(const struct frame *frame, const struct group *group) { puts_below(group, frame->group); }

/* `deadlines` was counted before the call, but for a far one. */
void spec_deadline_set(struct frame *frame, struct group *group, uint8_t when, int error) {
    int expected = is_ordered() || flags_are_refused(group) ? WEFT_EINVAL : WEFT_OK;
    if (error != expected) play_fail("weft_group_deadline of %s: %s", group_text(group), weft_strerror(error));
    if (error != WEFT_OK) return;
    if (!is_local_of(frame, group)) {
        if (!group->is_shared) add(&group->others, 1);
        return;
    }
    group->has_changed |= group->is_awaited;
    group->must_be_late = when == MOMENT_PAST && !group->has_tasks;
    group->is_open = true;
}

void spec_boosted(const struct frame *frame, struct group *group, int error) {
    (void)frame;
    if (error != (is_ordered() ? WEFT_EINVAL : WEFT_OK))
        play_fail("weft_group_boost of %s: %s", group_text(group), weft_strerror(error));
}

/* A weft_group that another pool, which has ended, has left with an id. */
void spec_stale(const char *call, int error) {
    if (error != WEFT_EINVAL) play_fail("%s with a group of another pool: %s", call, weft_strerror(error));
}

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

static bool knows_all(const struct frame *frame, const shared_mask *events) {
    mask happened = {{0}};
    known_join(&happened, events);
    bool all = true;
    for (uint32_t i = 0; i < KNOWN / 64; i++) all &= (happened.word[i] & ~frame->known.word[i]) == 0;
    return all;
}

/* A cancellation that may concern the run: `active` when it began, or begun since. One that has returned before, to the
 * runner's knowledge, does not. */
void spec_graph_begins(struct frame *frame, struct graph *graph, uint32_t *active) {
    bool all_known = knows_all(frame, &graph->cancels);
    uint32_t ended = get(&graph->cancels_ended), begun = get(&graph->cancels_begun);
    *active = !all_known || ended != begun ? UINT32_MAX : begun;
    puts_below(&graph->group, frame->group);
    stack_waits(frame, &graph->group, 1);
    frame->doing = RUNS_GRAPH;
    frame->waits_for = &graph->group;
    frame->joins = &graph->region;
}

static bool node_has(const _Atomic uint8_t *what) { return atomic_load_explicit(what, memory_order_relaxed) != 0; }

/* weft_graph_edge: "`after` starts when `before` has returned, and sees what it wrote." */
void spec_node_begins(struct frame *frame, struct node *node) {
    const struct program_graph *drawn = node->graph->drawn;
    spec_part_begins(frame);
    if (atomic_exchange_explicit(&node->begun, 1, memory_order_relaxed) != 0) play_fail("node %u runs twice", node->index);
    for (uint32_t i = 0; i < drawn->edges; i++) {
        if (drawn->edge[i].after != node->index) continue;
        struct node *before = &node->graph->node[drawn->edge[i].before];
        if (!node_has(&before->ended)) play_fail("node %u begins before the end of node %u", node->index, before->index);
        if (node_has(&before->failed)) play_fail("node %u runs, though node %u has failed", node->index, before->index);
        const uint32_t *written = &node->graph->written[before->index];
        world_reads(written, sizeof *written);
        if (*written != 1) play_fail("node %u does not see what node %u wrote", node->index, before->index);
        known_join(&frame->known, &before->end);
    }
}

/* "When a node fails the nodes after it, directly or not, do not run; all others do." */
static uint64_t nodes_that_run(const struct program_graph *drawn) {
    uint64_t runs = 0;
    for (uint32_t node = 0; node < drawn->nodes; node++) {
        bool is_skipped = false; /* edges lead from lower to higher nodes */
        for (uint32_t i = 0; i < drawn->edges; i++) {
            uint32_t before = drawn->edge[i].before;
            is_skipped |= drawn->edge[i].after == node && ((runs >> before & 1) == 0 || drawn->code[before] != 0);
        }
        if (!is_skipped) runs |= UINT64_C(1) << node;
    }
    return runs;
}

void spec_graph_returns(struct frame *frame, struct graph *graph, uint32_t active, int error) {
    const struct program_graph *drawn = graph->drawn;
    uint64_t expected = nodes_that_run(drawn), ran = 0;
    int failed = 0;
    stack_waits(frame, &graph->group, UINT32_MAX);
    frame->doing = DOES_NOTHING;
    frame->waits_for = NULL;
    for (uint32_t i = drawn->nodes; i-- > 0;) {
        struct node *node = &graph->node[i];
        if (!node_has(&node->begun)) continue;
        ran |= UINT64_C(1) << i;
        if (!node_has(&node->ended)) play_fail("a graph's run has returned, and node %u runs", i);
        world_reads(&graph->written[i], sizeof graph->written[i]);
        if (graph->written[i] != 1) play_fail("a graph's run has returned, and what node %u wrote is not there", i);
        if (node_has(&node->failed)) failed = drawn->code[i];
        known_join(&frame->known, &node->end);
    }
    covers(&frame->known, graph->group.serial, "a graph's run returned");
    bool may_cancel = active == UINT32_MAX || active != get(&graph->cancels_begun) || get(&play.aborting) != 0;
    bool must_cancel = get(&graph->cancelled_inside) != 0;
    /* "and, with nothing run, the errors of weft_submit" */
    bool is_bounded = play.drawn->queue_max != 0 && play.drawn->full == WEFT_FULL_ERROR;
    if (error == WEFT_EFULL && ran == 0 && is_bounded && !pool_helps()) return;
    /* Another thread's run before this one need not have ended for this thread. */
    if (error == WEFT_EBUSY && ran == 0 && !knows_all(frame, &graph->ends)) return;
    if ((ran & ~expected) != 0) play_fail("nodes %#llx of a graph ran that must not", (unsigned long long)(ran & ~expected));
    if (error == WEFT_ECANCELED ? !may_cancel || failed != 0
                                : error != failed || must_cancel > (error != 0) || (ran != expected && !may_cancel))
        play_fail("a graph's run returned %d (%s); nodes %#llx of %#llx ran, the first failed with %d, cancelled: %s", error,
                  weft_strerror(error), (unsigned long long)ran, (unsigned long long)expected, failed,
                  must_cancel  ? "yes"
                  : may_cancel ? "perhaps"
                               : "no");
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* "Runs what is queued, and what those tasks submit", or gives it to clean. */
void spec_all_ended(const char *when) {
    uint32_t count = get(&play.slots);
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t state = state_of(i);
        const struct batch *batch = &play.batch[play.slot[i].batch];
        if (state == SLOT_GIVEN && batch->anonymous != UNTRACKED && batch->op->size == 0)
            dropped++;
        else if (state == SLOT_GIVEN || state == SLOT_BEGUN)
            play_fail("%s, and task %u (%s) %s", when, i, op_name(batch->op->kind),
                      state == SLOT_GIVEN ? "was neither run nor cleaned" : "has not ended");
    }
    if (dropped != get(&play.null_cleaned))
        play_fail("%u tasks without payload did not run, %u were given to clean", dropped, get(&play.null_cleaned));
}
