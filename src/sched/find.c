/* find.c: looking for something to run.
 *
 * A worker looks at the lane that it claimed from last, then at all lanes of all seats, starting with its own, then at other
 * workers' claims, then at the other sources of work (source.h). priority.c handles what comes before and after all this.
 *
 * The cache line of a lane's head can move between workers only so often per second. If other workers claim many tasks between a
 * worker's last two claims from a lane, its next claim takes as many tasks as run for GROWN_US, but at most its share of the lane;
 * the unstarted rest lies open in a loose claim (claim.c). Claims do not grow while there are few workers, or more workers than
 * CPUs. A task may wait for a later one of its lane. It then takes long, and after the first such task claims there are of one.
 *
 * A lane whose tasks submit more tasks to it never becomes empty: after CLAIMS_PER_LANE claims, the lanes after it have their
 * turn.
 *
 * A wait that helps looks at all lanes, too. It looks only at the lanes that its record's counters name if no other group serves
 * its own (group_is_alone) and every task of the group came from a seat with a counter. A submitter notes each of these three
 * facts before it publishes the task. Publisher and waiter both fence in between, so one of them sees the other (wait.c).
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   I1  find_help_record: load lane      acquire  T30  a lane is looked at before it is made
 */
#include "sched/find.h"

#include "sched/hooks.h"
#include "sched/priority.h"

#define CLAIMS_PER_LANE 64u /* then the other lanes have their turn */
#define GROWN_US 64u        /* us that a claim of several tasks may run if many workers claim */
#define GROWN_SHARE 2u      /* such a claim takes at most 1 / (GROWN_SHARE * workers) of the lane's tasks */

/* The most tasks in the next claim from the lane: as many as run for GROWN_US if others claim many there, else 1. The head cannot
 * move between workers often enough for claims of one. */
static uint32_t grown_size(const struct weft_worker *seat, const struct lane *lane) {
    const weft_pool *pool = seat->pool;
    uint64_t each = seat->timed_lane == lane ? seat->timed_ticks : 0; /* 0: not known; a task may wait for others */
    uint32_t workers = load_rlx(&pool->workers);
    if (each == 0 || !seat->taken_left.are_many || workers <= LEFT_OTHERS || workers > load_rlx(&pool->cpus_allowed))
        return 1;
    return (uint32_t)min_u64(GROWN_US * pool->ticks_per_us / each + 1, pool->claim_max);
}

/* What to claim from that lane. taken_left says how the last claim left it, if that was from this lane. */
INLINE struct lane_want want_from(struct weft_worker *seat, const struct lane *lane, lane_filter filter) {
    const weft_pool *pool = seat->pool;
    uint32_t workers = load_rlx(&pool->workers);
    if (load_rlx(&lane->tiny) == 0 || filter == priority_is_background) {
        uint32_t most = filter == priority_is_background ? 1 : grown_size(seat, lane);
        return (struct lane_want){most, filter, pool, &seat->taken_left, GROWN_SHARE * workers};
    }
    left_forget(&seat->taken_left);        /* others' claims are not counted meanwhile */
    uint64_t backlog = lane_backlog(lane); /* cheap: the caller has just read the head */
    uint64_t fair = backlog <= 1 ? 1 : backlog / workers + 1;
    return (struct lane_want){(uint32_t)min_u64(fair, pool->claim_max), filter, pool, NULL, 0};
}

/* Should the seat's thread give way to another one on its CPU? Yes, if a thread of the pool may want this CPU: the submitter, or
 * a worker that runs a task or looks for work. Yes, if tasks are long: then the program's other threads here matter more. */
static bool gives_way(const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uint32_t here = os_cpu();
    if (here == OS_NO_CPU || (seat->is_worker && here == load_rlx(&pool->from_cpu))) return true;
    bool is_awaited = park_look(&pool->park).searchers > 0;
    uint32_t workers = load_rlx(&pool->workers);
    for (uint32_t i = 0; i < workers; i++) {
        const struct weft_worker *other = worker_seat(pool, i);
        if (other == NULL) continue;
        bool runs = load_rlx(&other->running) != 0;
        if ((runs || other == seat) && load_rlx(&other->task_ticks) >= pool->short_ticks) return true;
        if ((runs || is_awaited) && other != seat && load_rlx(&other->runs_on) == here + 1) return true;
    }
    return false;
}

void find_take_turns(const struct weft_worker *seat, uint32_t *turn) {
    if (++*turn % OS_TURNS == 0 && gives_way(seat)) os_give_way();
}

