/* fork.c: fork-join. Calls are noted in places, private to their thread until somebody asks.
 *
 * The idea of private records that a thief asks for is that of U. Acar, A. Charguéraud, M. Rainey, "Scheduling parallel programs
 * by work stealing with private deques", PPoPP 2013, doi:10.1145/2442516.2442538; helping only below the stolen call is D.
 * Wagner, B. Calder, "Leapfrogging", PPoPP 1993, doi:10.1145/155332.155354; the light and the heavy fence are claim.c's.
 *
 * A seat's places stand in a chain of spans. A place in use holds a function; places in use come first. What one thread forks
 * between entering and leaving, a region, begins in a span of its own, so every place of a chain lies above those of the
 * calls around it. A place's position is its number in the chain.
 *
 * Fork, join (inline, weft.h)                         Thread that is idle
 *   fork: payload, then fn (release)                    asks: limit = NULL (plain; about to sleep: heavy fence after it)
 *     light fence; place below the span's limit?        finds an offer: CAS takes it (J3), state = TAKEN by me
 *     no: offers the oldest private call (J2),          no answer for long: state IDLE -> WANTED (J4)
 *     fence, wakes who sleeps                             heavy fence (J5), reads fn
 *   join: fn = NULL, light fence (J8), state IDLE?        NULL: WANTED -> IDLE, else WANTED -> TAKEN (J6)
 *     yes: calls
 *     no: join_slow: takes back the offer (J9), or WANTED -> IDLE (J10), or waits for DONE (J11)
 *
 * state: IDLE -> OFFERED -> IDLE by the thread of the place; OFFERED -> TAKEN by who took the offer; IDLE -> WANTED -> TAKEN or IDLE
 * by a thief, WANTED -> IDLE by the thread of the place; TAKEN -> DONE by who ran it; DONE -> IDLE by the thread of the place. Of
 * fn = NULL and state = WANTED at least one is seen by the other side (J5, J8); both: the CAS decides. A place that is
 * GUARDed is joined by join_slow always: the last one of a span, and all where light fences are not for free.
 *
 * A detached call (fork.h) is DONE as soon as its function says so, before it does anything else. That one call by its taker has
 * been counted in the group by then, so the group cannot finish between.
 *
 * An offer's word counts its changes, so that a late CAS fails. The count in a TAKEN state tells one taking from the next.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J1  fork_take: load offer           acquire  J2  the argument is not there yet, nor the function
 *   J2  fork_offer: store offer         release  J1  see J1
 *   J3  fork_take: CAS offer            relaxed  J9  split: two run the call
 *   J4  fork_force: CAS IDLE to WANTED  relaxed  J12 split: an offered call is run twice
 *   J5  fork_force: heavy fence         heavy    J8  fn and state pass each other: the call runs twice
 *   J6  fork_force: CAS WANTED          relaxed  J10 split: both sides run the call
 *   J7  fork_force: load fn             acquire  J44 the argument of a call forked anew after J5 is not there yet, nor whose it is
 *   J45 fork_force: looks again         -        J44 a wait takes a stranger's call
 *   J46 hunt_is_on: looks again         -        J14 a join takes a stranger's call, or helps with a stranger's loop
 *   J8  weft_place_pop: light fence     light    J5  see J5 (in weft.h, as the next two). survives drop: as J19, J13 stands in
 *   J43 weft_place_push: light fence    light    J20 see J20. survives drop: as J19
 *   J44 weft_place_push: store fn       release  J7  see J7
 *   J9  weft_join_slow: CAS offer       relaxed  J3  see J3
 *   J10 weft_join_slow: CAS WANTED      relaxed  J6  see J6
 *   J11 weft_join_slow: load state      acquire  J14 the result is not there yet
 *   J12 fork_offer: CAS IDLE to OFFERED relaxed  J4  see J4
 *   J13 weft_join_slow: fence           sc       J5  see J5, where fences are full
 *   J14 fork_done: exchange state       release  J11 see J11; split: the sleeper is not seen
 *   J15 fork_respond: fence             sc       K3  a worker parks and does not see the offer, nor is it seen
 *   J16 span_switch: store current, x2  release  J17 a span is looked at before it is made, or one before it in the chain
 *   J17 fork_current: load current, x2      acquire  J16 see J16
 *   J18 region_begin: fence             sc       K3  a worker parks, asks not and is not seen
 *   J19 span_switch: light fence        light    J20 what was asked in the span left is forgotten. survives drop: a barrier to the
 *                                                compiler alone; where J20 is a full fence every span is asked always (GUARDed)
 *   J20 forks_ask_firmly: heavy fence   heavy    J43 a call forked meanwhile is not seen, and not offered
 *   J23 fork_sleep: load wait_event     acquire  J24 the join sleeps on a new event. survives order: it holds the load before J25, and
 *                                                in the explorer no load comes after a later store
 *   J24 fork_done: wait_event + 1       release  J23 see J23. survives order: as J23
 *   J25 fork_sleep: CAS TAKEN           relaxed  J14 split: DONE is overwritten, the join sleeps for ever
 *   J28 fork_await: store waits_for     release  J29 as J16. survives order: who took that call did so after its thread's J15 or by
 *                                                J5, full fences; ThreadSanitizer knows none
 *   J29 fork_find_below: load waits_for acquire  J28 as J16
 *   J32 weft_enter_layout: light fence  light    P4  a caller from outside uses a pool that destroy has found empty
 *   J33 weft_leave: guests - 1, x2      release  P10 the pool's memory goes while the caller still uses it; split: destroy waits for
 *                                                ever, or not at all
 *   J34 fork_sleep: CAS no sleeper      relaxed  J14 split: DONE is overwritten
 *   J35 seat_of: load seat              acquire  P1  a seat is looked at before it is made
 *   J39 fork_respond: fence             sc       K3  as J15
 *   J42 fork_sleep: heavy fence         heavy    J43, R10  as J20; a loop below is opened and nobody told
 */
