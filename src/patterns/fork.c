/* fork.c: fork-join. Calls are noted in slots, which are private to their thread until another thread asks.
 *
 * Private records that a thief asks for: U. Acar, A. Charguéraud, M. Rainey, "Scheduling parallel programs by work stealing
 * with private deques", PPoPP 2013, doi:10.1145/2442516.2442538. Helping only below the stolen call: D. Wagner, B. Calder,
 * "Leapfrogging", PPoPP 1993, doi:10.1145/155332.155354. The light and the heavy fence are used as in claim.c.
 *
 * Where slots lie, and their order: chunk.h. Joins whose call was taken: join.c.
 *
 * Fork, join (inline, weft.h)                         Thread that is idle
 *   fork: payload, then fn (release)                    asks: limit = NULL (plain; about to sleep: heavy fence after it)
 *     light fence; slot below the chunk's limit?        finds an offer: CAS takes it (J3), state = TAKEN by me
 *     no: offers the oldest private call (J2),          no answer for long: opens a batch, the oldest private calls:
 *     fence, wakes a sleeper                              state of each IDLE -> WANTED (J4), heavy fence (J5), reads fn
 *   join: fn = NULL, light fence (J8), state IDLE?        NULL: WANTED -> IDLE, else the first is TAKEN (J6), others OPEN (J48)
 *     yes: calls                                        takes an open call: OPEN -> WANTED (J47) -> TAKEN (J6)
 *     no: join_slow: takes back the offer (J9), or WANTED or OPEN -> IDLE (J10), or waits for DONE (J11)
 *
 * state: IDLE -> OFFERED -> IDLE by the slot's thread; OFFERED -> TAKEN by the thread that took the offer; IDLE -> WANTED ->
 * TAKEN, OPEN or IDLE by a thief; OPEN -> WANTED -> TAKEN or OPEN by any thief; WANTED or OPEN -> IDLE by the slot's thread;
 * TAKEN -> DONE by the thread that ran the call; DONE -> IDLE by the slot's thread. Of the stores fn = NULL and state =
 * WANTED, the other side sees at least one (J5, J8). If both are seen, the CAS decides. A thread that joins an open call
 * sees that it is not IDLE, so taking it needs no fence. A slot with a GUARD is always joined by join_slow. The last slot of
 * a chunk has one; where light fences are not free, all slots have one, the chunk's limit is its head, and so each fork also
 * looks for sleepers.
 *
 * A batch is for calls that a thread forks one after another and then joins without looking whether another thread asks: it
 * spares the thief a fence and a wait for each call. The slot's thread takes back what is left of the batch, newest first.
 *
 * If the system's barrier stops working (fence.c), the calls forked before have no guard, and their light fences order
 * nothing. A thread that takes such a call unasked, or falls asleep while such a chunk is asked but has not answered, waits
 * as fence.c does (J51, J54). A free slot gets its guard before the next fork, a chunk its limit when its thread next looks
 * at it.
 *
 * A detached call (fork.h) is DONE as soon as its function says so, before the function does anything else. The call has
 * been counted in the group as a task of its taker by then, so the group cannot finish in between.
 *
 * An offer's word counts its changes (offer made, offer gone) in 64 bits, so that a late CAS fails. The offer's slot and
 * function stand beside the word: a thread that reads them before its CAS has those of this offer, or the CAS fails. The
 * count in a TAKEN state tells one taking from the next.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J1  fork_take: load offer           acquire  J2  neither the argument nor the function is visible yet
 *   J2  fork_offer: store offer         release  J1  see J1
 *   J3  fork_take: CAS offer            release  J9, J2  offered_fn is read after the thread's offer is gone and its next one made: another
 *                                                function runs; split: two threads run the call
 *   J56 fork_offer: store offered_slot release   J57 a slot of the next offer is read before its chunk is made, where thieves have taken
 *                                                all calls of the chunk before
 *   J57 fork_take: load offered_slot    acquire  J56 see J56
 *   J4  batch_open: CAS IDLE to WANTED  relaxed  J12 split: an offered call is run twice
 *   J5  batch_open: heavy fence         heavy    J8  each side misses the other's store (fn, state): the call runs twice
 *   J51 batch_open: settles             heavy    J8  as J5, for calls forked before the barrier was lost
 *   J7  slot_take: load fn              acquire  J44 a call forked anew after J5 runs twice, for J6 misses its thread's last store
 *                                                of the state; nor is its group visible yet
 *   J50 slot_after: load next           acquire  J49 see J49
 *   J48 batch_open: CAS WANTED          relaxed  J10 split: the call is open although its thread has joined it
 *   J47 batch_take: CAS OPEN to WANTED  acquire  J5  a thief reads a call that was joined before J5; split: two thieves run the call
 *   J6  slot_take: CAS WANTED             relaxed  J10 split: both sides run the call
 *   J45 slot_take: looks again          -        J44, J48 a wait takes a stranger's call
 *   J46 hunt_is_on: looks again         -        J14 a join takes a stranger's call, or helps with a stranger's loop
 *   J8  weft_fork_slot_pop: light fence  light   J5  see J5 (in weft.h, as the next two); where J5 is a full fence, J13 stands in
 *   J43 weft_fork_slot_push: light fence  light  J20 see J20; as J19
 *   J44 weft_fork_slot_push: store fn   release  J7  see J7
 *   J12 fork_offer: CAS IDLE to OFFERED relaxed  J4  see J4
 *   J14 fork_done: exchange state       release  J11 see J11; split: the sleeper is not seen
 *   J15 fork_respond: fence             sc       K3  a worker parks without seeing the offer, and is not seen
 *   J17 fork_current: load current, x3      acquire  J16 see J16
 *   J20 forks_ask_firmly: heavy fence   heavy    J43, J18, R10  a call forked meanwhile, or a loop below a join, is neither seen nor offered
 *   J54 forks_settle: settles           heavy    J43 as J20, for a chunk that has not been asked since the barrier was lost
 *   J24 fork_done: wait_event + 1       release  J23 see J23
 *   J29 fork_find_below: load waits_for acquire  J28 as J16
 *   J32 weft_fork_enter_layout: light fence  light    P4  a caller from outside uses a pool that destroy has found empty
 *   J39 fork_respond: fence             sc       K3  as J15
 *   J55 calls_show: fence               sc       K3  a worker parks because it saw calls WANTED, and nobody runs them
 */
