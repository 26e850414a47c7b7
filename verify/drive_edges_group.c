/* drive_edges_group.c: what group.h promises of one record, call by call, for two groups that it serves one after the
 * other. */
#include "record.h"
#include "explore.h"
#include "queue/continuation.h"
#include "weft.h"

#include <string.h>

enum { LINES = 3 };
/* Two in the record, one in a block, one that shares. */
static const uint32_t numbers[LINES + 1] = {0, 1, LINES - 1, LINES - 1 + COUNTERS_FURTHER};

static struct {
    struct store store;
    struct groups groups;
    struct record *record;
    uint64_t id; /* of the second group; the first is `before` */
    uint64_t before;
    bool is_made;
} world;

static struct record *open(uint64_t parent, uint32_t flags) {
    struct record *record = record_open(&world.groups, parent, flags);
    EXPECT(record != NULL);
    return record;
}
static void setup_with(uint32_t flags) {
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, LINES));
    struct record *record = open(0, 0);
    world.before = load_rlx(&record->id);
    for (uint32_t seat = 0; seat < LINES + 1; seat++) {
        struct group_counter *counter = counter_use(&world.groups, record, numbers[seat], world.before);
        EXPECT(counter_is_shared(counter) == (seat == LINES));
        counter_submit(counter, seat == LINES, 3);
        counter_complete(counter, seat == LINES, 3);
    }
    EXPECT(record_is_finished(record) && !record_must_wake(record));
    record_discard(&world.groups, record);
    EXPECT(!record_enter(&world.groups, record, world.before));
    world.record = open(0, flags);
    world.id = load_rlx(&world.record->id);
    EXPECT(world.record == record && world.id > world.before);
}
static void setup(void) { setup_with(0); }
static void setup_urgent(void) { setup_with(WEFT_GROUP_URGENT); }
static void end(void) { store_end(&world.store); }

/* Numbers of tasks begin anew with each group, at what the line has counted. */
static void number_tasks(void) {
    for (uint32_t seat = 0; seat < LINES; seat++) {
        struct group_counter *counter = counter_use(&world.groups, world.record, numbers[seat], world.id);
        EXPECT(counter_first(world.record, counter) == 3);
        EXPECT(counter_submit(counter, false, 1) == 3);
        EXPECT(counter == counter_use(&world.groups, world.record, numbers[seat], world.id));
        EXPECT(counter_first(world.record, counter) == 3 && !record_is_finished(world.record));
        counter_complete(counter, false, 1);
        EXPECT(record_is_finished(world.record));
    }
}
EXPLORE_DRIVER(edge_group_numbers, .about = "where a group's tasks are numbered from", .setup = setup,
               .threads = {number_tasks}, .check = end);

/* Of failures the lowest number's stays, and of two of one number the lower code. */
static void fail(void) {
    EXPECT(record_error(world.record) == 0);
    record_fail(world.record, 5, 7);
    record_fail(world.record, 6, 1);
    EXPECT(record_error(world.record) == 7);
    record_fail(world.record, 5, -3);
    EXPECT(record_error(world.record) == -3);
    record_fail(world.record, 4, 9);
    record_fail(world.record, 4, 10);
    EXPECT(record_error(world.record) == 9);
    bool cancels = (load_rlx(&world.record->flags) & WEFT_GROUP_CANCEL_ON_ERROR) != 0;
    EXPECT(record_lets_run(world.record, 4) && record_lets_run(world.record, 5) == !cancels);
}
static void setup_cancelling(void) { setup_with(WEFT_GROUP_CANCEL_ON_ERROR); }
EXPLORE_DRIVER(edge_group_fails, .about = "several tasks fail", .setup = setup_urgent, .threads = {fail}, .check = end);
EXPLORE_DRIVER(edge_group_fails_all, .about = "several tasks fail, and with them all after the first",
               .setup = setup_cancelling, .threads = {fail}, .check = end);

