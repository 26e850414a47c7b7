/* drive_poll.c: a worker polls beside a long task, parks after a few looks in vain, and is woken for the next task. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

enum { TASKS = 3, NAP_NS = 1000000 };

static struct {
    weft_pool *pool;
    weft_group group, other;
    os_word ran, never;
} world;

static void setup(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 2;
    config.spares = 1;
    config.flags = WEFT_POOL_NO_HELP;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
    store_rlx(&world.pool->tiny, 1); /* as after tiny tasks */
}
static int short_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    add_rel(drive_poll_run, &world.ran, 1);
    os_wake(&world.ran, 8);
    return 0;
}
/* The other worker runs it, within the time of a look at most, or as it was woken. */
static void have_run(uint32_t number) {
    EXPECT(weft_submit(world.pool, &world.other, short_task, NULL, 0) == WEFT_OK);
    while (load_acq(drive_poll_ran, &world.ran) < number) os_wait(&world.ran, number - 1, 0);
}
static int long_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    bool polls = false;
    for (uint32_t i = 1; i <= TASKS; i++) {
        have_run(i);
        for (struct park_view view; view = park_look(&world.pool->park), view.parked == 0;) {
            polls = polls || view.polling;
            os_wait(&world.never, 0, os_now_ns() + NAP_NS);
        }
    }
    explore_observe(polls);
    return 0;
}
static void submit_long(void) {
    EXPECT(weft_submit(world.pool, &world.group, long_task, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
}
static void end(void) {
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(load_rlx(&world.ran) == TASKS);
}
EXPLORE_DRIVER(pool_polls, .about = "who polls beside a long task parks, and is woken for the next", .setup = setup,
               .threads = {submit_long}, .check = end, .must_see = 2, .steps_max = 20000);
