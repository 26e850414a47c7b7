/* drive_seldom.c: what is rarer still in fork-join and loops than in drive_late.c: each driver leads to one place. The pools have
 * no threads; the driver's own play the helpers, and tell each other by plain variables, which order nothing. */
#include "at_rest.h"
#include "patterns/chunk.h"
#include "patterns/fork.h"
#include "patterns/loop.h"
#include "front.h"

#include <string.h>

enum {
    HELPERS = 2,
    CALLS = CHUNK_SLOTS - CHUNK_FIRST - 1 /* the last place of a chunk has another join */,
    AGAIN = 24,
    SEATS = 6
};

static struct {
    weft_pool *pool;
    weft_fork_slot *place[CALLS + 1];
    uint32_t number[CALLS]; /* the test's own, like the others */
    uint32_t run[AGAIN * CALLS];
    bool is_open, is_over, is_forked, is_taken;
    struct fork_call call, second;
    struct weft_worker *sleeper;
    os_word met[2];
} world;

static struct weft_worker *seat_at(uint32_t index) { return load_acq(drive_seldom_seat, &world.pool->seats[index]); }
static struct weft_worker *caller(void) { return seat_at(HELPERS); }

static void make_for(uint32_t workers, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.flags = flags;
    config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < workers; i++) seat_at(i)->is_worker = true;
    world.pool->config.spares = world.pool->spare_seats = 0;
}
static void make(uint32_t flags) { make_for(HELPERS, flags); }
static void enter(uint32_t flags) {
    make(flags);
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
}
static void end(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static void leave(void) {
    weft_fork_leave(world.place[0]);
    end();
}
static enum call_kind kind_at(uint32_t index) { return kind_of(load_rlx(&world.place[index]->state)); }
/* The thread is the worker of that seat. */
static void play(uint32_t index) {
    os_self *self = os_self_get();
    self->pool_id = world.pool->id;
    self->worker = seat_at(index);
    self->is_worker = true;
}

/* ---- rows of calls: two, of other functions at each place --------------------------------------------------------- */

static uint32_t note(uint32_t number) {
    EXPECT(++world.run[number] == 1);
    return number + 1;
}
static uint32_t older(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(number < CALLS);
    return note(number);
}
WEFT_FORK(older, uint32_t, uint32_t)
static uint32_t newer(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(number >= CALLS);
    return note(number);
}
WEFT_FORK(newer, uint32_t, uint32_t)

static void fork_older(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        world.number[i] = i;
        world.place[i + 1] = older_fork(world.place[i], &world.number[i]);
    }
}
static void join_older(uint32_t count) {
    while (count-- > 0) EXPECT(older_join(world.place[count], &world.number[count]) == count + 1);
}
static void fork_newer(void) {
    for (uint32_t i = 0; i < CALLS; i++) {
        world.number[i] = CALLS + i;
        world.place[i + 1] = newer_fork(world.place[i], &world.number[i]);
    }
}
static void join_newer(void) {
    for (uint32_t i = CALLS; i-- > 0;) EXPECT(newer_join(world.place[i], &world.number[i]) == CALLS + i + 1);
}
/* That helper's next batch is of so many calls. */
static void make_long(uint32_t index) {
    patterns_of(seat_at(index))->batch = (struct fork_batch){.owner = caller(), .size = CALLS};
}
static void each_ran(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) EXPECT(world.run[i] == 1);
    leave();
}

