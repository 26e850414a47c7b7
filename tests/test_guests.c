/* test_guests.c: tasks that wait in other pools than their own, whose tasks do the same: more at once than there are threads. Each
 * case would hang if a thread that sleeps in another pool kept its place in its own, or left what it waits for to threads that all
 * sleep. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

enum { POOLS_MAX = 3, DEEP = 16, DEEP_LOOPS = 7 };
enum way { BY_WAIT, BY_WAIT_NOT_HELPING, BY_GRAPH, BY_LOOP, BY_REDUCTION, WAYS };

static struct {
    weft_pool *pools[POOLS_MAX];
    unsigned count;
    atomic_uint ran;
    enum way way;
    uint64_t queue_max; /* then two tasks at a time are submitted */
} chain;

/* One link: in that pool, with so many below it. */
struct link {
    unsigned at, left;
};

static void call_pool(struct link link);
static int link_task(void *payload, weft_worker *self) {
    const struct link link = *(struct link *)payload;
    REQUIRE(weft_worker_pool(self) == chain.pools[link.at % chain.count]);
    atomic_fetch_add(&chain.ran, 1);
    if (link.left > 0) call_pool((struct link){link.at + 1, link.left - 1});
    return 0;
}
static int link_node(void *context, weft_worker *self) { return link_task(context, self); }
static int link_body(size_t begin, size_t end, void *context, weft_worker *self) {
    for (size_t i = begin; i < end; i++) REQUIRE(link_task(context, self) == 0);
    return 0;
}
static int link_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    *(uint64_t *)value = end - begin;
    return link_body(begin, end, context, self);
}
static void add(void *left, const void *right, void *context) {
    (void)context;
    *(uint64_t *)left += *(const uint64_t *)right;
}

static void wait_for_link(weft_pool *pool, struct link link) {
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < (chain.queue_max == 0 ? 1 : 2); i++)
        REQUIRE(weft_submit(pool, &group, link_task, &link, sizeof link) == WEFT_OK);
    enum weft_help help = chain.way == BY_WAIT ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
    REQUIRE(weft_group_wait_until(pool, &group, help, 0) == WEFT_OK);
}
static void run_as_graph(weft_pool *pool, struct link link) {
    weft_graph *graph;
    weft_node node;
    REQUIRE(weft_graph_create(&graph) == WEFT_OK && weft_graph_add(graph, &node, link_node, &link) == WEFT_OK);
    REQUIRE(weft_graph_build(graph, NULL) == WEFT_OK && weft_graph_run(pool, graph) == WEFT_OK);
    REQUIRE(weft_graph_destroy(&graph) == WEFT_OK);
}
static void call_pool(struct link link) {
    const weft_reduction sum = {.size = sizeof(uint64_t), .leaf = link_leaf, .combine = add, .context = &link};
    const weft_range two = {0, 2, 1};
    weft_pool *pool = chain.pools[link.at % chain.count];
    uint64_t total = 0;
    switch (chain.way) {
    case BY_GRAPH: run_as_graph(pool, link); break;
    case BY_LOOP: REQUIRE(weft_for(pool, two, link_body, &link) == WEFT_OK); break;
    case BY_REDUCTION: REQUIRE(weft_reduce(pool, two, &sum, &total) == WEFT_OK && total == 2); break;
    default: wait_for_link(pool, link);
    }
}

/* So many chains at once, each of so many links; two links below each where loops call. */
static void run_chains(uint32_t flags, unsigned roots, unsigned depth) {
    weft_config config = config_of(2);
    config.flags = flags;
    config.spares = 1;
    config.queue_max = chain.queue_max;
    for (unsigned i = 0; i < chain.count; i++) chain.pools[i] = make_pool_with(&config);
    atomic_store(&chain.ran, 0);
    weft_group group = WEFT_GROUP_INIT;
    const struct link link = {0, depth - 1};
    for (unsigned i = 0; i < roots; i++)
        assert_int_equal(weft_submit(chain.pools[0], &group, link_task, &link, sizeof link), WEFT_OK);
    assert_int_equal(weft_group_wait(chain.pools[0], &group), WEFT_OK);
    bool forks = chain.way == BY_LOOP || chain.way == BY_REDUCTION || chain.queue_max > 0;
    assert_int_equal(atomic_load(&chain.ran), roots * (forks ? (1u << depth) - 1 : depth));
    for (unsigned i = 0; i < chain.count; i++) end_pool(chain.pools[i]);
}
static void run_all_depths(uint32_t flags, unsigned roots) {
    for (chain.count = 2; chain.count <= POOLS_MAX; chain.count++)
        for (unsigned way = 0; way < WAYS; way++) {
            chain.way = (enum way)way;
            bool forks = chain.way == BY_LOOP || chain.way == BY_REDUCTION;
            for (unsigned depth = 2; depth <= (forks ? DEEP_LOOPS : DEEP); depth++) run_chains(flags, roots, depth);
        }
}

