/* drive_loop_first.c: the chunk that a loop's caller takes before its entry opens, the wake that it owes after a body that
 * was short, loops of a body that was short elsewhere, and the same memory used again for another loop. */
#include "patterns/cost.h"
#include "explore.h"
#include "front.h"

#include <string.h>

enum { INDICES_MAX = 32, OWED = 3, SHORT_NS = 100, MIDDLE_NS = 10000, LONG_NS = 60000, PARKS_IN = 200 };

static struct {
    weft_pool *pool;
    weft_group groups[2];
    os_word met[2];
    weft_worker *caller;
    uint32_t run[INDICES_MAX]; /* the test's own, as are these */
    uint32_t chunks;           /* that the caller has run */
    uint32_t index;            /* record of the group whose loop it is */
    uint64_t id;
} world;

static void create(uint32_t workers) {
    weft_config config;
    memset(&world, 0, sizeof world);
    for (uint32_t i = 0; i < 2; i++) world.groups[i] = (weft_group)WEFT_GROUP_INIT;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 0;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void setup_one(void) { create(1); }
static void setup_two(void) { create(2); }
static void destroy(void) { EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK); }

/* As if an index of such loops had taken that long each time, lately. */
static void remember(weft_worker *seat, weft_range_fn body, void *context, size_t count, uint64_t ns) {
    uint64_t key = cost_key((uintptr_t)body, cost_site(context, count));
    uint64_t ticks = ns * seat->pool->ticks_per_us / 1000;
    EXPECT(cost_ticks(cost_of(seat, key, (uintptr_t)body), 1) == UINT64_MAX);
    for (uint32_t i = 0; i < COST_NEAR; i++) cost_learn(seat, key, ticks * count, count, count);
    EXPECT(cost_ticks(cost_of(seat, key, (uintptr_t)body), count) == ticks * count);
}
static weft_worker *own_seat(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    weft_worker *seat = weft_fork_worker(here);
    weft_fork_leave(here);
    return seat;
}
static void forget_runs(void) { memset(world.run, 0, sizeof world.run); }
static void count_runs(size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) world.run[i]++;
}
static void all_ran_once(size_t begin, size_t end) {
    for (size_t i = 0; i < INDICES_MAX; i++) EXPECT(world.run[i] == (i >= begin && i < end));
}

/* ---- nobody was woken, for the body was short the last time; its second and third index need two threads ------------ */

static int owed_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    EXPECT(end == begin + 1);
    if (begin == 0) {
        uint64_t until = os_now_ns() + LONG_NS;
        while (os_now_ns() < until) continue;
        return 0;
    }
    store_rel(drive_loop_met, &world.met[begin - 1], 1);
    os_wake(&world.met[begin - 1], 8);
    while (load_acq(drive_loop_meets, &world.met[2 - begin]) == 0) os_wait(&world.met[2 - begin], 0, 0);
    return 0;
}
static void owed_by(weft_worker *seat) {
    for (uint32_t i = 0; i < PARKS_IN && park_look(&world.pool->park).parked == 0; i++) os_pause();
    explore_observe(park_look(&world.pool->park).parked > 0);
    remember(seat, owed_body, NULL, OWED, MIDDLE_NS);
    EXPECT(weft_for(world.pool, (weft_range){0, OWED, 1}, owed_body, NULL) == WEFT_OK);
}
static void owed(void) { owed_by(own_seat()); }
EXPLORE_DRIVER(loop_owed, .about = "a body that was short takes long before it needs a sleeper", .setup = setup_one,
               .threads = {owed}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 2);

/* The same in the first chunk of a loop that others may enter (of two), or not (of one). */
static int owed_inside_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    EXPECT(end == begin + 1);
    if (begin == 0) owed_by(self);
    return 0;
}
static void owed_inside(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, 1 + explore_pick(2), 1}, owed_inside_body, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(loop_owed_inside, .about = "the same in the first chunk of a loop", .setup = setup_one,
               .threads = {owed_inside}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 2);

/* ---- one body for all loops: it was short with another context, or as often as a few units are trusted not yet */

static int generic_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    EXPECT(end == begin + 1);
    store_rel(drive_loop_generic, &world.met[begin], 1);
    os_wake(&world.met[begin], 8);
    while (load_acq(drive_loop_generics, &world.met[1 - begin]) == 0) os_wait(&world.met[1 - begin], 0, 0);
    return 0;
}
static void generic(void) {
    weft_worker *seat = own_seat();
    const weft_range two = {0, 2, 1};
    for (uint32_t i = 0; i < PARKS_IN && park_look(&world.pool->park).parked == 0; i++) os_pause();
    explore_observe(park_look(&world.pool->park).parked > 0);
    switch (explore_pick(3)) {
    case 0: /* another context */
        remember(seat, generic_body, &world.run[0], 2, SHORT_NS);
        EXPECT(weft_for(world.pool, two, generic_body, &world.run[1]) == WEFT_OK);
        break;
    case 1: /* the same, and another site */
        remember(seat, generic_body, &world.run[0], 2, SHORT_NS);
        EXPECT(weft_for_site(world.pool, two, generic_body, &world.run[0], &world) == WEFT_OK);
        break;
    default: /* not often enough */
        remember(seat, generic_body, &world.run[0], 2, SHORT_NS);
        cost_learn(seat, cost_key((uintptr_t)generic_body, cost_site(&world.run[0], 2)), 2 * cost_long_ticks(world.pool), 2,
                   2);
        for (uint32_t i = 1; i < COST_NEAR; i++)
            cost_learn(seat, cost_key((uintptr_t)generic_body, cost_site(&world.run[0], 2)), 1, 2, 2);
        EXPECT(weft_for(world.pool, two, generic_body, &world.run[0]) == WEFT_OK);
    }
}
EXPLORE_DRIVER(loop_generic, .about = "two calls of a body that was short for others wait for each other",
               .setup = setup_one, .threads = {generic}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 2);

