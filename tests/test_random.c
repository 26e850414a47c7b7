/* test_random.c: pools of all kinds, whose tasks, bodies of loops, forked calls and nodes do at random what may be done
 * there: submit, wait in each way, fork, loop, run graphs, hold, cancel, boost, block. Each count is checked; what hangs
 * runs into ctest's limit. WEFT_TEST_SEED and WEFT_TEST_POOLS choose others; a failure prints its pool's seed. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { ACTS_MAX = 400, OUTSIDE_MAX = 4, NODES = 40, DEPTH = 3 };

static struct {
    weft_pool *pool;
    weft_config config;
    unsigned long seed;
    atomic_int acts_left; /* after these nothing nests any more */
    atomic_uint children;
    unsigned left;
    atomic_uint left_ran;
} world;

#define CHECKED(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            fprintf(stderr, "%s:%d: not true in WEFT_TEST_SEED=%lu: %s\n", __FILE__, __LINE__, world.seed, #x);             \
            weft_dump(world.pool, STDERR_FILENO);                                                                           \
            _exit(99);                                                                                                      \
        }                                                                                                                   \
    } while (0)

/* What draws: a state, and how deep it may nest. */
struct draw {
    uint64_t state;
    int depth;
};
static unsigned below(struct draw *draw, unsigned n) {
    draw->state = draw->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(draw->state >> 33) % n;
}
static struct draw draw_for(const struct draw *draw, uint64_t number, int depth) {
    return (struct draw){.state = draw->state ^ (number * 0x9e3779b97f4a7c15u), .depth = depth};
}
static void burn(unsigned ns) {
    uint64_t end = clock_ns() + ns;
    while (clock_ns() < end) {}
}

static unsigned long number_of(const char *name, unsigned long otherwise) {
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoul(text, NULL, 10);
}

static void act(struct draw *draw, weft_worker *self);
static void act_or_burn(struct draw *draw, unsigned one_in, weft_worker *self) {
    if (draw->depth > 0 && below(draw, one_in) == 0) {
        draw->depth--;
        act(draw, self);
    } else {
        burn(below(draw, 3000));
    }
}
static bool is_ordered(void) { return (world.config.flags & WEFT_ORDERED) != 0; }

/* ---- groups ------------------------------------------------------------------------------------------------------- */

struct job {
    struct draw draw;
    atomic_uint *count;
    void *block; /* of the heap, freed where the task runs */
    unsigned char rest[2500];
};
static int task(void *payload, weft_worker *self) {
    struct job *job = payload;
    if (job->block != NULL) memset(job->block, 1, 1);
    weft_free(job->block);
    act_or_burn(&job->draw, 1, self);
    atomic_fetch_add(job->count, 1);
    return 0;
}
static struct job job_new(struct draw *draw, atomic_uint *count) {
    struct job job = {.draw = draw_for(draw, below(draw, 1000), draw->depth), .count = count};
    if (below(draw, 4) == 0) job.block = weft_alloc(1 + below(draw, 3000));
    return job;
}
static size_t job_bytes(struct draw *draw) {
    unsigned kind = below(draw, 5);
    if (kind == 0) return sizeof(struct job);
    return offsetof(struct job, rest) + (kind == 1 ? below(draw, sizeof(((struct job *)0)->rest)) : 0);
}

