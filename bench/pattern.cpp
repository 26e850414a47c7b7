// See pattern.hpp.
#include "pattern.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <time.h>

namespace {

std::string two(const char *what, uint64_t have, uint64_t want) {
    return std::string(what) + std::to_string(have) + " instead of " + std::to_string(want);
}

// ---- recursion: sizes come in steps, each with its number of calls and its result

struct Step {
    uint64_t tasks;
    uint64_t result;
};

class Recursion : public Pattern {
    std::vector<Step> steps; // steps[i] is of size i + 1; computed as far as they were needed
    size_t steps_max;
    uint64_t got = 0;

    virtual Step measure(unsigned size, const std::vector<Step> &before) const = 0;
    virtual uint64_t call(const patterns &table, void *pool, unsigned size) const = 0;

    size_t index_of(uint64_t tasks) {
        while ((steps.empty() || steps.back().tasks < tasks) && steps.size() < steps_max) {
            steps.push_back(measure(static_cast<unsigned>(steps.size() + 1), steps));
        }
        size_t i = 0;
        while (i + 1 < steps.size() && steps[i + 1].tasks <= tasks) i++;
        return i;
    }

  public:
    explicit Recursion(size_t most) : steps_max(most) {}
    uint64_t fit(uint64_t tasks) override { return steps[index_of(tasks)].tasks; }
    void reset(uint64_t tasks) override { index_of(tasks); }
    int run(const patterns &table, void *pool, uint64_t tasks) override {
        got = call(table, pool, static_cast<unsigned>(index_of(tasks) + 1));
        return 0;
    }
    std::string wrong(uint64_t tasks) override {
        uint64_t want = steps[index_of(tasks)].result;
        return got == want ? "" : two("a wrong result: ", got, want);
    }
};

class Fib : public Recursion {
    Step measure(unsigned n, const std::vector<Step> &) const override {
        return {2 * job_fib_value(n + 1) - 1, job_fib_value(n)};
    }
    uint64_t call(const patterns &table, void *pool, unsigned n) const override { return table.fib(pool, n); }

  public:
    Fib() : Recursion(60) {}
};

class Queens : public Recursion {
    static Step count(const queens_row &row) {
        if (queens_done(&row)) return {1, 1};
        Step all = {1, 0};
        for (uint32_t free = queens_free(&row); free != 0; free &= free - 1) {
            Step below = count(queens_place(&row, free & (0 - free)));
            all.tasks += below.tasks;
            all.result += below.result;
        }
        return all;
    }
    Step measure(unsigned n, const std::vector<Step> &) const override { return count(queens_first(n)); }
    uint64_t call(const patterns &table, void *pool, unsigned n) const override { return table.nqueens(pool, n); }

  public:
    Queens() : Recursion(16) {}
};

// Geometric: the size is the number of levels. Binomial: the size counts the root's children in steps of twenty. The seeds
// give trees of about as many nodes as UTS's T1 (ten levels) and T3 (2000 children of the root).
class Uts : public Recursion {
    static constexpr uint64_t geometric_seed = 27, binomial_seed = 21;
    static constexpr unsigned children_step = 20, children_max = 2000, levels_max = 14;
    bool binomial;

    uts_tree tree(unsigned size) const {
        return binomial ? uts_tree{binomial_seed, 0, size * children_step} : uts_tree{geometric_seed, size, 0};
    }
    static uint64_t count(const uts_tree &tree, const uts_node &node) {
        uint64_t all = 1;
        uint32_t children = uts_children(&tree, &node);
        for (uint32_t i = 0; i < children; i++) all += count(tree, uts_child(&node, i));
        return all;
    }
    Step measure(unsigned size, const std::vector<Step> &before) const override {
        uts_tree whole = tree(size);
        uts_node root = uts_root(&whole);
        uint64_t nodes = binomial && !before.empty() ? before.back().tasks : 1;
        uint32_t first = binomial ? (size - 1) * children_step : 0, end = uts_children(&whole, &root);
        for (uint32_t i = first; i < end; i++) nodes += count(whole, uts_child(&root, i));
        return {nodes, nodes};
    }
    uint64_t call(const patterns &table, void *pool, unsigned size) const override {
        uts_tree whole = tree(size);
        return table.uts(pool, &whole);
    }

