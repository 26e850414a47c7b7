/* test_scarce.c: what weft.h says of pools that get fewer threads than they want, and of memory that tasks need.
 * test_faults.c has each call fail under everything else. */
#define _GNU_SOURCE
#include "fault_calls.h"
#include "pool_help.h"

static void arm(enum call call, unsigned first) {
    calls_arm(&(struct strike){.call = call, .error = EAGAIN, .first = first, .last = UINT32_MAX});
}

/* "When only some could, the pool runs with those." */
static void test_threads_run_out(void **state) {
    (void)state;
    enum { WORKERS = 6, TASKS = 100 };
    for (unsigned at = 1; at <= WORKERS + 1; at++) {
        weft_pool *pool = NULL;
        weft_config config = config_of(WORKERS);
        atomic_uint counter = 0;
        arm(CALL_THREAD, at);
        int error = weft_pool_create(&pool, &config);
        assert_int_equal(error, at == 1 ? WEFT_EAGAIN : WEFT_OK);
        assert_int_equal(weft_pool_workers(pool), at - 1);
        for (int i = 0; pool != NULL && i < TASKS; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
        calls_disarm();
        if (pool != NULL) end_pool(pool);
        assert_int_equal(atomic_load(&counter), at == 1 ? 0 : TASKS);
    }
}

/* A task that blocks while no spare can be started still goes on. */
static int block_task(void *payload, weft_worker *self) {
    atomic_uint *refused = *(atomic_uint **)payload;
    int error = weft_block_begin(self);
    REQUIRE(error == WEFT_EAGAIN || error == WEFT_OK);
    if (error == WEFT_EAGAIN) atomic_fetch_add(refused, 1);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}

static void test_no_spare_to_be_had(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint refused = 0, *pointer = &refused;
    arm(CALL_THREAD, 1);
    for (int i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, NULL, block_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    unsigned spares = stats_of(pool).spare_started_count;
    calls_disarm();
    assert_true(spares == 0 ? atomic_load(&refused) == 20 : spares == 1); /* or the spare was started ahead */
    end_pool(pool);
}

/* An empty pool costs nothing that grows with use: as many tasks again leave memory where it was. */
static void test_no_allocation_per_task(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    unsigned early = 0;
    for (int round = 0; round < 20; round++) {
        weft_group group = WEFT_GROUP_INIT;
        atomic_uint counter = 0, *pointer = &counter;
        unsigned char payload[416] = {0};
        memcpy(payload, &pointer, sizeof pointer);
        calls_arm(NULL);
        for (int i = 0; i < 500; i++)
            assert_int_equal(weft_submit(pool, &group, count_task, payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 500);
        if (round >= 10) early += calls_made(CALL_MALLOC) + calls_made(CALL_MAP);
    }
    assert_int_equal(early, 0);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_run_out),
        cmocka_unit_test(test_no_spare_to_be_had),
        cmocka_unit_test(test_no_allocation_per_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
