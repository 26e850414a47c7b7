/* drive_mix.c: threads from outside and tasks that call the pool's public functions in an order drawn for each schedule, on
 * groups that they share and on groups of their own: what no other driver thought of. Each payload is run or cleaned once,
 * what it wrote in plain memory is there for every wait that returned, and nobody sleeps for ever. */
#include "explore.h"
#include "sched/worker.h"

#include <string.h>

enum { TASKS_MAX = 48, SHARED = 2, OPS_MAX = 3, DEPTH_MAX = 2 };

static struct {
    weft_pool *pool;
    weft_config config;
    weft_group shared[SHARED];
    uint32_t written[TASKS_MAX]; /* plain: by the task, or by clean */
    struct {
        uint32_t kind, ended, depth;
    } task[TASKS_MAX]; /* the test's own */
    uint32_t submitted;
    weft_graph *graph; /* a node, two after it */
    uint32_t node[3];  /* plain: written by one, read by those after */
    bool times;        /* waits with deadlines */
} world;

/* What one thread, or one task, has submitted. */
struct caller {
    weft_worker *self; /* of a task */
    uint32_t depth;
    bool is_batch; /* its tasks call nothing: those of the shared groups may be waiting for this one */
    uint32_t count;
    struct {
        uint32_t number;
        weft_group *group;
    } task[8];
};

static void act(struct caller *caller);

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

static void end_task(uint32_t number) {
    EXPECT(number < world.submitted && ++world.task[number].ended == 1);
    plain_write(&world.written[number], sizeof world.written[number]);
    world.written[number] = number + 1;
}

/* Payload of a task: its number, and those of a caller's that it must see. */
struct payload {
    uint32_t number, sees;
    uint32_t seen[2];
};

static int task(void *payload, weft_worker *self) {
    struct payload p;
    memcpy(&p, payload, sizeof p);
    struct caller caller = {.self = self, .depth = world.task[p.number].depth + 1};
    for (uint32_t i = 0; i < p.sees; i++) plain_read(&world.written[p.seen[i]], sizeof world.written[0]);
    for (uint32_t i = 0; i < p.sees; i++) EXPECT(world.written[p.seen[i]] == p.seen[i] + 1);
    if (caller.depth <= DEPTH_MAX && world.task[p.number].kind != 0) act(&caller);
    end_task(p.number);
    return world.task[p.number].kind == 1 ? 5 : 0;
}

static void clean(void *payload, size_t size, void *context) {
    EXPECT(size == sizeof(struct payload) && context == &world);
    end_task(((const struct payload *)payload)->number);
}

/* ---- what is called ----------------------------------------------------------------------------------------------- */

static struct payload payload_new(const struct caller *caller) {
    uint32_t number = world.submitted++;
    EXPECT(number < TASKS_MAX);
    world.task[number].kind = caller->is_batch && caller->self != NULL ? 0 : explore_pick(4);
    world.task[number].depth = caller->depth;
    return (struct payload){.number = number};
}

/* It was accepted, or never will be. */
static void note(struct caller *caller, weft_group *group, uint32_t number, int error) {
    if (error != WEFT_OK) {
        if (error != WEFT_ECANCELED && error != WEFT_EDEADLK) explore_fail("a submission: %s", weft_strerror(error));
        end_task(number);
        return;
    }
    if (caller->count == sizeof caller->task / sizeof caller->task[0]) return;
    caller->task[caller->count].number = number;
    caller->task[caller->count++].group = group;
}

static void submit(struct caller *caller, weft_group *group) {
    struct payload p = payload_new(caller);
    note(caller, group, p.number, weft_submit(world.pool, group, task, &p, sizeof p));
}

static void submit_child(struct caller *caller) {
    struct payload p = payload_new(caller);
    int error = weft_submit_child(caller->self, task, &p, sizeof p);
    if (error == WEFT_EINVAL) error = WEFT_ECANCELED; /* a region of an outside thread has no group */
    note(caller, NULL, p.number, error);
}

static void run(struct caller *caller, weft_group *group) {
    struct payload p = payload_new(caller);
    note(caller, group, p.number, weft_run(world.pool, group, task, &p));
}

/* It sees what the caller's tasks of the one group wrote. */
static void submit_after(struct caller *caller, weft_group *after, weft_group *group) {
    struct payload p = payload_new(caller);
    for (uint32_t i = 0; i < caller->count && p.sees < 2; i++)
        if (caller->task[i].group == after) p.seen[p.sees++] = caller->task[i].number;
    note(caller, group, p.number, weft_submit_after(world.pool, (weft_after){after, group}, task, &p, sizeof p));
}

