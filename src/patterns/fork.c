/* fork.c: fork-join. Calls are noted in places, private to their thread until somebody asks.
 *
 * The idea of private records that a thief asks for is that of U. Acar, A. Charguéraud, M. Rainey, "Scheduling parallel
 * programs by work stealing with private deques", PPoPP 2013, doi:10.1145/2442516.2442538; helping only below the stolen
 * call is D. Wagner, B. Calder, "Leapfrogging", PPoPP 1993, doi:10.1145/155332.155354; the light and the heavy fence are
 * claim.c's.
 *
 * Where places stand, and which come first: span.h. Joins that have lost their call: join.c.
 *
 * Fork, join (inline, weft.h)                         Thread that is idle
 *   fork: payload, then fn (release)                    asks: limit = NULL (plain; about to sleep: heavy fence after it)
 *     light fence; place below the span's limit?        finds an offer: CAS takes it (J3), state = TAKEN by me
 *     no: offers the oldest private call (J2),          no answer for long: opens a row, the oldest private calls:
 *     fence, wakes who sleeps                             state of each IDLE -> WANTED (J4), heavy fence (J5), reads fn
 *   join: fn = NULL, light fence (J8), state IDLE?        NULL: WANTED -> IDLE, else the first is TAKEN (J6), others OPEN (J48)
 *     yes: calls                                        takes an open call: OPEN -> WANTED (J47) -> TAKEN (J6)
 *     no: join_slow: takes back the offer (J9), or WANTED or OPEN -> IDLE (J10), or waits for DONE (J11)
 *
 * state: IDLE -> OFFERED -> IDLE by the thread of the place; OFFERED -> TAKEN by who took the offer; IDLE -> WANTED ->
 * TAKEN, OPEN or IDLE by a thief, OPEN -> WANTED -> TAKEN or OPEN by any, WANTED or OPEN -> IDLE by the thread of the place;
 * TAKEN -> DONE by who ran it; DONE -> IDLE by the thread of the place. Of fn = NULL and state = WANTED at least one is
 * seen by the other side (J5, J8); both: the CAS decides. Whoever joins an open call sees that it is not IDLE, so taking
 * it needs no fence. A place that is GUARDed is joined by join_slow always: the last one of a span, and all where light
 * fences are not for free; there each fork looks who sleeps, too: the span's limit is its head.
 *
 * A row spares the thief of calls that are forked one after the other, and then joined by a thread that no longer looks
 * whether somebody asks, a fence and a wait for each. Their thread takes back from the newest on what is left of it.
 *
 * Should the system's barrier stop working (fence.c), calls forked before have no guard and their light fences order nothing.
 * Who takes one unasked, or falls asleep while such a span is asked but has not answered, waits as fence.c does (J51, J54). A
 * place that is free gets its guard before the next fork, a span its limit when its thread comes to look at it.
 *
 * A detached call (fork.h) is DONE as soon as its function says so, before it does anything else. That one call by its
 * taker has been counted in the group by then, so the group cannot finish between.
 *
 * An offer's word counts its changes, made and gone, in 64 bits, so that a late CAS fails. Which place is meant, and its
 * function, stand beside it: who has read them before that CAS has those of this offer, or fails. The count in a TAKEN state tells one taking from the next.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J1  fork_take: load offer           acquire  J2  the argument is not there yet, nor the function
 *   J2  fork_offer: store offer         release  J1  see J1
 *   J3  fork_take: CAS offer            release  J9, J2  offered_fn is read when the thread, its offer gone, has made the next: another
 *                                                function runs; split: two run the call
 *   J56 fork_offer: store offered_place release  J57 the next offer's place is looked at before its span is made. survives order: a fence
 *                                                (J18) stands between, but where thieves have opened all of the span before
 *   J57 fork_take: load offered_place   acquire  J56 see J56
 *   J4  row_open: CAS IDLE to WANTED    relaxed  J12 split: an offered call is run twice
 *   J5  row_open: heavy fence           heavy    J8  fn and state pass each other: the call runs twice
 *   J51 row_open: settles               heavy    J8  as J5, of calls forked before the barrier was lost
 *   J7  place_take: load fn             acquire  J44 the argument of a call forked anew after J5 is not there yet, nor whose it is
 *   J50 place_after: load next          acquire  J49 see J49
 *   J48 row_open: CAS WANTED            relaxed  J10 split: the call is open when its thread has joined it
 *   J47 row_take: CAS OPEN to WANTED    acquire  J5  a call is read that had been joined before J5; split: two thieves run the call
 *   J6  place_take: CAS WANTED            relaxed  J10 split: both sides run the call
 *   J45 place_take: looks again         -        J44, J48 a wait takes a stranger's call
 *   J46 hunt_is_on: looks again         -        J14 a join takes a stranger's call, or helps with a stranger's loop
 *   J8  weft_place_pop: light fence     light    J5  see J5 (in weft.h, as the next two). survives drop: as J19, J13 stands in
 *   J43 weft_place_push: light fence    light    J20 see J20. survives drop: as J19
 *   J44 weft_place_push: store fn       release  J7  see J7
 *   J12 fork_offer: CAS IDLE to OFFERED relaxed  J4  see J4
 *   J14 fork_done: exchange state       release  J11 see J11; split: the sleeper is not seen
 *   J15 fork_respond: fence             sc       K3  a worker parks and does not see the offer, nor is it seen
 *   J17 fork_current: load current, x3      acquire  J16 see J16
 *   J20 forks_ask_firmly: heavy fence   heavy    J43, J18, R10  a call forked meanwhile, or a loop below a join, is not seen, and not offered
 *   J54 forks_settle: settles           heavy    J43 as J20, of a span that has not been asked since the barrier was lost
 *   J24 fork_done: wait_event + 1       release  J23 see J23
 *   J29 fork_find_below: load waits_for acquire  J28 as J16
 *   J32 weft_enter_layout: light fence  light    P4  a caller from outside uses a pool that destroy has found empty
 *   J33 weft_leave: guests - 1, x2      release  P10 the pool's memory goes while the caller still uses it; split: destroy waits for
 *                                                ever, or not at all
 *   J35 fork_seat: load seat            acquire  P1  a seat is looked at before it is made
 *   J39 fork_respond: fence             sc       K3  as J15
 *   J55 calls_show: fence               sc       K3  a worker parks that saw calls WANTED, which nobody runs
 */