  public:
    explicit Uts(bool is_binomial)
        : Recursion(is_binomial ? children_max / children_step : levels_max), binomial(is_binomial) {}
};

// ---- loops: a task is a region

class Loop : public Pattern {
    pattern_loop loop;

  public:
    Loop(size_t n, size_t grain, pattern_body body, void *context) : loop{n, grain, body, context} {}
    uint64_t fit(uint64_t tasks) override { return std::max<uint64_t>(tasks, 1); }
    void reset(uint64_t) override { jobs_reset(); }
    int region(const patterns &table, void *pool) { return table.loop(pool, &loop); }
    int run(const patterns &table, void *pool, uint64_t tasks) override {
        int error = 0;
        for (uint64_t i = 0; i < tasks && error == 0; i++) error = region(table, pool);
        return error;
    }
    std::string wrong(uint64_t tasks) override {
        job_totals have = jobs_total();
        uint64_t count = tasks * loop.n, sum = tasks * (loop.n * (loop.n - 1) / 2);
        if (have.count != count) return two("not every index ran exactly once: ", have.count, count);
        return have.sum == sum ? "" : two("indices run twice and indices left out: their sum is ", have.sum, sum);
    }
};

class SpinLoop : public Loop {
    uint32_t iterations;

  public:
    explicit SpinLoop(uint32_t per_us) : Loop(64, 1, job_range_spin, &iterations), iterations(per_us * 2 / 5) {}
};

// Each region begins after a sleep, and its time is one sample.
class ColdLoop : public SpinLoop {
    std::vector<double> times_ns;

    static double now_ns() {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
    }

  public:
    using SpinLoop::SpinLoop;
    int run(const patterns &table, void *pool, uint64_t tasks) override {
        int error = 0;
        times_ns.clear();
        for (uint64_t i = 0; i < tasks && error == 0; i++) {
            timespec pause = {0, 1000000};
            nanosleep(&pause, nullptr);
            double start_ns = now_ns();
            error = region(table, pool);
            times_ns.push_back(now_ns() - start_ns);
        }
        return error;
    }
    std::vector<double> samples() override { return times_ns; }
};

// Small whole numbers, so that every sum is exact.
class AxpyLoop : public Loop {
    static constexpr size_t size = size_t{1} << 20;
    std::vector<double> x, y;
    job_axpy_context vectors;

  public:
    explicit AxpyLoop(size_t grain)
        : Loop(size, grain, job_range_axpy, &vectors), x(size), y(size), vectors{x.data(), y.data()} {
        for (size_t i = 0; i < size; i++) x[i] = static_cast<double>(i % 7);
    }
    void reset(uint64_t tasks) override {
        Loop::reset(tasks);
        std::fill(y.begin(), y.end(), 0.0);
    }
    std::string wrong(uint64_t tasks) override {
        for (size_t i = 0; i < size; i++) {
            if (y[i] != x[i] * static_cast<double>(tasks)) return "a wrong sum at " + std::to_string(i);
        }
        return Loop::wrong(tasks);
    }
};

// ---- graphs: a task is a node. A node mixes its last value with those of the nodes it waits for, so the final values show
// a node that ran early.

class Graph : public Pattern {
    std::vector<uint32_t> before_start, before, after_start, after;
    std::vector<uint64_t> values;
    pattern_graph graph{};
    uint32_t iterations;
    void *made = nullptr;
    const patterns *maker = nullptr;

    static void body(void *context, uint32_t node) {
        auto *self = static_cast<Graph *>(context);
        uint64_t value = self->values[node] + node;
        for (uint32_t i = self->before_start[node]; i < self->before_start[node + 1]; i++) {
            value = uts_mix(value ^ self->values[self->before[i]]);
        }
        job_spin(self->iterations);
        self->values[node] = value + 1;
    }

    void finish() {
        auto nodes = static_cast<uint32_t>(before_start.size() - 1);
        after_start.assign(nodes + 1, 0);
        for (uint32_t to : before) after_start[to + 1]++;
        for (uint32_t i = 0; i < nodes; i++) after_start[i + 1] += after_start[i];
        std::vector<uint32_t> next = after_start;
        after.resize(before.size());
        for (uint32_t i = 0; i < nodes; i++) {
            for (uint32_t k = before_start[i]; k < before_start[i + 1]; k++) after[next[before[k]]++] = i;
        }
        values.assign(nodes, 0);
        graph = {nodes, before_start.data(), before.data(), after_start.data(), after.data(), body, this};
    }

