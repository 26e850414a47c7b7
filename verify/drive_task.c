/* drive_task.c: submitting, waiting, claims of several and loops over a pool without threads (task_world.h). So a schedule is about one
 * step of task.c or worker.c. */
#include "task_world.h"

/* ---- submitting --------------------------------------------------------------------------------------------------- */

/* Who submits to a group that others are ending gets into it, or into the next: no task is left over after the last wait. */
static void setup_open(void) {
    setup_one();
    submit_task();
}
static void submit_two(void) {
    submit_task();
    submit_task();
}
static void wait_twice(void) {
    wait_group();
    wait_group();
}
static void check_group(void) {
    wait_group();
    for (uint32_t i = 0; i < world.submitted; i++) EXPECT(world.run[i] == 1);
    end();
}
EXPLORE_DRIVER(task_late, .about = "two tasks submitted while the group ends", .setup = setup_open,
               .threads = {submit_two, wait_twice}, .check = check_group, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(task_late_two, .about = "the same, two end the group", .setup = setup_open,
               .threads = {submit_two, wait_group, wait_group}, .check = check_group, .flags = EXPLORE_NO_RESCUE);

/* A submitter's tasks of a group begin in order, also when an end of it was begun meanwhile and given up. */
static int task_ordered(void *payload, weft_worker *self) {
    (void)self;
    EXPECT(payload == NULL && world.run[1] == 1);
    return 0;
}
static void submit_ordered(void) {
    submit_task();
    EXPECT(weft_submit(world.pool, &world.group, task_ordered, NULL, 0) == WEFT_OK);
}
EXPLORE_DRIVER(task_late_order, .about = "the same, in order, one without a payload", .setup = setup_open,
               .threads = {submit_ordered, wait_twice}, .check = check_group, .flags = EXPLORE_NO_RESCUE);

/* The second goes straight into the lane that the first has left at hand. */
static void submit_after_run(void) {
    submit_task();
    while (world.run[0] == 0) os_pause();
    submit_task();
}
static void wait_first(void) {
    for (; world.run[0] == 0; os_pause()) wait_group();
}
EXPLORE_DRIVER(task_late_lane, .about = "a task follows another at hand while the group ends", .setup = setup_one,
               .threads = {submit_after_run, wait_first}, .check = check_group, .flags = EXPLORE_NO_RESCUE);

EXPLORE_DRIVER(task_bind, .about = "two submit to a new group at once", .setup = setup_one,
               .threads = {submit_task, submit_task}, .check = check_group);

/* Who was late to open the group is a stranger to it all the same: it is not ended with a task of that one's counted. */
static void setup_closed(void) {
    setup_two();
    submit_task();
    wait_group();
}
static void bind_and_close(void) {
    int error;
    uint64_t id = task_bind(load_rlx(&world.pool->seats[0]), &world.group, &error);
    struct record *record = record_at(&world.pool->groups, id_index(id));
    world.is_ended = record_is_finished(record) && record_close(record, id, 0);
}
static void bind_and_count(void) {
    int error;
    uint64_t id = task_bind(load_rlx(&world.pool->seats[1]), &world.group, &error);
    struct record *record = record_at(&world.pool->groups, id_index(id));
    if (record_note_foreign(record, id, 1) != id) return;
    counter_use(&world.pool->groups, record, 1, id), counter_submit(counter_of(record, 1), false, 1);
    os_fence_light(drive_task_light);
    world.is_counted = load_rlx(&record->id) == id;
}
static void check_one_of_two(void) {
    EXPECT(!world.is_ended || !world.is_counted);
    if (world.is_ended || world.is_counted) explore_observe(world.is_counted);
}
EXPLORE_DRIVER(task_bind_end, .about = "the same, and one ends it", .setup = setup_closed,
               .threads = {bind_and_close, bind_and_count}, .check = check_one_of_two, .must_see = 3);

/* Threads that count in one counter: of a thread's tasks that fail the first gives the error, whatever the others count, and
 * take back because they are late for the group before. */
static void setup_shared(void) {
    setup_one();
    world.pool->groups.counters = 1;
    world.pool->outside_given = COUNTERS_FURTHER; /* those before have counters in blocks */
}
static void setup_shared_open(void) {
    setup_shared();
    submit_task();
}
static int task_fails(void *payload, weft_worker *self) {
    (void)self;
    return *(int *)payload;
}
static void submit_failing(void) {
    for (int code = 3; code > 0; code--)
        EXPECT(weft_submit(world.pool, &world.group, task_fails, &code, sizeof code) == WEFT_OK);
}
static void wait_and_fail(void) {
    wait_group();
    submit_failing();
}
static void check_first(void) {
    EXPECT(weft_group_wait(world.pool, &world.group) == 3);
    end();
}
EXPLORE_DRIVER(task_numbers, .about = "tasks of two threads that share a counter; one's fail", .setup = setup_shared,
               .threads = {submit_failing, submit_two}, .check = check_first);
EXPLORE_DRIVER(task_numbers_late, .about = "the same, the other begins with a group that ends", .setup = setup_shared_open,
               .threads = {wait_and_fail, submit_two}, .check = check_first);

/* A group is cancelled by one who has only seen its id. */
static void cancel(void) { EXPECT(weft_group_cancel(world.pool, &world.group) == WEFT_OK); }
static void submit_or_not(void) {
    int error = try_submit(&world.group, task);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
}
static void wait_cancelled(void) {
    int error = weft_group_wait(world.pool, &world.group);
    EXPECT(error == WEFT_OK || error == WEFT_ECANCELED);
}
static void check_cancelled(void) {
    wait_cancelled();
    end();
}
EXPLORE_DRIVER(task_cancel_new, .about = "a new group is cancelled", .setup = setup_one, .threads = {submit_or_not, cancel},
               .check = check_cancelled);
/* The waiter may have counted a task that its submitter then takes back. */
EXPLORE_DRIVER(task_cancel, .about = "submitted, cancelled and waited for at once", .setup = setup_open,
               .threads = {submit_or_not, cancel, wait_cancelled}, .check = check_cancelled, .flags = EXPLORE_NO_RESCUE);

/* A worker that only parks finds everything that a submitter publishes, also when that one becomes biased. */
/* Whether it ran a task. `looks`: how often it looks whether a bias is left before it ends them. */
static bool park_after(uint32_t looks) {
    struct weft_worker *seat = load_rlx(&world.pool->seats[0]);
    struct piece piece;
    park_announce(&world.pool->park, 0, false);
    for (; looks > 0 && load_rlx(&world.pool->biased) != 0; looks--) explore_step();
    worker_unbias(world.pool);
    bool finds = find_help(seat, NULL, NULL, &piece);
    if (finds) {
        park_retract(&world.pool->park, 0);
        worker_run_help(seat, &piece);
    } else {
        park_sleep(&world.pool->park, 0, 0, 0);
    }
    park_unscout(&world.pool->park, 0);
    return finds;
}
static bool park_once(void) { return park_after(0); }
static void park_until_run(uint32_t tasks) {
    struct frame frame;
    be_worker(0, &frame);
    while (tasks > 0) tasks -= park_once();
}
static void park_only(void) { park_until_run(3); }
static void submit_three(void) {
    submit_two();
    submit_task();
}
EXPLORE_DRIVER(task_bias, .about = "a submitter becomes biased beside a worker that parks", .setup = setup_one,
               .threads = {submit_three, park_only}, .check = check_group, .flags = EXPLORE_NO_RESCUE);

/* A submitter that is biased while somebody sleeps still wakes him: the bias leaves the fence out, and nothing else. */
static void become_biased(void) {
    struct weft_worker *seat = seat_of(os_self_get(), world.pool);
    if (load_rlx(&seat->biased) != 0) return;
    add_rlx(&world.pool->biased, 1);
    fence_sc(drive_task_bias);
    store_rlx(&seat->biased, 1);
}
static void submit_biased(void) {
    submit_task();
    while (world.run[0] == 0 || park_look(&world.pool->park).parked == 0) os_pause();
    become_biased();
    submit_task();
}
static void park_for_two(void) { park_until_run(2); }
EXPLORE_DRIVER(task_biased, .about = "a biased submitter beside a worker that sleeps", .setup = setup_one,
               .threads = {submit_biased, park_for_two}, .check = check_group, .flags = EXPLORE_NO_RESCUE);
/* The barrier is lost while the seat is biased: its light fences are full ones from then on. */
static void submit_biased_lost(void) {
    submit_task();
    while (world.run[0] == 0 || park_look(&world.pool->park).parked == 0) os_pause();
    become_biased();
    for (int i = 0; i < 100 && os_fence_is_asymmetric(); i++) os_fence_heavy(drive_task_lost);
    explore_observe(os_fence_is_asymmetric());
    submit_task();
}
EXPLORE_DRIVER(task_biased_lost, .about = "the same, and the barrier stops working", .setup = setup_one,
               .threads = {submit_biased_lost, park_for_two}, .check = check_group, .must_see = 1,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT | EXPLORE_LOSES_BARRIER);

/* Two fall asleep at once, and one heavy fence serves both. */
static void setup_two_workers(void) { make(2, WEFT_POOL_NO_HELP); }
static void submit_beside_two(void) {
    submit_task();
    wait_group();
    become_biased();
    submit_task();
    wait_and_stop();
}
EXPLORE_DRIVER(task_biased_two, .about = "a biased submitter beside two workers that fall asleep",
               .setup = setup_two_workers, .threads = {submit_beside_two, worker_0, worker_1}, .check = end,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);

/* One ends the bias, and looks for no task itself. A worker that parks meanwhile sees what was published before that one's heavy
 * fence, also where it was itself fenced before the submitter was. */
static void submit_one_biased(void) {
    int error;
    EXPECT(seat_find(world.pool, &error) != NULL);
    become_biased();
    submit_task();
    world.is_counted = true;
}
static void unbias(void) { worker_unbias(world.pool); }
static void unbias_other(void) {
    while (!world.is_counted) os_pause();
    world.is_ended = true;
    unbias();
}
static void park_for_one(void) {
    while (!world.is_ended) os_pause();
    park_until_run(1);
}
EXPLORE_DRIVER(task_bias_other, .about = "a worker parks while another thread ends the bias of a submitter",
               .setup = setup_one, .threads = {submit_one_biased, park_for_one, unbias_other}, .check = check_group,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);
/* The same; that thread is done when the worker looks whether there is a bias. */
static void park_unbiased(void) {
    struct frame frame;
    be_worker(0, &frame);
    while (!world.is_ended) os_pause();
    while (!park_after(20)) continue;
}
EXPLORE_DRIVER(task_bias_ended, .about = "a worker parks when another thread has ended the bias of a submitter",
               .setup = setup_one, .threads = {submit_one_biased, park_unbiased, unbias_other}, .check = check_group,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);

static void setup_biased(void) {
    setup_two();
    store_rlx(&load_rlx(&world.pool->seats[0])->biased, 1);
    add_rlx(&world.pool->biased, 1);
}
static void check_unbiased(void) {
    EXPECT(load_rlx(&world.pool->biased) == 0);
    end();
}
EXPLORE_DRIVER(task_unbias, .about = "two end a seat's bias at once", .setup = setup_biased, .threads = {unbias, unbias},
               .check = check_unbiased);

/* A bounded pool: a place given back by a submission that failed is another's. */
static void setup_full(void) {
    setup_one();
    submit(&world.other, task);
    EXPECT(weft_group_cancel(world.pool, &world.other) == WEFT_OK);
    world.pool->config.full = WEFT_FULL_BLOCK;
    world.pool->config.queue_max = 2; /* one of them is that task's */
    store_rlx(&world.pool->queued, 1);
    or_rlx(&world.pool->extras, EXTRA_BOUNDED);
    outside()->lane = &world.pool->blank;
}
/* Inside a task, where a full queue is no reason to wait. */
static void fail_to_submit(void) {
    struct frame frame;
    be_worker(0, &frame);
    EXPECT(try_submit(&world.other, task) == WEFT_ECANCELED);
}
static void check_full(void) {
    wait_group();
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_ECANCELED);
    end();
}
EXPLORE_DRIVER(task_full, .about = "a place in the queue is given back", .setup = setup_full,
               .threads = {fail_to_submit, submit_task}, .check = check_full, .flags = EXPLORE_NO_RESCUE);

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

