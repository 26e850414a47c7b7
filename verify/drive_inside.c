/* drive_inside.c: groups that outlive the one above them, and whose tasks a wait may run. */
#include "record.h"
#include "explore.h"
#include "queue/continuation.h"
#include "front.h"
#include "sched/task.h"
#include "weft.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group upper, lower;
    uint32_t ran; /* the test's own */
    struct store store;
    struct groups groups;
    struct record *top, *middle, *bottom;
    uint64_t top_id, middle_id, bottom_id;
} world;

/* ---- a child group's task submits to the group above, which ends -------------------------------------------------- */

static int last_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    world.ran++;
    return 0;
}
static uint32_t lower_ran; /* the test's own */
static int lower_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    EXPECT(weft_submit(world.pool, &world.upper, last_task, NULL, 0) == WEFT_OK);
    lower_ran = 1;
    return 0;
}
static int upper_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    EXPECT(weft_submit(world.pool, &world.lower, lower_task, NULL, 0) == WEFT_OK);
    return 0;
}

/* A pool without threads: those who wait run the tasks. Nobody but the waiter itself is noted as a stranger to the upper
 * group. */
static void setup(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spares = 1;
    config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&config);
    EXPECT(world.pool != NULL);
    lower_ran = 0;
}
static void wait_upper(void) { EXPECT(weft_group_wait(world.pool, &world.upper) == WEFT_OK); }
static void run_and_wait_upper(void) {
    EXPECT(weft_run(world.pool, &world.upper, upper_task, NULL) == WEFT_OK);
    wait_upper();
}
static void wait_lower(void) {
    for (; lower_ran == 0; os_pause()) EXPECT(weft_group_wait(world.pool, &world.lower) == WEFT_OK);
}
static void check(void) {
    wait_upper();
    EXPECT(world.ran == 1);
    store_rlx(&world.pool->workers, 0); /* to be joined */
    store_rlx(&world.pool->spares_made, 0);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(inside_outlived, .about = "a task of a group below submits to the group above, which ends", .setup = setup,
               .threads = {wait_lower, run_and_wait_upper}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* ---- a record that serves another group meanwhile ----------------------------------------------------------------- */

static void setup_groups(void) {
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, 2));
    world.top = record_open(&world.groups, 0, 0);
    world.top_id = load_rlx(&world.top->id);
    world.middle = record_open(&world.groups, 0, 0);
    world.middle_id = load_rlx(&world.middle->id);
    world.bottom = record_open(&world.groups, world.middle_id, 0);
    world.bottom_id = load_rlx(&world.bottom->id);
}
/* The middle group ends; its record's next group lies below the top one. */
static void replace_middle(void) {
    EXPECT(record_enter(&world.groups, world.middle, world.middle_id));
    EXPECT(record_close(world.middle, world.middle_id, 0));
    record_end(world.middle, &(weft_group)WEFT_GROUP_INIT);
    record_leave(&world.groups, world.middle, true);
    EXPECT(record_open(&world.groups, world.top_id, 0) == world.middle);
}
static void ask_bottom(void) { EXPECT(!group_serves(&world.groups, world.bottom_id, world.top_id)); }
static void check_groups(void) {
    EXPECT(group_serves(&world.groups, load_rlx(&world.middle->id), world.top_id));
    store_end(&world.store);
}
EXPLORE_DRIVER(inside_replaced, .about = "the group above ends, its record serves one below another", .setup = setup_groups,
               .threads = {replace_middle, ask_bottom}, .check = check_groups);

/* ---- those who help ----------------------------------------------------------------------------------------------- */

/* A task of the upper group waits for the lower one, and runs its task. In that a loop's helper, or who took a forked call,
 * waits for the upper group, or for one whose task does. */
static enum { BY_LOOP, BY_FORK, BY_LOOP_IN_FORK, HELPERS } helper; /* the test's own; so the next three */
static weft_group third;
static bool has_third;
static const struct weft_worker *caller;

/* Of the waits that would keep each other from ending one is refused; all may be well when it has been. */
static bool wait_or_refuse(weft_group *group) {
    int error = weft_group_wait(world.pool, group);
    EXPECT(error == WEFT_OK || error == WEFT_EDEADLK);
    return error != WEFT_OK;
}
static int waits_for_upper(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    wait_or_refuse(&world.upper);
    return 0;
}
static void wait_as_helper(const weft_worker *self) {
    if (self == caller) return;
    if (world.ran++ == 0 && has_third) {
        EXPECT(weft_submit(world.pool, &third, waits_for_upper, NULL, 0) == WEFT_OK);
        wait_or_refuse(&third);
    }
    if (wait_or_refuse(&world.upper)) explore_observe(0);
}
static int waits_in_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    wait_as_helper(self);
    return 0;
}
static uint32_t waits_in_call(weft_fork_slot *here, uint32_t number) {
    weft_worker *self = weft_fork_worker(here);
    if (helper == BY_LOOP_IN_FORK)
        EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, waits_in_body, NULL) == WEFT_OK);
    else
        wait_as_helper(self);
    return number;
}
WEFT_FORK(waits_in_call, uint32_t, uint32_t)
static int calls_helpers(void *payload, weft_worker *self) {
    (void)payload;
    uint32_t number = 7;
    weft_fork_slot *here;
    caller = self;
    if (helper == BY_LOOP) return weft_for(world.pool, (weft_range){0, 2, 1}, waits_in_body, NULL);
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    waits_in_call_fork(here, &number);
    for (int i = 0; i < 20; i++) os_pause();
    EXPECT(waits_in_call_join(here, &number) == 7);
    weft_fork_leave(here);
    return 0;
}
static int waits_for_lower(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    EXPECT(weft_submit(world.pool, &world.lower, calls_helpers, NULL, 0) == WEFT_OK);
    wait_or_refuse(&world.lower);
    return 0;
}
static void run_helped(void) {
    EXPECT(weft_submit(world.pool, &world.upper, waits_for_lower, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.upper) == WEFT_OK);
}
static void setup_helped(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    third = (weft_group)WEFT_GROUP_INIT;
    helper = explore_pick(HELPERS);
    has_third = explore_pick(2) != 0;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 2;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void check_helped(void) {
    EXPECT(weft_group_wait(world.pool, &third) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.lower) == WEFT_OK);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(inside_helper,
               .about = "who helps with a loop or forked call of a task on a waiter's stack waits for the waiter's group",
               .setup = setup_helped, .threads = {run_helped}, .check = check_helped, .flags = EXPLORE_NO_RESCUE,
               .must_see = 1);
