/* test_shapes.c: what programs of some shapes cost, in counts: however many groups, lanes and seats there are, a look, a
 * wait or a submission looks at few of them. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

enum { MANY = 1000 };

/* Lanes looked at by the calling thread. */
static _Thread_local uint64_t lanes_seen;
uint64_t __real_lane_backlog(const struct lane *lane);
uint64_t __wrap_lane_backlog(const struct lane *lane);
uint64_t __wrap_lane_backlog(const struct lane *lane) {
    lanes_seen++;
    return __real_lane_backlog(lane);
}

struct submitter {
    weft_pool *pool;
    weft_group *groups;
    atomic_uint *count;
    sem_t submitted, waited;
};
static void submit_all(const struct submitter *s) {
    for (uint32_t i = 0; i < MANY; i++) REQUIRE(submit_count(s->pool, &s->groups[i], s->count) == WEFT_OK);
}
static void *submit_and_stay(void *argument) {
    struct submitter *s = argument;
    submit_all(s);
    sem_post(&s->submitted);
    await(&s->waited);
    return NULL;
}

/* A thread that waits for another's groups, one after the other, and runs their tasks, as the worker is held up. */
static void test_groups_of_another(void **state) {
    (void)state;
    static weft_group groups[MANY];
    weft_pool *pool = make_pool(1);
    weft_group continuation = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    struct submitter s = {.pool = pool, .groups = groups, .count = &count};
    pthread_t thread;
    memset(groups, 0, sizeof groups);
    assert_true(sem_init(&s.submitted, 0, 0) == 0 && sem_init(&s.waited, 0, 0) == 0);
    gate_occupy(&g, pool, &continuation);
    assert_int_equal(pthread_create(&thread, NULL, submit_and_stay, &s), 0);
    await(&s.submitted);
    lanes_seen = 0;
    for (uint32_t i = 0; i < MANY; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    assert_in_range(lanes_seen, MANY, 8 * MANY);
    assert_int_equal(atomic_load(&count), MANY);
    sem_post(&s.waited);
    assert_int_equal(pthread_join(thread, NULL), 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    end_pool(pool);
}

/* A worker that runs the tasks of many groups: the lanes that it has emptied are not looked at again before each task. */
static atomic_ullong seen_at_last;
static int note_seen(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add(*(atomic_uint **)payload, 1);
    atomic_store(&seen_at_last, lanes_seen);
    return 0;
}
static void test_many_groups(void **state) {
    (void)state;
    static weft_group groups[MANY];
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    weft_group continuation = WEFT_GROUP_INIT;
    atomic_uint count = 0, *counter = &count;
    gate g;
    memset(groups, 0, sizeof groups);
    gate_occupy(&g, pool, &continuation);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(weft_submit(pool, &groups[i], note_seen, &counter, sizeof counter), WEFT_OK);
    gate_open(&g);
    for (uint32_t i = 0; i < MANY; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    assert_int_equal(atomic_load(&count), MANY);
    assert_in_range(atomic_load(&seen_at_last), MANY, 16 * MANY);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_another),
        cmocka_unit_test(test_many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