static unsigned submit(weft_group *group, unsigned count, struct draw *draw, atomic_uint *ran) {
    unsigned submitted = 0;
    for (unsigned i = 0; i < count; i++) {
        struct job job = job_new(draw, ran);
        int error = weft_submit(world.pool, group, task, &job, job_bytes(draw));
        bool may_be_cancelled = group->flags == WEFT_DROP_LATE || group->flags == WEFT_CANCEL_ON_ERROR;
        CHECKED(error == WEFT_OK || error == WEFT_EFULL || (error == WEFT_ECANCELED && may_be_cancelled));
        if (error == WEFT_OK)
            submitted++;
        else
            weft_free(job.block);
    }
    return submitted;
}
static unsigned hold(weft_group *after, weft_group *group, struct draw *draw, atomic_uint *ran) {
    enum { HELD = 3 };
    for (unsigned i = 0; i < HELD; i++) {
        struct job job = job_new(draw, ran);
        int error = weft_submit_after(world.pool, (weft_after){after, group}, task, &job, job_bytes(draw));
        CHECKED(error == WEFT_OK || error == WEFT_EFULL);
        if (error == WEFT_OK) continue;
        weft_free(job.block);
        return i;
    }
    return HELD;
}
static weft_group group_new(struct draw *draw) {
    static const uint32_t flags[] = {WEFT_URGENT, WEFT_BACKGROUND, WEFT_CANCEL_ON_ERROR};
    weft_group group = WEFT_GROUP_INIT;
    unsigned kind = below(draw, 8);
    if (kind < 3 && !is_ordered()) group.flags = flags[kind];
    return group;
}
/* Whether it ended with WEFT_OK, and not with that other. */
static bool wait_for(weft_group *group, struct draw *draw, int also) {
    unsigned kind = below(draw, 6);
    int error;
    do {
        enum weft_help help = kind < 3 ? (enum weft_help)below(draw, 3) : WEFT_HELP_BELOW;
        error = weft_wait_until(world.pool, group, help, kind == 0 ? clock_ns() + below(draw, 100000) : 0);
    } while (error == WEFT_ETIMEDOUT);
    CHECKED(error == WEFT_OK || error == also);
    return error == WEFT_OK;
}

static void use_group(struct draw *draw) {
    weft_group group = group_new(draw);
    atomic_uint ran = 0;
    unsigned submitted = submit(&group, below(draw, 24), draw, &ran);
    if (below(draw, 5) == 0 && !is_ordered()) CHECKED(weft_boost(world.pool, &group) == WEFT_OK);
    wait_for(&group, draw, WEFT_OK);
    CHECKED(atomic_load(&ran) == submitted);
}
/* Dropped with its group; a child's payload is shorter. */
static void clean(void *payload, size_t size, void *context) {
    (void)context;
    if (size >= offsetof(struct job, rest)) weft_free(((struct job *)payload)->block);
}
static void use_cancel(struct draw *draw) {
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint ran = 0;
    unsigned submitted = submit(&group, below(draw, 24), draw, &ran);
    CHECKED(weft_cancel(world.pool, &group) == WEFT_OK);
    wait_for(&group, draw, WEFT_ECANCELED);
    CHECKED(atomic_load(&ran) <= submitted);
}
/* A task cancels its group while that is submitted to, with payloads of all sizes. */
static int cancel_task(void *payload, weft_worker *self) {
    (void)self;
    CHECKED(weft_cancel(world.pool, *(weft_group **)payload) == WEFT_OK);
    return 0;
}
static void use_cancel_inside(struct draw *draw) {
    weft_group group = {.flags = WEFT_CANCEL_ON_ERROR}, *payload = &group;
    atomic_uint ran = 0;
    unsigned submitted = submit(&group, below(draw, 6), draw, &ran);
    int error = weft_submit(world.pool, &group, cancel_task, &payload, sizeof payload);
    CHECKED(error == WEFT_OK || error == WEFT_EFULL);
    submitted += submit(&group, below(draw, 24), draw, &ran);
    bool all = wait_for(&group, draw, WEFT_ECANCELED);
    CHECKED(all ? atomic_load(&ran) == submitted : atomic_load(&ran) <= submitted);
}
static void use_deadline(struct draw *draw) {
    weft_group group = {.flags = below(draw, 2) == 0 ? WEFT_DROP_LATE : 0};
    atomic_uint ran = 0;
    if (below(draw, 2) == 0) CHECKED(weft_deadline(world.pool, &group, clock_ns() + below(draw, 100000)) == WEFT_OK);
    unsigned submitted = submit(&group, below(draw, 24), draw, &ran);
    if (below(draw, 2) == 0) CHECKED(weft_deadline(world.pool, &group, clock_ns() + below(draw, 400000)) == WEFT_OK);
    bool all = wait_for(&group, draw, WEFT_ELATE) || group.flags == 0;
    CHECKED(all ? atomic_load(&ran) == submitted : atomic_load(&ran) <= submitted);
}
static void use_after(struct draw *draw) {
    weft_group first = group_new(draw), then = group_new(draw);
    atomic_uint ran_first = 0, ran_then = 0;
    unsigned submitted = submit(&first, 1 + below(draw, 8), draw, &ran_first);
    unsigned held = hold(&first, &then, draw, &ran_then);
    if (below(draw, 2) == 0) wait_for(&first, draw, WEFT_OK);
    wait_for(&then, draw, WEFT_OK);
    CHECKED(held == 0 || atomic_load(&ran_first) == submitted);
    wait_for(&first, draw, WEFT_OK);
    CHECKED(atomic_load(&ran_first) == submitted && atomic_load(&ran_then) == held);
}

