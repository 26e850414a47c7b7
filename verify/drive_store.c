/* drive_store.c: piles under threads that take and put items at once. */
#include "explore.h"
#include "queue/store.h"

#include <string.h>

struct ALIGNED(CACHE_LINE) item {
    struct pile_item link;
    uint32_t owner; /* thread + 1, 0 when free */
    bool made;
};

static struct {
    struct store store;
    struct pile pile;
} world;

static void pile_setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(pile_init(
        &world.pile,
        &(struct pile){.store = &world.store, .item_bytes = sizeof(struct item), .chunk_shift = 2, .items_max = 32}));
    if (explore_pick(2) == 1) store_rlx(&world.pile.free_top, ~(uint64_t)PILE_INDEX_MASK); /* the count is about to wrap */
}

static void own(struct item *item) {
    plain_write(&item->owner, sizeof item->owner);
    EXPECT(item->owner == 0);
    item->owner = explore_self() + 1;
}
static void disown(struct item *item) {
    plain_write(&item->owner, sizeof item->owner);
    EXPECT(item->owner == explore_self() + 1);
    item->owner = 0;
}

static void get_and_put(void) {
    for (int i = 0; i < 2; i++) {
        struct item *first = pile_get(&world.pile);
        struct item *second = pile_get(&world.pile);
        EXPECT(first != NULL && second != NULL && first != second);
        EXPECT(pile_at(&world.pile, first->link.index) == first);
        own(first);
        own(second);
        disown(first);
        pile_put(&world.pile, first);
        disown(second);
        pile_put(&world.pile, second);
    }
}
static void pop_and_put(void) {
    for (int i = 0; i < 3; i++) {
        struct item *item = pile_pop(&world.pile);
        if (item == NULL) continue;
        own(item);
        disown(item);
        pile_put(&world.pile, item);
    }
}

/* Nothing was lost: as many items are free as were made, but for the first, which is never used. */
static void pile_check(void) {
    uint32_t made = load_rlx(&world.pile.made), found = 0;
    struct item *item;
    while ((item = pile_pop(&world.pile)) != NULL) {
        own(item);
        found++;
    }
    EXPECT(found + 1 == made);
    store_end(&world.store);
}
EXPLORE_DRIVER(pile_two, .about = "two threads take and put", .setup = pile_setup, .threads = {get_and_put, pop_and_put},
               .check = pile_check);
/* Items that another thread made, found by their index alone. */
static ATOMIC(uint32_t) published;
static bool item_make(const struct pile *pile, void *items, uint32_t count) {
    (void)pile;
    for (uint32_t i = 0; i < count; i++) {
        struct item *item = (struct item *)items + i;
        plain_write(&item->made, sizeof item->made);
        item->made = true;
    }
    return true;
}
static void index_setup(void) {
    pile_setup();
    store_rlx(&published, PILE_NONE);
    world.pile.make = item_make;
}
static void index_publish(void) {
    const struct item *item = pile_get(&world.pile);
    EXPECT(item != NULL);
    store_rlx(&published, item->link.index);
}
static void index_read(void) {
    uint32_t index = load_rlx(&published);
    const struct item *item = index == PILE_NONE ? NULL : pile_at(&world.pile, index);
    if (item == NULL) return;
    plain_read(&item->made, sizeof item->made);
    EXPECT(item->made);
    explore_observe(0);
}
static void index_check(void) { store_end(&world.store); }
EXPLORE_DRIVER(pile_index, .about = "an item is found by an index that was not published", .setup = index_setup,
               .threads = {index_publish, index_read, index_publish}, .check = index_check, .must_see = 1);
EXPLORE_DRIVER(pile_three, .about = "three threads take and put", .setup = pile_setup,
               .threads = {get_and_put, pop_and_put, get_and_put}, .check = pile_check);
