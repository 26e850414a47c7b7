/* span.h: places, where forked calls are noted, and the spans and regions that they stand in. Layer 6. fork.c tells what
 * for.
 *
 * A seat's places stand in a chain of spans. A place in use holds a function; places in use come first. What one thread
 * forks between entering and leaving, a region, begins in a span of its own, so every place of a chain lies above those
 * of the calls around it. A place's position is its number in the chain. */
#ifndef WEFT_SPAN_H
#define WEFT_SPAN_H

#include "patterns/state.h"

#define SPAN_PLACES (WEFT_FORK_SPAN / sizeof(weft_place))
#define SPAN_FIRST 2u /* place 0 is the head, place 1 holds a frame */

struct fork_span {
    ATOMIC(weft_place *) limit; /* as in weft_span: the last place; NULL when asked; the head where each fork looks around */
    struct weft_worker *seat;   /* begins with the forker */
    ATOMIC(struct fork_span *) next;
    struct fork_span *outer;       /* of a region's first span: where the thread forked before */
    uint64_t base;                 /* position of place 0 */
    ATOMIC(struct loop *) in_loop; /* in whose body the region is, or the fork of the call that it is in; or NULL */
    ATOMIC(uint64_t) id;           /* the group of the task that the region is in, and its record's index */
    ATOMIC(uint32_t) index;
    uint32_t refused : 30; /* forks at the last place that there was no memory for */
    uint32_t is_guest : 1; /* the region is an outside thread's */
};

/* state: GUARD | SLEEPS (the joining thread) | kind | seat (12 bits) | position of the taker's region (32) | count (15) */
#define STATE_GUARD UINT64_C(1)
#define STATE_SLEEPS UINT64_C(2)
#define STATE_KIND UINT64_C(0x1c)
#define STATE_SEAT_SHIFT 5
#define STATE_POSITION_SHIFT 17
#define STATE_COUNT_SHIFT 49
enum place_kind {
    PLACE_IDLE = 0,
    PLACE_OFFERED = 1 << 2,
    PLACE_WANTED = 2 << 2,
    PLACE_TAKEN = 3 << 2,
    PLACE_DONE = 4 << 2,
    PLACE_OPEN = 5 << 2
};

_Static_assert(sizeof(weft_place) == CACHE_LINE && sizeof(struct fork_span) <= sizeof(weft_place), "a head fits in a place");
_Static_assert(offsetof(struct fork_span, seat) == offsetof(struct weft_span, forker) &&
                   offsetof(struct weft_worker, forker) == 0,
               "a seat is a forker");
_Static_assert(sizeof(struct frame) <= sizeof(weft_place) && SEATS_MAX <= 1 << 12,
               "a frame fits in a place, a seat in a state");

INLINE struct fork_span *span_of(weft_place *place) {
    return (struct fork_span *)((uintptr_t)place & ~(uintptr_t)(WEFT_FORK_SPAN - 1));
}
INLINE weft_place *span_place(struct fork_span *span, size_t i) {
    ASSERT(i < SPAN_PLACES);
    return (weft_place *)(void *)span + i;
}
INLINE weft_place *span_last(struct fork_span *span) { return span_place(span, SPAN_PLACES - 1); }
INLINE uint64_t position_of(weft_place *place) {
    struct fork_span *span = span_of(place);
    plain_read(&span->base, sizeof span->base);
    return span->base + (uint64_t)(place - span_place(span, 0));
}
INLINE enum place_kind kind_of(uint64_t state) { return (enum place_kind)(state & STATE_KIND); }
INLINE bool offer_is_open(uint64_t offer) { return (offer & 1) != 0; }
INLINE uint64_t offer_after(uint64_t offer) { return offer + 1; }

INLINE bool span_is_asked(struct fork_span *span) { return load_rlx(&span->limit) != span_last(span); }
/* Nobody has asked the span's thread. */
INLINE void span_rest(struct fork_span *span) {
    store_rlx(&span->limit, LIKELY(os_fence_is_asymmetric()) ? span_last(span) : span_place(span, 0));
}
/* The same place, free, for the next fork: where light fences order nothing, its join is to make a full one. A thief who was late
 * at it fails (J6, J48). */
INLINE weft_place *place_ready(weft_place *place) {
    if (LIKELY(os_fence_is_asymmetric()) || (load_rlx(&place->state) & STATE_GUARD) != 0) return place;
    store_rlx(&place->state, STATE_GUARD);
    return place;
}

/* weft_forker.slow. Programs compiled with clang rely on its keeping their registers. */
#if defined(__x86_64__) && !defined(__clang__)
void fork_slow(weft_place *here) __attribute__((target("general-regs-only"), no_caller_saved_registers));
#else
void fork_slow(weft_place *here) WEFT_FORK_KEEPS;
#endif

/* The span where the seat's next region will begin. NULL: no memory. */
struct fork_span *region_span(struct weft_worker *seat);
/* Begins a region there, for a task of the group `id`, in the loop that the seat is in; its first place. */
weft_place *region_begin(struct fork_span *span, uint64_t id, uint32_t index);
void region_end(struct fork_span *span);

/* A fork at the span's last place: goes on in the next, or is refused, and then its join calls. Returns the place for the
 * next. */
weft_place *span_leave(struct fork_span *span);
/* The last place's join. */
void span_return(struct fork_span *span, const void *argument, size_t size);

#endif
