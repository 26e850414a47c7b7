/* drive_fit.c: who counts the pool's CPUs while prediction keeps a sleeper off one of them counts that one, too. */
#include "at_rest.h"
#include "front.h"
#include "sched/fit.h"
#include "sched/seat.h"

#include <string.h>

enum { BOTH = 3, FIRST = 1, ALL = 7 }; /* sets of CPUs; all while the system is asked what there is */

static struct {
    weft_pool *pool;
    os_word sleepers_cpus;
} world;

static void setup(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
    EXPECT(load_rlx(&world.pool->cpus_allowed) == 2 && world.pool->follows);
    store_rlx(&world.sleepers_cpus, BOTH);
    explore_cpus = &world.sleepers_cpus;
    explore_cpus_of = load_rlx(&world.pool->seats[0])->thread;
}

/* The system changes and tells a thread's CPUs under a lock of its own. */
static void be_on(uint32_t cpus) { store_rel(drive_fit_apply, &world.sleepers_cpus, cpus); }
static void sleep_twice(void) {
    struct weft_worker *seat = load_rlx(&world.pool->seats[0]);
    for (int i = 0; i < 2; i++) {
        fit_keep_off(seat, FIT_UNSURE);
        be_on(ALL);
        be_on(FIRST);
        fit_keep_off(seat, 1);
        explore_step();
        be_on(BOTH);
        fit_keep_off(seat, OS_NO_CPU);
    }
}
static void look(void) {
    for (int i = 0; i < 2; i++) {
        store_rlx(&world.pool->fit_due, 0);
        fit_look_slow(world.pool);
        EXPECT(load_rlx(&world.pool->cpus_allowed) == 2);
        EXPECT(load_rlx(&world.pool->workers) == 2);
    }
}
static void end(void) {
    explore_cpus = NULL;
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(fit_kept_off, .about = "the CPUs are counted while a sleeper is kept off one", .setup = setup,
               .threads = {sleep_twice, look}, .check = end);

/* When the look is due two threads come to it: one of them counts. */
static void setup_due(void) {
    setup();
    world.pool->fit_ticks = UINT64_MAX / 4;
    store_rlx(&world.pool->fit_due, 0);
    explore_cpu_counts = 0;
}
static void look_if_due(void) { fit_look(world.pool); }
static void end_due(void) {
    EXPECT(explore_cpu_counts == 1);
    end();
}
EXPLORE_DRIVER(fit_due, .about = "two look how many CPUs there are at once", .setup = setup_due,
               .threads = {look_if_due, look_if_due}, .check = end_due);
