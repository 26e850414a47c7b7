/* OpenMP: tasks with taskwait, a loop with a static schedule, tasks with dependences; the same file is built for gcc's and
 * LLVM's runtime. */
#include "../patterns.h"

#include <stdlib.h>

struct team {
    int workers;
};

struct team_graph {
    const struct pattern_graph *graph;
    char *done; /* a byte for each node, which its dependences name */
    struct team_graph *next;
};

static struct team_graph *made_list;

static void *create(const struct entrant_config *config) {
    struct team *team = (struct team *)malloc(sizeof *team);
    if (team != NULL) team->workers = (int)config->workers;
    return team;
}

static void destroy(void *pool) {
    while (made_list != NULL) {
        struct team_graph *next = made_list->next;
        free(made_list->done);
        free(made_list);
        made_list = next;
    }
    free(pool);
}

static uint64_t fib_count(unsigned n) {
    uint64_t a, b;
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fib_count(n - 1);
    b = fib_count(n - 2);
#pragma omp taskwait
    return a + b;
}

static uint64_t fib(void *pool, unsigned n) {
    uint64_t result = 0;
#pragma omp parallel num_threads(((struct team *)pool)->workers)
#pragma omp single
    result = fib_count(n);
    return result;
}

static uint64_t queens_count(struct queens_row row) {
    uint64_t below[32], all = 0;
    unsigned count = 0;
    if (queens_done(&row)) return 1;
    for (uint32_t free = queens_free(&row); free != 0; free &= free - 1) {
        struct queens_row next = queens_place(&row, free & (0 - free));
        uint64_t *result = &below[count++];
        if ((free & (free - 1)) == 0) {
            *result = queens_count(next);
        } else {
#pragma omp task firstprivate(next, result)
            *result = queens_count(next);
        }
    }
#pragma omp taskwait
    for (unsigned i = 0; i < count; i++) all += below[i];
    return all;
}

static uint64_t nqueens(void *pool, unsigned n) {
    uint64_t result = 0;
#pragma omp parallel num_threads(((struct team *)pool)->workers)
#pragma omp single
    result = queens_count(queens_first(n));
    return result;
}

static uint64_t uts_count(const struct uts_tree *tree, struct uts_node node);

/* The children first to end - 1, halved until one is left: a root may have thousands. */
static uint64_t uts_range(const struct uts_tree *tree, struct uts_node node, uint32_t first, uint32_t end) {
    uint64_t low, high;
    uint32_t middle = first + (end - first) / 2;
    if (end - first == 1) return uts_count(tree, uts_child(&node, first));
#pragma omp task shared(low)
    low = uts_range(tree, node, first, middle);
    high = uts_range(tree, node, middle, end);
#pragma omp taskwait
    return low + high;
}

static uint64_t uts_count(const struct uts_tree *tree, struct uts_node node) {
    uint32_t children = uts_children(tree, &node);
    return children == 0 ? 1 : 1 + uts_range(tree, node, 0, children);
}

static uint64_t uts(void *pool, const struct uts_tree *tree) {
    uint64_t result = 0;
#pragma omp parallel num_threads(((struct team *)pool)->workers)
#pragma omp single
    result = uts_count(tree, uts_root(tree));
    return result;
}

/* A static schedule gives each thread one range. It is passed on whole, because the body takes ranges. */
static int loop(void *pool, const struct pattern_loop *loop) {
    int workers = ((struct team *)pool)->workers;
#pragma omp parallel for schedule(static, 1) num_threads(workers)
    for (int i = 0; i < workers; i++) {
        size_t first = loop->n * (size_t)i / (size_t)workers, end = loop->n * ((size_t)i + 1) / (size_t)workers;
        loop->body(first, end, loop->context, NULL);
    }
    return 0;
}

static void *graph_make(void *pool, const struct pattern_graph *graph) {
    struct team_graph *made = (struct team_graph *)calloc(1, sizeof *made);
    (void)pool;
    if (made == NULL) return NULL;
    made->graph = graph;
    made->done = (char *)calloc(graph->nodes, 1);
    made->next = made_list;
    made_list = made;
    return made->done == NULL ? NULL : made;
}

/* The runtime keeps no graph: each run makes the tasks again. */
static void tasks_make(struct team_graph *own) {
    const struct pattern_graph *graph = own->graph;
    for (uint32_t i = 0; i < graph->nodes; i++) {
#pragma omp task firstprivate(i) depend(iterator(uint32_t k = graph->before_start[i]                                        \
                                                 : graph->before_start[i + 1]),                                             \
                                        in                                                                                  \
                                        : own->done[graph->before[k]]) depend(out                                           \
                                                                              : own->done[i])
        graph->body(graph->context, i);
    }
}

static int graph_run(void *pool, void *made) {
    struct team_graph *own = (struct team_graph *)made;
#pragma omp parallel num_threads(((struct team *)pool)->workers)
#pragma omp single
    tasks_make(own);
    return 0;
}

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .flags = ENTRANT_CALLER_RUNS | ENTRANT_SPINS,
    .name = OPENMP_NAME,
    .text = OPENMP_TEXT,
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
