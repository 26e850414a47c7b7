/* drive_heap_asleep.c: visits of a heap whose owner may wake up at any moment: no page goes that holds a block in use, and what
 * was freed comes home. */
#include "explore.h"
#include "heap/heap.h"

#include <string.h>

/* Four blocks to a slab. */
enum { KIND = 19, BLOCKS = 4, TAKEN_MAX = 6, OTHERS_MAX = 6 };

static struct {
    struct heap *heap;
    struct slab *slab;
    uint32_t *blocks[OTHERS_MAX]; /* that others free */
    uint32_t *taken[TAKEN_MAX];
    uint32_t count; /* of taken */
} world;

static uint32_t *take(void) {
    uint32_t *block = heap_take_one(world.heap, KIND);
    EXPECT(block != NULL);
    plain_write(block, sizeof *block);
    *block = 7;
    return block;
}

/* Others have blocks of the slab; the owner can carve the rest. */
static void setup_of(uint32_t count) {
    memset(&world, 0, sizeof world);
    memset(&depot, 0, sizeof depot);
    memset(&heaps, 0, sizeof heaps);
    memset(orphans, 0, sizeof orphans);
    world.heap = heap_make();
    EXPECT(world.heap != NULL && class_info[KIND].blocks == BLOCKS);
    for (uint32_t i = 0; i < count; i++) world.blocks[i] = take();
    world.slab = slab_of(world.blocks[0]);
    EXPECT(slab_of(world.blocks[count <= BLOCKS ? count - 1 : BLOCKS - 1]) == world.slab);
}
static void setup(void) { setup_of(2); }
static void setup_full(void) { setup_of(BLOCKS); }

static void send(uint32_t first, uint32_t count) {
    void *message[BLOCKS];
    for (uint32_t i = 0; i < count; i++) {
        message[i] = world.blocks[first + i];
        plain_write(message[i], sizeof(uint32_t)); /* the user's last write */
        *(uint32_t *)message[i] = 9;
    }
    slab_send(slab_of(message[0]), message, count);
}
static void sends(void) { send(0, 2); }
static void sends_singly(void) {
    send(0, 1);
    send(1, 1);
}
static void sends_rest(void) { send(2, 2); }

static void visits(void) {
    for (int i = 0; i < 2; i++) {
        heap_visit(world.heap);
        explore_observe(load_rlx(&depot.given) != 0 ? 0 : 3);
    }
}

/* Wakes up: takes blocks, wherever they are, and uses them. */
static void takes_some(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t *block = take();
        world.taken[world.count++] = block;
        explore_observe(slab_of(block) == world.slab ? 1 : 2);
    }
}
static void owner(void) { takes_some(2); }
/* Frees a block of its own, and collects, before others free the rest. */
static void owner_frees(void) {
    plain_write(world.blocks[0], sizeof(uint32_t));
    heap_put_one(world.heap, world.blocks[0], KIND);
    heap_collect(world.heap);
    takes_some(1);
}
static void owner_of_full(void) { takes_some(3); }

static void expect_taken(void) {
    for (uint32_t i = 0; i < world.count; i++) {
        plain_read(world.taken[i], sizeof(uint32_t));
        EXPECT(*world.taken[i] == 7);
        for (uint32_t k = 0; k < i; k++) EXPECT(world.taken[i] != world.taken[k]);
    }
}

/* All that was sent is free, and what the owner took is not. */
static void check(void) {
    expect_taken();
    heap_collect(world.heap);
    EXPECT(inbox_is_empty(&world.heap->inbox) && load_rlx(&world.heap->inbox.visitors) % VISITORS == 0);
    EXPECT(load_rlx(&depot.given) == 0);
    uint32_t used = 0;
    for (enum tier tier = TIER_HOT; tier <= TIER_DRAINING; tier++)
        for (const struct slab *slab = world.heap->bins[KIND].tier[tier].first; slab != NULL; slab = slab->next) {
            EXPECT((load_rlx(&slab->state) & (SLAB_HELD | SLAB_GIVEN | PENDING_MASK)) == 0);
            EXPECT(load_rlx(&slab->used) + slab->room == BLOCKS);
            used += load_rlx(&slab->used);
        }
    EXPECT(used == world.count);
    expect_taken();
}

/* As it was before the others were told to free. */
static void setup_sent(void) {
    setup();
    sends();
}

/* Two slabs, one of which is freed while the other is in a visitor's hands. */
static void setup_two(void) {
    setup_of(BLOCKS + 2);
    send(0, BLOCKS);
}
static void sends_second(void) { send(BLOCKS, 2); }

EXPLORE_DRIVER(heap_asleep, .about = "an owner wakes up while its heap is visited", .setup = setup_sent,
               .threads = {owner, visits}, .check = check, .must_see = 4);
EXPLORE_DRIVER(heap_asleep_sent, .about = "blocks are freed while the owner sleeps and wakes up", .setup = setup,
               .threads = {owner, visits, sends_singly}, .check = check, .must_see = 4);
EXPLORE_DRIVER(heap_asleep_two, .about = "two visit a heap, whose owner wakes up", .setup = setup_two,
               .threads = {owner, visits, visits, sends_second}, .check = check, .must_see = 4);
static void sends_one(void) { send(1, 1); }
EXPLORE_DRIVER(heap_asleep_freed, .about = "the owner and others free the blocks of a slab, which is visited",
               .setup = setup_full, .threads = {owner_frees, visits, sends_one, sends_rest}, .check = check, .must_see = 3);
EXPLORE_DRIVER(heap_asleep_full, .about = "a slab that is all in use is freed by two, and visited", .setup = setup_full,
               .threads = {owner_of_full, visits, sends_singly, sends_rest}, .check = check, .must_see = 3);

/* There is no memory but what others have freed: the owner finds it, also while a visitor has it. */
static void setup_need(void) {
    setup_full();
    send(0, BLOCKS);
    while ((load_rlx(&depot_all()->free) & ~LISTED) != 0) EXPECT(depot_take(1).segment == depot_all());
}
static void owner_in_need(void) {
    explore_memory(false, false);
    uint32_t *block = heap_alloc_refilled(world.heap, KIND);
    EXPECT(block != NULL && slab_of(block) == world.slab);
    plain_write(block, sizeof *block);
    *block = 7;
    explore_observe(1);
}
static void check_need(void) {
    EXPECT(load_rlx(&world.heap->inbox.visitors) % VISITORS == 0 && load_rlx(&depot.given) == 0);
}

EXPLORE_DRIVER(heap_asleep_need, .about = "an owner that finds no other memory wakes up while its heap is visited",
               .setup = setup_need, .threads = {owner_in_need, visits}, .check = check_need, .must_see = 1);
