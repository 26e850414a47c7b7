/* test_life.c: the end of a pool with tasks queued, running and still coming; forked children; threads that come and go. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

static const uint32_t worker_counts[] = {1, 2, 3, 8};
enum { WORKER_COUNTS = sizeof worker_counts / sizeof worker_counts[0] };

/* ---- destroy ------------------------------------------------------------------------------------------------------ */

static void test_destroy_runs_what_is_queued(void **state) {
    (void)state;
    for (size_t w = 0; w < WORKER_COUNTS; w++)
        for (unsigned tasks = 0; tasks < 5000; tasks = tasks * 2 + 1) {
            atomic_uint counter = 0;
            weft_group group = WEFT_GROUP_INIT;
            weft_pool *pool = make_pool(worker_counts[w]);
            for (unsigned i = 0; i < tasks; i++)
                assert_int_equal(submit_count(pool, i % 2 ? &group : NULL, &counter), WEFT_OK);
            end_pool(pool);
            assert_int_equal(atomic_load(&counter), tasks);
        }
}

typedef struct branching {
    atomic_uint *counter;
    unsigned depth;
} branching;

/* Each task submits two more, to the pool's group, without waiting for them. */
static int branching_task(void *payload, weft_worker *self) {
    branching b = *(branching *)payload;
    atomic_fetch_add(b.counter, 1);
    if (b.depth-- != 0)
        for (int i = 0; i < 2; i++)
            REQUIRE(weft_submit(weft_worker_pool(self), NULL, branching_task, &b, sizeof b) == WEFT_OK);
    return 0;
}

static void test_destroy_runs_what_tasks_submit(void **state) {
    (void)state;
    for (size_t w = 0; w < WORKER_COUNTS; w++)
        for (unsigned depth = 0; depth <= 12; depth++) {
            atomic_uint counter = 0;
            weft_pool *pool = make_pool(worker_counts[w]);
            const branching b = {&counter, depth};
            assert_int_equal(weft_submit(pool, NULL, branching_task, &b, sizeof b), WEFT_OK);
            end_pool(pool);
            assert_int_equal(atomic_load(&counter), (2u << depth) - 1);
        }
}

static void *destroy_thread(void *argument) {
    weft_pool *pool = argument;
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    REQUIRE(pool == NULL);
    return NULL;
}

/* destroy has begun, and cannot end before the gate opens: outside submissions are refused, none is lost. */
static void test_submit_during_destroy(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        weft_pool *pool = make_pool(2);
        gate g;
        atomic_uint counter = 0;
        unsigned accepted = 0;
        pthread_t thread;
        gate_occupy(&g, pool, NULL);
        assert_int_equal(pthread_create(&thread, NULL, destroy_thread, pool), 0);
        int error = WEFT_OK;
        for (; (error = submit_count(pool, NULL, &counter)) == WEFT_OK; accepted++) sched_yield();
        assert_int_equal(error, WEFT_ESHUTDOWN);
        weft_group group = WEFT_GROUP_INIT;
        assert_int_equal(submit_count(pool, &group, &counter), WEFT_ESHUTDOWN);
        gate_open(&g);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&counter), accepted);
    }
}

static int try_destroy_task(void *payload, weft_worker *self) {
    atomic_uint *refused = *(atomic_uint **)payload;
    weft_pool *pool = weft_worker_pool(self), *kept = pool;
    if (weft_pool_destroy(&pool) == WEFT_EDEADLK && pool == kept) atomic_fetch_add(refused, 1);
    if (weft_pool_abort(&pool, NULL, NULL) == WEFT_EDEADLK && pool == kept) atomic_fetch_add(refused, 1);
    return 0;
}

static void test_destroy_from_a_task(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    atomic_uint refused = 0, *pointer = &refused, counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++)
        assert_int_equal(weft_submit(pool, &group, try_destroy_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* this thread helps: then it is in a task, too */
    assert_int_equal(atomic_load(&refused), 200);
    assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    end_pool(pool);
}

/* A task of one pool may end another one. */
static int destroy_other_task(void *payload, weft_worker *self) {
    weft_pool *other = *(weft_pool **)payload;
    REQUIRE(weft_worker_pool(self) != other);
    REQUIRE(weft_pool_destroy(&other) == WEFT_OK);
    return 0;
}

static void test_destroy_from_anothers_task(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        weft_pool *pool = make_pool(1), *other = make_pool(2);
        atomic_uint counter = 0;
        for (int i = 0; i < 500; i++) assert_int_equal(submit_count(other, NULL, &counter), WEFT_OK);
        assert_int_equal(weft_submit(pool, NULL, destroy_other_task, &other, sizeof other), WEFT_OK);
        end_pool(pool);
        assert_int_equal(atomic_load(&counter), 500);
    }
}

