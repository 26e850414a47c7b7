/* test_config.c: what a pool makes of its configuration, on machines of one CPU and of several. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <errno.h>
#include <sched.h>

#include "front.h"

/* ---- a machine of the test's own ---------------------------------------------------------------------------------- */

static uint32_t cpus, allowed; /* as many as a quota leaves; as the thread may be on */

uint32_t __wrap_os_cpu_count(void);
uint32_t __wrap_os_cpu_count(void) { return cpus; }
uint32_t __wrap_os_cpu_count_lately(void);
uint32_t __wrap_os_cpu_count_lately(void) { return cpus; }
uint32_t __wrap_os_cpuset_count(const os_cpuset *set);
uint32_t __wrap_os_cpuset_count(const os_cpuset *set) {
    (void)set;
    return allowed;
}

int __real_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
static uint32_t threads_left = UINT32_MAX, threads_begun, threads_ended;
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    if (threads_left == 0) return EAGAIN;
    threads_left--;
    threads_begun++;
    return __real_os_thread_start(thread, options, entry, argument);
}

void __real_os_thread_join(os_thread thread);
void __wrap_os_thread_join(os_thread thread);
void __wrap_os_thread_join(os_thread thread) {
    threads_ended++;
    __real_os_thread_join(thread);
}

static weft_pool *pool_on(uint32_t count, uint32_t may_use, const weft_config *config) {
    cpus = count;
    allowed = may_use;
    weft_config wish = *config;
    return make_pool_with(&wish);
}
static weft_config default_config(void) {
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK);
    return config;
}
static weft_config shown_of(const weft_pool *pool) {
    weft_config config = default_config();
    REQUIRE(weft_pool_config(pool, &config) == WEFT_OK);
    return config;
}

/* ---- threads and times -------------------------------------------------------------------------------------------- */

struct outcome {
    uint32_t cpus, allowed;
    uint32_t workers, spares, background_max;
    int64_t spin_ns;
    int32_t expect_percent;
    bool places;
};

static void test_defaults(void **state) {
    (void)state;
    static const struct outcome all[] = {
        {1, 1, 1, 1, 1, WEFT_SPIN_NONE, WEFT_SPIN_NONE, false},
        {1, 2, 1, 1, 1, 50000, WEFT_SPIN_NONE, true}, /* a quota of one CPU */
        {2, 2, 2, 2, 1, 50000, 12, true},
        {3, 4, 3, 3, 1, 50000, 12, true},
        {4, 4, 4, 4, 2, 50000, 12, true},
        {2, 1, 2, 2, 1, WEFT_SPIN_NONE, WEFT_SPIN_NONE, false},
    };
    const weft_config config = default_config();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct outcome *o = &all[i];
        weft_pool *pool = pool_on(o->cpus, o->allowed, &config);
        weft_config shown = shown_of(pool);
        assert_int_equal(shown.workers, o->workers);
        assert_true(pool->workers_max >= o->workers);
        assert_int_equal(weft_pool_workers(pool), o->workers);
        assert_int_equal(shown.spares, o->spares);
        assert_int_equal(shown.background_max, o->background_max);
        assert_int_equal(load_rlx(&pool->background_max), o->background_max);
        assert_int_equal(shown.spin_ns, o->spin_ns);
        assert_true(pool->spin_adapts);
        assert_int_equal(shown.expect_percent, o->expect_percent);
        assert_int_equal(load_rlx(&pool->expect_percent), o->expect_percent < 0 ? 0 : o->expect_percent);
        assert_int_equal(pool->placing, o->places);
        assert_true(shown.stack_size > 0 && shown.queue_max == 0);
        assert_true(pool->helps && !pool->ordered);
        assert_int_equal(pool->claim_max, os_fence_is_asymmetric() ? 32 : 1);
        assert_string_equal(shown.name, "weft");
        end_pool(pool);
    }
}

