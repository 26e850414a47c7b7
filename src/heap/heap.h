/* heap.h: a thread's heap, and the fast paths of allocating and freeing. Layer 2.
 *
 * For each size class a thread has a cache: an array of free blocks, used as a stack, whoever owns their slabs. Behind it
 * stand the slabs that the heap owns, in tiers:
 *
 *   HOT       in the class's warm pool; refills take only these
 *   LISTED    as good, but the pool is full
 *   DRAINING  little or nothing is free; frees make it HOT or LISTED again
 *   (empty)   nothing is used: it has left its class. It goes to the heap's LRU, from where it comes back as a slab of any
 *             class; or, if at most half of it was ever handed out, to the depot, which keeps such slots for a class's last
 *             slab
 *
 * Heaps outlive their threads: one whose thread has ended is idle until another thread takes it. */
#ifndef WEFT_HEAP_H
#define WEFT_HEAP_H

#include "heap/heap_rest.h"
#include "heap/slab.h"
#include "weft.h"

struct slab_list {
    struct slab *first;
    uint32_t count;
};

/* The counters of a class, and the field of weft_heap_counts for each. */
#define HEAP_COUNTERS(X)                                                                                                    \
    X(COUNT_MISSES, miss_count)                                                                                             \
    X(COUNT_FROM_OVERFLOW, from_overflow_count)                                                                             \
    X(COUNT_FROM_POOL, from_pool_count)                                                                                     \
    X(COUNT_FROM_LIST, from_list_count)                                                                                     \
    X(COUNT_FROM_LRU, from_lru_count)                                                                                       \
    X(COUNT_FROM_ORPHANS, from_orphans_count)                                                                               \
    X(COUNT_FROM_DEPOT, from_depot_count)                                                                                   \
    X(COUNT_FROM_SYSTEM, from_system_count)                                                                                 \
    X(COUNT_PREFILLED, prefill_count)                                                                                       \
    X(COUNT_PUSHES, push_count)                                                                                             \
    X(COUNT_TIER_DROPS, tier_drop_count)                                                                                    \
    X(COUNT_LRU_IN, lru_in_count)                                                                                           \
    X(COUNT_COLD, cold_count)                                                                                               \
    X(COUNT_REFILLS_TIMED, refill_timed_count)                                                                              \
    X(COUNT_REFILL_NS, refill_ns)                                                                                           \
    X(COUNT_FINDS_TIMED, find_timed_count)                                                                                  \
    X(COUNT_FIND_NS, find_ns)                                                                                               \
    X(COUNT_FLUSHES, flush_count)                                                                                           \
    X(COUNT_REMOTE_FREES, remote_free_count)                                                                                \
    X(COUNT_REMOTE_SENDS, remote_send_count)
#define NAME(count, field) count,
enum heap_count {
    HEAP_COUNTERS(NAME) COUNT_CARVED, /* blocks that went from slabs to the cache */
    COUNT_FLUSHED,                    /* blocks that left the cache other than to the user */
    HEAP_COUNTS
};
#undef NAME

typedef ATOMIC(uint64_t) heap_counter;
/* The slabs of one class. */
struct bin {
    struct slab_list tier[TIER_DRAINING + 1];
    uint32_t capacity; /* of the warm pool */
    uint32_t prefill;
    uint64_t allocs_when_full;  /* allocations when the cache was last full */
    uint32_t looks, found;      /* since the last adaptation: slabs wanted, and found in the pool */
    uint16_t lines_spared;      /* of blocks that go home: blocks_write */
    uint32_t grown, grown_most; /* slabs of which more than half was handed out; the most there ever were when one left */
    uint32_t last_trimmed;      /* heap_trim_last: the rest that was next then */
    heap_counter count[HEAP_COUNTS];
};

/* Large blocks are counted by the heap of the calling thread. */
enum { LARGE_ALLOCS, LARGE_FREES, LARGE_BYTES_IN, LARGE_BYTES_OUT, LARGE_REUSED, LARGE_COUNTS };

