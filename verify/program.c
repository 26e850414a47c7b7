/* program.c: draws a program from a seed, and makes it smaller. See program.h.
 *
 * Each program leaves out some kinds of operations and prefers others: what only two kinds do together then happens more
 * often than if every program had a little of everything. */
#include "program.h"
#include "weft.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t weight, inside_only;
} kinds[OP_KINDS] = {
    [OP_SUBMIT] = {"", 24, 0}, [OP_CHILD] = {"", 8, 1},        [OP_OBJECT] = {"", 4, 0},   [OP_RUN] = {"", 4, 0},
    [OP_AFTER] = {"", 10, 0},  [OP_AFTER_OBJECT] = {"", 2, 0}, [OP_AWAIT] = {"", 8, 0},    [OP_WAIT] = {"", 22, 0},
    [OP_CANCEL] = {"", 3, 0},  [OP_BOOST] = {"", 3, 0},        [OP_DEADLINE] = {"", 4, 0}, [OP_FOR] = {"", 8, 0},
    [OP_TILES] = {"", 2, 0},   [OP_REDUCE] = {"", 4, 0},       [OP_SORT] = {"", 2, 0},     [OP_FORK] = {"", 8, 0},
    [OP_GRAPH] = {"", 8, 0},   [OP_GRAPH_CANCEL] = {"", 3, 0}, [OP_BLOCK] = {"", 4, 1},    [OP_HEAP] = {"", 4, 0},
    [OP_PRIVATE] = {"", 2, 0}, [OP_NEST] = {"", 1, 0},         [OP_LOOK] = {"", 2, 0},     [OP_MISUSE] = {"", 1, 0},
};

const char *op_name(enum op_kind kind) {
    static const char *const names[] = {
#define PROGRAM_OP(name, text) text,
        PROGRAM_OPS_LIST(PROGRAM_OP)
#undef PROGRAM_OP
    };
    return kind < OP_KINDS ? names[kind] : "?";
}

struct draw {
    uint64_t state;
    struct program *program;
    const struct program_limits *limits;
    uint32_t weight[OP_KINDS];
    uint32_t tasks_left;
    uint32_t shared;  /* groups in use */
    uint32_t payload; /* largest */
    bool is_ordered, has_timed, has_failures, has_flags;
};

