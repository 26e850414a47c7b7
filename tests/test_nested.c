/* test_nested.c: waits inside tasks, where waits do not help or only some do. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

/* Tasks that wait where waits help nobody: spares stand in, and when there is none left the waits help after all. */
typedef struct nested_wait {
    weft_pool *pool;
    enum weft_help help;
    int depth;
    atomic_uint *counter;
} nested_wait;

static int nested_wait_task(void *payload, weft_worker *self) {
    (void)self;
    nested_wait child = *(nested_wait *)payload;
    weft_group group = WEFT_GROUP_INIT;
    atomic_fetch_add(child.counter, 1);
    if (child.depth-- == 0) return 0;
    for (int i = 0; i < 2; i++) REQUIRE(weft_submit(child.pool, &group, nested_wait_task, &child, sizeof child) == WEFT_OK);
    return weft_group_wait_until(child.pool, &group, child.help, 0);
}

static void test_nested_without_help(void **state) {
    (void)state;
    const uint32_t flags[] = {0, WEFT_POOL_NO_HELP};
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t workers = 1; workers <= 2; workers++) {
            weft_config config = config_of(workers);
            config.flags = flags[i];
            weft_pool *pool = make_pool_with(&config);
            atomic_uint counter = 0;
            nested_wait root = {pool, WEFT_HELP_NONE, 6, &counter};
            weft_group group = WEFT_GROUP_INIT;
            assert_int_equal(weft_submit(pool, &group, nested_wait_task, &root, sizeof root), WEFT_OK);
            assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
            assert_int_equal(atomic_load(&counter), 127);
            assert_true(stats_of(pool).spare_started_count > 0);
            end_pool(pool);
        }
    }
}

/* In a NO_HELP pool the worker's waits help, so that it needs neither a spare nor a wake for each; a thread from outside does not. */
static void test_nested_on_workers(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    nested_wait root = {pool, WEFT_HELP_BELOW, 9, &counter};
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, nested_wait_task, &root, sizeof root), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1023);
    const weft_stats stats = stats_of(pool);
    assert_int_equal(stats.spare_started_count, 0);
    assert_in_range(stats.wake_count, 0, 1);
    weft_worker_counts outside = {.struct_size = sizeof outside};
    assert_int_equal(weft_worker_stats(pool, stats.threads - 1, &outside), WEFT_OK);
    assert_int_equal(outside.kind, WEFT_KIND_OUTSIDE);
    assert_int_equal(outside.task_run_count, 0);
    end_pool(pool);
}

/* In an ordered pool they run what is next, if it is theirs. Where a stranger's task is, they would have to run tasks out of order:
 * the wait for which no thread is left says so. */
typedef struct ordered_wait {
    weft_pool *pool;
    weft_group *group; /* one for each depth */
    int depth;
    atomic_uint *refused;
    weft_group *stranger; /* or NULL */
} ordered_wait;

static int stranger_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

