/* patterns.h: the interface between a pool and the race for recursion, loops and graphs.
 *
 * A shared object exports one `weft_patterns`, with or without a `weft_entrant` (entrant.h). A function for which the pool
 * has no idiom stays NULL, which excludes the pool from that workload only. Each function is written as the pool's users
 * would write it. All compute the same: the rules of the recursions are below, and loops and graphs call back into the race.
 * Each entrant runs in a process of its own, and all calls come from one thread. */
#ifndef WEFT_BENCH_PATTERNS_H
#define WEFT_BENCH_PATTERNS_H

#include "entrant.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PATTERNS_VERSION 1u

/* Runs the indices begin to end - 1 of a loop. It has the type of a weft loop's body; others pass NULL as `self`. Returns
 * 0. */
typedef int (*pattern_body)(size_t begin, size_t end, void *context, struct weft_worker *self);

struct pattern_loop {
    size_t n;     /* the loop runs from 0 */
    size_t grain; /* a range shorter than this is not worth a task; 1: each index is */
    pattern_body body;
    void *context;
};

/* Nodes in an order that their edges allow: all nodes that node i waits for have smaller numbers. */
struct pattern_graph {
    uint32_t nodes;
    const uint32_t *before_start; /* node i waits for before[before_start[i]] .. before[before_start[i + 1] - 1] */
    const uint32_t *before;
    const uint32_t *after_start; /* and these wait for node i, likewise */
    const uint32_t *after;
    void (*body)(void *context, uint32_t node);
    void *context;
};

struct uts_tree {
    uint64_t seed;
    uint32_t levels;        /* geometric: nodes above this level have four children on average; 0: binomial */
    uint32_t root_children; /* binomial: the root's children */
};

struct patterns {
    uint32_t version; /* PATTERNS_VERSION */
    uint32_t flags;   /* enum entrant_flag */
    const char *name;
    const char *text;                                     /* one line for --list */
    unsigned workers_min;                                 /* worker counts it supports */
    unsigned workers_max;                                 /* 0: no limit */
    void *(*create)(const struct entrant_config *config); /* NULL: failed */
    void (*destroy)(void *pool);                          /* may never be called: the process then just ends */
    /* Calls body(arg) in a place where the functions below may be called, and returns after it; NULL: any place will do. */
    void (*enter)(void *pool, void (*body)(void *arg), void *arg);
    /* The n-th Fibonacci number, by two calls for each n > 1, one of them forked. */
    uint64_t (*fib)(void *pool, unsigned n);
    /* The number of ways to put n queens on a board of n x n. Each placement is forked, except for a row's last. */
    uint64_t (*nqueens)(void *pool, unsigned n);
    /* The nodes of the tree, counted one by one. Each child is forked, except for a node's last. */
    uint64_t (*uts)(void *pool, const struct uts_tree *tree);
    /* Runs the loop to its end. 0 or an error. */
    int (*loop)(void *pool, const struct pattern_loop *loop);
    /* Prepares whatever can be reused for many runs; `graph` stays in place. NULL: failed. */
    void *(*graph_make)(void *pool, const struct pattern_graph *graph);
    /* Calls the body once for each node, after those that it waits for. 0 or an error. */
    int (*graph_run)(void *pool, void *made);
};

extern ENTRANT_EXPORT const struct patterns weft_patterns;

/* ---- queens: a row's attacked columns, straight and along both diagonals, as bits ---- */

struct queens_row {
    uint32_t all; /* one bit for each column */
    uint32_t down, left, right;
};

static inline struct queens_row queens_first(unsigned n) {
    struct queens_row row = {(UINT32_C(1) << n) - 1, 0, 0, 0};
    return row;
}

static inline int queens_done(const struct queens_row *row) { return row->down == row->all; }

/* The free columns of the row; take them from the lowest bit up. */
static inline uint32_t queens_free(const struct queens_row *row) { return row->all & ~(row->down | row->left | row->right); }

static inline struct queens_row queens_place(const struct queens_row *row, uint32_t column) {
    struct queens_row next = {row->all, row->down | column, (row->left | column) << 1, (row->right | column) >> 1};
    return next;
}

/* ---- unbalanced tree search, after UTS (doi:10.1007/978-3-540-72521-3_18). A child's state comes from a mixer, not from
 * SHA-1,
 *      so a node is a few nanoseconds of work, not the original's hundreds ---- */

struct uts_node {
    uint64_t state;
    uint32_t level;
};

static inline uint64_t uts_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline struct uts_node uts_root(const struct uts_tree *tree) {
    struct uts_node root = {uts_mix(tree->seed), 0};
    return root;
}

static inline struct uts_node uts_child(const struct uts_node *node, uint32_t i) {
    struct uts_node child = {uts_mix(node->state + UINT64_C(0x9e3779b97f4a7c15) * (i + 1)), node->level + 1};
    return child;
}

#define UTS_GEOMETRIC_MAX 100u /* children of a node, at most */
#define UTS_BINOMIAL_CHILDREN 8u
#define UTS_BINOMIAL_CHANCE UINT32_C(536334041) /* 0.124875 of 2^32 */

/* The number of a node's children. Geometric: k or more with probability 0.8^k. */
static inline uint32_t uts_children(const struct uts_tree *tree, const struct uts_node *node) {
    uint32_t random = (uint32_t)(node->state >> 32), bound = UINT32_MAX, count = 0;
    if (tree->levels == 0) {
        if (node->level == 0) return tree->root_children;
        return random < UTS_BINOMIAL_CHANCE ? UTS_BINOMIAL_CHILDREN : 0;
    }
    if (node->level >= tree->levels) return 0;
    for (bound -= bound / 5; random < bound && count < UTS_GEOMETRIC_MAX; bound -= bound / 5) count++;
    return count;
}

#ifdef __cplusplus
}
#endif
#endif
