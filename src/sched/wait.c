/* wait.c: waiting, cancelling.
 *
 * A wait enters the record, runs the tasks, forked calls and loops of the group while it finds any, spins, then says what
 * it waits for (wait_id), fences (T17), looks once more and sleeps on its seat's wait_event. One waiter that finds the
 * group finished closes it, sets the user's id to 0 and ends the record. The others see that and take the result from
 * the record; the last one to leave frees it.
 *
 * The wait first runs the unclaimed tasks that its own thread has submitted to the group. It runs them in one frame and counts
 * them once, at the end (G1). A fence follows, and a look for sleepers, continuations and destroy (worker_settle). If these were
 * the group's last tasks, the wait closes the record instead; the fence of that (G11) replaces the other, and the look follows.
 *
 * In an ordered pool, a wait inside a task runs nothing while it has a spare. Without one it runs the next task of its own
 * thread's lane, as long as that task is of its group: so no task starts early. Other threads run tasks of other groups; the
 * thread that claims one tells the lane's owner (D14), because the task behind it is now next.
 *
 * A visit is a wait outside all tasks of its pool, but inside a task of another. While it sleeps, it is in a blocking section of that
 * other pool, so a spare stands in for its thread there (pool_wait). All threads of this pool may sleep in the other one at that time,
 * and the other's in this: then nobody is left to run what they wait for. So a visit that helps nobody is woken as the waits in this
 * pool's sections are, when the last of this pool's threads falls asleep and no spare can come (P14, P15, D12), and looks for that after
 * its own fence (T17). It then helps after all. The last wait of a chain of calls waits for a task that nobody has begun, and begins it:
 * so the chain gets as deep as it likes. In an ordered pool a visit only runs what is next in its own lane, by the rule above. It never
 * gives up: that would free no thread of this pool, and these may come back.
 *
 * A wait that closes the record later, in its loop, wakes nobody. A waiter that sleeps saw unequal sums. Either a completion was
 * missing, and the thread that completes last wakes it (G4, G11, T17); or a submission was about to be taken back, and the thread
 * that takes it back wakes it (count_undo).
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   T14 wait_sleep: looks again          -        T17 the wait sleeps and nobody wakes it
 *   T17 wait_sleep: fence                sc       G4, R10, T29, D14, P14, P15, D12  the thread that completes last, opens a loop, closes a circle,
 *                                                 claims from its lane or is the last to sleep misses the sleeper, and the sleeper misses that
 *   T29 wait_sleep_soundly: fence        sc       T17 a wait that had already looked for circles sleeps on in this one
 *   T22 wait_for: load id                acquire  T11, T25  the record is not open yet; see T25
 *   T24 weft_group_boost: load id              acquire  T11 the record is not open yet
 *   T23 weft_group_cancel: load id             acquire  T11 the record is not open yet
 *   N5  weft_group_boost: fence                sc       K3  a worker sees no slot for a task that is now urgent, and sleeps
 */
#include "sched/find.h"
#include "sched/priority.h"
#include "sched/realtime.h"
#include "sched/task.h"
#include "sched/tokens.h"

struct wait {
    struct weft_worker *seat;
    weft_group *group;
    struct record *record;
    uint64_t id;
    uint64_t last;    /* a group whose tasks it may run: `id`, or the last other one found */
    uint64_t *served; /* &last: wait_accepts, which gets the wait as const, writes it */
    uint64_t deadline_ns;
    enum weft_help help;
    uint32_t circles; /* groups->circles when it looked for a circle */
    bool is_one;      /* it runs one of this thread's tasks and does not wait */
    bool must_end;    /* it cannot be refused */
    bool blocks;      /* a section of weft_block_begin is open */
    bool ran;         /* it has run tasks */
    bool slept;       /* its last call of wait_sleep found nothing and slept */
    bool counts;      /* its thread counts because of it (tokens.h) */
    bool has_ended;   /* it has ended the group */
    bool has_asked;   /* the next is known: it has been about to sleep */
    bool is_visit;    /* it is in no task of this pool, but in one of another; only of a wait that helps nobody */
    bool cancelled;   /* it must end, and the group was cancelled */
};

