/* workload.c: see workload.h. Each workload has a round; the first warms up and does not count. */
#include "workload.h"

#include <stdlib.h>
#include <string.h>

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

struct job {
    struct play *play;
    uint64_t since_ns; /* submitted */
    uint64_t ns;
};

static void note_wait(struct play *play, uint64_t since_ns) {
    if (play->waits == NULL || since_ns == 0) return;
    uint64_t now = play->on->now_ns(), at = __atomic_fetch_add(&play->wait_count, 1, __ATOMIC_RELAXED);
    if (at < play->waits_max) play->waits[at] = (uint32_t)(now > since_ns ? now - since_ns : 0);
}

static int run_job(void *payload, weft_worker *self) {
    const struct job *job = payload;
    (void)self;
    note_wait(job->play, job->since_ns);
    if (job->ns != 0) job->play->on->work(job->ns);
    return 0;
}

static struct job job_of(struct play *play, uint64_t ns) {
    return (struct job){play, play->waits == NULL ? 0 : play->on->now_ns(), ns};
}

static int submit(struct play *play, weft_pool *pool, weft_group *group, uint64_t ns) {
    struct job job = job_of(play, ns);
    return weft_submit(pool, group, run_job, &job, sizeof job);
}

/* As many threads as can run tasks. The caller helps while it waits. */
static uint64_t hands(const struct play *play) {
    uint64_t cpus = weft_cpu_count();
    return play->workers + 1 < cpus ? play->workers + 1 : cpus;
}

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t least_ns(const struct play *play, uint64_t work_ns, uint64_t longest_ns) {
    return max_of((work_ns + hands(play) - 1) / hands(play), longest_ns);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------- */

typedef int (*round_fn)(struct play *play, weft_pool *pool, struct outcome *outcome);

/* Each round adds its tasks, their work and its ideal to the outcome. */
static int run_rounds(struct play *play, weft_pool *pool, struct outcome *all, round_fn round) {
    struct outcome warm = {0};
    uint32_t *waits = play->waits;
    play->waits = NULL;
    int error = round(play, pool, &warm);
    play->waits = waits;
    play->on->begin(pool);
    uint64_t start = play->on->now_ns();
    for (unsigned i = 0; i < play->rounds && error == 0; i++) error = round(play, pool, all);
    all->elapsed_ns = play->on->now_ns() - start;
    play->on->end(pool);
    return error;
}

static void add(struct outcome *all, uint64_t tasks, uint64_t work_ns, uint64_t ideal_ns) {
    all->tasks += tasks;
    all->work_ns += work_ns;
    all->ideal_ns += ideal_ns;
}

static uint64_t count_of(const struct play *play, uint64_t usual) { return play->tasks != 0 ? play->tasks : usual; }

/* ---- submit, fib: one thread submits all, then waits -------------------------------------------------------------- */

static int flood_round(struct play *play, weft_pool *pool, uint64_t tasks, struct outcome *all) {
    weft_group group = WEFT_GROUP_INIT;
    int error = 0;
    for (uint64_t i = 0; i < tasks && error == 0; i++) error = submit(play, pool, &group, play->task_ns);
    int waited = weft_group_wait(pool, &group);
    add(all, tasks, tasks * play->task_ns, least_ns(play, tasks * play->task_ns, play->task_ns));
    return error != 0 ? error : waited;
}

static int submit_round(struct play *play, weft_pool *pool, struct outcome *all) {
    return flood_round(play, pool, count_of(play, 20000), all);
}
static int submit_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, submit_round);
}

static int fib_round(struct play *play, weft_pool *pool, struct outcome *all) {
    return flood_round(play, pool, count_of(play, 100 * hands(play)), all);
}
static int fib_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, fib_round);
}

/* ---- producers: as many threads as workers submit, each to a group of its own, and wait --------------------------- */

struct producers {
    struct play *play;
    weft_pool *pool;
    uint64_t tasks;
    int error;
};

static void produce(unsigned index, void *context) {
    struct producers *producers = context;
    weft_group group = WEFT_GROUP_INIT;
    (void)index;
    for (uint64_t i = 0; i < producers->tasks; i++) {
        int error = submit(producers->play, producers->pool, &group, producers->play->task_ns);
        if (error != 0) __atomic_store_n(&producers->error, error, __ATOMIC_RELAXED);
    }
    int error = weft_group_wait(producers->pool, &group);
    if (error != 0) __atomic_store_n(&producers->error, error, __ATOMIC_RELAXED);
}

static int producers_round(struct play *play, weft_pool *pool, struct outcome *all) {
    unsigned threads = play->submitters != 0 ? play->submitters : play->workers;
    struct producers producers = {play, pool, count_of(play, 5000), 0};
    play->on->together(threads, produce, &producers);
    uint64_t work = threads * producers.tasks * play->task_ns;
    add(all, threads * producers.tasks, work, least_ns(play, work, play->task_ns));
    return producers.error;
}
static int producers_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, producers_round);
}