/* What is asked for stays. */
static void test_wishes(void **state) {
    (void)state;
    weft_config config = default_config();
    config.workers = 3;
    config.spares = 5;
    config.background_max = 2;
    config.spin_ns = 7000;
    config.expect_percent = 30;
    config.stack_size = 1 << 20;
    config.name = "abcdefghijklmnop";
    weft_pool *pool = pool_on(2, 2, &config);
    weft_config shown = shown_of(pool);
    assert_int_equal(shown.workers, 3);
    assert_int_equal(shown.spares, 5);
    assert_int_equal(shown.background_max, 2);
    assert_int_equal(shown.spin_ns, 7000);
    assert_false(pool->spin_adapts);
    assert_int_equal(shown.expect_percent, 30);
    assert_int_equal(load_rlx(&pool->expect_percent), 30);
    assert_int_equal(shown.stack_size, 1 << 20);
    assert_string_equal(shown.name, "abcdefghijk");
    end_pool(pool);
    config.spin_ns = WEFT_SPIN_NONE;
    config.expect_percent = 0;
    pool = pool_on(2, 2, &config);
    assert_int_equal(shown_of(pool).spin_ns, WEFT_SPIN_NONE);
    assert_int_equal(shown_of(pool).expect_percent, WEFT_EXPECT_NONE);
    end_pool(pool);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || !CPU_ISSET(0, &set)) SKIP("CPU 0 is not to be had");
    config.cpus = "0";
    config.spin_ns = 7000;
    pool = pool_on(2, 1, &config); /* whoever names one CPU has named how long to spin on it */
    assert_int_equal(shown_of(pool).spin_ns, 7000);
    assert_int_equal(shown_of(pool).expect_percent, WEFT_EXPECT_NONE);
    assert_string_equal(shown_of(pool).cpus, "0");
    assert_int_equal(load_rlx(&pool->cpu_count), 1);
    assert_int_equal(load_rlx(&pool->cpus_allowed), 1);
    end_pool(pool);
}

