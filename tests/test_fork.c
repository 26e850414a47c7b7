/* test_fork.c: fork and join, from the contracts of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

static const uint32_t worker_counts[] = {1, 2, 3, 8};
enum { WORKER_COUNTS = sizeof worker_counts / sizeof worker_counts[0], ROUNDS = SANITIZED ? 20 : 200 };

static weft_fork_slot *enter(weft_pool *pool) {
    weft_fork_slot *here = NULL;
    REQUIRE(weft_fork_enter(pool, &here) == WEFT_OK);
    REQUIRE(here != NULL);
    return here;
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

static int fib(weft_fork_slot *here, int n);
WEFT_FORK(fib, int, int)

static int fib(weft_fork_slot *here, int n) {
    if (n < 2) return n;
    int less = n - 1;
    weft_fork_slot *deeper = fib_fork(here, &less);
    int other = fib(deeper, n - 2);
    return fib_join(here, &less) + other;
}

enum { FIB_N = SANITIZED ? 16 : 20, FIB_RESULT = SANITIZED ? 987 : 6765 };

static void test_fib(void **state) {
    (void)state;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        for (unsigned round = 0; round < ROUNDS; round++) {
            weft_fork_slot *here = enter(pool);
            assert_int_equal(fib(here, FIB_N), FIB_RESULT);
            weft_fork_leave(here);
            if (round % 16 == 0) nap(); /* the workers may be asleep */
        }
        end_pool(pool);
    }
}

/* Arguments and results as large as they may be; each index once. */
typedef struct slice {
    unsigned *items;
    size_t count;
    uint64_t check[4];
} slice;
typedef struct outcome {
    uint64_t sum, low, high, check[3];
} outcome;

_Static_assert(sizeof(slice) == WEFT_FORK_BYTES && sizeof(outcome) == WEFT_FORK_BYTES, "as large as they may be");

static outcome visit(weft_fork_slot *here, slice s);
WEFT_FORK(visit, outcome, slice)

static outcome visit(weft_fork_slot *here, slice s) {
    for (unsigned i = 0; i < 4; i++) REQUIRE(s.check[i] == s.count * (i + 3));
    outcome o = {0, 0, 0, {1, 2, 3}};
    if (s.count == 1) {
        o.sum = ++s.items[0];
        return o;
    }
    size_t half = s.count / 2;
    slice upper = {s.items + half, s.count - half, {0}};
    slice lower = {s.items, half, {0}};
    for (unsigned i = 0; i < 4; i++) {
        upper.check[i] = upper.count * (i + 3);
        lower.check[i] = lower.count * (i + 3);
    }
    weft_fork_slot *deeper = visit_fork(here, &upper);
    o.low = visit(deeper, lower).sum;
    outcome high = visit_join(here, &upper);
    REQUIRE(high.check[0] == 1 && high.check[1] == 2 && high.check[2] == 3);
    o.high = high.sum;
    o.sum = o.low + o.high;
    return o;
}

static void test_large_arguments(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    static unsigned items[COUNT];
    memset(items, 0, sizeof items);
    weft_pool *pool = make_pool(2);
    slice all = {items, COUNT, {COUNT * UINT64_C(3), COUNT * UINT64_C(4), COUNT * UINT64_C(5), COUNT * UINT64_C(6)}};
    for (unsigned round = 1; round <= ROUNDS; round++) {
        weft_fork_slot *here = enter(pool);
        assert_int_equal(visit(here, all).sum, (uint64_t)COUNT * round);
        weft_fork_leave(here);
        for (size_t i = 0; i < COUNT; i++) assert_int_equal(items[i], round);
    }
    end_pool(pool);
}

/* Nothing returned; several forks open in one call. */
struct tree {
    atomic_uint *leaves;
    unsigned depth;
};

static void grow(weft_fork_slot *here, struct tree tree);
WEFT_FORK_VOID(grow, struct tree)

static void grow(weft_fork_slot *here, struct tree tree) {
    if (tree.depth == 0) {
        atomic_fetch_add(tree.leaves, 1);
        return;
    }
    enum { BRANCHES = 5 };
    struct tree branch = {tree.leaves, tree.depth - 1};
    weft_fork_slot *places[BRANCHES + 1] = {here};
    for (unsigned i = 0; i < BRANCHES; i++) places[i + 1] = grow_fork(places[i], &branch);
    grow(places[BRANCHES], branch);
    for (unsigned i = BRANCHES; i-- > 0;) grow_join(places[i], &branch);
}