static uint32_t below(struct draw *d, uint32_t n) {
    uint64_t z = (d->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return n <= 1 ? 0 : (uint32_t)(((z >> 32) * n) >> 32);
}
static bool one_in(struct draw *d, uint32_t n) { return below(d, n) == 0; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Small numbers more often. */
static uint32_t few(struct draw *d, uint32_t most) {
    uint32_t n = 1 + below(d, most);
    return one_in(d, 3) ? n : 1 + below(d, n);
}

/* ---- operations --------------------------------------------------------------------------------------------------- */

static uint16_t draw_size(struct draw *d) {
    static const uint16_t classes[][2] = {{0, 0},   {1, 3},    {4, 8},      {4, 8},      {9, 24},
                                          {9, 112}, {25, 600}, {600, 2032}, {2033, 5000}};
    uint32_t which = below(d, d->limits->is_model ? 7 : 9);
    if (d->limits->is_model && which == 6 && one_in(d, 2)) which = 8;
    if (one_in(d, 3)) which = 4;
    uint32_t size = classes[which][0] + below(d, classes[which][1] - classes[which][0] + 1u);
    if (size <= WEFT_INLINE_MAX) size = smaller(size, d->limits->inline_max);
    return (uint16_t)smaller(size, d->limits->payload);
}

static uint8_t draw_group(struct draw *d, bool inside) {
    uint32_t which = below(d, 16);
    if (which < 2) return GROUP_POOL;
    if (which < (d->limits->is_bare ? 14 : 9)) return (uint8_t)(GROUP_SHARED + below(d, d->shared));
    if (which < 11 && inside) return GROUP_OWN;
    return (uint8_t)(GROUP_LOCAL + below(d, 2));
}

static uint8_t draw_body(struct draw *d, uint32_t depth, uint32_t times, bool is_outside);

/* `times` is how often the operation runs. */
static uint32_t draw_count(struct draw *d, uint32_t most, uint32_t times) {
    uint32_t room = d->tasks_left / times;
    uint32_t count = few(d, most);
    if (count > room) count = room;
    d->tasks_left -= count * times;
    return count;
}

static uint8_t draw_inner(struct draw *d, uint32_t depth, uint32_t times, uint32_t chance) {
    if (depth >= d->limits->depth || times > d->limits->tasks / 4 || below(d, 100) >= chance) return NO_BODY;
    return draw_body(d, depth + 1, times, false);
}

static void draw_failure(struct draw *d, struct op *op) {
    op->fails = NONE_FAILS;
    op->code = (uint8_t)(1 + below(d, 30));
    if (d->has_failures && op->count > 0 && one_in(d, 3)) op->fails = (uint16_t)below(d, op->count);
}

static void draw_tasks(struct draw *d, struct op *op, uint32_t depth, uint32_t times) {
    uint32_t most = op->kind == OP_RUN || op->kind == OP_NEST ? 2 : d->limits->count;
    op->count = (uint16_t)draw_count(d, most, times);
    op->size = draw_size(d);
    if (op->kind == OP_OBJECT || op->kind == OP_RUN) op->size = (uint16_t)smaller(op->size, d->limits->inline_max);
    if (op->kind == OP_AWAIT) op->size = (uint16_t)smaller(op->size, smaller(96, d->limits->inline_max));
    if (op->kind == OP_AFTER_OBJECT) op->size = (uint16_t)smaller(op->size, smaller(112, d->limits->inline_max));
    bool has_number = op->kind == OP_OBJECT || op->kind == OP_AFTER_OBJECT || op->kind == OP_AWAIT || op->kind == OP_RUN;
    if (has_number && op->size < 4) op->size = 4;
    op->has_block = one_in(d, 4);
    draw_failure(d, op);
    op->body = draw_inner(d, depth, times * (op->count > 0 ? op->count : 1), d->limits->is_bare ? 85 : 55);
}

static uint8_t draw_moment(struct draw *d, uint32_t chance) {
    if (!d->has_timed || below(d, 100) >= chance) return MOMENT_NONE;
    return (uint8_t)(MOMENT_PAST + below(d, 3));
}

static void draw_loop(struct draw *d, struct op *op, uint32_t depth, uint32_t times) {
    uint32_t most = d->limits->is_model ? 6 : 200;
    op->count = (uint16_t)few(d, most);
    if (op->kind == OP_SORT && !d->limits->is_model) op->count = (uint16_t)(op->count * 10);
    op->grain = (uint16_t)(one_in(d, 2) ? 0 : 1 + below(d, 4));
    op->size = (uint16_t)(op->kind == OP_SORT ? 8 + below(d, 3) * 4 : 8);
    draw_failure(d, op);
    if (op->kind == OP_FOR || op->kind == OP_TILES || op->kind == OP_REDUCE)
        op->body = draw_inner(d, depth, times * op->count, d->limits->is_model ? 40 : 20);
}

static void draw_op(struct draw *d, struct op *op, uint32_t depth, uint32_t times) {
    switch (op->kind) {
    case OP_SUBMIT:
    case OP_CHILD:
    case OP_OBJECT:
    case OP_RUN:
    case OP_AFTER:
    case OP_AFTER_OBJECT:
    case OP_AWAIT: draw_tasks(d, op, depth, times); break;
    case OP_NEST:
        op->count = (uint16_t)(times > 4 ? 2 : 2 + below(d, d->limits->nested - 1));
        op->size = 8;
        draw_failure(d, op);
        op->body = draw_inner(d, depth, times, 80);
        break;
    case OP_WAIT:
        op->when = draw_moment(d, 40);
        op->help = (uint8_t)(one_in(d, 3) ? below(d, 3) : WEFT_HELP_BELOW);
        break;
    case OP_DEADLINE: op->when = (uint8_t)(MOMENT_PAST + below(d, 3)); break;
    case OP_FOR:
    case OP_TILES:
    case OP_REDUCE:
    case OP_SORT: draw_loop(d, op, depth, times); break;
    case OP_FORK:
        op->count = (uint16_t)few(d, d->limits->is_model ? 4 : 9);
        op->body = draw_inner(d, depth, times * op->count, 50);
        break;
    case OP_HEAP:
    case OP_PRIVATE: op->count = (uint16_t)few(d, d->limits->is_model ? 6 : 60); break;
    default: break;
    }
}

/* The rest of the operation's fields, and what it runs. */
static struct op draw_new(struct draw *d, uint32_t depth, uint32_t times, bool is_outside) {
    struct op op = {.body = NO_BODY, .fails = NONE_FAILS};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < OP_KINDS; i++) sum += kinds[i].inside_only && is_outside ? 0 : d->weight[i];
    uint32_t pick = below(d, sum);
    for (uint32_t i = 0; i < OP_KINDS; i++) {
        uint32_t weight = kinds[i].inside_only && is_outside ? 0 : d->weight[i];
        op.kind = (uint8_t)i;
        if (pick < weight) break;
        pick -= weight;
    }
    op.group = draw_group(d, !is_outside);
    op.after = draw_group(d, !is_outside);
    op.graph = (uint8_t)below(d, PROGRAM_GRAPHS);
    op.how = (uint8_t)below(d, 8);
    draw_op(d, &op, depth, times);
    return op;
}

static uint16_t draw_group_flags(struct draw *d) {
    static const uint16_t flags[] = {WEFT_GROUP_CANCEL_ON_ERROR,
                                     WEFT_GROUP_URGENT,
                                     WEFT_GROUP_BACKGROUND,
                                     WEFT_GROUP_DROP_LATE,
                                     WEFT_GROUP_CANCEL_ON_ERROR | WEFT_GROUP_URGENT,
                                     WEFT_GROUP_CANCEL_ON_ERROR | WEFT_GROUP_BACKGROUND,
                                     WEFT_GROUP_DROP_LATE | WEFT_GROUP_CANCEL_ON_ERROR};
    if (!d->has_flags || one_in(d, 2)) return 0;
    uint16_t drawn = flags[below(d, 7)];
    if (d->is_ordered && !one_in(d, 8)) drawn &= (uint16_t) ~(WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND);
    return drawn;
}

static uint8_t draw_body(struct draw *d, uint32_t depth, uint32_t times, bool is_outside) {
    struct program *p = d->program;
    if (p->bodies == PROGRAM_BODIES) return NO_BODY;
    uint8_t index = p->bodies++;
    struct body body = {.depth = (uint8_t)depth, .is_outside = is_outside};
    for (uint32_t i = 0; i < 2; i++) body.local_flags[i] = draw_group_flags(d);
    uint32_t count = depth == 0 ? 1 + below(d, d->limits->ops) : few(d, smaller(d->limits->ops, 4));
    for (uint32_t i = 0; i < count; i++) body.ops[body.count++] = draw_new(d, depth, times, is_outside);
    p->body[index] = body;
    return index;
}

/* ---- pools and graphs --------------------------------------------------------------------------------------------- */

static void draw_config(struct draw *d, struct program_pool *pool) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 3000, 0};
    bool model = d->limits->is_model;
    pool->workers = few(d, d->limits->workers);
    pool->spares = model ? 1 + below(d, 2) : one_in(d, 3) ? 1 + below(d, 4) : 0;
    uint32_t kind = below(d, 10);
    pool->flags = kind == 0 ? WEFT_POOL_ORDERED : kind < 3 ? WEFT_POOL_NO_HELP : kind == 3 ? WEFT_POOL_NO_PLACING : 0;
    d->is_ordered = kind == 0;
    pool->spin_ns = spins_ns[below(d, model ? 2 : 3)];
    if (one_in(d, 5)) pool->queue_max = 1 + below(d, model ? 4 : 20);
    pool->full = below(d, 3);
    pool->background_max = below(d, 3);
    if (!model && one_in(d, 12)) pool->flags |= WEFT_POOL_BIND;
    if (!model && one_in(d, 40)) pool->flags |= WEFT_POOL_LOCK;
    pool->is_real_time = !model && one_in(d, 30);
    pool->end = (uint8_t)(one_in(d, 2) ? END_WAITED : below(d, 3));
    pool->stale_op = (uint8_t)below(d, 7);
    d->has_flags = one_in(d, 2);
    for (uint32_t i = 0; i < PROGRAM_SHARED; i++) pool->shared_flags[i] = draw_group_flags(d);
}