void find_pause(const struct weft_worker *seat, uint32_t *turn) {
    int pauses = load_rlx(&seat->pool->tiny) ? TINY_PAUSES : 1;
    for (int i = 0; i < pauses; i++) {
        os_pause();
        find_take_turns(seat, turn);
    }
}

static enum claim_source claim_source_of(const struct weft_worker *seat, const struct weft_worker *owner) {
    return owner != seat && seat_is_inside(owner) ? CLAIM_STOLEN : CLAIM_LANE;
}

/* Notes where the seat claimed last. */
static void find_note(struct weft_worker *seat, const struct weft_worker *owner, struct lane *lane) {
    seat->taken = lane;
    seat->taken_seat = owner->index;
    seat->taken_from = claim_source_of(seat, owner);
    PROBE(take, seat->index, owner->index);
}

/* Claims from that lane or a lane after it, of the same owner. */
static bool find_in_lanes(struct weft_worker *seat, const struct weft_worker *owner, struct lane *lane, lane_filter filter,
                          struct find *find) {
    for (; lane != NULL; lane = load_rlx(&lane->next)) {
        if (lane_is_empty(lane)) continue;
        left_forget(&seat->taken_left); /* that was another lane's */
        struct lane_want want = want_from(seat, lane, filter);
        find->tasks = lane_claim_want(lane, &want, &find->piece);
        if (find->tasks == 0) continue;
        find->lane = lane;
        find_note(seat, owner, lane);
        return true;
    }
    return false;
}

static bool find_in_claims(struct weft_worker *seat, bool force, struct find *find) {
    for (struct seats others = seats_beside(seat); seats_next(&others);) {
        struct claim *claim = &others.seat->claim;
        if (!claim_has_rest(claim) || !claim_revoke(claim, force, &find->piece)) continue;
        find->tasks = (find->piece.end - find->piece.begin) / find->piece.stride;
        find->lane = seat->taken = NULL;
        seat->taken_seat = others.seat->index;
        seat->taken_from = CLAIM_REVOKED;
        return true;
    }
    return false;
}

/* Looks at all seats, from index `first` on. */
static bool find_in_seats(struct weft_worker *seat, uint32_t first, lane_filter filter, struct find *find) {
    for (struct seats all = seats_from(seat->pool, first); seats_next(&all);)
        if (find_in_lanes(seat, all.seat, worker_lanes(all.seat), filter, find)) return true;
    return false;
}

/* The lane of the task that is due first, the lane's owner and the index of the group's record. NULL: no task is due. */
static struct lane *due_first(const weft_pool *pool, const struct weft_worker **owner, uint32_t *record) {
    struct lane *first = NULL;
    uint64_t earliest = UINT64_MAX;
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        for (struct lane *lane = worker_lanes(all.seat); lane != NULL; lane = load_rlx(&lane->next)) {
            uint32_t its_record;
            uint64_t deadline_ns = priority_deadline_ns(pool, lane, &its_record);
            if (deadline_ns >= earliest) continue;
            earliest = deadline_ns;
            first = lane;
            *owner = all.seat;
            *record = its_record;
        }
    return first;
}

#define DUE_TRIES 8u /* each failed because another thread was faster */

static NOINLINE bool find_due(struct weft_worker *seat, struct find *find) {
    for (unsigned i = 0; i < DUE_TRIES; i++) {
        const struct weft_worker *owner;
        uint32_t record;
        find->lane = due_first(seat->pool, &owner, &record);
        if (find->lane == NULL) return false;
        left_forget(&seat->taken_left);
        find->tasks = lane_claim(find->lane, 1, priority_is_record, &record, &find->piece);
        if (find->tasks == 0) continue;
        find_note(seat, owner, find->lane);
        return true;
    }
    return false;
}

static NOINLINE bool find_urgent(struct weft_worker *seat, struct find *find) {
    if (load_rlx(&seat->pool->groups.due) != 0 && find_due(seat, find)) return true;
    return find_in_seats(seat, seat->index, priority_is_urgent, find);
}

/* Looks at the lane claimed from last and the lanes after it; after that lane's turn, from the next lane on. A thread that submits
 * to many groups leaves many lanes with a task or two: a look from the first lane on would pass all that are already empty. */