/* ---- loops, forked calls, graphs ---------------------------------------------------------------------------------- */

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct job *job = context;
    for (size_t i = begin; i < end; i++) {
        struct draw draw = draw_for(&job->draw, i, job->draw.depth);
        act_or_burn(&draw, 4, self);
        atomic_fetch_add(job->count, 1);
    }
    return 0;
}
static void use_loop(struct draw *draw, weft_worker *self) {
    atomic_uint ran = 0;
    struct job job = {.draw = *draw, .count = &ran};
    size_t count = below(draw, 300);
    int error = weft_for(world.pool, (weft_range){0, count, 1 + below(draw, 4)}, body, &job);
    if (error == WEFT_ECANCELED && self != NULL && weft_cancelled(self)) return;
    CHECKED(error == WEFT_EFULL ? atomic_load(&ran) == 0 : error == WEFT_OK && atomic_load(&ran) == count);
}

struct summing {
    struct draw draw;
    size_t failing; /* an index, or none */
};
static int sum_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    const struct summing *summing = context;
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++) {
        struct draw draw = draw_for(&summing->draw, i, summing->draw.depth);
        if (i == summing->failing) return 77;
        act_or_burn(&draw, 8, self);
        sum = sum * 3 + i;
    }
    *(uint64_t *)value = sum;
    return 0;
}
static void sum_combine(void *left, const void *right, void *context) {
    (void)context;
    *(uint64_t *)left = *(uint64_t *)left * 5 + *(const uint64_t *)right;
}
static void use_reduce(struct draw *draw, weft_worker *self) {
    size_t count = 1 + below(draw, 200);
    struct summing summing = {*draw, below(draw, 3) == 0 ? below(draw, 200) : SIZE_MAX};
    weft_range range = {0, count, 1 + below(draw, 4)};
    weft_reduction reduction = {.size = sizeof(uint64_t), .leaf = sum_leaf, .combine = sum_combine, .context = &summing};
    uint64_t sums[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        int error = weft_reduce(world.pool, range, &reduction, &sums[i]);
        if (error == WEFT_EFULL || (error == WEFT_ECANCELED && self != NULL && weft_cancelled(self))) return;
        CHECKED(error == (summing.failing < count ? 77 : WEFT_OK));
        if (error != WEFT_OK) return;
    }
    CHECKED(sums[0] == sums[1]);
}

