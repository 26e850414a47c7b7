/* test_graph_waits.c: a run of a graph inside a task returns when its nodes have, whatever else waits: with no thread
 * left, or where a node waits for what the task itself keeps from beginning. */
#define _GNU_SOURCE
#include "pool_help.h"

static weft_graph *graph_of(weft_fn fn, unsigned nodes, void *context) {
    weft_graph *graph;
    REQUIRE(weft_graph_create(&graph) == WEFT_OK);
    for (unsigned i = 0; i < nodes; i++) REQUIRE(weft_graph_add(graph, NULL, fn, context) == WEFT_OK);
    REQUIRE(weft_graph_build(graph, NULL) == WEFT_OK);
    return graph;
}

/* ---- no thread is left -------------------------------------------------------------------------------------------- */

struct scene {
    weft_pool *pool;
    weft_group group, other;
    atomic_uint children, nodes, others;
    atomic_bool is_over;
    _Atomic unsigned children_seen;
    _Atomic int result;
};

static int wait_for_other(void *payload, weft_worker *self) {
    (void)self;
    struct scene *scene = *(struct scene **)payload;
    scene->result = weft_group_wait(scene->pool, &scene->other);
    return 0;
}
static int node_with_child(void *context, weft_worker *self) {
    struct scene *scene = context;
    atomic_uint *children = &scene->children;
    atomic_fetch_add(&scene->nodes, 1);
    return weft_submit_child(self, count_task, &children, sizeof children);
}
static int run_graph(void *payload, weft_worker *self) {
    (void)self;
    struct scene *scene = *(struct scene **)payload;
    weft_graph *graph = graph_of(node_with_child, 3, scene);
    int error = weft_graph_run(scene->pool, graph);
    scene->children_seen = scene->children;
    REQUIRE(weft_graph_destroy(&graph) == WEFT_OK);
    return error;
}

/* One worker and its spare: the first waits for a task behind the second, which runs a graph whose nodes submit. */
static void test_children_of_nodes_run_without_a_thread_left(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    config.spares = 1;
    struct scene scene = {.pool = make_pool_with(&config), .result = 1};
    struct scene *payload = &scene;
    gate door, *door_payload = &door;
    gate_init(&door);
    REQUIRE(weft_submit(scene.pool, &scene.group, gate_task, &door_payload, sizeof door_payload) == WEFT_OK);
    REQUIRE(weft_submit(scene.pool, &scene.group, wait_for_other, &payload, sizeof payload) == WEFT_OK);
    REQUIRE(weft_submit(scene.pool, &scene.group, run_graph, &payload, sizeof payload) == WEFT_OK);
    REQUIRE(submit_count(scene.pool, &scene.other, &scene.others) == WEFT_OK);
    gate_open(&door);
    assert_int_equal(weft_group_wait(scene.pool, &scene.group), WEFT_OK);
    assert_int_equal(weft_group_wait(scene.pool, &scene.other), WEFT_OK);
    assert_int_equal(scene.nodes, 3);
    assert_int_equal(scene.children_seen, 3);
    assert_int_equal(scene.others, 1);
    end_pool(scene.pool);
}

static int block_until_over(void *payload, weft_worker *self) {
    struct scene *scene = *(struct scene **)payload;
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    while (!scene->is_over) nap();
    weft_block_end(self);
    return 0;
}
static int run_graph_behind(void *payload, weft_worker *self) {
    struct scene *scene = *(struct scene **)payload;
    REQUIRE(submit_count(scene->pool, &scene->other, &scene->others) == WEFT_OK);
    int error = run_graph(payload, self);
    scene->is_over = true;
    return error;
}

/* The only worker is in a section until its spare's task has returned. What that task submitted before it ran its graph stands
 * before the nodes' children, and runs inside it. */
static void test_what_stands_before_the_children_runs_too(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_ORDERED;
    config.spares = 1;
    struct scene scene = {.pool = make_pool_with(&config)};
    struct scene *payload = &scene;
    REQUIRE(weft_submit(scene.pool, &scene.group, block_until_over, &payload, sizeof payload) == WEFT_OK);
    REQUIRE(weft_submit(scene.pool, &scene.group, run_graph_behind, &payload, sizeof payload) == WEFT_OK);
    assert_int_equal(weft_group_wait(scene.pool, &scene.group), WEFT_OK);
    assert_int_equal(scene.nodes, 3);
    assert_int_equal(scene.children_seen, 3);
    assert_int_equal(scene.others, 1);
    assert_int_equal(weft_group_wait(scene.pool, &scene.other), WEFT_OK);
    end_pool(scene.pool);
}

/* ---- a circle ----------------------------------------------------------------------------------------------------- */

struct circle {
    weft_pool *pool;
    weft_group group, after;
    atomic_uint begun, ran;
    _Atomic unsigned ended, ended_seen;
    _Atomic int refused;
};

