/* trace_scene.c: a pool that does a little of everything, recorded as the environment asks (WEFT_TRACE, WEFT_STATS).
 * Prints how many tasks it ran. What its files hold is checked by test_trace.py, what viewers make of them by
 * timeline-view. */
#define _GNU_SOURCE
#include <inttypes.h>

#include "pool_help.h"

static int encode_row(void *payload, weft_worker *self) {
    (void)self;
    uint64_t end = clock_ns() + *(uint64_t *)payload;
    while (clock_ns() < end) {}
    return 0;
}

static int encode_frame(void *payload, weft_worker *self) {
    (void)payload;
    weft_group rows = WEFT_GROUP_INIT;
    for (uint64_t ns = 2000; ns < 40000; ns += 4000)
        REQUIRE(weft_submit(weft_worker_pool(self), &rows, encode_row, &ns, sizeof ns) == WEFT_OK);
    return weft_group_wait(weft_worker_pool(self), &rows);
}

static int filter_lines(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    uint64_t ns = (end - begin) * 1000;
    return encode_row(&ns, self);
}

static int graph_step(void *context, weft_worker *self) {
    uint64_t ns = 3000;
    (void)context;
    return encode_row(&ns, self);
}

/* Ten rows of five, each after the one before. */
static void run_graph(weft_pool *pool) {
    weft_graph *graph = NULL;
    weft_node node, before = 0;
    REQUIRE(weft_graph_create(&graph) == WEFT_OK);
    for (int i = 0; i < 50; i++) {
        REQUIRE(weft_graph_add(graph, &node, graph_step, NULL) == WEFT_OK);
        if (i % 5 != 0) REQUIRE(weft_graph_edge(graph, before, node) == WEFT_OK);
        before = node;
    }
    REQUIRE(weft_graph_build(graph, NULL) == WEFT_OK && weft_graph_run(pool, graph) == WEFT_OK);
    REQUIRE(weft_graph_destroy(&graph) == WEFT_OK);
}

static int fib(weft_fork_slot *here, int n);
WEFT_FORK(fib, int, int)
static int fib(weft_fork_slot *here, int n) {
    if (n < 2) return n;
    int one = n - 1;
    weft_fork_slot *deeper = fib_fork(here, &one);
    int other = fib(deeper, n - 2);
    return fib_join(here, &one) + other;
}

int main(void) {
    weft_config config;
    weft_fork_slot *here;
    REQUIRE(weft_config_init(&config) == WEFT_OK && weft_config_from_env(&config) == WEFT_OK);
    config.workers = 3;
    config.name = "scene";
    weft_pool *pool = make_pool_with(&config);
    for (int frame = 0; frame < 20; frame++) {
        weft_group frames = WEFT_GROUP_INIT;
        for (int i = 0; i < 3; i++) REQUIRE(weft_submit(pool, &frames, encode_frame, NULL, 0) == WEFT_OK);
        REQUIRE(weft_for(pool, (weft_range){0, 100, 1}, filter_lines, NULL) == WEFT_OK);
        REQUIRE(weft_group_wait(pool, &frames) == WEFT_OK);
        nap();
    }
    run_graph(pool);
    REQUIRE(weft_fork_enter(pool, &here) == WEFT_OK);
    REQUIRE(fib(here, 22) == 17711);
    weft_fork_leave(here);
    printf("%" PRIu64 "\n", stats_of(pool).task_run_count);
    end_pool(pool);
    return 0;
}
