/* test_loop_cancel.c: loops in tasks of groups that are cancelled, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { CUT = 600 };

struct cancelled {
    weft_pool *pool;
    weft_group *group;
    int result;
    atomic_uint calls;
    atomic_uint ran[CUT];
    atomic_bool has_failed, is_cancelled;
};

static int cancelling_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct cancelled *cancelled = context;
    (void)begin;
    (void)end;
    if (atomic_fetch_add(&cancelled->calls, 1) == 2)
        REQUIRE(weft_group_cancel(cancelled->pool, cancelled->group) == WEFT_OK);
    (void)weft_worker_cancelled(self);
    return 0;
}

static int cancelled_task(void *payload, weft_worker *self) {
    (void)self;
    struct cancelled *cancelled = *(struct cancelled **)payload;
    cancelled->result = weft_for(cancelled->pool, (weft_range){0, SIZE_MAX, 1}, cancelling_body, cancelled);
    return 0;
}

static void test_cancelled_group_ends_the_loop(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers += workers) {
        weft_pool *pool = make_pool(workers);
        weft_group group = WEFT_GROUP_INIT;
        struct cancelled cancelled = {.pool = pool, .group = &group};
        struct cancelled *pointer = &cancelled;
        assert_int_equal(weft_submit(pool, &group, cancelled_task, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
        assert_int_equal(cancelled.result, WEFT_ECANCELED);
        assert_true(atomic_load(&cancelled.calls) >= 3);
        end_pool(pool);
    }
}

static void look_for(atomic_bool *flag) {
    for (int i = 0; i < 100000 && !atomic_load(flag); i++) sched_yield();
}
/* The first call cancels the group when a call of the upper half has failed, or none comes; those between wait for that. */
static int cut_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct cancelled *cancelled = context;
    (void)self;
    for (size_t i = begin; i < end; i++) atomic_fetch_add(&cancelled->ran[i], 1);
    if (begin >= CUT / 2) {
        atomic_store(&cancelled->has_failed, true);
        return (int)begin;
    }
    look_for(begin == 0 ? &cancelled->has_failed : &cancelled->is_cancelled);
    if (begin > 0) return 0;
    REQUIRE(weft_group_cancel(cancelled->pool, cancelled->group) == WEFT_OK);
    atomic_store(&cancelled->is_cancelled, true);
    return 0;
}

static int cut_task(void *payload, weft_worker *self) {
    (void)self;
    struct cancelled *cancelled = *(struct cancelled **)payload;
    cancelled->result = weft_for(cancelled->pool, (weft_range){0, CUT, 1}, cut_body, cancelled);
    return 0;
}

static void test_failure_above_what_was_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    for (int round = 0; round < 50; round++) {
        weft_group group = WEFT_GROUP_INIT;
        struct cancelled cancelled = {.pool = pool, .group = &group};
        struct cancelled *pointer = &cancelled;
        assert_int_equal(weft_submit(pool, &group, cut_task, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
        assert_true(cancelled.result == WEFT_ECANCELED || cancelled.result >= CUT / 2);
        for (int i = 0; i <= cancelled.result; i++) assert_int_equal(atomic_load(&cancelled.ran[i]), 1);
    }
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancelled_group_ends_the_loop),
        cmocka_unit_test(test_failure_above_what_was_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
