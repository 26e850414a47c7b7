/* test_group_pools.c: a group whose tasks are one pool's, given to another pool: WEFT_EINVAL, always, and nothing
 * happens. */
#define _GNU_SOURCE
#include "pool_help.h"

#include "queue/group.h"

static void no_move(void *payload, void *object) { (void)payload, (void)object; }
static void not_told(void *payload, int result, int has_ended) { (void)payload, (void)result, (void)has_ended; }
static int no_range(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context, (void)self;
    return 0;
}

/* Every call that takes a group. */
static void check_refused(weft_pool *pool, weft_group *group) {
    const weft_group before = *group;
    weft_group other = WEFT_GROUP_INIT;
    char byte = 1;
    const weft_object moved = {1, empty_task, no_move}, copied = {1, empty_task, NULL};
    const weft_after from = {group, &other}, to = {&other, group};
    assert_int_equal(weft_submit(pool, group, empty_task, &byte, 1), WEFT_EINVAL);
    assert_int_equal(weft_submit(pool, group, empty_task, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit_object(pool, group, &moved, &byte), WEFT_EINVAL);
    assert_int_equal(weft_submit_after(pool, from, empty_task, &byte, 1), WEFT_EINVAL);
    assert_int_equal(weft_submit_after(pool, to, empty_task, &byte, 1), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, from, &copied, &byte), WEFT_EINVAL);
    assert_int_equal(weft_submit_after_object(pool, to, &copied, &byte), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, from, &copied, &byte, not_told), WEFT_EINVAL);
    assert_int_equal(weft_submit_await(pool, to, &copied, &byte, not_told), 1); /* nothing is held for it */
    assert_int_equal(weft_run(pool, group, empty_task, NULL), WEFT_EINVAL);
    assert_int_equal(weft_group_wait(pool, group), WEFT_EINVAL);
    assert_int_equal(weft_group_wait_until(pool, group, WEFT_HELP_NONE, 1), WEFT_EINVAL);
    assert_int_equal(weft_group_cancel(pool, group), WEFT_EINVAL);
    assert_int_equal(weft_group_boost(pool, group), WEFT_EINVAL);
    assert_int_equal(weft_group_deadline(pool, group, UINT64_MAX), WEFT_EINVAL);
    assert_memory_equal(group, &before, sizeof before);
    assert_int_equal(weft_group_wait(pool, &other), WEFT_OK);
}

/* The pool's own groups go on, with what nobody has waited for, whose record is the stranger's namesake. */
static void check_beside(weft_pool *pool, weft_group *stranger) {
    atomic_uint counter = 0;
    weft_group own = WEFT_GROUP_INIT;
    check_refused(pool, stranger); /* no record is open */
    for (unsigned round = 1; round < 3; round++) {
        assert_int_equal(submit_count(pool, &own, &counter), WEFT_OK);
        check_refused(pool, stranger); /* one is */
        assert_int_equal(weft_group_wait(pool, &own), WEFT_OK);
        assert_int_equal(atomic_load(&counter), round);
        check_refused(pool, stranger); /* one was */
    }
    assert_int_equal(weft_for(pool, (weft_range){0, 10, 1}, no_range, NULL), WEFT_OK);
}

