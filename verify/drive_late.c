/* drive_late.c: what is rare in fork-join and loops: a thread is late, and what it looked at has moved on. The pools have no
 * threads; the driver's own play helpers. */
#include "record.h"
#include "at_rest.h"
#include "patterns/chunk.h"
#include "patterns/fork.h"
#include "patterns/loop.h"
#include "front.h"

#include <string.h>

enum { HELPERS = 2, AGAIN = 10, UNITS = 6, ROW = CHUNK_SLOTS - CHUNK_FIRST + 1 /* one more than a span has places */ };

static struct {
    weft_pool *pool;
    weft_fork_slot *place[HELPERS + 1];
    struct fork_call call[HELPERS]; /* the outer is the first helper's */
    uint32_t argument[HELPERS];     /* the test's own, like run */
    uint32_t run;
    uint32_t taken; /* calls of a row */
    bool is_begun, is_waiting, loops;
    uint32_t units[UNITS]; /* how often each has run */
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
    world.pool->config.spares = world.pool->spare_seats = 0;
}
static void end(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(world.run == HELPERS);
}
/* As wakes for other reasons do. */
static void wake_for_nothing(void) {
    while (sleeper() == NULL) os_pause();
    add_rlx(&sleeper()->wait_event, 1);
    os_wake(&sleeper()->wait_event, INT32_MAX);
}

/* ---- joins: two calls, each taken by a helper --------------------------------------------------------------------- */

static uint32_t leaf(weft_fork_slot *here, uint32_t number) {
    (void)here;
    world.run++;
    return number + 1;
}
WEFT_FORK(leaf, uint32_t, uint32_t)

static void fork_two(void) {
    make(WEFT_POOL_NO_HELP);
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    for (uint32_t i = 0; i < HELPERS; i++) {
        world.argument[i] = i;
        world.place[i + 1] = leaf_fork(world.place[i], &world.argument[i]);
    }
    for (uint32_t i = 0; i < HELPERS; i++) EXPECT(fork_find(seat_at(i), true, NULL, &world.call[i]));
}
static void join_two(void) {
    for (uint32_t i = HELPERS; i-- > 0;) EXPECT(leaf_join(world.place[i], &world.argument[i]) == i + 1);
}
static void run_outer(void) { fork_run(seat_at(0), &world.call[0]); }
static void run_inner(void) { fork_run(seat_at(1), &world.call[1]); }
static void leave(void) {
    weft_fork_leave(world.place[0]);
    end();
}
EXPLORE_DRIVER(late_join, .about = "two joins, the first call's taker is late to wake", .setup = fork_two,
               .threads = {join_two, run_outer, run_inner, wake_for_nothing}, .check = leave, .flags = EXPLORE_NO_RESCUE);

/* ---- a join that helps below its call: what the taker waits for is known with all that belongs to it --------------- */

static uint32_t long_leaf(weft_fork_slot *here, uint32_t number) {
    world.is_begun = true;
    for (int i = 0; i < 8; i++) explore_step();
    for (uint32_t i = 0; i < HELPERS; i++)
        if (load_rlx(&forks_of(seat_at(i))->waits_for) != NULL) world.is_waiting = true;
    for (int i = 0; i < 20; i++) explore_step();
    return leaf(here, number);
}
WEFT_FORK(long_leaf, uint32_t, uint32_t)
static uint32_t branch(weft_fork_slot *here, uint32_t number) {
    uint32_t below = number + 1;
    struct weft_fork_chunk *span = (struct weft_fork_chunk *)((uintptr_t)here & ~(uintptr_t)(WEFT_FORK_CHUNK - 1));
    while (load_rlx(&span->limit) != NULL) os_pause(); /* asked: the fork offers */
    weft_fork_slot *deeper = long_leaf_fork(here, &below);
    uint32_t result = leaf(deeper, number);
    while (!world.is_begun) os_pause();
    return long_leaf_join(here, &below) + result;
}
WEFT_FORK(branch, uint32_t, uint32_t)

