/* drive_graph.c: graphs run by a whole pool. Each node reads what those before it wrote, in plain memory. */
#include "explore.h"
#include "front.h"

#include <string.h>

enum { NODES = 6 };

/* Where memory may run out, it may be there the next time. */
#define AT_LAST(call)                                                                                                       \
    while ((call) != WEFT_OK) explore_step()

struct item {
    uint32_t stamp; /* plain: how often it ran */
    uint32_t runs;  /* the test's own */
    uint32_t before[3];
    uint32_t before_count;
    int result;
    bool sends; /* an event, for the one that awaits it */
    bool awaits;
    bool waits;   /* for another group */
    bool dawdles; /* for a while, until somebody sleeps who could help */
    bool meets;   /* stays a while, until all that meet are there */
};

static struct {
    os_word event;
    weft_pool *pool;
    weft_pool *other;
    weft_graph *graph;
    weft_node nodes[NODES + 1];
    struct item items[NODES + 1]; /* the last one is of graph_fan_early alone */
    uint32_t rounds;
    uint32_t met; /* the test's own */
} world;

static int empty_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

static int node_fn(void *context, weft_worker *self) {
    struct item *item = context;
    EXPECT(self != NULL);
    plain_write(&item->stamp, sizeof item->stamp);
    item->stamp++;
    item->runs++;
    for (uint32_t i = 0; i < item->before_count; i++) {
        const struct item *before = &world.items[item->before[i]];
        plain_read(&before->stamp, sizeof before->stamp);
        EXPECT(before->stamp == item->stamp);
    }
    if (item->waits) {
        weft_group group = WEFT_GROUP_INIT;
        EXPECT(weft_submit(weft_worker_pool(self), &group, empty_task, NULL, 0) == WEFT_OK);
        EXPECT(weft_group_wait(weft_worker_pool(self), &group) == WEFT_OK);
    }
    for (int i = 0; item->dawdles && i < 60 && load_rlx(&world.pool->park.word[0].helpers) == 0; i++) os_pause();
    world.met += item->meets;
    for (int i = 0; item->meets && i < 60 && world.met < 2; i++) os_pause();
    if (item->sends) {
        store_rel(drive_graph_sent, &world.event, 1);
        os_wake(&world.event, 1);
    }
    while (item->awaits && load_acq(drive_graph_seen, &world.event) == 0) os_wait(&world.event, 0, 0);
    return item->result;
}

static void edge(uint32_t before, uint32_t after) {
    struct item *item = &world.items[after];
    item->before[item->before_count++] = before;
    AT_LAST(weft_graph_edge(world.graph, world.nodes[before], world.nodes[after]));
}

static void setup_flags(uint32_t workers, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 1;
    config.flags = flags;
    config.spin_ns = explore_pick(2) == 0 ? WEFT_SPIN_NONE : 3000;
    AT_LAST(weft_pool_create(&world.pool, &config));
    AT_LAST(weft_graph_create(&world.graph));
    for (uint32_t i = 0; i < NODES; i++) AT_LAST(weft_graph_add(world.graph, &world.nodes[i], node_fn, &world.items[i]));
}
static void setup_pool(uint32_t workers) { setup_flags(workers, 0); }

/* 0 before 1, 2 and 3; 1 and 2 before 4; 2 and 3 before 5. */
static void setup(void) {
    setup_pool(1);
    edge(0, 1);
    edge(0, 2);
    edge(0, 3);
    edge(1, 4);
    edge(2, 4);
    edge(2, 5);
    edge(3, 5);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}

static void end(void) {
    EXPECT(weft_graph_destroy(&world.graph) == WEFT_OK);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    if (world.other != NULL) EXPECT(weft_pool_destroy(&world.other) == WEFT_OK);
}

static void run_twice(void) {
    for (int i = 0; i < 2; i++) EXPECT(weft_graph_run(world.pool, world.graph) == WEFT_OK);
    world.rounds += 2;
}
static void check_whole(void) {
    for (uint32_t i = 0; i < NODES; i++) EXPECT(world.items[i].runs == world.rounds);
    end();
}
EXPLORE_DRIVER(graph_twice, .about = "a worker and a waiter that helps run a graph twice", .setup = setup,
               .threads = {run_twice}, .check = check_whole);