#include "patterns/fork.h"

#include "patterns/span.h"

#define CHAIN_MAX 16u /* calls below calls that a waiting join follows */
#ifndef ROW_FIRST
#define ROW_FIRST 64u /* calls */
#endif
#define ROW_MAX 1024u

uint64_t fork_position(const struct weft_worker *seat) {
    const struct fork_span *span = load_rlx(&forks_of(seat)->current);
    return span == NULL ? 0 : span->base + SPAN_FIRST;
}
static struct weft_worker *fork_seat(const weft_pool *pool, uint32_t index) { return load_acq(J35, &pool->seats[index]); }

/* ---- offering ----------------------------------------------------------------------------------------------------- */

static bool filter_accepts(const struct fork_filter *filter, const struct fork_span *span) {
    if (filter == NULL) return true;
    const struct loop *loop = load_rlx(&span->in_loop);
    if (filter->inside != NULL) return loop != NULL && filter->inside(filter->context, loop);
    return filter->accepts == NULL || filter->accepts(filter->context, load_rlx(&span->index));
}

/* The oldest call at position `from` or later, in `span` or those after it, that no other thread knows of; NULL: there is none,
 * or the seat runs a background task. Exact for the seat's own thread, a guess for others. `force`: a call that may be taken
 * without an offer, or else the oldest open one. The last place of a span without a next one is then left out: a fork there
 * may have been refused (span_leave), which happens no more once there is a next span. */
