/* test_inside.c: which groups a task is inside of, and whose tasks a wait may run. */
#define _GNU_SOURCE
#include "pool_help.h"

/* ---- a group that outlives the one above it ----------------------------------------------------------------------- */

typedef struct family {
    weft_pool *pool;
    weft_group upper, lower;
    weft_fn child;
    atomic_int result;
} family;

static int wait_upper_task(void *payload, weft_worker *self) {
    (void)self;
    family *f = *(family **)payload;
    atomic_store(&f->result, weft_group_wait(f->pool, &f->upper));
    return 0;
}

/* Of the upper group: leaves a task of the lower one behind. */
static int leave_child_task(void *payload, weft_worker *self) {
    (void)self;
    family *f = *(family **)payload;
    return weft_submit(f->pool, &f->lower, f->child, payload, sizeof f);
}

static void test_waits_for_the_group_above(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        family f = {.pool = make_pool(workers), .child = wait_upper_task, .result = 1};
        family *payload = &f;
        assert_int_equal(weft_submit(f.pool, &f.upper, leave_child_task, &payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_group_wait_until(f.pool, &f.upper, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(weft_group_wait_until(f.pool, &f.lower, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(atomic_load(&f.result), WEFT_OK);
        end_pool(f.pool);
    }
}

/* While a task of the upper group waits for the lower one, the other wait would never end. One of the two says so. */
static int wait_lower_task(void *payload, weft_worker *self) {
    family *f = *(family **)payload;
    int error = leave_child_task(payload, self);
    return error != WEFT_OK ? error : weft_group_wait(f->pool, &f->lower);
}

static void test_two_waits_for_each_other(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        family f = {.pool = make_pool(workers), .child = wait_upper_task, .result = 1};
        family *payload = &f;
        assert_int_equal(weft_submit(f.pool, &f.upper, wait_lower_task, &payload, sizeof payload), WEFT_OK);
        int error = weft_group_wait_until(f.pool, &f.upper, WEFT_HELP_NONE, 0);
        assert_int_equal(weft_group_wait_until(f.pool, &f.lower, WEFT_HELP_NONE, 0), WEFT_OK);
        int other = atomic_load(&f.result);
        assert_true((error == WEFT_EDEADLK && other == WEFT_EDEADLK) || (error == WEFT_EDEADLK && other == WEFT_OK) ||
                    (error == WEFT_OK && other == WEFT_EDEADLK));
        end_pool(f.pool);
    }
}

/* ---- strangers' tasks --------------------------------------------------------------------------------------------- */

/* A thread waits for a group whose task stands in the gate. Another thread, which is no runner of the pool, opens that when
 * the first one sleeps. */
typedef struct watch {
    pid_t waiter;
    gate *gate;
} watch;

static void *open_when_asleep(void *argument) {
    const watch *w = argument;
    while (!thread_sleeps(w->waiter)) nap();
    gate_open(w->gate);
    return NULL;
}

static void wait_for_gate(weft_pool *pool, weft_group *group, gate *g) {
    watch w = {thread_id(), g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_when_asleep, &w), 0);
    assert_int_equal(weft_group_wait(pool, group), WEFT_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int note_thread_task(void *payload, weft_worker *self) {
    (void)self;
    atomic_store(*(atomic_int **)payload, (int)thread_id());
    return 0;
}

/* A group that holds continuations of two others: a wait for a fourth runs none of its tasks. */
static void test_holder_of_two_is_a_stranger(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group gated = WEFT_GROUP_INIT, holder = WEFT_GROUP_INIT, one = WEFT_GROUP_INIT, two = WEFT_GROUP_INIT;
    atomic_int ran_on = 0, *payload = &ran_on;
    gate g;
    gate_occupy(&g, pool, &gated);
    assert_int_equal(weft_submit(pool, &holder, note_thread_task, &payload, sizeof payload), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&holder, &one}, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit_after(pool, (weft_after){&holder, &two}, empty_task, NULL, 0), WEFT_OK);
    wait_for_gate(pool, &gated, &g);
    assert_int_equal(weft_group_wait_until(pool, &holder, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_not_equal(atomic_load(&ran_on), (int)thread_id());
    assert_int_equal(weft_group_wait(pool, &one), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &two), WEFT_OK);
    end_pool(pool);
}

/* But one for a group that its continuations lead to, over others, does: nobody else is there to. */
static void test_holder_of_two_serves_both(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group gated = WEFT_GROUP_INIT, first = WEFT_GROUP_INIT, ends[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    weft_group middle[2][50];
    atomic_int ran_on = 0, *payload = &ran_on;
    gate g;
    memset(middle, 0, sizeof middle);
    gate_occupy(&g, pool, &gated);
    assert_int_equal(weft_submit(pool, &first, note_thread_task, &payload, sizeof payload), WEFT_OK);
    for (int way = 0; way < 2; way++) {
        weft_group *last = &first;
        for (int i = 0; i < 50; i++) {
            assert_int_equal(weft_submit_after(pool, (weft_after){last, &middle[way][i]}, empty_task, NULL, 0), WEFT_OK);
            last = &middle[way][i];
        }
        assert_int_equal(weft_submit_after(pool, (weft_after){last, &ends[way]}, empty_task, NULL, 0), WEFT_OK);
    }
    assert_int_equal(weft_group_wait(pool, &ends[1]), WEFT_OK);
    assert_int_equal(atomic_load(&ran_on), (int)thread_id());
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &gated), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &ends[0]), WEFT_OK);
    for (int i = 0; i < 100; i++) assert_int_equal(weft_group_wait(pool, &middle[i % 2][i / 2]), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &first), WEFT_OK);
    end_pool(pool);
}

/* ---- deep --------------------------------------------------------------------------------------------------------- */

/* Waits nested so deep; the innermost task calls `at_bottom`. Its groups are above that task's. */
typedef struct nest {
    weft_pool *pool;
    int depth;
    void (*at_bottom)(weft_pool *pool, void *context);
    void *context;
} nest;

static int nest_task(void *payload, weft_worker *self) {
    (void)self;
    nest below = *(nest *)payload;
    if (below.depth-- == 0) {
        below.at_bottom(below.pool, below.context);
        return 0;
    }
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(below.pool, &group, nest_task, &below, sizeof below) == WEFT_OK);
    return weft_group_wait(below.pool, &group);
}

