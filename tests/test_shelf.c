/* test_shelf.c: adapters/shelf.h, where a wait and the permits of jobs put by meet. The view's two calls are taken over, so
 * that each order of events is one that the test chose. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "view.h"

static int meeting_submit(view *v, weft_fn fn, const void *payload, size_t size);
static int meeting_wait(view *v);
#define view_submit meeting_submit
#define view_wait meeting_wait
#include "shelf.h"
#undef view_submit
#undef view_wait

enum { JOBS = 3 };

static bool is_meeting;      /* from here on the permits and the wait's rounds take turns */
static atomic_uint rounds;   /* of shelf_wait, view_wait ended */
static atomic_uint permits;  /* sent */
static atomic_uint finished; /* jobs */
static atomic_uint entered;  /* jobs, while is_meeting */
static atomic_bool may_finish;

/* Permits are sent after the wait's first round, and the last job runs before the next looks. */
static int meeting_submit(view *v, weft_fn fn, const void *payload, size_t size) {
    if (!is_meeting) return view_submit(v, fn, payload, size);
    while (atomic_load(&rounds) == 0) sched_yield();
    const int error = view_submit(v, fn, payload, size);
    if (atomic_fetch_add(&permits, 1) + 1 == JOBS)
        while (atomic_load(&entered) < JOBS) sched_yield();
    return error;
}

/* A second round is what the jobs wait for. */
static int meeting_wait(view *v) {
    if (atomic_load(&rounds) > 0) atomic_store(&may_finish, true);
    const int error = view_wait(v);
    atomic_fetch_add(&rounds, 1);
    return error;
}

static void run_job(shelf_job *job, weft_worker *self) {
    (void)job;
    (void)self;
    atomic_fetch_add(&entered, 1);
    while (!atomic_load(&may_finish)) sched_yield();
    atomic_fetch_add(&finished, 1);
}

static void *resume_thread(void *k) {
    shelf_pause(k, false);
    return NULL;
}

static unsigned put_by(shelf_view *k) {
    unsigned count = 0;
    pthread_mutex_lock(&k->lock);
    for (const shelf_copy *each = k->first; each != NULL; each = each->next) count++;
    pthread_mutex_unlock(&k->lock);
    return count;
}

/* A wait begins when the jobs are the resumer's: neither put by for the wait to sleep on, nor in the group yet. */
static void test_wait_between(void **state) {
    (void)state;
    shelf_view k = {0};
    pthread_t thread;
    assert_int_equal(view_open(&k.view, JOBS, "shelf"), 0);
    shelf_furnish(&k, run_job);
    shelf_pause(&k, true);
    for (int i = 0; i < JOBS; i++) {
        shelf_job job = {0};
        assert_int_equal(shelf_submit(&k, &job, sizeof job), 0);
    }
    while (put_by(&k) < JOBS) sched_yield();
    assert_int_equal(view_wait(&k.view), 0);
    is_meeting = true;
    assert_int_equal(pthread_create(&thread, NULL, resume_thread, &k), 0);
    for (bool is_sending = false; !is_sending; sched_yield()) {
        pthread_mutex_lock(&k.lock);
        is_sending = k.loose == JOBS;
        pthread_mutex_unlock(&k.lock);
    }
    assert_int_equal(shelf_wait(&k), 0);
    assert_int_equal(atomic_load(&finished), JOBS);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&rounds) >= 2);
    is_meeting = false;
    assert_int_equal(shelf_close(&k, false, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait_between)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
