/* drive_own.c: a wait runs what its own thread has submitted as one row, counts that at the end, and may end the group with it;
 * beside it others complete tasks of the group, sleep in waits for it, submit to it, come too late, or end the pool. A pool
 * without threads, whose parts the driver's own play. */
#include "at_rest.h"
#include "sched/find.h"
#include "played.h"
#include "sched/task.h"

#include <string.h>

enum { TASKS_MAX = 4 };

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group *group; /* from os_alloc: goes with the last wait */
    weft_group after, next;
    ATOMIC(uint32_t) waits;     /* on the first that have not returned */
    ATOMIC(uint32_t) there;     /* the group's tasks are submitted */
    ATOMIC(uint32_t) seen;      /* tasks that have run */
    uint32_t result[TASKS_MAX]; /* plain: what a wait makes visible */
    uint32_t tasks, dropped;    /* the test's own */
    int error;                  /* of the wait, where the pool ends */
} world;

static void clean(void *payload, size_t size, void *context) {
    EXPECT(size == sizeof(uint32_t) && context == &world);
    EXPECT(world.result[*(uint32_t *)payload]++ == 0);
    world.dropped++;
}

static void make(uint32_t waits) {
    memset(&world, 0, sizeof world);
    world.pool = pool_played(&world.config);
    load_rlx(&world.pool->seats[0])->is_worker = true;
    world.group = os_alloc(sizeof *world.group);
    EXPECT(world.group != NULL);
    *world.group = (weft_group)WEFT_GROUP_INIT;
    store_rlx(&world.waits, waits);
}
static void setup(void) { make(0); }
static void setup_one(void) { make(1); }
static void setup_two(void) { make(2); }
static void setup_three(void) { make(3); }

static int task(void *payload, weft_worker *self) {
    (void)self;
    uint32_t *result = &world.result[*(uint32_t *)payload];
    plain_write(result, sizeof *result);
    EXPECT((*result)++ == 0);
    add_rel(drive_own_ran, &world.seen, 1);
    return 0;
}
static void submit(weft_group *group) {
    uint32_t number = world.tasks++;
    EXPECT(number < TASKS_MAX);
    EXPECT(weft_submit(world.pool, group, task, &number, sizeof number) == WEFT_OK);
}

static void expect_results(uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        plain_read(&world.result[i], sizeof world.result[i]);
        EXPECT(world.result[i] == 1);
    }
}
/* Every task of the group has run when any wait returns, and is seen; the last one back ends the group's memory. */
static void wait_and_leave(enum weft_help help) {
    EXPECT(weft_group_wait_until(world.pool, world.group, help, 0) == WEFT_OK);
    expect_results(0, 2);
    if (add_acq_rel(drive_own_left, &world.waits, UINT32_MAX) == 1) os_free(world.group);
}
/* By the thread that has submitted: as a row. */
static void wait_owning(void) { wait_and_leave(WEFT_HELP_BELOW); }
static void wait_idly(void) { wait_and_leave(WEFT_HELP_NONE); }

/* Runs a task as a worker would, if nobody else has yet. */
static void run_one(void) {
    struct frame frame;
    struct piece piece;
    struct weft_worker *seat = load_rlx(&world.pool->seats[0]);
    *os_self_get() = (os_self){.pool_id = world.pool->id, .worker = seat, .is_worker = true};
    frame_push(seat, &frame);
    bool has_found = find_help(seat, NULL, NULL, &piece);
    explore_observe(has_found);
    if (has_found) worker_run_help(seat, &piece);
    frame_pop(seat);
}

