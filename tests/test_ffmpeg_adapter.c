/* What FFmpeg expects of its slice threads, asked of adapters/ffmpeg without FFmpeg's tree (tests/ffmpeg_stub stands in). */
#define _GNU_SOURCE
#include "pool_help.h"
#include "few_threads.h"

#include "slicethread.h"

enum { JOBS_MAX = 64 };

/* What the last execute did. */
typedef struct slices {
    AVSliceThread *threads;
    atomic_uint runs[JOBS_MAX];
    atomic_int inside[JOBS_MAX]; /* by thread number: one at a time */
    atomic_int by_thread[JOBS_MAX];
    atomic_int wrong;
    atomic_int main_runs;
    atomic_int arrived; /* jobs that wait for each other, or for main */
    int expected_threads;
} slices;

static void note(slices *s, int job, int thread, int jobs, int threads) {
    bool is_first = jobs <= JOBS_MAX && thread >= 0 && thread < threads && atomic_fetch_add(&s->by_thread[thread], 1) == 0;
    bool is_wrong = job < 0 || job >= jobs || thread < 0 || thread >= threads || threads != s->expected_threads;
    is_wrong |= is_first && job != thread;
    if (atomic_fetch_add(&s->inside[thread], 1) != 0) is_wrong = true;
    atomic_fetch_add(&s->runs[job], 1);
    if (is_wrong) atomic_fetch_add(&s->wrong, 1);
}

static void leave(slices *s, int thread) { atomic_fetch_sub(&s->inside[thread], 1); }

static void plain_job(void *priv, int job, int thread, int jobs, int threads) {
    note(priv, job, thread, jobs, threads);
    leave(priv, thread);
}

static void plain_main(void *priv) { atomic_fetch_add(&((slices *)priv)->main_runs, 1); }

static void clear(slices *s, int jobs, int threads) {
    for (int i = 0; i < JOBS_MAX; i++) {
        atomic_store(&s->runs[i], 0);
        atomic_store(&s->by_thread[i], 0);
    }
    s->expected_threads = jobs < threads ? jobs : threads;
    atomic_store(&s->arrived, 0);
}

/* Every job once, each thread's first one its number, no number used by two at once. */
static void check(slices *s, int jobs) {
    assert_int_equal(atomic_load(&s->wrong), 0);
    for (int i = 0; i < JOBS_MAX; i++) assert_int_equal(atomic_load(&s->runs[i]), i < jobs ? 1 : 0);
    for (int i = 0; i < s->expected_threads; i++) assert_true(atomic_load(&s->by_thread[i]) > 0);
}

static void test_each_job_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 9; threads += 2) {
        slices s = {.threads = NULL};
        assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, NULL, threads), threads);
        for (int round = 0; round < 300; round++) {
            int jobs = 1 + round % JOBS_MAX;
            clear(&s, jobs, threads);
            avpriv_slicethread_execute(s.threads, jobs, round % 2);
            check(&s, jobs);
        }
        avpriv_slicethread_free(&s.threads);
        assert_null(s.threads);
        avpriv_slicethread_free(&s.threads);
    }
    avpriv_slicethread_free(NULL);
}

static void test_main_runs_when_asked(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        slices s = {.threads = NULL};
        assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, plain_main, threads), threads);
        for (int round = 0; round < 200; round++) {
            int jobs = 1 + round % 7, before = atomic_load(&s.main_runs);
            clear(&s, jobs, threads);
            avpriv_slicethread_execute(s.threads, jobs, round % 3 == 0);
            assert_int_equal(atomic_load(&s.main_runs), before + (round % 3 == 0));
            check(&s, jobs);
        }
        avpriv_slicethread_free(&s.threads);
    }
}

/* As VP8's rows: none ends before all of them have begun. */
static void meeting_job(void *priv, int job, int thread, int jobs, int threads) {
    slices *s = priv;
    note(s, job, thread, jobs, threads);
    atomic_fetch_add(&s->arrived, 1);
    while (atomic_load(&s->arrived) < jobs) sched_yield();
    leave(s, thread);
}

