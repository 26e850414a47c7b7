/* test_graph.c: graphs: order, many runs, errors, cancelling, misuse. */
#define _GNU_SOURCE
#include "graph_scene.h"
#include "shortage.h"

/* ---- order -------------------------------------------------------------------------------------------------------- */

static void test_order(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        weft_pool *pool = make_pool(workers);
        struct scene *wave = wavefront(20);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(scene_run(wave, pool), WEFT_OK);
            check_all_ran(wave);
        }
        scene_end(wave);
        for (uint32_t seed = 0; seed < 20; seed++) {
            struct scene *scene = random_graph(1 + seed * 37, seed);
            for (int i = 0; i < 5; i++) {
                assert_int_equal(scene_run(scene, pool), WEFT_OK);
                check_all_ran(scene);
            }
            scene_end(scene);
        }
        end_pool(pool);
    }
}

/* In every kind of pool, also one whose queue has room for one task: what cannot be queued is not run on top. */
static void test_pools(void **state) {
    (void)state;
    static const struct {
        uint32_t workers, flags, full;
        uint64_t queue_max;
    } kinds[] = {{2, WEFT_POOL_NO_HELP, 0, 0}, {2, WEFT_POOL_ORDERED, 0, 0}, {1, 0, WEFT_FULL_BLOCK, 1},
                 {2, 0, WEFT_FULL_RUN, 1},     {2, 0, WEFT_FULL_ERROR, 1},   {3, 0, 0, 0},
                 {2, 0, WEFT_FULL_BLOCK, 5},   {1, WEFT_POOL_NO_HELP, 0, 1}, {2, WEFT_POOL_NO_HELP, WEFT_FULL_RUN, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        weft_config config = config_of(kinds[i].workers);
        config.flags = kinds[i].flags;
        config.full = kinds[i].full;
        config.queue_max = kinds[i].queue_max;
        weft_pool *pool = make_pool_with(&config);
        struct scene *wave = wavefront(30);
        struct scene *scene = random_graph(1000, 7);
        for (int k = 0; k < 10; k++) {
            assert_int_equal(scene_run(wave, pool), WEFT_OK);
            check_all_ran(wave);
            assert_int_equal(scene_run(scene, pool), WEFT_OK);
            check_all_ran(scene);
        }
        scene_end(wave);
        scene_end(scene);
        end_pool(pool);
    }
}

/* A chain, and many nodes without edges. */
static void test_extremes(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct scene *chain = scene_make(NODES_MAX);
    for (uint32_t i = 1; i < NODES_MAX; i++) scene_edge(chain, NODES_MAX - i, NODES_MAX - 1 - i);
    scene_build(chain);
    struct scene *loose = scene_make(NODES_MAX);
    scene_build(loose);
    struct scene *none = scene_make(0);
    scene_build(none);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(scene_run(chain, pool), WEFT_OK);
        check_all_ran(chain);
        assert_int_equal(scene_run(loose, pool), WEFT_OK);
        check_all_ran(loose);
        assert_int_equal(scene_run(none, pool), WEFT_OK);
    }
    scene_end(chain);
    scene_end(loose);
    scene_end(none);
    end_pool(pool);
}

/* Added to after it was built: not ready until it is built again. */
static void test_rebuilt(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct scene *scene = scene_make(10);
    scene_build(scene);
    assert_int_equal(scene_run(scene, pool), WEFT_OK);
    scene_edge(scene, 9, 0);
    assert_int_equal(weft_graph_run(pool, scene->graph), WEFT_EINVAL);
    scene_build(scene);
    assert_int_equal(scene_run(scene, pool), WEFT_OK);
    check_all_ran(scene);
    atomic_uint *runs = calloc(1, sizeof *runs);
    assert_int_equal(weft_graph_add(scene->graph, NULL, count_task, &runs), WEFT_OK);
    assert_int_equal(weft_graph_run(pool, scene->graph), WEFT_EINVAL);
    scene_build(scene);
    assert_int_equal(scene_run(scene, pool), WEFT_OK);
    assert_int_equal(atomic_load(runs), 1);
    free(runs);
    scene_end(scene);
    end_pool(pool);
}

