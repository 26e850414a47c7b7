/* test_loop.c: weft_for, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

static const uint32_t worker_counts[] = {1, 2, 3, 8};
enum { WORKER_COUNTS = sizeof worker_counts / sizeof worker_counts[0], MARKS = 4096 };

/* ---- every index once --------------------------------------------------------------------------------------------- */

struct marks {
    size_t first; /* index of mark[0] */
    size_t count;
    size_t grain;
    atomic_uint mark[MARKS];
};

static int mark_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct marks *marks = context;
    REQUIRE(self != NULL && begin < end && begin >= marks->first && end - marks->first <= marks->count);
    REQUIRE(end - begin >= marks->grain || end - marks->first == marks->count);
    for (size_t i = begin; i < end; i++) atomic_fetch_add(&marks->mark[i - marks->first], 1);
    return 0;
}

static void check_range(weft_pool *pool, size_t first, size_t count, size_t grain) {
    static struct marks marks;
    memset(&marks, 0, sizeof marks);
    marks.first = first;
    marks.count = count;
    marks.grain = grain;
    assert_int_equal(weft_for(pool, (weft_range){first, first + count, grain}, mark_body, &marks), WEFT_OK);
    for (size_t i = 0; i < count; i++) assert_int_equal(atomic_load(&marks.mark[i]), 1);
}

static void test_every_index_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1000, MARKS};
    static const size_t grains[] = {0, 1, 3, 64, 5000, SIZE_MAX};
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++) {
                check_range(pool, 0, counts[c], grains[g]);
                check_range(pool, 17, counts[c], grains[g]);
                check_range(pool, SIZE_MAX - counts[c], counts[c], grains[g]);
            }
        }
        end_pool(pool);
    }
}

static int sum_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_size_t *sum = context;
    atomic_fetch_add(sum, end - begin);
    return 0;
}

static void test_huge_ranges(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    static const weft_range ranges[] = {
        {0, SIZE_MAX, 0}, {0, SIZE_MAX, SIZE_MAX / 5}, {1, SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 2, SIZE_MAX, SIZE_MAX / 1000}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        atomic_size_t sum = 0;
        assert_int_equal(weft_for(pool, ranges[i], sum_body, &sum), WEFT_OK);
        assert_true(atomic_load(&sum) == ranges[i].end - ranges[i].begin);
    }
    end_pool(pool);
}

static int plain_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    unsigned *results = context;
    for (size_t i = begin; i < end; i++) results[i]++; /* no atomics: the return of weft_for makes it visible */
    return 0;
}

static void test_makes_visible(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    static unsigned results[512];
    memset(results, 0, sizeof results);
    for (unsigned round = 1; round <= 1000; round++) {
        assert_int_equal(weft_for(pool, (weft_range){0, 512, round % 9}, plain_body, results), WEFT_OK);
        for (size_t i = 0; i < 512; i++) assert_int_equal(results[i], round);
    }
    end_pool(pool);
}

/* ---- who runs it -------------------------------------------------------------------------------------------------- */

/* Each of two calls waits for the other, which nothing promises; but nothing is known of a body that a pool has not run yet,
 * and then a sleeping worker is woken. */
static int meet_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    atomic_uint *arrived = context;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(arrived, 1);
        while (atomic_load(arrived) < 2) sched_yield();
    }
    return 0;
}

static void test_worker_helps_a_long_call(void **state) {
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        weft_pool *pool = make_pool(1);
        atomic_uint arrived = 0;
        if (round % 2 == 0) nap(); /* the worker may be asleep */
        assert_int_equal(weft_for(pool, (weft_range){0, 2, 1}, meet_body, &arrived), WEFT_OK);
        assert_int_equal(atomic_load(&arrived), 2);
        end_pool(pool);
    }
}

/* The same body, over at once for a while, then long: its first index takes a while, then two calls wait for each other. */
struct moody {
    bool is_long;
    atomic_uint arrived;
};
static int moody_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct moody *moody = context;
    for (size_t i = begin; moody->is_long && i < end; i++) {
        if (i > 0) (void)meet_body(i, i + 1, &moody->arrived, self);
        if (i == 0)
            for (unsigned n = 0; n < 5; n++) nap();
    }
    return 0;
}
static void test_worker_helps_a_body_that_was_short(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (unsigned round = 0; round < 20; round++) {
        struct moody moody = {.is_long = false};
        for (unsigned i = 0; i < 50; i++)
            assert_int_equal(weft_for(pool, (weft_range){0, 3, 1}, moody_body, &moody), WEFT_OK);
        moody.is_long = true;
        if (round % 2 == 0) nap();
        assert_int_equal(weft_for(pool, (weft_range){0, 3, 1}, moody_body, &moody), WEFT_OK);
        assert_int_equal(atomic_load(&moody.arrived), 2);
    }
    end_pool(pool);
}

