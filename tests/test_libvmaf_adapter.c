/* test_libvmaf_adapter.c: what libvmaf relies on in its thread pool, line by line, and what its own pool gets wrong. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <malloc.h>
#include <stdint.h>

#include "thread_pool.h"
#include "thread_pool_weft.h"

static VmafThreadPool *make(unsigned threads) {
    VmafThreadPool *pool = NULL;
    REQUIRE(vmaf_thread_pool_create(&pool, (VmafThreadPoolConfig){.n_threads = threads}) == 0);
    REQUIRE(pool != NULL);
    return pool;
}

static void finish(VmafThreadPool *pool) { REQUIRE(vmaf_thread_pool_destroy(pool) == 0); }

static void count_job(void *data, void **thread_data) {
    (void)thread_data;
    atomic_fetch_add(*(atomic_uint **)data, 1);
}

static void enqueue_count(VmafThreadPool *pool, atomic_uint *counter) {
    REQUIRE(vmaf_thread_pool_enqueue(pool, count_job, &counter, sizeof counter) == 0);
}

/* A gate that holds one thread. */
static void gate_job(void *data, void **thread_data) {
    (void)thread_data;
    gate_task(data, NULL);
}

static void occupy(gate *g, VmafThreadPool *pool) {
    gate_init(g);
    REQUIRE(vmaf_thread_pool_enqueue(pool, gate_job, &g, sizeof g) == 0);
    await(&g->entered);
}

/* ---- arguments ---------------------------------------------------------------------------------------------------- */

static void test_arguments(void **state) {
    (void)state;
    VmafThreadPool *pool = NULL;
    int data = 0;
    assert_int_equal(vmaf_thread_pool_create(NULL, (VmafThreadPoolConfig){.n_threads = 1}), -EINVAL);
    assert_int_equal(vmaf_thread_pool_create(&pool, (VmafThreadPoolConfig){.n_threads = 0}), -EINVAL);
    assert_null(pool);
    assert_int_equal(vmaf_thread_pool_enqueue(NULL, count_job, &data, sizeof data), -EINVAL);
    assert_int_equal(vmaf_thread_pool_wait(NULL), -EINVAL);
    assert_int_equal(vmaf_thread_pool_destroy(NULL), -EINVAL);
    assert_int_equal(vmaf_thread_pool_options(NULL, &(VmafThreadPoolOptions){0}), -EINVAL);
    pool = make(1);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, NULL, &data, sizeof data), -EINVAL);
    assert_int_equal(vmaf_thread_pool_options(pool, NULL), -EINVAL);
    if (!SANITIZED) /* whose malloc ends the process instead of failing */
        assert_int_equal(vmaf_thread_pool_enqueue(pool, count_job, &data, SIZE_MAX / 2), -ENOMEM);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    finish(pool);
    finish(make(100000)); /* as many as there can be */
}

/* ---- data --------------------------------------------------------------------------------------------------------- */

typedef struct sized {
    atomic_uint *good;
    size_t size;
    unsigned char byte[];
} sized;

static void sized_job(void *data, void **thread_data) {
    (void)thread_data;
    const sized *s = data;
    bool good = (uintptr_t)data % 16 == 0;
    for (size_t i = 0; i < s->size; i++) good = good && s->byte[i] == (unsigned char)(i * 7 + s->size);
    if (good) atomic_fetch_add(s->good, 1);
}

/* The data is copied, whatever its size, and the caller's copy may go at once. */
static void test_data_is_copied(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    atomic_uint good = 0;
    unsigned jobs = 0;
    for (size_t size = 0; size < 6000; size += size < 1200 ? 1 : 397) {
        sized *s = malloc(sizeof *s + size);
        assert_non_null(s);
        *s = (sized){&good, size};
        for (size_t i = 0; i < size; i++) s->byte[i] = (unsigned char)(i * 7 + size);
        assert_int_equal(vmaf_thread_pool_enqueue(pool, sized_job, s, sizeof *s + size), 0);
        memset(s, 0xee, sizeof *s + size);
        free(s);
        jobs++;
    }
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&good), jobs);
    finish(pool);
}

