/* test_crowd.c: how many workers a burst wakes; more workers than CPUs: short tasks are left to as many as there are
 * CPUs (how few wakes that takes: verify/costs, 16 workers on two CPUs), and no task that waits for another one is left
 * alone. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "sched/worker.h"

static weft_pool *crowd_of(uint32_t workers) {
    weft_config config = config_of(workers);
    config.expect_percent = WEFT_EXPECT_NONE;
    config.spin_ns = WEFT_SPIN_NONE;
    config.flags = WEFT_POOL_NO_HELP;
    return make_pool_with(&config);
}

static void until_asleep(const weft_pool *pool) {
    for (;;) {
        struct park_view view = park_look(&pool->park);
        if (view.parked == weft_pool_workers(pool)) return;
        usleep(50);
    }
}

static uint64_t wakes_of(const weft_pool *pool) {
    uint64_t wakes = 0;
    for (uint32_t i = 0; i < load_rlx(&pool->seat_count); i++) {
        const struct weft_worker *seat = load_acq(test_seat, &pool->seats[i]);
        if (seat != NULL) wakes += load_rlx(&seat->wakes);
    }
    return wakes;
}

/* ---- wakes for a burst -------------------------------------------------------------------------------------------- */

struct meeting {
    _Atomic unsigned inside, needed;
};

/* Leaves when so many tasks are inside as can be at once. */
static int meet(void *payload, weft_worker *self) {
    (void)self;
    struct meeting *meeting = *(struct meeting **)payload;
    meeting->inside++;
    while (meeting->inside < meeting->needed) usleep(20);
    return 0;
}

/* Tasks that keep their workers until all that can are there: each of those must have been woken. One wake too many
 * happens, where a worker comes to a task while another is on its way to it; more would be a herd. */
static void test_one_wake_for_each_task(void **state) {
    (void)state;
    enum { WORKERS = 4, BURSTS = 100 };
    weft_pool *pool = crowd_of(WORKERS);
    for (unsigned tasks = 1; tasks <= 6; tasks++) {
        unsigned most = tasks < WORKERS ? tasks : WORKERS;
        uint64_t wakes = 0;
        for (int i = 0; i < BURSTS; i++) {
            struct meeting meeting = {0, most};
            struct meeting *payload = &meeting;
            weft_group group = WEFT_GROUP_INIT;
            until_asleep(pool);
            uint64_t before = wakes_of(pool);
            for (unsigned k = 0; k < tasks; k++)
                REQUIRE(weft_submit(pool, &group, meet, &payload, sizeof payload) == WEFT_OK);
            REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
            wakes += wakes_of(pool) - before;
        }
        print_message("%u tasks, %u workers asleep: %.2f wakes\n", tasks, (unsigned)WORKERS, (double)wakes / BURSTS);
        assert_in_range(wakes, most * BURSTS / 2, 2 * most * BURSTS); /* some get up by themselves, to give memory back */
    }
    end_pool(pool);
}

/* ---- a share by thread -------------------------------------------------------------------------------------------- */

static _Thread_local bool holds_back; /* what the thread sends arrives later, as where all CPUs are others' */
void __real_os_wake(os_word *word, int count);
void __wrap_os_wake(os_word *word, int count);
void __wrap_os_wake(os_word *word, int count) {
    if (!holds_back) __real_os_wake(word, count);
}