#include "patterns/fork.h"

#include "patterns/chunk.h"

#define CHAIN_MAX 16u /* length of the chain of calls below calls that a waiting join follows */
#ifndef BATCH_FIRST
#define BATCH_FIRST 64u /* calls */
#endif
#define BATCH_MAX 1024u

uint64_t fork_position(const struct weft_worker *seat) {
    const struct fork_chunk *chunk = load_rlx(&forks_of(seat)->current);
    return chunk == NULL ? 0 : chunk->base + CHUNK_FIRST;
}

/* ---- offering ----------------------------------------------------------------------------------------------------- */

static bool filter_accepts(const struct fork_filter *filter, const struct fork_chunk *chunk) {
    if (filter == NULL) return true;
    const struct loop *loop = load_rlx(&chunk->in_loop);
    if (filter->inside != NULL) return loop != NULL && filter->inside(filter->context, loop);
    return filter->accepts == NULL || filter->accepts(filter->context, load_rlx(&chunk->index));
}

/* The oldest call at position `from` or later, in `chunk` or those after it, that no other thread knows of. NULL: there is
 * none, or the calls are a background task's. Exact for the seat's own thread, a guess for others. `force`: the oldest such
 * call that may be taken without an offer, or else the oldest open one. This leaves out the last slot of a chunk that has no
 * next one: a fork there may have been refused (chunk_leave), which cannot happen once there is a next chunk
 * (region_chunk). */