/* A wait has returned: the caller's tasks of that group have ended, and are forgotten. */
static void harvest(struct caller *caller, const weft_group *group) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < caller->count; i++) {
        uint32_t number = caller->task[i].number;
        if (caller->task[i].group != group) {
            caller->task[left++] = caller->task[i];
            continue;
        }
        EXPECT(world.task[number].ended == 1);
        plain_read(&world.written[number], sizeof world.written[number]);
        EXPECT(world.written[number] == number + 1);
    }
    caller->count = left;
}

static bool has_ended(int error) {
    EXPECT(error == WEFT_OK || error == 5 || error == WEFT_ECANCELED || error == WEFT_ELATE || error == WEFT_EDEADLK ||
           error == WEFT_ETIMEDOUT || error == WEFT_EAGAIN);
    return error != WEFT_EDEADLK && error != WEFT_ETIMEDOUT && error != WEFT_EAGAIN;
}
static void wait(struct caller *caller, weft_group *group) {
    if (has_ended(weft_group_wait(world.pool, group))) harvest(caller, group);
}
static void wait_long(struct caller *caller, weft_group *group) {
    enum weft_help help = (enum weft_help)explore_pick(3);
    uint64_t until_ns = world.times ? os_now_ns() + 1 + explore_pick(3) * UINT64_C(1000) : 0;
    if (has_ended(weft_group_wait_until(world.pool, group, help, until_ns))) harvest(caller, group);
}

/* A group of its own, whose memory goes with the wait. */
static void batch(struct caller *caller) {
    weft_group *group = os_alloc(sizeof *group);
    *group = (weft_group){.flags = explore_pick(2) == 0 ? 0 : WEFT_GROUP_CANCEL_ON_ERROR};
    plain_write(group, sizeof *group);
    caller->is_batch = true;
    submit(caller, group);
    if (explore_pick(2) == 0) submit(caller, group);
    caller->is_batch = false;
    int error = weft_group_wait(world.pool, group);
    bool is_dropped = error == WEFT_ECANCELED && pool_is_aborted(world.pool);
    if (error != WEFT_OK && error != 5 && !is_dropped) explore_fail("a batch: %s", weft_strerror(error));
    harvest(caller, group);
    os_free(group);
}

static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    uint32_t *units = context;
    EXPECT(self != NULL);
    for (size_t i = begin; i < end; i++) {
        plain_write(&units[i], sizeof units[i]);
        units[i]++;
    }
    return 0;
}
static void loop(void) {
    uint32_t *units = os_alloc(2 * sizeof *units);
    memset(units, 0, 2 * sizeof *units);
    plain_write(units, 2 * sizeof *units);
    int error = weft_for(world.pool, (weft_range){0, 2, 1}, body, units);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
    plain_read(units, 2 * sizeof *units);
    EXPECT(error != WEFT_OK || (units[0] == 1 && units[1] == 1));
    os_free(units);
}

static uint32_t count_down(weft_fork_slot *here, uint32_t n);
WEFT_FORK(count_down, uint32_t, uint32_t)
static uint32_t count_down(weft_fork_slot *here, uint32_t n) {
    if (n == 0) return 1;
    uint32_t less = n - 1;
    weft_fork_slot *deeper = count_down_fork(here, &less);
    uint32_t other = count_down(deeper, 0);
    return count_down_join(here, &less) + other;
}
static void fork_and_join(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    EXPECT(count_down(here, 2) == 3);
    weft_fork_leave(here);
}

static int first_node(void *context, weft_worker *self) {
    EXPECT(context == world.node && self != NULL);
    plain_write(world.node, sizeof world.node);
    world.node[0]++;
    return 0;
}
static int later_node(void *context, weft_worker *self) {
    EXPECT(context != NULL && self != NULL);
    plain_read(&world.node[0], sizeof world.node[0]);
    plain_write(context, sizeof world.node[0]);
    return 0;
}
static void graph_make(void) {
    weft_node nodes[3];
    EXPECT(weft_graph_create(&world.graph) == WEFT_OK);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(weft_graph_add(world.graph, &nodes[i], i == 0 ? first_node : later_node, &world.node[i]) == WEFT_OK);
    for (uint32_t i = 1; i < 3; i++) EXPECT(weft_graph_edge(world.graph, nodes[0], nodes[i]) == WEFT_OK);
    EXPECT(weft_graph_build(world.graph, NULL) == WEFT_OK);
}
static void graph(void) {
    int error = weft_graph_run(world.pool, world.graph);
    EXPECT(error == WEFT_OK || error == WEFT_EBUSY || error == WEFT_ECANCELED);
}

static void block(const struct caller *caller) {
    int error = weft_block_begin(caller->self);
    EXPECT(error == WEFT_OK || error == WEFT_EAGAIN);
    os_pause();
    EXPECT(weft_block_end(caller->self) == WEFT_OK);
}

static void no_error(int error) { EXPECT(error == WEFT_OK || error == WEFT_EINVAL); }

