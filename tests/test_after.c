/* test_after.c: tasks that start when a group has finished, and tasks that are children of one. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

static const size_t sizes[] = {0, 1, 4, 16, 17, 64, 112, 113, 500, 1009, 2032, 2033, 100000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- children ----------------------------------------------------------------------------------------------------- */

struct tree {
    atomic_uint *counter;
    unsigned depth;
};

static int tree_task(void *payload, weft_worker *self) {
    const struct tree *tree = payload;
    const struct tree below = {tree->counter, tree->depth - 1};
    for (int i = 0; i < 3 && tree->depth > 0; i++)
        REQUIRE(weft_submit_child(self, tree_task, &below, sizeof below) == WEFT_OK);
    atomic_fetch_add(tree->counter, 1);
    return 0;
}

/* The group of one job is unfinished until the last grandchild is. */
static void test_children(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        for (int i = 0; i < 10; i++) {
            atomic_uint counter = 0;
            weft_group job = WEFT_GROUP_INIT;
            const struct tree tree = {&counter, 6};
            assert_int_equal(weft_submit(pool, &job, tree_task, &tree, sizeof tree), WEFT_OK);
            assert_int_equal(weft_group_wait(pool, &job), WEFT_OK);
            assert_int_equal(atomic_load(&counter), (3 * 3 * 3 * 3 * 3 * 3 * 3 - 1) / 2);
        }
        end_pool(pool);
    }
}

static int failing_child(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}
static int failing_parent(void *payload, weft_worker *self) {
    (void)payload;
    int code = 42;
    REQUIRE(weft_submit_child(self, failing_child, &code, sizeof code) == WEFT_OK);
    return 0;
}

static int child_of_cancelled(void *payload, weft_worker *self) {
    weft_group *job = *(weft_group **)payload;
    REQUIRE(weft_group_cancel(weft_worker_pool(self), job) == WEFT_OK);
    REQUIRE(weft_submit_child(self, empty_task, NULL, 0) == WEFT_ECANCELED);
    return 0;
}

