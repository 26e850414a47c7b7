/* heap.h: a thread's heap, and the short ways of allocating and freeing. Layer 2.
 *
 * For each size class a thread has a cache, an array of free blocks used as a stack, whoever owns their slabs. Behind it stand
 * the slabs that the heap owns, in tiers:
 *
 *   HOT       in the class's warm pool: refills take these, and these alone
 *   LISTED    as good, but the pool is full
 *   DRAINING  little or nothing is free; frees make it HOT or LISTED again
 *   (empty)   nothing is used: it left its class for the LRU, from where it comes back as a slab of any class
 *
 * Heaps outlive their threads: one whose thread has ended is idle until another thread takes it. */
#ifndef WEFT_HEAP_H
#define WEFT_HEAP_H

#include "heap_rest.h"
#include "slab.h"
#include "weft.h"

struct slab_list {
    struct slab *first;
    uint32_t count;
};

enum heap_count {
    COUNT_MISSES,
    COUNT_FROM_POOL,
    COUNT_FROM_LIST,
    COUNT_FROM_LRU,
    COUNT_FROM_ORPHANS,
    COUNT_FROM_DEPOT,
    COUNT_FROM_SYSTEM,
    COUNT_PREFILLED,
    COUNT_PUSHES,
    COUNT_TIER_DROPS,
    COUNT_LRU_IN,
    COUNT_LRU_OUT,
    COUNT_COLD,
    COUNT_REFILLS_TIMED,
    COUNT_REFILL_NS,
    COUNT_FINDS_TIMED,
    COUNT_FIND_NS,
    COUNT_FLUSHES,
    COUNT_REMOTE_FREES,
    COUNT_REMOTE_SENDS,
    COUNT_CARVED,  /* blocks that went from slabs to the cache */
    COUNT_FLUSHED, /* blocks that left the cache other than to the user */
    HEAP_COUNTS
};

/* The slabs of one class. */
struct bin {
    struct slab_list tier[TIER_DRAINING + 1];
    uint32_t capacity; /* of the warm pool */
    uint32_t prefill;
    uint64_t allocs_when_full; /* allocations when the cache was full the last time */
    uint32_t looks, found;     /* since the last adaptation: slabs wanted, found in the pool */
    void *spill; /* WEFT_HEAP_REMOTE_KEEP: blocks that the cache had no room for, linked through their first word */
    ATOMIC(uint64_t) count[HEAP_COUNTS];
};

/* Large blocks are counted by the heap of the calling thread. */
enum { LARGE_ALLOCS, LARGE_FREES, LARGE_BYTES_IN, LARGE_BYTES_OUT, LARGE_COUNTS };

/* Foreign blocks of a class that gather before they go home under WEFT_HEAP_REMOTE_HOME. */
#define GATHER_MAX 16
/* A cache's places: a NULL, its blocks, what gathers. */
#define CACHE_PLACES(bytes) *of_##bytes[1 + CACHE_BLOCKS(bytes) + GATHER_MAX]
struct cache_places {
    void CLASS_SIZES(CACHE_PLACES), *of_runs[RUNS][1 + CACHE_RUNS + GATHER_MAX];
};

struct heap {
    /* Each class's cache: top points at the topmost block; below the lowest one lies a NULL; limit is the highest that top may be.
     * Kinds that are not cached have no room, which is how a free finds the long way. The first two stand as in os_no_heap.
     * Written by the thread alone; statistics look at top and allocs. */
    ATOMIC(void **) top[KINDS];
    void **limit[KINDS];
    ATOMIC(uint64_t) allocs[KINDS];
    void **base[KINDS];
    uint32_t room[KINDS];        /* blocks that the cache may hold; limit is that, or lower while the heap watches */
    uint64_t allocs_seen[KINDS]; /* allocations at the last turn of decay */
    int64_t budget;              /* bytes by which the caches of blocks over TINY_MAX may still grow */
    uint64_t next_rest_ns;       /* when caches that were not used since are emptied */
    uint32_t turn_emptied;       /* the turn of decay at which a slab emptied the last time */
    bool watches;
    uint64_t watchable;    /* kinds that overflowed meanwhile */
    uint32_t watched;      /* the kind */
    uint32_t visits;       /* frees that watching saw */
    uint32_t watched_fill; /* of the cache at the last of them */
    uint32_t watched_row;  /* of them, each with one block more in the cache than the one before */
    struct inbox inbox;
    tagged_link idle_link;
    ATOMIC(struct heap *) older;       /* in the list of all */
    ALIGNED(CACHE_LINE) slab_link lru; /* pushed and popped by the owner; anybody may take it whole */
    ATOMIC(uint32_t) lru_count;        /* at most this many are in it */
    uint32_t config_seen;
    struct heap *visited; /* while idle: in the list of who looks after it */
    ATOMIC(uint64_t) large[LARGE_COUNTS];
    struct bin bins[CLASSES];
    void *places[sizeof(struct cache_places) / sizeof(void *)]; /* of the caches */
};
#define HEAP_SLOTS ((unsigned)((sizeof(struct heap) + SLOT_BYTES - 1) / SLOT_BYTES))

