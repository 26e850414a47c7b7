/* store.h: memory that keeps its type until the pool ends. Layer 2.
 *
 * Threads find lanes, group records and segments through indices and pointers that may be old. What they read there must
 * still be a lane, a record or a segment. So nothing here is freed before store_end, and words that count (positions,
 * generations) never start again. Only the pages of free segments go back to the system, by purging.
 *
 * A pile is a growing array of such items with a stack of the free ones. */
#ifndef WEFT_STORE_H
#define WEFT_STORE_H

#include "os/os.h"

struct store_block;

struct store {
    os_mutex lock;
    struct store_block *blocks;                    /* all blocks, newest first; the newest is carved */
    size_t used;                                   /* bytes carved from the newest */
    bool locks;                                    /* its memory must stay in RAM; set before anything is taken */
    ATOMIC(uint64_t) locked_bytes, unlocked_bytes; /* unlocked: the system refused */
    ATOMIC(int) lock_error;                        /* errno of the last refusal */
};

/* `bytes` of zeroed memory aligned to a cache line, valid until store_end. NULL: no memory. Any thread; takes a lock. */
void *store_get(struct store *store, size_t bytes);
/* If the store's memory must stay in RAM, locks other memory, too; store_unlock ends that. NULL: memory at an unknown
 * address, which the system cannot lock. */
void store_lock(struct store *store, void *memory, size_t bytes);
void store_unlock(struct store *store, void *memory, size_t bytes);
/* Gives everything back. Nobody may use the store any more. */
void store_end(struct store *store);

/* First member of every item. */
struct pile_item {
    uint32_t index;
    ATOMIC(uint32_t) free_next;
};

#define PILE_INDEX_BITS 24
#define PILE_INDEX_MASK ((1u << PILE_INDEX_BITS) - 1)
#define PILE_NONE 0u /* no item has this index */

struct pile {
    struct store *store;
    size_t item_bytes;    /* a multiple of the cache line */
    uint32_t chunk_shift; /* log2 of the items made at once */
    uint32_t items_max;
    /* May be NULL. Completes items that are zero except for their index. false: no memory. */
    bool (*make)(const struct pile *pile, void *items, uint32_t count);
    char *unmade; /* a chunk that could not be completed, for the next call; under the lock */
    ATOMIC(void *) *chunks;
    ATOMIC(uint32_t) made;     /* items in the chunks */
    uint32_t head_bytes;       /* of an item, written first by its next user: prefetched; 0: items are seldom taken */
    ATOMIC(uint64_t) free_top; /* count of changes (40 bits) | index of the topmost free item */
    os_mutex lock;             /* taken to make a chunk */
};

/* Copies *shape, whose first five fields and head_bytes are set and the others zero. false: no memory. */
bool pile_init(struct pile *pile, const struct pile *shape);
/* An item for the caller, as pile_put left it, or new (zeroed, then `make`). NULL: no memory, or items_max reached. Any
 * thread. */
void *pile_get(struct pile *pile);
/* Puts an item on the free stack. Any thread. */
void pile_put(struct pile *pile, void *item);
/* A free item. Makes none; NULL: there is none. Any thread. */
void *pile_pop(struct pile *pile);
/* The item with that index. NULL only for an index read from memory that has changed since. */
void *pile_at(const struct pile *pile, uint32_t index);

/* Replaces *text, which may be NULL, by a copy in the store. false: no memory, *text as before. */
bool store_text(struct store *store, const char **text);

#endif
