/* drive_tokens.c: threads that count against make's tokens: none, one and two for four workers, two pools for one token and for none,
 * while tasks block, and while pools are resized, aborted, and left to the end of the process. Each task runs once, as many tokens are
 * left as there were, and never do more threads run tasks than there are tokens for. Nobody needs the grace for that; two drivers need
 * just it. */
#include "at_rest.h"
#include "front.h"
#include "sched/tokens.h"

#include <string.h>

#define WORKERS 4u

static struct {
    weft_pool *pools[2];
    weft_group groups[2];
    uint32_t pool_count, tokens;
    bool aborts;
    bool exceeds; /* more workers may run than there are tokens for */
    ATOMIC(uint32_t) ran, running, workers, ended;
    os_word needed;
} world;

static void create(uint32_t pools, uint32_t tokens, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    explore_jobserver(tokens);
    if (load_rlx(&tokens_grace_us) == 0) store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    world.tokens = tokens;
    world.pool_count = pools;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = pools == 2 ? 2 : WORKERS;
    config.spares = 1;
    config.flags = WEFT_POOL_JOBSERVER | flags;
    config.spin_ns = WEFT_SPIN_NONE;
    for (uint32_t i = 0; i < pools; i++) EXPECT(weft_pool_create(&world.pools[i], &config) == WEFT_OK);
}

/* A thread from outside, of which there are at most two, does not wait for its turn: beside it a worker may end a task. */
static void enter(const weft_worker *self) {
    uint32_t running = add_rlx(&world.running, 1) + 1;
    uint32_t workers = add_rlx(&world.workers, self->is_worker) + self->is_worker;
    EXPECT(workers <= 1 + world.tokens || world.exceeds || load_rlx(&world.ended));
    explore_observe(running - 1);
}
static void leave(const weft_worker *self) {
    add_rlx(&world.running, UINT32_MAX);
    add_rlx(&world.workers, -(uint32_t)self->is_worker);
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
    add_rlx(&world.running, UINT32_MAX);
    add_rlx(&world.workers, -(uint32_t)self->is_worker);
    (void)weft_block_begin(self);
    explore_step();
    EXPECT(weft_block_end(self) == WEFT_OK);
    add_rlx(&world.running, 1);
    add_rlx(&world.workers, self->is_worker);
    leave(self);
    return 0;
}
static void await_needed(uint32_t until) {
    for (uint32_t needed = load_rlx(&world.needed); needed < until; needed = load_rlx(&world.needed))
        os_wait(&world.needed, needed, 0);
}
static void tell_needed(void) {
    add_rlx(&world.needed, 1);
    os_wake(&world.needed, 2);
}
static int tell_other(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    tell_needed();
    add_rlx(&world.ran, 1);
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

/* A task that returns from its section goes on at once. */
static void setup_block(void) {
    create(1, 2, 0);
    world.exceeds = true;
}
EXPLORE_DRIVER(tokens_block, .about = "two tokens, and tasks that block", .setup = setup_block, .threads = {submit_blocking},
               .check = end);

/* A wait in a section runs tasks. */
static int count_inside(void *payload, weft_worker *self) {
    weft_group inner = WEFT_GROUP_INIT;
    (void)payload;
    (void)weft_block_begin(self);
    EXPECT(weft_submit(world.pools[0], &inner, count, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pools[0], &inner) == WEFT_OK);
    EXPECT(weft_block_end(self) == WEFT_OK);
    add_rlx(&world.ran, 1);
    return 0;
}
static void submit_inside(void) {
    submit(0, 2, count_inside);
    submit(0, 1, count);
}
static void setup_inside(void) { create(1, 1, 0); }
EXPLORE_DRIVER(tokens_inside, .about = "one token, and tasks that wait in a section", .setup = setup_inside,
               .threads = {submit_inside}, .check = end);
static void setup_inside_ordered(void) { create(1, 1, WEFT_POOL_ORDERED); }
EXPLORE_DRIVER(tokens_inside_ordered, .about = "the same in an ordered pool", .setup = setup_inside_ordered,
               .threads = {submit_inside}, .check = end);

/* A section in a task that a wait in a section runs: its thread counts no more, so another worker may run what it sleeps for. */
static int sleep_inside(void *payload, weft_worker *self) {
    (void)payload;
    (void)weft_block_begin(self);
    await_needed(1);
    EXPECT(weft_block_end(self) == WEFT_OK);
    add_rlx(&world.ran, 1);
    return 0;
}
static int nest(void *payload, weft_worker *self) {
    weft_group inner = WEFT_GROUP_INIT;
    (void)payload;
    (void)weft_block_begin(self);
    EXPECT(weft_submit(world.pools[0], &inner, sleep_inside, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pools[0], &inner) == WEFT_OK);
    EXPECT(weft_block_end(self) == WEFT_OK);
    add_rlx(&world.ran, 1);
    return 0;
}
static void submit_nested(void) {
    submit(0, 1, nest);
    submit(0, 1, tell_other);
    submit(0, 2, count);
}
static void submit_nested_and_sleep(void) {
    submit_nested();
    EXPECT(weft_group_wait_until(world.pools[0], &world.groups[0], WEFT_HELP_NONE, 0) == WEFT_OK);
}
EXPLORE_DRIVER(tokens_nested, .about = "no token, and a section in a section of a worker", .setup = setup_none,
               .threads = {submit_nested_and_sleep}, .check = end);
EXPLORE_DRIVER(tokens_nested_outside, .about = "the same of a thread from outside", .setup = setup_none,
               .threads = {submit_nested}, .check = end);

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

/* ---- with the grace ----------------------------------------------------------------------------------------------- */

static int await_other(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    await_needed(1);
    add_rlx(&world.ran, 1);
    return 0;
}
static void create_graceful(uint32_t pools) {
    store_rlx(&tokens_grace_us, 1);
    create(pools, 0, 0);
    world.exceeds = true;
}

/* A task waits for what a thread does after its own wait. */
static void setup_caller(void) { create_graceful(1); }
static void submit_and_tell(void) {
    weft_group other = WEFT_GROUP_INIT;
    submit(0, 1, await_other);
    EXPECT(weft_submit(world.pools[0], &other, count, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pools[0], &other) == WEFT_OK);
    submit(0, 3, count);
    tell_needed();
}
EXPLORE_DRIVER(tokens_caller, .about = "no token, and a task that waits for a thread that waits", .setup = setup_caller,
               .threads = {submit_and_tell}, .check = end);

/* Beside a caller that stays, a pool has its share. */
static int await_both(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    await_needed(2);
    add_rlx(&world.ran, 1);
    return 0;
}
static void submit_and_stay(void) {
    submit(0, 2, tell_other);
    submit(0, 2, count);
    EXPECT(weft_run(world.pools[0], NULL, await_both, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(tokens_share, .about = "no token, and a thread that stays in a call until tasks have run",
               .setup = setup_caller, .threads = {submit_and_stay}, .check = end);

/* A task waits for one of another pool, which nobody waits for. */
static void setup_starved(void) { create_graceful(2); }
static void submit_across(void) {
    submit(0, 1, await_other);
    submit(1, 1, tell_other);
    submit(0, 3, count);
    submit(1, 3, count);
    await_needed(1);
}
EXPLORE_DRIVER(tokens_starved, .about = "no token, and a task that waits for another pool's", .setup = setup_starved,
               .threads = {submit_across}, .check = end);