static void test_many_branches(void **state) {
    (void)state;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        for (unsigned round = 0; round < ROUNDS / 10; round++) {
            atomic_uint leaves = 0;
            weft_fork_slot *here = enter(pool);
            grow(here, (struct tree){&leaves, 4});
            weft_fork_leave(here);
            assert_int_equal(atomic_load(&leaves), 1296);
        }
        end_pool(pool);
    }
}

/* ---- depth -------------------------------------------------------------------------------------------------------- */

static int one(weft_fork_slot *here, int n) {
    (void)here;
    return n;
}
WEFT_FORK(one, int, int)

static int chain(weft_fork_slot *here, int depth) {
    if (depth == 0) return 0;
    weft_fork_slot *deeper = one_fork(here, &depth);
    int below = chain(deeper, depth - 1);
    REQUIRE(one_join(here, &depth) == depth);
    return below + 1;
}

static void *chain_thread(void *argument) {
    enum { DEPTH = SANITIZED ? 2000 : 50000 };
    weft_fork_slot *here = enter(argument);
    for (unsigned round = 0; round < 4; round++) REQUIRE(chain(here, DEPTH) == DEPTH);
    weft_fork_leave(here);
    return NULL;
}

static void test_depth(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64u << 20) == 0);
    REQUIRE(pthread_create(&thread, &attributes, chain_thread, pool) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    end_pool(pool);
}

static void test_many_open(void **state) {
    (void)state;
    enum { OPEN = 5000 };
    static weft_fork_slot *places[OPEN + 1];
    static int arguments[OPEN];
    weft_pool *pool = make_pool(2);
    for (unsigned round = 0; round < ROUNDS / 10; round++) {
        places[0] = enter(pool);
        for (int i = 0; i < OPEN; i++) {
            arguments[i] = i;
            places[i + 1] = one_fork(places[i], &arguments[i]);
        }
        for (int i = OPEN; i-- > 0;) assert_int_equal(one_join(places[i], &arguments[i]), i);
        weft_fork_leave(places[0]);
    }
    end_pool(pool);
}

/* ---- who runs what ------------------------------------------------------------------------------------------------ */

struct signal {
    sem_t *wanted, *given; /* waits for the one, gives the other */
};

static void exchange(weft_fork_slot *here, struct signal s) {
    (void)here;
    if (s.given != NULL) sem_post(s.given);
    if (s.wanted != NULL) await(s.wanted);
}
WEFT_FORK_VOID(exchange, struct signal)

/* The caller stays in a long call until what it forked before has been run by another. */
static void long_leaf(weft_fork_slot *here) {
    sem_t done;
    REQUIRE(sem_init(&done, 0, 0) == 0);
    struct signal sends = {NULL, &done};
    weft_fork_slot *deeper = exchange_fork(here, &sends);
    exchange(deeper, (struct signal){&done, NULL});
    exchange_join(here, &sends);
    sem_destroy(&done);
}

static void test_long_leaf_strands_nothing(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (unsigned round = 0; round < 50; round++) {
        weft_fork_slot *here = enter(pool);
        long_leaf(here);
        weft_fork_leave(here);
        if (round % 5 == 0) nap();
    }
    end_pool(pool);
}

/* Forked while the worker was busy with something else. */
static void test_forked_before_anybody_was_idle(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (unsigned round = 0; round < 20; round++) {
        gate g;
        weft_group group = WEFT_GROUP_INIT;
        gate_occupy(&g, pool, &group);
        sem_t done;
        REQUIRE(sem_init(&done, 0, 0) == 0);
        weft_fork_slot *here = enter(pool);
        struct signal sends = {NULL, &done};
        weft_fork_slot *deeper = exchange_fork(here, &sends);
        gate_open(&g);
        exchange(deeper, (struct signal){&done, NULL});
        exchange_join(here, &sends);
        weft_fork_leave(here);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
        sem_destroy(&done);
    }
    end_pool(pool);
}

