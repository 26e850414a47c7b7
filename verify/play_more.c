/* play_more.c: runs a program's loops, forked calls, graphs, and what else there is. See play.h. */
#include "play.h"
#include "spec.h"

#include <string.h>

static struct region region_new(struct frame *frame, const struct op *op) {
    return (struct region){
        .above = &frame->own, .group = frame->group, .op = op, .known = frame->known, .is_joined = frame->is_joined};
}

/* A frame of a loop's piece, a forked call or a node. */
static struct frame part_new(struct region *region, weft_worker *self) {
    return (struct frame){
        .self = self, .group = region->group, .part_of = region, .known = region->known, .is_joined = region->is_joined};
}

/* In an ordered pool the caller of a loop that waits for a piece counts as a thread that runs tasks, so the piece's wait is
 * not told that none is left: no waits there. */
static const struct body *joined_body(struct frame *frame, uint8_t index) {
    frame->is_joined = true;
    if (index == NO_BODY || (play.drawn->flags & WEFT_POOL_ORDERED) != 0) return NULL;
    return &play.program->body[index];
}

static const struct body *body_of(uint8_t index) { return index == NO_BODY ? NULL : &play.program->body[index]; }

static void region_enter(struct frame *frame, struct region *region, enum doing doing) {
    frame->doing = doing;
    frame->joins = region;
}
static void region_leave(struct frame *frame, struct region *region) {
    frame->doing = DOES_NOTHING;
    frame->joins = NULL;
    known_join(&frame->known, &region->end);
}

/* ---- loops -------------------------------------------------------------------------------------------------------- */

struct loop {
    struct region region;
    const struct op *op;
    uint32_t *runs; /* plain: how often each index was run */
};

static int index_run(struct loop *loop, struct frame *frame, size_t index) {
    if (index >= loop->op->count) play_fail("a loop over %u indices was given %zu", loop->op->count, index);
    world_writes(&loop->runs[index], sizeof loop->runs[index]);
    loop->runs[index]++;
    play_body(frame);
    return loop->op->fails == index ? loop->op->code : 0;
}

static int loop_body(size_t begin, size_t end, void *context, weft_worker *self) {
    struct loop *loop = context;
    const struct op *op = loop->op;
    struct frame frame = part_new(&loop->region, self);
    int code = 0;
    frame.body = joined_body(&frame, op->body);
    frame_enter(&frame);
    spec_part_begins(&frame);
    if (begin >= end || (op->grain != 0 && end - begin < op->grain && end != op->count))
        play_fail("a loop with grain %u called its body for %zu to %zu of %u", op->grain, begin, end, op->count);
    for (size_t i = begin; i < end && code == 0; i++) code = index_run(loop, &frame, i);
    known_tell(&loop->region.end, &frame.known);
    frame_leave(&frame);
    return code;
}

static struct loop loop_new(struct frame *frame, const struct op *op) {
    struct loop loop = {.region = region_new(frame, op), .op = op, .runs = world_alloc(op->count * sizeof(uint32_t))};
    world_writes(loop.runs, op->count * sizeof(uint32_t));
    memset(loop.runs, 0, op->count * sizeof(uint32_t));
    return loop;
}
static void loop_end(struct frame *frame, struct loop *loop, int error) {
    region_leave(frame, &loop->region);
    world_reads(loop->runs, loop->op->count * sizeof(uint32_t));
    spec_loop(frame, loop->op, loop->runs, error);
    world_free(loop->runs);
}

static void op_for(struct frame *frame, const struct op *op) {
    struct loop loop = loop_new(frame, op);
    region_enter(frame, &loop.region, LOOPS);
    loop_end(frame, &loop, weft_for(play.pool, (weft_range){0, op->count, op->grain}, loop_body, &loop));
}

enum { TILE_COLUMNS = 3 };

