/* test_shared_pool.c: hosts' pools on the process's own, called in tasks of that pool, where there is no other thread to
 * do their jobs. Each case would hang, or write past what it has, if the adapters took their callers for strangers. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "oai/fifo/thread-pool.h"
#include "task_manager.h"
#include "thread_pool.h"
#include "thread_pool_weft.h"

enum { CALLS = 40, THREADS = 2 }; /* more calls than there are workers and spares; as many threads as the pool has */

static weft_pool *acquire(void) {
    weft_pool *pool = NULL;
    REQUIRE(weft_pool_default(&pool) == WEFT_OK);
    return pool;
}

/* Every thread of the pool is in a host's function, or soon will be. */
static void call_in_tasks(weft_fn fn, void *payload) {
    const enum weft_help helps[] = {WEFT_HELP_NONE, WEFT_HELP_BELOW};
    weft_pool *pool = acquire();
    for (int i = 0; i < 2; i++) {
        weft_group group = WEFT_GROUP_INIT;
        for (int call = 0; call < CALLS; call++)
            assert_int_equal(weft_submit(pool, &group, fn, &payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, helps[i], 0), WEFT_OK);
    }
    end_pool(pool);
}

static void complete_args(void *args) { completed_task_ans(args); }

static void make_manager(ws_task_manager_t *man) {
    int floating[THREADS] = {-1, -1};
    init_ws_task_manager(man, floating, THREADS);
}

static void join_three(ws_task_manager_t *man) {
    task_ans_t ans[3] = {0};
    for (int i = 0; i < 3; i++) async_ws_task_manager(man, (task_t){&ans[i], complete_args});
    join_task_ans(ans, 3);
}

static int join_own(void *payload, weft_worker *self) {
    ws_task_manager_t man;
    (void)payload;
    (void)self;
    make_manager(&man);
    join_three(&man);
    free_ws_task_manager(&man, NULL);
    return 0;
}

static int join_shared(void *payload, weft_worker *self) {
    (void)self;
    join_three(*(ws_task_manager_t **)payload);
    return 0;
}

static void test_joins(void **state) {
    (void)state;
    ws_task_manager_t man;
    call_in_tasks(join_own, NULL);
    make_manager(&man);
    call_in_tasks(join_shared, &man);
    free_ws_task_manager(&man, NULL);
}

static void process_message(void *data) { ++*(int *)data; }

static int pull_three(void *payload, weft_worker *self) {
    tpool_t *pool = *(tpool_t **)payload;
    notifiedFIFO_t response;
    (void)self;
    initNotifiedFIFO(&response);
    for (int i = 0; i < 3; i++) {
        notifiedFIFO_elt_t *msg = newNotifiedFIFO_elt(sizeof(int), 1, &response, process_message);
        *(int *)NotifiedFifoData(msg) = 0;
        pushTpool(pool, msg);
    }
    for (int i = 0; i < 3; i++) {
        notifiedFIFO_elt_t *msg = pullTpool(&response, pool);
        REQUIRE(*(int *)NotifiedFifoData(msg) == 1);
        delNotifiedFIFO_elt(msg);
    }
    return 0;
}

static void test_pulls(void **state) {
    (void)state;
    tpool_t pool;
    assert_int_equal(initFloatingCoresTpool(THREADS, &pool, false, NULL), 0);
    call_in_tasks(pull_three, &pool);
    assert_int_equal(abortTpool(&pool), 0);
}

/* ---- libvmaf's ---------------------------------------------------------------------------------------------------- */

static VmafThreadPool *make(void (*data_free)(void *)) {
    VmafThreadPool *pool = NULL;
    VmafThreadPoolConfig config = {.n_threads = THREADS, .thread_data_free = data_free};
    REQUIRE(vmaf_thread_pool_create(&pool, config) == 0);
    return pool;
}

static void count_job(void *data, void **thread_data) {
    (void)thread_data;
    atomic_fetch_add(*(atomic_uint **)data, 1);
}

typedef struct flood {
    VmafThreadPool *pool;
    atomic_uint count;
} flood;

static int enqueue_twenty(void *payload, weft_worker *self) {
    flood *f = *(flood **)payload;
    atomic_uint *count = &f->count;
    (void)self;
    for (int i = 0; i < 20; i++) REQUIRE(vmaf_thread_pool_enqueue(f->pool, count_job, &count, sizeof count) == 0);
    return 0;
}

