/* drive_inside.c: groups that outlive the one above them, and whose tasks a wait may run. */
#include "record.h"
#include "explore.h"
#include "sched/continuation.h"
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
    record_end(world.middle);
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
