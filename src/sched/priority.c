/* priority.c: urgent groups, background groups.
 *
 * A task has the priority of its group, which the group's record holds. A lane holds tasks of one group at a time. So a worker
 * chooses among lanes with a filter of lane_claim, and its CAS proves that the group was the lane's. While groups of a priority
 * are open (groups->urgent, groups->background count them), a worker looks for urgent tasks before it looks at the lane that it
 * claimed from last, and for background tasks after all else.
 *
 * A worker takes a slot before it claims a background task. So at most background_max of them run, not counting those run by
 * waits that help with their own groups. A task whose thread sleeps in a wait, or is in a blocking section, has given its slot
 * back: what it waits for may need another background task. Afterwards it takes a slot whether there is one or not, so for a while
 * more may run than background_max. A worker may sleep though there is a task, because it found no slot for it:
 *
 *   Giver of a slot                          Publisher of a background task    Worker about to sleep
 *     1. runs - 1                              1. publishes (L6)                 1. announces it (park.c)
 *     2. ends biases, fence (N1)               2. fence, or biased (task.c)      2. ends biases, fence
 *     3. looks for such tasks (N2)             3. no slot? then wakes no worker  3. looks: task and slot?
 *        wakes a sleeper
 *
 * Of any two of these, one sees in its step 3 what the other did in its step 1. So if a slot is given after publisher and sleeper
 * looked for one, the giver finds the task and the sleeper. A giver that is about to sleep in a wait counts as held up by then (seat.c),
 * so nobody relies on its CPU being busy. A sleeper that it relies on instead of waking it is one that polls.
 *
 * A wait that helps with its own group needs no slot, and the task that it is in may have the last one. So a publisher that finds
 * no slot wakes the waits of that group. If the publisher relied on a worker, and that worker then finds no slot, the worker's last
 * look wakes these waits (priority_wake_helpers).
 *
 * Deadlines: while groups have some (groups->due), a worker looks for urgent tasks in all lanes and claims from the group that is
 * due first, by a filter that accepts no other group. If another thread has claimed the task by then, the search starts over. A
 * worker reads the clock before it starts such a task and before it counts it (EXTRA_DUE), and notes in the record which deadline
 * was missed; if that deadline was replaced meanwhile, the wait checks the last one. WEFT_GROUP_DROP_LATE cancels the group when a
 * task would start late, and then the group is late for good.
 *
 * A group of any priority becomes urgent when its record's `urgent` is set to its id (G23). The thread that sets it has entered
 * the record, so the group cannot end meanwhile.
 *
 * A worker looks for urgent tasks before each claim, not between the tasks of one. An urgent task that ran there might wait for a
 * task that waits for the claim's rest, and no wait takes that.
 *
 * While a background task runs, no other thread helps with its loops and forked calls: they would fill the workers that are kept
 * free of background tasks.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   N1  priority_give: fence             sc       K3   a worker sees no slot and sleeps, and no worker runs the task
 *   N2  priority_give: looks             -        T4   no worker runs a task that was published while there was no slot
 *   N4  priority_take: CAS runs          relaxed  -    split: more tasks run than may
 */
#include "sched/priority.h"

#include "sched/seat.h"

/* ---- priorities --------------------------------------------------------------------------------------------------- */

/* Safe for any record, also for one whose group has ended. */
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

void priority_take_back(weft_pool *pool) { add_rlx(&pool->background_runs, 1); }

void priority_resume(weft_pool *pool) {
    priority_take_back(pool);
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
