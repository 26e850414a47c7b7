/* test_rooms.c: a pool without prediction, patterns and observation: linked with the objects of os/, heap/ and sched/ and
 * the front alone, so that the linker says whether these call anything above them; and with tables that bind nothing. */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "help.h"
#include "front.h"

const struct sources sources = {.count = 0};
const struct predict_hooks predict = {.timed = NULL};
const struct observe_hooks observe = {.start = NULL};

enum { TASKS = 20000, CHILDREN = 8 };

struct work {
    weft_pool *pool;
    atomic_uint ran;
};

static int leaf(void *payload, weft_worker *self) {
    struct work *work = *(struct work **)payload;
    (void)self;
    atomic_fetch_add(&work->ran, 1);
    return 0;
}

/* Waits inside: the wait helps, or its thread sleeps and is woken. */
static int parent(void *payload, weft_worker *self) {
    struct work *work = *(struct work **)payload;
    weft_group group = WEFT_GROUP_INIT;
    (void)self;
    for (int i = 0; i < CHILDREN; i++)
        if (weft_submit(work->pool, &group, leaf, &work, sizeof work) != WEFT_OK) return 1;
    return weft_group_wait(work->pool, &group);
}

static struct work *pool_begin(struct work *work, uint32_t workers, uint32_t flags) {
    weft_config config;
    weft_config_init(&config);
    config.workers = workers;
    config.flags = flags;
    atomic_store(&work->ran, 0);
    assert_int_equal(weft_pool_create(&work->pool, &config), WEFT_OK);
    return work;
}

static void pool_end(struct work *work) {
    assert_int_equal(weft_pool_destroy(&work->pool), WEFT_OK);
    assert_null(work->pool);
}

static void run(uint32_t workers, uint32_t flags) {
    struct work work, *pointer = pool_begin(&work, workers, flags);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(weft_submit(work.pool, &group, leaf, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(work.pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&work.ran), TASKS);
    /* where waits do not help, many at once inside tasks want more spares than there are, and are refused */
    for (int i = 0; flags == 0 && i < TASKS / CHILDREN; i++)
        assert_int_equal(weft_submit(work.pool, &group, parent, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(work.pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&work.ran), flags == 0 ? 2 * TASKS : TASKS);
    pool_end(&work);
}

static void test_helping(void **state) {
    (void)state;
    run(1, 0);
    run(3, 0);
}
static void test_ordered(void **state) {
    (void)state;
    run(2, WEFT_POOL_ORDERED);
}
static void test_no_help(void **state) {
    (void)state;
    run(3, WEFT_POOL_NO_HELP);
}

/* Each task is submitted when all sleep, or are about to. */
static void test_woken(void **state) {
    (void)state;
    struct work work, *pointer = pool_begin(&work, 2, WEFT_POOL_NO_HELP);
    for (unsigned i = 1; i <= 200; i++) {
        weft_group group = WEFT_GROUP_INIT;
        if (i % 4 == 0) usleep(200);
        assert_int_equal(weft_submit(work.pool, &group, leaf, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(work.pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&work.ran), i);
    }
    pool_end(&work);
}

/* What is queued runs before the pool ends; deadlines, priorities and a bounded queue need no room above either. */
static void test_ends(void **state) {
    (void)state;
    struct work work, *pointer = pool_begin(&work, 2, 0);
    weft_group urgent = WEFT_GROUP_INIT, behind = WEFT_GROUP_INIT;
    urgent.flags = WEFT_GROUP_URGENT;
    behind.flags = WEFT_GROUP_BACKGROUND;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(weft_submit(work.pool, &urgent, leaf, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_submit(work.pool, &behind, leaf, &pointer, sizeof pointer), WEFT_OK);
    }
    weft_pool *pool = work.pool;
    assert_int_equal(weft_group_wait(pool, &urgent), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &behind), WEFT_OK);
    for (int i = 0; i < 100; i++) assert_int_equal(weft_submit(pool, NULL, leaf, &pointer, sizeof pointer), WEFT_OK);
    pool_end(&work);
    assert_int_equal(atomic_load(&work.ran), 300);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_helping), cmocka_unit_test(test_ordered), cmocka_unit_test(test_no_help),
        cmocka_unit_test(test_woken),   cmocka_unit_test(test_ends),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
