/* drive_block.c: tasks that block, and spares that stand in, over a pool without threads (task_world.h). */
#include "task_world.h"

/* Seat 0 is a worker that blocks, seat 1 a spare that has been started. */
static void setup_spare(void) {
    setup_two();
    world.pool->workers_max = 1;
    world.pool->config.spares = 1;
    store_rlx(&world.pool->workers, 1);
    store_rlx(&world.pool->spares_made, 1);
}
static void block_until_second(void) {
    struct frame frame;
    be_worker(0, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[0]);
    submit(&world.group, task_second);
    EXPECT(weft_block_begin(self) == WEFT_OK);
    await_second();
    EXPECT(weft_block_end(self) == WEFT_OK);
    wait_and_stop();
}
EXPLORE_DRIVER(task_spare, .about = "a spare stands in", .setup = setup_spare, .threads = {block_until_second, worker_1},
               .check = end, .flags = EXPLORE_NO_RESCUE);

/* Seats 0 and 1 block, seat 3 is the second spare; the first one is busy elsewhere. */
static void setup_second_spare(void) {
    make(4, 0);
    world.pool->workers_max = 2;
    world.pool->config.spares = 2;
    store_rlx(&world.pool->workers, 2);
    store_rlx(&world.pool->spares_made, 2);
}
static void block_once(void) {
    struct frame frame;
    be_worker(0, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[0]);
    EXPECT(weft_block_begin(self) == WEFT_OK);
    await_second();
    EXPECT(weft_block_end(self) == WEFT_OK);
}
static void block_often(void) {
    struct frame frame;
    be_worker(1, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[1]);
    for (int i = 0; i < 2; i++) {
        EXPECT(weft_block_begin(self) == WEFT_OK);
        EXPECT(weft_block_end(self) == WEFT_OK);
    }
    submit(&world.group, task_second);
    EXPECT(weft_block_begin(self) == WEFT_OK);
    await_second();
    EXPECT(weft_block_end(self) == WEFT_OK);
    wait_and_stop();
}
static void worker_3(void) { worker_main(load_rlx(&world.pool->seats[3])); }
EXPLORE_DRIVER(task_second_spare, .about = "a spare for two sections, one of which comes and goes",
               .setup = setup_second_spare, .threads = {block_once, block_often, worker_3}, .check = end,
               .flags = EXPLORE_NO_RESCUE);

/* Two sections open at once. */
static void block_together(uint32_t index) {
    struct frame frame;
    be_worker(index, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[index]);
    EXPECT(weft_block_begin(self) == WEFT_EAGAIN);
    add_rlx(&world.seen, 1);
    while (load_rlx(&world.seen) < 2) os_pause();
    EXPECT(weft_block_end(self) == WEFT_OK);
}
static void block_0(void) { block_together(0); }
static void block_1(void) { block_together(1); }
static void check_peak(void) {
    EXPECT(load_rlx(&world.pool->blocked_peak) == 2 && load_rlx(&world.pool->blocked) == 0);
    end();
}
EXPLORE_DRIVER(task_peak, .about = "two sections at once", .setup = setup_two, .threads = {block_0, block_1},
               .check = check_peak);

/* Tasks are short, worker 1 polls, 2 sleeps, and a guest waits without helping: once that is asleep, one CPU of two is
 * free. */
static void setup_crowd(void) {
    make(3, 0);
    store_rlx(&world.pool->tasks_are_short, 1);
    EXPECT(park_poll_announce(&world.pool->park, 1, false));
    park_announce(&world.pool->park, 2, false);
    submit_task();
}
static void guest_waits(void) { EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, 0) == WEFT_OK); }
static void submit_beside_guest(void) {
    struct frame frame;
    be_worker(0, &frame);
    while (guest_calls(world.pool) == 0) os_pause();
    uint64_t before = load_rlx(&load_rlx(&world.pool->seats[0])->wakes);
    submit(&world.other, task);
    explore_observe(load_rlx(&load_rlx(&world.pool->seats[0])->wakes) > before);
    wait_group();
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
}
EXPLORE_DRIVER(task_crowd, .about = "who sleeps in a wait does not count among those awake", .setup = setup_crowd,
               .threads = {guest_waits, submit_beside_guest}, .check = end, .must_see = 3);
