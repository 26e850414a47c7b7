/* slab.h: slots cut into blocks of one size. Layer 2.
 *
 * A slab belongs to one heap, which alone hands out its blocks; other threads give blocks back through the slab's remote
 * bits. Blocks carry no header, and free ones no links: the descriptor says which are free. */
#ifndef WEFT_SLAB_H
#define WEFT_SLAB_H

#include "pages/pages.h"

#define MEDIUM_MAX ((size_t)32768)
#define TINY_MAX ((size_t)1024)

/* Four classes to each doubling above 128. Two more, 1152 and 4608, fit a power of two and a header. */
#define CLASS_SIZES(X)                                                                                                      \
    X(16), X(32), X(48), X(64), X(80), X(96), X(112), X(128), X(160), X(192), X(224), X(256), X(320), X(384), X(448),       \
        X(512), X(640), X(768), X(896), X(1024), X(1152), X(1280), X(1536), X(1792), X(2048), X(2560), X(3072), X(3584),    \
        X(4096), X(4608), X(5120), X(6144), X(7168), X(8192), X(10240), X(12288), X(14336), X(16384), X(20480), X(24576),   \
        X(28672), X(32768)

/* Blocks in a thread's cache of a class. */
#ifndef CACHE_BLOCKS_MAX
#define CACHE_BLOCKS_MAX 256
#endif
#define CACHE_BYTES (1 << 17)
#define CACHE_BLOCKS_MIN 32
#define CACHE_RUNS 16
#define CLAMP(n, low, high) ((n) < (low) ? (low) : (n) > (high) ? (high) : (n))
#define CACHE_BLOCKS(bytes) CLAMP(CACHE_BYTES / (bytes), CACHE_BLOCKS_MIN, CACHE_BLOCKS_MAX)

/* Of a size class or a run. offset * magic >> 32 is the index of the block that begins at that offset from the slab's start.
 * Where a block begins, the lower 32 bits of its offset in the slot * divisor are less than 2^16. For runs and classes up to
 * TINY_MAX that is so nowhere else. For others, which may have a margin before their blocks, it is so at each line's
 * start. */
struct class_info {
    uint32_t size;
    uint32_t magic;
    uint32_t divisor;
    uint32_t blocks;
    uint32_t hot;       /* free blocks from which on a drained slab is worth a refill again */
    uint32_t cache_max; /* blocks in a thread's cache */
    uint32_t margins;   /* mask of slab_margin */
};
extern const struct class_info class_info[KIND_DIRECT + 1];
#define MEDIUM_STEP 128                                             /* all sizes above TINY_MAX are multiples of it */
extern const uint8_t class_of_tiny[TINY_MAX / BLOCK_MIN + 1];       /* by (size + 15) / 16 */
extern const uint8_t class_of_medium[MEDIUM_MAX / MEDIUM_STEP + 1]; /* by (size + 127) / 128 */

/* The class of blocks of `size` bytes, at most MEDIUM_MAX. */
INLINE unsigned class_of(size_t size) {
    return LIKELY(size <= TINY_MAX) ? class_of_tiny[(size + BLOCK_MIN - 1) / BLOCK_MIN]
                                    : class_of_medium[(size + MEDIUM_STEP - 1) / MEDIUM_STEP];
}

/* The least class whose blocks hold `size` bytes at multiples of `alignment`, a power of two; CLASSES: none does. In a slot,
 * which is aligned, blocks start at multiples of their size; over TINY_MAX a margin of whole lines comes before the first
 * block. */
unsigned class_aligned(size_t alignment, size_t size);

/* The kind of a run for `size` bytes, more than 0 and at most RUN_CACHED_MAX. */
#define RUN_CACHED_MAX (RUNS * SLOT_BYTES)
INLINE unsigned kind_of_run(size_t size) { return CLASSES + (unsigned)((size - 1) >> SLOT_SHIFT); }

struct heap; /* aligned to SLOT_BYTES */

/* A slab's state: the owner's address plus the number of announced frees, and for a slab with such frees: */
#define SLAB_HELD ((uint64_t)SLOT_BYTES / 2)  /* a visitor has it (heap_asleep.c) */
#define SLAB_GIVEN ((uint64_t)SLOT_BYTES / 4) /* its pages went back while its owner slept */
#define PENDING_MASK (SLAB_GIVEN - 1)
_Static_assert(SLAB_BLOCKS_MAX <= PENDING_MASK, "all blocks of a slab may be announced");
INLINE struct heap *state_owner(uint64_t state) { return (struct heap *)(uintptr_t)(state & ~((uint64_t)SLOT_BYTES - 1)); }
INLINE struct heap *slab_owner(const struct slab *slab) { return state_owner(load_rlx(&slab->state)); }

