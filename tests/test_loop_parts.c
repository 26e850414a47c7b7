/* test_loop_parts.c: into how many parts a loop is cut, and who may take them. */
#define _GNU_SOURCE
#include "pool_help.h"

static int empty_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    return 0;
}

/* A loop whose memory was made while the pool had one worker, in a pool that has three again: whatever part of it a worker
 * has taken, others can take from. Each worker stays in its first call until everything else has begun. */
enum { GROWN_UNITS = 64, GROWN_NAPS = 2000 };
struct grown {
    pthread_t caller;
    atomic_uint begun, helpers, kept; /* kept: calls that waited in vain */
};
static int grown_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct grown *grown = context;
    (void)self;
    atomic_fetch_add(&grown->begun, (unsigned)(end - begin));
    bool is_helper = !pthread_equal(pthread_self(), grown->caller);
    if (is_helper) atomic_fetch_add(&grown->helpers, 1);
    unsigned naps = 0;
    while (naps < GROWN_NAPS && (is_helper ? atomic_load(&grown->begun) < GROWN_UNITS : atomic_load(&grown->helpers) < 3)) {
        nap();
        naps++;
    }
    if (naps == GROWN_NAPS) atomic_fetch_add(&grown->kept, 1);
    return 0;
}
static void test_pool_that_grows(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    assert_int_equal(weft_pool_resize(pool, 1), WEFT_OK);
    assert_int_equal(weft_for(pool, (weft_range){0, 8, 1}, empty_body, NULL), WEFT_OK);
    assert_int_equal(weft_pool_resize(pool, 3), WEFT_OK);
    struct grown grown = {.caller = pthread_self()};
    assert_int_equal(weft_for(pool, (weft_range){0, GROWN_UNITS, 1}, grown_body, &grown), WEFT_OK);
    assert_int_equal(atomic_load(&grown.begun), GROWN_UNITS);
    assert_int_equal(atomic_load(&grown.kept), 0);
    end_pool(pool);
}

/* A body that takes as long for any number of indices: the memory of it must not cut the next loop to pieces. */
static int count_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)self;
    atomic_fetch_add((atomic_uint *)context, 1);
    return 0;
}
static void test_few_calls_for_a_huge_range(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    static const size_t counts[] = {SIZE_MAX, SIZE_MAX / 20, (size_t)1 << 50};
    atomic_uint calls = 0;
    for (unsigned i = 0; i < 9; i++) {
        atomic_store(&calls, 0);
        assert_int_equal(weft_for(pool, (weft_range){0, counts[i / 3], 0}, count_body, &calls), WEFT_OK);
        assert_in_range(atomic_load(&calls), 1, 100000);
    }
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_that_grows),
        cmocka_unit_test(test_few_calls_for_a_huge_range),
    };
    return cmocka_run_group_tests_name("loop parts", tests, NULL, NULL);
}