static weft_fork_slot *fork_scan(const struct weft_worker *seat, struct fork_chunk *chunk, uint64_t from,
                                 const struct fork_filter *filter, bool force) {
    const struct fork_chunk *current = load_acq(J17, &forks_of(seat)->current);
    if (current == NULL || load_rlx(&seat->in_background)) return NULL;
    weft_fork_slot *open = NULL;
    for (; chunk != NULL; chunk = chunk == current ? NULL : load_rlx(&chunk->next)) {
        bool is_wanted = filter_accepts(filter, chunk) && priority_lets_help(seat->pool, load_rlx(&chunk->index));
        size_t end = force && load_rlx(&chunk->next) == NULL ? CHUNK_SLOTS - 1 : CHUNK_SLOTS;
        for (size_t i = CHUNK_FIRST; is_wanted && i < end; i++) {
            weft_fork_slot *slot = chunk_slot(chunk, i);
            if (load_rlx(&slot->fn) == NULL) break;
            enum call_kind kind = kind_of(load_rlx(&slot->state));
            if (chunk->base + i < from) continue;
            if (kind == CALL_IDLE) return slot;
            if (force && kind == CALL_OPEN && open == NULL) open = slot;
        }
    }
    return open;
}

/* As fork_scan, in all chunks. `last`: a call of the seat that was taken, or NULL. Until that call is joined, other threads
 * know of all calls before it, so the search begins in its chunk. */
static weft_fork_slot *fork_oldest(const struct weft_worker *seat, weft_fork_slot *last, uint64_t from,
                                   const struct fork_filter *filter, bool force) {
    weft_fork_slot *slot = NULL;
    if (last != NULL && load_rlx(&last->fn) != NULL && kind_of(load_rlx(&last->state)) >= CALL_TAKEN)
        slot = fork_scan(seat, chunk_of(last), from, filter, force);
    return slot != NULL ? slot : fork_scan(seat, load_rlx(&forks_of(seat)->first), from, filter, force);
}

void fork_wake_joins(const weft_pool *pool) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        if (load_rlx(&forks_of(all.seat)->sleeps)) event_raise(&all.seat->wait_event);
}

/* A call of the group `id` is on offer. 0: any wait or loop may want it. */
static void fork_notify(struct weft_worker *seat, uint64_t id) {
    weft_pool *pool = seat->pool;
    if (park_glance(&pool->park) == 0) return;
    struct park_view view = park_look(&pool->park);
    if (view.searchers > 0) return;
    if (view.parked > 0 || view.polling) {
        worker_wake(seat);
        return;
    }
    fork_wake_joins(pool);
    worker_wake_helpers(pool, id);
}

/* Offers the seat's oldest private call, unless one is on offer. Returns the id for fork_notify. */
static uint64_t fork_offer(struct weft_worker *seat) {
    struct forks *forks = forks_of(seat);
    uint64_t offer = load_rlx(&forks->offer);
    if (offer_is_open(offer)) return 0;
    weft_fork_slot *slot = fork_oldest(seat, load_rlx(&forks->offered_slot), 0, NULL, false);
    if (slot == NULL) return 0;
    store_rel(J56, &forks->offered_slot, slot);
    uint64_t state = load_rlx(&slot->state);
    if (kind_of(state) != CALL_IDLE || !cas_rlx(J12, &slot->state, &state, (state & STATE_GUARD) | CALL_OFFERED)) return 0;
    store_rlx(&forks->offered_fn, load_rlx(&slot->fn));
    store_rel(J2, &forks->offer, offer_after(offer));
    const struct fork_chunk *chunk = chunk_of(slot);
    return load_rlx(&chunk->in_loop) == NULL ? group_of(seat, load_rlx(&chunk->index)) : 0;
}

/* The thread of that chunk has been asked. */
static void fork_respond(struct fork_chunk *chunk) {
    struct weft_worker *seat = chunk->seat;
    chunk_rest(chunk);
    if (load_rlx(&seat->in_background)) return;
    if (!os_fence_is_asymmetric()) {
        fence_sc(J39);
        if (park_glance(&seat->pool->park) == 0) return;
    }
    uint64_t id = fork_offer(seat);
    fence_sc(J15);
    fork_notify(seat, id);
}