INLINE struct heap *heap_mine(void) { return os_self_get()->heap; }

void *heap_alloc_slow(size_t size);
void heap_free_slow(void *p);
/* A block with a mapping of its own, in a table that grows. */
struct mapping {
    ATOMIC(char *) block; /* NULL: none */
    ATOMIC(size_t) bytes;
};
#define CHUNK_WORDS (SLOT_BYTES / 2048 - 1)
struct chunk {
    ATOMIC(struct chunk *) older;
    ATOMIC(uint64_t) used[CHUNK_WORDS];
    struct mapping records[CHUNK_WORDS * 64];
};
struct chunk *mapping_chunks(void); /* the newest; the others follow by `older` */

/* large.c: over MEDIUM_MAX, or aligned to more than a slab can serve. *zeroed, where not NULL: the memory is zeros. */
void *large_alloc(size_t size, size_t alignment, bool *zeroed);
void large_free(void *p, unsigned kind);
size_t large_size(const void *p, unsigned kind);
/* Resizes in place or by moving pages; NULL: it must be copied. */
void *large_resize(void *p, unsigned kind, size_t size);

/* NULL: the cache is empty. */
INLINE void *cache_pop(struct heap *heap, unsigned kind) {
    void **top = load_rlx(&heap->top[kind]);
    void *block = *top;
    if (LIKELY(block != NULL)) {
        store_rlx(&heap->top[kind], top - 1);
        count_one(&heap->allocs[kind]);
    }
    return block;
}

/* false: it is full. */
INLINE bool cache_push(struct heap *heap, unsigned kind, void *block) {
    void **top = load_rlx(&heap->top[kind]);
    if (UNLIKELY(top >= heap->limit[kind])) return false;
    top[1] = block;
    store_rlx(&heap->top[kind], top + 1);
    return true;
}

INLINE void *heap_alloc(size_t size) {
    if (UNLIKELY(size > TINY_MAX)) return heap_alloc_slow(size);
    void *block = cache_pop(heap_mine(), class_of(size));
    return LIKELY(block != NULL) ? block : heap_alloc_slow(size);
}

/* NULL and blocks at a multiple of SEGMENT_BYTES have no head to look at. */
INLINE void heap_free(void *p) {
    if (UNLIKELY(((uintptr_t)p & SEGMENT_MASK) == 0 ||
                 !cache_push(heap_mine(), load_rlx(&segment_of(p)->kinds[slot_of(p)]), p)))
        heap_free_slow(p);
}

INLINE void heap_free_sized(void *p, size_t size) {
    if (UNLIKELY(size > MEDIUM_MAX))
        heap_free(p);
    else if (UNLIKELY(p == NULL || !cache_push(heap_mine(), class_of(size), p)))
        heap_free_slow(p);
}

INLINE unsigned kind_of(const void *p) {
    return ((uintptr_t)p & SEGMENT_MASK) == 0 ? (unsigned)KIND_DIRECT : load_rlx(&segment_of(p)->kinds[slot_of(p)]);
}

struct heaps {
    ATOMIC(struct heap *) all; /* newest first */
    struct tagged idle;        /* of ended threads, with all they had */
    struct tagged bare;        /* of ended threads, with what could not be taken from them */
    ATOMIC(uint32_t) count;
    ATOMIC(uint64_t) next_decay_ns;
    ATOMIC(uint32_t) turns; /* of decay */
    /* the configuration */
    ATOMIC(uint32_t) config_version;
    ATOMIC(int32_t) pool_capacity;
    ATOMIC(int32_t) pool_prefill;
    ATOMIC(uint32_t) remote;
    ATOMIC(int64_t) decay_ms;
};
extern struct heaps heaps;

/* The newest heap; the others follow by `older`. */
struct heap *heaps_all(void);
/* The calling thread's heap, made if it has none; NULL: no memory. */
struct heap *heap_get(void);
/* Empties the thread's cache and collects what others freed. */
void heap_tidy(struct heap *heap);
/* Takes what one ended thread left: its blocks home, its slabs to the orphans and the depot. false: there is none. Any thread. */
bool heap_strip_one(void);
/* Every thread's LRU goes to the depot. Any thread. */
void heap_drop_lrus(void);
size_t heap_trim(void);
/* Gives back what has not been used for a while, when it is time. */
void heap_decay(struct heap *heap);

/* heap.c, for heap_life.c */
void heap_config_set(struct heap *heap);
void heap_room_set(struct heap *heap, unsigned kind, uint32_t blocks);
uint32_t heap_room_start(unsigned kind);
void heap_collect(struct heap *heap);
/* All blocks of the cache, of the spill and of what gathers leave. */
void heap_kind_tidy(struct heap *heap, unsigned kind);
uint32_t heap_adopt(struct heap *heap, unsigned kind);
void heap_lru_drop(struct heap *heap);
/* The heap's slabs become orphans, all but those that others are freeing to right now. */
void heap_abandon(struct heap *heap);

#endif