/* A thief goes on in its batch where another has opened calls of the row after that. */
static void setup_rows(void) {
    enter(WEFT_POOL_NO_HELP);
    fork_older(CALLS);
    make_long(0);
    make_long(1);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call));
    fork_run(seat_at(0), &world.call);
}
static void two_rows(void) {
    join_older(CALLS);
    fork_newer();
    world.is_open = true;
    for (int i = 0; i < 20; i++) os_pause();
    join_newer();
    world.is_over = true;
}
static void open_row(void) {
    struct fork_call call;
    while (!world.is_open) os_pause();
    if (fork_find(seat_at(1), true, NULL, &call)) fork_run(seat_at(1), &call);
}
static void go_on(void) {
    struct fork_call call;
    while (patterns_of(seat_at(1))->batch.left == 0 && !world.is_over) os_pause(); /* the other's batch is open */
    while (patterns_of(seat_at(0))->batch.left > 0 && fork_find(seat_at(0), false, NULL, &call)) {
        explore_observe(0);
        fork_run(seat_at(0), &call);
    }
}
static void both_rows_ran(void) { each_ran(2 * CALLS); }
EXPLORE_DRIVER(seldom_row, .about = "a thief has a batch, and another opens the next row of calls", .setup = setup_rows,
               .threads = {two_rows, open_row, go_on}, .check = both_rows_ran, .must_see = 1,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_FULL);

/* The newest call of a row is joined while a thief opens the row, and goes on to it. */
static void setup_row(void) {
    enter(WEFT_POOL_NO_HELP);
    fork_older(CALLS);
    make_long(0);
}
static void join_row(void) {
    EXPECT(older_join(world.place[CALLS - 1], &world.number[CALLS - 1]) == CALLS);
    while (!world.is_over) os_pause();
    join_older(CALLS - 1);
}
static void take_row(void) {
    struct fork_call call;
    for (uint32_t i = 0; i < CALLS; i++)
        if (fork_find(seat_at(0), true, NULL, &call)) fork_run(seat_at(0), &call);
    world.is_over = true;
}
static void row_ran(void) { each_ran(CALLS); }
EXPLORE_DRIVER(seldom_joined, .about = "a row's newest call is joined while a thief opens the row", .setup = setup_row,
               .threads = {join_row, take_row}, .check = row_ran, .flags = EXPLORE_NO_RESCUE);

/* ---- a place of calls, each with memory of its own ------------------------------------------------------------------ */

struct page {
    uint32_t *cell;
};
static uint32_t cells[AGAIN];
static uint32_t reader(weft_fork_slot *here, struct page page) {
    (void)here;
    plain_read(page.cell, sizeof *page.cell);
    return note(*page.cell);
}
WEFT_FORK(reader, uint32_t, struct page)
static void fork_again_and_again(void) {
    for (uint32_t i = 0; i < AGAIN; i++) {
        struct page page = {&cells[i]};
        plain_write(page.cell, sizeof *page.cell);
        *page.cell = i;
        reader_fork(world.place[0], &page);
        EXPECT(reader_join(world.place[0], &page) == i + 1);
    }
    world.is_over = true;
}
static void take_again(void) {
    struct fork_call call;
    while (!world.is_over)
        if (fork_find(seat_at(0), true, NULL, &call)) fork_run(seat_at(0), &call);
}
static void setup_again(void) { enter(WEFT_POOL_NO_HELP); }
static void all_again(void) { each_ran(AGAIN); }
EXPLORE_DRIVER(seldom_again, .about = "a place is used again while a thief makes up its mind", .setup = setup_again,
               .threads = {fork_again_and_again, take_again}, .check = all_again,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_FULL);

/* ---- a worker falls asleep while a thief opens the calls that it should run --------------------------------------- */