static unsigned tree(weft_place *here, struct draw draw);
WEFT_FORK(tree, unsigned, struct draw)
static unsigned tree(weft_place *here, struct draw draw) {
    if (draw.depth <= 0) {
        struct draw leaf = draw_for(&draw, 1, 1);
        act_or_burn(&leaf, 16, weft_place_worker(here));
        return 1;
    }
    struct draw left = draw_for(&draw, 2, draw.depth - 1), right = draw_for(&draw, 3, draw.depth - 1 - (int)below(&draw, 2));
    weft_place *deeper = tree_fork(here, &left);
    unsigned leaves = tree(deeper, right);
    return leaves + tree_join(here, &left);
}
static unsigned leaves_of(struct draw draw) {
    if (draw.depth <= 0) return 1;
    struct draw left = draw_for(&draw, 2, draw.depth - 1), right = draw_for(&draw, 3, draw.depth - 1 - (int)below(&draw, 2));
    return leaves_of(right) + leaves_of(left);
}
static void use_forks(struct draw *draw) {
    weft_place *here;
    struct draw root = draw_for(draw, 0, (int)below(draw, 7));
    CHECKED(weft_enter(world.pool, &here) == WEFT_OK);
    unsigned leaves = tree(here, root);
    weft_leave(here);
    CHECKED(leaves == leaves_of(root));
}

static int node(void *context, weft_worker *self) {
    const struct job *job = context;
    struct draw draw = draw_for(&job->draw, atomic_fetch_add(job->count, 1), job->draw.depth);
    act_or_burn(&draw, 6, self);
    return 0;
}
static void use_graph(struct draw *draw) {
    weft_graph *graph;
    weft_node nodes[NODES];
    atomic_uint ran = 0;
    struct job job = {.draw = *draw, .count = &ran};
    unsigned count = 1 + below(draw, NODES);
    CHECKED(weft_graph_create(&graph) == WEFT_OK);
    for (unsigned i = 0; i < count; i++) CHECKED(weft_graph_add(graph, &nodes[i], node, &job) == WEFT_OK);
    for (unsigned i = 0; i < 2 * count; i++) {
        unsigned before = below(draw, count), after = below(draw, count);
        if (before < after) CHECKED(weft_graph_edge(graph, nodes[before], nodes[after]) == WEFT_OK);
    }
    CHECKED(weft_graph_build(graph, NULL) == WEFT_OK);
    for (unsigned runs = 1 + below(draw, 3); runs > 0; runs--) {
        atomic_store(&ran, 0);
        int error = weft_graph_run(world.pool, graph);
        CHECKED(error == WEFT_EFULL ? atomic_load(&ran) == 0 : error == WEFT_OK && atomic_load(&ran) == count);
        CHECKED(weft_graph_cancel(world.pool, graph) == WEFT_OK); /* it has ended */
    }
    CHECKED(weft_graph_destroy(&graph) == WEFT_OK);
}

/* ---- all together ------------------------------------------------------------------------------------------------- */

static void use_block(struct draw *draw, weft_worker *self) {
    if (self == NULL) {
        CHECKED(weft_expect(world.pool, 2, clock_ns() + below(draw, 300000)) == WEFT_OK);
        return;
    }
    weft_block_begin(self); /* perhaps without a spare */
    usleep(below(draw, 300));
    CHECKED(weft_block_end(self) == WEFT_OK);
}
static int child(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    atomic_fetch_add(&world.children, 1);
    return 0;
}
static void use_rest(struct draw *draw, weft_worker *self) {
    const char payload = 1;
    unsigned kind = below(draw, 8);
    if (kind == 0)
        weft_trim();
    else if (kind < 3 && self != NULL)
        weft_submit_child(self, child, &payload, sizeof payload);
    else if (kind < 5)
        sched_yield();
    else
        burn(below(draw, 30000));
}

static void act(struct draw *draw, weft_worker *self) {
    if (atomic_fetch_sub(&world.acts_left, 1) <= 0) draw->depth = 0;
    unsigned what = below(draw, 15);
    if (is_ordered() && self != NULL && (what < 5 || what == 14)) what = 10 + what % 2; /* a wait there may be refused */
    if (is_ordered() && what == 14) what = 11;
    switch (what) {
    case 0:
    case 1:
    case 2: use_group(draw); break;
    case 3: below(draw, 2) == 0 ? use_cancel(draw) : use_cancel_inside(draw); break;
    case 4: use_after(draw); break;
    case 5:
    case 6: use_loop(draw, self); break;
    case 7:
    case 8: use_forks(draw); break;
    case 9: use_graph(draw); break;
    case 10: use_block(draw, self); break;
    case 12:
    case 13: use_reduce(draw, self); break;
    case 14: use_deadline(draw); break;
    default: use_rest(draw, self); break;
    }
}
static void *outside(void *seed) {
    struct draw draw = {.state = *(uint64_t *)seed};
    for (unsigned acts = 3 + below(&draw, 8); acts > 0; acts--) {
        draw.depth = DEPTH;
        act(&draw, NULL);
    }
    return NULL;
}

