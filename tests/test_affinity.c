/* test_affinity.c: sleepers keep off their waker's CPU, and no task ever sees a narrowed affinity. */
#define _GNU_SOURCE
#include "help.h"
#include "predict/affinity.h"
#include "sched/worker.h"

#include <sched.h>

/* ---- a machine of our own ----------------------------------------------------------------------------------------- */

static struct {
    bool is_fake;     /* else the affinity is the real one */
    bool refuses;     /* changes of the affinity */
    uint32_t cpu;     /* where everybody runs */
    os_cpuset mask;   /* what the thread asked for */
    os_cpuset cpuset; /* what it may have at most */
    uint64_t least;   /* CPUs that it had at any time */
    ATOMIC(uint32_t) applied;
} machine;

bool __real_os_cpuset_current(os_cpuset *set);
bool __real_os_cpuset_apply(const os_cpuset *set);
bool __wrap_os_cpuset_current(os_cpuset *set);
bool __wrap_os_cpuset_apply(const os_cpuset *set);
uint32_t __wrap_os_cpu(void);

/* As Linux has it: the cpuset bounds what is asked for, and counts alone where that leaves nothing. */
static os_cpuset allowed(const os_cpuset *asked) {
    os_cpuset both = *asked;
    for (size_t i = 0; i < sizeof both.bits / sizeof both.bits[0]; i++) both.bits[i] &= machine.cpuset.bits[i];
    return os_cpuset_count(&both) == 0 ? machine.cpuset : both;
}

static uint64_t has(void) { return allowed(&machine.mask).bits[0]; }

bool __wrap_os_cpuset_current(os_cpuset *set) {
    if (!machine.is_fake) return __real_os_cpuset_current(set);
    *set = allowed(&machine.mask);
    return true;
}

bool __wrap_os_cpuset_apply(const os_cpuset *set) {
    add_rlx(&machine.applied, 1);
    if (!machine.is_fake) return __real_os_cpuset_apply(set);
    if (machine.refuses || (set->bits[0] & machine.cpuset.bits[0]) == 0) return false;
    machine.mask = *set;
    machine.least &= has();
    return true;
}

uint32_t __wrap_os_cpu(void) { return machine.cpu; }

static void fake(uint64_t cpus) {
    memset(&machine, 0, sizeof machine);
    machine.is_fake = true;
    memset(&machine.mask, 0xff, sizeof machine.mask);
    machine.cpuset.bits[0] = machine.least = cpus;
}

static uint64_t sleep_once(struct affinity *affinity, uint32_t woken_from) {
    affinity_before_sleep(affinity, true);
    uint64_t asleep = has();
    affinity_after_sleep(affinity, true, woken_from);
    return asleep;
}

/* ---- the rule ----------------------------------------------------------------------------------------------------- */

static void test_woken_elsewhere_changes_nothing(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0xf);
    for (int i = 0; i < 100; i++) assert_int_equal(sleep_once(&affinity, 1), 0xf);
    assert_int_equal(load_rlx(&machine.applied), 0);
}

static void test_woken_on_the_wakers_cpu_keeps_off_it(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0xf);
    machine.cpu = 2;
    assert_int_equal(sleep_once(&affinity, 2), 0xf); /* the system's choice was bad */
    assert_int_equal(sleep_once(&affinity, 2), 0xb);
    assert_int_equal(has(), 0xf);
    assert_int_equal(sleep_once(&affinity, 3), 0xb);
    assert_int_equal(sleep_once(&affinity, 3), 0x7); /* the waker has moved */
    assert_int_equal(sleep_once(&affinity, OS_NO_CPU), 0x7);
    assert_int_equal(has(), 0xf);
}

static void test_the_system_gets_another_chance(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0x3);
    uint32_t free = 0;
    for (int i = 0; i < 10000; i++) free += sleep_once(&affinity, 0) == 0x3; /* and is bad each time */
    assert_in_range(free, 4, 20);
    machine.cpu = 1; /* now it is good */
    while (affinity.turns > 0) sleep_once(&affinity, 0);
    uint32_t applied = load_rlx(&machine.applied);
    for (int i = 0; i < 100; i++) assert_int_equal(sleep_once(&affinity, 0), 0x3);
    assert_int_equal(load_rlx(&machine.applied), applied);
}

