/* depot.h: segments of address space, their slots, and who owns them. Layer 2.
 *
 * A segment is SEGMENT_BYTES of address space at a multiple of SEGMENT_BYTES, so that any pointer into it leads to its
 * head by a mask. Its first slots hold the head: what each slot is used for, which slots are free, and a descriptor for
 * each. Heads are never unmapped: only the pages of free slots go back to the system, or the slots of a segment that becomes
 * hollow (depot.c). So a thread that reads a descriptor late still reads a descriptor.
 *
 * A slot is free (its bit in `free` is set), or it belongs to the thread that cleared the bit.
 *
 * In secure mode (mode.h) a thread that takes slots gets them at a random place, with a guard slot on either side that
 * nobody may touch. The guards belong to the taker, too, and go back with the slots. */
#ifndef WEFT_DEPOT_H
#define WEFT_DEPOT_H

#include "pages/mode.h"

#ifndef SLOT_SHIFT
#define SLOT_SHIFT 16
#define SEGMENT_SHIFT 22
#endif
#define SLOT_BYTES ((size_t)1 << SLOT_SHIFT)
#define SLOT_PARTS 16u                 /* parts of a slot: the unit for counting how much of it is in memory */
#define ADDRESS_BITS (48 - SLOT_SHIFT) /* significant bits of an address aligned to SLOT_BYTES */
#define SEGMENT_BYTES ((size_t)1 << SEGMENT_SHIFT)
#define SEGMENT_MASK (SEGMENT_BYTES - 1)
#define SEGMENT_SLOTS (1u << (SEGMENT_SHIFT - SLOT_SHIFT)) /* at most 64: one word of bits */

#define BLOCK_MIN 16u
#define SLAB_BLOCKS_MAX (SLOT_BYTES / BLOCK_MIN)
#define SLAB_WORDS_MAX (SLAB_BLOCKS_MAX / 64)

/* What a slot is used for. Kinds 0 .. CLASSES - 1 are the size classes; then follow runs of 1 .. RUNS slots. Threads cache
 * free blocks of all these. KIND_RUN: a longer run. KIND_DIRECT: a mapping. KIND_PRIVATE: any of these, in a private heap:
 * see private_kind. */
enum {
    CLASSES = 42,
    RUNS = 4,
    CACHED = CLASSES + RUNS,
    KIND_RUN = CACHED,
    KIND_DIRECT,
    KIND_OTHER,
    KIND_PRIVATE,
    KINDS = OS_HEAP_TOPS
};

enum tier { TIER_NONE, TIER_HOT, TIER_LISTED, TIER_DRAINING };

/* A stack of items that are aligned to SLOT_BYTES and never unmapped. Each holds the link to the next item `link_at` bytes
 * from its start. The top is a count of changes (32 bits) | address >> SLOT_SHIFT, and so is each link. */
typedef ATOMIC(uint64_t) tagged_link;
struct tagged {
    tagged_link top;
};
void tagged_push(struct tagged *stack, void *item, size_t link_at);
bool tagged_is_empty(const struct tagged *stack);
/* Takes the topmost item; NULL: the stack is empty. */
void *tagged_pop(struct tagged *stack, size_t link_at);

/* Words of bits that a descriptor has room for, enough for slabs of larger blocks. Other slabs have theirs further off in
 * the head. */
#define FREE_NEAR 3u
#ifndef REMOTE_NEAR
#define REMOTE_NEAR 5u
#endif
typedef ATOMIC(uint64_t) remote_word; /* blocks freed by other threads and not collected yet */

/* What a slot holds while it is a slab. The owner is a heap; room + used == blocks of the class. Blocks below `carved` are
 * free if their bit is set. The others have never been handed out and their bits are clear, so that bits which were not
 * needed yet take no memory. Most refills touch only the first line, most remote frees the second. */
