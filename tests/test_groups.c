/* test_groups.c: waiting, nesting, errors, cancelling and deadlines, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

static const uint32_t worker_counts[] = {1, 2, 3, 8};
enum { WORKER_COUNTS = sizeof worker_counts / sizeof worker_counts[0] };

/* ---- the end of a wait -------------------------------------------------------------------------------------------- */

static void test_wait_sees_everything(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* nothing was submitted */
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    for (unsigned round = 1; round < 2000; round++) {
        atomic_uint counter = 0;
        for (unsigned i = 0; i < round % 37; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&counter), round % 37);
    }
    end_pool(pool);
}

static int plain_task(void *payload, weft_worker *self) {
    (void)self;
    (**(unsigned **)payload)++; /* no atomics: each task has its own, and the wait makes it visible */
    return 0;
}

static void test_wait_makes_visible(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    static unsigned results[256];
    memset(results, 0, sizeof results);
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned round = 1; round <= 100; round++) {
        for (size_t i = 0; i < 256; i++) {
            unsigned *result = &results[i];
            assert_int_equal(weft_submit(pool, &group, plain_task, &result, sizeof result), WEFT_OK);
        }
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        for (size_t i = 0; i < 256; i++) assert_int_equal(results[i], round);
    }
    end_pool(pool);
}

/* A group's memory is the caller's again as soon as its wait has returned: here it is overwritten and freed. */
static void poison_rounds(uint32_t workers, enum weft_help help) {
    weft_config config = config_of(workers);
    config.spin_ns = WEFT_SPIN_NONE;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    enum { ROUNDS = SANITIZED ? 3000 : 20000 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        weft_group *group = calloc(1, sizeof *group);
        REQUIRE(group != NULL);
        for (unsigned i = 0; i <= round % 3; i++) assert_int_equal(submit_count(pool, group, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, group, help, 0), WEFT_OK);
        memset(group, 0xa5, sizeof *group);
        free(group);
    }
    assert_int_equal(atomic_load(&counter), ROUNDS / 3 * 6 + (ROUNDS % 3 > 0 ? 1 : 0) + (ROUNDS % 3 > 1 ? 2 : 0));
    end_pool(pool);
}

static void test_memory_free_after_wait(void **state) {
    (void)state;
    poison_rounds(1, WEFT_HELP_NONE);
    poison_rounds(2, WEFT_HELP_NONE);
    poison_rounds(2, WEFT_HELP_BELOW);
    poison_rounds(3, WEFT_HELP_ANY);
}

/* ---- nesting ------------------------------------------------------------------------------------------------------ */

typedef struct fib {
    weft_pool *pool;
    unsigned *result;
    unsigned n;
} fib;

static int fib_task(void *payload, weft_worker *self) {
    const fib *f = payload;
    if (f->n < 2) {
        *f->result = f->n;
        return 0;
    }
    unsigned a = 0, b = 0;
    weft_group group = WEFT_GROUP_INIT;
    const fib first = {f->pool, &a, f->n - 1}, second = {f->pool, &b, f->n - 2};
    REQUIRE(weft_worker_pool(self) == f->pool);
    REQUIRE(weft_submit(f->pool, &group, fib_task, &first, sizeof first) == WEFT_OK);
    REQUIRE(weft_submit(f->pool, &group, fib_task, &second, sizeof second) == WEFT_OK);
    REQUIRE(weft_group_wait(f->pool, &group) == WEFT_OK);
    *f->result = a + b;
    return 0;
}

