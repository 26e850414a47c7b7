/* pause_scene.c: rushes of submissions with pauses between that no event of the timeline shows: pause_scene ROUNDS. Before the first
 * submission after each pause the clock is read, and printed: no timeline may say that it was surely earlier. WEFT_TRACE names the
 * timeline; test_trace.py compares. */
#define _GNU_SOURCE
#include <inttypes.h>

#include "pool_help.h"

#define RUSH 1500u

static int rush_task(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add(*(atomic_uint **)payload, 1);
    return 0;
}

static int paused_task(void *payload, weft_worker *self) { return rush_task(payload, self); }

/* Without a call of weft's. */
static void until(const atomic_uint *done, unsigned count) {
    while (atomic_load(done) < count) sched_yield();
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.spin_ns = UINT64_C(1000000000); /* so that no wake is sent */
    REQUIRE(weft_config_from_env(&config) == WEFT_OK);
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    atomic_uint done = 0, *of = &done;
    unsigned count = 0, rounds = (unsigned)strtoul(argv[1], NULL, 10);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < RUSH + round; i++, count++)
            REQUIRE(weft_submit(pool, round % 3 == 2 && i % 2 == 1 ? &other : &group, rush_task, &of, sizeof of) == WEFT_OK);
        until(&done, count);
        for (int i = 0; i < 5; i++) nap();
        printf("%" PRIu64 "\n", clock_ns());
        REQUIRE(weft_submit(pool, &group, paused_task, &of, sizeof of) == WEFT_OK);
        until(&done, ++count);
    }
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK && weft_group_wait(pool, &other) == WEFT_OK);
    end_pool(pool);
    return 0;
}
