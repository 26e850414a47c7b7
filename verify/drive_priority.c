/* drive_priority.c: slots for background tasks, urgent groups; over a pool without threads, whose parts the driver's threads
 * play. */
#include "record.h"
#include "at_rest.h"
#include "front.h"
#include "sched/priority.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group group;
    uint32_t ran; /* the test's own, like the next */
    uint32_t running;
    uint64_t id;
    struct record *record;
} world;

static void make(uint32_t workers) {
    memset(&world, 0, sizeof world);
    weft_config config;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 1;
    config.background_max = 1;
    config.flags = WEFT_POOL_NO_HELP;
    config.spin_ns = WEFT_SPIN_NONE;
    world.pool = pool_make(&config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < workers; i++) load_rlx(&world.pool->seats[i])->is_worker = true;
    world.pool->config.spares = world.pool->spare_seats = 0; /* no thread is started */
    world.group.flags = WEFT_GROUP_BACKGROUND;
}
static void end(void) {
    EXPECT(load_rlx(&world.pool->groups.background) == 0);
    store_rlx(&world.pool->workers, 0); /* to be joined */
    store_rlx(&world.pool->spares_made, 0);
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static struct weft_worker *seat(uint32_t index) { return load_rlx(&world.pool->seats[index]); }

static int task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    EXPECT(++world.running == 1);
    explore_step();
    world.running--;
    world.ran++;
    return 0;
}
static void submit(void) {
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, &world.group, task, &payload, sizeof payload) == WEFT_OK);
}
static void worker_0(void) { worker_main(seat(0)); }
static void worker_1(void) { worker_main(seat(1)); }
/* As pool_stop. */
static void stop(void) {
    store_rlx(&world.pool->exits, 1);
    fence_sc(drive_priority_stop);
    for (uint32_t i = 0; i < world.pool->park.workers; i++) {
        add_rlx(&world.pool->park.slots[i].event, 1);
        os_wake(&world.pool->park.slots[i].event, 8);
    }
    while (park_wake(&world.pool->park)) {}
}
static void wait_and_stop(void) {
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    stop();
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

/* Worker 0 gives the only slot back and goes on to something long; who sleeps must take the task. */
static void setup_slot(void) {
    make(2);
    store_rlx(&world.pool->background_runs, 1);
}
static void give(void) {
    struct frame frame;
    *os_self_get() = (os_self){.pool_id = world.pool->id, .worker = seat(0), .is_worker = true};
    frame_push(seat(0), &frame);
    priority_give(seat(0));
}
static void submit_and_stop(void) {
    submit();
    wait_and_stop();
    EXPECT(world.ran == 1);
}
EXPLORE_DRIVER(priority_give, .about = "a slot is given back, a background task published, a worker parks",
               .setup = setup_slot, .threads = {submit_and_stop, worker_1, give}, .check = end, .flags = EXPLORE_NO_RESCUE);
/* It is published before: nobody else makes a fence then, and the sleeper has looked. */
static void setup_slot_waiting(void) {
    setup_slot();
    submit();
}
EXPLORE_DRIVER(priority_give_late, .about = "a slot is given back for a task that waits, a worker parks",
               .setup = setup_slot_waiting, .threads = {wait_and_stop, worker_1, give}, .check = end,
               .flags = EXPLORE_NO_RESCUE);
/* The worker sleeps by then, and nobody else runs the task. */
static void give_to_sleeper(void) {
    while (park_look(&world.pool->park).parked == 0) os_pause();
    give();
}
static void wait_idly_and_stop(void) {
    EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, 0) == WEFT_OK);
    stop();
}
EXPLORE_DRIVER(priority_give_asleep, .about = "the same, and the worker sleeps already", .setup = setup_slot_waiting,
               .threads = {wait_idly_and_stop, worker_1, give_to_sleeper}, .check = end, .flags = EXPLORE_NO_RESCUE);