static weft_config config_drawn(struct draw *draw) {
    static const uint32_t flags[] = {WEFT_ORDERED, WEFT_NO_HELP, WEFT_NO_HELP, WEFT_NO_PLACING};
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 0, 3000};
    weft_config config = config_of((uint32_t)number_of("WEFT_TEST_WORKERS", 1 + below(draw, 5)));
    unsigned kind = below(draw, 8);
    config.flags = kind < 4 ? flags[kind] : 0;
    config.spares = below(draw, 3) == 0 ? 1 + below(draw, 4) : 0;
    config.spin_ns = spins_ns[below(draw, 3)];
    config.queue_max = below(draw, 5) == 0 ? 1 + below(draw, 20) : 0;
    config.full = below(draw, 3);
    config.background_max = below(draw, 3);
    config.clean = clean;
    if (below(draw, 6) == 0) config.flags |= WEFT_BIND;
    if (below(draw, 12) == 0) config.flags |= WEFT_LOCK;
    if (below(draw, 8) == 0) {
        config.policy = WEFT_FIFO; /* or refused */
        config.priority = 1;
    }
    return config;
}
/* Tasks that nobody waits for. */
static void leave_tasks(struct draw *draw) {
    for (unsigned left = below(draw, 30); left > 0; left--) {
        struct job job = job_new(draw, &world.left_ran);
        if (weft_submit(world.pool, NULL, task, &job, job_bytes(draw)) == WEFT_OK)
            world.left++;
        else
            weft_free(job.block);
    }
}
static void end(struct draw *draw) {
    weft_pool *pool = world.pool; /* tasks read that one still */
    bool aborts = below(draw, 3) == 0;
    draw->depth = aborts ? 0 : DEPTH; /* of dropped tasks counts are not kept */
    world.left = 0;
    atomic_store(&world.left_ran, 0);
    if (below(draw, 2) == 0) leave_tasks(draw);
    if (aborts)
        CHECKED(weft_pool_abort(&pool, clean, NULL) == WEFT_OK);
    else
        CHECKED(weft_pool_destroy(&pool) == WEFT_OK);
    unsigned ran = atomic_load(&world.left_ran);
    CHECKED(aborts ? ran <= world.left : ran == world.left);
}
static void use_pool(unsigned long seed) {
    struct draw draw = {.state = seed * 7919 + 13};
    pthread_t threads[OUTSIDE_MAX];
    uint64_t seeds[OUTSIDE_MAX];
    world.seed = seed;
    world.config = config_drawn(&draw);
    atomic_store(&world.acts_left, ACTS_MAX);
    world.pool = make_pool_with(&world.config);
    unsigned count = 1 + below(&draw, OUTSIDE_MAX);
    for (unsigned i = 0; i < count; i++) {
        seeds[i] = draw.state + i;
        REQUIRE(pthread_create(&threads[i], NULL, outside, &seeds[i]) == 0);
    }
    for (unsigned i = 0; i < count; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    end(&draw);
}

static void test_everything_at_random(void **state) {
    (void)state;
    unsigned long first = number_of("WEFT_TEST_SEED", 1),
                  pools = number_of("WEFT_TEST_POOLS", SANITIZED || is_emulated() ? 40 : 200);
    for (unsigned long seed = first; seed < first + pools; seed++) use_pool(seed);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything_at_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
