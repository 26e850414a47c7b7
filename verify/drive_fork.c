/* drive_fork.c: fork-join through the public interface: the inline functions of weft.h, and whoever takes their calls. */
#include "at_rest.h"
#include "front.h"

#include <string.h>

enum { CALLS_MAX = 32, ROW = 8 };

static struct {
    weft_pool *pool;
    weft_config config;
    uint32_t run[CALLS_MAX]; /* the test's own, like the others */
    uint32_t made;
    weft_worker *caller;
    weft_worker *parent; /* who runs the call that forked */
    os_word event;
    bool found_empty;
} world;

/* A call reads what its argument points to and writes its result there. */
struct call {
    uint32_t *cell;
    uint32_t number;
    uint32_t depth;
};

static struct call call_new(uint32_t depth) {
    struct call call = {os_alloc(sizeof(uint32_t)), world.made++, depth};
    while (call.cell == NULL) call.cell = os_alloc(sizeof(uint32_t));
    EXPECT(call.number < CALLS_MAX);
    plain_write(call.cell, sizeof *call.cell);
    *call.cell = call.number;
    return call;
}
/* It has been run once; its memory goes at once. */
static void call_end(const struct call *call, uint32_t result) {
    plain_read(call->cell, sizeof *call->cell);
    EXPECT(*call->cell == call->number + 100 && result == call->number + 1);
    EXPECT(world.run[call->number] == 1);
    os_free(call->cell);
}

static uint32_t tree(weft_fork_slot *here, struct call call);
WEFT_FORK(tree, uint32_t, struct call)

static uint32_t note(weft_fork_slot *here, const struct call *call) {
    plain_read(call->cell, sizeof *call->cell);
    EXPECT(*call->cell == call->number);
    EXPECT(++world.run[call->number] == 1);
    if (weft_fork_worker(here) != world.caller) explore_observe(0);
    plain_write(call->cell, sizeof *call->cell);
    *call->cell = call->number + 100;
    return call->number + 1;
}

static uint32_t tree(weft_fork_slot *here, struct call call) {
    uint32_t result = note(here, &call);
    if (call.depth == 0) return result;
    struct call left = call_new(call.depth - 1);
    struct call right = call_new(call.depth - 1);
    weft_fork_slot *deeper = tree_fork(here, &left);
    uint32_t right_result = tree(deeper, right);
    call_end(&left, tree_join(here, &left));
    call_end(&right, right_result);
    return result;
}

static void grow(weft_fork_slot *here, uint32_t depth) {
    struct call root = call_new(depth);
    call_end(&root, tree(here, root));
}

static weft_fork_slot *enter(void) {
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(world.pool, &here) == WEFT_OK);
    world.caller = weft_fork_worker(here);
    return here;
}

static void configure(uint32_t workers, uint32_t flags) {
    static const int64_t spins_ns[] = {WEFT_SPIN_NONE, 3000, 1000000000};
    memset(&world, 0, sizeof world);
    EXPECT(weft_config_init(&world.config) == WEFT_OK);
    world.config.workers = workers;
    world.config.spares = 1;
    world.config.flags = flags;
    world.config.spin_ns = spins_ns[explore_pick(3)];
}
static void create(uint32_t workers, uint32_t flags) {
    configure(workers, flags);
    EXPECT(weft_pool_create(&world.pool, &world.config) == WEFT_OK);
}
static void setup_one(void) { create(1, 0); }
static void setup_two(void) { create(2, 0); }
static void setup_two_ordered(void) { create(2, WEFT_POOL_ORDERED); }
static void all_run(void) {
    expect_nobody_inside(world.pool);
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
    for (uint32_t i = 0; i < world.made; i++) EXPECT(world.run[i] == 1);
}

static void small_tree(void) {
    weft_fork_slot *here = enter();
    grow(here, 1);
    grow(here, 1);
    weft_fork_leave(here);
}
static void tall_tree(void) {
    weft_fork_slot *here = enter();
    grow(here, 2);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_one, .about = "a worker, a thread that forks", .setup = setup_one, .threads = {tall_tree},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);