static void draw_pool(struct draw *d, struct program_pool *pool) {
    draw_config(d, pool);
    d->tasks_left = 1 + below(d, d->limits->tasks);
    uint32_t threads = few(d, d->limits->threads);
    for (uint32_t i = 0; i < threads; i++) {
        uint8_t body = draw_body(d, 0, 1, true);
        if (body != NO_BODY) pool->body[pool->threads++] = body;
    }
}

/* A graph of layers: each node of one comes before all of the next. */
static void draw_layers(struct draw *d, struct program_graph *graph) {
    for (uint32_t first = 0, next = 1 + below(d, 2); next < graph->nodes;) {
        uint32_t end = smaller(next + 1 + below(d, graph->nodes), graph->nodes);
        for (uint32_t i = first; i < next; i++)
            for (uint32_t k = next; k < end && graph->edges < PROGRAM_EDGES; k++) {
                graph->edge[graph->edges].before = (uint8_t)i;
                graph->edge[graph->edges++].after = (uint8_t)k;
            }
        first = next;
        next = end;
    }
}
static void draw_edges(struct draw *d, struct program_graph *graph) {
    uint32_t edges = graph->nodes < 2 ? 0 : below(d, smaller(2u * graph->nodes, PROGRAM_EDGES) + 1);
    for (uint32_t i = 0; i < edges; i++) {
        uint32_t before = below(d, graph->nodes), after = below(d, graph->nodes);
        if (before == after) continue;
        graph->edge[graph->edges].before = (uint8_t)smaller(before, after);
        graph->edge[graph->edges++].after = (uint8_t)(before < after ? after : before);
    }
}
static void draw_graph(struct draw *d, struct program_graph *graph) {
    graph->nodes = (uint8_t)(1 + below(d, d->limits->nodes));
    if (one_in(d, 2))
        draw_layers(d, graph);
    else
        draw_edges(d, graph);
    for (uint32_t i = 0; i < graph->nodes; i++) {
        graph->body[i] = d->limits->depth > 0 && one_in(d, 4) ? draw_body(d, 1, 2, false) : NO_BODY;
        graph->code[i] = (uint8_t)(d->has_failures && one_in(d, 6) ? 1 + below(d, 30) : 0);
    }
}

