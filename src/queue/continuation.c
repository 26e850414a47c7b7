/* continuation.c: what a group holds until it has finished.
 *
 * A continuation is counted in its own group from the start, so that group does not finish before it. The group whose end it
 * awaits keeps it in a list under one lock: holding is rare, and with a lock no thread reads the list while it changes.
 *
 *   Holder                                       A thread that changes the counts (worker_settle)
 *     1. waits on the record (record_enter)        1. completed + 1
 *     2. adds to the list, under the lock          2. fence (G4)
 *     3. fence (V1 in after.c)                     3. somebody waits, and the sums are equal?
 *     4. are the sums equal?                       4. a list there? takes it, under the lock
 *
 * One of the two sees the other. The sums are taken again under the lock: they then hold every submission that came before
 * any of the list's tasks was added. The thread that takes the list ends its waits only afterwards, so until then the record
 * serves no other group.
 *
 * Awaiting. A continuation may also be a wait for the group that holds it. The taker then closes the record as a waiter does
 * (group.c), under the lock, before it takes the list. If it cannot, because a task has come, the list stays as it was, and
 * who changes the counts next looks at it. If it cannot because another waiter has closed the record, it looks again until
 * that one has ended the group, or opened the record again. So whoever tells the result reads it after the last close. Then
 * it has the result told, and ends the group. A thread that waits there cannot return meanwhile: it sees that the record is
 * closing, and stays until the group has ended. So the user's weft_group and what lies around it are still there. If
 * another waiter has ended the group, they may be gone; the result is read from the record, which the taker still holds. One
 * whose own group is cancelled is not told, and ends nothing: the result is left to other waits.
 *
 * Groups form a graph, with an edge from each group to the groups whose tasks it holds, and to those whose tasks sleep in
 * waits for it. Each search in the graph, for a circle or for what a group serves, goes from both ends (struct search). What
 * was found about serving is noted in the records, so that a wait at the end of a long chain of groups does not go through
 * the chain for each of its tasks.
 *
 * Circles. A group finishes only after the groups that hold tasks of it, and after those that a task of it waits for. A
 * thread that adds a continuation, or is about to sleep in a wait inside a task, looks under the same lock whether that
 * closes a circle, and is refused if it does: so of several such threads, the last is. A wait with a deadline ends by
 * itself and does not count. A graph's run cannot be refused: its wait sleeps all the same and wakes the others, which look
 * once more. It first counts itself in `circles` (T29 in wait.c): a thread that has looked for circles before, and is not
 * yet seen asleep, sees that count and looks again. No circle consists of such waits alone, which would wake one another
 * forever. The group that a run waits for is its own and known to nobody else, so a task of it began after that wait did; in
 * that task, or on top of it, the next wait began. Along the circle, each wait would have begun after the one before.
 */
#include "queue/continuation.h"

#include <string.h>

/* ---- searching ---------------------------------------------------------------------------------------------------- */

/* A search from group to group, under the lock: does one group lead to another, which can finish only after it? It goes from
 * both sides in turn, one step each, and ends when they meet or when one side has nowhere to go. So a new group on either
 * side is added in a few steps, however many groups are on the other. Each record is met once. */
struct side {
    struct record *open; /* records to go on from, linked by walk_next */
    struct record *at;   /* the record whose continuations and sleeping waits come next */
    const struct continuation *continuation;
    const struct continuation_wait *wait;
    uint64_t mark; /* `walk` of the records that this side has met */
};
struct search {
    struct side ahead, back;
    bool meets;
    uint64_t steps;
    struct record *meeting, *before; /* where the sides met; the later one came from `before` */
};

static struct search search_begin(struct groups *groups) {
    groups->walks += 2;
    return (struct search){.ahead = {.mark = groups->walks}, .back = {.mark = groups->walks + 1}};
}

