/* state.h: the state that forked calls and loops keep for each seat. Only this room reads it. */
#ifndef WEFT_PATTERNS_STATE_H
#define WEFT_PATTERNS_STATE_H

#include "patterns/patterns.h"

/* The forked calls of a seat (fork.c). Only `offer` is written by other threads too. */
struct fork_chunk;
struct fork_call;
struct forks {
    ATOMIC(struct fork_chunk *) first;     /* its chain of chunks; or NULL */
    ATOMIC(struct fork_chunk *) current;   /* where its thread forks; NULL: nowhere */
    ATOMIC(uint64_t) offer;                /* counts changes; odd: anybody may take the call of offered_slot */
    ATOMIC(weft_fork_slot *) offered_slot; /* written before the offer; so the next */
    ATOMIC(weft_fork_fn) offered_fn;       /* the call's */
    ATOMIC(weft_fork_slot *) waits_for;    /* its thread waits in the join of this slot, or NULL */
    ATOMIC(uint32_t) sleeps;               /* asleep there, and could help */
    uint32_t taken;                        /* calls its thread has taken */
    struct fork_call *running;             /* the one it runs, or NULL */
};

/* Calls that a thief has opened one after the other, as far as it is in them (fork.c). */
struct fork_batch {
    const struct weft_worker *owner; /* or NULL */
    weft_fork_slot *last;            /* that it has taken */
    uint32_t left;                   /* after that */
    uint32_t size;                   /* of the next batch */
};

/* How long loops took (cost.c): those of a body at a site, and those of a body that were the first at theirs. */
#define LOOP_COSTS 32u
#define LOOP_BODIES 8u
struct loop_body {
    uintptr_t function;
    uint64_t ticks_256; /* the last one, per index, in 1/256 ticks */
    uint16_t since;     /* such loops since the last long one; at most COST_NEAR */
};
struct loop_cost {
    uint64_t key;
    uint64_t ticks_256;     /* the last one, per index, in 1/256 ticks; 0: not known */
    struct loop_body *body; /* it has not run yet; else NULL */
    uint32_t short_max;     /* indices that are over before anybody could come */
    uint16_t since;         /* loops since the last long one; at most COST_NEAR */
    uint16_t doubt;         /* loops more that count as not known */
};

/* Only the seat's own thread touches a field, unless it says otherwise. */
struct patterns_seat {
    struct forks forks;          /* as it says: takers and askers */
    ATOMIC(struct loop *) loops; /* one for each depth; never shortened. Read by helpers */
    ALIGNED(CACHE_LINE) struct fork_batch batch;
    struct loop *loop; /* the innermost one that it calls, or NULL */
    uint32_t loops_alone;
    uint64_t loop_end; /* ticks: when its last loop with an open entry ended */
    uint64_t loop_row; /* ticks: how long short loops, one close after the other, have run without help */
    struct loop_cost loop_costs[LOOP_COSTS];
    struct loop_body loop_bodies[LOOP_BODIES];
};

_Static_assert(sizeof(struct patterns_seat) <= SEAT_PATTERNS_BYTES, "sched/worker.h has room for it");
INLINE struct patterns_seat *patterns_of(const struct weft_worker *seat) {
    return (struct patterns_seat *)(void *)seat->patterns;
}
/* The group, a task of which is not over, that the record of that index serves; 0: none. */
INLINE uint64_t group_of(const struct weft_worker *seat, uint32_t index) {
    return index == 0 ? 0 : load_rlx(&record_at(&seat->pool->groups, index)->id) & ~ID_MARKS;
}
/* The seat's frame is for a loop or a forked call in the caller's; the index of its group's record, or 0. */
INLINE void frame_helps(struct weft_worker *seat, struct frame *caller, uint32_t index) {
    struct frame *frame = seat->frame;
    frame->caller = caller;
    frame->index = index;
    frame->id = group_of(seat, index);
    frame->record = index == 0 ? NULL : record_at(&seat->pool->groups, index);
}
INLINE struct forks *forks_of(const struct weft_worker *seat) { return &patterns_of(seat)->forks; }

#endif
