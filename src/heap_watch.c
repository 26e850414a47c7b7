/* heap_watch.c: a thread that goes on with little looks at the clock. Layer 2. */
#include "heap.h"

#define WATCHED_FREES 4u /* to a look at the clock */
#define WATCHED_ROW 8u   /* that many in a row, with no allocation between: the thread does not go on with little */
#define WATCH_TURNS 3u   /* of decay, after a slab emptied or a large block was freed */

static void limit_to_fill(struct heap *heap, unsigned kind) {
    uint32_t fill = cache_count(heap, kind);
    heap->limit[kind] = heap->base[kind] + min_u64(fill > 0 ? fill - 1 : 0, heap->room[kind]);
}

static void watch_kind(struct heap *heap, unsigned kind) {
    heap->watched = kind;
    heap->watched_row = 0;
    limit_to_fill(heap, kind);
}

static void watch_end(struct heap *heap) {
    heap->watches = false;
    heap->watchable = 0;
}

void heap_watch(struct heap *heap, unsigned kind) {
    if (LIKELY(!heap->watches)) return;
    if (load_rlx(&heaps.turns) - heap->turn_emptied >= WATCH_TURNS) {
        watch_end(heap);
        return;
    }
    if (heap->watchable == 0 || kind == heap->watched) watch_kind(heap, kind);
    heap->watchable |= UINT64_C(1) << kind;
}

/* The first cache that is as full again as now is watched. */
void heap_watch_large(struct heap *heap) {
    if (heap == (void *)os_no_heap) return;
    heap->turn_emptied = load_rlx(&heaps.turns);
    heap->watches = true;
    heap->watchable = 0;
    for (unsigned i = 0; i < CLASSES; i++) limit_to_fill(heap, i);
    heap_decay(heap);
}

/* So many frees in a row are no little work that goes on: another cache is watched, or this one less closely. */
static void watch_another(struct heap *heap, unsigned kind) {
    uint64_t others = heap->watchable & ~(UINT64_C(1) << kind), later = others & UINT64_MAX << kind;
    heap->limit[kind] = heap->base[kind] + heap->room[kind];
    if (others != 0)
        watch_kind(heap, (unsigned)__builtin_ctzll(later != 0 ? later : others));
    else
        heap->limit[kind] = heap->base[kind] + min_u64(cache_count(heap, kind) + 2 * WATCHED_ROW, heap->room[kind]);
}

bool heap_free_watched(struct heap *heap, unsigned kind) {
    uint32_t fill = cache_count(heap, kind);
    if (heap->room[kind] <= fill) return false;
    if (heap->watches && heap->watchable == 0) {
        heap->watchable = UINT64_C(1) << kind;
        watch_kind(heap, kind);
    }
    if (kind != heap->watched || !heap->watches) {
        heap->limit[kind] = heap->base[kind] + heap->room[kind];
        return true;
    }
    heap->watched_row = fill == heap->watched_fill + 1 ? heap->watched_row + 1 : 0;
    heap->watched_fill = fill;
    if (heap->watched_row >= WATCHED_ROW) watch_another(heap, kind);
    if (++heap->visits % WATCHED_FREES != 0) return true;
    heap_decay(heap);
    if (load_rlx(&heaps.turns) - heap->turn_emptied >= WATCH_TURNS) watch_end(heap);
    return true;
}