static void test_nested(void **state) {
    (void)state;
    for (size_t i = 0; i < WORKER_COUNTS; i++) {
        weft_pool *pool = make_pool(worker_counts[i]);
        unsigned result = 0;
        weft_group group = WEFT_GROUP_INIT;
        const fib f = {pool, &result, SANITIZED ? 12 : 17};
        assert_int_equal(weft_submit(pool, &group, fib_task, &f, sizeof f), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(result, SANITIZED ? 144 : 1597);
        end_pool(pool);
    }
}

/* All groups of a pool with one worker that must help itself through them. */
typedef struct chain {
    weft_pool *pool;
    unsigned depth;
    atomic_uint *counter;
    enum weft_help help;
} chain;

static int chain_task(void *payload, weft_worker *self) {
    (void)self;
    chain c = *(chain *)payload;
    atomic_fetch_add(c.counter, 1);
    if (c.depth-- == 0) return 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 2; i++) REQUIRE(weft_submit(c.pool, &group, chain_task, &c, sizeof c) == WEFT_OK);
    REQUIRE(weft_group_wait_until(c.pool, &group, c.help, 0) == WEFT_OK);
    return 0;
}

static void test_one_worker_helps_itself(void **state) {
    (void)state;
    static const enum weft_help helps[] = {WEFT_HELP_BELOW, WEFT_HELP_ANY};
    for (size_t i = 0; i < 2; i++) {
        weft_pool *pool = make_pool(1);
        atomic_uint counter = 0;
        weft_group group = WEFT_GROUP_INIT;
        const chain c = {pool, 8, &counter, helps[i]};
        assert_int_equal(weft_submit(pool, &group, chain_task, &c, sizeof c), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 511);
        end_pool(pool);
    }
}

typedef struct upper {
    atomic_uint *counter;
    sem_t *submitted;
} upper;

static int upper_task(void *payload, weft_worker *self) {
    const upper *u = payload;
    weft_pool *pool = weft_worker_pool(self);
    weft_group below = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(pool, &below, u->counter) == WEFT_OK);
    sem_post(u->submitted);
    REQUIRE(weft_group_wait_until(pool, &below, WEFT_HELP_NONE, 0) == WEFT_OK);
    return 0;
}

/* The only worker waits, without helping, for tasks below its own group: nobody but the outside wait can run them. */
static void test_outside_wait_helps_below(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (int round = 0; round < 100; round++) {
        atomic_uint counter = 0;
        sem_t submitted;
        sem_init(&submitted, 0, 0);
        weft_group group = WEFT_GROUP_INIT;
        const upper u = {&counter, &submitted};
        assert_int_equal(weft_submit(pool, &group, upper_task, &u, sizeof u), WEFT_OK);
        await(&submitted);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 100);
        sem_destroy(&submitted);
    }
    end_pool(pool);
}

/* ---- what a wait runs --------------------------------------------------------------------------------------------- */

static int open_gate_task(void *payload, weft_worker *self) {
    (void)self;
    gate_open(*(gate **)payload);
    return 0;
}

/* The only worker stands in the group's gate. Strangers are queued, and tasks of the group behind them. */
static void help_with(enum weft_help help, uint32_t flags, unsigned own_expected, unsigned strangers_expected) {
    weft_config config = config_of(1);
    config.flags = flags;
    weft_pool *pool = make_pool_with(&config);
    gate g;
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    atomic_uint own = 0, strangers = 0;
    gate_occupy(&g, pool, &group);
    for (int i = 0; i < 10; i++) assert_int_equal(submit_count(pool, &other, &strangers), WEFT_OK);
    for (int i = 0; i < 10; i++) assert_int_equal(submit_count(pool, &group, &own), WEFT_OK);
    uint64_t deadline_ns = clock_ns() + 3000000;
    do { /* a slow machine may run out of time before it has helped at all */
        assert_int_equal(weft_group_wait_until(pool, &group, help, deadline_ns), WEFT_ETIMEDOUT);
        deadline_ns = clock_ns() + 3000000;
    } while (atomic_load(&own) < own_expected || atomic_load(&strangers) < strangers_expected);
    assert_int_equal(atomic_load(&own), own_expected);
    assert_int_equal(atomic_load(&strangers), strangers_expected);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
    assert_int_equal(atomic_load(&own) + atomic_load(&strangers), 20);
    end_pool(pool);
}

