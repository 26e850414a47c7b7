/* test_looks.c: how long a worker looks for work before it sleeps, as what came of its looks and its sleeps tells. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "front.h"
#include "predict/predict.h"
#include "predict/state.h"

enum { MOST = 1 << 20 };

/* A pool without threads, whose spin adapts, and its worker's seat. */
static weft_pool *pool;
static struct weft_worker *seat;
static int setup(void **state) {
    (void)state;
    weft_config config = config_of(1);
    pool = pool_make(&config);
    REQUIRE(pool != NULL);
    pool->spin_adapts = true;
    store_rlx(&pool->spin_now, MOST);
    seat = load_rlx(&pool->seats[0]);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    store_rlx(&pool->workers, 0);
    return weft_pool_destroy(&pool);
}

static void test_finds_and_misses(void **state) {
    (void)state;
    seat->searcher_ticks = MOST / 4;
    ready_searched(seat, true);
    assert_int_equal(seat->searcher_ticks, MOST / 2);
    ready_searched(seat, true);
    ready_searched(seat, true);
    assert_int_equal(seat->searcher_ticks, MOST); /* never longer */
    ready_searched(seat, false);
    assert_int_equal(seat->searcher_ticks, MOST / 2);
    for (int i = 0; i < 20; i++) ready_searched(seat, false);
    assert_int_equal(seat->searcher_ticks, 0); /* too short to be worth it */
    ready_searched(seat, true);
    assert_true(seat->searcher_ticks > 0);
    pool->spin_adapts = false;
    ready_searched(seat, false);
    assert_int_equal(seat->searcher_ticks, MOST);
}

/* Woken so soon that looking on would have found it, it looks as long as may be; woken late, as before. */
static void test_wakes(void **state) {
    (void)state;
    uint64_t now = os_ticks();
    predict_of(seat)->idle_since = now - 8 * (uint64_t)MOST;
    store_rlx(&pool->park.slots[0].sent_ticks, now - 7 * (uint64_t)MOST - MOST / 2);
    seat->searcher_ticks = 0;
    ready_woken(seat);
    assert_int_equal(seat->searcher_ticks, MOST);
    store_rlx(&pool->park.slots[0].sent_ticks, now - MOST);
    seat->searcher_ticks = 0;
    ready_woken(seat);
    assert_int_equal(seat->searcher_ticks, 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_finds_and_misses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wakes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
