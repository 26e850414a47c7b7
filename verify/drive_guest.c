/* drive_guest.c: tasks that wait in other pools, whose tasks do the same. Each pool has one thread, and none may be made: once that
 * sleeps in another pool, who waits here runs what is left. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

enum { POOLS = 3, DEPTH = 5 };
enum way { BY_WAIT, BY_WAIT_NOT_HELPING, BY_GRAPH, BY_LOOP, WAYS };

static struct {
    weft_pool *pools[POOLS];
    uint32_t count;
    uint32_t ran; /* the test's own, like the next */
    enum way way;
    bool is_bounded; /* one task may wait to start; each link calls two */
} world;

static void make_pool(uint32_t which, uint32_t flags) {
    weft_config config;
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = config.spares = 1;
    config.flags = flags | WEFT_POOL_BIND; /* nobody counts CPUs */
    config.spin_ns = WEFT_SPIN_NONE;
    config.queue_max = world.is_bounded ? 1 : 0;
    EXPECT(weft_pool_create(&world.pools[which], &config) == WEFT_OK);
    weft_pool *pool = world.pools[which];
    pool->config.spares = pool->spare_seats = 0;
    pool->tiny_ticks = pool->short_ticks = 0; /* nobody polls, who would find work without a wake */
}
static void make(uint32_t pools) {
    static const uint32_t flags[] = {WEFT_POOL_NO_HELP, WEFT_POOL_ORDERED, WEFT_POOL_NO_HELP | WEFT_POOL_ORDERED, 0};
    memset(&world, 0, sizeof world);
    world.count = pools;
    world.way = explore_pick(WAYS);
    uint32_t kind = explore_pick(4);
    for (uint32_t i = 0; i < pools; i++) make_pool(i, flags[kind]);
}
static void end(void) {
    for (uint32_t i = 0; i < world.count; i++) expect_nobody_inside(world.pools[i]);
    for (uint32_t i = 0; i < world.count; i++) EXPECT(weft_pool_destroy(&world.pools[i]) == WEFT_OK);
}

/* One link of a chain: in that pool, with so many below it. */
struct link {
    uint32_t at, left;
};
static void call_pool(struct link link);
static int link_task(void *payload, weft_worker *self) {
    const struct link link = *(struct link *)payload;
    EXPECT(weft_worker_pool(self) == world.pools[link.at % world.count]);
    world.ran++;
    if (link.left > 0) call_pool((struct link){link.at + 1, link.left - 1});
    return 0;
}
static int link_node(void *context, weft_worker *self) { return link_task(context, self); }
static int link_body(size_t begin, size_t end_, void *context, weft_worker *self) {
    EXPECT(end_ == begin + 1);
    return link_task(context, self);
}
static void run_graph(weft_pool *pool, struct link link) {
    weft_graph *graph;
    weft_node node;
    EXPECT(weft_graph_create(&graph) == WEFT_OK && weft_graph_add(graph, &node, link_node, &link) == WEFT_OK);
    EXPECT(weft_graph_build(graph, NULL) == WEFT_OK && weft_graph_run(pool, graph) == WEFT_OK);
    EXPECT(weft_graph_destroy(&graph) == WEFT_OK);
}
static void wait_for(weft_pool *pool, struct link link) {
    weft_group group = WEFT_GROUP_INIT;
    for (uint32_t i = 0; i < (world.is_bounded ? 2u : 1u); i++)
        EXPECT(weft_submit(pool, &group, link_task, &link, sizeof link) == WEFT_OK);
    enum weft_help help = world.way == BY_WAIT ? WEFT_HELP_BELOW : WEFT_HELP_NONE;
    EXPECT(weft_group_wait_until(pool, &group, help, 0) == WEFT_OK);
}
static void call_pool(struct link link) {
    weft_pool *pool = world.pools[link.at % world.count];
    if (world.way == BY_GRAPH)
        run_graph(pool, link);
    else if (world.way == BY_LOOP)
        EXPECT(weft_for(pool, (weft_range){0, 1, 1}, link_body, &link) == WEFT_OK);
    else
        wait_for(pool, link);
}

/* From no task: nobody but the pool's own thread runs the first link. */
static void chain_from(uint32_t at, uint32_t depth) {
    struct link link = {at, depth - 1};
    weft_group group = WEFT_GROUP_INIT;
    EXPECT(weft_submit(world.pools[at], &group, link_task, &link, sizeof link) == WEFT_OK);
    EXPECT(weft_group_wait_until(world.pools[at], &group, WEFT_HELP_NONE, 0) == WEFT_OK);
}
static void chain_0(void) { chain_from(0, DEPTH); }
static void end_chain(void) {
    EXPECT(world.ran == DEPTH);
    end();
}
static void setup_two(void) { make(2); }
EXPLORE_DRIVER(guest_chain, .about = "two pools call each other, deeper than they have threads", .setup = setup_two,
               .threads = {chain_0}, .check = end_chain, .flags = EXPLORE_NO_RESCUE);
static void setup_three(void) { make(3); }
EXPLORE_DRIVER(guest_circle, .about = "the same, three pools in turn", .setup = setup_three, .threads = {chain_0},
               .check = end_chain, .flags = EXPLORE_NO_RESCUE);

/* The threads of both pools fall asleep in each other's, and each has to run a task of the other. */
enum { CROSSED = 2 };
static void cross_0(void) { chain_from(0, CROSSED); }
static void cross_1(void) { chain_from(1, CROSSED); }
static void end_crossed(void) {
    EXPECT(world.ran == 2 * CROSSED);
    end();
}
EXPLORE_DRIVER(guest_crossed, .about = "two pools call each other at once", .setup = setup_two,
               .threads = {cross_0, cross_1}, .check = end_crossed, .flags = EXPLORE_NO_RESCUE);

/* The tasks wait for room in each other's queues, too. */
enum { BOUNDED_DEPTH = 3 };
static void setup_bounded(void) {
    memset(&world, 0, sizeof world);
    world.count = 2;
    world.is_bounded = true;
    world.way = explore_pick(2) == 0 ? BY_WAIT : BY_WAIT_NOT_HELPING;
    uint32_t flags = explore_pick(2) == 0 ? 0 : WEFT_POOL_NO_HELP;
    for (uint32_t i = 0; i < world.count; i++) make_pool(i, flags);
}
static void bounded_0(void) { chain_from(0, BOUNDED_DEPTH); }
static void bounded_1(void) { chain_from(1, BOUNDED_DEPTH); }
static void end_bounded(void) {
    EXPECT(world.ran == 2 * ((1u << BOUNDED_DEPTH) - 1));
    end();
}
EXPLORE_DRIVER(guest_bounded, .about = "two pools call each other at once, and their queues have little room",
               .setup = setup_bounded, .threads = {bounded_0, bounded_1}, .check = end_bounded, .flags = EXPLORE_NO_RESCUE);