static NOINLINE void fork_at_limit(weft_fork_slot *here) {
    struct fork_chunk *chunk = chunk_of(here);
    bool is_asked = chunk_is_asked(chunk);
    weft_fork_slot *deeper = here == chunk_last(chunk) ? chunk_leave(chunk) : here + 1;
    if (is_asked) fork_respond(chunk_of(deeper));
    chunk->seat->forker.deeper = slot_ready(deeper);
}
void fork_slow(weft_fork_slot *here) { fork_at_limit(here); }

weft_fork_slot *fork_answer(weft_fork_slot *first, weft_fork_slot *here) {
    struct fork_chunk *chunk = chunk_of(here);
    const struct forks *forks = forks_of(chunk->seat);
    if (offer_is_open(load_rlx(&forks->offer))) return here;
    if (fork_oldest(chunk->seat, load_rlx(&forks->offered_slot), 0, NULL, false) != NULL) {
        fork_respond(chunk);
        return here;
    }
    while (here != first && kind_of(load_rlx(&here[-1].state)) == CALL_DONE) {
        here--;
        fork_retake(here);
    }
    return here;
}

/* ---- taking ------------------------------------------------------------------------------------------------------- */

/* The chunk in which the seat now forks calls, if the filter accepts them; or NULL. */
static struct fork_chunk *fork_current(const struct weft_worker *seat, const struct fork_filter *filter) {
    struct fork_chunk *chunk = load_acq(J17, &forks_of(seat)->current);
    return chunk != NULL && filter_accepts(filter, chunk) ? chunk : NULL;
}

static void chunk_ask(struct fork_chunk *chunk) {
    if (chunk != NULL && !chunk_is_asked(chunk)) store_rlx(&chunk->limit, NULL);
}
static void fork_ask(const struct weft_worker *seat) { chunk_ask(fork_current(seat, NULL)); }

void forks_ask(const weft_pool *pool, const struct fork_filter *filter) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);) chunk_ask(fork_current(all.seat, filter));
}

/* Is every seat asked in the chunk where it forks now? */
static bool forks_are_asked(const weft_pool *pool, const struct fork_filter *filter) {
    bool is_asked = true;
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        struct fork_chunk *chunk = fork_current(all.seat, filter);
        if (chunk != NULL && !chunk_is_asked(chunk)) is_asked = false;
    }
    return is_asked;
}

static bool forks_are_under_way(const weft_pool *pool) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        if (fork_current(all.seat, NULL) != NULL) return true;
    return false;
}

/* After the heavy fence of forks_ask_firmly. If the barrier has been lost (fence.c), forks in older chunks make light fences
 * that order nothing. In a chunk whose limit is its head, each fork makes a full fence and looks for sleepers. Unless every
 * chunk asked is one of these, this waits until what those forks stored is visible. */
static void forks_settle(const weft_pool *pool, const struct fork_filter *filter) {
    bool is_reached = true;
    for (struct seats all = seats_in_use(pool); !os_fence_is_asymmetric() && seats_next(&all);) {
        struct fork_chunk *chunk = fork_current(all.seat, filter);
        if (chunk != NULL && load_rlx(&chunk->limit) != chunk_slot(chunk, 0)) is_reached = false;
    }
    if (!is_reached) os_settle_heavy(J54);
}

void forks_ask_firmly(const weft_pool *pool, const struct fork_filter *filter) {
    /* Two rounds suffice. The caller is already among the threads that park_glance reports: it is parked, polls, or helps in
     * a wait, join or loop; or it is about to leave as a searcher and has seen there the thread for which it asks. So a
     * thread that goes on to another chunk after the first heavy fence sees that (J19), or has answered since. In a chunk to
     * which a thread went before that fence, the second round asks. */
    for (int i = 0; i < 2 && forks_are_under_way(pool); i++) {
        forks_ask(pool, filter);
        os_fence_heavy(J20);
        forks_settle(pool, filter);
        if (forks_are_asked(pool, filter)) return;
    }
}