#include "fork.h"

#include <string.h>

#include "observe.h"
#include "pool.h"
#include "real.h"

#define SPAN_PLACES (WEFT_FORK_SPAN / sizeof(weft_place))
#define SPAN_FIRST 2u /* place 0 is the head, place 1 holds a frame */
#define CHAIN_MAX 16u /* calls below calls that a waiting join follows */

struct fork_span {
    ATOMIC(weft_place *) limit; /* as in weft_span: the span's last place, NULL when asked */
    struct weft_worker *seat;
    ATOMIC(struct fork_span *) next;
    struct fork_span *outer; /* of a region's first span: where the thread forked before */
    uint64_t base;           /* position of place 0 */
    ATOMIC(uint64_t) id;     /* the group of the task that the region is in, and its record's index */
    ATOMIC(uint32_t) index;
    uint32_t refused : 30; /* forks at the last place that there was no memory for */
    uint32_t is_guest : 1; /* the region is an outside thread's */
    uint32_t is_guarded : 1;
};

/* state: GUARD | SLEEPS (the joining thread) | kind | seat (12 bits) | position of the taker's region (32) | count (15) */
#define STATE_GUARD UINT64_C(1)
#define STATE_SLEEPS UINT64_C(2)
#define STATE_KIND UINT64_C(0x1c)
#define STATE_SEAT_SHIFT 5
#define STATE_POSITION_SHIFT 17
#define STATE_COUNT_SHIFT 49
enum place_kind { PLACE_IDLE = 0, PLACE_OFFERED = 1 << 2, PLACE_WANTED = 2 << 2, PLACE_TAKEN = 3 << 2, PLACE_DONE = 4 << 2 };

/* An offer: the place's address / 64 | count (22 bits). */
#define OFFER_PLACE ((UINT64_C(1) << 42) - 1)

_Static_assert(sizeof(weft_place) == CACHE_LINE && sizeof(struct fork_span) <= sizeof(weft_place), "a head fits in a place");
_Static_assert(sizeof(struct frame) <= sizeof(weft_place) && SEATS_MAX <= 1 << 12,
               "a frame fits in a place, a seat in a state");

