/* test_libvmaf_forms.c: what libvmaf's thread pool on weft does in either form, as an adapter and as a pull request. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "thread_pool.h"

static VmafThreadPool *make(unsigned threads) {
    VmafThreadPool *pool = NULL;
    REQUIRE(vmaf_thread_pool_create(&pool, (VmafThreadPoolConfig){.n_threads = threads}) == 0);
    return pool;
}

static void gate_job(void *data, void **thread_data) {
    (void)thread_data;
    gate_task(data, NULL);
}

/* ---- no more jobs at once than threads ------------------------------------------------------------------------------- */

typedef struct scene {
    VmafThreadPool *other;
    gate open;
    atomic_uint at_once, most, ran;
} scene;

typedef struct step {
    scene *scene;
    bool waits;
} step;

static void step_job(void *data, void **thread_data) {
    const step *mine = data;
    scene *s = mine->scene;
    (void)thread_data;
    const unsigned now = atomic_fetch_add(&s->at_once, 1) + 1;
    if (now > atomic_load(&s->most)) atomic_store(&s->most, now);
    atomic_fetch_add(&s->ran, 1);
    if (mine->waits) {
        gate *g = &s->open;
        REQUIRE(vmaf_thread_pool_enqueue(s->other, gate_job, &g, sizeof g) == 0);
        REQUIRE(vmaf_thread_pool_wait(s->other) == 0);
    }
    atomic_fetch_sub(&s->at_once, 1);
}

static void *step_thread(void *argument) {
    const step *first = argument;
    VmafThreadPool *pool = make(1);
    for (unsigned i = 0; i < 10; i++) {
        step each = {first->scene, i == 0};
        REQUIRE(vmaf_thread_pool_enqueue(pool, step_job, &each, sizeof each) == 0);
    }
    REQUIRE(vmaf_thread_pool_wait(pool) == 0);
    REQUIRE(vmaf_thread_pool_destroy(pool) == 0);
    return NULL;
}

/* A job of a one-thread pool waits for another pool: nothing of its own pool starts meanwhile. */
static void test_one_at_a_time(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        scene s = {.other = make(1)};
        step first = {&s, true};
        pthread_t thread;
        gate_init(&s.open);
        assert_int_equal(pthread_create(&thread, NULL, step_thread, &first), 0);
        await(&s.open.entered);
        for (int i = 0; i < 500; i++) sched_yield(); /* time to do what it must not */
        gate_open(&s.open);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&s.ran), 10);
        assert_int_equal(atomic_load(&s.most), 1);
        assert_int_equal(vmaf_thread_pool_destroy(s.other), 0);
    }
}

/* ---- enqueue after destroy has begun ---------------------------------------------------------------------------------- */

typedef struct late {
    VmafThreadPool *pool;
    sem_t begun;
    atomic_int result, ran;
} late;

static void count_job(void *data, void **thread_data) {
    (void)thread_data;
    atomic_fetch_add(*(atomic_int **)data, 1);
}

/* Enqueues until it is refused, which only a destroy causes. */
static void late_job(void *data, void **thread_data) {
    late *mine = *(late **)data;
    atomic_int *ran = &mine->ran;
    int error, again = 0;
    (void)thread_data;
    sem_post(&mine->begun);
    while ((error = vmaf_thread_pool_enqueue(mine->pool, count_job, &ran, sizeof ran)) == 0 && again++ < 10000000)
        sched_yield();
    atomic_store(&mine->result, error);
}

static void test_enqueue_in_a_job_after_destroy(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        late mine = {.pool = make(2)}, *at = &mine;
        sem_init(&mine.begun, 0, 0);
        assert_int_equal(vmaf_thread_pool_enqueue(mine.pool, late_job, &at, sizeof at), 0);
        await(&mine.begun);
        assert_int_equal(vmaf_thread_pool_destroy(mine.pool), 0);
        assert_int_equal(atomic_load(&mine.result), -ECANCELED);
        sem_destroy(&mine.begun);
    }
}

static void own_destroy_job(void *data, void **thread_data) {
    late *mine = *(late **)data;
    (void)thread_data;
    atomic_store(&mine->result, vmaf_thread_pool_destroy(mine->pool));
}

/* A destroy that is refused has done nothing. */
static void test_destroy_in_a_job(void **state) {
    (void)state;
    late mine = {.pool = make(2)}, *at = &mine;
    atomic_int *ran = &mine.ran;
    assert_int_equal(vmaf_thread_pool_enqueue(mine.pool, own_destroy_job, &at, sizeof at), 0);
    assert_int_equal(vmaf_thread_pool_wait(mine.pool), 0);
    assert_int_equal(atomic_load(&mine.result), -EDEADLK);
    assert_int_equal(vmaf_thread_pool_enqueue(mine.pool, count_job, &ran, sizeof ran), 0);
    assert_int_equal(vmaf_thread_pool_wait(mine.pool), 0);
    assert_int_equal(atomic_load(&mine.ran), 1);
    assert_int_equal(vmaf_thread_pool_destroy(mine.pool), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_at_a_time),
                                       cmocka_unit_test(test_enqueue_in_a_job_after_destroy),
                                       cmocka_unit_test(test_destroy_in_a_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
