/* test_zstd_adapter.c: the functions of zstd's pool on weft: on threads of the pool's own, and with WEFT_VIEW_SHARED on the
 * process's. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "pool.h"

static void count_job(void *argument) { atomic_fetch_add((atomic_uint *)argument, 1); }
static void gate_job(void *argument) { gate_task(&argument, NULL); }

static POOL_ctx *make(size_t threads, size_t queue) {
    POOL_ctx *pool = POOL_create(threads, queue);
    REQUIRE(pool != NULL);
    return pool;
}

static void occupy(gate *g, POOL_ctx *pool) {
    gate_init(g);
    POOL_add(pool, gate_job, g);
    await(&g->entered);
}

static void test_work_and_join(void **state) {
    (void)state;
    for (size_t threads = 1; threads <= 4; threads++)
        for (size_t queue = 0; queue <= 3; queue++) {
            POOL_ctx *pool = make(threads, queue);
            atomic_uint counter = 0;
            POOL_joinJobs(pool); /* for nothing */
            for (unsigned round = 1; round <= 3; round++) {
                for (int i = 0; i < 300; i++) POOL_add(pool, count_job, &counter);
                POOL_joinJobs(pool);
                assert_int_equal(atomic_load(&counter), 300 * round);
            }
            for (int i = 0; i < 100; i++) POOL_add(pool, count_job, &counter);
            POOL_free(pool); /* runs them */
            assert_int_equal(atomic_load(&counter), 1000);
        }
}

static void test_misuse(void **state) {
    (void)state;
    assert_null(POOL_create(0, 1));
    assert_null(ZSTD_createThreadPool(0));
    assert_null(POOL_create(1, SIZE_MAX / 8));
    POOL_free(NULL);
    assert_int_equal(POOL_sizeof(NULL), 0);
    assert_int_equal(POOL_resize(NULL, 1), 1);
    ZSTD_threadPool *pool = ZSTD_createThreadPool(2);
    assert_non_null(pool);
    assert_int_equal(POOL_resize(pool, 0), 1);
    assert_true(POOL_sizeof(pool) > sizeof(void *));
    ZSTD_freeThreadPool(pool);
}

/* With the process's pool no more jobs run at once than it has threads. */
static unsigned at_once(unsigned threads) {
#ifdef WEFT_VIEW_SHARED
    const unsigned shared = 2; /* main asks for it */
    return threads < shared ? threads : shared;
#else
    return threads;
#endif
}

/* A queue of size 0 takes a job when a thread is free for it. */
static void test_no_queue(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        POOL_ctx *pool = make(threads, 0);
        gate gates[3];
        atomic_uint counter = 0;
        for (unsigned i = 0; i < threads; i++) {
            gate_init(&gates[i]);
            assert_int_equal(POOL_tryAdd(pool, gate_job, &gates[i]), 1);
        }
        for (unsigned i = 0; i < at_once(threads); i++)
            await(&gates[i].entered); /* a queue that is empty takes none, either */
        assert_int_equal(POOL_tryAdd(pool, count_job, &counter), 0);
        for (unsigned i = 0; i < threads; i++) gate_open(&gates[i]);
        POOL_add(pool, count_job, &counter); /* when the first has ended */
        POOL_joinJobs(pool);
        assert_int_equal(POOL_tryAdd(pool, count_job, &counter), 1);
        POOL_free(pool);
        assert_int_equal(atomic_load(&counter), 2);
    }
}

static void test_full_queue(void **state) {
    (void)state;
    POOL_ctx *pool = make(1, 2);
    gate g;
    atomic_uint counter = 0;
    occupy(&g, pool);
    for (int i = 0; i < 2; i++) assert_int_equal(POOL_tryAdd(pool, count_job, &counter), 1);
    assert_int_equal(POOL_tryAdd(pool, count_job, &counter), 0);
    gate_open(&g);
    for (int i = 0; i < 50; i++) POOL_add(pool, count_job, &counter); /* waits for places */
    POOL_free(pool);
    assert_int_equal(atomic_load(&counter), 52);
}