static bool wait_accepts(const void *context, uint32_t index) {
    const struct wait *wait = context;
    if (wait->help == WEFT_HELP_ANY) return true;
    struct groups *groups = &wait->seat->pool->groups;
    const struct record *record = record_at(groups, index);
    if (record == NULL) return false;
    uint64_t id = load_rlx(&record->id) & ~ID_MARKS;
    if (id == *wait->served) return true;
    if (!group_serves(groups, id, wait->id)) return false;
    *wait->served = id;
    return true;
}

/* All tasks that the wait may run are of its own group, and in lanes that the record knows. */
static bool wait_is_plain(const struct wait *wait) {
    return wait->help == WEFT_HELP_BELOW && group_is_alone(wait->record) && record_is_apart(wait->record);
}
static bool wait_find_any(const struct wait *wait, struct piece *piece) {
    if (find_help_rest(wait->seat, wait_accepts, wait, piece)) return true;
    if (wait_is_plain(wait)) return find_help_record(wait->seat, wait->record, wait_accepts, wait, piece);
    return find_help(wait->seat, wait_accepts, wait, piece);
}

/* The finished group's end: true when this wait has ended it. */
static bool wait_close(struct wait *wait) {
    if (!record_close(wait->record, wait->id, wait->seat->index)) return false;
    record_end(wait->record, wait->group);
    wait->has_ended = true;
    return true;
}

static bool is_past(uint64_t deadline_ns) { return deadline_ns != 0 && os_now_ns() >= deadline_ns; }

/* The wait helps no group, and no thread may be left to run what it waits for. The wait is inside a task, which may run on
 * an outside thread, too, or a visit. In an ordered pool a visit only runs what is next, if it may. */
static bool wait_is_stranded(const struct wait *wait) {
    if (wait->help != WEFT_HELP_NONE || (!wait->blocks && !wait->is_visit)) return false;
    if (wait->is_visit && wait->seat->pool->ordered && !wait->must_end) return false;
    return !pool_has_runner(wait->seat->pool);
}

/* What the wait may take from sources other than lanes: work of the group, or of one below it. */
static struct source_filter wait_filter(const struct wait *wait) {
    return (struct source_filter){wait_accepts, wait, wait->deadline_ns != 0};
}

/* In an ordered pool: no spare stands in for this thread, and none may come. The thread then runs the next task of its own
 * lane itself, if that task is of the wait's group. */
static bool wait_is_stuck(const struct wait *wait) {
    const struct weft_worker *seat = wait->seat;
    if (!seat->pool->ordered || wait->is_one) return false;
    if (wait->is_visit) return !pool_has_runner(seat->pool) && !pool_call_spares(seat->pool);
    if (seat->frame == NULL) return false;
    return seat->blocking > 0 ? !seat->has_spare : !pool_spare_may_come(seat->pool);
}
static bool is_next(const void *context, uint32_t index) {
    const struct wait *wait = context;
    const struct lane *lane = load_rlx(&wait->seat->lanes);
    (void)index; /* of the group that the lane was last bound to */
    return lane != NULL && lane_next_record(lane) == wait->record->item.index;
}
static bool wait_has_next(const struct wait *wait) { return wait_is_stuck(wait) && is_next(wait, 0); }

/* Looks for work in those sources, and asks for some if there is none. */
static bool wait_ask(const struct wait *wait, bool force, struct source_work *found) {
    const struct source_filter filter = wait_filter(wait);
    if (wait->help == WEFT_HELP_NONE) return false;
    bool has_found = sources_find_for(wait->seat, force, &filter, found);
    if (!has_found) sources_ask(wait->seat->pool, &filter, false);
    return has_found;
}