static void test_living_pool(void **state) {
    (void)state;
    weft_pool *first = make_pool(1), *second = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    assert_int_equal(submit_count(first, &group, &counter), WEFT_OK);
    check_beside(second, &group);
    assert_int_equal(weft_group_wait(first, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    assert_int_equal(submit_count(second, &group, &counter), WEFT_OK); /* after its wait it is anybody's */
    assert_int_equal(weft_group_wait(second, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 2);
    end_pool(first);
    end_pool(second);
}

static void test_destroyed_pool(void **state) {
    (void)state;
    weft_pool *first = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    assert_int_equal(submit_count(first, &group, &counter), WEFT_OK);
    end_pool(first);
    assert_int_equal(atomic_load(&counter), 1);
    weft_pool *second = make_pool(1);
    check_beside(second, &group);
    group = (weft_group)WEFT_GROUP_INIT; /* as weft.h says */
    assert_int_equal(submit_count(second, &group, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait(second, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 2);
    end_pool(second);
}

/* In a task, whose own group is the first of the second pool. */
static int task_inside(void *payload, weft_worker *self) {
    check_refused(weft_worker_pool(self), *(weft_group **)payload);
    return 7;
}
static void test_inside_a_task(void **state) {
    (void)state;
    weft_pool *first = make_pool(1);
    weft_group group = WEFT_GROUP_INIT, own = WEFT_GROUP_INIT;
    weft_group *stranger = &group;
    assert_int_equal(weft_submit(first, &group, empty_task, NULL, 0), WEFT_OK);
    end_pool(first);
    weft_pool *second = make_pool(1);
    assert_int_equal(weft_run(second, &own, task_inside, &stranger), WEFT_OK); /* on this thread */
    assert_int_equal(weft_group_wait(second, &own), 7);
    end_pool(second);
}

/* A copy outlives its group's end. */
static void test_copy(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    weft_group copy = group;
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    check_beside(pool, &copy);
    end_pool(pool);
}

static int child_with_parents_group(void *argument) {
    weft_group *group = argument, first = WEFT_GROUP_INIT;
    weft_pool *own = make_pool(1);
    REQUIRE(weft_submit(own, &first, empty_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(own, group) == WEFT_EINVAL);
    REQUIRE(weft_submit(own, group, empty_task, NULL, 0) == WEFT_EINVAL);
    REQUIRE(weft_group_wait(own, &first) == WEFT_OK);
    end_pool(own);
    return 0;
}
static void test_forked_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(in_child(child_with_parents_group, &group), 0);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* A graph that runs in one pool is not cancelled in another. */
static int gate_node(void *context, weft_worker *self) { return gate_task(&context, self); }
static int note_node(void *context, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)context, 1);
    return 0;
}
static int run_graph(void *payload, weft_worker *self) {
    return weft_graph_run(weft_worker_pool(self), *(weft_graph **)payload);
}
static void test_graph_in_another_pool(void **state) {
    (void)state;
    weft_pool *first = make_pool(1), *second = make_pool(1);
    weft_graph *graph;
    weft_node before, after;
    atomic_uint counter = 0;
    gate g;
    gate_init(&g);
    REQUIRE(weft_graph_create(&graph) == WEFT_OK && weft_graph_add(graph, &before, gate_node, &g) == WEFT_OK);
    REQUIRE(weft_graph_add(graph, &after, note_node, &counter) == WEFT_OK &&
            weft_graph_edge(graph, before, after) == WEFT_OK);
    REQUIRE(weft_graph_build(graph, NULL) == WEFT_OK);
    weft_group group = WEFT_GROUP_INIT, other = WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(second, &other, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit(first, &group, run_graph, &graph, sizeof graph), WEFT_OK);
    await(&g.entered);
    assert_int_equal(weft_graph_cancel(second, graph), WEFT_OK);
    gate_open(&g);
    assert_int_equal(weft_group_wait(first, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 1);
    assert_int_equal(weft_group_wait(second, &other), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
    end_pool(first);
    end_pool(second);
}

/* Pools in turn and side by side, with some hundred groups one after the other and at once: no id comes twice. */
static int by_value(const void *left, const void *right) {
    uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
    return (l > r) - (l < r);
}
static void test_ids_are_unique(void **state) {
    (void)state;
    enum { TURNS = 8, POOLS = 2, ROUNDS = 700, GROUPS = 3 };
    static uint64_t ids[TURNS * POOLS * ROUNDS * GROUPS];
    size_t count = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        weft_pool *pools[POOLS] = {make_pool(1), make_pool(1)};
        for (int round = 0; round < ROUNDS; round++) {
            for (int which = 0; which < POOLS; which++) {
                weft_group groups[GROUPS] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT, WEFT_GROUP_INIT};
                for (int i = 0; i < GROUPS; i++) {
                    assert_int_equal(weft_submit(pools[which], &groups[i], empty_task, NULL, 0), WEFT_OK);
                    ids[count++] = groups[i].id;
                }
                for (int i = 0; i < GROUPS; i++) assert_int_equal(weft_group_wait(pools[which], &groups[i]), WEFT_OK);
            }
        }
        for (int which = 0; which < POOLS; which++) end_pool(pools[which]);
    }
    qsort(ids, count, sizeof *ids, by_value);
    for (size_t i = 1; i < count; i++) assert_true(ids[i - 1] < ids[i]);
    assert_int_equal(ids[0] & ID_MARKS, 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_living_pool),    cmocka_unit_test(test_destroyed_pool),
        cmocka_unit_test(test_inside_a_task),  cmocka_unit_test(test_copy),
        cmocka_unit_test(test_forked_child),   cmocka_unit_test(test_graph_in_another_pool),
        cmocka_unit_test(test_ids_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
