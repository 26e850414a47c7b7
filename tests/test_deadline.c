/* test_deadline.c: urgent groups in the order of their deadlines; late ones are told, and dropped if they ask for it. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

enum { LONG_AGO = 1, TASKS = 20 };
#define FAR_NS UINT64_C(3600000000000)

static weft_config one_worker(void) {
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP; /* the test's thread runs none */
    return config;
}

static void none_is_left(const weft_pool *pool) {
    assert_int_equal(load_rlx(&pool->groups.due), 0);
    assert_int_equal(load_rlx(&pool->groups.urgent), 0);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

typedef struct row {
    atomic_uint count;
    int numbers[64];
} row;
typedef struct entry {
    row *row;
    int number;
} entry;

static int note(void *payload, weft_worker *self) {
    const entry *e = payload;
    (void)self;
    e->row->numbers[atomic_fetch_add(&e->row->count, 1)] = e->number;
    return 0;
}

static void submit_note(weft_pool *pool, weft_group *group, row *seen, int number) {
    const entry e = {seen, number};
    REQUIRE(weft_submit(pool, group, note, &e, sizeof e) == WEFT_OK);
}

enum { DUE = 8, URGENT = DUE, ORDINARY, KINDS };

/* Groups with deadlines in mixed order, one urgent without, one ordinary; tasks of each in turn while the only worker is
 * held up. */
static void test_earliest_first(void **state) {
    (void)state;
    static const int priorities[DUE] = {5, 2, 7, 0, 3, 6, 1, 4};
    weft_config config = one_worker();
    weft_pool *pool = make_pool_with(&config);
    weft_group groups[KINDS] = {[URGENT] = {.flags = WEFT_GROUP_URGENT}};
    weft_group continuation = WEFT_GROUP_INIT;
    row seen = {.count = 0};
    gate g;
    gate_occupy(&g, pool, &continuation);
    uint64_t when_ns = clock_ns() + FAR_NS;
    for (int turn = 0; turn < 3; turn++) {
        submit_note(pool, &groups[ORDINARY], &seen, ORDINARY);
        submit_note(pool, &groups[URGENT], &seen, URGENT);
        for (int i = 0; i < DUE; i++) {
            if (turn == 0)
                assert_int_equal(weft_group_deadline(pool, &groups[i], when_ns + (uint64_t)priorities[i]), WEFT_OK);
            submit_note(pool, &groups[i], &seen, priorities[i]);
        }
    }
    gate_open(&g);
    for (int i = 0; i < KINDS; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    assert_int_equal(seen.count, 3 * KINDS);
    for (int i = 0; i < 3 * KINDS; i++) assert_int_equal(seen.numbers[i], i / 3);
    assert_int_equal(stats_of(pool).task_late_count, 0);
    none_is_left(pool);
    end_pool(pool);
}

/* The next call counts, before or after the tasks. */
static void test_replaced(void **state) {
    (void)state;
    weft_config config = one_worker();
    weft_pool *pool = make_pool_with(&config);
    weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    weft_group continuation = WEFT_GROUP_INIT;
    row seen = {.count = 0};
    gate g;
    gate_occupy(&g, pool, &continuation);
    uint64_t when_ns = clock_ns() + FAR_NS;
    assert_int_equal(weft_group_deadline(pool, &groups[0], LONG_AGO), WEFT_OK);
    for (int i = 0; i < 2; i++) submit_note(pool, &groups[i], &seen, i);
    assert_int_equal(weft_group_deadline(pool, &groups[1], when_ns), WEFT_OK);
    assert_int_equal(weft_group_deadline(pool, &groups[0], when_ns + 1), WEFT_OK);
    gate_open(&g);
    for (int i = 0; i < 2; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    assert_int_equal(seen.numbers[0], 1);
    assert_int_equal(seen.numbers[1], 0);
    none_is_left(pool);
    end_pool(pool);
}

/* ---- late --------------------------------------------------------------------------------------------------------- */

static int fails(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 7;
}

static void test_late(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    atomic_uint count = 0;
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_group_deadline(pool, &group, LONG_AGO), WEFT_OK);
    for (int i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ELATE);
    assert_int_equal(count, TASKS);
    assert_int_equal(stats_of(pool).task_late_count, TASKS);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK); /* a new use of it has no deadline */
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_group_deadline(pool, &group, LONG_AGO), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, fails, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), 7); /* says more */
    assert_int_equal(weft_group_deadline(pool, NULL, LONG_AGO), WEFT_OK);
    assert_int_equal(submit_count(pool, NULL, &count), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_ELATE);
    none_is_left(pool);
    end_pool(pool);
}