EXPLORE_DRIVER(fork_two, .about = "two workers, a thread that forks", .setup = setup_two, .threads = {tall_tree},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);
EXPLORE_DRIVER(fork_ordered, .about = "two workers of an ordered pool", .setup = setup_two_ordered, .threads = {tall_tree},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);
EXPLORE_DRIVER(fork_guests, .about = "two threads from outside that fork, a worker", .setup = setup_one,
               .threads = {small_tree, small_tree}, .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* One place, used again while a thief looks at it. */
static uint32_t leaf(weft_fork_slot *here, struct call call) { return note(here, &call); }
WEFT_FORK(leaf, uint32_t, struct call)

static void one_place(void) {
    weft_fork_slot *here = enter();
    for (uint32_t i = 0; i < 4; i++) {
        struct call call = call_new(0);
        leaf_fork(here, &call);
        call_end(&call, leaf_join(here, &call));
    }
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_again, .about = "a place is used again and again", .setup = setup_one, .threads = {one_place},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* The offers' count wraps meanwhile. */
static void one_place_wraps(void) {
    weft_fork_slot *here = enter();
    store_rlx(&forks_of(world.caller)->offer, UINT64_MAX - 3 - 2 * explore_pick(2));
    weft_fork_leave(here);
    one_place();
}
EXPLORE_DRIVER(fork_again_wraps, .about = "the same, and the count of offers wraps", .setup = setup_one,
               .threads = {one_place_wraps}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* The next offer is of a chunk that is made meanwhile: a thief that has read the one before may read its place. */
static void fork_and_join(weft_fork_slot *here) {
    struct call call = call_new(0);
    leaf_fork(here, &call);
    call_end(&call, leaf_join(here, &call));
}
static void new_chunk_row(void) {
    weft_fork_slot *here = enter();
    fork_and_join(here);
    fork_and_join(here);
    weft_fork_slot *inner = enter();
    fork_and_join(inner);
    weft_fork_leave(inner);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_new_chunk, .about = "an offer, and then one in a new chunk", .setup = setup_one,
               .threads = {new_chunk_row}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* A row of open calls longer than a chunk. */
static void join_row(weft_fork_slot **places, const struct call *calls) {
    for (uint32_t i = ROW; i-- > 0;) call_end(&calls[i], leaf_join(places[i], &calls[i]));
    weft_fork_leave(places[0]);
}
static void open_row(void) {
    weft_fork_slot *places[ROW + 1] = {enter()};
    struct call calls[ROW];
    for (uint32_t i = 0; i < ROW; i++) {
        calls[i] = call_new(0);
        places[i + 1] = leaf_fork(places[i], &calls[i]);
    }
    join_row(places, calls);
}
EXPLORE_DRIVER(fork_batch, .about = "more open calls than a chunk has places", .setup = setup_one, .threads = {open_row},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* Rows where memory for entering, for the next chunk and for a helper's first may be refused, and may be there the next
 * time. */
static void setup_poor(void) {
    configure(1, 0);
    while (weft_pool_create(&world.pool, &world.config) != WEFT_OK) EXPECT(world.pool == NULL);
}
/* What the pool needs next it must get from the system: this fills a block of the store to its end. */
static void empty_store(void) { store_get(&world.pool->store, (size_t)64 * 1024 - CACHE_LINE); }
static void poor_row(void) {
    weft_fork_slot *places[ROW + 1];
    struct call calls[ROW];
    int error;
    empty_store();
    while ((error = weft_fork_enter(world.pool, &places[0])) == WEFT_ENOMEM) {
        EXPECT(places[0] == NULL);
        explore_observe(1);
    }
    EXPECT(error == WEFT_OK);
    world.caller = weft_fork_worker(places[0]);
    for (uint32_t i = 0; i < ROW; i++) {
        calls[i] = call_new(0);
        empty_store();
        places[i + 1] = leaf_fork(places[i], &calls[i]);
        if (places[i + 1] == places[i]) explore_observe(2);
    }
    join_row(places, calls);
}
static void poor_rows(void) {
    poor_row();
    poor_row();
}
EXPLORE_DRIVER(fork_poor, .about = "the same, and memory runs out", .setup = setup_poor, .threads = {poor_rows},
               .check = all_run, .flags = EXPLORE_NO_RESCUE | EXPLORE_MEMORY_FAILS, .must_see = 7);

/* The caller goes on only when what it forked has been run by another. */
static uint32_t sender(weft_fork_slot *here, struct call call) {
    uint32_t result = note(here, &call);
    store_rel(drive_fork_sent, &world.event, 1);
    os_wake(&world.event, INT32_MAX);
    return result;
}
WEFT_FORK(sender, uint32_t, struct call)

static void send_and_await(weft_fork_slot *here) {
    struct call call = call_new(0);
    sender_fork(here, &call);
    while (load_acq(drive_fork_seen, &world.event) == 0) os_wait(&world.event, 0, 0);
    call_end(&call, sender_join(here, &call));
}
static void long_leaf(void) {
    weft_fork_slot *here = enter();
    send_and_await(here);
    weft_fork_leave(here);
}
static void leaf_after_region(void) {
    weft_fork_slot *here = enter();
    weft_fork_leave(enter());
    send_and_await(here);
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_leaf, .about = "a long leaf strands nothing", .setup = setup_one, .threads = {long_leaf},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

EXPLORE_DRIVER(fork_leaf_after, .about = "the same after a region has ended", .setup = setup_one,
               .threads = {leaf_after_region}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* The same while the barrier is lost: the call was forked when light fences were for free, who falls asleep comes after. */
static void lose_barrier(void) {
    for (uint32_t i = 0; i < 4; i++) os_fence_heavy(drive_fork_lose);
}
EXPLORE_DRIVER(fork_leaf_lost, .about = "a long leaf while the barrier is lost", .setup = setup_one,
               .threads = {long_leaf, lose_barrier}, .check = all_run,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER, .must_see = 1);

/* The same in a task, while tasks are thought to be tiny, so that an idle worker polls, and nobody has the patience to
 * force. The poller may sleep until its deadline, but not go on for ever. */
static int leaf_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    long_leaf();
    return 0;
}
static int await_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    while (load_acq(drive_fork_seen3, &world.event) == 0) os_wait(&world.event, 0, 0);
    return 0;
}
static void setup_tiny(void) {
    configure(3, WEFT_POOL_NO_HELP);
    world.config.spin_ns = WEFT_SPIN_NONE;
    EXPECT(weft_pool_create(&world.pool, &world.config) == WEFT_OK);
    store_rlx(&world.pool->tiny, 1);
    world.pool->patience_ticks = UINT64_MAX;
}
static void submit_leaf(void) {
    weft_group group = WEFT_GROUP_INIT;
    uint32_t value = 0;
    EXPECT(weft_submit(world.pool, &group, leaf_task, &value, sizeof value) == WEFT_OK);
    EXPECT(weft_submit(world.pool, &group, await_task, &value, sizeof value) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
}
EXPLORE_DRIVER(pool_leaf_tiny, .about = "a long leaf in a task, while workers poll", .setup = setup_tiny,
               .threads = {submit_leaf}, .check = all_run, .must_see = 1, .steps_max = 20000);

/* A call that goes on only when what it forked is run by another: by who waits in its join, if the worker has taken it. */
static uint32_t nest(weft_fork_slot *here, struct call call) {
    send_and_await(here);
    return note(here, &call);
}
WEFT_FORK(nest, uint32_t, struct call)

static void leaf_below(void) {
    weft_fork_slot *here = enter();
    struct call call = call_new(0);
    nest_fork(here, &call);
    explore_step();
    call_end(&call, nest_join(here, &call));
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_leaf_below, .about = "a long leaf in a call that is waited for", .setup = setup_one,
               .threads = {leaf_below}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* A loop in a call that is waited for: each of its two indices waits for the other. */
static int meet_body(size_t begin, size_t end, void *context, weft_worker *self) {
    os_word *met = context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        store_rel(drive_fork_met, &met[i], 1);
        os_wake(&met[i], INT32_MAX);
        while (load_acq(drive_fork_meets, &met[1 - i]) == 0) os_wait(&met[1 - i], 0, 0);
    }
    return 0;
}
static void meet(void) {
    os_word *met = os_alloc(2 * sizeof *met);
    store_rlx(&met[0], 0);
    store_rlx(&met[1], 0);
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, meet_body, met) == WEFT_OK);
    os_free(met);
}
static uint32_t loops(weft_fork_slot *here, struct call call) {
    meet();
    return note(here, &call);
}
WEFT_FORK(loops, uint32_t, struct call)

static void loop_below(void) {
    weft_fork_slot *here = enter();
    struct call call = call_new(0);
    loops_fork(here, &call);
    explore_step();
    call_end(&call, loops_join(here, &call));
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_loop_below, .about = "a loop in a call that is waited for", .setup = setup_one, .threads = {loop_below},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

static int looping_task(void *payload, weft_worker *self) {
    (void)payload;
    if (weft_worker_index(self) == 0) explore_observe(0);
    meet();
    return 0;
}
static void submit_looping(void) {
    weft_group group = WEFT_GROUP_INIT;
    uint32_t value = 0;
    EXPECT(weft_submit(world.pool, &group, looping_task, &value, sizeof value) == WEFT_OK);
    explore_step();
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
}
EXPLORE_DRIVER(fork_loop_waited, .about = "a loop in a task that is waited for", .setup = setup_one,
               .threads = {submit_looping}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* A call forked in a loop's body must be run by another: by the loop's caller, when the worker has the body. */
static void await_event(void) {
    while (load_acq(drive_fork_seen4, &world.event) == 0) os_wait(&world.event, 0, 0);
}
static int sending_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    for (size_t i = begin; i < end; i++) {
        if (i == 0) continue;
        if (weft_worker_index(self) == 0) explore_observe(1);
        long_leaf();
    }
    return 0;
}
static void loop_of_leaves(void) { EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, sending_body, NULL) == WEFT_OK); }
EXPLORE_DRIVER(fork_in_body, .about = "a long leaf in the body of a loop whose caller waits", .setup = setup_one,
               .threads = {loop_of_leaves}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 3);

/* The same of a call in a call that a third thread has taken, whose joiner is long in something else. */
static int nesting_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    if (begin == 0 && end == 1) return 0;
    weft_fork_slot *here = enter();
    struct call call = call_new(0);
    nest_fork(here, &call);
    await_event();
    call_end(&call, nest_join(here, &call));
    weft_fork_leave(here);
    return 0;
}
static void loop_of_nests(void) { EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, nesting_body, NULL) == WEFT_OK); }
EXPLORE_DRIVER(fork_in_body_below, .about = "the same in a call that a third thread has taken", .setup = setup_two,
               .threads = {loop_of_nests}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* The same by a thread in the join of the call that has called the loop, when two workers are long in its bodies. */
static int busy_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) {
        if (i == 0)
            await_event();
        else
            long_leaf();
    }
    return 0;
}
static uint32_t loops_long(weft_fork_slot *here, struct call call) {
    EXPECT(weft_for(world.pool, (weft_range){0, 2, 1}, busy_body, NULL) == WEFT_OK);
    return note(here, &call);
}
WEFT_FORK(loops_long, uint32_t, struct call)

