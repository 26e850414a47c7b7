/* drive_claim.c: claims of several tasks whose unstarted rest others take. Each task must run once, whoever runs it. */
#include "queue/claim.h"
#include "explore.h"

#include <string.h>

enum { TASKS = 3, ROUNDS = 2, THIEF_TRIES = 2 };

static struct {
    struct claim claim;
    struct segment segment[ROUNDS];
    struct cell cells[ROUNDS][SEGMENT_CELLS];
    done_count done[ROUNDS][SEGMENT_CELLS];
    uint32_t run[ROUNDS][SEGMENT_CELLS]; /* the test's own */
    uint32_t payload[ROUNDS][SEGMENT_CELLS];
} world;

static void claim_setup(void) {
    memset(&world, 0, sizeof world);
    for (int i = 0; i < ROUNDS; i++) {
        world.segment[i].cells = world.cells[i];
        world.segment[i].done = world.done[i];
        store_rlx(&world.segment[i].shape, shape_make(1, SEGMENT_CELLS));
    }
    if (explore_pick(2) == 1) store_rlx(&world.claim.state, UINT64_MAX << 16); /* the count of changes is about to wrap */
}

/* Each claim ends elsewhere. */
static uint32_t tasks_of(size_t round) { return TASKS + 1 + (uint32_t)round - ROUNDS; }

static void run_now(size_t round, uint32_t slot) { EXPECT(++world.run[round][slot] == 1); }

static void run_slot(const struct segment *segment, uint32_t slot) {
    size_t round = (size_t)(segment - world.segment);
    EXPECT(round < ROUNDS && slot >= 1 && slot <= tasks_of(round));
    plain_read(&world.payload[round][slot], sizeof(uint32_t));
    EXPECT(world.payload[round][slot] == slot);
    EXPECT(++world.run[round][slot] == 1);
}

/* The runner's life of a claim, with a blocking section inside the task of slot `blocks` (0: none). */
static void run_claim(uint32_t round, uint32_t blocks, bool is_loose) {
    struct piece piece = {&world.segment[round], 1, 1 + tasks_of(round), 1};
    for (uint32_t slot = 1; slot <= tasks_of(round); slot++) {
        plain_write(&world.payload[round][slot], sizeof(uint32_t));
        world.payload[round][slot] = slot;
    }
    claim_open(&world.claim, &piece, 2, is_loose);
    for (uint32_t slot = 1; slot < piece.end; slot++) {
        if (slot > 1 && !claim_start(&world.claim, &piece, slot, slot + 1)) break;
        run_slot(piece.segment, slot);
        if (slot != blocks) continue;
        bool offers = claim_offer(&world.claim);
        if (offers) os_pause();
        if (offers || !is_loose) claim_unoffer(&world.claim);
    }
    claim_close(&world.claim, &piece);
    piece_done(&piece);
}

/* The same, and the first task begins the second one itself, unless a thief has taken it. */
static void run_nested(uint32_t round, bool offers, bool is_loose) {
    struct piece piece = {&world.segment[round], 1, 1 + tasks_of(round), 1};
    struct piece inner;
    for (uint32_t slot = 1; slot <= tasks_of(round); slot++) {
        plain_write(&world.payload[round][slot], sizeof(uint32_t));
        world.payload[round][slot] = slot;
    }
    claim_open(&world.claim, &piece, 2, is_loose);
    run_slot(piece.segment, 1);
    offers = offers && claim_offer(&world.claim);
    if (claim_take_next(&world.claim, &inner)) {
        EXPECT(inner.begin == 2 && inner.end == 3);
        run_slot(inner.segment, inner.begin);
        piece_done(&inner);
    }
    if (offers) claim_unoffer(&world.claim);
    for (uint32_t slot; (slot = load_rlx(&world.claim.started)) < piece.end;) {
        if (!claim_start(&world.claim, &piece, slot, slot + 1)) break;
        run_slot(piece.segment, slot);
    }
    claim_close(&world.claim, &piece);
    piece_done(&piece);
}

static void runner(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) run_claim(round, 0, false);
}
static void runner_that_blocks(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) run_claim(round, 1 + round, false);
}
static void runner_loose(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) run_claim(round, 1 + round, true);
}
static void runner_nested(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) run_nested(round, round == 0, false);
}
static void runner_nested_loose(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) run_nested(round, false, true);
}
static void runner_once(void) { run_claim(0, 0, false); }
static void runner_once_loose(void) { run_claim(0, 0, true); }

