/* test_hooks.c: what the hooks of adapters/hooks share, without the libraries: each job once, a slot for each thread, in
 * order, and nobody waits for a thread that does not come. The libraries themselves: hooks/. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <hooks/blosc2.h>
#include <hooks/fftw.h>

/* ---- jobs.h ------------------------------------------------------------------------------------------------------- */

enum { JOBS_MAX = 300, SLOTS_MAX = 8 };

typedef struct counted {
    hook_jobs jobs;
    unsigned slots;
    atomic_uint *runs;   /* of each job */
    atomic_uint *inside; /* of each slot: threads that are there now */
    bool waits;          /* each job for the one before it */
    atomic_bool *is_done;
} counted;

static void counted_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    const counted *c = (const counted *)jobs;
    REQUIRE(index < jobs->count && slot < c->slots);
    REQUIRE(atomic_fetch_add(&c->inside[slot], 1) == 0);
    while (c->waits && index > 0 && !atomic_load(&c->is_done[index - 1])) sched_yield();
    atomic_fetch_add(&c->runs[index], 1);
    atomic_store(&c->is_done[index], true);
    REQUIRE(atomic_fetch_sub(&c->inside[slot], 1) == 1);
}

static void run_counted(weft_pool *pool, size_t count, unsigned slots, bool waits) {
    atomic_uint runs[JOBS_MAX] = {0}, inside[SLOTS_MAX] = {0};
    atomic_bool is_done[JOBS_MAX] = {0};
    counted c = {
        .jobs = {counted_run, count, 0}, .slots = slots, .runs = runs, .inside = inside, .waits = waits, .is_done = is_done};
    hook_run(pool, &c.jobs, slots);
    for (size_t i = 0; i < count; i++) REQUIRE(atomic_load(&runs[i]) == 1);
}

static void test_each_job_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, JOBS_MAX};
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        for (unsigned slots = 1; slots <= SLOTS_MAX; slots++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) run_counted(pool, counts[i], slots, false);
        end_pool(pool);
    }
}

/* A library that is set to more threads than the pool has asks for no more helpers than can come. */
static void test_no_more_than_workers(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        const uint64_t before = stats_of(pool).task_run_count;
        run_counted(pool, JOBS_MAX, SLOTS_MAX, false);
        assert_true(stats_of(pool).task_run_count - before <= workers - 1);
        end_pool(pool);
    }
}

/* A job may wait for lower ones, whatever the number of threads. */
static void test_in_order(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        for (unsigned slots = 1; slots <= SLOTS_MAX; slots++) run_counted(pool, 50, slots, true);
        end_pool(pool);
    }
}

static int library_task(void *payload, weft_worker *self) {
    (void)payload;
    run_counted(weft_worker_pool(self), 40, 2, true);
    return 0;
}

/* Libraries called in tasks of the pool that serves them, in more of them than there are threads. */
static void test_in_tasks(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++) assert_int_equal(weft_submit(pool, &group, library_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

typedef struct nested {
    hook_jobs jobs;
    weft_pool *pool;
} nested;

static void nested_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    (void)index;
    (void)slot;
    run_counted(((const nested *)jobs)->pool, 20, 2, true);
}

static void test_nested(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    nested n = {{nested_run, 30, 0}, pool};
    hook_run(pool, &n.jobs, 2);
    end_pool(pool);
}

static int cancelled_task(void *payload, weft_worker *self) {
    weft_group *group = *(weft_group **)payload;
    REQUIRE(weft_group_cancel(weft_worker_pool(self), group) == WEFT_OK);
    run_counted(weft_worker_pool(self), JOBS_MAX, 2, false);
    return 0;
}

/* A library is told nothing of a cancelled group: its jobs run all the same. */
static void test_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT, *pointer = &group;
    assert_int_equal(weft_submit(pool, &group, cancelled_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    end_pool(pool);
}

static int run_in_child(void *argument) {
    run_counted(argument, JOBS_MAX, 2, true);
    return 0;
}

/* Every thread of an ordered pool calls a library: nobody is left to help. */
static void test_ordered(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, &group, library_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

static void test_forked_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
    weft_pool *pool = make_pool(2);
    assert_int_equal(in_child(run_in_child, pool), 0);
    end_pool(pool);
    run_counted(NULL, JOBS_MAX, 2, true); /* nor does it take a pool */
}

/* ---- the two whose headers need nothing of their library ---------------------------------------------------------- */

typedef struct element {
    unsigned runs;
    char rest[20];
} element;

static void *fftw_work(char *data) {
    void *at = data;
    ((element *)at)->runs++;
    return NULL;
}

static void blosc2_work(void *data) { ((element *)data)->runs += 2; }

static void test_callbacks(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    element elements[9] = {{0}};
    for (int count = -1; count <= 8; count++) {
        weft_fftw_loop(fftw_work, (char *)elements, sizeof *elements, count, pool);
        weft_blosc2_loop(pool, blosc2_work, count, sizeof *elements, elements);
    }
    for (unsigned i = 0; i < 9; i++) assert_int_equal(elements[i].runs, 3 * (8 - i));
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_job_once), cmocka_unit_test(test_no_more_than_workers),
        cmocka_unit_test(test_in_order),      cmocka_unit_test(test_in_tasks),
        cmocka_unit_test(test_nested),        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_ordered),       cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