/* The publisher makes no fence of its own. */
static void setup_slot_biased(void) {
    setup_slot();
    world.group.flags = 0;
    submit();
    struct weft_worker *outside = load_rlx(&world.pool->seats[2]);
    struct piece piece;
    EXPECT(lane_claim(load_rlx(&outside->lanes), 1, NULL, NULL, &piece) == 1);
    struct record *record = record_at(&world.pool->groups, id_index(world.group.id));
    piece_done(&piece);
    counter_use(&world.pool->groups, record, 0, world.group.id);
    counter_complete(counter_of(record, 0), false, 1);
    EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK);
    world.group.flags = WEFT_GROUP_BACKGROUND;
    store_rlx(&outside->biased, 1);
    store_rlx(&world.pool->biased, 1);
}
EXPLORE_DRIVER(priority_give_biased, .about = "the same, the publisher is biased", .setup = setup_slot_biased,
               .threads = {submit_and_stop, worker_1, give}, .check = end,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);

static void setup_two(void) { make(2); }
static void submit_two_and_stop(void) {
    submit();
    submit();
    wait_and_stop();
    EXPECT(world.ran == 2);
}
EXPLORE_DRIVER(priority_slot, .about = "two workers, one slot", .setup = setup_two,
               .threads = {submit_two_and_stop, worker_0, worker_1}, .check = end, .flags = EXPLORE_NO_RESCUE);
static void take(void) {
    if (priority_take(world.pool)) EXPECT(++world.running == 1);
}
static void setup_taken(void) {
    make(2);
    submit();
}
static void check_taken(void) {
    EXPECT(world.running == 1 && load_rlx(&world.pool->background_runs) == 1);
    store_rlx(&world.pool->exits, 0);
}
EXPLORE_DRIVER(priority_take, .about = "two take the only slot", .setup = setup_taken, .threads = {take, take},
               .check = check_taken);

/* A task in the only slot waits for a group whose task is published while a worker looks for work, which has no slot for
 * it until the wait sleeps. The wait needs none. */
static weft_group awaited;
static int waits(void *payload, weft_worker *self) {
    (void)payload;
    world.running++;
    EXPECT(weft_group_wait(weft_worker_pool(self), &awaited) == WEFT_OK);
    world.ran++;
    return 0;
}
static int counts(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    world.ran++;
    return 0;
}
static void setup_holder(void) {
    make(2);
    world.pool->helps = true;
    store_rlx(&world.pool->tiny, 1);
    submit();
    struct weft_worker *outside = seat(2);
    struct piece piece; /* seat and lane are made; the task that did it goes */
    EXPECT(lane_claim(load_rlx(&outside->lanes), 1, NULL, NULL, &piece) == 1);
    struct record *record = record_open(&world.pool->groups, 0, WEFT_GROUP_BACKGROUND);
    awaited = (weft_group){.id = load_rlx(&record->id), .flags = WEFT_GROUP_BACKGROUND};
    counter_use(&world.pool->groups, record, outside->counter, awaited.id);
    counter_submit(counter_of(record, outside->counter), false, 1); /* one that the driver itself completes */
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, &world.group, waits, &payload, sizeof payload) == WEFT_OK);
    piece_done(&piece);
    counter_complete(counter_of(record_at(&world.pool->groups, id_index(world.group.id)), outside->counter), false, 1);
}
static void publish_for_wait(void) {
    struct weft_worker *outside = seat(2);
    struct record *record = record_at(&world.pool->groups, id_index(awaited.id));
    const uint32_t payload = 1;
    while (world.running == 0) os_pause();
    EXPECT(weft_submit(world.pool, &awaited, counts, &payload, sizeof payload) == WEFT_OK);
    counter_complete(counter_of(record, outside->counter), false, 1);
    worker_settle(outside, record);
    wait_and_stop();
    EXPECT(world.ran == 2);
}
EXPLORE_DRIVER(priority_holder, .about = "a task in the last slot waits for one that needs a slot", .setup = setup_holder,
               .threads = {publish_for_wait, worker_0, worker_1}, .check = end);

/* ---- urgent groups ------------------------------------------------------------------------------------------------ */

/* No slot is free, then the group is lifted. */
static void boost_and_stop(void) {
    EXPECT(weft_group_boost(world.pool, &world.group) == WEFT_OK);
    wait_and_stop();
    EXPECT(world.ran == 1);
}
/* The slot is nobody's to give back. */
static void check_boost(void) {
    EXPECT(load_rlx(&world.pool->background_runs) == 1);
    store_rlx(&world.pool->background_runs, 0);
    end();
}
EXPLORE_DRIVER(priority_boost, .about = "a background task becomes urgent, a worker parks", .setup = setup_slot_waiting,
               .threads = {boost_and_stop, worker_1}, .check = check_boost, .flags = EXPLORE_NO_RESCUE);
