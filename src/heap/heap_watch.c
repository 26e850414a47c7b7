/* heap_watch.c: a thread that goes on with little looks at the clock. Layer 2.
 *
 * Memory that emptied goes back at turns of decay, which a thread takes when it looks at the clock. What it then does may neither
 * refill a cache nor overflow one, so it counts: so many frees of one kind lead here, and to a look while the heap watches. It
 * watches from when a slab empties, or a large block is freed, until its caches have rested a few times: others' turns are no
 * rest of this heap's. A look that finds the thread calm, the one before having been a while ago, makes each kind's next free a
 * look, so that turns are taken when they are due. */
#include "heap/heap.h"

#ifndef WATCH_STEP
#define WATCH_STEP 63u /* frees of a kind; a byte counts them */
#endif
#define WATCH_RESTS 3u /* after a slab emptied or a large block was freed */

void heap_count_from(struct heap *heap, unsigned kind, uint32_t step) {
    store_rlx(&heap->frees[kind], (heap_frees(heap, kind) + step) << 8 | (256 - step));
}

static void look_soon(struct heap *heap) {
    for (unsigned i = 0; i < CACHED; i++) heap_count_from(heap, i, 1);
}

static bool is_void(const struct heap *heap) {
    return load_rlx(&heaps.decay_ms) < 0 || load_rlx(&heap->privacy) != PRIVACY_NONE;
}

void heap_watch_none(struct heap *heap) {
    for (unsigned i = 0; i < CACHED; i++) heap_count_from(heap, i, WATCH_STEP);
}

void heap_watch_begin(struct heap *heap) {
    bool did = heap->watches != 0;
    heap->watches = WATCH_RESTS;
    if (!did) look_soon(heap);
}

void heap_watch_calm(struct heap *heap) {
    if (heap->watches != 0) look_soon(heap);
}

void heap_watch_rest(struct heap *heap) {
    if (heap->watches != 0) heap->watches--;
}

bool heap_watch_counted(struct heap *heap, unsigned kind) {
    heap_count_from(heap, kind, WATCH_STEP);
    if (heap->watches != 0 && is_void(heap)) heap->watches = 0;
    return heap->watches != 0;
}
