/* priority.c: urgent groups, background groups.
 *
 * Tasks have the priority of their group, which its record tells. A lane holds tasks of one group at a time, so a taker
 * chooses among lanes, by a filter of lane_claim, and its CAS proves that the group was the lane's. While groups of that
 * priority are open (groups->urgent, groups->background count them), a worker looks for urgent tasks before it looks where
 * it took from last, and for background ones after all else.
 *
 * At most background_max background tasks run, waits that help with their own groups' not counted: a worker takes a slot
 * first, then claims one. So an idle worker may sleep though a task is there, for which it had no slot:
 *
 *   Who gives a slot                         Who publishes a background task   Who is about to sleep
 *     1. runs - 1                              1. publishes (L6)                 1. says so (park.c)
 *     2. ends biases, fence (N1)               2. fence, or biased (task.c)      2. ends biases, fence
 *     3. looks for such tasks (N2)             3. no slot? then wakes nobody     3. looks: task and slot?
 *        wakes who sleeps
 *
 * Of 1 and 3 of any two, one sees the other's: a slot given after the publisher and the sleeper looked is given by one that
 * finds the task and the sleeper.
 *
 * A wait that helps with its own group needs no slot, and the task that it is in may have the last one. So who publishes
 * while there is no slot wakes the waits of that group; who relied on a worker that then finds no slot is served by that
 * worker's last look (priority_wake_helpers).
 *
 * Deadlines: while groups have some (groups->due), an urgent task is looked for in all lanes, and the one whose group is
 * due first is claimed, by a filter that accepts no other group; should another thread have it by then, the search begins
 * anew. A worker reads the clock before it begins such a task and before it counts it (EXTRA_DUE), and notes in the
 * record which deadline it missed: should that be replaced, the wait asks about the last one. WEFT_GROUP_DROP_LATE cancels
 * the group there, and then it is late for good.
 *
 * A group becomes urgent once more, or from another priority, when its record's `urgent` is its id (G23): ids of a record
 * only rise, so one that comes too late changes nothing.
 *
 * While a background task runs, its thread's loops and forked calls are its own: nobody helps, else they would fill the
 * workers that are kept free of it.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   N1  priority_give: fence             sc       K3   a worker sleeps, having seen no slot, and the task waits for nobody
 *   N2  priority_give: looks             -        T4   a task published while there was no slot waits for nobody
 *   N4  priority_take: CAS runs          relaxed  -    split: more tasks run than may
 */
#include "sched/priority.h"

#include "sched/seat.h"

/* ---- priorities --------------------------------------------------------------------------------------------------- */

/* Harmless for any record, also one whose group has ended. */
static bool is_urgent(const struct record *record) {
    return record != NULL && load_rlx(&record->urgent) != 0 &&
           load_rlx(&record->urgent) == (load_rlx(&record->id) & ~ID_MARKS);
}
static bool is_background(const struct record *record) {
    return record != NULL && (load_rlx(&record->flags) & WEFT_GROUP_BACKGROUND) != 0 && !is_urgent(record);
}

bool priority_is_urgent(const void *context, uint32_t record) {
    const weft_pool *pool = context;
    return is_urgent(record_at(&pool->groups, record));
}
bool priority_is_background(const void *context, uint32_t record) {
    const weft_pool *pool = context;
    return is_background(record_at(&pool->groups, record));
}
bool priority_is_prompt(const void *context, uint32_t record) {
    return !priority_has_background(context) || !priority_is_background(context, record);
}

bool priority_is_record(const void *context, uint32_t record) { return record == *(const uint32_t *)context; }

uint64_t priority_deadline_ns(const weft_pool *pool, const struct lane *lane, uint32_t *record) {
    if (lane_is_empty(lane)) return UINT64_MAX;
    *record = load_rlx(&lane->group);
    const struct record *of = record_at(&pool->groups, *record);
    uint64_t deadline_ns = is_urgent(of) ? load_rlx(&of->deadline_ns) : 0;
    return deadline_ns == 0 ? UINT64_MAX : deadline_ns;
}

void priority_before_task(struct weft_worker *seat) {
    struct record *record = seat->frame->record;
    if (!record_is_late(record)) return;
    count_up(&seat->tasks_late, 1);
    if ((load_rlx(&record->flags) & WEFT_GROUP_DROP_LATE) != 0 && record_cancel(record, seat->frame->id))
        record_miss(record, LATE_DROPPED);
}

bool priority_allows(const weft_pool *pool, uint32_t flags) {
    uint32_t priority = flags & (WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND);
    return priority == 0 || (!pool->ordered && (priority & (priority - 1)) == 0);
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

static bool has_slot(const weft_pool *pool) { return load_rlx(&pool->background_runs) < load_rlx(&pool->background_max); }

bool priority_holds_slow(const weft_pool *pool, const struct lane *lane) {
    return !has_slot(pool) && priority_is_background(pool, load_rlx(&lane->group));
}

void priority_wake_helpers_slow(weft_pool *pool) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        for (const struct lane *lane = worker_lanes(all.seat); lane != NULL; lane = load_rlx(&lane->next)) {
            if (lane_is_empty(lane) || !priority_holds_slow(pool, lane)) continue;
            const struct record *record = record_at(&pool->groups, load_rlx(&lane->group));
            if (record != NULL) worker_wake_helpers(pool, load_rlx(&record->id) & ~ID_MARKS);
        }
}

/* Is a background task waiting to start? */
static bool has_waiting(const weft_pool *pool) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        for (const struct lane *lane = worker_lanes(all.seat); lane != NULL; lane = load_rlx(&lane->next))
            if (!lane_is_empty(lane) && priority_is_background(pool, load_rlx(&lane->group))) return true;
    return false;
}

bool priority_take(weft_pool *pool) {
    if (!priority_has_background(pool) || !has_waiting(pool)) return false;
    uint32_t runs = load_rlx(&pool->background_runs);
    while (runs < load_rlx(&pool->background_max))
        if (cas_rlx(N4, &pool->background_runs, &runs, runs + 1)) return true;
    return false;
}

void priority_give(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    add_rlx(&pool->background_runs, UINT32_MAX);
    worker_unbias(pool);
    fence_sc(N1);
    if (recheck(N2, has_waiting(pool), false)) worker_notify(seat, NULL, 0);
}

void priority_pause(struct weft_worker *seat) {
    add_rlx(&seat->pool->background_busy, UINT32_MAX);
    priority_give(seat);
}

void priority_resume(weft_pool *pool) {
    add_rlx(&pool->background_runs, 1);
    pool_stand_aside(pool);
}

void priority_begin(struct weft_worker *seat) {
    pool_stand_aside(seat->pool);
    store_rlx(&seat->in_background, 1);
}

void priority_end(struct weft_worker *seat) {
    store_rlx(&seat->in_background, 0);
    priority_pause(seat);
}