/* A cache's places: one for a NULL, and those of its blocks. */
#define CACHE_PLACES(bytes) *of_##bytes[1 + CACHE_BLOCKS(bytes)]
struct cache_places {
    void CLASS_SIZES(CACHE_PLACES), *of_runs[RUNS][1 + CACHE_RUNS];
};

/* The fields that each kind has, in arrays of one stride. */
#define CLASS_PLACES (TINY_MAX / BLOCK_MIN + 8) /* those of class_of_tiny, filled up to whole words */
#define HEAP_ROWS                                                                                                           \
    place_pointer top[KINDS];                                                                                               \
    void **limit[KINDS];                                                                                                    \
    uint8_t class_of[CLASS_PLACES]; /* class_of_tiny */                                                                     \
    byte_count frees[KINDS];                                                                                                \
    uint64_t divisor[KINDS] /* class_info's */
/* The address of a kind's fields: a heap's address plus the kind's offset. row->top[0] is that kind's. */
struct heap_row {
    HEAP_ROWS;
};

struct heap {
    /* Each class's cache. top points at the topmost block; below the lowest block lies a NULL; limit is the highest value of
     * top. Kinds that are not cached have no room, which sends a free to the slow path. The first three arrays are laid out
     * as in os_no_heap. The thread alone writes these fields; statistics read top and frees. Frees are counted, not
     * allocations: after an allocation the thread writes into the block, which often waits for its line, and each earlier
     * store takes a place in the processor's store buffer. The lowest byte of `frees` counts up to 0, where heap_counted is
     * called; above it stands the count that will be reached then. For runs, those that left the cache are subtracted:
     * large.c counts them. */
    HEAP_ROWS;
    void **base[KINDS];
    uint32_t room[KINDS];        /* blocks that the cache may hold */
    uint64_t allocs_seen[KINDS]; /* allocations at the last turn of decay */
    int64_t budget;              /* bytes by which the caches of blocks over TINY_MAX may still grow */
    uint64_t next_rest_ns;       /* when caches not used since the last rest are emptied */
    uint32_t watches;            /* heap_watch.c: rests of the caches during which the heap still watches the clock */
    uint32_t passes;             /* heap_watch.c: calls until it looks at the clock for others */
    uint64_t looked_ns;          /* the time at the last look at the clock */
    struct inbox inbox;
    tagged_link idle_link;
    ATOMIC(struct heap *) older;       /* in the list of all */
    ALIGNED(CACHE_LINE) slab_link lru; /* pushed and popped by the owner; anybody may take it whole */
    ATOMIC(uint32_t) lru_count;        /* at most this many are in it */
    uint32_t config_seen;
    uint32_t overflow_wanted, overflow_used; /* heap_overflow.c: a bit for each class */
    struct trial trial;                      /* of writing into blocks that go home */
    struct overflow *overflow;               /* NULL: nothing is kept */
    struct quarantine *quarantine;           /* heap_check.c; NULL: none yet */
    struct samples *samples;                 /* sampling.c; NULL: none yet */
    uint64_t drawn;                          /* secure mode: for mode_random */
    ATOMIC(uint32_t) privacy;                /* enum privacy */
    ATOMIC(uint64_t) activity, visited_at;   /* heap_asleep.c: at the last turn, and at the last visit */
    ATOMIC(bool) has_no_bins;                /* the bins are zeros, perhaps not in memory */
    struct slab *bigs;                       /* a private heap's blocks over MEDIUM_MAX */
    struct heap *visited;                    /* while owing: in the list of the thread that strips it */
    ATOMIC(uint64_t) large[LARGE_COUNTS];
    struct bin bins[CLASSES];
    void *places[sizeof(struct cache_places) / sizeof(void *)]; /* of the caches */
};
/* A thread's heap, or a private one, alive or destroyed. */
enum privacy { PRIVACY_NONE, PRIVACY_LIVE, PRIVACY_ENDED };
#define IDLE_LINK offsetof(struct heap, idle_link)
#define HEAP_SLOTS ((unsigned)((sizeof(struct heap) + SLOT_BYTES - 1) / SLOT_BYTES))
_Static_assert(SLOT_SHIFT != 16 || HEAP_SLOTS == 1, "one slot is always found, two side by side may not be");