static void test_create_and_destroy_often(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 500; i++) {
        weft_pool *pool = make_pool(1 + i % 4);
        if (i % 3 == 0) assert_int_equal(weft_submit(pool, NULL, empty_task, NULL, 0), WEFT_OK);
        end_pool(pool);
    }
}

/* ---- abort -------------------------------------------------------------------------------------------------------- */

enum { ABORTED = 3000, ABORTED_BIG = 1500 };
static atomic_uchar ran[ABORTED], cleaned[ABORTED];
static int clean_context;

typedef struct numbered {
    unsigned index;
    unsigned char rest[ABORTED_BIG];
} numbered;

static size_t size_of_number(unsigned index) {
    static const size_t sizes[] = {sizeof(unsigned), 48, 49, 416, ABORTED_BIG};
    return sizes[index % 5];
}

static int numbered_task(void *payload, weft_worker *self) {
    (void)self;
    REQUIRE(atomic_fetch_add(&ran[*(unsigned *)payload], 1) == 0);
    return 0;
}

static void numbered_clean(void *payload, size_t size, void *context) {
    REQUIRE(context == &clean_context);
    if (payload == NULL) return; /* a task without one */
    unsigned index = *(unsigned *)payload;
    REQUIRE(size == size_of_number(index));
    const unsigned char *bytes = payload;
    for (size_t i = sizeof index; i < size; i++) REQUIRE(bytes[i] == (unsigned char)index);
    REQUIRE(atomic_fetch_add(&cleaned[index], 1) == 0);
}

static void submit_numbered(weft_pool *pool, weft_group *group, unsigned index) {
    numbered n;
    memset(&n, (int)(unsigned char)index, sizeof n);
    n.index = index;
    REQUIRE(weft_submit(pool, group, numbered_task, &n, size_of_number(index)) == WEFT_OK);
}

/* Every payload is run or cleaned, once; with the gate, none but the gate's own runs. */
static void abort_round(uint32_t workers, bool blocked) {
    memset(ran, 0, sizeof ran);
    memset(cleaned, 0, sizeof cleaned);
    weft_pool *pool = make_pool(workers);
    weft_group group = WEFT_GROUP_INIT;
    gate gates[8];
    for (uint32_t i = 0; blocked && i < workers; i++) gate_occupy(&gates[i], pool, NULL);
    for (unsigned i = 0; i < ABORTED; i++) submit_numbered(pool, i % 3 ? &group : NULL, i);
    for (uint32_t i = 0; blocked && i < workers; i++) gate_open(&gates[i]);
    assert_int_equal(weft_pool_abort(&pool, numbered_clean, &clean_context), WEFT_OK);
    assert_null(pool);
    for (unsigned i = 0; i < ABORTED; i++) assert_int_equal(ran[i] + cleaned[i], 1);
}

static void test_abort(void **state) {
    (void)state;
    for (size_t w = 0; w < WORKER_COUNTS; w++)
        for (int round = 0; round < 20; round++) abort_round(worker_counts[w], round % 2 != 0);
}

static int never_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    REQUIRE(false && "a task that was to be dropped");
    return 0;
}

static void *abort_thread(void *argument) {
    weft_pool *pool = argument;
    REQUIRE(weft_pool_abort(&pool, numbered_clean, &clean_context) == WEFT_OK);
    return NULL;
}

/* While abort waits for the running task, nothing that is queued starts, and nothing is taken from outside. */
static void test_abort_starts_nothing(void **state) {
    (void)state;
    memset(ran, 0, sizeof ran);
    memset(cleaned, 0, sizeof cleaned);
    weft_pool *pool = make_pool(1);
    gate g;
    pthread_t thread;
    unsigned queued = 0;
    gate_occupy(&g, pool, NULL);
    while (queued < ABORTED / 2) submit_numbered(pool, NULL, queued++);
    assert_int_equal(pthread_create(&thread, NULL, abort_thread, pool), 0);
    for (;;) {
        int error = weft_submit(pool, NULL, never_task, NULL, 0);
        if (error == WEFT_ESHUTDOWN) break;
        assert_int_equal(error, WEFT_OK);
        nap();
    }
    gate_open(&g);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < ABORTED; i++) {
        assert_int_equal(ran[i], 0);
        assert_int_equal(cleaned[i], i < queued);
    }
}