/* One side comes to `record` from `from` (NULL: it begins at `record`, or goes up from a group to the one above). */
static void search_comes(struct search *search, struct side *side, struct record *record, struct record *from) {
    uint64_t other = side == &search->ahead ? search->back.mark : search->ahead.mark;
    search->steps++;
    if (record == NULL || record->walk == side->mark || search->meets) return;
    if (record->walk == other) {
        search->meets = true;
        search->meeting = record;
        search->before = from;
        return;
    }
    record->walk = side->mark;
    record->walk_from = from;
    record->walk_next = side->open;
    side->open = record;
}
/* Appends `frame` and those above it that do not have the mark yet. */
static struct frame **frames_append(struct frame **end, struct frame *frame, uint64_t mark) {
    for (; frame != NULL && frame->walk != mark; frame = frame->above, end = &(*end)->walk_next) {
        frame->walk = mark;
        frame->walk_next = NULL;
        *end = frame;
    }
    return end;
}
/* `frame` and all frames that cannot end before it, each once: on its own thread, and on the threads with whose loops and
 * forked calls these frames help. Leaves out a caller's own frame: its group is the helper's, and its thread may be changing
 * it. */
static struct frame *frames_around(struct frame *frame, uint64_t mark) {
    struct frame *first = NULL;
    struct frame **end = frames_append(&first, frame, mark);
    for (const struct frame *at = first; at != NULL; at = at->walk_next)
        for (const struct frame *caller = at->caller; caller != NULL; caller = caller->caller)
            end = frames_append(end, caller->above, mark);
    return first;
}
static void search_comes_to_frames(struct search *search, struct frame *frame) {
    for (const struct frame *at = frames_around(frame, search->ahead.mark); at != NULL; at = at->walk_next)
        search_comes(search, &search->ahead, at->record, NULL);
}

/* Sets `at` to the next record to go on from. false: there is none. */
static bool side_goes_on(struct side *side) {
    side->at = side->open;
    if (side->at != NULL) side->open = side->at->walk_next;
    return side->at != NULL;
}

/* One step to a group that can finish only after one met so far: the group of a task that this one holds, or of a frame
 * around a sleeping wait for it. false: there is none. */
static bool search_ahead(struct search *search) {
    struct side *side = &search->ahead;
    if (side->continuation != NULL) {
        search_comes(search, side, side->continuation->record, side->at);
        side->continuation = side->continuation->next;
    } else if (side->wait != NULL) {
        search_comes_to_frames(search, side->wait->frame);
        side->wait = side->wait->next;
    } else {
        if (!side_goes_on(side)) return false;
        side->continuation = load_rlx(&side->at->continuation);
        side->wait = side->at->sleepers;
    }
    return true;
}

/* One step back, to a group that holds a task of one met so far. false: there is none. */
static bool search_back(struct search *search) {
    struct side *side = &search->back;
    if (side->continuation == NULL) {
        if (!side_goes_on(side)) return false;
        side->continuation = load_rlx(&side->at->continuation_in);
    } else {
        search_comes(search, side, side->continuation->after, side->at);
        side->continuation = load_rlx(&side->continuation->in_next);
    }
    return true;
}

/* Searches on from what the two sides have met so far. */
static bool search_leads(struct groups *groups, struct search *search) {
    bool is_blind = false; /* there may be more groups behind, through sleeping waits in its tasks */
    while (!search->meets) {
        if (!is_blind && !search_back(search)) break;
        is_blind |= search->back.at != NULL && load_rlx(&search->back.at->slept_in) != 0;
        if (!search->meets && !search_ahead(search)) break;
    }
    groups->steps += search->steps;
    return search->meets;
}

static bool frames_lead(struct groups *groups, struct frame *frame, struct record *to) {
    struct search search = search_begin(groups);
    search_comes(&search, &search.back, to, NULL);
    search_comes_to_frames(&search, frame);
    return search_leads(groups, &search);
}

/* ---- sleeping waits ----------------------------------------------------------------------------------------------- */

static void frames_sleep(struct groups *groups, struct frame *frame, uint32_t more) {
    for (const struct frame *at = frames_around(frame, ++groups->walks); at != NULL; at = at->walk_next)
        if (at->record != NULL) store_rlx(&at->record->slept_in, load_rlx(&at->record->slept_in) + more);
}

