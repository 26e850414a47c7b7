/* test_default.c: the process's own pool and its references. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "os/os.h"

#include <sched.h>
#include <stdlib.h>

static weft_pool *acquire(void) {
    weft_pool *pool = NULL;
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    REQUIRE(pool != NULL);
    return pool;
}

static void test_one_for_all(void **state) {
    (void)state;
    weft_pool *first = acquire();
    weft_pool *second = acquire();
    assert_ptr_equal(first, second);
    assert_int_equal(weft_pool_workers(first), weft_cpu_count());
    end_pool(first);
    atomic_uint counter = 0;
    assert_int_equal(submit_count(second, NULL, &counter), WEFT_OK); /* the other reference holds it */
    assert_int_equal(weft_group_wait(second, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    end_pool(second);
    end_pool(acquire()); /* and a new one can be made */
}

/* The first worker of a pool is held until another thread, which asks for the process's own pool meanwhile, sleeps for it or has
 * one. */
static struct {
    atomic_bool is_on;
    atomic_int asks;
    _Atomic(weft_pool *) has;
} meeting;

int __real_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    while (atomic_load(&meeting.is_on) && atomic_load(&meeting.has) == NULL && atomic_load(&meeting.asks) != thread_id() &&
           (atomic_load(&meeting.asks) == 0 || !thread_sleeps((pid_t)atomic_load(&meeting.asks))))
        sched_yield();
    return __real_os_thread_start(thread, options, entry, argument);
}

static void *acquire_meanwhile(void *nothing) {
    atomic_store(&meeting.asks, thread_id());
    atomic_store(&meeting.has, acquire());
    return nothing;
}

static void test_two_at_once(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&meeting.is_on, true);
    assert_int_equal(pthread_create(&thread, NULL, acquire_meanwhile, NULL), 0);
    while (atomic_load(&meeting.asks) == 0) sched_yield();
    weft_pool *pool = acquire();
    assert_int_equal(pthread_join(thread, NULL), 0);
    atomic_store(&meeting.is_on, false);
    weft_pool *other = atomic_load(&meeting.has);
    assert_ptr_equal(other, pool);
    end_pool(other);
    end_pool(pool);
}

static void test_misuse(void **state) {
    (void)state;
    assert_int_equal(weft_pool_default(NULL), WEFT_EINVAL);
    weft_pool *pool = acquire();
    weft_pool *handle = pool;
    assert_int_equal(weft_pool_abort(&handle, NULL, NULL), WEFT_EINVAL);
    assert_ptr_equal(handle, pool);
    end_pool(pool);
}

static void test_environment(void **state) {
    (void)state;
    weft_pool *pool = NULL;
    setenv("WEFT_WORKERS", "3", 1);
    pool = acquire();
    assert_int_equal(weft_pool_workers(pool), 3);
    end_pool(pool);
    setenv("WEFT_WORKERS", "many", 1);
    assert_int_equal(weft_pool_default(&pool), WEFT_EINVAL);
    assert_null(pool);
    unsetenv("WEFT_WORKERS");
    end_pool(acquire());
}

static int release_task(void *payload, weft_worker *self) {
    (void)self;
    weft_pool *pool = acquire();
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK); /* not the last */
    pool = *(weft_pool **)payload;
    return weft_pool_destroy(&pool) == WEFT_EDEADLK && pool != NULL ? 0 : 1; /* the last, from a task of its own */
}

static void test_release_in_a_task(void **state) {
    (void)state;
    weft_pool *pool = acquire();
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, release_task, &pool, sizeof pool), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

static void *come_and_go(void *argument) {
    atomic_uint *counter = argument;
    for (int i = 0; i < 50; i++) {
        weft_pool *pool = acquire();
        weft_group group = WEFT_GROUP_INIT;
        REQUIRE(submit_count(pool, &group, counter) == WEFT_OK);
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
        end_pool(pool);
    }
    return NULL;
}

/* A task may not end the pool that it runs in, and then it is the process's own still. */
static int end_own(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    (void)payload;
    return weft_pool_destroy(&pool);
}
static void test_end_in_a_task(void **state) {
    (void)state;
    weft_pool *pool = acquire();
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, end_own, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_EDEADLK);
    weft_pool *again = acquire();
    assert_ptr_equal(again, pool);
    end_pool(again);
    end_pool(pool);
}

static void test_threads_come_and_go(void **state) {
    (void)state;
    pthread_t thread[4];
    atomic_uint counter = 0;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, come_and_go, &counter), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&counter), 200);
}

static int child_with_parents_references(void *argument) {
    weft_pool *first = *(weft_pool **)argument, *second = first;
#if !defined(SANITIZED_THREAD)
    weft_pool *own = acquire();
    REQUIRE(own != first);
    atomic_uint counter = 0;
    REQUIRE(submit_count(own, NULL, &counter) == WEFT_OK);
    REQUIRE(weft_group_wait(own, NULL) == WEFT_OK);
    end_pool(own);
#endif
    REQUIRE(weft_pool_destroy(&first) == WEFT_EFORK);
    REQUIRE(weft_pool_destroy(&second) == WEFT_EFORK);
    return 0;
}

static void test_forked_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    printf("skipped, %s: ThreadSanitizer lets no child of a threaded process start threads\n", "a pool made in the child");
#endif
    weft_pool *pool = acquire(), *again = acquire();
    assert_int_equal(in_child(child_with_parents_references, &pool), 0);
    end_pool(again);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_for_all),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_release_in_a_task),
        cmocka_unit_test(test_end_in_a_task),
        cmocka_unit_test(test_threads_come_and_go),
        cmocka_unit_test(test_forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