static void test_duplicate_edges(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct scene *scene = scene_make(4);
    for (int i = 0; i < 2; i++) {
        scene_edge(scene, 0, 2);
        scene_edge(scene, 1, 2);
        scene_edge(scene, 0, 2);
        scene_edge(scene, 2, 3);
    }
    scene_build(scene);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(scene_run(scene, pool), WEFT_OK);
        check_all_ran(scene);
    }
    scene_end(scene);
    end_pool(pool);
}

/* Two nodes that wait for each other to start: both must run at once. */
struct pair {
    sem_t here, there;
};
static int pair_left(void *context, weft_worker *self) {
    struct pair *pair = context;
    (void)self;
    sem_post(&pair->there);
    await(&pair->here);
    return 0;
}
static int pair_right(void *context, weft_worker *self) {
    struct pair *pair = context;
    (void)self;
    sem_post(&pair->here);
    await(&pair->there);
    return 0;
}
static void test_parallel(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct pair pair;
    REQUIRE(sem_init(&pair.here, 0, 0) == 0 && sem_init(&pair.there, 0, 0) == 0);
    weft_graph *graph;
    weft_node first, left, right;
    assert_int_equal(weft_graph_create(&graph), WEFT_OK);
    assert_int_equal(weft_graph_add(graph, &first, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_add(graph, &left, pair_left, &pair), WEFT_OK);
    assert_int_equal(weft_graph_add(graph, &right, pair_right, &pair), WEFT_OK);
    assert_int_equal(weft_graph_edge(graph, first, left), WEFT_OK);
    assert_int_equal(weft_graph_edge(graph, first, right), WEFT_OK);
    assert_int_equal(weft_graph_build(graph, NULL), WEFT_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(weft_graph_run(pool, graph), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
    end_pool(pool);
}

/* One node before 300, of which three meet: the caller and both workers must come by what nobody has offered yet. */
struct meeting {
    atomic_int present;
    sem_t all;
};
static int meet(void *context, weft_worker *self) {
    struct meeting *meeting = context;
    (void)self;
    if (atomic_fetch_add(&meeting->present, 1) == 2)
        for (int i = 0; i < 3; i++) sem_post(&meeting->all);
    await(&meeting->all);
    return 0;
}
/* Runs such a graph that many times, in a pool of two workers. */
static void run_fan(weft_pool *pool, int runs) {
    enum { FAN = 300 };
    struct meeting meeting = {0};
    REQUIRE(sem_init(&meeting.all, 0, 0) == 0);
    weft_graph *graph;
    weft_node first;
    assert_int_equal(weft_graph_create(&graph), WEFT_OK);
    assert_int_equal(weft_graph_add(graph, &first, empty_task, NULL), WEFT_OK);
    for (int i = 0; i < FAN; i++) {
        weft_node node;
        bool meets = i == 0 || i == FAN / 3 || i == FAN - 1;
        assert_int_equal(weft_graph_add(graph, &node, meets ? meet : empty_task, &meeting), WEFT_OK);
        assert_int_equal(weft_graph_edge(graph, first, node), WEFT_OK);
    }
    assert_int_equal(weft_graph_build(graph, NULL), WEFT_OK);
    for (int i = 0; i < runs; i++) {
        atomic_store(&meeting.present, 0);
        assert_int_equal(weft_graph_run(pool, graph), WEFT_OK);
        assert_int_equal(atomic_load(&meeting.present), 3);
    }
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
}
static void test_fan(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    run_fan(pool, 100);
    end_pool(pool);
}

/* ---- nodes that run graphs, and several graphs at once ------------------------------------------------------------ */

static int run_scene(void *context, weft_worker *self) {
    struct scene *scene = context;
    return scene_run(scene, weft_worker_pool(self));
}

static void test_nested(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        weft_pool *pool = make_pool(workers);
        struct scene *inner[4];
        weft_graph *outer;
        weft_node node[4];
        assert_int_equal(weft_graph_create(&outer), WEFT_OK);
        for (uint32_t i = 0; i < 4; i++) {
            inner[i] = random_graph(200, i);
            assert_int_equal(weft_graph_add(outer, &node[i], run_scene, inner[i]), WEFT_OK);
        }
        assert_int_equal(weft_graph_edge(outer, node[0], node[3]), WEFT_OK);
        assert_int_equal(weft_graph_build(outer, NULL), WEFT_OK);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(weft_graph_run(pool, outer), WEFT_OK);
            for (int k = 0; k < 4; k++) check_all_ran(inner[k]);
        }
        assert_int_equal(weft_graph_destroy(&outer), WEFT_OK);
        for (int i = 0; i < 4; i++) scene_end(inner[i]);
        end_pool(pool);
    }
}

static void *run_often(void *argument) {
    struct scene *scene = argument;
    for (int i = 0; i < 50; i++) {
        REQUIRE(scene_run(scene, scene->pool) == WEFT_OK);
        check_all_ran(scene);
    }
    return NULL;
}

static void test_different_at_once(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    pthread_t threads[4];
    struct scene *scenes[4];
    for (uint32_t i = 0; i < 4; i++) {
        scenes[i] = random_graph(300, i + 1);
        scenes[i]->pool = pool;
        REQUIRE(pthread_create(&threads[i], NULL, run_often, scenes[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
        scene_end(scenes[i]);
    }
    end_pool(pool);
}

/* The same graph, first in one pool then in another. */
static void test_two_pools(void **state) {
    (void)state;
    weft_pool *one = make_pool(1), *two = make_pool(2);
    struct scene *scene = random_graph(500, 3);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(scene_run(scene, i % 2 ? one : two), WEFT_OK);
        check_all_ran(scene);
    }
    end_pool(one);
    assert_int_equal(scene_run(scene, two), WEFT_OK);
    end_pool(two);
    scene_end(scene);
}

/* ---- running at the same time ------------------------------------------------------------------------------------- */

struct busy {
    weft_graph *graph;
    gate gate;
};

static int busy_node(void *context, weft_worker *self) {
    struct busy *busy = context;
    REQUIRE(weft_graph_run(weft_worker_pool(self), busy->graph) == WEFT_EBUSY);
    REQUIRE(weft_graph_build(busy->graph, NULL) == WEFT_EBUSY);
    REQUIRE(weft_graph_add(busy->graph, NULL, empty_task, NULL) == WEFT_EBUSY);
    weft_graph *same = busy->graph;
    REQUIRE(weft_graph_destroy(&same) == WEFT_EBUSY && same == busy->graph);
    sem_post(&busy->gate.entered);
    await(&busy->gate.opened);
    return 0;
}

struct runner {
    weft_pool *pool;
    weft_graph *graph;
    int result;
};
static void *run_once(void *argument) {
    struct runner *runner = argument;
    runner->result = weft_graph_run(runner->pool, runner->graph);
    return NULL;
}

static void test_busy(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct busy busy;
    weft_node node, other;
    gate_init(&busy.gate);
    assert_int_equal(weft_graph_create(&busy.graph), WEFT_OK);
    assert_int_equal(weft_graph_add(busy.graph, &node, busy_node, &busy), WEFT_OK);
    assert_int_equal(weft_graph_add(busy.graph, &other, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_build(busy.graph, NULL), WEFT_OK);
    struct runner runner = {pool, busy.graph, 1};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run_once, &runner) == 0);
    await(&busy.gate.entered);
    assert_int_equal(weft_graph_run(pool, busy.graph), WEFT_EBUSY);
    assert_int_equal(weft_graph_edge(busy.graph, node, other), WEFT_EBUSY);
    gate_open(&busy.gate);
    REQUIRE(pthread_join(thread, NULL) == 0);
    assert_int_equal(runner.result, WEFT_OK);
    assert_int_equal(weft_graph_edge(busy.graph, node, other), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&busy.graph), WEFT_OK);
    end_pool(pool);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

/* Which nodes run, and which error is reported, follows from the graph alone. */
static void check_failures(struct scene *scene, weft_pool *pool) {
    bool *reached = calloc((size_t)scene->count + 1, sizeof *reached);
    int expected = 0;
    REQUIRE(reached != NULL);
    for (uint32_t i = 0; i < scene->count; i++) reached[i] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < scene->count; i++)
            for (uint32_t k = 0; k < scene->items[i].before_count && reached[i]; k++) {
                uint32_t before = scene->items[i].before[k];
                if (reached[before] && scene->items[before].result == 0) continue;
                reached[i] = false;
                changed = true;
            }
    }
    for (uint32_t i = 0; i < scene->count && expected == 0; i++)
        if (reached[i]) expected = scene->items[i].result;
    assert_int_equal(scene_run(scene, pool), expected);
    for (uint32_t i = 0; i < scene->count; i++) assert_int_equal(scene->items[i].stamp == scene->run, reached[i]);
    free(reached);
}