/* ---- a first chunk of two indices is the caller's, whoever comes ------------------------------------------------------ */

static int first_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    count_runs(begin, end);
    if (begin == 0) {
        EXPECT(self == world.caller && end == 2);
        for (uint32_t i = 0; i < 8; i++) explore_step();
    }
    explore_observe(self == world.caller);
    return 0;
}
static void first(void) {
    world.caller = own_seat();
    remember(world.caller, first_body, NULL, INDICES_MAX, MIDDLE_NS);
    EXPECT(weft_for(world.pool, (weft_range){0, INDICES_MAX, 1}, first_body, NULL) == WEFT_OK);
    all_ran_once(0, INDICES_MAX);
}
EXPLORE_DRIVER(loop_first, .about = "helpers come while the caller is in its first chunk", .setup = setup_two,
               .threads = {first}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* ---- the same memory again: what changed is told, what an earlier loop left is gone ----------------------------------- */

/* The first chunk fails, the helpers' parts keep what they had not begun. */
static int failing_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)end;
    EXPECT(context == &world.run[0]);
    if (begin > 0) {
        explore_observe(0);
        return 0;
    }
    world.caller = self;
    for (uint32_t i = 0; i < 16; i++) explore_step();
    return 7;
}
static int other_body(size_t begin, size_t end, void *context, weft_worker *self) {
    EXPECT(context == &world.run[1]);
    EXPECT(weft_worker_cancelled(self) == 0 && self->frame->id == world.id && self->frame->index == world.index);
    EXPECT(begin % 2 == 1 && (end == begin + 2 || end == 14));
    count_runs(begin, end);
    if (self != world.caller) explore_observe(1);
    return 0;
}
static void other_loop(void) {
    for (uint32_t i = 0; i < 2; i++) { /* the second time nothing has changed */
        forget_runs();
        EXPECT(weft_for(world.pool, (weft_range){5, 14, 2}, other_body, &world.run[1]) == WEFT_OK);
        all_ran_once(5, 14);
    }
}
static void fail_first(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, INDICES_MAX / 2, 1}, failing_body, &world.run[0]) == 7);
    other_loop();
}
EXPLORE_DRIVER(loop_again, .about = "a loop's first chunk fails; its memory serves for other loops", .setup = setup_two,
               .threads = {fail_first}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

static int cancelling_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    count_runs(begin, end);
    if (begin == 0) {
        world.caller = self;
        for (uint32_t i = 0; i < 8; i++) explore_step();
        EXPECT(weft_group_cancel(world.pool, &world.groups[0]) == WEFT_OK);
    }
    if (self == world.caller) world.chunks++;
    return 0;
}
static int after_cancel(void *payload, weft_worker *self) {
    (void)payload;
    explore_observe(self == world.caller ? 0 : 2);
    world.caller = self;
    world.index = self->frame->index;
    world.id = self->frame->id;
    other_loop();
    return 0;
}
/* Its group is still there, cancelled, when the other's task is run in the wait. */
static int cancel_first(void *payload, weft_worker *self) {
    (void)payload;
    remember(self, cancelling_body, NULL, INDICES_MAX, MIDDLE_NS);
    int error = weft_for(world.pool, (weft_range){0, INDICES_MAX, 1}, cancelling_body, NULL);
    EXPECT(world.chunks == 1);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
    for (uint32_t i = 0; i < INDICES_MAX; i++) EXPECT(world.run[i] == 1 || (error != WEFT_OK && world.run[i] == 0));
    EXPECT(weft_submit(world.pool, &world.groups[1], after_cancel, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.groups[1]) == WEFT_OK);
    return 0;
}
static int cut_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    count_runs(begin, end);
    if (begin == 0) {
        world.caller = self;
        for (uint32_t i = 0; i < 8; i++) explore_step();
        EXPECT(weft_group_cancel(world.pool, &world.groups[0]) == WEFT_OK);
    }
    return begin < INDICES_MAX / 2 ? 0 : (int)begin;
}
/* The error of a failure says that all below it has run. */
static int cut_first(void *payload, weft_worker *self) {
    (void)payload;
    remember(self, cut_body, NULL, INDICES_MAX, MIDDLE_NS);
    int error = weft_for(world.pool, (weft_range){0, INDICES_MAX, 1}, cut_body, NULL);
    EXPECT(error == WEFT_ECANCELED || error > 0);
    bool has_failed = false;
    for (int i = 0; i < INDICES_MAX; i++) {
        EXPECT(world.run[i] <= 1 && (error < 0 || i > error || world.run[i] == 1));
        has_failed |= i >= INDICES_MAX / 2 && world.run[i] != 0;
    }
    if (has_failed) explore_observe(error < 0 ? 0 : 1);
    return 0;
}
static void cut(void) {
    EXPECT(weft_submit(world.pool, &world.groups[0], cut_first, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.groups[0]) == WEFT_ECANCELED);
}
EXPLORE_DRIVER(loop_cut, .about = "a loop is cancelled, and a helper's chunk fails", .setup = setup_two, .threads = {cut},
               .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

static void cancelled(void) {
    EXPECT(weft_submit(world.pool, &world.groups[0], cancel_first, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.groups[0]) == WEFT_ECANCELED);
}
EXPLORE_DRIVER(loop_cancel, .about = "a loop is cancelled in its first chunk; its memory serves for another group's loops",
               .setup = setup_two, .threads = {cancelled}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 3);
