/* test_exit.c: exit() with work queued, and what runs after main has returned. Each case is a process of its own. */
#define _GNU_SOURCE
#include "../pool_help.h"

#include "late.h"

int late_is_armed;
static bool after_destructors_armed;
static weft_pool *late_pool;
static atomic_uint late_runs; /* of late_work */

/* A process that exits in earnest, as in_child's do not. */
static int exit_status(void (*run)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        run();
        exit(7);
    }
    return child_status(child);
}

static int slow_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    nap();
    return 0;
}

static void leave_work(void) {
    weft_pool *pool = NULL, *own = make_pool(2);
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    for (int i = 0; i < 5000; i++) {
        REQUIRE(weft_submit(pool, NULL, i % 2 ? empty_task : slow_task, NULL, 0) == WEFT_OK);
        REQUIRE(weft_submit(own, NULL, i % 2 ? empty_task : slow_task, NULL, 0) == WEFT_OK);
    }
}

/* The queued work is dropped, as threads' work is at exit; the status is the program's. */
static void test_exit_with_work_queued(void **state) {
    (void)state;
    for (int round = 0; round < (SANITIZED ? 5 : 30); round++) assert_int_equal(exit_status(leave_work), 7);
}

/* ---- late work ---------------------------------------------------------------------------------------------------- */

void late_work(void) {
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = NULL, *fresh = make_pool(1);
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    for (int i = 0; i < 100; i++) {
        REQUIRE(submit_count(pool, &group, &counter) == WEFT_OK);
        REQUIRE(late_pool == NULL || submit_count(late_pool, NULL, &counter) == WEFT_OK);
        REQUIRE(submit_count(fresh, NULL, &counter) == WEFT_OK);
    }
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    REQUIRE(late_pool == NULL || weft_group_wait(late_pool, NULL) == WEFT_OK);
    end_pool(fresh);
    REQUIRE(atomic_load(&counter) == (late_pool == NULL ? 200 : 300));
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    atomic_fetch_add(&late_runs, 1);
}

static void late_twice(void) {
    late_work();
    late_work();
}

/* Runs after every destructor without a number, so after the library's own. */
__attribute__((destructor(101))) static void after_destructors(void) {
    if (!after_destructors_armed) return;
    late_work();
    if (atomic_load(&late_runs) != 4) _exit(98);
    _exit(8); /* it was here */
}

static void arm(void) {
    REQUIRE(atexit(late_twice) == 0);
    late_is_armed = after_destructors_armed = true;
}

static void never_used_before(void) { arm(); }

static void pools_alive(void) {
    arm();
    leave_work();
    late_pool = make_pool(2);
    late_work();
    atomic_store(&late_runs, 0);
}

static void pools_gone(void) {
    arm();
    late_work();
    atomic_store(&late_runs, 0);
}

/* atexit (twice), a static object's destructor, a destructor after the library's: each submits and waits. */
static void test_late_first_use(void **state) {
    (void)state;
    assert_int_equal(exit_status(never_used_before), 8);
}

static void test_late_with_pools_alive(void **state) {
    (void)state;
    assert_int_equal(exit_status(pools_alive), 8);
}

static void test_late_after_pools(void **state) {
    (void)state;
    assert_int_equal(exit_status(pools_gone), 8);
}

/* ---- fork without exec -------------------------------------------------------------------------------------------- */

static void fork_and_go_on(void) {
    weft_pool *pool = NULL;
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    for (int i = 0; i < 5000; i++) REQUIRE(submit_count(pool, &group, &counter) == WEFT_OK);
    for (int i = 0; i < 20; i++) REQUIRE(exit_status(pools_alive) == 8); /* each with pools of its own */
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    REQUIRE(atomic_load(&counter) == 5000);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
}

static void test_fork_without_exec(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    assert_int_equal(exit_status(fork_and_go_on), 7);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_with_work_queued), cmocka_unit_test(test_late_first_use),
        cmocka_unit_test(test_late_with_pools_alive), cmocka_unit_test(test_late_after_pools),
        cmocka_unit_test(test_fork_without_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
