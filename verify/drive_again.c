/* drive_again.c: the last of something, and what is used again: a claim that is offered inside its last task; segments that
 * a lane has too many of; a lane found empty that has tasks again before another group asks for one. */
#include "at_rest.h"
#include "sched/find.h"
#include "played.h"
#include "sched/task.h"

#include <string.h>

/* ---- a claim's last task ------------------------------------------------------------------------------------------ */

enum { SLOTS = 3 };

static struct {
    struct claim claim;
    struct segment segment;
    struct cell cells[SEGMENT_CELLS];
    done_count done[SEGMENT_CELLS];
    uint32_t run[SEGMENT_CELLS]; /* the test's own */
} last;

static void setup_last(void) {
    memset(&last, 0, sizeof last);
    last.segment.cells = last.cells;
    last.segment.done = last.done;
    store_rlx(&last.segment.shape, shape_make(1, SEGMENT_CELLS));
}
static void run_to_last(void) {
    struct piece piece = {&last.segment, 1, SLOTS, 1};
    claim_open(&last.claim, &piece, 2, false);
    EXPECT(++last.run[1] == 1);
    if (claim_start(&last.claim, &piece, 2, SLOTS)) {
        EXPECT(++last.run[2] == 1);
        EXPECT(!claim_offer(&last.claim)); /* nothing is left */
        os_pause();
        claim_unoffer(&last.claim);
    }
    claim_close(&last.claim, &piece);
}
static void take_rest(void) {
    for (int i = 0; i < 2; i++) {
        struct piece piece;
        if (!claim_has_rest(&last.claim)) continue;
        bool has_taken = claim_revoke(&last.claim, true, &piece);
        explore_observe(has_taken);
        if (!has_taken) continue;
        EXPECT(piece.begin < piece.end);
        for (uint32_t slot = piece.begin; slot < piece.end; slot++) EXPECT(++last.run[slot] == 1);
    }
}
static void check_last(void) { EXPECT(last.run[1] == 1 && last.run[2] == 1); }
EXPLORE_DRIVER(again_claim, .about = "a claim is offered inside its last task", .setup = setup_last,
               .threads = {run_to_last, take_rest}, .check = check_last, .must_see = 3);

/* ---- segments ----------------------------------------------------------------------------------------------------- */

enum { PUSHED = 30 };

static struct {
    struct store store;
    struct pile segments;
    struct lane lane;
    ATOMIC(uint32_t) claimed;
} many;

static void setup_many(void) {
    memset(&many, 0, sizeof many);
    EXPECT(segments_init(&many.segments, &many.store));
    EXPECT(lane_init(&many.lane, &many.segments, 0));
}
static void push(void) {
    if (!lane_fits(&many.lane, 1)) EXPECT(lane_extend(&many.lane, 1));
    struct cell *cell = lane_cell(&many.lane);
    cell->meta = meta_make(1, 0, CELL_NO_PAYLOAD, 0);
    lane_publish(&many.lane, cell);
}
static bool take(void) {
    struct piece piece;
    if (lane_claim(&many.lane, 1, NULL, NULL, &piece) == 0) return false;
    piece_done(&piece);
    add_rlx(&many.claimed, 1);
    return true;
}
/* A backlog, and then as much again task by task. */
static void push_many(void) {
    for (uint32_t i = 0; i < PUSHED / 2; i++) push();
    for (uint32_t i = 0; i < PUSHED / 2; i++) {
        push();
        take();
    }
}
static void take_some(void) {
    for (uint32_t i = 0; i < PUSHED / 2; i++) take();
}
/* Every segment is the lane's or free. */
static void check_many(void) {
    while (take()) {}
    EXPECT(load_rlx(&many.claimed) == PUSHED);
    uint32_t free = 0;
    while (pile_pop(&many.segments) != NULL) free++;
    EXPECT(free + many.lane.in_use == load_rlx(&many.segments.made) - 1); /* nothing has index 0 */
    segments_end(&many.segments);
    store_end(&many.store);
}
EXPLORE_DRIVER(again_segments, .about = "a lane gives up the segments of a backlog that is gone", .setup = setup_many,
               .threads = {push_many, take_some}, .check = check_many);

/* ---- lanes -------------------------------------------------------------------------------------------------------- */

enum { GROUPS = 5, TASKS_MAX = 8 };

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group group[GROUPS];
    uint32_t submitted, run[TASKS_MAX]; /* the test's own */
} world;

