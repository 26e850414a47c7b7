/* drive_end.c: the memory of a group goes when the last wait on it has returned (invariant 8), however many waits there
 * were, while who submitted to it, or completed its last task, may not be back yet. A pool without threads, whose parts the
 * driver's own play. */
#include "at_rest.h"
#include "sched/find.h"
#include "played.h"
#include "record.h"
#include "sched/task.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group *first, *second; /* from os_alloc */
    ATOMIC(uint32_t) waits;     /* on the first that have not returned */
    ATOMIC(uint32_t) seen;
    uint32_t ran; /* the test's own */
} world;

static weft_group *group_new(void) {
    weft_group *group = os_alloc(sizeof *group);
    EXPECT(group != NULL);
    *group = (weft_group)WEFT_GROUP_INIT;
    return group;
}
static void setup(void) {
    memset(&world, 0, sizeof world);
    world.pool = pool_played(&world.config);
    load_rlx(&world.pool->seats[0])->is_worker = true;
    world.first = group_new();
}
static void check(void) {
    EXPECT(world.ran > 0 && load_rlx(&world.waits) == 0);
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_at_rest(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK && explore_bytes_left() == 0);
}

static int task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    world.ran++;
    store_rel(drive_end_ran, &world.seen, 1);
    return 0;
}
static void submit(weft_group *group) { EXPECT(weft_submit(world.pool, group, task, NULL, 0) == WEFT_OK); }

/* Runs one task as a worker would. */
static void run_one(void) {
    struct frame frame;
    struct piece piece;
    struct weft_worker *seat = load_rlx(&world.pool->seats[0]);
    *os_self_get() = (os_self){.pool_id = world.pool->id, .worker = seat, .is_worker = true};
    frame_push(seat, &frame);
    while (!find_help(seat, NULL, NULL, &piece)) os_pause();
    worker_run_help(seat, &piece);
    frame_pop(seat);
}

/* The group is nobody's for whoever comes back: it can be used again at once. The last one ends its memory. */
static void wait_and_leave(enum weft_help help) {
    EXPECT(weft_group_wait_until(world.pool, world.first, help, 0) == WEFT_OK);
    EXPECT(load_rlx(id_of(world.first)) == 0);
    if (add_acq_rel(drive_end_left, &world.waits, UINT32_MAX) == 1) os_free(world.first);
}
static void wait_helping(void) { wait_and_leave(WEFT_HELP_BELOW); }
static void wait_idly(void) { wait_and_leave(WEFT_HELP_NONE); }

