/* graph.c: graphs of nodes, built once and run many times.
 *
 * Building lays the nodes side by side in the order of their addition, each with its number of predecessors and its
 * successors in one array; behind them stands the root, whose successors are the nodes without predecessors.
 *
 * A run is a group that starts with one task, which walks from the root. A walk runs a node, arrives at each of its
 * successors, goes on with the first one that became ready and shares the others; at its end, it takes back what it shared
 * last. If a node has too many successors to arrive at while other threads are idle, the walk shares half of them at a time
 * without arriving: the thread that takes them arrives at them.
 *
 * A shared node is a detached call (fork.h): noted in one of the walk's slots, offered when another thread asks, and taken
 * unasked while the walk is long in one node. So a walk without helpers makes no atomic operation for it, and a walk that is
 * asked hands on its oldest node, below which the most work is likely. If the chunk has no free slot, the node is shared as
 * a task of the group. If that is impossible, too (no memory, or a bounded queue that is full), the node is kept until this
 * walk's end.
 *
 *   pending  of a node: predecessors that have not arrived | SKIP. The last thread to arrive runs the node, and first sets
 *            it back to `needed` for the next run. A thread that finds itself the last need not write: it has seen the other
 *            arrivals, and nobody else will arrive. A node with one predecessor is ready when that arrives.
 *   SKIP     set by a predecessor before it arrives, if it failed or was itself skipped because of a failure.
 *   trouble  of the graph: whether any node failed, the run was cancelled, or a thread says that a run may have been. A walk
 *            in a good run reads only its 0. A late canceller may set it in the next run: only the run's group knows.
 *   use      of the graph: whether it is built, or that a thread runs or changes it, and the process's count of forks when
 *            that began. If the count is an earlier one, that use is over: a forked child has only the caller's thread.
 *
 * Nodes that are skipped are walked through like the others, so that a run always leaves every counter as it found it.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   Y1  arrive: load pending         acquire  Y2  the node runs before it sees what another predecessor wrote
 *   Y2  arrive: pending - 1          acq_rel  Y1  see Y1; split: a node never runs, or runs twice
 *   Y3  graph_fail: CAS failed       relaxed  -   split: a lower failure is overwritten
 *   Y4  graph_use: CAS use           acquire  Y5  a run starts on counters that the last one has not set back; split: two
 *                                                   uses at once
 *   Y5  graph_leave: store use       release  Y4  see Y4
 */
#include "patterns/fork.h"

#include <string.h>

#define SKIP 0x80000000u
#define NODES_MAX (SKIP - 2)
#define NONE UINT32_MAX
#ifndef LEAVE_MAX
#define LEAVE_MAX 16u /* successors that a walk arrives at by itself */
#endif
#define TAG_SHIFT 32 /* of a weft_node: the graph's tag | index */

#define TROUBLE_FAILED 1u
#define TROUBLE_CANCELLED 2u
#define TROUBLE_LOOK 4u /* the run's group, or that of one before, was cancelled */

#define USE UINT64_C(1)
#define USE_BUILT UINT64_C(2)
#define USE_FORK_SHIFT 2

struct ALIGNED(32) node {
    weft_fn fn;
    void *context;
    uint32_t first;      /* index of the first successor in graph->successors */
    uint32_t successors; /* their number */
    uint32_t needed;     /* predecessors */
    ATOMIC(uint32_t) pending;
};

struct added {
    weft_fn fn;
    void *context;
};

struct edge {
    uint32_t before;
    uint32_t after;
};

/* An array that grows. */
struct list {
    void *items;
    uint32_t count;
    uint32_t room;
};

struct weft_graph {
    /* of the run */
    struct node *nodes; /* NULL: not built */
    uint32_t *successors;
    uint32_t *kept; /* for each kept node, the one kept before it */
    ATOMIC(uint32_t) trouble;
    ATOMIC(uint64_t) use;
    ATOMIC(uint64_t) failed; /* index | code of the first node that failed; NOT_FAILED */
    weft_group group;