static void test_abort_without_clean(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        memset(ran, 0, sizeof ran);
        weft_pool *pool = make_pool(2);
        for (unsigned i = 0; i < ABORTED; i++) submit_numbered(pool, NULL, i);
        assert_int_equal(weft_pool_abort(&pool, NULL, NULL), WEFT_OK); /* large payloads must not leak */
        assert_null(pool);
    }
}

/* A task that goes on submitting while its pool is aborted. */
static int submit_into_abort_task(void *payload, weft_worker *self) {
    (void)payload;
    for (unsigned i = 0; i < ABORTED; i++) submit_numbered(weft_worker_pool(self), NULL, i);
    return 0;
}

static void test_abort_while_tasks_submit(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        memset(ran, 0, sizeof ran);
        memset(cleaned, 0, sizeof cleaned);
        weft_pool *pool = make_pool(2);
        gate g;
        gate_occupy(&g, pool, NULL);
        gate_open(&g);
        assert_int_equal(weft_submit(pool, NULL, submit_into_abort_task, NULL, 0), WEFT_OK);
        while (round % 2 == 0 && stats_of(pool).task_run_count < 2) sched_yield();
        assert_int_equal(weft_pool_abort(&pool, numbered_clean, &clean_context), WEFT_OK);
        unsigned total = 0;
        for (unsigned i = 0; i < ABORTED; i++) total += (unsigned)ran[i] + cleaned[i];
        assert_true(total == ABORTED || (total == 0 && round % 2 != 0)); /* all, or the submitting task never ran */
    }
}

/* ---- forked children ---------------------------------------------------------------------------------------------- */

typedef struct inherited {
    weft_pool *pool;
    weft_group *group;
} inherited;

static int use_parents_pool(void *argument) {
    const inherited *in = argument;
    weft_group fresh = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(in->pool, NULL, empty_task, NULL, 0) == WEFT_EFORK);
    REQUIRE(weft_submit(in->pool, &fresh, empty_task, NULL, 0) == WEFT_EFORK);
    REQUIRE(weft_submit(in->pool, in->group, empty_task, NULL, 0) == WEFT_EFORK);
    REQUIRE(weft_group_wait(in->pool, NULL) == WEFT_EFORK);
    REQUIRE(weft_group_wait(in->pool, in->group) == WEFT_EFORK);
    REQUIRE(weft_group_wait_until(in->pool, in->group, WEFT_HELP_ANY, 1) == WEFT_EFORK);
    REQUIRE(weft_group_cancel(in->pool, in->group) == WEFT_EFORK);
    weft_pool *pool = in->pool;
    REQUIRE(weft_pool_destroy(&pool) == WEFT_EFORK);
#if !defined(SANITIZED_THREAD)
    pool = make_pool(2); /* a child has pools of its own */
    atomic_uint counter = 0;
    for (int i = 0; i < 100; i++) REQUIRE(submit_count(pool, NULL, &counter) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
    REQUIRE(atomic_load(&counter) == 100);
    end_pool(pool);
#endif
    return 0;
}

static void test_forked_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    printf("skipped, %s: ThreadSanitizer lets no child of a threaded process start threads\n", "a pool made in the child");
#endif
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    inherited in = {pool, &group};
    gate g;
    atomic_uint counter = 0;
    gate_occupy(&g, pool, &group);
    assert_int_equal(in_child(use_parents_pool, &in), 0);
    gate_open(&g);
    assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK); /* the parent goes on */
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    end_pool(pool);
}

static void test_fork_under_load(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    inherited in = {pool, &group};
    atomic_uint counter = 0;
    unsigned submitted = 0;
    for (int round = 0; round < (SANITIZED ? 10 : 50); round++) {
        for (int i = 0; i < 2000; i++, submitted++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        assert_int_equal(in_child(use_parents_pool, &in), 0);
    }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), submitted);
    end_pool(pool);
}

/* ---- threads that come and go ------------------------------------------------------------------------------------- */

typedef struct visitor {
    weft_pool *pool;
    atomic_uint *counter;
    unsigned tasks;
    bool waits;
} visitor;