/* Nodes that three predecessors make ready, by three threads. */
static void setup_wide(void) {
    setup_pool(2);
    for (uint32_t i = 0; i < 3; i++) edge(i, 3);
    for (uint32_t i = 0; i < 3; i++) edge(i, 4);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
static void run_once(void) {
    EXPECT(weft_graph_run(world.pool, world.graph) == WEFT_OK);
    world.rounds++;
}
EXPLORE_DRIVER(graph_wide, .about = "three threads arrive at two nodes", .setup = setup_wide, .threads = {run_once},
               .check = check_whole);

/* More successors than a walk arrives at by itself. */
static void setup_fan(void) {
    setup_pool(1);
    for (uint32_t i = 1; i < NODES; i++) edge(0, i);
    AT_LAST(weft_graph_build(world.graph, NULL));
}
EXPLORE_DRIVER(graph_fan, .about = "one node before all others", .setup = setup_fan, .threads = {run_once},
               .check = check_whole, .flags = EXPLORE_NO_RESCUE);

/* None of them is ready when the first of two predecessors has returned: whoever takes a part of them takes back what it
 * then shares of it. */
static void setup_fan_early(void) {
    setup_pool(2);
    AT_LAST(weft_graph_add(world.graph, &world.nodes[NODES], node_fn, &world.items[NODES]));
    for (uint32_t i = 2; i <= NODES; i++) {
        edge(0, i);
        edge(1, i);
    }
    world.items[1].dawdles = true;
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
static void check_fan_early(void) {
    EXPECT(world.items[NODES].runs == world.rounds);
    check_whole();
}
EXPLORE_DRIVER(graph_fan_early, .about = "two nodes before all others, one of them long", .setup = setup_fan_early,
               .threads = {run_twice}, .check = check_fan_early, .flags = EXPLORE_NO_RESCUE);

/* A long node strands nothing: 2 goes on only when 3 has run. Whoever comes upon them, the other must come, awake or not. */
static void setup_long(void) {
    setup_pool(1);
    edge(1, 2);
    edge(1, 3);
    edge(0, 4);
    edge(0, 5);
    world.items[1].dawdles = true;
    world.items[2].awaits = world.items[3].sends = true;
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(graph_long, .about = "a node waits for another's doing", .setup = setup_long, .threads = {run_once},
               .check = check_whole, .flags = EXPLORE_NO_RESCUE);

/* Nodes that wait end their walks no sooner. */
static void setup_waiting(void) {
    setup_fan();
    for (uint32_t i = 1; i < 4; i++) world.items[i].waits = true;
}
EXPLORE_DRIVER(graph_waits, .about = "nodes that submit and wait", .setup = setup_waiting, .threads = {run_once},
               .check = check_whole, .flags = EXPLORE_NO_RESCUE);

/* A task runs the graph, and its nodes wait for the task's group, at most so long: each is refused, not late. */
static weft_group around; /* the test's own */
static int waits_around(void *context, weft_worker *self) {
    (void)self;
    world.items[(struct item *)context - world.items].runs++;
    EXPECT(weft_group_wait_until(world.pool, &around, WEFT_HELP_BELOW, os_now_ns() + 1000) == WEFT_EDEADLK);
    return 0;
}
static int runs_graph(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    world.rounds++;
    return weft_graph_run(world.pool, world.graph);
}
static void submit_run(void) {
    const uint32_t payload = 1;
    EXPECT(weft_submit(world.pool, &around, runs_graph, &payload, sizeof payload) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &around) == WEFT_OK);
}
static void setup_around(void) {
    setup_pool(1);
    around = (weft_group)WEFT_GROUP_INIT;
    AT_LAST(weft_graph_destroy(&world.graph));
    AT_LAST(weft_graph_create(&world.graph));
    for (uint32_t i = 0; i < NODES; i++)
        AT_LAST(weft_graph_add(world.graph, &world.nodes[i], waits_around, &world.items[i]));
    edge(0, 1);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(graph_around, .about = "nodes that wait for the group of the task that runs their graph",
               .setup = setup_around, .threads = {submit_run}, .check = check_whole, .flags = EXPLORE_NO_RESCUE);

/* Without memory for a region the nodes are published as tasks, and without memory for those kept. */
static uint64_t tasks_run(void) {
    uint64_t tasks = 0;
    for (uint32_t i = 0; i < load_rlx(&world.pool->seat_count); i++) {
        const struct weft_worker *seat = load_rlx(&world.pool->seats[i]);
        if (seat != NULL) tasks += load_rlx(&seat->tasks_run);
    }
    return tasks;
}
static void run_poor(void) {
    int error;
    weft_group group = WEFT_GROUP_INIT; /* what is made for any task is there then, and the next is a block of its own */
    AT_LAST(weft_submit(world.pool, &group, empty_task, NULL, 0));
    AT_LAST(weft_group_wait(world.pool, &group));
    while (store_get(&world.pool->store, (size_t)64 * 1024 - CACHE_LINE) == NULL) explore_step();
    uint64_t before = tasks_run();
    while ((error = weft_graph_run(world.pool, world.graph)) == WEFT_ENOMEM) explore_step();
    EXPECT(error == WEFT_OK);
    explore_observe(tasks_run() - before > 1); /* besides the one that begins it: not all were forked calls */
    world.rounds++;
}
EXPLORE_DRIVER(graph_poor, .about = "a run while memory runs out", .setup = setup_fan, .threads = {run_poor},
               .check = check_whole, .flags = EXPLORE_NO_RESCUE | EXPLORE_MEMORY_FAILS, .must_see = 3);

/* Nor is there room in the queue: what a walk cannot leave to others it keeps, and runs before it ends. */
static void setup_full(void) {
    setup_fan();
    world.pool->config.queue_max = 2;
    or_rlx(&world.pool->extras, EXTRA_BOUNDED);
}
EXPLORE_DRIVER(graph_kept, .about = "the same, where the queue has little room", .setup = setup_full, .threads = {run_poor},
               .check = check_whole, .flags = EXPLORE_NO_RESCUE | EXPLORE_MEMORY_FAILS, .must_see = 3);

/* The caller only sleeps. */
static void setup_no_help(void) {
    setup_flags(2, WEFT_POOL_NO_HELP);
    for (uint32_t i = 1; i < NODES; i++) edge(i / 4, i);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(graph_no_help, .about = "two workers run a graph for a thread that sleeps", .setup = setup_no_help,
               .threads = {run_twice}, .check = check_whole, .flags = EXPLORE_NO_RESCUE);

/* ---- two that run the same graph ---------------------------------------------------------------------------------- */

static void run_if_idle_in(weft_pool *pool) {
    int result = weft_graph_run(pool, world.graph);
    EXPECT(result == WEFT_OK || result == WEFT_EBUSY);
    world.rounds += result == WEFT_OK;
    explore_observe(result == WEFT_OK ? 0 : 1);
}
static void run_if_idle(void) { run_if_idle_in(world.pool); }
static void run_if_idle_there(void) { run_if_idle_in(world.other); }
EXPLORE_DRIVER(graph_busy, .about = "two threads run the same graph: at once, or one after the other", .setup = setup,
               .threads = {run_if_idle, run_if_idle}, .check = check_whole, .must_see = 3);

static void setup_pools(void) {
    weft_config config;
    setup();
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    EXPECT(weft_pool_create(&world.other, &config) == WEFT_OK);
}
EXPLORE_DRIVER(graph_pools, .about = "two threads run the same graph, in two pools", .setup = setup_pools,
               .threads = {run_if_idle, run_if_idle_there}, .check = check_whole, .must_see = 3);

/* ---- failures ----------------------------------------------------------------------------------------------------- */

static void setup_failing(void) {
    setup();
    world.items[1].result = 7;
    world.items[3].result = 5;
}
static void run_failing(void) {
    EXPECT(weft_graph_run(world.pool, world.graph) == 7);
    world.items[1].result = world.items[3].result = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        EXPECT(world.items[i].runs == (i < 4 ? 1 : 0));
        world.items[i].runs = world.items[i].stamp = 0;
    }
    run_once();
}
EXPLORE_DRIVER(graph_fail, .about = "two nodes fail at once, then a whole run", .setup = setup_failing,
               .threads = {run_failing}, .check = check_whole);

/* Both have run before either failure is noted: the first node's is the run's. */
static void setup_meeting(void) {
    setup_pool(1);
    for (uint32_t i = 2; i < NODES; i++) edge(i % 2, i);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        world.items[i].meets = true;
        world.items[i].result = 7 - (int)i;
    }
}
static void run_meeting(void) { EXPECT(weft_graph_run(world.pool, world.graph) == 7); }
static void check_meeting(void) {
    for (uint32_t i = 0; i < NODES; i++) EXPECT(world.items[i].runs == (i < 2 ? 1 : 0));
    end();
}
EXPLORE_DRIVER(graph_fail_both, .about = "two nodes return their failures at the same time", .setup = setup_meeting,
               .threads = {run_meeting}, .check = check_meeting);

/* ---- cancelling --------------------------------------------------------------------------------------------------- */

static void run_cancelled(void) {
    int result = weft_graph_run(world.pool, world.graph);
    EXPECT(result == WEFT_OK || result == WEFT_ECANCELED);
    explore_observe(result == WEFT_OK ? 0 : 1);
    for (uint32_t i = 0; i < NODES; i++) {
        EXPECT(world.items[i].runs <= 1 && (result != WEFT_OK || world.items[i].runs == 1));
        if (world.items[i].runs < 1 && i < NODES - 1) explore_observe(2);
    }
}
static void cancel(void) { EXPECT(weft_graph_cancel(world.pool, world.graph) == WEFT_OK); }
static void check_again(void) {
    for (uint32_t i = 0; i < NODES; i++) world.items[i].runs = world.items[i].stamp = 0;
    run_once();
    check_whole();
}
EXPLORE_DRIVER(graph_cancel, .about = "a stranger cancels a run; the next is whole", .setup = setup,
               .threads = {run_cancelled, cancel}, .check = check_again, .must_see = 7);

/* A node whose task was refused, for the run is cancelled: then the run says so, though whoever cancels it is not back yet. */
static bool was_refused;
static int submitting_node(void *context, weft_worker *self) {
    (void)context;
    int error = weft_submit_child(self, empty_task, NULL, 0);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
    was_refused = error != WEFT_OK;
    explore_observe(was_refused);
    return 0;
}
static void setup_refused(void) {
    weft_config config;
    memset(&world, 0, sizeof world);
    was_refused = false;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spares = 1;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
    EXPECT(weft_graph_create(&world.graph) == WEFT_OK);
    EXPECT(weft_graph_add(world.graph, NULL, submitting_node, NULL) == WEFT_OK);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
static void run_refused(void) {
    int result = weft_graph_run(world.pool, world.graph);
    EXPECT(result == WEFT_ECANCELED || (result == WEFT_OK && !was_refused));
}
static void check_refused(void) {
    EXPECT(weft_graph_destroy(&world.graph) == WEFT_OK);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
EXPLORE_DRIVER(graph_refused, .about = "a node's task is refused: the run was cancelled", .setup = setup_refused,
               .threads = {run_refused, cancel}, .check = check_refused, .must_see = 3);

/* Whoever cancels a run may come late: the next one, in another pool, is not cancelled. */
static void run_there_next(void) {
    int first = weft_graph_run(world.pool, world.graph);
    EXPECT(first == WEFT_OK || first == WEFT_ECANCELED);
    explore_observe(first != WEFT_OK);
    EXPECT(weft_graph_run(world.other, world.graph) == WEFT_OK);
}
static void check_next(void) {
    EXPECT(weft_pool_destroy(&world.other) == WEFT_OK);
    check_refused();
}
static void setup_next(void) {
    weft_config config;
    setup_refused();
    EXPECT(weft_graph_add(world.graph, NULL, empty_task, NULL) == WEFT_OK);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = 1;
    config.spares = 0;
    config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.other, &config) == WEFT_OK);
}
EXPLORE_DRIVER(graph_late_cancel, .about = "a stranger cancels a run in one pool; the next is in another",
               .setup = setup_next, .threads = {run_there_next, cancel}, .check = check_next, .must_see = 3);

/* A change while another thread runs the graph, or the other way round: one of them is refused. */
static void change(void) {
    int error = weft_graph_add(world.graph, NULL, empty_task, NULL);
    EXPECT(error == WEFT_OK || error == WEFT_EBUSY);
    explore_observe(error == WEFT_OK ? 0 : 1);
    if (error == WEFT_OK) error = weft_graph_build(world.graph, NULL);
    EXPECT(error == WEFT_OK || error == WEFT_EBUSY);
}
static void run_changed(void) {
    int error = weft_graph_run(world.pool, world.graph);
    EXPECT(error == WEFT_OK || error == WEFT_EBUSY || error == WEFT_EINVAL);
    if (error != WEFT_OK) explore_observe(error == WEFT_EBUSY ? 2 : 3);
}
EXPLORE_DRIVER(graph_change, .about = "a graph is changed while another thread runs it", .setup = setup_refused,
               .threads = {run_changed, change}, .check = check_refused, .must_see = 15);