static void test_flags(void **state) {
    (void)state;
    static const struct {
        uint32_t flags;
        bool helps, ordered, places;
    } all[] = {{0, true, false, true},
               {WEFT_POOL_NO_HELP, false, false, true},
               {WEFT_POOL_ORDERED, false, true, true},
               {WEFT_POOL_NO_PLACING, true, false, false},
               {WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP | WEFT_POOL_NO_PLACING, false, true, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_config config = default_config();
        config.flags = all[i].flags;
        weft_pool *pool = pool_on(2, 2, &config);
        assert_int_equal(pool->helps, all[i].helps);
        assert_int_equal(pool->ordered, all[i].ordered);
        assert_int_equal(pool->placing, all[i].places);
        assert_int_equal(pool->claim_max, all[i].ordered || !os_fence_is_asymmetric() ? 1 : 32);
        end_pool(pool);
    }
}

/* ---- bounds ------------------------------------------------------------------------------------------------------- */

/* The greatest and the least that a field may be, and one beyond. */
static void test_bounds(void **state) {
    (void)state;
#define FIELD(name, good, bad)                                                                                              \
    { {.name = (good)}, {.name = (bad)}, #name }
    static const struct {
        weft_config good, bad;
        const char *name;
    } all[] = {
        FIELD(workers, WEFT_WORKERS_MAX, WEFT_WORKERS_MAX + 1),
        FIELD(spares, WEFT_WORKERS_MAX, WEFT_WORKERS_MAX + 1),
        FIELD(background_max, WEFT_WORKERS_MAX, WEFT_WORKERS_MAX + 1),
        FIELD(spin_ns, 1000000000, 1000000001),
        FIELD(spin_ns, WEFT_SPIN_NONE, WEFT_SPIN_NONE - 1),
        FIELD(expect_percent, 100, 101),
        FIELD(expect_percent, WEFT_EXPECT_NONE, WEFT_EXPECT_NONE - 1),
        FIELD(full, WEFT_FULL_ERROR, WEFT_FULL_ERROR + 1),
        FIELD(flags,
              WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP | WEFT_POOL_NO_PLACING | WEFT_POOL_BIND | WEFT_POOL_LOCK |
                  WEFT_POOL_JOBSERVER | WEFT_POOL_LEASE,
              UINT32_C(1) << 31),
        FIELD(watchdog_ns, INT64_MAX, (uint64_t)INT64_MAX + 1),
        FIELD(stack_wait_ns, INT64_MAX, (uint64_t)INT64_MAX + 1),
        FIELD(trace_events, TRACE_EVENTS_MAX, TRACE_EVENTS_MAX + 1),
        FIELD(stack_size, STACK_SIZE_MIN, STACK_SIZE_MIN - 1),
        FIELD(stack_size, SIZE_MAX / 2, SIZE_MAX / 2 + 1),
        FIELD(cpus, "0-3", "3-0"),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_config good = all[i].good, bad = all[i].bad, whole;
        good.struct_size = bad.struct_size = sizeof good;
        const char *wrong = config_read(&whole, &good);
        if (wrong != NULL) fail_msg("%s, %zu: %s", all[i].name, i, wrong);
        assert_string_equal(config_read(&whole, &bad), all[i].name);
        weft_pool *pool = NULL;
        assert_int_equal(weft_pool_create(&pool, &bad), WEFT_EINVAL);
        assert_null(pool);
    }
}

/* ---- fewer threads than wanted ------------------------------------------------------------------------------------ */

/* Those that were not started are nobody's concern. */
static void test_fewer_threads(void **state) {
    (void)state;
    weft_config config = default_config();
    config.workers = 5;
    for (uint32_t started = 1; started <= 5; started++) {
        threads_left = started;
        weft_pool *pool = pool_on(2, 2, &config);
        assert_int_equal(weft_pool_workers(pool), started);
        assert_int_equal(shown_of(pool).workers, started);
        assert_int_equal(__builtin_popcountll(load_rlx(&pool->park.all)), started); /* who could stand guard */
        atomic_uint counter = 0;
        for (int i = 0; i < 100; i++) assert_int_equal(submit_count(pool, NULL, &counter), WEFT_OK);
        assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
        assert_int_equal(atomic_load(&counter), 100);
        end_pool(pool);
    }
    threads_left = UINT32_MAX;
}

/* Without any there is no pool; a caller who named CPUs is on those it was on before. */
static void test_no_threads(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    weft_config config = default_config();
    config.cpus = "0";
    weft_pool *pool = NULL;
    threads_left = 0;
    int error = weft_pool_create(&pool, &config);
    threads_left = UINT32_MAX;
    assert_null(pool);
    assert_int_equal(error, CPU_ISSET(0, &before) ? WEFT_EAGAIN : WEFT_EINVAL);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    if (CPU_COUNT(&before) < 2) SKIP("one CPU: there is nothing to be put back");
}

/* Nor is there anything open then of what it was to write, or a thread that looks at it. */
static void test_no_threads_and_files(void **state) {
    (void)state;
    weft_config config = default_config();
    config.trace = config.stats = "/dev/null";
    int before = dup(0);
    assert_true(before >= 0 && close(before) == 0);
    for (uint32_t others = 0; others < 2; others++) {
        weft_pool *pool = NULL;
        if (others > 0) config.watchdog_ns = UINT64_C(1000000000);
        threads_left = others;
        int error = weft_pool_create(&pool, &config);
        threads_left = UINT32_MAX;
        assert_null(pool);
        assert_int_equal(error, WEFT_EAGAIN);
        int after = dup(0);
        assert_int_equal(after, before);
        assert_int_equal(close(after), 0);
        assert_int_equal(threads_ended, threads_begun);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_fewer_threads),
        cmocka_unit_test(test_no_threads),
        cmocka_unit_test(test_no_threads_and_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
