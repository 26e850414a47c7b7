/* No pool: plain calls, the baseline. */
#include "../patterns.h"

static void *create(const struct entrant_config *config) {
    static int none;
    return config->workers == 1 ? &none : NULL;
}

static void destroy(void *pool) { (void)pool; }

static uint64_t fib_count(unsigned n) { return n < 2 ? n : fib_count(n - 1) + fib_count(n - 2); }

static uint64_t fib(void *pool, unsigned n) {
    (void)pool;
    return fib_count(n);
}

static uint64_t queens_count(struct queens_row row) {
    uint64_t all = 0;
    if (queens_done(&row)) return 1;
    for (uint32_t free = queens_free(&row); free != 0; free &= free - 1) {
        all += queens_count(queens_place(&row, free & (0 - free)));
    }
    return all;
}

static uint64_t nqueens(void *pool, unsigned n) {
    (void)pool;
    return queens_count(queens_first(n));
}

static uint64_t uts_count(const struct uts_tree *tree, struct uts_node node) {
    uint64_t all = 1;
    uint32_t children = uts_children(tree, &node);
    for (uint32_t i = 0; i < children; i++) all += uts_count(tree, uts_child(&node, i));
    return all;
}

static uint64_t uts(void *pool, const struct uts_tree *tree) {
    (void)pool;
    return uts_count(tree, uts_root(tree));
}

static int loop(void *pool, const struct pattern_loop *loop) {
    (void)pool;
    return loop->body(0, loop->n, loop->context, NULL);
}

static void *graph_make(void *pool, const struct pattern_graph *graph) {
    (void)pool;
    return (void *)(uintptr_t)graph;
}

static int graph_run(void *pool, void *made) {
    const struct pattern_graph *graph = (const struct pattern_graph *)made;
    (void)pool;
    for (uint32_t i = 0; i < graph->nodes; i++) graph->body(graph->context, i);
    return 0;
}

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .flags = ENTRANT_CALLER_RUNS,
    .name = "serial",
    .text = "no pool: plain calls",
    .workers_min = 1,
    .workers_max = 1,
    .create = create,
    .destroy = destroy,
    .fib = fib,
    .nqueens = nqueens,
    .uts = uts,
    .loop = loop,
    .graph_make = graph_make,
    .graph_run = graph_run,
};