bool forks_are_open(const weft_pool *pool, bool force) {
    for (struct seats all = seats_in_use(pool); seats_next(&all);)
        if (offer_is_open(load_rlx(&forks_of(all.seat)->offer)) ||
            (force && fork_oldest(all.seat, NULL, 0, NULL, true) != NULL))
            return true;
    return false;
}

/* The state of a slot that the seat takes. `chunk`: where the seat's region for the call will begin. */
static uint64_t state_taken(struct weft_worker *seat, const struct fork_chunk *chunk, uint64_t state) {
    uint64_t count = ++forks_of(seat)->taken;
    return (state & STATE_GUARD) | CALL_TAKEN | (uint64_t)seat->index << STATE_SEAT_SHIFT |
           (chunk->base & UINT32_MAX) << STATE_POSITION_SHIFT | count << STATE_COUNT_SHIFT;
}

/* A call that one thread runs while another waits for it, and its state (TAKEN) when it was found. */
struct fork_above {
    weft_fork_slot *slot;
    uint64_t state;
};

/* Which calls the seat's thread may take. */
struct fork_hunt {
    struct weft_worker *seat;
    struct fork_chunk *chunk;     /* where the call's own forks will be noted */
    uint64_t from;                /* calls from this position on */
    struct weft_worker *taker;    /* the seat that runs the lowest of those above, or NULL */
    const struct fork_above *all; /* the call must lie below these, each below the one before */
    uint32_t above;               /* how many `all` has */
    const struct fork_filter *filter;
};

/* Do the calls above all still run? Asked after the found work was acquired (J1, J47, R20): if that work began after one of
 * them ended, the answer is no. */
static bool hunt_is_on(const struct fork_hunt *hunt) {
    bool is_on = true;
    for (uint32_t i = 0; i < hunt->above; i++)
        if ((load_rlx(&hunt->all[i].slot->state) & ~STATE_SLEEPS) != hunt->all[i].state) is_on = false;
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
    weft_fork_slot *slot = load_acq(J57, &forks_of(other)->offered_slot);
    if (position_of(slot) < hunt->from) return false;
    if (!filter_accepts(hunt->filter, chunk_of(slot))) return false;
    call->slot = slot;
    call->fn = load_rlx(&forks_of(other)->offered_fn);
    if (!hunt_is_on(hunt) || !cas_rel(J3, &forks_of(other)->offer, &offer, offer_after(offer))) return false;
    uint64_t state = load_rlx(&slot->state);
    store_rlx(&slot->state, state_taken(hunt->seat, hunt->chunk, state));
    if (park_glance(&other->pool->park) != 0) fork_ask(other);
    return true;
}

/* The next slot, which exists. */
static weft_fork_slot *slot_after(weft_fork_slot *slot) {
    struct fork_chunk *chunk = chunk_of(slot);
    return slot == chunk_last(chunk) ? chunk_slot(load_acq(J50, &chunk->next), CHUNK_FIRST) : slot + 1;
}
/* Does the slot hold a call, which may be opened if no other thread knows of it? For a chunk's last slot see fork_scan. */
static bool may_open(weft_fork_slot *slot) {
    struct fork_chunk *chunk = chunk_of(slot);
    return load_rlx(&slot->fn) != NULL && (slot != chunk_last(chunk) || load_rlx(&chunk->next) != NULL);
}

/* Takes the call of a slot that the thief has made WANTED. `back`: the state to restore otherwise. */
static bool slot_take(const struct fork_hunt *hunt, weft_fork_slot *slot, uint64_t wanted, uint64_t back,
                      struct fork_call *call) {
    call->slot = slot;
    call->fn = load_acq(J7, &slot->fn);
    /* The call may be another than the one seen before. What holds now for the call that J7 saw holds at J6, or J6 fails. */
    bool is_there = call->fn != NULL && recheck(J45, filter_accepts(hunt->filter, chunk_of(slot)) && hunt_is_on(hunt), true);
    uint64_t taken = (wanted & ~STATE_KIND) | CALL_TAKEN;
    return cas_rlx(J6, &slot->state, &wanted, is_there ? taken : back) && is_there;
}

