/* test_pool_hooks.c: start and stop hooks that use their pool: submit to it, block in it, resize it. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <sched.h>

#define WORKERS 8u

static struct {
    atomic_uint starts[2 * WORKERS]; /* of each seat */
    atomic_uint counted;
    atomic_bool is_created, was_early, is_spare_here;
    atomic_int submitted, blocked;
} seen;

static void forget(void) { memset(&seen, 0, sizeof seen); }

/* ---- where they run ------------------------------------------------------------------------------------------------ */

static cpu_set_t starts_on;

static void note_cpus(weft_worker *self, void *context) {
    (void)context;
    if (weft_worker_index(self) == 1) REQUIRE(sched_getaffinity(0, sizeof starts_on, &starts_on) == 0);
}

static void keep_to(const cpu_set_t *cpus) { REQUIRE(sched_setaffinity(0, sizeof *cpus, cpus) == 0); }

/* One that a thread with other CPUs starts later has those of the worker that is there. */
static void test_a_later_worker_has_the_firsts_cpus(void **state) {
    (void)state;
    cpu_set_t before, one;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    if (CPU_COUNT(&before) < 2) SKIP("one CPU: whose it has cannot be told");
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    keep_to(&one);
    weft_config config = config_of(0);
    config.start = note_cpus;
    weft_pool *pool = make_pool_with(&config);
    keep_to(&before);
    assert_int_equal(weft_pool_workers(pool), 1);
    assert_int_equal(weft_pool_resize(pool, 2), WEFT_OK);
    end_pool(pool);
    assert_true(CPU_EQUAL(&starts_on, &one));
}

/* ---- start -------------------------------------------------------------------------------------------------------- */

static int blocking_task(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    while (!atomic_load(&seen.is_spare_here)) nap();
    REQUIRE(weft_block_end(self) == WEFT_OK);
    return 0;
}

/* The first worker's task calls a spare, whose hook is over before the second worker's. */
static void start_beside_spare(weft_worker *self, void *context) {
    (void)context;
    unsigned index = weft_worker_index(self);
    if (index == 0) REQUIRE(weft_submit(weft_worker_pool(self), NULL, blocking_task, NULL, 0) == WEFT_OK);
    if (index > 1) atomic_store(&seen.is_spare_here, true);
    if (index != 1) return;
    while (!atomic_load(&seen.is_spare_here)) nap();
    for (int i = 0; i < 100 && !atomic_load(&seen.is_created); i++) nap(); /* create waits for this hook */
    atomic_store(&seen.was_early, atomic_load(&seen.is_created));
}

static void test_create_waits_for_each_hook(void **state) {
    (void)state;
    forget();
    weft_config config = config_of(2);
    config.start = start_beside_spare;
    weft_pool *pool = make_pool_with(&config);
    atomic_store(&seen.is_created, true);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    end_pool(pool);
    assert_false(atomic_load(&seen.was_early));
}

static void start_and_resize(weft_worker *self, void *context) {
    (void)context;
    unsigned index = weft_worker_index(self);
    REQUIRE(index < WORKERS && atomic_fetch_add(&seen.starts[index], 1) == 0);
    if (index == 0) REQUIRE(weft_pool_resize(weft_worker_pool(self), WORKERS) == WEFT_OK);
}

/* Create is starting the others meanwhile. */
static void test_start_hook_resizes(void **state) {
    (void)state;
    for (int round = 0; round < 100; round++) {
        forget();
        weft_config config = config_of(WORKERS);
        config.start = start_and_resize;
        weft_pool *pool = make_pool_with(&config);
        for (unsigned i = 0; i < WORKERS; i++) assert_int_equal(atomic_load(&seen.starts[i]), 1);
        assert_int_equal(weft_pool_workers(pool), WORKERS);
        end_pool(pool);
    }
}

/* ---- stop --------------------------------------------------------------------------------------------------------- */