static void test_failures(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct scene *scene = random_graph(300, seed);
        for (uint32_t round = 0; round < 6; round++) {
            for (uint32_t i = 0; i < scene->count; i++) {
                bool fails = (round & 1) == 0 && (i * 2654435761u + seed + round) % 40 == 0;
                scene->items[i].result = fails ? (int)i - 100 : 0;
            }
            check_failures(scene, pool);
        }
        scene_end(scene);
    }
    end_pool(pool);
}

/* ---- cancelling --------------------------------------------------------------------------------------------------- */

struct cancelling {
    weft_graph *graph;
    atomic_uint runs;
    bool fails;
};
static int cancelling_node(void *context, weft_worker *self) {
    struct cancelling *c = context;
    REQUIRE(!weft_worker_cancelled(self));
    REQUIRE(weft_graph_cancel(weft_worker_pool(self), c->graph) == WEFT_OK);
    REQUIRE(weft_worker_cancelled(self));
    return c->fails ? 7 : 0;
}
static int counting_node(void *context, weft_worker *self) {
    struct cancelling *c = context;
    (void)self;
    atomic_fetch_add(&c->runs, 1);
    return 0;
}

static void test_cancel_inside(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct cancelling c = {0};
    weft_node cancels, node;
    assert_int_equal(weft_graph_create(&c.graph), WEFT_OK);
    assert_int_equal(weft_graph_add(c.graph, &cancels, cancelling_node, &c), WEFT_OK);
    for (int i = 0; i < 100; i++) {
        weft_node before = i == 0 ? cancels : node;
        assert_int_equal(weft_graph_add(c.graph, &node, counting_node, &c), WEFT_OK);
        assert_int_equal(weft_graph_edge(c.graph, cancels, node), WEFT_OK);
        if (i % 3 == 0 && i > 0) assert_int_equal(weft_graph_edge(c.graph, before, node), WEFT_OK);
    }
    assert_int_equal(weft_graph_build(c.graph, NULL), WEFT_OK);
    for (int i = 0; i < 50; i++) {
        c.fails = i % 2 == 1;
        assert_int_equal(weft_graph_run(pool, c.graph), c.fails ? 7 : WEFT_ECANCELED);
        assert_int_equal(atomic_load(&c.runs), 0);
        assert_int_equal(weft_graph_cancel(pool, c.graph), WEFT_OK); /* nothing runs: nothing happens */
    }
    assert_int_equal(weft_graph_destroy(&c.graph), WEFT_OK);
    end_pool(pool);
}

