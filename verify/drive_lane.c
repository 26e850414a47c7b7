/* drive_lane.c: lanes under every kind of claim: growth, positions that wrap, tasks of several cells, segments that go from
 * one lane to another, an owner that leaves. Built with segments of four cells. */
#include "explore.h"
#include "queue/lane.h"

#include <string.h>

enum { LANES = 2, ITEMS_MAX = 16 };

static struct {
    struct store store;
    struct pile segments;
    struct lane lane[LANES];
    ATOMIC(uint32_t) handed_over;
    uint32_t pushed;         /* items of all lanes; the test's own, like the next ones */
    uint32_t run[ITEMS_MAX]; /* how often */
    uint32_t group[ITEMS_MAX];
} world;

/* Where positions start: at 0, or so that they wrap within a few tasks. */
static uint64_t pick_position(void) {
    return explore_pick(2) == 0 ? 0 : (LANE_POSITION_MASK + 1) - UINT64_C(2) * SEGMENT_CELLS;
}

static void lane_setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(segments_init(&world.segments, &world.store));
    for (int i = 0; i < LANES; i++) EXPECT(lane_init(&world.lane[i], &world.segments, pick_position()));
}

static int task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

/* One task of `cells` cells whose payload is its number. */
static void push(uint32_t l, uint32_t cells) {
    struct lane *lane = &world.lane[l];
    uint32_t item = ++world.pushed;
    EXPECT(item < ITEMS_MAX);
    if (!lane_fits(lane, cells)) EXPECT(lane_extend(lane, cells));
    struct cell *cell = lane_cell(lane);
    uint32_t bytes = cells == 1 ? (uint32_t)sizeof item : (cells - 1) * CELL_BYTES + CELL_PAYLOAD;
    plain_write(cell, CELL_BYTES - CELL_PAYLOAD + bytes);
    cell->fn = task;
    cell->meta = meta_make(l, bytes, CELL_INLINE, item);
    memcpy(cell->payload, &item, sizeof item);
    world.group[item] = load_rlx(&lane->group);
    lane_publish(lane, cell);
}

static void run_task(uint32_t l, const struct cell *cell) {
    plain_read(cell, CELL_BYTES);
    EXPECT(cell->fn == task);
    plain_read(cell, CELL_BYTES - CELL_PAYLOAD + meta_bytes(cell->meta));
    uint32_t item;
    memcpy(&item, cell->payload, sizeof item);
    EXPECT(item > 0 && item <= world.pushed);
    EXPECT(item == meta_sequence(cell->meta));
    EXPECT(++world.run[item] == 1);
    EXPECT(meta_record(cell->meta) == l);
}

/* Claims and runs up to `max` tasks; how many it found. With a filter, of that group alone. `left`: of this thread. */
static uint32_t claim_on(uint32_t l, uint32_t max, lane_filter filter, struct lane_left *left) {
    const struct lane_want want = {max, filter, NULL, left, 0};
    struct piece piece;
    uint32_t tasks = lane_claim_want(&world.lane[l], &want, &piece);
    EXPECT(tasks <= max);
    if (tasks == 0) return 0;
    EXPECT(piece.end - piece.begin == tasks * piece.stride && piece.end <= SEGMENT_CELLS);
    for (uint32_t slot = piece.begin; slot < piece.end; slot += piece.stride) {
        const struct cell *cell = &piece.segment->cells[slot];
        run_task(l, cell);
        EXPECT(filter == NULL || filter(NULL, world.group[meta_sequence(cell->meta)]));
    }
    piece_done(&piece);
    return tasks;
}

static uint32_t claim_and_run(uint32_t l, uint32_t max, lane_filter filter) { return claim_on(l, max, filter, NULL); }