static bool find_in_turn(struct weft_worker *seat, struct find *find) {
    uint32_t first = seat->index;
    if (seat->taken != NULL && seat->claims_left-- > 0) {
        find->lane = seat->taken;
        bool is_fed = seat->taken_seat != seat->index && load_rlx(&find->lane->tiny); /* another thread submits to it */
        if (is_fed && lane_backlog(find->lane) < seat->pool->claim_max) {
            /* a worker with tasks that its own last task submitted does not pause for another thread's */
            if (find_in_lanes(seat, seat, seat->lane, priority_is_prompt, find)) return true;
            worker_flush(seat); /* this may end a wait */
            predict_let_ahead(seat);
        }
        struct lane_want want = want_from(seat, find->lane, priority_is_prompt);
        find->tasks = lane_claim_want(find->lane, &want, &find->piece);
        if (find->tasks > 0) return true;
        const struct weft_worker *owner = worker_seat(seat->pool, seat->taken_seat);
        if (find_in_lanes(seat, owner, load_rlx(&seat->taken->next), priority_is_prompt, find)) return true;
    } else if (seat->taken != NULL) {
        const struct weft_worker *owner = worker_seat(seat->pool, seat->taken_seat);
        seat->claims_left = CLAIMS_PER_LANE;
        if (find_in_lanes(seat, owner, load_rlx(&seat->taken->next), priority_is_prompt, find)) return true;
        first = owner->index + 1;
    }
    seat->claims_left = CLAIMS_PER_LANE;
    return find_in_seats(seat, first, priority_is_prompt, find);
}

static NOINLINE bool find_background(struct weft_worker *seat, struct find *find) {
    if (!priority_take(seat->pool)) return false;
    find->is_background = find_in_seats(seat, seat->index, priority_is_background, find);
    if (!find->is_background) priority_give(seat);
    return find->is_background;
}

bool find_work(struct weft_worker *seat, unsigned force, struct find *find) {
    find->is_background = false;
    if (priority_has_urgent(seat->pool) && find_urgent(seat, find)) return true;
    if (find_in_turn(seat, find)) return true;
    if (find_in_claims(seat, (force & FORCE_CLAIMS) != 0, find)) return true;
    find->tasks = 0;
    if (sources_find(seat, (force & FORCE_SOURCES) != 0, &find->work)) return true;
    if (priority_has_background(seat->pool) && find_background(seat, find)) return true;
    sources_ask(seat->pool, NULL, false);
    return false;
}

/* Is the lane to be passed over (struct find_passed)? Then *passing notes it. Only one lane is passed over in a look. */
static bool find_passes(const weft_pool *pool, const struct weft_worker *owner, const struct lane *lane,
                        const struct find_passed *passed, struct find_passed *passing) {
    uint64_t head = load_rlx(&lane->head);
    if (passed == NULL || passing->lane != NULL || !load_rlx(&pool->tiny)) return false;
    if (!seat_is_inside(owner) || load_rlx(&owner->running) == 0) return false;
    if (lane == passed->lane && head == passed->head) return false;
    *passing = (struct find_passed){lane, head};
    return true;
}

bool find_sees(const weft_pool *pool, bool claims, struct find_passed *passed) {
    struct find_passed passing = {NULL, 0};
    bool offers = load_rlx(&pool->offers) > 0 || !load_rlx(&pool->tiny);
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        const struct weft_worker *owner = all.seat;
        if ((claims && claim_has_rest(&owner->claim)) || (offers && claim_is_offered(&owner->claim))) return true;
        for (struct lane *lane = worker_lanes(owner); lane != NULL; lane = load_rlx(&lane->next)) {
            if (lane_is_empty(lane) || priority_holds(pool, lane)) continue;
            if (!find_passes(pool, owner, lane, passed, &passing)) return true;
        }
    }
    if (passed != NULL) *passed = passing;
    return sources_are_open(pool);
}

bool find_help_record(struct weft_worker *seat, struct record *record, lane_filter filter, const void *context,
                      struct piece *piece) {
    struct counter_walk walk = counters_walk(record);
    for (const struct group_counter *counter; (counter = counter_next_used(record, &walk)) != NULL;) {
        struct lane *lane = load_acq(I1, &counter->lane);
        if (lane == NULL || lane_is_empty(lane) || lane_claim(lane, 1, filter, context, piece) == 0) continue;
        seat->help_from = claim_source_of(seat, worker_seat(seat->pool, lane->seat));
        return true;
    }
    return false;
}

bool find_help(struct weft_worker *seat, lane_filter filter, const void *context, struct piece *piece) {
    for (struct seats all = seats_from(seat->pool, seat->index); seats_next(&all);) {
        seat->help_from = claim_source_of(seat, all.seat);
        for (struct lane *lane = worker_lanes(all.seat); lane != NULL; lane = load_rlx(&lane->next))
            if (!lane_is_empty(lane) && lane_claim(lane, 1, filter, context, piece) > 0) {
                if (seat->pool->ordered) worker_tell_owner(all.seat);
                return true;
            }
    }
    return false;
}