static void *visit(void *argument) {
    const visitor *v = argument;
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < v->tasks; i++) REQUIRE(submit_count(v->pool, v->waits ? &group : NULL, v->counter) == WEFT_OK);
    if (v->waits) REQUIRE(weft_group_wait(v->pool, &group) == WEFT_OK);
    return NULL;
}

static void test_many_submitters(void **state) {
    (void)state;
    enum { THREADS = 8, TASKS = SANITIZED ? 3000 : 30000 };
    weft_pool *pool = make_pool(2);
    atomic_uint counter = 0;
    visitor visitors[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        visitors[i] = (visitor){pool, &counter, TASKS, i % 2 == 0};
        assert_int_equal(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(atomic_load(&counter), THREADS * TASKS);
    end_pool(pool);
}

/* Those that whoever has nothing to do looks at. */
static uint32_t lanes_shown(const weft_pool *pool) {
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = load_acq(test_seat, &pool->seats[i]);
        if (seat == NULL) continue;
        for (const struct lane *lane = worker_lanes(seat); lane != NULL; lane = load_rlx(&lane->next)) lanes++;
    }
    return lanes;
}

/* A thread's lanes are as many as it has groups with tasks that wait at one time, and two sevenths: they are used again, not
 * more and more of them made, however many there are. */
static void test_lanes_are_used_again(void **state) {
    (void)state;
    enum { WAITING = 300, BRIEF = 20 };
    weft_pool *pool = make_pool(1);
    static weft_group waiting[WAITING], brief[BRIEF];
    atomic_uint counter = 0, briefly = 0;
    weft_group continuation = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &continuation);
    for (unsigned i = 0; i < 2 * WAITING; i++)
        assert_int_equal(submit_count(pool, &waiting[i % WAITING], &counter), WEFT_OK);
    for (unsigned round = 1; round <= 500; round++) {
        for (unsigned i = 0; i < 2 * BRIEF; i++) assert_int_equal(submit_count(pool, &brief[i % BRIEF], &briefly), WEFT_OK);
        for (unsigned i = 0; i < BRIEF; i++) assert_int_equal(weft_group_wait(pool, &brief[i]), WEFT_OK);
        assert_int_equal(atomic_load(&briefly), 2 * BRIEF * round);
    }
    assert_int_equal(atomic_load(&counter), 0);
    uint32_t lanes = stats_of(pool).lane_count;
    assert_true(lanes > WAITING && lanes <= (WAITING + BRIEF + 1) * 9 / 7 + 1);
    assert_true(lanes_shown(pool) >= WAITING);
    gate_open(&g);
    for (unsigned i = 0; i < WAITING; i++) assert_int_equal(weft_group_wait(pool, &waiting[i]), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 2 * WAITING);
    assert_true(lanes_shown(pool) <= 16 && stats_of(pool).lane_count == lanes);
    for (unsigned round = 0; round < 2; round++) { /* the hidden ones are shown again, and no new ones made */
        gate_occupy(&g, pool, &continuation);
        for (unsigned i = 0; i < WAITING; i++) assert_int_equal(submit_count(pool, &waiting[i], &counter), WEFT_OK);
        assert_true(lanes_shown(pool) >= WAITING && lanes_shown(pool) <= lanes);
        gate_open(&g);
        for (unsigned i = 0; i < WAITING; i++) assert_int_equal(weft_group_wait(pool, &waiting[i]), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    }
    assert_int_equal(atomic_load(&counter), 4 * WAITING);
    assert_true(lanes_shown(pool) <= 16 && stats_of(pool).lane_count == lanes);
    end_pool(pool);
}

typedef struct spreader {
    weft_pool *pool;
    weft_group groups[300];
    atomic_uint counter;
    sem_t done, gone;
} spreader;

enum { SPREAD = sizeof((spreader *)0)->groups / sizeof(weft_group) };

static int spread(void *payload, weft_worker *self) {
    (void)self;
    spreader *s = *(spreader **)payload;
    for (unsigned i = 0; i < SPREAD; i++) REQUIRE(submit_count(s->pool, &s->groups[i], &s->counter) == WEFT_OK);
    return 0;
}
static void *spread_outside(void *argument) {
    spreader *s = argument;
    spread(&s, NULL);
    sem_post(&s->done);
    await(&s->gone);
    return NULL;
}

/* Neither a worker that has nothing to do any more, nor a thread that has ended, leaves others its empty lanes to look at,
 * though it waited for none of the groups. */
static void test_lanes_are_left_hidden(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    spreader s = {.pool = make_pool_with(&config)}, *at = &s;
    sem_init(&s.done, 0, 0);
    sem_init(&s.gone, 0, 0);
    weft_group first = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(s.pool, &first, spread, &at, sizeof at), WEFT_OK);
    assert_int_equal(weft_group_wait(s.pool, &first), WEFT_OK);
    for (unsigned i = 0; i < SPREAD; i++) assert_int_equal(weft_group_wait(s.pool, &s.groups[i]), WEFT_OK);
    assert_true(stats_of(s.pool).lane_count > SPREAD);
    while (lanes_shown(s.pool) > 2 * 16) sched_yield();
    gate g;
    gate_occupy(&g, s.pool, &first);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, spread_outside, &s), 0);
    await(&s.done);
    assert_true(lanes_shown(s.pool) > SPREAD);
    gate_open(&g);
    for (unsigned i = 0; i < SPREAD; i++) assert_int_equal(weft_group_wait(s.pool, &s.groups[i]), WEFT_OK);
    assert_int_equal(weft_group_wait(s.pool, &first), WEFT_OK);
    assert_int_equal(atomic_load(&s.counter), 2 * SPREAD);
    sem_post(&s.gone);
    pthread_join(thread, NULL);
    assert_true(lanes_shown(s.pool) <= 3 * 16);
    end_pool(s.pool);
}