struct slab {
    /* written by the owner alone */
    struct slab *next, *prev; /* in the list of its tier */
    uint64_t *free;           /* a bit for each block: near_free, or in far_free; NULL: no block came back yet */
    ATOMIC(uint32_t) used;    /* blocks handed out to caches and users */
    uint32_t room;            /* blocks free */
    uint16_t first_word;      /* no bit is set in the words before */
    uint16_t carved;
    uint8_t touched; /* of SLOT_PARTS from its start: those used since their pages came from the system, before this class */
    uint8_t kind;    /* the class */
    uint8_t tier;
    ATOMIC(uint8_t) private_kind; /* where the slot's kind is KIND_PRIVATE */
    uint64_t near_free[FREE_NEAR];
    /* written by everybody */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) state; /* owner | pending (slab.c) */
    ATOMIC(struct slab *) link;                 /* in an inbox, an LRU, a stack of orphans */
    remote_word near_remote[REMOTE_NEAR];
    /* written while nobody has blocks of the slot */
    ATOMIC(uint32_t) run_slots; /* in a run's first slot: the run's length */
    uint16_t far_at, far_words; /* the slot's words in far_remote, kept for its next use */
};

struct mapping; /* records.h */

/* Checked mode's word for each block of a slot, by its index (heap_check.c). */
typedef ATOMIC(uint64_t) block_mark;
struct marks {
    block_mark of[SEGMENT_SLOTS][SLAB_BLOCKS_MAX];
};

#define LINE_WORDS (CACHE_LINE / 8u)
#define FAR_LINES ((SLAB_WORDS_MAX + LINE_WORDS - 1) / LINE_WORDS)
/* Bits of free blocks: adjacent lines in some segment's far_free. A slab has them from the time its first block comes back
 * until all have come back. When many blocks are allocated and then freed, only few slabs at a time are partly free, so few
 * lines are ever written. A slab's lines begin at a multiple of their number, rounded up to a power of two. So however many
 * lines other slabs have, a place is left: there are as many places as slots. */
#define FAR_MASKS ((SEGMENT_SLOTS * FAR_LINES + 63) / 64)
#define FAR_ALL (SEGMENT_SLOTS * FAR_LINES >= 64 ? UINT64_MAX : (UINT64_C(1) << (SEGMENT_SLOTS * FAR_LINES & 63u)) - 1)
/* Remote bits: a slot first takes the words of one line, and doubles them each time it needs more. At least one slot belongs
 * to the head. */
#define FAR_WORDS ((SEGMENT_SLOTS - 1) * (2 * FAR_LINES - 1) * LINE_WORDS)

/* A slot's word is SLOT_MARK plus its kind in bytes: the distance from a heap's fields of kind 0 to those of the slot's
 * kind. A free adds the word to heap_base, an address less SLOT_MARK (os_self). So a word that no slot has, read from
 * foreign memory, leads nowhere. */
#define SLOT_MARK UINT64_C(0x4b3c9d7e15a62f08)
#define SLOT_WORD(kind) (SLOT_MARK + (uint64_t)(kind) * sizeof(void *))
typedef ATOMIC(uint64_t) slot_word;

