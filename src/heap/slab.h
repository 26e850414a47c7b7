/* slab.h: slots cut into blocks of one size. Layer 2.
 *
 * A slab belongs to one heap, which alone hands out its blocks; other threads give blocks back through the slab's remote
 * bits. Blocks carry no header, and nothing is kept in a free one: what is free stands in the descriptor. */
#ifndef WEFT_SLAB_H
#define WEFT_SLAB_H

#include "pages/pages.h"

#define MEDIUM_MAX ((size_t)32768)
#define TINY_MAX ((size_t)1024)

/* Four classes to each doubling above 128, and one between 1024 and 1280, 4096 and 5120: a power of two and a header. */
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

/* Of a size class or a run. offset * magic >> 32 is the index of the block that begins at that offset from the slab's
 * start. Where a block begins, the lower 32 bits of its offset in the slot * divisor are less than 2^16: of runs and classes up
 * to TINY_MAX nowhere else, of others, before whose blocks a margin may stand, at each line's start. */
struct class_info {
    uint32_t size;
    uint32_t magic;
    uint32_t divisor;
    uint32_t blocks;
    uint32_t hot;       /* free blocks with which a drained slab is worth a refill again */
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

/* The least class whose blocks hold `size` bytes at multiples of `alignment`, a power of two; CLASSES: none does. Blocks
 * start at multiples of their size from an aligned slot and, over TINY_MAX, a margin of whole lines. */
unsigned class_aligned(size_t alignment, size_t size);

/* The kind of a run for `size` bytes, more than 0 and at most RUN_CACHED_MAX. */
#define RUN_CACHED_MAX (RUNS * SLOT_BYTES)
INLINE unsigned kind_of_run(size_t size) { return CLASSES + (unsigned)((size - 1) >> SLOT_SHIFT); }

struct heap; /* aligned to SLOT_BYTES */

#define PENDING_MASK ((uint64_t)SLOT_BYTES - 1)
INLINE struct heap *state_owner(uint64_t state) { return (struct heap *)(uintptr_t)(state & ~PENDING_MASK); }
INLINE struct heap *slab_owner(const struct slab *slab) { return state_owner(load_rlx(&slab->state)); }

typedef ATOMIC(struct slab *) slab_link;

/* Where slabs with remote frees are announced to their owner. */
struct inbox {
    slab_link first;      /* pushed by anybody, taken by the owner */
    struct slab *waiting; /* the owner's: announced frees whose bits have not arrived yet */
};

#define MARGIN_STEP 29 /* lines; odd, so that each margin comes in its turn */

/* Makes an empty slab of the caller's a slab of that class, all of it free. `touched`: what of its pages is in memory. Owner. */
void slab_init(struct slab *slab, unsigned kind, struct heap *owner, uint32_t touched);
/* What of an empty slab's pages is in memory, of SLOT_PARTS. Owner. */
uint32_t slab_touched(const struct slab *slab);
/* Makes it a slab of one large block, which is in use. Owner. */
void slab_init_large(struct slab *slab, unsigned kind, struct heap *owner);
/* More than half of it was handed out since it began. Owner. */
INLINE bool slab_has_grown(const struct slab *slab) { return slab->carved > class_info[slab->kind].blocks / 2; }
INLINE bool slab_is_free(const struct slab *slab, uint32_t index) {
    return index >= slab->carved || (slab->free != NULL && (slab->free[index / 64] >> index % 64 & 1) != 0);
}
/* Of the next `count` blocks to be carved, those never used since their pages came from the system. */
INLINE uint32_t slab_cold(const struct slab *slab, uint32_t count) {
    uint32_t blocks = class_info[slab->kind].blocks, freed = slab->room - (blocks - slab->carved);
    if (slab->touched == SLOT_PARTS || count <= freed) return 0;
    uint32_t size = class_info[slab->kind].size, in_memory = slab->touched * (uint32_t)(SLOT_BYTES / SLOT_PARTS);
    uint32_t first = (in_memory + size - 1) / size;
    uint32_t end = slab->carved + (uint32_t)min_u64(count - freed, blocks - slab->carved);
    return end - CLAMP(first, slab->carved, end);
}
/* Moves at most `count` free blocks to slots[0], slots[1], ..., those freed before last, and of each sort the highest address
 * first. Returns how many. Owner. */
uint32_t slab_carve(struct slab *slab, void **slots, uint32_t count);
/* One free block among the lowest, of secure mode's choice; room > 0. *drawn: the owner's, of mode_random. Owner. */
void *slab_carve_any(struct slab *slab, uint64_t *drawn);
/* Bytes before a slab's first block, less than one. What blocks over TINY_MAX leave of a slot stands before them, and is
 * more in one slab than in the next: blocks at multiples of a page would share a few sets of each processor cache. */
INLINE size_t slab_margin(unsigned kind, const void *in_slab) {
    return ((uintptr_t)in_slab >> SLOT_SHIFT) * MARGIN_STEP * CACHE_LINE & class_info[kind].margins;
}
/* Which block of its slab it is, by its first byte. */
INLINE uint32_t index_in(unsigned kind, const void *block) {
    return (uint32_t)(((uint64_t)slot_offset(block) * class_info[kind].magic) >> 32);
}

/* The slab, if any, is the next to be carved: fetches what that reads, and the head of the one after. */
INLINE void slab_prefetch(const struct slab *slab) {
    if (slab == NULL) return;
    if (slab->free != NULL) prefetch_read(&slab->free[slab->first_word]);
    prefetch_read(slab->next);
}

/* A place for bits beyond the descriptor: the slab has none, and a block comes back. Owner. */
void slab_bits_take(struct slab *slab);
/* The place, if it has one, is another's from here on: no block is in use. Owner. */
void slab_bits_drop(struct slab *slab);

/* Whether one begins there, of those that is_misuse (heap.h) lets pass. */
INLINE bool is_start(unsigned kind, const void *block) {
    const struct class_info *info = &class_info[kind];
    return info->margins == 0 || slot_offset(block) == slab_margin(kind, block) + index_in(kind, block) * info->size;
}

/* How many of the blocks, from the first on, are of its slab: at least one. */
INLINE uint32_t slab_run(void *const *blocks, uint32_t count) {
    uint32_t n = 1;
    while (n < count && ((uintptr_t)blocks[n] ^ (uintptr_t)blocks[0]) < SLOT_BYTES) n++;
    return n;
}

/* Frees blocks of the slab, in turn. Returns how many: all, or those before one that is misuse: none begins there that was
 * handed out and is not free. Owner. */
uint32_t slab_put(struct slab *slab, void *const *blocks, uint32_t count);

/* Whether it pays to write into blocks that go home: on one processor it halves the time that a block takes, on another it
 * adds a third. So each thread tries, both ways in turns for some phases of so many blocks, and goes on with the quicker one
 * for a while. All zero at first. */
struct trial {
    uint64_t begun_ns, before_ns; /* this phase; what the one before took */
    uint32_t blocks;              /* sent in this phase */
    uint8_t phase;
    int8_t votes; /* pairs of phases of which the one that wrote was quicker, less those of which it was slower */
    bool writes;  /* between the trials */
};
#define TRIAL_BLOCKS 32768u /* more than what travels between the threads: it hides for a while who is slower */
/* A phase ends. Returns whether to write in the next one. */
bool trial_next(struct trial *trial, uint64_t now_ns);
/* Whether to write into the next `count` blocks. */
bool trial_writes(struct trial *trial, uint32_t count);

/* Writes into blocks of the caller's that are about to be sent, for who has them next. *spared: lines of a block that need
 * not be written, times 256, learnt from blocks that come again. */
void blocks_write(unsigned kind, void *const *blocks, uint32_t count, uint16_t *spared);
/* Fetches what slab_send writes: soon to be called, with that block of that kind among others. Any thread. */
void slab_send_prefetch(struct slab *slab, unsigned kind, const void *block);
/* Frees `count` blocks, at least one, of one slab that is not the caller's, in one message. Any thread. */
void slab_send(struct slab *slab, void *const *blocks, uint32_t count);
/* The slabs whose frees are to be collected, linked by inbox_next. Owner. */
struct slab *inbox_take(struct inbox *inbox);
struct slab *inbox_next(struct slab *slab);
/* Collects what has arrived and returns how many blocks. Frees announced and not arrived put it among the waiting. Owner. */
uint32_t inbox_collect(struct inbox *inbox, struct slab *slab);
INLINE bool inbox_is_empty(const struct inbox *inbox) { return load_rlx(&inbox->first) == NULL && inbox->waiting == NULL; }

/* Gives the slab up: false: frees of it are under way, it stays the caller's. Owner. */
bool slab_abandon(struct slab *slab, struct heap *owner);
/* Makes the caller's heap the owner; frees announced meanwhile put the slab among the waiting. */
void slab_adopt(struct slab *slab, struct heap *owner, struct inbox *inbox);

/* Lists of slabs by their `link`, the last one in first out: a heap's inbox, its empty slabs, and the abandoned slabs of each
 * class, each of which who takes it must then adopt. Push, and take all; NULL: none. Any thread. Pop: a heap's empty slabs alone,
 * if the heap's thread alone pushes. */
extern slab_link orphans[CLASSES];
void slabs_push(slab_link *list, struct slab *slab);
struct slab *slabs_take(slab_link *list);
struct slab *slabs_pop(slab_link *list);

#endif