/* Threads that end leave their lanes to others: their number does not grow with the threads. */
static void test_short_lived_submitters(void **state) {
    (void)state;
    enum { THREADS = 300, TASKS = 50 };
    weft_pool *pool = make_pool(2);
    atomic_uint counter = 0;
    uint32_t lanes_early = 0;
    for (int i = 0; i < THREADS; i++) {
        visitor v = {pool, &counter, TASKS, i % 2 == 0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
        pthread_join(thread, NULL);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        if (i == 20) lanes_early = stats_of(pool).lane_count;
    }
    assert_int_equal(atomic_load(&counter), THREADS * TASKS);
    assert_true(stats_of(pool).lane_count <= lanes_early + 4);
    end_pool(pool);
}

/* The pool goes before the threads that used it. */
typedef struct stayer {
    weft_pool *pool;
    sem_t used, gone;
} stayer;

static void *stay(void *argument) {
    stayer *s = argument;
    REQUIRE(weft_submit(s->pool, NULL, empty_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(s->pool, NULL) == WEFT_OK);
    sem_post(&s->used);
    await(&s->gone);
    return NULL;
}

static void test_threads_outlive_the_pool(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        stayer s = {.pool = make_pool(2)};
        pthread_t thread;
        sem_init(&s.used, 0, 0);
        sem_init(&s.gone, 0, 0);
        assert_int_equal(pthread_create(&thread, NULL, stay, &s), 0);
        await(&s.used);
        end_pool(s.pool);
        if (round % 2) { /* another pool, likely in the same memory */
            weft_pool *next = make_pool(1);
            sem_post(&s.gone);
            pthread_join(thread, NULL);
            end_pool(next);
        } else {
            sem_post(&s.gone);
            pthread_join(thread, NULL);
        }
    }
}

/* One thread uses several pools by turns. */
static void test_many_pools(void **state) {
    (void)state;
    enum { POOLS = 6 };
    weft_pool *pools[POOLS];
    atomic_uint counters[POOLS];
    weft_group groups[POOLS];
    for (int i = 0; i < POOLS; i++) {
        pools[i] = make_pool(1 + (uint32_t)i % 2);
        atomic_init(&counters[i], 0);
        groups[i] = (weft_group)WEFT_GROUP_INIT;
    }
    for (int round = 0; round < 3000; round++)
        for (int i = 0; i < POOLS; i++) assert_int_equal(submit_count(pools[i], &groups[i], &counters[i]), WEFT_OK);
    for (int i = 0; i < POOLS; i++) {
        assert_int_equal(weft_group_wait(pools[i], &groups[i]), WEFT_OK);
        assert_int_equal(atomic_load(&counters[i]), 3000);
        end_pool(pools[i]);
    }
}

/* A task submits to another pool and waits there. */
static int cross_task(void *payload, weft_worker *self) {
    const visitor *v = payload;
    REQUIRE(weft_worker_pool(self) != v->pool);
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < v->tasks; i++) REQUIRE(submit_count(v->pool, &group, v->counter) == WEFT_OK);
    REQUIRE(weft_group_wait(v->pool, &group) == WEFT_OK);
    return 0;
}

