/* chunk.c: chunks and regions.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   J16 chunk_switch: store current, x2  release  J17 a chunk, or one before it in the chain, is read before it is made
 *   J49 chunk_next: store next          release  J50 a batch goes on in a chunk that is not yet made
 *   J18 region_begin: fence             sc       K3, T17, J20, R21  a thread that falls asleep has not asked, and is not seen
 *   J19 chunk_switch: light fence       light    J20 a request in the chunk left is forgotten, a sleeper not seen; only for the
 *                                                compiler: where J20 is a full fence, every fork looks
 */
#include "patterns/chunk.h"

#include <string.h>

/* NULL: no memory. */
static struct fork_chunk *chunk_make(struct weft_worker *seat, uint64_t base) {
    char *memory = store_get(&seat->pool->store, 2 * (size_t)WEFT_FORK_CHUNK);
    if (memory == NULL) return NULL;
    struct fork_chunk *chunk = (struct fork_chunk *)round_up((uintptr_t)memory, WEFT_FORK_CHUNK);
    plain_write(&chunk->base, sizeof chunk->base);
    chunk->seat = seat;
    chunk->base = base;
    store_rlx(&chunk_last(chunk)->state, STATE_GUARD);
    return chunk;
}

static struct fork_chunk *chunk_next(struct fork_chunk *chunk) {
    struct fork_chunk *next = load_rlx(&chunk->next);
    if (next != NULL) return next;
    next = chunk_make(chunk->seat, chunk->base + CHUNK_SLOTS);
    if (next != NULL) store_rel(J49, &chunk->next, next);
    return next;
}

static struct fork_chunk *chunk_first(struct weft_worker *seat) {
    struct fork_chunk *chunk = load_rlx(&forks_of(seat)->first);
    if (chunk != NULL) return chunk;
    seat->forker.slow = fork_slow;
    chunk = chunk_make(seat, 0);
    if (chunk != NULL) store_rlx(&forks_of(seat)->first, chunk);
    return chunk;
}

/* The thread goes on forking in another chunk, or nowhere. If it was asked in `from`, it is asked in `to`, too; it is also
 * asked there if a thread sleeps that may want only what is forked in `to`. */
static void chunk_switch(struct fork_chunk *from, struct fork_chunk *to) {
    store_rel(J16, &forks_of(from->seat)->current, to);
    os_fence_light(J19);
    if (to == NULL || chunk_is_asked(to)) return;
    if (chunk_is_asked(from) || park_glance(&from->seat->pool->park) != 0) store_rlx(&to->limit, NULL);
}

struct fork_chunk *region_chunk(struct weft_worker *seat) {
    struct fork_chunk *current = load_rlx(&forks_of(seat)->current);
    if (current == NULL) return chunk_first(seat);
    return current->refused > 0 ? NULL : chunk_next(current);
}

weft_fork_slot *region_begin(struct fork_chunk *chunk, struct frame *frame) {
    struct forks *forks = forks_of(chunk->seat);
    chunk->outer = load_rlx(&forks->current);
    chunk->refused = 0;
    chunk->is_guest = false;
    chunk->counts = false;
    store_rlx(&chunk->frame, frame);
    store_rlx(&chunk->index, frame == NULL ? 0 : frame->index);
    store_rlx(&chunk->in_loop, chunk->seat->in_loop);
    chunk_rest(chunk);
    store_rel(J16, &forks->current, chunk);
    fence_sc(J18);
    if (park_glance(&chunk->seat->pool->park) != 0 && !chunk_is_asked(chunk)) store_rlx(&chunk->limit, NULL);
    return slot_ready(chunk_slot(chunk, CHUNK_FIRST));
}

void region_end(struct fork_chunk *chunk) {
    ASSERT(load_rlx(&forks_of(chunk->seat)->current) == chunk);
    chunk_switch(chunk, chunk->outer);
}

weft_fork_slot *chunk_leave(struct fork_chunk *chunk) {
    struct fork_chunk *next = chunk->refused > 0 ? NULL : chunk_next(chunk);
    if (next == NULL) {
        chunk->refused++;
        store_rlx(&chunk_last(chunk)->fn, NULL);
        return chunk_last(chunk);
    }
    ASSERT(next->refused == 0); /* each refused fork was joined */
    store_rlx(&next->frame, load_rlx(&chunk->frame));
    store_rlx(&next->index, load_rlx(&chunk->index));
    store_rlx(&next->in_loop, load_rlx(&chunk->in_loop));
    chunk_rest(next);
    chunk_switch(chunk, next);
    return chunk_slot(next, CHUNK_FIRST);
}

void chunk_return(struct fork_chunk *chunk, const void *argument, size_t size) {
    if (chunk->refused > 0) {
        ASSERT(argument != NULL); /* no detached call is noted here */
        chunk->refused--;
        memcpy(chunk_last(chunk)->payload, argument, size);
        return;
    }
    chunk_rest(chunk);
    chunk_switch(load_rlx(&chunk->next), chunk);
}