static atomic_uint nulls, pointers;

static void pointer_job(void *data, void **thread_data) {
    (void)thread_data;
    atomic_fetch_add(data == NULL ? &nulls : &pointers, 1);
}

static void test_no_data(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    int data = 0;
    assert_int_equal(vmaf_thread_pool_enqueue(pool, pointer_job, NULL, 0), 0);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, pointer_job, NULL, 48), 0);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, pointer_job, &data, 0), 0);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&nulls), 2);
    assert_int_equal(atomic_load(&pointers), 1);
    finish(pool);
}

#if !SANITIZED
/* Jobs of the sizes that libvmaf has cost no allocation once the pool is warm. */
static void test_no_allocation(void **state) {
    (void)state;
    const size_t sizes[] = {4, 48, 328, 416};
    VmafThreadPool *pool = make(2);
    assert_int_equal(vmaf_thread_pool_options(pool, &(VmafThreadPoolOptions){.queue_max = 0}), 0);
    sized *s = calloc(1, 416);
    atomic_uint good = 0;
    s->good = &good;
    for (int round = 0; round < 2; round++) {
        size_t before = mallinfo2().uordblks;
        gate g[2];
        for (int i = 0; i < 2; i++) occupy(&g[i], pool);
        for (int i = 0; i < 400; i++) assert_int_equal(vmaf_thread_pool_enqueue(pool, pointer_job, s, sizes[i % 4]), 0);
        if (round > 0) assert_true(mallinfo2().uordblks <= before);
        for (int i = 0; i < 2; i++) gate_open(&g[i]);
        assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    }
    free(s);
    finish(pool);
}
#endif

/* ---- a thread's own data ------------------------------------------------------------------------------------------ */

static atomic_uint made, freed;

static void own_job(void *data, void **thread_data) {
    (void)data;
    if (*thread_data == NULL) {
        *thread_data = malloc(sizeof(unsigned));
        *(unsigned *)*thread_data = 0;
        atomic_fetch_add(&made, 1);
    }
    ++*(unsigned *)*thread_data; /* a race if two threads had the same */
}

static atomic_uint own_jobs;

static void own_free(void *data) {
    atomic_fetch_add(&own_jobs, *(unsigned *)data);
    atomic_fetch_add(&freed, 1);
    free(data);
}

static void test_thread_data(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        VmafThreadPool *pool = NULL;
        made = freed = own_jobs = 0;
        VmafThreadPoolConfig config = {.n_threads = threads, .thread_data_free = own_free};
        assert_int_equal(vmaf_thread_pool_create(&pool, config), 0);
        for (int i = 0; i < 1000; i++) assert_int_equal(vmaf_thread_pool_enqueue(pool, own_job, NULL, 0), 0);
        assert_int_equal(vmaf_thread_pool_wait(pool), 0);
        assert_int_equal(atomic_load(&freed), 0);
        finish(pool);
        assert_true(atomic_load(&made) >= 1 && atomic_load(&made) <= threads);
        assert_int_equal(atomic_load(&freed), atomic_load(&made));
        assert_int_equal(atomic_load(&own_jobs), 1000);
    }
}

/* Jobs that run side by side do not share it. */
typedef struct slot_seen {
    gate *gate;
    void **slot;
} slot_seen;

static void slot_job(void *data, void **thread_data) {
    slot_seen *seen = *(slot_seen **)data;
    seen->slot = thread_data;
    gate_task(&seen->gate, NULL);
}