static void test_what_a_wait_runs(void **state) {
    (void)state;
    help_with(WEFT_HELP_BELOW, 0, 10, 0);
    help_with(WEFT_HELP_ANY, 0, 10, 10);
    help_with(WEFT_HELP_NONE, 0, 0, 0);
    help_with(WEFT_HELP_BELOW, WEFT_POOL_NO_HELP, 0, 0);
    help_with(WEFT_HELP_ANY, WEFT_POOL_NO_HELP, 0, 0);
    help_with(WEFT_HELP_BELOW, WEFT_POOL_ORDERED, 0, 0);
}

/* A stranger's task opens the gate: a wait that runs any task ends, with no worker free. */
static void test_wait_runs_any(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (int round = 0; round < 200; round++) {
        gate g, *pointer = &g;
        weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
        gate_occupy(&g, pool, &group);
        assert_int_equal(weft_submit(pool, &other, open_gate_task, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_ANY, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
    }
    end_pool(pool);
}

typedef struct own_group {
    weft_pool *pool;
    weft_group *group;
    atomic_uint *refused;
} own_group;

static int wait_own_task(void *payload, weft_worker *self) {
    (void)self;
    const own_group *o = payload;
    for (int help = WEFT_HELP_BELOW; help <= WEFT_HELP_NONE; help++)
        if (weft_group_wait_until(o->pool, o->group, (enum weft_help)help, 0) == WEFT_EDEADLK)
            atomic_fetch_add(o->refused, 1);
    if (weft_group_wait(o->pool, o->group) == WEFT_EDEADLK) atomic_fetch_add(o->refused, 1);
    if (weft_group_wait_until(o->pool, o->group, WEFT_HELP_BELOW, 1) == WEFT_EDEADLK) atomic_fetch_add(o->refused, 1);
    return 0;
}

static void test_wait_for_own_group(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint refused = 0;
    own_group o = {pool, &group, &refused};
    assert_int_equal(weft_submit(pool, &group, wait_own_task, &o, sizeof o), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&refused), 5);
    o.group = NULL; /* the pool's own group */
    assert_int_equal(weft_submit(pool, NULL, wait_own_task, &o, sizeof o), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&refused), 10);
    end_pool(pool);
}

/* ---- several waiters ---------------------------------------------------------------------------------------------- */

typedef struct waiter {
    weft_pool *pool;
    weft_group *group;
    atomic_uint *counter;
    unsigned seen;
    int result;
    pthread_t thread;
} waiter;

static void *wait_thread(void *argument) {
    waiter *w = argument;
    w->result = weft_group_wait(w->pool, w->group);
    w->seen = atomic_load(w->counter);
    return NULL;
}

static int late_fail_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 77;
}

static void several_waiters(uint32_t workers, int expected) {
    enum { WAITERS = 6, TASKS = 200 };
    weft_pool *pool = make_pool(workers);
    gate g;
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    waiter waiters[WAITERS];
    gate_occupy(&g, pool, &group);
    for (int i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
    if (expected != 0) assert_int_equal(weft_submit(pool, &group, late_fail_task, NULL, 0), WEFT_OK);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (waiter){.pool = pool, .group = &group, .counter = &counter};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_thread, &waiters[i]), 0);
    }
    nap(); /* some of them sleep by now, or none */
    gate_open(&g);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].seen, TASKS);
    }
    /* Whoever began to wait before the end gets the error; one that came after it finds a group without tasks. */
    int told = 0;
    for (int i = 0; i < WAITERS; i++) {
        assert_true(waiters[i].result == expected || waiters[i].result == WEFT_OK);
        told += waiters[i].result == expected;
    }
    assert_true(told >= 1);
    memset(&group, 0xa5, sizeof group);
    end_pool(pool);
}

static void test_several_waiters(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++)
        for (size_t i = 0; i < WORKER_COUNTS; i++) {
            several_waiters(worker_counts[i], WEFT_OK);
            several_waiters(worker_counts[i], 77);
        }
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

typedef struct failing {
    unsigned index;
    unsigned first, step; /* fails when index is first, first + step, ... */
    atomic_uchar *ran;
} failing;