static void act(struct caller *caller) {
    uint32_t which = explore_pick(SHARED);
    weft_group *group = &world.shared[which], *other = &world.shared[1 - which];
    switch (explore_pick(caller->self == NULL ? 14 : 16)) {
    case 0:
    case 1: submit(caller, group); break;
    case 2: wait(caller, group); break;
    case 3: wait_long(caller, group); break;
    case 4: no_error(weft_group_cancel(world.pool, group)); break;
    case 5: no_error(weft_group_boost(world.pool, group)); break;
    case 6: no_error(weft_group_deadline(world.pool, group, os_now_ns() + 1000)); break;
    case 7: submit_after(caller, group, other); break;
    case 8: run(caller, group); break;
    case 9:
        if (caller->self == NULL || !world.pool->ordered) batch(caller); /* there a task's wait may be refused */
        break;
    case 10: loop(); break;
    case 11: fork_and_join(); break;
    case 12: graph(); break;
    case 13: no_error(weft_graph_cancel(world.pool, world.graph)); break;
    case 14: submit_child(caller); break;
    case 15: block(caller); break;
    }
}

/* ---- drivers ------------------------------------------------------------------------------------------------------ */

static void setup_of(uint32_t workers, uint32_t flags) {
    static const uint32_t group_flags[] = {0, WEFT_GROUP_CANCEL_ON_ERROR, WEFT_GROUP_URGENT, WEFT_GROUP_BACKGROUND,
                                           WEFT_GROUP_DROP_LATE};
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 1;
    world.config.flags = flags;
    world.config.spin_ns = explore_pick(2) == 0 ? WEFT_SPIN_NONE : 3000;
    world.config.clean = clean;
    world.config.context = &world;
    EXPECT(weft_pool_create(&world.pool, &world.config) == WEFT_OK);
    graph_make();
    for (uint32_t i = 0; i < SHARED && (flags & WEFT_POOL_ORDERED) == 0; i++)
        world.shared[i].flags = group_flags[explore_pick(5)];
}
static void setup_one(void) { setup_of(1, 0); }
static void setup_two(void) { setup_of(2, 0); }
static void setup_ordered(void) { setup_of(2, WEFT_POOL_ORDERED); }
/* No task counts as tiny or short: for those a worker may poll until its time has passed. */
static void setup_awake(uint32_t flags) {
    setup_of(2, flags);
    world.pool->tiny_ticks = world.pool->short_ticks = 0;
}
static void setup_sound(void) { setup_awake(0); }
static void setup_sound_no_help(void) { setup_awake(WEFT_POOL_NO_HELP); }
static void setup_timed(void) {
    setup_one();
    world.times = true;
}

static void play(void) {
    struct caller caller = {.self = NULL};
    for (uint32_t i = 0; i < OPS_MAX; i++) act(&caller);
    for (uint32_t i = 0; i < SHARED; i++) wait(&caller, &world.shared[i]);
}
static void play_and_leave(void) {
    struct caller caller = {.self = NULL};
    for (uint32_t i = 0; i < OPS_MAX; i++) act(&caller);
}
static void all_ended(void) {
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.task[i].ended == 1);
}
static void check(void) {
    for (uint32_t i = 0; i < SHARED; i++) EXPECT(has_ended(weft_group_wait(world.pool, &world.shared[i])));
    weft_pool *pool = world.pool; /* that is for the tasks that those of the one group submitted to the other */
    EXPECT(weft_pool_destroy(&pool) == WEFT_OK);
    EXPECT(weft_graph_destroy(&world.graph) == WEFT_OK);
    all_ended();
}
static void check_abort(void) {
    weft_pool *pool = world.pool; /* as above */
    EXPECT(weft_pool_abort(&pool, clean, &world) == WEFT_OK);
    EXPECT(weft_graph_destroy(&world.graph) == WEFT_OK);
    all_ended();
}

EXPLORE_DRIVER(mix_two, .about = "two threads, two workers", .setup = setup_two, .threads = {play, play}, .check = check);
EXPLORE_DRIVER(mix_three, .about = "three threads, one worker", .setup = setup_one, .threads = {play, play, play_and_leave},
               .check = check);
EXPLORE_DRIVER(mix_timed, .about = "two threads, one worker, waits with deadlines", .setup = setup_timed,
               .threads = {play, play}, .check = check);
EXPLORE_DRIVER(mix_ordered, .about = "two threads, two workers of an ordered pool", .setup = setup_ordered,
               .threads = {play, play}, .check = check);
EXPLORE_DRIVER(mix_sound, .about = "two threads, two workers, no wake lost", .setup = setup_sound, .threads = {play, play},
               .check = check, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(mix_sound_no_help, .about = "the same, the workers alone run tasks", .setup = setup_sound_no_help,
               .threads = {play, play}, .check = check, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(mix_abort, .about = "two threads, and the pool is aborted", .setup = setup_two,
               .threads = {play_and_leave, play_and_leave}, .check = check_abort);