/* Several calls, each of which goes on only when all have begun. */
static void test_all_workers_come(void **state) {
    (void)state;
    enum { CALLS = 4 };
    weft_pool *pool = make_pool(CALLS - 1);
    for (unsigned round = 0; round < 50; round++) {
        sem_t begun, may_end;
        REQUIRE(sem_init(&begun, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
        struct signal both = {&may_end, &begun};
        weft_fork_slot *places[CALLS] = {enter(pool)};
        for (unsigned i = 0; i + 1 < CALLS; i++) places[i + 1] = exchange_fork(places[i], &both);
        for (unsigned i = 0; i + 1 < CALLS; i++) await(&begun);
        for (unsigned i = 0; i + 1 < CALLS; i++) sem_post(&may_end);
        for (unsigned i = CALLS - 1; i-- > 0;) exchange_join(places[i], &both);
        weft_fork_leave(places[0]);
        sem_destroy(&begun);
        sem_destroy(&may_end);
        if (round % 5 == 0) nap();
    }
    end_pool(pool);
}

/* A join that waits helps below its own call: here the one worker's call stays until the joining thread has run a call
 * below. */
static void deep(weft_fork_slot *here, struct signal s) {
    struct signal sends = {NULL, s.wanted};
    sem_post(s.given);
    weft_fork_slot *deeper = exchange_fork(here, &sends);
    exchange(deeper, (struct signal){s.wanted, NULL});
    exchange_join(here, &sends);
}
WEFT_FORK_VOID(deep, struct signal)

static void test_join_helps_below(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (unsigned round = 0; round < 50; round++) {
        sem_t begun, done;
        REQUIRE(sem_init(&begun, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
        weft_fork_slot *here = enter(pool);
        struct signal s = {&done, &begun};
        deep_fork(here, &s);
        await(&begun); /* the worker runs it */
        if (round % 5 == 0) nap();
        deep_join(here, &s);
        weft_fork_leave(here);
        sem_destroy(&begun);
        sem_destroy(&done);
    }
    end_pool(pool);
}

/* The same with a loop in the call: of its two indices each waits for the other. */
struct looping {
    weft_pool *pool;
    sem_t *begun;
    atomic_uint *arrived;
};
static int meet_body(size_t begin, size_t end, void *context, weft_worker *self) {
    atomic_uint *arrived = context;
    (void)self;
    atomic_fetch_add(arrived, (unsigned)(end - begin));
    while (atomic_load(arrived) < 2) sched_yield();
    return 0;
}
static void loops(weft_fork_slot *here, struct looping looping) {
    (void)here;
    sem_post(looping.begun);
    nap(); /* who waits may be asleep */
    REQUIRE(weft_for(looping.pool, (weft_range){0, 2, 1}, meet_body, looping.arrived) == WEFT_OK);
}
WEFT_FORK_VOID(loops, struct looping)

static void test_join_helps_loops_below(void **state) {
    (void)state;
    for (unsigned round = 0; round < 50; round++) {
        sem_t begun;
        atomic_uint arrived = 0;
        REQUIRE(sem_init(&begun, 0, 0) == 0);
        struct looping looping = {make_pool(1), &begun, &arrived};
        weft_fork_slot *here = enter(looping.pool);
        loops_fork(here, &looping);
        await(&begun); /* the worker runs it */
        loops_join(here, &looping);
        weft_fork_leave(here);
        assert_int_equal(stats_of(looping.pool).loop_helped_count, 1);
        end_pool(looping.pool);
        sem_destroy(&begun);
    }
}

/* And in a task of the group that is waited for, for ever or with a deadline. */
static int looping_task(void *payload, weft_worker *self) {
    (void)self;
    loops(NULL, *(struct looping *)payload);
    return 0;
}
static void test_wait_helps_loops_below(void **state) {
    (void)state;
    for (unsigned round = 0; round < 50; round++) {
        sem_t begun;
        atomic_uint arrived = 0;
        weft_group group = WEFT_GROUP_INIT;
        REQUIRE(sem_init(&begun, 0, 0) == 0);
        struct looping looping = {make_pool(1), &begun, &arrived};
        REQUIRE(weft_submit(looping.pool, &group, looping_task, &looping, sizeof looping) == WEFT_OK);
        await(&begun);
        while (round % 2 == 1 &&
               weft_group_wait_until(looping.pool, &group, WEFT_HELP_BELOW, clock_ns() + 100000) != WEFT_OK)
            continue;
        assert_int_equal(weft_group_wait(looping.pool, &group), WEFT_OK);
        assert_int_equal(stats_of(looping.pool).loop_helped_count, 1);
        end_pool(looping.pool);
        sem_destroy(&begun);
    }
}

/* A wait that is over leaves the loop to others: the worker's first call ends when it has. */
enum { LEFT_INDICES = 2000 };
struct leaving {
    weft_pool *pool;
    sem_t begun;
    atomic_uint ran; /* by the waiting thread */
    atomic_bool has_left;
    _Atomic uint64_t until_ns;
};
static int leaving_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct leaving *leaving = context;
    bool waits = weft_worker_index(self) != 0;
    while (!waits && !atomic_load(&leaving->has_left)) nap();
    for (size_t i = begin; waits && i < end && !atomic_load(&leaving->has_left); i++) nap();
    if (waits) atomic_fetch_add(&leaving->ran, (unsigned)(end - begin));
    return 0;
}
static int leaving_task(void *payload, weft_worker *self) {
    struct leaving *leaving = *(struct leaving **)payload;
    (void)self;
    sem_post(&leaving->begun);
    return weft_for(leaving->pool, (weft_range){0, LEFT_INDICES, 1}, leaving_body, leaving);
}
static void test_wait_leaves_the_loop(void **state) {
    (void)state;
    struct leaving leaving = {.pool = make_pool(1)}, *payload = &leaving;
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(sem_init(&leaving.begun, 0, 0) == 0);
    REQUIRE(weft_submit(leaving.pool, &group, leaving_task, &payload, sizeof payload) == WEFT_OK);
    await(&leaving.begun);
    assert_int_equal(weft_group_wait_until(leaving.pool, &group, WEFT_HELP_BELOW, clock_ns() + 3000000), WEFT_ETIMEDOUT);
    assert_true(atomic_load(&leaving.ran) < LEFT_INDICES - 1); /* all but the worker's first, had it stayed */
    atomic_store(&leaving.has_left, true);
    assert_int_equal(weft_group_wait(leaving.pool, &group), WEFT_OK);
    end_pool(leaving.pool);
    sem_destroy(&leaving.begun);
}

/* Also when it comes again and again: each time it is in one call at most when its time has passed. */
static int polling_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct leaving *leaving = context;
    if (weft_worker_index(self) == 0) return leaving_body(begin, end, context, self);
    while (clock_ns() < atomic_load(&leaving->until_ns)) nap();
    atomic_fetch_add(&leaving->ran, (unsigned)(end - begin));
    return 0;
}
static int polling_task(void *payload, weft_worker *self) {
    struct leaving *leaving = *(struct leaving **)payload;
    (void)self;
    sem_post(&leaving->begun);
    return weft_for(leaving->pool, (weft_range){0, LEFT_INDICES, 1}, polling_body, leaving);
}
static void test_polls_leave_the_loop(void **state) {
    (void)state;
    struct leaving leaving = {.pool = make_pool(1)}, *payload = &leaving;
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(sem_init(&leaving.begun, 0, 0) == 0);
    REQUIRE(weft_submit(leaving.pool, &group, polling_task, &payload, sizeof payload) == WEFT_OK);
    await(&leaving.begun);
    for (unsigned polls = 0; polls < 4 || atomic_load(&leaving.ran) == 0; polls++) {
        unsigned before = atomic_load(&leaving.ran);
        atomic_store(&leaving.until_ns, clock_ns() + 3000000);
        assert_int_equal(weft_group_wait_until(leaving.pool, &group, WEFT_HELP_BELOW, leaving.until_ns), WEFT_ETIMEDOUT);
        assert_true(atomic_load(&leaving.ran) - before <= 1);
    }
    atomic_store(&leaving.has_left, true);
    assert_int_equal(weft_group_wait(leaving.pool, &group), WEFT_OK);
    end_pool(leaving.pool);
    sem_destroy(&leaving.begun);
}

/* But not with a loop of others: what it waits for ends only when that loop has. */
static int stranger_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end;
    REQUIRE(weft_worker_index(self) == *(uint32_t *)context);
    for (unsigned i = 0; i < 3; i++) nap();
    return 0;
}
static int stranger_task(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    uint32_t mine = weft_worker_index(self);
    sem_post(&g->entered);
    REQUIRE(weft_for(weft_worker_pool(self), (weft_range){0, 4, 1}, stranger_body, &mine) == WEFT_OK);
    sem_post(&g->opened);
    return 0;
}
static void test_wait_helps_no_strangers_loop(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (unsigned round = 0; round < 10; round++) {
        gate continuation, other;
        weft_group mine = WEFT_GROUP_INIT, theirs = WEFT_GROUP_INIT;
        gate_init(&other);
        gate *payload = &other;
        gate_occupy(&continuation, pool, &mine);
        REQUIRE(weft_submit(pool, &theirs, stranger_task, &payload, sizeof payload) == WEFT_OK);
        await(&other.entered);
        assert_int_equal(weft_group_wait_until(pool, &mine, WEFT_HELP_BELOW, clock_ns() + 3000000), WEFT_ETIMEDOUT);
        await(&other.opened);
        gate_open(&continuation);
        assert_int_equal(weft_group_wait(pool, &mine), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &theirs), WEFT_OK);
        assert_int_equal(stats_of(pool).loop_helped_count, 0);
    }
    end_pool(pool);
}

