/* drive_pool.c: the whole pool through its public interface: created, given tasks from several threads, waited for,
 * destroyed. A group and the results of its tasks are released as soon as the wait returns. */
#define _GNU_SOURCE
#include "explore.h"
#include "sched/worker.h"

#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 32 };

static struct {
    weft_pool *pool;
    weft_config config;
    uint32_t run[TASKS_MAX]; /* the test's own, like the others */
    uint32_t cleaned[TASKS_MAX];
    uint32_t last[TASKS_MAX];
    uint32_t submitted;
    uint32_t hooked[4]; /* by the start hook of a worker */
    os_word second_run;
    ATOMIC(uint32_t) begun;
} world;

struct payload {
    uint32_t task;
    uint32_t *result; /* or NULL */
};

static void clean(void *payload, size_t size, void *context) {
    struct payload p;
    EXPECT(size == sizeof p && context == &world);
    memcpy(&p, payload, sizeof p);
    world.cleaned[p.task]++;
}

static void start_hook(weft_worker *self, void *context) {
    EXPECT(context == &world);
    uint32_t index = weft_worker_index(self);
    plain_write(&world.hooked[index], sizeof world.hooked[index]);
    world.hooked[index]++;
}

static void configure(uint32_t workers, uint32_t flags) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 3000, 1000000000};
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 1;
    world.config.flags = flags;
    world.config.spin_ns = spins_ns[explore_pick(3)];
    world.config.clean = clean;
    world.config.start = start_hook;
    world.config.context = &world;
}
static void create(void) {
    int error = weft_pool_create(&world.pool, &world.config);
    EXPECT(error == WEFT_OK && world.pool != NULL);
    for (uint32_t i = 0; i < world.config.workers; i++) {
        plain_read(&world.hooked[i], sizeof world.hooked[i]);
        EXPECT(world.hooked[i] == 1);
    }
}
static void destroy(void) {
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(world.pool == NULL);
}
static void all_run(void) {
    if (world.pool != NULL) destroy();
    EXPECT(explore_bytes_left() == 0);
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] == 1);
}

static int task(void *payload, weft_worker *self) {
    struct payload p;
    memcpy(&p, payload, sizeof p);
    EXPECT(self != NULL && p.task < world.submitted);
    EXPECT(++world.run[p.task] == 1);
    if (p.result == NULL) return 0;
    plain_write(p.result, sizeof *p.result);
    *p.result = p.task + 1;
    return 0;
}

static void submit_to(weft_pool *pool, weft_group *group, weft_fn fn, uint32_t *result) {
    struct payload p = {world.submitted++, result};
    EXPECT(p.task < TASKS_MAX);
    int error = weft_submit(pool, group, fn, &p, sizeof p);
    if (error != WEFT_OK) explore_fail("expected a submission to work: %s", weft_strerror(error));
}
static void submit(weft_group *group, weft_fn fn, uint32_t *result) { submit_to(world.pool, group, fn, result); }

static weft_group *group_new(void) {
    weft_group *group = os_alloc(sizeof *group);
    EXPECT(group != NULL);
    *group = (weft_group)WEFT_GROUP_INIT;
    return group;
}

/* `count` tasks of one group, waited for; their results and the group are released at once. */
static void batch(uint32_t count) {
    weft_group *group = group_new();
    uint32_t *results = os_alloc(count * sizeof *results);
    for (uint32_t i = 0; i < count; i++) submit(group, task, &results[i]);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    for (uint32_t i = 0; i < count; i++) {
        plain_read(&results[i], sizeof results[i]);
        EXPECT(results[i] != 0);
    }
    os_free(results);
    os_free(group);
}
static void one_task(void) { batch(1); }
static void three_tasks(void) { batch(3); }
static void two_batches(void) {
    batch(2);
    batch(1);
}

static void setup_one(void) {
    configure(1, 0);
    create();
}
static void setup_two(void) {
    configure(2, 0);
    create();
}
static void setup_one_no_help(void) {
    configure(1, WEFT_POOL_NO_HELP);
    create();
}
static void setup_two_no_help(void) {
    configure(2, WEFT_POOL_NO_HELP);
    create();
}

EXPLORE_DRIVER(pool_one, .about = "a worker, a submitter that waits", .setup = setup_one, .threads = {three_tasks},
               .check = all_run);
