/* drive_lease.c: a pool that shares two tokens with other programs, without make. These are threads here, each with a lease of its own,
 * and are killed, too. Never do more threads run than there are tokens or programs; each task runs once; nobody sleeps beside a token
 * that is free, also without the grace; and at the end nobody has locked anything. */
#include "at_rest.h"
#include "front.h"
#include "queue/lease.h"
#include "sched/tokens.h"

#include <string.h>

#define WORKERS 3u
#define OTHERS 3u

static struct {
    weft_pool *pools[2];
    weft_group groups[2];
    uint32_t pool_count, tokens, expected;
    bool gives_if_wanted;
    ATOMIC(uint32_t) programs; /* that have not ended */
    struct lease others[OTHERS];
    os_pipe bell; /* which nobody rings */
    ATOMIC(uint32_t) ran, running, ended;
    os_word needed, arrived;
} world;

static void create_others(uint32_t others, uint32_t tokens) {
    world.tokens = tokens;
    store_rlx(&world.programs, others);
    EXPECT(os_bell_open(&world.bell) == 0);
    for (uint32_t i = 0; i < others; i++) EXPECT(lease_open(&world.others[i], NULL, tokens) == 0);
}

static void create(uint32_t pools, uint32_t others, uint32_t expected) {
    weft_config config;
    memset(&world, 0, sizeof world);
    if (load_rlx(&tokens_grace_us) == 0) store_rlx(&tokens_grace_us, TOKENS_GRACE_NONE);
    world.pool_count = pools;
    world.expected = expected;
    create_others(others, 2);
    add_rlx(&world.programs, 1);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = pools == 2 ? 2 : WORKERS;
    config.spares = 1;
    config.flags = WEFT_POOL_LEASE;
    config.spin_ns = WEFT_SPIN_NONE;
    for (uint32_t i = 0; i < pools; i++) EXPECT(weft_pool_create(&world.pools[i], &config) == WEFT_OK);
}

static void enter(void) {
    uint32_t programs = add_rlx(&world.programs, 0); /* a load might be told a number that is yet to come (--buffering) */
    uint32_t running = add_rlx(&world.running, 1) + 1;
    EXPECT(running <= max_u64(world.tokens, programs) || load_rlx(&world.ended));
    explore_observe(running - 1);
}
static void leave(void) { add_rlx(&world.running, UINT32_MAX); }

static int count(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    enter();
    explore_step();
    leave();
    add_rlx(&world.ran, 1);
    return 0;
}
/* Each waits for the other: the pool must come to have two tokens. */
static int need(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    enter();
    add_rlx(&world.needed, 1);
    os_wake(&world.needed, 2);
    for (uint32_t needed = load_rlx(&world.needed); needed < 2; needed = load_rlx(&world.needed))
        os_wait(&world.needed, needed, 0);
    leave();
    add_rlx(&world.ran, 1);
    return 0;
}

static void submit(uint32_t pool, uint32_t tasks, weft_fn fn) {
    for (uint32_t i = 0; i < tasks; i++) EXPECT(weft_submit(world.pools[pool], &world.groups[pool], fn, NULL, 0) == WEFT_OK);
}
/* By workers alone. */
static void await(uint32_t pool) {
    EXPECT(weft_group_wait_until(world.pools[pool], &world.groups[pool], WEFT_HELP_NONE, 0) == WEFT_OK);
}
static void end(void) {
    for (uint32_t i = 0; i < world.pool_count; i++) {
        await(i);
        expect_nobody_inside(world.pools[i]);
        EXPECT(weft_pool_destroy(&world.pools[i]) == WEFT_OK);
    }
    EXPECT(load_rlx(&world.ran) == world.expected);
    EXPECT(load_rlx(&world.running) == 0);
    EXPECT(explore_locks(UINT32_MAX) == 0);
}

static void submit_first(void) {
    submit(0, 2, count);
    await(0);
    submit(0, 2, count);
}
static void submit_second(void) { submit(1, 3, count); }
static void submit_needing(void) {
    submit(0, 1, count);
    submit(0, 2, need);
}

/* ---- other programs ----------------------------------------------------------------------------------------------- */

/* As a worker that has the turn. */
static void other_wait(struct lease *lease) {
    while (!lease_take(lease, true)) EXPECT(os_lock_file_wait(&lease->file, &world.bell, true, 0));
    lease_rest(lease, true);
    enter();
}
static void other_stop(struct lease *lease) {
    leave();
    if (lease->held == 1) add_rlx(&world.programs, UINT32_MAX); /* it has ended */
    lease_give(lease);
    lease_rest(lease, lease->held > 0);
}
/* A second thread, if there is a token just now. It gives way when others need its token. */
static void other_grow(struct lease *lease) {
    if (!lease_take(lease, false)) return;
    enter();
    enum lease_wish enough = world.gives_if_wanted ? LEASE_WANTED : LEASE_NEEDED;
    do explore_step();
    while (lease_look(lease) < enough && load_rlx(&world.ran) < world.expected);
    other_stop(lease);
}
static void other_runs(struct lease *lease) {
    other_wait(lease);
    other_grow(lease);
    explore_step();
    (void)lease_look(lease);
    explore_step();
    other_stop(lease);
}
static void first_runs(void) { other_runs(&world.others[0]); }
static void second_runs(void) { other_runs(&world.others[1]); }