static void test_thread_data_side_by_side(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    gate g[2];
    slot_seen seen[2] = {{&g[0], NULL}, {&g[1], NULL}}, *where[2] = {&seen[0], &seen[1]};
    for (int i = 0; i < 2; i++) {
        gate_init(&g[i]);
        assert_int_equal(vmaf_thread_pool_enqueue(pool, slot_job, &where[i], sizeof where[i]), 0);
    }
    for (int i = 0; i < 2; i++) await(&g[i].entered);
    assert_ptr_not_equal(seen[0].slot, seen[1].slot);
    for (int i = 0; i < 2; i++) gate_open(&g[i]);
    finish(pool);
}

/* Two pools on the same threads do not see each other's. */
static void test_thread_data_of_two_pools(void **state) {
    (void)state;
    VmafThreadPool *pool[2];
    made = freed = own_jobs = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(vmaf_thread_pool_create(&pool[i], (VmafThreadPoolConfig){2, i == 0 ? own_free : NULL}), 0);
    atomic_uint counter = 0;
    for (int i = 0; i < 500; i++) {
        assert_int_equal(vmaf_thread_pool_enqueue(pool[0], own_job, NULL, 0), 0);
        enqueue_count(pool[1], &counter);
    }
    for (int i = 0; i < 2; i++) finish(pool[i]);
    assert_int_equal(atomic_load(&freed), atomic_load(&made));
}

/* ---- order, progress ---------------------------------------------------------------------------------------------- */

typedef struct in_order {
    atomic_uint *next;
    unsigned index;
} in_order;

static void in_order_job(void *data, void **thread_data) {
    (void)thread_data;
    const in_order *o = data;
    unsigned expected = o->index;
    atomic_compare_exchange_strong(o->next, &expected, o->index + 1);
}

static void test_order(void **state) {
    (void)state;
    VmafThreadPool *pool = make(1);
    atomic_uint next = 0;
    for (unsigned i = 0; i < 20000; i++) {
        in_order o = {&next, i};
        assert_int_equal(vmaf_thread_pool_enqueue(pool, in_order_job, &o, sizeof o), 0);
    }
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&next), 20000);
    finish(pool);
}

/* A job that stays until the one before it is done never waits for ever. */
typedef struct chained {
    sem_t *mine, *next;
} chained;

static void chained_job(void *data, void **thread_data) {
    (void)thread_data;
    const chained *c = data;
    await(c->mine);
    sem_post(c->next);
}

static void test_jobs_wait_for_earlier_ones(void **state) {
    (void)state;
    enum { JOBS = 200 };
    for (unsigned threads = 1; threads <= 4; threads++) {
        VmafThreadPool *pool = make(threads);
        sem_t link[JOBS + 1];
        for (int i = 0; i <= JOBS; i++) assert_int_equal(sem_init(&link[i], 0, i == 0), 0);
        for (int i = 0; i < JOBS; i++) {
            chained c = {&link[i], &link[i + 1]};
            assert_int_equal(vmaf_thread_pool_enqueue(pool, chained_job, &c, sizeof c), 0);
        }
        assert_int_equal(vmaf_thread_pool_wait(pool), 0);
        finish(pool);
    }
}

/* The enqueuer may block: jobs run without it, and never on it. */
static void test_progress_without_the_enqueuer(void **state) {
    (void)state;
    VmafThreadPool *pool = make(1);
    gate g;
    occupy(&g, pool); /* entered: on another thread */
    gate_open(&g);
    finish(pool);
}

/* No more run at once than asked for. */
static atomic_int running_now, running_most;

static void watched_job(void *data, void **thread_data) {
    (void)data;
    (void)thread_data;
    int now = atomic_fetch_add(&running_now, 1) + 1, most = atomic_load(&running_most);
    while (now > most && !atomic_compare_exchange_weak(&running_most, &most, now)) {}
    sched_yield();
    atomic_fetch_sub(&running_now, 1);
}

static void test_thread_count(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        VmafThreadPool *pool = make((unsigned)threads);
        atomic_store(&running_most, 0);
        for (int i = 0; i < 500; i++) assert_int_equal(vmaf_thread_pool_enqueue(pool, watched_job, NULL, 0), 0);
        finish(pool);
        assert_true(atomic_load(&running_most) <= threads);
    }
}