static int outlast(void *payload, weft_worker *self) {
    (void)self;
    while (clock_ns() <= *(uint64_t *)payload) sched_yield();
    return 0;
}

/* It begins in time. */
static void test_late_end(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    uint64_t when_ns = clock_ns() + FAR_NS;
    assert_int_equal(weft_group_deadline(pool, &group, when_ns), WEFT_OK);
    gate_occupy(&g, pool, &group);
    when_ns = clock_ns();
    assert_int_equal(weft_group_deadline(pool, &group, when_ns), WEFT_OK);
    outlast(&when_ns, NULL);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ELATE);
    assert_int_equal(stats_of(pool).task_late_count, 0);
    none_is_left(pool);
    end_pool(pool);
}

/* One of its tasks began too late for the moment before, which does not count any more. */
static void test_late_for_the_replaced(void **state) {
    (void)state;
    weft_config config = one_worker();
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    for (int i = 0; i < 2; i++) { /* of each kind: a later moment, an earlier one */
        uint64_t now_ns = clock_ns();
        assert_int_equal(weft_group_deadline(pool, &group, now_ns), WEFT_OK);
        while (clock_ns() <= now_ns) sched_yield();
        gate_occupy(&g, pool, &group);
        assert_int_equal(stats_of(pool).task_late_count, i + 1);
        assert_int_equal(weft_group_deadline(pool, &group, i == 0 ? now_ns + FAR_NS : LONG_AGO), WEFT_OK);
        gate_open(&g);
        assert_int_equal(weft_group_wait(pool, &group), i == 0 ? WEFT_OK : WEFT_ELATE);
    }
    none_is_left(pool);
    end_pool(pool);
}

/* ---- dropped ------------------------------------------------------------------------------------------------------ */

static void clean_count(void *payload, size_t size, void *context) {
    (void)size, (void)context;
    atomic_fetch_add(*(atomic_uint **)payload, 1000);
}

static void test_dropped(void **state) {
    (void)state;
    weft_config config = one_worker();
    config.clean = clean_count;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = {.flags = WEFT_GROUP_DROP_LATE};
    weft_group other = {.flags = WEFT_GROUP_DROP_LATE}; /* without a deadline */
    atomic_uint count = 0;
    atomic_uint others = 0;
    weft_group continuation = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &continuation);
    assert_int_equal(weft_group_deadline(pool, &group, LONG_AGO), WEFT_OK);
    for (int i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
    for (int i = 0; i < TASKS; i++) assert_int_equal(submit_count(pool, &other, &others), WEFT_OK);
    gate_open(&g);
    while (count < TASKS * 1000) nap();
    assert_int_equal(submit_count(pool, &group, &count), WEFT_ECANCELED);
    assert_int_equal(weft_group_deadline(pool, &group, clock_ns() + FAR_NS),
                     WEFT_OK); /* comes too late for what was dropped */
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ELATE);
    assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    assert_int_equal(count, TASKS * 1000);
    assert_int_equal(others, TASKS);
    weft_stats stats = stats_of(pool);
    assert_int_equal(stats.task_dropped_count, TASKS);
    assert_int_equal(stats.task_late_count, TASKS);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK); /* a new use */
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    none_is_left(pool);
    end_pool(pool);
}