INLINE struct inbox *heap_inbox(struct heap *heap) { return &heap->inbox; }
INLINE struct heap *heap_mine(void) { return os_self_get()->heap; }

void heap_free_slow(void *p);
void heap_free_sized_slow(void *p, size_t size);

/* large.c: blocks over MEDIUM_MAX, or aligned to more than a slab can serve. *zeroed, unless NULL: the memory is zeros.
 * Refuses any size that no memory can hold, up to SIZE_MAX, so that its callers need not. */
void *large_alloc(size_t size, size_t alignment, bool *zeroed);
void large_free(void *p, unsigned kind);
size_t large_size(const void *p, unsigned kind);
/* Bytes of live blocks with a mapping. */
size_t large_live_bytes(void);
/* Secure mode: so many freed mappings wait in the quarantines of all threads, and so many bytes of address space. A process
 * may have 65,530 mappings; one that waits takes two more. */
#define LARGE_WAITING 64u
#define LARGE_WAITING_BYTES ((size_t)1 << 30)
/* false: a mapping with that block does not wait, because too many do. */
bool large_wait_begin(size_t bytes);
void large_wait_end(size_t bytes);
size_t large_waiting_bytes(void);
/* Resizes in place or by moving pages; NULL: it must be copied. */
void *large_resize(void *p, unsigned kind, size_t size);
/* Whether that leaves the block, which has a mapping, exactly as it is. */
bool large_stays(const void *p, size_t size);
/* Whether the block of that many bytes may have been requested with `size`, or resized to it. */
bool large_may_have(size_t usable, unsigned kind, size_t size);

/* pressure.c: the caller is about to use `bytes` that are not in memory. Gives back as many, if too much is free compared
 * with what is in use. Any thread. */
void pressure_before(size_t bytes, enum pressure side);

/* For AddressSanitizer. handed_out: if there is a block, `size` bytes of it, at least one, may be touched. given_back:
 * nobody may touch the block any more, nor free it again. */
#if defined(WEFT_POISONS)
INLINE void handed_out(const void *p, size_t size) {
    if (p != NULL) unpoison(p, size + (size == 0));
}
void given_back(void *p);
#else
INLINE void handed_out(const void *p, size_t size) { (void)p, (void)size; }
INLINE void given_back(void *p) { (void)p; }
#endif

/* A block that a thread's heap has freed has a tag in its first word until it is handed out again: its address plus the word
 * of a slot of its kind. The tag is no address, and no other block's tag. AddressSanitizer detects double frees itself. */
INLINE uint64_t freed_tag(const void *p, uint64_t word) { return (uint64_t)(uintptr_t)p + word; }
INLINE uint64_t tag_of(const void *p, unsigned kind) { return freed_tag(p, SLOT_WORD(kind)); }
INLINE uint64_t first_word(const void *p) {
    uint64_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return word;
}
INLINE void first_word_set(void *p, uint64_t word) { __builtin_memcpy(p, &word, sizeof word); }
#if defined(WEFT_POISONS)
INLINE bool is_tagged(const void *p, uint64_t tag) { return p == NULL && tag == 0; }
INLINE void tag_put(void *p, uint64_t tag) { (void)p, (void)tag; }
INLINE void tag_clear(void *p) { (void)p; }
#else
INLINE bool is_tagged(const void *p, uint64_t tag) { return first_word(p) == tag; }
INLINE void tag_put(void *p, uint64_t tag) { first_word_set(p, tag); }
INLINE void tag_clear(void *p) { first_word_set(p, 0); }
#endif

/* NULL: the cache is empty. */
INLINE void *cache_pop(struct heap *heap, unsigned kind) {
    void **top = load_rlx(&heap->top[kind]);
    void *block = *top;
    if (UNLIKELY(block == NULL)) return NULL;
    step_place(&heap->top[kind], top, true);
    tag_clear(block);
    return block;
}
/* The same for a class over TINY_MAX. NULL: also if no block begins where the topmost should be (is_start). */
INLINE void *cache_pop_medium(struct heap *heap, unsigned kind) {
    const void *block = *load_rlx(&heap->top[kind]);
    return LIKELY(is_start(kind, block)) ? cache_pop(heap, kind) : NULL;
}

