/* test_shapes.c: what programs of some shapes cost, in counts: however many groups, lanes and seats there are, a look, a
 * wait or a submission looks at few of them. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"
#include "steps.h"

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

/* Threads that came and went, in any order, leave no seat behind that later looks pass; nor do seats pile up. */
struct comers {
    weft_pool *pool;
    pthread_barrier_t all;
};
static void *come_and_go(void *argument) {
    struct comers *comers = argument;
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    for (uint32_t i = 0; i < 300; i++) REQUIRE(submit_count(comers->pool, &group, &count) == WEFT_OK); /* biased by then */
    REQUIRE(weft_group_wait(comers->pool, &group) == WEFT_OK);
    pthread_barrier_wait(&comers->all);
    return NULL;
}
static void test_threads_gone(void **state) {
    (void)state;
    enum { THREADS = 40 };
    struct comers comers = {.pool = make_pool(2)};
    pthread_t threads[THREADS];
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    assert_int_equal(pthread_barrier_init(&comers.all, NULL, THREADS), 0);
    assert_int_equal(submit_count(comers.pool, &group, &count), WEFT_OK);
    assert_int_equal(weft_group_wait(comers.pool, &group), WEFT_OK);
    uint32_t before = load_rlx(&comers.pool->seats_used);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, come_and_go, &comers) == 0);
        for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
        assert_int_equal(load_rlx(&comers.pool->seats_used), before);
        assert_int_equal(load_rlx(&comers.pool->seat_count), before + THREADS);
    }
    end_pool(comers.pool);
}

/* In a pool of many workers only the lines of threads that used a group are summed, its own for a thread from outside. */
static int note_counters(void *payload, weft_worker *self) {
    uint32_t *used = *(uint32_t **)payload;
    weft_pool *pool = weft_worker_pool(self);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    REQUIRE(submit_count(pool, &group, &count) == WEFT_OK);
    const struct record *record = record_at(&pool->groups, id_index(group.id));
    struct counter_walk walk = counters_walk(record);
    while (counter_next_used(record, &walk) != NULL) ++*used;
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    return 0;
}
static void test_lines_used(void **state) {
    (void)state;
    weft_pool *pool = make_pool(100);
    uint32_t used = 0, *at = &used;
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
    assert_int_equal(submit_count(pool, &group, &count), WEFT_OK);
    const struct weft_worker *self = os_self_get()->worker;
    assert_false(counter_is_shared(self->lane->counter)); /* though it comes after 200 seats */
    assert_ptr_not_equal(self->lane, &pool->blank);       /* and so goes the short way */
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, note_counters, &at, sizeof at), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_in_range(used, 1, 2); /* its submitter's; and that of who was faster */
    end_pool(pool);
}

/* However much hangs on the groups, one more continuation looks at a few of them, and so does a wait at the far end for each
 * task that it may run. The groups are made in the order that leaves the longest way to go. */
enum { STEPS_EACH = 8 };
static uint64_t continuation_steps(weft_pool *pool) {
    os_lock(&pool->groups.lock);
    uint64_t steps = pool->groups.steps;
    os_unlock(&pool->groups.lock);
    return steps;
}
static void submit_counted(weft_pool *pool, weft_group *after, weft_group *group, atomic_uint *count) {
    const weft_after groups = {after, group};
    assert_int_equal(weft_submit_after(pool, groups, count_task, &count, sizeof count), WEFT_OK);
}
static void wait_all(weft_pool *pool, weft_group *groups, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
}

static void test_steps_last_first(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    static weft_group groups[MANY];
    weft_group continuation = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    memset(groups, 0, sizeof groups);
    gate_occupy(&g, pool, &continuation);
    submit_counted(pool, &continuation, &groups[MANY - 1], &count);
    for (uint32_t i = MANY - 1; i > 0; i--) {
        submit_counted(pool, &continuation, &groups[i - 1], &count);
        submit_counted(pool, &groups[i - 1], &groups[i], &count);
    }
    assert_in_range(continuation_steps(pool), MANY, STEPS_EACH * 2 * MANY);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &groups[MANY - 1]), WEFT_OK); /* helps with all the others */
    assert_int_equal(atomic_load(&count), 2 * MANY - 1);
    wait_all(pool, groups, MANY - 1);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    end_pool(pool);
}

