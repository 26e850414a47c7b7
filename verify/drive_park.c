/* drive_park.c: workers that look, searcher, poll and park, and threads that submit to them. A wake-up that gets lost leaves
 * every thread asleep, which the explorer reports; work is conserved when one task waits for another. */
#include "explore.h"
#include "queue/park.h"

#include <string.h>

enum { TASKS_MAX = 4, FAR_NS = 1000000000 };

enum sleep_style { SLEEP_PARK, SLEEP_TIMED, SLEEP_POLL };

static struct {
    struct store store;
    struct park park;
    enum sleep_style style;
    bool first_waits; /* task 0 ends only after task 1 has run */
    uint32_t tasks;
    uint32_t payload[TASKS_MAX];
    ATOMIC(uint32_t) ready[TASKS_MAX], taken[TASKS_MAX];
    ATOMIC(uint32_t) finished;
    ATOMIC(uint32_t) stop;
    os_word second_run;
} world;

static void park_setup(enum sleep_style style, uint32_t workers, uint32_t tasks, bool first_waits) {
    memset(&world, 0, sizeof world);
    world.style = style;
    world.tasks = tasks;
    world.first_waits = first_waits;
    EXPECT(park_init(&world.park, &world.store, workers));
}
static void park_end(void) {
    EXPECT(load_rlx(&world.finished) == world.tasks);
    struct park_view view = park_look(&world.park);
    EXPECT(view.parked == 0 && view.searchers == 0 && !view.polling && park_glance(&world.park) == 0);
    store_end(&world.store);
}

/* ---- work, in place of lanes -------------------------------------------------------------------------------------- */

static bool has_work(void) {
    for (uint32_t i = 0; i < world.tasks; i++)
        if (load_acq(drive_park_look, &world.ready[i]) != 0 && load_rlx(&world.taken[i]) == 0) return true;
    return false;
}

static bool take(uint32_t *task) {
    for (uint32_t i = 0; i < world.tasks; i++) {
        uint32_t free = 0;
        *task = i;
        if (load_acq(drive_park_look, &world.ready[i]) != 0 && load_rlx(&world.taken[i]) == 0 &&
            cas_acq(drive_park_take, &world.taken[i], &free, 1))
            return true;
    }
    return false;
}

static void wake_all(void) {
    fence_sc(drive_park_stop);
    while (park_wake(&world.park)) continue;
}

static void run_task(uint32_t task) {
    plain_read(&world.payload[task], sizeof world.payload[task]);
    EXPECT(world.payload[task] == task + 10);
    if (task == 1) {
        store_rel(drive_park_second, &world.second_run, 1);
        os_wake(&world.second_run, 1);
    }
    while (task == 0 && world.first_waits && load_acq(drive_park_first, &world.second_run) == 0)
        os_wait(&world.second_run, 0, 0);
    if (add_acq_rel(drive_park_finished, &world.finished, 1) + 1 < world.tasks) return;
    store_rlx(&world.stop, 1);
    wake_all();
}

/* ---- a worker, as sched.c has it, but smaller --------------------------------------------------------------------- */

static void wake_for_the_rest(void) {
    if (!has_work()) return;
    struct park_view view = park_look(&world.park);
    if (view.searchers == 0) park_wake(&world.park);
}

/* It is a searcher after either. */
static void park_once(uint32_t self, bool is_searcher) {
    uint64_t deadline_ns = world.style == SLEEP_TIMED ? os_now_ns() + FAR_NS : 0;
    park_announce(&world.park, self, is_searcher);
    bool found = has_work() || load_rlx(&world.stop) != 0;
    if (found || park_sleep(&world.park, self, deadline_ns, 0) != PARK_WOKEN) park_retract(&world.park, self);
}

static void poll_once(uint32_t self, bool is_searcher) {
    if (!park_poll_announce(&world.park, self, is_searcher)) {
        park_once(self, is_searcher);
        return;
    }
    if (!has_work() && load_rlx(&world.stop) == 0) park_poll(&world.park, self, os_now_ns() + FAR_NS);
    park_poll_end(&world.park, self);
}

/* Whoever stops looking because it found work wakes another for what else there is: a submitter may have relied on it. */
static void work(uint32_t self) {
    bool is_searcher = false;
    for (;;) {
        uint32_t task;
        if (take(&task)) {
            if (is_searcher) park_unscout(&world.park, self);
            if (is_searcher) wake_for_the_rest();
            is_searcher = false;
            run_task(task);
        } else if (load_rlx(&world.stop) != 0) {
            break;
        } else if (!is_searcher && park_searcher(&world.park, self)) {
            is_searcher = true;
        } else {
            world.style == SLEEP_POLL ? poll_once(self, is_searcher) : park_once(self, is_searcher);
            is_searcher = true;
        }
    }
    if (is_searcher) park_unscout(&world.park, self);
}

