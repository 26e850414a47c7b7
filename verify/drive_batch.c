/* drive_batch.c: calls forked one after the other, then joined, and thieves who take them unasked, in rows. The pools have
 * no threads; the driver's own play the thieves. */
#include "at_rest.h"
#include "patterns/fork.h"
#include "front.h"
#include "patterns/chunk.h"

#include <string.h>

enum {
    THIEVES = 2,
    CALLS = 3,
    CHUNK_CALLS = CHUNK_SLOTS - CHUNK_FIRST,
    LONG = CHUNK_CALLS + 1,
    LONGEST = CHUNK_CALLS + 6,
    ROWS = 6,
    CALLS_MAX = ROWS * LONG
};

static struct {
    weft_pool *pool;
    uint32_t run[CALLS_MAX]; /* the test's own */
    uint32_t made;
} world;

static struct weft_worker *seat_at(uint32_t index) { return load_acq(drive_row_seat, &world.pool->seats[index]); }

static void setup(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = THIEVES;
    config.spin_ns = WEFT_SPIN_NONE;
    do world.pool = pool_make(&config);
    while (world.pool == NULL);
    for (uint32_t i = 0; i < THIEVES; i++) seat_at(i)->is_worker = true;
    world.pool->config.spares = world.pool->spare_seats = 0;
}
static void each_ran(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    for (uint32_t i = 0; i < world.made; i++) EXPECT(world.run[i] == 1);
}

/* Calls of one row are of two functions, so that another function for the argument is seen. */
static uint32_t note(uint32_t number) {
    EXPECT(++world.run[number] == 1);
    return number;
}
static uint32_t even(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(number % 2 == 0);
    return note(number) + 1;
}
WEFT_FORK(even, uint32_t, uint32_t)
static uint32_t odd(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(number % 2 == 1);
    return note(number) + 1;
}
WEFT_FORK(odd, uint32_t, uint32_t)

static weft_fork_slot *fork_one(weft_fork_slot *here, const uint32_t *number) {
    return *number % 2 == 0 ? even_fork(here, number) : odd_fork(here, number);
}
static void join_one(weft_fork_slot *here, const uint32_t *number) {
    EXPECT((*number % 2 == 0 ? even_join(here, number) : odd_join(here, number)) == *number + 1);
}

static void row(weft_fork_slot *here, uint32_t count, void (*before)(void)) {
    weft_fork_slot *places[LONG + 1] = {here};
    uint32_t numbers[LONG];
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = world.made++;
        if (before != NULL) before();
        places[i + 1] = fork_one(places[i], &numbers[i]);
    }
    for (uint32_t i = count; i-- > 0;) join_one(places[i], &numbers[i]);
}

/* An odd count, so that the second row has the other function at each place. */
static void two_rows(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    row(here, CALLS, NULL);
    row(here, CALLS, NULL);
    weft_fork_leave(here);
}

static void many_rows(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    for (uint32_t i = 0; i < ROWS; i++) row(here, CALLS, NULL);
    weft_fork_leave(here);
}

static void thieve(uint32_t index) {
    struct weft_worker *self = seat_at(index);
    for (uint32_t tries = 0; tries < CALLS * ROWS; tries++) {
        struct fork_call call;
        if (!fork_find(self, true, NULL, &call)) continue;
        explore_observe(index);
        if (patterns_of(self)->batch.left > 0) explore_observe(THIEVES);
        fork_run(self, &call);
    }
}
static void thief_0(void) { thieve(0); }
static void thief_1(void) { thieve(1); }

EXPLORE_DRIVER(row_one, .about = "calls forked one after the other, a thief", .setup = setup, .threads = {two_rows, thief_0},
               .check = each_ran, .flags = EXPLORE_NO_RESCUE, .must_see = 5);
EXPLORE_DRIVER(row_two, .about = "the same, two thieves", .setup = setup, .threads = {two_rows, thief_0, thief_1},
               .check = each_ran, .flags = EXPLORE_NO_RESCUE, .must_see = 7);

static void lose_barrier(void) {
    for (uint32_t i = 0; i < 4; i++) os_fence_heavy(drive_row_lose);
}
EXPLORE_DRIVER(row_lost, .about = "the same while the barrier is lost", .setup = setup,
               .threads = {two_rows, thief_0, thief_1, lose_barrier}, .check = each_ran,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER, .must_see = 7);

EXPLORE_DRIVER(row_again, .about = "the same again and again, two thieves", .setup = setup,
               .threads = {many_rows, thief_0, thief_1}, .check = each_ran, .flags = EXPLORE_NO_RESCUE, .must_see = 7);

/* Rows to beyond the end of a chunk. There may be no memory for the next: then the fork at the last place is refused. */
static void empty_store(void) { store_get(&world.pool->store, (size_t)64 * 1024 - CACHE_LINE); }
static void long_rows(void) {
    weft_fork_slot *here;
    while (weft_fork_enter(world.pool, &here) != WEFT_OK) continue;
    row(here, LONG, empty_store);
    row(here, LONG, empty_store);
    weft_fork_leave(here);
}
/* Once a fork has been refused, another region begins before each fork, for which there may be memory again. */
static void long_rows_between(void) {
    weft_fork_slot *places[LONGEST + 1], *inner;
    uint32_t numbers[LONGEST];
    while (weft_fork_enter(world.pool, &places[0]) != WEFT_OK) continue;
    for (uint32_t i = 0; i < LONGEST; i++) {
        numbers[i] = world.made++;
        empty_store();
        if (i > 0 && places[i] == places[i - 1] && weft_fork_enter(world.pool, &inner) == WEFT_OK) weft_fork_leave(inner);
        places[i + 1] = fork_one(places[i], &numbers[i]);
    }
    for (uint32_t i = LONGEST; i-- > 0;) join_one(places[i], &numbers[i]);
    weft_fork_leave(places[0]);
}
EXPLORE_DRIVER(row_between, .about = "the same, and other regions begin between", .setup = setup,
               .threads = {long_rows_between, thief_0, thief_1}, .check = each_ran,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_MEMORY_FAILS, .must_see = 1);
EXPLORE_DRIVER(row_poor, .about = "more calls than a chunk has places, and memory runs out", .setup = setup,
               .threads = {long_rows, thief_0}, .check = each_ran, .flags = EXPLORE_NO_RESCUE | EXPLORE_MEMORY_FAILS,
               .must_see = 1);