/* It has two threads, or what it can get, looks at nothing, and is killed. Its threads end before its locks. */
static void killed_runs(void) {
    struct lease *lease = &world.others[0];
    uint32_t threads = 1;
    other_wait(lease);
    if (lease_take(lease, false)) {
        enter();
        threads++;
    }
    for (int i = 0; i < 5; i++) explore_step();
    while (threads-- > 0) leave();
    lease_close(lease);
}
static void killed_waits(void) {
    struct lease *lease = &world.others[1];
    bool runs = lease_take(lease, true);
    if (runs) enter();
    explore_step();
    if (runs) leave();
    lease_close(lease);
}

/* ---- drivers ------------------------------------------------------------------------------------------------------ */

static void setup_alone(void) { create(1, 0, 4); }
EXPLORE_DRIVER(lease_alone, .about = "two tokens, and no other program", .setup = setup_alone, .threads = {submit_first},
               .check = end, .must_see = 3);

static void setup_needed(void) { create(1, 0, 3); }
EXPLORE_DRIVER(lease_needed, .about = "two tokens, and two tasks that wait for each other", .setup = setup_needed,
               .threads = {submit_needing}, .check = end);

static void setup_beside(void) { create(1, 1, 4); }
EXPLORE_DRIVER(lease_beside, .about = "beside a program that has up to two tokens", .setup = setup_beside,
               .threads = {submit_first, first_runs}, .check = end, .must_see = 3);

static void setup_two(void) { create(1, 2, 4); }
EXPLORE_DRIVER(lease_two, .about = "beside two programs that have up to two tokens", .setup = setup_two,
               .threads = {submit_first, first_runs, second_runs}, .check = end, .must_see = 7);

static void setup_two_needed(void) {
    create(1, 2, 3);
    world.gives_if_wanted = true;
}
EXPLORE_DRIVER(lease_two_needed, .about = "two tasks that wait for each other, beside two programs",
               .setup = setup_two_needed, .threads = {submit_needing, first_runs, second_runs}, .check = end);

static void setup_pools(void) { create(2, 1, 7); }
EXPLORE_DRIVER(lease_pools, .about = "two pools beside a program", .setup = setup_pools,
               .threads = {submit_first, submit_second, first_runs}, .check = end);

EXPLORE_DRIVER(lease_killed, .about = "beside a program that is killed", .setup = setup_beside,
               .threads = {submit_first, killed_runs}, .check = end);
EXPLORE_DRIVER(lease_killed_needed, .about = "two tasks that wait for each other, beside two programs that are killed",
               .setup = setup_two_needed, .threads = {submit_needing, killed_runs, killed_waits}, .check = end);

/* ---- the other programs alone ------------------------------------------------------------------------------------- */

static void setup_none(uint32_t others, uint32_t tokens) {
    memset(&world, 0, sizeof world);
    create_others(others, tokens);
}
static void others_end(void) {
    EXPECT(load_rlx(&world.running) == 0);
    EXPECT(explore_locks(UINT32_MAX) == 0);
}
static void setup_others(void) { setup_none(2, 2); }
EXPLORE_DRIVER(lease_others, .about = "two programs that have up to two tokens", .setup = setup_others,
               .threads = {first_runs, second_runs}, .check = others_end);

static void tell_word(os_word *word) {
    add_rlx(word, 1);
    os_wake(word, 4);
}
static void await_word(os_word *word, uint32_t until) {
    for (uint32_t seen = load_rlx(word); seen < until; seen = load_rlx(word)) os_wait(word, seen, 0);
}

/* A try for one more, of a program with one token, does not keep a third one from its pass. The two stay until that has run. */
static void keeps_one(uint32_t number) {
    struct lease *lease = &world.others[number];
    other_wait(lease);
    tell_word(&world.arrived);
    if (lease_take(lease, false)) lease_give(lease);
    await_word(&world.needed, 1);
    other_stop(lease);
}
static void first_keeps(void) { keeps_one(0); }
static void second_keeps(void) { keeps_one(1); }
static void third_passes(void) {
    await_word(&world.arrived, 2);
    other_wait(&world.others[2]);
    tell_word(&world.needed);
    other_stop(&world.others[2]);
}
static void setup_kept(void) { setup_none(3, 2); }
EXPLORE_DRIVER(lease_kept, .about = "two programs with one token each, which try for more, and a third one",
               .setup = setup_kept, .threads = {first_keeps, second_keeps, third_passes}, .check = others_end,
               .flags = EXPLORE_NO_RESCUE);

