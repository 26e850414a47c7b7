/* pile.c: two that take from a pile of free items and put back (src/queue/store.c): an item is one thread's at a time. */
#include "genmc.h"

#include "../../src/queue/store.c"

void *os_map(size_t bytes) { return calloc(1, bytes); }
bool os_unmap(void *memory, size_t bytes) { return (void)memory, (void)bytes, true; }
size_t os_page_size(void) { return 4096; }
int os_memory_lock(void *memory, size_t bytes) { return (void)memory, (void)bytes, 0; }
void os_memory_unlock(void *memory, size_t bytes) { (void)memory, (void)bytes; }
void os_lock(os_mutex *mutex) { WAIT_FOR(xchg_acq(T2, &mutex->word, 1) == 0); }
void os_unlock(os_mutex *mutex) { store_rel(T3, &mutex->word, 0); }

struct item {
    struct pile_item item;
    ALIGNED(CACHE_LINE) int owner;
};
static struct store store;
static struct pile pile;

static void *taker(void *unused) {
    struct item *item = pile_pop(&pile);
    if (item == NULL) return unused;
    item->owner = 1; /* a race, if the item is another's, too */
    assert(item->owner == 1);
    item->owner = 0;
    pile_put(&pile, item);
    return unused;
}

int main(void) {
    struct pile shape = {.store = &store, .item_bytes = sizeof(struct item), .chunk_shift = 1, .items_max = 4};
    assert(pile_init(&pile, &shape));
    void *first = pile_get(&pile), *second = pile_get(&pile);
    pile_put(&pile, first);
    pile_put(&pile, second);
    run_threads((void *(*const[])(void *)){taker, taker}, 2);
    assert(pile_pop(&pile) != NULL && pile_pop(&pile) != NULL);
    return 0;
}