/* A stranger cancels; whatever ran, the next run is whole. */
static void *cancel_often(void *argument) {
    struct scene *scene = argument;
    for (int i = 0; i < 2000; i++) REQUIRE(weft_graph_cancel(scene->pool, scene->graph) == WEFT_OK);
    return NULL;
}
static void test_cancel_outside(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct scene *scene = wavefront(20);
    scene->pool = pool;
    pthread_t thread;
    for (int round = 0; round < 5; round++) {
        REQUIRE(pthread_create(&thread, NULL, cancel_often, scene) == 0);
        for (int i = 0; i < 50; i++) {
            int result = scene_run(scene, pool);
            assert_true(result == WEFT_OK || result == WEFT_ECANCELED);
            if (result == WEFT_OK) check_all_ran(scene);
        }
        REQUIRE(pthread_join(thread, NULL) == 0);
        assert_int_equal(scene_run(scene, pool), WEFT_OK);
        check_all_ran(scene);
    }
    scene_end(scene);
    end_pool(pool);
}

/* ---- a pool that ends --------------------------------------------------------------------------------------------- */

static void refuse_payload(void *payload, size_t size, void *context) {
    (void)payload;
    (void)size;
    (void)context;
    REQUIRE(false && "a payload of weft's own reached clean");
}

