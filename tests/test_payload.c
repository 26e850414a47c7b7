/* test_payload.c: what a task gets is what was passed to submit, byte for byte, of every size and by every way in. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { SIZE_MAX_TRIED = WEFT_INLINE_MAX + 40 };

/* Where the task of each size finds what it is to have. The size is told by the function's own group alone. */
static unsigned char wanted[SIZE_MAX_TRIED];
static size_t size_now;
static atomic_uint ran;

static unsigned char byte_at(size_t i, size_t size) { return (unsigned char)(i * 37 + size * 11 + 1); }

static int compare_task(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(payload != NULL && (uintptr_t)payload % 16 == 0);
    REQUIRE(memcmp(payload, wanted, size_now) == 0);
    atomic_fetch_add(&ran, 1);
    return 0;
}

static int child_task(void *payload, weft_worker *self) {
    REQUIRE(memcmp(payload, wanted, size_now) == 0);
    REQUIRE(weft_submit_child(self, compare_task, wanted, size_now) == WEFT_OK);
    atomic_fetch_add(&ran, 1);
    return 0;
}

/* The bytes around what is passed are others, and so are those that an earlier task left in the cell. */
static void submit_sizes(weft_pool *pool, size_t most) {
    unsigned char around[SIZE_MAX_TRIED + 2];
    for (size_t size = 1; size <= most; size++) {
        weft_group group = WEFT_GROUP_INIT;
        memset(around, 0x5a, sizeof around);
        for (size_t i = 0; i < size; i++) around[1 + i] = wanted[i] = byte_at(i, size);
        size_now = size;
        atomic_store(&ran, 0);
        for (int i = 0; i < 3; i++) /* the first opens the group, the others find its lane at hand */
            assert_int_equal(weft_submit(pool, &group, compare_task, around + 1, size), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, child_task, around + 1, size), WEFT_OK);
        memset(around, 0xa5, sizeof around); /* a copy was taken */
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&ran), 5);
    }
}

static void test_sizes(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (int i = 0; i < 5; i++) submit_sizes(pool, SIZE_MAX_TRIED);
    end_pool(pool);
}

/* A bounded queue: tasks that found it full run at once. */
static void test_sizes_bounded(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.queue_max = 2;
    config.full = WEFT_FULL_RUN;
    weft_pool *pool = make_pool_with(&config);
    submit_sizes(pool, 200);
    end_pool(pool);
}

static int fails_early(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 4;
}
static int fails_late(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 5;
}

/* Of two errors that of the task submitted first, whatever its payload is. */
static void test_first_error(void **state) {
    static const size_t sizes[] = {0, 1, WEFT_INLINE_MAX, WEFT_INLINE_MAX + 1};
    const unsigned char bytes[WEFT_INLINE_MAX + 1] = {0};
    (void)state;
    weft_pool *pool = make_pool(1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(weft_submit(pool, &group, fails_early, sizes[i] == 0 ? NULL : bytes, sizes[i]), WEFT_OK);
        assert_int_equal(weft_submit(pool, &group, fails_late, bytes, 8), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), 4);
    }
    end_pool(pool);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_sizes_bounded),
                                       cmocka_unit_test(test_first_error)};
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