static void setup_waiters(void) {
    setup();
    submit(world.first);
    store_rlx(&world.waits, 3);
}
EXPLORE_DRIVER(end_waiters, .about = "three wait, the last one back ends the group's memory", .setup = setup_waiters,
               .threads = {wait_helping, wait_idly, wait_helping}, .check = check, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(end_worker, .about = "a worker completes the last task, two wait", .setup = setup_waiters,
               .threads = {run_one, wait_idly, wait_idly, wait_idly}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* Who learns from the task that it was submitted may wait, and end the group, before the submitter is back. */
static void setup_submitter(void) {
    setup();
    store_rlx(&world.waits, 2);
}
static void submit_first(void) { submit(world.first); }
static void run_and_wait(void) {
    run_one();
    wait_idly();
}
static void wait_when_seen(void) {
    while (load_acq(drive_end_seen, &world.seen) == 0) os_pause();
    wait_helping();
}
EXPLORE_DRIVER(end_submitter, .about = "the group ends under its submitter", .setup = setup_submitter,
               .threads = {submit_first, run_and_wait, wait_when_seen}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* A group that holds a task of another: each ends as its wait returns, while the thread that completed the first one is
 * about to start what that held. */
static void setup_after(void) {
    setup();
    submit(world.first);
    world.second = group_new();
    store_rlx(&world.waits, 1);
    EXPECT(weft_submit_after(world.pool, (weft_after){world.first, world.second}, task, NULL, 0) == WEFT_OK);
}
static void run_both(void) {
    run_one();
    run_one();
}
static void wait_second(void) {
    EXPECT(weft_group_wait_until(world.pool, world.second, WEFT_HELP_NONE, 0) == WEFT_OK);
    EXPECT(world.ran == 2);
    os_free(world.second);
}
EXPLORE_DRIVER(end_after, .about = "a group ends that continuation a task of another", .setup = setup_after,
               .threads = {run_both, wait_idly, wait_second}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* ---- destroy, while tasks pass on from group to group: what it looks at one after the other is never all there is ------ */

#define HOPS 7u
static struct {
    weft_pool *pool;
    weft_group group[2];
    uint32_t ran; /* the test's own */
} chain;

static int hop(void *payload, weft_worker *self) {
    uint32_t left = *(const uint32_t *)payload - 1;
    chain.ran++;
    if (left > 0) EXPECT(weft_submit(weft_worker_pool(self), &chain.group[left % 2], hop, &left, sizeof left) == WEFT_OK);
    return 0;
}
static void setup_chain(void) {
    weft_config config;
    const uint32_t left = HOPS;
    memset(&chain, 0, sizeof chain);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spares = 1;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&chain.pool, &config) == WEFT_OK);
    EXPECT(weft_submit(chain.pool, &chain.group[left % 2], hop, &left, sizeof left) == WEFT_OK);
}
static void end_chain(void) { EXPECT(weft_pool_destroy(&chain.pool) == WEFT_OK); }
static void check_chain(void) { EXPECT(chain.ran == HOPS); }
EXPLORE_DRIVER(end_chain, .about = "destroy runs what tasks submit, from group to group", .setup = setup_chain,
               .threads = {end_chain}, .check = check_chain, .flags = EXPLORE_NO_RESCUE);

/* The sums over all groups, while one counter after the other changes: equal, they hold the last task. */
#define PASSES 4u
static struct {
    struct record *record[2];
    ATOMIC(uint32_t) is_last;
} sums;

static void setup_sums(void) {
    setup();
    memset(&sums, 0, sizeof sums);
    for (uint32_t i = 0; i < 2; i++) {
        sums.record[i] = record_open(&world.pool->groups, 0, 0);
        EXPECT(sums.record[i] != NULL);
    }
    counter_submit(counter_of(sums.record[0], 0), false, 1);
}
static void pass_on(void) {
    for (uint32_t i = 0; i < PASSES; i++) {
        if (i + 1 == PASSES)
            store_rlx(&sums.is_last, 1);
        else
            counter_submit(counter_of(sums.record[(i + 1) % 2], 0), false, 1);
        counter_complete(counter_of(sums.record[i % 2], 0), false, 1);
    }
}
static void look_at_sums(void) {
    for (uint32_t i = 0; i < 3; i++) {
        bool is_finished = records_are_finished(&world.pool->groups, 1, UINT32_MAX);
        if (is_finished) EXPECT(load_rlx(&sums.is_last) == 1);
        explore_observe(is_finished);
    }
}
static void check_sums(void) {
    EXPECT(records_are_finished(&world.pool->groups, 1, UINT32_MAX));
    os_free(world.first);
    store_rlx(&world.pool->workers, 0);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(end_sums, .about = "a task passed from group to group is always in the sums", .setup = setup_sums,
               .threads = {pass_on, look_at_sums}, .check = check_sums, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* ---- destroy, while somebody from outside opens a group that submits nothing: nobody completes anything after ------------ */

/* As long as the guest is in its call, destroy waits for it. Its record has served a group before whose two counters were
 * equal together alone. */
static void reopen(void) {
    int error;
    weft_group group = WEFT_GROUP_INIT;
    struct weft_worker *seat = seat_find(world.pool, &error);
    EXPECT(seat != NULL);
    guest_enter(seat);
    submit(&group);
    EXPECT(weft_group_wait_until(world.pool, &group, WEFT_HELP_NONE, 0) == WEFT_OK && seat->kept != NULL);
    add_rel(drive_end_open, &world.waits, 1);
    EXPECT(weft_group_deadline(world.pool, &group, UINT64_MAX) == WEFT_OK && seat->kept == NULL);
    guest_leave(seat);
}
static void run_before(void) {
    run_one();
    add_rel(drive_end_before, &world.waits, 1);
}
static void destroy_meanwhile(void) {
    while (load_acq(drive_end_opens, &world.waits) < 2) os_pause();
    store_rlx(&world.pool->workers, 0); /* to be joined */
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static void check_reopen(void) {
    EXPECT(world.ran == 1 && world.pool == NULL);
    os_free(world.first);
}
EXPLORE_DRIVER(end_reopen, .about = "destroy meets who opens a group and submits nothing", .setup = setup,
               .threads = {reopen, run_before, destroy_meanwhile}, .check = check_reopen, .flags = EXPLORE_NO_RESCUE);