/* ---- chain: each task submits the next ---------------------------------------------------------------------------- */

struct hop {
    struct job job;
    weft_pool *pool;
    uint64_t left;
};

static int run_hop(void *payload, weft_worker *self) {
    struct hop hop = *(struct hop *)payload;
    run_job(&hop.job, self);
    hop.job = job_of(hop.job.play, hop.job.ns);
    return hop.left-- > 0 ? weft_submit_child(self, run_hop, &hop, sizeof hop) : 0;
}

static int chain_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t hops = count_of(play, 10000);
    weft_group group = WEFT_GROUP_INIT;
    struct hop hop = {job_of(play, play->task_ns), pool, hops - 1};
    int error = weft_submit(pool, &group, run_hop, &hop, sizeof hop);
    int waited = weft_group_wait(pool, &group);
    add(all, hops, hops * play->task_ns, hops * play->task_ns);
    return error != 0 ? error : waited;
}
static int chain_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, chain_round);
}

/* ---- asked: one task at a time, submitted and waited for by a thread that does not help --------------------------- */

static int asked_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t tasks = count_of(play, 2000);
    int error = 0;
    for (uint64_t i = 0; i < tasks && error == 0; i++) {
        weft_group group = WEFT_GROUP_INIT;
        error = submit(play, pool, &group, play->task_ns);
        int waited = weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0);
        if (error == 0) error = waited;
    }
    add(all, tasks, tasks * play->task_ns, tasks * play->task_ns);
    return error;
}
static int asked_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, asked_round);
}

/* ---- loops: 64 x 0.4 us; 64 of them at once, each in a task; and one after another -------------------------------- */

enum { LOOP_ITEMS = 64 };

static int loop_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct play *play = context;
    (void)self;
    play->on->work((end - begin) * play->task_ns);
    return 0;
}

struct loop {
    struct play *play;
    weft_pool *pool;
};

static int run_loop(void *payload, weft_worker *self) {
    const struct loop *loop = payload;
    (void)self;
    return weft_for(loop->pool, (weft_range){0, LOOP_ITEMS, 0}, loop_body, loop->play);
}

static int loop_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t loops = count_of(play, 64);
    weft_group group = WEFT_GROUP_INIT;
    struct loop loop = {play, pool};
    int error = 0;
    for (uint64_t i = 0; i < loops && error == 0; i++) error = weft_submit(pool, &group, run_loop, &loop, sizeof loop);
    int waited = weft_group_wait(pool, &group);
    uint64_t work = loops * LOOP_ITEMS * play->task_ns;
    add(all, loops, work, least_ns(play, work, play->task_ns));
    return error != 0 ? error : waited;
}
static int loop_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, loop_round);
}

static int turns_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t loops = count_of(play, 64);
    int error = 0;
    for (uint64_t i = 0; i < loops && error == 0; i++)
        error = weft_for(pool, (weft_range){0, LOOP_ITEMS, 0}, loop_body, play);
    uint64_t work = LOOP_ITEMS * play->task_ns;
    add(all, loops, loops * work, loops * least_ns(play, work, play->task_ns));
    return error;
}
static int turns_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, turns_round);
}

/* ---- slot: every half millisecond 13 tasks, join, 12 tasks, join, at 60 % load ------------------------------------ */

enum { SLOT_NS = 500000, SLOT_FIRST = 13, SLOT_THEN = 12, SLOTS = 60, SLOT_LOAD = 60 };

static int slot_join(struct play *play, weft_pool *pool, unsigned tasks, uint64_t ns) {
    weft_group group = WEFT_GROUP_INIT;
    int error = 0;
    for (unsigned i = 0; i < tasks && error == 0; i++) error = submit(play, pool, &group, ns);
    int waited = weft_group_wait(pool, &group);
    return error != 0 ? error : waited;
}