static int ordered_wait_task(void *payload, weft_worker *self) {
    (void)self;
    ordered_wait child = *(ordered_wait *)payload;
    if (child.depth-- == 0) return 0;
    weft_group *group = &child.group[child.depth];
    if (child.stranger != NULL) REQUIRE(weft_submit(child.pool, child.stranger, stranger_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_submit(child.pool, group, ordered_wait_task, &child, sizeof child) == WEFT_OK);
    int error = weft_group_wait(child.pool, group);
    if (error != WEFT_EAGAIN) return error;
    atomic_fetch_add(child.refused, 1);
    return 0;
}

static void nest_in_order(int depth,
                          bool has_stranger) { /* one worker and one spare: while one waits the other runs its task */
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint refused = 0;
    weft_group groups[8], group = WEFT_GROUP_INIT, stranger = WEFT_GROUP_INIT;
    for (int i = 0; i < 8; i++) groups[i] = (weft_group)WEFT_GROUP_INIT;
    ordered_wait root = {pool, groups, depth, &refused, has_stranger ? &stranger : NULL};
    assert_int_equal(weft_submit(pool, &group, ordered_wait_task, &root, sizeof root), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    for (int i = 0; i < 8; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &stranger), WEFT_OK);
    assert_int_equal(atomic_load(&refused), has_stranger ? depth - 1 : 0);
    end_pool(pool);
}
static void test_nested_in_order(void **state) {
    (void)state;
    nest_in_order(1, true);
    nest_in_order(2, true);
    nest_in_order(1, false);
    nest_in_order(8, false);
}

/* Waits of an ordered pool beside a gate that stays shut end, with a thread for each or few. Where no waiter has what they wait for,
 * and threads are too few, the last one is refused once the task in the gate has said that it blocks. */
enum { GATED_WORKERS = 8, GATED_ROOTS = 7, GATED_LEVELS = 10 };
typedef struct ordered_level {
    weft_pool *pool;
    atomic_uint *begun;
    uint32_t below;
} ordered_level;

static int ordered_level_task(void *payload, weft_worker *self) {
    (void)self;
    ordered_level level = *(const ordered_level *)payload;
    weft_group group = WEFT_GROUP_INIT;
    atomic_fetch_add(level.begun, 1);
    if (level.below-- == 0) return 0;
    REQUIRE(weft_submit(level.pool, &group, ordered_level_task, &level, sizeof level) == WEFT_OK);
    return weft_group_wait(level.pool, &group);
}
static int gate_section(void *payload, weft_worker *self) {
    REQUIRE(weft_block_begin(self) == WEFT_OK); /* takes the spare */
    REQUIRE(gate_task(payload, self) == 0);
    return weft_block_end(self);
}
static weft_pool *make_gated(gate *g, weft_group *held, weft_fn fn, uint32_t spares) {
    weft_config config = config_of(GATED_WORKERS);
    config.flags = WEFT_POOL_ORDERED;
    config.spares = spares;
    weft_pool *pool = make_pool_with(&config);
    gate_init(g);
    assert_int_equal(weft_submit(pool, held, fn, &g, sizeof g), WEFT_OK);
    await(&g->entered);
    return pool;
}
static void end_gated(weft_pool *pool, gate *g, weft_group *held) {
    gate_open(g);
    assert_int_equal(weft_group_wait(pool, held), WEFT_OK);
    end_pool(pool);
}
static void nest_in_order_beside_gate(uint32_t spares) {
    gate g;
    weft_group held = WEFT_GROUP_INIT, roots = WEFT_GROUP_INIT;
    atomic_uint begun = 0;
    weft_pool *pool = make_gated(&g, &held, gate_task, spares);
    const ordered_level root = {pool, &begun, GATED_LEVELS - 1};
    for (int i = 0; i < GATED_ROOTS; i++)
        assert_int_equal(weft_submit(pool, &roots, ordered_level_task, &root, sizeof root), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &roots), WEFT_OK);
    assert_int_equal(atomic_load(&begun), GATED_ROOTS * GATED_LEVELS);
    end_gated(pool, &g, &held);
}
typedef struct late_wait {
    weft_pool *pool;
    weft_group *needed;
    atomic_uint *refused;
    sem_t *begins;
} late_wait;
static int late_wait_task(void *payload, weft_worker *self) {
    const late_wait *late = payload;
    (void)self;
    await(late->begins);
    int error = weft_group_wait(late->pool, late->needed);
    if (error != WEFT_EAGAIN) return error;
    atomic_fetch_add(late->refused, 1);
    return 0;
}
static void test_ordered_beside_gate(void **state) {
    (void)state;
    gate g;
    weft_group held = WEFT_GROUP_INIT, waits = WEFT_GROUP_INIT, needed = WEFT_GROUP_INIT;
    atomic_uint refused = 0;
    sem_t begins;
    nest_in_order_beside_gate(GATED_ROOTS * GATED_LEVELS);
    nest_in_order_beside_gate(0); /* as many as workers */
    nest_in_order_beside_gate(1);

    weft_pool *pool = make_gated(&g, &held, gate_section, 1);
    late_wait late = {pool, &needed, &refused, &begins};
    assert_true(sem_init(&begins, 0, 0) == 0);
    for (int i = 0; i < GATED_WORKERS; i++)
        assert_int_equal(weft_submit(pool, &waits, late_wait_task, &late, sizeof late), WEFT_OK);
    assert_int_equal(weft_submit(pool, &needed, stranger_task, NULL, 0), WEFT_OK); /* behind them, in no waiter's lane */
    for (int i = 0; i < GATED_WORKERS; i++) sem_post(&begins);
    assert_int_equal(weft_group_wait(pool, &waits), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &needed), WEFT_OK);
    assert_int_equal(atomic_load(&refused), 1);
    end_gated(pool, &g, &held);
}