static int failing_task(void *payload, weft_worker *self) {
    (void)self;
    const failing *f = payload;
    REQUIRE(atomic_fetch_add(&f->ran[f->index], 1) == 0);
    bool fails = f->index >= f->first && (f->index - f->first) % f->step == 0;
    return fails ? 1000 + (int)f->index : 0;
}

static atomic_uchar cleaned[4096];

static void count_clean(void *payload, size_t size, void *context) {
    REQUIRE(size == sizeof(failing));
    REQUIRE(context == NULL);
    const failing *f = payload;
    REQUIRE(atomic_fetch_add(&cleaned[f->index], 1) == 0);
}

/* The error is that of the lowest failed submission whatever the workers do, and nothing is lost or run twice. */
static void error_rounds(uint32_t workers, uint32_t flags, unsigned first, unsigned step) {
    enum { TASKS = 300 };
    weft_config config = config_of(workers);
    config.clean = count_clean;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    for (int round = 0; round < (SANITIZED ? 20 : 100); round++) {
        static atomic_uchar ran[TASKS];
        bool refused[TASKS];
        memset(ran, 0, sizeof ran);
        memset(cleaned, 0, sizeof cleaned);
        group.flags = flags;
        for (unsigned i = 0; i < TASKS; i++) {
            const failing f = {i, first, step, ran};
            int error = weft_submit(pool, &group, failing_task, &f, sizeof f);
            assert_true(error == WEFT_OK || (error == WEFT_ECANCELED && flags != 0 && i > first));
            refused[i] = error != WEFT_OK;
        }
        assert_int_equal(weft_group_wait(pool, &group), first < TASKS ? 1000 + (int)first : WEFT_OK);
        for (unsigned i = 0; i < TASKS; i++) {
            assert_int_equal(ran[i] + cleaned[i] + refused[i], 1);
            if (flags == 0 || i <= first) assert_int_equal(ran[i], 1); /* "earlier ones do" run */
        }
    }
    end_pool(pool);
}

static void test_lowest_error(void **state) {
    (void)state;
    for (size_t i = 0; i < WORKER_COUNTS; i++) {
        error_rounds(worker_counts[i], 0, 1000000, 1);
        error_rounds(worker_counts[i], 0, 0, 1);
        error_rounds(worker_counts[i], 0, 100, 7);
        error_rounds(worker_counts[i], 0, 299, 1);
    }
}

static void test_lowest_error_cancels(void **state) {
    (void)state;
    for (size_t i = 0; i < WORKER_COUNTS; i++) {
        error_rounds(worker_counts[i], WEFT_GROUP_CANCEL_ON_ERROR, 1000000, 1);
        error_rounds(worker_counts[i], WEFT_GROUP_CANCEL_ON_ERROR, 0, 1);
        error_rounds(worker_counts[i], WEFT_GROUP_CANCEL_ON_ERROR, 100, 7);
        error_rounds(worker_counts[i], WEFT_GROUP_CANCEL_ON_ERROR, 298, 1);
    }
}

static int code_task(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}

static void test_error_codes_pass(void **state) {
    (void)state;
    static const int codes[] = {1, -1, 255, 256, 65536, INT32_MAX, INT32_MIN, -12345};
    weft_pool *pool = make_pool(2);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(weft_submit(pool, &group, code_task, &codes[i], sizeof codes[i]), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), codes[i]);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* told once, the group starts anew */
        assert_int_equal(weft_submit(pool, NULL, code_task, &codes[i], sizeof codes[i]), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), codes[i]);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    }
    end_pool(pool);
}

/* An error stays in its own group. */
static int fail_below_task(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group group = WEFT_GROUP_INIT;
    const int code = *(int *)payload;
    REQUIRE(weft_submit(pool, &group, code_task, &code, sizeof code) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == code);
    return 0;
}