static weft_place *fork_scan(const struct weft_worker *seat, struct fork_span *span, uint64_t from,
                             const struct fork_filter *filter, bool force) {
    const struct fork_span *current = load_acq(J17, &forks_of(seat)->current);
    if (current == NULL || load_rlx(&seat->in_background)) return NULL;
    weft_place *open = NULL;
    for (; span != NULL; span = span == current ? NULL : load_rlx(&span->next)) {
        bool is_wanted = filter_accepts(filter, span);
        size_t end = force && load_rlx(&span->next) == NULL ? SPAN_PLACES - 1 : SPAN_PLACES;
        for (size_t i = SPAN_FIRST; is_wanted && i < end; i++) {
            weft_place *place = span_place(span, i);
            if (load_rlx(&place->fn) == NULL) break;
            enum place_kind kind = kind_of(load_rlx(&place->state));
            if (span->base + i < from) continue;
            if (kind == PLACE_IDLE) return place;
            if (force && kind == PLACE_OPEN && open == NULL) open = place;
        }
    }
    return open;
}

/* The same in all spans. `last`: a call of the seat that was taken, or NULL. Until it is joined other threads know of all
 * calls before it, so the search begins in its span. */
static weft_place *fork_oldest(const struct weft_worker *seat, weft_place *last, uint64_t from,
                               const struct fork_filter *filter, bool force) {
    weft_place *place = NULL;
    if (last != NULL && load_rlx(&last->fn) != NULL && kind_of(load_rlx(&last->state)) >= PLACE_TAKEN)
        place = fork_scan(seat, span_of(last), from, filter, force);
    return place != NULL ? place : fork_scan(seat, load_rlx(&forks_of(seat)->first), from, filter, force);
}

void fork_wake_joins(const weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        struct weft_worker *seat = fork_seat(pool, i);
        if (seat == NULL || !load_rlx(&forks_of(seat)->sleeps)) continue;
        event_raise(&seat->wait_event);
    }
}

/* Something of the group `id` is on offer; 0: any wait or loop may be for it. */
static void fork_notify(struct weft_worker *seat, uint64_t id) {
    weft_pool *pool = seat->pool;
    if (park_glance(&pool->park) == 0) return;
    struct park_view view = park_look(&pool->park);
    if (view.scouts > 0) return;
    if (view.parked > 0 || view.dozing) {
        worker_wake(seat);
        return;
    }
    fork_wake_joins(pool);
    worker_wake_helpers(pool, id);
}

/* Offers the seat's oldest private call, unless one is on offer. Returns the group of what is, as
 * fork_notify is told. */
static uint64_t fork_offer(struct weft_worker *seat) {
    struct forks *forks = forks_of(seat);
    uint64_t offer = load_rlx(&forks->offer);
    if (offer_is_open(offer)) return 0;
    weft_place *place = fork_oldest(seat, load_rlx(&forks->offered_place), 0, NULL, false);
    if (place == NULL) return 0;
    store_rel(J56, &forks->offered_place, place);
    uint64_t state = load_rlx(&place->state);
    if (kind_of(state) != PLACE_IDLE || !cas_rlx(J12, &place->state, &state, (state & STATE_GUARD) | PLACE_OFFERED))
        return 0;
    store_rlx(&forks->offered_fn, load_rlx(&place->fn));
    store_rel(J2, &forks->offer, offer_after(offer));
    const struct fork_span *span = span_of(place);
    return load_rlx(&span->in_loop) == NULL ? load_rlx(&span->id) : 0;
}

/* The thread of that span has been asked. */
static void fork_respond(struct fork_span *span) {
    struct weft_worker *seat = span->seat;
    span_rest(span);
    if (load_rlx(&seat->in_background)) return;
    if (!os_fence_is_asymmetric()) {
        fence_sc(J39);
        if (park_glance(&seat->pool->park) == 0) return;
    }
    uint64_t id = fork_offer(seat);
    fence_sc(J15);
    fork_notify(seat, id);
}

static NOINLINE void fork_at_limit(weft_place *here) {
    struct fork_span *span = span_of(here);
    bool is_asked = span_is_asked(span);
    weft_place *deeper = here == span_last(span) ? span_leave(span) : here + 1;
    if (is_asked) fork_respond(span_of(deeper));
    span->seat->forker.deeper = place_ready(deeper);
}
void fork_slow(weft_place *here) { fork_at_limit(here); }