bool continuation_wait_begin(struct groups *groups, struct continuation_wait *wait) {
    os_lock(&groups->lock);
    bool is_circle = frames_lead(groups, wait->frame, wait->record);
    if (!is_circle || wait->insists) {
        wait->next = wait->record->sleepers;
        wait->record->sleepers = wait;
        frames_sleep(groups, wait->frame, 1);
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
    frames_sleep(groups, wait->frame, UINT32_MAX);
    os_unlock(&groups->lock);
}

/* Does the group wait for nothing but its own tasks? */
static bool waits_for_none(const struct record *record) {
    return load_rlx(&record->continuation_in) == NULL && load_rlx(&record->slept_in) == 0;
}

bool continuation_leads(struct groups *groups, struct frame *frame, uint64_t to) {
    struct record *record = record_at(groups, id_index(to));
    if (frame == NULL || load_rlx(&groups->continuation.made) == 0 || record == NULL || waits_for_none(record)) return false;
    os_lock(&groups->lock);
    bool result = (load_rlx(&record->id) & ~ID_MARKS) == to && frames_lead(groups, frame, record);
    os_unlock(&groups->lock);
    return result;
}

/* ---- what a group serves ------------------------------------------------------------------------------------------ */

/* How a group relates to another, judged only by the groups above it. */
enum relation {
    RELATION_NONE,
    RELATION_BELOW,       /* or the same */
    RELATION_CONTINUATION /* the group, or one above it, holds tasks */
};

/* A group is deeper than those above it: one that is no deeper than the goal is not below it. */
static enum relation relation(const struct groups *groups, uint64_t id, uint64_t goal) {
    bool holds = load_rlx(&groups->continuation.made) != 0; /* ever */
    uint32_t depth = record_depth(record_at(groups, id_index(goal)));
    for (; id != goal; id = group_parent(groups, id)) {
        const struct record *record = id == 0 ? NULL : record_serving(groups, id);
        if (record == NULL) return RELATION_NONE;
        if (holds && load_rlx(&record->serves) == goal) return RELATION_BELOW;
        if (holds && load_rlx(&record->continuation) != NULL) return RELATION_CONTINUATION;
        if (!holds && record_depth(record) <= depth) return RELATION_NONE;
    }
    return RELATION_BELOW;
}

/* The groups on the way that the search found serve the goal as long as they hold tasks. This is not sure before a step up
 * to a group above: the lower group may end first. */
static void search_notes(const struct search *search, uint64_t goal) {
    struct record *ways[] = {search->meeting, search->before};
    for (uint32_t i = 0; i < 2; i++)
        for (struct record *record = ways[i]; record != NULL; record = record->walk_from) store_rlx(&record->serves, goal);
}

/* The search ahead comes to the record of the group `id`, by a step up. 0: none. */
static void search_comes_up(struct groups *groups, struct search *search, uint64_t id) {
    search_comes(search, &search->ahead, id == 0 ? NULL : record_serving(groups, id), NULL);
}

/* One step to a group of which one met so far holds a task, or to the group above one. false: there is none. */
static bool search_up(struct groups *groups, struct search *search) {
    struct side *side = &search->ahead;
    if (side->continuation != NULL) {
        search_comes(search, side, side->continuation->record, side->at);
        side->continuation = side->continuation->next;
        return true;
    }
    if (!side_goes_on(side)) return false;
    side->continuation = load_rlx(&side->at->continuation);
    search_comes_up(groups, search, group_parent(groups, load_rlx(&side->at->id) & ~ID_MARKS));
    return true;
}

static bool serves_by_holding(struct groups *groups, uint64_t id, struct record *to, uint64_t goal) {
    struct search search = search_begin(groups);
    bool is_blind = false; /* groups below may also hold tasks */
    search_comes(&search, &search.back, to, NULL);
    search_comes_up(groups, &search, id);
    while (!search.meets) {
        if (!is_blind && !search_back(&search)) break;
        is_blind |= search.back.at != NULL && load_rlx(&search.back.at->above) != 0;
        if (!search.meets && !search_up(groups, &search)) break;
    }
    groups->steps += search.steps;
    if (search.meets) search_notes(&search, goal);
    return search.meets;
}

bool group_serves(struct groups *groups, uint64_t id, uint64_t goal) {
    struct record *to = record_at(groups, id_index(goal));
    if (to == NULL || group_is_alone(to)) return id == goal;
    enum relation is = relation(groups, id, goal);
    if (is != RELATION_CONTINUATION) return is == RELATION_BELOW;
    os_lock(&groups->lock);
    struct record *record = record_serving(groups, id);
    const uint64_t question[] = {id, goal, groups->holds};
    bool is_known = record == NULL || memcmp(record->serves_not, question, sizeof question) == 0;
    bool serves = !is_known && serves_by_holding(groups, id, to, goal);
    if (!serves && record != NULL) memcpy(record->serves_not, question, sizeof question);
    os_unlock(&groups->lock);
    return serves;
}

/* ---- holding ------------------------------------------------------------------------------------------------------ */

static void continuation_link_in(struct continuation *continuation) {
    struct continuation *next = load_rlx(&continuation->record->continuation_in);
    store_rlx(&continuation->in_next, next);
    continuation->in_link = &continuation->record->continuation_in;
    if (next != NULL) next->in_link = &continuation->in_next;
    store_rlx(&continuation->record->continuation_in, continuation);
}
static void continuation_unlink_in(struct continuation *continuation) {
    struct continuation *next = load_rlx(&continuation->in_next);
    store_rlx(continuation->in_link, next);
    if (next != NULL) next->in_link = continuation->in_link;
}

bool continuation_add(struct groups *groups, struct record *record, struct continuation *continuation) {
    os_lock(&groups->lock);
    struct search search = search_begin(groups);
    search_comes(&search, &search.back, record, NULL);
    search_comes(&search, &search.ahead, continuation->record, NULL);
    bool is_circle = search_leads(groups, &search);
    if (!is_circle) {
        groups->holds++;
        continuation->after = record;
        continuation->next = load_rlx(&record->continuation);
        store_rlx(&record->continuation, continuation);
        continuation_link_in(continuation);
    }
    os_unlock(&groups->lock);
    return !is_circle;
}

/* ---- taking ------------------------------------------------------------------------------------------------------- */

/* Whether some await the group and may still run. The others are not told. */
static bool has_to_tell(struct continuation *newest) {
    bool has_one = false;
    for (struct continuation *it = newest; it != NULL; it = it->next) {
        if (!it->kind->awaits) continue;
        bool runs = record_lets_run(it->record, meta_sequence(it->cells->meta));
        if (!runs) continuation_await(it)->tell = NULL;
        has_one |= runs;
    }
    return has_one;
}

/* The whole list, oldest first. */
static struct continuation *take_all(struct record *record) {
    struct continuation *oldest = NULL, *continuation = load_rlx(&record->continuation);
    while (continuation != NULL) {
        struct continuation *next = continuation->next;
        continuation_unlink_in(continuation);
        continuation->next = oldest;
        oldest = continuation;
        continuation = next;
    }
    store_rlx(&record->continuation, NULL);
    store_rlx(&record->serves, 0);
    return oldest;
}

/* Under the lock. false: another waiter is about to end the group, or tasks have come; then nothing has changed. */
static bool take(struct record *record, uint32_t seat, struct taken *taken) {
    bool awaits = has_to_tell(load_rlx(&record->continuation));
    taken->ends = awaits && record_close(record, load_rlx(&record->id) & ~ID_MARKS, seat);
    if (awaits && !taken->ends && !record_has_ended(record)) return false;
    taken->oldest = take_all(record);
    return true;
}

struct taken continuation_take(struct groups *groups, struct record *record, uint32_t seat) {
    struct taken taken = {NULL, false};
    bool is_done;
    do {
        os_lock(&groups->lock);
        is_done = !record_is_finished(record) || take(record, seat, &taken);
        os_unlock(&groups->lock);
        if (!is_done) os_yield();
    } while (!is_done);
    return taken;
}

void continuation_tell(struct record *record, const struct taken *taken) {
    weft_group *group = NULL;
    int result = record_result(record);
    for (struct continuation *it = taken->oldest; it != NULL; it = it->next) {
        const struct continuation_await *await = continuation_await(it);
        if (!it->kind->awaits || await->tell == NULL) continue;
        await->tell(it->cells->payload, result, taken->ends);
        group = await->group;
    }
    if (taken->ends) record_end(record, group);
}
