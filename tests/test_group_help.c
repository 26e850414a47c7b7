/* test_group_help.c: weft_group_help: one task of this thread's, no wait. */
#define _GNU_SOURCE
#include "pool_help.h"

typedef struct note {
    pthread_t thread;
    unsigned number;
    int code;
} note;

static struct {
    atomic_uint count;
    note by_order[8];
} noted;

/* Payload: the note, by value. */
static int note_task(void *payload, weft_worker *self) {
    (void)self;
    note *mine = &noted.by_order[atomic_fetch_add(&noted.count, 1)];
    *mine = *(note *)payload;
    mine->thread = pthread_self();
    return mine->code;
}

static void submit_note(weft_pool *pool, weft_group *group, unsigned number, int code) {
    note wish = {.number = number, .code = code};
    REQUIRE(weft_submit(pool, group, note_task, &wish, sizeof wish) == WEFT_OK);
}

/* A pool whose workers all stand in a gate of another group. */
typedef struct continuation_pool {
    weft_pool *pool;
    weft_group gates;
    gate gate;
} continuation_pool;

static void hold_pool(continuation_pool *continuation, uint32_t flags) {
    weft_config config = config_of(1);
    config.flags = flags;
    *continuation = (continuation_pool){.pool = make_pool_with(&config), .gates = WEFT_GROUP_INIT};
    gate_occupy(&continuation->gate, continuation->pool, &continuation->gates);
    atomic_store(&noted.count, 0);
}

static void release_pool(continuation_pool *continuation) {
    gate_open(&continuation->gate);
    assert_int_equal(weft_group_wait(continuation->pool, &continuation->gates), WEFT_OK);
    end_pool(continuation->pool);
}

/* ---- what it runs ------------------------------------------------------------------------------------------------- */

static void test_one_at_a_time_in_order(void **state) {
    (void)state;
    continuation_pool continuation;
    weft_group group = WEFT_GROUP_INIT;
    hold_pool(&continuation, 0);
    assert_int_equal(weft_group_help(continuation.pool, &group), 0); /* nothing was submitted */
    for (unsigned i = 0; i < 3; i++) submit_note(continuation.pool, &group, i, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(weft_group_help(continuation.pool, &group), 1);
        assert_int_equal(atomic_load(&noted.count), i + 1);
        assert_int_equal(noted.by_order[i].number, i);
        assert_true(pthread_equal(noted.by_order[i].thread, pthread_self()));
    }
    assert_int_equal(weft_group_help(continuation.pool, &group), 0);
    assert_int_equal(weft_group_wait(continuation.pool, &group), WEFT_OK);
    assert_int_equal(weft_group_help(continuation.pool, &group), 0); /* it has ended */
    submit_note(continuation.pool, NULL, 7, 0);
    assert_int_equal(weft_group_help(continuation.pool, NULL), 1);
    assert_int_equal(noted.by_order[3].number, 7);
    assert_int_equal(weft_group_wait(continuation.pool, NULL), WEFT_OK);
    release_pool(&continuation);
}

typedef struct submission {
    weft_pool *pool;
    weft_group *group;
} submission;

static void *submit_from_here(void *argument) {
    const submission *one = argument;
    submit_note(one->pool, one->group, 1, 0);
    return NULL;
}

static void test_nobody_elses(void **state) {
    (void)state;
    continuation_pool continuation;
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    hold_pool(&continuation, 0);
    submission one = {continuation.pool, &group};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, submit_from_here, &one) == 0);
    pthread_join(thread, NULL);
    submit_note(continuation.pool, &other, 2, 0); /* this thread's, of another group */
    assert_int_equal(weft_group_help(continuation.pool, &group), 0);
    submit_note(continuation.pool, &group, 3, 0);
    assert_int_equal(weft_group_help(continuation.pool, &group), 1);
    assert_int_equal(weft_group_help(continuation.pool, &group), 0);
    assert_int_equal(atomic_load(&noted.count), 1);
    assert_int_equal(noted.by_order[0].number, 3);
    assert_int_equal(weft_group_wait(continuation.pool, &group), WEFT_OK); /* the other thread's, too */
    assert_int_equal(weft_group_wait(continuation.pool, &other), WEFT_OK);
    assert_int_equal(atomic_load(&noted.count), 3);
    release_pool(&continuation);
}

/* More threads at once than have counters of their own in a group's record: each runs its own task. */
enum { THREADS = 8 };
static pthread_barrier_t all_are_here;

static void *help_from_here(void *argument) {
    const submission *one = argument;
    submit_note(one->pool, one->group, 1, 0);
    pthread_barrier_wait(&all_are_here);
    REQUIRE(weft_group_help(one->pool, one->group) == 1);
    REQUIRE(weft_group_help(one->pool, one->group) == 0);
    return NULL;
}

