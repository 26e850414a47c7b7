/* drive_after.c: tasks that start when a group has finished, in a whole pool. What the first group's tasks wrote in plain
 * memory is there when they start; nobody sleeps for ever. */
#include "explore.h"
#include "sched/task.h"
#include "weft.h"

#include <string.h>

static struct {
    weft_pool *pool;
    weft_group first;
    weft_group then;
    uint32_t written[4]; /* plain: each by one task of `first` */
    uint32_t submitted;
    uint32_t started; /* the test's own: continuations that ran */
    uint32_t accepted;
    uint32_t told;
    bool is_gone;               /* nobody may touch `first` */
    ATOMIC(uint32_t) has_begun; /* the call that awaits it has returned */
} world;

static int write_task(void *payload, weft_worker *self) {
    uint32_t *at = *(uint32_t **)payload;
    EXPECT(self != NULL);
    plain_write(at, sizeof *at);
    *at = 1;
    return 0;
}

static int submit_write(void) {
    uint32_t *at = &world.written[world.submitted];
    int error = weft_submit(world.pool, &world.first, write_task, &at, sizeof at);
    if (error == WEFT_OK) world.submitted++;
    return error;
}

/* Payload: how many tasks of `first` were submitted before. */
static int then_task(void *payload, weft_worker *self) {
    EXPECT(self != NULL);
    for (uint32_t i = 0; i < *(uint32_t *)payload; i++) {
        plain_read(&world.written[i], sizeof world.written[i]);
        EXPECT(world.written[i] == 1);
    }
    world.started++;
    return 0;
}

static void hold(void) {
    const weft_after after = {&world.first, &world.then};
    EXPECT(weft_submit_after(world.pool, after, then_task, &world.submitted, sizeof world.submitted) == WEFT_OK);
    world.accepted++;
}

static void setup_flags(uint32_t workers, uint32_t flags) {
    weft_config config;
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    config.spares = 1;
    config.flags = flags;
    config.spin_ns = explore_pick(2) == 0 ? WEFT_SPIN_NONE : 1000;
    EXPECT(weft_pool_create(&world.pool, &config) == WEFT_OK);
}
static void setup(void) { setup_flags(1, 0); }
static void setup_no_help(void) { setup_flags(1, WEFT_POOL_NO_HELP); }
static void setup_two(void) { setup_flags(2, WEFT_POOL_NO_HELP); }

static void wait_for_both(void) {
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.started == world.accepted);
    EXPECT(weft_group_wait(world.pool, &world.first) == WEFT_OK);
}
static void check(void) {
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    EXPECT(world.started == world.accepted);
}

static void two_then_one(void) {
    EXPECT(submit_write() == WEFT_OK);
    EXPECT(submit_write() == WEFT_OK);
    hold();
    wait_for_both();
}
EXPLORE_DRIVER(after_one, .about = "two tasks, then one; the submitter helps", .setup = setup, .threads = {two_then_one},
               .check = check);
EXPLORE_DRIVER(after_no_help, .about = "the same, run by two workers alone", .setup = setup_two, .threads = {two_then_one},
               .check = check, .flags = EXPLORE_NO_RESCUE);