static void test_children_errors(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group job = WEFT_GROUP_INIT, *pointer = &job;
    assert_int_equal(weft_submit_child(NULL, empty_task, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit(pool, &job, failing_parent, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &job), 42);
    assert_int_equal(weft_submit(pool, &job, child_of_cancelled, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &job), WEFT_ECANCELED);
    end_pool(pool);
}

static int null_child(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_submit_child(self, NULL, NULL, 0) == WEFT_EINVAL);
    REQUIRE(weft_submit_child(self, empty_task, &self, WEFT_PAYLOAD_MAX + 1) == WEFT_EINVAL);
    return 0;
}
static void test_children_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    assert_int_equal(weft_submit(pool, NULL, null_child, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    end_pool(pool);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

struct stage {
    uint32_t *stamps; /* plain memory, written by `count` tasks of the group before */
    uint32_t count;
    uint32_t expected;
};

struct stamp {
    uint32_t *at;
    uint32_t value;
};

static int stamp_task(void *payload, weft_worker *self) {
    const struct stamp *stamp = payload;
    (void)self;
    *stamp->at = stamp->value;
    return 0;
}

static int stage_task(void *payload, weft_worker *self) {
    const struct stage *stage = payload;
    (void)self;
    for (uint32_t i = 0; i < stage->count; i++) REQUIRE(stage->stamps[i] == stage->expected);
    for (uint32_t i = 0; i < stage->count; i++) stage->stamps[i]++;
    return 0;
}

static void submit_stamps(weft_pool *pool, weft_group *group, const struct stage *stage) {
    for (uint32_t i = 0; i < stage->count; i++) {
        const struct stamp stamp = {&stage->stamps[i], stage->expected};
        REQUIRE(weft_submit(pool, group, stamp_task, &stamp, sizeof stamp) == WEFT_OK);
    }
}

/* A chain of groups, each after the one before; one wait for the last. */
static void test_chain(void **state) {
    (void)state;
    enum { GROUPS = 50, TASKS = 20 };
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        for (int round = 0; round < 20; round++) {
            weft_group groups[GROUPS] = {WEFT_GROUP_INIT};
            uint32_t stamps[TASKS] = {0};
            struct stage stage = {stamps, TASKS, 1};
            submit_stamps(pool, &groups[0], &stage);
            for (int i = 1; i < GROUPS; i++) {
                const weft_after after = {&groups[i - 1], &groups[i]};
                assert_int_equal(weft_submit_after(pool, after, stage_task, &stage, sizeof stage), WEFT_OK);
                stage.expected++;
            }
            assert_int_equal(weft_group_wait(pool, &groups[GROUPS - 1]), WEFT_OK);
            for (int i = 0; i < TASKS; i++) assert_int_equal(stamps[i], GROUPS);
            for (int i = 0; i < GROUPS; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
        }
        end_pool(pool);
    }
}

/* Many continuations of one group; with one worker they run in the order in which they were asked for. */
struct turn {
    uint32_t *next;
    uint32_t index;
};
static int turn_task(void *payload, weft_worker *self) {
    const struct turn *turn = payload;
    (void)self;
    REQUIRE(*turn->next == turn->index);
    (*turn->next)++;
    return 0;
}
static void test_in_order(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    gate g;
    uint32_t next = 0;
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    gate_occupy(&g, pool, &first);
    for (uint32_t i = 0; i < 1000; i++) {
        const struct turn turn = {&next, i};
        assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, turn_task, &turn, sizeof turn), WEFT_OK);
    }
    assert_int_equal(weft_group_wait_until(pool, &then, WEFT_HELP_NONE, clock_ns() + 1000000), WEFT_ETIMEDOUT);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_int_equal(next, 1000);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

/* After a group that never had a task, or has been waited for: at once. */
static void test_after_nothing(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    atomic_uint counter = 0, *pointer = &counter;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, count_task, &pointer, sizeof pointer),
                         WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
        assert_int_equal(atomic_load(&counter), i + 1);
        assert_int_equal(submit_count(pool, &first, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        atomic_fetch_sub(&counter, 1);
    }
    /* The pool's own group. */
    assert_int_equal(weft_submit_after(pool, (weft_after){NULL, &then}, count_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&then, NULL}, count_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 5);
    end_pool(pool);
}

/* ---- payloads ----------------------------------------------------------------------------------------------------- */

static atomic_uint payloads_seen;
static int payload_task(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add(&payloads_seen, 1);
    if (payload == NULL) return 0;
    REQUIRE((uintptr_t)payload % 16 == 0);
    uint32_t size;
    memcpy(&size, payload, sizeof size);
    for (uint32_t i = sizeof size; i < size; i++) REQUIRE(((unsigned char *)payload)[i] == (unsigned char)(i * 7 + size));
    return 0;
}

static void test_payloads(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    static unsigned char bytes[100000];
    atomic_store(&payloads_seen, 0);
    for (int round = 0; round < 10; round++) {
        weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
        gate g;
        gate_occupy(&g, pool, &first);
        const weft_after after = {&first, &then};
        for (size_t k = 0; k < SIZES; k++) {
            uint32_t size = (uint32_t)sizes[k];
            for (uint32_t i = 0; i < size; i++) bytes[i] = (unsigned char)(i * 7 + size);
            memcpy(bytes, &size, sizeof size);
            weft_fn fn = size < sizeof size ? empty_task : payload_task;
            assert_int_equal(weft_submit_after(pool, after, fn, bytes, size), WEFT_OK);
        }
        assert_int_equal(weft_submit_after(pool, after, payload_task, NULL, 77), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    }
    assert_int_equal(atomic_load(&payloads_seen), 10 * (SIZES - 2 + 1));
    end_pool(pool);
}

/* ---- errors and cancelling ---------------------------------------------------------------------------------------- */

static int result_of(void *payload, weft_worker *self) {
    weft_group *first = *(weft_group **)payload;
    return weft_group_wait(weft_worker_pool(self), first);
}

/* The continuation asks what became of the group. */
static void test_error_of_the_first(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (int cancels = 0; cancels < 2; cancels++) {
        weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT, *pointer = &first;
        gate g;
        int code = 5;
        gate_occupy(&g, pool, &first);
        if (!cancels) assert_int_equal(weft_submit(pool, &first, failing_child, &code, sizeof code), WEFT_OK);
        assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, result_of, &pointer, sizeof pointer), WEFT_OK);
        if (cancels) assert_int_equal(weft_group_cancel(pool, &first), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &then), cancels ? WEFT_ECANCELED : 5);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK); /* the continuation has ended it */
    }
    end_pool(pool);
}

