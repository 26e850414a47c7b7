/* test_oai_upstream.c: OpenAirInterface's thread pool of tasks in the form of a pull request: its order, and its threads. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "few_threads.h"

#include "thread-pool.h"

#include "oai_groups.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void count_args(void *args) { atomic_fetch_add((atomic_uint *)args, 1); }

/* Tasks that meet in groups as large as the pool: one thread's start in the order in which it pushed them. Tiny ones come
 * first, of which threads would like to take several at once. */
static void test_groups_meet(void **state) {
    (void)state;
    atomic_uint counter = 0;
    tpool_t pool;
    initFloatingCoresTpool(MEET, &pool, false, NULL);
    for (int i = 0; i < 1000; i++) pushTpool(&pool, (task_t){.args = &counter, .func = count_args});
    while (atomic_load(&counter) < 1000) usleep(10);
    push_groups(&pool);
    abortTpool(&pool);
    for (int i = 0; i < GROUPS; i++) assert_int_equal(atomic_load(&groups_arrived[i]), MEET);
}

/* ---- threads ---------------------------------------------------------------------------------------------------------- */

/* The program ends, as with the host's own pool. */
static void test_thread_is_missing(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tpool_t pool;
        signal(SIGABRT, SIG_DFL); /* cmocka's would go on */
        threads_left = 2;
        initFloatingCoresTpool(3, &pool, false, NULL);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

typedef struct seen {
    int policy, child_policy;
    size_t stack;
} seen;

static void *look_child(void *args) {
    ((seen *)args)->child_policy = sched_getscheduler(0);
    return NULL;
}

static void look_args(void *args) {
    seen *s = args;
    pthread_t thread;
    pthread_attr_t attr;
    s->policy = sched_getscheduler(0);
    REQUIRE(pthread_create(&thread, NULL, look_child, s) == 0 && pthread_join(thread, NULL) == 0);
    REQUIRE(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstacksize(&attr, &s->stack) == 0);
    pthread_attr_destroy(&attr);
}

/* What a task starts has its policy, and its stack is as large as any thread's. */
static void test_threads(void **state) {
    (void)state;
    pthread_attr_t before, large;
    seen s = {.policy = -1, .child_policy = -1};
    tpool_t pool;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&large), 0);
    assert_int_equal(pthread_attr_setstacksize(&large, (size_t)24 << 20), 0);
    assert_int_equal(pthread_setattr_default_np(&large), 0);
    initFloatingCoresTpool(1, &pool, false, NULL);
    pushTpool(&pool, (task_t){.args = &s, .func = look_args});
    abortTpool(&pool);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&large);
    pthread_attr_destroy(&before);
    if (s.policy == SCHED_OTHER) print_message("skipped, the policy: this process may not give it\n");
    assert_int_equal(s.child_policy, s.policy);
    assert_true(s.stack >= (size_t)23 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups_meet), cmocka_unit_test(test_thread_is_missing),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