    /* of the builder */
    struct list added;
    struct list edges;
    void *block;  /* what nodes, successors and kept lie in */
    uint64_t tag; /* unique in the process */
};

/* ---- building ----------------------------------------------------------------------------------------------------- */

static ATOMIC(uint32_t) last_tag;

int weft_graph_create(weft_graph **graph) {
    if (graph == NULL) return WEFT_EINVAL;
    weft_graph *made = *graph = os_alloc(sizeof *made);
    if (made == NULL) return WEFT_ENOMEM;
    memset(made, 0, sizeof *made);
    made->tag = (uint64_t)(add_rlx(&last_tag, 1) + 1) << TAG_SHIFT;
    return WEFT_OK;
}

static void graph_unbuild(weft_graph *graph) {
    os_free(graph->block);
    graph->block = NULL;
    graph->nodes = NULL;
    store_rlx(id_of(&graph->group), 0);
}

/* Begins a use: to run the graph or to change it. false: it is in use. A run that a forked child has inherited is over
 * there, but its counters are not set back: a change makes the graph count as not built. */
enum graph_user { RUNS, CHANGES };
static bool graph_use(weft_graph *graph, enum graph_user user) {
    uint64_t mine = os_fork_count() << USE_FORK_SHIFT | USE;
    uint64_t use = load_rlx(&graph->use);
    bool is_inherited = user == CHANGES && use >> USE_FORK_SHIFT != mine >> USE_FORK_SHIFT;
    if ((use & USE) != 0 && !is_inherited) return false;
    if (!cas_acq(Y4, &graph->use, &use, mine)) return false;
    if ((use & USE) != 0) graph_unbuild(graph);
    return true;
}
/* Ends a use; returns `result`. */
static int graph_leave(weft_graph *graph, int result) {
    store_rel(Y5, &graph->use, graph->nodes == NULL ? 0 : USE_BUILT);
    return result;
}

int weft_graph_destroy(weft_graph **graph) {
    if (graph == NULL || *graph == NULL) return WEFT_EINVAL;
    if (!graph_use(*graph, CHANGES)) return WEFT_EBUSY;
    graph_unbuild(*graph);
    os_free((*graph)->added.items);
    os_free((*graph)->edges.items);
    os_free(*graph);
    *graph = NULL;
    return WEFT_OK;
}

/* Room for one more item; NULL: no memory. */
static void *list_grow(struct list *list, size_t item_bytes) {
    if (list->count == list->room) {
        uint32_t room = (uint32_t)min_u64(list->room == 0 ? 16 : (uint64_t)list->room * 2, NODES_MAX);
        void *items = list->count < room ? os_alloc(room * item_bytes) : NULL;
        if (items == NULL) return NULL;
        if (list->count > 0) memcpy(items, list->items, list->count * item_bytes);
        os_free(list->items);
        list->items = items;
        list->room = room;
    }
    return (char *)list->items + list->count * item_bytes;
}

int weft_graph_add(weft_graph *graph, weft_node *node, weft_fn fn, void *context) {
    if (graph == NULL || fn == NULL) return WEFT_EINVAL;
    if (!graph_use(graph, CHANGES)) return WEFT_EBUSY;
    struct added *added = list_grow(&graph->added, sizeof *added);
    if (added == NULL) return graph_leave(graph, WEFT_ENOMEM);
    *added = (struct added){fn, context};
    if (node != NULL) *node = graph->tag | graph->added.count;
    graph->added.count++;
    graph_unbuild(graph);
    return graph_leave(graph, WEFT_OK);
}

static bool is_node(const weft_graph *graph, weft_node node) {
    return node >> TAG_SHIFT == graph->tag >> TAG_SHIFT && (uint32_t)node < graph->added.count;
}