static void test_bounded_queue(void **state) {
    (void)state;
    flood f = {.pool = make(NULL)};
    assert_int_equal(vmaf_thread_pool_options(f.pool, &(VmafThreadPoolOptions){.queue_max = 1}), 0);
    call_in_tasks(enqueue_twenty, &f);
    assert_int_equal(vmaf_thread_pool_wait(f.pool), 0);
    assert_int_equal(atomic_load(&f.count), 2 * CALLS * 20);
    assert_int_equal(vmaf_thread_pool_destroy(f.pool), 0);
}

static atomic_uint live_data, data_jobs;

static void data_job(void *data, void **thread_data) {
    (void)data;
    if (*thread_data == NULL) {
        *thread_data = malloc(1);
        atomic_fetch_add(&live_data, 1);
    }
    atomic_fetch_add(&data_jobs, 1);
}

static void data_free(void *data) {
    free(data);
    atomic_fetch_sub(&live_data, 1);
}

/* A thread from outside that runs anybody's tasks runs the host's, with data of its own. */
static void test_data_of_who_helps_anybody(void **state) {
    (void)state;
    weft_pool *pool = acquire();
    VmafThreadPool *vmaf = make(data_free);
    weft_group group = WEFT_GROUP_INIT;
    unsigned workers = weft_pool_workers(pool);
    gate *gates = calloc(workers, sizeof *gates);
    assert_non_null(gates);
    for (unsigned i = 0; i < workers; i++) gate_occupy(&gates[i], pool, &group);
    assert_int_equal(vmaf_thread_pool_enqueue(vmaf, data_job, NULL, 0), 0);
    while (atomic_load(&data_jobs) == 0)
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_ANY, clock_ns() + 1000000), WEFT_ETIMEDOUT);
    for (unsigned i = 0; i < workers; i++) gate_open(&gates[i]);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(vmaf_thread_pool_destroy(vmaf), 0);
    assert_int_equal(atomic_load(&live_data), 0);
    free(gates);
    end_pool(pool);
}

/* ---- a pool destroyed by a job of another, which its own job waits for ---------------------------------------------- */

static VmafThreadPool *outer, *inner;
static atomic_int wait_result = 1, destroy_result = 1;
static sem_t waits;

static void inner_job(void *data, void **thread_data) {
    (void)data;
    (void)thread_data;
    await(&waits);
    for (int i = 0; i < 20; i++) nap(); /* most likely the outer job is in its wait by now; else that is refused */
    atomic_store(&destroy_result, vmaf_thread_pool_destroy(outer));
}

static void outer_job(void *data, void **thread_data) {
    (void)data;
    (void)thread_data;
    REQUIRE(vmaf_thread_pool_enqueue(inner, inner_job, NULL, 0) == 0);
    sem_post(&waits);
    atomic_store(&wait_result, vmaf_thread_pool_wait(inner));
}

static void test_destroyed_by_who_is_waited_for(void **state) {
    (void)state;
    atomic_uint count = 0, *pointer = &count;
    outer = make(NULL);
    inner = make(NULL);
    assert_int_equal(sem_init(&waits, 0, 0), 0);
    assert_int_equal(vmaf_thread_pool_enqueue(outer, outer_job, NULL, 0), 0);
    while (atomic_load(&destroy_result) > 0 || atomic_load(&wait_result) > 0) nap();
    assert_int_equal(vmaf_thread_pool_destroy(inner), 0);
    assert_int_equal(atomic_load(&wait_result) + atomic_load(&destroy_result), -EDEADLK); /* one of the two */
    if (atomic_load(&destroy_result) == 0) return;
    assert_int_equal(vmaf_thread_pool_enqueue(outer, count_job, &pointer, sizeof pointer), 0); /* nothing has happened */
    assert_int_equal(vmaf_thread_pool_wait(outer), 0);
    assert_int_equal(atomic_load(&count), 1);
    assert_int_equal(vmaf_thread_pool_destroy(outer), 0);
}

/* ---- weft_worker_here ---------------------------------------------------------------------------------------------- */

static int here_task(void *payload, weft_worker *self) {
    (void)payload;
    return weft_worker_here() == self ? 0 : 1;
}

static void test_worker_here(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    assert_null(weft_worker_here());
    for (int i = 0; i < 100; i++) assert_int_equal(weft_submit(pool, &group, here_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_null(weft_worker_here());
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    setenv("WEFT_WORKERS", "2", 1); /* some cases need two jobs to run at once, on any machine */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_pulls),
        cmocka_unit_test(test_bounded_queue),
        cmocka_unit_test(test_data_of_who_helps_anybody),
        cmocka_unit_test(test_destroyed_by_who_is_waited_for),
        cmocka_unit_test(test_worker_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