static void fork_branch(void) {
    make(0);
    store_rlx(&world.pool->spin_now, UINT64_MAX);
    world.pool->patience_ticks = UINT64_MAX;
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    forks_ask(world.pool, NULL);
    branch_fork(world.place[0], &world.argument[0]);
}
static void join_branch(void) {
    while (!world.is_waiting && world.run < HELPERS) os_pause();
    EXPECT(branch_join(world.place[0], &world.argument[0]) == 3);
}
static void run_what_is_asked_for(uint32_t index) {
    struct fork_call call;
    while (world.run < HELPERS) {
        forks_ask(world.pool, NULL);
        if (fork_find(seat_at(index), false, NULL, &call))
            fork_run(seat_at(index), &call);
        else
            os_pause();
    }
}
static void run_one(void) { run_what_is_asked_for(0); }
static void run_other(void) { run_what_is_asked_for(1); }
EXPLORE_DRIVER(late_below, .about = "a join looks for help below its call, whose taker waits in turn", .setup = fork_branch,
               .threads = {join_branch, run_one, run_other}, .check = leave, .flags = EXPLORE_ALWAYS_LIGHT);

/* The same where the join begins to look before the taker has offered anything. */
static void join_branch_early(void) { EXPECT(branch_join(world.place[0], &world.argument[0]) == 3); }
EXPLORE_DRIVER(late_below_early, .about = "the same, and it looks already when the taker begins", .setup = fork_branch,
               .threads = {join_branch_early, run_one, run_other}, .check = leave, .flags = EXPLORE_ALWAYS_LIGHT);

/* The same where the taker has gone on to another span without a fence of its own: all its calls are taken by force, the last
 * four at once. */
static uint32_t branch_row(weft_fork_slot *here, uint32_t number) {
    weft_fork_slot *place[ROW + 1] = {here};
    uint32_t below[ROW];
    for (uint32_t i = 0; i < ROW; i++) {
        below[i] = i;
        place[i + 1] = leaf_fork(place[i], &below[i]);
        while (i == 1 && world.taken < 2) os_pause();
    }
    world.is_begun = true;
    while (world.taken < ROW) os_pause();
    for (uint32_t i = ROW; i-- > 0;) EXPECT(leaf_join(place[i], &below[i]) == i + 1);
    return number;
}
WEFT_FORK(branch_row, uint32_t, uint32_t)
static void fork_branch_row(void) {
    make(0);
    store_rlx(&world.pool->spin_now, UINT64_MAX);
    world.pool->patience_ticks = UINT64_MAX;
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    branch_row_fork(world.place[0], &world.argument[0]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call[0]));
}
static void join_branch_row(void) {
    while (!world.is_waiting) os_pause();
    EXPECT(branch_row_join(world.place[0], &world.argument[0]) == 0);
}
static void take_branch_row(void) {
    struct fork_call call[ROW];
    while (world.taken < ROW) {
        while (world.taken == 2 && !world.is_begun) os_pause();
        if (fork_find(seat_at(1), true, NULL, &call[world.taken]))
            world.taken++;
        else
            os_pause();
    }
    while (load_rlx(&forks_of(seat_at(0))->waits_for) == NULL) os_pause();
    world.is_waiting = true;
    while (!chunk_is_asked(load_rlx(&forks_of(seat_at(0))->current))) os_pause(); /* by who has looked what it waits for */
    for (uint32_t i = ROW; i-- > 0;) fork_run(seat_at(1), &call[i]);
}
static void leave_row(void) {
    EXPECT(world.run == ROW);
    world.run = HELPERS;
    leave();
}
EXPLORE_DRIVER(late_below_span, .about = "the same, the taker is in its second span and was never asked",
               .setup = fork_branch_row, .threads = {join_branch_row, run_outer, take_branch_row}, .check = leave_row,
               .flags = EXPLORE_ALWAYS_LIGHT);

/* ---- a join that falls asleep while the taker of its call goes on to another span ----------------------------------- */