static int graph_edge(weft_graph *graph, weft_node before, weft_node after) {
    if (!is_node(graph, before) || !is_node(graph, after)) return WEFT_EINVAL;
    if (before == after) return WEFT_ECYCLE;
    struct edge *edge = list_grow(&graph->edges, sizeof *edge);
    if (edge == NULL) return WEFT_ENOMEM;
    *edge = (struct edge){(uint32_t)before, (uint32_t)after};
    graph->edges.count++;
    graph_unbuild(graph);
    return WEFT_OK;
}

int weft_graph_edge(weft_graph *graph, weft_node before, weft_node after) {
    if (graph == NULL) return WEFT_EINVAL;
    if (!graph_use(graph, CHANGES)) return WEFT_EBUSY;
    return graph_leave(graph, graph_edge(graph, before, after));
}

/* Memory for the nodes and the root, for successors, and for kept. */
static bool graph_allocate(weft_graph *graph) {
    size_t nodes = (size_t)graph->added.count + 1;
    size_t successors = (size_t)graph->edges.count + nodes;
    size_t bytes = nodes * sizeof(struct node) + (successors + nodes) * sizeof(uint32_t);
    graph->block = successors < UINT32_MAX ? os_alloc(bytes + CACHE_LINE) : NULL;
    if (graph->block == NULL) return false;
    graph->nodes = (void *)round_up((uintptr_t)graph->block, CACHE_LINE);
    graph->successors = (uint32_t *)(graph->nodes + nodes);
    graph->kept = graph->successors + successors;
    return true;
}

static void nodes_fill(weft_graph *graph) {
    const struct added *added = graph->added.items;
    struct node *nodes = graph->nodes;
    uint32_t count = graph->added.count;
    for (uint32_t i = 0; i < count; i++) nodes[i] = (struct node){.fn = added[i].fn, .context = added[i].context};
    nodes[count] = (struct node){0};
}

/* Sorts the edges by their first node. */
static void edges_fill(weft_graph *graph) {
    const struct edge *edges = graph->edges.items;
    struct node *nodes = graph->nodes;
    for (uint32_t i = 0; i < graph->edges.count; i++) nodes[edges[i].before].first++;
    uint32_t first = 0;
    for (uint32_t i = 0; i <= graph->added.count; i++) {
        uint32_t successors = nodes[i].first;
        nodes[i].first = first;
        first += successors;
    }
    for (uint32_t i = 0; i < graph->edges.count; i++) {
        struct node *before = &nodes[edges[i].before];
        graph->successors[before->first + before->successors++] = edges[i].after;
    }
}

/* Drops duplicates of edges, and counts what each node needs. */
static void edges_unite(weft_graph *graph) {
    struct node *nodes = graph->nodes;
    uint32_t *last = graph->kept; /* the node with an edge to this one that was seen last */
    memset(last, 0xff, graph->added.count * sizeof *last);
    for (uint32_t i = 0; i < graph->added.count; i++) {
        uint32_t *successors = &graph->successors[nodes[i].first];
        uint32_t count = 0;
        for (uint32_t k = 0; k < nodes[i].successors; k++) {
            uint32_t after = successors[k];
            if (last[after] == i) continue;
            last[after] = i;
            successors[count++] = after;
            nodes[after].needed++;
        }
        nodes[i].successors = count;
    }
}

static void root_fill(weft_graph *graph) {
    uint32_t count = graph->added.count;
    struct node *root = &graph->nodes[count];
    for (uint32_t i = 0; i < count; i++) {
        store_rlx(&graph->nodes[i].pending, graph->nodes[i].needed);
        if (graph->nodes[i].needed == 0) graph->successors[root->first + root->successors++] = i;
    }
}

/* Goes through the graph as a run does, and returns the number of nodes reached. Leaves in `pending` what has not
 * arrived. */