/* Another thread has just made the group. */
static void boost(void) { EXPECT(weft_group_boost(world.pool, &world.group) == WEFT_OK); }
EXPLORE_DRIVER(priority_boost_new, .about = "a new group becomes urgent while its first task is submitted",
               .setup = setup_two, .threads = {submit_and_stop, worker_1, boost}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* The count of urgent groups. */
static void setup_record(void) {
    make(1);
    world.record = record_open(&world.pool->groups, 0, 0);
    world.id = load_rlx(&world.record->id);
}
static void boost_record(void) {
    struct groups *groups = &world.pool->groups;
    if (!record_enter(groups, world.record, world.id)) return; /* the group has ended */
    record_boost(groups, world.record, world.id);
    record_leave(groups, world.record, false);
}
static void end_record(void) {
    EXPECT(record_enter(&world.pool->groups, world.record, world.id));
    EXPECT(record_close(world.record, world.id, 0));
    record_end(world.record, &(weft_group)WEFT_GROUP_INIT);
    record_leave(&world.pool->groups, world.record, true);
}
static void check_boosted(void) {
    uint32_t urgent = load_rlx(&world.record->urgent) != 0;
    EXPECT(load_rlx(&world.pool->groups.urgent) == urgent);
    if (load_rlx(&world.record->id) != 0) end_record();
    struct record *next = record_open(&world.pool->groups, 0, WEFT_GROUP_URGENT);
    EXPECT(load_rlx(&world.pool->groups.urgent) == 1 && priority_is_urgent(world.pool, next->item.index));
    world.record = next;
    world.id = load_rlx(&next->id);
    end_record();
    end();
}
EXPLORE_DRIVER(priority_boost_two, .about = "two boost a group at once", .setup = setup_record,
               .threads = {boost_record, boost_record}, .check = check_boosted);
EXPLORE_DRIVER(priority_boost_end, .about = "a group is boosted while it ends", .setup = setup_record,
               .threads = {boost_record, boost_record, end_record}, .check = check_boosted);

/* ---- deadlines ---------------------------------------------------------------------------------------------------- */

static void setup_due(void) {
    make(2);
    world.group.flags = WEFT_GROUP_DROP_LATE;
    submit();
}
static void set_due(void) {
    const uint64_t when_ns = os_now_ns() + explore_pick(2) * UINT64_C(1000000);
    EXPECT(weft_group_deadline(world.pool, &world.group, when_ns) == WEFT_OK);
}
static void wait_due(void) {
    int error = weft_group_wait(world.pool, &world.group);
    EXPECT(error == WEFT_OK || error == WEFT_ELATE);
    EXPECT(error == WEFT_ELATE || world.ran == 1);
    explore_observe(error == WEFT_OK ? 0 : 1);
    stop();
}
static void check_due(void) {
    if (world.group.id != 0)
        EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK); /* the deadline came after the wait */
    EXPECT(load_rlx(&world.pool->groups.due) == 0 && load_rlx(&world.pool->groups.urgent) == 0);
    EXPECT(world.ran + load_rlx(&seat(0)->tasks_dropped) == 1);
    end();
}
EXPLORE_DRIVER(priority_due, .about = "two give a group a deadline, a worker runs it, a third waits", .setup = setup_due,
               .threads = {set_due, set_due, wait_due, worker_0}, .check = check_due, .must_see = 3);

/* The deadline is replaced between two tasks that miss it: both are long ago. */
static void setup_missed(void) {
    setup_record();
    record_due(&world.pool->groups, world.record, 1);
}
static void miss(void) { EXPECT(record_is_late(world.record)); }
static void replace_and_miss(void) {
    record_due(&world.pool->groups, world.record, 2);
    EXPECT(record_is_late(world.record));
}
static void check_missed(void) {
    EXPECT(record_was_late(world.record));
    record_due(&world.pool->groups, world.record, 3);
    EXPECT(!record_was_late(world.record));
    end_record();
    EXPECT(load_rlx(&world.record->late) == 0);
    end();
}
EXPLORE_DRIVER(priority_missed, .about = "a deadline is replaced while two threads miss it", .setup = setup_missed,
               .threads = {miss, replace_and_miss}, .check = check_missed);
