/* test_bound_ends.c: a full queue, whose tasks run at once, beside groups that have failed and pools that are aborted. */
#define _GNU_SOURCE
#include "pool_help.h"

static int failing_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 7;
}

static weft_pool *make_bounded(uint32_t full) {
    weft_config config = config_of(1);
    config.queue_max = 1;
    config.full = full;
    return make_pool_with(&config);
}

/* The queue is full: a task runs as it is submitted. After one has failed those are refused, as queued ones are dropped. */
static void test_failed_group_runs_nothing_more(void **state) {
    (void)state;
    weft_pool *pool = make_bounded(WEFT_FULL_RUN);
    weft_group gates = WEFT_GROUP_INIT, group = {0, WEFT_GROUP_CANCEL_ON_ERROR, 0};
    atomic_uint count = 0;
    atomic_uint *counter = &count;
    gate g;
    gate_occupy(&g, pool, &gates);
    assert_int_equal(weft_submit(pool, &gates, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
    assert_int_equal(atomic_load(&count), 1);
    assert_int_equal(weft_submit(pool, &group, failing_task, NULL, 0), WEFT_OK);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_ECANCELED);
    assert_int_equal(weft_run(pool, &group, count_task, &counter), WEFT_ECANCELED);
    assert_int_equal(atomic_load(&count), 1);
    assert_int_equal(weft_group_wait(pool, &group), 7);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK); /* it has ended */
    assert_int_equal(atomic_load(&count), 2);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    end_pool(pool);
}

/* A continuation of a group that has finished, though nobody has waited for it, needs a place in the queue like any task. */
static void test_continuation_of_a_finished_group(void **state) {
    (void)state;
    weft_pool *pool = make_bounded(WEFT_FULL_ERROR);
    weft_group gates = WEFT_GROUP_INIT, first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    const weft_after after = {&first, &then};
    atomic_uint count = 0;
    atomic_uint *counter = &count;
    gate g;
    assert_int_equal(submit_count(pool, &first, &count), WEFT_OK);
    while (stats_of(pool).task_run_count == 0) sched_yield(); /* counted as run, so `first` has finished */
    gate_occupy(&g, pool, &gates);
    assert_int_equal(weft_submit(pool, &gates, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, after, count_task, &counter, sizeof counter), WEFT_EFULL);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, after, count_task, &counter, sizeof counter), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    assert_int_equal(atomic_load(&count), 2);
    end_pool(pool);
}

/* ---- graphs from outside, which only workers may run ----------------------------------------------------------------- */

static struct {
    weft_pool *pool;
    weft_graph *graph;
    atomic_int thread, result;
} outside;

static void *graph_thread(void *argument) {
    (void)argument;
    atomic_store(&outside.thread, thread_id());
    atomic_store(&outside.result, weft_graph_run(outside.pool, outside.graph));
    return NULL;
}

/* A bound on what waits is none for a graph, as it is none for a loop. */
static void test_graph_of_a_full_pool(void **state) {
    (void)state;
    weft_config config = config_of(1);
    weft_group gates = WEFT_GROUP_INIT;
    pthread_t thread;
    gate g;
    config.queue_max = 1;
    config.full = WEFT_FULL_ERROR;
    config.flags = WEFT_POOL_NO_HELP;
    memset(&outside, 0, sizeof outside);
    atomic_store(&outside.result, 1);
    outside.pool = make_pool_with(&config);
    assert_int_equal(weft_graph_create(&outside.graph), WEFT_OK);
    assert_int_equal(weft_graph_add(outside.graph, NULL, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_build(outside.graph, NULL), WEFT_OK);
    gate_occupy(&g, outside.pool, &gates);
    assert_int_equal(weft_submit(outside.pool, &gates, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit(outside.pool, &gates, empty_task, NULL, 0), WEFT_EFULL);
    REQUIRE(pthread_create(&thread, NULL, graph_thread, NULL) == 0);
    while (atomic_load(&outside.result) == 1 &&
           (atomic_load(&outside.thread) == 0 || !thread_sleeps((pid_t)atomic_load(&outside.thread))))
        sched_yield();
    gate_open(&g);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&outside.result), WEFT_OK);
    assert_int_equal(weft_group_wait(outside.pool, &gates), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&outside.graph), WEFT_OK);
    end_pool(outside.pool);
}