/* The end of the pool is the only wait. */
static void submit_and_leave(void) {
    EXPECT(submit_write() == WEFT_OK);
    hold();
    hold();
}
EXPLORE_DRIVER(after_destroy, .about = "continuation when the pool ends", .setup = setup_no_help,
               .threads = {submit_and_leave}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* ---- another thread ends the group meanwhile ---------------------------------------------------------------------- */

static void setup_begun(void) {
    setup_no_help();
    EXPECT(submit_write() == WEFT_OK);
}
static void hold_and_wait(void) {
    hold();
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.started == world.accepted);
}
static void wait_for_first(void) { EXPECT(weft_group_wait(world.pool, &world.first) == WEFT_OK); }
EXPLORE_DRIVER(after_waiter, .about = "one thread waits for the group, another comes after it", .setup = setup_begun,
               .threads = {wait_for_first, hold_and_wait}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* ---- awaiting ----------------------------------------------------------------------------------------------------- */

static int fail_task(void *payload, weft_worker *self) { return write_task(payload, self) + 5; }
static void tell(void *payload, int result, int has_ended) {
    EXPECT(result == 5);
    plain_read(&world.written[0], sizeof world.written[0]);
    EXPECT(world.written[0] == 1);
    if (has_ended != 0) EXPECT(!world.is_gone && load_rlx(id_of(&world.first)) != 0);
    *(uint32_t *)payload = 1;
    world.told++;
    explore_observe(has_ended != 0);
}
static void submit_await(void) {
    static const weft_object type = {sizeof(uint32_t), then_task, NULL};
    const weft_after after = {&world.first, &world.then};
    uint32_t none = 0; /* of `written`, before it is told */
    int error = weft_submit_await(world.pool, after, &type, &none, tell);
    EXPECT(error == WEFT_OK || error == 1);
    if (error == WEFT_OK) world.accepted++;
}
static void submit_failing(void) {
    uint32_t *at = &world.written[0];
    EXPECT(weft_submit(world.pool, &world.first, fail_task, &at, sizeof at) == WEFT_OK);
}
static void setup_failing(void) {
    setup_no_help();
    submit_failing();
}
static void setup_failing_helping(void) {
    setup();
    submit_failing();
}
static void await_and_wait(void) {
    submit_await();
    submit_await();
    store_rlx(&world.has_begun, 1);
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.started == world.accepted && world.told == world.accepted);
}
/* Its wait is the last call with the group, which then goes. */
static void wait_and_free(void) {
    int error = weft_group_wait(world.pool, &world.first);
    EXPECT(error == WEFT_OK || error == 5);
    while (load_rlx(&world.has_begun) == 0) os_pause();
    world.is_gone = true;
    memset(&world.first, 0xff, sizeof world.first);
}
static void check_gone(void) {
    check();
    for (size_t i = 0; i < sizeof world.first; i++) EXPECT(((unsigned char *)&world.first)[i] == 0xff);
}
EXPLORE_DRIVER(after_await, .about = "one thread waits for a group and frees it, another awaits it", .setup = setup_failing,
               .threads = {wait_and_free, await_and_wait}, .check = check_gone, .must_see = 3, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(after_await_helps, .about = "the same; who waits may have run the task", .setup = setup_failing_helping,
               .threads = {wait_and_free, await_and_wait}, .check = check_gone);

/* Nobody else waits. */
static void await_alone(void) {
    submit_failing();
    await_and_wait();
    if (world.accepted > 0) EXPECT(load_rlx(id_of(&world.first)) == 0);
}
EXPLORE_DRIVER(after_await_alone, .about = "awaiting ends the group", .setup = setup, .threads = {await_alone},
               .check = check, .flags = EXPLORE_NO_RESCUE);

/* A cancelled group, of which a thread takes a submission back at that moment. Nobody else waits. */
static void tell_cancelled(void *payload, int result, int has_ended) {
    EXPECT((result == WEFT_OK || result == WEFT_ECANCELED) && has_ended != 0);
    explore_observe(result == WEFT_OK ? 2 : 3);
    EXPECT(*(uint32_t *)payload == 0);
    world.told++;
}
static void await_cancelled(void) {
    static const weft_object type = {sizeof(uint32_t), then_task, NULL};
    uint32_t none = 0;
    while (load_rlx(&world.has_begun) == 0) os_pause();
    int error = weft_submit_await(world.pool, (weft_after){&world.first, &world.then}, &type, &none, tell_cancelled);
    EXPECT(error == WEFT_OK || error == 1);
    world.accepted = error == WEFT_OK;
    EXPECT(weft_group_cancel(world.pool, &world.first) == WEFT_OK);
    store_rlx(&world.has_begun, 2);
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.told == world.accepted && world.started == world.accepted);
}
static void submit_and_be_refused(void) {
    uint32_t *at = &world.written[1];
    EXPECT(weft_submit(world.pool, &world.first, write_task, &at, sizeof at) == WEFT_OK);
    store_rlx(&world.has_begun, 1);
    while (load_rlx(&world.has_begun) != 2) os_pause();
    for (int i = 0; i < 2; i++) /* WEFT_OK: the group had ended */
        explore_observe(weft_submit(world.pool, &world.first, write_task, &at, sizeof at) == WEFT_OK ? 0 : 1);
}
static void check_refused(void) {
    int error = weft_group_wait(world.pool, &world.first);
    EXPECT(error == WEFT_OK || (error == WEFT_ECANCELED && world.accepted == 0)); /* the awaiting has ended it */
    check();
}
EXPLORE_DRIVER(after_await_refused, .about = "awaiting ends a cancelled group beside refused submissions",
               .setup = setup_no_help, .threads = {await_cancelled, submit_and_be_refused}, .check = check_refused,
               .must_see = 15, .flags = EXPLORE_NO_RESCUE);