/* A stranger's task lies at the bottom of a deep nest whose worker is busy: a wait for something else leaves it alone. */
typedef struct deep {
    weft_group group;
    atomic_int ran_on;
    gate gate;
} deep;

static void submit_and_stay(weft_pool *pool, void *context) {
    deep *d = context;
    atomic_int *payload = &d->ran_on;
    REQUIRE(weft_submit(pool, &d->group, note_thread_task, &payload, sizeof payload) == WEFT_OK);
    sem_post(&d->gate.entered);
    await(&d->gate.opened);
    REQUIRE(weft_group_wait(pool, &d->group) == WEFT_OK);
}

static void test_deep_groups_are_strangers(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group gated = WEFT_GROUP_INIT, nested = WEFT_GROUP_INIT;
    deep d = {.group = WEFT_GROUP_INIT};
    gate g;
    gate_init(&d.gate);
    const nest root = {pool, 40, submit_and_stay, &d};
    gate_occupy(&g, pool, &gated);
    assert_int_equal(weft_submit(pool, &nested, nest_task, &root, sizeof root), WEFT_OK);
    await(&d.gate.entered);
    wait_for_gate(pool, &gated, &g);
    gate_open(&d.gate);
    assert_int_equal(weft_group_wait_until(pool, &nested, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_not_equal(atomic_load(&d.ran_on), 0);
    end_pool(pool);
    assert_int_not_equal(atomic_load(&d.ran_on), (int)thread_id());
}

/* Two nests at once, and beside each wait another short one: a wait runs only what is below it, so none is refused. */
static int pair_task(void *payload, weft_worker *self) {
    (void)self;
    nest below = *(nest *)payload;
    if (below.depth-- == 0) return 0;
    nest flat = below;
    flat.depth = below.depth % 2 == 0 ? 0 : 1;
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(below.pool, &group, pair_task, &below, sizeof below) == WEFT_OK);
    REQUIRE(weft_submit(below.pool, &group, pair_task, &flat, sizeof flat) == WEFT_OK);
    return weft_group_wait(below.pool, &group);
}

static void test_deep_waits_go_well(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        const nest root = {.pool = pool, .depth = 60};
        for (int round = 0; round < 20; round++) {
            weft_group groups[2] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT};
            for (int i = 0; i < 2; i++)
                assert_int_equal(weft_submit(pool, &groups[i], pair_task, &root, sizeof root), WEFT_OK);
            for (int i = 0; i < 2; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
        }
        end_pool(pool);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_the_group_above),   cmocka_unit_test(test_two_waits_for_each_other),
        cmocka_unit_test(test_holder_of_two_is_a_stranger), cmocka_unit_test(test_holder_of_two_serves_both),
        cmocka_unit_test(test_deep_groups_are_strangers),   cmocka_unit_test(test_deep_waits_go_well),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
