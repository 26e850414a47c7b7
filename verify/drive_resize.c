/* drive_resize.c: fewer workers and more again, while tasks are submitted and run: each runs once, and nobody is forgotten
 * at rest. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group group, below;
    uint32_t ran[4]; /* the test's own */
    os_word meets, is_held, is_free;
    uint32_t holder;
} world;

static void create_with(uint32_t workers, uint32_t spares, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = spares;
    config.flags = flags;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void create(uint32_t workers) { create_with(workers, 1, WEFT_POOL_NO_HELP); }

static int once(void *payload, weft_worker *self) {
    (void)self;
    world.ran[*(uint32_t *)payload]++;
    return 0;
}
static void submit(weft_fn fn, uint32_t number) {
    EXPECT(weft_submit(world.pool, &world.group, fn, &number, sizeof number) == WEFT_OK);
}
static void resize(uint32_t workers) { EXPECT(weft_pool_resize(world.pool, workers) == WEFT_OK); }
static void setup(void) { create(2); }
static void end(void) {
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) EXPECT(world.ran[i] == 1);
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}

static void submit_all(void) {
    for (uint32_t i = 0; i < 3; i++) submit(once, i);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void resize_about(void) {
    resize(1);
    resize(2);
    resize(1);
}
EXPLORE_DRIVER(pool_resize, .about = "fewer workers, more and fewer while tasks come", .setup = setup,
               .threads = {submit_all, resize_about}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* Two tasks that wait for each other, which takes two workers: the one that rests runs again. */
static int meet(void *payload, weft_worker *self) {
    (void)once(payload, self);
    add_rlx(&world.meets, 1);
    os_wake(&world.meets, INT32_MAX);
    for (uint32_t here; (here = load_acq(drive_resize_meet, &world.meets)) < 2;) os_wait(&world.meets, here, 0);
    return 0;
}
static void submit_meeting(void) {
    submit(once, 0);
    resize(1);
    submit(meet, 1);
    submit(meet, 2);
    resize(2);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
/* A polling worker may be who sees the second task, in its time: so deadlines count here. Who rests has none. */
EXPLORE_DRIVER(pool_resize_more, .about = "who rests runs again", .setup = setup, .threads = {submit_meeting}, .check = end);

/* In an ordered pool a wait gives up when nobody is left to run what it waits for. A task holds one of three threads, another one
 * waits in the second while the pool shrinks: the third is left, unless that is the worker that is to rest; then the wait is told. */
static void set(os_word *word) {
    store_rel(drive_resize_set, word, 1);
    os_wake(word, INT32_MAX);
}
static void await(os_word *word) {
    while (load_acq(drive_resize_await, word) == 0) os_wait(word, 0, 0);
}
static int hold_thread(void *payload, weft_worker *self) {
    (void)once(payload, self);
    world.holder = weft_worker_index(self);
    EXPECT(weft_block_begin(self) == WEFT_OK);
    set(&world.is_held);
    await(&world.is_free);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int shrink_and_wait(void *payload, weft_worker *self) {
    enum { SPARE = 2 };
    const uint32_t first = 3, number = 2, here = weft_worker_index(self);
    (void)once(payload, self);
    EXPECT(weft_submit(world.pool, &world.group, once, &first, sizeof first) == WEFT_OK); /* so its own is not next */
    EXPECT(weft_submit(world.pool, &world.below, once, &number, sizeof number) == WEFT_OK);
    resize(1);
    int error = weft_group_wait(world.pool, &world.below);
    explore_observe(error == WEFT_OK ? here : SPARE + 1);
    EXPECT(error == WEFT_OK || (error == WEFT_EAGAIN && here == SPARE && world.holder == 0));
    set(&world.is_free);
    return 0;
}
static void setup_ordered(void) { create_with(2, 1, WEFT_POOL_ORDERED); }
static void submit_shrinking(void) {
    submit(hold_thread, 0);
    await(&world.is_held);
    submit(shrink_and_wait, 1);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.below) == WEFT_OK);
}
EXPLORE_DRIVER(pool_resize_ordered, .about = "a task of an ordered pool waits while the pool shrinks",
               .setup = setup_ordered, .threads = {submit_shrinking}, .check = end, .flags = EXPLORE_NO_RESCUE,
               .must_see = 15);
