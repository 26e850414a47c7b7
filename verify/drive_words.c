/* drive_words.c: pools of more workers than a park word has bits for, and of more threads than a record has counters. */
#include "at_rest.h"
#include "front.h"
#include "sched/task.h"

#include <string.h>

enum { TASKS_MAX = 12, WORKERS = PARK_BITS + 1 };

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group group, other;
    uint32_t submitted; /* the test's own, like the next one */
    uint32_t run[TASKS_MAX];
    os_word second_run;
} world;

static void make(uint32_t workers, uint32_t flags) {
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 0;
    world.config.flags = flags;
    world.config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&world.config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < workers; i++) load_rlx(&world.pool->seats[i])->is_worker = true;
}
static void end(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_at_rest(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] == 1);
}

/* ---- words -------------------------------------------------------------------------------------------------------- */

static void setup_words(void) { make(WORKERS, WEFT_POOL_NO_HELP); }
static void worker_first(void) { worker_main(load_rlx(&world.pool->seats[0])); }
static void worker_far(void) { worker_main(load_rlx(&world.pool->seats[PARK_BITS])); }
/* As pool_stop. */
static void stop(void) {
    store_rlx(&world.pool->exits, 1);
    fence_sc(drive_words_stop);
    for (uint32_t i = 0; i < world.pool->park.workers; i++) {
        add_rlx(&world.pool->park.slots[i].event, 1);
        os_wake(&world.pool->park.slots[i].event, 8);
    }
    while (park_wake(&world.pool->park)) {}
}
static int task(void *payload, weft_worker *self) {
    (void)self;
    uint32_t number = *(uint32_t *)payload;
    EXPECT(number < world.submitted && ++world.run[number] == 1);
    return 0;
}
static int task_second(void *payload, weft_worker *self) {
    store_rel(drive_words_second, &world.second_run, 1);
    os_wake(&world.second_run, 8);
    return task(payload, self);
}
/* Ends only after the second one has run. */
static int task_first(void *payload, weft_worker *self) {
    while (load_acq(drive_words_first, &world.second_run) == 0) os_wait(&world.second_run, 0, 0);
    return task(payload, self);
}
static uint32_t submit(weft_group *group, weft_fn fn) {
    uint32_t number = world.submitted++;
    EXPECT(number < TASKS_MAX);
    EXPECT(weft_submit(world.pool, group, fn, &number, sizeof number) == WEFT_OK);
    return number;
}
static void submit_dependent(void) {
    submit(&world.group, task_first);
    submit(&world.group, task_second);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    stop();
}
EXPLORE_DRIVER(words_searcher, .about = "two workers of two words, a task that waits for the next", .setup = setup_words,
               .threads = {worker_first, worker_far, submit_dependent}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* The same where tasks are tiny: one may poll in each word, until its time is over at most. */
static void setup_words_tiny(void) {
    setup_words();
    store_rlx(&world.pool->tiny, 1);
}
EXPLORE_DRIVER(words_tiny, .about = "the same, polling", .setup = setup_words_tiny,
               .threads = {worker_first, worker_far, submit_dependent}, .check = end);

/* ---- counters -------------------------------------------------------------------------------------------------------- */

/* A worker has a counter of its own, the first of two threads from outside, or the second as well, share the last. */
static void setup_lines(void) {
    make(1, 0);
    store_rlx(&world.pool->workers, 0);
    world.pool->groups.counters = explore_pick(2) == 0 ? 2 : 3;
}
static int task_below(void *payload, weft_worker *self) {
    uint32_t number = world.submitted++;
    EXPECT(number < TASKS_MAX && weft_submit_child(self, task, &number, sizeof number) == WEFT_OK);
    return task(payload, self);
}
static void submit_to_both(void) {
    for (uint32_t i = 0; i < 2; i++) {
        submit(&world.group, task_below);
        uint32_t mine = submit(&world.other, task);
        EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
        EXPECT(world.run[mine] == 1);
    }
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
EXPLORE_DRIVER(words_lines, .about = "threads that share a counter submit to two groups and wait", .setup = setup_lines,
               .threads = {submit_to_both, submit_to_both}, .check = end, .flags = EXPLORE_NO_RESCUE);