/* Who submits from outside: nobody, one, several; for the group that is there alone. */
static void note(void) {
    EXPECT(record_note_foreign(world.record, world.before, 2) == 0);
    EXPECT(load_rlx(&world.record->foreign) == FOREIGN_NONE);
    EXPECT(record_note_foreign(world.record, world.id, 1) == world.id && load_rlx(&world.record->foreign) == 2);
    EXPECT(record_note_foreign(world.record, world.id, 1) == world.id && load_rlx(&world.record->foreign) == 2);
    EXPECT(record_note_foreign(world.record, world.id, 0) == world.id);
    EXPECT(load_rlx(&world.record->foreign) == FOREIGN_MANY);
    EXPECT(record_note_foreign(world.record, world.id, 1) == world.id);
    EXPECT(load_rlx(&world.record->foreign) == FOREIGN_MANY);
    EXPECT(record_cancel(world.record, world.id) && !record_cancel(world.record, world.id));
    EXPECT(record_note_foreign(world.record, world.id, 1) == (world.id | ID_CANCELLED));
}
EXPLORE_DRIVER(edge_group_foreign, .about = "who submits from outside is noted", .setup = setup, .threads = {note},
               .check = end);

/* A group above stays that, also cancelled or closing; one that has ended is none. */
static void find_parent(void) {
    struct record *below = open(world.id, 0);
    uint64_t id = load_rlx(&below->id);
    EXPECT(load_rlx(&below->depth) == 2 && group_parent(&world.groups, id) == world.id);
    EXPECT(group_serves(&world.groups, id, world.id) && !group_serves(&world.groups, world.id, id));
    EXPECT(record_cancel(below, id) && group_parent(&world.groups, id) == world.id);
    EXPECT(record_enter(&world.groups, below, id) && record_close(below, id, 0));
    EXPECT(group_parent(&world.groups, id) == world.id && group_serves(&world.groups, id, world.id));
    EXPECT(group_parent(&world.groups, world.before) == 0 && !record_enter(&world.groups, world.record, world.before));
    record_end(below, &(weft_group)WEFT_GROUP_INIT);
    EXPECT(record_has_ended(below) && !record_is_closing(below));
    record_leave(&world.groups, below, true);
    EXPECT(group_parent(&world.groups, id) == 0 && !group_serves(&world.groups, id, world.id));
}
EXPLORE_DRIVER(edge_group_parent, .about = "the group above one that is cancelled, closing, ended", .setup = setup,
               .threads = {find_parent}, .check = end);

/* Urgent is the group, not the one that the record served before; so are deadlines and what missed them. */
static void hurry(void) {
    EXPECT(load_rlx(&world.groups.urgent) == 1);
    record_boost(&world.groups, world.record, world.before);
    EXPECT(load_rlx(&world.record->urgent) == world.id);
    record_boost(&world.groups, world.record, world.id);
    EXPECT(load_rlx(&world.record->urgent) == world.id && load_rlx(&world.groups.urgent) == 1);
    EXPECT(!record_is_late(world.record) && !record_was_late(world.record));
    record_due(&world.groups, world.record, UINT64_MAX);
    EXPECT(load_rlx(&world.groups.due) == 1 && !record_is_late(world.record));
    record_due(&world.groups, world.record, 1);
    EXPECT(load_rlx(&world.groups.due) == 1 && record_is_late(world.record) && record_was_late(world.record));
    record_miss(world.record, 5);
    record_miss(world.record, 3);
    EXPECT(load_rlx(&world.record->late) == 5);
    record_due(&world.groups, world.record, 6);
    EXPECT(!record_was_late(world.record));
    record_discard(&world.groups, world.record);
    EXPECT(load_rlx(&world.groups.urgent) == 0 && load_rlx(&world.groups.due) == 0);
    struct record *again = open(0, WEFT_GROUP_BACKGROUND);
    EXPECT(again == world.record && load_rlx(&again->deadline_ns) == 0 && !record_was_late(again));
    EXPECT(load_rlx(&world.groups.background) == 1);
    record_discard(&world.groups, again);
    EXPECT(load_rlx(&world.groups.background) == 0);
}
EXPLORE_DRIVER(edge_group_hurry, .about = "urgent, late, and neither in the next group", .setup = setup_urgent,
               .threads = {hurry}, .check = end);

/* Without memory there is no group. */
static void setup_short(void) {
    memset(&world, 0, sizeof world);
    world.is_made = groups_init(&world.groups, &world.store, 1024); /* so large that each dozen is memory of its own */
}
static void open_short(void) {
    for (int i = 0; i < 20 && world.is_made; i++) {
        const struct record *record = record_open(&world.groups, 0, 0);
        explore_observe(record == NULL ? 0 : 1);
        if (record == NULL) return;
        EXPECT(id_index(load_rlx(&record->id)) == record->item.index);
    }
}
EXPLORE_DRIVER(edge_group_shortage, .about = "groups until there is no memory", .setup = setup_short,
               .threads = {open_short}, .check = end, .flags = EXPLORE_MEMORY_FAILS, .must_see = 3);