static void worker_0(void) { work(0); }
static void worker_1(void) { work(1); }
static void worker_far(void) { work(PARK_BITS); } /* in the next word */

static void submit(uint32_t task) {
    plain_write(&world.payload[task], sizeof world.payload[task]);
    world.payload[task] = task + 10;
    store_rel(drive_park_submit, &world.ready[task], 1);
    fence_sc(drive_park_submit_fence);
    struct park_view view = park_look(&world.park);
    if (view.searchers == 0 && (view.parked > 0 || view.polling)) park_wake(&world.park);
}

static void submit_one(void) { submit(0); }
static void submit_first_two(void) {
    submit(0);
    submit(1);
}
static void submit_last_two(void) {
    submit(2);
    submit(3);
}

/* ---- told to be ready --------------------------------------------------------------------------------------------- */

/* Parks without a deadline until it is told a moment. */
static void told_worker(void) {
    bool told = false;
    while (!told) {
        park_announce(&world.park, 0, false);
        told = park_sleep(&world.park, 0, 0, 0) == PARK_TOLD;
        if (told) park_retract(&world.park, 0);
        park_unscout(&world.park, 0);
    }
    EXPECT(park_told(&world.park, 0) != 0);
}
static void tell(void) { park_expect(&world.park, 0, os_now_ns() + FAR_NS); }
static void wake_once(void) { park_wake(&world.park); }

/* Parks again and again, each time until it is woken: by one who wakes once, and one who wakes the other times. */
enum { SLEEPS = 3 };
static void park_often(void) {
    for (int i = 0; i < SLEEPS; i++) {
        park_announce(&world.park, 0, false);
        EXPECT(park_sleep(&world.park, 0, 0, 0) == PARK_WOKEN);
        park_unscout(&world.park, 0);
    }
}
static void wake_parked(void) {
    while (!park_wake(&world.park)) os_pause();
}
static void wake_parked_often(void) {
    for (int i = 1; i < SLEEPS; i++) wake_parked();
}

/* ---- drivers ------------------------------------------------------------------------------------------------------ */

static void setup_one(void) { park_setup(SLEEP_PARK, 1, 1, false); }
static void setup_one_poll(void) { park_setup(SLEEP_POLL, 1, 1, false); }
static void setup_told(void) { park_setup(SLEEP_PARK, 1, 0, false); }
static void setup_two(void) { park_setup(SLEEP_PARK, 2, 2, true); }
static void setup_two_timed(void) { park_setup(SLEEP_TIMED, 2, 2, true); }
static void setup_two_poll(void) { park_setup(SLEEP_POLL, 2, 2, true); }
static void setup_four(void) { park_setup(SLEEP_PARK, 2, 4, false); }
static void setup_four_poll(void) { park_setup(SLEEP_POLL, 2, 4, true); }

EXPLORE_DRIVER(park_one, .about = "one worker, one task", .setup = setup_one, .threads = {submit_one, worker_0},
               .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_one_poll, .about = "one worker that polls, one task", .setup = setup_one_poll,
               .threads = {submit_one, worker_0}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_told, .about = "a worker that is told when to be ready, and woken meanwhile", .setup = setup_told,
               .threads = {tell, wake_once, told_worker}, .check = park_end);
EXPLORE_DRIVER(park_often, .about = "a worker that is woken again while its last wake is on the way", .setup = setup_told,
               .threads = {wake_parked, wake_parked_often, park_often}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_two, .about = "two workers, a task that waits for the next one", .setup = setup_two,
               .threads = {submit_first_two, worker_0, worker_1}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_two_timed, .about = "the same with deadlines", .setup = setup_two_timed,
               .threads = {submit_first_two, worker_0, worker_1}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_two_poll, .about = "the same, polling", .setup = setup_two_poll,
               .threads = {submit_first_two, worker_0, worker_1}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_submitters, .about = "two submitters, two workers", .setup = setup_four,
               .threads = {submit_first_two, submit_last_two, worker_0, worker_1}, .check = park_end,
               .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_submitters_poll, .about = "two submitters, two workers, polling", .setup = setup_four_poll,
               .threads = {submit_first_two, submit_last_two, worker_0, worker_1}, .check = park_end,
               .flags = EXPLORE_NO_RESCUE);