static void setup_lanes(void) {
    memset(&world, 0, sizeof world);
    world.pool = pool_played(&world.config);
    store_rlx(&world.pool->workers, 0);
}
static int task(void *payload, weft_worker *self) {
    (void)self;
    EXPECT(++world.run[*(uint32_t *)payload] == 1);
    return 0;
}
static uint32_t submit(uint32_t group) {
    uint32_t number = world.submitted++;
    EXPECT(weft_submit(world.pool, &world.group[group], task, &number, sizeof number) == WEFT_OK);
    return number;
}
static void wait_group(uint32_t group, enum weft_help help) {
    EXPECT(weft_group_wait_until(world.pool, &world.group[group], help, 0) == WEFT_OK);
}
static bool is_not_of_two(const void *context, uint32_t record) {
    (void)context;
    return record != id_index(world.group[2].id);
}
/* Nobody else runs anything. Two lanes older than one in use are found empty, while the groups that they are bound to go on:
 * the first serves another group then, the second has tasks of its own again, and is not for the next group. */
static void submit_again(void) {
    uint32_t last_of[GROUPS];
    struct piece piece;
    for (uint32_t i = 0; i < 3; i++) last_of[i] = submit(i);
    while (find_help(os_self_get()->worker, is_not_of_two, NULL, &piece)) worker_run_help(os_self_get()->worker, &piece);
    last_of[3] = submit(3);
    last_of[1] = submit(1);
    last_of[4] = submit(4);
    for (uint32_t i = 0; i < GROUPS; i++) {
        wait_group(i, WEFT_HELP_BELOW);
        EXPECT(world.run[last_of[i]] == 1);
    }
}
static void check_lanes(void) {
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] == 1);
    expect_at_rest(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(again_lanes, .about = "lanes found empty have tasks again", .setup = setup_lanes, .threads = {submit_again},
               .check = check_lanes, .flags = EXPLORE_NO_RESCUE);

/* ---- help --------------------------------------------------------------------------------------------------------- */

/* One thread submits two tasks and helps with them, another waits for the group, helps, and may end it meanwhile. */
static ATOMIC(uint32_t) are_there;
static void setup_help(void) {
    setup_lanes();
    store_rlx(&are_there, 0);
}
static void submit_and_help(void) {
    submit(0);
    submit(0);
    store_rel(drive_again_there, &are_there, 1);
    uint32_t helped = 0;
    while (weft_group_help(world.pool, &world.group[0]) == 1) helped++;
    explore_observe(helped);
    EXPECT(helped <= 2);
    wait_group(0, WEFT_HELP_BELOW);
    EXPECT(weft_group_help(world.pool, &world.group[0]) == 0);
}
static void end_beside(void) {
    while (load_acq(drive_again_there, &are_there) == 0) os_pause();
    wait_group(0, WEFT_HELP_BELOW);
}
EXPLORE_DRIVER(again_help, .about = "a group is helped with while another waiter ends it", .setup = setup_help,
               .threads = {submit_and_help, end_beside}, .check = check_lanes, .must_see = 7, .flags = EXPLORE_NO_RESCUE);

/* ---- sections ----------------------------------------------------------------------------------------------------- */

/* Three tasks claimed together; a section begins and ends in each of them. From its end on the runner has the rest for
 * itself, or another has taken it. */
static int task_that_blocks(void *payload, weft_worker *self) {
    EXPECT(++world.run[*(uint32_t *)payload] == 1);
    weft_block_begin(self);
    os_pause();
    EXPECT(weft_block_end(self) == WEFT_OK);
    return 0;
}
static void setup_sections(void) {
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = 2;
    world.config.spares = 0;
    world.config.flags = WEFT_POOL_NO_HELP;
    world.config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&world.config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < 2; i++) load_rlx(&world.pool->seats[i])->is_worker = true;
    for (; world.submitted < 3; world.submitted++)
        EXPECT(weft_submit(world.pool, &world.group[0], task_that_blocks, &world.submitted, sizeof world.submitted) ==
               WEFT_OK);
    worker_unbias(world.pool);
    const struct weft_worker *seat = os_self_get()->worker;
    store_rlx(&load_rlx(&seat->lanes)->tiny, 1);
    world.pool->config.spares = world.pool->spare_seats = 0; /* no thread is started, though there are seats for spares */
}
static void worker_0(void) { worker_main(load_rlx(&world.pool->seats[0])); }
static void worker_1(void) { worker_main(load_rlx(&world.pool->seats[1])); }
/* Then the workers end, as pool_stop has it. */
static void wait_and_stop(void) {
    wait_group(0, WEFT_HELP_NONE);
    store_rlx(&world.pool->exits, 1);
    fence_sc(drive_again_stop);
    for (uint32_t i = 0; i < world.pool->park.workers; i++) event_raise(&world.pool->park.slots[i].event);
    while (park_wake(&world.pool->park)) {}
}
static void check_sections(void) {
    store_rlx(&world.pool->workers, 0); /* to be joined */
    check_lanes();
}
EXPLORE_DRIVER(again_section, .about = "a section ends while the claim's rest is offered", .setup = setup_sections,
               .threads = {worker_0, worker_1, wait_and_stop}, .check = check_sections,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);