/* A guest is still inside its wait when another thread learns, from the task that it ran, that it may destroy the pool. */
static int task_seen(void *payload, weft_worker *self) {
    store_rlx(&world.seen, 1);
    return task(payload, self);
}
static void submit_and_wait(void) {
    submit(&world.group, task_seen);
    wait_group();
}
static void destroy_when_seen(void) {
    while (load_rlx(&world.seen) == 0) os_pause();
    end_beside();
}
EXPLORE_DRIVER(task_guest, .about = "destroyed while a guest leaves its wait", .setup = setup_one,
               .threads = {submit_and_wait, destroy_when_seen}, .flags = EXPLORE_NO_RESCUE);

/* A task is counted, and completed by a worker, while another waiter ends the group: who finds it ended sees what that
 * wrote. The driver counts as task_count and worker_flush do. */
static void setup_finished(void) {
    struct piece piece;
    setup_open();
    EXPECT(find_help(outside(), NULL, NULL, &piece));
    worker_run_help(outside(), &piece);
    world.ending = record_at(&world.pool->groups, id_index(world.group.id));
}
static void complete(struct weft_worker *seat) {
    counter_complete(counter_of(world.ending, seat->counter), false, 1);
    worker_settle(seat, world.ending);
}
static void wait_idly(void) { EXPECT(weft_group_wait_until(world.pool, &world.group, WEFT_HELP_NONE, 0) == WEFT_OK); }
/* Seats in this order: the ending sums the counter's counter early and the completer's late. */
static struct weft_worker *seat_next(uint32_t number) {
    int error;
    while (load_rlx(&world.seated) != number) os_pause();
    struct weft_worker *seat = seat_find(world.pool, &error);
    store_rlx(&world.seated, number + 1);
    while (load_rlx(&world.seated) < 3) os_pause();
    return seat;
}
static void end_group(void) {
    EXPECT(seat_next(1) != NULL);
    wait_idly();
}
static void count_and_publish(struct weft_worker *seat) {
    uint64_t id = load_acq(drive_task_id, id_of(&world.group));
    uint32_t counted = id != 0 && record_note_foreign(world.ending, id, seat->index) == id ? 1 : 2;
    if (counted == 1) {
        counter_use(&world.pool->groups, world.ending, seat->counter, id);
        counter_submit(counter_of(world.ending, seat->counter), false, 1);
        os_fence_light(drive_task_count);
        if (load_rlx(&world.ending->id) != id) counted = 2, complete(seat);
    }
    world.is_counted = counted == 1;
    store_rel(drive_task_seen, &world.seen, counted); /* as the task would be published */
}
static void wait_and_read(void) {
    wait_idly();
    if (!world.is_counted) return;
    plain_read(&world.result, sizeof world.result);
    EXPECT(world.result == 1);
}
static void count_wait_read(void) {
    count_and_publish(seat_next(0));
    wait_and_read();
}
/* Until it is being ended, but not for ever. false: the task was not counted. */
static bool await_ending(int looks) {
    while (load_acq(drive_task_seen, &world.seen) == 0) os_pause();
    for (; looks > 0 && !record_is_closing(world.ending); looks--) explore_step();
    return load_rlx(&world.seen) == 1;
}
static void complete_counted(struct weft_worker *seat) {
    plain_write(&world.result, sizeof world.result), world.result = 1;
    counter_use(&world.pool->groups, world.ending, seat->counter, load_acq(drive_task_id, id_of(&world.group)));
    complete(seat);
}
static void complete_when_ending(void) {
    struct weft_worker *seat = seat_next(2);
    if (await_ending(20)) complete_counted(seat);
}
EXPLORE_DRIVER(task_end_seen, .about = "a task is counted and run while another ends its group", .setup = setup_finished,
               .threads = {end_group, count_wait_read, complete_when_ending}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* The same; the task is completed while the ending sums again, and its group's id is gone when the wait begins. */
static void count_read_ended(void) {
    count_and_publish(seat_next(0));
    for (int i = 0; i < 60 && load_rlx(id_of(&world.group)) != 0; i++) explore_step();
    wait_and_read();
}
static void complete_when_summed(void) {
    struct weft_worker *seat = seat_next(2);
    if (!await_ending(60)) return;
    for (uint32_t i = explore_pick(6); i > 0; i--) explore_step();
    complete_counted(seat);
}
EXPLORE_DRIVER(task_end_gone, .about = "the same, and the group has ended when the wait begins", .setup = setup_finished,
               .threads = {end_group, count_read_ended, complete_when_summed}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* ---- claims of several -------------------------------------------------------------------------------------------- */

/* Ends only after the second one has run; it says nothing of that. */
static int task_first(void *payload, weft_worker *self) {
    await_second();
    return task(payload, self);
}
/* It says so. */
static int task_blocks(void *payload, weft_worker *self) {
    EXPECT(weft_block_begin(self) == WEFT_EAGAIN);
    await_second();
    EXPECT(weft_block_end(self) == WEFT_OK);
    return task(payload, self);
}
/* It waits for a group whose task a guest runs after the second one. */
static int task_waits(void *payload, weft_worker *self) {
    EXPECT(weft_group_wait_until(world.pool, &world.other, WEFT_HELP_NONE, 0) == WEFT_OK);
    return task(payload, self);
}

/* Two tasks in a lane that are claimed together. No seat is biased: the heavy fence for that would be one for all. */
static void setup_claim(weft_fn first) {
    make(2, WEFT_POOL_NO_HELP);
    submit(&world.group, first);
    submit(&world.group, task_second);
    worker_unbias(world.pool);
    store_rlx(&load_rlx(&outside()->lanes)->tiny, 1);
}
static void setup_claim_open(void) { setup_claim(task_first); }
EXPLORE_DRIVER(task_claim, .about = "the first of two tasks claimed together needs the second", .setup = setup_claim_open,
               .threads = {worker_0, worker_1, wait_and_stop}, .check = end,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);

/* Where tasks are tiny a worker polls instead of parking; what is offered must not wait for it. */
static void setup_claim_blocks(void) {
    setup_claim(task_blocks);
    store_rlx(&world.pool->tiny, 1);
}
EXPLORE_DRIVER(task_claim_blocks, .about = "the same, the first one says that it blocks", .setup = setup_claim_blocks,
               .threads = {worker_0, worker_1, wait_and_stop}, .check = end,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);
/* The same, of one step: the claim is open, and a worker looks round for the last time. */
static struct piece opened;
static void setup_offer(void) {
    setup_claim_blocks();
    struct lane *lane = load_rlx(&outside()->lanes);
    struct claim *claim = &load_rlx(&world.pool->seats[0])->claim;
    EXPECT(lane_claim(lane, 2, NULL, NULL, &opened) == 2);
    claim_open(claim, &opened, opened.begin + opened.stride, false);
}
static void run_opened(void) {
    struct frame frame;
    be_worker(0, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[0]);
    worker_run_cell(self, &opened.segment->cells[opened.begin]);
    claim_close(&self->claim, &opened);
    piece_done(&opened);
    worker_flush(self);
    wait_and_stop();
}
EXPLORE_DRIVER(task_offer, .about = "a claim is offered while another worker falls asleep", .setup = setup_offer,
               .threads = {run_opened, worker_1}, .check = end, .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);
/* Who helps in a wait sees what a biased submitter publishes while it falls asleep: the worker is in the first task. */
static void setup_help_biased(void) {
    make(1, 0);
    submit(&world.group, task_first);
    EXPECT(lane_claim(load_rlx(&outside()->lanes), 1, NULL, NULL, &opened) == 1);
}
static void submit_second(void) {
    submit(&world.other, task);
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
    become_biased();
    submit(&world.group, task_second);
}
static void run_first(void) {
    struct frame frame;
    be_worker(0, &frame);
    weft_worker *self = load_rlx(&world.pool->seats[0]);
    worker_run_cell(self, &opened.segment->cells[opened.begin]);
    piece_done(&opened);
    worker_flush(self);
}
EXPLORE_DRIVER(task_help_biased, .about = "a wait that helps falls asleep beside a biased submitter",
               .setup = setup_help_biased, .threads = {submit_second, run_first, wait_group}, .check = check_group,
               .flags = EXPLORE_NO_RESCUE);

static void setup_claim_waits(void) {
    setup_claim(task_waits);
    store_rlx(&world.pool->tiny, 1);
    struct record *record = record_open(&world.pool->groups, 0, 0);
    world.other.id = load_rlx(&record->id);
    uint32_t counter = outside()->counter; /* for a task that this driver itself completes */
    counter_use(&world.pool->groups, record, counter, world.other.id), counter_submit(counter_of(record, counter), false, 1);
}
static void complete_and_stop(void) {
    await_second();
    struct record *record = record_at(&world.pool->groups, id_index(world.other.id));
    counter_complete(counter_of(record, outside()->counter), false, 1);
    worker_settle(outside(), record);
    wait_and_stop();
}
EXPLORE_DRIVER(task_claim_waits, .about = "the same, the first one waits", .setup = setup_claim_waits,
               .threads = {worker_0, worker_1, complete_and_stop}, .check = end,
               .flags = EXPLORE_NO_RESCUE | EXPLORE_ALWAYS_LIGHT);

/* A searcher that takes a task leaves; what was published while it was one is another's, who sleeps. */
static void setup_workers(void) { make(2, WEFT_POOL_NO_HELP); }
static void submit_dependent(void) {
    submit(&world.group, task_first);
    submit(&world.group, task_second);
    wait_and_stop();
}
EXPLORE_DRIVER(task_searcher, .about = "a task published while there is a searcher", .setup = setup_workers,
               .threads = {worker_0, worker_1, submit_dependent}, .check = end, .flags = EXPLORE_NO_RESCUE);

/* Two groups at once make two lanes, of which the newer is hidden once they are empty. The next two need it again. */
static void setup_hidden(void) { make(1, WEFT_POOL_NO_HELP); }
static void submit_both(void) {
    submit(&world.group, task);
    submit(&world.other, task);
    wait_group();
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
}
static void submit_hidden(void) {
    submit_both();
    explore_observe(load_rlx(&outside()->lanes)->newer != NULL); /* else one lane was enough */
    submit_both();
    stop();
}
EXPLORE_DRIVER(task_hidden, .about = "a hidden lane is shown again", .setup = setup_hidden,
               .threads = {worker_0, submit_hidden}, .check = end, .must_see = 3, .flags = EXPLORE_NO_RESCUE);

/* The same of a group that goes on: its lane is nobody's meanwhile. */
static int task_marks(void *payload, weft_worker *self) {
    store_rlx(&world.seen, 1);
    return task(payload, self);
}
static void submit_on(void) {
    submit(&world.group, task);
    submit(&world.other, task_marks);
    while (load_rlx(&world.seen) == 0) os_pause();
    wait_group();
    explore_observe(load_rlx(&outside()->lanes)->newer != NULL);
    submit(&world.other, task);
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
    stop();
}
EXPLORE_DRIVER(task_hidden_open, .about = "the same of a group that goes on", .setup = setup_hidden,
               .threads = {worker_0, submit_on}, .check = end, .must_see = 3, .flags = EXPLORE_NO_RESCUE);

/* Lanes that were found idle are hidden before they are bound. Main's first two groups leave two such while the worker is in
 * the third's first task, the fourth takes one of them, and then all but that one are hidden. */
static int task_continuation(void *payload, weft_worker *self) {
    store_rlx(&world.seen, 1);
    while (load_rlx(&world.seen) != 2) os_pause();
    return task(payload, self);
}
static void submit_found(void) {
    submit(&world.group, task);
    submit(&world.other, task);
    submit(&world.more[0], task_continuation);
    submit(&world.more[0], task);
    while (load_rlx(&world.seen) == 0) os_pause();
    submit(&world.more[1], task);
    store_rlx(&world.seen, 2);
    EXPECT(weft_group_wait(world.pool, &world.more[0]) == WEFT_OK);
    explore_observe(load_rlx(&outside()->lanes)->newer != NULL);
    submit(&world.more[2], task);
    wait_group();
    EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
    for (int i = 1; i < 3; i++) EXPECT(weft_group_wait(world.pool, &world.more[i]) == WEFT_OK);
    stop();
}
EXPLORE_DRIVER(task_hidden_found, .about = "lanes found idle, then hidden", .setup = setup_hidden,
               .threads = {worker_0, submit_found}, .check = end, .must_see = 3, .flags = EXPLORE_NO_RESCUE);

static int task_spreads(void *payload, weft_worker *self) {
    submit(&world.other, task);
    submit(&world.more[0], task);
    return task(payload, self);
}
static void submit_spread(void) {
    for (int i = 0; i < 2; i++) {
        submit(&world.group, task_spreads);
        wait_group();
        EXPECT(weft_group_wait(world.pool, &world.other) == WEFT_OK);
        EXPECT(weft_group_wait(world.pool, &world.more[0]) == WEFT_OK);
        explore_observe(load_rlx(&load_rlx(&world.pool->seats[0])->lanes)->newer != NULL);
    }
    stop();
}
EXPLORE_DRIVER(task_hidden_worker, .about = "a worker's lanes, hidden when it is idle", .setup = setup_hidden,
               .threads = {worker_0, submit_spread}, .check = end, .must_see = 3, .flags = EXPLORE_NO_RESCUE);

/* ---- loops -------------------------------------------------------------------------------------------------------- */

enum { INDICES = 3 };
static uint32_t index_run[INDICES];
static bool found_empty;

static void setup_loop(void) {
    setup_one();
    memset(index_run, 0, sizeof index_run);
    found_empty = false;
}
static int chunk(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    EXPECT(!found_empty && end == begin + 1 && ++index_run[begin] == 1);
    store_rlx(&world.seen, 1);
    return 0;
}
static int loop_of(size_t indices) {
    const weft_range range = {0, indices, 1};
    return weft_for(world.pool, range, chunk, NULL);
}
/* A second thread runs what the loop submits. */
static void loop_guest(void) {
    EXPECT(loop_of(INDICES) == WEFT_OK);
    for (size_t i = 0; i < INDICES; i++) EXPECT(index_run[i] == 1);
    stop();
}
EXPLORE_DRIVER(task_loop, .about = "a loop run by two", .setup = setup_loop, .threads = {loop_guest, worker_0}, .check = end,
               .flags = EXPLORE_NO_RESCUE);

/* No pool is destroyed under a loop of a guest. */
static void loop_alone(void) { EXPECT(loop_of(1) == WEFT_OK); }
static void setup_loop_alone(void) {
    setup_loop();
    store_rlx(&world.pool->workers, 0);
}
EXPLORE_DRIVER(task_loop_guest, .about = "destroyed while a guest leaves its loop", .setup = setup_loop_alone,
               .threads = {loop_alone, destroy_when_seen}, .flags = EXPLORE_NO_RESCUE);
static void loop_of_own(size_t index) {
    const weft_range range = {index, index + 1, 1};
    EXPECT(weft_for(world.pool, range, chunk, NULL) == WEFT_OK);
}
static void loop_first(void) { loop_of_own(0); }
static void loop_second(void) { loop_of_own(1); }
EXPLORE_DRIVER(task_loop_guests, .about = "two guests run a loop each", .setup = setup_loop_alone,
               .threads = {loop_first, loop_second}, .check = end, .flags = EXPLORE_NO_RESCUE);
/* As pool_drain begins: finds no guest, or the guest finds the pool closed. */
static void close_pool(void) {
    store_rlx(&world.pool->closed, 1);
    os_fence_heavy(drive_task_close);
    if (guest_calls(world.pool) == 0) found_empty = true;
}
static void loop_or_not(void) {
    int error = loop_of(1);
    EXPECT(error == WEFT_OK || error == WEFT_ESHUTDOWN);
}
EXPLORE_DRIVER(task_loop_closed, .about = "a guest begins a loop while the pool is being closed", .setup = setup_loop_alone,
               .threads = {loop_or_not, close_pool}, .check = end, .flags = EXPLORE_NO_RESCUE);
