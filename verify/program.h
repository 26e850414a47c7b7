/* program.h: a random program over weft.h, as data: which pools, groups and graphs there are, and what each thread, task,
 * index of a loop, forked call and node does. A seed and limits determine it (program.c); play.c runs it, spec.c judges,
 * program_print.c writes it as C. */
#ifndef WEFT_VERIFY_PROGRAM_H
#define WEFT_VERIFY_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PROGRAM_BODIES = 64,
    PROGRAM_OPS = 8, /* of a body */
    PROGRAM_THREADS = 8,
    PROGRAM_POOLS = 3, /* one after another */
    PROGRAM_SHARED = 4,
    PROGRAM_GRAPHS = 2,
    PROGRAM_NODES = 48,
    PROGRAM_EDGES = 96,
    PROGRAM_PAYLOAD = 5000,
    NO_BODY = 255,
    NONE_FAILS = 0xffff
};

#define PROGRAM_OPS_LIST(X)                                                                                                 \
    X(SUBMIT, "submit")                                                                                                     \
    X(CHILD, "child")                                                                                                       \
    X(OBJECT, "object")                                                                                                     \
    X(RUN, "run")                                                                                                           \
    X(AFTER, "after")                                                                                                       \
    X(AFTER_OBJECT, "after object")                                                                                         \
    X(AWAIT, "await")                                                                                                       \
    X(WAIT, "wait")                                                                                                         \
    X(CANCEL, "cancel")                                                                                                     \
    X(BOOST, "boost")                                                                                                       \
    X(DEADLINE, "deadline")                                                                                                 \
    X(FOR, "for")                                                                                                           \
    X(TILES, "tiles")                                                                                                       \
    X(REDUCE, "reduce")                                                                                                     \
    X(SORT, "sort")                                                                                                         \
    X(FORK, "fork")                                                                                                         \
    X(GRAPH, "graph run")                                                                                                   \
    X(GRAPH_CANCEL, "graph cancel")                                                                                         \
    X(BLOCK, "block")                                                                                                       \
    X(HEAP, "heap")                                                                                                         \
    X(PRIVATE, "private heap")                                                                                              \
    X(NEST, "nested waits")                                                                                                 \
    X(LOOK, "look")                                                                                                         \
    X(MISUSE, "misuse")
enum op_kind {
#define PROGRAM_OP(name, text) OP_##name,
    PROGRAM_OPS_LIST(PROGRAM_OP)
#undef PROGRAM_OP
        OP_KINDS
};

/* How an operation names a group. */
enum group_name {
    GROUP_POOL,                                /* NULL: the pool's own */
    GROUP_SHARED,                              /* ... + PROGRAM_SHARED - 1: known to all */
    GROUP_OWN = GROUP_SHARED + PROGRAM_SHARED, /* that of the task that does it */
    GROUP_LOCAL,                               /* and the next: opened by whoever does it, who waits for it at its end */
    GROUP_NAMES = GROUP_LOCAL + 2
};

enum moment { MOMENT_NONE, MOMENT_PAST, MOMENT_SOON, MOMENT_FAR };

struct op {
    uint8_t kind;   /* enum op_kind */
    uint8_t group;  /* enum group_name */
    uint8_t after;  /* enum group_name; OP_AFTER, OP_AFTER_OBJECT, OP_AWAIT */
    uint8_t help;   /* enum weft_help */
    uint8_t when;   /* enum moment */
    uint8_t body;   /* what its tasks, indices, calls do, or NO_BODY */
    uint8_t graph;  /* which */
    uint8_t how;    /* a variant */
    uint16_t count; /* tasks, indices, calls, levels */
    uint16_t size;  /* of a payload or an item; 0: payload NULL */
    uint16_t grain; /* of a loop */
    uint16_t fails; /* the task, index or call that returns `code`; NONE_FAILS */
    uint8_t code;   /* 1 .. */
    bool has_block; /* the payload brings a block of the heap, which the task frees */
    bool is_absent; /* cut */
};

struct body {
    struct op ops[PROGRAM_OPS];
    uint8_t count;
    uint8_t depth; /* 0: a thread's */
    bool is_outside;
    uint16_t local_flags[2]; /* of GROUP_LOCAL's weft_groups */
};

enum program_end { END_WAITED, END_DESTROYED, END_ABORTED };

struct program_pool {
    uint32_t workers, spares, flags, full, background_max;
    uint64_t queue_max;
    int64_t spin_ns;
    uint8_t threads; /* from outside, beside the one that makes and ends the pool */
    uint8_t body[PROGRAM_THREADS];
    uint8_t end; /* enum program_end */
    uint16_t shared_flags[PROGRAM_SHARED];
    uint8_t stale_op; /* what is tried with groups of the pool before */
    bool is_real_time;
};

struct program_graph {
    uint8_t nodes, edges;
    struct {
        uint8_t before, after;
    } edge[PROGRAM_EDGES];
    uint8_t body[PROGRAM_NODES];
    uint8_t code[PROGRAM_NODES]; /* 0: does not fail */
};

struct program {
    uint64_t seed;
    uint8_t pools, bodies, graphs;
    struct program_pool pool[PROGRAM_POOLS];
    struct program_graph graph[PROGRAM_GRAPHS];
    struct body body[PROGRAM_BODIES];
};

/* What a world can bear. */
struct program_limits {
    uint32_t threads, workers, depth, ops, tasks; /* at most, tasks in one pool */
    uint32_t count;                               /* of one operation */
    uint32_t nested;                              /* levels of waits */
    uint32_t pools;
    uint32_t payload;    /* bytes at most */
    uint32_t inline_max; /* none above this, but those over WEFT_INLINE_MAX */
    uint32_t nodes;
    bool is_model;
    bool is_sound; /* nothing has a deadline: who sleeps must be woken */
    bool is_bare;  /* tasks that submit to two groups, and waits: nothing else */
};

void program_draw(struct program *program, uint64_t seed, const struct program_limits *limits);

/* Ways to make it smaller, 0 .. program_cuts - 1; false: that one changes nothing. */
uint32_t program_cuts(const struct program *program);
bool program_cut(struct program *program, uint32_t cut);

/* As C, over weft.h and pthreads. */
void program_print(const struct program *program, FILE *file);
const char *op_name(enum op_kind kind);

#endif
