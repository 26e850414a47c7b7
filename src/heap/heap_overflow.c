/* heap_overflow.c: blocks that a full cache leaves with its thread. Layer 2.
 *
 * A cache that overflows gives up its older half. Returning the blocks to their slabs costs a cache miss for each block's
 * descriptor, and the next refill searches the same bits. So the half stays with the thread as pointers on the overflow: a second
 * stack for each class up to TINY_MAX, with room for three halves, or up to seven while they are no more than a slab's blocks. A
 * refill takes a half from there before it looks for slabs. If the stack is full, overflowing blocks go to their slabs.
 *
 * Not kept are: the first overflow of a class, because a thread that frees all it has would gain nothing; blocks of other heaps'
 * slabs, which go home (ADR 11); blocks of a private heap, whose end would have to know of them; and any block if there is no warm
 * pool, or if the policy is not the default one.
 *
 * Kept blocks go to their slabs when the cache's blocks do (a trim, a thread's end, a rest), when the thread only frees, and at a
 * rest if no refill has taken any since the rest before. A thread that has kept blocks watches the clock (heap_watch.c), so that
 * there are rests. The next overflow of the class then counts as the first.
 *
 * A thread that only frees may be in the midst of bursts: it makes many blocks, then frees them, and so on. Its blocks stay as long
 * as the cache and the overflow together hold no more than a slab's blocks, and few slabs are kept by them.
 *
 * The stacks are in a slot of their own, taken when the first half is kept and freed when nothing is kept. Only the owner reads and
 * writes them. */
#include <string.h>

#include "heap/heap.h"
#include "heap/hooks.h"

#define HALVES 3u      /* halves of a cache that are kept */
#define HALVES_TINY 7u /* the same, if these are no more than a slab's blocks */
#define SAMPLES 8u     /* pairs of neighbours in a cache that are looked at; all but one must be of one slab */
#define OVERFLOWS 20   /* classes up to TINY_MAX; each has a bit in the heap's words */

struct overflow {
    uint16_t count[OVERFLOWS];
    void *blocks[OVERFLOWS][CACHE_BLOCKS_MAX / 2 * HALVES_TINY];
};
#define OVERFLOW_SLOTS ((unsigned)((sizeof(struct overflow) + SLOT_BYTES - 1) / SLOT_BYTES))

/* How many blocks of the class are kept at most. */
static uint32_t most_of(unsigned kind) {
    uint32_t half = class_info[kind].cache_max / 2;
    return CLAMP(class_info[kind].blocks, half * HALVES, half * HALVES_TINY);
}

/* NULL: no memory. */
static struct overflow *overflow_make(struct heap *heap) {
    struct slots got = depot_take_run(OVERFLOW_SLOTS, 1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    heap->overflow = (struct overflow *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    memset(heap->overflow, 0, offsetof(struct overflow, blocks));
    return heap->overflow;
}

static bool is_for(const struct heap *heap, unsigned kind) {
    return kind < OVERFLOWS && heap->bins[kind].capacity != 0 && load_rlx(&heap->privacy) == PRIVACY_NONE;
}

static bool are_own(const struct heap *heap, void *const *blocks, uint32_t count) {
    for (uint32_t i = 0; i < count; i += slab_run(blocks + i, count - i))
        if (slab_owner(slab_of(blocks[i])) != heap) return false;
    return true;
}

bool heap_overflow_is_dense(const struct heap *heap, unsigned kind) {
    uint32_t count = cache_count(heap, kind), dense = 0;
    void *const *blocks = heap->base[kind] + 1;
    if (!is_for(heap, kind) || count < 2 * SAMPLES || slab_owner(slab_of(blocks[0])) != heap) return false;
    uint32_t kept = heap->overflow == NULL ? 0 : heap->overflow->count[kind];
    if (count + kept > class_info[kind].blocks) return false;
    for (uint32_t i = 0; i < SAMPLES; i++) dense += slab_run(&blocks[i * (count / SAMPLES)], 2) - 1;
    return dense >= SAMPLES - 1;
}

bool heap_overflow_put(struct heap *heap, unsigned kind, void *const *blocks, uint32_t count) {
    struct overflow *overflow = heap->overflow;
    if (!is_for(heap, kind)) return false;
    bool is_first = (heap->overflow_wanted >> kind & 1) == 0;
    heap->overflow_wanted |= UINT32_C(1) << kind;
    if (is_first || (overflow != NULL && overflow->count[kind] + count > most_of(kind))) return false;
    if (!are_own(heap, blocks, count) || (overflow == NULL && (overflow = overflow_make(heap)) == NULL)) return false;
    memcpy(&overflow->blocks[kind][overflow->count[kind]], blocks, count * sizeof *blocks);
    overflow->count[kind] = (uint16_t)(overflow->count[kind] + count);
    heap_watch_begin(heap);
    return true;
}

uint32_t heap_overflow_take(struct heap *heap, unsigned kind, void **slots, uint32_t count) {
    struct overflow *overflow = heap->overflow;
    if (overflow == NULL || kind >= OVERFLOWS || overflow->count[kind] == 0) return 0;
    if (count > overflow->count[kind]) count = overflow->count[kind];
    overflow->count[kind] = (uint16_t)(overflow->count[kind] - count);
    heap->overflow_used |= UINT32_C(1) << kind;
    memcpy(slots, &overflow->blocks[kind][overflow->count[kind]], count * sizeof *slots);
    return count;
}

bool heap_overflow_is_idle(struct heap *heap, unsigned kind) {
    if (kind >= OVERFLOWS) return false;
    bool was_used = (heap->overflow_used >> kind & 1) != 0;
    heap->overflow_used &= ~(UINT32_C(1) << kind);
    return !was_used;
}

void **heap_overflow_all(struct heap *heap, unsigned kind, uint32_t *count) {
    struct overflow *overflow = heap->overflow;
    *count = 0;
    if (kind >= OVERFLOWS) return NULL;
    heap->overflow_wanted &= ~(UINT32_C(1) << kind);
    heap->overflow_used &= ~(UINT32_C(1) << kind);
    if (overflow == NULL) return NULL;
    *count = overflow->count[kind];
    overflow->count[kind] = 0;
    return overflow->blocks[kind];
}

void heap_overflow_end(struct heap *heap) {
    struct overflow *overflow = heap->overflow;
    if (overflow == NULL) return;
    for (unsigned i = 0; i < OVERFLOWS; i++)
        if (overflow->count[i] != 0) return;
    heap->overflow = NULL;
    depot_put(segment_of(overflow), ((UINT64_C(1) << OVERFLOW_SLOTS) - 1) << slot_of(overflow));
}