/* Abort and destroy come while another thread runs a graph: its run ends, and no payload of weft's is seen. */
static void test_pool_ends(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        weft_pool *pool = make_pool(2);
        struct busy busy;
        weft_node node, next;
        gate_init(&busy.gate);
        atomic_uint runs = 0;
        atomic_uint *counter = &runs;
        assert_int_equal(weft_graph_create(&busy.graph), WEFT_OK);
        assert_int_equal(weft_graph_add(busy.graph, &node, busy_node, &busy), WEFT_OK);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(weft_graph_add(busy.graph, &next, count_task, &counter), WEFT_OK);
            assert_int_equal(weft_graph_edge(busy.graph, node, next), WEFT_OK);
        }
        assert_int_equal(weft_graph_build(busy.graph, NULL), WEFT_OK);
        struct runner runner = {pool, busy.graph, 1};
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, run_once, &runner) == 0);
        await(&busy.gate.entered);
        gate_open(&busy.gate);
        bool aborts = round % 2 == 0;
        weft_pool *ended = pool;
        if (aborts) assert_int_equal(weft_pool_abort(&ended, refuse_payload, NULL), WEFT_OK);
        if (!aborts) assert_int_equal(weft_pool_destroy(&ended), WEFT_OK);
        REQUIRE(pthread_join(thread, NULL) == 0);
        assert_true(runner.result == WEFT_OK || (aborts && runner.result == WEFT_ECANCELED));
        assert_true(atomic_load(&runs) <= 50 && (runner.result != WEFT_OK || atomic_load(&runs) == 50));
        assert_int_equal(weft_graph_destroy(&busy.graph), WEFT_OK);
    }
}

static int in_fork(void *argument) {
    struct runner *runner = argument;
    int code = 0;
    if (weft_graph_run(runner->pool, runner->graph) != WEFT_EFORK) code |= 1;
    if (weft_graph_cancel(runner->pool, runner->graph) != WEFT_EFORK) code |= 2;
    if (weft_graph_build(runner->graph, NULL) != WEFT_OK) code |= 4;
    weft_pool *own = NULL;
    if (weft_pool_create(&own, NULL) != WEFT_OK) code |= 8;
    if (weft_graph_run(own, runner->graph) != WEFT_OK) code |= 16;
    if (weft_graph_destroy(&runner->graph) != WEFT_OK) code |= 32;
    if (weft_pool_destroy(&own) != WEFT_OK) code |= 64;
    return code;
}

static int fork_node(void *context, weft_worker *self) {
    struct runner *runner = context;
    (void)self;
    if (runner->result != 0) return 0; /* in the child */
    runner->result = 1;
    runner->result = 1000 + in_child(in_fork, runner);
    return 0;
}

