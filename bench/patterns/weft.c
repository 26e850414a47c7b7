/* weft: weft_for and a graph; W - 1 workers and the caller. With one worker the caller waits while that one runs
 * the round. */
#include "../entrants/weft_pool.h"
#include "../patterns.h"

struct call {
    void (*body)(void *arg);
    void *arg;
};

static void *create(const struct entrant_config *config) {
    if (config->workers == 1) return weft_entry_create(config, 1, WEFT_NO_HELP);
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
    if (weft_pool_config(pool_of(pool), &settings) == WEFT_OK && (settings.flags & WEFT_NO_HELP) == 0) {
        body(arg);
        return;
    }
    weft_entry_submit(pool, call_run, &call, sizeof call);
    weft_entry_wait(pool);
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

/* Kept until the process ends, as is the pool. */
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
    .text = "weft: weft_for, weft_graph; W - 1 workers and the caller",
    .workers_min = 1,
    .create = create,
    .destroy = weft_entry_destroy,
    .enter = enter,
    .loop = loop,
    .graph_make = graph_make,
    .graph_run = graph_run,
};
