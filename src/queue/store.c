/* store.c: see store.h. Memory is carved from the front of blocks of pages. The free items of a pile form a stack.
 *
 * The stack is R. K. Treiber's ("Systems programming: coping with parallelism", IBM RJ 5118, 1986) with a count of
 * changes beside the index of its top: an item that was popped and pushed again in between does not fool a late CAS (40
 * bits of changes would have to pass during one pop).
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   S1  pile_pop: load free_top   acquire  S2  the link below the top and the item's last use are not seen
 *   S2  pile_put: CAS free_top    release  S1  see S1; split: an item is lost
 *   S3  pile_pop: CAS free_top    relaxed  S2  split: two owners
 *   S4  pile_make: store chunk    release  S5  an item is read before it is made
 *   S5  pile_at: load chunk       acquire  S4  see S4
 */
#include "queue/store.h"

#define STORE_BLOCK_BYTES ((size_t)64 * 1024)

struct store_block {
    struct store_block *next;
    size_t bytes;
};

void store_lock(struct store *store, void *memory, size_t bytes) {
    if (!store->locks) return;
    int error = os_memory_lock(memory, bytes);
    if (error != 0) store_rlx(&store->lock_error, error);
    add_rlx(error == 0 ? &store->locked_bytes : &store->unlocked_bytes, bytes);
}

void store_unlock(struct store *store, void *memory, size_t bytes) {
    if (store->locks) os_memory_unlock(memory, bytes);
}

static bool store_grow(struct store *store, size_t bytes) {
    size_t size = round_up(bytes + CACHE_LINE, STORE_BLOCK_BYTES);
    struct store_block *block = os_map(size);
    if (block == NULL) return false;
    store_lock(store, block, size);
    block->next = store->blocks;
    block->bytes = size;
    store->blocks = block;
    store->used = round_up(sizeof *block, CACHE_LINE);
    return true;
}

void *store_get(struct store *store, size_t bytes) {
    bytes = round_up(bytes, CACHE_LINE);
    os_lock(&store->lock);
    void *memory = NULL;
    if ((store->blocks != NULL && store->used + bytes <= store->blocks->bytes) || store_grow(store, bytes)) {
        memory = (char *)store->blocks + store->used;
        store->used += bytes;
    }
    os_unlock(&store->lock);
    return memory;
}

void store_end(struct store *store) {
    while (store->blocks != NULL) {
        struct store_block *block = store->blocks;
        store->blocks = block->next;
        os_unmap(block, block->bytes);
    }
    store->used = 0;
}

bool pile_init(struct pile *pile, const struct pile *shape) {
    *pile = *shape;
    pile->chunks = store_get(pile->store, ((size_t)pile->items_max >> pile->chunk_shift) * sizeof *pile->chunks);
    return pile->chunks != NULL;
}

void *pile_at(const struct pile *pile, uint32_t index) {
    if (index >= pile->items_max) return NULL;
    char *chunk = load_acq(S5, &pile->chunks[index >> pile->chunk_shift]);
    uint32_t within = index & ((1u << pile->chunk_shift) - 1);
    return chunk == NULL ? NULL : chunk + within * pile->item_bytes;
}

void pile_put(struct pile *pile, void *item) {
    struct pile_item *link = item;
    uint64_t top = load_rlx(&pile->free_top);
    uint64_t fresh;
    do {
        store_rlx(&link->free_next, (uint32_t)top & PILE_INDEX_MASK);
        fresh = ((top >> PILE_INDEX_BITS) + 1) << PILE_INDEX_BITS | link->index;
    } while (!cas_rel(S2, &pile->free_top, &top, fresh));
}

/* Prefetches the next item. Its next user reads its link first, and would wait for the line, last used by another thread. */
static void pile_foresee(const struct pile *pile, uint32_t index) {
    if (index == PILE_NONE || pile->head_bytes == 0) return;
    const char *item = pile_at(pile, index);
    for (size_t at = 0; item != NULL && at < pile->head_bytes; at += CACHE_LINE) prefetch_write(item + at);
}

void *pile_pop(struct pile *pile) {
    for (;;) {
        uint64_t top = load_acq(S1, &pile->free_top);
        uint32_t index = (uint32_t)top & PILE_INDEX_MASK;
        if (index == PILE_NONE) return NULL;
        struct pile_item *item = pile_at(pile, index);
        uint32_t next = load_rlx(&item->free_next);
        uint64_t fresh = ((top >> PILE_INDEX_BITS) + 1) << PILE_INDEX_BITS | next;
        if (!cas_rlx(S3, &pile->free_top, &top, fresh)) continue;
        pile_foresee(pile, next);
        return item;
    }
}

/* Makes a chunk, keeps one of its items for the caller and puts the others on the stack. Index 0 means none, so the very
 * first item is never used. */
static void *pile_make(struct pile *pile) {
    uint32_t made = load_rlx(&pile->made);
    uint32_t count = 1u << pile->chunk_shift;
    if (made + count > pile->items_max) return NULL;
    char *chunk = pile->unmade != NULL ? pile->unmade : store_get(pile->store, count * pile->item_bytes);
    if (chunk == NULL) return NULL;
    pile->unmade = chunk;
    for (uint32_t i = 0; i < count; i++) ((struct pile_item *)(void *)(chunk + i * pile->item_bytes))->index = made + i;
    if (pile->make != NULL && !pile->make(pile, chunk, count)) return NULL;
    pile->unmade = NULL;
    store_rel(S4, &pile->chunks[made >> pile->chunk_shift], (void *)chunk);
    store_rlx(&pile->made, made + count);
    uint32_t first = made == 0 ? 1 : 0;
    for (uint32_t i = count - 1; i > first; i--) pile_put(pile, chunk + i * pile->item_bytes);
    return chunk + first * pile->item_bytes;
}

void *pile_get(struct pile *pile) {
    void *item = pile_pop(pile);
    if (item != NULL) return item;
    os_lock(&pile->lock);
    item = pile_pop(pile);
    if (item == NULL) item = pile_make(pile);
    os_unlock(&pile->lock);
    return item;
}

bool store_text(struct store *store, const char **text) {
    size_t bytes = 1;
    if (*text == NULL) return true;
    while ((*text)[bytes - 1] != 0) bytes++;
    char *kept = store_get(store, bytes);
    if (kept == NULL) return false;
    for (size_t i = 0; i < bytes; i++) kept[i] = (*text)[i];
    *text = kept;
    return true;
}
