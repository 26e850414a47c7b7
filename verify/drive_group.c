/* drive_group.c: counting and ending groups. What a task writes lies in memory that the waiter releases as soon as its wait
 * returns; a task of a group must not run after that; the record then serves the next group. */
#include "record.h"
#include "explore.h"
#include "queue/group.h"

#include <string.h>

enum { LINES = 4, TASKS_MAX = 6 };

static struct {
    struct store store;
    struct groups groups;
    struct record *record;
    ATOMIC(uint64_t) id; /* what a weft_group would hold */
    os_word event;       /* a waiter's */
    uint64_t ended;      /* the test's own: the last id whose wait returned */
    uint32_t run, accepted;
    uint32_t *result; /* from os_alloc */
    struct {
        ATOMIC(uint32_t) ready; /* worker + 1 */
        uint64_t id;
        bool nests;
    } task[TASKS_MAX];
    ATOMIC(uint32_t) submitters; /* that may still submit */
} world;

static uint64_t first_id; /* the test's own */

static void open_group(void) {
    world.record = record_open(&world.groups, 0, 0);
    EXPECT(world.record != NULL);
    store_rel(drive_group_open, &world.id, load_rlx(&world.record->id));
}

static void group_setup(void) {
    memset(&world, 0, sizeof world);
    EXPECT(groups_init(&world.groups, &world.store, LINES));
    world.result = os_alloc(TASKS_MAX * sizeof *world.result);
    open_group();
}

static void group_end(void) {
    EXPECT(world.run == world.accepted);
    EXPECT(record_is_finished(world.record));
    store_end(&world.store);
}

/* ---- submitting and running, as task.c does ----------------------------------------------------------------------- */

static void wake_waiters(void) {
    add_rel(drive_group_event, &world.event, 1);
    os_wake(&world.event, 8);
}

static bool submit(uint64_t id, uint32_t seat, uint32_t task, uint32_t worker, bool nests) {
    struct record *record = record_at(&world.groups, id_index(id));
    struct group_counter *counter = counter_use(&world.groups, record, seat, id);
    bool shared = counter_is_shared(counter);
    counter_submit(counter, shared, 1);
    os_fence_light(drive_group_count);
    if ((load_rlx(&record->id) & ~ID_CANCELLED) != id) {
        /* A waiter may have gone to sleep for this count: taking it back is like completing. */
        counter_complete(counter, shared, 1);
        if (record_must_wake(record)) wake_waiters();
        return false;
    }
    world.accepted++;
    world.task[task].id = id;
    world.task[task].nests = nests;
    store_rel(drive_group_publish, &world.task[task].ready, worker + 1);
    return true;
}

static void run_task(uint32_t task, uint32_t seat) {
    uint64_t id = world.task[task].id;
    EXPECT(world.ended < id);
    world.run++;
    plain_write(&world.result[task], sizeof *world.result);
    world.result[task] = task + 1;
    if (world.task[task].nests) submit(id, seat, task + 3, 1, false);
    struct record *record = record_at(&world.groups, id_index(id));
    struct group_counter *counter = counter_use(&world.groups, record, seat, id);
    counter_complete(counter, counter_is_shared(counter), 1);
    if (record_must_wake(record)) wake_waiters();
}

static void work(uint32_t worker) {
    for (;;) {
        bool last = load_acq(drive_group_submitters, &world.submitters) == 0;
        bool found = false;
        for (uint32_t task = 0; task < TASKS_MAX; task++) {
            if (load_acq(drive_group_take, &world.task[task].ready) != worker + 1) continue;
            store_rlx(&world.task[task].ready, 0);
            run_task(task, 1 + worker);
            found = true;
        }
        if (last && !found) return;
        os_pause();
    }
}
static void worker_0(void) { work(0); }
static void worker_1(void) { work(1); }

/* ---- waiting, as task.c does -------------------------------------------------------------------------------------- */

/* Ends the group when it is finished; true for the one that did. */
static bool end_group(uint64_t id, uint32_t seat) {
    if (!record_close(world.record, id, seat)) return false;
    EXPECT(world.ended < id);
    world.ended = id;
    record_end(world.record, &(weft_group)WEFT_GROUP_INIT);
    wake_waiters();
    return true;
}

/* Inside a wait. */
static bool wait_inside(uint64_t id, uint32_t seat) {
    for (;;) {
        uint32_t seen = load_acq(drive_group_seen, &world.event);
        if (record_has_ended(world.record)) return false;
        record_note_sleeper(world.record, seat);
        fence_sc(drive_group_sleep);
        if (!record_is_finished(world.record))
            os_wait(&world.event, seen, 0);
        else if (end_group(id, seat))
            return true;
        else
            os_pause();
    }
}

