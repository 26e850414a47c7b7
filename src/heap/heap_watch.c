/* heap_watch.c: makes a thread that does little look at the clock. Layer 2.
 *
 * Memory that has emptied goes back at turns of decay, which a thread takes when it looks at the clock. After that the
 * thread may neither refill a cache nor overflow one, so frees are counted: after some frees of one kind a thread comes
 * here, and looks at the clock if its heap watches. A heap watches from the moment when a slab empties or a large block is
 * freed until its caches have rested a few times; turns of other threads are no rests of this heap. All heaps watch while
 * turns are left to take (pages/poke.h): what a thread has emptied that sleeps or has ended goes back by one that works. If
 * a look shows that the last one was a while ago, the thread is calm: then the next free of each kind looks again, so that
 * turns are taken when they are due. If not, it is busy, and a heap that watches only for others looks less often. */
#include "heap/heap.h"

#ifndef WATCH_STEP
#define WATCH_STEP 63u /* frees of a kind between two calls; a byte counts them */
#endif
#ifndef WATCH_PASSED
#define WATCH_PASSED 7u /* calls without a look after one that found the thread busy, if the heap watches only for others */
#endif
#define WATCH_RESTS 3u /* after a slab emptied or a large block was freed */

void heap_count_from(struct heap *heap, unsigned kind, uint32_t step) {
    store_rlx(&heap->frees[kind], (heap_frees(heap, kind) + step) << 8 | (256 - step));
}

static void look_soon(struct heap *heap) {
    for (unsigned i = 0; i < CACHED; i++) heap_count_from(heap, i, 1);
}

static bool watches(const struct heap *heap) { return heap->watches != 0 || load_rlx(&purge_turns) != 0; }

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

void heap_watch_looked(struct heap *heap, bool is_calm) {
    heap->passes = is_calm ? 0 : WATCH_PASSED;
    if (is_calm && watches(heap)) look_soon(heap);
}

void heap_watch_rest(struct heap *heap) {
    if (heap->watches != 0) heap->watches--;
}

bool heap_watch_counted(struct heap *heap, unsigned kind) {
    heap_count_from(heap, kind, WATCH_STEP);
    if (!watches(heap)) return false;
    if (heap->watches == 0 && heap->passes != 0) {
        heap->passes--;
        return false;
    }
    bool looks = !is_void(heap);
    if (!looks) heap->watches = 0;
    return looks;
}