static void test_error_stays_below(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int code = 1; code < 200; code++)
        assert_int_equal(weft_submit(pool, &group, fail_below_task, &code, sizeof code), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- cancelling --------------------------------------------------------------------------------------------------- */

static void test_cancel_queued(void **state) {
    (void)state;
    enum { TASKS = 300 };
    static atomic_uchar ran[TASKS];
    weft_config config = config_of(1);
    config.clean = count_clean;
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    for (int round = 0; round < 50; round++) {
        gate g;
        memset(ran, 0, sizeof ran);
        memset(cleaned, 0, sizeof cleaned);
        gate_occupy(&g, pool, &other);
        for (unsigned i = 0; i < TASKS; i++) {
            const failing f = {i, 0, 1, ran};
            assert_int_equal(weft_submit(pool, &group, failing_task, &f, sizeof f), WEFT_OK);
        }
        assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
        assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
        const failing late = {0, 0, 1, ran};
        assert_int_equal(weft_submit(pool, &group, failing_task, &late, sizeof late), WEFT_ECANCELED);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
        assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
        for (unsigned i = 0; i < TASKS; i++) {
            assert_int_equal(ran[i], 0);
            assert_int_equal(cleaned[i], 1);
        }
        const failing again = {0, 1, 1, ran}; /* "that wait ends the cancellation" */
        assert_int_equal(weft_submit(pool, &group, failing_task, &again, sizeof again), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(ran[0], 1);
    }
    assert_int_equal(stats_of(pool).task_dropped_count, 50 * TASKS);
    end_pool(pool);
}

/* Cancelled while tasks run: each one runs or is cleaned, once. */
static void test_cancel_running(void **state) {
    (void)state;
    enum { TASKS = 1000 };
    static atomic_uchar ran[TASKS];
    for (size_t w = 0; w < WORKER_COUNTS; w++) {
        weft_config config = config_of(worker_counts[w]);
        config.clean = count_clean;
        weft_pool *pool = make_pool_with(&config);
        for (unsigned round = 0; round < (SANITIZED ? 20 : 200); round++) {
            weft_group group = WEFT_GROUP_INIT;
            bool refused[TASKS] = {false};
            memset(ran, 0, sizeof ran);
            memset(cleaned, 0, sizeof cleaned);
            for (unsigned i = 0; i < TASKS; i++) {
                const failing f = {i, TASKS, 1, ran};
                if (i == round * 5 % TASKS) assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
                refused[i] = weft_submit(pool, &group, failing_task, &f, sizeof f) == WEFT_ECANCELED;
            }
            int result = weft_group_wait(pool, &group);
            assert_true(result == WEFT_ECANCELED || result == WEFT_OK); /* nothing may have been left to cancel */
            for (unsigned i = 0; i < TASKS; i++) assert_int_equal(ran[i] + cleaned[i] + refused[i], 1);
        }
        end_pool(pool);
    }
}

static int watch_cancel_task(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    REQUIRE(!weft_worker_cancelled(self));
    sem_post(&g->entered);
    while (!weft_worker_cancelled(self)) sched_yield();
    return 0;
}

static void test_cancel_is_seen(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    gate g, *pointer = &g;
    gate_init(&g);
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, watch_cancel_task, &pointer, sizeof pointer), WEFT_OK);
    await(&g.entered);
    assert_int_equal(weft_group_cancel(pool, &other), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    weft_group_wait(pool, &other);
    end_pool(pool);
}

/* A failed task before the cancellation: its error wins. */
static void test_cancel_and_error(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    gate g;
    weft_group group = WEFT_GROUP_INIT;
    const int code = 5;
    assert_int_equal(weft_submit(pool, &group, code_task, &code, sizeof code), WEFT_OK);
    gate_occupy(&g, pool, &group);
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), 5);
    end_pool(pool);
}

/* ---- deadlines ---------------------------------------------------------------------------------------------------- */

static void test_deadlines(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (int help = WEFT_HELP_BELOW; help <= WEFT_HELP_NONE; help++) {
        gate g;
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, 1), WEFT_OK);
        gate_occupy(&g, pool, &group);
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, 1), WEFT_ETIMEDOUT);
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, clock_ns()), WEFT_ETIMEDOUT);
        for (uint64_t span_ns = 1000; span_ns < 10000000; span_ns *= 9) {
            uint64_t deadline_ns = clock_ns() + span_ns;
            assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, deadline_ns), WEFT_ETIMEDOUT);
            assert_true(clock_ns() >= deadline_ns);
        }
        gate_open(&g);
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, UINT64_MAX), WEFT_OK);
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)help, 1), WEFT_OK);
    }
    end_pool(pool);
}