static void all_run(void) {
    for (uint32_t l = 0; l < LANES; l++)
        while (claim_and_run(l, 3, NULL) > 0) continue;
    for (uint32_t item = 1; item <= world.pushed; item++) EXPECT(world.run[item] == 1);
    for (uint32_t l = 0; l < LANES; l++) {
        EXPECT(lane_is_empty(&world.lane[l]));
        lane_trim(&world.lane[l]);
        EXPECT(world.lane[l].in_use <= 2);
    }
    segments_end(&world.segments);
    store_end(&world.store);
}

static void taker_of_one(void) {
    struct lane_left left = {.are_many = true};
    for (int i = 0; i < 4; i++) claim_on(0, 1, NULL, &left);
}
static void taker_of_three(void) {
    for (int i = 0; i < 3; i++) claim_and_run(0, 3, NULL);
}

static void owner_seven(void) {
    for (int i = 0; i < 7; i++) push(0, 1);
}
EXPLORE_DRIVER(lane_grow, .about = "one lane grows while two take", .setup = lane_setup,
               .threads = {owner_seven, taker_of_one, taker_of_three}, .check = all_run);

static void owner_short(void) {
    push(0, 1);
    push(0, 1);
    claim_and_run(0, 1, NULL);
    push(0, 1);
}
EXPLORE_DRIVER(lane_short, .about = "few tasks, for depth first", .setup = lane_setup,
               .threads = {owner_short, taker_of_one}, .check = all_run);

static void owner_wide(void) {
    push(0, 2);
    push(0, 3);
    push(0, 1);
    push(0, 2);
    push(0, 3);
}
EXPLORE_DRIVER(lane_wide, .about = "tasks of several cells, segments that end early", .setup = lane_setup,
               .threads = {owner_wide, taker_of_one, taker_of_three}, .check = all_run);

/* A submission that was taken back has made room and left it; the next one needs another. */
static void make_room(uint32_t l, uint32_t cells) {
    if (!lane_fits(&world.lane[l], cells)) EXPECT(lane_extend(&world.lane[l], cells));
}
static void owner_in_vain(void) {
    push(0, 1);
    make_room(0, 2);
    push(0, 3);
    make_room(0, 1);
    make_room(0, 3);
    make_room(0, 2);
    push(0, 1);
    push(0, 2);
}
EXPLORE_DRIVER(lane_vain, .about = "room that was made and not used", .setup = lane_setup,
               .threads = {owner_in_vain, taker_of_one, taker_of_three}, .check = all_run);

/* The room that was left for another is whole: a taker finds the task before anything else is submitted. */
static void owner_finds(void) {
    push(0, 1);
    make_room(0, 2);
    push(0, 3);
    EXPECT(claim_and_run(0, 1, NULL) == 1 && claim_and_run(0, 1, NULL) == 1);
    make_room(0, 2);
    make_room(0, 3);
    push(0, 3);
    EXPECT(claim_and_run(0, 1, NULL) == 1 && claim_and_run(0, 1, NULL) == 0);
}
EXPLORE_DRIVER(lane_vain_found, .about = "the same, and nothing after it", .setup = lane_setup, .threads = {owner_finds},
               .check = all_run);

static void owner_reuses(void) {
    for (int i = 0; i < 5; i++) {
        push(0, 1);
        push(0, 1);
        claim_and_run(0, 2, NULL);
    }
}
static void owner_of_second(void) {
    for (int i = 0; i < 4; i++) {
        push(1, 1);
        claim_and_run(1, 1, NULL);
        lane_trim(&world.lane[1]);
    }
}
static void taker_of_both(void) {
    for (int i = 0; i < 3; i++) {
        claim_and_run(0, 2, NULL);
        claim_and_run(1, 1, NULL);
    }
}
EXPLORE_DRIVER(lane_reuse, .about = "finished segments are written again under late takers", .setup = lane_setup,
               .threads = {owner_reuses, taker_of_one}, .check = all_run);
EXPLORE_DRIVER(lane_two, .about = "segments go from one lane to another", .setup = lane_setup,
               .threads = {owner_reuses, owner_of_second, taker_of_both}, .check = all_run);

