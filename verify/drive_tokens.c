/* drive_tokens.c: pools whose workers need tokens: none, one and two for four workers, two pools for one token, while a task blocks, and
 * while pools are resized, aborted, and left to the end of the process. Each task runs once, as many tokens are left as there were, and
 * never do more workers run tasks than there are tokens for. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

#define WORKERS 4u

static struct {
    weft_pool *pools[2];
    weft_group groups[2];
    uint32_t pool_count, tokens;
    bool aborts;
    ATOMIC(uint32_t) ran, running, ended;
    os_word needed;
} world;

static void create(uint32_t pools, uint32_t tokens, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    explore_jobserver(tokens);
    world.tokens = tokens;
    world.pool_count = pools;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = pools == 2 ? 2 : WORKERS;
    config.spares = 1;
    config.flags = WEFT_POOL_JOBSERVER | flags;
    config.spin_ns = WEFT_SPIN_NONE;
    for (uint32_t i = 0; i < pools; i++) EXPECT(weft_pool_create(&world.pools[i], &config) == WEFT_OK);
}

/* A spare runs in the place of one that blocks. */
static void enter(const weft_worker *self) {
    if (weft_worker_index((weft_worker *)self) >= WORKERS) return;
    uint32_t running = add_rlx(&world.running, 1) + 1;
    EXPECT(running <= world.pool_count + world.tokens || load_rlx(&world.ended));
    explore_observe(running - 1);
}
static void leave(const weft_worker *self) {
    if (weft_worker_index((weft_worker *)self) < WORKERS) add_rlx(&world.running, UINT32_MAX);
    add_rlx(&world.ran, 1);
}

static int count(void *payload, weft_worker *self) {
    (void)payload;
    enter(self);
    explore_step();
    leave(self);
    return 0;
}
/* Long enough, mostly, for those to come that may. */
static int meet(void *payload, weft_worker *self) {
    (void)payload;
    enter(self);
    for (int i = 0; i < 40 && load_rlx(&world.running) <= world.tokens; i++) explore_step();
    leave(self);
    return 0;
}
static int block(void *payload, weft_worker *self) {
    (void)payload;
    enter(self);
    (void)weft_block_begin(self);
    explore_step();
    EXPECT(weft_block_end(self) == WEFT_OK);
    leave(self);
    return 0;
}
static void submit(uint32_t pool, uint32_t tasks, weft_fn fn) {
    for (uint32_t i = 0; i < tasks; i++) EXPECT(weft_submit(world.pools[pool], &world.groups[pool], fn, NULL, 0) == WEFT_OK);
}
static void await(uint32_t pool) { EXPECT(weft_group_wait(world.pools[pool], &world.groups[pool]) == WEFT_OK); }

static void submit_first(void) {
    submit(0, 3, count);
    await(0);
    submit(0, 2, count);
}
static void submit_long(void) { submit(0, 5, meet); }
static void submit_second(void) {
    submit(1, 3, count);
    await(1);
}
static void submit_blocking(void) {
    submit(0, 1, count);
    submit(0, 2, block);
    submit(0, 2, count);
}
static void end(void) {
    for (uint32_t i = 0; i < world.pool_count; i++) {
        if (world.aborts) {
            EXPECT(weft_pool_abort(&world.pools[i], NULL, NULL) == WEFT_OK);
            continue;
        }
        await(i);
        expect_nobody_inside(world.pools[i]);
        EXPECT(weft_pool_destroy(&world.pools[i]) == WEFT_OK);
    }
    EXPECT(explore_tokens() == world.tokens);
    if (!world.aborts) EXPECT(load_rlx(&world.ran) == (world.pool_count == 2 ? 8 : 5));
}

static void setup_none(void) { create(1, 0, 0); }
EXPLORE_DRIVER(tokens_none, .about = "there is never a token", .setup = setup_none, .threads = {submit_first}, .check = end,
               .flags = EXPLORE_NO_RESCUE);

static void setup_one(void) { create(1, 1, 0); }
EXPLORE_DRIVER(tokens_one, .about = "one token for four workers", .setup = setup_one, .threads = {submit_first},
               .check = end, .must_see = 3);

static void setup_two(void) { create(1, 2, 0); }
EXPLORE_DRIVER(tokens_two, .about = "two tokens for four workers", .setup = setup_two, .threads = {submit_long},
               .check = end, .must_see = 7);

/* Each waits for the other: the token must come to use. */
static int need(void *payload, weft_worker *self) {
    (void)payload;
    enter(self);
    add_rlx(&world.needed, 1);
    os_wake(&world.needed, 2);
    for (uint32_t needed = load_rlx(&world.needed); needed < 2; needed = load_rlx(&world.needed))
        os_wait(&world.needed, needed, 0);
    leave(self);
    return 0;
}
static void submit_needing(void) {
    submit(0, 3, count);
    await(0);
    submit(0, 2, need);
}
EXPLORE_DRIVER(tokens_needed, .about = "one token, and two tasks that wait for each other", .setup = setup_one,
               .threads = {submit_needing}, .check = end);

static void setup_ordered(void) { create(1, 1, WEFT_POOL_ORDERED); }
EXPLORE_DRIVER(tokens_ordered, .about = "one token, an ordered pool", .setup = setup_ordered, .threads = {submit_first},
               .check = end);

static void setup_pools(void) { create(2, 1, 0); }
EXPLORE_DRIVER(tokens_pools, .about = "two pools and one token", .setup = setup_pools,
               .threads = {submit_first, submit_second}, .check = end);

EXPLORE_DRIVER(tokens_block, .about = "two tokens, and tasks that block", .setup = setup_two, .threads = {submit_blocking},
               .check = end);

static void resize(void) {
    EXPECT(weft_pool_resize(world.pools[0], 1) == WEFT_OK);
    EXPECT(weft_pool_resize(world.pools[0], WORKERS) == WEFT_OK);
}
EXPLORE_DRIVER(tokens_resize, .about = "two tokens, and fewer workers and more by hand", .setup = setup_two,
               .threads = {submit_first, resize}, .check = end);

static void setup_abort(void) {
    create(1, 2, 0);
    world.aborts = true;
}
static void submit_only(void) { submit(0, 4, count); }
EXPLORE_DRIVER(tokens_abort, .about = "two tokens, and the pool is aborted with tasks in it", .setup = setup_abort,
               .threads = {submit_only}, .check = end);

/* By exit: the tokens are back at once, and none is taken afterwards. */
static void end_process(void) {
    store_rlx(&world.ended, 1);
    explore_process_ends();
    EXPECT(explore_tokens() == world.tokens);
    explore_step();
    EXPECT(explore_tokens() == world.tokens);
}
EXPLORE_DRIVER(tokens_exit, .about = "two tokens, and the process ends while tasks run", .setup = setup_two,
               .threads = {submit_first, end_process}, .check = end);