struct ALIGNED(CACHE_LINE) heap_segment {
    slot_word words[SEGMENT_SLOTS];
    union {
        struct {
            /* KIND_DIRECT: the whole mapping, bytes of it that are counted as slack, bytes from the block's start that may
             * be in memory, its record, and how its block was resized last (large.c) */
            char *map_start;
            size_t map_bytes, slack, held;
            struct mapping *mapping;
            unsigned resized;
            /* the rest exists in segments of slots only */
            ATOMIC(struct heap_segment *) older; /* in the list of all */
            tagged_link stack_link;              /* in the stack of those with free slots */
            /* bit 0: LISTED, in that stack or about to be; bit i: slot i is free */
            ALIGNED(CACHE_LINE) ATOMIC(uint64_t) free;
            ATOMIC(uint64_t) dirty;         /* slots used since their pages came from the system */
            ATOMIC(uint64_t) old;           /* free slots that were dirty at the last decay */
            ATOMIC(uint64_t) part;          /* free slots that are dirty in part: see `touched` of the slab */
            ATOMIC(bool) huge;              /* asked for huge pages */
            ATOMIC(bool) hollow;            /* its slots are not mapped and belong to nobody */
            ATOMIC(uint32_t) far_used;      /* words handed out of far_remote */
            ATOMIC(struct marks *) marks;   /* NULL: none of its blocks was checked */
            ATOMIC(uint64_t) fronts, rears; /* secure mode: slots that are guards, before and behind a taken slot or run */
            ATOMIC(uint64_t) far_lines[FAR_MASKS]; /* lines of far_free that slabs have */
        };
        struct slab slabs[SEGMENT_SLOTS]; /* the descriptors of the head's own slots would lie where the fields above are */
    };
    uint64_t far_free[SEGMENT_SLOTS * FAR_LINES * LINE_WORDS]; /* zeros where no slab has them */
    remote_word far_remote[FAR_WORDS];                         /* separate, since many slabs never see a remote free */
};

#define HEAD_SLOTS ((unsigned)((sizeof(struct heap_segment) + SLOT_BYTES - 1) / SLOT_BYTES))
_Static_assert(offsetof(struct heap_segment, far_lines) + FAR_MASKS * sizeof(uint64_t) <=
                   offsetof(struct heap_segment, slabs) + HEAD_SLOTS * sizeof(struct slab),
               "no descriptor that is used lies over it");
#define LISTED UINT64_C(1)
/* All slots that do not hold the head. */
#define SLOTS_ALL (UINT64_MAX >> (64 - SEGMENT_SLOTS) & UINT64_MAX << HEAD_SLOTS)

INLINE struct heap_segment *segment_of(const void *p) { return (struct heap_segment *)((uintptr_t)p & ~SEGMENT_MASK); }
INLINE unsigned slot_of(const void *p) { return (unsigned)(((uintptr_t)p & SEGMENT_MASK) >> SLOT_SHIFT); }
INLINE uint32_t slot_offset(const void *p) { return (uint32_t)((uintptr_t)p & (SLOT_BYTES - 1)); }
INLINE char *slot_start(const struct heap_segment *segment, unsigned slot) {
    return (char *)(uintptr_t)segment + (size_t)slot * SLOT_BYTES;
}
INLINE unsigned slot_kind(const struct heap_segment *segment, unsigned slot) {
    return (unsigned)((load_rlx(&segment->words[slot]) - SLOT_MARK) / sizeof(void *));
}
INLINE void slot_kind_set(struct heap_segment *segment, unsigned slot, unsigned kind) {
    store_rlx(&segment->words[slot], SLOT_WORD(kind));
}
INLINE struct slab *slab_of(const void *p) { return &segment_of(p)->slabs[slot_of(p)]; }
INLINE unsigned slab_slot(const struct slab *slab) { return (unsigned)(slab - segment_of(slab)->slabs); }
INLINE char *slab_start(const struct slab *slab) { return slot_start(segment_of(slab), slab_slot(slab)); }

struct depot {
    struct tagged stack;                  /* segments with free slots; some at the top may have none */
    ATOMIC(struct heap_segment *) all;    /* newest first */
    ATOMIC(struct heap_segment *) run_at; /* the segment where the next search for a run begins; NULL: the newest */
    ATOMIC(uint64_t) segments;
    ATOMIC(uint64_t) heaps;   /* each has a slab of each class that it uses, mostly used in part */
    ATOMIC(uint64_t) hollows; /* hollow segments */
    ATOMIC(bool) is_tight;    /* address space had a limit when the library was loaded */
    ATOMIC(uint64_t) purges;
    ATOMIC(uint64_t) given; /* taken slots of which nothing is in memory, because the slab's owner sleeps (heap_asleep.c) */
    ATOMIC(uint64_t) slots; /* taken slots times 2^32, plus free slots that are dirty */
};
extern struct depot depot;
/* Bytes of taken slots, except for those given; bytes of free slots that are in memory, at least in part. */
size_t depot_taken_bytes(void);
size_t depot_spare_bytes(void);