EXPLORE_DRIVER(pool_one_no_help, .about = "a worker, a submitter that only sleeps", .setup = setup_one_no_help,
               .threads = {two_batches}, .check = all_run, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(pool_two, .about = "two workers, a submitter", .setup = setup_two, .threads = {two_batches},
               .check = all_run);
EXPLORE_DRIVER(pool_submitters, .about = "two submitters that come and go, two groups", .setup = setup_one,
               .threads = {one_task, three_tasks}, .check = all_run);
EXPLORE_DRIVER(pool_idle, .about = "created and destroyed", .setup = setup_two, .threads = {NULL}, .check = all_run);

/* Lanes of two groups at once, each with more segments than a lane keeps: they stand in the seat's list as long as that is
 * so, once each, and no wait for good leaves them there. */
enum { LONG = 6 }; /* tasks: two segments */
static const struct weft_worker *outside(void) { return os_self_get()->worker; }
static void look_at_lanes(void) {
    uint32_t listed = 0, marked = 0;
    for (const struct lane *lane = load_rlx(&outside()->lanes); lane != NULL; lane = load_rlx(&lane->next)) {
        EXPECT(lane->in_use <= LANE_KEEP || lane->is_long);
        marked += lane->is_long;
    }
    for (const struct lane *lane = outside()->long_lanes; lane != NULL; lane = lane->next_long)
        EXPECT(lane->is_long && ++listed <= LONG);
    EXPECT(listed >= marked); /* hidden ones may be listed, too */
    explore_observe(listed);
}
static void two_long_batches(void) {
    weft_group *groups[] = {group_new(), group_new()};
    for (uint32_t i = 0; i < LONG; i++)
        for (uint32_t k = 0; k < 2; k++) submit(groups[k], task, NULL);
    look_at_lanes();
    for (uint32_t k = 0; k < 2; k++) {
        EXPECT(weft_group_wait(world.pool, groups[k]) == WEFT_OK);
        look_at_lanes();
        os_free(groups[k]);
    }
    for (; outside()->long_lanes != NULL; os_pause()) batch(1);
}
EXPLORE_DRIVER(pool_long_lanes, .about = "two groups' lanes grow long and short again", .setup = setup_one,
               .threads = {two_long_batches}, .check = all_run, .must_see = 7);

/* Two wait for one group, a third thread submits to it. */
static weft_group *shared_group;
static void setup_shared(void) {
    setup_one();
    shared_group = group_new();
    submit(shared_group, task, NULL);
}
static void wait_shared(void) { EXPECT(weft_group_wait(world.pool, shared_group) == WEFT_OK); }
static void submit_shared(void) { submit(shared_group, task, NULL); }
static void check_shared(void) {
    wait_shared();
    os_free(shared_group);
    all_run();
}
EXPLORE_DRIVER(pool_waiters, .about = "two wait for one group while a third submits to it", .setup = setup_shared,
               .threads = {wait_shared, wait_shared, submit_shared}, .check = check_shared);

/* Two wait for one group, the second perhaps when it has ended. */
static uint32_t *shared_result;
static void setup_result(void) {
    setup_one();
    shared_group = group_new();
    shared_result = os_alloc(sizeof *shared_result);
    submit(shared_group, task, shared_result);
}
static void wait_and_read(void) {
    wait_shared();
    plain_read(shared_result, sizeof *shared_result);
    EXPECT(*shared_result != 0);
}
static void check_result(void) {
    os_free(shared_result);
    check_shared();
}
EXPLORE_DRIVER(pool_late_wait, .about = "two wait for one group and read what its task wrote", .setup = setup_result,
               .threads = {wait_and_read, wait_and_read}, .check = check_result);

/* Two give the group its id at once, a third waits for it, a fourth looks on. */
static void setup_fresh(void) {
    setup_one();
    shared_group = group_new();
}
static void submit_and_wait_shared(void) {
    submit_shared();
    submit_shared();
    wait_shared();
}
static void look_on(void) {
    weft_stats stats = {.struct_size = sizeof stats};
    EXPECT(weft_pool_stats(world.pool, &stats) == WEFT_OK);
}
EXPLORE_DRIVER(pool_bind, .about = "two submit to a new group at once, a third waits", .setup = setup_fresh,
               .threads = {submit_and_wait_shared, submit_and_wait_shared, wait_shared, look_on}, .check = check_shared);

/* Destroy runs what is queued, also what tasks submit. */
static int task_submits(void *payload, weft_worker *self) {
    int error = task(payload, self);
    submit_to(weft_worker_pool(self), NULL, task, NULL); /* destroy has taken world.pool */
    return error;
}
static void submit_and_leave(void) {
    submit(NULL, task_submits, NULL);
    submit(NULL, task, NULL);
}
EXPLORE_DRIVER(pool_destroy, .about = "destroyed with tasks queued", .setup = setup_one, .threads = {submit_and_leave},
               .check = all_run);

/* A guest's loop goes on while the pool is being destroyed; what its chunks submit still runs. */
static int chunk_submits(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    submit_to(weft_worker_pool(self), NULL, task, NULL);
    store_rlx(&world.begun, 1);
    return 0;
}
static void loop_as_guest(void) {
    const weft_range range = {0, 2, 1};
    EXPECT(weft_for(world.pool, range, chunk_submits, NULL) == WEFT_OK);
}
static void destroy_when_begun(void) {
    while (load_rlx(&world.begun) == 0) os_pause();
    destroy();
}
EXPLORE_DRIVER(pool_guest, .about = "destroyed while a guest runs a loop", .setup = setup_one,
               .threads = {loop_as_guest, destroy_when_begun}, .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* Aborted while a task gives a group a deadline: tasks look for deadlines from then on. */
static int task_sets_deadline(void *payload, weft_worker *self) {
    weft_pool *pool = weft_worker_pool(self);
    int error = task(payload, self);
    store_rlx(&world.begun, 1);
    EXPECT(weft_group_deadline(pool, NULL, os_now_ns() + 1000000000) == WEFT_OK);
    explore_step();
    EXPECT((load_rlx(&pool->extras) & EXTRA_DUE) != 0);
    return error;
}
static void submit_deadline(void) { submit(NULL, task_sets_deadline, NULL); }
static void abort_when_begun(void) {
    while (load_rlx(&world.begun) == 0) os_pause();
    EXPECT(weft_pool_abort(&world.pool, clean, &world) == WEFT_OK);
}
EXPLORE_DRIVER(pool_abort_deadline, .about = "aborted while a task sets a deadline", .setup = setup_one,
               .threads = {submit_deadline, abort_when_begun}, .check = all_run);

/* Destroyed by a thread that a task told to, while the submitter has yet to look whom to wake. A group's first submission
 * goes the long way, its second the short one. */
static int task_tells(void *payload, weft_worker *self) {
    int error = task(payload, self);
    store_rel(drive_pool_tells, &world.begun, 1);
    return error;
}
static void outlive(void) { /* the thread's end would order what it did before the end of the pool */
    while (load_rlx(&world.begun) != 2) os_pause();
}
static void submit_to_the_end(void) {
    submit(shared_group, task, NULL);
    submit(shared_group, task_tells, NULL);
    outlive();
}
static void submit_the_long_way(void) {
    submit(NULL, task_tells, NULL);
    outlive();
}
static void destroy_when_told(void) {
    while (load_acq(drive_pool_told, &world.begun) == 0) os_pause();
    destroy();
    store_rlx(&world.begun, 2);
}
static void check_told(void) {
    os_free(shared_group);
    all_run();
}
EXPLORE_DRIVER(pool_leaves, .about = "destroyed by a thread that the last task told to", .setup = setup_fresh,
               .threads = {submit_to_the_end, destroy_when_told}, .check = check_told, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(pool_leaves_slowly, .about = "the same after a submission without a group", .setup = setup_fresh,
               .threads = {submit_the_long_way, destroy_when_told}, .check = check_told, .flags = EXPLORE_NO_RESCUE);

static uint32_t aborted[TASKS_MAX];
static void clean_aborted(void *payload, size_t size, void *context) {
    struct payload p;
    EXPECT(size == sizeof p && context == aborted);
    memcpy(&p, payload, sizeof p);
    aborted[p.task]++;
}
static void abort_check(void) {
    memset(aborted, 0, sizeof aborted);
    EXPECT(weft_pool_abort(&world.pool, clean_aborted, aborted) == WEFT_OK);
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] + aborted[i] == 1 && world.cleaned[i] == 0);
}
static void submit_three_and_leave(void) {
    for (int i = 0; i < 3; i++) submit(NULL, task, NULL);
}
EXPLORE_DRIVER(pool_abort, .about = "aborted with tasks queued", .setup = setup_one, .threads = {submit_three_and_leave},
               .check = abort_check);

/* A worker drops what was cancelled while the pool is aborted: a payload goes to the one clean or the other, each with its
 * own context. */
static void submit_cancel_and_leave(void) {
    submit(NULL, task, NULL);
    submit(NULL, task, NULL);
    EXPECT(weft_group_cancel(world.pool, NULL) == WEFT_OK);
}
static void abort_cancelled_check(void) {
    memset(aborted, 0, sizeof aborted);
    EXPECT(weft_pool_abort(&world.pool, clean_aborted, aborted) == WEFT_OK);
    for (uint32_t i = 0; i < world.submitted; i++) {
        EXPECT(world.run[i] + aborted[i] + world.cleaned[i] == 1);
        explore_observe(aborted[i]);
    }
}
EXPLORE_DRIVER(pool_abort_cancelled, .about = "aborted while a worker drops cancelled tasks", .setup = setup_one_no_help,
               .threads = {submit_cancel_and_leave}, .check = abort_cancelled_check, .must_see = 3);

/* A task waits for a group of its own. */
static int task_waits(void *payload, weft_worker *self) {
    int error = task(payload, self);
    batch(2);
    return error;
}
static void nested(void) {
    weft_group *group = group_new();
    submit(group, task_waits, NULL);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    os_free(group);
}
EXPLORE_DRIVER(pool_nested, .about = "a task waits for tasks of its own", .setup = setup_one, .threads = {nested},
               .check = all_run);
EXPLORE_DRIVER(pool_nested_two, .about = "the same, two workers that alone run tasks", .setup = setup_two_no_help,
               .threads = {nested}, .check = all_run);

/* Work is conserved: the first task ends only after the second has run. */
static int task_first(void *payload, weft_worker *self) {
    int error = task(payload, self);
    while (load_acq(drive_pool_first, &world.second_run) == 0) os_wait(&world.second_run, 0, 0);
    return error;
}
static int task_second(void *payload, weft_worker *self) {
    int error = task(payload, self);
    store_rel(drive_pool_second, &world.second_run, 1);
    os_wake(&world.second_run, 2);
    return error;
}
static void submit_dependent(void) {
    weft_group *group = group_new();
    submit(group, task_first, NULL);
    submit(group, task, NULL);
    submit(group, task_second, NULL);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    os_free(group);
}
/* No task is tiny: for those another worker would poll, and see the last one only after its time. */
static void setup_conserving(void) {
    setup_two_no_help();
    world.pool->tiny_ticks = 0;
}
EXPLORE_DRIVER(pool_conserves, .about = "a task that blocks until a later one has run", .setup = setup_conserving,
               .threads = {submit_dependent}, .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* As if there were one CPU and tasks were known to be short: the second worker polls, and gets up for nothing but this. */
static void setup_crowd(void) {
    configure(2, WEFT_POOL_NO_HELP);
    create();
    store_rlx(&world.pool->cpu_count, 1);
    store_rlx(&world.pool->cpus_allowed, 1);
    store_rlx(&world.pool->tasks_are_short, 1);
}
static void crowd_submits(void) {
    batch(1);
    submit_dependent();
}
EXPLORE_DRIVER(pool_crowd, .about = "the same after a brief task, more workers than CPUs", .setup = setup_crowd,
               .threads = {crowd_submits}, .check = all_run);

/* One worker, and a task that says that it will block: a spare runs the rest. */
static int task_blocks(void *payload, weft_worker *self) {
    int begun = weft_block_begin(self);
    int error = begun == WEFT_OK ? task_first(payload, self) : task(payload, self);
    EXPECT(weft_block_end(self) == WEFT_OK);
    return error;
}
static void setup_blocking(void) {
    configure(1, WEFT_POOL_NO_HELP);
    /* The worker's own thread may be the one that cannot be started. */
    int error = weft_pool_create(&world.pool, &world.config);
    EXPECT(error == WEFT_OK || error == WEFT_EAGAIN);
}
static void submit_blocking(void) {
    if (world.pool == NULL) return;
    weft_group *group = group_new();
    submit(group, task_blocks, NULL);
    submit(group, task_second, NULL);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    os_free(group);
}
EXPLORE_DRIVER(pool_blocks, .about = "a spare stands in for a blocked worker", .setup = setup_blocking,
               .threads = {submit_blocking}, .check = all_run, .flags = EXPLORE_NO_RESCUE | EXPLORE_THREADS_FAIL);

/* Claims of several, once their tasks were seen to be tiny: the rest of one whose task blocks or waits is another's to
 * run. */
static void submit_offered(void) {
    batch(2);
    weft_group *group = group_new();
    submit(group, task_blocks, NULL);
    submit(group, task, NULL);
    submit(group, task_second, NULL);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    os_free(group);
}
EXPLORE_DRIVER(pool_offers, .about = "a task that blocks inside a claim of several", .setup = setup_two_no_help,
               .threads = {submit_offered}, .check = all_run, .flags = EXPLORE_NO_RESCUE);
/* No spinning: while a worker waits, only the poller's deadline gets the rest under way. */
static void setup_nested_offers(void) {
    configure(2, WEFT_POOL_NO_HELP);
    world.config.spin_ns = WEFT_SPIN_NONE;
    create();
}
static void nested_offered(void) {
    batch(2);
    weft_group *group = group_new();
    submit(group, task_waits, NULL);
    submit(group, task, NULL);
    submit(group, task, NULL);
    EXPECT(weft_group_wait(world.pool, group) == WEFT_OK);
    os_free(group);
}
EXPLORE_DRIVER(pool_nested_offers, .about = "a task that waits inside a claim of several", .setup = setup_nested_offers,
               .threads = {nested_offered}, .check = all_run);

/* Cancelled tasks run or are cleaned, once each. */
static void submit_and_cancel(void) {
    weft_group *group = group_new();
    for (int i = 0; i < 3; i++) submit(group, task, NULL);
    EXPECT(weft_group_cancel(world.pool, group) == WEFT_OK);
    int error = weft_group_wait(world.pool, group);
    EXPECT(error == WEFT_ECANCELED || error == WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) EXPECT(world.run[i] + world.cleaned[i] == 1);
    os_free(group);
}
EXPLORE_DRIVER(pool_cancel, .about = "a group is cancelled while it runs", .setup = setup_two_no_help,
               .threads = {submit_and_cancel}, .check = destroy);

/* An ordered pool starts tasks in their order. */
static int task_in_order(void *payload, weft_worker *self) {
    struct payload p;
    memcpy(&p, payload, sizeof p);
    for (uint32_t i = 0; i < p.task; i++) EXPECT(world.run[i] == 1);
    return task(payload, self);
}
static void setup_ordered(void) {
    configure(1, WEFT_POOL_ORDERED);
    create();
}
static void submit_in_order(void) {
    weft_group *one = group_new(), *two = group_new();
    submit(one, task_in_order, NULL);
    submit(two, task_in_order, NULL);
    submit(one, task_in_order, NULL);
    EXPECT(weft_group_wait(world.pool, two) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, one) == WEFT_OK);
    os_free(one);
    os_free(two);
}
EXPLORE_DRIVER(pool_ordered, .about = "tasks of two groups start in the order of their submission", .setup = setup_ordered,
               .threads = {submit_in_order}, .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* A bound of one task that waits to start. */
static void setup_bounded(void) {
    configure(1, WEFT_POOL_NO_HELP);
    world.config.queue_max = 1;
    world.config.full = WEFT_FULL_BLOCK;
    create();
}
EXPLORE_DRIVER(pool_bounded, .about = "submitters wait for room", .setup = setup_bounded, .threads = {one_task, three_tasks},
               .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* Memory and threads run out: an error, or a pool with less. */
static void create_or_fail(void) {
    configure(2, 0);
    if (weft_pool_create(&world.pool, &world.config) != WEFT_OK) {
        EXPECT(world.pool == NULL && explore_bytes_left() == 0);
        explore_observe(0);
        return;
    }
    explore_observe(weft_pool_workers(world.pool));
    weft_group group = WEFT_GROUP_INIT;
    struct payload p = {world.submitted++, NULL};
    int error = weft_submit(world.pool, &group, task, &p, sizeof p);
    EXPECT(error == WEFT_OK || error == WEFT_ENOMEM);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
    EXPECT(world.run[0] == (error == WEFT_OK));
    destroy();
    EXPECT(explore_bytes_left() == 0);
}
EXPLORE_DRIVER(pool_poor, .about = "memory and threads run out", .threads = {create_or_fail},
               .flags = EXPLORE_THREADS_FAIL | EXPLORE_MEMORY_FAILS, .must_see = 7);

/* The process's own pool: made by the first who asks for it, ended by the last who gives it back, made again. */
static uint32_t users;
static uint64_t own_seen;
static void setup_own(void) {
    memset(&world, 0, sizeof world);
    users = 0;
    own_seen = 0;
    setenv("WEFT_WORKERS", "1", 1);
}
static void use_own(void) {
    weft_pool *pool = NULL;
    EXPECT(weft_pool_default(&pool) == WEFT_OK && pool != NULL);
    users++;
    explore_observe(users > 1 ? 0 : 1);
    explore_observe(own_seen == 0 || own_seen == pool->id ? 1 : 2);
    own_seen = pool->id;
    submit_to(pool, NULL, task, NULL);
    EXPECT(weft_group_wait(pool, NULL) == WEFT_OK);
    users--;
    EXPECT(weft_pool_destroy(&pool) == WEFT_OK && pool == NULL);
}
static void check_own(void) {
    unsetenv("WEFT_WORKERS");
    all_run();
}
EXPLORE_DRIVER(pool_own, .about = "users of the process's own pool come and go", .setup = setup_own,
               .threads = {use_own, use_own, use_own}, .check = check_own, .must_see = 7);