/* Of two nodes the second to begin waits for a task that starts after the group of the task that runs the graph. */
static int node_that_waits(void *context, weft_worker *self) {
    (void)self;
    struct circle *circle = context;
    if (atomic_fetch_add(&circle->begun, 1) == 0) {
        while (circle->begun < 2) sched_yield();
        for (int i = 0; i < 10; i++) nap(); /* the other sleeps by now, most likely */
    } else {
        circle->refused = weft_group_wait(circle->pool, &circle->after);
        for (int i = 0; i < 10; i++) nap();
    }
    circle->ended++;
    return 0;
}
static int run_circle(void *payload, weft_worker *self) {
    (void)self;
    struct circle *circle = *(struct circle **)payload;
    weft_graph *graph = graph_of(node_that_waits, 2, circle);
    int error = weft_graph_run(circle->pool, graph);
    circle->ended_seen = circle->ended;
    REQUIRE(weft_graph_destroy(&graph) == WEFT_OK);
    return error;
}

static void test_a_node_that_would_wait_for_ever_is_refused(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    for (int i = 0; i < 5; i++) {
        struct circle circle = {.pool = pool}, *payload = &circle;
        atomic_uint *ran = &circle.ran;
        gate door;
        gate_occupy(&door, pool, &circle.group);
        REQUIRE(weft_submit_after(pool, (weft_after){&circle.group, &circle.after}, count_task, &ran, sizeof ran) ==
                WEFT_OK);
        REQUIRE(weft_submit(pool, &circle.group, run_circle, &payload, sizeof payload) == WEFT_OK);
        gate_open(&door);
        assert_int_equal(weft_group_wait_until(pool, &circle.group, WEFT_HELP_NONE, 0), WEFT_OK);
        assert_int_equal(circle.ended_seen, 2);
        assert_int_equal(circle.refused, WEFT_EDEADLK);
        assert_int_equal(weft_group_wait(pool, &circle.after), WEFT_OK);
        assert_int_equal(circle.ran, 1);
    }
    end_pool(pool);
}

/* A node that waits for the group of the task that runs its graph, or of one further up, is refused at once: with a time limit,
 * and also where a graph is run inside another's. */
struct around {
    weft_pool *pool;
    weft_group group;
    unsigned levels; /* of graphs left */
    _Atomic int refused;
};
static int node_for_caller(void *context, weft_worker *self) {
    (void)self;
    struct around *around = context;
    if (around->levels-- > 1) {
        weft_graph *graph = graph_of(node_for_caller, 1, around);
        int error = weft_graph_run(around->pool, graph);
        REQUIRE(weft_graph_destroy(&graph) == WEFT_OK);
        return error;
    }
    around->refused = weft_group_wait_until(around->pool, &around->group, WEFT_HELP_BELOW, UINT64_MAX);
    return 0;
}
static int run_around(void *payload, weft_worker *self) { return node_for_caller(*(struct around **)payload, self); }

static void test_a_node_does_not_wait_for_who_runs_its_graph(void **state) {
    (void)state;
    static const uint32_t flags[] = {0, WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED};
    for (unsigned i = 0; i < 9; i++) {
        weft_config config = config_of(2);
        config.flags = flags[i % 3];
        struct around around = {.pool = make_pool_with(&config), .levels = 2 + i / 3}, *payload = &around;
        assert_int_equal(weft_submit(around.pool, &around.group, run_around, &payload, sizeof payload), WEFT_OK);
        assert_int_equal(weft_group_wait(around.pool, &around.group), WEFT_OK);
        assert_int_equal(around.refused, WEFT_EDEADLK);
        end_pool(around.pool);
    }
}

/* ---- what a node's tasks return ----------------------------------------------------------------------------------- */

static int return_code(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}

struct parent {
    weft_graph *graph;
    bool cancels;
    int code;
};
static int parent_node(void *context, weft_worker *self) {
    const struct parent *p = context;
    REQUIRE(weft_submit_child(self, return_code, &p->code, sizeof p->code) == WEFT_OK);
    if (p->cancels) REQUIRE(weft_graph_cancel(weft_worker_pool(self), p->graph) == WEFT_OK);
    return 0;
}

/* An error of a task that a node submits is not the run's, and does not hide that the run was cancelled. */
static void test_tasks_of_nodes_fail(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    struct parent p;
    weft_node node;
    assert_int_equal(weft_graph_create(&p.graph), WEFT_OK);
    assert_int_equal(weft_graph_add(p.graph, &node, parent_node, &p), WEFT_OK);
    assert_int_equal(weft_graph_build(p.graph, NULL), WEFT_OK);
    for (unsigned i = 0; i < 100; i++) {
        p.cancels = i % 2 == 1;
        p.code = i % 3 == 0 ? 7 : i % 3 == 1 ? WEFT_ECANCELED : 0;
        assert_int_equal(weft_graph_run(pool, p.graph), p.cancels ? WEFT_ECANCELED : WEFT_OK);
    }
    assert_int_equal(weft_graph_destroy(&p.graph), WEFT_OK);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children_of_nodes_run_without_a_thread_left),
        cmocka_unit_test(test_what_stands_before_the_children_runs_too),
        cmocka_unit_test(test_a_node_that_would_wait_for_ever_is_refused),
        cmocka_unit_test(test_a_node_does_not_wait_for_who_runs_its_graph),
        cmocka_unit_test(test_tasks_of_nodes_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