static atomic_uint cleaned;
static void count_clean(void *payload, size_t size, void *context) {
    (void)payload;
    (void)context;
    REQUIRE(size == 200 || size == 8);
    atomic_fetch_add(&cleaned, 1);
}

/* A cancelled continuation does not run; its payload goes to clean, when its time would have come. */
static void test_cancelled(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.clean = count_clean;
    weft_pool *pool = make_pool_with(&config);
    unsigned char bytes[200] = {0};
    static const unsigned char large[100000];
    atomic_store(&cleaned, 0);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    const weft_after after = {&first, &then};
    gate g;
    gate_occupy(&g, pool, &first);
    assert_int_equal(weft_submit_after(pool, after, empty_task, bytes, 8), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, after, empty_task, bytes, 200), WEFT_OK);
    assert_int_equal(weft_group_cancel(pool, &then), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, after, empty_task, bytes, 8), WEFT_ECANCELED);
    weft_heap_counts before = {.struct_size = sizeof before}, refused = {.struct_size = sizeof refused};
    REQUIRE(weft_heap_stats(&before) == WEFT_OK);
    assert_int_equal(weft_submit_after(pool, after, empty_task, large, sizeof large), WEFT_ECANCELED);
    REQUIRE(weft_heap_stats(&refused) == WEFT_OK);
    assert_int_equal(refused.alloc_count, before.alloc_count + 1);
    assert_int_equal(refused.free_count, before.free_count + 1); /* its copy is not kept */
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &then), WEFT_ECANCELED);
    assert_int_equal(atomic_load(&cleaned), 2);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

/* ---- waits that would never end ----------------------------------------------------------------------------------- */

static int wait_for_then(void *payload, weft_worker *self) {
    weft_group *then = *(weft_group **)payload;
    gate_task(&((void **)payload)[1], self);
    return weft_group_wait(weft_worker_pool(self), then);
}

static void test_circles(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group a = WEFT_GROUP_INIT, b = WEFT_GROUP_INIT, c = WEFT_GROUP_INIT;
    gate g, *gates[] = {&g};
    gate_occupy(&g, pool, &a);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &a}, empty_task, NULL, 0), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){NULL, NULL}, empty_task, NULL, 0), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &b}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &c}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&b, &a}, empty_task, gates, 8), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&b, &c}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&c, &b}, empty_task, gates, 8), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&c, &a}, empty_task, gates, 8), WEFT_EDEADLK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &c), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &b), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &a), WEFT_OK);
    /* A task of the group itself waits for what comes after. */
    void *payload[] = {&b, &g};
    gate_init(&g);
    assert_int_equal(weft_submit(pool, &a, wait_for_then, payload, sizeof payload), WEFT_OK);
    await(&g.entered);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &c}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&c, &b}, empty_task, NULL, 0), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &a), WEFT_EDEADLK);
    assert_int_equal(weft_group_wait(pool, &b), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &c), WEFT_OK);
    end_pool(pool);
}

/* Circles that close when a wait sleeps already. */
struct sleeper {
    weft_group *waited;
    sem_t begun;
    uint64_t parks; /* of the pool, when it began */
    int result;
};
static int sleep_in_wait(void *payload, weft_worker *self) {
    struct sleeper *sleeper = *(struct sleeper **)payload;
    weft_pool *pool = weft_worker_pool(self);
    sleeper->parks = stats_of(pool).park_count;
    sem_post(&sleeper->begun);
    sleeper->result = weft_group_wait(pool, sleeper->waited);
    return 0;
}
/* In a pool of two workers, of which the other is busy. Returns when it sleeps. */
static void sleeper_begin(struct sleeper *sleeper, weft_pool *pool, weft_group *own, weft_group *waited) {
    sleeper->waited = waited;
    REQUIRE(sem_init(&sleeper->begun, 0, 0) == 0);
    assert_int_equal(weft_submit(pool, own, sleep_in_wait, &sleeper, sizeof sleeper), WEFT_OK);
    await(&sleeper->begun);
    while (stats_of(pool).park_count == sleeper->parks) sched_yield();
}

