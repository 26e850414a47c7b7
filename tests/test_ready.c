/* test_ready.c: workers that get up ahead of work: how it is asked for, and that they do. When is up to the machine. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "predict/state.h"

static weft_pool *pool_of(uint32_t workers, int32_t expect_percent) {
    weft_config config = config_of(workers);
    config.expect_percent = expect_percent;
    return make_pool_with(&config);
}

static uint64_t misses_of(const weft_pool *pool, uint32_t worker) {
    return load_rlx(&load_rlx(&pool->seats[worker])->expect_misses);
}

/* Asks for workers until the first of them has got up and looked out in vain. A moment that has passed before the worker
 * comes to it is ignored, so each time there is more time. */
static void ask(weft_pool *pool, uint32_t workers) {
    uint64_t misses = misses_of(pool, 0);
    for (uint64_t lead_ns = 1000000;; lead_ns *= 2) {
        uint64_t when_ns = os_now_ns() + lead_ns;
        assert_int_equal(weft_pool_expect(pool, workers, when_ns), WEFT_OK);
        while (os_now_ns() < when_ns + lead_ns) {
            if (misses_of(pool, 0) > misses) return;
            usleep(100);
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    weft_pool *pool = pool_of(1, 0);
    assert_int_equal(weft_pool_expect(NULL, 1, 1), WEFT_EINVAL);
    assert_int_equal(weft_pool_expect(pool, 0, 1), WEFT_EINVAL);
    end_pool(pool);
}

/* Those asked for get up, look out in vain, and sleep again; the others sleep on. */
static void test_by_hand(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_pool *pool = pool_of(3, 0);
    for (int i = 0; i < 5; i++) ask(pool, 1);
    assert_int_equal(misses_of(pool, 1), 0);
    assert_int_equal(misses_of(pool, 2), 0);
    end_pool(pool);
}

static void test_more_than_there_are(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_pool *pool = pool_of(1, 0);
    ask(pool, UINT32_MAX);
    end_pool(pool);
}

/* A moment that is replaced before it comes, or taken back, concerns nobody. */
static void test_taken_back(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_pool *pool = pool_of(1, 0);
    assert_int_equal(weft_pool_expect(pool, 1, os_now_ns() + UINT64_C(3600000000000)), WEFT_OK);
    ask(pool, 1);
    assert_int_equal(weft_pool_expect(pool, 1, os_now_ns() + UINT64_C(3600000000000)), WEFT_OK);
    assert_int_equal(weft_pool_expect(pool, 1, 0), WEFT_OK);
    assert_int_equal(weft_pool_expect(pool, 1, 1), WEFT_OK); /* long ago */
    assert_int_equal(weft_pool_expect(pool, 1, UINT64_MAX), WEFT_OK);
    end_pool(pool);
}

/* The next call replaces the one before, also for those whom it does not ask for. */
static void test_fewer(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_pool *pool = pool_of(3, 0);
    const uint64_t later_ns = os_now_ns() + UINT64_C(3600000000000);
    assert_int_equal(weft_pool_expect(pool, 3, later_ns), WEFT_OK);
    assert_int_equal(weft_pool_expect(pool, 1, later_ns + 1), WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(park_told(&pool->park, i), i == 0 ? later_ns + 1 : 0);
    assert_int_equal(weft_pool_expect(pool, 3, later_ns), WEFT_OK);
    assert_int_equal(weft_pool_expect(pool, 1, 0), WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(park_told(&pool->park, i), 0);
    end_pool(pool);
}

/* Told again and again while they work and sleep. */
static void test_told_at_all_times(void **state) {
    (void)state;
    weft_pool *pool = pool_of(2, 100);
    for (int i = 0; i < 2000; i++) {
        weft_group group = WEFT_GROUP_INIT;
        for (int k = 0; k < i % 7; k++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_pool_expect(pool, 1 + (uint32_t)i % 2, os_now_ns() + (uint64_t)(i % 13) * 20000), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    end_pool(pool);
}

static int32_t percent_of(int64_t spin_ns, int32_t wish) {
    weft_config config;
    weft_config_init(&config);
    config.spin_ns = spin_ns;
    config.expect_percent = wish;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_pool_config(pool, &config), WEFT_OK);
    end_pool(pool);
    return config.expect_percent;
}

/* So that it does not wake too late, on a busy machine. */
static void get_up_early(weft_worker *self, void *context) {
    (void)context;
    predict_of(self)->expect.lead = 4000000;
}

/* Who has spun away all that a real-time thread may gets up once for a moment told, sees that, and sleeps. */
static void test_spent(void **state) {
    enum { MOMENTS = 20, PARKS_EACH = 6 };
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_config config = config_of(1);
    config.spin_ns = 10000; /* nothing is tried */
    config.start = get_up_early;
    weft_pool *pool = make_pool_with(&config);
    store_rlx(&pool->realtime.window_ticks, UINT64_MAX);
    usleep(1000);
    struct weft_worker *seat = load_rlx(&pool->seats[0]);
    uint64_t before = load_rlx(&seat->parks);
    for (int i = 0; i < MOMENTS; i++) {
        assert_int_equal(weft_pool_expect(pool, 1, os_now_ns() + 5000000), WEFT_OK);
        usleep(8000);
    }
    uint64_t parks = load_rlx(&seat->parks) - before;
    print_message("%u moments told to one that may not spin: it parked %u times\n", (unsigned)MOMENTS, (unsigned)parks);
    assert_true(parks <= (uint64_t)MOMENTS * PARKS_EACH);
    end_pool(pool);
}

static void test_configuration(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) {
        assert_int_equal(percent_of(0, 50), WEFT_EXPECT_NONE);
        return;
    }
    assert_int_equal(percent_of(0, 0), 12);
    assert_int_equal(percent_of(0, 100), 100);
    assert_int_equal(percent_of(0, WEFT_SPIN_NONE), WEFT_EXPECT_NONE);
    assert_int_equal(percent_of(WEFT_EXPECT_NONE, 0), WEFT_EXPECT_NONE);
    assert_int_equal(percent_of(WEFT_EXPECT_NONE, 5), 5);
}

static int brief(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

/* What wakes cost is learned from the pool's own. */
static void test_wake_costs(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.expect_percent = WEFT_EXPECT_NONE;
    weft_pool *pool = make_pool_with(&config);
    weft_wake_costs costs = {.struct_size = 0};
    assert_int_equal(weft_pool_wake_costs(pool, &costs), WEFT_EINVAL);
    assert_int_equal(weft_pool_wake_costs(pool, NULL), WEFT_EINVAL);
    costs.struct_size = sizeof costs;
    assert_int_equal(weft_pool_wake_costs(NULL, &costs), WEFT_EINVAL);
    uint64_t known = 0;
    while (known == 0) {
        weft_group group = WEFT_GROUP_INIT;
        usleep(300);
        assert_int_equal(weft_submit(pool, &group, brief, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(weft_pool_wake_costs(pool, &costs), WEFT_OK);
        for (int i = 0; i < WEFT_SLEEP_CLASSES; i++) known += costs.run_ns[i];
        known += costs.run_here_ns;
    }
    assert_true(costs.send_ns > 0);
    assert_true(costs.spin_ns <= 50000);
    end_pool(pool);
}

static int turns(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    uint64_t until_ns = os_now_ns() + (end - begin) * 500;
    while (os_now_ns() < until_ns) os_pause();
    return 0;
}

/* Short loops wake nobody; when they recur, a worker gets up for them. */
static void test_loops(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nobody looks out");
    weft_pool *pool = pool_of(1, 100);
    const struct weft_worker *worker = load_rlx(&pool->seats[0]);
    while (load_rlx(&worker->expect_hits) == 0) {
        usleep(1000);
        assert_int_equal(weft_for(pool, (weft_range){0, 64, 1}, turns, NULL), WEFT_OK);
    }
    uint64_t told_ns = os_now_ns() + UINT64_C(3600000000000); /* what is said by hand stays, though loops go on */
    assert_int_equal(weft_pool_expect(pool, 1, told_ns), WEFT_OK);
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        assert_int_equal(weft_for(pool, (weft_range){0, 64, 1}, turns, NULL), WEFT_OK);
        assert_true(park_told(&pool->park, 0) == told_ns);
    }
    end_pool(pool);
}

/* Whoever wants none gets none, asked by hand or not. */
static void test_off(void **state) {
    (void)state;
    weft_pool *pool = pool_of(1, WEFT_EXPECT_NONE);
    for (int i = 0; i < 20; i++) {
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(weft_pool_expect(pool, 1, os_now_ns() + 1000000), WEFT_OK);
        usleep(2000);
        assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    assert_int_equal(misses_of(pool, 0), 0);
    assert_int_equal(load_rlx(&load_rlx(&pool->seats[0])->expect_hits), 0);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_by_hand), cmocka_unit_test(test_more_than_there_are),
        cmocka_unit_test(test_taken_back),    cmocka_unit_test(test_fewer),   cmocka_unit_test(test_told_at_all_times),
        cmocka_unit_test(test_configuration), cmocka_unit_test(test_spent),   cmocka_unit_test(test_off),
        cmocka_unit_test(test_wake_costs),    cmocka_unit_test(test_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
