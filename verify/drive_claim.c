/* drive_claim.c: claims of several tasks, of which others take. Each task must run once, whoever runs it. */
#include "sched/claim.h"
#include "explore.h"

#include <string.h>

enum { TASKS = 3, ROUNDS = 2, THIEF_TRIES = 2 };

static struct {
    struct store store;
    struct pile segments;
    struct segment *segment;
    struct claim claim;
    uint32_t run[SEGMENT_CELLS]; /* the test's own */
    uint32_t payload[SEGMENT_CELLS];
} world;

static void claim_setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(segments_init(&world.segments, &world.store));
    world.segment = segment_get(&world.segments);
    store_rlx(&world.segment->shape, shape_make(1, SEGMENT_CELLS));
}

static void run_slot(const struct segment *segment, uint32_t slot) {
    EXPECT(segment == world.segment && slot < SEGMENT_CELLS);
    plain_read(&world.payload[slot], sizeof(uint32_t));
    EXPECT(world.payload[slot] == slot);
    EXPECT(++world.run[slot] == 1);
}

/* The runner's life of a claim whose first task it has begun, with a blocking section inside the task of slot `blocks`. */
static void run_claim(uint32_t begin, uint32_t tasks, bool is_held, uint32_t blocks) {
    struct piece rest = {world.segment, begin + 1, begin + tasks, 1};
    for (uint32_t slot = begin; slot < rest.end; slot++) {
        plain_write(&world.payload[slot], sizeof(uint32_t));
        world.payload[slot] = slot;
    }
    claim_open(&world.claim, &rest, is_held);
    uint32_t slot = begin;
    do {
        EXPECT(slot >= begin && slot < rest.end);
        run_slot(world.segment, slot);
        if (slot == blocks && claim_offer(&world.claim)) os_pause();
    } while (claim_next(&world.claim, &slot));
    EXPECT(!claim_has_rest(&world.claim));
}

/* The claims of two rounds lie in one segment, so that a word may come again but for its slots. */
static void runner(void) {
    run_claim(0, 2, false, UINT32_MAX);
    run_claim(2, 2, false, UINT32_MAX);
}
static void runner_that_blocks(void) { run_claim(0, TASKS + 1, true, explore_pick(2)); }
static void runner_once(void) { run_claim(0, TASKS, false, UINT32_MAX); }

static void steal(bool force, uint32_t most) {
    struct piece piece;
    if (!claim_take(&world.claim, &world.segments, force, most, &piece)) return;
    explore_step(); /* the claim may be another by now */
    EXPECT(piece.begin < piece.end && piece.end - piece.begin <= most && piece.stride == 1);
    for (uint32_t slot = piece.begin; slot < piece.end; slot++) run_slot(piece.segment, slot);
    explore_observe(0);
}
static void thief(void) {
    for (int i = 0; i < THIEF_TRIES; i++) steal(true, SEGMENT_CELLS);
}
static void thief_of_one(void) {
    for (int i = 0; i < THIEF_TRIES; i++) steal(true, 1);
}
static void thief_of_open(void) {
    for (int i = 0; i < THIEF_TRIES; i++) steal(false, SEGMENT_CELLS);
}

static void check_run(uint32_t tasks) {
    for (uint32_t slot = 0; slot < SEGMENT_CELLS; slot++) EXPECT(world.run[slot] == (slot < tasks ? 1 : 0));
    segments_end(&world.segments);
    store_end(&world.store);
}
static void check_four(void) { check_run(4); }
static void check_three(void) { check_run(TASKS); }

EXPLORE_DRIVER(claim_taken, .about = "a thief takes from two claims, one after the other", .setup = claim_setup,
               .threads = {runner, thief}, .check = check_four, .must_see = 1);
EXPLORE_DRIVER(claim_two_thieves, .about = "two thieves want the rest of a claim", .setup = claim_setup,
               .threads = {runner_that_blocks, thief, thief_of_one}, .check = check_four, .must_see = 1);
EXPLORE_DRIVER(claim_offered, .about = "a runner about to block offers the rest", .setup = claim_setup,
               .threads = {runner_that_blocks, thief_of_open, thief}, .check = check_four, .must_see = 1);
EXPLORE_DRIVER(claim_short, .about = "one claim, one thief, for depth first", .setup = claim_setup,
               .threads = {runner_once, thief}, .check = check_three, .must_see = 1);

/* ---- a claim in each of its states, by one thread ------------------------------------------------------------------- */

static struct piece taken;
static bool take(bool force, uint32_t most) { return claim_take(&world.claim, &world.segments, force, most, &taken); }

static void expect_nothing(void) {
    uint32_t begin;
    EXPECT(!claim_has_rest(&world.claim) && !claim_is_open(&world.claim) && claim_tasks(&world.claim) == 0);
    EXPECT(claim_mark(&world.claim) == 0 && !claim_offer(&world.claim));
    EXPECT(!take(true, 1) && !claim_next(&world.claim, &begin));
}

static void claim_life(void) {
    struct piece piece = {world.segment, 0, 3, 1};
    uint32_t begin;
    expect_nothing(); /* never opened */
    claim_open(&world.claim, &piece, true);
    EXPECT(claim_has_rest(&world.claim) && !claim_is_open(&world.claim) && claim_tasks(&world.claim) == 3);
    EXPECT(!take(false, SEGMENT_CELLS));
    uint64_t mark = claim_mark(&world.claim);
    EXPECT(claim_next(&world.claim, &begin) && begin == 0 && claim_mark(&world.claim) != mark);
    EXPECT(claim_offer(&world.claim) && claim_is_open(&world.claim) && claim_tasks(&world.claim) == 2);
    EXPECT(claim_offer(&world.claim)); /* again */
    EXPECT(take(false, SEGMENT_CELLS) && taken.segment == world.segment && taken.begin == 1 && taken.end == 2);
    EXPECT(claim_tasks(&world.claim) == 1 && take(false, SEGMENT_CELLS) && taken.begin == 2 && taken.end == 3);
    expect_nothing(); /* all taken */
    claim_open(&world.claim, &piece, true);
    EXPECT(take(true, 1) && taken.begin == 0 && taken.end == 1); /* half would be two */
    EXPECT(claim_next(&world.claim, &begin) && begin == 1 && !claim_is_open(&world.claim));
    EXPECT(claim_next(&world.claim, &begin) && begin == 2);
    expect_nothing();
}
EXPLORE_DRIVER(edge_claim_life, .about = "a claim opened, offered, taken from, run: who may do what", .setup = claim_setup,
               .threads = {claim_life});

static void claim_wide(void) {
    uint32_t stride = SEGMENT_CELLS / 2, begin;
    struct piece piece = {world.segment, 0, 2 * stride, stride};
    claim_open(&world.claim, &piece, false);
    EXPECT(claim_tasks(&world.claim) == 2 && claim_is_open(&world.claim));
    EXPECT(take(false, 1) && taken.begin == 0 && taken.end == stride && taken.stride == stride);
    EXPECT(claim_next(&world.claim, &begin) && begin == stride);
    expect_nothing();
}
EXPLORE_DRIVER(edge_claim_wide, .about = "tasks as wide as may be in a claim", .setup = claim_setup,
               .threads = {claim_wide});
