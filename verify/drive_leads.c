/* drive_leads.c: what a group holds: tasks of several groups, added by several threads. Each of these is served by the first
 * group as long as it holds them, no other after; and they are taken in the order in which each thread added them. */
#include "record.h"
#include "explore.h"
#include "queue/continuation.h"

#include <string.h>

enum { FIRST, THEN, TOO, APART, GROUPS };

static struct {
    struct store store;
    struct groups groups;
    struct record *record[GROUPS];
    uint64_t id[GROUPS];
} world;

static void open_group(uint32_t i) {
    world.record[i] = record_open(&world.groups, 0, 0);
    EXPECT(world.record[i] != NULL);
    world.id[i] = load_rlx(&world.record[i]->id);
}
static void setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, 2));
    for (uint32_t i = 0; i < GROUPS; i++) open_group(i);
    counter_use(&world.groups, world.record[FIRST], 0, world.id[FIRST]);
    counter_submit(&world.record[FIRST]->counter[0], false, 1);
}
static bool first_serves(uint32_t i) { return group_serves(&world.groups, world.id[FIRST], world.id[i]); }

static void hold(uint32_t i, uint64_t number) {
    static const struct continuation_kind kind = {NULL, false};
    EXPECT(record_enter(&world.groups, world.record[FIRST], world.id[FIRST]));
    struct continuation *continuation = continuation_get(&world.groups);
    EXPECT(continuation != NULL);
    continuation->kind = &kind;
    continuation->record = world.record[i];
    continuation->id = world.id[i];
    continuation->cells->meta = number;
    EXPECT(continuation_add(&world.groups, world.record[FIRST], continuation));
    EXPECT(first_serves(i));
}
static void hold_two(void) {
    hold(THEN, 1);
    hold(THEN, 2);
}
static void hold_other(void) { hold(TOO, 1); }

static void take_all(uint32_t count) {
    uint64_t last[GROUPS] = {0};
    counter_complete(&world.record[FIRST]->counter[0], false, 1);
    struct continuation *continuation = continuation_take(&world.groups, world.record[FIRST], 0).oldest;
    for (struct continuation *next; continuation != NULL; continuation = next, count--) {
        next = continuation->next;
        uint32_t i = continuation->id == world.id[THEN] ? THEN : TOO;
        EXPECT(continuation->id == world.id[i] && continuation->cells->meta == ++last[i]);
        continuation_put(&world.groups, continuation);
        record_leave(&world.groups, world.record[FIRST], false);
    }
    EXPECT(count == 0);
    for (uint32_t i = THEN; i < GROUPS; i++) EXPECT(!first_serves(i));
}
static void check(void) {
    EXPECT(first_serves(THEN) && first_serves(TOO));
    take_all(3);
    /* the record's next group holds nothing */
    EXPECT(record_enter(&world.groups, world.record[FIRST], world.id[FIRST]));
    EXPECT(record_close(world.record[FIRST], world.id[FIRST], 0));
    record_end(world.record[FIRST], &(weft_group)WEFT_GROUP_INIT);
    record_leave(&world.groups, world.record[FIRST], true);
    open_group(FIRST);
    for (uint32_t i = THEN; i < GROUPS; i++) EXPECT(!first_serves(i));
    store_end(&world.store);
}
EXPLORE_DRIVER(leads_many, .about = "a group holds tasks of two others", .setup = setup, .threads = {hold_two, hold_other},
               .check = check);