/* A wait that timed out helped nobody with the wrong task and can be repeated by others. */
static void test_deadline_leaves_group(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (int round = 0; round < 300; round++) {
        weft_group group = WEFT_GROUP_INIT;
        atomic_uint counter = 0;
        for (int i = 0; i < 50; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        uint64_t span_ns = (uint64_t)round * 100;
        int result = weft_group_wait_until(pool, &group, WEFT_HELP_BELOW, clock_ns() + span_ns);
        assert_true(result == WEFT_OK || result == WEFT_ETIMEDOUT);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 50);
    }
    end_pool(pool);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

typedef struct ordered {
    unsigned index;
    atomic_uint *done; /* one for each task */
} ordered;

/* Like a video encoder's frames: each needs the one before it to have finished. */
static int needs_previous_task(void *payload, weft_worker *self) {
    (void)self;
    const ordered *o = payload;
    while (o->index != 0 && atomic_load(&o->done[o->index - 1]) == 0) sched_yield();
    atomic_store(&o->done[o->index], 1);
    return 0;
}

static void test_jobs_that_need_earlier_ones(void **state) {
    (void)state;
    enum { TASKS = 2000 };
    static atomic_uint done[TASKS];
    for (size_t w = 0; w < WORKER_COUNTS; w++)
        for (uint32_t flags = 0; flags <= WEFT_POOL_ORDERED; flags += WEFT_POOL_ORDERED) {
            memset(done, 0, sizeof done);
            weft_config config = config_of(worker_counts[w]);
            config.flags = flags | WEFT_POOL_NO_HELP;
            weft_pool *pool = make_pool_with(&config);
            weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
            for (unsigned i = 0; i < TASKS; i++) {
                const ordered o = {i, done};
                weft_group *group = &groups[flags == 0 ? 0 : i % 2]; /* ordered pools: across groups, too */
                assert_int_equal(weft_submit(pool, group, needs_previous_task, &o, sizeof o), WEFT_OK);
            }
            assert_int_equal(weft_group_wait(pool, &groups[0]), WEFT_OK);
            assert_int_equal(weft_group_wait(pool, &groups[1]), WEFT_OK);
            end_pool(pool);
        }
}

static int append_task(void *payload, weft_worker *self) {
    (void)self;
    const ordered *o = payload;
    REQUIRE(atomic_fetch_add(o->done, 1) == o->index); /* one worker: the order of starts is plain to see */
    return 0;
}

static void test_one_worker_keeps_order(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint next = 0;
    for (unsigned i = 0; i < 50000; i++) {
        const ordered o = {i, &next};
        assert_int_equal(weft_submit(pool, &group, append_task, &o, sizeof o), WEFT_OK);
    }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&next), 50000);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_sees_everything),
        cmocka_unit_test(test_wait_makes_visible),
        cmocka_unit_test(test_memory_free_after_wait),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_one_worker_helps_itself),
        cmocka_unit_test(test_outside_wait_helps_below),
        cmocka_unit_test(test_what_a_wait_runs),
        cmocka_unit_test(test_wait_runs_any),
        cmocka_unit_test(test_wait_for_own_group),
        cmocka_unit_test(test_several_waiters),
        cmocka_unit_test(test_lowest_error),
        cmocka_unit_test(test_lowest_error_cancels),
        cmocka_unit_test(test_error_codes_pass),
        cmocka_unit_test(test_error_stays_below),
        cmocka_unit_test(test_cancel_queued),
        cmocka_unit_test(test_cancel_running),
        cmocka_unit_test(test_cancel_is_seen),
        cmocka_unit_test(test_cancel_and_error),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_deadline_leaves_group),
        cmocka_unit_test(test_jobs_that_need_earlier_ones),
        cmocka_unit_test(test_one_worker_keeps_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