/* Called when as many frees of the kind were counted as may be without a look at the clock. */
NOINLINE void heap_counted(struct heap *heap, unsigned kind);
/* The same, after that block was freed into the thread's cache. */
NOINLINE void heap_counted_free(const void *p);

/* false: the cache is full. */
INLINE bool cache_push(struct heap *heap, size_t kind, void *block) {
    void **top = load_rlx(&heap->top[kind]);
    if (UNLIKELY(top >= heap->limit[kind])) return false;
    top[1] = block;
    store_rlx(&heap->top[kind], top + 1);
    if (UNLIKELY(count_byte(&heap->frees[kind]))) heap_counted(heap, (unsigned)kind);
    return true;
}

/* A block from the cache of the size's class. NULL: the cache is empty, or there is none for that size. */
INLINE void *heap_alloc_cached(size_t size) {
    if (UNLIKELY(size > TINY_MAX) && UNLIKELY(size > MEDIUM_MAX)) return NULL; /* one test for the small ones */
    struct heap *heap = heap_mine();
    void *block;
    if (LIKELY(size <= TINY_MAX)) {
        block = cache_pop(heap, heap->class_of[(size + BLOCK_MIN - 1) / BLOCK_MIN]);
    } else {
        block = cache_pop_medium(heap, class_of(size));
        __asm__("" : "+r"(block)); /* or the compiler merges both paths, which costs the first an instruction */
    }
    handed_out(block, size);
    return block;
}

INLINE void *heap_alloc(size_t size) {
    void *block = heap_alloc_cached(size);
    return LIKELY(block != NULL) ? block : heap_alloc_slow(size);
}

/* The head that holds a block's kind. A block at a multiple of SEGMENT_BYTES is not in the segment that begins there. */
INLINE struct heap_segment *head_of(const void *p) { return segment_of((const void *)((uintptr_t)p - 1)); }
INLINE unsigned kind_of(const void *p) { return slot_kind(head_of(p), slot_of(p)); }

/* Whether no block of a kind with that divisor begins at p, as far as the divisor tells, or p has the tag and is free. */
INLINE bool is_misuse(const void *p, uint64_t divisor, uint64_t tag) {
    return UNLIKELY(slot_offset(p) * (uint32_t)divisor > UINT16_MAX) || UNLIKELY(is_tagged(p, tag));
}

/* As cache_push, for the word of the slot that p points into, wherever that is. false: also if something is wrong with p. */
INLINE bool row_push(const os_self *self, uint64_t word, void *p) {
    uint64_t tag = freed_tag(p, word);
    __asm__("" : "+r"(tag)); /* or the compiler adds later and copies the word for it */
    struct heap_row *row = (struct heap_row *)(self->heap_base + word);
    void **top = load_rlx(&row->top[0]);
    if (UNLIKELY(top >= row->limit[0]) || is_misuse(p, row->divisor[0], tag)) return false;
    top[1] = p;
    tag_put(p, tag);
    step_place(&row->top[0], top, false);
    if (UNLIKELY(count_byte(&row->frees[0]))) heap_counted_free(p);
    return true;
}

/* The segment that p may be in. Negative: p is NULL. 0: all frees of the thread take the slow path. */
INLINE intptr_t segment_at(const os_self *self, const void *p) { return (intptr_t)(((uintptr_t)p - 1) & self->heap_mask); }
INLINE uint64_t word_at(intptr_t segment, const void *p) {
    return load_rlx(&((const struct heap_segment *)segment)->words[slot_of(p)]);
}

INLINE void heap_free(void *p) {
    const os_self *self = os_self_get();
    given_back(p);
    intptr_t segment = segment_at(self, p);
    if (UNLIKELY(segment <= 0 || !row_push(self, word_at(segment, p), p))) heap_free_slow(p);
}

