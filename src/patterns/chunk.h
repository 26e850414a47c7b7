/* chunk.h: the slots of forked calls, and the chunks and regions that contain them. Layer 6. fork.c has the protocol.
 *
 * A seat's slots are in a chain of chunks. A slot in use holds a function; slots in use come first. A region, the calls that
 * a thread forks between entering and leaving, begins in a new chunk. So every slot lies after those of the calls around it.
 * A
 * slot's position is its number in the chain. */
#ifndef WEFT_CHUNK_H
#define WEFT_CHUNK_H

#include "patterns/state.h"

#define CHUNK_SLOTS (WEFT_FORK_CHUNK / sizeof(weft_fork_slot))
#define CHUNK_FIRST 3u /* slot 0 is the head, the next two hold a frame */

struct fork_chunk {
    ATOMIC(weft_fork_slot *)
    limit; /* as in weft_fork_chunk: the last slot; NULL when asked; the head if each fork must look for sleepers */
    struct weft_worker *seat; /* begins with the forker */
    ATOMIC(struct fork_chunk *) next;
    struct fork_chunk *outer;      /* of a region's first chunk: where the thread forked before */
    uint64_t base;                 /* position of slot 0 */
    ATOMIC(struct loop *) in_loop; /* the loop in whose body the region, or the fork of its call, is; or NULL */
    ATOMIC(struct frame *) frame;  /* the region's frame, or NULL; `index`: of the record of the frame's group */
    ATOMIC(uint32_t) index;
    uint32_t refused : 30; /* forks at the last slot refused for want of memory; no next chunk until all are joined */
    uint32_t is_guest : 1; /* the region is an outside thread's */
    uint32_t counts : 1;   /* and that thread counts because of it (sched/tokens.h) */
};

/* state: GUARD | SLEEPS (the joining thread) | kind | seat (12 bits) | position of the taker's region (32) | count (15) */
#define STATE_GUARD UINT64_C(1)
#define STATE_SLEEPS UINT64_C(2)
#define STATE_KIND UINT64_C(0x1c)
#define STATE_SEAT_SHIFT 5
#define STATE_POSITION_SHIFT 17
#define STATE_COUNT_SHIFT 49
enum call_kind {
    CALL_IDLE = 0,
    CALL_OFFERED = 1 << 2,
    CALL_WANTED = 2 << 2,
    CALL_TAKEN = 3 << 2,
    CALL_DONE = 4 << 2,
    CALL_OPEN = 5 << 2
};

_Static_assert(sizeof(weft_fork_slot) == CACHE_LINE && sizeof(struct fork_chunk) <= sizeof(weft_fork_slot),
               "a head fits in a slot");
_Static_assert(offsetof(struct fork_chunk, seat) == offsetof(struct weft_fork_chunk, forker) &&
                   offsetof(struct weft_worker, forker) == 0,
               "a seat is a forker");
_Static_assert(sizeof(struct frame) <= (CHUNK_FIRST - 1) * sizeof(weft_fork_slot) && SEATS_MAX <= 1 << 12,
               "a frame fits in its slots, a seat in a state");

INLINE struct fork_chunk *chunk_of(weft_fork_slot *slot) {
    return (struct fork_chunk *)((uintptr_t)slot & ~(uintptr_t)(WEFT_FORK_CHUNK - 1));
}
INLINE weft_fork_slot *chunk_slot(struct fork_chunk *chunk, size_t i) {
    ASSERT(i < CHUNK_SLOTS);
    return (weft_fork_slot *)(void *)chunk + i;
}
INLINE weft_fork_slot *chunk_last(struct fork_chunk *chunk) { return chunk_slot(chunk, CHUNK_SLOTS - 1); }
INLINE uint64_t position_of(weft_fork_slot *slot) {
    struct fork_chunk *chunk = chunk_of(slot);
    plain_read(&chunk->base, sizeof chunk->base);
    return chunk->base + (uint64_t)(slot - chunk_slot(chunk, 0));
}
INLINE enum call_kind kind_of(uint64_t state) { return (enum call_kind)(state & STATE_KIND); }
INLINE bool offer_is_open(uint64_t offer) { return (offer & 1) != 0; }
INLINE uint64_t offer_after(uint64_t offer) { return offer + 1; }

INLINE bool chunk_is_asked(struct fork_chunk *chunk) { return load_rlx(&chunk->limit) != chunk_last(chunk); }
/* Resets the limit: nobody has asked the chunk's thread. */
INLINE void chunk_rest(struct fork_chunk *chunk) {
    store_rlx(&chunk->limit, LIKELY(os_fence_is_asymmetric()) ? chunk_last(chunk) : chunk_slot(chunk, 0));
}
/* Makes a free slot ready for the next fork, and returns it: where light fences order nothing, its join must make a full
 * one. A late thief's CAS fails (J6, J48). */
INLINE weft_fork_slot *slot_ready(weft_fork_slot *slot) {
    if (LIKELY(os_fence_is_asymmetric()) || (load_rlx(&slot->state) & STATE_GUARD) != 0) return slot;
    store_rlx(&slot->state, STATE_GUARD);
    return slot;
}

/* weft_forker.slow. Programs compiled with clang rely on it to preserve their registers. */
#if defined(__x86_64__) && !defined(__clang__)
void fork_slow(weft_fork_slot *here) __attribute__((target("general-regs-only"), no_caller_saved_registers));
#else
void fork_slow(weft_fork_slot *here) WEFT_FORK_KEEPS;
#endif

/* The chunk where the seat's next region will begin. NULL: no memory, or a fork was refused for want of memory. The last
 * slot then serves calls that nobody may take, and thieves see that by the missing next chunk. */
struct fork_chunk *region_chunk(struct weft_worker *seat);
/* Begins a region in `chunk`, in `frame` (NULL: none) and in the loop that the seat is in. Returns its first slot. */
weft_fork_slot *region_begin(struct fork_chunk *chunk, struct frame *frame);
void region_end(struct fork_chunk *chunk);

/* A fork at the chunk's last slot: goes on in the next chunk, or is refused, and then its join makes the call. Returns the
 * slot for the next fork. */
weft_fork_slot *chunk_leave(struct fork_chunk *chunk);
/* The join of a chunk's last slot. */
void chunk_return(struct fork_chunk *chunk, const void *argument, size_t size);

#endif