/* Where waits may help, who runs a graph from outside runs its nodes: the one worker is busy until it is done. */
static void test_graph_beside_a_busy_worker(void **state) {
    (void)state;
    weft_config config = config_of(1);
    weft_group gates = WEFT_GROUP_INIT;
    weft_graph *graph;
    gate g;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_graph_create(&graph), WEFT_OK);
    assert_int_equal(weft_graph_add(graph, NULL, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_build(graph, NULL), WEFT_OK);
    gate_occupy(&g, pool, &gates);
    uint64_t before = stats_of(pool).task_helped_count;
    assert_int_equal(weft_graph_run(pool, graph), WEFT_OK);
    assert_int_equal(stats_of(pool).task_helped_count, before); /* not queued and then found again: it is the call's own */
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
    end_pool(pool);
}

/* ---- abort -------------------------------------------------------------------------------------------------------- */

static struct {
    weft_pool *pool;
    sem_t entered, opened;
    atomic_uint ran, cleaned;
    int waited;
} aborted;

static void count_clean(void *payload, size_t size, void *context) {
    (void)payload, (void)size, (void)context;
    atomic_fetch_add(&aborted.cleaned, 1);
}

static void *abort_thread(void *argument) {
    weft_pool *pool = argument;
    REQUIRE(weft_pool_abort(&pool, count_clean, NULL) == WEFT_OK);
    return NULL;
}

/* A task that submits two when the pool has been aborted, and waits for them: they never run, and the wait says so. */
static int submitting_task(void *payload, weft_worker *self) {
    (void)payload;
    weft_group children = WEFT_GROUP_INIT;
    weft_pool *pool = weft_worker_pool(self);
    sem_post(&aborted.entered);
    await(&aborted.opened);
    for (int i = 0; i < 2; i++) REQUIRE(submit_count(pool, &children, &aborted.ran) == WEFT_OK);
    aborted.waited = weft_group_wait(pool, &children);
    return 0;
}

static void abort_bounded(uint32_t full) {
    pthread_t thread;
    weft_group group = WEFT_GROUP_INIT;
    memset(&aborted, 0, sizeof aborted);
    REQUIRE(sem_init(&aborted.entered, 0, 0) == 0 && sem_init(&aborted.opened, 0, 0) == 0);
    aborted.pool = make_bounded(full);
    assert_int_equal(weft_submit(aborted.pool, NULL, submitting_task, NULL, 0), WEFT_OK);
    await(&aborted.entered);
    REQUIRE(pthread_create(&thread, NULL, abort_thread, aborted.pool) == 0);
    /* until it is closed */
    while (weft_run(aborted.pool, &group, empty_task, NULL) == WEFT_OK) sched_yield();
    sem_post(&aborted.opened);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&aborted.ran), 0);
    assert_int_equal(atomic_load(&aborted.cleaned), 2);
    assert_int_equal(aborted.waited, WEFT_ECANCELED);
}

static void test_abort_starts_nothing_where_it_is_full(void **state) {
    (void)state;
    abort_bounded(WEFT_FULL_RUN);
    abort_bounded(WEFT_FULL_BLOCK);
    abort_bounded(WEFT_FULL_ERROR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_group_runs_nothing_more),
        cmocka_unit_test(test_continuation_of_a_finished_group),
        cmocka_unit_test(test_graph_of_a_full_pool),
        cmocka_unit_test(test_graph_beside_a_busy_worker),
        cmocka_unit_test(test_abort_starts_nothing_where_it_is_full),
    };
    return cmocka_run_group_tests_name("bound ends", tests, NULL, NULL);
}
