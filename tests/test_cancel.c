/* test_cancel.c: threads that end where they should not. No function of weft is a cancellation point: a thread that somebody
 * has cancelled (pthread_cancel) comes out of each with what it promises, and ends at its next cancellation point of its
 * own. Workers are not cancelled at all. A thread that ends inside a task ends the process, with a word: others would wait
 * for that task for ever. */
#define _GNU_SOURCE
#include "os/os.h"
#include "pool_help.h"

#include <fcntl.h>
#include <signal.h>

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

struct scene {
    void (*act)(void);
    atomic_bool has_returned;
};

static void *cancelled_thread(void *argument) {
    struct scene *scene = argument;
    REQUIRE(pthread_cancel(pthread_self()) == 0);
    scene->act();
    atomic_store(&scene->has_returned, true);
    pthread_testcancel();
    return NULL;
}

static void check(void (*act)(void)) {
    struct scene scene = {.act = act};
    pthread_t thread;
    void *result = NULL;
    int files = open_files();
    REQUIRE(pthread_create(&thread, NULL, cancelled_thread, &scene) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    assert_true(atomic_load(&scene.has_returned));
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(open_files(), files);
}

/* ---- pools -------------------------------------------------------------------------------------------------------- */

static void live(bool aborts) {
    weft_config config = config_of(2);
    config.stats = config.trace = "/dev/null";
    config.watchdog_ns = 1000000000;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(pool, NULL, &counter) == WEFT_OK);
    REQUIRE((aborts ? weft_pool_abort(&pool, NULL, NULL) : weft_pool_destroy(&pool)) == WEFT_OK && pool == NULL);
    REQUIRE(aborts || atomic_load(&counter) == 100);
}
static void live_and_destroy(void) { live(false); }
static void live_and_abort(void) { live(true); }
static void own_pool(void) {
    weft_pool *pool;
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
}

static void test_pools(void **state) {
    (void)state;
    check(live_and_destroy);
    check(live_and_abort);
    check(own_pool);
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

static weft_pool *shared;

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_size_t *)context, end - begin);
    return 0;
}
static void use(void) {
    atomic_uint counter = 0;
    atomic_size_t indices = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 1000; i++) REQUIRE(submit_count(shared, &group, &counter) == WEFT_OK);
    REQUIRE(weft_group_wait(shared, &group) == WEFT_OK && atomic_load(&counter) == 1000);
    REQUIRE(weft_for(shared, (weft_range){.end = 100000}, body, &indices) == WEFT_OK && indices == 100000);
    weft_fork_slot *here;
    REQUIRE(weft_fork_enter(shared, &here) == WEFT_OK);
    weft_fork_leave(here);
}
static void look(void) {
    int fd = open_files() > 0 ? os_create("/dev/null") : -1;
    REQUIRE(fd >= 0 && weft_cpu_count() >= 1);
    REQUIRE(weft_trace_start(shared) == WEFT_OK);
    use();
    REQUIRE(weft_trace_write(shared, fd) == WEFT_OK && weft_trace_save(shared, "/dev/null") == WEFT_OK);
    REQUIRE(weft_pool_dump(shared, fd) == WEFT_OK && weft_pool_stats_print(shared, fd) == WEFT_OK);
    REQUIRE(weft_trace_stop(shared) == WEFT_OK);
    os_close(fd);
}
static void yield(void) {
    for (int i = 0; i < 1000; i++) os_yield();
    os_settle_now();
}
static void purge(void) {
    weft_heap_config config = {.struct_size = sizeof config, .purge_thread = 1};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
    config.purge_thread = 0;
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
    weft_free(weft_alloc(100));
    weft_trim();
}

static void test_calls(void **state) {
    (void)state;
    shared = make_pool(2);
    check(use);
    check(look);
    check(yield);
    check(purge);
    end_pool(shared);
}

/* ---- ended inside ------------------------------------------------------------------------------------------------- */

static int cancels_itself(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(pthread_cancel(pthread_self()) == 0);
    nap();
    return count_task(payload, self);
}
static void test_a_worker_is_not_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint counter = 0, *pointer = &counter;
    assert_int_equal(weft_submit(pool, NULL, cancels_itself, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 2);
    end_pool(pool);
}

static int exit_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    pthread_exit(NULL);
}
static void *end_in_wait(void *argument) {
    weft_pool *pool = argument;
    REQUIRE(weft_submit(pool, NULL, exit_task, NULL, 0) == WEFT_OK);
    weft_group_wait(pool, NULL);
    return NULL;
}
static void *end_in_enter(void *argument) {
    weft_fork_slot *here;
    REQUIRE(weft_fork_enter(argument, &here) == WEFT_OK);
    return NULL;
}
/* The thread's end is what ends the process, so this returns only where it does not. */
static int end_on_worker(void *argument) {
    (void)argument;
    weft_pool *pool = make_pool(1);
    REQUIRE(weft_submit(pool, NULL, exit_task, NULL, 0) == WEFT_OK);
    weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, clock_ns() + 10000000000u);
    return 0;
}
static int end_outside(void *argument) {
    void *(*run)(void *) = *(void *(**)(void *))argument;
    pthread_t thread;
    weft_pool *pool = make_pool(1);
    gate door;
    gate_occupy(&door, pool, NULL); /* the waiting thread is to run the task */
    REQUIRE(pthread_create(&thread, NULL, run, pool) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}

static void check_dies(int (*run)(void *), void *argument) {
    char said[256];
    assert_int_equal(in_child_said(run, argument, said, sizeof said), 1000 + SIGABRT);
    assert_non_null(strstr(said, "weft: a thread has ended"));
    if (!is_emulated()) assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* it adds a line of its own */
}

static void test_the_end_of_a_thread_inside_a_task_is_told(void **state) {
    (void)state;
    void *(*in_wait)(void *) = end_in_wait, *(*in_enter)(void *) = end_in_enter;
    check_dies(end_on_worker, NULL);
    check_dies(end_outside, &in_wait);
    check_dies(end_outside, &in_enter);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_a_worker_is_not_cancelled),
        cmocka_unit_test(test_the_end_of_a_thread_inside_a_task_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