static int compare_u64(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Of one round, for slots keep to the clock. */
static int slot_run(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t slots = count_of(play, SLOTS), warm = slots / 3;
    uint64_t rounds = (SLOT_FIRST + hands(play) - 1) / hands(play) + (SLOT_THEN + hands(play) - 1) / hands(play);
    uint64_t ns = play->task_ns != 0 ? play->task_ns : (uint64_t)SLOT_NS * SLOT_LOAD / 100 / rounds;
    uint64_t *took_ns = calloc(slots, sizeof *took_ns);
    uint32_t *waits = play->waits;
    int error = took_ns == NULL ? WEFT_ENOMEM : 0;
    uint64_t beat = play->on->now_ns();
    play->waits = NULL;
    for (uint64_t i = 0; i < warm + slots && error == 0; i++) {
        beat = max_of(beat + SLOT_NS, play->on->now_ns());
        play->on->sleep_until(beat);
        if (i == warm) play->on->begin(pool);
        if (i == warm) play->waits = waits;
        uint64_t start = play->on->now_ns();
        error = slot_join(play, pool, SLOT_FIRST, ns);
        if (error == 0) error = slot_join(play, pool, SLOT_THEN, ns);
        if (i >= warm) took_ns[i - warm] = play->on->now_ns() - start;
    }
    play->on->end(pool);
    for (uint64_t i = 0; i < slots && error == 0; i++) all->elapsed_ns += took_ns[i];
    if (error == 0) qsort(took_ns, slots, sizeof *took_ns, compare_u64);
    if (error == 0) all->worst_ns = took_ns[(slots * 99 + 99) / 100 - 1];
    free(took_ns);
    uint64_t tasks = SLOT_FIRST + SLOT_THEN;
    add(all, slots * tasks, slots * tasks * ns, slots * rounds * ns);
    return error;
}

/* ---- nested: a task opens group after group of one task, and waits for each --------------------------------------- */

struct nest {
    struct play *play;
    weft_pool *pool;
    uint64_t groups;
};

static int run_nest(void *payload, weft_worker *self) {
    const struct nest *nest = payload;
    int error = 0;
    (void)self;
    for (uint64_t i = 0; i < nest->groups && error == 0; i++) {
        weft_group group = WEFT_GROUP_INIT;
        error = submit(nest->play, nest->pool, &group, nest->play->task_ns);
        if (error == 0) error = weft_group_wait(nest->pool, &group);
    }
    return error;
}

static int nested_round(struct play *play, weft_pool *pool, struct outcome *all) {
    weft_group group = WEFT_GROUP_INIT;
    struct nest nest = {play, pool, count_of(play, 5000)};
    int error = weft_submit(pool, &group, run_nest, &nest, sizeof nest);
    int waited = weft_group_wait(pool, &group);
    add(all, nest.groups, nest.groups * play->task_ns, nest.groups * play->task_ns);
    return error != 0 ? error : waited;
}
static int nested_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, nested_round);
}

/* ---- groups: one task for each of 256 groups, then a wait for each ------------------------------------------------ */

enum { GROUPS = 256 };

static int groups_round(struct play *play, weft_pool *pool, struct outcome *all) {
    weft_group groups[GROUPS];
    uint64_t turns = count_of(play, 20);
    int error = 0;
    for (uint64_t turn = 0; turn < turns && error == 0; turn++) {
        memset(groups, 0, sizeof groups);
        for (unsigned i = 0; i < GROUPS && error == 0; i++) error = submit(play, pool, &groups[i], play->task_ns);
        for (unsigned i = 0; i < GROUPS; i++) {
            int waited = weft_group_wait(pool, &groups[i]);
            if (error == 0) error = waited;
        }
    }
    uint64_t work = turns * GROUPS * play->task_ns;
    add(all, turns * GROUPS, work, least_ns(play, work, play->task_ns));
    return error;
}
static int groups_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, groups_round);
}

/* ---- graph: layers as wide as there are threads; each node after three of the layer before ------------------------ */

enum { GRAPH_LAYERS = 16, GRAPH_EDGES = 3 };

static int run_node(void *payload, weft_worker *self) {
    const struct play *play = payload;
    (void)self;
    play->on->work(play->task_ns);
    return 0;
}

static int graph_make(struct play *play, weft_graph *graph, weft_node *nodes, uint64_t wide) {
    for (uint64_t i = 0; i < wide * GRAPH_LAYERS; i++) {
        int error = weft_graph_add(graph, &nodes[i], run_node, play);
        for (uint64_t edge = 0; edge < GRAPH_EDGES && i >= wide && error == 0; edge++)
            error = weft_graph_edge(graph, nodes[(i / wide - 1) * wide + (i + edge) % wide], nodes[i]);
        if (error != 0) return error;
    }
    return weft_graph_build(graph, NULL);
}

static weft_graph *graph_now; /* of the run */

static int graph_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t nodes = hands(play) * GRAPH_LAYERS, runs = count_of(play, 20);
    int error = 0;
    for (uint64_t i = 0; i < runs && error == 0; i++) error = weft_graph_run(pool, graph_now);
    add(all, runs * nodes, runs * nodes * play->task_ns, runs * GRAPH_LAYERS * play->task_ns);
    return error;
}

static int graph_run(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t wide = hands(play);
    weft_node *nodes = calloc(wide * GRAPH_LAYERS, sizeof *nodes);
    int error = nodes == NULL ? WEFT_ENOMEM : weft_graph_create(&graph_now);
    if (error == 0) error = graph_make(play, graph_now, nodes, wide);
    if (error == 0) error = run_rounds(play, pool, all, graph_round);
    if (graph_now != NULL) weft_graph_destroy(&graph_now);
    free(nodes);
    return error;
}