/* More workers than CPUs, for their share of a crowded machine: a task's thread is ready before the one woken first has got a CPU. */
static void test_wakes_are_no_chain(void **state) {
    (void)state;
    uint32_t workers = weft_cpu_count() + 3;
    weft_pool *pool = crowd_of(workers);
    struct meeting meeting = {0, workers};
    struct meeting *payload = &meeting;
    weft_group group = WEFT_GROUP_INIT;
    until_asleep(pool);
    while (!load_rlx(&pool->purged)) usleep(1000); /* nobody gets up by itself after that */
    until_asleep(pool);
    uint64_t before = wakes_of(pool);
    holds_back = true;
    for (uint32_t k = 0; k < workers; k++) REQUIRE(weft_submit(pool, &group, meet, &payload, sizeof payload) == WEFT_OK);
    holds_back = false;
    assert_int_equal(wakes_of(pool) - before, workers);
    for (uint32_t k = 0; k < workers; k++) os_wake(&pool->park.slots[k].event, 1);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- short tasks -------------------------------------------------------------------------------------------------- */

static int brief(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    uint64_t end = os_now_ns() + 5000;
    while (os_now_ns() < end) os_pause();
    return 0;
}

static void burst(weft_pool *pool, unsigned tasks) {
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned k = 0; k < tasks; k++) REQUIRE(weft_submit(pool, &group, brief, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}

/* Until the pool knows that its tasks are short, and one of its workers polls. */
static void until_calm(weft_pool *pool) {
    do burst(pool, 200);
    while (!load_rlx(&pool->tasks_are_short) || !park_look(&pool->park).polling);
}

/* At once: a quota bounds the time, not these. */
static uint32_t cpus_at_once(void) {
    os_cpuset set;
    REQUIRE(os_cpuset_current(&set));
    return os_cpuset_count(&set);
}

static int until_told(void *payload, weft_worker *self) {
    while (!**(_Atomic bool **)payload) os_yield();
    return brief(NULL, self); /* or it would be tiny, where it begins late */
}

static bool has_quota;
unsigned __real_os_cpu_count_lately(void);
unsigned __wrap_os_cpu_count_lately(void);
unsigned __wrap_os_cpu_count_lately(void) { return has_quota ? 1 : __real_os_cpu_count_lately(); }

/* A quota of one CPU: where two CPUs are theirs, two tasks are two workers'. */
static void test_quota_is_of_time(void **state) {
    (void)state;
    enum { BURSTS = 100 };
    if (cpus_at_once() < 2) SKIP("one CPU: a second worker would not help");
    has_quota = true;
    weft_pool *pool = crowd_of(cpus_at_once() + 14);
    has_quota = false;
    uint64_t wakes = 0;
    for (int i = 0; i < BURSTS;) {
        if (!load_rlx(&pool->tasks_are_short) || !park_look(&pool->park).polling) until_calm(pool);
        if (workers_awake(pool) > 0) continue;
        _Atomic bool told = false;
        _Atomic bool *payload = &told;
        weft_group group = WEFT_GROUP_INIT;
        uint64_t before = wakes_of(pool);
        for (int k = 0; k < 2; k++) REQUIRE(weft_submit(pool, &group, until_told, &payload, sizeof payload) == WEFT_OK);
        uint64_t sent = wakes_of(pool) - before;
        bool by_itself = workers_awake(pool) > sent; /* the guard, where who was woken got no CPU for long */
        told = true;
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
        if (by_itself) continue;
        wakes += sent;
        i++;
    }
    print_message("quota of one CPU: %.2f wakes for a burst of two\n", (double)wakes / BURSTS);
    assert_true(wakes >= UINT64_C(3) * BURSTS / 2);
    end_pool(pool);
}

/* As many tasks as there are CPUs, and more, wait for the last ones. */
static void test_no_task_is_left_alone(void **state) {
    (void)state;
    uint32_t cpus = cpus_at_once();
    weft_pool *pool = crowd_of(cpus + 6);
    for (int i = 0; i < 20; i++) {
        until_calm(pool);
        struct meeting meeting = {0, cpus + 4};
        struct meeting *payload = &meeting;
        weft_group group = WEFT_GROUP_INIT;
        for (uint32_t k = 0; k < cpus + 4; k++)
            REQUIRE(weft_submit(pool, &group, meet, &payload, sizeof payload) == WEFT_OK);
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    end_pool(pool);
}

struct errand {
    _Atomic unsigned bursts, is_held, may_end, has_begun;
    weft_pool *pool;
};

static int hold(void *payload, weft_worker *self) {
    (void)self;
    struct errand *errand = *(struct errand **)payload;
    errand->is_held = 1;
    while (!errand->may_end) usleep(50);
    return 0;
}

static int begin(void *payload, weft_worker *self) {
    (void)self;
    (*(struct errand **)payload)->has_begun = 1;
    return 0;
}

/* Keeps its own group going until the other task has begun: some 30 times. For ever, were it left alone. */
static void *keep_busy(void *argument) {
    struct errand *errand = argument;
    while (!errand->has_begun) {
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 12; i++) weft_submit(errand->pool, &group, brief, NULL, 0);
        weft_group_wait(errand->pool, &group);
        errand->bursts++;
    }
    return NULL;
}

/* A thread that waits with help has a CPU and makes heads move, but it runs nobody else's tasks: these need the sleeping
 * worker. */
static void errand_once(void) {
    weft_config config = config_of(cpus_at_once() > 1 ? cpus_at_once() : 2);
    struct errand errand = {.pool = make_pool_with(&config)};
    struct errand *payload = &errand;
    uint32_t workers = weft_pool_workers(errand.pool);
    weft_group continuation = WEFT_GROUP_INIT;
    weft_group other = WEFT_GROUP_INIT;
    pthread_t thread;
    pthread_create(&thread, NULL, keep_busy, &errand);
    while (errand.bursts < 300) usleep(100);
    for (uint32_t i = 0; i + 1 < workers; i++)
        REQUIRE(weft_submit(errand.pool, &continuation, hold, &payload, sizeof payload) == WEFT_OK);
    while (!errand.is_held) usleep(100);
    REQUIRE(weft_submit(errand.pool, &other, begin, &payload, sizeof payload) == WEFT_OK);
    pthread_join(thread, NULL);
    errand.may_end = 1;
    REQUIRE(weft_group_wait(errand.pool, &other) == WEFT_OK);
    REQUIRE(weft_group_wait(errand.pool, &continuation) == WEFT_OK);
    end_pool(errand.pool);
}

static void test_a_waits_own_tasks_hide_no_others(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) errand_once();
}

/* Who polls parks at last, when there is nothing to guard. */
static void test_guard_goes_to_sleep(void **state) {
    (void)state;
    weft_pool *pool = crowd_of(cpus_at_once() + 2);
    until_calm(pool);
    until_asleep(pool);
    end_pool(pool);
}

/* The same where workers are so many that several poll: each of them sees that nobody works. */
static void test_several_pollers_go_to_sleep(void **state) {
    (void)state;
    weft_config config = config_of(4 * PARK_BITS / 3);
    config.expect_percent = WEFT_EXPECT_NONE;
    weft_pool *pool = make_pool_with(&config);
    for (int i = 0; i < 20; i++) {
        struct meeting meeting = {0, config.workers};
        struct meeting *payload = &meeting;
        for (uint32_t k = 0; k < config.workers; k++)
            REQUIRE(weft_submit(pool, NULL, meet, &payload, sizeof payload) == WEFT_OK);
        REQUIRE(weft_group_wait_until(pool, NULL, WEFT_HELP_NONE, 0) == WEFT_OK);
        store_rlx(&pool->tiny, 1); /* as after tiny tasks */
        until_asleep(pool);
    }
    end_pool(pool);
}

/* ---- beside a long task ------------------------------------------------------------------------------------------- */

static atomic_uint looks; /* of pollers */
bool __real_park_poll(struct park *park, uint32_t worker, uint64_t deadline_ns);
bool __wrap_park_poll(struct park *park, uint32_t worker, uint64_t deadline_ns);
bool __wrap_park_poll(struct park *park, uint32_t worker, uint64_t deadline_ns) {
    atomic_fetch_add(&looks, 1);
    return __real_park_poll(park, worker, deadline_ns);
}

struct long_task {
    atomic_bool begins, ends;
};
static int until_it_ends(void *payload, weft_worker *self) {
    struct long_task *task = *(struct long_task **)payload;
    (void)self;
    atomic_store(&task->begins, true);
    while (!atomic_load(&task->ends)) usleep(100);
    return 0;
}
static int nothing(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}
static void run_nothing(weft_pool *pool) {
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(pool, &group, nothing, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}

/* Until all the others sleep, which takes few looks, though the pool's tasks were tiny and one worker runs on. */
static void until_others_sleep(weft_pool *pool) {
    enum { LOOKS_MAX = 100 };
    store_rlx(&pool->tiny, 1); /* as after tiny tasks */
    run_nothing(pool);
    unsigned before = atomic_load(&looks);
    while (park_look(&pool->park).parked + 1 < weft_pool_workers(pool)) {
        REQUIRE(atomic_load(&looks) - before < LOOKS_MAX);
        usleep(50);
    }
}

static void beside_long_task(uint32_t workers, uint32_t flags) {
    weft_pool *pool = crowd_of(workers);
    unsigned before = atomic_load(&looks);
    for (int i = 0; i < 20; i++) {
        struct long_task task = {false, false}, *payload = &task;
        weft_group group = {.flags = flags};
        REQUIRE(weft_submit(pool, &group, until_it_ends, &payload, sizeof payload) == WEFT_OK);
        while (!atomic_load(&task.begins)) usleep(50);
        for (int k = 0; k < 3; k++) until_others_sleep(pool);
        atomic_store(&task.ends, true);
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    print_message("%u workers, flags %u: %u looks\n", workers, flags, atomic_load(&looks) - before);
    assert_true(atomic_load(&looks) > before);
    end_pool(pool);
}

/* Who polls beside a task that runs long parks after a few looks in vain, and is woken for the next task. */
static void test_poller_sleeps_beside_long_task(void **state) {
    (void)state;
    beside_long_task(2, 0);
    beside_long_task(64, 0);
    beside_long_task(2, WEFT_GROUP_BACKGROUND);
}

/* ---- fewer workers ------------------------------------------------------------------------------------------------ */

/* Fewer workers: those that are to rest are woken, and no others. */
static void test_who_stays_sleeps_on(void **state) {
    (void)state;
    enum { WORKERS = 12, STAY = 9 };
    weft_pool *pool = crowd_of(WORKERS);
    uint32_t events[WORKERS];
    until_asleep(pool);
    while (!load_rlx(&pool->purged)) usleep(1000); /* nobody gets up by itself after that */
    until_asleep(pool);
    for (uint32_t i = 0; i < WORKERS; i++) events[i] = load_rlx(&pool->park.slots[i].event);
    assert_int_equal(weft_pool_resize(pool, STAY), WEFT_OK);
    for (uint32_t i = 0; i < WORKERS; i++) assert_int_equal(load_rlx(&pool->park.slots[i].event) != events[i], i >= STAY);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_wake_for_each_task),
        cmocka_unit_test(test_wakes_are_no_chain),
        cmocka_unit_test(test_quota_is_of_time),
        cmocka_unit_test(test_no_task_is_left_alone),
        cmocka_unit_test(test_a_waits_own_tasks_hide_no_others),
        cmocka_unit_test(test_guard_goes_to_sleep),
        cmocka_unit_test(test_several_pollers_go_to_sleep),
        cmocka_unit_test(test_poller_sleeps_beside_long_task),
        cmocka_unit_test(test_who_stays_sleeps_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