static void steal(bool force) {
    struct piece piece;
    if (!claim_has_rest(&world.claim) || !claim_revoke(&world.claim, force, &piece)) return;
    explore_step(); /* the claim may be another by now */
    EXPECT(piece.begin < piece.end && piece.stride == 1);
    for (uint32_t slot = piece.begin; slot < piece.end; slot++) run_slot(piece.segment, slot);
    piece_done(&piece);
}

static void thief(void) {
    for (int i = 0; i < THIEF_TRIES; i++) steal(true);
}
static void thief_of_offers(void) {
    for (int i = 0; i < THIEF_TRIES; i++) steal(false);
}

/* Claims of two, one after the other, and a thief that is never sure: a change of state from an earlier claim must not hit
 * a later one. */
static void runner_again(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct piece piece = {&world.segment[round], 1, 3, 1};
        claim_open(&world.claim, &piece, 2, false);
        run_now(round, 1);
        if (claim_start(&world.claim, &piece, 2, 3)) run_now(round, 2);
        claim_close(&world.claim, &piece);
    }
}
static void thief_again(void) {
    for (int i = 0; i < 3; i++) {
        struct piece piece;
        if (!claim_revoke(&world.claim, true, &piece)) continue;
        EXPECT(piece.begin == 2 && piece.end == 3);
        run_now((size_t)(piece.segment - world.segment), 2);
    }
}
static void again_check(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) EXPECT(world.run[round][1] == 1 && world.run[round][2] == 1);
}
EXPLORE_DRIVER(claim_again, .about = "a thief late by a whole claim", .setup = claim_setup,
               .threads = {runner_again, thief_again}, .check = again_check);
EXPLORE_DRIVER(claim_again_two, .about = "the same with two of them", .setup = claim_setup,
               .threads = {runner_again, thief_again, thief_again}, .check = again_check);

static void check_round(uint32_t round) {
    for (uint32_t slot = 1; slot <= tasks_of(round); slot++) EXPECT(world.run[round][slot] == 1);
    uint32_t slot = 1;
    while (slot <= tasks_of(round)) {
        uint32_t cells = load_rlx(&world.done[round][slot]);
        EXPECT(cells > 0);
        slot += cells;
    }
    EXPECT(slot == tasks_of(round) + 1);
}
static void all_run(void) {
    for (uint32_t round = 0; round < ROUNDS; round++) check_round(round);
}
static void first_run(void) { check_round(0); }

EXPLORE_DRIVER(claim_revoked, .about = "a thief takes the rest of a claim", .setup = claim_setup, .threads = {runner, thief},
               .check = all_run);
EXPLORE_DRIVER(claim_two_thieves, .about = "two thieves want the rest of a claim", .setup = claim_setup,
               .threads = {runner_that_blocks, thief, thief}, .check = all_run);
EXPLORE_DRIVER(claim_offered, .about = "a runner about to block offers the rest", .setup = claim_setup,
               .threads = {runner_that_blocks, thief_of_offers, thief}, .check = all_run);
EXPLORE_DRIVER(claim_loose, .about = "the rest of a loose claim, by one change, while its runner goes on",
               .setup = claim_setup, .threads = {runner_loose, thief_of_offers, thief}, .check = all_run);
EXPLORE_DRIVER(claim_loose_short, .about = "one loose claim, one thief, for depth first", .setup = claim_setup,
               .threads = {runner_once_loose, thief_of_offers}, .check = first_run);
EXPLORE_DRIVER(claim_nested, .about = "a task begins the next one of its claim, and thieves want it", .setup = claim_setup,
               .threads = {runner_nested, thief, thief_of_offers}, .check = all_run);
EXPLORE_DRIVER(claim_nested_loose, .about = "the same, a loose claim", .setup = claim_setup,
               .threads = {runner_nested_loose, thief, thief_of_offers}, .check = all_run);
EXPLORE_DRIVER(claim_short, .about = "one claim, one thief, for depth first", .setup = claim_setup,
               .threads = {runner_once, thief}, .check = first_run);
