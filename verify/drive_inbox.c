/* drive_inbox.c: several slabs whose frees were announced and have not all arrived: the owner keeps every one of them in sight,
 * those that wait from the last look and those that come, its own from the start or adopted. */
#include "explore.h"
#include "heap/heap.h"

#include <string.h>

/* Four blocks to a slab. */
enum { KIND = 19, BLOCKS = 4, SLABS = 3 };

static struct {
    struct {
        struct heap heap ALIGNED(SLOT_BYTES);
    } of[2];
    struct slab *slab[SLABS];
    void *blocks[SLABS][BLOCKS];
} world;

static void setup(void) {
    memset(&world, 0, sizeof world);
    memset(&depot, 0, sizeof depot);
    memset(&heaps, 0, sizeof heaps);
    memset(orphans, 0, sizeof orphans);
    for (uint32_t i = 0; i < SLABS; i++) {
        struct slots got = depot_take(1);
        EXPECT(got.segment != NULL);
        depot_soil(got);
        world.slab[i] = &got.segment->slabs[__builtin_ctzll(got.bits)];
        slab_init(world.slab[i], KIND, &world.of[0].heap, 0);
        EXPECT(slab_carve(world.slab[i], world.blocks[i], BLOCKS) == BLOCKS);
    }
}

static void send(uint32_t slab, uint32_t first, uint32_t count) {
    slab_send(world.slab[slab], &world.blocks[slab][first], count);
}
static void send_0(void) { send(0, 0, 2); }
static void send_1(void) { send(1, 0, 2); }
static void send_2(void) {
    send(2, 0, 1);
    send(2, 1, 1);
}

static uint32_t waiting(const struct inbox *inbox) {
    uint32_t count = 0;
    for (const struct slab *slab = inbox->waiting; slab != NULL; slab = load_rlx(&slab->link)) count++;
    return count;
}
static void collect(struct inbox *inbox) {
    for (struct slab *slab = inbox_take(inbox), *next; slab != NULL; slab = next) {
        next = inbox_next(slab);
        inbox_collect(inbox, slab);
    }
    explore_observe(waiting(inbox));
}
static void collect_often(void) {
    for (int i = 0; i < 3; i++) collect(&world.of[0].heap.inbox);
}
static void all_are_home(struct inbox *inbox) {
    collect(inbox);
    for (uint32_t i = 0; i < SLABS; i++) {
        EXPECT(world.slab[i]->room == 2 && load_rlx(&world.slab[i]->used) == BLOCKS - 2);
        EXPECT((load_rlx(&world.slab[i]->state) & PENDING_MASK) == 0);
    }
    EXPECT(inbox_is_empty(inbox));
}
static void check_own(void) { all_are_home(&world.of[0].heap.inbox); }
EXPLORE_DRIVER(heap_inbox, .about = "three slabs in an inbox, some waiting for their bits", .setup = setup,
               .threads = {collect_often, send_0, send_1, send_2}, .check = check_own, .must_see = 7);

/* The same of slabs whose owner has ended. */
static void setup_orphans(void) {
    setup();
    for (uint32_t i = 0; i < SLABS; i++) {
        EXPECT(slab_abandon(world.slab[i], &world.of[0].heap));
        slabs_push(&orphans[KIND], world.slab[i]);
    }
}
static void adopt_and_collect(void) {
    struct heap *heap = &world.of[1].heap;
    for (struct slab *slab = slabs_take(&orphans[KIND]), *next; slab != NULL; slab = next) {
        next = load_rlx(&slab->link);
        slab_adopt(slab, heap, &heap->inbox);
    }
    explore_observe(waiting(&heap->inbox));
    collect(&heap->inbox);
}
static void check_adopted(void) { all_are_home(&world.of[1].heap.inbox); }
EXPLORE_DRIVER(heap_inbox_adopted, .about = "three slabs adopted while others free to them", .setup = setup_orphans,
               .threads = {adopt_and_collect, send_0, send_1, send_2}, .check = check_adopted, .must_see = 7);