/* ---- wait --------------------------------------------------------------------------------------------------------- */

static void test_wait_and_again(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    atomic_uint counter = 0;
    assert_int_equal(vmaf_thread_pool_wait(pool), 0); /* for nothing */
    for (unsigned round = 1; round <= 20; round++) {
        for (int i = 0; i < 50; i++) enqueue_count(pool, &counter);
        assert_int_equal(vmaf_thread_pool_wait(pool), 0);
        assert_int_equal(atomic_load(&counter), 50 * round);
    }
    finish(pool);
}

static void *wait_thread(void *argument) {
    REQUIRE(vmaf_thread_pool_wait(argument) == 0);
    return NULL;
}

static void test_several_wait(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    for (int round = 0; round < 20; round++) {
        gate g;
        pthread_t thread[4];
        occupy(&g, pool);
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, wait_thread, pool), 0);
        gate_open(&g);
        for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    finish(pool);
}

static atomic_int wait_result, destroy_result;

static void waiting_job(void *data, void **thread_data) {
    (void)thread_data;
    VmafThreadPool *pool = *(VmafThreadPool **)data;
    atomic_store(&wait_result, vmaf_thread_pool_wait(pool));
    atomic_store(&destroy_result, vmaf_thread_pool_destroy(pool));
}

static void test_wait_in_a_job(void **state) {
    (void)state;
    VmafThreadPool *pool = make(1);
    assert_int_equal(vmaf_thread_pool_enqueue(pool, waiting_job, &pool, sizeof pool), 0);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&wait_result), -EDEADLK);
    assert_int_equal(atomic_load(&destroy_result), -EDEADLK);
    finish(pool);
}

/* A job of one pool waits for another pool: on shared threads too. */
static void other_pool_job(void *data, void **thread_data) {
    (void)thread_data;
    atomic_uint *counter = *(atomic_uint **)data;
    VmafThreadPool *inner = make(2);
    for (int i = 0; i < 10; i++) enqueue_count(inner, counter);
    REQUIRE(vmaf_thread_pool_wait(inner) == 0);
    finish(inner);
}

static void test_pool_in_a_job(void **state) {
    (void)state;
    VmafThreadPool *pool = make(2);
    atomic_uint counter = 0;
    atomic_uint *pointer = &counter;
    for (int i = 0; i < 20; i++)
        assert_int_equal(vmaf_thread_pool_enqueue(pool, other_pool_job, &pointer, sizeof pointer), 0);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&counter), 200);
    finish(pool);
}

/* ---- destroy ------------------------------------------------------------------------------------------------------ */

static atomic_uint dropped;

static void drop(void *data) {
    if (data != NULL) atomic_fetch_add(&dropped, 1);
}

typedef struct opener {
    gate *gate;
    VmafThreadPool *pool;
} opener;

/* Destroy has begun: enqueue says so. Until the gate is open it cannot end. */
static void *open_gate_thread(void *argument) {
    const opener *o = argument;
    int error;
    while ((error = vmaf_thread_pool_enqueue(o->pool, pointer_job, NULL, 0)) == 0) sched_yield();
    REQUIRE(error == -ECANCELED);
    gate_open(o->gate);
    return NULL;
}

/* Destroy while one job runs and `jobs` wait to start. */
static void destroy_with_queue(const VmafThreadPoolOptions *options, unsigned jobs, size_t size, atomic_uint *counter) {
    VmafThreadPool *pool = make(1);
    gate g;
    pthread_t thread;
    unsigned char data[2000] = {0};
    memcpy(data, &counter, sizeof counter);
    REQUIRE(vmaf_thread_pool_options(pool, options) == 0);
    occupy(&g, pool);
    for (unsigned i = 0; i < jobs; i++) REQUIRE(vmaf_thread_pool_enqueue(pool, count_job, data, size) == 0);
    opener o = {&g, pool};
    REQUIRE(pthread_create(&thread, NULL, open_gate_thread, &o) == 0);
    finish(pool);
    pthread_join(thread, NULL);
}