static void meet(uint32_t number) {
    store_rel(drive_seldom_met, &world.met[number], 1);
    os_wake(&world.met[number], INT32_MAX);
    while (load_acq(drive_seldom_meets, &world.met[1 - number]) == 0) os_wait(&world.met[1 - number], 0, 0);
}
static uint32_t meeting(weft_fork_slot *here, uint32_t number) {
    (void)here;
    meet(number);
    return note(number);
}
WEFT_FORK(meeting, uint32_t, uint32_t)
static void setup_meeting(void) {
    enter(0);
    for (uint32_t i = 0; i < 2; i++) {
        world.number[i] = i;
        world.place[i + 1] = meeting_fork(world.place[i], &world.number[i]);
    }
}
static void stop(void) {
    store_rlx(&world.pool->exits, 1);
    fence_sc(drive_seldom_stop);
    for (uint32_t i = 0; i < world.pool->park.workers; i++) event_raise(&world.pool->park.slots[i].event);
    while (park_wake(&world.pool->park)) {}
}
static void long_in_something(void) {
    for (uint32_t i = 0; i < 2; i++)
        while (load_acq(drive_seldom_seen, &world.met[i]) == 0) os_wait(&world.met[i], 0, 0);
    world.is_over = true;
    for (uint32_t i = 2; i-- > 0;) EXPECT(meeting_join(world.place[i], &world.number[i]) == i + 1);
    stop();
}
static void take_one(void) {
    struct fork_call call;
    for (uint32_t i = 0; i < 100 && park_look(&world.pool->park).searchers == 0; i++)
        os_pause(); /* the worker looks for work */
    while (!world.is_over)
        if (fork_find(seat_at(0), true, NULL, &call))
            fork_run(seat_at(0), &call);
        else
            os_pause();
}
static void worker(void) { worker_main(seat_at(1)); }
static void both_met(void) { each_ran(2); }
EXPLORE_DRIVER(seldom_asleep, .about = "a worker falls asleep while a thief opens calls", .setup = setup_meeting,
               .threads = {long_in_something, take_one, worker}, .check = both_met,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_FULL);

/* ---- a join looks below its call, whose taker waits for a call in a chunk that was just made ---------------------- */

/* The join helps with a loop below its call until then, so it makes no fence meanwhile. */
static uint32_t leaf(weft_fork_slot *here, uint32_t number) {
    (void)here;
    return note(number);
}
WEFT_FORK(leaf, uint32_t, uint32_t)
static int body_below(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    if (self == caller()) {
        world.is_open = true;
        while (!world.is_over) os_pause();
        return 0;
    }
    if (world.is_over) return 0;
    while (!world.is_open) os_pause();
    uint32_t below = 1;
    weft_fork_slot *inner = fork_enter(self);
    leaf_fork(inner, &below);
    world.is_forked = true;
    while (!world.is_taken) os_pause();
    EXPECT(leaf_join(inner, &below) == 2);
    fork_leave(inner);
    return 0;
}
static uint32_t with_loop(weft_fork_slot *here, uint32_t number) {
    (void)here;
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, body_below, NULL) == WEFT_OK);
    return note(number);
}
WEFT_FORK(with_loop, uint32_t, uint32_t)
static void setup_below(void) {
    enter(0);
    store_rlx(&world.pool->spin_now, UINT64_MAX);
    world.pool->patience_ticks = UINT64_MAX;
    world.place[1] = with_loop_fork(world.place[0], &world.number[0]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call));
}
static void join_with_loop(void) { EXPECT(with_loop_join(world.place[0], &world.number[0]) == 1); }
static void run_call(void) {
    play(0);
    fork_run(seat_at(0), &world.call);
    os_self_get()->worker = NULL;
}
static void take_below(void) {
    struct fork_call call;
    while (!world.is_forked) os_pause();
    while (!fork_find(seat_at(1), true, NULL, &call)) os_pause();
    world.is_taken = true;
    while (load_rlx(&forks_of(seat_at(0))->waits_for) == NULL) os_pause();
    world.is_over = true;
    for (int i = 0; i < 10; i++) os_pause();
    fork_run(seat_at(1), &call);
}
EXPLORE_DRIVER(seldom_below, .about = "a join looks below its call, whose taker waits in a region that is new",
               .setup = setup_below, .threads = {join_with_loop, run_call, take_below}, .check = both_met,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_FULL);

/* ---- a loop's caller falls asleep while its helper calls a loop that needs it ------------------------------------- */

