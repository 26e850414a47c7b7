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

/* A loop of a task on the one worker: unit 0 is the caller's; then a wait comes in, at unit 8, and another, for which the loop
 * has no subrange: at unit 4, with those up to 7 in hand. */
enum { PARTED = 16, PARTED_CALLER = 0, PARTED_LAST = 4, PARTED_FIRST = 8 };
static struct {
    weft_pool *pool;
    weft_group group;
    sem_t entered[PARTED], opened[PARTED];
    atomic_uint ran[PARTED];
    int result;
} parted;

static int parted_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) {
        bool stays = i == PARTED_CALLER || i == PARTED_LAST || i == PARTED_FIRST;
        if (stays) sem_post(&parted.entered[i]);
        if (stays) await(&parted.opened[i]);
        atomic_fetch_add(&parted.ran[i], 1);
        if (i == PARTED_FIRST) return 77;
    }
    return 0;
}
static int parted_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    parted.result = weft_for(parted.pool, (weft_range){0, PARTED, 1}, parted_body, NULL);
    return 0;
}
static void *parted_wait(void *argument) {
    (void)argument;
    REQUIRE(weft_group_wait(parted.pool, &parted.group) == WEFT_ECANCELED || parted.group.id == 0);
    return NULL;
}

static void test_what_a_late_helper_had_in_hand(void **state) {
    (void)state;
    pthread_t threads[2];
    memset(&parted, 0, sizeof parted);
    for (int i = 0; i < PARTED; i++) {
        REQUIRE(sem_init(&parted.entered[i], 0, 0) == 0);
        REQUIRE(sem_init(&parted.opened[i], 0, 0) == 0);
    }
    parted.pool = make_pool(1);
    assert_int_equal(weft_submit(parted.pool, &parted.group, parted_task, NULL, 0), WEFT_OK);
    await(&parted.entered[PARTED_CALLER]);
    REQUIRE(pthread_create(&threads[0], NULL, parted_wait, NULL) == 0);
    await(&parted.entered[PARTED_FIRST]);
    REQUIRE(pthread_create(&threads[1], NULL, parted_wait, NULL) == 0);
    await(&parted.entered[PARTED_LAST]);
    sem_post(&parted.opened[PARTED_FIRST]);
    sem_post(&parted.opened[PARTED_CALLER]);
    for (int i = 1; i < PARTED_LAST; i++)
        while (atomic_load(&parted.ran[i]) == 0) sched_yield();
    assert_int_equal(weft_group_cancel(parted.pool, &parted.group), WEFT_OK);
    sem_post(&parted.opened[PARTED_LAST]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = PARTED_LAST + 1; i < PARTED_FIRST; i++) assert_int_equal(atomic_load(&parted.ran[i]), 0);
    assert_int_equal(parted.result, WEFT_ECANCELED); /* not the error of a unit above these */
    end_pool(parted.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancelled_group_ends_the_loop),
        cmocka_unit_test(test_failure_above_what_was_cancelled),
        cmocka_unit_test(test_what_a_late_helper_had_in_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