/* Whoever has the outer loop's last index loops itself, and needs the other thread, the caller of the outer loop perhaps. */
struct inside {
    weft_pool *pool;
    pthread_t caller;
    atomic_uint arrived;
    atomic_bool by_worker;
};
static int inside_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct inside *inside = context;
    (void)self;
    if (end < 2) return 0;
    (void)begin;
    if (!pthread_equal(pthread_self(), inside->caller)) atomic_store(&inside->by_worker, true);
    return weft_for(inside->pool, (weft_range){0, 2, 1}, meet_body, &inside->arrived);
}
static void test_caller_helps_inside_its_loop(void **state) {
    (void)state;
    unsigned by_worker = 0;
    for (unsigned round = 0; round < 2000 && by_worker < 5; round++) {
        struct inside inside = {.pool = make_pool(1), .caller = pthread_self()};
        assert_int_equal(weft_for(inside.pool, (weft_range){0, 2, 1}, inside_body, &inside), WEFT_OK);
        assert_int_equal(atomic_load(&inside.arrived), 2);
        by_worker += atomic_load(&inside.by_worker);
        end_pool(inside.pool);
    }
    if (by_worker == 0) SKIP("no worker ever came in time");
}

/* However deep a loop lies, and whatever lay deeper before, whoever is idle finds it. */
struct chain {
    weft_pool *pool;
    unsigned depth;
    atomic_uint *arrived;
};
static int chain_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct chain *chain = context;
    struct chain inner = {chain->pool, chain->depth - 1, chain->arrived};
    if (chain->depth == 0) {
        const struct timespec moment = {0, 20000}; /* too long for a loop that one thread runs alone */
        nanosleep(&moment, NULL);
        return meet_body(begin, end, chain->arrived, self);
    }
    return weft_for(chain->pool, (weft_range){0, inner.depth == 0 ? 2 : 1, 1}, chain_body, &inner);
}
static void test_worker_finds_deep_loops(void **state) {
    (void)state;
    const unsigned depths[] = {40, 2, 400, 1, 20};
    weft_pool *pool = make_pool(1);
    for (unsigned i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        atomic_uint arrived = 0;
        struct chain chain = {pool, depths[i], &arrived};
        assert_int_equal(weft_for(pool, (weft_range){0, 1, 1}, chain_body, &chain), WEFT_OK);
        assert_int_equal(atomic_load(&arrived), 2);
    }
    end_pool(pool);
}

/* The caller has done its unit when the worker's goes down: only the caller can meet it there. */
struct below {
    struct chain chain;
    pthread_t caller;
    atomic_bool taken;
};
static int below_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct below *below = context;
    if (pthread_equal(pthread_self(), below->caller)) {
        while (!atomic_load(&below->taken)) sched_yield();
        return 0;
    }
    atomic_store(&below->taken, true);
    return chain_body(begin, end, &below->chain, self);
}
static void test_caller_helps_deep_below(void **state) {
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        weft_pool *pool = make_pool(1); /* a new one: it takes no body for one that is over at once */
        atomic_uint arrived = 0;
        struct below below = {.chain = {pool, 40 + i, &arrived}, .caller = pthread_self()};
        assert_int_equal(weft_for(pool, (weft_range){0, 2, 1}, below_body, &below), WEFT_OK);
        assert_int_equal(atomic_load(&arrived), 2);
        end_pool(pool);
    }
}

static int thread_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin;
    (void)end;
    REQUIRE(weft_worker_index(self) < 2);
    REQUIRE(!pthread_equal(pthread_self(), *(pthread_t *)context));
    return 0;
}

static void test_no_help_runs_on_workers_only(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    pthread_t me = pthread_self();
    for (unsigned round = 0; round < 200; round++)
        assert_int_equal(weft_for(pool, (weft_range){0, 20, 1}, thread_body, &me), WEFT_OK);
    end_pool(pool);
}