weft_place *fork_answer(weft_place *first, weft_place *here) {
    struct fork_span *span = span_of(here);
    const struct forks *forks = forks_of(span->seat);
    if (offer_is_open(load_rlx(&forks->offer))) return here;
    if (fork_oldest(span->seat, load_rlx(&forks->offered_place), 0, NULL, false) != NULL) {
        fork_respond(span);
        return here;
    }
    while (here != first && kind_of(load_rlx(&here[-1].state)) == PLACE_DONE) {
        here--;
        fork_retake(here);
    }
    return here;
}

/* ---- taking ------------------------------------------------------------------------------------------------------- */

/* Where the seat forks calls that the filter accepts, or NULL. */
static struct fork_span *fork_current(const struct weft_worker *seat, const struct fork_filter *filter) {
    struct fork_span *span = load_acq(J17, &forks_of(seat)->current);
    return span != NULL && filter_accepts(filter, span) ? span : NULL;
}

static void span_ask(struct fork_span *span) {
    if (span != NULL && !span_is_asked(span)) store_rlx(&span->limit, NULL);
}
static void fork_ask(const struct weft_worker *seat) { span_ask(fork_current(seat, NULL)); }

void forks_ask(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = fork_seat(pool, i);
        if (seat != NULL) span_ask(fork_current(seat, filter));
    }
}

/* Has no seat gone on to a span where it is not asked? */
static bool forks_are_asked(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    bool is_asked = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = fork_seat(pool, i);
        struct fork_span *span = seat == NULL ? NULL : fork_current(seat, filter);
        if (span != NULL && !span_is_asked(span)) is_asked = false;
    }
    return is_asked;
}

static bool forks_are_under_way(const weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = fork_seat(pool, i);
        if (seat != NULL && fork_current(seat, NULL) != NULL) return true;
    }
    return false;
}

/* After the heavy fence of forks_ask_firmly. Should the barrier have been lost (fence.c), forks in older spans make light
 * fences that order nothing: unless every such span has its head for a limit, where each fork makes a full fence and looks
 * who sleeps, this waits until what those forks stored is visible. */
static void forks_settle(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    bool is_reached = true;
    for (uint32_t i = 0; i < count && !os_fence_is_asymmetric(); i++) {
        const struct weft_worker *seat = fork_seat(pool, i);
        struct fork_span *span = seat == NULL ? NULL : fork_current(seat, filter);
        if (span != NULL && load_rlx(&span->limit) != span_place(span, 0)) is_reached = false;
    }
    if (!is_reached) os_settle_heavy(J54);
}

void forks_ask_firmly(const weft_pool *pool, const struct fork_filter *filter) {
    /* Two rounds do. Whoever is here counts already among those that park_glance tells of: it is parked, dozes, or helps in a
     * wait, join or loop; or, about to leave as a scout, it has seen there for whom it asks. So who goes on to other spans
     * after the first heavy fence sees that (J19), or has answered since; where a thread went before it, the second asks. */
    for (int i = 0; i < 2 && forks_are_under_way(pool); i++) {
        forks_ask(pool, filter);
        os_fence_heavy(J20);
        forks_settle(pool, filter);
        if (forks_are_asked(pool, filter)) return;
    }
}

bool forks_are_open(const weft_pool *pool, bool force) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = fork_seat(pool, i);
        if (seat == NULL) continue;
        if (offer_is_open(load_rlx(&forks_of(seat)->offer)) || (force && fork_oldest(seat, NULL, 0, NULL, true) != NULL))
            return true;
    }
    return false;
}

/* The state of a place that the seat takes. `span`: where its region will begin. */
static uint64_t state_taken(struct weft_worker *seat, const struct fork_span *span, uint64_t state) {
    uint64_t count = ++forks_of(seat)->taken;
    return (state & STATE_GUARD) | PLACE_TAKEN | (uint64_t)seat->index << STATE_SEAT_SHIFT |
           (span->base & UINT32_MAX) << STATE_POSITION_SHIFT | count << STATE_COUNT_SHIFT;
}

/* A call that somebody runs while another thread waits for it, and its state, TAKEN, as it was found. */
struct fork_above {
    weft_place *place;
    uint64_t state;
};

/* Who may take, and what. */
struct fork_hunt {
    struct weft_worker *seat;
    struct fork_span *span;       /* where the call's own forks will be noted */
    uint64_t from;                /* calls from this position on */
    struct weft_worker *taker;    /* who runs the lowest of those above, or NULL */
    const struct fork_above *all; /* it must lie below these, each below the one before */
    uint32_t above;               /* how many */
    const struct fork_filter *filter;
};