struct slots {
    struct heap_segment *segment; /* NULL: none */
    uint64_t bits;
    uint64_t dirty; /* those of them that may hold anything but zeros */
    uint64_t part;  /* those of the dirty ones that are in memory in part only, as the slab's `touched` says */
};

/* At least one slot and at most `count`, all of one segment. Slots wholly in memory come first, then slots partly in memory,
 * then others; a new segment is mapped if none is free. Any thread. */
struct slots depot_take(unsigned count);
/* One slot that was partly in memory when it was looked at (`part` says whether it still is), or none. Any thread. */
struct slots depot_take_part(void);
/* `count` adjacent slots; the first one's index is a multiple of `align`, a power of two. Any thread. */
struct slots depot_take_run(unsigned count, unsigned align);
/* Takes these slots. false: not all of them are free, and none was taken. Any thread. */
bool depot_take_at(struct slots *got, struct heap_segment *segment, uint64_t bits);
/* Notes that the caller is about to write the slots it took. */
void depot_soil(struct slots got);
/* Whether guards stand around this slot or its run, which was taken in secure mode. Any thread that has something there. */
INLINE bool is_guarded(const struct heap_segment *segment, unsigned slot) {
    return slot > 0 && (load_rlx(&segment->fronts) >> (slot - 1) & 1) != 0;
}
/* Frees slots that the caller owns. Any thread. */
void depot_put(struct heap_segment *segment, uint64_t slots);
/* The same for one slot that is partly in memory, as its `touched` says. Any thread. */
void depot_put_part(struct heap_segment *segment, uint64_t bit);
/* Gives back the pages of free slots that were free at the last call too, or of all free slots. Returns the bytes. Any
 * thread. */
size_t depot_purge(bool all);
/* Gives back the address space of segments whose slots are all free, except for their heads. Returns the bytes. Any
 * thread. */
size_t depot_hollow(void);
/* How much of the segment's address space is mapped now. */
INLINE size_t segment_bytes(const struct heap_segment *segment) {
    return load_rlx(&segment->hollow) ? HEAD_SLOTS * SLOT_BYTES : SEGMENT_BYTES;
}
/* Gives back pages of free slots until they are `bytes`, or all. Any thread. */
void depot_give(size_t bytes);
/* Moves pages of free slots into a fresh range of the caller's that begins at a multiple of SEGMENT_BYTES, between its
 * offsets `from` and `end`. A slot's pages go to the same place in one of the range's segments. *moved: how many bytes,
 * which no longer read as zeros. false: *hole of the range is no longer the caller's. Any thread. */
struct hole {
    char *start;
    size_t bytes;
};
bool depot_move(char *range, size_t from, size_t end, size_t *moved, struct hole *hole);
/* Gives back whole pages in a slot of the caller's. They read as zeros then, or keep their contents if the system
 * refuses. */
void depot_purge_pages(void *pages, size_t bytes);
/* The lowest `count` adjacent bits whose first is at a multiple of `align`, a power of two; 0: none. */
uint64_t bits_find(uint64_t free, unsigned count, unsigned align);
/* The newest segment; `older` leads to the others. */
struct heap_segment *depot_all(void);

/* The caller is about to use `bytes` that are not in memory, in slots or in a mapping. */
enum pressure { PRESSURE_SLOTS, PRESSURE_MAPPING };
/* What pages/ asks of the room above, which binds it (heap/hooks.c). */
struct pages_hooks {
    void (*pressure_before)(size_t bytes, enum pressure side);
};
extern const struct pages_hooks pages_hooks;

#endif