INLINE struct fork_span *span_of(weft_place *place) {
    return (struct fork_span *)((uintptr_t)place & ~(uintptr_t)(WEFT_FORK_SPAN - 1));
}
INLINE weft_place *span_place(struct fork_span *span, size_t i) { return (weft_place *)(void *)span + i; }
INLINE weft_place *span_last(struct fork_span *span) { return span_place(span, SPAN_PLACES - 1); }
INLINE uint64_t position_of(weft_place *place) {
    struct fork_span *span = span_of(place);
    plain_read(&span->base, sizeof span->base);
    return span->base + (uint64_t)(place - span_place(span, 0));
}
INLINE enum place_kind kind_of(uint64_t state) { return (enum place_kind)(state & STATE_KIND); }
INLINE weft_place *offered(uint64_t offer) { return (weft_place *)(uintptr_t)((offer & OFFER_PLACE) * sizeof(weft_place)); }
INLINE uint64_t offer_after(uint64_t offer, const weft_place *place) {
    return ((offer & ~OFFER_PLACE) + OFFER_PLACE + 1) | (uintptr_t)place / sizeof(weft_place);
}
uint64_t fork_position(const struct weft_worker *seat) {
    const struct fork_span *span = load_rlx(&seat->forks.current);
    return span == NULL ? 0 : span->base + SPAN_FIRST;
}
static struct weft_worker *seat_of(const weft_pool *pool, uint32_t index) { return load_acq(J35, &pool->seats[index]); }

/* ---- spans and regions -------------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static struct fork_span *span_make(struct weft_worker *seat, uint64_t base) {
    char *memory = store_get(&seat->pool->store, 2 * (size_t)WEFT_FORK_SPAN);
    if (memory == NULL) return NULL;
    struct fork_span *span = (struct fork_span *)round_up((uintptr_t)memory, WEFT_FORK_SPAN);
    if ((uintptr_t)span / sizeof(weft_place) > OFFER_PLACE - SPAN_PLACES) return NULL;
    plain_write(&span->base, sizeof span->base);
    span->seat = seat;
    span->base = base;
    span->is_guarded = !os_fence_is_asymmetric();
    for (size_t i = SPAN_FIRST; span->is_guarded && i < SPAN_PLACES; i++)
        store_rlx(&span_place(span, i)->state, STATE_GUARD);
    store_rlx(&span_last(span)->state, STATE_GUARD);
    return span;
}

static struct fork_span *span_next(struct fork_span *span) {
    struct fork_span *next = load_rlx(&span->next);
    if (next != NULL) return next;
    next = span_make(span->seat, span->base + SPAN_PLACES);
    if (next != NULL) store_rlx(&span->next, next);
    return next;
}

static struct fork_span *first_span(struct weft_worker *seat) {
    struct fork_span *span = load_rlx(&seat->forks.first);
    if (span != NULL) return span;
    span = span_make(seat, 0);
    if (span != NULL) store_rlx(&seat->forks.first, span);
    return span;
}

static void span_rest(struct fork_span *span) { store_rlx(&span->limit, span->is_guarded ? NULL : span_last(span)); }

/* The thread goes on forking in another span, or nowhere: who has asked it before has asked it still. */
static void span_switch(struct fork_span *from, struct fork_span *to) {
    store_rel(J16, &from->seat->forks.current, to);
    os_fence_light(J19);
    if (to != NULL && load_rlx(&from->limit) == NULL) store_rlx(&to->limit, NULL);
}

/* The span where the seat's next region will begin. NULL: no memory. */
static struct fork_span *region_span(struct weft_worker *seat) {
    struct fork_span *current = load_rlx(&seat->forks.current);
    return current == NULL ? first_span(seat) : span_next(current);
}

/* Begins a region there, for a task of the group `id`. */
static weft_place *region_begin(struct fork_span *span, uint64_t id, uint32_t index) {
    struct forks *forks = &span->seat->forks;
    span->outer = load_rlx(&forks->current);
    span->refused = 0;
    span->is_guest = false;
    store_rlx(&span->id, id);
    store_rlx(&span->index, index);
    span_rest(span);
    store_rel(J16, &forks->current, span);
    fence_sc(J18);
    if (park_glance(&span->seat->pool->park) != 0) store_rlx(&span->limit, NULL);
    return span_place(span, SPAN_FIRST);
}