static void test_circle_around_a_wait(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group a = WEFT_GROUP_INIT, b = WEFT_GROUP_INIT, c = WEFT_GROUP_INIT;
    struct sleeper sleeper;
    gate g, *gates[] = {&g};
    gate_occupy(&g, pool, &b);
    sleeper_begin(&sleeper, pool, &a, &b);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &b}, empty_task, gates, 8), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &c}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&c, &b}, empty_task, gates, 8), WEFT_EDEADLK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&b, &c}, empty_task, NULL, 0), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &b), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &c), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &a), WEFT_OK);
    assert_int_equal(sleeper.result, WEFT_OK);
    end_pool(pool);
}

/* Two tasks that wait for each other's groups: one of them is told. */
static void test_waits_for_each_other(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (int round = 0; round < 50; round++) {
        weft_group a = WEFT_GROUP_INIT, b = WEFT_GROUP_INIT;
        struct sleeper one = {.waited = &b}, two = {.waited = &a}, *payload[] = {&one, &two};
        gate g;
        gate_occupy(&g, pool, &a);
        REQUIRE(sem_init(&one.begun, 0, 0) == 0 && sem_init(&two.begun, 0, 0) == 0);
        assert_int_equal(weft_submit(pool, &b, sleep_in_wait, &payload[1], sizeof *payload), WEFT_OK);
        await(&two.begun);
        assert_int_equal(weft_submit(pool, &a, sleep_in_wait, &payload[0], sizeof *payload), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &a), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &b), WEFT_OK);
        assert_true(one.result == WEFT_EDEADLK || two.result == WEFT_EDEADLK);
    }
    end_pool(pool);
}

/* The only worker waits for the continuation: it helps with the group before it. */
static int first_and_then(void *payload, weft_worker *self) {
    atomic_uint *counter = *(atomic_uint **)payload;
    weft_pool *pool = weft_worker_pool(self);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT, last = WEFT_GROUP_INIT;
    for (int i = 0; i < 5; i++) REQUIRE(submit_count(pool, &first, counter) == WEFT_OK);
    REQUIRE(weft_submit_after(pool, (weft_after){&first, &then}, count_task, &counter, sizeof counter) == WEFT_OK);
    REQUIRE(weft_submit_after(pool, (weft_after){&first, &last}, count_task, &counter, sizeof counter) == WEFT_OK);
    REQUIRE(weft_submit_after(pool, (weft_after){&then, &last}, count_task, &counter, sizeof counter) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &last) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &then) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &first) == WEFT_OK);
    return 0;
}
static void test_helps_before(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint counter = 0, *pointer = &counter;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(weft_submit(pool, NULL, first_and_then, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), (i + 1) * 8);
    }
    end_pool(pool);
}

/* The only worker waits for what comes after tasks of a cancelled group that only it can drop. */
static int cancel_first(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    for (int i = 0; i < 3; i++) REQUIRE(weft_submit(pool, &first, empty_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_submit_after(pool, (weft_after){&first, &then}, count_task, payload, sizeof(void *)) == WEFT_OK);
    REQUIRE(weft_group_cancel(pool, &first) == WEFT_OK);
    REQUIRE(weft_group_wait_until(pool, &then, WEFT_HELP_BELOW, 0) == WEFT_OK);
    int error = weft_group_wait(pool, &first);
    REQUIRE(error == WEFT_OK || error == WEFT_ECANCELED); /* by whether somebody has asked before */
    return 0;
}
static void test_helps_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    atomic_uint counter = 0, *pointer = &counter;
    for (unsigned i = 1; i <= 50; i++) {
        assert_int_equal(weft_submit(pool, NULL, cancel_first, &pointer, sizeof pointer), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), i);
    }
    end_pool(pool);
}

