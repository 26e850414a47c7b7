/* test_edges.c: what the interface promises at its edges: the largest and the smallest that is taken, and what only another
 * path through the library would show. And lanes, which no result shows. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"
#include "shortage.h"

/* A size is refused or taken by itself, whether the task is held or not. */
static void test_sizes_of_continuation_tasks(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    const weft_after after = {&first, &then};
    static unsigned char bytes[16];
    gate g;
    gate_occupy(&g, pool, &first);
    assert_int_equal(weft_submit_after(pool, after, empty_task, bytes, (size_t)WEFT_PAYLOAD_MAX + 1), WEFT_EINVAL);
    shortage_begin(1, true);
    assert_int_equal(weft_submit_after(pool, after, empty_task, bytes, WEFT_PAYLOAD_MAX), WEFT_ENOMEM);
    shortage_end();
    assert_int_equal(weft_submit_after(pool, after, empty_task, NULL, (size_t)WEFT_PAYLOAD_MAX + 1), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

static atomic_uint large_runs, large_ends;
struct large {
    unsigned char bytes[112]; /* the largest that weft_submit_after_object takes */
};
static int large_run(void *payload, weft_worker *self) {
    const struct large *large = payload;
    for (size_t i = 0; i < sizeof large->bytes; i++) REQUIRE(large->bytes[i] == i);
    atomic_fetch_add(self == NULL ? &large_ends : &large_runs, 1);
    return 0;
}
static const weft_object large_type = {sizeof(struct large), large_run, NULL};

/* Held or not, an object runs, or is ended by its own function when the task will never run. */
static void test_objects_after_a_group(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group busy = WEFT_GROUP_INIT, idle = WEFT_GROUP_INIT, kept = WEFT_GROUP_INIT, dropped = WEFT_GROUP_INIT;
    weft_group *const before[] = {&idle, &busy};
    struct large large;
    for (size_t i = 0; i < sizeof large.bytes; i++) large.bytes[i] = (unsigned char)i;
    for (int i = 0; i < 2; i++) {
        gate g;
        atomic_store(&large_runs, 0);
        atomic_store(&large_ends, 0);
        gate_occupy(&g, pool, &busy);
        assert_int_equal(weft_submit_after_object(pool, (weft_after){before[i], &kept}, &large_type, &large), WEFT_OK);
        assert_int_equal(weft_submit_after_object(pool, (weft_after){before[i], &dropped}, &large_type, &large), WEFT_OK);
        assert_int_equal(weft_group_cancel(pool, &dropped), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &kept), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &dropped), WEFT_ECANCELED);
        assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
        assert_int_equal(atomic_load(&large_runs), 1);
        assert_int_equal(atomic_load(&large_ends), 1);
    }
    end_pool(pool);
}

/* ---- a waiter that could help by now ------------------------------------------------------------------------------ */

struct waiter {
    weft_pool *pool;
    weft_group *group;
    atomic_int thread;
    int result;
};
static void *wait_asleep(void *argument) {
    struct waiter *waiter = argument;
    atomic_store(&waiter->thread, thread_id());
    waiter->result = weft_group_wait(waiter->pool, waiter->group);
    return NULL;
}
static int open_task(void *payload, weft_worker *self) {
    (void)self;
    gate_open(*(gate **)payload);
    return 0;
}

/* The only worker is busy with a task of the group that a thread waits for, asleep. A task of another group comes, and one
 * that starts after it and belongs to the first: now the sleeper may run both, and nobody else can. */
static void test_waiter_helps_before(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    struct waiter waiter = {.pool = pool, .group = &then};
    gate g, *pointer = &g;
    atomic_uint counter = 0;
    pthread_t thread;
    gate_occupy(&g, pool, &then);
    assert_int_equal(pthread_create(&thread, NULL, wait_asleep, &waiter), 0);
    while (atomic_load(&waiter.thread) == 0 || !thread_sleeps(atomic_load(&waiter.thread))) sched_yield();
    assert_int_equal(submit_count(pool, &first, &counter), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, open_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.result, WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

/* Many groups at once leave few lanes in sight of those who look for work, and their lanes serve the next ones. */
static void test_lanes_after_many_groups(void **state) {
    (void)state;
    enum { GROUPS = 200, KEPT = 16 };
    static weft_group groups[GROUPS];
    weft_pool *pool = make_pool(1);
    atomic_uint counter = 0;
    for (int round = 0; round < 10; round++) {
        weft_group first = WEFT_GROUP_INIT;
        gate g;
        gate_occupy(&g, pool, &first);
        for (int i = 0; i < GROUPS; i++) assert_int_equal(submit_count(pool, &groups[i], &counter), WEFT_OK);
        gate_open(&g);
        for (int i = 0; i < GROUPS; i++)
            assert_int_equal(weft_group_wait_until(pool, &groups[i], WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        const struct weft_worker *seat = os_self_get()->worker;
        unsigned in_sight = 0;
        for (const struct lane *lane = worker_lanes(seat); lane != NULL; lane = load_rlx(&lane->next)) in_sight++;
        assert_int_equal(in_sight, KEPT);
        assert_true(load_rlx(&seat->lanes_made) <= (GROUPS + 1) * 9 / 7);
    }
    assert_int_equal(atomic_load(&counter), 10 * GROUPS);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_continuation_tasks),
        cmocka_unit_test(test_objects_after_a_group),
        cmocka_unit_test(test_waiter_helps_before),
        cmocka_unit_test(test_lanes_after_many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