static void test_of_many_threads(void **state) {
    (void)state;
    continuation_pool continuation;
    weft_group group = WEFT_GROUP_INIT;
    hold_pool(&continuation, 0);
    submission one = {continuation.pool, &group};
    pthread_t threads[THREADS];
    REQUIRE(pthread_barrier_init(&all_are_here, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, help_from_here, &one) == 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&noted.count), THREADS);
    assert_int_equal(weft_group_wait(continuation.pool, &group), WEFT_OK);
    release_pool(&continuation);
}

/* The wait gives the error, not the help. */
static void test_errors_are_the_waits(void **state) {
    (void)state;
    continuation_pool continuation;
    weft_group group = WEFT_GROUP_INIT;
    hold_pool(&continuation, 0);
    submit_note(continuation.pool, &group, 0, 40);
    submit_note(continuation.pool, &group, 1, 41);
    assert_int_equal(weft_group_help(continuation.pool, &group), 1);
    assert_int_equal(weft_group_help(continuation.pool, &group), 1);
    assert_int_equal(weft_group_wait(continuation.pool, &group), 40);
    release_pool(&continuation);
}

static void test_cancelled(void **state) {
    (void)state;
    continuation_pool continuation;
    weft_group group = WEFT_GROUP_INIT;
    hold_pool(&continuation, 0);
    submit_note(continuation.pool, &group, 0, 0);
    assert_int_equal(weft_group_cancel(continuation.pool, &group), WEFT_OK);
    (void)weft_group_help(continuation.pool, &group); /* may take it, to drop it */
    assert_int_equal(weft_group_wait(continuation.pool, &group), WEFT_ECANCELED);
    assert_int_equal(atomic_load(&noted.count), 0);
    release_pool(&continuation);
}

/* ---- in tasks ----------------------------------------------------------------------------------------------------- */

/* Of its own group, which a wait would refuse: its child runs on top of it. */
static int help_own_group_task(void *payload, weft_worker *self) {
    (void)self;
    const submission *one = *(submission **)payload;
    submit_note(one->pool, one->group, 5, 0);
    int found = weft_group_help(one->pool, one->group);
    unsigned count = atomic_load(&noted.count);
    return found == 1 && count == 1 && pthread_equal(noted.by_order[0].thread, pthread_self()) ? 0 : 90;
}

static void test_in_a_task_of_the_group(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    submission one = {pool, &group}, *payload = &one;
    atomic_store(&noted.count, 0);
    assert_int_equal(weft_submit(pool, &group, help_own_group_task, &payload, sizeof payload), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(atomic_load(&noted.count), 1);
    end_pool(pool);
}

/* ---- beside workers that take them, too ---------------------------------------------------------------------------- */

/* Each flag is set once, whoever runs its task. */
static void test_until_a_flag(void **state) {
    (void)state;
    enum { ROUNDS = SANITIZED ? 500 : 5000 };
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned round = 0; round < ROUNDS; round++) {
        atomic_uint counter = 0;
        for (unsigned i = 0; i < 5; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
        while (atomic_load(&counter) < 5 && weft_group_help(pool, &group) == 1) {}
        while (atomic_load(&counter) < 5) sched_yield();
        assert_int_equal(atomic_load(&counter), 5);
    }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- where there is none ------------------------------------------------------------------------------------------ */

static void test_where_waits_do_not_help(void **state) {
    (void)state;
    const uint32_t flags[] = {WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED};
    assert_int_equal(weft_group_help(NULL, NULL), WEFT_EINVAL);
    for (unsigned i = 0; i < 2; i++) {
        continuation_pool continuation;
        weft_group group = WEFT_GROUP_INIT;
        hold_pool(&continuation, flags[i]);
        submit_note(continuation.pool, &group, 0, 0);
        assert_int_equal(weft_group_help(continuation.pool, &group), 0);
        assert_int_equal(atomic_load(&noted.count), 0);
        gate_open(&continuation.gate);
        assert_int_equal(weft_group_wait(continuation.pool, &group), WEFT_OK);
        assert_int_equal(weft_group_wait(continuation.pool, &continuation.gates), WEFT_OK);
        end_pool(continuation.pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time_in_order),  cmocka_unit_test(test_nobody_elses),
        cmocka_unit_test(test_errors_are_the_waits),    cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_in_a_task_of_the_group),  cmocka_unit_test(test_until_a_flag),
        cmocka_unit_test(test_where_waits_do_not_help), cmocka_unit_test(test_of_many_threads),
    };
    return cmocka_run_group_tests_name("group help", tests, NULL, NULL);
}