/* ---- together with the rest --------------------------------------------------------------------------------------- */

static int fib_task(void *payload, weft_worker *self) {
    weft_fork_slot *here = enter(weft_worker_pool(self));
    REQUIRE(weft_fork_worker(here) == self);
    int result = fib(here, *(int *)payload);
    weft_fork_leave(here);
    return result;
}

static void test_in_tasks(void **state) {
    (void)state;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        weft_group group = WEFT_GROUP_INIT;
        int n = FIB_N;
        for (unsigned i = 0; i < ROUNDS; i++) assert_int_equal(weft_submit(pool, &group, fib_task, &n, sizeof n), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &group), FIB_RESULT);
        end_pool(pool);
    }
}

/* A forked call that submits tasks which fork, waits for them, and loops. */
static int fork_body(size_t begin, size_t end, void *context, weft_worker *self) {
    weft_fork_slot *here = enter(weft_worker_pool(self));
    for (size_t i = begin; i < end; i++) atomic_fetch_add((atomic_uint *)context, (unsigned)fib(here, 7));
    weft_fork_leave(here);
    return 0;
}

static int mixed(weft_fork_slot *here, int depth);
WEFT_FORK(mixed, int, int)

static int mixed(weft_fork_slot *here, int depth) {
    if (depth == 0) return 1;
    weft_pool *pool = weft_worker_pool(weft_fork_worker(here));
    int less = depth - 1;
    int n = 9;
    weft_group group = WEFT_GROUP_INIT;
    weft_fork_slot *deeper = mixed_fork(here, &less);
    REQUIRE(weft_submit(pool, &group, fib_task, &n, sizeof n) == WEFT_OK);
    int other = mixed(deeper, depth - 1);
    REQUIRE(weft_group_wait(pool, &group) == 34);
    atomic_uint sum = 0;
    REQUIRE(weft_for(pool, (weft_range){0, 6, 1}, fork_body, &sum) == WEFT_OK);
    REQUIRE(atomic_load(&sum) == 6 * 13);
    REQUIRE(fib(deeper, 8) == 21);
    return mixed_join(here, &less) + other;
}