static void test_ordered_pool_loops_at_once(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    weft_pool *pool = make_pool_with(&config);
    gate g;
    weft_group group = WEFT_GROUP_INIT;
    gate_occupy(&g, pool, &group); /* the only worker is busy: the loop must not wait for it */
    check_range(pool, 0, 1000, 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

static void test_bounded_pool(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.queue_max = 1;
    config.full = WEFT_FULL_ERROR;
    weft_pool *pool = make_pool_with(&config);
    gate g;
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    gate_occupy(&g, pool, &group);
    assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
    check_range(pool, 0, 1000, 0);
    assert_int_equal(atomic_load(&counter), 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- inside ------------------------------------------------------------------------------------------------------- */

struct nest {
    weft_pool *pool;
    unsigned depth;
    atomic_uint *leaves;
};

static int nest_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct nest *nest = context;
    for (size_t i = begin; i < end; i++) {
        struct nest inner = {nest->pool, nest->depth - 1, nest->leaves};
        if (nest->depth == 0)
            atomic_fetch_add(nest->leaves, 1);
        else
            REQUIRE(weft_for(weft_worker_pool(self), (weft_range){0, 5, 1}, nest_body, &inner) == WEFT_OK);
    }
    return 0;
}

static int nest_task(void *payload, weft_worker *self) { return nest_body(0, 1, payload, self); }

static void test_nested_in_bodies_and_tasks(void **state) {
    (void)state;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        atomic_uint leaves = 0;
        struct nest nest = {pool, 3, &leaves};
        assert_int_equal(weft_for(pool, (weft_range){0, 5, 1}, nest_body, &nest), WEFT_OK);
        assert_int_equal(atomic_load(&leaves), 625);
        weft_group group = WEFT_GROUP_INIT;
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(weft_submit(pool, &group, nest_task, &nest, sizeof nest), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        assert_int_equal(atomic_load(&leaves), 625 + 20 * 125);
        end_pool(pool);
    }
}

/* A body that submits and waits. */
static int group_body(size_t begin, size_t end, void *context, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group group = WEFT_GROUP_INIT;
    for (size_t i = begin; i < end; i++) REQUIRE(submit_count(pool, &group, context) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    return 0;
}

static void test_groups_in_bodies(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    atomic_uint counter = 0;
    for (unsigned round = 0; round < 200; round++)
        assert_int_equal(weft_for(pool, (weft_range){0, 50, 7}, group_body, &counter), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 200 * 50);
    end_pool(pool);
}

/* A worker that has run the group's task comes to help with a loop whose body waits for that group. */
struct late {
    weft_pool *pool;
    weft_group group;
    gate gate;
    pthread_t caller;
    atomic_uint by_worker;
};
static int late_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct late *late = context;
    (void)begin;
    (void)end;
    (void)self;
    if (!pthread_equal(pthread_self(), late->caller)) {
        REQUIRE(weft_group_wait(late->pool, &late->group) == WEFT_OK);
        atomic_fetch_add(&late->by_worker, 1);
        return 0;
    }
    gate_open(&late->gate);
    while (atomic_load(&late->by_worker) == 0) sched_yield();
    return 0;
}

static void test_body_waits_for_what_its_worker_ran(void **state) {
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        struct late late = {.pool = make_pool(1), .group = WEFT_GROUP_INIT, .caller = pthread_self()};
        gate_occupy(&late.gate, late.pool, &late.group);
        assert_int_equal(weft_for(late.pool, (weft_range){0, 2, 1}, late_body, &late), WEFT_OK);
        assert_int_equal(weft_group_wait(late.pool, &late.group), WEFT_OK);
        end_pool(late.pool);
    }
}

static void *outside_thread(void *argument) {
    static _Thread_local unsigned results[256];
    for (unsigned round = 1; round <= 300; round++) {
        REQUIRE(weft_for(argument, (weft_range){0, 256, 0}, plain_body, results) == WEFT_OK);
        for (size_t i = 0; i < 256; i++) REQUIRE(results[i] == round);
    }
    return NULL;
}

static void test_from_several_threads(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    pthread_t threads[6];
    for (unsigned i = 0; i < 6; i++) REQUIRE(pthread_create(&threads[i], NULL, outside_thread, pool) == 0);
    for (unsigned i = 0; i < 6; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    end_pool(pool);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

struct failures {
    size_t first, step; /* first, first + step, ... fail with their index + 1 */
    atomic_uint ran[MARKS];
};

static int fail_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    struct failures *failures = context;
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&failures->ran[i], 1);
        if (i >= failures->first && (i - failures->first) % failures->step == 0) return (int)i + 1;
    }
    return 0;
}

static void test_error_of_the_lowest_index(void **state) {
    (void)state;
    static struct failures failures;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        for (size_t round = 0; round < 300; round++) {
            memset(&failures, 0, sizeof failures);
            failures.first = round * 13 % MARKS;
            failures.step = 1 + round % 5;
            weft_range range = {0, MARKS, round % 4 * 3};
            assert_int_equal(weft_for(pool, range, fail_body, &failures), failures.first + 1);
            for (size_t i = 0; i <= failures.first; i++) assert_int_equal(atomic_load(&failures.ran[i]), 1);
            for (size_t i = failures.first; i < MARKS; i++) assert_true(atomic_load(&failures.ran[i]) <= 1);
        }
        end_pool(pool);
    }
}

