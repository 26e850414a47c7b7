/* test_loop_bounded.c: loops from outside in a bounded pool whose own threads alone run anything: a full queue refuses none,
 * and no body runs on the caller. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { COUNT = 100 };

static struct {
    weft_pool *pool;
    atomic_int caller; /* its thread */
    atomic_int is_done;
    unsigned run[COUNT];
    int items[COUNT];
} scene;

static int count_range(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    REQUIRE(weft_worker_here() == self); /* a worker */
    for (size_t i = begin; i < end; i++) scene.run[i]++;
    return 0;
}
static int count_tile(const weft_tile *tile, void *context, weft_worker *self) {
    return count_range(tile->row_begin, tile->row_end, context, self);
}
static int sum_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    *(uint64_t *)value = end - begin;
    return count_range(begin, end, context, self);
}
static void sum_combine(void *left, const void *right, void *context) {
    (void)context;
    *(uint64_t *)left += *(const uint64_t *)right;
}
static int compare(const void *left, const void *right, void *context) {
    (void)context;
    return *(const int *)left - *(const int *)right;
}

static int loop(void) { return weft_for(scene.pool, (weft_range){0, COUNT, 1}, count_range, NULL); }
static int tiles(void) { return weft_for_tiles(scene.pool, (weft_tiles){{0, COUNT, 1}, {0, 1, 1}}, count_tile, NULL); }
static int reduction(void) {
    uint64_t sum = 0;
    const weft_reduction how = {.size = sizeof sum, .leaf = sum_leaf, .combine = sum_combine};
    int error = weft_reduce(scene.pool, (weft_range){0, COUNT, 1}, &how, &sum);
    return error != WEFT_OK || sum == COUNT ? error : 1;
}
static int sorting(void) {
    const weft_order order = {sizeof(int), compare, NULL};
    for (int i = 0; i < COUNT; i++) scene.items[i] = COUNT - i;
    int error = weft_sort(scene.pool, scene.items, COUNT, &order);
    return error != WEFT_OK || scene.items[0] == 1 ? error : 1;
}

static void *call(void *argument) {
    int (*const what)(void) = *(int (**)(void))argument;
    atomic_store(&scene.caller, (int)thread_id());
    int error = what();
    atomic_store(&scene.is_done, 1);
    return (void *)(intptr_t)error;
}

static void check(uint32_t full, int (*what)(void)) {
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.queue_max = 1;
    config.full = full;
    memset(&scene, 0, sizeof scene);
    scene.pool = make_pool_with(&config);
    gate g;
    weft_group group = WEFT_GROUP_INIT;
    gate_occupy(&g, scene.pool, &group);
    assert_int_equal(weft_submit(scene.pool, &group, empty_task, NULL, 0), WEFT_OK); /* the queue is full */
    pthread_t thread;
    void *error;
    assert_int_equal(pthread_create(&thread, NULL, call, &what), 0);
    while (atomic_load(&scene.caller) == 0) sched_yield();
    while (!thread_sleeps(atomic_load(&scene.caller)) && !atomic_load(&scene.is_done)) nap();
    gate_open(&g);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_int_equal((intptr_t)error, WEFT_OK);
    for (size_t i = 0; i < COUNT && what != sorting; i++) assert_int_equal(scene.run[i], 1);
    assert_int_equal(weft_group_wait(scene.pool, &group), WEFT_OK);
    assert_int_equal(weft_submit(scene.pool, &group, empty_task, NULL, 0), WEFT_OK); /* its place is free again */
    assert_int_equal(weft_group_wait(scene.pool, &group), WEFT_OK);
    end_pool(scene.pool);
}

static void check_all(int (*what)(void)) {
    check(WEFT_FULL_ERROR, what);
    check(WEFT_FULL_RUN, what);
    check(WEFT_FULL_BLOCK, what);
}
static void test_loop(void **state) {
    (void)state;
    check_all(loop);
}
static void test_tiles(void **state) {
    (void)state;
    check_all(tiles);
}
static void test_reduction(void **state) {
    (void)state;
    check_all(reduction);
}
static void test_sort(void **state) {
    (void)state;
    check_all(sorting);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_reduction),
        cmocka_unit_test(test_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