void program_draw(struct program *program, uint64_t seed, const struct program_limits *limits) {
    static const uint8_t factors[] = {0, 0, 1, 1, 3};
    struct draw d = {.state = seed * UINT64_C(0xd1342543de82ef95) + 77, .program = program, .limits = limits};
    memset(program, 0, sizeof *program);
    program->seed = seed;
    for (uint32_t i = 0; i < OP_KINDS; i++) d.weight[i] = limits->is_bare ? 0 : kinds[i].weight * factors[below(&d, 5)];
    d.weight[OP_SUBMIT] += 2;
    d.weight[OP_WAIT] += 2;
    d.shared = limits->is_bare ? 2 : 1 + below(&d, PROGRAM_SHARED);
    d.has_timed = one_in(&d, 2) && !limits->is_bare;
    d.has_failures = one_in(&d, 2) && !limits->is_bare;
    d.tasks_left = limits->tasks;
    program->pools = (uint8_t)(one_in(&d, 4) ? limits->pools : 1);
    for (uint32_t i = 0; i < program->pools; i++) draw_pool(&d, &program->pool[i]);
    program->graphs = PROGRAM_GRAPHS;
    for (uint32_t i = 0; i < PROGRAM_GRAPHS; i++) draw_graph(&d, &program->graph[i]);
}

/* ---- cuts --------------------------------------------------------------------------------------------------------- */

enum { CUTS_OP = 5, CUTS_POOL = PROGRAM_THREADS + 7, CUTS_NODE = 2 };

