/* drive_late.c: who wakes a sleeper may be late, and others wake it meanwhile: no wake-up is lost. The pool has no threads; the
 * driver's play its helpers. One more thread changes the event once, as wakes for other reasons do. */
#include "explore.h"
#include "fork.h"
#include "loop.h"
#include "pool.h"

#include <string.h>

enum { HELPERS = 2 };

static struct {
    weft_pool *pool;
    weft_place *place[HELPERS + 1];
    struct fork_call call[HELPERS]; /* the outer is the first helper's */
    uint32_t argument[HELPERS];     /* the test's own, like run */
    uint32_t run;
} world;

static struct weft_worker *seat_at(uint32_t index) { return load_acq(drive_late_seat, &world.pool->seats[index]); }
static struct weft_worker *sleeper(void) { return seat_at(HELPERS); }

static void make(uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = HELPERS;
    config.flags = flags;
    config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < HELPERS; i++) seat_at(i)->is_worker = true;
    world.pool->config.spares = 0;
}
static void end(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(world.run == HELPERS);
}
static void wake_for_nothing(void) {
    while (sleeper() == NULL) os_pause();
    add_rlx(&sleeper()->wait_event, 1);
    os_wake(&sleeper()->wait_event, INT32_MAX);
}

/* ---- joins: two calls, each taken by a helper --------------------------------------------------------------------- */

static uint32_t leaf(weft_place *here, uint32_t number) {
    (void)here;
    world.run++;
    return number + 1;
}
WEFT_FORK(leaf, uint32_t, uint32_t)

static void fork_two(void) {
    make(WEFT_NO_HELP);
    EXPECT(weft_enter(world.pool, &world.place[0]) == WEFT_OK);
    for (uint32_t i = 0; i < HELPERS; i++) {
        world.argument[i] = i;
        world.place[i + 1] = leaf_fork(world.place[i], &world.argument[i]);
    }
    for (uint32_t i = 0; i < HELPERS; i++) EXPECT(fork_find(seat_at(i), true, &world.call[i]));
}
static void join_two(void) {
    for (uint32_t i = HELPERS; i-- > 0;) EXPECT(leaf_join(world.place[i], &world.argument[i]) == i + 1);
}
static void run_outer(void) { fork_run(seat_at(0), &world.call[0]); }
static void run_inner(void) { fork_run(seat_at(1), &world.call[1]); }
static void leave(void) {
    weft_leave(world.place[0]);
    end();
}
EXPLORE_DRIVER(late_join, .about = "two joins, the first call's taker is late to wake", .setup = fork_two,
               .threads = {join_two, run_outer, run_inner, wake_for_nothing}, .check = leave, .flags = EXPLORE_NO_RESCUE);

/* ---- loops: two of them, one after the other, a helper in each ---------------------------------------------------- */

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    if (self != sleeper()) explore_observe(0);
    return 0;
}
static void loop_two(void) {
    for (uint32_t i = 0; i < HELPERS; i++) {
        EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, body, NULL) == WEFT_OK);
        world.run++;
    }
}
static void help(uint32_t index) {
    struct loop *loop;
    uint32_t number;
    while ((number = loop_find(seat_at(index), &loop)) == 0 && world.run < HELPERS) os_pause();
    if (number != 0) loop_help(seat_at(index), loop, number);
}
static void help_first(void) { help(0); }
static void help_second(void) { help(1); }
static void setup_loops(void) { make(0); }

EXPLORE_DRIVER(late_loop, .about = "two loops, a helper of the first is late to wake", .setup = setup_loops,
               .threads = {loop_two, help_first, help_second, wake_for_nothing}, .check = end, .flags = EXPLORE_NO_RESCUE);
