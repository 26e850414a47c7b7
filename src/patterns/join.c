/* join.c: joins a call that other threads know of: takes it back, or waits and helps below it. The protocol is in fork.c.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J9  weft_fork_join_slow: CAS offer       relaxed  J3  see J3
 *   J10 weft_fork_join_slow: CAS WANTED, OPEN  relaxed  J6, J47, J48  see J6, J47, J48
 *   J11 weft_fork_join_slow: load state      acquire  J14 the result is not visible yet
 *   J13 weft_fork_join_slow: fence           sc       J5  see J5, where fences are full
 *   J23 join_sleep: load wait_event     acquire  J24 the join sleeps on the new event: the load would come after J25
 *   J25 join_sleep: CAS TAKEN           relaxed  J14 split: DONE is overwritten, the join sleeps forever
 *   J28 join_await: store waits_for     release  J29 as J16. survives order: that call was taken after its thread's J15 or by J5,
 *                                                full fences; ThreadSanitizer knows none
 *   J34 join_sleep: CAS no sleeper      relaxed  J14 split: DONE is overwritten
 */
#include "patterns/fork.h"
#include "patterns/chunk.h"

bool join_waits(const struct weft_worker *seat) { return load_rlx(&forks_of(seat)->waits_for) != NULL; }

/* Announces that it sleeps, looks once more, and sleeps until the call is done or work below it is offered. */
static void join_sleep(struct weft_worker *seat, weft_fork_slot *here, bool helps) {
    weft_pool *pool = seat->pool;
    struct fork_help help;
    bool has_help = false;
    uint32_t event = load_acq(J23, &seat->wait_event);
    uint64_t state = load_rlx(&here->state);
    if (kind_of(state) == CALL_DONE || !cas_rlx(J25, &here->state, &state, state | STATE_SLEEPS)) return;
    store_rlx(&forks_of(seat)->sleeps, helps);
    add_rlx(&pool->park.word[0].helpers, helps);
    if (helps) {
        forks_ask_firmly(pool, NULL); /* makes the fence, too, because this thread forks */
        has_help = fork_find_below(seat, here, true, &help);
    }
    if (!has_help) pool_sleep(seat, event, 0);
    store_rlx(&forks_of(seat)->sleeps, 0);
    add_rlx(&pool->park.word[0].helpers, -(uint32_t)helps);
    state = load_rlx(&here->state);
    while (kind_of(state) != CALL_DONE)
        if (cas_rlx(J34, &here->state, &state, state & ~STATE_SLEEPS)) break;
    if (has_help) fork_help_run(seat, &help, 0);
}

/* Waits until the call of the slot is done. */
static void join_await(struct weft_worker *seat, weft_fork_slot *here, bool helps) {
    weft_pool *pool = seat->pool;
    struct fork_help help;
    helps = helps && (pool->helps || seat->is_worker);
    weft_fork_slot *outer = load_rlx(&forks_of(seat)->waits_for);
    store_rel(J28, &forks_of(seat)->waits_for, here);
    uint64_t start = os_ticks();
    uint64_t asked = start;
    uint32_t turn = 0;
    for (;;) {
        uint64_t state = load_rlx(&here->state);
        if (kind_of(state) == CALL_DONE) break;
        uint64_t now = os_ticks();
        bool force = now - asked >= pool->patience_ticks;
        if (force) asked = now;
        bool has_help = helps && fork_find_below(seat, here, force, &help);
        bool is_long = !has_help && now - start >= realtime_spin_ticks(seat);
        bool sleeps = is_long && kind_of(state) == CALL_TAKEN;
        if (has_help || sleeps) count_up(&seat->spin_ticks, now - start);
        if (has_help) fork_help_run(seat, &help, 0);
        if (sleeps) join_sleep(seat, here, helps);
        if (has_help || sleeps)
            start = asked = os_ticks();
        else if (is_long)
            os_yield(); /* its taker is between J3 and TAKEN, perhaps on this CPU with a lower priority */
        else
            os_pause();
        find_take_turns(seat, &turn);
    }
    count_up(&seat->spin_ticks, os_ticks() - start);
    store_rlx(&forks_of(seat)->waits_for, outer);
}

/* false: has taken the slot's call back. true: another thread has run it. */
static bool join_resolve(struct weft_worker *seat, weft_fork_slot *here, bool helps) {
    for (;;) {
        uint64_t state = load_acq(J11, &here->state);
        uint64_t offer = load_rlx(&forks_of(seat)->offer);
        switch (kind_of(state)) {
        case CALL_IDLE: return false;
        case CALL_OFFERED:
            if (offer_is_open(offer) && load_rlx(&forks_of(seat)->offered_slot) == here &&
                cas_rlx(J9, &forks_of(seat)->offer, &offer, offer_after(offer)))
                return false;
            join_await(seat, here, helps);
            break;
        case CALL_WANTED:
        case CALL_OPEN:
            if (cas_rlx(J10, &here->state, &state, state & STATE_GUARD)) return false;
            break;
        case CALL_TAKEN: join_await(seat, here, helps); break;
        case CALL_DONE: return true;
        }
    }
}

void weft_fork_misused(int is_join) {
    os_die(is_join ? "a join of a call that is not the last one forked and not joined"
                   : "a fork at a slot in use: the slot that the fork before returned is to be used");
}

int weft_fork_join_slow(weft_fork_slot *here, const void *argument, size_t size) {
    struct fork_chunk *chunk = chunk_of(here);
    uint64_t guard = load_rlx(&here->state) & STATE_GUARD;
    if (guard) fence_sc(J13);
    bool is_done = join_resolve(chunk->seat, here, argument != NULL); /* a detached call's taker needs no help */
    store_rlx(&here->state, guard);
    if (here == chunk_last(chunk)) chunk_return(chunk, argument, size);
    if (is_done) plain_read(here->payload, WEFT_FORK_BYTES);
    return is_done;
}