    void wavefront() {
        constexpr uint32_t side = 64;
        for (uint32_t i = 0; i < side * side; i++) {
            if (i >= side) before.push_back(i - side);
            if (i % side != 0) before.push_back(i - 1);
            before_start.push_back(static_cast<uint32_t>(before.size()));
        }
    }

    // Each node waits for one to four of the 64 before it.
    void random() {
        constexpr uint32_t nodes = 4096, reach = 64;
        uint64_t state = 1;
        for (uint32_t i = 0; i < nodes; i++) {
            auto first = static_cast<std::ptrdiff_t>(before.size());
            uint64_t edges = i == 0 ? 0 : 1 + (state = uts_mix(state + i)) % 4;
            for (uint64_t k = 0; k < edges; k++) {
                auto back = static_cast<uint32_t>((state = uts_mix(state + k)) % std::min(i, reach));
                before.push_back(i - 1 - back);
            }
            std::sort(before.begin() + first, before.end());
            before.erase(std::unique(before.begin() + first, before.end()), before.end());
            before_start.push_back(static_cast<uint32_t>(before.size()));
        }
    }

  public:
    Graph(bool is_wavefront, uint32_t spins) : iterations(spins) {
        before_start.push_back(0);
        if (is_wavefront)
            wavefront();
        else
            random();
        finish();
    }
    uint64_t fit(uint64_t tasks) override { return std::max<uint64_t>(tasks / graph.nodes, 1) * graph.nodes; }
    void reset(uint64_t) override { std::fill(values.begin(), values.end(), 0); }
    int run(const patterns &table, void *pool, uint64_t tasks) override {
        if (maker != &table) made = table.graph_make(pool, &graph);
        maker = &table;
        if (made == nullptr) throw std::runtime_error("the graph could not be made");
        int error = 0;
        for (uint64_t i = 0; i < tasks / graph.nodes && error == 0; i++) error = table.graph_run(pool, made);
        return error;
    }
    std::string wrong(uint64_t tasks) override {
        uint32_t spins = 0;
        std::vector<uint64_t> have = values;
        std::swap(iterations, spins);
        reset(tasks);
        for (uint64_t run = 0; run < tasks / graph.nodes; run++) {
            for (uint32_t i = 0; i < graph.nodes; i++) body(this, i);
        }
        std::swap(iterations, spins);
        return have == values ? "" : "a node ran before one it waits for, or not exactly once";
    }
};

} // namespace

std::unique_ptr<Pattern> pattern_make(const WorkloadConfig &config) {
    const std::string &workload = config.workload, &name = config.name;
    uint32_t per_us = config.iterations_per_us;
    if (workload == "fib") return std::make_unique<Fib>();
    if (workload == "nqueens") return std::make_unique<Queens>();
    if (workload == "uts") return std::make_unique<Uts>(name == "binomial");
    if (workload == "loop-empty64") return std::make_unique<Loop>(64, 1, job_range_empty, nullptr);
    if (workload == "loop-spin64") return std::make_unique<SpinLoop>(per_us);
    if (workload == "loop-axpy") return std::make_unique<AxpyLoop>(4096);
    if (workload == "loop-groups") return std::make_unique<AxpyLoop>(std::stoul(name));
    if (workload == "loop-cold") return std::make_unique<ColdLoop>(per_us);
    if (workload != "graph") return nullptr;
    bool empty = name.find("empty") != std::string::npos;
    return std::make_unique<Graph>(name.find("wavefront") == 0, empty ? 0 : per_us * 2 / 5);
}

unsigned pattern_needs(const std::string &workload) {
    if (workload == "fib") return need_fib;
    if (workload == "nqueens") return need_nqueens;
    if (workload == "uts") return need_uts;
    if (workload.compare(0, 5, "loop-") == 0) return need_loop;
    return workload == "graph" ? need_graph : 0U;
}

unsigned pattern_offers(const patterns &table) {
    return (table.fib != nullptr ? need_fib : 0U) | (table.nqueens != nullptr ? need_nqueens : 0U) |
           (table.uts != nullptr ? need_uts : 0U) | (table.loop != nullptr ? need_loop : 0U) |
           (table.graph_make != nullptr && table.graph_run != nullptr ? need_graph : 0U);
}
