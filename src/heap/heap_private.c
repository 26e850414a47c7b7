/* heap_private.c: heaps that a program creates and destroys as a whole; the contracts are in weft.h. Layer 2.
 *
 * A private heap is like a thread's heap, with caches, warm pools and slabs of its own, but it never adopts slabs nor gives
 * any up for adoption. Its slots are of the kind KIND_PRIVATE, which no thread's cache takes: a free that does not name the
 * heap is sent as a remote free to its inbox. Blocks over MEDIUM_MAX are slabs of one block, in the list `bigs`, and are
 * freed the same way.
 *
 * Destroying collects the frees that have arrived and puts every slot back into the depot, whatever is live. A slab with a
 * free under way (a fault of the caller, or, in a child of fork, a thread of the parent) is never reused, because that free
 * may still touch it.
 *
 * The memory of its caches goes back at the next turn of decay. The next private heap reuses an ended one; until then a
 * destroyed handle can be told from a live one. */
#include <string.h>

#include "heap/heap.h"
#include "heap/hooks.h"

struct weft_arena {
    struct heap heap;
};

_Static_assert(offsetof(struct heap_segment, slabs) + 2 * sizeof(struct slab) <= SLOT_BYTES,
               "the head of a mapping holds the second slot's slab");

static bool is_live(const weft_arena *heap) { return heap != NULL && load_rlx(&heap->heap.privacy) == PRIVACY_LIVE; }

int weft_arena_create(weft_arena **made) {
    if (made == NULL) return WEFT_EINVAL;
    *made = NULL;
    struct heap *heap = tagged_pop(&heaps.ended, IDLE_LINK);
    if (heap == NULL) heap = tagged_pop(&heaps.ended_bare, IDLE_LINK);
    if (heap != NULL)
        heap_begin(heap);
    else
        heap = heap_make();
    if (heap == NULL) return WEFT_ENOMEM;
    store_rlx(&heap->privacy, PRIVACY_LIVE);
    *made = (weft_arena *)heap;
    return WEFT_OK;
}

/* ---- large blocks ------------------------------------------------------------------------------------------------- */

void *private_large(struct heap *heap, size_t size) {
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
    void *p = large_alloc(size, BLOCK_MIN, NULL);
    if (p == NULL) return NULL;
    struct slab *slab = slab_of(p);
    slab_init_large(slab, kind_of(p) == KIND_DIRECT ? KIND_DIRECT : KIND_RUN, heap);
    slab->prev = NULL;
    slab->next = heap->bigs;
    if (heap->bigs != NULL) heap->bigs->prev = slab;
    heap->bigs = slab;
    return p;
}

void private_large_end(struct heap *heap, struct slab *slab) {
    if (slab->prev == NULL)
        heap->bigs = slab->next;
    else
        slab->prev->next = slab->next;
    if (slab->next != NULL) slab->next->prev = slab->prev;
    large_free(slab_start(slab), slab->kind);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

void *weft_arena_alloc(weft_arena *owner, size_t size) {
    if (UNLIKELY(!is_live(owner))) return NULL;
    struct heap *heap = &owner->heap;
    if (UNLIKELY(mode_checks())) return heap_hooks.check_alloc_in(heap, size);
    if (UNLIKELY(size > MEDIUM_MAX)) return private_large(heap, size); /* fresh from the depot: not poisoned */
    unsigned kind = class_of(size);
    void *block = cache_pop(heap, kind);
    if (UNLIKELY(block == NULL)) block = heap_alloc_refilled(heap, kind);
    handed_out(block, size);
    return block;
}

void private_free(void *p) {
    if (UNLIKELY(heap_hooks.sampling_has(slab_of(p)))) {
        heap_hooks.sampling_free(p);
        return;
    }
    unsigned kind = load_rlx(&slab_of(p)->private_kind);
    if (kind < CLASSES) {
        tag_put(p, tag_of(p, kind));
        blocks_write(kind, &p, 1, &(uint16_t){0});
    }
    slab_send(slab_of(p), &p, 1);
}

int weft_arena_free(weft_arena *owner, void *p) {
    if (!is_live(owner)) return WEFT_EINVAL;
    if (p == NULL) return WEFT_OK;
    struct heap *heap = &owner->heap;
    if (!heads_has(head_of(p))) return WEFT_EINVAL; /* otherwise the head must not be read */
    if (UNLIKELY(mode_checks())) return heap_hooks.check_free_in(heap, p) ? WEFT_OK : WEFT_EINVAL;
    struct slab *slab = slab_of(p);
    if (kind_of(p) != KIND_PRIVATE || slab_owner(slab) != heap) return WEFT_EINVAL;
    given_back(p);
    if (slab->kind >= CLASSES) {
        private_large_end(heap, slab);
        heap_decay(heap);
        return WEFT_OK;
    }
    if (is_misuse(p, class_info[slab->kind].divisor, tag_of(p, slab->kind)) || !is_start(slab->kind, p)) misuse_found(p);
    tag_put(p, tag_of(p, slab->kind));
    if (!cache_push(heap, slab->kind, p)) heap_free_small(heap, p, slab->kind);
    return WEFT_OK;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

static bool is_quiet(const struct slab *slab) { return (load_rlx(&slab->state) & PENDING_MASK) == 0; }

static void raze(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    for (enum tier tier = TIER_HOT; tier <= TIER_DRAINING; tier++) {
        struct slab *slab = bin->tier[tier].first;
        while (slab != NULL) {
            struct slab *next = slab->next;
            slab->tier = TIER_NONE;
            heap_hooks.check_forget(slab);
            if (is_quiet(slab)) {
                store_rlx(&slab->state, 0); /* scan must not take it for a slab of the heap's next life */
                heap_slot_free(slab);
            }
            slab = next;
        }
        bin->tier[tier] = (struct slab_list){NULL, 0};
    }
    bin->grown = 0;
    store_rlx(&heap->frees[kind], load_rlx(&heap->frees[kind]) + (heap_taken(heap, kind) << 8));
    store_rlx(&bin->count[COUNT_FLUSHED], load_rlx(&bin->count[COUNT_CARVED]));
    store_rlx(&heap->top[kind], heap->base[kind]);
}

static void raze_large(struct heap *heap) {
    struct slab *slab = heap->bigs;
    heap->bigs = NULL;
    while (slab != NULL) {
        struct slab *next = slab->next;
        heap_hooks.check_forget(slab);
        if (is_quiet(slab)) large_free(slab_start(slab), slab->kind);
        slab = next;
    }
}

int weft_arena_destroy(weft_arena **handle) {
    if (handle == NULL || !is_live(*handle)) return WEFT_EINVAL;
    struct heap *heap = &(*handle)->heap;
    *handle = NULL;
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
    store_rlx(&heap->privacy, PRIVACY_ENDED);
    for (unsigned i = 0; i < CLASSES; i++) raze(heap, i);
    raze_large(heap);
    heap_lru_drop(heap);
    heap_decay(heap); /* if all memory is in private heaps, nobody else looks at the clock */
    heap->watches = 0;
    tagged_push(&heaps.ended, heap, IDLE_LINK);
    purge_poke();
    return WEFT_OK;
}