/* ---- irregular: a tree of tasks; lengths and numbers of children are drawn ---------------------------------------- */

struct branch {
    struct job job;
    uint64_t seed;
    uint64_t tasks; /* in this subtree */
};

static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Most are short, a few are long: 1/4 to 8 times task_ns. */
static uint64_t length_of(const struct branch *branch) {
    uint64_t draw = scramble(branch->seed);
    return (branch->job.play->task_ns / 4) << (__builtin_ctzll(draw | 32));
}

static int run_branch(void *payload, weft_worker *self) {
    struct branch branch = *(struct branch *)payload;
    int error = 0;
    branch.job.ns = length_of(&branch);
    run_job(&branch.job, self);
    uint64_t left = branch.tasks - 1, children = 1 + scramble(branch.seed + 1) % 4;
    for (uint64_t i = 0; i < children && left > 0 && error == 0; i++) {
        uint64_t share = i + 1 == children ? left : left / 2 + 1;
        struct branch child = {job_of(branch.job.play, 0), scramble(branch.seed * 4 + i + 2), share};
        left -= share;
        error = weft_submit_child(self, run_branch, &child, sizeof child);
    }
    return error;
}

/* What the tree's tasks do together. */
static uint64_t tree_ns(const struct branch *branch, uint64_t *tasks) {
    uint64_t ns = length_of(branch), left = branch->tasks - 1, children = 1 + scramble(branch->seed + 1) % 4;
    ++*tasks;
    for (uint64_t i = 0; i < children && left > 0; i++) {
        uint64_t share = i + 1 == children ? left : left / 2 + 1;
        struct branch child = {branch->job, scramble(branch->seed * 4 + i + 2), share};
        left -= share;
        ns += tree_ns(&child, tasks);
    }
    return ns;
}

static int irregular_round(struct play *play, weft_pool *pool, struct outcome *all) {
    uint64_t roots = hands(play) * 4, each = count_of(play, 50), work = 0, tasks = 0;
    weft_group group = WEFT_GROUP_INIT;
    int error = 0;
    for (uint64_t i = 0; i < roots && error == 0; i++) {
        struct branch root = {job_of(play, 0), scramble(play->seed + i), each};
        error = weft_submit(pool, &group, run_branch, &root, sizeof root);
        work += tree_ns(&root, &tasks);
    }
    int waited = weft_group_wait(pool, &group);
    add(all, tasks, work, least_ns(play, work, 0));
    return error != 0 ? error : waited;
}
static int irregular_run(struct play *play, weft_pool *pool, struct outcome *all) {
    return run_rounds(play, pool, all, irregular_round);
}

/* ---- the list ----------------------------------------------------------------------------------------------------- */

const struct workload workloads[] = {
    {"submit", "one thread submits empty tasks, then waits", 0, submit_run},
    {"producers", "as many threads as workers, or --submitters, do that, each with a group of its own", 0, producers_run},
    {"chain", "each task submits the next", 0, chain_run},
    {"asked", "one task at a time, submitted and waited for by a thread that does not help", 0, asked_run},
    {"fib", "one thread submits tasks as long as fib(19), 7 us, 100 for each thread", 7000, fib_run},
    {"loop", "64 tasks, each a loop of 64 x 0.4 us", 400, loop_run},
    {"turns", "64 loops of 64 x 0.4 us one after another", 400, turns_run},
    {"slot", "every 0.5 ms 13 tasks, join, 12 tasks, join; 60 % load", 0, slot_run},
    {"nested", "a task waits for group after group of one empty task", 0, nested_run},
    {"groups", "one thread submits a task to each of 256 groups, then waits for each", 0, groups_run},
    {"graph", "16 layers as wide as there are threads, each node after three of the layer before, 5 us", 5000, graph_run},
    {"irregular", "trees of tasks of 0.25 to 8 times 4 us", 4000, irregular_run},
    {NULL, NULL, 0, NULL},
};

const struct workload *workload_find(const char *name) {
    for (const struct workload *one = workloads; one->name != NULL; one++)
        if (strcmp(one->name, name) == 0) return one;
    return NULL;
}

int workload_play(const struct workload *workload, struct play *play, struct outcome *outcome) {
    weft_pool *pool;
    memset(outcome, 0, sizeof *outcome);
    play->config.workers = play->workers;
    int error = weft_pool_create(&pool, &play->config);
    if (error != 0) return error;
    if (play->task_ns == 0) play->task_ns = workload->task_ns;
    error = workload->run(play, pool, outcome);
    int ended = weft_pool_destroy(&pool);
    return error != 0 ? error : ended;
}