static void test_tasks_of_one_pool_use_another(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2), *other = make_pool(1);
    atomic_uint counter = 0;
    const visitor v = {other, &counter, 50, true};
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 200; i++) assert_int_equal(weft_submit(pool, &group, cross_task, &v, sizeof v), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 10000);
    end_pool(pool);
    end_pool(other);
}

/* A thread keeps its seat in a pool while other pools that it used come and go. */
static void test_seat_is_kept(void **state) {
    (void)state;
    atomic_uint counter = 0;
    weft_pool *kept = make_pool(1), *last = make_pool(1);
    assert_int_equal(submit_count(kept, NULL, &counter), WEFT_OK);
    assert_int_equal(submit_count(last, NULL, &counter), WEFT_OK);
    uint32_t threads = stats_of(kept).threads;
    assert_int_equal(stats_of(last).threads, threads);
    for (int i = 0; i < 20; i++) {
        weft_pool *other = make_pool(1);
        assert_int_equal(submit_count(other, NULL, &counter), WEFT_OK);
        if (i % 2 == 0) assert_int_equal(submit_count(last, NULL, &counter), WEFT_OK);
        end_pool(other);
        assert_int_equal(submit_count(last, NULL, &counter), WEFT_OK);
        assert_int_equal(submit_count(kept, NULL, &counter), WEFT_OK);
    }
    assert_int_equal(stats_of(kept).threads, threads);
    assert_int_equal(stats_of(last).threads, threads);
    end_pool(kept);
    end_pool(last);
    assert_int_equal(atomic_load(&counter), 2 + 20 * 3 + 10);
}

/* ThreadSanitizer forgets a thread in the last round of destructors: none may come so late there. */
#if defined(SANITIZED_THREAD)
#define LATE_ROUNDS 1
#else
#define LATE_ROUNDS 3
#endif

/* A destructor of the thread's that runs after the library's submits once more, to the pool that the thread used last. */
struct late {
    weft_pool *pool;
    atomic_uint counter;
    pthread_key_t key;
    int rounds; /* of destructors, so that one comes after the library's whatever their order */
};
static void submit_late(void *argument) {
    struct late *late = argument;
    REQUIRE(submit_count(late->pool, NULL, &late->counter) == WEFT_OK);
    if (++late->rounds < LATE_ROUNDS) REQUIRE(pthread_setspecific(late->key, late) == 0);
}
static void *use_and_end(void *argument) {
    struct late *late = argument;
    REQUIRE(pthread_setspecific(late->key, late) == 0);
    REQUIRE(submit_count(late->pool, NULL, &late->counter) == WEFT_OK);
    return NULL;
}
static void test_submits_late(void **state) {
    (void)state;
    struct late late = {.pool = make_pool(1)};
    REQUIRE(pthread_key_create(&late.key, submit_late) == 0);
    for (unsigned i = 1; i <= 3; i++) {
        pthread_t thread;
        late.rounds = 0;
        REQUIRE(pthread_create(&thread, NULL, use_and_end, &late) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        assert_int_equal(weft_group_wait(late.pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&late.counter), (1 + LATE_ROUNDS) * i);
    }
    REQUIRE(pthread_key_delete(late.key) == 0);
    end_pool(late.pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_are_used_again),
        cmocka_unit_test(test_lanes_are_left_hidden),
        cmocka_unit_test(test_destroy_runs_what_is_queued),
        cmocka_unit_test(test_destroy_runs_what_tasks_submit),
        cmocka_unit_test(test_submit_during_destroy),
        cmocka_unit_test(test_destroy_from_a_task),
        cmocka_unit_test(test_destroy_from_anothers_task),
        cmocka_unit_test(test_create_and_destroy_often),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_abort_starts_nothing),
        cmocka_unit_test(test_abort_without_clean),
        cmocka_unit_test(test_abort_while_tasks_submit),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_fork_under_load),
        cmocka_unit_test(test_many_submitters),
        cmocka_unit_test(test_short_lived_submitters),
        cmocka_unit_test(test_threads_outlive_the_pool),
        cmocka_unit_test(test_many_pools),
        cmocka_unit_test(test_seat_is_kept),
        cmocka_unit_test(test_submits_late),
        cmocka_unit_test(test_tasks_of_one_pool_use_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
