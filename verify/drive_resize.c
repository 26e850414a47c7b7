/* drive_resize.c: fewer workers and more again, while tasks are submitted and run: each runs once, and nobody is forgotten
 * at rest. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group group;
    uint32_t ran[4]; /* the test's own */
    os_word meets;
} world;

static void create(uint32_t workers) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 1;
    config.flags = WEFT_POOL_NO_HELP;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}

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