/* Calls that were WANTED can be taken again. A worker may have parked meanwhile; a thief that is a searcher looks as it
 * leaves. */
static void calls_show(struct weft_worker *seat) {
    fence_sc(J55);
    fork_notify(seat, 0);
}

/* Takes the call of the slot `first` and opens those after it, up to `*count` in all: their thread is busy with something
 * long. Sets `*count` to their number. */
static bool batch_open(const struct fork_hunt *hunt, weft_fork_slot *first, uint32_t *count, struct fork_call *call) {
    uint64_t wanted = (state_taken(hunt->seat, hunt->chunk, 0) & ~STATE_KIND) | CALL_WANTED;
    uint32_t most = *count;
    *count = 0;
    bool is_reached = true;
    for (weft_fork_slot *slot = first; *count < most && may_open(slot); slot = slot_after(slot)) {
        uint64_t state = load_rlx(&slot->state);
        if (kind_of(state) == CALL_IDLE) (void)cas_rlx(J4, &slot->state, &state, wanted | (state & STATE_GUARD));
        if ((state & STATE_GUARD) == 0) is_reached = false;
        (*count)++;
    }
    os_fence_heavy(J5);
    if (!is_reached && !os_fence_is_asymmetric()) os_settle_heavy(J51);
    weft_fork_slot *slot = first;
    for (uint32_t i = 1; i < *count; i++) {
        slot = slot_after(slot);
        uint64_t state = load_rlx(&slot->state);
        uint64_t guard = state & STATE_GUARD;
        if (state != (wanted | guard)) continue;
        bool is_there = load_rlx(&slot->fn) != NULL;
        (void)cas_rlx(J48, &slot->state, &state, guard | (is_there ? CALL_OPEN : CALL_IDLE));
    }
    uint64_t guard = load_rlx(&first->state) & STATE_GUARD;
    bool has_taken = slot_take(hunt, first, wanted | guard, guard | CALL_IDLE, call);
    if (!has_taken || *count > 1) calls_show(hunt->seat);
    return has_taken;
}

/* Takes an open call. */
static bool batch_take(const struct fork_hunt *hunt, weft_fork_slot *slot, struct fork_call *call) {
    uint64_t state = load_rlx(&slot->state);
    if (kind_of(state) != CALL_OPEN || !hunt_is_on(hunt)) return false;
    uint64_t wanted = (state_taken(hunt->seat, hunt->chunk, state) & ~STATE_KIND) | CALL_WANTED;
    if (!cas_acq(J47, &slot->state, &state, wanted)) return false;
    bool has_taken = slot_take(hunt, slot, wanted, state, call);
    if (!has_taken) calls_show(hunt->seat);
    return has_taken;
}

/* The thief has taken the call of its batch, or leaves the batch if it has not. A batch of which it took all calls was too
 * short: the next one is longer. */
static bool batch_go_on(struct fork_batch *batch, weft_fork_slot *slot, bool has_taken) {
    if (!has_taken) {
        *batch = (struct fork_batch){.left = 0};
        return false;
    }
    batch->last = slot;
    batch->left--;
    if (batch->left == 0) batch->size = (uint32_t)min_u64(UINT64_C(2) * batch->size, BATCH_MAX);
    return true;
}

/* Takes the next call of the thief's batch, if that is of the other seat's calls. */
static bool batch_next(const struct fork_hunt *hunt, const struct weft_worker *other, struct fork_call *call) {
    struct fork_batch *batch = &patterns_of(hunt->seat)->batch;
    if (batch->left == 0 || batch->owner != other || position_of(batch->last) < hunt->from) return false;
    weft_fork_slot *slot = slot_after(batch->last);
    return batch_go_on(batch, slot, batch_take(hunt, slot, call));
}