/* A task that comes when the group has finished: its error is told, or it belongs to the next use of the group. */
static uint32_t detail; /* the late task writes it before it fails */
static void tell_late(void *payload, int result, int has_ended) {
    EXPECT((result == 0 || result == 7) && has_ended != 0);
    if (result == 7) plain_read(&detail, sizeof detail);
    explore_observe(result == 7);
    *(uint32_t *)payload = 1;
    world.told += 1 + (uint32_t)result;
}
static int fail_late(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    plain_write(&detail, sizeof detail);
    detail = 1;
    return 7;
}
static void await_late(void) {
    static const weft_object type = {sizeof(uint32_t), then_task, NULL};
    uint32_t none = 0;
    int error = weft_submit_await(world.pool, (weft_after){&world.first, &world.then}, &type, &none, tell_late);
    EXPECT(error == WEFT_OK || error == 1);
    world.accepted = error == WEFT_OK;
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.started == world.accepted && (world.told != 0) == (world.accepted == 1));
}
static void submit_fail_late(void) { EXPECT(weft_submit(world.pool, &world.first, fail_late, NULL, 0) == WEFT_OK); }
static void check_late(void) {
    int error = weft_group_wait(world.pool, &world.first);
    EXPECT(error == (world.told == 8 ? 0 : 7)); /* once */
    check();
}
EXPLORE_DRIVER(after_await_late, .about = "a failing task comes when an awaited group has finished", .setup = setup_begun,
               .threads = {await_late, submit_fail_late}, .check = check_late, .must_see = 3, .flags = EXPLORE_NO_RESCUE);

/* ---- a submission that is taken back is the last change of the counts --------------------------------------------- */

static void cancel_first(void) { EXPECT(weft_group_cancel(world.pool, &world.first) == WEFT_OK); }
static void submit_late(void) {
    uint32_t *at = &world.written[1];
    for (int i = 0; i < 2; i++) {
        int error = weft_submit(world.pool, &world.first, write_task, &at, sizeof at);
        EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
        explore_observe(error == WEFT_OK ? 0 : 1);
    }
}
static int count_task(void *payload, weft_worker *self) {
    EXPECT(payload == NULL && self != NULL);
    world.started++;
    return 0;
}
static void setup_begun_helping(void) {
    setup();
    EXPECT(submit_write() == WEFT_OK);
}
static void begin_hold_and_wait(void) {
    EXPECT(weft_submit(world.pool, &world.then, count_task, NULL, 0) == WEFT_OK);
    world.accepted++;
    while (load_rlx(id_of(&world.first)) != 0) os_pause(); /* it has ended */
    hold_and_wait();
}
EXPLORE_DRIVER(after_waiter_ran, .about = "the same; who waits may have run the task", .setup = setup_begun_helping,
               .threads = {wait_for_first, begin_hold_and_wait}, .check = check);

static void hold_counting(void) {
    const weft_after after = {&world.first, &world.then};
    EXPECT(weft_submit_after(world.pool, after, count_task, NULL, 0) == WEFT_OK);
    world.accepted++;
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    EXPECT(world.started == 1);
}
static void check_cancelled(void) {
    int error = weft_group_wait(world.pool, &world.first);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
    check();
}
EXPLORE_DRIVER(after_undo, .about = "a stranger's submission to a cancelled group is taken back", .setup = setup_begun,
               .threads = {cancel_first, submit_late, hold_counting}, .check = check_cancelled, .must_see = 3,
               .flags = EXPLORE_NO_RESCUE);

static void wait_cancelled(void) {
    int error = weft_group_wait(world.pool, &world.first);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
}
EXPLORE_DRIVER(after_undo_wait, .about = "the same, and a plain wait", .setup = setup_begun,
               .threads = {cancel_first, submit_late, wait_cancelled}, .check = check_cancelled, .must_see = 3,
               .flags = EXPLORE_NO_RESCUE);

/* ---- helping ------------------------------------------------------------------------------------------------------ */

