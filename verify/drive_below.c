/* drive_below.c: whose calls a waiting join runs: those below the call that it waits for, and no others of who runs that.
 * The driver's threads take calls by fork_find, as workers do. */
#include "at_rest.h"
#include "patterns/fork.h"
#include "front.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_config config;
    ATOMIC(uint32_t) taken;            /* calls that the thief runs */
    unsigned thief;                    /* the test's own, like the others */
    uint32_t run_below, run_beside[3]; /* how often */
    bool below_is_done, joins_newer;
} world;

static void setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = 1;
    world.config.spares = 0;
    world.config.spin_ns = 3000;
    world.pool = pool_make(&world.config);
    EXPECT(world.pool != NULL);
    store_rlx(&world.pool->workers, 0);
    if (explore_pick(2) == 1) world.pool->patience_ticks = 0;
}
static void check(void) {
    EXPECT(world.run_below > 0);
    expect_at_rest(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static weft_fork_slot *enter(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    return here;
}

/* Not below the call that another waits for: its own thread's alone. */
static uint32_t beside(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(explore_self() == world.thief);
    EXPECT(++world.run_beside[number] == 1);
    return number;
}
WEFT_FORK(beside, uint32_t, uint32_t)

/* Below it: anybody's who waits. */
static uint32_t below(weft_fork_slot *here, uint32_t number) {
    (void)here;
    explore_observe(explore_self() != world.thief);
    world.run_below++;
    world.below_is_done = true;
    return number;
}
WEFT_FORK(below, uint32_t, uint32_t)

/* The call that the thief takes. It forks twice: at the second time it may have been asked, and offers its oldest. */
static uint32_t taken(weft_fork_slot *here, uint32_t number) {
    EXPECT(explore_self() == world.thief);
    for (uint32_t round = 1; round <= 2; round++) {
        world.below_is_done = false;
        below_fork(here, &round);
        store_rlx(&world.taken, number);
        for (int i = 0; i < 10 && !world.below_is_done; i++) os_pause();
        EXPECT(below_join(here, &round) == round);
    }
    EXPECT(world.run_below == 2);
    return number;
}
WEFT_FORK(taken, uint32_t, uint32_t)

static void join_taken(void) {
    weft_fork_slot *here = enter();
    uint32_t number = 7;
    taken_fork(here, &number);
    while (load_rlx(&world.taken) == 0) os_pause();
    EXPECT(taken_join(here, &number) == 7);
    weft_fork_leave(here);
}

/* Takes any call that is to be had, and runs it, as a wait does that helps with anything. */
static void take_one(void) {
    struct weft_worker *seat = os_self_get()->worker;
    struct fork_call call;
    while (!fork_find(seat, true, NULL, &call)) os_pause();
    fork_run(seat, &call);
}
static void steal_beside(void) {
    uint32_t first = 0, second = 1;
    weft_fork_slot *here = enter();
    world.thief = explore_self();
    weft_fork_slot *deeper = beside_fork(here, &first);
    beside_fork(deeper, &second);
    take_one();
    EXPECT(beside_join(deeper, &second) == 1);
    EXPECT(beside_join(here, &first) == 0);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_beside, .about = "a join leaves what the thief forked before it took the call", .setup = setup,
               .threads = {join_taken, steal_beside}, .check = check, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* A thief that had asked for calls, and opened some, before it took the one that is waited for: what it has open from then
 * is not below either. */
static uint32_t beside_loop_runs; /* the test's own */
static int beside_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)end, (void)context, (void)self;
    EXPECT(explore_self() == world.thief);
    beside_loop_runs++;
    if (begin == 0) take_one();
    return 0;
}
static void steal_in_loop(void) {
    weft_fork_slot *here = enter();
    world.thief = explore_self();
    beside_loop_runs = 0;
    EXPECT(weft_for(world.pool, (weft_range){0, 3, 1}, beside_body, NULL) == WEFT_OK);
    EXPECT(beside_loop_runs == 3);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_loop, .about = "a join leaves the loop in whose body the thief took the call", .setup = setup,
               .threads = {join_taken, steal_in_loop}, .check = check, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* The call that a join waits for ends, and its thief goes on with what it forked before: that is not below, though it was
 * forked at the same positions as what was. */
static uint32_t taken_short(weft_fork_slot *here, uint32_t number) {
    (void)here;
    world.run_below++;
    store_rlx(&world.taken, number);
    return number;
}
WEFT_FORK(taken_short, uint32_t, uint32_t)
static void join_short(void) {
    weft_fork_slot *here = enter();
    uint32_t number = 7;
    taken_short_fork(here, &number);
    while (load_rlx(&world.taken) == 0) os_pause();
    EXPECT(taken_short_join(here, &number) == 7);
    weft_fork_leave(here);
}
static void steal_then_fork(void) {
    uint32_t first = 0, second = 1;
    weft_fork_slot *here = enter();
    world.thief = explore_self();
    take_one();
    weft_fork_slot *inner = enter();
    weft_fork_slot *deeper = beside_fork(inner, &first);
    beside_fork(deeper, &second);
    for (int i = 0; i < 20; i++) os_pause();
    EXPECT(beside_join(deeper, &second) == 1);
    EXPECT(beside_join(inner, &first) == 0);
    weft_fork_leave(inner);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_after, .about = "a join leaves what the thief forks when the call is done", .setup = setup,
               .threads = {join_short, steal_then_fork}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* The same of a loop that it calls then. */
static int after_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    EXPECT(explore_self() == world.thief);
    for (int i = 0; i < 10; i++) os_pause();
    return 0;
}
static void steal_then_loop(void) {
    weft_fork_slot *here = enter();
    world.thief = explore_self();
    take_one();
    weft_fork_slot *inner = enter();
    EXPECT(weft_for(world.pool, (weft_range){0, 3, 1}, after_body, NULL) == WEFT_OK);
    weft_fork_leave(inner);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_after_loop, .about = "a join leaves the loop that the thief calls when the call is done",
               .setup = setup, .threads = {join_short, steal_then_loop}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* Who waits has opened a row of the thief's calls before, and run the first of them: the others are not below. */
static uint32_t first_of_row(weft_fork_slot *here, uint32_t number) {
    uint32_t argument = 7;
    taken_fork(here, &argument);
    store_rlx(&world.taken, 1);
    while (load_rlx(&world.taken) != 7) os_pause();
    EXPECT(taken_join(here, &argument) == 7);
    return number;
}
WEFT_FORK(first_of_row, uint32_t, uint32_t)
static void open_row(void) {
    weft_fork_slot *here = enter();
    take_one();
    weft_fork_leave(here);
}
static void steal_in_row(void) {
    uint32_t first = 0, second = 1;
    weft_fork_slot *here = enter();
    world.thief = explore_self();
    weft_fork_slot *deeper = first_of_row_fork(here, &first);
    beside_fork(deeper, &second);
    while (load_rlx(&world.taken) == 0) os_pause();
    take_one();
    EXPECT(beside_join(deeper, &second) == 1);
    EXPECT(first_of_row_join(here, &first) == 0);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_row, .about = "a join leaves the row that its thread had opened before", .setup = setup,
               .threads = {open_row, steal_in_row}, .check = check, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* A calls P, which B runs and calls Q, which C runs and calls two. One is taken by B, the other by A, each in its join. C,
 * waiting for the newer one, takes what is below that, not what is below the older one, though its taker waits further up.
 * */
enum { P_RUNS = 1, Q_RUNS, ONE_RUNS, TWO_RUN };

static unsigned runs_q, runs_newer; /* threads; the test's own */

static void note_run(uint32_t of) {
    if (load_rlx(&world.taken) < of) store_rlx(&world.taken, of);
}
static void await_run(uint32_t of) {
    while (load_rlx(&world.taken) < of) os_pause();
}
static uint32_t lowest(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(!(explore_self() == runs_q && world.joins_newer));
    return number;
}
WEFT_FORK(lowest, uint32_t, uint32_t)
static uint32_t older(weft_fork_slot *here, uint32_t number) {
    uint32_t argument = 1;
    lowest_fork(here, &argument);
    note_run(ONE_RUNS);
    if (explore_self() != runs_q) await_run(TWO_RUN);
    for (int i = 0; i < 20 && world.joins_newer; i++) os_pause();
    EXPECT(lowest_join(here, &argument) == 1);
    return number;
}
WEFT_FORK(older, uint32_t, uint32_t)
static uint32_t newer(weft_fork_slot *here, uint32_t number) {
    (void)here;
    runs_newer = explore_self();
    note_run(TWO_RUN);
    for (int i = 0; i < 20; i++) os_pause();
    return number;
}
WEFT_FORK(newer, uint32_t, uint32_t)
static uint32_t q(weft_fork_slot *here, uint32_t number) {
    uint32_t first = 1, second = 2;
    runs_q = explore_self();
    note_run(Q_RUNS);
    weft_fork_slot *deeper = older_fork(here, &first);
    await_run(ONE_RUNS);
    newer_fork(deeper, &second);
    await_run(TWO_RUN);
    world.joins_newer = true;
    EXPECT(newer_join(deeper, &second) == 2);
    world.joins_newer = false;
    EXPECT(older_join(here, &first) == 1);
    world.run_below++;
    return number;
}
WEFT_FORK(q, uint32_t, uint32_t)
static uint32_t p(weft_fork_slot *here, uint32_t number) {
    uint32_t argument = 3;
    q_fork(here, &argument);
    note_run(P_RUNS);
    await_run(Q_RUNS);
    EXPECT(q_join(here, &argument) == 3);
    return number;
}
WEFT_FORK(p, uint32_t, uint32_t)
static void setup_chain(void) {
    setup();
    runs_q = runs_newer = 0;
}
static void call_p(void) {
    weft_fork_slot *here = enter();
    uint32_t argument = 4;
    p_fork(here, &argument);
    await_run(Q_RUNS);
    EXPECT(p_join(here, &argument) == 4);
    explore_observe(runs_newer == explore_self());
    weft_fork_leave(here);
}
static void run_p(void) {
    weft_fork_slot *here = enter();
    take_one();
    weft_fork_leave(here);
}
static void run_q(void) {
    weft_fork_slot *here = enter();
    await_run(P_RUNS);
    take_one();
    weft_fork_leave(here);
}
EXPLORE_DRIVER(below_chain, .about = "a join follows the waits below its own call alone", .setup = setup_chain,
               .threads = {call_p, run_p, run_q}, .check = check, .flags = EXPLORE_NO_RESCUE, .must_see = 3);
