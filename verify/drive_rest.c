/* drive_rest.c: a task that helps begins the next one of its worker's claim of several tasks. The pool has one worker, so nobody
 * else can run what it leaves. */
#include "explore.h"
#include "sched/worker.h"

#include <string.h>

enum { RUNS = 3, SAW_REST = 1 };

static struct {
    weft_pool *pool;
    weft_group group;
    uint32_t ran[RUNS]; /* the test's own, like the next two */
    uint32_t order;
    bool flag;
} world;

static void note(uint32_t number) {
    EXPECT(world.ran[number] == 0);
    world.ran[number] = ++world.order;
}
/* From a worker: the task counts as tiny, so that its claim may be of several. */
static void submit_tiny(weft_worker *self, weft_fn fn) {
    uint32_t payload = 0;
    int error = weft_submit(world.pool, &world.group, fn, &payload, sizeof payload);
    if (error != WEFT_OK) explore_fail("expected a submission to work: %s", weft_strerror(error));
    store_rlx(&self->lane->tiny, 1);
}

static void setup(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.flags = WEFT_POOL_NO_HELP;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void end(void) {
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(explore_bytes_left() == 0);
}
static int task_sets(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    note(1);
    world.flag = true;
    return 0;
}
static int task_needs(void *payload, weft_worker *self) {
    (void)payload;
    note(0);
    if (claim_has_rest(&self->claim)) explore_observe(SAW_REST);
    while (!world.flag) EXPECT(weft_group_help(world.pool, &world.group) == 1);
    return 0;
}
static int task_last(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    note(2);
    return 0;
}
static int parent_of_helped(void *payload, weft_worker *self) {
    (void)payload;
    submit_tiny(self, task_needs);
    submit_tiny(self, task_sets);
    submit_tiny(self, task_last);
    return 0;
}
static void helped(void) {
    weft_group first = WEFT_GROUP_INIT;
    EXPECT(weft_submit(world.pool, &first, parent_of_helped, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &first) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void in_order(void) {
    end();
    for (uint32_t i = 0; i < RUNS; i++) EXPECT(world.ran[i] == i + 1);
}
EXPLORE_DRIVER(rest_helped, .about = "a task needs the next one of its claim, and helps its group", .setup = setup,
               .threads = {helped}, .check = in_order, .must_see = 1u << SAW_REST, .flags = EXPLORE_ALWAYS_LIGHT);
