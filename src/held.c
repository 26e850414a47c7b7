/* held.c: what a group holds until it has finished.
 *
 * A held task is counted in its own group from the start, so that group does not finish before it. The group whose end it
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
 * a held task, or is about to sleep in a wait inside a task, looks under the same lock whether that closes a circle, and
 * is refused: so of several the last. A wait with a deadline ends by itself and does not count. A run of a graph cannot
 * be refused: its wait goes to sleep all the same and wakes the others, which look once more. It counts itself in `circles`
 * first (T29 in wait.c): who has looked for circles before, and is not seen asleep yet, sees that count, and looks again.
 * No circle is of such waits alone, to wake one another for ever: the group that a run waits for is its own and known to
 * nobody else, so a task of it began after that wait did, and in it, or on top of it, the next one; along the waits of a
 * circle each would have begun after the one before.
 */
#include "held.h"

/* A search, under the lock. A circle would have it go round: each record is looked at once for each walk. */
struct search {
    struct groups *groups;
    struct record *open; /* to be looked at, linked by walk_next */
    uint64_t to;
};

/* The group can finish only after the one that is looked at. true: it is the one looked for. */
static bool search_meets(struct search *search, uint64_t id, struct record *record) {
    if (id == search->to) return true;
    if (id == 0 || record->walk == search->groups->walks) return false;
    record->walk = search->groups->walks;
    record->walk_next = search->open;
    search->open = record;
    return false;
}

/* What waits for the record's group: tasks it holds, and sleeping waits with the frames around them. */
static bool search_from(struct search *search, const struct record *record) {
    uint64_t id = load_rlx(&record->id) & ~ID_MARKS;
    for (const struct held *held = load_rlx(&record->held); held != NULL; held = held->next)
        if (search_meets(search, held->id, held->record)) return true;
    for (const struct held_wait *wait = search->groups->waits; wait != NULL; wait = wait->next)
        for (const struct frame *frame = wait->id == id ? wait->frame : NULL; frame != NULL; frame = frame->above)
            if (search_meets(search, frame->id, frame->record)) return true;
    return false;
}

/* Can the group `to` finish only after the group `id`? */
static bool leads(struct groups *groups, uint64_t id, uint64_t to) {
    struct record *first = record_at(groups, id_index(id));
    if (first == NULL || (load_rlx(&first->id) & ~ID_MARKS) != id) return false;
    struct search search = {groups, first, to};
    first->walk = ++groups->walks;
    first->walk_next = NULL;
    while (search.open != NULL) {
        const struct record *record = search.open;
        search.open = record->walk_next;
        if (search_from(&search, record)) return true;
    }
    return false;
}

bool held_wait_begin(struct groups *groups, struct held_wait *wait) {
    bool is_circle = false;
    os_lock(&groups->lock);
    for (const struct frame *frame = wait->frame; frame != NULL && !is_circle; frame = frame->above)
        is_circle = frame->id != 0 && leads(groups, frame->id, wait->id);
    if (!is_circle || wait->insists) {
        wait->next = groups->waits;
        groups->waits = wait;
    }
    if (is_circle && wait->insists) store_rlx(&groups->circles, load_rlx(&groups->circles) + 1);
    wait->circles = load_rlx(&groups->circles);
    os_unlock(&groups->lock);
    return !is_circle;
}

void held_wait_end(struct groups *groups, const struct held_wait *wait) {
    os_lock(&groups->lock);
    struct held_wait **link = &groups->waits;
    while (*link != wait) link = &(*link)->next;
    *link = wait->next;
    os_unlock(&groups->lock);
}

bool held_leads(struct groups *groups, uint64_t id, uint64_t to) {
    os_lock(&groups->lock);
    bool result = leads(groups, id, to);
    os_unlock(&groups->lock);
    return result;
}

bool held_add(struct groups *groups, struct record *record, uint64_t id, struct held *held) {
    os_lock(&groups->lock);
    bool is_circle = held->id == id || leads(groups, held->id, id);
    if (!is_circle) {
        held->next = load_rlx(&record->held);
        uint64_t leads_to = load_rlx(&record->leads_to);
        store_rlx(&record->leads_to, held->next == NULL || leads_to == held->id ? held->id : LEADS_TO_MANY);
        store_rlx(&record->held, held);
    }
    os_unlock(&groups->lock);
    return !is_circle;
}

struct held *held_take(struct groups *groups, struct record *record) {
    struct held *oldest = NULL;
    os_lock(&groups->lock);
    if (record_is_finished(record)) {
        struct held *held = load_rlx(&record->held);
        while (held != NULL) {
            struct held *next = held->next;
            held->next = oldest;
            oldest = held;
            held = next;
        }
        store_rlx(&record->leads_to, 0);
        store_rlx(&record->held, NULL);
    }
    os_unlock(&groups->lock);
    return oldest;
}