INLINE void heap_free_sized(void *p, size_t size) {
    const os_self *self = os_self_get();
    given_back(p);
    intptr_t segment = segment_at(self, p);
    uint64_t word = size > MEDIUM_MAX ? 0 : SLOT_WORD(class_of(size));
    if (UNLIKELY(segment <= 0 || word_at(segment, p) != word || !row_push(self, word, p))) heap_free_sized_slow(p, size);
}

INLINE uint32_t cache_count(const struct heap *heap, unsigned kind) {
    return (uint32_t)(load_rlx(&heap->top[kind]) - heap->base[kind]);
}

/* Blocks that left the cache for the user, less those that were freed into it. */
INLINE uint64_t heap_taken(const struct heap *heap, unsigned kind) {
    uint64_t cached = cache_count(heap, kind);
    if (kind >= CLASSES) return 0 - cached;
    const struct bin *bin = &heap->bins[kind];
    return load_rlx(&bin->count[COUNT_CARVED]) - load_rlx(&bin->count[COUNT_FLUSHED]) - cached;
}
/* Frees so far. */
INLINE uint64_t heap_frees(const struct heap *heap, unsigned kind) {
    uint64_t count = load_rlx(&heap->frees[kind]);
    return (count >> 8) - (uint8_t)(0 - count);
}
INLINE uint64_t heap_allocs(const struct heap *heap, unsigned kind) {
    return heap_frees(heap, kind) + heap_taken(heap, kind);
}

/* The kind of a block's slot; for a private heap's slot, what it would be in a thread's heap. */
INLINE unsigned slab_kind_of(const struct slab *slab, unsigned kind) {
    return UNLIKELY(kind == KIND_PRIVATE) ? load_rlx(&slab->private_kind) : kind;
}

struct heaps {
    ATOMIC(struct heap *) all; /* newest first */
    struct tagged idle;        /* heaps of ended threads, with all they had */
    struct tagged owing;       /* of ended threads, with slabs that could not be abandoned: others were freeing to them */
    struct tagged bare;        /* of ended threads, with nothing */
    struct tagged ended;       /* private heaps that were destroyed */
    struct tagged ended_bare;  /* the same, without memory but their own */
    ATOMIC(uint32_t) count;
    ATOMIC(uint64_t) next_decay_ns;
    heap_counter past[CLASSES][HEAP_COUNTS]; /* counts of bare heaps */
    /* the configuration */
    ATOMIC(uint32_t) config_version;
    ATOMIC(int32_t) pool_capacity;
    ATOMIC(int32_t) pool_prefill;
    ATOMIC(int64_t) decay_ms;
    ATOMIC(const struct sampler *) sampler; /* sampling.c; NULL: nobody has asked for samples */
};
extern struct heaps heaps;

/* The newest heap; the others follow by `older`. */
struct heap *heaps_all(void);
/* The calling thread's heap, made if it has none; NULL: no memory. */
struct heap *heap_get(void);
/* The same for one call, which ends with heap_return: for a thread that will not be told again that it ends. */
struct heap *heap_borrow(bool *is_lent);
void heap_return(bool is_lent);
/* Empties the thread's cache and collects what others freed. */
void heap_tidy(struct heap *heap);
/* Strips the heap of one ended thread: sends its blocks home, and its slabs to the orphans and the depot. false: there is no
 * such heap. Any thread. */
bool heap_strip_one(void);
/* Gives every heap's LRU to the depot. Any thread. */
void heap_drop_lrus(void);
size_t heap_trim(void);
/* The slab is about to be one of that class, with `touched` of it in memory. Gives its pages back if it is likely the
 * class's last slab. Returns how much of it is in memory then. */
uint32_t heap_trim_last(struct heap *heap, struct slab *slab, unsigned kind, uint32_t touched);
/* Gives back what has not been used for a while, when it is time. */
void heap_decay(struct heap *heap);
/* Half the time that empty memory is kept. */
uint64_t heap_decay_period_ns(void);
/* For the purge thread: runs a turn of decay in place of the other threads, with a heap that has no slabs and only keeps the
 * time. */
