/* drive_tokens.c: a pool whose workers need tokens: with none, with one, with two pools for one, and with one that comes and goes while
 * tasks run. Each task runs once, as many tokens are left as there were, and never do more workers run than there are tokens for. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pools[2];
    weft_group groups[2];
    uint32_t pool_count, tokens;
    ATOMIC(uint32_t) ran, running;
} world;

static void create(uint32_t pools, uint32_t tokens, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    explore_jobserver(tokens);
    world.tokens = tokens;
    world.pool_count = pools;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 2;
    config.spares = 1;
    config.flags = WEFT_POOL_JOBSERVER | flags;
    config.spin_ns = WEFT_SPIN_NONE;
    for (uint32_t i = 0; i < pools; i++) EXPECT(weft_pool_create(&world.pools[i], &config) == WEFT_OK);
}

static int count(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    uint32_t running = add_rlx(&world.running, 1) + 1;
    EXPECT(running <= world.pool_count + world.tokens);
    explore_observe(running - 1);
    add_rlx(&world.running, UINT32_MAX);
    add_rlx(&world.ran, 1);
    return 0;
}
static void submit(uint32_t pool, uint32_t tasks) {
    for (uint32_t i = 0; i < tasks; i++)
        EXPECT(weft_submit(world.pools[pool], &world.groups[pool], count, NULL, 0) == WEFT_OK);
}
static void await(uint32_t pool) { EXPECT(weft_group_wait(world.pools[pool], &world.groups[pool]) == WEFT_OK); }

static void submit_first(void) {
    submit(0, 3);
    await(0);
    submit(0, 2);
}
static void submit_second(void) {
    submit(1, 3);
    await(1);
}
static void end(void) {
    for (uint32_t i = 0; i < world.pool_count; i++) {
        await(i);
        expect_nobody_inside(world.pools[i]);
        EXPECT(weft_pool_destroy(&world.pools[i]) == WEFT_OK);
    }
    EXPECT(explore_tokens() == world.tokens);
    EXPECT(load_rlx(&world.ran) == (world.pool_count == 2 ? 8 : 5));
}

static void setup_none(void) { create(1, 0, 0); }
EXPLORE_DRIVER(tokens_none, .about = "there is never a token", .setup = setup_none, .threads = {submit_first}, .check = end,
               .flags = EXPLORE_NO_RESCUE);

static void setup_one(void) { create(1, 1, 0); }
EXPLORE_DRIVER(tokens_one, .about = "one token for two workers", .setup = setup_one, .threads = {submit_first}, .check = end,
               .must_see = 3);

static void setup_ordered(void) { create(1, 1, WEFT_POOL_ORDERED); }
EXPLORE_DRIVER(tokens_ordered, .about = "one token, an ordered pool", .setup = setup_ordered, .threads = {submit_first},
               .check = end);

static void setup_two(void) { create(2, 1, 0); }
EXPLORE_DRIVER(tokens_two, .about = "two pools and one token", .setup = setup_two, .threads = {submit_first, submit_second},
               .check = end);

static void resize(void) {
    EXPECT(weft_pool_resize(world.pools[0], 1) == WEFT_OK);
    EXPECT(weft_pool_resize(world.pools[0], 2) == WEFT_OK);
}
EXPLORE_DRIVER(tokens_resize, .about = "one token, and fewer workers and more by hand", .setup = setup_one,
               .threads = {submit_first, resize}, .check = end);
