/* drive_loop.c: loops through the public interface: the caller, its helpers, errors, loops inside loops. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

enum { INDICES_MAX = 16 };

static struct {
    weft_pool *pool;
    weft_config config;
    uint32_t run[INDICES_MAX]; /* the test's own, like the others */
    uint32_t fails_from;
    weft_worker *caller;
} world;

static void create(uint32_t workers, uint32_t flags) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 3000, 1000000000};
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 1;
    world.config.flags = flags;
    world.config.spin_ns = spins_ns[explore_pick(3)];
    world.fails_from = UINT32_MAX;
    EXPECT(weft_pool_create(&world.pool, &world.config) == WEFT_OK);
}
static void setup_one(void) { create(1, 0); }
static void setup_two(void) { create(2, 0); }
static void setup_one_no_help(void) { create(1, WEFT_POOL_NO_HELP); }
static void destroy(void) {
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}

/* Each index has memory of its own, made before the loop and released after it. */
struct cells {
    uint32_t *cell[INDICES_MAX];
    uint32_t first;
};

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct cells *cells = context;
    plain_read(cells, sizeof *cells);
    if (world.caller == NULL) world.caller = self;
    if (world.caller != self) explore_observe(0);
    for (size_t i = begin; i < end; i++) {
        plain_write(cells->cell[i - cells->first], sizeof(uint32_t));
        ++*cells->cell[i - cells->first];
        if (i >= world.fails_from) return (int)i;
    }
    return 0;
}

static void run(uint32_t first, uint32_t count) {
    struct cells *cells = os_alloc(sizeof *cells);
    plain_write(cells, sizeof *cells);
    cells->first = first;
    for (uint32_t i = 0; i < count; i++) {
        cells->cell[i] = os_alloc(sizeof(uint32_t));
        plain_write(cells->cell[i], sizeof(uint32_t));
        *cells->cell[i] = 0;
    }
    int error = weft_for(world.pool, (weft_range){first, first + count, 1}, body, cells);
    uint32_t until = world.fails_from == UINT32_MAX ? count : world.fails_from - first + 1;
    EXPECT(error == (world.fails_from == UINT32_MAX ? WEFT_OK : (int)world.fails_from));
    for (uint32_t i = 0; i < count; i++) {
        plain_read(cells->cell[i], sizeof(uint32_t));
        EXPECT(i < until ? *cells->cell[i] == 1 : *cells->cell[i] <= 1);
        os_free(cells->cell[i]);
    }
    os_free(cells);
}
static void two_loops(void) {
    run(0, 5);
    run(3, 4);
}
static void one_loop(void) { run(0, 4); }

EXPLORE_DRIVER(loop_one, .about = "a worker helps a caller, twice", .setup = setup_one, .threads = {two_loops},
               .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 1);
EXPLORE_DRIVER(loop_two, .about = "two workers help", .setup = setup_two, .threads = {two_loops}, .check = destroy,
               .flags = EXPLORE_NO_RESCUE, .must_see = 1);
EXPLORE_DRIVER(loop_guests, .about = "two callers from outside", .setup = setup_one, .threads = {one_loop, one_loop},
               .check = destroy, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(loop_no_help, .about = "a worker runs it in the caller's stead", .setup = setup_one_no_help,
               .threads = {one_loop}, .check = destroy, .flags = EXPLORE_NO_RESCUE);

static void setup_failing(void) {
    create(2, 0);
    world.fails_from = 3 + explore_pick(4);
}
static void failing(void) { run(2, 6); }
EXPLORE_DRIVER(loop_fails, .about = "the error of the lowest index, and all below has run", .setup = setup_failing,
               .threads = {failing}, .check = destroy, .flags = EXPLORE_NO_RESCUE);

/* Loops inside a loop's calls. */
static int nest_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) one_loop();
    return 0;
}
static void nested(void) { EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, nest_body, NULL) == WEFT_OK); }
EXPLORE_DRIVER(loop_nested, .about = "loops inside a loop", .setup = setup_one, .threads = {nested}, .check = destroy,
               .flags = EXPLORE_NO_RESCUE);

/* The memory for a loop is from the system: nothing else has made it known. */
static int fresh_body(size_t begin, size_t end, void *context, weft_worker *self) {
    store_get(&world.pool->store, (size_t)64 * 1024 - CACHE_LINE);
    return nest_body(begin, end, context, self);
}
static void fresh(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK); /* the thread's seat is known before its loop is made */
    weft_fork_leave(here);
    store_get(&world.pool->store, (size_t)64 * 1024 - CACHE_LINE);
    EXPECT(weft_for(world.pool, (weft_range){0, 1, 1}, fresh_body, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(loop_fresh, .about = "loops in memory of their own", .setup = setup_one, .threads = {fresh}, .check = destroy,
               .flags = EXPLORE_NO_RESCUE);

/* The first index waits for the second: a worker must come, though it sleeps or is about to. */
static int wanted_body(size_t begin, size_t end, void *context, weft_worker *self) {
    os_word *second = context;
    (void)self;
    EXPECT(end == begin + 1);
    if (begin == 1) {
        store_rel(drive_loop_ran, second, 1);
        os_wake(second, 1);
    }
    while (load_acq(drive_loop_seen, second) == 0) os_wait(second, 0, 0);
    return 0;
}
static void wanted(void) {
    os_word *second = os_alloc(sizeof *second);
    store_rlx(second, 0);
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, wanted_body, second) == WEFT_OK);
    os_free(second);
}
EXPLORE_DRIVER(loop_wanted, .about = "an index waits for another", .setup = setup_one, .threads = {wanted}, .check = destroy,
               .flags = EXPLORE_NO_RESCUE);