/* A child of a process in the middle of a run cannot use the pool, but can build the graph again and run it in its own. */
static void test_fork(void **state) {
    (void)state;
#if defined(SANITIZED_THREAD)
    if (SANITIZED) SKIP("ThreadSanitizer does not follow a fork with threads");
#endif
    if (is_emulated()) SKIP("the emulator does not fork with threads");
    struct runner runner = {make_pool(2), NULL, 0};
    weft_node node, next;
    assert_int_equal(weft_graph_create(&runner.graph), WEFT_OK);
    assert_int_equal(weft_graph_add(runner.graph, &node, fork_node, &runner), WEFT_OK);
    assert_int_equal(weft_graph_add(runner.graph, &next, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_edge(runner.graph, node, next), WEFT_OK);
    assert_int_equal(weft_graph_build(runner.graph, NULL), WEFT_OK);
    assert_int_equal(weft_graph_run(runner.pool, runner.graph), WEFT_OK);
    assert_int_equal(runner.result, 1000);
    assert_int_equal(weft_graph_destroy(&runner.graph), WEFT_OK);
    end_pool(runner.pool);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------- */

static void test_null(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_graph *graph = NULL, *other;
    weft_node node, foreign;
    assert_int_equal(weft_graph_create(NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_destroy(NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_destroy(&graph), WEFT_EINVAL);
    assert_int_equal(weft_graph_create(&graph), WEFT_OK);
    assert_int_equal(weft_graph_create(&other), WEFT_OK);
    assert_int_equal(weft_graph_add(NULL, &node, empty_task, NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_add(graph, &node, NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_add(graph, &node, empty_task, NULL), WEFT_OK);
    assert_int_equal(weft_graph_add(other, &foreign, empty_task, NULL), WEFT_OK);
    assert_true(node != foreign && node != 0);
    assert_int_equal(weft_graph_edge(NULL, node, node), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, node, foreign), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, foreign, node), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, 0, node), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, node, node + 1), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, node, UINT64_MAX), WEFT_EINVAL);
    assert_int_equal(weft_graph_edge(graph, node, node), WEFT_ECYCLE);
    assert_int_equal(weft_graph_build(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_run(pool, graph), WEFT_EINVAL); /* not built */
    assert_int_equal(weft_graph_build(graph, &foreign), WEFT_OK);
    assert_int_equal(foreign, 0);
    assert_int_equal(weft_graph_run(NULL, graph), WEFT_EINVAL);
    assert_int_equal(weft_graph_run(pool, NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_cancel(NULL, graph), WEFT_EINVAL);
    assert_int_equal(weft_graph_cancel(pool, NULL), WEFT_EINVAL);
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&other), WEFT_OK);
    end_pool(pool);
}

/* Again, should it be out of memory, and with memory if it stays away. */
#define DESPITE_SHORTAGE(and_after, call)                                                                                   \
    for (int error; (error = (call)) != WEFT_OK;) {                                                                         \
        REQUIRE(error == WEFT_ENOMEM);                                                                                      \
        if (and_after) shortage_end();                                                                                      \
    }

/* A graph that could not be built does not run. */
static int build_or_refuse(weft_pool *pool, weft_graph *graph) {
    int error = weft_graph_build(graph, NULL);
    if (error != WEFT_OK) REQUIRE(weft_graph_run(pool, graph) == WEFT_EINVAL);
    return error;
}

/* One node before 299, made and run while memory fails. Whether it did. */
static bool run_short(weft_pool *pool, unsigned at, bool and_after) {
    struct scene *scene = calloc(1, sizeof *scene);
    REQUIRE(scene != NULL);
    shortage_begin(at, and_after);
    if (weft_graph_create(&scene->graph) != WEFT_OK) {
        REQUIRE(scene->graph == NULL);
        shortage_end();
        REQUIRE(weft_graph_create(&scene->graph) == WEFT_OK);
    }
    scene->count = 300;
    for (uint32_t i = 0; i < scene->count; i++) {
        scene->items[i] = (struct item){.scene = scene, .index = i};
        DESPITE_SHORTAGE(and_after, weft_graph_add(scene->graph, &scene->nodes[i], item_fn, &scene->items[i]));
        if (i > 0) DESPITE_SHORTAGE(and_after, weft_graph_edge(scene->graph, scene->nodes[0], scene->nodes[i]));
    }
    DESPITE_SHORTAGE(and_after, build_or_refuse(pool, scene->graph));
    for (int run = 0; run < 3; run++) {
        int error = scene_run(scene, pool);
        REQUIRE(error == WEFT_OK || error == WEFT_ENOMEM);
        if (error == WEFT_OK) check_all_ran(scene);
    }
    bool struck = shortage_end();
    REQUIRE(scene_run(scene, pool) == WEFT_OK);
    check_all_ran(scene);
    scene_end(scene);
    return struck;
}

/* Memory fails at the Nth call, and from the Nth on. A call either works or says so and can be made again; a run works, for
 * it finds another way, also where the queue is full. */
static void test_shortage(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        weft_config config = config_of(1);
        config.queue_max = (uint64_t)kind / 2;
        unsigned at = 0;
        bool struck = true;
        while (struck) {
            weft_pool *pool = make_pool_with(&config);
            struck = run_short(pool, ++at, kind % 2 != 0);
            end_pool(pool);
        }
        assert_true(at > 15); /* the wrapper was in the way */
    }
}