/* Takes the other seat's oldest call although it is not offered: its thread is busy with something long. */
static bool fork_force(const struct fork_hunt *hunt, const struct weft_worker *other, struct fork_call *call) {
    struct fork_batch *batch = &patterns_of(hunt->seat)->batch;
    if (batch->owner != other) *batch = (struct fork_batch){.owner = other, .size = BATCH_FIRST};
    weft_fork_slot *slot = fork_oldest(other, batch->last, hunt->from, hunt->filter, true);
    if (slot == NULL || !hunt_is_on(hunt)) return false;
    bool is_open = kind_of(load_rlx(&slot->state)) == CALL_OPEN;
    batch->left = is_open ? 1 : batch->size;
    bool has_taken = is_open ? batch_take(hunt, slot, call) : batch_open(hunt, slot, &batch->left, call);
    return batch_go_on(batch, slot, has_taken);
}

/* Has the thief taken all of its batch, and has the batch's thread been asked and not forked since? */
static bool batch_goes_on(const struct fork_hunt *hunt, const struct weft_worker *other) {
    const struct fork_batch *batch = &patterns_of(hunt->seat)->batch;
    if (batch->left > 0 || batch->owner != other) return false;
    struct fork_chunk *chunk = load_acq(J17, &forks_of(other)->current);
    return chunk != NULL && chunk_is_asked(chunk);
}

static bool fork_get(const struct fork_hunt *hunt, struct weft_worker *other, bool force, struct fork_call *call) {
    if (batch_next(hunt, other, call) || fork_take(hunt, other, call)) return true;
    return (force || batch_goes_on(hunt, other)) && fork_force(hunt, other, call);
}

bool fork_find(struct weft_worker *seat, bool force, const struct fork_filter *filter, struct fork_call *call) {
    if (patterns_of(seat)->batch.owner == NULL && !forks_are_open(seat->pool, force)) return false;
    struct fork_hunt hunt = {.seat = seat, .chunk = region_chunk(seat), .filter = filter};
    for (struct seats others = seats_beside(seat); hunt.chunk != NULL && seats_next(&others);)
        if (fork_get(&hunt, others.seat, force, call)) return true;
    return false;
}

