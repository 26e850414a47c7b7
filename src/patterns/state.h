/* state.h: the state that forked calls and loops keep for each seat. Only this room reads it. */
#ifndef WEFT_PATTERNS_STATE_H
#define WEFT_PATTERNS_STATE_H

#include "patterns/patterns.h"

/* The forked calls of a seat (fork.c). Only `offer` is written by other threads too. */
struct fork_chunk;
struct fork_call;
struct forks {
    ATOMIC(struct fork_chunk *) first;     /* its chain of chunks; or NULL */
    ATOMIC(struct fork_chunk *) current;   /* the chunk where its thread forks; NULL: none */
    ATOMIC(uint64_t) offer;                /* counts changes; odd: anybody may take the call of offered_slot */
    ATOMIC(weft_fork_slot *) offered_slot; /* written before the offer; so is the next */
    ATOMIC(weft_fork_fn) offered_fn;       /* the call's */
    ATOMIC(weft_fork_slot *) waits_for;    /* its thread waits in the join of this slot, or NULL */
    ATOMIC(uint32_t) sleeps;               /* nonzero: it sleeps there, and could help */
    uint32_t taken;                        /* calls its thread has taken */
    struct fork_call *running;             /* the one it runs, or NULL */
};

/* A batch of calls that a thief has opened, and how far it has got in it (fork.c). */
struct fork_batch {
    const struct weft_worker *owner; /* the seat whose calls they are, or NULL */
    weft_fork_slot *last;            /* the last call that the thief has taken */
    uint32_t left;                   /* calls after that */
    uint32_t size;                   /* of the next batch */
};

/* How long loops took (cost.c): loops of a body at a site, and for each body, the first loops at their sites. */
#define LOOP_COSTS 32u
#define LOOP_BODIES 8u
struct loop_body {
    uintptr_t function;
    uint64_t ticks_256; /* the last one, per index, in 1/256 ticks */
    uint8_t since;      /* such loops since the last long one; at most COST_NEAR */
};
struct loop_cost {
    uint64_t key;
    uint64_t ticks_256;     /* the last one, per index, in 1/256 ticks; 0: not known */
    struct loop_body *body; /* set until its first loop has run; then NULL */
    uint32_t short_max;     /* the most indices that are over before a helper could come */
    uint16_t doubt;         /* how many more loops count as not known */
    uint8_t since;          /* loops since the last long one; at most COST_NEAR */
    uint8_t look;           /* when to look at the next one alone: cost_looks */
};

/* Only the seat's own thread touches a field, unless its comment says otherwise. */
struct patterns_seat {
    struct forks forks;          /* takers and askers, too, as struct forks says */
    ATOMIC(struct loop *) loops; /* one for each depth; never shortened. Read by helpers */
    ALIGNED(CACHE_LINE) struct fork_batch batch;
    struct loop *loop; /* the innermost loop that the seat calls, or NULL */
    uint64_t loop_end; /* ticks: when its last loop with an open entry ended */
    uint64_t loop_row; /* ticks: how long short loops in close succession have run without a wake */
    struct loop_cost loop_costs[LOOP_COSTS];
    struct loop_body loop_bodies[LOOP_BODIES];
};

_Static_assert(sizeof(struct patterns_seat) <= SEAT_PATTERNS_BYTES, "sched/worker.h has room for it");
INLINE struct patterns_seat *patterns_of(const struct weft_worker *seat) {
    return (struct patterns_seat *)(void *)seat->patterns;
}
/* The group that the record with that index serves; a task of the group is not over. 0: no group. */
INLINE uint64_t group_of(const struct weft_worker *seat, uint32_t index) {
    return index == 0 ? 0 : load_rlx(&record_at(&seat->pool->groups, index)->id) & ~ID_MARKS;
}
/* Makes the seat's frame that of a helper with a loop or forked call in the frame `caller`. `index`: of the record of that
 * frame's group, or 0. */
INLINE void frame_helps(struct weft_worker *seat, struct frame *caller, uint32_t index) {
    struct frame *frame = seat->frame;
    frame->caller = caller;
    frame->index = index;
    frame->id = group_of(seat, index);
    frame->record = index == 0 ? NULL : record_at(&seat->pool->groups, index);
}
INLINE struct forks *forks_of(const struct weft_worker *seat) { return &patterns_of(seat)->forks; }

#endif