/* Do they all run still? Asked after what was found has been acquired (J1, J47, R20): of what began after one of them
 * ended, no. */
static bool hunt_is_on(const struct fork_hunt *hunt) {
    bool is_on = true;
    for (uint32_t i = 0; i < hunt->above; i++)
        if ((load_rlx(&hunt->all[i].place->state) & ~STATE_SLEEPS) != hunt->all[i].state) is_on = false;
    return recheck(J46, is_on, true);
}

static bool hunt_accepts(const void *context, const struct loop *loop) {
    const struct fork_hunt *hunt = context;
    return loop_is_called(loop, hunt->taker, hunt->from) && hunt_is_on(hunt);
}

/* Takes what the other seat offers. */
static bool fork_take(const struct fork_hunt *hunt, struct weft_worker *other, struct fork_call *call) {
    uint64_t offer = load_acq(J1, &forks_of(other)->offer);
    if (!offer_is_open(offer)) return false;
    weft_place *place = load_acq(J57, &forks_of(other)->offered_place);
    if (position_of(place) < hunt->from) return false;
    if (!filter_accepts(hunt->filter, span_of(place))) return false;
    call->place = place;
    call->fn = load_rlx(&forks_of(other)->offered_fn);
    if (!hunt_is_on(hunt) || !cas_rel(J3, &forks_of(other)->offer, &offer, offer_after(offer))) return false;
    uint64_t state = load_rlx(&place->state);
    store_rlx(&place->state, state_taken(hunt->seat, hunt->span, state));
    if (park_glance(&other->pool->park) != 0) fork_ask(other);
    return true;
}

/* There is one. */
static weft_place *place_after(weft_place *place) {
    struct fork_span *span = span_of(place);
    return place == span_last(span) ? span_place(load_acq(J50, &span->next), SPAN_FIRST) : place + 1;
}
/* Is there a call, that may be opened if nobody knows of it? At a span's last place as fork_scan says. */
static bool may_open(weft_place *place) {
    struct fork_span *span = span_of(place);
    return load_rlx(&place->fn) != NULL && (place != span_last(span) || load_rlx(&span->next) != NULL);
}

/* Takes the call of a place that the thief has made WANTED; `back`: its state before. */
static bool place_take(const struct fork_hunt *hunt, weft_place *place, uint64_t wanted, uint64_t back,
                       struct fork_call *call) {
    call->place = place;
    call->fn = load_acq(J7, &place->fn);
    /* It may be another than was seen before. What holds now of the call that J7 has seen holds at J6, or that fails. */
    bool is_there = call->fn != NULL && recheck(J45, filter_accepts(hunt->filter, span_of(place)) && hunt_is_on(hunt), true);
    uint64_t taken = (wanted & ~STATE_KIND) | PLACE_TAKEN;
    return cas_rlx(J6, &place->state, &wanted, is_there ? taken : back) && is_there;
}

/* Calls that were WANTED are to be had. A worker may have parked meanwhile; a thief that is a scout looks as it leaves. */
static void calls_show(struct weft_worker *seat) {
    fence_sc(J55);
    fork_notify(seat, 0);
}

/* Takes the call of that place, and opens those after it, `*count` in all or as many as there are: their thread is long in
 * something else. */
