/* state.h: the state that prediction keeps for each seat and pool. Only this room reads it. */
#ifndef WEFT_PREDICT_STATE_H
#define WEFT_PREDICT_STATE_H

#include "predict/affinity.h"
#include "predict/expect.h"
#include "predict/predict.h"

/* Written by the seat's own thread, but for the first. */
struct predict_seat {
    ATOMIC(uint64_t) claim_seen; /* the poller's: claim_mark of this seat's claim when it last looked */
    uint32_t timed;              /* tasks.c: claims timed since the last long one */
    uint32_t shorts;             /* how sure it is that tasks are short */
    int doubled;                 /* tasks.c: how often the pause before a look at the taken lane has doubled */
    bool feeder_is_still;        /* tasks.c: the thread that feeds the taken lane submitted one tiny task and waited */
    uint64_t timed_last[2];      /* ticks: how long tasks took in the last claims timed */
    bool polled_in_vain;         /* idle.c: nothing came while it polled: it parks now */
    bool is_placed;              /* place.c: before its present sleep */
    bool by_clock;               /* its last sleep ended at the planned time */
    uint64_t idle_since;         /* ticks: the first time that it found nothing to do after it had worked */
    uint64_t recurs_ns;          /* the moment that its loops last announced to the first worker */
    struct expect_plan plan;     /* for its present sleep */
    struct expect expect;
    struct affinity affinity;
};

/* Hints, by any thread. */
struct predict_pool {
    ATOMIC(uint64_t) run_ticks[WEFT_SLEEP_CLASSES]; /* until a woken worker runs, by how long it slept */
    ATOMIC(uint64_t) run_here_ticks;                /* the same on its waker's CPU */
    ATOMIC(uint32_t) blocks;                        /* how often short tasks were seen to block lately */
};

_Static_assert(sizeof(struct predict_seat) <= SEAT_PREDICT_BYTES && sizeof(struct predict_pool) <= POOL_PREDICT_BYTES,
               "sched/worker.h has room for them");
INLINE struct predict_seat *predict_of(const struct weft_worker *seat) {
    return (struct predict_seat *)(void *)seat->predict;
}
INLINE struct predict_pool *predict_of_pool(const weft_pool *pool) { return (struct predict_pool *)(void *)pool->predict; }

#endif