static void test_steps_fan(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    static weft_group from[MANY], to[MANY];
    weft_group continuation = WEFT_GROUP_INIT, middle = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    memset(from, 0, sizeof from);
    memset(to, 0, sizeof to);
    gate_occupy(&g, pool, &continuation);
    submit_counted(pool, &continuation, &middle, &count);
    for (uint32_t i = 0; i < MANY; i++) submit_counted(pool, &middle, &to[i], &count);
    for (uint32_t i = 0; i < MANY; i++) submit_counted(pool, &continuation, &from[i], &count);
    for (uint32_t i = 0; i < MANY; i++) submit_counted(pool, &from[i], &middle, &count);
    assert_in_range(continuation_steps(pool), MANY, STEPS_EACH * 3 * MANY);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &continuation), WEFT_OK);
    wait_all(pool, from, MANY);
    assert_int_equal(weft_group_wait(pool, &middle), WEFT_OK);
    wait_all(pool, to, MANY);
    assert_int_equal(atomic_load(&count), 3 * MANY + 1);
    assert_in_range(continuation_steps(pool), MANY, STEPS_EACH * 6 * MANY);
    end_pool(pool);
}

/* Tasks that wait for tasks, more than there are threads, each asleep while others can run what it waits for; one worker
 * is held up by what comes only when they have ended. */
struct level {
    weft_pool *pool;
    atomic_uint *count;
    uint32_t below;
};
static int wait_for_below(void *payload, weft_worker *self) {
    struct level level = *(const struct level *)payload;
    weft_group group = WEFT_GROUP_INIT;
    (void)self;
    atomic_fetch_add(level.count, 1);
    if (level.below-- == 0) return 0;
    REQUIRE(weft_submit(level.pool, &group, wait_for_below, &level, sizeof level) == WEFT_OK);
    return weft_group_wait_until(level.pool, &group, WEFT_HELP_NONE, 0);
}
static void nest_beside_gate(uint32_t flags, uint32_t spares) {
    enum { WORKERS = 8, ROOTS = 7, LEVELS = 10 };
    weft_config config = config_of(WORKERS);
    config.flags = flags;
    config.spares = spares;
    weft_pool *pool = make_pool_with(&config);
    weft_group held = WEFT_GROUP_INIT, roots = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    gate_occupy(&g, pool, &held);
    const struct level root = {pool, &count, LEVELS - 1};
    for (int i = 0; i < ROOTS; i++) assert_int_equal(weft_submit(pool, &roots, wait_for_below, &root, sizeof root), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &roots, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(atomic_load(&count), ROOTS * LEVELS);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &held), WEFT_OK);
    end_pool(pool);
}
static void test_nested_beside_gate(void **state) {
    (void)state;
    nest_beside_gate(0, 0);
    nest_beside_gate(WEFT_POOL_NO_HELP, 0);
    nest_beside_gate(WEFT_POOL_NO_HELP, 1);
}

/* One task, submitted and waited for, again and again, by a thread that runs it itself: read-modify-writes and fences. Five
 * are needed: the group gets its id, the wait enters, the task is claimed, the group is closed, and left. A record takes its
 * ids in blocks: that is the sixth, at times. */