static bool row_open(const struct fork_hunt *hunt, weft_place *first, uint32_t *count, struct fork_call *call) {
    uint64_t wanted = (state_taken(hunt->seat, hunt->span, 0) & ~STATE_KIND) | PLACE_WANTED;
    uint32_t most = *count;
    *count = 0;
    bool is_reached = true;
    for (weft_place *place = first; *count < most && may_open(place); place = place_after(place)) {
        uint64_t state = load_rlx(&place->state);
        if (kind_of(state) == PLACE_IDLE) (void)cas_rlx(J4, &place->state, &state, wanted | (state & STATE_GUARD));
        if ((state & STATE_GUARD) == 0) is_reached = false;
        (*count)++;
    }
    os_fence_heavy(J5);
    if (!is_reached && !os_fence_is_asymmetric()) os_settle_heavy(J51);
    weft_place *place = first;
    for (uint32_t i = 1; i < *count; i++) {
        place = place_after(place);
        uint64_t state = load_rlx(&place->state);
        uint64_t guard = state & STATE_GUARD;
        if (state != (wanted | guard)) continue;
        bool is_there = load_rlx(&place->fn) != NULL;
        (void)cas_rlx(J48, &place->state, &state, guard | (is_there ? PLACE_OPEN : PLACE_IDLE));
    }
    uint64_t guard = load_rlx(&first->state) & STATE_GUARD;
    bool has_taken = place_take(hunt, first, wanted | guard, guard | PLACE_IDLE, call);
    if (!has_taken || *count > 1) calls_show(hunt->seat);
    return has_taken;
}

/* Takes an open call. */
static bool row_take(const struct fork_hunt *hunt, weft_place *place, struct fork_call *call) {
    uint64_t state = load_rlx(&place->state);
    if (kind_of(state) != PLACE_OPEN || !hunt_is_on(hunt)) return false;
    uint64_t wanted = (state_taken(hunt->seat, hunt->span, state) & ~STATE_KIND) | PLACE_WANTED;
    if (!cas_acq(J47, &place->state, &state, wanted)) return false;
    bool has_taken = place_take(hunt, place, wanted, state, call);
    if (!has_taken) calls_show(hunt->seat);
    return has_taken;
}

/* It has taken that call of its row, or not: then it leaves the row. A row whose calls it has all taken was too short. */
static bool row_go_on(struct fork_row *row, weft_place *place, bool has_taken) {
    if (!has_taken) {
        *row = (struct fork_row){.left = 0};
        return false;
    }
    row->last = place;
    row->left--;
    if (row->left == 0) row->size = (uint32_t)min_u64(UINT64_C(2) * row->size, ROW_MAX);
    return true;
}

/* Takes the next call of the row of the other seat's that the thief is in. */
static bool row_next(const struct fork_hunt *hunt, const struct weft_worker *other, struct fork_call *call) {
    struct fork_row *row = &patterns_of(hunt->seat)->row;
    if (row->left == 0 || row->owner != other || position_of(row->last) < hunt->from) return false;
    weft_place *place = place_after(row->last);
    return row_go_on(row, place, row_take(hunt, place, call));
}

/* Takes the other seat's oldest call, though it is not offered: its thread is long in something else. */
static bool fork_force(const struct fork_hunt *hunt, const struct weft_worker *other, struct fork_call *call) {
    struct fork_row *row = &patterns_of(hunt->seat)->row;
    if (row->owner != other) *row = (struct fork_row){.owner = other, .size = ROW_FIRST};
    weft_place *place = fork_oldest(other, row->last, hunt->from, hunt->filter, true);
    if (place == NULL || !hunt_is_on(hunt)) return false;
    bool is_open = kind_of(load_rlx(&place->state)) == PLACE_OPEN;
    row->left = is_open ? 1 : row->size;
    bool has_taken = is_open ? row_take(hunt, place, call) : row_open(hunt, place, &row->left, call);
    return row_go_on(row, place, has_taken);
}

/* Has the thief taken all of the row, and its thread been asked before, and not forked since? */
static bool row_goes_on(const struct fork_hunt *hunt, const struct weft_worker *other) {
    const struct fork_row *row = &patterns_of(hunt->seat)->row;
    if (row->left > 0 || row->owner != other) return false;
    struct fork_span *span = load_acq(J17, &forks_of(other)->current);
    return span != NULL && span_is_asked(span);
}

static bool fork_get(const struct fork_hunt *hunt, struct weft_worker *other, bool force, struct fork_call *call) {
    if (row_next(hunt, other, call) || fork_take(hunt, other, call)) return true;
    return (force || row_goes_on(hunt, other)) && fork_force(hunt, other, call);
}