/* Makes the wait visible to all threads, looks once more, then sleeps. */
static void wait_sleep(struct wait *wait) {
    struct weft_worker *seat = wait->seat;
    weft_pool *pool = seat->pool;
    const struct source_filter filter = wait_filter(wait);
    struct piece piece;
    struct source_work found;
    bool helps = wait->help != WEFT_HELP_NONE;
    bool has_piece = false;
    bool has_found = false;
    uint32_t event = load_rlx(&seat->wait_event);
    record_note_sleeper(wait->record, seat->index);
    store_rlx(&seat->wait_id, wait->id);
    if (helps || wait_is_stuck(wait)) store_rlx(&seat->wait_helps, (uint32_t)wait->help + 1);
    if (helps) add_rlx(&pool->park.word[0].helpers, 1);
    fence_sc(T17);
    if (helps) {
        worker_unbias(pool);
        sources_ask(pool, &filter, true);
    }
    bool ends = record_is_finished(wait->record) || record_has_ended(wait->record);
    ends |= load_rlx(&pool->groups.circles) != wait->circles;
    if (!recheck(T14, ends || wait_is_stranded(wait) || wait_has_next(wait), false)) {
        has_piece = helps && wait_find_any(wait, &piece);
        has_found = helps && !has_piece && sources_find_for(seat, true, &filter, &found);
        wait->slept = !has_piece && !has_found;
        if (wait->slept) pool_sleep(seat, event, wait->deadline_ns);
    }
    store_rlx(&seat->wait_id, 0);
    store_rlx(&seat->wait_helps, 0);
    if (helps) add_rlx(&pool->park.word[0].helpers, UINT32_MAX);
    if (has_piece) worker_run_help(seat, &piece);
    if (has_found) source_run(seat, &found, wait->deadline_ns);
}

/* The same, but returns false if this sleep would never end. */
static bool wait_sleep_soundly(struct wait *wait) {
    if (!wait->has_asked && wait->help == WEFT_HELP_NONE && wait->seat->frame == NULL)
        wait->is_visit = pool_is_visited(wait->seat->pool);
    wait->has_asked = true;
    struct groups *groups = &wait->seat->pool->groups;
    struct continuation_wait mine = {
        .record = wait->record, .frame = wait->deadline_ns == 0 ? wait->seat->frame : NULL, .insists = wait->must_end};
    bool is_circle = mine.frame != NULL && !continuation_wait_begin(groups, &mine);
    if (is_circle && !mine.insists) return false;
    wait->circles = mine.frame != NULL ? mine.circles : load_rlx(&groups->circles);
    if (is_circle) {
        fence_sc(T29);
        worker_wake_waits(wait->seat->pool); /* one of them is refused instead */
    }
    wait_sleep(wait);
    if (mine.frame != NULL) continuation_wait_end(groups, &mine);
    return true;
}

/* How long to spin: as long as the longest task that a worker now runs is expected to take, and a quarter more, if that is
 * at most twice the pool's spin time; else `most`. */
static uint64_t wait_spin_longer(const weft_pool *pool, uint64_t most) {
    uint64_t longest = 0;
    bool has_share = load_rlx(&pool->realtime.window_ticks) != 0; /* a real-time thread spins no longer than its share */
    uint32_t workers = most > 0 && pool->spin_adapts && !has_share ? load_rlx(&pool->workers) : 0;
    for (uint32_t i = 0; i < workers; i++) {
        const struct weft_worker *other = worker_seat(pool, i);
        if (other != NULL && load_rlx(&other->running) != 0) longest = max_u64(longest, load_rlx(&other->task_ticks));
    }
    longest += longest / 4;
    return longest <= 2 * load_rlx(&pool->spin_ticks) ? max_u64(longest, most) : most;
}

/* Spins for a limited time until the group ends, the deadline passes or another source has work, which it runs. true: the caller
 * looks at the lanes again. */
static bool wait_spin(struct wait *wait) {
    const weft_pool *pool = wait->seat->pool;
    struct source_work found;
    uint32_t self = wait->seat->is_worker ? 0 : 1;
    uint64_t most = realtime_spin_ticks(wait->seat);
    uint64_t start = os_ticks();
    uint64_t spent = 0;
    uint32_t turn = 0;
    bool is_longer = false;
    bool has_found = false;
    bool ends;
    do {
        ends = record_is_finished(wait->record) || record_has_ended(wait->record) || is_past(wait->deadline_ns);
        has_found = !ends && wait_ask(wait, spent >= pool->patience_ticks, &found);
        if (!ends && !has_found) os_pause();
        find_take_turns(wait->seat, &turn);
        spent = os_ticks() - start;
        if (workers_awake(pool) + self > load_rlx(&pool->cpus_allowed)) most = 0; /* spinning would take a worker's CPU */
        if (spent < most || is_longer) continue;
        most = wait_spin_longer(pool, most);
        is_longer = true;
    } while (!ends && !has_found && spent < most);
    count_up(&wait->seat->spin_ticks, spent);
    if (has_found) source_run(wait->seat, &found, wait->deadline_ns);
    return ends || has_found;
}