void heap_decay_turn(struct heap *heap);
/* The counts of the class in bare heaps: HEAP_COUNTS of them. Read them before those of the heaps. Any thread. */
void counts_past(unsigned kind, heap_counter *past);

/* heap_watch.c */
/* Call it when the heap begins. */
void heap_watch_none(struct heap *heap);
/* Call it when a slab has emptied. */
void heap_watch_begin(struct heap *heap);
/* Call it from heap_counted. Returns whether to look at the clock. */
bool heap_watch_counted(struct heap *heap, unsigned kind);
/* The next `step` frees of the kind, at most 255, are counted without a call of heap_counted. */
void heap_count_from(struct heap *heap, unsigned kind, uint32_t step);
/* How many such frees are left. */
INLINE uint32_t heap_until_counted(const struct heap *heap, unsigned kind) {
    return 256 - (uint8_t)load_rlx(&heap->frees[kind]);
}
/* Call it after a look at the clock. is_calm: the last look was some time ago. */
void heap_watch_looked(struct heap *heap, bool is_calm);
/* Call it when the heap's caches rest, before this empties any. */
void heap_watch_rest(struct heap *heap);

/* heap_asleep.c: gives back the pages of slabs all of whose blocks others have freed. Returns the bytes. Any thread. */
size_t heap_visit(struct heap *heap);
/* For the owner, who finds no memory: waits until nobody visits the heap. Returns whether there may be memory now. */
bool heap_visit_wait(struct heap *heap);
/* first: heaps_all(). The same for all heaps; for those whose owners have done nothing since the last call; whether such a
 * call may find any. */
size_t heap_asleep_trim(struct heap *first);
void heap_asleep_turn(struct heap *first);
bool heap_asleep_waits(struct heap *first);

/* heap_overflow.c */
/* Keeps blocks that the cache has no room for. false: it does not take them, or has no room; the caller still owns them. */
bool heap_overflow_put(struct heap *heap, unsigned kind, void *const *blocks, uint32_t count);
/* Whether the class's blocks in the full cache and those kept are few in bytes and lie in few slabs of the heap's. */
bool heap_overflow_is_dense(const struct heap *heap, unsigned kind);
/* Moves at most `count` of the kept blocks, the latest first, into slots. Returns how many. */
uint32_t heap_overflow_take(struct heap *heap, unsigned kind, void **slots, uint32_t count);
/* Takes all kept blocks, *count of them, where they lie. Nothing is kept any more, and the caller releases them. */
void **heap_overflow_all(struct heap *heap, unsigned kind, uint32_t *count);
/* Call it when the class rests. Returns whether none was taken since the last rest. */
bool heap_overflow_is_idle(struct heap *heap, unsigned kind);
/* Gives the memory back, if nothing is kept. */
void heap_overflow_end(struct heap *heap);

/* heap_purge.c: starts or stops the purge thread. also(), unless NULL, must first return WEFT_OK; a new thread has no heap
 * before that. WEFT_OK, also if there is nothing to do; WEFT_EAGAIN: no thread; WEFT_EBUSY: another thread is changing it;
 * or also()'s error. On an error nothing changed. */
int purge_set(bool wanted, int (*also)(void));

/* Makes a heap, with its caches open or, in checked mode, closed. NULL: no memory. */
struct heap *heap_make(void);
/* Begins a heap without slabs, for the first time or again. */
void heap_begin(struct heap *heap);

/* ---- checked mode: heap_check.c ----------------------------------------------------------------------------------- */

/* As their namesakes, but they report on standard error whatever is wrong with p, and abort the process. SIZE_ANY: the size
 * is not known. */
#define SIZE_ANY SIZE_MAX
void *check_alloc(size_t size, size_t alignment);
void check_free(void *p, size_t size);
size_t check_usable(const void *p);
/* Secure mode: resizes the block in place, if possible. Returns whether it has that size now. */
bool check_resize(void *p, size_t size);
/* The same for a private heap. false: the block is not of that heap; nothing happened. */
void *check_alloc_in(struct heap *heap, size_t size);
bool check_free_in(struct heap *heap, void *p);
/* Begins the mode, or fails: no memory, or other threads have heaps. Returns a WEFT_E* code. */
int check_begin(void);
int check_begin_secure(void);
/* Marks a block as freed. false: the mark was no longer *found, so another thread changed it. */
bool check_mark_end(block_mark *mark, uint64_t *found);
/* Frees the blocks in the heap's quarantine. */
void check_flush(struct heap *heap);
/* The slab's blocks no longer belong to anybody. */
void check_forget(const struct slab *slab);
/* The slab begins: clears marks that the slot's earlier use has left. */
void check_renew(const struct slab *slab);