static uint32_t count_reached(weft_graph *graph) {
    struct node *nodes = graph->nodes;
    uint32_t *queue = graph->kept;
    uint32_t reached = nodes[graph->added.count].successors;
    memcpy(queue, &graph->successors[nodes[graph->added.count].first], reached * sizeof *queue);
    for (uint32_t i = 0; i < reached; i++) {
        const struct node *node = &nodes[queue[i]];
        for (uint32_t k = 0; k < node->successors; k++) {
            uint32_t after = graph->successors[node->first + k];
            if (add_rlx(&nodes[after].pending, UINT32_MAX) == 1) queue[reached++] = after;
        }
    }
    return reached;
}

/* A node that is never reached has a predecessor that is not reached either: enough steps back lead onto a cycle. */
static uint32_t find_cycle(weft_graph *graph) {
    struct node *nodes = graph->nodes;
    uint32_t count = graph->added.count;
    uint32_t *before = graph->kept;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (load_rlx(&nodes[i].pending) == 0) continue;
        at = i;
        for (uint32_t k = 0; k < nodes[i].successors; k++) before[graph->successors[nodes[i].first + k]] = i;
    }
    for (uint32_t i = 0; i < count; i++) at = before[at];
    uint32_t lowest = at;
    for (uint32_t i = before[at]; i != at; i = before[i]) lowest = i < lowest ? i : lowest;
    return lowest;
}

static int graph_build(weft_graph *graph, weft_node *on_cycle) {
    graph_unbuild(graph);
    if (!graph_allocate(graph)) return WEFT_ENOMEM;
    nodes_fill(graph);
    edges_fill(graph);
    edges_unite(graph);
    root_fill(graph);
    if (count_reached(graph) < graph->added.count) {
        uint32_t first = find_cycle(graph);
        if (on_cycle != NULL) *on_cycle = graph->tag | first;
        graph_unbuild(graph);
        return WEFT_ECYCLE;
    }
    for (uint32_t i = 0; i < graph->added.count; i++) store_rlx(&graph->nodes[i].pending, graph->nodes[i].needed);
    return WEFT_OK;
}

int weft_graph_build(weft_graph *graph, weft_node *on_cycle) {
    if (on_cycle != NULL) *on_cycle = 0;
    if (graph == NULL) return WEFT_EINVAL;
    if (!graph_use(graph, CHANGES)) return WEFT_EBUSY;
    return graph_leave(graph, graph_build(graph, on_cycle));
}

/* ---- walking ------------------------------------------------------------------------------------------------------ */

/* What one walk leaves to another: the payload of a task, or of a forked call. */
struct walk {
    weft_graph *graph;
    uint32_t first; /* the successors to arrive at, indices in graph->successors, when there is an end; else a ready node */
    uint32_t end;
};
_Static_assert(sizeof(struct walk) == TASK_OWN_BYTES && sizeof(struct walk) <= WEFT_FORK_BYTES, "a walk is a payload");

/* A predecessor has returned: is the node ready now? */
INLINE bool arrive(struct node *node) {
    if (node->needed <= 1) return true;
    if ((load_acq(Y1, &node->pending) & ~SKIP) == 1) return true;
    return (add_acq_rel(Y2, &node->pending, UINT32_MAX) & ~SKIP) == 1;
}

static NOINLINE void graph_fail(weft_graph *graph, const struct node *node, int code) {
    uint64_t mine = (uint64_t)(node - graph->nodes) << 32 | (uint32_t)code;
    uint64_t kept = load_rlx(&graph->failed);
    while (mine < kept)
        if (cas_rlx(Y3, &graph->failed, &kept, mine)) break;
    or_rlx(&graph->trouble, TROUBLE_FAILED);
}

/* Marks the node's successors, so that they do not run. */
static NOINLINE void skip_successors(weft_graph *graph, const struct node *node) {
    for (uint32_t i = 0; i < node->successors; i++) or_rlx(&graph->nodes[graph->successors[node->first + i]].pending, SKIP);
}

