/* heap_watch.c: a thread that goes on with little looks at the clock. Layer 2.
 *
 * Frees that meet a cache's limit are the only ones seen here, so a kind is watched by a limit at its cache's fill: the next
 * free that reaches the fill again is seen. All kinds are watched when slabs begin to empty, when a large block is freed,
 * and at each look at the clock that finds the thread calm: it has not looked for a while. While it is calm each free seen
 * is a look. While it is busy one in so many is, and the kind seen then is watched in place of the one before; so is one whose
 * cache overflows, if more of it was allocated. So a busy thread is slowed by one kind only, and one that goes on with little
 * is found calm after a few frees of that kind, or of any that it used little before.
 *
 * A cache that rises and falls would meet a limit at its lowest fill with every second free. So each look that finds the thread
 * busy lets the watched kind's limit rise towards the fill, in the end as high as that comes, where few frees meet it: of
 * batches the last one. The limit falls to the fill again when the cache overflows or is refilled, and at looks for other
 * reasons. A thread that goes on with this kind alone, and always with less in its cache than it had, is not seen.
 *
 * A cache of which a thread only sends others' blocks home overflows again and again, and is seen without a limit at its fill:
 * each time it looks at the clock, and while it is busy the limit is the cache's room. */
#include "heap.h"

#define BUSY_FREES 8u  /* seen, to a look at the clock */
#define RISE 4u        /* the limit rises by one part of so many of the way to the fill */
#define WATCH_TURNS 3u /* of decay, after a slab emptied or a large block was freed */

static void limit_to_fill(struct heap *heap, unsigned kind) {
    uint32_t fill = cache_count(heap, kind);
    heap->limit[kind] = heap->base[kind] + min_u64(fill > 0 ? fill - 1 : 0, heap->room[kind]);
}

static void watch_no_more(struct heap *heap, unsigned kind) { heap->limit[kind] = heap->base[kind] + heap->room[kind]; }

/* A part of the way: after many frees in a row it is some of them below the fill, and sees a thread that keeps a few more. */
static void limit_rise(struct heap *heap, unsigned kind) {
    uint64_t below = (uint64_t)(load_rlx(&heap->top[kind]) - heap->limit[kind]);
    heap->limit[kind] += (below + RISE - 1) / RISE;
}

/* The fill may be above. */
static void limit_fall(struct heap *heap, unsigned kind) {
    if (load_rlx(&heap->top[kind]) <= heap->limit[kind]) limit_to_fill(heap, kind);
}

static void watch_all(struct heap *heap) {
    for (unsigned i = 0; i < CLASSES; i++) limit_to_fill(heap, i);
}

static bool is_over(const struct heap *heap) {
    return load_rlx(&heaps.turns) - heap->turn_emptied >= WATCH_TURNS || load_rlx(&heaps.decay_ms) < 0 ||
           load_rlx(&heap->privacy) != PRIVACY_NONE;
}

static bool is_used_more(const struct heap *heap, unsigned kind, unsigned other) {
    return heap_allocs(heap, kind) > heap_allocs(heap, other);
}

void heap_watch_begin(struct heap *heap) {
    heap->turn_emptied = load_rlx(&heaps.turns);
    if (heap->watches) return;
    heap->watches = true;
    heap->unseen = 0;
    watch_all(heap);
}

void heap_watch(struct heap *heap, unsigned kind, bool sends) {
    if (LIKELY(!heap->watches)) return;
    if (is_used_more(heap, kind, heap->watched)) heap->watched = kind;
    if (sends && heap->unseen > 0)
        watch_no_more(heap, kind);
    else if (kind == heap->watched)
        limit_to_fill(heap, kind);
}

void heap_watch_refilled(struct heap *heap, unsigned kind) {
    if (UNLIKELY(heap->watches) && kind == heap->watched) limit_fall(heap, kind);
}

void heap_watch_large(struct heap *heap) {
    if (heap == (void *)os_no_heap) return;
    heap_watch_begin(heap);
    heap_decay(heap);
    watch_all(heap);
}

void heap_watch_looked(struct heap *heap, bool is_calm) {
    heap->unseen = is_calm ? 0 : BUSY_FREES - 1;
    if (!heap->watches) return;
    if (is_calm)
        watch_all(heap);
    else if (heap->watched < CLASSES)
        limit_fall(heap, heap->watched);
}

static void look(struct heap *heap, unsigned kind) {
    heap_decay(heap);
    if (heap->unseen == 0) return;
    if (kind == heap->watched) {
        limit_rise(heap, kind);
        return;
    }
    watch_no_more(heap, heap->watched);
    heap->watched = kind;
}

bool heap_free_watched(struct heap *heap, unsigned kind) {
    if (heap->room[kind] <= cache_count(heap, kind)) return false;
    if (heap->watches && is_over(heap)) heap->watches = false;
    if (!heap->watches)
        watch_no_more(heap, kind);
    else if (heap->unseen > 0)
        heap->unseen--;
    else
        look(heap, kind);
    return true;
}