/* The tile's cells row by row; cells beyond the last index are left out. */
static int tile_body(const weft_tile *tile, void *context, weft_worker *self) {
    struct loop *loop = context;
    struct frame frame = part_new(&loop->region, self);
    frame.body = joined_body(&frame, loop->op->body);
    frame_enter(&frame);
    spec_part_begins(&frame);
    for (size_t row = tile->row_begin; row < tile->row_end; row++)
        for (size_t column = tile->column_begin; column < tile->column_end; column++)
            if (row * TILE_COLUMNS + column < loop->op->count) index_run(loop, &frame, row * TILE_COLUMNS + column);
    known_tell(&loop->region.end, &frame.known);
    frame_leave(&frame);
    return 0;
}
static void op_tiles(struct frame *frame, const struct op *op) {
    struct loop loop = loop_new(frame, op);
    struct op unfailing = *op;
    unfailing.fails = NONE_FAILS;
    loop.op = &unfailing;
    size_t rows = (op->count + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    weft_tiles tiles = {{0, rows, op->grain}, {0, TILE_COLUMNS, op->how % 3}};
    region_enter(frame, &loop.region, LOOPS);
    loop_end(frame, &loop, weft_for_tiles(play.pool, tiles, tile_body, &loop));
}

static int reduce_body(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    struct loop *loop = context;
    struct frame frame = part_new(&loop->region, self);
    int code = 0;
    frame.body = joined_body(&frame, loop->op->body);
    frame_enter(&frame);
    spec_part_begins(&frame);
    for (size_t i = begin; i < end && code == 0; i++) code = index_run(loop, &frame, i);
    known_tell(&loop->region.end, &frame.known);
    frame_leave(&frame);
    *(uint64_t *)value = reduce_leaf(begin, end);
    return code;
}
static void reduce_join(void *left, const void *right, void *context) {
    (void)context;
    *(uint64_t *)left = reduce_combine(*(uint64_t *)left, *(const uint64_t *)right);
}
static void op_reduce(struct frame *frame, const struct op *op) {
    struct loop loop = loop_new(frame, op);
    const weft_reduction how = {.size = sizeof(uint64_t), .leaf = reduce_body, .combine = reduce_join, .context = &loop};
    uint64_t result = 0;
    region_enter(frame, &loop.region, LOOPS);
    int error = weft_reduce(play.pool, (weft_range){0, op->count, op->grain}, &how, &result);
    loop_end(frame, &loop, error);
    if (error == WEFT_OK && !spec_reduced(op, result)) play_fail("a reduction of %u indices has another result", op->count);
}

struct item {
    uint32_t key, index;
    unsigned char rest[8];
};
static int item_compare(const void *left, const void *right, void *context) {
    const struct item *a = left, *b = right;
    if (context != &play) play_fail("compare got another context");
    return a->key < b->key ? -1 : a->key > b->key;
}
static void op_sort(struct frame *frame, const struct op *op) {
    uint32_t count = op->count;
    size_t size = op->size < sizeof(struct item) ? 8 : op->size == 16 ? 16 : 12;
    char *items = world_alloc(count * size);
    world_writes(items, count * size);
    for (uint32_t i = 0; i < count; i++) {
        const struct item item = {.key = (i * 2654435761u + op->how) >> 27, .index = i};
        memcpy(items + i * size, &item, size);
    }
    struct region region = region_new(frame, op);
    region_enter(frame, &region, LOOPS);
    int error = weft_sort(play.pool, items, count, &(weft_order){size, item_compare, &play});
    region_leave(frame, &region);
    world_reads(items, count * size);
    if (error != WEFT_OK && !(error == WEFT_ECANCELED && may_be_cancelled(frame->group)))
        play_fail("weft_sort: %s", weft_strerror(error));
    for (uint32_t i = 1; i < count && error == WEFT_OK; i++) {
        struct item before, item;
        memcpy(&before, items + (i - 1) * size, 8);
        memcpy(&item, items + i * size, 8);
        if (before.key > item.key || (before.key == item.key && before.index >= item.index))
            play_fail("items %u and %u of %u are not in order", i - 1, i, count);
    }
    world_free(items);
}

/* ---- forked calls ------------------------------------------------------------------------------------------------- */

struct call {
    const struct op *op;
    struct region *region;
    uint32_t depth;
};
static uint32_t tree(weft_fork_slot *here, struct call call);
WEFT_FORK(tree, uint32_t, struct call)

/* Forks one half and calls the other. Returns how many leaves it has. */
static uint32_t tree_split(weft_fork_slot *here, struct frame *frame, const struct call *call) {
    struct region forked = region_new(frame, call->op), called = forked;
    struct call left = {call->op, &forked, call->depth - 1},
                right = {call->op, &called, call->depth > 1 ? call->depth - 2 : 0};
    weft_fork_slot *deeper = tree_fork(here, &left);
    region_enter(frame, &called, CALLS);
    uint32_t leaves = tree(deeper, right);
    region_leave(frame, &called);
    region_enter(frame, &forked, JOINS);
    leaves += tree_join(here, &left);
    region_leave(frame, &forked);
    world_reads(&forked.written, sizeof forked.written);
    if (forked.written != 1) play_fail("a joined call was run %u times", forked.written);
    return leaves;
}

static uint32_t tree(weft_fork_slot *here, struct call call) {
    struct frame frame = part_new(call.region, weft_fork_worker(here));
    uint32_t leaves = 1;
    frame_enter(&frame);
    spec_part_begins(&frame);
    world_writes(&call.region->written, sizeof call.region->written);
    call.region->written++;
    if (call.depth > 0) {
        leaves = tree_split(here, &frame, &call);
    } else {
        frame.body = joined_body(&frame, call.op->body);
        play_body(&frame);
    }
    known_tell(&call.region->end, &frame.known);
    frame_leave(&frame);
    return leaves;
}

static uint32_t leaves_of(uint32_t depth) {
    return depth == 0 ? 1 : leaves_of(depth - 1) + leaves_of(depth > 1 ? depth - 2 : 0);
}

static void op_fork(struct frame *frame, const struct op *op) {
    weft_fork_slot *here;
    int error = weft_fork_enter(play.pool, &here);
    if (error != WEFT_OK) play_fail("weft_fork_enter: %s", weft_strerror(error));
    struct region region = region_new(frame, op);
    region_enter(frame, &region, CALLS);
    uint32_t leaves = tree(here, (struct call){op, &region, op->count});
    region_leave(frame, &region);
    weft_fork_leave(here);
    if (leaves != leaves_of(op->count)) play_fail("forked calls of depth %u returned %u", op->count, leaves);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

static int node_run(void *context, weft_worker *self) {
    struct node *node = context;
    struct graph *graph = node->graph;
    uint8_t body = graph->drawn->body[node->index];
    int code = graph->drawn->code[node->index];
    struct frame frame = part_new(&graph->region, self);
    frame.body = body_of(body);
    frame_enter(&frame);
    spec_node_begins(&frame, node);
    play_body(&frame);
    world_writes(&graph->written[node->index], sizeof graph->written[0]);
    graph->written[node->index] = 1;
    known_tell(&node->end, &frame.known);
    known_tell(&graph->region.end, &frame.known);
    if (code != 0) atomic_store_explicit(&node->failed, 1, memory_order_relaxed);
    atomic_store_explicit(&node->ended, 1, memory_order_relaxed);
    frame_leave(&frame);
    return code;
}

void play_graphs_make(void) {
    for (uint32_t g = 0; g < PROGRAM_GRAPHS; g++) {
        struct graph *graph = &play.graph[g];
        weft_node nodes[PROGRAM_NODES];
        memset(graph, 0, sizeof *graph);
        graph->drawn = &play.program->graph[g];
        bool ok = weft_graph_create(&graph->graph) == WEFT_OK;
        for (uint8_t i = 0; i < graph->drawn->nodes; i++) {
            graph->node[i].graph = graph;
            graph->node[i].index = i;
            ok = ok && weft_graph_add(graph->graph, &nodes[i], node_run, &graph->node[i]) == WEFT_OK;
        }
        for (uint32_t i = 0; i < graph->drawn->edges; i++)
            ok = ok && weft_graph_edge(graph->graph, nodes[graph->drawn->edge[i].before],
                                       nodes[graph->drawn->edge[i].after]) == WEFT_OK;
        if (!ok || weft_graph_build(graph->graph, NULL) != WEFT_OK) play_fail("a graph could not be made");
    }
}

void play_graphs_end(void) {
    for (uint32_t g = 0; g < PROGRAM_GRAPHS; g++)
        if (weft_graph_destroy(&play.graph[g].graph) != WEFT_OK) play_fail("a graph could not be ended");
}

/* It has happened, and the frame knows. */
static void event_tell(struct frame *frame, shared_mask *events, uint32_t event) {
    mask known = {{0}};
    known_add(&known, event);
    known_tell(events, &known);
    known_add(&frame->known, event);
}

static bool is_in_graph(const struct frame *frame, const struct graph *graph) {
    for (; frame != NULL; frame = frame->beneath)
        if (frame->part_of == &graph->region) return true;
    return false;
}

/* One at a time: what a run does is looked at after its end. */
static void op_graph(struct frame *frame, const struct op *op) {
    struct graph *graph = &play.graph[op->graph];
    uint32_t idle = 0, active;
    if (!atomic_compare_exchange_strong(&graph->used, &idle, 1)) {
        if (is_in_graph(frame, graph) && weft_graph_run(play.pool, graph->graph) != WEFT_EBUSY)
            play_fail("a graph was run inside its own node");
        return;
    }
    group_new(&graph->group, NULL, 0);
    graph->region = region_new(frame, NULL);
    graph->region.group = &graph->group;
    atomic_store(&graph->cancelled_inside, 0);
    atomic_store(&graph->group.cancels, atomic_load(&graph->cancels_begun));
    graph->written = world_alloc(PROGRAM_NODES * sizeof graph->written[0]);
    world_writes(graph->written, PROGRAM_NODES * sizeof graph->written[0]);
    memset(graph->written, 0, PROGRAM_NODES * sizeof graph->written[0]);
    for (uint32_t i = 0; i < graph->drawn->nodes; i++) {
        struct node *node = &graph->node[i];
        node->begun = node->ended = node->failed = 0;
        memset(&node->end, 0, sizeof node->end);
    }
    spec_graph_begins(frame, graph, &active);
    int error = weft_graph_run(play.pool, graph->graph);
    spec_graph_returns(frame, graph, active, error);
    known_join(&frame->known, &graph->region.end);
    world_free(graph->written);
    group_end(&graph->group);
    event_tell(frame, &graph->ends, event_new());
    atomic_store(&graph->used, 0);
}

/* Its return is an event that others can know of. */
static void op_graph_cancel(struct frame *frame, const struct op *op) {
    struct graph *graph = &play.graph[op->graph];
    uint32_t event = event_new();
    if (event == KNOWN) return;
    atomic_fetch_add(&graph->cancels_begun, 1);
    atomic_fetch_add(&graph->group.cancels, 1);
    bool is_inside = frame->part_of == &graph->region;
    int error = weft_graph_cancel(play.pool, graph->graph);
    if (error != WEFT_OK) play_fail("weft_graph_cancel: %s", weft_strerror(error));
    if (is_inside) atomic_store(&graph->cancelled_inside, 1);
    event_tell(frame, &graph->cancels, event);
    atomic_fetch_add(&graph->cancels_ended, 1);
}

/* ---- the rest ----------------------------------------------------------------------------------------------------- */

static void op_block(struct frame *frame, const struct op *op) {
    if (frame->self == NULL || frame->group == NULL) return;
    frame->doing = BLOCKS;
    for (uint32_t i = 0; i <= op->how % 2u; i++) {
        int error = weft_block_begin(frame->self);
        if (error != WEFT_OK && error != WEFT_EAGAIN) play_fail("weft_block_begin: %s", weft_strerror(error));
    }
    world_step();
    for (uint32_t i = 0; i <= op->how % 2u; i++) {
        int error = weft_block_end(frame->self);
        if (error != WEFT_OK) play_fail("weft_block_end: %s", weft_strerror(error));
    }
    frame->doing = DOES_NOTHING;
}

static void op_look(const struct op *op) {
    weft_stats stats = {.struct_size = sizeof stats};
    char text[200];
    int error = WEFT_OK;
    switch (op->how) {
    case 0:
    case 1: error = weft_pool_expect(play.pool, 1 + op->how, moment_ns(MOMENT_SOON)); break;
    case 2: error = weft_pool_stats(play.pool, &stats); break;
    case 3: error = weft_pool_stats_json(play.pool, text, sizeof text) > 0 ? WEFT_OK : WEFT_EINVAL; break;
    case 4: error = weft_pool_workers(play.pool) > play.drawn->workers ? WEFT_EINVAL : WEFT_OK; break;
    default: world_step(); break;
    }
    if (error != WEFT_OK) play_fail("a look at the pool: %s", weft_strerror(error));
}

static int never(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    play_fail("a task was run that was refused");
}

/* Calls that weft.h says are refused. */
static void op_misuse(struct frame *frame, const struct op *op) {
    weft_pool *pool = play.pool;
    int error, expected = WEFT_EINVAL;
    weft_group group = {.flags = op->how % 2 == 0 ? 1u << 30 : 0, .zero = op->how % 2u};
    switch (op->how) {
    case 0:
    case 1: error = weft_submit(pool, &group, never, NULL, 0); break;
    case 2: error = weft_submit(pool, NULL, never, &group, (size_t)WEFT_PAYLOAD_MAX + 1); break;
    case 3: error = weft_group_wait_until(pool, NULL, (enum weft_help)3, 0); break;
    case 4: error = weft_block_end(NULL); break;
    case 5: error = weft_submit_child(NULL, never, NULL, 0); break;
    case 6: error = weft_for(pool, (weft_range){2, 1, 0}, NULL, NULL); break;
    default:
        if (!frame->is_task) return;
        expected = WEFT_EDEADLK;
        error = weft_pool_destroy(&pool);
        if (pool != play.pool) play_fail("weft_pool_destroy inside a task has taken the pool");
    }
    if (error == WEFT_EFULL && play.drawn->queue_max != 0 && op->how < 2) return; /* that is looked at first */
    if (error != expected) play_fail("misuse %u: %s", op->how, weft_strerror(error));
}

void play_op_more(struct frame *frame, const struct op *op) {
    switch (op->kind) {
    case OP_FOR: op_for(frame, op); break;
    case OP_TILES: op_tiles(frame, op); break;
    case OP_REDUCE: op_reduce(frame, op); break;
    case OP_SORT: op_sort(frame, op); break;
    case OP_FORK: op_fork(frame, op); break;
    case OP_GRAPH: op_graph(frame, op); break;
    case OP_GRAPH_CANCEL: op_graph_cancel(frame, op); break;
    case OP_BLOCK: op_block(frame, op); break;
    case OP_HEAP: play_heap(frame, op); break;
    case OP_PRIVATE: play_private(frame, op); break;
    case OP_LOOK: op_look(op); break;
    case OP_MISUSE: op_misuse(frame, op); break;
    default: break;
    }
}