/* The wait runs tasks: its thread counts, also in a section, until the section or the wait ends (tokens.c). */
INLINE void wait_counts(struct wait *wait) { wait->counts = tokens_enter(wait->seat->pool); }
INLINE void wait_counts_no_more(struct wait *wait) {
    if (LIKELY(!wait->counts)) return;
    (void)tokens_leave();
    wait->counts = false;
}

/* What counts within the section ends with it. A wait that helps counts again after it. */
static void wait_unblock(struct wait *wait) {
    if (!wait->blocks) return;
    wait_counts_no_more(wait);
    weft_block_end(wait->seat);
    wait->blocks = false;
    if (wait->help != WEFT_HELP_NONE) wait_counts(wait);
}

/* In an ordered pool, a helper could run a task on top of the very task that it waits for. So when no thread is left to run
 * tasks, one of the waits gives up, and its thread can run them. */
static bool wait_gives_up(struct wait *wait) {
    weft_pool *pool = wait->seat->pool;
    os_lock(&pool->lock);
    bool gives_up = !pool_has_runner(pool) && !wait_has_next(wait);
    if (gives_up) wait_unblock(wait);
    os_unlock(&pool->lock);
    return gives_up;
}

/* For whoever looks: what the thread is in, while it runs other tasks (observe/dump.c). */
static void wait_tell(const struct wait *wait) {
    uint32_t helps = wait->help != WEFT_HELP_NONE ? WAITS_HELPS : 0;
    store_rlx(&wait->seat->waits_for, wait->record->item.index | helps);
}

/* The wait has no spare, or no thread is left to run tasks: it helps after all, and so do waits inside it. false: it gives up.
 * In an ordered pool, a wait that must not give up runs any task once no thread is left. */
static bool wait_turns_to_help(struct wait *wait) {
    const weft_pool *pool = wait->seat->pool;
    if (pool->ordered) wait->seat->has_spare = false; /* no spare runs tasks for it now */
    if (wait_has_next(wait)) return true;
    if (pool->ordered && !wait->must_end) return !wait_gives_up(wait);
    if (pool->ordered && pool_has_runner(pool)) return true;
    wait->help = pool->ordered ? WEFT_HELP_ANY : WEFT_HELP_BELOW;
    wait->seat->has_spare = false;
    wait_tell(wait);
    wait_counts(wait);
    return true;
}

/* A thread that helps nobody is about to sleep inside a task: a spare stands in for it. */
static bool wait_block(struct wait *wait) {
    wait->blocks = true;
    return weft_block_begin(wait->seat) == WEFT_OK || wait_turns_to_help(wait);
}
static bool wait_must_block(const struct wait *wait) {
    return !wait->blocks && wait->help == WEFT_HELP_NONE && wait->seat->frame != NULL;
}

/* A wait with a deadline may be repeated, each time for less time than it would spin. So it gets a spare at once. */
static bool wait_is_polled(const struct wait *wait) { return wait->deadline_ns != 0 && wait_must_block(wait); }

/* No thread is left to run what it waits for, and no spare can come. */
static bool wait_is_lost(const struct wait *wait) { return wait_is_stranded(wait) && !pool_call_spares(wait->seat->pool); }

/* The lane through which this thread submits to the group, or NULL. If the seat shares its counter, the lane would have to be
 * searched for: a wait that loops does not; it finds these tasks as it finds those of other threads. */
static struct lane *wait_lane(const struct wait *wait) {
    const struct weft_worker *seat = wait->seat;
    if (seat->pool->ordered) return wait_has_next(wait) ? load_rlx(&seat->lanes) : NULL;
    if (wait->help == WEFT_HELP_NONE || (!wait->is_one && !counter_is_near(wait->record, seat->counter) &&
                                         counter_is_shared(counter_of(wait->record, seat->counter))))
        return NULL;
    return task_lane(seat, wait->id, wait->record);
}

