/* at_rest.h: what must hold of a pool when all that was begun in it is done, whatever that was: each count of those who are
 * inside something is back at zero. */
#ifndef WEFT_EXPLORE_AT_REST_H
#define WEFT_EXPLORE_AT_REST_H

#include "explore.h"
#include "patterns/state.h"

/* Calls that threads from outside are in. */
INLINE uint32_t guest_calls(const weft_pool *pool) {
    uint32_t calls = 0;
    for (uint32_t i = pool->workers_max; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat != NULL) calls += load_rlx(&seat->guest_calls);
    }
    return calls;
}

/* Every wait, join and loop has returned; the pool's own threads may run, and find nothing. */
INLINE void expect_nobody_inside(const weft_pool *pool) {
    for (uint32_t i = 0; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat == NULL) continue;
        EXPECT(load_rlx(&seat->wait_id) == 0 && load_rlx(&seat->wait_helps) == 0);
        EXPECT(load_rlx(&forks_of(seat)->sleeps) == 0 && load_rlx(&forks_of(seat)->waits_for) == NULL);
        EXPECT(load_rlx(&forks_of(seat)->current) == NULL && load_rlx(&seat->inside) == 0);
        EXPECT(seat->blocking == 0 && load_rlx(&seat->guest_calls) == 0 && !seat->offers);
    }
    EXPECT(load_rlx(&pool->guests_asleep) == 0 && load_rlx(&pool->park.word[0].helpers) == 0);
    EXPECT(load_rlx(&pool->offers) == 0 && load_rlx(&pool->held_up) == 0 && load_rlx(&pool->room_wanted) == 0);
    EXPECT(load_rlx(&pool->blocked) >> 32 == 0);
}

/* The pool's own threads have ended, too. */
INLINE void expect_at_rest(const weft_pool *pool) {
    uint32_t biased = 0;
    expect_nobody_inside(pool);
    for (uint32_t i = 0; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat == NULL) continue;
        EXPECT(load_rlx(&seat->in_background) == 0);
        biased += load_rlx(&seat->biased);
    }
    EXPECT(load_rlx(&pool->biased) == biased && load_rlx(&pool->background_runs) == 0 && load_rlx(&pool->blocked) == 0);
}

#endif