static void test_mixed(void **state) {
    (void)state;
    for (unsigned w = 0; w < WORKER_COUNTS; w++) {
        weft_pool *pool = make_pool(worker_counts[w]);
        for (unsigned round = 0; round < ROUNDS / 10; round++) {
            weft_fork_slot *here = enter(pool);
            assert_int_equal(mixed(here, 6), 64);
            weft_fork_leave(here);
        }
        end_pool(pool);
    }
}

static void *outside_thread(void *argument) {
    for (unsigned round = 0; round < ROUNDS; round++) {
        weft_fork_slot *here = enter(argument);
        REQUIRE(fib(here, FIB_N) == FIB_RESULT);
        weft_fork_leave(here);
    }
    return NULL;
}

static void from_several_threads(uint32_t flags) {
    weft_config config = config_of(2);
    config.flags = flags;
    config.spin_ns = flags == 0 ? WEFT_SPIN_NONE : 0;
    weft_pool *pool = make_pool_with(&config);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++) REQUIRE(pthread_create(&threads[i], NULL, outside_thread, pool) == 0);
    for (unsigned i = 0; i < 4; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    end_pool(pool);
}

static void test_from_several_threads(void **state) {
    (void)state;
    from_several_threads(0);
    from_several_threads(WEFT_POOL_ORDERED);
    from_several_threads(WEFT_POOL_NO_HELP);
}

/* Forked calls belong to the group of the task that forked them. */
static void cancel_seen(weft_fork_slot *here, struct signal s) {
    weft_worker *self = weft_fork_worker(here);
    if (s.given != NULL) sem_post(s.given);
    while (!weft_worker_cancelled(self)) sched_yield();
}
WEFT_FORK_VOID(cancel_seen, struct signal)