static void stop_and_submit(weft_worker *self, void *context) {
    (void)context;
    weft_pool *pool = weft_worker_pool(self);
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    atomic_uint *counter = &seen.counted;
    int error = submit_count(pool, NULL, counter);
    REQUIRE(submit_count(pool, &group, counter) == error && weft_group_wait(pool, &group) == WEFT_OK);
    REQUIRE(weft_submit_after(pool, (weft_after){&group, &other}, count_task, &counter, sizeof counter) == error);
    /* Others meet the bound meanwhile. */
    for (int i = 0; i < 1000; i++) REQUIRE(submit_count(pool, &group, counter) == error);
    REQUIRE(weft_group_wait_until(pool, &other, WEFT_HELP_NONE, 0) == WEFT_OK);
    atomic_store(&seen.submitted, error);
}

/* What a stop hook submits nobody would run: it is told so. */
static void test_stop_hook_submits(void **state) {
    (void)state;
    static const uint32_t flags[] = {0, WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED};
    for (size_t i = 0; i < 6; i++) {
        forget();
        weft_config config = config_of(WORKERS);
        config.stop = stop_and_submit;
        config.flags = flags[i / 2];
        config.queue_max = i % 2; /* 0: no bound */
        end_pool(make_pool_with(&config));
        assert_int_equal(atomic_load(&seen.submitted), WEFT_ESHUTDOWN);
        assert_int_equal(atomic_load(&seen.counted), 0);
    }
}

static void stop_and_block(weft_worker *self, void *context) {
    (void)context;
    atomic_store(&seen.blocked, weft_block_begin(self));
    REQUIRE(weft_block_end(self) == WEFT_OK);
}

/* A spare that came then would outlive its pool. */
static void test_stop_hook_blocks(void **state) {
    (void)state;
    forget();
    weft_config config = config_of(2);
    config.stop = stop_and_block;
    end_pool(make_pool_with(&config));
    assert_int_equal(atomic_load(&seen.blocked), WEFT_EAGAIN);
}

/* What the hook runs itself, it may. */
static int add_range(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)context, (unsigned)(end - begin));
    return 0;
}

static void stop_and_loop(weft_worker *self, void *context) {
    (void)context;
    REQUIRE(weft_for(weft_worker_pool(self), (weft_range){0, 1000, 1}, add_range, &seen.counted) == WEFT_OK);
}

static void test_stop_hook_loops(void **state) {
    (void)state;
    static const uint32_t flags[] = {0, WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED};
    for (size_t i = 0; i < 3; i++) {
        forget();
        weft_config config = config_of(3);
        config.stop = stop_and_loop;
        config.flags = flags[i];
        end_pool(make_pool_with(&config));
        assert_int_equal(atomic_load(&seen.counted), 3000);
    }
}

/* ---- data --------------------------------------------------------------------------------------------------------- */

static atomic_uint made, freed;

static void free_data(void *data) {
    free(data);
    atomic_fetch_add(&freed, 1);
}

static int data_task(void *payload, weft_worker *self) {
    (void)payload;
    void **data = weft_worker_data(self);
    REQUIRE(*data == NULL);
    *data = malloc(1);
    atomic_fetch_add(&made, 1);
    return 0;
}

static void *use_pool(void *argument) {
    REQUIRE(weft_run(argument, NULL, data_task, NULL) == WEFT_OK);
    return NULL;
}

/* Each takes the place of the one before, not its data. */
static void test_threads_come_and_go(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.data_free = free_data;
    weft_pool *pool = make_pool_with(&config);
    for (unsigned i = 0; i < 5; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, use_pool, pool), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&freed), i);
    }
    end_pool(pool);
    assert_int_equal(atomic_load(&made), 5);
    assert_int_equal(atomic_load(&freed), 5);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_later_worker_has_the_firsts_cpus),
        cmocka_unit_test(test_create_waits_for_each_hook),
        cmocka_unit_test(test_start_hook_resizes),
        cmocka_unit_test(test_stop_hook_submits),
        cmocka_unit_test(test_stop_hook_blocks),
        cmocka_unit_test(test_stop_hook_loops),
        cmocka_unit_test(test_threads_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
