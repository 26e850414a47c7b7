/* weft: fork and join, weft_for, a graph; W - 1 workers and the caller. With one worker, the caller waits while that worker
 * runs the round. */
#include "../entrants/weft_pool.h"
#include "../patterns.h"

struct call {
    void (*body)(void *arg);
    void *arg;
};

static void *create(const struct entrant_config *config) {
    if (config->workers == 1) return weft_entry_create(config, 1, WEFT_POOL_NO_HELP);
    return weft_entry_create(config, config->workers - 1, 0);
}

static weft_pool *pool_of(void *pool) { return ((struct weft_entry *)pool)->pool; }

static int call_run(void *payload, weft_worker *self) {
    struct call *call = (struct call *)payload;
    (void)self;
    call->body(call->arg);
    return 0;
}

static void enter(void *pool, void (*body)(void *arg), void *arg) {
    struct call call = {body, arg};
    weft_config settings;
    weft_config_init(&settings);
    if (weft_pool_config(pool_of(pool), &settings) == WEFT_OK && (settings.flags & WEFT_POOL_NO_HELP) == 0) {
        body(arg);
        return;
    }
    weft_entry_submit(pool, call_run, &call, sizeof call);
    weft_entry_wait(pool);
}

static uint64_t fib_count(weft_fork_slot *here, unsigned n);
WEFT_FORK(fib_count, uint64_t, unsigned)

static uint64_t fib_count(weft_fork_slot *here, unsigned n) {
    if (n < 2) return n;
    unsigned less = n - 1;
    weft_fork_slot *deeper = fib_count_fork(here, &less);
    uint64_t other = fib_count(deeper, n - 2);
    return fib_count_join(here, &less) + other;
}

static uint64_t fib(void *pool, unsigned n) {
    weft_fork_slot *here;
    if (weft_fork_enter(pool_of(pool), &here) != WEFT_OK) return 0;
    uint64_t result = fib_count(here, n);
    weft_fork_leave(here);
    return result;
}

typedef struct queens_row queens_row;

static uint64_t queens_count(weft_fork_slot *here, queens_row row);
WEFT_FORK(queens_count, uint64_t, queens_row)

static uint64_t queens_count(weft_fork_slot *here, queens_row row) {
    queens_row forked[32];
    weft_fork_slot *place[32];
    unsigned count = 0;
    if (queens_done(&row)) return 1;
    uint32_t free = queens_free(&row);
    if (free == 0) return 0;
    for (; (free & (free - 1)) != 0; free &= free - 1, count++) {
        forked[count] = queens_place(&row, free & (0 - free));
        place[count] = here;
        here = queens_count_fork(here, &forked[count]);
    }
    uint64_t all = queens_count(here, queens_place(&row, free));
    while (count-- > 0) all += queens_count_join(place[count], &forked[count]);
    return all;
}

static uint64_t nqueens(void *pool, unsigned n) {
    weft_fork_slot *here;
    if (weft_fork_enter(pool_of(pool), &here) != WEFT_OK) return 0;
    uint64_t result = queens_count(here, queens_first(n));
    weft_fork_leave(here);
    return result;
}

struct uts_parent {
    const struct uts_tree *tree;
    struct uts_node node;
};

/* The children first to end - 1. Both structures lie in frames of functions that wait for their readers. */
struct uts_part {
    const struct uts_parent *parent;
    uint32_t first, end;
};
typedef const struct uts_part *uts_part_pointer;

static uint64_t uts_range(weft_fork_slot *here, uts_part_pointer part);
WEFT_FORK(uts_range, uint64_t, uts_part_pointer)

static uint64_t uts_count(weft_fork_slot *here, const struct uts_tree *tree, struct uts_node node) {
    struct uts_parent parent = {tree, node};
    struct uts_part all = {&parent, 0, uts_children(tree, &node)};
    return all.end == 0 ? 1 : 1 + uts_range(here, &all);
}

/* Halves the range until one child is left: a root may have thousands. */
static uint64_t uts_range(weft_fork_slot *here, uts_part_pointer part) {
    uint32_t first = part->first, end = part->end;
    if (end - first == 1) return uts_count(here, part->parent->tree, uts_child(&part->parent->node, first));
    uint32_t middle = first + (end - first) / 2;
    struct uts_part low = {part->parent, first, middle}, high = {part->parent, middle, end};
    uts_part_pointer forked = &low;
    weft_fork_slot *deeper = uts_range_fork(here, &forked);
    uint64_t other = uts_range(deeper, &high);
    return uts_range_join(here, &forked) + other;
}

static uint64_t uts(void *pool, const struct uts_tree *tree) {
    weft_fork_slot *here;
    if (weft_fork_enter(pool_of(pool), &here) != WEFT_OK) return 0;
    uint64_t result = uts_count(here, tree, uts_root(tree));
    weft_fork_leave(here);
    return result;
}

static int loop(void *pool, const struct pattern_loop *loop) {
    weft_range range = {0, loop->n, 0};
    return weft_for(pool_of(pool), range, loop->body, loop->context);
}

struct graph_node {
    const struct pattern_graph *graph;
    uint32_t number;
};

static int node_run(void *payload, weft_worker *self) {
    const struct graph_node *node = (const struct graph_node *)payload;
    (void)self;
    node->graph->body(node->graph->context, node->number);
    return 0;
}

static int edges_add(weft_graph *made, const struct pattern_graph *graph, const weft_node *nodes) {
    int error = WEFT_OK;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        for (uint32_t k = graph->before_start[i]; k < graph->before_start[i + 1] && error == WEFT_OK; k++) {
            error = weft_graph_edge(made, nodes[graph->before[k]], nodes[i]);
        }
    }
    return error;
}

/* The graph is kept until the process ends, as is the pool. */
static void *graph_make(void *pool, const struct pattern_graph *graph) {
    weft_graph *made = NULL;
    struct graph_node *contexts = (struct graph_node *)calloc(graph->nodes, sizeof *contexts);
    weft_node *nodes = (weft_node *)calloc(graph->nodes, sizeof *nodes);
    int error = contexts == NULL || nodes == NULL ? WEFT_ENOMEM : weft_graph_create(&made);
    (void)pool;
    for (uint32_t i = 0; i < graph->nodes && error == WEFT_OK; i++) {
        contexts[i].graph = graph;
        contexts[i].number = i;
        error = weft_graph_add(made, &nodes[i], node_run, &contexts[i]);
    }
    if (error == WEFT_OK) error = edges_add(made, graph, nodes);
    if (error == WEFT_OK) error = weft_graph_build(made, NULL);
    free(nodes);
    if (error == WEFT_OK) return made;
    free(contexts);
    weft_graph_destroy(&made);
    return NULL;
}

static int graph_run(void *pool, void *made) { return weft_graph_run(pool_of(pool), (weft_graph *)made); }

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .flags = ENTRANT_OURS | ENTRANT_CALLER_RUNS,
    .name = "weft",
    .text = "weft: fork and join, weft_for, weft_graph; W - 1 workers and the caller",
    .workers_min = 1,
    .create = create,
    .destroy = weft_entry_destroy,
    .enter = enter,
    .fib = fib,
    .nqueens = nqueens,
    .uts = uts,
    .loop = loop,
    .graph_make = graph_make,
    .graph_run = graph_run,
};