/* ---- reports without checked mode: misuse.c ------------------------------------------------------------------------ */

/* If something is wrong with p, each of these says so on standard error and aborts the process. Otherwise it returns. */
/* p should be a block that is not known to be free. Any thread. */
void misuse_look(const void *p, const char *call);
/* As misuse_look; moreover, it should be a block that may have been allocated with that size. */
void misuse_sized(const void *p, size_t size);
/* A freed block goes to its slab, but no block begins at p, or it is free already. Does not return. */
void misuse_found(const void *p);

/* ---- samples: sampling.c, where there is a sampler ------------------------------------------------------------------ */

/* Allocates in place of alloc_uncached. *zeroed, unless NULL: as large_alloc. from: the return address of the caller's
 * caller. */
void *sampling_alloc(size_t size, bool *zeroed, const void *from);
/* Call it for a block that large_alloc has made. */
void sampling_large(void *p, size_t size, const void *from);
/* Call these before and after the slow paths use the kind's cache. */
void sampling_lift(struct heap *heap, unsigned kind);
void sampling_lower(struct heap *heap, unsigned kind);
/* Whether the slab's blocks are samples, which sampling_free frees. */
bool sampling_has(const struct slab *slab);
void sampling_free(void *p);
/* Call it before a block over MEDIUM_MAX ends: it may be a sample. */
void sampling_end(const void *p);
/* Call it when a block that may be a sample is resized in place to that size. */
void sampling_resize(const void *p, size_t size);

/* ---- private heaps: heap_private.c -------------------------------------------------------------------------------- */

/* Allocates a block over MEDIUM_MAX for a private heap. NULL: no memory. */
void *private_large(struct heap *heap, size_t size);
/* Gives back the memory of a slab whose one large block was freed. Owner. */
void private_large_end(struct heap *heap, struct slab *slab);
/* Frees a block of a private heap. Any thread. */
void private_free(void *p);

/* ---- heap.c, for the others --------------------------------------------------------------------------------------- */

/* One block of the class, past the cache, as checked mode takes and frees it. NULL: no memory. */
void *heap_take_one(struct heap *heap, unsigned kind);
void heap_put_one(struct heap *heap, void *p, unsigned kind);
/* Frees a block of a class past a full cache. */
void heap_free_small(struct heap *heap, void *p, unsigned kind);
/* Allocates as heap_alloc_slow does once the cache is empty. */
void *heap_alloc_refilled(struct heap *heap, unsigned kind);
/* Gives the slab's slot, which nobody uses, to the depot. */
void heap_slot_free(struct slab *slab);
/* Call it after a large block, or a part of one, was freed past the cache: some thread must see it decay. */
void heap_freed_large(void);

/* For heap_life.c. */
void heap_config_set(struct heap *heap);
void heap_room_set(struct heap *heap, unsigned kind, uint32_t blocks);
uint32_t heap_room_start(unsigned kind);
void heap_collect(struct heap *heap);
/* Gives back the pages of the heap's slabs that hold no block in use. Returns the bytes. */
size_t heap_purge_slabs(const struct heap *heap);
/* Releases all blocks of the class's cache and overflow. */
void heap_kind_tidy(struct heap *heap, unsigned kind);
void heap_overflow_drop(struct heap *heap, unsigned kind);
uint32_t heap_adopt(struct heap *heap, unsigned kind);
void heap_lru_drop(struct heap *heap);
/* Turns the heap's slabs into orphans, except those that other threads are freeing to right now. Returns whether the heap
 * has none left. */
bool heap_abandon(struct heap *heap);

#endif