static int wanted_inside_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    wanted();
    return 0;
}
static void wanted_inside(void) { EXPECT(weft_for(world.pool, (weft_range){0, 1, 1}, wanted_inside_body, NULL) == WEFT_OK); }
EXPLORE_DRIVER(loop_wanted_inside, .about = "an index of a loop inside another waits for the next", .setup = setup_one,
               .threads = {wanted_inside}, .check = destroy, .flags = EXPLORE_NO_RESCUE);

/* The caller waits for its helper, in whose body a loop needs it: of the inner loop's two calls each waits for the other. */
static struct { os_word met[2]; } nest;
static int inner_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    if (self != world.caller) explore_observe(1);
    for (size_t i = begin; i < end; i++) {
        store_rel(drive_loop_met, &nest.met[i], 1);
        os_wake(&nest.met[i], 8);
        while (load_acq(drive_loop_meets, &nest.met[1 - i]) == 0) os_wait(&nest.met[1 - i], 0, 0);
    }
    return 0;
}
static int outer_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    if (begin == 0) world.caller = self;
    if (begin == 0 && end == 1) return 0;
    if (self != world.caller) explore_observe(0);
    return weft_for(world.pool, (weft_range){0, 2, 1}, inner_body, NULL);
}
static void setup_nest(void) {
    memset(&nest, 0, sizeof nest);
    setup_one();
}
static void nested_loops(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, outer_body, NULL) == WEFT_OK);
    EXPECT(load_rlx(&nest.met[0]) == 1 && load_rlx(&nest.met[1]) == 1);
}
EXPLORE_DRIVER(loop_nest, .about = "a caller helps inside the call that it waits for", .setup = setup_nest,
               .threads = {nested_loops}, .check = destroy, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* A worker that had a loop inside the caller's has the next one, of the same memory, in a task: that is a stranger's. */
static weft_group strangers;
static int empty_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    return 0;
}
static int stranger_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    EXPECT(weft_worker_index(self) < 2);
    for (int i = 0; i < 4; i++) os_pause();
    return 0;
}
static int stranger(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    explore_observe(0);
    EXPECT(weft_for(world.pool, (weft_range){0, 8, 1}, stranger_body, NULL) == WEFT_OK);
    store_rel(drive_loop_met, &nest.met[0], 1);
    os_wake(&nest.met[0], 8);
    return 0;
}
static int parting_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) {
        if (i == 1) {
            EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, empty_body, NULL) == WEFT_OK);
            EXPECT(weft_submit(world.pool, &strangers, stranger, NULL, 0) == WEFT_OK);
        }
        while (i == 2 && load_acq(drive_loop_meets, &nest.met[0]) == 0) os_wait(&nest.met[0], 0, 0);
    }
    return 0;
}
static void setup_strangers(void) {
    strangers = (weft_group)WEFT_GROUP_INIT;
    memset(&nest, 0, sizeof nest);
    setup_two();
}
static void parting_loop(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, 3, 1}, parting_body, NULL) == WEFT_OK);
    EXPECT(weft_group_wait_until(world.pool, &strangers, WEFT_HELP_NONE, 0) == WEFT_OK);
}
EXPLORE_DRIVER(loop_stranger, .about = "a caller helps with nothing but what it waits for", .setup = setup_strangers,
               .threads = {parting_loop}, .check = destroy, .must_see = 1);

/* The pool ends while the caller, in whose stead a worker runs the loop, is on its way from submitting it to the wait for
 * it. */
static int begun_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    store_rel(drive_loop_met, &nest.met[0], 1);
    os_wake(&nest.met[0], 8);
    return 0;
}
static void setup_end(void) {
    memset(&nest, 0, sizeof nest);
    setup_one_no_help();
}
static void call_to_the_end(void) { EXPECT(weft_for(world.pool, (weft_range){0, 1, 1}, begun_body, NULL) == WEFT_OK); }
static void end_when_begun(void) {
    while (load_acq(drive_loop_meets, &nest.met[0]) == 0) os_wait(&nest.met[0], 0, 0);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(loop_end, .about = "a pool ends under a loop that a worker runs for a thread from outside",
               .setup = setup_end, .threads = {call_to_the_end, end_when_begun}, .flags = EXPLORE_NO_RESCUE);