/* Runs the group's tasks in that lane while the lane is the group's: a task may bind it to another. Returns how many. */
static uint32_t run_own(const struct wait *wait, struct lane *lane) {
    struct weft_worker *seat = wait->seat;
    bool ordered = seat->pool->ordered; /* the lane holds other groups' tasks, too */
    struct piece piece;
    uint32_t ran = 0;
    do {
        if (lane_claim(lane, 1, ordered ? is_next : NULL, wait, &piece) == 0) break;
        worker_run_cell(seat, &piece.segment->cells[piece.begin]);
        piece_done(&piece);
        ran++;
    } while ((ordered || lane->group_id == wait->id) && !lane_is_empty(lane) && !wait->is_one &&
             !is_past(wait->deadline_ns));
    return ran;
}

/* Runs this thread's own tasks of the group in one frame. Returns whether there were any. Sets `has_ended` if they were the last
 * and this wait has ended the group. */
static bool wait_run_own(struct wait *wait) {
    struct weft_worker *seat = wait->seat;
    struct lane *lane = wait_lane(wait);
    struct frame frame;
    if (lane == NULL || lane_is_empty(lane) || is_past(wait->deadline_ns)) return false;
    if (seat->pool->ordered) wait_unblock(wait); /* a thread that runs tasks is not blocked */
    bool counts = tokens_enter(seat->pool);      /* a wait that helps nobody did not count, but runs these */
    frame_push(seat, &frame);
    frame.record = wait->record;
    frame.index = wait->record->item.index;
    frame.id = wait->id;
    uint32_t ran = run_own(wait, lane);
    struct record *record = worker_count(seat);
    frame.id = 0;
    bool ends = record == wait->record && !wait->is_one && record_is_finished(record) && wait_close(wait);
    if (ends)
        worker_settled(seat, record, wait->id);
    else if (record != NULL)
        worker_settle(seat, record);
    frame_pop(seat);
    if (UNLIKELY(counts)) (void)tokens_leave();
    count_up(&seat->claims_made[CLAIM_LANE], ran);
    count_up(&seat->helped, ran);
    wait->ran |= ran > 0;
    return ran > 0;
}

/* Runs one task of the group: the next one of the claim that this thread runs now, or one that it has submitted. */
static bool wait_run_one(struct wait *wait) {
    struct piece piece;
    if (!find_help_rest(wait->seat, priority_is_record, &wait->record->item.index, &piece)) return wait_run_own(wait);
    worker_run_help(wait->seat, &piece);
    return true;
}

/* Runs tasks and sleeps until the group has ended (WEFT_OK), the deadline has passed, no thread is left to run the group's tasks
 * (WEFT_EAGAIN) or a sleep would never end (WEFT_EDEADLK). */
static int wait_loop(struct wait *wait) {
    struct piece piece;
    for (;;) {
        if (wait_run_own(wait) && wait->has_ended) return WEFT_OK;
        if (record_has_ended(wait->record)) return WEFT_OK;
        if (record_is_finished(wait->record) && wait_close(wait)) return WEFT_OK;
        if (record_is_closing(wait->record)) {
            os_yield(); /* another waiter is about to end it */
            continue;
        }
        if (is_past(wait->deadline_ns)) return WEFT_ETIMEDOUT;
        if (wait->help != WEFT_HELP_NONE && wait_find_any(wait, &piece)) {
            worker_run_help(wait->seat, &piece);
            wait->ran = true;
        } else if (wait_is_lost(wait)) {
            if (!wait_turns_to_help(wait)) return WEFT_EAGAIN;
        } else if (!wait_is_polled(wait) && wait_spin(wait)) {
            continue;
        } else if (wait_must_block(wait)) {
            if (!wait_block(wait)) return WEFT_EAGAIN;
        } else if (!wait_sleep_soundly(wait)) {
            return WEFT_EDEADLK;
        }
    }
}

/* Counts the tasks that this thread has completed so far: they must not wait for this wait. The frame keeps its group. */
static void wait_flush(struct weft_worker *seat) {
    struct frame *frame = seat->frame;
    if (frame == NULL) return;
    struct record *record = frame->record;
    uint64_t id = frame->id;
    worker_flush(seat);
    frame->record = record;
    frame->index = record == NULL ? 0 : record->item.index;
    frame->id = id;
}

