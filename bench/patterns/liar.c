/* Patterns with wrong results: the race must detect each. */
#include "../patterns.h"

static int calls;

static void *create(const struct entrant_config *config) { return config->workers != 0 ? &calls : NULL; }

static void destroy(void *pool) { (void)pool; }

static uint64_t fib(void *pool, unsigned n) {
    (void)pool;
    return n;
}

static uint64_t nqueens(void *pool, unsigned n) {
    (void)pool;
    return n;
}

static uint64_t uts(void *pool, const struct uts_tree *tree) {
    (void)pool;
    return tree->levels;
}

/* Once in seven calls the last index is left out; once in seven, the index before it runs twice instead. */
static int loop(void *pool, const struct pattern_loop *loop) {
    (void)pool;
    loop->body(0, loop->n - 1, loop->context, NULL);
    if (++calls % 7 == 0) return 0;
    return calls % 7 == 1 ? loop->body(loop->n - 2, loop->n - 1, loop->context, NULL)
                          : loop->body(loop->n - 1, loop->n, loop->context, NULL);
}

static void *graph_make(void *pool, const struct pattern_graph *graph) {
    (void)pool;
    return (void *)(uintptr_t)graph;
}

/* Runs the nodes in the wrong order. */
static int graph_run(void *pool, void *made) {
    const struct pattern_graph *graph = (const struct pattern_graph *)made;
    (void)pool;
    for (uint32_t i = graph->nodes; i > 0; i--) graph->body(graph->context, i - 1);
    return 0;
}

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .name = "liar",
    .text = "does none of it right",
    .workers_min = 1,
    .create = create,
    .destroy = destroy,
    .fib = fib,
    .nqueens = nqueens,
    .uts = uts,
    .loop = loop,
    .graph_make = graph_make,
    .graph_run = graph_run,
};