static void test_no_room(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0x3);
    for (int i = 0; i < 3; i++) {
        affinity_before_sleep(&affinity, false);
        affinity_after_sleep(&affinity, false, 0);
    }
    assert_int_equal(affinity.turns, 0);
    sleep_once(&affinity, 0);
    affinity_before_sleep(&affinity, false);
    assert_int_equal(has(), 0x3);
    affinity_after_sleep(&affinity, false, 0);
}

static void test_it_leaves_at_once(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0x3);
    machine.cpu = 1;
    assert_false(affinity_after_sleep(&affinity, true, 0));
    assert_false(affinity_after_sleep(&affinity, false, 1));
    assert_int_equal(load_rlx(&machine.applied), 0);
    assert_true(affinity_after_sleep(&affinity, true, 1));
    affinity_leave(&affinity);
    assert_int_equal(machine.least, 0x1);
    assert_int_equal(has(), 0x3);
    affinity_before_sleep(&affinity, true); /* narrowed, and yet there: the other thread has moved */
    machine.cpu = 0;
    assert_true(affinity_after_sleep(&affinity, true, 0));
    machine.least = 0x3;
    affinity_leave(&affinity);
    assert_int_equal(machine.least, 0x2);
    assert_int_equal(has(), 0x3);
    machine.cpuset.bits[0] = 0x1; /* no other is left */
    affinity_leave(&affinity);
    assert_int_equal(has(), 0x1);
}

static void test_the_only_cpu_stays(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0x1);
    for (int i = 0; i < 3; i++) assert_int_equal(sleep_once(&affinity, 0), 0x1);
    assert_int_equal(load_rlx(&machine.applied), 0);
}

static void test_a_refusal(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0x3);
    machine.refuses = true;
    for (int i = 0; i < 3; i++) assert_int_equal(sleep_once(&affinity, 0), 0x3);
    assert_false(affinity.is_narrowed);
}

static void test_somebody_else_changes_the_affinity(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0xf);
    sleep_once(&affinity, 0);
    affinity_before_sleep(&affinity, true);
    assert_int_equal(has(), 0xe);
    machine.mask.bits[0] = 0x6;
    affinity_after_sleep(&affinity, true, 0);
    assert_int_equal(has(), 0x6);
    affinity_before_sleep(&affinity, true); /* nothing to leave: it is not in there */
    affinity_after_sleep(&affinity, true, 0);
    machine.cpuset.bits[0] = 0xff;
    assert_int_equal(has(), 0x6);
}

/* It sleeps with all but CPU 0 of four while the cpuset becomes another one. */
static void test_the_cpuset_changes(void **state) {
    (void)state;
    const uint64_t sets[] = {0xff, 0x3, 0x1, 0x30, 0xe, 0xf};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct affinity affinity = {0};
        fake(0xf);
        sleep_once(&affinity, 0);
        affinity_before_sleep(&affinity, true);
        assert_int_equal(has(), 0xe);
        machine.cpuset.bits[0] = sets[i];
        affinity_after_sleep(&affinity, true, 0);
        assert_int_equal(has(), sets[i]);
        machine.cpuset.bits[0] = 0xfff; /* nor is anything held against a later one */
        assert_int_equal(has(), 0xfff);
    }
}

/* All that it had once is somebody's choice when there is more. */
static void test_all_of_once_is_chosen_now(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0xf);
    sleep_once(&affinity, 0);
    assert_int_equal(sleep_once(&affinity, 0), 0xe);
    machine.cpuset.bits[0] = 0xff;
    assert_int_equal(has(), 0xff);
    machine.mask.bits[0] = 0xf;
    assert_int_equal(sleep_once(&affinity, 0), 0xe);
    assert_int_equal(has(), 0xf);
}

/* A thread that was given three of four CPUs keeps to them, whatever it slept with. */
static void test_a_chosen_set_stays(void **state) {
    (void)state;
    struct affinity affinity = {0};
    fake(0xf);
    machine.mask.bits[0] = 0x7;
    sleep_once(&affinity, 0);
    assert_int_equal(sleep_once(&affinity, 0), 0x6);
    assert_int_equal(has(), 0x7);
    affinity_before_sleep(&affinity, true);
    machine.cpuset.bits[0] = 0x3;
    affinity_after_sleep(&affinity, true, 0);
    assert_int_equal(has(), 0x3);
    machine.cpuset.bits[0] = 0xff;
    assert_int_equal(has(), 0x7);
}