static void region_end(struct fork_span *span) {
    ASSERT(load_rlx(&span->seat->forks.current) == span);
    span_switch(span, span->outer);
}

/* A fork at the span's last place: goes on in the next, or is refused, and then its join calls. */
static weft_place *span_leave(struct fork_span *span) {
    struct fork_span *next = span->refused > 0 ? NULL : span_next(span);
    if (next == NULL) {
        span->refused++;
        store_rlx(&span_last(span)->fn, NULL);
        return span_last(span);
    }
    next->refused = 0;
    store_rlx(&next->id, load_rlx(&span->id));
    store_rlx(&next->index, load_rlx(&span->index));
    span_rest(next);
    span_switch(span, next);
    return span_place(next, SPAN_FIRST);
}

/* The last place's join. */
static void span_return(struct fork_span *span, const void *argument, size_t size) {
    if (span->refused > 0) {
        ASSERT(argument != NULL); /* no detached call is noted here */
        span->refused--;
        memcpy(span_last(span)->payload, argument, size);
        return;
    }
    span_rest(span);
    span_switch(load_rlx(&span->next), span);
}

/* ---- offering ----------------------------------------------------------------------------------------------------- */

static bool filter_accepts(const struct fork_filter *filter, const struct fork_span *span) {
    return filter == NULL || filter->accepts(filter->context, load_rlx(&span->index));
}

/* The oldest call of the seat, from that position on, that nobody else knows of; of a background task none. Any thread; to others it is a guess. */
static weft_place *fork_oldest(const struct weft_worker *seat, uint64_t from, const struct fork_filter *filter) {
    const struct fork_span *current = load_acq(J17, &seat->forks.current);
    if (current == NULL || load_rlx(&seat->in_background)) return NULL;
    struct fork_span *span = load_rlx(&seat->forks.first);
    while (span != NULL) {
        bool is_wanted = filter_accepts(filter, span);
        for (size_t i = SPAN_FIRST; is_wanted && i < SPAN_PLACES; i++) {
            weft_place *place = span_place(span, i);
            if (load_rlx(&place->fn) == NULL) break;
            if (kind_of(load_rlx(&place->state)) == PLACE_IDLE && span->base + i >= from) return place;
        }
        if (span == current) return NULL;
        span = load_rlx(&span->next);
    }
    return NULL;
}

void fork_wake_joins(const weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        struct weft_worker *seat = seat_of(pool, i);
        if (seat == NULL || !load_rlx(&seat->forks.sleeps)) continue;
        add_rlx(&seat->wait_event, 1);
        os_wake(&seat->wait_event, INT32_MAX);
    }
}

/* Something of the group `id` is on offer. */
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

/* Offers the seat's oldest private call, unless one is on offer. Returns the group of what is; 0: not known. */
static uint64_t fork_offer(struct weft_worker *seat) {
    struct forks *forks = &seat->forks;
    uint64_t offer = load_rlx(&forks->offer);
    weft_place *place = offered(offer) == NULL ? fork_oldest(seat, 0, NULL) : NULL;
    if (place == NULL) return 0;
    uint64_t state = load_rlx(&place->state);
    if (kind_of(state) != PLACE_IDLE || !cas_rlx(J12, &place->state, &state, (state & STATE_GUARD) | PLACE_OFFERED))
        return 0;
    store_rlx(&forks->offered_fn, load_rlx(&place->fn));
    store_rel(J2, &forks->offer, offer_after(offer, place));
    return load_rlx(&span_of(place)->id);
}

/* The thread of that span has been asked. */
static void fork_respond(struct fork_span *span) {
    struct weft_worker *seat = span->seat;
    span_rest(span);
    if (load_rlx(&seat->in_background)) return;
    if (span->is_guarded) {
        fence_sc(J39);
        if (park_glance(&seat->pool->park) == 0) return;
    }
    uint64_t id = fork_offer(seat);
    fence_sc(J15);
    fork_notify(seat, id);
}