/* What continuations need is used again, also of those that were refused. */
static void test_continuation_again(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    atomic_uint counter = 0, *pointer = &counter;
    unsigned char bytes[500] = {0};
    uint32_t made = 0;
    uint64_t live = 0;
    memcpy(bytes, &pointer, sizeof pointer);
    for (unsigned i = 1; i <= 300; i++) {
        gate g;
        gate_occupy(&g, pool, &first);
        assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, count_task, bytes, sizeof bytes), WEFT_OK);
        assert_int_equal(weft_submit_after(pool, (weft_after){&then, &first}, count_task, bytes, sizeof bytes),
                         WEFT_EDEADLK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        assert_int_equal(atomic_load(&counter), i);
        weft_heap_counts counts = {.struct_size = sizeof counts};
        assert_int_equal(weft_heap_stats(&counts), WEFT_OK);
        if (i == 20) made = load_rlx(&pool->groups.continuation.made);
        if (i == 20) live = counts.live_bytes;
        if (i > 20) assert_int_equal(load_rlx(&pool->groups.continuation.made), made);
        if (i > 20) assert_true(counts.live_bytes <= live + 50000); /* 280 payloads would be 143,360 */
    }
    end_pool(pool);
}

/* ---- many threads ------------------------------------------------------------------------------------------------- */

struct crowd {
    weft_pool *pool;
    weft_group *first;
    atomic_uint *counter;
};
static void *crowd_thread(void *argument) {
    const struct crowd *crowd = argument;
    weft_group then = WEFT_GROUP_INIT;
    for (int i = 0; i < 300; i++) {
        REQUIRE(submit_count(crowd->pool, crowd->first, crowd->counter) == WEFT_OK);
        const weft_after after = {crowd->first, &then};
        REQUIRE(weft_submit_after(crowd->pool, after, count_task, &crowd->counter, sizeof crowd->counter) == WEFT_OK);
        if (i % 7 == 0) REQUIRE(weft_group_wait(crowd->pool, crowd->first) == WEFT_OK);
        if (i % 11 == 0) REQUIRE(weft_group_wait(crowd->pool, &then) == WEFT_OK);
    }
    REQUIRE(weft_group_wait(crowd->pool, &then) == WEFT_OK);
    return NULL;
}
static void test_crowd(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        weft_pool *pool = make_pool(workers);
        weft_group first = WEFT_GROUP_INIT;
        atomic_uint counter = 0;
        struct crowd crowd = {pool, &first, &counter};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&threads[i], NULL, crowd_thread, &crowd) == 0);
        for (int i = 0; i < 4; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 4 * 300 * 2);
        end_pool(pool);
    }
}

/* ---- pools of all kinds, and their ends --------------------------------------------------------------------------- */

static void test_bounded(void **state) {
    (void)state;
    for (uint32_t full = WEFT_FULL_BLOCK; full <= WEFT_FULL_ERROR; full++) {
        weft_config config = config_of(2);
        config.queue_max = 2;
        config.full = full;
        weft_pool *pool = make_pool_with(&config);
        weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
        atomic_uint counter = 0, *pointer = &counter;
        gate g;
        gate_occupy(&g, pool, &first);
        for (int i = 0; i < 20; i++)
            assert_int_equal(weft_submit_after(pool, (weft_after){&first, &then}, count_task, &pointer, sizeof pointer),
                             WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 20);
        assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
        assert_int_equal(submit_count(pool, &then, &counter), WEFT_OK); /* there is room again */
        assert_int_equal(weft_group_wait(pool, &then), WEFT_OK);
        end_pool(pool);
    }
}

struct ending {
    gate held;
    pid_t thread; /* that ends the pool: it sleeps when it has begun to */
};
static void *open_later(void *argument) {
    struct ending *ending = argument;
    while (!thread_sleeps(ending->thread)) sched_yield();
    gate_open(&ending->held);
    return NULL;
}

