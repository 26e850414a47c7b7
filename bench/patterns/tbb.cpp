// oneTBB: parallel_invoke, task_group, parallel_for with its automatic partitioner, a flow graph.
#include "tbb.hpp"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_group.h>

#include <memory>
#include <vector>

namespace {

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

struct Graph {
    tbb::flow::graph graph;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Node *> roots;
};

struct Team : TbbTeam {
    std::vector<std::unique_ptr<Graph>> graphs;
    using TbbTeam::TbbTeam;
};

void *create(const entrant_config *config) { return new Team(config); }

void destroy(void *pool) { delete static_cast<Team *>(pool); }

uint64_t fib_count(unsigned n) {
    if (n < 2) return n;
    uint64_t a, b;
    tbb::parallel_invoke([&] { a = fib_count(n - 1); }, [&] { b = fib_count(n - 2); });
    return a + b;
}

uint64_t fib(void *, unsigned n) { return fib_count(n); }

uint64_t queens_count(queens_row row) {
    if (queens_done(&row)) return 1;
    uint32_t free = queens_free(&row);
    if (free == 0) return 0;
    if ((free & (free - 1)) == 0) return queens_count(queens_place(&row, free));
    uint64_t below[32], all = 0;
    unsigned count = 0;
    tbb::task_group group;
    for (; (free & (free - 1)) != 0; free &= free - 1) {
        group.run([&result = below[count++], next = queens_place(&row, free & (0 - free))] { result = queens_count(next); });
    }
    all = queens_count(queens_place(&row, free));
    group.wait();
    for (unsigned i = 0; i < count; i++) all += below[i];
    return all;
}

uint64_t nqueens(void *, unsigned n) { return queens_count(queens_first(n)); }

uint64_t uts_count(const uts_tree &tree, const uts_node &node);

uint64_t uts_range(const uts_tree &tree, const uts_node &node, uint32_t first, uint32_t end) {
    if (end - first == 1) return uts_count(tree, uts_child(&node, first));
    uint32_t middle = first + (end - first) / 2;
    uint64_t low, high;
    tbb::parallel_invoke([&] { low = uts_range(tree, node, first, middle); },
                         [&] { high = uts_range(tree, node, middle, end); });
    return low + high;
}

uint64_t uts_count(const uts_tree &tree, const uts_node &node) {
    uint32_t children = uts_children(&tree, &node);
    return children == 0 ? 1 : 1 + uts_range(tree, node, 0, children);
}

uint64_t uts(void *, const uts_tree *tree) { return uts_count(*tree, uts_root(tree)); }

int loop(void *, const pattern_loop *loop) { return tbb_loop(loop, tbb::auto_partitioner()); }

void *graph_make(void *pool, const pattern_graph *graph) {
    auto made = std::make_unique<Graph>();
    for (uint32_t i = 0; i < graph->nodes; i++) {
        auto body = [graph, i](const tbb::flow::continue_msg &) { graph->body(graph->context, i); };
        made->nodes.push_back(std::make_unique<Node>(made->graph, body));
        uint32_t first = graph->before_start[i], end = graph->before_start[i + 1];
        if (first == end) made->roots.push_back(made->nodes.back().get());
        for (uint32_t k = first; k < end; k++) tbb::flow::make_edge(*made->nodes[graph->before[k]], *made->nodes[i]);
    }
    auto &graphs = static_cast<Team *>(pool)->graphs;
    graphs.push_back(std::move(made));
    return graphs.back().get();
}

int graph_run(void *, void *made) {
    auto *own = static_cast<Graph *>(made);
    for (Node *root : own->roots) root->try_put(tbb::flow::continue_msg());
    own->graph.wait_for_all();
    return 0;
}

} // namespace

extern "C" const patterns weft_patterns = {
    PATTERNS_VERSION,
    ENTRANT_CALLER_RUNS,
    "tbb",
    "oneTBB: parallel_invoke, task_group, parallel_for, flow graph",
    1,
    0,
    create,
    destroy,
    tbb_enter,
    fib,
    nqueens,
    uts,
    loop,
    graph_make,
    graph_run,
};