weft_place *weft_fork_slow(weft_place *here) {
    struct fork_span *span = span_of(here);
    bool is_asked = load_rlx(&span->limit) == NULL;
    weft_place *deeper = here == span_last(span) ? span_leave(span) : here + 1;
    if (is_asked) fork_respond(span_of(deeper));
    return deeper;
}

weft_place *fork_answer(weft_place *first, weft_place *here) {
    struct fork_span *span = span_of(here);
    const struct forks *forks = &span->seat->forks;
    if (offered(load_rlx(&forks->offer)) != NULL) return here;
    if (fork_oldest(span->seat, 0, NULL) != NULL) {
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
    struct fork_span *span = load_acq(J17, &seat->forks.current);
    return span != NULL && filter_accepts(filter, span) ? span : NULL;
}

static void span_ask(struct fork_span *span) {
    if (span != NULL && load_rlx(&span->limit) != NULL) store_rlx(&span->limit, NULL);
}
static void fork_ask(const struct weft_worker *seat) { span_ask(fork_current(seat, NULL)); }

void forks_ask(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = seat_of(pool, i);
        if (seat != NULL) span_ask(fork_current(seat, filter));
    }
}

/* Has no seat gone on to a span where it is not asked? */
static bool forks_are_asked(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    bool is_asked = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = seat_of(pool, i);
        const struct fork_span *span = seat == NULL ? NULL : fork_current(seat, filter);
        if (span != NULL && load_rlx(&span->limit) != NULL) is_asked = false;
    }
    return is_asked;
}

static bool forks_are_under_way(const weft_pool *pool, const struct fork_filter *filter) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = seat_of(pool, i);
        if (seat != NULL && fork_current(seat, filter) != NULL) return true;
    }
    return false;
}

void forks_ask_firmly(const weft_pool *pool, const struct fork_filter *filter) {
    /* One that has answered in between has also looked who sleeps. */
    for (int i = 0; i < 3 && forks_are_under_way(pool, filter); i++) {
        forks_ask(pool, filter);
        os_fence_heavy(J20);
        if (forks_are_asked(pool, filter)) return;
    }
}

bool forks_are_open(const weft_pool *pool, bool force) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = seat_of(pool, i);
        if (seat == NULL) continue;
        if (offered(load_rlx(&seat->forks.offer)) != NULL || (force && fork_oldest(seat, 0, NULL) != NULL)) return true;
    }
    return false;
}

/* The state of a place that the seat takes. `span`: where its region will begin. */
static uint64_t state_taken(struct weft_worker *seat, const struct fork_span *span, uint64_t state) {
    uint64_t count = ++seat->forks.taken;
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

/* Do they all run still? Asked after what was found has been acquired (J1, J7, R20): of what began after one of them ended, no. */
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
    uint64_t offer = load_acq(J1, &other->forks.offer);
    weft_place *place = offered(offer);
    if (place == NULL || position_of(place) < hunt->from) return false;
    if (!filter_accepts(hunt->filter, span_of(place))) return false;
    call->place = place;
    call->fn = load_rlx(&other->forks.offered_fn);
    if (!hunt_is_on(hunt) || !cas_rlx(J3, &other->forks.offer, &offer, offer_after(offer, NULL))) return false;
    uint64_t state = load_rlx(&place->state);
    store_rlx(&place->state, state_taken(hunt->seat, hunt->span, state));
    if (park_glance(&other->pool->park) != 0) fork_ask(other);
    return true;
}

