/* trace.h: a ring of a thread's newest events. Layer 7. The protocol is in trace.c. */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "sched/sched.h"

struct trace_event {
    uint64_t start; /* ticks */
    uint64_t end;
    uint64_t what; /* a function, or what the kind says */
    enum trace_kind kind;
    uint32_t detail; /* its lowest TRACE_DETAIL_BITS */
    uint64_t place;  /* a cell, as trace_place gives it; or what the kind says */
};
#define TRACE_KIND_BITS 4u
#define TRACE_DETAIL_BITS 20u
#define TRACE_PLACE_BITS 40u
/* TRACE_SUBMIT: `what` tasks of `detail & TRACE_STRIDE` cells each; `detail & TRACE_GUESSED`: the clock was not read, and it was later. */
#define TRACE_STRIDE 0xffu
#define TRACE_GUESSED 0x100u
#define SUBMIT_RUN_US 10u /* submissions are noted together for so long */
/* One more kind: from `start` on another thread has the seat; `what` is that thread's number, `place` the previous one's. */
#define TRACE_OWNER TRACE_KINDS
_Static_assert(TRACE_KINDS < 1u << TRACE_KIND_BITS && RECORDS_MAX <= 1u << TRACE_DETAIL_BITS, "they share a word");

/* A number for a cell, from its address. No two cells of a pool have the same. */
INLINE uint64_t trace_place(const struct cell *cell) {
    return (uintptr_t)cell / CELL_BYTES & ((UINT64_C(1) << TRACE_PLACE_BITS) - 1);
}

#define TRACE_WORDS 4u
struct trace_slot {
    ATOMIC(uint64_t) word[TRACE_WORDS];
};

struct trace_ring {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) count; /* events ever added */
    ATOMIC(uint64_t) first;                     /* the first event of the latest recording */
    uint64_t recording;                         /* its number; the writer's */
    uint64_t events;                            /* slots, a power of two */
    ATOMIC(uint32_t) thread;                    /* the number of the thread that added the newest event; 0: none */
    uint64_t published, publishing;             /* publish.c's: events that it has counted; that it is about to count */
    struct trace_slot slot[];
};

INLINE size_t trace_ring_bytes(uint64_t events) { return sizeof(struct trace_ring) + events * sizeof(struct trace_slot); }

/* What an event says apart from its times and its `what`. */
INLINE uint64_t trace_label(enum trace_kind kind, uint32_t detail, uint64_t place) {
    return kind | (uint64_t)detail << TRACE_KIND_BITS | place << (TRACE_KIND_BITS + TRACE_DETAIL_BITS);
}

#define TRACE_AHEAD 8u /* slots: the line that the next events need is prefetched this far ahead */

/* Adds an event. One thread adds to a ring. If there is no room, the new event replaces the oldest one. */
INLINE void trace_add(struct trace_ring *ring, uint64_t start, uint64_t end, uint64_t what, uint64_t label) {
    uint64_t count = load_rlx(&ring->count);
    struct trace_slot *slot = &ring->slot[count & (ring->events - 1)];
    prefetch_write(&ring->slot[(count + TRACE_AHEAD) & (ring->events - 1)]);
    store_rel(Q1, &slot->word[0], start);
    store_rel(Q1, &slot->word[1], end);
    store_rel(Q1, &slot->word[2], what);
    store_rel(Q1, &slot->word[3], label);
    store_rel(Q2, &ring->count, count + 1);
}
/* Any thread: how many events were ever added. All earlier ones can be read, unless newer ones have replaced them. */
uint64_t trace_count(const struct trace_ring *ring);
/* Any thread: the event of that number. false: it was replaced, or is about to be. */
bool trace_read(const struct trace_ring *ring, uint64_t number, struct trace_event *event);

#endif
