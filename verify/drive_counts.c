/* drive_counts.c: how many open groups are urgent, background or have a deadline. Whoever boosts a group, or gives it a
 * deadline, does so as often and as late as he likes: the record counts once, and when it has served its next group not at
 * all. */
#include "record.h"
#include "explore.h"
#include "queue/group.h"

#include <string.h>

static struct {
    struct store store;
    struct groups groups;
    struct record *record;
    uint64_t upper, id;
} world;

static uint32_t counted(uint32_t *urgent, uint32_t *due) {
    *urgent = load_rlx(&world.groups.urgent);
    *due = load_rlx(&world.groups.due);
    return load_rlx(&world.groups.background);
}
/* A group below another. */
static void open_group(uint32_t flags) {
    world.record = record_open(&world.groups, world.upper, flags);
    EXPECT(world.record != NULL);
    world.id = load_rlx(&world.record->id);
}
static void serve(void) {
    EXPECT(record_enter(&world.groups, world.record, world.id));
    EXPECT(record_close(world.record, world.id, 0));
    record_end(world.record, &(weft_group)WEFT_GROUP_INIT);
    record_leave(&world.groups, world.record, true);
}
static uint32_t flags_now; /* the test's own */
static void setup(void) {
    static const uint32_t flags[] = {0, WEFT_GROUP_URGENT, WEFT_GROUP_BACKGROUND};
    uint32_t urgent, due;
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, 2));
    world.upper = load_rlx(&record_open(&world.groups, 0, 0)->id);
    flags_now = flags[explore_pick(3)];
    open_group(flags_now);
    EXPECT(counted(&urgent, &due) == (flags_now == WEFT_GROUP_BACKGROUND) && due == 0);
    EXPECT(urgent == (flags_now == WEFT_GROUP_URGENT));
}
static void boost_twice(void) {
    for (int i = 0; i < 2; i++) record_boost(&world.groups, world.record, world.id);
}
/* As weft_group_deadline. */
static void give_deadline(void) {
    uint64_t id = world.id;
    if (!record_enter(&world.groups, world.record, id)) return;
    for (uint64_t when_ns = 1; when_ns <= 2; when_ns++) record_due(&world.groups, world.record, when_ns);
    record_miss(world.record, 1);
    EXPECT(!record_was_late(world.record) || load_rlx(&world.record->late) >= 2);
    record_boost(&world.groups, world.record, id);
    record_leave(&world.groups, world.record, false);
}
static void end_group(void) { serve(); }
static void check(void) {
    uint32_t urgent, due;
    uint32_t background = counted(&urgent, &due);
    EXPECT(urgent <= 1 && due == 0 && background == 0);
    for (int i = 0; i < 2; i++) {
        const struct record *before = world.record;
        open_group(0);
        EXPECT(world.record == before && load_rlx(&world.record->deadline_ns) == 0 && load_rlx(&world.record->late) == 0);
        EXPECT(!record_was_late(world.record) && counted(&urgent, &due) == 0 && due == 0);
        serve();
        EXPECT(counted(&urgent, &due) == 0 && urgent == 0 && due == 0);
    }
    store_end(&world.store);
}
EXPLORE_DRIVER(counts_priority, .about = "a group is boosted, and given deadlines, while it ends", .setup = setup,
               .threads = {boost_twice, give_deadline, end_group}, .check = check);