static os_word sent;
static uint32_t sends(weft_fork_slot *here, uint32_t number) {
    uint32_t result = leaf(here, number);
    store_rel(drive_late_sent, &sent, 1);
    os_wake(&sent, INT32_MAX);
    return result;
}
WEFT_FORK(sends, uint32_t, uint32_t)
/* What it forks must be run by who waits in its join. */
static uint32_t send_and_await(weft_fork_slot *here, uint32_t number) {
    sends_fork(here, &number);
    while (load_acq(drive_late_seen, &sent) == 0) os_wait(&sent, 0, 0);
    return sends_join(here, &number);
}
static uint32_t after_region(weft_fork_slot *here, uint32_t number) {
    weft_fork_leave(fork_enter(weft_fork_worker(here)));
    return leaf(here, send_and_await(here, number));
}
WEFT_FORK(after_region, uint32_t, uint32_t)
static uint32_t after_span(weft_fork_slot *here, uint32_t number) {
    weft_fork_slot *first = here;
    uint32_t below = number;
    while (!fork_is_full(here)) here = leaf_fork(here, &below);
    weft_fork_slot *last = here;
    here = leaf_fork(here, &below);
    number = send_and_await(here, number);
    leaf_join(here = last, &below);
    while (here != first) leaf_join(--here, &below);
    world.run = 1;
    return leaf(here, number);
}
WEFT_FORK(after_span, uint32_t, uint32_t)

static void enter_asleep(void) {
    make(0);
    store_rlx(&sent, 0);
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
}
static void fork_after_region(void) {
    enter_asleep();
    after_region_fork(world.place[0], &world.argument[0]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call[0]));
}
static void join_after_region(void) { EXPECT(after_region_join(world.place[0], &world.argument[0]) == 2); }
EXPLORE_DRIVER(late_region, .about = "a join falls asleep while its call's taker ends a region", .setup = fork_after_region,
               .threads = {join_after_region, run_outer}, .check = leave, .flags = EXPLORE_NO_RESCUE);

static void fork_after_span(void) {
    enter_asleep();
    after_span_fork(world.place[0], &world.argument[0]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call[0]));
}
static void join_after_span(void) { EXPECT(after_span_join(world.place[0], &world.argument[0]) == 2); }
EXPLORE_DRIVER(late_span, .about = "the same while that goes on to its next span", .setup = fork_after_span,
               .threads = {join_after_span, run_outer}, .check = leave, .flags = EXPLORE_NO_RESCUE);

/* ---- two calls offered one after the other: each is run by its own function -------------------------------------- */

static uint32_t twice(weft_fork_slot *here, uint32_t number) {
    (void)here;
    world.run++;
    return 2 * number + 10;
}
WEFT_FORK(twice, uint32_t, uint32_t)
static void enter_asked(void) {
    make(0);
    world.pool->patience_ticks = UINT64_MAX;
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    forks_ask(world.pool, NULL);
}
static void offer_two(void) {
    world.place[1] = leaf_fork(world.place[0], &world.argument[0]);
    for (int i = 0; i < 4; i++) explore_step();
    twice_fork(world.place[1], &world.argument[1]);
    for (int i = 0; i < 4; i++) explore_step();
    EXPECT(twice_join(world.place[1], &world.argument[1]) == 10);
    EXPECT(leaf_join(world.place[0], &world.argument[0]) == 1);
}
EXPLORE_DRIVER(late_offer, .about = "a call is taken while the next is offered", .setup = enter_asked,
               .threads = {offer_two, run_one, run_other}, .check = leave);

/* The next is of a span that is made meanwhile, without a fence since: of the calls before it the first is offered until the others
 * were taken by force. */
static weft_fork_slot *row_place[ROW + 1];
static uint32_t row_argument[ROW];
static void setup_row(void) {
    make(WEFT_POOL_NO_HELP);
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    row_place[0] = world.place[0];
    forks_ask(world.pool, NULL);
}
static void fork_row(void) {
    for (uint32_t i = 0; i < ROW; i++) {
        row_argument[i] = i;
        row_place[i + 1] = leaf_fork(row_place[i], &row_argument[i]);
        while (i == 2 && world.taken < 2) os_pause();
        while (i + 2 == ROW && !world.is_begun) os_pause(); /* so its thread is asked in the new span first */
    }
    world.is_waiting = true;
    for (uint32_t i = ROW; i-- > 0;) EXPECT(leaf_join(row_place[i], &row_argument[i]) == i + 1);
}
static bool refuse_first(const void *context, uint32_t index) {
    uint32_t *refusals = *(uint32_t *const *)context;
    (void)index;
    if (*refusals == 0) return true;
    *refusals -= 1;
    return false;
}
static void take_row(void) {
    uint32_t refusals;
    uint32_t *const context = &refusals;
    const struct fork_filter filter = {.accepts = refuse_first, .context = &context};
    struct fork_call call;
    while (world.taken < ROW - 1) {
        refusals = world.taken < ROW - 2; /* the offer */
        if (!fork_find(seat_at(0), true, &filter, &call)) {
            os_pause();
            continue;
        }
        world.taken++;
        fork_run(seat_at(0), &call);
    }
    forks_ask(world.pool, NULL);
    world.is_begun = true;
}
static void take_offers(void) {
    struct fork_call call;
    while (!world.is_waiting) os_pause();
    for (int i = 0; i < 4; i++)
        if (fork_find(seat_at(1), false, NULL, &call)) fork_run(seat_at(1), &call);
}
EXPLORE_DRIVER(late_offer_span, .about = "an offer, and then one in a new span, whose thread has made no fence since",
               .setup = setup_row, .threads = {fork_row, take_row, take_offers}, .check = leave_row,
               .flags = EXPLORE_ALWAYS_LIGHT);

