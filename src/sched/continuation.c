/* continuation.c: what a group holds until it has finished.
 *
 * A continuation is counted in its own group from the start, so that group does not finish before it. The group whose end it
 * awaits keeps it in a list under one lock: holding is rare, and so no thread reads the list while it changes.
 *
 *   Holder                                       Whoever changes the counts (worker_settle)
 *     1. waits on the record (record_enter)        1. completed + 1
 *     2. adds to the list, under the lock          2. fence (G4)
 *     3. fence (V1 in after.c)                     3. somebody waits, and the sums are equal?
 *     4. are the sums equal?                       4. a list there? takes it, under the lock
 *
 * One of the two sees the other. The sums are taken again under the lock: then they hold every submission that came before
 * any of the list's tasks was added. Who takes the list has ended its waits only after, so until then the record serves no
 * other group.
 *
 * Circles. A group finishes only after those that hold tasks of it, and after those that a task of it waits for. Who adds
 * a continuation, or is about to sleep in a wait inside a task, looks under the same lock whether that closes a circle, and
 * is refused: so of several the last. A wait with a deadline ends by itself and does not count. A run of a graph cannot
 * be refused: its wait goes to sleep all the same and wakes the others, which look once more. It counts itself in `circles`
 * first (T29 in wait.c): who has looked for circles before, and is not seen asleep yet, sees that count, and looks again.
 * No circle is of such waits alone, to wake one another for ever: the group that a run waits for is its own and known to
 * nobody else, so a task of it began after that wait did, and in it, or on top of it, the next one; along the waits of a
 * circle each would have begun after the one before.
 */
#include "sched/continuation.h"

/* A search from group to group, under the lock. A circle would have it go round: each record is looked at once for each
 * walk. */
struct search {
    struct groups *groups;
    struct record *open; /* to be looked at, linked by walk_next */
    uint64_t to;
};

static struct search search_begin(struct groups *groups, uint64_t to) {
    groups->walks++;
    return (struct search){groups, NULL, to};
}

/* The search comes to the group. true: it is the one looked for. */
static bool search_meets(struct search *search, uint64_t id, struct record *record) {
    if (id == search->to) return true;
    if (id == 0 || record->walk == search->groups->walks) return false;
    record->walk = search->groups->walks;
    record->walk_id = id;
    record->walk_next = search->open;
    search->open = record;
    return false;
}
/* The same for a group that may have ended. */
static bool search_meets_id(struct search *search, uint64_t id) {
    struct record *record = record_at(search->groups, id_index(id));
    return record != NULL && (load_rlx(&record->id) & ~ID_MARKS) == id && search_meets(search, id, record);
}
static bool search_meets_frames(struct search *search, const struct frame *frame) {
    for (; frame != NULL; frame = frame->above)
        if (search_meets(search, frame->id, frame->record)) return true;
    return false;
}
static bool search_meets_continuation(struct search *search, const struct record *record) {
    for (const struct continuation *continuation = load_rlx(&record->continuation); continuation != NULL;
         continuation = continuation->next)
        if (search_meets(search, continuation->id, continuation->record)) return true;
    return false;
}

static const struct record *search_next(struct search *search) {
    const struct record *record = search->open;
    if (record != NULL) search->open = record->walk_next;
    return record;
}

/* Goes on to the groups that can finish only after those met so far: for the tasks that these hold, and for the frames
 * around the sleeping waits for these. */
static bool search_leads(struct search *search) {
    for (const struct record *record; (record = search_next(search)) != NULL;) {
        if (search_meets_continuation(search, record)) return true;
        for (const struct continuation_wait *wait = record->sleepers; wait != NULL; wait = wait->next)
            if (search_meets_frames(search, wait->frame)) return true;
    }
    return false;
}

static bool frames_lead(struct groups *groups, const struct frame *frame, uint64_t to) {
    struct search search = search_begin(groups, to);
    return search_meets_frames(&search, frame) || search_leads(&search);
}

bool continuation_wait_begin(struct groups *groups, struct continuation_wait *wait) {
    os_lock(&groups->lock);
    bool is_circle = frames_lead(groups, wait->frame, wait->id);
    if (!is_circle || wait->insists) {
        wait->next = wait->record->sleepers;
        wait->record->sleepers = wait;
    }
    if (is_circle && wait->insists) store_rlx(&groups->circles, load_rlx(&groups->circles) + 1);
    wait->circles = load_rlx(&groups->circles);
    os_unlock(&groups->lock);
    return !is_circle;
}

void continuation_wait_end(struct groups *groups, struct continuation_wait *wait) {
    os_lock(&groups->lock);
    struct continuation_wait **link = &wait->record->sleepers;
    while (*link != wait) link = &(*link)->next;
    *link = wait->next;
    os_unlock(&groups->lock);
}

bool continuation_leads(struct groups *groups, const struct frame *frame, uint64_t to) {
    if (load_rlx(&groups->continuation.made) == 0) return false;
    os_lock(&groups->lock);
    bool result = frames_lead(groups, frame, to);
    os_unlock(&groups->lock);
    return result;
}

/* How a group lies to another, by the groups above it alone. */
enum relation {
    RELATION_NONE,
    RELATION_BELOW,       /* or the same */
    RELATION_CONTINUATION /* it, or a group above it, holds tasks */
};

/* A group is deeper than those above it: one that is no deeper than the goal is not below it. */
static enum relation relation(const struct groups *groups, uint64_t id, uint64_t goal) {
    bool holds = load_rlx(&groups->continuation.made) != 0; /* ever */
    uint32_t depth = record_depth(record_at(groups, id_index(goal)));
    for (; id != goal; id = group_parent(groups, id)) {
        const struct record *record = id == 0 ? NULL : record_at(groups, id_index(id));
        if (record == NULL) return RELATION_NONE;
        if (holds && load_rlx(&record->continuation) != NULL) return RELATION_CONTINUATION;
        if (!holds && record_depth(record) <= depth) return RELATION_NONE;
    }
    return RELATION_BELOW;
}

bool group_serves(struct groups *groups, uint64_t id, uint64_t goal) {
    enum relation is = relation(groups, id, goal);
    if (is != RELATION_CONTINUATION) return is == RELATION_BELOW;
    os_lock(&groups->lock);
    struct search search = search_begin(groups, goal);
    bool serves = search_meets_id(&search, id);
    for (const struct record *record; !serves && (record = search_next(&search)) != NULL;)
        serves =
            search_meets_continuation(&search, record) || search_meets_id(&search, group_parent(groups, record->walk_id));
    os_unlock(&groups->lock);
    return serves;
}

bool continuation_add(struct groups *groups, struct record *record, uint64_t id, struct continuation *continuation) {
    os_lock(&groups->lock);
    struct search search = search_begin(groups, id);
    bool is_circle = search_meets(&search, continuation->id, continuation->record) || search_leads(&search);
    if (!is_circle) {
        continuation->next = load_rlx(&record->continuation);
        store_rlx(&record->continuation, continuation);
    }
    os_unlock(&groups->lock);
    return !is_circle;
}

struct continuation *continuation_take(struct groups *groups, struct record *record) {
    struct continuation *oldest = NULL;
    os_lock(&groups->lock);
    if (record_is_finished(record)) {
        struct continuation *continuation = load_rlx(&record->continuation);
        while (continuation != NULL) {
            struct continuation *next = continuation->next;
            continuation->next = oldest;
            oldest = continuation;
            continuation = next;
        }
        store_rlx(&record->continuation, NULL);
    }
    os_unlock(&groups->lock);
    return oldest;
}
