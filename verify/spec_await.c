/* spec_await.c: what weft.h promises of weft_submit_await. The result that a task is told is what a wait may return; the group of
 * the result may be gone, so an account of each group is kept (struct account). Where one frame alone has used a group,
 * check_awaited in spec.c looks at the rest: who ends the group has its exact result. */
#include "spec.h"

static uint32_t get(const _Atomic uint32_t *count) { return atomic_load_explicit(count, memory_order_relaxed); }
static void add(_Atomic uint32_t *count, uint32_t n) { atomic_fetch_add_explicit(count, n, memory_order_relaxed); }

static bool is_kept(uint32_t serial) { return serial < SERIALS - 1; }
struct account *account_of(uint32_t serial) {
    return &play.account[is_kept(serial) ? serial : SERIALS - 1];
}

void spec_awaits(const struct frame *frame, struct batch *batch, struct group *after) {
    batch->after = after;
    batch->after_flags = after->flags;
    batch->ends_before = get(&account_of(after->serial)->ends_over);
    batch->by = SLOTS;
    if (is_local_of(frame, after) && !after->is_awaited) after->first_await = (uint32_t)(batch - play.batch);
    for (const struct frame *it = frame; it != NULL && batch->by == SLOTS; it = it->beneath)
        if (it->is_task && it->group == after) batch->by = it->task;
    if (!after->is_shared && !is_local_of(frame, after)) add(&after->others, 1);
}

const char *await_is_needless(const struct frame *frame, const struct group *after) {
    bool is_sole = is_local_of(frame, after) && get(&after->others) == 0 && !after->is_unsure;
    return is_sole && !after->has_tasks ? "the group that it awaits has no tasks" : NULL;
}

/* "groups.after has finished": what the caller knows of it has ended. */
void spec_await_needless(const struct frame *frame, const struct batch *batch, const struct group *after) {
    uint32_t count = get(&play.batches);
    if (stands_on(frame, after)) play_fail("the group of the calling task is said to have finished");
    for (uint32_t i = 0; i < count && i < KNOWN; i++) {
        const struct batch *known = &play.batch[i];
        if (!known_has(&frame->known, i) || known->serial != batch->after_serial || known->op == NULL) continue;
        uint32_t nameless = known->op->size == 0 ? get(&play.null_cleaned) : 0;
        if (get(&known->ended) + nameless < get(&known->accepted))
            play_fail("a group is said to have finished, but %u of %u tasks have not ended: %s, task %u and so on",
                      get(&known->accepted) - get(&known->ended), get(&known->accepted), op_name(known->op->kind),
                      known->first);
    }
}

/* As for a wait by one of many. */
static bool is_possible(const struct batch *batch, int result) {
    const struct account *account = account_of(batch->after_serial);
    bool is_dropped = get(&account->cancels) != 0 || get(&play.aborting) != 0 ||
                      ((batch->after_flags & WEFT_GROUP_DROP_LATE) != 0 && get(&account->deadlines) != 0);
    return result == WEFT_OK || (result > 0 && result < 32 && (get(&account->failures) >> result & 1) != 0) ||
           (result == WEFT_ECANCELED && is_dropped) || (result == WEFT_ELATE && get(&account->deadlines) != 0);
}

/* Either who is told or who has waited sees both. */
static void check_same(struct batch *batch, uint32_t number) {
    int told = atomic_load(&play.slot[number].result), result = atomic_load(&batch->result);
    if (told != NO_RESULT && result != NO_RESULT && told != result)
        play_fail("task %u was told %d, and the wait that has ended the group returned %d", number, told, result);
}

void spec_await_ended(const struct frame *frame, const struct group *group, int result) {
    uint32_t count = get(&play.batches);
    for (uint32_t i = group->first_await; i < count && i < KNOWN; i++) {
        struct batch *batch = &play.batch[i];
        if (!known_has(&frame->known, i) || batch->after != group || batch->after_serial != group->serial) continue;
        atomic_store(&batch->result, result);
        for (uint32_t k = 0; k < batch->given; k++) check_same(batch, batch->first + k);
    }
}

void spec_told(uint32_t number, int result, bool has_ended) {
    struct slot *slot = &play.slot[number];
    struct batch *batch = &play.batch[slot->batch];
    uint8_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (batch->op->kind != OP_AWAIT) play_fail("task %u, which awaits nothing, was told a result", number);
    if (atomic_fetch_add_explicit(&slot->told, 1, memory_order_relaxed) != 0)
        play_fail("task %u was told twice what it awaits", number);
    if (state != SLOT_GIVEN) play_fail("task %u was told what it awaits after it had begun, or will not run", number);
    if (atomic_load_explicit(&batch->must_drop, memory_order_relaxed) != 0)
        play_fail("task %u was told what it awaits, though its own group was cancelled before", number);
    if (!is_kept(batch->after_serial)) return;
    struct account *account = account_of(batch->after_serial);
    if (!is_possible(batch, result)) play_fail("task %u was told %d: %s", number, result, weft_strerror(result));
    if (!has_ended) {
        if (get(&account->ends_begun) == batch->ends_before && get(&play.aborting) == 0)
            play_fail("task %u was told that another wait has ended the group, but there was none", number);
        atomic_store(&slot->result, result);
        check_same(batch, number);
        return;
    }
    add(&account->ends_begun, 1);
    add(&account->ends_over, 1);
    atomic_store_explicit(&batch->after->told, result, memory_order_relaxed);
    add(&batch->after->ends_told, 1);
}

void spec_await_begins(uint32_t number) {
    const struct slot *slot = &play.slot[number];
    if (atomic_load_explicit(&slot->told, memory_order_relaxed) != 1)
        play_fail("task %u begins, and was not told what it awaits", number);
    if (atomic_load_explicit(&play.batch[slot->batch].must_drop, memory_order_relaxed) != 0)
        play_fail("task %u runs, though its group was cancelled before that which it awaits could finish", number);
}

static bool runs_task(const struct frame *frame, uint32_t task) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->is_task && frame->task == task) return true;
    return false;
}

/* "If groups.group is cancelled before, the task will not run, nothing is told": before for certain where a task of groups.after
 * has made both calls. */
void spec_await_cancelled(const struct frame *frame, const struct group *group) {
    uint32_t count = get(&play.batches);
    for (uint32_t i = 0; i < count && i < KNOWN; i++) {
        struct batch *batch = &play.batch[i];
        if (!known_has(&frame->known, i) || batch->serial != group->serial || batch->op == NULL) continue;
        if (batch->op->kind == OP_AWAIT && batch->by != SLOTS && runs_task(frame, batch->by))
            atomic_store_explicit(&batch->must_drop, 1, memory_order_relaxed);
    }
}