static int meeting_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    if (self == caller()) explore_observe(0);
    for (; begin < end; begin++) meet((uint32_t)begin);
    return 0;
}
static int body_with_loop(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    if (self == caller()) {
        while (!world.is_open) os_pause();
        return 0;
    }
    world.is_open = true;
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, meeting_body, NULL) == WEFT_OK);
    return 0;
}
static void setup_loop(void) { make(0); }
static void call_loop(void) { EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, body_with_loop, NULL) == WEFT_OK); }
static void help_once(uint32_t index) {
    struct loop *loop;
    uint32_t number;
    play(index);
    while ((number = loop_find(seat_at(index), NULL, &loop)) == 0) os_pause();
    loop_help(seat_at(index), loop, number, 0);
    os_self_get()->worker = NULL;
}
static void help_loop(void) { help_once(0); }
EXPLORE_DRIVER(seldom_nest, .about = "a loop's caller falls asleep while its helper calls another", .setup = setup_loop,
               .threads = {call_loop, help_loop}, .check = end, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* ---- a thread is late to count up the event that it raises --------------------------------------------------------- */

/* Meanwhile who sleeps is woken for another reason, and falls asleep again: that takes long where there are many seats. */
static void wake_for_nothing(void) {
    add_rlx(&world.sleeper->wait_event, 1);
    os_wake(&world.sleeper->wait_event, INT32_MAX);
}

static uint32_t second_of_two(weft_fork_slot *here, uint32_t number) {
    (void)here;
    return note(number);
}
WEFT_FORK(second_of_two, uint32_t, uint32_t)
/* Ends when its join falls asleep. */
static uint32_t first_of_two(weft_fork_slot *here, uint32_t number) {
    (void)here;
    while ((load_rlx(&world.place[0]->state) & STATE_SLEEPS) == 0 && !world.is_over) os_pause();
    return note(number);
}
WEFT_FORK(first_of_two, uint32_t, uint32_t)
static void setup_two_joins(void) {
    make_for(SEATS, 0);
    world.pool->patience_ticks = UINT64_MAX;
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    world.sleeper = weft_fork_worker(world.place[0]);
    world.number[1] = 1;
    world.place[1] = first_of_two_fork(world.place[0], &world.number[0]);
    second_of_two_fork(world.place[1], &world.number[1]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call));
    EXPECT(fork_find(seat_at(1), true, NULL, &world.second));
}
static void two_joins(void) {
    EXPECT(second_of_two_join(world.place[1], &world.number[1]) == 2);
    EXPECT(first_of_two_join(world.place[0], &world.number[0]) == 1);
}
static void run_first(void) { fork_run(seat_at(0), &world.call); }
static void run_second(void) { fork_run(seat_at(1), &world.second); }
static void wake_join(void) {
    while (kind_at(1) == CALL_TAKEN) os_pause();
    wake_for_nothing();
}
EXPLORE_DRIVER(seldom_late_join, .about = "two joins, the taker of the first joined is late to wake",
               .setup = setup_two_joins, .threads = {two_joins, run_first, run_second, wake_join}, .check = both_met,
               .flags = EXPLORE_NO_RESCUE);