INLINE bool node_run(weft_graph *graph, const struct node *node, weft_worker *self) {
    int error = UNLIKELY(load_rlx(&self->running_since) != 0) ? observe.node(self, node->fn, node->context)
                                                              : node->fn(node->context, self);
    if (LIKELY(error == 0)) return true;
    graph_fail(graph, node, error);
    skip_successors(graph, node);
    return false;
}

/* If there is trouble: decides whether the node runs, and runs it. */
static NOINLINE void node_visit_slow(weft_graph *graph, const struct node *node, uint32_t was_pending, weft_worker *self) {
    bool is_cancelled = (load_rlx(&graph->trouble) & TROUBLE_LOOK) != 0 && weft_worker_cancelled(self);
    if (is_cancelled || pool_is_aborted(self->pool)) or_rlx(&graph->trouble, TROUBLE_CANCELLED);
    if ((was_pending & SKIP) != 0)
        skip_successors(graph, node);
    else if ((load_rlx(&graph->trouble) & TROUBLE_CANCELLED) == 0)
        node_run(graph, node, self);
}

INLINE void node_visit(weft_graph *graph, struct node *node, weft_worker *self) {
    if (UNLIKELY(load_rlx(&graph->trouble) || pool_is_aborted(self->pool))) {
        uint32_t was_pending = load_rlx(&node->pending);
        store_rlx(&node->pending, node->needed);
        node_visit_slow(graph, node, was_pending, self);
        return;
    }
    if (node->needed > 1) store_rlx(&node->pending, node->needed);
    node_run(graph, node, self);
}

static int walk_task(void *payload, weft_worker *self);
static void walk_forked(weft_fork_slot *here, void *payload);

/* A walk in progress. */
struct walker {
    weft_graph *graph;
    weft_worker *self;
    weft_fork_slot *first; /* of its region; NULL: there was no memory for one */
    weft_fork_slot *here;
    uint32_t kept; /* the node kept last, or NONE */
};

/* Leaves `walk` to other threads. false: there is no room for it. */
static bool walk_share(struct walker *walker, const struct walk *walk) {
    weft_fork_slot *here = walker->here;
    if (UNLIKELY(here == NULL || fork_is_full(here))) return task_publish_own(walker->self, walk_task, walk);
    memcpy(here->payload, walk, sizeof *walk);
    walker->here = weft_fork_slot_push(here, walk_forked);
    return true;
}

/* Shares a ready node. */
INLINE void node_share(struct walker *walker, const struct node *node) {
    weft_graph *graph = walker->graph;
    uint32_t index = (uint32_t)(node - graph->nodes);
    const struct walk walk = {graph, index, NONE};
    if (LIKELY(walk_share(walker, &walk))) return;
    graph->kept[index] = walker->kept;
    walker->kept = index;
}

/* The predecessor of these successors has returned. Returns the node to go on with, or NULL. */
INLINE struct node *walk_arrive(struct walker *walker, uint32_t first, uint32_t end) {
    const weft_graph *graph = walker->graph;
    struct node *next = NULL;
    while (UNLIKELY(end - first > LEAVE_MAX)) {
        const struct walk half = {walker->graph, first + (end - first) / 2, end};
        if (!walk_share(walker, &half)) break;
        end = half.first;
    }
    for (; first < end; first++) {
        struct node *after = &graph->nodes[graph->successors[first]];
        if (!arrive(after)) continue;
        if (next != NULL)
            node_share(walker, after);
        else
            next = after;
    }
    return next;
}

/* The node to begin with, or NULL. */
static struct node *walk_begin(struct walker *walker, const struct walk *walk) {
    if (walk->end == NONE) return &walker->graph->nodes[walk->first];
    return walk_arrive(walker, walk->first, walk->end);
}