/* Takes the other seat's oldest call, though it is not offered: its thread is long in something else. */
static bool fork_force(const struct fork_hunt *hunt, struct weft_worker *other, struct fork_call *call) {
    weft_place *place = fork_oldest(other, hunt->from, hunt->filter);
    if (place == NULL || place == span_last(span_of(place)) || !hunt_is_on(hunt)) return false;
    uint64_t state = load_rlx(&place->state);
    uint64_t taken = state_taken(hunt->seat, hunt->span, state);
    uint64_t wanted = (taken & ~STATE_KIND) | PLACE_WANTED;
    if (kind_of(state) != PLACE_IDLE || !cas_rlx(J4, &place->state, &state, wanted)) return false;
    os_fence_heavy(J5);
    call->place = place;
    call->fn = load_acq(J7, &place->fn);
    bool is_there = call->fn != NULL && (os_fence_is_asymmetric() || (state & STATE_GUARD) != 0);
    /* It may be another than was seen before J4. What holds now of the call that J7 has seen holds at J6, or that fails. */
    is_there = is_there && recheck(J45, filter_accepts(hunt->filter, span_of(place)) && hunt_is_on(hunt), true);
    return cas_rlx(J6, &place->state, &wanted, is_there ? taken : state) && is_there;
}

bool fork_find(struct weft_worker *seat, bool force, const struct fork_filter *filter, struct fork_call *call) {
    const weft_pool *pool = seat->pool;
    if (!forks_are_open(pool, force)) return false;
    struct fork_hunt hunt = {.seat = seat, .span = region_span(seat), .filter = filter};
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 1; i < count && hunt.span != NULL; i++) {
        struct weft_worker *other = seat_of(pool, worker_victim(seat, i, count));
        if (other != NULL && (fork_take(&hunt, other, call) || (force && fork_force(&hunt, other, call)))) return true;
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
    struct fork_call *call = seat->forks.running;
    const struct frame *frame = seat->frame;
    line_submit(line_of(frame->record, seat->index), line_is_shared(frame->record, seat->index), 1);
    call->is_detached = true;
    fork_done(call, span_of(call->place)->seat);
}

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
    weft_place *here = region_begin(span, frame.id, frame.index);
    struct fork_call *outer = seat->forks.running;
    seat->forks.running = call;
    call->is_detached = false;
    plain_read(call->place->payload, WEFT_FORK_BYTES);
    uint64_t start = trace_begin(seat);
    store_rlx(&seat->running, (uintptr_t)call->fn);
    call->fn(here, call->place->payload);
    trace_end(seat, TRACE_FORK, start, (uintptr_t)call->fn);
    seat->forks.running = outer;
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

/* ---- joining ------------------------------------------------------------------------------------------------------ */

/* Takes a call below the one of that place, which another thread runs, or enters a loop below it. */
static bool fork_find_below(struct weft_worker *seat, weft_place *here, bool force, struct fork_help *help) {
    struct fork_above above[CHAIN_MAX];
    struct fork_hunt hunt = {.seat = seat, .span = region_span(seat), .all = above};
    while (hunt.above < CHAIN_MAX && hunt.span != NULL) {
        uint64_t state = load_rlx(&here->state);
        if (kind_of(state) != PLACE_TAKEN) return false;
        above[hunt.above++] = (struct fork_above){here, state & ~STATE_SLEEPS};
        hunt.from = (state >> STATE_POSITION_SHIFT) & UINT32_MAX;
        hunt.taker = seat_of(seat->pool, (uint32_t)(state >> STATE_SEAT_SHIFT) % SEATS_MAX);
        if (hunt.taker == NULL) return false;
        help->number = 0;
        if (fork_take(&hunt, hunt.taker, &help->call) || (force && fork_force(&hunt, hunt.taker, &help->call))) return true;
        help->number = loop_find(seat, &(struct loop_filter){hunt_accepts, &hunt, false}, &help->loop);
        if (help->number != 0) return true;
        here = load_acq(J29, &hunt.taker->forks.waits_for);
        fork_ask(hunt.taker);
        if (here == NULL || position_of(here) < hunt.from) return false;
    }
    return false;
}