/* Tasks that their submitter runs, for the queue is full, are late as others are. */
static void test_run_at_once(void **state) {
    (void)state;
    weft_config config = one_worker();
    config.queue_max = 1;
    config.full = WEFT_FULL_RUN;
    weft_pool *pool = make_pool_with(&config);
    weft_group gates = WEFT_GROUP_INIT, late = WEFT_GROUP_INIT, dropped = {.flags = WEFT_GROUP_DROP_LATE};
    atomic_uint count = 0;
    gate g;
    gate_occupy(&g, pool, &gates);
    assert_int_equal(weft_submit(pool, &gates, outlast, &(uint64_t){0}, sizeof(uint64_t)), WEFT_OK); /* it is full */
    assert_int_equal(weft_group_deadline(pool, &late, LONG_AGO), WEFT_OK);
    assert_int_equal(submit_count(pool, &late, &count), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(weft_group_deadline(pool, &dropped, LONG_AGO), WEFT_OK);
    assert_int_equal(submit_count(pool, &dropped, &count), WEFT_ECANCELED);
    assert_int_equal(count, 1);
    assert_int_equal(stats_of(pool).task_late_count, 2);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &gates), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &late), WEFT_ELATE);
    assert_int_equal(weft_group_wait(pool, &dropped), WEFT_ELATE);
    none_is_left(pool);
    end_pool(pool);
}

/* Every task runs once or is cleaned once, whoever is late; waits help. */
static void test_crowd(void **state) {
    (void)state;
    weft_config config = config_of(3);
    config.clean = clean_count;
    weft_pool *pool = make_pool_with(&config);
    for (int i = 0; i < 300; i++) {
        weft_group groups[3] = {{.flags = WEFT_GROUP_DROP_LATE},
                                {.flags = WEFT_GROUP_URGENT | WEFT_GROUP_DROP_LATE},
                                {.flags = WEFT_GROUP_BACKGROUND}};
        atomic_uint counts[3] = {0, 0, 0};
        uint64_t now_ns = clock_ns();
        unsigned submitted[3] = {0, 0, 0};
        for (int j = 0; j < 3; j++)
            assert_int_equal(weft_group_deadline(pool, &groups[j], now_ns + (uint64_t)(i * 100)), WEFT_OK);
        for (int k = 0; k < 30; k++) submitted[k % 3] += submit_count(pool, &groups[k % 3], &counts[k % 3]) == WEFT_OK;
        for (int j = 0; j < 3; j++) {
            int error = weft_group_wait(pool, &groups[j]);
            assert_true(error == WEFT_OK || error == WEFT_ELATE);
            assert_int_equal(counts[j] % 1000 + counts[j] / 1000, submitted[j]);
            if (error == WEFT_OK) assert_int_equal(counts[j], 10);
            if (j == 2) assert_int_equal(counts[j], 10); /* not to be dropped */
        }
    }
    none_is_left(pool);
    end_pool(pool);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------- */

static int in_fork(void *pool) {
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_group_deadline(pool, &group, LONG_AGO) == WEFT_EFORK);
    return 0;
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    weft_group odd = {.flags = 16};
    assert_int_equal(weft_group_deadline(NULL, &group, LONG_AGO), WEFT_EINVAL);
    assert_int_equal(weft_group_deadline(pool, &group, 0), WEFT_EINVAL);
    assert_int_equal(weft_group_deadline(pool, &odd, LONG_AGO), WEFT_EINVAL);
    assert_int_equal(group.id, 0);
    assert_int_equal(in_child(in_fork, pool), 0);
    assert_int_equal(weft_group_deadline(pool, &group, LONG_AGO), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK); /* nothing was late */
    none_is_left(pool);
    end_pool(pool);
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    pool = make_pool_with(&config);
    assert_int_equal(weft_group_deadline(pool, &group, LONG_AGO), WEFT_EINVAL);
    end_pool(pool);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earliest_first),
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_late_end),
        cmocka_unit_test(test_late_for_the_replaced),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_run_at_once),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_misuse),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