static bool set_8(uint8_t *at, uint8_t value) {
    bool changes = *at != value;
    *at = value;
    return changes;
}
static bool set_16(uint16_t *at, uint16_t value) {
    bool changes = *at != value;
    *at = value;
    return changes;
}
static bool set_32(uint32_t *at, uint32_t value) {
    bool changes = *at != value;
    *at = value;
    return changes;
}

static bool cut_op(struct op *op, uint32_t cut) {
    if (op->is_absent) return false;
    switch (cut) {
    case 0: return op->is_absent = true;
    case 1: return op->body != NO_BODY && set_8(&op->body, NO_BODY);
    case 2: return op->count > 1 && set_16(&op->count, (uint16_t)(op->kind == OP_NEST && op->count > 3 ? op->count - 1 : 1));
    case 3: {
        bool changes = op->has_block || (op->size > 8 && op->kind != OP_SORT);
        op->has_block = false;
        if (op->size > 8 && op->kind != OP_SORT) op->size = 8;
        return changes;
    }
    default: return set_16(&op->fails, NONE_FAILS);
    }
}

static bool cut_pool(struct program *p, uint32_t index, uint32_t cut) {
    struct program_pool *pool = &p->pool[index];
    if (cut < PROGRAM_THREADS) {
        if (cut >= pool->threads) return false;
        for (uint32_t i = cut + 1; i < pool->threads; i++) pool->body[i - 1] = pool->body[i];
        pool->threads--;
        return true;
    }
    switch (cut - PROGRAM_THREADS) {
    case 0:
        if (p->pools == 1) return false;
        for (uint32_t i = index + 1; i < p->pools; i++) p->pool[i - 1] = p->pool[i];
        p->pools--;
        return true;
    case 1: return set_32(&pool->workers, 1);
    case 2: return set_32(&pool->flags, 0);
    case 3: {
        bool changes = pool->queue_max != 0;
        pool->queue_max = 0;
        return changes;
    }
    case 4: return set_8(&pool->end, END_WAITED);
    case 5: {
        bool changes = false;
        for (uint32_t i = 0; i < PROGRAM_SHARED; i++) changes |= set_16(&pool->shared_flags[i], 0);
        return changes;
    }
    default: return set_32(&pool->spares, 1);
    }
}

static bool cut_node(struct program_graph *graph, uint32_t node, uint32_t cut) {
    if (cut == 0) return node < graph->nodes && graph->body[node] != NO_BODY && set_8(&graph->body[node], NO_BODY);
    if (node + 1 != graph->nodes || node == 0) return false;
    graph->nodes--;
    uint8_t left = 0;
    for (uint32_t i = 0; i < graph->edges; i++)
        if (graph->edge[i].after < graph->nodes && graph->edge[i].before < graph->nodes)
            graph->edge[left++] = graph->edge[i];
    graph->edges = left;
    return true;
}

uint32_t program_cuts(const struct program *program) {
    return PROGRAM_POOLS * CUTS_POOL + (uint32_t)program->bodies * PROGRAM_OPS * CUTS_OP +
           PROGRAM_GRAPHS * PROGRAM_NODES * CUTS_NODE;
}

bool program_cut(struct program *program, uint32_t cut) {
    if (cut < PROGRAM_POOLS * CUTS_POOL)
        return cut / CUTS_POOL < program->pools && cut_pool(program, cut / CUTS_POOL, cut % CUTS_POOL);
    cut -= PROGRAM_POOLS * CUTS_POOL;
    uint32_t ops = (uint32_t)program->bodies * PROGRAM_OPS;
    if (cut < ops * CUTS_OP) { /* first whole operations, of all bodies, then parts of them */
        struct body *body = &program->body[cut % ops / PROGRAM_OPS];
        uint32_t index = cut % PROGRAM_OPS;
        return index < body->count && cut_op(&body->ops[index], cut / ops);
    }
    cut -= ops * CUTS_OP;
    if (cut >= PROGRAM_GRAPHS * PROGRAM_NODES * CUTS_NODE) return false;
    return cut_node(&program->graph[cut / (PROGRAM_NODES * CUTS_NODE)], cut / CUTS_NODE % PROGRAM_NODES, cut % CUTS_NODE);
}