/* No allocation in a warm run, and few tasks: a chain is one. */
static void test_no_allocation_per_run(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct scene *scene = random_graph(2000, 5);
    for (int i = 0; i < 10; i++) assert_int_equal(scene_run(scene, pool), WEFT_OK);
    run_fan(pool, 1); /* each thread has taken part in a run */
    shortage_begin(0, false);
    for (int i = 0; i < 100; i++) assert_int_equal(scene_run(scene, pool), WEFT_OK);
    assert_int_equal(atomic_load(&shortage.calls), 0);
    scene_end(scene);
    struct scene *chain = scene_make(1000);
    for (uint32_t i = 1; i < 1000; i++) scene_edge(chain, i - 1, i);
    scene_build(chain);
    uint64_t before = stats_of(pool).task_run_count;
    for (int i = 0; i < 10; i++) assert_int_equal(scene_run(chain, pool), WEFT_OK);
    assert_int_equal(stats_of(pool).task_run_count - before, 10);
    scene_end(chain);
    end_pool(pool);
}

/* A circle behind a tail, before another, of every length: the first node of the circle is named. */
static void test_cycles(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    for (uint32_t length = 2; length < 40; length++) {
        struct scene *scene = scene_make(100);
        uint32_t first = length % 7 + 20;
        for (uint32_t i = 0; i < 5; i++) scene_edge(scene, i, i + 1);
        scene_edge(scene, 5, first);
        for (uint32_t i = 0; i < length; i++) scene_edge(scene, first + i, first + (i + 1) % length);
        scene_edge(scene, first + length - 1, 10);
        scene_edge(scene, 10, 11);
        weft_node found = 0;
        assert_int_equal(weft_graph_build(scene->graph, &found), WEFT_ECYCLE);
        assert_true(found == scene->nodes[first]);
        assert_int_equal(weft_graph_build(scene->graph, NULL), WEFT_ECYCLE);
        assert_int_equal(weft_graph_run(pool, scene->graph), WEFT_EINVAL);
        scene_end(scene);
    }
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rebuilt),
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_fan),
        cmocka_unit_test(test_duplicate_edges),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_different_at_once),
        cmocka_unit_test(test_two_pools),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_cancel_inside),
        cmocka_unit_test(test_cancel_outside),
        cmocka_unit_test(test_pool_ends),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_shortage),
        cmocka_unit_test(test_no_allocation_per_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