enum { ONES = SANITIZED ? 8 : 64, /* a trap for each instruction */ LOCKED_EACH = 5, LOCKED_FENCED = 9 };
static void one_task(weft_pool *pool, atomic_uint *count) {
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(submit_count(pool, &group, count) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}
static void step_ones(weft_pool *pool, atomic_uint *count) {
    for (uint32_t i = 0; i < MANY; i++) one_task(pool, count);
    steps_begin();
    for (uint32_t i = 0; i < ONES; i++) one_task(pool, count);
    steps_end();
}
static void expect_ones(void) {
    unsigned long tasks = ONES; /* the test's own count is a read-modify-write, too */
    unsigned long each = os_fence_is_asymmetric() ? LOCKED_EACH : LOCKED_FENCED;
    print_message("%lu instructions, %lu of them locked, for %lu groups of one task\n", stepped.all, stepped.locked, tasks);
    assert_in_range(stepped.locked, LOCKED_EACH * tasks, (each + 1) * tasks + 1);
    assert_int_equal(stepped.pauses, 0);
    assert_int_equal(stepped.calls, 0);
    assert_int_equal(stepped.clocks, 0);
}
static void test_one_task(void **state) {
    (void)state;
    if (!STEPS_ARE_COUNTED) SKIP("instructions are counted on x86-64, without ThreadSanitizer");
    weft_pool *pool = make_pool(1);
    weft_group held = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    gate_occupy(&g, pool, &held);
    step_ones(pool, &count);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &held), WEFT_OK);
    assert_int_equal(atomic_load(&count), MANY + ONES);
    expect_ones();
    end_pool(pool);
}
/* The same by a thread that came after many others, which are there still: its counter is not in the record itself. */
static void *come_and_stay(void *argument) {
    struct comers *comers = argument;
    atomic_uint count = 0;
    one_task(comers->pool, &count);
    pthread_barrier_wait(&comers->all);
    pthread_barrier_wait(&comers->all);
    return NULL;
}
static void test_one_task_far(void **state) {
    (void)state;
    enum { THREADS = 150 };
    if (!STEPS_ARE_COUNTED) SKIP("instructions are counted on x86-64, without ThreadSanitizer");
    struct comers comers = {.pool = make_pool(1)};
    pthread_t threads[THREADS];
    weft_group held = WEFT_GROUP_INIT, group = WEFT_GROUP_INIT;
    atomic_uint count = 0;
    gate g;
    assert_int_equal(pthread_barrier_init(&comers.all, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, come_and_stay, &comers) == 0);
    pthread_barrier_wait(&comers.all);
    gate_occupy(&g, comers.pool, &held);
    step_ones(comers.pool, &count);
    assert_int_equal(submit_count(comers.pool, &group, &count), WEFT_OK);
    struct record *record = record_at(&comers.pool->groups, id_index(group.id));
    const struct weft_worker *self = os_self_get()->worker;
    assert_false(counter_is_near(record, self->counter));
    assert_false(counter_is_shared(self->lane->counter));
    assert_ptr_not_equal(self->lane, &comers.pool->blank);
    assert_int_equal(__builtin_popcountll(load_rlx(&record->used_blocks)), 1);
    assert_int_equal(load_rlx(&record->used), 0);
    gate_open(&g);
    assert_int_equal(weft_group_wait(comers.pool, &group), WEFT_OK);
    assert_int_equal(weft_group_wait(comers.pool, &held), WEFT_OK);
    assert_int_equal(atomic_load(&count), MANY + ONES + 1);
    expect_ones();
    pthread_barrier_wait(&comers.all);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    end_pool(comers.pool);
}
static int ones_inside(void *payload, weft_worker *self) {
    step_ones(weft_worker_pool(self), *(atomic_uint **)payload);
    return 0;
}
static void test_one_task_inside(void **state) {
    (void)state;
    if (!STEPS_ARE_COUNTED) SKIP("instructions are counted on x86-64, without ThreadSanitizer");
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint count = 0, *counter = &count;
    assert_int_equal(weft_submit(pool, &group, ones_inside, &counter, sizeof counter), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(atomic_load(&count), MANY + ONES);
    expect_ones();
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_another),  cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_threads_gone),       cmocka_unit_test(test_lines_used),
        cmocka_unit_test(test_steps_last_first),   cmocka_unit_test(test_steps_fan),
        cmocka_unit_test(test_nested_beside_gate), cmocka_unit_test(test_one_task),
        cmocka_unit_test(test_one_task_inside),    cmocka_unit_test(test_one_task_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