typedef struct in_order {
    atomic_uint *next;
    unsigned index;
} in_order;

static void in_order_job(void *argument) {
    const in_order *o = argument;
    unsigned expected = o->index;
    atomic_compare_exchange_strong(o->next, &expected, o->index + 1);
}

static void test_order(void **state) {
    (void)state;
    enum { JOBS = 2000 };
    static in_order o[JOBS];
    for (size_t queue = 0; queue <= JOBS; queue += JOBS / 2) {
        POOL_ctx *pool = make(1, queue);
        atomic_uint next = 0;
        for (unsigned i = 0; i < JOBS; i++) {
            o[i] = (in_order){&next, i};
            POOL_add(pool, in_order_job, &o[i]);
        }
        POOL_free(pool);
        assert_int_equal(atomic_load(&next), JOBS);
    }
}

/* Each job waits for the one before it, as compression jobs do. */
typedef struct turn {
    atomic_uint *next;
    unsigned index;
} turn;

static void turn_job(void *argument) {
    const turn *mine = argument;
    while (atomic_load(mine->next) != mine->index) sched_yield();
    atomic_store(mine->next, mine->index + 1);
}

static void test_jobs_wait_for_earlier_ones(void **state) {
    (void)state;
    enum { JOBS = 600 };
    static turn turns[JOBS];
    for (size_t queue = 0; queue <= 16; queue += 8) {
        POOL_ctx *pool = make(4, queue);
        atomic_uint next = 0;
        for (unsigned i = 0; i < JOBS; i++) {
            turns[i] = (turn){&next, i};
            POOL_add(pool, turn_job, &turns[i]);
        }
        POOL_free(pool);
        assert_int_equal(atomic_load(&next), JOBS);
    }
}

typedef struct crowd {
    sem_t entered, opened;
} crowd;

static void crowd_job(void *argument) {
    crowd *c = argument;
    sem_post(&c->entered);
    await(&c->opened);
}

/* As many jobs as `wanted` run at once, and no more than that are begun. */
static void check_crowd(POOL_ctx *pool, unsigned wanted) {
    crowd c;
    REQUIRE(sem_init(&c.entered, 0, 0) == 0 && sem_init(&c.opened, 0, 0) == 0);
    for (unsigned i = 0; i < wanted + 2; i++) REQUIRE(POOL_tryAdd(pool, crowd_job, &c) == 1);
    for (unsigned i = 0; i < wanted; i++) await(&c.entered);
    nap();
    int more = 0;
    sem_getvalue(&c.entered, &more);
    assert_int_equal(more, 0);
    for (unsigned i = 0; i < wanted + 2; i++) sem_post(&c.opened);
    POOL_joinJobs(pool);
}

static void test_resize(void **state) {
    (void)state;
    POOL_ctx *pool = make(2, 64);
    const size_t before = POOL_sizeof(pool);
    check_crowd(pool, at_once(2));
#ifndef WEFT_VIEW_SHARED /* there more threads are the same ones */
    assert_int_equal(POOL_resize(pool, 5), 0);
    assert_true(POOL_sizeof(pool) > before);
    check_crowd(pool, 5);
#endif
    assert_int_equal(POOL_resize(pool, 1), 0);
    check_crowd(pool, 1);
    assert_int_equal(POOL_resize(pool, 2), 0);
    check_crowd(pool, at_once(2));
    assert_true(POOL_sizeof(pool) >= before);
    POOL_free(pool);
}

/* Threads that go while their jobs run take no further ones. */
static void test_fewer_while_jobs_run(void **state) {
    (void)state;
    POOL_ctx *pool = make(2, 8);
    gate gates[2];
    crowd c;
    REQUIRE(sem_init(&c.entered, 0, 0) == 0 && sem_init(&c.opened, 0, 0) == 0);
    for (int i = 0; i < 2; i++) occupy(&gates[i], pool);
    for (int i = 0; i < 4; i++) POOL_add(pool, crowd_job, &c);
    assert_int_equal(POOL_resize(pool, 1), 0);
    for (int i = 0; i < 2; i++) gate_open(&gates[i]);
    await(&c.entered);
    for (int i = 0; i < 20; i++) nap();
    int more = 0;
    sem_getvalue(&c.entered, &more);
    assert_int_equal(more, 0);
    for (int i = 0; i < 4; i++) sem_post(&c.opened);
    POOL_free(pool);
}