static void test_jobs_wait_for_each_other(void **state) {
    (void)state;
    for (int threads = 2; threads <= 6; threads++) {
        slices s = {.threads = NULL};
        assert_int_equal(avpriv_slicethread_create(&s.threads, &s, meeting_job, NULL, threads), threads);
        for (int round = 0; round < 100; round++) {
            clear(&s, threads, threads);
            avpriv_slicethread_execute(s.threads, threads, 0);
            check(&s, threads);
        }
        avpriv_slicethread_free(&s.threads);
    }
}

/* As VP9's filter: the caller's function waits for every job, and jobs for one before them. */
static void row_job(void *priv, int job, int thread, int jobs, int threads) {
    slices *s = priv;
    note(s, job, thread, jobs, threads);
    while (atomic_load(&s->arrived) < job) sched_yield();
    atomic_fetch_add(&s->arrived, 1);
    leave(s, thread);
}

static void waiting_main(void *priv) {
    slices *s = priv;
    while (atomic_load(&s->arrived) < 12) sched_yield();
    atomic_fetch_add(&s->main_runs, 1);
}

static void test_main_waits_for_jobs(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        slices s = {.threads = NULL};
        assert_int_equal(avpriv_slicethread_create(&s.threads, &s, row_job, waiting_main, threads), threads);
        for (int round = 1; round <= 100; round++) {
            clear(&s, 12, threads);
            avpriv_slicethread_execute(s.threads, 12, 1);
            assert_int_equal(atomic_load(&s.main_runs), round);
            check(&s, 12);
        }
        avpriv_slicethread_free(&s.threads);
    }
}

static void test_how_many(void **state) {
    (void)state;
    slices s = {.threads = NULL};
    int cpus = (int)weft_cpu_count();
    assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, NULL, 0), cpus > 1 ? cpus + 1 : 1);
    avpriv_slicethread_free(&s.threads);
    assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, NULL, 100000), WEFT_WORKERS_MAX);
    avpriv_slicethread_free(&s.threads);
}

/* Then there is no context, as with FFmpeg's own: callers go on with one thread. */
static void test_threads_refused(void **state) {
    (void)state;
    slices s = {.threads = NULL};
    for (int left = 0; left <= 3; left++) {
        for (int has_main = 0; has_main < 2; has_main++) {
            void *const something = &s;
            s.threads = something;
            threads_left = left;
            assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, has_main ? waiting_main : NULL, 5),
                             -EAGAIN);
            assert_null(s.threads);
        }
    }
    threads_left = -1;
}

int __real_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);
int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);
int __real_weft_pool_destroy(weft_pool **pool);
int __wrap_weft_pool_destroy(weft_pool **pool);

static int refusals, destroyed;

int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns) {
    if (refusals == 0) return __real_weft_group_wait_until(pool, group, help, deadline_ns);
    return --refusals % 2 == 0 ? WEFT_ENOMEM : WEFT_EAGAIN;
}

int __wrap_weft_pool_destroy(weft_pool **pool) {
    destroyed++;
    return __real_weft_pool_destroy(pool);
}

/* Nothing tells the caller of a free that it did not happen. */
static void test_free_without_memory(void **state) {
    (void)state;
    slices s = {.threads = NULL};
    assert_int_equal(avpriv_slicethread_create(&s.threads, &s, plain_job, NULL, 3), 3);
    refusals = 3;
    destroyed = 0;
    avpriv_slicethread_free(&s.threads);
    assert_null(s.threads);
    assert_int_equal(destroyed, 1);
    assert_int_equal(refusals, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_job_once),
        cmocka_unit_test(test_main_runs_when_asked),
        cmocka_unit_test(test_jobs_wait_for_each_other),
        cmocka_unit_test(test_main_waits_for_jobs),
        cmocka_unit_test(test_how_many),
        cmocka_unit_test(test_threads_refused),
        cmocka_unit_test(test_free_without_memory),
    };
    return cmocka_run_group_tests_name("ffmpeg adapter", tests, NULL, NULL);
}
