/* drive_fifo.c: a thread of real-time priority comes upon another in the middle of something, on the only CPU. It must
 * let that one go on: by sleeping, or by os_yield. */
#include "explore.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group group;
    uint32_t ran; /* the test's own */
} world;

static void setup(void) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 300};
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = 1;
    world.config.spares = 1;
    world.config.spin_ns = spins_ns[explore_pick(2)];
    EXPECT(weft_pool_create(&world.pool, &world.config) == WEFT_OK);
}
static void destroy(void) { EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK); }

static uint32_t leaf(weft_fork_slot *here, uint32_t number) {
    (void)here;
    world.ran++;
    return number + 1;
}
WEFT_FORK(leaf, uint32_t, uint32_t)

static void join(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        weft_fork_slot *deeper = leaf_fork(here, &i);
        leaf_fork(deeper, &i);
        explore_fifo(true);
        EXPECT(leaf_join(deeper, &i) == i + 1 && leaf_join(here, &i) == i + 1);
        explore_fifo(false);
    }
    weft_fork_leave(here);
    EXPECT(world.ran == 6);
}
EXPLORE_DRIVER(fifo_join, .about = "a join meets a taker half-way", .setup = setup, .threads = {join}, .check = destroy,
               .flags = EXPLORE_NO_RESCUE);

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    explore_step();
    explore_fifo(begin == 0);
    world.ran += (uint32_t)(end - begin);
    return 0;
}
static void loop(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, 4, 1}, body, NULL) == WEFT_OK);
    explore_fifo(false);
    EXPECT(world.ran == 4);
}
EXPLORE_DRIVER(fifo_loop, .about = "a loop's caller meets a helper inside", .setup = setup, .threads = {loop},
               .check = destroy, .flags = EXPLORE_NO_RESCUE);

static int task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    world.ran++;
    return 0;
}
static void submit(void) {
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, &world.group, task, &payload, sizeof payload) == WEFT_OK);
}
static void submit_and_wait(void) {
    submit();
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void setup_group(void) {
    setup();
    submit();
}
static void submit_first(void) {
    explore_step();
    explore_fifo(true);
    submit_and_wait();
    explore_fifo(false);
}
static void check_group(void) {
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK && world.ran == 3);
    destroy();
}
EXPLORE_DRIVER(fifo_group, .about = "a submission, then a wait, meet a thread that ends the group", .setup = setup_group,
               .threads = {submit_and_wait, submit_first}, .check = check_group);

static os_word told;
static int tell(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    add_rlx(&told, 1);
    os_wake(&told, 8);
    return 0;
}
static void setup_end(void) {
    setup();
    store_rlx(&told, 0);
}
static void submit_and_leave(void) {
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, &world.group, tell, &payload, sizeof payload) == WEFT_OK);
}
static void end_when_told(void) {
    while (load_rlx(&told) == 0) os_wait(&told, 0, 0);
    explore_fifo(true);
    destroy();
    explore_fifo(false);
}
EXPLORE_DRIVER(fifo_end, .about = "destroy meets the submitter of the task that led to it", .setup = setup_end,
               .threads = {submit_and_leave, end_when_told});