bool fork_find_below(struct weft_worker *seat, weft_fork_slot *here, bool force, struct fork_help *help) {
    struct fork_above above[CHAIN_MAX];
    struct fork_hunt hunt = {.seat = seat, .chunk = region_chunk(seat), .all = above};
    const struct fork_filter inside = {.inside = hunt_accepts, .context = &hunt};
    while (hunt.above < CHAIN_MAX && hunt.chunk != NULL) {
        uint64_t state = load_rlx(&here->state);
        if (kind_of(state) != CALL_TAKEN) return false;
        above[hunt.above++] = (struct fork_above){here, state & ~STATE_SLEEPS};
        hunt.from = (state >> STATE_POSITION_SHIFT) & UINT32_MAX;
        hunt.taker = worker_seat(seat->pool, (uint32_t)(state >> STATE_SEAT_SHIFT) % SEATS_MAX);
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
    uint64_t guard = load_rlx(&call->slot->state) & STATE_GUARD;
    if ((xchg_rel(J14, &call->slot->state, guard | CALL_DONE) & STATE_SLEEPS) == 0) return;
    add_rel(J24, &owner->wait_event, 1);
    os_wake(&owner->wait_event, INT32_MAX);
}

void fork_detach(struct weft_worker *seat) {
    struct fork_call *call = forks_of(seat)->running;
    const struct frame *frame = seat->frame;
    struct group_counter *counter = counter_use(&seat->pool->groups, frame->record, seat->counter, frame->id);
    counter_submit(counter, counter_is_shared(counter), 1);
    call->is_detached = true;
    seat->frame->caller = NULL; /* that frame need not wait for this one */
    fork_done(call, chunk_of(call->slot)->seat);
}

void fork_run(struct weft_worker *seat, struct fork_call *call) {
    count_up(&seat->forks_taken, 1);
    struct fork_chunk *above = chunk_of(call->slot);
    struct weft_worker *owner = above->seat;
    struct fork_chunk *chunk = region_chunk(seat);
    struct frame frame;
    frame_push(seat, &frame);
    frame_helps(seat, load_rlx(&above->frame), load_rlx(&above->index));
    seat->in_loop = load_rlx(&above->in_loop);
    weft_fork_slot *here = region_begin(chunk, &frame);
    struct fork_call *outer = forks_of(seat)->running;
    forks_of(seat)->running = call;
    call->is_detached = false;
    plain_read(call->slot->payload, WEFT_FORK_BYTES);
    uint64_t start = trace_begin(seat);
    store_rlx(&seat->running, (uintptr_t)call->fn);
    call->fn(here, call->slot->payload);
    trace_end(seat, TRACE_FORK, start, (uintptr_t)call->fn);
    forks_of(seat)->running = outer;
    if (call->is_detached)
        frame.unflushed++;
    else
        plain_write(call->slot->payload, WEFT_FORK_BYTES);
    region_end(chunk);
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

static bool source_find(struct weft_worker *seat, bool force, const struct source_filter *filter, struct source_work *work) {
    struct fork_call call;
    const struct fork_filter *wanted =
        filter == NULL ? NULL : &(struct fork_filter){.accepts = filter->accepts, .context = filter->context};
    if (!fork_find(seat, force, wanted, &call)) return false;
    *work = (struct source_work){&fork_source, call.slot, (uintptr_t)call.fn};
    return true;
}
static uint32_t source_index_of(const struct source_work *work) { return load_rlx(&chunk_of(work->item)->index); }
static void source_run_call(struct weft_worker *seat, struct source_work *work, uint64_t until_ns) {
    struct fork_call call = {.slot = work->item, .fn = (weft_fork_fn)work->detail};
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

weft_fork_slot *fork_enter(struct weft_worker *seat) {
    struct fork_chunk *chunk = region_chunk(seat);
    return chunk == NULL ? NULL : region_begin(chunk, seat->frame);
}
static int enter_seated(struct weft_worker *seat, weft_fork_slot **here) {
    *here = fork_enter(seat);
    return *here == NULL ? WEFT_ENOMEM : WEFT_OK;
}
void fork_leave(weft_fork_slot *first) { region_end(chunk_of(first)); }

/* An outside thread counts as a guest and forks in a frame, as a task would. */
static int enter_guest(struct weft_worker *seat, weft_fork_slot **here) {
    weft_pool *pool = seat->pool;
    guest_enter(seat);
    os_fence_light(J32);
    int error = load_rlx(&pool->closed) ? WEFT_ESHUTDOWN : enter_seated(seat, here);
    if (error != WEFT_OK) {
        guest_leave(seat);
        return error;
    }
    chunk_of(*here)->is_guest = true;
    chunk_of(*here)->counts = tokens_enter(pool);
    frame_push(seat, (struct frame *)(void *)chunk_slot(chunk_of(*here), 1));
    return WEFT_OK;
}

int weft_fork_enter_layout(weft_pool *pool, weft_fork_slot **here, unsigned layout) {
    if (here == NULL) return WEFT_EINVAL;
    *here = NULL;
    if (pool == NULL || layout != WEFT_FORK_LAYOUT) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    return seat->frame == NULL ? enter_guest(seat, here) : enter_seated(seat, here);
}

void weft_fork_leave(weft_fork_slot *here) {
    if (here == NULL) return;
    struct fork_chunk *chunk = chunk_of(here);
    struct weft_worker *guest = chunk->is_guest ? chunk->seat : NULL;
    bool counts = chunk->counts;
    region_end(chunk);
    if (guest == NULL) return;
    worker_flush(guest);
    frame_pop(guest);
    if (UNLIKELY(counts)) (void)tokens_leave();
    guest_leave(guest);
}

weft_worker *weft_fork_worker(weft_fork_slot *here) { return here == NULL ? NULL : chunk_of(here)->seat; }
