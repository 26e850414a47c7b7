/* drive_line.c: counters of a record: seats that have one of their own, and those that share the last, the first of them not
 * less than the others. */
#include "record.h"
#include "explore.h"
#include "queue/group.h"

#include <string.h>

enum { LINES = 3, TASKS = 2 };

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
    bool is_shared = counter_is_shared(world.record, seat);
    struct group_counter *counter = counter_of(world.record, seat);
    EXPECT((counter == &world.record->counter[LINES - 1]) == is_shared);
    uint64_t first = counter_first(world.record, seat, world.id);
    for (uint32_t i = 0; i < TASKS; i++) {
        uint64_t number = counter_submit(counter, is_shared, 1) - first;
        if (is_shared) world.before[world.given++] = number;
        counter_complete(counter, is_shared, 1);
    }
}
static void count_alone(void) { count(LINES - 2); }
static void count_first_shared(void) { count(LINES - 1); }
static void count_shared(void) { count(LINES); }
/* No count is lost, and each task has a number of its own. */
static void check(void) {
    uint64_t submitted = 0;
    for (uint32_t i = 0; i < LINES; i++) submitted += load_rlx(&world.record->counter[i].submitted);
    EXPECT(submitted == 3 * TASKS && record_is_finished(world.record));
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
    for (uint32_t seat = 0; seat <= LINES; seat++) count(seat);
    EXPECT(record_enter(&world.groups, world.record, world.id));
    EXPECT(record_close(world.record, world.id, 0));
    record_end(world.record);
    record_leave(&world.groups, world.record, true);
    struct record *next = record_open(&world.groups, 0, 0);
    EXPECT(next == world.record && load_rlx(&next->id) != world.id);
    world.id = load_rlx(&next->id);
    world.given = 0;
}
static void check_next(void) {
    for (uint32_t i = 0; i < world.given; i++)
        for (uint32_t k = 0; k < i; k++) EXPECT(world.before[i] != world.before[k] && world.before[i] < world.given);
    EXPECT(world.given == 2 * TASKS && record_is_finished(world.record));
    store_end(&world.store);
}
EXPLORE_DRIVER(counter_next, .about = "the same of a record that served another group", .setup = setup_next,
               .threads = {count_alone, count_first_shared, count_shared}, .check = check_next);