/* What waits goes to threads that are added, and none is lost when threads go. */
static void test_resize_while_jobs_wait(void **state) {
    (void)state;
    POOL_ctx *pool = make(1, 300);
    gate g;
    atomic_uint counter = 0;
    occupy(&g, pool);
    for (int i = 0; i < 300; i++) POOL_add(pool, count_job, &counter);
#ifndef WEFT_VIEW_SHARED
    assert_int_equal(POOL_resize(pool, 3), 0);
    while (atomic_load(&counter) < 300) sched_yield(); /* past the gate */
#endif
    assert_int_equal(POOL_resize(pool, 1), 0);
    for (int i = 0; i < 100; i++) POOL_tryAdd(pool, count_job, &counter);
    gate_open(&g);
    POOL_joinJobs(pool);
    assert_true(atomic_load(&counter) >= 300);
    POOL_free(pool);
}

/* ---- its memory ---------------------------------------------------------------------------------------------------- */

typedef struct ledger {
    unsigned left; /* allocations that succeed */
    int open;
} ledger;

static void *ledger_take(void *opaque, size_t size) {
    ledger *l = opaque;
    if (l->left == 0) return NULL;
    l->left--;
    l->open++;
    return malloc(size);
}

static void ledger_give(void *opaque, void *address) {
    if (address != NULL) ((ledger *)opaque)->open--;
    free(address);
}

#ifndef WEFT_VIEW_SHARED
enum { MANY = WEFT_WORKERS_MAX + 8 };

static void enter_job(void *opaque) {
    sem_t *const *events = opaque;
    sem_post(events[0]);
    await(events[1]);
}

/* More threads than one pool of weft can have: all jobs run at once, or this never ends. */
static void test_many_threads(void **state) {
    (void)state;
    sem_t entered, opened, *events[] = {&entered, &opened};
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    assert_int_equal(sem_init(&opened, 0, 0), 0);
    POOL_ctx *pool = POOL_create(MANY, MANY);
    assert_non_null(pool);
    for (int i = 0; i < MANY; i++) POOL_add(pool, enter_job, events);
    for (int i = 0; i < MANY; i++) await(&entered);
    for (int i = 0; i < MANY; i++) sem_post(&opened);
    POOL_free(pool);
}
#endif

static void test_memory_is_the_callers(void **state) {
    (void)state;
    ledger l = {0, 0};
    const ZSTD_customMem memory = {ledger_take, ledger_give, &l};
    atomic_uint counter = 0;
    unsigned enough = 0;
    for (POOL_ctx *pool = NULL; pool == NULL; enough++) {
        assert_true(enough < 10);
        l.left = enough;
        pool = POOL_create_advanced(2, 4, memory);
        if (pool == NULL) {
            assert_int_equal(l.open, 0);
            continue;
        }
        for (int i = 0; i < 20; i++) POOL_add(pool, count_job, &counter);
        assert_int_equal(POOL_resize(pool, 9), 1); /* no memory: as before */
        for (int i = 0; i < 20; i++) POOL_add(pool, count_job, &counter);
        POOL_free(pool);
    }
    assert_int_equal(l.open, 0);
    assert_int_equal(atomic_load(&counter), 40);
}

/* In a forked child the parent's threads are not there. */
static void test_fork(void **state) {
    (void)state;
#ifdef SANITIZED_THREAD
    SKIP("ThreadSanitizer: the child makes no threads");
#else
    POOL_ctx *pool = make(2, 4);
    atomic_uint counter = 0;
    POOL_add(pool, count_job, &counter);
    POOL_joinJobs(pool);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 20; i++) POOL_add(pool, count_job, &counter);
        POOL_joinJobs(pool);
        const unsigned seen = atomic_load(&counter);
        POOL_free(pool);
        _exit(seen == 21 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    POOL_free(pool);
#endif
}