static void trim_lanes(struct weft_worker *seat) {
    struct lane **link = &seat->long_lanes;
    for (struct lane *lane; (lane = *link) != NULL;) {
        if (lane->in_use > LANE_KEEP && lane_is_empty(lane)) lane_trim(lane);
        lane->is_long = lane->in_use > LANE_KEEP;
        if (lane->is_long)
            link = &lane->next_long;
        else
            *link = lane->next_long;
    }
    lanes_hide(seat);
}

/* Notes what an outside thread did in its wait: it is expected to do the same in its next one. */
static void learn_outside(const struct wait *wait) {
    weft_pool *pool = wait->seat->pool;
    bool sleeps = wait->help == WEFT_HELP_NONE && wait->slept;
    if (load_rlx(&pool->outside_runs) != wait->ran) store_rlx(&pool->outside_runs, wait->ran);
    if ((sleeps || wait->ran) && load_rlx(&pool->outside_sleeps) != sleeps) store_rlx(&pool->outside_sleeps, sleeps);
}

/* This thread is inside a graph's run for which a task of that group waits: the group cannot end before the run. */
static bool wait_is_around(const struct weft_worker *seat, uint64_t id) {
    const struct groups *groups = &seat->pool->groups;
    if (task_is_deepest(seat, id)) return false;
    for (const struct frame *frame = seat->frame; frame != NULL; frame = frame->above)
        for (uint64_t at = frame->id; at != 0;) {
            const struct record *record = record_at(groups, id_index(at));
            if (record == NULL || (load_rlx(&record->flags) & RECORD_RUN) == 0) break;
            at = group_parent(groups, at);
            if (at == id) return true;
        }
    return false;
}

/* The group cannot end before this thread has returned. */
static bool wait_is_own(const struct wait *wait) {
    const struct weft_worker *seat = wait->seat;
    return task_is_inside(seat, wait->id) || continuation_leads(&seat->pool->groups, seat->frame, wait->id) ||
           wait_is_around(seat, wait->id);
}

static void wait_leave(struct wait *wait) {
    struct weft_worker *seat = wait->seat;
    if (!record_leave_last(&seat->pool->groups, wait->record, wait->has_ended)) return;
    if (seat->kept != NULL) pile_put(&seat->pool->groups.records, seat->kept);
    seat->kept = wait->record;
}

static int wait_seated(struct wait *wait) {
    struct weft_worker *seat = wait->seat;
    struct groups *groups = &seat->pool->groups;
    wait->last = wait->id;
    wait->served = &wait->last;
    if (seat->frame != NULL && !wait->must_end && !wait->is_one && wait_is_own(wait)) return WEFT_EDEADLK;
    if (!record_enter(groups, wait->record, wait->id))
        return group_is_astray(groups, wait->record, id_of(wait->group), wait->id) ? WEFT_EINVAL : WEFT_OK;
    wait_flush(seat);
    bool offers = rest_offer(seat);
    uint32_t outer = load_rlx(&seat->waits_for);
    if (!wait->is_one) wait_tell(wait);
    int result = wait->is_one ? wait_run_one(wait) : wait_loop(wait);
    store_rlx(&seat->waits_for, outer);
    if (!seat->is_worker && !wait->is_one) learn_outside(wait);
    if (result == WEFT_OK && !wait->is_one) result = record_result(wait->record);
    if (UNLIKELY(wait->must_end)) wait->cancelled = record_was_cancelled(wait->record);
    wait_leave(wait);
    wait_unblock(wait);
    if (offers) rest_keep(seat);
    trim_lanes(seat);
    return result;
}

/* In a NO_HELP pool only its own threads may help; in an ordered pool that does not help, none. */
static bool wait_may_help(const struct weft_worker *seat) {
    return seat->pool->helps || (seat->is_worker && !seat->pool->ordered);
}

/* Waits for wait->group, as the other fields say. */
static int wait_for(weft_pool *pool, struct wait *wait) {
    int error = WEFT_OK;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    wait->id = load_acq(T22, id_of(wait->group));
    if (wait->id == 0) return WEFT_OK;
    wait->seat = seat_find(pool, &error);
    if (wait->seat == NULL) return error;
    const struct lane *lane = wait->seat->lane;
    wait->record = lane->group_id == wait->id ? lane->record : record_at(&pool->groups, id_index(wait->id));
    if (wait->record == NULL) return WEFT_EINVAL;
    if (!wait_may_help(wait->seat)) wait->help = WEFT_HELP_NONE;
    guest_enter(wait->seat);
    if (wait->help != WEFT_HELP_NONE) wait_counts(wait);
    error = wait_seated(wait);
    wait_counts_no_more(wait);
    guest_leave(wait->seat);
    return error;
}

int weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns) {
    if (pool == NULL || (unsigned)help > WEFT_HELP_NONE) return WEFT_EINVAL;
    struct wait wait = {.group = group == NULL ? &pool->group : group, .deadline_ns = deadline_ns, .help = help};
    return wait_for(pool, &wait);
}

bool task_await_own(weft_pool *pool, weft_group *group) {
    struct wait wait = {.group = group, .must_end = true};
    (void)wait_for(pool, &wait);
    return wait.cancelled;
}

int weft_group_help(weft_pool *pool, weft_group *group) {
    if (pool == NULL) return WEFT_EINVAL;
    struct wait wait = {.group = group == NULL ? &pool->group : group, .is_one = true};
    return wait_for(pool, &wait);
}

int weft_group_wait(weft_pool *pool, weft_group *group) { return weft_group_wait_until(pool, group, WEFT_HELP_BELOW, 0); }

int weft_group_cancel(weft_pool *pool, weft_group *group) {
    if (pool == NULL) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    if (group == NULL) group = &pool->group;
    uint64_t id = load_acq(T23, id_of(group));
    if (id == 0) return WEFT_OK;
    struct record *record = record_at(&pool->groups, id_index(id));
    if (record == NULL) return WEFT_EINVAL;
    bool is_astray = !record_cancel(record, id) && group_is_astray(&pool->groups, record, id_of(group), id);
    return is_astray ? WEFT_EINVAL : WEFT_OK;
}

int weft_group_boost(weft_pool *pool, weft_group *group) {
    if (pool == NULL || pool->ordered) return WEFT_EINVAL;
    if (group == NULL) group = &pool->group;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    uint64_t id = load_acq(T24, id_of(group));
    if (id == 0) return WEFT_OK;
    struct record *record = record_at(&pool->groups, id_index(id));
    if (record == NULL) return WEFT_EINVAL;
    struct groups *groups = &pool->groups;
    if (!record_enter(groups, record, id)) return group_is_astray(groups, record, id_of(group), id) ? WEFT_EINVAL : WEFT_OK;
    guest_enter(seat);
    record_boost(groups, record, id);
    if ((load_rlx(&record->flags) & WEFT_GROUP_BACKGROUND) != 0) { /* workers may sleep while its tasks are queued */
        worker_unbias(pool);
        fence_sc(N5);
        worker_notify(seat, NULL, 0);
    }
    record_leave(groups, record, false);
    guest_leave(seat);
    return WEFT_OK;
}

/* Opens the group if it has no record, and enters the record as a wait does, so that it stays the group's. The caller leaves it.
 * NULL: *error says why. */
static struct record *group_enter(struct weft_worker *seat, weft_group *group, int *error) {
    for (;;) {
        uint64_t id = task_bind(seat, group, error);
        if (id == 0) return NULL;
        struct record *record = record_at(&seat->pool->groups, id_index(id));
        *error = WEFT_EINVAL;
        if (record == NULL) return NULL;
        if (record_enter(&seat->pool->groups, record, id)) return record;
        if (group_is_astray(&seat->pool->groups, record, id_of(group), id)) return NULL;
        os_yield(); /* a waiter is ending the group; its id is about to go */
    }
}

int weft_group_deadline(weft_pool *pool, weft_group *group, uint64_t when_ns) {
    if (pool == NULL || pool->ordered || when_ns == 0) return WEFT_EINVAL;
    if (group == NULL) group = &pool->group;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    guest_enter(seat);
    struct record *record = group_enter(seat, group, &error);
    if (record != NULL) {
        or_rlx(&pool->extras, EXTRA_DUE);
        record_due(&pool->groups, record, when_ns);
        error = weft_group_boost(pool, group);
        record_leave(&pool->groups, record, false);
    }
    guest_leave(seat);
    return error;
}

int weft_worker_cancelled(const weft_worker *self) {
    if (self == NULL || self->frame == NULL || self->frame->record == NULL) return 0;
    return (load_rlx(&self->frame->record->id) & ID_CANCELLED) != 0;
}