/* A thread from outside that waits in a task that it runs itself sleeps with all its calls, and so is not taken for one
 * that works. */
typedef struct guest {
    weft_pool *pool;
    weft_group *awaited;
} guest;

static int guest_waits(void *payload, weft_worker *self) {
    const guest *g = payload;
    (void)self;
    return weft_group_wait(g->pool, g->awaited);
}
static void *guest_runs(void *argument) {
    weft_group group = WEFT_GROUP_INIT;
    guest *g = argument;
    REQUIRE(weft_run(g->pool, &group, guest_waits, g) == WEFT_OK);
    REQUIRE(weft_group_wait(g->pool, &group) == WEFT_OK);
    return NULL;
}

static void test_guest_asleep(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group continuation = WEFT_GROUP_INIT;
    gate g;
    pthread_t thread;
    guest outside = {pool, &continuation};
    uint32_t asleep = 0;
    gate_occupy(&g, pool, &continuation);
    assert_int_equal(pthread_create(&thread, NULL, guest_runs, &outside), 0);
    while ((asleep = load_rlx(&pool->guests_asleep)) == 0) nap();
    assert_int_equal(asleep, 1);
    gate_open(&g);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(load_rlx(&pool->guests_asleep), 0);
    end_pool(pool);
}

/* The same thread, asleep in another pool: in the pool whose task it runs, it is in a blocking section. */
typedef struct stranger {
    weft_pool *pool, *other;
    weft_group *awaited; /* of the other pool */
} stranger;

static int stranger_waits(void *payload, weft_worker *self) {
    const stranger *s = payload;
    (void)self;
    return weft_group_wait_until(s->other, s->awaited, WEFT_HELP_NONE, 0);
}
static void *stranger_runs(void *argument) {
    weft_group group = WEFT_GROUP_INIT;
    stranger *s = argument;
    REQUIRE(weft_run(s->pool, &group, stranger_waits, s) == WEFT_OK);
    REQUIRE(weft_group_wait(s->pool, &group) == WEFT_OK);
    return NULL;
}

static void test_guest_asleep_elsewhere(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1), *other = make_pool(1);
    weft_group awaited = WEFT_GROUP_INIT;
    stranger outside = {pool, other, &awaited};
    gate g;
    pthread_t thread;
    gate_occupy(&g, other, &awaited);
    assert_int_equal(pthread_create(&thread, NULL, stranger_runs, &outside), 0);
    while (load_rlx(&pool->blocked) == 0) nap();
    assert_int_equal((uint32_t)load_rlx(&pool->blocked), 1);
    gate_open(&g);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(load_rlx(&pool->blocked), 0);
    assert_int_equal(load_rlx(&other->blocked), 0);
    end_pool(other);
    end_pool(pool);
}

/* A spare goes when the section that it stood in for has ended, though there is more to do. */
enum { AFTER_TASKS = 500, TOGETHER = 64 }; /* it may have taken one claim by then, and the worker runs as many beside it */
static atomic_int running;
static atomic_uint beside;
static atomic_bool is_over;

static int after_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    if (atomic_fetch_add(&running, 1) > 0 && atomic_load(&is_over)) atomic_fetch_add(&beside, 1);
    nap();
    atomic_fetch_sub(&running, 1);
    return 0;
}
static int section_then_work(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    while (atomic_load(&running) == 0) nap(); /* the spare has come */
    REQUIRE(weft_block_end(self) == WEFT_OK);
    atomic_store(&is_over, true);
    return after_task(NULL, self);
}