bool fork_find(struct weft_worker *seat, bool force, const struct fork_filter *filter, struct fork_call *call) {
    const weft_pool *pool = seat->pool;
    if (patterns_of(seat)->row.owner == NULL && !forks_are_open(pool, force)) return false;
    struct fork_hunt hunt = {.seat = seat, .span = region_span(seat), .filter = filter};
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 1; i < count && hunt.span != NULL; i++) {
        struct weft_worker *other = fork_seat(pool, worker_victim(seat, i, count));
        if (other != NULL && fork_get(&hunt, other, force, call)) return true;
    }
    return false;
}

bool fork_find_below(struct weft_worker *seat, weft_place *here, bool force, struct fork_help *help) {
    struct fork_above above[CHAIN_MAX];
    struct fork_hunt hunt = {.seat = seat, .span = region_span(seat), .all = above};
    const struct fork_filter inside = {.inside = hunt_accepts, .context = &hunt};
    while (hunt.above < CHAIN_MAX && hunt.span != NULL) {
        uint64_t state = load_rlx(&here->state);
        if (kind_of(state) != PLACE_TAKEN) return false;
        above[hunt.above++] = (struct fork_above){here, state & ~STATE_SLEEPS};
        hunt.from = (state >> STATE_POSITION_SHIFT) & UINT32_MAX;
        hunt.taker = fork_seat(seat->pool, (uint32_t)(state >> STATE_SEAT_SHIFT) % SEATS_MAX);
        if (hunt.taker == NULL) return false;
        help->number = 0;
        if (fork_get(&hunt, hunt.taker, force, &help->call)) return true;
        if (fork_find(seat, force, &inside, &help->call)) return true;
        help->number = loop_find(seat, &(struct loop_filter){hunt_accepts, &hunt, false}, &help->loop);
        if (help->number != 0) return true;
        here = load_acq(J29, &forks_of(hunt.taker)->waits_for);
        fork_ask(hunt.taker);
        forks_ask(seat->pool, &inside);
        if (here == NULL || position_of(here) < hunt.from) return false;
    }
    return false;
}
static void fork_done(const struct fork_call *call, struct weft_worker *owner) {
    uint64_t guard = load_rlx(&call->place->state) & STATE_GUARD;
    if ((xchg_rel(J14, &call->place->state, guard | PLACE_DONE) & STATE_SLEEPS) == 0) return;
    add_rel(J24, &owner->wait_event, 1);
    os_wake(&owner->wait_event, INT32_MAX);
}

void fork_detach(struct weft_worker *seat) {
    struct fork_call *call = forks_of(seat)->running;
    const struct frame *frame = seat->frame;
    line_submit(line_of(frame->record, seat->index), line_is_shared(frame->record, seat->index), 1);
    call->is_detached = true;
    fork_done(call, span_of(call->place)->seat);
}

uint32_t fork_index(const struct fork_call *call) { return load_rlx(&span_of(call->place)->index); }

void fork_run(struct weft_worker *seat, struct fork_call *call) {
    count_up(&seat->forks_taken, 1);
    struct fork_span *above = span_of(call->place);
    struct weft_worker *owner = above->seat;
    struct fork_span *span = region_span(seat);
    struct frame frame;
    frame_push(seat, &frame);
    frame.id = load_rlx(&above->id);
    frame.index = load_rlx(&above->index);
    frame.record = frame.index == 0 ? NULL : record_at(&seat->pool->groups, frame.index);
    seat->in_loop = load_rlx(&above->in_loop);
    weft_place *here = region_begin(span, frame.id, frame.index);
    struct fork_call *outer = forks_of(seat)->running;
    forks_of(seat)->running = call;
    call->is_detached = false;
    plain_read(call->place->payload, WEFT_FORK_BYTES);
    uint64_t start = trace_begin(seat);
    store_rlx(&seat->running, (uintptr_t)call->fn);
    call->fn(here, call->place->payload);
    trace_end(seat, TRACE_FORK, start, (uintptr_t)call->fn);
    forks_of(seat)->running = outer;
    if (call->is_detached)
        frame.unflushed++;
    else
        plain_write(call->place->payload, WEFT_FORK_BYTES);
    region_end(span);
    worker_flush(seat);
    frame_pop(seat);
    if (!call->is_detached) fork_done(call, owner);
}