typedef ATOMIC(struct slab *) slab_link;

/* Announces slabs with remote frees to their owner. */
struct inbox {
    slab_link first;      /* pushed by anybody, taken by the owner, or for a moment by a visitor (heap_asleep.c) */
    struct slab *waiting; /* the owner's: announced frees whose bits have not arrived yet */
    os_word visitors;     /* that hold slabs of the inbox, and which visit it is: heap_asleep.c */
};

#define VISITORS 1024u /* one more than may visit a heap at once */

#define MARGIN_STEP 29 /* lines; odd, so that all margins occur in turn */

/* Turns an empty slab of the caller's into a slab of that class, all of it free. `touched`: how much of its pages is in
 * memory. Owner. */
void slab_init(struct slab *slab, unsigned kind, struct heap *owner, uint32_t touched);
/* How much of an empty slab's pages is in memory, in SLOT_PARTS. Owner. */
uint32_t slab_touched(const struct slab *slab);
/* Turns it into a slab of one large block, which is in use. Owner. */
void slab_init_large(struct slab *slab, unsigned kind, struct heap *owner);
/* Whether more than half of it was ever handed out since it began. Owner. */
INLINE bool slab_has_grown(const struct slab *slab) { return slab->carved > class_info[slab->kind].blocks / 2; }
INLINE bool slab_is_free(const struct slab *slab, uint32_t index) {
    return index >= slab->carved || (slab->free != NULL && (slab->free[index / 64] >> index % 64 & 1) != 0);
}
/* How many of the next `count` blocks to be carved were never used since their pages came from the system. */
INLINE uint32_t slab_cold(const struct slab *slab, uint32_t count) {
    uint32_t blocks = class_info[slab->kind].blocks, freed = slab->room - (blocks - slab->carved);
    if (slab->touched == SLOT_PARTS || count <= freed) return 0;
    uint32_t size = class_info[slab->kind].size, in_memory = slab->touched * (uint32_t)(SLOT_BYTES / SLOT_PARTS);
    uint32_t first = (in_memory + size - 1) / size;
    uint32_t end = slab->carved + (uint32_t)min_u64(count - freed, blocks - slab->carved);
    return end - CLAMP(first, slab->carved, end);
}
/* Moves at most `count` free blocks to slots[0], slots[1], ...: first blocks that were never handed out, then those that
 * were freed, in each sort the highest address first. Returns how many. Owner. */
uint32_t slab_carve(struct slab *slab, void **slots, uint32_t count);
/* Takes a random free block among the lowest ones, for secure mode; room > 0. *drawn: the owner's, for mode_random.
 * Owner. */
void *slab_carve_any(struct slab *slab, uint64_t *drawn);
/* Bytes before a slab's first block, fewer than a block's. For blocks over TINY_MAX, they are taken from the rest that
 * blocks leave of a slot, and differ from slab to slab: blocks at multiples of a page would share a few sets of each
 * processor cache. */
INLINE size_t slab_margin(unsigned kind, const void *in_slab) {
    return ((uintptr_t)in_slab >> SLOT_SHIFT) * MARGIN_STEP * CACHE_LINE & class_info[kind].margins;
}
/* The index of a block in its slab, from the address of its first byte. */
INLINE uint32_t index_in(unsigned kind, const void *block) {
    return (uint32_t)(((uint64_t)slot_offset(block) * class_info[kind].magic) >> 32);
}

/* Call it before carving the slab, if any: fetches what that reads, and the next slab's descriptor. */
INLINE void slab_prefetch(const struct slab *slab) {
    if (slab == NULL) return;
    if (slab->free != NULL) prefetch_read(&slab->free[slab->first_word]);
    prefetch_read(slab->next);
}

/* Takes a place for bits beyond the descriptor. The slab has none yet, and a block is about to come back. Owner. */
void slab_bits_take(struct slab *slab);
/* Gives the place back, if the slab has one; no block is in use. Owner. */
void slab_bits_drop(struct slab *slab);