static int cancelled_task(void *payload, weft_worker *self) {
    struct signal s = {NULL, *(sem_t **)payload};
    weft_fork_slot *here = enter(weft_worker_pool(self));
    weft_fork_slot *deeper = cancel_seen_fork(here, &s);
    cancel_seen(deeper, (struct signal){NULL, NULL});
    cancel_seen_join(here, &s);
    weft_fork_leave(here);
    return 0;
}

static void test_cancel_reaches_forked_calls(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    sem_t begun;
    REQUIRE(sem_init(&begun, 0, 0) == 0);
    sem_t *pointer = &begun;
    assert_int_equal(weft_submit(pool, &group, cancelled_task, &pointer, sizeof pointer), WEFT_OK);
    await(&begun); /* on the second worker */
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    sem_destroy(&begun);
    end_pool(pool);
}

/* ---- misuse and ends ---------------------------------------------------------------------------------------------- */

static int enter_in_child(void *argument) {
    weft_fork_slot *here = (weft_fork_slot *)argument;
    return weft_fork_enter(argument, &here) == WEFT_EFORK && here == NULL ? 0 : 1;
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_fork_slot *here = (weft_fork_slot *)pool;
    assert_int_equal(weft_fork_enter(NULL, &here), WEFT_EINVAL);
    assert_null(here);
    assert_int_equal(weft_fork_enter(pool, NULL), WEFT_EINVAL);
    assert_int_equal(weft_fork_enter_layout(pool, &here, WEFT_FORK_LAYOUT + 1), WEFT_EINVAL);
    assert_null(here);
    weft_fork_leave(NULL);
    assert_null(weft_fork_worker(NULL));
    here = enter(pool);
    weft_pool *handle = pool;
    assert_int_equal(weft_pool_destroy(&handle), WEFT_EDEADLK);
    assert_ptr_equal(handle, pool);
    weft_fork_slot *inner = enter(pool); /* without need */
    assert_ptr_not_equal(inner, here);
    assert_int_equal(fib(inner, 5), 5);
    weft_fork_leave(inner);
    assert_int_equal(fib(here, 5), 5);
    weft_fork_leave(here);
    if (!SANITIZED) assert_int_equal(in_child(enter_in_child, pool), 0);
    end_pool(pool);
}

struct ending {
    weft_pool *pool;
    sem_t entered;
    atomic_bool is_refused;
};

static void *ending_thread(void *argument) {
    struct ending *ending = argument;
    weft_fork_slot *here = enter(ending->pool);
    sem_post(&ending->entered);
    while (!atomic_load(&ending->is_refused)) REQUIRE(fib(here, 10) == 55);
    weft_fork_leave(here);
    return NULL;
}

static void *refused_thread(void *argument) {
    struct ending *ending = argument;
    weft_fork_slot *here;
    int error;
    while ((error = weft_fork_enter(ending->pool, &here)) == WEFT_OK) weft_fork_leave(here);
    REQUIRE(error == WEFT_ESHUTDOWN && here == NULL);
    atomic_store(&ending->is_refused, true);
    return NULL;
}

static void test_destroy_waits_for_leave(void **state) {
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct ending ending = {.pool = make_pool(1)};
        weft_pool *pool = ending.pool;
        pthread_t threads[2];
        REQUIRE(sem_init(&ending.entered, 0, 0) == 0);
        REQUIRE(pthread_create(&threads[0], NULL, ending_thread, &ending) == 0);
        await(&ending.entered);
        REQUIRE(pthread_create(&threads[1], NULL, refused_thread, &ending) == 0);
        end_pool(pool);
        for (unsigned i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
        sem_destroy(&ending.entered);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fib),
        cmocka_unit_test(test_large_arguments),
        cmocka_unit_test(test_many_branches),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_many_open),
        cmocka_unit_test(test_long_leaf_strands_nothing),
        cmocka_unit_test(test_forked_before_anybody_was_idle),
        cmocka_unit_test(test_all_workers_come),
        cmocka_unit_test(test_join_helps_below),
        cmocka_unit_test(test_join_helps_loops_below),
        cmocka_unit_test(test_wait_helps_loops_below),
        cmocka_unit_test(test_wait_leaves_the_loop),
        cmocka_unit_test(test_polls_leave_the_loop),
        cmocka_unit_test(test_wait_helps_no_strangers_loop),
        cmocka_unit_test(test_in_tasks),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_from_several_threads),
        cmocka_unit_test(test_cancel_reaches_forked_calls),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_destroy_waits_for_leave),
    };
    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
