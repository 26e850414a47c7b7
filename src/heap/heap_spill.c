/* heap_spill.c: what a full cache leaves with its thread. Layer 2.
 *
 * A cache that overflows gives up its older half. The slabs' way costs a miss for each block's descriptor, and the next refill
 * searches the same bits. So the half stays with the thread as it is, pointers on the spill: a second stack for each class up to
 * TINY_MAX, of three halves. A refill takes a half back from there before it looks for slabs; what overflows goes to slabs
 * where the stack has no room.
 *
 * The first overflow of a class goes to the slabs: a thread that frees all it has would gain nothing. Blocks of others' slabs are
 * not kept either, they go home (ADR 11); nor is anything of a private heap, whose end would have to know of it, nor without a
 * warm pool, nor under another policy than the usual one.
 *
 * What is kept goes to its slabs where the cache's blocks do (a trim, a thread's end, a rest), when the thread only frees, and at a
 * rest since the last of which no refill took any: a thread that has kept some watches (heap_watch.c), so that there are rests. The
 * next overflow of the class is a first one then.
 *
 * The stacks lie in a slot of their own, taken when the first half is to be kept and given back when nothing is. The owner alone
 * reads and writes them. */
#include <string.h>

#include "heap/heap.h"

#define HALVES 3  /* of a cache */
#define SPILLS 20 /* classes up to TINY_MAX; each has a bit in the heap's words */

struct spill {
    uint16_t count[SPILLS];
    void *blocks[SPILLS][CACHE_BLOCKS_MAX / 2 * HALVES];
};
#define SPILL_SLOTS ((unsigned)((sizeof(struct spill) + SLOT_BYTES - 1) / SLOT_BYTES))

/* NULL: no memory. */
static struct spill *spill_make(struct heap *heap) {
    struct slots got = depot_take_run(SPILL_SLOTS, 1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    heap->spill = (struct spill *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    memset(heap->spill, 0, offsetof(struct spill, blocks));
    return heap->spill;
}

static bool is_for(const struct heap *heap, unsigned kind) {
    return kind < SPILLS && heap->bins[kind].capacity != 0 && load_rlx(&heap->privacy) == PRIVACY_NONE &&
           load_rlx(&heaps.remote) == WEFT_HEAP_REMOTE_HYBRID;
}

static bool are_own(const struct heap *heap, void *const *blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (slab_owner(slab_of(blocks[i])) != heap) return false;
    return true;
}

bool heap_spill_put(struct heap *heap, unsigned kind, void *const *blocks, uint32_t count) {
    struct spill *spill = heap->spill;
    if (!is_for(heap, kind)) return false;
    bool is_first = (heap->spill_wanted >> kind & 1) == 0;
    heap->spill_wanted |= UINT32_C(1) << kind;
    if (is_first || (spill != NULL && spill->count[kind] + count > class_info[kind].cache_max / 2 * HALVES)) return false;
    if (!are_own(heap, blocks, count) || (spill == NULL && (spill = spill_make(heap)) == NULL)) return false;
    memcpy(&spill->blocks[kind][spill->count[kind]], blocks, count * sizeof *blocks);
    spill->count[kind] = (uint16_t)(spill->count[kind] + count);
    heap_watch_begin(heap);
    return true;
}

uint32_t heap_spill_take(struct heap *heap, unsigned kind, void **slots, uint32_t count) {
    struct spill *spill = heap->spill;
    if (spill == NULL || kind >= SPILLS || spill->count[kind] == 0) return 0;
    if (count > spill->count[kind]) count = spill->count[kind];
    spill->count[kind] = (uint16_t)(spill->count[kind] - count);
    heap->spill_used |= UINT32_C(1) << kind;
    memcpy(slots, &spill->blocks[kind][spill->count[kind]], count * sizeof *slots);
    return count;
}

bool heap_spill_is_idle(struct heap *heap, unsigned kind) {
    if (kind >= SPILLS) return false;
    bool was_used = (heap->spill_used >> kind & 1) != 0;
    heap->spill_used &= ~(UINT32_C(1) << kind);
    return !was_used;
}

void **heap_spill_all(struct heap *heap, unsigned kind, uint32_t *count) {
    struct spill *spill = heap->spill;
    *count = 0;
    if (kind >= SPILLS) return NULL;
    heap->spill_wanted &= ~(UINT32_C(1) << kind);
    heap->spill_used &= ~(UINT32_C(1) << kind);
    if (spill == NULL) return NULL;
    *count = spill->count[kind];
    spill->count[kind] = 0;
    return spill->blocks[kind];
}

void heap_spill_end(struct heap *heap) {
    struct spill *spill = heap->spill;
    if (spill == NULL) return;
    for (unsigned i = 0; i < SPILLS; i++)
        if (spill->count[i] != 0) return;
    heap->spill = NULL;
    depot_put(segment_of(spill), ((UINT64_C(1) << SPILL_SLOTS) - 1) << slot_of(spill));
}
