/* test_libvmaf_late.c: libvmaf's pool destroyed while a thread sleeps in enqueue for a place in the queue. The calls by which
 * they meet are taken over: the sleeper gets up when the destroy has nothing else to wait for. */
#define _GNU_SOURCE
#include "pool_help.h"

#define VIEW_HAS_DATA /* as the adapter does */
#include "view.h"

static int meeting_wait(view *v);
static int meeting_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
#define view_wait meeting_wait
#define pthread_cond_wait meeting_cond_wait
#include "libvmaf/thread_pool.c"
#undef view_wait
#undef pthread_cond_wait

static _Thread_local bool is_enqueuer;
static VmafThreadPool *pool;
static gate busy;
static atomic_bool is_asleep; /* the enqueuer is, or will be when it has given up the lock */
static atomic_bool is_last;   /* the destroy waits for nothing but it */
static atomic_bool is_over;   /* the destroy has returned */

static int meeting_wait(view *v) {
    gate_open(&busy);
    return view_wait(v);
}

static int meeting_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock) {
    atomic_store(is_enqueuer ? &is_asleep : &is_last, true);
    const int error = pthread_cond_wait(cond, lock);
    if (!is_enqueuer) return error;
    pthread_mutex_unlock(lock);
    while (!atomic_load(&is_last) && !atomic_load(&is_over)) sched_yield();
    REQUIRE(!atomic_load(&is_over)); /* else pool and lock are gone */
    pthread_mutex_lock(lock);
    return error;
}

static void busy_job(void *data, void **thread_data) {
    (void)thread_data;
    gate_task(data, NULL);
}

static void never_job(void *data, void **thread_data) {
    (void)data;
    (void)thread_data;
    REQUIRE(false);
}

static void *enqueue_thread(void *result) {
    is_enqueuer = true;
    *(int *)result = vmaf_thread_pool_enqueue(pool, never_job, NULL, 0);
    return NULL;
}

static void test_destroy_waits_for_the_enqueuer(void **state) {
    (void)state;
    gate *pointer = &busy;
    pthread_t thread;
    int result = 1;
    gate_init(&busy);
    assert_int_equal(vmaf_thread_pool_create(&pool, (VmafThreadPoolConfig){.n_threads = 1}), 0);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, busy_job, &pointer, sizeof pointer), 0);
    await(&busy.entered);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, never_job, NULL, 0), 0); /* the only place is taken */
    assert_int_equal(pthread_create(&thread, NULL, enqueue_thread, &result), 0);
    while (!atomic_load(&is_asleep)) sched_yield();
    assert_int_equal(vmaf_thread_pool_destroy(pool), 0);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    assert_int_equal(result, -ECANCELED);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_destroy_waits_for_the_enqueuer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