void fork_help_run(struct weft_worker *seat, struct fork_help *help, uint64_t until_ns) {
    if (help->number != 0)
        loop_help(seat, help->loop, help->number, until_ns);
    else
        fork_run(seat, &help->call);
}

/* ---- as a source of work ------------------------------------------------------------------------------------------ */

static struct fork_call call_of(const struct source_work *work) {
    return (struct fork_call){.place = work->item, .fn = (weft_fork_fn)work->detail};
}
static bool source_find(struct weft_worker *seat, bool force, const struct source_filter *filter, struct source_work *work) {
    struct fork_call call;
    const struct fork_filter *wanted =
        filter == NULL ? NULL : &(struct fork_filter){.accepts = filter->accepts, .context = filter->context};
    if (!fork_find(seat, force, wanted, &call)) return false;
    *work = (struct source_work){&fork_source, call.place, (uintptr_t)call.fn};
    return true;
}
static uint32_t source_index_of(const struct source_work *work) {
    const struct fork_call call = call_of(work);
    return fork_index(&call);
}
static void source_run_call(struct weft_worker *seat, struct source_work *work, uint64_t until_ns) {
    struct fork_call call = call_of(work);
    (void)until_ns;
    fork_run(seat, &call);
}
static bool source_is_open(const weft_pool *pool) { return forks_are_open(pool, false); }
static bool source_holds_back(const weft_pool *pool) { return forks_are_open(pool, true); }
static void source_ask(const weft_pool *pool, const struct source_filter *filter, bool firmly) {
    const struct fork_filter *wanted =
        filter == NULL ? NULL : &(struct fork_filter){.accepts = filter->accepts, .context = filter->context};
    if (firmly)
        forks_ask_firmly(pool, wanted);
    else
        forks_ask(pool, wanted);
}

const struct source fork_source = {.find = source_find,
                                   .index = source_index_of,
                                   .run = source_run_call,
                                   .is_open = source_is_open,
                                   .holds_back = source_holds_back,
                                   .ask = source_ask};

/* ---- entering ----------------------------------------------------------------------------------------------------- */

static int enter_seated(struct weft_worker *seat, weft_place **here) {
    struct fork_span *span = region_span(seat);
    if (span == NULL) return WEFT_ENOMEM;
    const struct frame *frame = seat->frame;
    *here = region_begin(span, frame == NULL ? 0 : frame->id, frame == NULL ? 0 : frame->index);
    return WEFT_OK;
}

weft_place *fork_enter(struct weft_worker *seat) {
    weft_place *here;
    return enter_seated(seat, &here) == WEFT_OK ? here : NULL;
}
void fork_leave(weft_place *first) { region_end(span_of(first)); }

/* A thread from outside counts as a guest and forks in a frame, as a task would. */
static int enter_guest(struct weft_worker *seat, weft_place **here) {
    weft_pool *pool = seat->pool;
    add_rlx(&pool->guests, 1);
    os_fence_light(J32);
    int error = load_rlx(&pool->closed) ? WEFT_ESHUTDOWN : enter_seated(seat, here);
    if (error != WEFT_OK) {
        add_rel(J33, &pool->guests, UINT32_MAX);
        return error;
    }
    seat->guest_calls++;
    span_of(*here)->is_guest = true;
    frame_push(seat, (struct frame *)(void *)span_place(span_of(*here), 1));
    return WEFT_OK;
}

int weft_enter_layout(weft_pool *pool, weft_place **here, unsigned layout) {
    if (here == NULL) return WEFT_EINVAL;
    *here = NULL;
    if (pool == NULL || layout != WEFT_FORK_LAYOUT) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    return seat->frame == NULL ? enter_guest(seat, here) : enter_seated(seat, here);
}

void weft_leave(weft_place *here) {
    if (here == NULL) return;
    struct fork_span *span = span_of(here);
    struct weft_worker *guest = span->is_guest ? span->seat : NULL;
    region_end(span);
    if (guest == NULL) return;
    worker_flush(guest);
    frame_pop(guest);
    guest->guest_calls--;
    add_rel(J33, &guest->pool->guests, UINT32_MAX);
}

weft_worker *weft_place_worker(weft_place *here) { return here == NULL ? NULL : span_of(here)->seat; }