/* ---- a join that helps below its call: what the taker does after that call is a stranger's ---------------------------- */

static uint32_t others(weft_fork_slot *here, uint32_t number) {
    EXPECT(weft_fork_worker(here) != sleeper());
    return leaf(here, number);
}
WEFT_FORK(others, uint32_t, uint32_t)
static uint32_t others_above(weft_fork_slot *here, uint32_t number) {
    uint32_t below = number;
    forks_ask(world.pool, NULL);
    weft_fork_slot *deeper = others_fork(here, &below);
    for (int i = 0; i < 8; i++) explore_step();
    EXPECT(weft_fork_worker(deeper) != sleeper());
    explore_observe(weft_fork_worker(deeper) == seat_at(1));
    return others_join(here, &below);
}
WEFT_FORK(others_above, uint32_t, uint32_t)
static int others_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    EXPECT(self != sleeper());
    return 0;
}

static void fork_one(void) {
    make(0);
    store_rlx(&world.pool->spin_now, UINT64_MAX);
    world.pool->patience_ticks = UINT64_MAX;
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
    leaf_fork(world.place[0], &world.argument[0]);
    EXPECT(fork_find(seat_at(0), true, NULL, &world.call[0]));
}
static void join_one(void) { EXPECT(leaf_join(world.place[0], &world.argument[0]) == 1); }
static void run_and_go_on(void) {
    struct weft_worker *seat = seat_at(0);
    uint32_t number = 1;
    struct frame frame;
    os_self *self = os_self_get();
    self->pool_id = world.pool->id;
    self->worker = seat;
    self->is_worker = true;
    frame_push(seat, &frame);
    fork_run(seat, &world.call[0]);
    weft_fork_slot *here = fork_enter(seat);
    EXPECT(here != NULL);
    if (world.loops) EXPECT(weft_for(world.pool, (weft_range){0, 3, 1}, others_body, NULL) == WEFT_OK);
    forks_ask(world.pool, NULL);
    others_above_fork(here, &number);
    for (int i = 0; i < 4; i++) explore_step();
    EXPECT(others_above_join(here, &number) == 2);
    fork_leave(here);
    frame_pop(seat);
}
EXPLORE_DRIVER(late_strangers, .about = "a join looks for help below a call whose taker has gone on to others",
               .setup = fork_one, .threads = {join_one, run_and_go_on, run_other}, .check = leave, .must_see = 3);
static void fork_one_before_loop(void) {
    fork_one();
    world.loops = true;
}
EXPLORE_DRIVER(late_strangers_loop, .about = "the same, and first to a loop", .setup = fork_one_before_loop,
               .threads = {join_one, run_and_go_on, run_other}, .check = leave, .must_see = 3);

/* ---- a call taken by force: it may be another than the one that was seen ------------------------------------------ */

struct page {
    uint32_t *cell;
};
static uint32_t reader(weft_fork_slot *here, struct page page) {
    (void)here;
    plain_read(page.cell, sizeof *page.cell);
    world.run += *page.cell;
    return *page.cell;
}
WEFT_FORK(reader, uint32_t, struct page)