/* Says that it sleeps, looks once more, sleeps until the call is done or something below it is offered. */
static void fork_sleep(struct weft_worker *seat, weft_place *here, bool helps) {
    weft_pool *pool = seat->pool;
    struct fork_help help;
    bool has_help = false;
    uint32_t event = load_acq(J23, &seat->wait_event);
    uint64_t state = load_rlx(&here->state);
    if (kind_of(state) == PLACE_DONE || !cas_rlx(J25, &here->state, &state, state | STATE_SLEEPS)) return;
    store_rlx(&seat->forks.sleeps, helps);
    add_rlx(&pool->park.word[0].helpers, helps);
    if (helps) {
        has_help = fork_find_below(seat, here, false, &help);
        if (!has_help) {
            os_fence_heavy(J42);
            has_help = fork_find_below(seat, here, true, &help);
        }
    }
    if (!has_help) {
        uint64_t start = trace_begin(seat);
        count_up(&seat->parks, 1);
        pool_hold_up(seat);
        os_wait(&seat->wait_event, event, 0);
        pool_let_go(seat);
        trace_end(seat, TRACE_WAIT, start, 0);
    }
    store_rlx(&seat->forks.sleeps, 0);
    add_rlx(&pool->park.word[0].helpers, -(uint32_t)helps);
    state = load_rlx(&here->state);
    while (kind_of(state) != PLACE_DONE)
        if (cas_rlx(J34, &here->state, &state, state & ~STATE_SLEEPS)) break;
    if (has_help) fork_help_run(seat, &help, 0);
}

/* Until the call of that place is done. */
static void fork_await(struct weft_worker *seat, weft_place *here, bool helps) {
    weft_pool *pool = seat->pool;
    struct fork_help help;
    helps = helps && (pool->helps || seat->is_worker);
    weft_place *outer = load_rlx(&seat->forks.waits_for);
    store_rel(J28, &seat->forks.waits_for, here);
    uint64_t start = os_ticks();
    uint64_t asked = start;
    uint32_t turn = 0;
    for (;;) {
        uint64_t state = load_rlx(&here->state);
        if (kind_of(state) == PLACE_DONE) break;
        uint64_t now = os_ticks();
        bool force = now - asked >= pool->patience_ticks;
        if (force) asked = now;
        bool has_help = helps && fork_find_below(seat, here, force, &help);
        bool is_long = !has_help && now - start >= real_spin_ticks(seat);
        bool sleeps = is_long && kind_of(state) == PLACE_TAKEN;
        if (has_help || sleeps) count_up(&seat->spin_ticks, now - start);
        if (has_help) fork_help_run(seat, &help, 0);
        if (sleeps) fork_sleep(seat, here, helps);
        if (has_help || sleeps)
            start = asked = os_ticks();
        else if (is_long)
            os_yield(); /* its taker is between J3 and TAKEN, perhaps on this CPU, and of lower priority */
        else
            os_pause();
        os_take_turns(&turn);
    }
    count_up(&seat->spin_ticks, os_ticks() - start);
    store_rlx(&seat->forks.waits_for, outer);
}

/* Takes the call of that place back, or waits until another has run it: true. */
static bool fork_resolve(struct weft_worker *seat, weft_place *here, bool helps) {
    for (;;) {
        uint64_t state = load_acq(J11, &here->state);
        uint64_t offer = load_rlx(&seat->forks.offer);
        switch (kind_of(state)) {
        case PLACE_IDLE: return false;
        case PLACE_OFFERED:
            if (offered(offer) == here && cas_rlx(J9, &seat->forks.offer, &offer, offer_after(offer, NULL))) return false;
            fork_await(seat, here, helps);
            break;
        case PLACE_WANTED:
            if (cas_rlx(J10, &here->state, &state, state & STATE_GUARD)) return false;
            break;
        case PLACE_TAKEN: fork_await(seat, here, helps); break;
        case PLACE_DONE: return true;
        }
    }
}

int weft_join_slow(weft_place *here, const void *argument, size_t size) {
    struct fork_span *span = span_of(here);
    uint64_t guard = load_rlx(&here->state) & STATE_GUARD;
    if (guard) fence_sc(J13);
    bool is_done = fork_resolve(span->seat, here, argument != NULL); /* a detached call's taker needs no help */
    store_rlx(&here->state, guard);
    if (here == span_last(span)) span_return(span, argument, size);
    if (is_done) plain_read(here->payload, WEFT_FORK_BYTES);
    return is_done;
}

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