/* Takes back what the walk shared and nobody has taken, newest first. Returns a node, or NULL. */
static struct node *walk_take_back(struct walker *walker) {
    struct node *node = NULL;
    while (node == NULL && walker->here != walker->first) {
        weft_fork_slot *slot = --walker->here;
        struct walk walk;
        if (!fork_retake(slot)) continue;
        memcpy(&walk, slot->payload, sizeof walk);
        node = walk_begin(walker, &walk);
    }
    if (LIKELY(node != NULL || walker->kept == NONE)) return node;
    node = &walker->graph->nodes[walker->kept];
    walker->kept = walker->graph->kept[walker->kept];
    return node;
}

/* The walk may share a part of what it begins with, although no node of the rest is ready. */
static void walk_run(struct walker *walker, const struct walk *walk) {
    struct node *node = walk_begin(walker, walk);
    while (node != NULL || (node = walk_take_back(walker)) != NULL) {
        node_visit(walker->graph, node, walker->self);
        node = walk_arrive(walker, node->first, node->first + node->successors);
        if (walker->here != walker->first && UNLIKELY(fork_is_asked(walker->here)))
            walker->here = fork_answer(walker->first, walker->here);
    }
}

static void walk_forked(weft_fork_slot *here, void *payload) {
    struct walk walk;
    memcpy(&walk, payload, sizeof walk);
    struct walker walker = {walk.graph, weft_fork_worker(here), here, here, NONE};
    fork_detach(walker.self);
    walk_run(&walker, &walk);
}

static int walk_task(void *payload, weft_worker *self) {
    const struct walk *walk = payload;
    record_mark_run(self->frame->record); /* before any other thread is in it */
    weft_fork_slot *first = fork_enter(self);
    struct walker walker = {walk->graph, self, first, first, NONE};
    walk_run(&walker, walk);
    if (first != NULL) fork_leave(first);
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static int graph_result(const weft_graph *graph) {
    uint64_t failed = load_rlx(&graph->failed);
    if (failed != NOT_FAILED) return (int)(uint32_t)failed;
    return (load_rlx(&graph->trouble) & TROUBLE_CANCELLED) != 0 ? WEFT_ECANCELED : WEFT_OK;
}

/* The calling thread begins the run if it may run anything. Otherwise it submits just one task, so the queue's bound does
 * not concern it. */
static int graph_run(struct weft_worker *seat, weft_graph *graph) {
    if (graph->nodes == NULL) return WEFT_EINVAL;
    store_rlx(&graph->trouble, 0);
    store_rlx(&graph->failed, NOT_FAILED);
    weft_pool *pool = seat->pool;
    const struct node *root = &graph->nodes[graph->added.count];
    struct walk walk = {graph, root->first, root->first + root->successors};
    int error;
    if (seat->is_worker || pool->helps) {
        error = weft_run(pool, &graph->group, walk_task, &walk);
    } else {
        seat->hands_over = true;
        error = task_submit_own(pool, &graph->group, walk_task, &walk);
        seat->hands_over = false;
    }
    /* Also after an error: the group may have been opened, and cancelled. No node may have seen that it was. */
    if (task_await_own(pool, &graph->group)) or_rlx(&graph->trouble, TROUBLE_CANCELLED);
    return error == WEFT_OK ? graph_result(graph) : error;
}

int weft_graph_run(weft_pool *pool, weft_graph *graph) {
    if (pool == NULL || graph == NULL || load_rlx(&graph->use) == 0) return WEFT_EINVAL;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    guest_enter(seat);
    error = graph_use(graph, RUNS) ? graph_leave(graph, graph_run(seat, graph)) : WEFT_EBUSY;
    guest_leave(seat);
    return error;
}

int weft_graph_cancel(weft_pool *pool, weft_graph *graph) {
    if (pool == NULL || graph == NULL) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    if (load_rlx(id_of(&graph->group)) == 0) return WEFT_OK;
    if (weft_group_cancel(pool, &graph->group) != WEFT_OK) return WEFT_OK; /* it runs elsewhere */
    or_rlx(&graph->trouble, TROUBLE_LOOK);
    return WEFT_OK;
}