/* ---- its threads --------------------------------------------------------------------------------------------------- */

static int openings;   /* of weft's pools, tried */
static bool is_closed; /* none succeeds */

/* The names are the linker's choice. */
int __real_weft_pool_create(weft_pool **pool, const weft_config *config);
int __wrap_weft_pool_create(weft_pool **pool, const weft_config *config);
int __real_weft_pool_default(weft_pool **pool);
int __wrap_weft_pool_default(weft_pool **pool);

int __wrap_weft_pool_create(weft_pool **pool, const weft_config *config) {
    openings++;
    return is_closed ? WEFT_EAGAIN : __real_weft_pool_create(pool, config);
}

int __wrap_weft_pool_default(weft_pool **pool) {
    openings++;
    return is_closed ? WEFT_ENOMEM : __real_weft_pool_default(pool);
}

/* A pool without jobs has no threads, and each crew begins once. */
static void test_threads_begin_with_the_first_job(void **state) {
    (void)state;
    atomic_uint counter = 0;
    openings = 0;
    POOL_ctx *pool = make(2, 8);
    assert_int_equal(POOL_resize(pool, 3), 0);
    assert_int_equal(POOL_resize(pool, 2), 0);
    POOL_joinJobs(pool);
    POOL_free(pool);
    assert_int_equal(openings, 0);
    pool = make(2, 8);
    for (int i = 0; i < 100; i++) POOL_add(pool, count_job, &counter);
    POOL_joinJobs(pool);
    assert_int_equal(openings, 1);
    POOL_free(pool);
    assert_int_equal(openings, 1);
    assert_int_equal(atomic_load(&counter), 100);
}

static void who_job(void *thread) { *(pthread_t *)thread = pthread_self(); }

/* Without threads a job runs in the thread that adds it; later ones have threads when there are some. */
static void test_no_threads(void **state) {
    (void)state;
    for (size_t queue = 0; queue <= 2; queue++) {
        atomic_uint counter = 0;
        pthread_t ran = 0;
        POOL_ctx *pool = make(2, queue);
        is_closed = true;
        for (unsigned i = 1; i <= 20; i++) {
            POOL_add(pool, count_job, &counter);
            assert_int_equal(atomic_load(&counter), i);
        }
        assert_int_equal(POOL_tryAdd(pool, who_job, &ran), 1);
        is_closed = false;
        assert_true(pthread_equal(ran, pthread_self()));
        POOL_add(pool, who_job, &ran);
        POOL_joinJobs(pool);
        assert_false(pthread_equal(ran, pthread_self()));
        POOL_free(pool);
    }
}

/* More threads that cannot be had take no jobs from those that there are. */
static void test_no_more_threads(void **state) {
    (void)state;
    pthread_t ran = 0;
    POOL_ctx *pool = make(2, 2);
    POOL_add(pool, who_job, &ran);
    POOL_joinJobs(pool);
    is_closed = true;
    assert_int_equal(POOL_resize(pool, 4), 0);
    for (int i = 0; i < 20; i++) {
        ran = pthread_self();
        POOL_add(pool, who_job, &ran);
        POOL_joinJobs(pool);
        assert_false(pthread_equal(ran, pthread_self()));
    }
    is_closed = false;
    POOL_free(pool);
}

/* ---- its end ------------------------------------------------------------------------------------------------------- */

static int refusals;    /* of waits that are left; with the last one the gates open */
static int submissions; /* that are left before the gates open; 0: none are counted */
static gate two[2];

int __real_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);
int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);
int __real_weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);
int __wrap_weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

static void open_both(void) {
    for (int i = 0; i < 2; i++) gate_open(&two[i]);
}

int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns) {
    if (refusals == 0) return __real_weft_group_wait_until(pool, group, help, deadline_ns);
    if (--refusals == 0) open_both();
    return refusals % 2 == 0 ? WEFT_ENOMEM : WEFT_EAGAIN;
}