static void end_pool(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_at_rest(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static void check(void) {
    EXPECT(load_rlx(&world.waits) == 0);
    expect_results(0, world.tasks);
    end_pool();
}

/* ---- others complete, and wait ------------------------------------------------------------------------------------- */

/* The row and a worker end at the same time: of the two one sees that all is done, and wakes the sleeper. */
static void submit_and_wait(void) {
    submit(world.group);
    submit(world.group);
    store_rel(drive_own_there, &world.there, 1);
    wait_owning();
}
static void await_there(void) {
    while (load_acq(drive_own_come, &world.there) == 0) os_pause();
}
static void wait_when_there(void) {
    await_there();
    wait_idly();
}
EXPLORE_DRIVER(own_wait, .about = "a row of two, a worker takes one, another thread sleeps", .setup = setup_two,
               .threads = {submit_and_wait, wait_when_there, run_one}, .check = check, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);

/* What the group holds is started by whoever ends it, and who waits for that one alone is not forgotten. */
static void submit_hold_and_wait(void) {
    uint32_t number = 2;
    submit(world.group);
    submit(world.group);
    world.tasks = 3;
    EXPECT(weft_submit_after(world.pool, (weft_after){world.group, &world.after}, task, &number, sizeof number) == WEFT_OK);
    store_rel(drive_own_held, &world.there, 1);
    wait_owning();
    EXPECT(weft_group_wait(world.pool, &world.after) == WEFT_OK);
    expect_results(0, 3);
}
static void wait_after_idly(void) {
    await_there();
    EXPECT(weft_group_wait_until(world.pool, &world.after, WEFT_HELP_NONE, 0) == WEFT_OK);
    expect_results(2, 3);
}
EXPLORE_DRIVER(own_after, .about = "the same; the group holds a task of another, which a thread waits for",
               .setup = setup_one, .threads = {submit_hold_and_wait, wait_after_idly, run_one}, .check = check,
               .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* ---- others submit ------------------------------------------------------------------------------------------------- */

/* A stranger's task is in the group that the row ends, or in the next. */
static void own_and_again(void) {
    submit(&world.next);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
    submit(&world.next);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
}
static void submit_strange(void) {
    submit(&world.next);
    EXPECT(weft_group_wait_until(world.pool, &world.next, WEFT_HELP_NONE, 1) != WEFT_EINVAL); /* a moment that has passed */
}
static void check_next(void) {
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
    expect_results(0, world.tasks);
    end_pool();
    os_free(world.group);
}
EXPLORE_DRIVER(own_stranger, .about = "a stranger submits to a group that a row ends, and the next", .setup = setup,
               .threads = {own_and_again, submit_strange}, .check = check_next, .flags = EXPLORE_NO_RESCUE);

/* ---- others come too late ------------------------------------------------------------------------------------------ */

/* The record of the group that ended serves the same thread's next one at once. Who knew the first takes it for ended, and the
 * record stays one: two that are open at once have two. */
static void own_two_groups(void) {
    submit(world.group);
    submit(world.group);
    store_rel(drive_own_late, &world.there, 1);
    wait_owning();
    for (uint32_t i = 0; i < 2; i++) {
        submit(&world.next);
        EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
        expect_results(2, 3 + i);
    }
}
static void check_records(void) {
    weft_group open[4];
    for (uint32_t i = 0; i < 4; i++) {
        int error;
        open[i] = (weft_group)WEFT_GROUP_INIT;
        EXPECT(task_bind(load_rlx(&world.pool->seats[0]), &open[i], &error) != 0);
        for (uint32_t j = 0; j < i; j++) EXPECT(id_index(open[j].id) != id_index(open[i].id));
    }
    check();
}
EXPLORE_DRIVER(own_late, .about = "a wait comes when the record serves the thread's next group", .setup = setup_two,
               .threads = {own_two_groups, wait_when_there}, .check = check_records, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(own_late_two, .about = "two such waits", .setup = setup_three,
               .threads = {own_two_groups, wait_when_there, wait_when_there}, .check = check_records,
               .flags = EXPLORE_NO_RESCUE);

/* ---- the pool ends ------------------------------------------------------------------------------------------------- */

/* By who has learnt from the row's first task that it may: the second one runs, or is dropped, before the pool goes; the wait
 * is left by then. */
static void submit_two_and_wait(void) {
    weft_pool *pool = world.pool; /* the other thread's from the first task on */
    submit(world.group);
    submit(world.group);
    world.error = weft_group_wait(pool, world.group);
}
static void end_when_seen(void) {
    while (load_acq(drive_own_seen, &world.seen) == 0) os_pause();
    store_rlx(&world.pool->workers, 0); /* to be joined */
}
static void destroy_when_seen(void) {
    end_when_seen();
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static void abort_when_seen(void) {
    end_when_seen();
    EXPECT(weft_pool_abort(&world.pool, clean, &world) == WEFT_OK);
}
static void check_gone(void) {
    EXPECT(world.pool == NULL && world.group->id == 0);
    expect_results(0, 2);
    EXPECT(world.error == (world.dropped == 0 ? WEFT_OK : WEFT_ECANCELED));
    explore_observe(world.dropped);
    os_free(world.group);
    EXPECT(explore_bytes_left() == 0);
}
EXPLORE_DRIVER(own_destroy, .about = "the pool is destroyed in the middle of a row", .setup = setup,
               .threads = {submit_two_and_wait, destroy_when_seen}, .check = check_gone, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(own_abort, .about = "the pool is aborted in the middle of a row", .setup = setup,
               .threads = {submit_two_and_wait, abort_when_seen}, .check = check_gone, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);