static void setup_again(void) {
    make(WEFT_POOL_NO_HELP);
    EXPECT(weft_fork_enter(world.pool, &world.place[0]) == WEFT_OK);
}
static void fork_again_and_again(void) {
    for (uint32_t i = 0; i < AGAIN; i++) {
        uint32_t counts = i >= AGAIN - HELPERS;
        struct page page = {os_alloc(sizeof *page.cell)};
        plain_write(page.cell, sizeof *page.cell);
        *page.cell = counts;
        reader_fork(world.place[0], &page);
        EXPECT(reader_join(world.place[0], &page) == counts);
        os_free(page.cell);
    }
}
static void take_one(void) {
    struct fork_call call;
    while (world.run < HELPERS)
        if (fork_find(seat_at(0), true, NULL, &call)) fork_run(seat_at(0), &call);
}
EXPLORE_DRIVER(late_force, .about = "a call is taken by force, its place used again and again", .setup = setup_again,
               .threads = {fork_again_and_again, take_one}, .check = leave);

static void lose_barrier(void) {
    for (uint32_t i = 0; i < 4; i++) os_fence_heavy(drive_late_lose);
}
EXPLORE_DRIVER(late_lost, .about = "the same while the barrier is lost", .setup = setup_again,
               .threads = {fork_again_and_again, take_one, lose_barrier}, .check = leave,
               .flags = EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER);

/* Who falls asleep while the barrier is lost sees a call, or its thread, that it is asked; also when that leaves a span and
 * comes back to it, whose forks look who sleeps by then. */
static void fork_between(void) {
    struct weft_worker *seat = weft_fork_worker(world.place[0]);
    weft_fork_leave(fork_enter(seat));
    seat->forker.deeper = NULL;
    leaf_fork(world.place[0], &world.argument[0]);
    world.is_begun = seat->forker.deeper != NULL; /* it has looked */
    weft_fork_leave(fork_enter(seat));
}
static void fall_asleep(void) {
    add_rlx(&world.pool->park.word[0].helpers, 1);
    forks_ask_firmly(world.pool, NULL);
    world.is_waiting = !forks_are_open(world.pool, true);
    add_rlx(&world.pool->park.word[0].helpers, UINT32_MAX);
}
static void join_between(void) {
    EXPECT(world.is_begun || !world.is_waiting);
    explore_observe(world.is_waiting);
    EXPECT(leaf_join(world.place[0], &world.argument[0]) == 1);
    world.run = HELPERS;
    leave();
}
EXPLORE_DRIVER(late_sleeper, .about = "who falls asleep asks, and the barrier is lost", .setup = setup_again,
               .threads = {fork_between, fall_asleep, lose_barrier}, .check = join_between, .must_see = 3,
               .flags = EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER);

EXPLORE_DRIVER(late_region_lost, .about = "late_region while the barrier is lost", .setup = fork_after_region,
               .threads = {join_after_region, run_outer, lose_barrier}, .check = leave,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER);

/* ---- a call taken by force for a wait: it is one of the group waited for ------------------------------------------- */

enum { WANTED_INDEX = 1 };
static uint32_t runs_in(weft_fork_slot *here, uint32_t index) {
    if (weft_fork_worker(here) != sleeper()) {
        EXPECT(index == WANTED_INDEX);
        explore_observe(0);
    }
    return index;
}
WEFT_FORK(runs_in, uint32_t, uint32_t)

static void setup_stranger(void) {
    setup_again();
    for (uint32_t i = 0; i < 2; i++) EXPECT(record_open(&world.pool->groups, 0, 0) != NULL);
}
/* Regions in tasks of two groups by turns, each with one call in the same place. */
static void fork_for_two_groups(void) {
    struct weft_worker *seat = sleeper();
    for (uint32_t i = 0; i < 4; i++) {
        seat->frame->index = i % 2 + 1;
        weft_fork_slot *here = fork_enter(seat);
        EXPECT(here != NULL);
        runs_in_fork(here, &seat->frame->index);
        EXPECT(runs_in_join(here, &seat->frame->index) == i % 2 + 1);
        fork_leave(here);
    }
    world.run = HELPERS;
}
static bool is_wanted(const void *context, uint32_t index) {
    (void)context;
    return index == WANTED_INDEX;
}
static void take_wanted(void) {
    const struct fork_filter filter = {.accepts = is_wanted};
    struct fork_call call;
    while (world.run < HELPERS)
        if (fork_find(seat_at(0), true, &filter, &call)) fork_run(seat_at(0), &call);
}
static void leave_stranger(void) {
    sleeper()->frame->index = 0;
    leave();
}
EXPLORE_DRIVER(late_stranger, .about = "a wait takes a call by force, its place used for two groups by turns",
               .setup = setup_stranger, .threads = {fork_for_two_groups, take_wanted}, .check = leave_stranger,
               .must_see = 1);

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
    while ((number = loop_find(seat_at(index), NULL, &loop)) == 0 && world.run < HELPERS) os_pause();
    if (number != 0) loop_help(seat_at(index), loop, number, 0);
}
static void help_first(void) { help(0); }
static void help_second(void) { help(1); }
static void setup_loops(void) { make(0); }