static void test_spare_goes(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_submit(pool, NULL, section_then_work, NULL, 0), WEFT_OK);
    for (int i = 0; i < AFTER_TASKS; i++) assert_int_equal(weft_submit(pool, NULL, after_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    assert_true(atomic_load(&beside) <= TOGETHER);
    end_pool(pool);
}

/* A recursion through groups as deep as a list is long. The steps from a group to the one above it are counted, and looks at
 * records. */
#define DEEP 2000
static atomic_ullong steps, looks;
void *__real_pile_at(const struct pile *pile, uint32_t index);
void *__wrap_pile_at(const struct pile *pile, uint32_t index);
void *__wrap_pile_at(const struct pile *pile, uint32_t index) {
    atomic_fetch_add(&looks, 1);
    return __real_pile_at(pile, index);
}
uint64_t __real_group_parent(const struct groups *groups, uint64_t id);
uint64_t __wrap_group_parent(const struct groups *groups, uint64_t id);
uint64_t __wrap_group_parent(const struct groups *groups, uint64_t id) {
    atomic_fetch_add(&steps, 1);
    return __real_group_parent(groups, id);
}
static int deep_task(void *payload, weft_worker *self) {
    nested_wait child = *(nested_wait *)payload;
    weft_group group = WEFT_GROUP_INIT;
    atomic_fetch_add(child.counter, 1);
    if (child.depth-- == 0) return 7;
    REQUIRE(weft_submit(weft_worker_pool(self), &group, deep_task, &child, sizeof child) == WEFT_OK);
    return weft_group_wait(weft_worker_pool(self), &group);
}

static void test_nested_deep(void **state) {
    (void)state;
    weft_config config = config_of(1); /* a second worker's looks would count, too, as many as it happens to make */
    config.stack_size = (size_t)64 << 20;
    weft_pool *pool = make_pool_with(&config);
    atomic_uint counter = 0;
    nested_wait root = {.depth = DEEP, .counter = &counter};
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, deep_task, &root, sizeof root), WEFT_OK);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), 7); /* on the workers' stacks */
    assert_int_equal(atomic_load(&counter), DEEP + 1);
    assert_true(atomic_load(&steps) <= UINT64_C(4) * DEEP);
    assert_true(atomic_load(&looks) <= UINT64_C(16) * DEEP);
    end_pool(pool);
}

/* Run within another task's section, by its weft_run or its wait: that section is not this task's to end. */
static int end_only_task(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    REQUIRE(weft_block_begin(self) != WEFT_EINVAL && weft_block_end(self) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    return 0;
}
static int section_around_task(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    weft_group below = WEFT_GROUP_INIT;
    (void)payload;
    REQUIRE(weft_block_begin(self) != WEFT_EINVAL);
    REQUIRE(weft_run(pool, &below, end_only_task, NULL) == WEFT_OK);
    for (int i = 0; i < 10; i++) REQUIRE(weft_submit(pool, &below, end_only_task, NULL, 0) == WEFT_OK);
    int error;
    while ((error = weft_group_wait(pool, &below)) == WEFT_EAGAIN)
        sched_yield(); /* ordered: the spare is in a section, too */
    REQUIRE(error == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_OK && weft_block_end(self) == WEFT_EINVAL);
    return 0;
}
static void test_anothers_section(void **state) {
    (void)state;
    const uint32_t flags[] = {0, WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED};
    for (unsigned i = 0; i < 3; i++) {
        weft_config config = config_of(1);
        config.flags = flags[i];
        weft_pool *pool = make_pool_with(&config);
        for (int round = 0; round < 50; round++)
            assert_int_equal(weft_submit(pool, NULL, section_around_task, NULL, 0), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        end_pool(pool);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_without_help), cmocka_unit_test(test_nested_on_workers),
        cmocka_unit_test(test_nested_in_order),     cmocka_unit_test(test_ordered_beside_gate),
        cmocka_unit_test(test_guest_asleep),        cmocka_unit_test(test_guest_asleep_elsewhere),
        cmocka_unit_test(test_spare_goes),          cmocka_unit_test(test_nested_deep),
        cmocka_unit_test(test_anothers_section),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