int __wrap_weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size) {
    if (submissions > 0 && --submissions == 0) open_both();
    return __real_weft_submit(pool, group, fn, payload, size);
}

static void test_free_without_memory(void **state) {
    (void)state;
    POOL_ctx *pool = make(2, 8);
    atomic_uint counter = 0;
    for (int i = 0; i < 2; i++) occupy(&two[i], pool);
    for (int i = 0; i < 8; i++) POOL_add(pool, count_job, &counter);
    refusals = 3;
    POOL_free(pool);
    assert_int_equal(atomic_load(&counter), 8);
}

/* A fork while one job runs and two wait: what has not started runs in the child, whichever of its calls comes first. */
static void test_fork_while_jobs_run(void **state) {
    (void)state;
#ifdef SANITIZED_THREAD
    SKIP("ThreadSanitizer: the child makes no threads");
#else
    for (size_t threads = 1; threads <= 2; threads++) {
        POOL_ctx *pool = make(threads, 2);
        atomic_uint counter = 0;
        for (size_t i = 0; i < threads; i++) occupy(&two[i], pool);
        for (int i = 0; i < 2; i++) POOL_add(pool, count_job, &counter);
        fflush(NULL);
        for (int first = 0; first < 4; first++) {
            const pid_t child = fork();
            if (child == 0) {
                if (first == 0) POOL_add(pool, count_job, &counter); /* for which there is no room yet */
                if (first == 1 && POOL_tryAdd(pool, count_job, &counter) != 1) _exit(2);
                if (first == 2) POOL_joinJobs(pool);
                POOL_free(pool);
                _exit((int)atomic_load(&counter) == 2 + (first < 2) ? 0 : 1);
            }
            int status = 0;
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
        open_both();
        POOL_free(pool);
        assert_int_equal(atomic_load(&counter), 2);
    }
#endif
}

static void free_job(void *pool) { POOL_free(pool); }

static void test_free_in_a_job(void **state) {
    (void)state;
    POOL_ctx *pool = make(1, 8);
    atomic_uint counter = 0;
    POOL_add(pool, free_job, pool);
    POOL_joinJobs(pool);
    for (int i = 0; i < 20; i++) POOL_add(pool, count_job, &counter);
    POOL_free(pool);
    assert_int_equal(atomic_load(&counter), 20);
}

#ifdef WEFT_VIEW_SHARED
/* One permit may wait to start. The next one's submission waits for a worker, and workers for the pool's lock. */
static void test_bounded(void **state) {
    (void)state;
    setenv("WEFT_QUEUE_MAX", "1", 1);
    POOL_ctx *pool = make(4, 8);
    atomic_uint counter = 0;
    for (int i = 0; i < 2; i++) occupy(&two[i], pool); /* the first makes the process's pool */
    unsetenv("WEFT_QUEUE_MAX");
    submissions = 2;
    for (int i = 0; i < 8; i++) POOL_add(pool, count_job, &counter);
    POOL_joinJobs(pool);
    assert_int_equal(atomic_load(&counter), 8);
    POOL_free(pool);
}
#endif

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    setenv("WEFT_WORKERS", "2", 1); /* two jobs run at once, on any machine */
    const struct CMUnitTest tests[] = {
#ifndef WEFT_VIEW_SHARED
        cmocka_unit_test(test_many_threads),
#endif
        cmocka_unit_test(test_work_and_join),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_no_queue),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_jobs_wait_for_earlier_ones),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_fewer_while_jobs_run),
        cmocka_unit_test(test_resize_while_jobs_wait),
        cmocka_unit_test(test_memory_is_the_callers),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_fork_while_jobs_run),
        cmocka_unit_test(test_threads_begin_with_the_first_job),
        cmocka_unit_test(test_no_threads),
        cmocka_unit_test(test_no_more_threads),
        cmocka_unit_test(test_free_without_memory),
        cmocka_unit_test(test_free_in_a_job),
#ifdef WEFT_VIEW_SHARED
        cmocka_unit_test(test_bounded),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