/* Destroy runs what is held; abort hands it to clean. */
static void test_pool_ends(void **state) {
    (void)state;
    for (int aborts = 0; aborts < 2; aborts++) {
        weft_pool *pool = make_pool(2);
        weft_group groups[4] = {WEFT_GROUP_INIT};
        atomic_uint counter = 0, *pointer = &counter;
        unsigned char bytes[200] = {0};
        memcpy(bytes, &pointer, sizeof pointer);
        atomic_store(&cleaned, 0);
        struct ending ending = {.thread = thread_id()};
        gate_occupy(&ending.held, pool, &groups[0]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(
                weft_submit_after(pool, (weft_after){&groups[i], &groups[i + 1]}, count_task, bytes, i == 1 ? 200 : 8),
                WEFT_OK);
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, open_later, &ending) == 0);
        if (aborts) assert_int_equal(weft_pool_abort(&pool, count_clean, NULL), WEFT_OK);
        if (!aborts) assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
        REQUIRE(pthread_join(thread, NULL) == 0);
        assert_int_equal(atomic_load(&counter), aborts ? 0 : 3);
        assert_int_equal(atomic_load(&cleaned), aborts ? 3 : 0);
    }
}

static void *destroy_pool(void *argument) {
    REQUIRE(weft_pool_destroy(argument) == WEFT_OK);
    return NULL;
}

/* A pool that is being destroyed accepts no task from outside, neither at once nor for later. */
static void test_pool_closed(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1), *ended = pool;
    weft_group first = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    atomic_uint counter = 0, *pointer = &counter;
    gate g;
    gate_occupy(&g, pool, &first);
    assert_int_equal(submit_count(pool, &then, &counter), WEFT_OK);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, destroy_pool, &ended) == 0);
    while (!load_rlx(&pool->closed)) sched_yield();
    int error = submit_count(pool, &then, &counter); /* the group's lane is still at hand */
    assert_int_equal(error, WEFT_ESHUTDOWN);
    error = weft_submit_after(pool, (weft_after){&first, &then}, count_task, &pointer, sizeof pointer);
    assert_int_equal(error, WEFT_ESHUTDOWN);
    gate_open(&g);
    REQUIRE(pthread_join(thread, NULL) == 0);
    assert_int_equal(atomic_load(&counter), 1);
}

#if !defined(SANITIZED_THREAD)
static int in_fork(void *argument) {
    weft_group a = WEFT_GROUP_INIT, b = WEFT_GROUP_INIT;
    return weft_submit_after(argument, (weft_after){&a, &b}, empty_task, NULL, 0) == WEFT_EFORK ? 0 : 1;
}
#endif

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group a = WEFT_GROUP_INIT, b = WEFT_GROUP_INIT, wrong = {.zero = 1};
    const unsigned char bytes[200] = {0};
    const weft_after after = {&a, &b};
    assert_int_equal(weft_submit_after(NULL, after, empty_task, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit_after(pool, after, NULL, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit_after(pool, after, empty_task, &a, WEFT_PAYLOAD_MAX + 1), WEFT_EINVAL);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &wrong}, empty_task, NULL, 0), WEFT_EINVAL);
    gate g;
    gate_occupy(&g, pool, &a);
    assert_int_equal(weft_submit_after(pool, (weft_after){&a, &wrong}, empty_task, bytes, sizeof bytes), WEFT_EINVAL);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &a), WEFT_OK);
#if !defined(SANITIZED_THREAD)
    if (!is_emulated()) assert_int_equal(in_child(in_fork, pool), 0);
#endif
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_children_errors),
        cmocka_unit_test(test_children_misuse),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_after_nothing),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_error_of_the_first),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_circles),
        cmocka_unit_test(test_circle_around_a_wait),
        cmocka_unit_test(test_waits_for_each_other),
        cmocka_unit_test(test_helps_before),
        cmocka_unit_test(test_helps_cancelled),
        cmocka_unit_test(test_continuation_again),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_pool_ends),
        cmocka_unit_test(test_pool_closed),
        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