static void join_of_loop(void) {
    weft_fork_slot *here = enter();
    struct call call = call_new(0);
    loops_long_fork(here, &call);
    explore_step();
    call_end(&call, loops_long_join(here, &call));
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_in_body_joined, .about = "a long leaf in the body of a loop in a call that is waited for",
               .setup = setup_two, .threads = {join_of_loop}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* Two calls must be run by others while the caller is in its leaf. */
static uint32_t counter(weft_fork_slot *here, struct call call) {
    uint32_t result = note(here, &call);
    add_rel(drive_fork_counted, &world.event, 1);
    os_wake(&world.event, 1);
    return result;
}
WEFT_FORK(counter, uint32_t, struct call)

static void two_wanted(void) {
    weft_fork_slot *here = enter();
    struct call first = call_new(0), second = call_new(0);
    weft_fork_slot *deeper = counter_fork(here, &first);
    counter_fork(deeper, &second);
    for (uint32_t seen = 0; seen < 2; seen = load_acq(drive_fork_seen2, &world.event)) os_wait(&world.event, seen, 0);
    call_end(&second, counter_join(deeper, &second));
    call_end(&first, counter_join(here, &first));
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_leaf_two, .about = "the same, two calls, two workers", .setup = setup_two, .threads = {two_wanted},
               .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* Each of two calls ends when both have begun, again and again: who comes back for the next is no searcher, and the other
 * worker may be falling asleep. */
static uint32_t meeting(weft_fork_slot *here, struct call call) {
    uint32_t result = note(here, &call);
    uint32_t both = (add_rel(drive_fork_meets, &world.event, 1) & ~1u) + 2;
    os_wake(&world.event, INT32_MAX);
    for (uint32_t seen; (seen = load_acq(drive_fork_met, &world.event)) < both;) os_wait(&world.event, seen, 0);
    return result;
}
WEFT_FORK(meeting, uint32_t, struct call)

static void two_meet(void) {
    weft_fork_slot *here = enter();
    for (uint32_t i = 1; i <= 3; i++) {
        struct call first = call_new(0), second = call_new(0);
        weft_fork_slot *deeper = meeting_fork(here, &first);
        meeting_fork(deeper, &second);
        for (uint32_t seen; (seen = load_acq(drive_fork_seen3, &world.event)) < 2 * i;) os_wait(&world.event, seen, 0);
        call_end(&second, meeting_join(deeper, &second));
        call_end(&first, meeting_join(here, &first));
    }
    weft_fork_leave(here);
}
EXPLORE_DRIVER(fork_leaf_meet, .about = "two calls that each wait for the other, two workers", .setup = setup_two,
               .threads = {two_meet}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* A task forks, and a call of its submits and waits. */
static int plain_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}
static uint32_t waits(weft_fork_slot *here, struct call call) {
    weft_group group = WEFT_GROUP_INIT;
    uint32_t value = 0;
    EXPECT(weft_submit(world.pool, &group, plain_task, &value, sizeof value) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
    return note(here, &call);
}
WEFT_FORK(waits, uint32_t, struct call)

static int forking_task(void *payload, weft_worker *self) {
    (void)payload;
    weft_fork_slot *here;
    EXPECT(weft_fork_enter(weft_worker_pool(self), &here) == WEFT_OK);
    struct call left = call_new(0), right = call_new(0);
    weft_fork_slot *deeper = waits_fork(here, &left);
    call_end(&right, waits(deeper, right));
    call_end(&left, waits_join(here, &left));
    weft_fork_leave(here);
    return 0;
}
static void submit_forking(void) {
    weft_group group = WEFT_GROUP_INIT;
    uint32_t value = 0;
    EXPECT(weft_submit(world.pool, &group, forking_task, &value, sizeof value) == WEFT_OK);
    EXPECT(weft_group_wait(world.pool, &group) == WEFT_OK);
}
EXPLORE_DRIVER(fork_in_task, .about = "a task forks, its calls submit and wait", .setup = setup_two,
               .threads = {submit_forking}, .check = all_run, .flags = EXPLORE_NO_RESCUE);

/* Where outside threads do not help, a join of theirs runs nothing that was forked in the call it waits for. */
static uint32_t kin(weft_fork_slot *here, struct call call);
WEFT_FORK(kin, uint32_t, struct call)
static uint32_t kin(weft_fork_slot *here, struct call call) {
    weft_worker *self = weft_fork_worker(here);
    EXPECT(self != world.caller || call.depth > 0 || world.parent == self);
    if (call.depth > 0) {
        struct call below = call_new(0);
        weft_worker *outer = world.parent;
        world.parent = self;
        kin_fork(here, &below);
        for (int i = 0; i < 30; i++) os_pause();
        call_end(&below, kin_join(here, &below));
        world.parent = outer;
    }
    return note(here, &call);
}
static void family(void) {
    weft_fork_slot *here = enter();
    struct call call = call_new(1);
    kin_fork(here, &call);
    for (int i = 0; i < 30; i++) os_pause();
    call_end(&call, kin_join(here, &call));
    weft_fork_leave(here);
}
static void setup_no_help(void) { create(1, WEFT_POOL_NO_HELP); }
EXPLORE_DRIVER(fork_no_help, .about = "a thread from outside joins, and may not help", .setup = setup_no_help,
               .threads = {family}, .check = all_run, .flags = EXPLORE_NO_RESCUE, .must_see = 1);

/* Destroyed while a thread from outside is inside. */
static void enter_and_tell(void) {
    weft_fork_slot *here = enter();
    store_rlx(&world.event, 1);
    grow(here, 1);
    weft_fork_leave(here);
}
static void destroy_when_entered(void) {
    while (load_rlx(&world.event) == 0) os_pause();
    EXPECT(weft_pool_destroy(&world.pool) == WEFT_OK);
}
static void each_ran(void) {
    for (uint32_t i = 0; i < world.made; i++) EXPECT(world.run[i] == 1);
}
EXPLORE_DRIVER(fork_leave, .about = "destroy waits for the last to leave", .setup = setup_one,
               .threads = {enter_and_tell, destroy_when_entered}, .check = each_ran);

/* As destroy begins: finds nobody inside, or who enters finds the pool closed. */
static void close_pool(void) {
    store_rlx(&world.pool->closed, 1);
    os_fence_heavy(drive_fork_close);
    if (guest_calls(world.pool) == 0) world.found_empty = true;
}
static void enter_or_not(void) {
    weft_fork_slot *here;
    int error = weft_fork_enter(world.pool, &here);
    explore_observe(error == WEFT_OK);
    if (error == WEFT_OK) {
        EXPECT(!world.found_empty);
        explore_step();
        EXPECT(!world.found_empty);
        weft_fork_leave(here);
    } else {
        EXPECT(error == WEFT_ESHUTDOWN && here == NULL);
    }
}
static void open_and_end(void) {
    store_rlx(&world.pool->closed, 0);
    all_run();
}
EXPLORE_DRIVER(fork_closed, .about = "a thread enters while the pool is being closed", .setup = setup_one,
               .threads = {enter_or_not, close_pool}, .check = open_and_end, .must_see = 3);