/* More workers than one word has bits for: whoever sleeps, in whichever, is seen and woken. */
static void setup_words(void) { park_setup(SLEEP_PARK, PARK_BITS + 1, 2, true); }
static void setup_words_poll(void) { park_setup(SLEEP_POLL, PARK_BITS + 1, 2, true); }
static void setup_words_four(void) { park_setup(SLEEP_PARK, PARK_BITS + 1, 4, false); }
EXPLORE_DRIVER(park_words, .about = "two workers, each in its own word", .setup = setup_words,
               .threads = {submit_first_two, worker_0, worker_far}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_words_poll, .about = "the same, polling", .setup = setup_words_poll,
               .threads = {submit_first_two, worker_0, worker_far}, .check = park_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_words_submitters, .about = "the same, two submitters", .setup = setup_words_four,
               .threads = {submit_first_two, submit_last_two, worker_0, worker_far}, .check = park_end,
               .flags = EXPLORE_NO_RESCUE);

/* One worker sleeps, of whichever word: a glance and a look see it, and a wake is for it. */
static uint32_t sleeper; /* the test's own */
static void setup_sleeper(void) {
    sleeper = explore_pick(2 * PARK_BITS + 1);
    park_setup(SLEEP_PARK, 2 * PARK_BITS + 1, 0, false);
}
static void sleep_once(void) {
    park_announce(&world.park, sleeper, false);
    EXPECT(park_sleep(&world.park, sleeper, 0, 0) == PARK_WOKEN);
    EXPECT(park_look(&world.park).searchers == 1 && !park_searcher(&world.park, sleeper / PARK_BITS == 0 ? PARK_BITS : 0));
    park_unscout(&world.park, sleeper);
}
static void see_and_wake(void) {
    while (park_glance(&world.park) == 0) os_pause();
    fence_sc(drive_park_see);
    EXPECT(park_look(&world.park).parked == 1);
    EXPECT(park_wake(&world.park));
    EXPECT(!park_wake(&world.park));
}
static void poll_once_woken(void) {
    bool polls = park_poll_announce(&world.park, sleeper, false);
    EXPECT(polls == (sleeper < PARK_BITS));
    if (!polls) return;
    if (!park_poll(&world.park, sleeper, os_now_ns() + FAR_NS)) park_poll_end(&world.park, sleeper);
    EXPECT(park_look(&world.park).searchers == 1 && park_look(&world.park).polling == 0);
    park_unscout(&world.park, sleeper);
}
static void rouse(void) { explore_observe(park_wake(&world.park)); }
static void sleeper_end(void) {
    EXPECT(park_glance(&world.park) == 0);
    store_end(&world.store);
}
EXPLORE_DRIVER(park_sleeper, .about = "the one that sleeps is woken", .setup = setup_sleeper,
               .threads = {sleep_once, see_and_wake}, .check = sleeper_end, .flags = EXPLORE_NO_RESCUE);
EXPLORE_DRIVER(park_poller, .about = "the one that polls is woken, or its time is over", .setup = setup_sleeper,
               .threads = {poll_once_woken, rouse}, .check = sleeper_end, .must_see = 3);

/* Each worker runs, is parked, or polls, one of them at most: a guard is there when one polls and another runs that was
 * started. Who runs may be missed where one of the next word is parked that has the same bit. */
static void glance_at_all(void) {
    uint32_t started = 1 + explore_pick(PARK_BITS + 1);
    uint32_t poller = explore_pick(PARK_BITS + 1);
    bool runs = false, is_missed = false;
    park_limit(&world.park, started);
    for (uint32_t worker = 0; worker <= PARK_BITS; worker++) {
        bool is_parked = worker != poller && explore_pick(2) == 0;
        if (is_parked) park_announce(&world.park, worker, false);
        if (worker == PARK_BITS)
            is_missed = is_parked;
        else
            runs = runs || (worker < started && worker != poller && !is_parked);
    }
    bool polls = park_poll_announce(&world.park, poller, false);
    bool has_guard = park_has_guard(&world.park, park_glance(&world.park));
    explore_observe(has_guard);
    EXPECT(polls == (poller < PARK_BITS));
    EXPECT(is_missed ? !has_guard || (polls && runs) : has_guard == (polls && runs));
}
static void setup_glance(void) { park_setup(SLEEP_POLL, PARK_BITS + 1, 0, false); }
static void glance_end(void) { store_end(&world.store); }
EXPLORE_DRIVER(park_guard, .about = "who counts as a guard, of all that sleep", .setup = setup_glance,
               .threads = {glance_at_all}, .check = glance_end, .must_see = 2);
