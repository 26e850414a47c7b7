/* drive_line.c: counters of a record: seats that have one of their own, also in a block, and those that share the last, the first
 * of them not less than the others. */
#include "record.h"
#include "explore.h"
#include "queue/group.h"

#include <string.h>

enum { LINES = 3, TASKS = 2, SHARED = LINES - 1 + COUNTERS_FURTHER };

static struct {
    struct store store;
    struct groups groups;
    struct record *record;
    uint64_t id, before[2 * TASKS]; /* the numbers given, the test's own */
    uint32_t given;
} world;

static void setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, LINES));
    world.record = record_open(&world.groups, 0, 0);
    EXPECT(world.record != NULL);
    world.id = load_rlx(&world.record->id);
}
static void count(uint32_t seat) {
    struct group_counter *counter = counter_use(&world.groups, world.record, seat, world.id);
    bool is_shared = counter_is_shared(counter);
    EXPECT(is_shared == (seat >= SHARED) && counter == counter_of(world.record, seat));
    EXPECT(!is_shared || counter == &world.record->counter[LINES - 1]);
    uint64_t first = counter_first(world.record, counter);
    for (uint32_t i = 0; i < TASKS; i++) {
        uint64_t number = counter_submit(counter, is_shared, 1) - first;
        if (is_shared) world.before[world.given++] = number;
        counter_complete(counter, is_shared, 1);
    }
}
static void count_alone(void) { count(LINES - 2); }
static void count_first_shared(void) { count(SHARED); }
static void count_shared(void) { count(SHARED + 1); }
/* No count is lost, and each task has a number of its own. */
static void check(void) {
    EXPECT(record_submitted(world.record) == 3 * TASKS && record_completed(world.record) == 3 * TASKS &&
           record_is_finished(world.record));
    for (uint32_t i = 0; i < world.given; i++)
        for (uint32_t k = 0; k < i; k++) EXPECT(world.before[i] != world.before[k] && world.before[i] < world.given);
    EXPECT(world.given == 2 * TASKS);
    store_end(&world.store);
}
EXPLORE_DRIVER(line_shared, .about = "the first seat without a counter of its own counts beside the next", .setup = setup,
               .threads = {count_alone, count_first_shared, count_shared}, .check = check);

/* The record's next group: numbers of a shared counter begin where it began, those of an own one where its seat does. */
static void setup_next(void) {
    setup();
    for (uint32_t seat = 0; seat < LINES - 1; seat++) count(seat);
    for (uint32_t seat = SHARED - 2; seat < SHARED + 2; seat++) count(seat);
    EXPECT(record_enter(&world.groups, world.record, world.id));
    EXPECT(record_close(world.record, world.id, 0));
    record_end(world.record, &(weft_group)WEFT_GROUP_INIT);
    record_leave(&world.groups, world.record, true);
    struct record *next = record_open(&world.groups, 0, 0);
    EXPECT(next == world.record && load_rlx(&next->id) != world.id);
    world.id = load_rlx(&next->id);
    world.given = 0;
}
static void count_far(void) { count(SHARED - 1); }
static void check_next(void) {
    for (uint32_t i = 0; i < world.given; i++)
        for (uint32_t k = 0; k < i; k++) EXPECT(world.before[i] != world.before[k] && world.before[i] < world.given);
    EXPECT(world.given == 2 * TASKS && record_is_finished(world.record));
    store_end(&world.store);
}
EXPLORE_DRIVER(counter_next, .about = "the same of a record that served another group", .setup = setup_next,
               .threads = {count_far, count_first_shared, count_shared}, .check = check_next);

/* Blocks: the first of the record and another one made at once; and one where there may be no memory, shared then. */
static void count_in_block(uint32_t seat) {
    struct group_counter *counter = counter_use(&world.groups, world.record, seat, world.id);
    bool is_shared = counter_is_shared(counter);
    explore_observe(is_shared);
    counter_submit(counter, is_shared, 1);
    counter = counter_use(&world.groups, world.record, seat, world.id); /* its own by now? */
    counter_complete(counter, counter_is_shared(counter), 1);
}
static void count_block_first(void) { count_in_block(LINES - 1); }
static void count_block_same(void) { count_in_block(LINES); }
static void count_block_next(void) { count_in_block(LINES - 1 + BLOCK_COUNTERS); }
static void check_blocks(void) {
    EXPECT(record_submitted(world.record) == 3 && record_completed(world.record) == 3 && record_is_finished(world.record));
    store_end(&world.store);
}
EXPLORE_DRIVER(counter_blocks, .about = "blocks of counters made at once", .setup = setup,
               .threads = {count_block_first, count_block_same, count_block_next}, .check = check_blocks, .must_see = 1);
/* The same, of pages that are mapped meanwhile: those of the store before are full. */
static void setup_mapped(void) {
    setup();
    EXPECT(store_get(&world.store, (size_t)64 * 1024 - CACHE_LINE) != NULL);
}
EXPLORE_DRIVER(counter_blocks_mapped, .about = "blocks of counters made at once, of new pages", .setup = setup_mapped,
               .threads = {count_block_first, count_block_same, count_block_next}, .check = check_blocks, .must_see = 1);
/* Who walks over the counters in use sees those that it knows of. */
static void walk_counters(void) {
    struct counter_walk walk = counters_walk(world.record);
    uint32_t seen = 0;
    while (counter_next_used(world.record, &walk) != NULL) seen++;
    explore_observe(seen);
}
static void check_walk(void) {
    struct counter_walk walk = counters_walk(world.record);
    for (uint32_t i = 0; i < 2; i++) EXPECT(counter_next_used(world.record, &walk) != NULL);
    EXPECT(counter_next_used(world.record, &walk) == NULL && record_is_finished(world.record));
    store_end(&world.store);
}
EXPLORE_DRIVER(counter_walks, .about = "a walk over counters while blocks are made", .setup = setup,
               .threads = {count_block_same, walk_counters, count_block_next}, .check = check_walk, .must_see = 7);
static void setup_blocks_short(void) {
    memset(&world, 0, sizeof world);
    world.record = groups_init(&world.groups, &world.store, LINES) ? record_open(&world.groups, 0, 0) : NULL;
    if (world.record != NULL) world.id = load_rlx(&world.record->id);
}
static void count_short(void) {
    if (world.record == NULL) return;
    for (uint32_t i = 0; i < 3; i++) count_in_block(LINES - 1);
    for (uint32_t i = 1; i < COUNTERS_MAX; i++) count_in_block(LINES - 1 + BLOCK_COUNTERS * i);
    EXPECT(record_is_finished(world.record) && record_submitted(world.record) == 3 + COUNTERS_MAX - 1);
}
static void end_short(void) { store_end(&world.store); }
EXPLORE_DRIVER(counter_blocks_shortage, .about = "blocks of counters until there is no memory", .setup = setup_blocks_short,
               .threads = {count_short}, .check = end_short, .flags = EXPLORE_MEMORY_FAILS, .must_see = 3);