/* The same of two loops, one after the other, with a helper each, whose body ends when the caller falls asleep. */
static bool is_asleep(void) { return load_rlx(&world.pool->park.word[0].helpers) != 0; }
static int body_first(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    if (self != world.sleeper) world.is_open = true;
    while (!world.is_open || (self != world.sleeper && !is_asleep())) os_pause();
    return 0;
}
static int body_second(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    if (self != world.sleeper) world.is_taken = true;
    while (!world.is_taken || (self != world.sleeper && !is_asleep())) os_pause();
    return 0;
}
static void setup_two_loops(void) {
    make_for(SEATS, 0);
    world.pool->patience_ticks = UINT64_MAX;
}
static void two_loops(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK); /* the thread's seat is known before its loop is made */
    world.sleeper = weft_fork_worker(here);
    weft_fork_leave(here);
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, body_first, NULL) == WEFT_OK);
    world.is_over = true;
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, body_second, NULL) == WEFT_OK);
}
static void help_second(void) {
    while (!world.is_over) os_pause();
    help_once(1);
}
static void wake_caller(void) {
    while (!world.is_over && (!world.is_open || seat_at(0)->frame != NULL)) os_pause(); /* it is about to leave */
    for (uint32_t i = explore_pick(8); i > 0; i--) explore_step();
    wake_for_nothing();
}
EXPLORE_DRIVER(seldom_late_loop, .about = "two loops, the helper of the first is late to wake", .setup = setup_two_loops,
               .threads = {two_loops, help_loop, help_second, wake_caller}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* ---- helpers that come and leave: each has a number of its own ----------------------------------------------------- */

enum { UNITS = 12 };
static bool is_held[HELPERS + 1]; /* the number, by a helper inside */
static uint32_t units_run;
static int body_of_helpers(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    if (self != seat_at(0) && self != seat_at(1)) {
        while (units_run < UNITS - 1) os_pause();
        return 0;
    }
    units_run += (uint32_t)(end - begin);
    return 0;
}
static bool is_any(const void *context, const struct loop *loop) {
    (void)context;
    return loop != NULL;
}
static void setup_numbers(void) {
    make(0);
    memset(is_held, 0, sizeof is_held);
    units_run = 0;
}
static void call_helpers(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, UNITS, 1}, body_of_helpers, NULL) == WEFT_OK);
    world.is_over = true;
}
/* Its time has passed before it comes: it runs one chunk. */
static void come_and_leave(uint32_t index) {
    struct loop *loop;
    while (!world.is_over) {
        uint32_t number = loop_find(seat_at(index), &(struct loop_filter){is_any, NULL, true}, &loop);
        if (number != 0) {
            EXPECT(number <= HELPERS && !is_held[number]);
            is_held[number] = true;
            for (int i = 0; i < 8; i++) explore_step();
            is_held[number] = false;
            loop_help(seat_at(index), loop, number, 1);
        } else {
            os_pause();
        }
    }
}
static void come_first(void) { come_and_leave(0); }
static void come_second(void) { come_and_leave(1); }
EXPLORE_DRIVER(seldom_number, .about = "a loop's helpers come and leave, each with a number of its own",
               .setup = setup_numbers, .threads = {call_helpers, come_first, come_second}, .check = end,
               .flags = EXPLORE_NO_RESCUE);

/* ---- who falls asleep asks in a region that its thread leaves ------------------------------------------------------ */

enum { ROUNDS = 6 };
static uint32_t begun, asked; /* rounds, of either thread */
static void setup_rounds(void) {
    enter(0);
    begun = asked = 0;
}
/* What it forks after a region is seen by who falls asleep, or it has looked for sleepers. */
static void fork_after_regions(void) {
    struct weft_worker *seat = weft_fork_worker(world.place[0]);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t number = i;
        begun = i + 1;
        weft_fork_leave(fork_enter(seat));
        seat->forker.deeper = NULL;
        leaf_fork(world.place[0], &number);
        bool has_looked = seat->forker.deeper != NULL;
        while (asked <= i) os_pause();
        EXPECT(has_looked || world.is_over); /* it has seen the call */
        explore_observe(has_looked);
        EXPECT(leaf_join(world.place[0], &number) == i + 1);
    }
}
static void ask_and_sleep(void) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
        while (begun <= i) os_pause();
        for (uint32_t n = explore_pick(16); n > 0; n--) explore_step();
        add_rlx(&world.pool->park.word[0].helpers, 1);
        forks_ask_firmly(world.pool, NULL);
        world.is_over = forks_are_open(world.pool, true);
        add_rlx(&world.pool->park.word[0].helpers, UINT32_MAX);
        asked = i + 1;
    }
}
static void rounds_ran(void) { each_ran(ROUNDS); }
EXPLORE_DRIVER(seldom_region, .about = "who falls asleep asks in a region that its thread leaves", .setup = setup_rounds,
               .threads = {fork_after_regions, ask_and_sleep}, .check = rounds_ran, .must_see = 3,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);
