/* drive_spare.c: spares, where the threads that stand in for others are themselves held up: asleep in joins. A worker and
 * a spare; the task of the one forks a call that the other takes, and this needs a task that neither of them can run. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group group, needed, next;
    os_word is_forked, is_begun, is_ready, is_done;
    uint32_t ran; /* the test's own */
    bool is_section;
} world;

static void set(os_word *word) {
    store_rel(drive_spare_set, word, 1);
    os_wake(word, INT32_MAX);
}
static void await(os_word *word) {
    while (load_acq(drive_spare_await, word) == 0) os_wait(word, 0, 0);
}

static void create_of(uint32_t workers, uint32_t spares, bool is_section, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = spares;
    config.background_max = 1;
    config.flags = flags;
    config.spin_ns = WEFT_SPIN_NONE;
    world.is_section = is_section;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
/* No task is short: nobody polls, which would find work without a wake, though late; and nobody counts CPUs. */
static void create_asleep(uint32_t workers, uint32_t spares, bool is_section) {
    create_of(workers, spares, is_section, WEFT_POOL_NO_HELP | WEFT_POOL_BIND);
    world.pool->tiny_ticks = world.pool->short_ticks = 0;
}
static void create(uint32_t spares, bool is_section, uint32_t flags) { create_of(1, spares, is_section, flags); }
static void submit(weft_group *group, weft_fn fn) {
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, group, fn, &payload, sizeof payload) == WEFT_OK);
}

/* In a task: it helps nobody while there are spares. */
static int wait_idly(weft_group *group) { return weft_group_wait_until(world.pool, group, WEFT_HELP_NONE, 0); }

static int needed(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    world.ran++;
    set(&world.is_done);
    return 0;
}
/* In an ordered pool a task of another group is next, which the wait may not run. */
static int is_next(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}
static uint32_t needs(weft_fork_slot *here, uint32_t number) {
    weft_worker *self = weft_fork_worker(here);
    set(&world.is_begun);
    if (world.pool->ordered) submit(&world.next, is_next);
    submit(&world.needed, needed);
    if (!world.is_section) {
        int error = wait_idly(&world.needed);
        EXPECT(error == WEFT_OK || (error == WEFT_EAGAIN && world.pool->ordered));
        if (error == WEFT_EAGAIN) explore_observe(0);
        return number;
    }
    weft_block_begin(self);
    await(&world.is_done);
    weft_block_end(self);
    return number;
}
WEFT_FORK(needs, uint32_t, uint32_t)