/* A pool of CPUs 0 to 3 keeps to them in a cpuset that grows, and takes up those of them that it allows again. */
static void test_a_pools_cpus_stay(void **state) {
    (void)state;
    const os_cpuset cpus = {{0xf}};
    struct affinity affinity = {.wished = &cpus};
    fake(0x3);
    machine.mask.bits[0] = 0xf;
    sleep_once(&affinity, 0);
    assert_int_equal(sleep_once(&affinity, 0), 0x2);
    machine.cpuset.bits[0] = 0xff;
    assert_int_equal(has(), 0xf);
    affinity_before_sleep(&affinity, true);
    machine.cpuset.bits[0] = 0x7;
    affinity_after_sleep(&affinity, true, 0);
    assert_int_equal(has(), 0x7);
    machine.cpuset.bits[0] = 0xff;
    assert_int_equal(has(), 0xf);
}

/* ---- in a pool ---------------------------------------------------------------------------------------------------- */

struct look {
    cpu_set_t expected;
    bool differs;
    ATOMIC(uint32_t) runs;
};

static int look(void *payload, weft_worker *self) {
    (void)self;
    struct look *look = *(struct look **)payload;
    cpu_set_t now;
    REQUIRE(sched_getaffinity(0, sizeof now, &now) == 0);
    if (!CPU_EQUAL(&now, &look->expected)) look->differs = true;
    add_rlx(&look->runs, 1);
    return 0;
}

static uint64_t parks_of(const weft_pool *pool) { return load_rlx(&load_rlx(&pool->seats[0])->parks); }

/* Bursts of one task to a sleeping worker, which always seems to wake where it was woken from. They go on until so many changes
 * of the affinity are seen, but not for ever: a worker whose last task was long, or that woke by the clock, changes nothing. */
static uint32_t bursts(uint32_t flags, int most, uint32_t changes) {
    struct look seen = {.differs = false};
    struct look *payload = &seen;
    memset(&machine, 0, sizeof machine);
    REQUIRE(sched_getaffinity(0, sizeof seen.expected, &seen.expected) == 0);
    while (!CPU_ISSET(machine.cpu, &seen.expected)) machine.cpu++;
    weft_config config;
    weft_config_init(&config);
    config.workers = 1;
    config.spares = 1;
    config.flags = flags | WEFT_POOL_NO_HELP;
    weft_pool *pool;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_OK);
    for (int i = 0; i < most && load_rlx(&machine.applied) < changes; i++) {
        weft_group group = WEFT_GROUP_INIT;
        uint64_t parks = parks_of(pool);
        assert_int_equal(weft_submit(pool, &group, look, &payload, sizeof(void *)), WEFT_OK);
        while (load_rlx(&seen.runs) == (uint32_t)i) sched_yield(); /* who sleeps in its wait leaves the worker its CPU */
        while (parks_of(pool) == parks) usleep(10);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
    assert_false(seen.differs);
    return load_rlx(&machine.applied);
}

static void test_tasks_see_their_affinity(void **state) {
    (void)state;
    if (weft_cpu_count() < 2) SKIP("one CPU: nothing is ever narrowed");
    assert_in_range(bursts(0, 100000, 2), 2, UINT32_MAX);
}

static void test_off_by_configuration(void **state) {
    (void)state;
    assert_int_equal(bursts(WEFT_POOL_NO_PLACING, 60, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_woken_elsewhere_changes_nothing),
        cmocka_unit_test(test_woken_on_the_wakers_cpu_keeps_off_it),
        cmocka_unit_test(test_the_system_gets_another_chance),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_it_leaves_at_once),
        cmocka_unit_test(test_the_only_cpu_stays),
        cmocka_unit_test(test_a_refusal),
        cmocka_unit_test(test_somebody_else_changes_the_affinity),
        cmocka_unit_test(test_the_cpuset_changes),
        cmocka_unit_test(test_a_pools_cpus_stay),
        cmocka_unit_test(test_all_of_once_is_chosen_now),
        cmocka_unit_test(test_a_chosen_set_stays),
        cmocka_unit_test(test_tasks_see_their_affinity),
        cmocka_unit_test(test_off_by_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