static int negative_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)end;
    (void)context;
    (void)self;
    return begin >= 3 ? WEFT_EFULL : 0;
}

static int loop_in_child(void *argument) {
    atomic_size_t sum = 0;
    if (weft_for(argument, (weft_range){0, 0, 0}, sum_body, &sum) != WEFT_EFORK) return 1;
    return weft_for(argument, (weft_range){0, 10, 0}, sum_body, &sum) == WEFT_EFORK && sum == 0 ? 0 : 1;
}

static int destroy_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin;
    (void)end;
    (void)self;
    weft_pool *pool = context;
    REQUIRE(weft_pool_destroy(&pool) == WEFT_EDEADLK);
    return 0;
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    atomic_size_t sum = 0;
    assert_int_equal(weft_for(NULL, (weft_range){0, 1, 0}, sum_body, &sum), WEFT_EINVAL);
    assert_int_equal(weft_for(pool, (weft_range){0, 1, 0}, NULL, &sum), WEFT_EINVAL);
    assert_int_equal(weft_for(pool, (weft_range){1, 0, 0}, sum_body, &sum), WEFT_EINVAL);
    assert_int_equal(weft_for(pool, (weft_range){SIZE_MAX, SIZE_MAX, 0}, sum_body, &sum), WEFT_OK);
    assert_true(sum == 0);
    assert_int_equal(weft_for(pool, (weft_range){0, 9, 1}, negative_body, NULL), WEFT_EFULL);
    assert_int_equal(weft_for(pool, (weft_range){0, 9, 1}, destroy_body, pool), WEFT_OK);
    if (!SANITIZED) assert_int_equal(in_child(loop_in_child, pool), 0);
    end_pool(pool);
}

/* A loop from outside that is under way when destroy begins is waited for; the next is refused. */
struct ending {
    weft_pool *pool;
    sem_t begun;
    atomic_bool goes_on;
};

static int ending_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct ending *ending = context;
    (void)self;
    (void)end;
    if (begin > 0) return 0;
    sem_post(&ending->begun);
    while (!atomic_load(&ending->goes_on)) sched_yield();
    return 0;
}

static void *ending_thread(void *argument) {
    struct ending *ending = argument;
    REQUIRE(weft_for(ending->pool, (weft_range){0, 2, 1}, ending_body, ending) == WEFT_OK);
    return NULL;
}

static void *letting_thread(void *argument) {
    struct ending *ending = argument;
    int error = WEFT_OK;
    atomic_size_t sum = 0;
    while (error == WEFT_OK) error = weft_for(ending->pool, (weft_range){0, 1, 0}, sum_body, &sum);
    REQUIRE(error == WEFT_ESHUTDOWN);
    atomic_store(&ending->goes_on, true);
    return NULL;
}

static void test_destroy_waits_for_loops(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct ending ending = {.pool = make_pool(1)};
        weft_pool *pool = ending.pool;
        pthread_t threads[2];
        REQUIRE(sem_init(&ending.begun, 0, 0) == 0);
        REQUIRE(pthread_create(&threads[0], NULL, ending_thread, &ending) == 0);
        await(&ending.begun);
        REQUIRE(pthread_create(&threads[1], NULL, letting_thread, &ending) == 0);
        end_pool(pool); /* would free what the loop uses, if it did not wait */
        for (unsigned i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
        sem_destroy(&ending.begun);
    }
}

struct aborting {
    weft_pool *pool;
    gate *gate;
    atomic_int thread; /* that waits for its loop */
    atomic_int cleaned;
};

static void *aborted_thread(void *argument) {
    struct aborting *aborting = argument;
    atomic_size_t sum = 0;
    atomic_store(&aborting->thread, thread_id());
    REQUIRE(weft_for(aborting->pool, (weft_range){0, 10, 1}, sum_body, &sum) == WEFT_ESHUTDOWN);
    REQUIRE(atomic_load(&sum) == 0);
    return NULL;
}