/* The worker makes room for the spare, and is free again when that has forked. */
static int makes_room(void *payload, weft_worker *self) {
    (void)payload;
    EXPECT(weft_block_begin(self) == WEFT_OK);
    await(&world.is_forked);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int forks(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    uint32_t number = 7;
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    needs_fork(here, &number);
    set(&world.is_forked);
    await(&world.is_begun);
    EXPECT(needs_join(here, &number) == 7);
    weft_fork_leave(here);
    return 0;
}
static void run(void) {
    submit(&world.group, makes_room);
    submit(&world.group, forks);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
}
static void end(void) {
    EXPECT(world.ran == 1);
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}

static void setup_section(void) { create(2, true, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_section, .about = "a section opens while the only other thread falls asleep in a join",
               .setup = setup_section, .threads = {run}, .check = end, .flags = EXPLORE_NO_RESCUE);
static void setup_wait(void) { create(2, false, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_wait, .about = "the same, a wait that does not help", .setup = setup_wait, .threads = {run},
               .check = end, .flags = EXPLORE_NO_RESCUE);
static void setup_last(void) { create(1, false, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_last, .about = "the same, no further spare may be made: the wait helps after all", .setup = setup_last,
               .threads = {run}, .check = end, .flags = EXPLORE_NO_RESCUE);
static void setup_ordered(void) { create(1, false, WEFT_POOL_ORDERED); }
EXPLORE_DRIVER(spare_ordered, .about = "the same in an ordered pool: the wait gives up", .setup = setup_ordered,
               .threads = {run}, .check = end, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* The worker waits for a task that the guest runs and that is in a section, until a task of neither has run. */
static int blocks(void *payload, weft_worker *self) {
    (void)payload;
    if (!world.is_section) set(&world.is_begun); /* the worker falls asleep before, or after */
    EXPECT(weft_block_begin(self) == WEFT_OK);
    set(&world.is_begun);
    await(&world.is_done);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int waits_for_guest(void *payload, weft_worker *self) {
    (void)payload;
    weft_group below = WEFT_GROUP_INIT;
    if (weft_worker_index(self) == 0) explore_observe(0);
    submit(&below, blocks);
    await(&world.is_begun);
    EXPECT(weft_group_wait(world.pool, &below) == WEFT_OK);
    return 0;
}
static void run_as_guest(void) {
    submit(&world.group, waits_for_guest);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void submit_needed(void) {
    await(&world.is_begun);
    submit(&world.needed, needed);
    EXPECT(weft_group_wait_until(world.pool, &world.needed, WEFT_HELP_NONE, 0) == WEFT_OK);
}
static void setup_guest(void) { create(1, explore_pick(2) != 0, 0); }
EXPLORE_DRIVER(spare_guest, .about = "a guest's section, the worker asleep in the wait for it", .setup = setup_guest,
               .threads = {run_as_guest, submit_needed}, .check = end, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* A background task in a section gives its slot to another, and has one again after, beside who has it then. */
static int blocks_behind(void *payload, weft_worker *self) {
    (void)payload;
    weft_block_begin(self); /* one spare stands in for the background task itself; there may be no other */
    await(&world.is_done);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static void run_behind(void) {
    submit(&world.group, blocks_behind);
    submit(&world.needed, needed);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
}
static void setup_behind(void) {
    create(1 + explore_pick(2), true, explore_pick(2) == 0 ? 0 : WEFT_POOL_NO_HELP);
    world.group.flags = world.needed.flags = WEFT_GROUP_BACKGROUND;
}
static void end_behind(void) {
    EXPECT(load_rlx(&world.pool->groups.background) == 0);
    world.ran = 0;
    submit(&world.needed, needed);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
    end();
}
EXPLORE_DRIVER(spare_background, .about = "a background task blocks until another has run; one slot", .setup = setup_behind,
               .threads = {run_behind}, .check = end_behind, .flags = EXPLORE_NO_RESCUE);

/* A background task in the only slot waits for a task that waits, or is in a section, until another background task has run. While
 * the first sleeps, the other has its slot. */
static int waits_in_slot(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    await(&world.is_forked); /* it is begun elsewhere */
    set(&world.is_begun);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
    return 0;
}
static int needs_slot(void *payload, weft_worker *self) {
    (void)payload;
    set(&world.is_forked);
    await(&world.is_begun);
    if (!world.is_section) {
        EXPECT(wait_idly(&world.needed) == WEFT_OK);
        return 0;
    }
    weft_block_begin(self);
    await(&world.is_done);
    weft_block_end(self);
    return 0;
}
static void run_in_slot(void) {
    submit(&world.next, needs_slot);
    submit(&world.group, waits_in_slot);
    submit(&world.needed, needed);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
}
static void setup_in_slot(void) {
    create_asleep(2, 1 + explore_pick(2), explore_pick(2) != 0);
    world.group.flags = world.needed.flags = WEFT_GROUP_BACKGROUND;
}
EXPLORE_DRIVER(spare_background_wait, .about = "a background task sleeps in a wait until another has run; one slot",
               .setup = setup_in_slot, .threads = {run_in_slot}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* Each task of a row waits for the next one's group, as the seed says: helping, idly or in a section. Any of them are background tasks,
 * and there is one slot. There are spares for all. */
enum { ROW = 4 };
enum { ROW_HELPS, ROW_WAITS, ROW_BLOCKS, ROW_WAYS };
static struct {
    weft_group group[ROW];
    os_word is_done[ROW];
    uint32_t way[ROW];
} row; /* the test's own, but for the words */

static int row_task(void *payload, weft_worker *self) {
    uint32_t at = *(uint32_t *)payload;
    if (at + 1 < ROW && row.way[at] == ROW_BLOCKS) {
        weft_block_begin(self);
        await(&row.is_done[at + 1]);
        weft_block_end(self);
    } else if (at + 1 < ROW) {
        enum weft_help help = row.way[at] == ROW_HELPS ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
        EXPECT(weft_group_wait_until(world.pool, &row.group[at + 1], help, 0) == WEFT_OK);
    }
    world.ran++;
    set(&row.is_done[at]);
    return 0;
}
static void run_row(void) {
    bool backwards = explore_pick(2) != 0;
    for (uint32_t i = 0; i < ROW; i++) {
        uint32_t at = backwards ? ROW - 1 - i : i;
        EXPECT(weft_submit(world.pool, &row.group[at], row_task, &at, sizeof at) == WEFT_OK);
    }
    for (uint32_t i = 0; i < ROW; i++) EXPECT(weft_group_wait(world.pool, &row.group[i]) == WEFT_OK);
}
static void setup_row(void) {
    memset(&row, 0, sizeof row);
    create_asleep(1 + explore_pick(2), ROW + 1, false);
    for (uint32_t i = 0; i < ROW; i++) {
        row.way[i] = explore_pick(ROW_WAYS);
        if (explore_pick(3) != 0) row.group[i].flags = WEFT_GROUP_BACKGROUND;
    }
}
static void end_row(void) {
    EXPECT(world.ran == ROW);
    world.ran = 1;
    end();
}
EXPLORE_DRIVER(spare_background_row, .about = "tasks in a row wait for the next, mostly background ones; one slot",
               .setup = setup_row, .threads = {run_row}, .check = end_row, .flags = EXPLORE_NO_RESCUE);

/* A wait that helps nobody sleeps, for a spare stands in. Then that one, too, can run nothing more, and it is the last: the
 * wait helps after all. */
static int waits_for_needed(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    set(&world.is_begun);
    EXPECT(wait_idly(&world.needed) == WEFT_OK);
    return 0;
}
static int is_last(void *payload, weft_worker *self) {
    (void)payload;
    if (!world.is_section) {
        EXPECT(wait_idly(&world.group) == WEFT_OK);
        return 0;
    }
    weft_block_begin(self);
    await(&world.is_done);
    weft_block_end(self);
    return 0;
}
static void run_both(void) {
    weft_group last = WEFT_GROUP_INIT;
    submit(&world.needed, needed);
    submit(&world.group, waits_for_needed); /* in the newer lane, which is looked at first */
    await(&world.is_begun);
    submit(&last, is_last);
    EXPECT(weft_group_wait(world.pool, &last) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
}
static void setup_both(void) { create(1, explore_pick(2) != 0, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_is_last, .about = "the spare of a wait waits itself, or is in a section, and no other may be made",
               .setup = setup_both, .threads = {run_both}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* The same with another worker: the spare is in a section first, then that worker falls asleep in a join. */
static uint32_t needs_section(weft_fork_slot *here, uint32_t number) {
    weft_worker *self = weft_fork_worker(here);
    submit(&world.needed, needed);
    weft_block_begin(self);
    set(&world.is_forked);
    await(&world.is_done);
    weft_block_end(self);
    return number;
}
WEFT_FORK(needs_section, uint32_t, uint32_t)
static int joins(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    uint32_t number = 7;
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    needs_section_fork(here, &number);
    await(&world.is_forked);
    EXPECT(needs_section_join(here, &number) == 7);
    weft_fork_leave(here);
    return 0;
}
static void run_joins(void) {
    submit(&world.needed, joins);
    submit(&world.group, waits_for_needed);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
}
static void setup_joins(void) { create_of(2, 1, true, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_joins, .about = "a wait's spare is in a section, the other worker falls asleep in a join",
               .setup = setup_joins, .threads = {run_joins}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* A thread from outside runs a task, which waits; the worker waits for that task's group. */
static int waits_outside(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    set(&world.is_forked);
    await(&world.is_ready);
    int error = wait_idly(&world.needed);
    EXPECT(error == WEFT_OK || (error == WEFT_EAGAIN && world.pool->ordered));
    return 0;
}
static int waits_for_group(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    set(&world.is_begun);
    int error = wait_idly(&world.group);
    EXPECT(error == WEFT_OK || (error == WEFT_EAGAIN && world.pool->ordered));
    explore_observe(error == WEFT_OK);
    return 0;
}
static void run_outside(void) {
    EXPECT(weft_run(world.pool, &world.group, waits_outside, NULL) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void submit_waiter(void) {
    weft_group group = WEFT_GROUP_INIT;
    await(&world.is_forked);
    submit(&group, waits_for_group);
    await(&world.is_begun);
    submit(&world.needed, needed);
    set(&world.is_ready);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
}
static void end_outside(void) {
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
    end();
}
static void setup_outside(void) {
    create(1, false, WEFT_POOL_NO_HELP);
    world.pool->config.spares = world.pool->spare_seats = 0; /* none may be made */
}
EXPLORE_DRIVER(spare_outside, .about = "a task of a thread from outside waits, and the worker for that",
               .setup = setup_outside, .threads = {run_outside, submit_waiter}, .check = end_outside,
               .flags = EXPLORE_NO_RESCUE);
/* A thread from outside runs a task, and in that, helping for want of others, the worker's call, which waits; then the worker
 * falls asleep in the join. */
static int tells(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    set(&world.is_ready);
    return 0;
}
static int forks_for_outside(void *payload, weft_worker *self) {
    (void)payload;
    uint32_t number = 7;
    weft_fork_slot *here;
    submit(&world.group, tells);
    weft_block_begin(self);
    await(&world.is_ready); /* the other thread helps */
    weft_block_end(self);
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    needs_fork(here, &number);
    await(&world.is_begun);
    EXPECT(needs_join(here, &number) == 7);
    weft_fork_leave(here);
    return 0;
}
static int waits_for_forks(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    submit(&world.group, forks_for_outside);
    EXPECT(wait_idly(&world.group) == WEFT_OK);
    return 0;
}
static void run_forks(void) {
    weft_group own = WEFT_GROUP_INIT;
    EXPECT(weft_run(world.pool, &own, waits_for_forks, NULL) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &own) == WEFT_OK);
}
EXPLORE_DRIVER(spare_outside_join, .about = "what a thread from outside helps with waits, and the worker in a join for that",
               .setup = setup_outside, .threads = {run_forks}, .check = end_outside, .flags = EXPLORE_NO_RESCUE);

static void setup_outside_ordered(void) {
    create(1, false, WEFT_POOL_ORDERED);
    world.pool->config.spares = world.pool->spare_seats = 0;
}
EXPLORE_DRIVER(spare_outside_ordered, .about = "the same in an ordered pool", .setup = setup_outside_ordered,
               .threads = {run_outside, submit_waiter}, .check = end_outside, .flags = EXPLORE_NO_RESCUE);

/* A wait without a spare: what is next in its lane is another group's, until the other worker has claimed it, and then its own, which
 * that worker waits for. */
static int awaits_needed(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    await(&world.is_done);
    return 0;
}
static int waits_for_next(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    weft_group below = WEFT_GROUP_INIT;
    submit(&world.needed, awaits_needed);
    submit(&below, needed);
    EXPECT(weft_group_wait(world.pool, &below) == WEFT_OK);
    return 0;
}
static void run_next(void) {
    submit(&world.group, waits_for_next);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void setup_next(void) {
    create_of(2, 1, false, WEFT_POOL_ORDERED);
    world.pool->config.spares = world.pool->spare_seats = 0;
}
EXPLORE_DRIVER(spare_next, .about = "a wait in an ordered pool runs what is next, once another worker has claimed what was",
               .setup = setup_next, .threads = {run_next}, .check = end_outside, .flags = EXPLORE_NO_RESCUE);

/* The same, but its own group's task is next, and then another group's, which ends only after the waiter. Whoever claims the first
 * one while the wait does: the wait never runs the second. */
static int awaits_waiter(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    await(&world.is_ready);
    return 0;
}
static int waits_before_other(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    weft_group below = WEFT_GROUP_INIT;
    submit(&below, needed);
    submit(&world.needed, awaits_waiter);
    EXPECT(weft_group_wait(world.pool, &below) == WEFT_OK);
    set(&world.is_ready);
    return 0;
}
static void run_before_other(void) {
    submit(&world.group, waits_before_other);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
EXPLORE_DRIVER(spare_next_alone, .about = "a wait in an ordered pool runs its own group's next task, and not the one behind",
               .setup = setup_next, .threads = {run_before_other}, .check = end_outside, .flags = EXPLORE_NO_RESCUE);

/* ---- fewer workers ------------------------------------------------------------------------------------------------ */

/* A background task on one of two workers, which ends when another task has run; meanwhile the other worker is to rest. */
static int stays(void *payload, weft_worker *self) {
    (void)payload;
    if (weft_worker_index(self) == 0) explore_observe(0);
    set(&world.is_begun);
    await(&world.is_done);
    return 0;
}
static void run_background(void) {
    world.group.flags = WEFT_GROUP_BACKGROUND;
    submit(&world.group, stays);
    submit_needed();
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void resize_to_one(void) { EXPECT(weft_pool_resize(world.pool, 1) == WEFT_OK); }
static void setup_background(void) { create_of(2, 1, false, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(spare_resize, .about = "a background task begins while the pool gets smaller", .setup = setup_background,
               .threads = {run_background, resize_to_one}, .check = end, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* ---- two pools ---------------------------------------------------------------------------------------------------- */

/* A task of the first pool sleeps for one of the second, which needs another of the first: in a wait, in
 * destroy, or for room in the queue. */
static weft_pool *second; /* the test's own; so the next */
static enum { BY_WAIT, BY_WAIT_NOT_HELPING, BY_DESTROY, BY_ROOM, WAYS } way;

static int empty(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}
static int needs_first(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    set(&world.is_begun);
    submit(&world.needed, needed);
    EXPECT(weft_group_wait_until(world.pool, &world.needed, WEFT_HELP_NONE, 0) == WEFT_OK);
    return 0;
}
static int needs_second(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    weft_group group = WEFT_GROUP_INIT;
    EXPECT(weft_submit(second, &group, needs_first, NULL, 0) == WEFT_OK);
    if (way == BY_ROOM) {
        await(&world.is_begun);
        for (int i = 0; i < 2; i++) EXPECT(weft_submit(second, &group, empty, NULL, 0) == WEFT_OK);
    }
    if (way == BY_DESTROY) {
        EXPECT(weft_pool_destroy(&second) == WEFT_OK);
        return 0;
    }
    enum weft_help help = way == BY_WAIT ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
    if (way == BY_WAIT) await(&world.is_begun); /* it is begun elsewhere */
    EXPECT(weft_group_wait_until(second, &group, help, 0) == WEFT_OK);
    return 0;
}
static void run_first(void) {
    submit(&world.group, needs_second);
    EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, 0) == WEFT_OK);
}
static void setup_pools(void) {
    weft_config config;
    create(1, false, 0);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = config.spares = 1;
    config.spin_ns = WEFT_SPIN_NONE;
    way = explore_pick(WAYS);
    if (way == BY_ROOM) config.queue_max = 1;
    EXPECT(weft_pool_create(&second, &config) == WEFT_OK);
}
static void end_pools(void) {
    EXPECT(weft_group_wait(world.pool, &world.needed) == WEFT_OK);
    if (second != NULL) EXPECT(weft_pool_destroy(&second) == WEFT_OK);
    end();
}
EXPLORE_DRIVER(spare_pools, .about = "a task sleeps in another pool, whose task needs its thread", .setup = setup_pools,
               .threads = {run_first}, .check = end_pools, .flags = EXPLORE_NO_RESCUE);

/* A guest's section ends while the worker is in one: its spare goes on, and is found by who submits. */
static int opens_section(void *payload, weft_worker *self) {
    (void)payload;
    weft_block_begin(self);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static int needs_spare(void *payload, weft_worker *self) {
    (void)payload;
    EXPECT(weft_block_begin(self) == WEFT_OK);
    set(&world.is_begun);
    await(&world.is_done);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static void run_in_section(void) {
    submit(&world.group, needs_spare);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
}
static void run_guest_section(void) {
    EXPECT(weft_run(world.pool, &world.next, opens_section, NULL) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.next) == WEFT_OK);
}
static void setup_guest_ends(void) { create_asleep(1, 1, true); }
EXPLORE_DRIVER(spare_guest_ends, .about = "a guest's section ends while a spare stands in for the worker",
               .setup = setup_guest_ends, .threads = {run_in_section, run_guest_section, submit_needed}, .check = end,
               .flags = EXPLORE_NO_RESCUE);