/* A byte that is put back is told. The first has two of three tokens and tries for more, until the third one has run. */
static void first_tries(void) {
    struct lease *lease = &world.others[0];
    other_wait(lease);
    while (!lease_take(lease, true)) EXPECT(os_lock_file_wait(&lease->file, &world.bell, true, 0));
    lease_rest(lease, true);
    enter();
    tell_word(&world.arrived);
    if (lease_take(lease, false)) lease_give(lease);
    await_word(&world.needed, 1);
    leave();
    lease_give(lease);
    other_stop(lease);
}
static void second_stops(void) {
    other_wait(&world.others[1]);
    tell_word(&world.arrived);
    await_word(&world.arrived, 3);
    other_stop(&world.others[1]);
}
static void third_comes(void) {
    await_word(&world.arrived, 2);
    tell_word(&world.arrived);
    other_wait(&world.others[2]);
    tell_word(&world.needed);
    other_stop(&world.others[2]);
}
static void setup_back(void) { setup_none(3, 3); }
EXPLORE_DRIVER(lease_back, .about = "a program with two of three tokens, which tries for more, and one that waits",
               .setup = setup_back, .threads = {first_tries, second_stops, third_comes}, .check = others_end,
               .flags = EXPLORE_NO_RESCUE);

/* One runs by a pass and looks at nothing until the second has ended. The first needs a second token, and gets it after that. */
static void first_needs(void) {
    struct lease *lease = &world.others[0];
    other_wait(lease);
    tell_word(&world.arrived);
    await_word(&world.arrived, 3);
    while (!lease_take(lease, true)) EXPECT(os_lock_file_wait(&lease->file, &world.bell, true, 0));
    lease_rest(lease, true);
    enter();
    explore_step();
    leave();
    lease_give(lease);
    other_stop(lease);
}
static void passes_long(void) {
    await_word(&world.arrived, 2);
    other_wait(&world.others[2]);
    tell_word(&world.arrived);
    for (int i = 0; i < 10; i++) explore_step();
    other_stop(&world.others[2]);
}
EXPLORE_DRIVER(lease_pass, .about = "one that needs two tokens, beside one that runs by a pass", .setup = setup_kept,
               .threads = {first_needs, second_stops, passes_long}, .check = others_end, .flags = EXPLORE_NO_RESCUE);

/* A token comes free while one tries for it that has one, and another has come to run by a pass. */
static void first_tries_often(void) {
    struct lease *lease = &world.others[0];
    other_wait(lease);
    tell_word(&world.arrived);
    await_word(&world.arrived, 2);
    for (int i = 0; i < 3; i++) {
        if (!lease_take(lease, false)) continue;
        enter();
        explore_step();
        leave();
        lease_give(lease);
    }
    other_stop(lease);
}
static void second_leaves(void) {
    other_wait(&world.others[1]);
    tell_word(&world.arrived);
    await_word(&world.arrived, 2);
    other_stop(&world.others[1]);
}
static void third_stays(void) {
    await_word(&world.arrived, 2);
    other_wait(&world.others[2]);
    for (int i = 0; i < 10; i++) explore_step();
    other_stop(&world.others[2]);
}
EXPLORE_DRIVER(lease_race, .about = "one that tries for a second token while that comes free, and one that runs by a pass",
               .setup = setup_kept, .threads = {first_tries_often, second_leaves, third_stays}, .check = others_end);

/* ---- with the grace ----------------------------------------------------------------------------------------------- */

static int run_beside(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    explore_step();
    add_rlx(&world.ran, 1);
    return 0;
}

/* Has both tokens, and looks at nothing until some tasks have run. */
static void keeps_all(void) {
    struct lease *lease = &world.others[0];
    for (int i = 0; i < 2; i++)
        while (!lease_take(lease, true)) EXPECT(os_lock_file_wait(&lease->file, &world.bell, true, 0));
    lease_rest(lease, true);
    tell_word(&world.arrived);
    await_word(&world.needed, 1);
    for (int i = 0; i < 2; i++) lease_give(lease);
    lease_rest(lease, false);
}
static void submit_singly(void) {
    await_word(&world.arrived, 1);
    for (int i = 0; i < 3; i++) {
        submit(0, 1, run_beside);
        await(0);
    }
    submit(0, 2, run_beside);
    tell_word(&world.needed);
}
static void setup_kept_all(void) {
    store_rlx(&tokens_grace_us, 1);
    create(1, 1, 5);
}
EXPLORE_DRIVER(lease_grace, .about = "bursts beside a program that keeps all tokens", .setup = setup_kept_all,
               .threads = {submit_singly, keeps_all}, .check = end);

/* ---- the end of the process --------------------------------------------------------------------------------------- */

static void end_process(void) {
    store_rlx(&world.ended, 1);
    explore_process_ends();
    EXPECT(explore_locks(2) == 0);
    explore_step();
    EXPECT(explore_locks(2) == 0);
}
EXPLORE_DRIVER(lease_exit, .about = "the process ends while tasks run", .setup = setup_alone,
               .threads = {submit_first, end_process}, .check = end);