static int nothing(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

static void *opening_thread(void *argument) {
    struct aborting *aborting = argument;
    weft_group group = WEFT_GROUP_INIT;
    while (weft_submit(aborting->pool, &group, nothing, NULL, 0) == WEFT_OK) sched_yield();
    gate_open(aborting->gate);
    return NULL;
}

static void count_clean(void *payload, size_t size, void *context) {
    struct aborting *aborting = context;
    (void)size;
    if (payload != NULL) atomic_fetch_add(&aborting->cleaned, 1);
}

/* The pool's only worker is busy, so the loop of a NO_HELP pool never begins. */
static void test_abort_ends_a_queued_loop(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    gate g;
    struct aborting aborting = {make_pool_with(&config), &g, 0, 0};
    pthread_t threads[2];
    gate_occupy(&g, aborting.pool, NULL);
    REQUIRE(pthread_create(&threads[0], NULL, aborted_thread, &aborting) == 0);
    while (atomic_load(&aborting.thread) == 0 || !thread_sleeps((pid_t)atomic_load(&aborting.thread))) sched_yield();
    REQUIRE(pthread_create(&threads[1], NULL, opening_thread, &aborting) == 0);
    weft_pool *pool = aborting.pool;
    assert_int_equal(weft_pool_abort(&pool, count_clean, &aborting), WEFT_OK);
    for (unsigned i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    assert_int_equal(atomic_load(&aborting.cleaned), 0); /* the user has given no payload */
}

/* ---- a join that sleeps is not woken for a loop that is not below its call ----------------------------------------- */

struct joining {
    gate continuation;
    atomic_bool is_taken;
    atomic_int thread;
};
static int continuation_call(weft_fork_slot *here, struct joining *joining) {
    (void)here;
    atomic_store(&joining->is_taken, true);
    await(&joining->continuation.opened);
    return 0;
}
WEFT_FORK(continuation_call, int, struct joining *)
static int joining_task(void *payload, weft_worker *self) {
    struct joining *joining = *(struct joining **)payload;
    weft_fork_slot *here;
    REQUIRE(weft_fork_enter(weft_worker_pool(self), &here) == WEFT_OK);
    continuation_call_fork(here, &joining);
    while (!atomic_load(&joining->is_taken)) sched_yield();
    atomic_store(&joining->thread, (int)thread_id());
    continuation_call_join(here, &joining);
    weft_fork_leave(here);
    return 0;
}
static int nap_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) nap();
    return 0;
}
static int apart_task(void *payload, weft_worker *self) {
    struct joining *joining = *(struct joining **)payload;
    while (atomic_load(&joining->thread) == 0 || !thread_sleeps((pid_t)atomic_load(&joining->thread))) sched_yield();
    uint64_t parks = stats_of(weft_worker_pool(self)).park_count;
    for (unsigned i = 0; i < 20; i++)
        REQUIRE(weft_for(weft_worker_pool(self), (weft_range){0, 2, 1}, nap_body, NULL) == WEFT_OK);
    REQUIRE(stats_of(weft_worker_pool(self)).park_count <= parks + 1); /* it may have been about to */
    gate_open(&joining->continuation);
    sem_post(&joining->continuation.entered);
    return 0;
}
static void test_join_sleeps_beside_loops(void **state) {
    (void)state;
    weft_config config = config_of(3);
    config.spin_ns = WEFT_SPIN_NONE;
    weft_pool *pool = make_pool_with(&config);
    struct joining joining = {.thread = 0}, *payload = &joining;
    gate_init(&joining.continuation);
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(pool, &group, joining_task, &payload, sizeof payload) == WEFT_OK);
    while (atomic_load(&joining.thread) == 0) sched_yield();
    REQUIRE(weft_submit(pool, &group, apart_task, &payload, sizeof payload) == WEFT_OK);
    await(&joining.continuation.entered);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_huge_ranges),
        cmocka_unit_test(test_makes_visible),
        cmocka_unit_test(test_worker_helps_a_long_call),
        cmocka_unit_test(test_worker_helps_a_body_that_was_short),
        cmocka_unit_test(test_caller_helps_inside_its_loop),
        cmocka_unit_test(test_worker_finds_deep_loops),
        cmocka_unit_test(test_caller_helps_deep_below),
        cmocka_unit_test(test_no_help_runs_on_workers_only),
        cmocka_unit_test(test_ordered_pool_loops_at_once),
        cmocka_unit_test(test_bounded_pool),
        cmocka_unit_test(test_nested_in_bodies_and_tasks),
        cmocka_unit_test(test_groups_in_bodies),
        cmocka_unit_test(test_body_waits_for_what_its_worker_ran),
        cmocka_unit_test(test_from_several_threads),
        cmocka_unit_test(test_error_of_the_lowest_index),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_destroy_waits_for_loops),
        cmocka_unit_test(test_abort_ends_a_queued_loop),
        cmocka_unit_test(test_join_sleeps_beside_loops),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