static void test_destroy_drops(void **state) {
    (void)state;
    for (size_t size = 8; size <= 2000; size += 1992) { /* in the task, on the heap */
        atomic_uint counter = 0;
        atomic_store(&dropped, 0);
        destroy_with_queue(&(VmafThreadPoolOptions){.drop = drop}, 100, size, &counter);
        assert_int_equal(atomic_load(&dropped), 100);
        destroy_with_queue(&(VmafThreadPoolOptions){0}, 100, size, &counter);
        assert_int_equal(atomic_load(&counter), 0);
    }
}

static void test_destroy_runs(void **state) {
    (void)state;
    atomic_uint counter = 0;
    atomic_store(&dropped, 0);
    destroy_with_queue(&(VmafThreadPoolOptions){.destroy_runs = 1, .drop = drop}, 100, 8, &counter);
    assert_int_equal(atomic_load(&counter), 100);
    assert_int_equal(atomic_load(&dropped), 0);
}

/* ---- the bound ---------------------------------------------------------------------------------------------------- */

typedef struct flood {
    VmafThreadPool *pool;
    atomic_uint *counter;
    atomic_uint enqueued;
    unsigned jobs;
    int result;
} flood;

static void *flood_thread(void *argument) {
    flood *f = argument;
    for (unsigned i = 0; i < f->jobs && f->result == 0; i++) {
        f->result = vmaf_thread_pool_enqueue(f->pool, count_job, &f->counter, sizeof f->counter);
        atomic_fetch_add(&f->enqueued, 1);
    }
    return NULL;
}

/* Enqueue blocks once `bound` jobs wait behind a pool of `threads` that are all held. */
static void check_bound(VmafThreadPool *pool, unsigned threads, unsigned bound) {
    gate g[4];
    pthread_t thread;
    atomic_uint counter = 0;
    flood f = {.pool = pool, .counter = &counter, .jobs = 1000};
    for (unsigned i = 0; i < threads; i++) occupy(&g[i], pool);
    assert_int_equal(pthread_create(&thread, NULL, flood_thread, &f), 0);
    while (atomic_load(&f.enqueued) < bound) sched_yield();
    for (int i = 0; i < 1000; i++) sched_yield(); /* time to do what it must not */
    assert_int_equal(atomic_load(&f.enqueued), bound);
    for (unsigned i = 0; i < threads; i++) gate_open(&g[i]);
    pthread_join(thread, NULL);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(atomic_load(&counter), 1000);
    finish(pool);
}

/* As many jobs wait as there are threads, unless the options say otherwise: each of them holds its pictures. */
static void test_bound(void **state) {
    (void)state;
#ifdef WEFT_VIEW_SHARED
    const unsigned most = 2; /* the process's pool has no more */
#else
    const unsigned most = 4;
#endif
    for (unsigned threads = 1; threads <= most; threads++) check_bound(make(threads), threads, threads);
    VmafThreadPool *pool = make(1);
    assert_int_equal(vmaf_thread_pool_options(pool, &(VmafThreadPoolOptions){.queue_max = 3}), 0);
    check_bound(pool, 1, 3);
}

static void *destroy_thread(void *argument) {
    REQUIRE(vmaf_thread_pool_destroy(argument) == 0);
    return NULL;
}

/* Who blocks for a place when the pool is destroyed is told so. */
static void test_destroy_with_a_full_queue(void **state) {
    (void)state;
    VmafThreadPool *pool = make(1);
    gate g;
    pthread_t filler, destroyer;
    atomic_uint counter = 0;
    flood f = {.pool = pool, .counter = &counter, .jobs = 1000};
    occupy(&g, pool);
    assert_int_equal(pthread_create(&filler, NULL, flood_thread, &f), 0);
    while (atomic_load(&f.enqueued) < 1) sched_yield();
    for (int i = 0; i < 1000; i++) sched_yield(); /* most likely it sleeps for the second by now */
    assert_int_equal(pthread_create(&destroyer, NULL, destroy_thread, pool), 0);
    pthread_join(filler, NULL); /* before the one job has ended */
    assert_int_equal(f.result, -ECANCELED);
    gate_open(&g);
    pthread_join(destroyer, NULL);
    assert_int_equal(atomic_load(&counter), 0);
}