/* Tasks of one cell and of three: who comes back with an old head sees the segment in another use. */
static void owner_turns(void) {
    for (uint32_t i = 0; i < 4; i++) {
        push(0, 1);
        claim_and_run(0, 1, NULL);
        push(0, 3);
        if (i % 2 == 1) claim_and_run(0, 1, NULL);
    }
}
static void taker_left(void) {
    struct lane_left left = {.are_many = true};
    for (int i = 0; i < 5; i++) claim_on(0, 2, NULL, &left);
}
EXPLORE_DRIVER(lane_left, .about = "claims from a head that was left long ago", .setup = lane_setup,
               .threads = {owner_turns, taker_left}, .check = all_run);
EXPLORE_DRIVER(lane_left_two, .about = "the same, of two takers", .setup = lane_setup,
               .threads = {owner_turns, taker_left, taker_of_one}, .check = all_run);

/* The head left was this lane's 2^40 cells ago, at positions that come again now. */
static void taker_ages(void) {
    struct lane *lane = &world.lane[0];
    uint64_t at = load_rlx(&lane->tail) + explore_pick(3);
    struct lane_left left = {at - LANE_POSITION_MASK - 1, 1 + explore_pick(2), true};
    for (int i = 0; i < 2; i++) claim_on(0, 1, NULL, &left);
}
static void ages_setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(segments_init(&world.segments, &world.store));
    for (int i = 0; i < LANES; i++) EXPECT(lane_init(&world.lane[i], &world.segments, 2 * (LANE_POSITION_MASK + 1)));
}
static void owner_ages(void) {
    push(0, 1);
    struct lane_left left = {load_rlx(&world.lane[0].tail) - LANE_POSITION_MASK - 1, 1, true};
    EXPECT(claim_on(0, 1, NULL, &left) == 1);
}
EXPLORE_DRIVER(lane_left_empty, .about = "one where the tail has come again", .setup = ages_setup, .threads = {owner_ages},
               .check = all_run);
EXPLORE_DRIVER(lane_left_aged, .about = "a head left before all positions passed", .setup = ages_setup,
               .threads = {owner_turns, taker_ages}, .check = all_run);

static void purger(void) {
    segments_purge(&world.segments);
    segments_purge(&world.segments);
}
EXPLORE_DRIVER(lane_purge, .about = "pages of free segments go back under late takers", .setup = lane_setup,
               .threads = {owner_of_second, taker_of_both, purger}, .check = all_run);

/* The lane is bound to another group whenever it is empty. */
static bool is_second(const void *context, uint32_t record) {
    (void)context;
    return record == 2;
}
static void owner_of_groups(void) {
    for (uint32_t i = 0; i < 5; i++) {
        if (lane_is_empty(&world.lane[0])) store_rlx(&world.lane[0].group, 1 + i % 2);
        push(0, 1);
    }
}
static void taker_of_second(void) {
    struct lane_left left = {.are_many = true};
    for (int i = 0; i < 4; i++)
        if (claim_on(0, 1, is_second, &left) > 0) explore_observe(0);
}
EXPLORE_DRIVER(lane_filtered, .about = "a taker of one group's tasks", .setup = lane_setup,
               .threads = {owner_of_groups, taker_of_second, taker_of_one}, .check = all_run, .must_see = 1);

static void owner_leaves(void) {
    for (int i = 0; i < 3; i++) push(0, 1);
    store_rel(drive_lane_leave, &world.handed_over, 1);
}
static void owner_adopts(void) {
    while (load_acq(drive_lane_adopt, &world.handed_over) == 0) os_pause();
    for (int i = 0; i < 3; i++) push(0, 1);
}
EXPLORE_DRIVER(lane_adopted, .about = "an owner leaves, another thread goes on", .setup = lane_setup,
               .threads = {owner_leaves, owner_adopts, taker_of_three}, .check = all_run);