EXPLORE_DRIVER(late_loop, .about = "two loops, a helper of the first is late to wake", .setup = setup_loops,
               .threads = {loop_two, help_first, help_second, wake_for_nothing}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* ---- a loop's caller falls asleep while a helper runs a stranger's task in the body -------------------------------- */

static int stranger_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct frame frame;
    (void)context;
    world.units[end - 1]++;
    if (begin == 0 && end == 2) world.units[0]++;
    if (self == sleeper()) return 0;
    explore_observe(1);
    weft_fork_slot *here = fork_enter(self);
    frame_push(self, &frame);
    fork_leave(fork_enter(self));
    frame_pop(self);
    EXPECT(send_and_await(here, 0) == 1);
    fork_leave(here);
    return 0;
}
static void loop_strangers(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, stranger_body, NULL) == WEFT_OK);
    EXPECT(world.units[0] == 1 && world.units[1] == 1);
    world.run = HELPERS;
}
static void setup_loop_asleep(void) {
    make(0);
    store_rlx(&sent, 0);
}
EXPLORE_DRIVER(late_outer, .about = "a loop's caller falls asleep while a helper runs a stranger's task",
               .setup = setup_loop_asleep, .threads = {loop_strangers, help_first}, .check = end, .flags = EXPLORE_NO_RESCUE,
               .must_see = 2);

/* ---- a loop whose helpers leave before its end -------------------------------------------------------------------- */

static bool caller_waits;
static uint32_t units_run(void) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < UNITS; i++) sum += world.units[i];
    return sum;
}
static int unit_body(size_t begin, size_t end, void *context, weft_worker *self) {
    for (size_t i = begin; i < end; i++) world.units[i]++;
    while (caller_waits && begin == 0 && self == sleeper() && units_run() < UNITS) os_pause();
    if (begin == 0 && self == sleeper()) explore_observe(1);
    return body(begin, end, context, self);
}
static void loop_with_leavers(void) {
    EXPECT(weft_for(world.pool, (weft_range){0, UNITS, 1}, unit_body, NULL) == WEFT_OK);
    for (uint32_t i = 0; i < UNITS; i++) EXPECT(world.units[i] == 1);
    world.run = HELPERS;
}
static bool is_any(const void *context, const struct loop *loop) {
    (void)context;
    return loop != NULL;
}
/* Their time has passed before they come: each runs one chunk. */
static void help_and_leave(uint32_t index) {
    struct loop *loop;
    while (world.run < HELPERS) {
        uint32_t number = loop_find(seat_at(index), &(struct loop_filter){is_any, NULL, true}, &loop);
        EXPECT(number <= HELPERS);
        if (number != 0)
            loop_help(seat_at(index), loop, number, 1);
        else
            os_pause();
    }
}
static void setup_leavers(void) {
    setup_loops();
    caller_waits = false;
}
static void setup_busy_caller(void) {
    setup_loops();
    caller_waits = true;
}
static void leave_first(void) { help_and_leave(0); }
static void leave_second(void) { help_and_leave(1); }
EXPLORE_DRIVER(late_leavers, .about = "a loop whose helpers leave what they took to others", .setup = setup_leavers,
               .threads = {loop_with_leavers, leave_first, leave_second}, .check = end, .flags = EXPLORE_NO_RESCUE,
               .must_see = 1);
EXPLORE_DRIVER(late_polls, .about = "the same, while the caller is long in its first unit", .setup = setup_busy_caller,
               .threads = {loop_with_leavers, leave_first, leave_second}, .check = end, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);