/* Whether a block begins there, for those addresses that is_misuse (heap.h) lets pass. */
INLINE bool is_start(unsigned kind, const void *block) {
    const struct class_info *info = &class_info[kind];
    return info->margins == 0 || slot_offset(block) == slab_margin(kind, block) + index_in(kind, block) * info->size;
}

/* How many of the blocks, counted from the first, are of the first one's slab: at least one. */
INLINE uint32_t slab_run(void *const *blocks, uint32_t count) {
    uint32_t n = 1;
    while (n < count && ((uintptr_t)blocks[n] ^ (uintptr_t)blocks[0]) < SLOT_BYTES) n++;
    return n;
}

/* Gives back those whole pages of the slab that hold no block in use. Returns how many bytes of them were in memory. Its free
 * blocks lose their tags (heap.h). Owner. */
size_t slab_purge(const struct slab *slab);

/* Frees blocks of the slab, in order. Returns how many: all, or those before the first that is misuse: no block begins there
 * that was handed out and is not free. Owner. */
uint32_t slab_put(struct slab *slab, void *const *blocks, uint32_t count);

/* Whether it pays to write into blocks that go home. On one processor that halves the time that a block takes; on another it
 * adds a third. So each thread measures both ways in turns, for some phases of TRIAL_BLOCKS blocks, and then keeps to the
 * quicker one for a while. All zero at first. */
struct trial {
    uint64_t begun_ns, before_ns; /* when this phase began; how long the previous one took */
    uint32_t blocks;              /* sent in this phase */
    uint8_t phase;
    int8_t votes; /* pairs of phases in which writing was quicker, less those in which it was slower */
    bool writes;  /* the result, used between trials */
};
#define TRIAL_BLOCKS 32768u /* more than are in transit between threads: these hide for a while which side is slower */
/* Ends a phase. Returns whether to write in the next one. */
bool trial_next(struct trial *trial, uint64_t now_ns);
/* Returns whether to write into the next `count` blocks. */
bool trial_writes(struct trial *trial, uint32_t count);

/* Writes into blocks of the caller's that are about to be sent, to speed up their next use. *spared: lines of a block that
 * need not be written, times 256, learnt from blocks that were sent before. */
void blocks_write(unsigned kind, void *const *blocks, uint32_t count, uint16_t *spared);
/* Fetches what slab_send is about to write for that block of that kind. Any thread. */
void slab_send_prefetch(struct slab *slab, unsigned kind, const void *block);
/* Frees `count` blocks, at least one, of one slab that is not the caller's, in one message. Any thread. */
void slab_send(struct slab *slab, void *const *blocks, uint32_t count);
/* The slabs whose frees are to be collected; inbox_next leads from each to the next. Owner. */
struct slab *inbox_take(struct inbox *inbox);
struct slab *inbox_next(struct slab *slab);
/* Collects what has arrived, and returns how many blocks. If announced frees have not arrived, the slab joins the waiting
 * ones. Owner. */
uint32_t inbox_collect(struct inbox *inbox, struct slab *slab);
INLINE bool inbox_is_empty(const struct inbox *inbox) { return load_rlx(&inbox->first) == NULL && inbox->waiting == NULL; }

/* How many blocks others have freed and the owner has not collected. For who holds the slab (heap_asleep.c). */
uint32_t slab_arrived(struct slab *slab);

/* Gives the slab up. false: frees of it are under way, and it stays the caller's. Owner. */
bool slab_abandon(struct slab *slab, struct heap *owner);
/* Makes the caller's heap the owner. If frees were announced meanwhile, the slab joins the waiting ones. */
void slab_adopt(struct slab *slab, struct heap *owner, struct inbox *inbox);

/* Lists of slabs by their `link`, last in first out: a heap's inbox, its empty slabs, and the abandoned slabs of each class,
 * which the thread that takes them must adopt. Any thread may push, and take all (NULL: none). Pop is only for a heap's
 * empty slabs, and only while that heap's thread alone pushes. */
extern slab_link orphans[CLASSES];
void slabs_push(slab_link *list, struct slab *slab);
/* Pushes the slabs from `first` to `last`, which are linked already. */
void slabs_push_row(slab_link *list, struct slab *first, struct slab *last);
struct slab *slabs_take(slab_link *list);
struct slab *slabs_pop(slab_link *list);

#endif
