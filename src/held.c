/* held.c: what a group holds until it has finished.
 *
 * A held task is counted in its own group from the start, so that group does not finish before it. The group whose end it awaits
 * keeps it in a list under one lock: holding is rare, and so no thread reads the list while it changes.
 *
 *   Holder                                       Whoever changes the counts (worker_settle)
 *     1. waits on the record (record_enter)        1. completed + 1, or submitted - 1
 *     2. adds to the list, under the lock          2. fence (G4)
 *     3. fence (V1 in after.c)                     3. somebody waits, and the sums are equal?
 *     4. are the sums equal?                       4. a list there? takes it, under the lock
 *
 * One of the two sees the other. The sums are taken again under the lock: then they hold every submission that came before
 * any of the list's tasks was added. Who takes the list has ended its waits only after, so until then the record serves no
 * other group.
 */
#include "held.h"

/* Under the lock. A circle would have it go round: each record is looked at once for each walk. */
static bool leads(struct groups *groups, uint64_t id, uint64_t to) {
    struct record *open = record_at(groups, id_index(id));
    if (open == NULL || (load_rlx(&open->id) & ~ID_MARKS) != id) return false;
    uint64_t walk = ++groups->walks;
    open->walk = walk;
    open->walk_next = NULL;
    while (open != NULL) {
        struct record *record = open;
        open = record->walk_next;
        for (const struct held *held = load_rlx(&record->held); held != NULL; held = held->next) {
            if (held->id == to) return true;
            if (held->record->walk == walk) continue;
            held->record->walk = walk;
            held->record->walk_next = open;
            open = held->record;
        }
    }
    return false;
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
