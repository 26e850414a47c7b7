/* task_world.h: a pool without threads, whose parts a driver's own threads play: guests that help, workers by worker_main. One for each
 * file that includes it. */
#ifndef WEFT_EXPLORE_TASK_WORLD_H
#define WEFT_EXPLORE_TASK_WORLD_H

#include "record.h"
#include "at_rest.h"
#include "front.h"
#include "sched/seat.h"
#include "sched/task.h"

#include <string.h>

enum { TASKS_MAX = 8 };

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group group, other, more[3];
    uint32_t submitted; /* the test's own, like the next two */
    uint32_t run[TASKS_MAX];
    uint32_t cleaned[TASKS_MAX];
    os_word second_run;
    ATOMIC(uint32_t) seen;
    uint32_t result; /* plain */
    struct record *ending;
    bool is_ended, is_counted; /* the test's own */
    ATOMIC(uint32_t) seated;
} world;

INLINE void clean(void *payload, size_t size, void *context) {
    EXPECT(size == sizeof(uint32_t) && context == &world);
    world.cleaned[*(uint32_t *)payload]++;
}

INLINE void make(uint32_t workers, uint32_t flags) {
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 1;
    world.config.flags = flags;
    world.config.spin_ns = WEFT_SPIN_NONE;
    world.config.clean = clean, world.config.context = &world;
    world.pool = pool_make(&world.config);
    EXPECT(world.pool != NULL);
    for (uint32_t i = 0; i < workers; i++) load_rlx(&world.pool->seats[i])->is_worker = true;
    world.pool->config.spares = world.pool->spare_seats = 0; /* no thread is started, though there are seats for spares */
}
/* The seat of the first thread from outside, which is thread 0. */
INLINE struct weft_worker *outside(void) { return load_rlx(&world.pool->seats[world.config.workers]); }
INLINE void setup_one(void) { make(1, 0); }
INLINE void setup_two(void) { make(2, 0); }

/* The pool goes, and everything submitted has run or was cleaned. Others may be on their way out of a call until it is gone. */
INLINE void end_beside(void) {
    store_rlx(&world.pool->workers, 0), store_rlx(&world.pool->spares_made, 0); /* to be joined */
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] + world.cleaned[i] == 1);
}
/* The same, and nobody is inside. */
INLINE void end(void) {
    expect_at_rest(world.pool);
    end_beside();
}

INLINE int task(void *payload, weft_worker *self) {
    (void)self;
    uint32_t number = *(uint32_t *)payload;
    EXPECT(number < world.submitted && ++world.run[number] == 1);
    return 0;
}
INLINE int try_submit(weft_group *group, weft_fn fn) {
    uint32_t number = world.submitted++;
    EXPECT(number < TASKS_MAX);
    int error = weft_submit(world.pool, group, fn, &number, sizeof number);
    if (error != WEFT_OK) world.cleaned[number]++; /* it stays the caller's */
    return error;
}
INLINE void submit(weft_group *group, weft_fn fn) { EXPECT(try_submit(group, fn) == WEFT_OK); }
INLINE void submit_task(void) { submit(&world.group, task); }
INLINE void wait_group(void) { EXPECT(weft_group_wait(world.pool, &world.group) == WEFT_OK); }
INLINE void be_worker(uint32_t index, struct frame *frame) {
    struct weft_worker *seat = load_rlx(&world.pool->seats[index]);
    *os_self_get() = (os_self){.pool_id = world.pool->id, .worker = seat, .is_worker = true};
    frame_push(seat, frame);
}

INLINE int task_second(void *payload, weft_worker *self) {
    store_rel(drive_task_second, &world.second_run, 1);
    os_wake(&world.second_run, 8);
    return task(payload, self);
}
INLINE void await_second(void) {
    while (load_acq(drive_task_first, &world.second_run) == 0) os_wait(&world.second_run, 0, 0);
}

INLINE void worker_0(void) { worker_main(load_rlx(&world.pool->seats[0])); }
INLINE void worker_1(void) { worker_main(load_rlx(&world.pool->seats[1])); }

/* As pool_stop. */
INLINE void stop(void) {
    store_rlx(&world.pool->exits, 1);
    fence_sc(drive_task_stop);
    for (uint32_t i = 0; i < world.pool->park.workers; i++) {
        add_rlx(&world.pool->park.slots[i].event, 1);
        os_wake(&world.pool->park.slots[i].event, 8);
    }
    while (park_wake(&world.pool->park)) {}
}
INLINE void wait_and_stop(void) {
    wait_group();
    stop();
}

#endif
