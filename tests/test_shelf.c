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

static void let_come_up(void);
static bool is_destroying; /* a job is to come up before the destroy waits */

/* A second round is what the jobs wait for. */
static int meeting_wait(view *v) {
    if (is_destroying) let_come_up();
    is_destroying = false;
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

/* ---- a destroy in a task that a thread from outside runs --------------------------------------------------------------- */

enum { WAITER = 1 }; /* the tag of the job that waits; the others' is 0 */

static struct {
    shelf_view shelf;
    weft_group around; /* of the task that destroys */
    gate busy;
    sem_t waiter_runs, is_closing;
    _Atomic(pid_t) waiter;
    atomic_int wait_error, close_error;
    atomic_uint ran, dropped;
} outside;

static void add_outside(uint32_t tag) {
    shelf_job job = {.tag = tag};
    REQUIRE(shelf_submit(&outside.shelf, &job, sizeof job) == 0);
}

static void run_outside(shelf_job *job, weft_worker *self) {
    (void)self;
    if (atomic_load(&outside.shelf.stage) == SHELF_ENDED) {
        atomic_fetch_add(&outside.dropped, 1);
    } else if (job->tag != WAITER) {
        atomic_fetch_add(&outside.ran, 1);
    } else {
        atomic_store(&outside.waiter, thread_id());
        sem_post(&outside.waiter_runs);
        await(&outside.is_closing);
        add_outside(0);
        atomic_store(&outside.wait_error,
                     weft_group_wait_until(outside.shelf.view.pool, &outside.around, WEFT_HELP_NONE, 0));
    }
}

/* The waiter's job has come up, and most likely the waiter sleeps: then the destroy is refused, else the wait. */
static void let_come_up(void) {
    sem_post(&outside.is_closing);
    while (atomic_load(&outside.dropped) == 0 && put_by(&outside.shelf) == 0) sched_yield();
    while (!thread_sleeps(atomic_load(&outside.waiter))) sched_yield();
}

static int destroy_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    REQUIRE(weft_worker_here() == NULL); /* it is a task all the same */
    gate_open(&outside.busy);
    await(&outside.waiter_runs);
    is_destroying = true;
    atomic_store(&outside.close_error, shelf_close(&outside.shelf, true, NULL));
    return 0;
}

/* Was it refused? */
static bool play_outside(void) {
    weft_group group = WEFT_GROUP_INIT;
    weft_pool *pool = make_pool(1);
    memset(&outside, 0, sizeof outside);
    outside.shelf.view.pool = pool;
    REQUIRE(view_furnish(&outside.shelf.view) == 0);
    shelf_furnish(&outside.shelf, run_outside);
    REQUIRE(sem_init(&outside.waiter_runs, 0, 0) == 0 && sem_init(&outside.is_closing, 0, 0) == 0);
    gate_occupy(&outside.busy, pool, &group);
    add_outside(WAITER);
    REQUIRE(weft_submit(pool, &outside.around, destroy_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &outside.around) == WEFT_OK); /* runs it: nobody else is free */
    if (atomic_load(&outside.close_error) == 0) {
        assert_int_equal(atomic_load(&outside.wait_error), WEFT_EDEADLK);
        assert_int_equal(atomic_load(&outside.dropped), 1);
        return false; /* and the pool has gone with the view */
    }
    assert_int_equal(atomic_load(&outside.close_error), -EDEADLK);
    assert_int_equal(shelf_wait(&outside.shelf), 0);
    assert_int_equal(atomic_load(&outside.ran), 1);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    assert_int_equal(shelf_close(&outside.shelf, true, NULL), 0);
    return true;
}

static void test_refused_outside(void **state) {
    (void)state;
    while (!play_outside()) print_message("the wait was refused, not the destroy\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait_between), cmocka_unit_test(test_refused_outside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