static void test_no_help(void **state) {
    (void)state;
    run_all_depths(WEFT_POOL_NO_HELP, 1);
}
static void test_ordered(void **state) {
    (void)state;
    run_all_depths(WEFT_POOL_ORDERED, 1);
}
static void test_ordered_no_help(void **state) {
    (void)state;
    run_all_depths(WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP, 1);
}
static void test_helping(void **state) {
    (void)state;
    run_all_depths(0, 1);
}

/* More chains than a pool has threads. In ordered pools these may be refused (WEFT_EAGAIN), again and again. */
static void test_many_chains(void **state) {
    (void)state;
    for (unsigned roots = 2; roots <= 8; roots *= 2) {
        run_all_depths(WEFT_POOL_NO_HELP, roots);
        run_all_depths(0, roots);
    }
}

/* A task that finds the queue of another pool full waits there for room, with WEFT_FULL_BLOCK. If all threads of that pool sleep in
 * tasks, it runs the new task itself. */
static void test_bounded(void **state) {
    (void)state;
    const uint32_t flags[] = {0, WEFT_POOL_NO_HELP};
    chain.queue_max = 1;
    for (unsigned i = 0; i < 2; i++)
        for (chain.count = 2; chain.count <= POOLS_MAX; chain.count++)
            for (chain.way = BY_WAIT; chain.way <= BY_WAIT_NOT_HELPING; chain.way++)
                for (unsigned roots = 1; roots <= 8; roots *= 2)
                    for (unsigned depth = 2; depth <= DEEP_LOOPS; depth++) run_chains(flags[i], roots, depth);
    chain.queue_max = 0;
}

/* Two background tasks have taken both workers and sleep in waits; the spare runs what they wait for. So a thread is left, and a visit
 * runs nothing in its place. */
static struct {
    weft_pool *pool, *other;
    weft_group behind, awaited, visit, visited;
    atomic_bool is_begun, has_run;
    atomic_bool is_own; /* one of the pool's own threads has run it */
} scene;

static int awaited_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    atomic_store(&scene.is_begun, true);
    while (load_rlx(&scene.other->blocked) == 0 && !atomic_load(&scene.has_run)) nap(); /* until the visit sleeps */
    return 0;
}
static int behind_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    while (!atomic_load(&scene.is_begun)) nap();
    REQUIRE(weft_group_wait(scene.pool, &scene.awaited) == WEFT_OK);
    return 0;
}
static int visited_task(void *payload, weft_worker *self) {
    (void)payload;
    atomic_store(&scene.is_own, weft_worker_here() == self);
    atomic_store(&scene.has_run, true);
    return 0;
}
static int visit_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    while (load_rlx(&scene.pool->held_up) < 2) nap();
    REQUIRE(weft_submit(scene.pool, &scene.visited, visited_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(scene.pool, &scene.visited) == WEFT_OK);
    return 0;
}
static void test_spare_is_left(void **state) {
    (void)state;
    weft_config config = config_of(2);
    config.flags = WEFT_POOL_NO_HELP;
    config.spares = 1;
    config.background_max = 2;
    memset(&scene, 0, sizeof scene);
    scene.behind.flags = WEFT_GROUP_BACKGROUND;
    scene.pool = make_pool_with(&config);
    scene.other = make_pool(1);
    for (int i = 0; i < 2; i++) assert_int_equal(weft_submit(scene.pool, &scene.behind, behind_task, NULL, 0), WEFT_OK);
    while (load_rlx(&scene.pool->background_runs) < 2) nap();
    assert_int_equal(weft_submit(scene.pool, &scene.awaited, awaited_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit(scene.other, &scene.visit, visit_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait_until(scene.other, &scene.visit, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(scene.pool, &scene.behind), WEFT_OK);
    assert_true(atomic_load(&scene.is_own));
    end_pool(scene.other);
    end_pool(scene.pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_help), cmocka_unit_test(test_ordered),     cmocka_unit_test(test_ordered_no_help),
        cmocka_unit_test(test_helping), cmocka_unit_test(test_many_chains), cmocka_unit_test(test_spare_is_left),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