/* A job enqueues into its own full pool: upstream's deadlocks. */
static void spawning_job(void *data, void **thread_data) {
    (void)thread_data;
    flood *f = *(flood **)data;
    for (unsigned i = 0; i < f->jobs; i++)
        if (vmaf_thread_pool_enqueue(f->pool, count_job, &f->counter, sizeof f->counter) != 0) f->result = 1;
}

static void test_bound_in_a_job(void **state) {
    (void)state;
    VmafThreadPool *pool = make(1);
    atomic_uint counter = 0;
    flood f = {.pool = pool, .counter = &counter, .jobs = 100}, *pointer = &f;
    assert_int_equal(vmaf_thread_pool_enqueue(pool, spawning_job, &pointer, sizeof pointer), 0);
    assert_int_equal(vmaf_thread_pool_wait(pool), 0);
    assert_int_equal(f.result, 0);
    assert_int_equal(atomic_load(&counter), 100);
    finish(pool);
}

typedef struct chain {
    VmafThreadPool *pool;
    sem_t second_runs;
    atomic_uint counter;
} chain;

static void await_job(void *data, void **thread_data) {
    (void)thread_data;
    await(&(*(chain **)data)->second_runs);
}

static int enqueue_three_task(void *payload, weft_worker *self) {
    chain *c = *(chain **)payload;
    (void)self;
    REQUIRE(vmaf_thread_pool_enqueue(c->pool, await_job, &c, sizeof c) == 0);
    for (int i = 0; i < 3; i++) enqueue_count(c->pool, &c->counter);
    return 0;
}

static int second_task(void *payload, weft_worker *self) {
    (void)self;
    return sem_post(&(*(chain **)payload)->second_runs);
}

/* The only worker of another pool sleeps for a place. What runs here waits for a task of that pool, which its spare runs. */
static void test_bound_in_a_task(void **state) {
    (void)state;
    weft_pool *other = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    chain c = {.pool = make(1)}, *pointer = &c;
    assert_int_equal(sem_init(&c.second_runs, 0, 0), 0);
    assert_int_equal(vmaf_thread_pool_options(c.pool, &(VmafThreadPoolOptions){.queue_max = 1}), 0);
    assert_int_equal(weft_submit(other, &group, enqueue_three_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_submit(other, &group, second_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait_until(other, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(vmaf_thread_pool_wait(c.pool), 0);
    assert_int_equal(atomic_load(&c.counter), 3);
    finish(c.pool);
    end_pool(other);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    setenv("WEFT_WORKERS", "2", 1); /* some cases need two jobs to run at once, on any machine */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_data_is_copied),
        cmocka_unit_test(test_no_data),
#if !SANITIZED
        cmocka_unit_test(test_no_allocation),
#endif
        cmocka_unit_test(test_thread_data),
        cmocka_unit_test(test_thread_data_side_by_side),
        cmocka_unit_test(test_thread_data_of_two_pools),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_jobs_wait_for_earlier_ones),
        cmocka_unit_test(test_progress_without_the_enqueuer),
        cmocka_unit_test(test_thread_count),
        cmocka_unit_test(test_wait_and_again),
        cmocka_unit_test(test_several_wait),
        cmocka_unit_test(test_wait_in_a_job),
        cmocka_unit_test(test_pool_in_a_job),
        cmocka_unit_test(test_destroy_drops),
        cmocka_unit_test(test_destroy_runs),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_destroy_with_a_full_queue),
        cmocka_unit_test(test_bound_in_a_job),
        cmocka_unit_test(test_bound_in_a_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