/* True for the one caller that ended the group. */
static bool wait(uint64_t id, uint32_t seat) {
    if (!record_enter(&world.groups, world.record, id)) return false;
    bool ended = wait_inside(id, seat);
    record_leave(&world.groups, world.record, ended);
    return ended;
}

static void submitter_leaves(void) { add_rel(drive_group_leave, &world.submitters, UINT32_MAX); }

static void release_results(uint32_t tasks) {
    for (uint32_t i = 0; i < tasks; i++) {
        plain_read(&world.result[i], sizeof *world.result);
        EXPECT(world.result[i] == i + 1);
    }
    os_free(world.result);
}

/* ---- drivers ------------------------------------------------------------------------------------------------------ */

static void setup_one_submitter(void) {
    group_setup();
    store_rlx(&world.submitters, 1);
}
static void submit_and_wait(void) {
    uint64_t id = load_rlx(&world.id);
    EXPECT(submit(id, 0, 0, 0, true));
    EXPECT(submit(id, 0, 1, 1, false));
    EXPECT(wait(id, 0));
    plain_read(&world.result[3], sizeof *world.result);
    EXPECT(world.result[3] == 4);
    release_results(2);
    submitter_leaves();
}
EXPLORE_DRIVER(group_wait, .about = "a wait over two workers and a nested task, results released at once",
               .setup = setup_one_submitter, .threads = {submit_and_wait, worker_0, worker_1}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

/* Workers and submitter share a counter. */
enum { SHARED = LINES + COUNTERS_FURTHER, FAR = LINES - 1 + BLOCK_COUNTERS };
static void work_at(uint32_t worker, uint32_t task, uint32_t seat) {
    while (load_acq(drive_group_take, &world.task[task].ready) != worker + 1) os_pause();
    run_task(task, seat);
}
static void submit_at(uint32_t seat) {
    uint64_t id = load_rlx(&world.id);
    EXPECT(submit(id, seat, 0, 0, false));
    EXPECT(submit(id, seat, 1, 1, false));
    EXPECT(wait(id, seat));
    release_results(2);
}
static void worker_shared_0(void) { work_at(0, 0, SHARED); }
static void worker_shared_1(void) { work_at(1, 1, SHARED + 1); }
static void submit_shared(void) { submit_at(SHARED + 2); }
EXPLORE_DRIVER(group_shared, .about = "seats beyond the counters share one", .setup = group_setup,
               .threads = {submit_shared, worker_shared_0, worker_shared_1}, .check = group_end, .flags = EXPLORE_NO_RESCUE);

/* All have counters in blocks, two of them in the same one; the group before used two blocks, too. */
static void setup_far(void) {
    group_setup();
    uint64_t id = load_rlx(&world.id);
    for (uint32_t seat = FAR - 1; seat <= FAR + 1; seat++) {
        struct group_counter *counter = counter_use(&world.groups, world.record, seat, id);
        EXPECT(!counter_is_shared(counter));
        counter_submit(counter, false, 1 + (seat & 1));
        counter_complete(counter_use(&world.groups, world.record, FAR, id), false, 1 + (seat & 1));
    }
    EXPECT(wait(id, FAR));
    open_group();
    EXPECT(id_index(load_rlx(&world.id)) == id_index(id));
}
static void worker_far_0(void) { work_at(0, 0, FAR); }
static void worker_far_1(void) { work_at(1, 1, FAR + 1); }
static void submit_far(void) { submit_at(FAR - 1); }
EXPLORE_DRIVER(group_far, .about = "seats that count in blocks", .setup = setup_far,
               .threads = {submit_far, worker_far_0, worker_far_1}, .check = group_end, .flags = EXPLORE_NO_RESCUE);

/* The blocks are not there yet, and one task submits another in a counter that the first sums may not know. */
static void submit_nested_far(void) {
    uint64_t id = load_rlx(&world.id);
    EXPECT(submit(id, 0, 0, 0, true));
    EXPECT(wait(id, 0));
    plain_read(&world.result[3], sizeof *world.result);
    EXPECT(world.result[3] == 4);
    release_results(1);
}
static void worker_nested_1(void) { work_at(1, 3, LINES); }
EXPLORE_DRIVER(group_far_nested, .about = "a nested task counted in a block just made", .setup = group_setup,
               .threads = {submit_nested_far, worker_far_0, worker_nested_1}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

/* A stranger submits to a group that its owner is ending, and the record serves another group next. */
static void setup_two_submitters(void) {
    group_setup();
    store_rlx(&world.submitters, 2);
}
static void owner_of_two_groups(void) {
    uint64_t id = load_rlx(&world.id);
    if (explore_pick(2) == 1) EXPECT(submit(id, 0, 0, 0, false));
    while (!wait(id, 0)) os_pause();
    open_group();
    id = load_rlx(&world.id);
    EXPECT(submit(id, 0, 1, 0, false));
    EXPECT(wait(id, 0));
    submitter_leaves();
}
static void stranger_submits(uint32_t seat, uint32_t task) {
    uint64_t id = load_acq(drive_group_learn, &world.id);
    struct record *record = record_at(&world.groups, id_index(id));
    uint64_t now;
    while ((now = record_note_foreign(record, id, seat)) == (id | ID_CLOSING)) os_pause();
    if (now == id) submit(id, seat, task, 0, false);
    submitter_leaves();
}
static void stranger_3(void) { stranger_submits(3, 2); }
EXPLORE_DRIVER(group_stranger, .about = "a stranger submits while the group ends", .setup = setup_two_submitters,
               .threads = {owner_of_two_groups, stranger_3, worker_0}, .check = group_end, .flags = EXPLORE_NO_RESCUE);

/* The same, and it shares its counter. */
static void stranger_shared(void) { stranger_submits(SHARED, 2); }
EXPLORE_DRIVER(group_stranger_shared, .about = "a stranger that shares its counter submits while the group ends",
               .setup = setup_two_submitters, .threads = {owner_of_two_groups, stranger_shared, worker_0},
               .check = group_end, .flags = EXPLORE_NO_RESCUE);

/* The shared counter has more submissions than completions when the first group ends, and the second begins with that. */
static void owner_shared(void) {
    uint64_t id = load_rlx(&world.id);
    EXPECT(submit(id, SHARED, 0, 0, false));
    EXPECT(wait(id, SHARED));
    open_group();
    id = load_rlx(&world.id);
    EXPECT(submit(id, SHARED, 1, 0, false));
    EXPECT(wait(id, SHARED));
    submitter_leaves();
}
EXPLORE_DRIVER(group_shared_again,
               .about = "two groups of a record, one after the other, whose submitter shares its counter",
               .setup = setup_one_submitter, .threads = {owner_shared, worker_0}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

static void setup_three_submitters(void) {
    group_setup();
    store_rlx(&world.submitters, 3);
}
/* The second stranger has a counter of its own. */
static void stranger_2(void) { stranger_submits(2, 3); }
static void owner_of_one_group(void) {
    uint64_t id = load_rlx(&world.id);
    while (!wait(id, 0)) os_pause();
    submitter_leaves();
}
EXPLORE_DRIVER(group_strangers, .about = "two strangers submit while the group ends", .setup = setup_three_submitters,
               .threads = {owner_of_one_group, stranger_2, stranger_3, worker_0}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

/* The stranger learns the id of a group that has just been opened in a used record. */
static void setup_reopened(void) {
    group_setup();
    first_id = load_rlx(&world.id);
    EXPECT(wait(first_id, 0));
    store_rlx(&world.submitters, 2);
}
static void owner_of_reopened(void) {
    open_group();
    while (world.ended < load_rlx(&world.id) && !wait(load_rlx(&world.id), 0)) os_pause();
    submitter_leaves();
}
static void stranger_of_reopened(void) {
    while (load_rlx(&world.id) == first_id) os_pause();
    stranger_submits(3, 2);
}
EXPLORE_DRIVER(group_reopened, .about = "a stranger submits to a group just opened", .setup = setup_reopened,
               .threads = {owner_of_reopened, stranger_of_reopened, worker_0}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

/* Two of them: the group may have been closed and reopened by the time the second one learns its id. */
static void setup_reopened_two(void) {
    setup_reopened();
    store_rlx(&world.submitters, 3);
}
static void second_of_reopened(void) {
    while (load_rlx(&world.id) == first_id) os_pause();
    stranger_submits(2, 3);
}
/* The first one may end the group himself, as the only stranger he knows of. */
static void first_of_reopened(void) {
    stranger_of_reopened();
    wait(first_id + (UINT64_C(1) << ID_SHIFT), 3);
}
EXPLORE_DRIVER(group_reopened_two, .about = "two strangers submit to a group just opened", .setup = setup_reopened_two,
               .threads = {owner_of_reopened, first_of_reopened, second_of_reopened, worker_0}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

/* One of the strangers waits and ends the group himself. */
static void stranger_waits(void) {
    uint64_t id = load_rlx(&world.id);
    stranger_submits(2, 3);
    wait(id, 2);
}
EXPLORE_DRIVER(group_stranger_waits, .about = "a stranger ends the group while another submits",
               .setup = setup_two_submitters, .threads = {stranger_waits, stranger_3, worker_0}, .check = group_end,
               .flags = EXPLORE_NO_RESCUE);

static void setup_two_waiters(void) {
    group_setup();
    store_rlx(&world.submitters, 1);
    first_id = load_rlx(&world.id);
    EXPECT(submit(first_id, 0, 0, 0, false));
}
static void read_result(void) {
    plain_read(&world.result[0], sizeof *world.result);
    EXPECT(world.result[0] == 1);
}
static void wait_first(void) {
    if (wait(first_id, 0)) explore_observe(0);
    submitter_leaves();
}
/* Who waits sees the results, also when another ended the group meanwhile, or had done so before. */
static void wait_second(void) {
    bool is_inside = record_enter(&world.groups, world.record, first_id);
    bool ended = is_inside && wait_inside(first_id, 2);
    if (ended) explore_observe(1);
    read_result();
    if (!is_inside) return;
    record_leave(&world.groups, world.record, ended);
    wait(first_id, 2);
}
/* A task submitted while the group is about to be closed: its result counts, too. */
static void setup_late(void) {
    setup_two_waiters();
    store_rlx(&world.submitters, 2);
}
static void wait_late(void) {
    if (!record_enter(&world.groups, world.record, first_id)) return;
    bool ended = wait_inside(first_id, 2);
    read_result();
    if (world.task[2].id == first_id) {
        plain_read(&world.result[2], sizeof *world.result);
        EXPECT(world.result[2] == 3);
        explore_observe(0);
    }
    record_leave(&world.groups, world.record, ended);
}

/* The record came back once. */
static void check_waiters(void) {
    uint32_t made = load_rlx(&world.groups.records.made), free = 0;
    while (pile_pop(&world.groups.records) != NULL) EXPECT(++free < made);
    EXPECT(free == made - 1);
    group_end();
}
EXPLORE_DRIVER(group_two_waiters, .about = "two wait, one ends the group", .setup = setup_two_waiters,
               .threads = {wait_first, wait_second, worker_0}, .check = check_waiters, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);

EXPLORE_DRIVER(group_late, .about = "two wait while a stranger submits", .setup = setup_late,
               .threads = {wait_first, wait_late, stranger_3, worker_0}, .check = check_waiters, .flags = EXPLORE_NO_RESCUE,
               .must_see = 1);

/* As a wait whose deadline passes. */
static void give_up(void) {
    if (record_enter(&world.groups, world.record, first_id)) record_leave(&world.groups, world.record, false);
}
EXPLORE_DRIVER(group_gives_up, .about = "a wait that ends before the group", .setup = setup_two_waiters,
               .threads = {wait_first, give_up, give_up, worker_0}, .check = check_waiters, .flags = EXPLORE_NO_RESCUE);

/* The last one out of a group is late, and another, who came after its end, has freed the record: the next group's stays
 * that group's until its own waits are over. */
static void setup_left(void) {
    group_setup();
    first_id = load_rlx(&world.id);
    EXPECT(record_enter(&world.groups, world.record, first_id));
    EXPECT(end_group(first_id, 0));
}
static void leave_late(void) { record_leave(&world.groups, world.record, true); }
static void use_next(void) {
    EXPECT(!record_enter(&world.groups, world.record, first_id));
    struct record *record = record_open(&world.groups, 0, 0);
    EXPECT(record != NULL);
    if (record == world.record) explore_observe(0);
    uint64_t id = load_rlx(&record->id);
    EXPECT(record_enter(&world.groups, record, id));
    record_fail(record, 3, -7);
    EXPECT(record_close(record, id, 1));
    record_end(record, &(weft_group)WEFT_GROUP_INIT);
    EXPECT(record_error(record) == -7);
    explore_step();
    EXPECT(record_error(record) == -7 && record_has_ended(record));
    plain_read(&record->walk, sizeof record->walk);
    record_leave(&world.groups, record, true);
}
static void use_another(void) {
    for (uint32_t i = 0; i < 2; i++) {
        struct record *record = record_open(&world.groups, 0, 0);
        EXPECT(record != NULL);
        plain_write(&record->walk, sizeof record->walk);
        record_discard(&world.groups, record);
    }
}
EXPLORE_DRIVER(group_left, .about = "the last one out of a group is late", .setup = setup_left,
               .threads = {leave_late, use_next, use_another}, .check = check_waiters, .must_see = 1);

static void cancel_setup(void) {
    group_setup();
    first_id = load_rlx(&world.id);
}
static void cancel(void) {
    uint64_t id = first_id;
    if (record_cancel(world.record, id)) explore_observe(0);
    if (record_cancel(world.record, id)) EXPECT(false);
}
static void end_and_open_again(void) {
    uint64_t id = load_rlx(&world.id);
    while (!wait(id, 0)) os_pause();
    open_group();
    EXPECT(record_lets_run(world.record, 0));
}
static void cancel_check(void) {
    EXPECT((load_rlx(&world.record->id) & ID_MARKS) == 0);
    group_end();
}
EXPLORE_DRIVER(group_cancel, .about = "cancelled while it ends", .setup = cancel_setup,
               .threads = {cancel, end_and_open_again}, .check = cancel_check, .must_see = 1);

/* Who has submitted a task cancels its group before that runs, while a waiter is about to close it and finds that it is not
 * finished after all. */
static void stranger_cancels(void) {
    uint64_t id = first_id;
    uint64_t now;
    while ((now = record_note_foreign(world.record, id, 3)) == (id | ID_CLOSING)) os_pause();
    explore_observe(now == id);
    if (now == id && submit(id, 3, 0, 0, false)) {
        EXPECT(record_cancel(world.record, id));
        EXPECT(!record_lets_run(world.record, 0));
        run_task(0, 3);
    }
}
static void wait_for_group(void) { wait(first_id, 0); }
static void cancelled_check(void) {
    wait(first_id, 0);
    group_end();
}
EXPLORE_DRIVER(group_cancel_closing, .about = "cancelled by who submits while it is being closed", .setup = cancel_setup,
               .threads = {stranger_cancels, wait_for_group}, .check = cancelled_check, .flags = EXPLORE_NO_RESCUE,
               .must_see = 3);

static void fail_3(void) { record_fail(world.record, 3, 7); }
static void fail_2(void) { record_fail(world.record, 2, 9); }
static void fail_2_lower(void) { record_fail(world.record, 2, -8); }
static void fail_setup(void) {
    group_setup();
    store_rlx(&world.record->flags, WEFT_GROUP_CANCEL_ON_ERROR);
}
static void fail_check(void) {
    EXPECT(record_error(world.record) == -8);
    EXPECT(load_rlx(&world.record->cancel_after) == 2);
}
EXPLORE_DRIVER(group_fail, .about = "the failure submitted first is reported", .setup = fail_setup,
               .threads = {fail_3, fail_2, fail_2_lower}, .check = fail_check);

/* A record used before, now below another: who sees its new id also sees its new parent. */
static struct record *upper, *lower;
static void below_setup(void) {
    group_setup();
    upper = world.record;
    lower = record_open(&world.groups, UINT64_C(1234) << ID_SHIFT, 0);
    first_id = load_rlx(&lower->id);
    record_discard(&world.groups, lower);
}
static void open_below(void) { EXPECT(record_open(&world.groups, load_rlx(&upper->id), 0) == lower); }
static void look_below(void) {
    uint64_t id = load_rlx(&lower->id);
    if (id == 0 || id == first_id) return;
    EXPECT(group_parent(&world.groups, id) == load_rlx(&upper->id));
    explore_observe(0);
}
EXPLORE_DRIVER(group_below, .about = "a group below another", .setup = below_setup, .threads = {open_below, look_below},
               .must_see = 1);

/* The record goes on to a group below another one: who asks for the parent of the group before gets that, or none. */
enum { PARENT = 1234, PARENT_NEXT = 2345 };
static uint64_t parent_of(uint32_t generation) { return (uint64_t)generation << ID_SHIFT; }
static void replaced_setup(void) {
    group_setup();
    lower = record_open(&world.groups, parent_of(PARENT), 0);
    first_id = load_rlx(&lower->id);
}
static void replace(void) {
    record_discard(&world.groups, lower);
    EXPECT(record_open(&world.groups, parent_of(PARENT_NEXT), 0) == lower);
}
static void ask_for_parent(void) {
    uint64_t parent = group_parent(&world.groups, first_id);
    EXPECT(parent == 0 || parent == parent_of(PARENT));
    explore_observe(parent != 0);
}
EXPLORE_DRIVER(group_replaced, .about = "the parent of a group whose record goes to another", .setup = replaced_setup,
               .threads = {replace, ask_for_parent}, .must_see = 3);