/* The only worker waits for what comes after tasks that only it can run. */
static int first_and_then(void *payload, weft_worker *self) {
    EXPECT(payload == NULL && self != NULL);
    two_then_one();
    return 0;
}
static void submit_inside(void) {
    weft_group group = WEFT_GROUP_INIT;
    EXPECT(weft_submit(world.pool, &group, first_and_then, NULL, 0) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
}
EXPLORE_DRIVER(after_inside, .about = "the only worker waits for a continuation", .setup = setup, .threads = {submit_inside},
               .check = check);

/* A sleeping waiter that can help only since another thread has made its group come after. */
static int wait_for_then(void *payload, weft_worker *self) {
    EXPECT(payload == NULL && self != NULL);
    int error = weft_group_wait(weft_worker_pool(self), &world.then);
    if (error != WEFT_OK) explore_fail("expected the wait to work: %s", weft_strerror(error));
    return 0;
}
static void setup_helper(void) {
    setup();
    EXPECT(weft_submit(world.pool, &world.then, count_task, NULL, 0) == WEFT_OK);
    world.accepted++;
}
static void submit_waiter(void) { EXPECT(weft_submit(world.pool, NULL, wait_for_then, NULL, 0) == WEFT_OK); }
static void hold_first(void) {
    EXPECT(submit_write() == WEFT_OK);
    hold();
}
EXPLORE_DRIVER(after_helper, .about = "the only worker sleeps in a wait that comes to depend on a group",
               .setup = setup_helper, .threads = {submit_waiter, hold_first}, .check = check, .flags = EXPLORE_NO_RESCUE);

/* A task of `first` waits for `then`, while somebody would have `then` wait for `first`: one of the two is refused. */
static int waiting_task(void *payload, weft_worker *self) {
    int error = weft_group_wait(weft_worker_pool(self), &world.then);
    EXPECT(error == WEFT_OK || error == WEFT_EDEADLK);
    if (error == WEFT_EDEADLK) world.started += 10;
    (void)payload;
    return 0;
}
static void submit_waiting(void) {
    EXPECT(weft_submit(world.pool, &world.then, write_task, &(uint32_t *){&world.written[0]}, sizeof(uint32_t *)) ==
           WEFT_OK);
    EXPECT(weft_submit(world.pool, &world.first, waiting_task, NULL, 0) == WEFT_OK);
    const weft_after after = {&world.first, &world.then};
    int error = weft_submit_after(world.pool, after, then_task, &world.submitted, sizeof world.submitted);
    EXPECT(error == WEFT_OK || error == WEFT_EDEADLK);
    explore_observe(error == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.first) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
}
static void check_circle(void) { EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK); }
EXPLORE_DRIVER(after_circle, .about = "a circle closed around a wait", .setup = setup, .threads = {submit_waiting},
               .check = check_circle, .flags = EXPLORE_NO_RESCUE, .must_see = 3);
EXPLORE_DRIVER(after_circle_no_help, .about = "the same, run by two workers alone", .setup = setup_two,
               .threads = {submit_waiting}, .check = check_circle, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* The same, but who closes the circle is the caller of a graph, who cannot be refused: the wait inside it is. */
static int waiting_node(void *context, weft_worker *self) {
    (void)context;
    return waiting_task(NULL, self);
}
static int short_node(void *context, weft_worker *self) {
    (void)context;
    EXPECT(self != NULL);
    return 0;
}
static int graph_task(void *payload, weft_worker *self) {
    weft_graph *graph;
    weft_node node;
    (void)payload;
    EXPECT(weft_graph_create(&graph) == WEFT_OK);
    EXPECT(weft_graph_add(graph, &node, short_node, NULL) == WEFT_OK);
    EXPECT(weft_graph_add(graph, &node, waiting_node, NULL) == WEFT_OK);
    EXPECT(weft_graph_build(graph, NULL) == WEFT_OK);
    EXPECT(weft_graph_run(weft_worker_pool(self), graph) == WEFT_OK);
    EXPECT(weft_graph_destroy(&graph) == WEFT_OK);
    return 0;
}
static void submit_graph(void) {
    EXPECT(weft_submit(world.pool, &world.first, graph_task, NULL, 0) == WEFT_OK);
    const weft_after after = {&world.first, &world.then};
    int error = weft_submit_after(world.pool, after, then_task, &world.submitted, sizeof world.submitted);
    EXPECT(error == WEFT_OK || error == WEFT_EDEADLK);
    explore_observe(error == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.first) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &world.then) == WEFT_OK);
    if (world.started >= 10) explore_observe(2);
}
EXPLORE_DRIVER(after_circle_graph, .about = "a circle closed by the caller of a graph, who insists", .setup = setup_two,
               .threads = {submit_graph}, .check = check_circle, .flags = EXPLORE_NO_RESCUE, .must_see = 6);
