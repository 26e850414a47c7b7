/* test_environment.c: a configuration from the environment. */
#define _GNU_SOURCE
#include "pool_help.h"

static const char *const variables[] = {"WEFT_WORKERS", "WEFT_SPARES",     "WEFT_CPUS",
                                        "WEFT_SPIN_NS", "WEFT_STACK_SIZE", "WEFT_QUEUE_MAX"};

static void environment_clear(void) {
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
}

static void test_from_env(void **state) {
    (void)state;
    environment_clear();
    weft_config config = config_of(3), before = config;
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_memory_equal(&config, &before, sizeof config);
    setenv("WEFT_WORKERS", "5", 1);
    setenv("WEFT_SPARES", "6", 1);
    setenv("WEFT_CPUS", "0-1", 1);
    setenv("WEFT_SPIN_NS", "7000", 1);
    setenv("WEFT_STACK_SIZE", "65536", 1);
    setenv("WEFT_QUEUE_MAX", "8000000000", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_int_equal(config.workers, 5);
    assert_int_equal(config.spares, 6);
    assert_string_equal(config.cpus, "0-1");
    assert_int_equal(config.spin_ns, 7000);
    assert_int_equal(config.stack_size, 65536);
    assert_int_equal(config.queue_max, 8000000000);
    setenv("WEFT_SPIN_NS", "-1", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_int_equal(config.spin_ns, WEFT_SPIN_NONE);
    environment_clear();
}

static void test_from_bad_env(void **state) {
    (void)state;
    static const char *const bad_numbers[] = {
        " ", "x", "4x", "-2", "1.5", "0x4", "18446744073709551616", "99999999999999999999999", "4 4", "+", "--1", "-"};
    for (size_t v = 0; v < sizeof variables / sizeof variables[0]; v++) {
        for (size_t i = 0; i < sizeof bad_numbers / sizeof bad_numbers[0]; i++) {
            environment_clear();
            setenv("WEFT_WORKERS", "2", 1); /* must not be taken over when another one is bad */
            if (strcmp(variables[v], "WEFT_SPIN_NS") == 0 && bad_numbers[i][0] == '-') continue; /* a number, if a bad one */
            setenv(variables[v], bad_numbers[i], 1);
            weft_config config = config_of(3), before = config;
            int error = weft_config_from_env(&config);
            if (error != WEFT_EINVAL) fail_msg("%s=\"%s\" gave %d", variables[v], bad_numbers[i], error);
            assert_memory_equal(&config, &before, sizeof config);
            assert_string_equal(weft_config_wrong(&config), variables[v]);
        }
    }
    environment_clear();
    assert_null(weft_config_wrong(NULL));
}

/* Each variable there is: empty, it is as if it were not set. */
static void test_from_empty_env(void **state) {
    (void)state;
    static const char *const all[] = {"WEFT_WORKERS",      "WEFT_SPARES",      "WEFT_CPUS",           "WEFT_SPIN_NS",
                                      "WEFT_STACK_SIZE",   "WEFT_QUEUE_MAX",   "WEFT_STATS",          "WEFT_TRACE",
                                      "WEFT_TRACE_EVENTS", "WEFT_WATCHDOG_NS", "WEFT_EXPECT_PERCENT", "WEFT_BACKGROUND_MAX",
                                      "WEFT_SLICE_NS",     "WEFT_POLICY",      "WEFT_JOBSERVER",      "WEFT_LEASE"};
    weft_config config = config_of(2), before = config;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) setenv(all[i], "", 1);
    assert_null(weft_config_wrong(&config));
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    assert_memory_equal(&config, &before, sizeof config);
    weft_pool *pool = NULL;
    assert_int_equal(weft_pool_create(&pool, &config), WEFT_OK);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
    assert_int_equal(weft_pool_default(&pool), WEFT_OK);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
}

/* What the field may be the variable may be, and no more. */
static void test_from_env_bounds(void **state) {
    (void)state;
    static const struct {
        const char *name, *good, *bad;
        size_t offset;
        uint64_t value;
    } all[] = {
#define VARIABLE(name, good, bad, field, value) {name, good, bad, offsetof(weft_config, field), (uint64_t)(value)}
        VARIABLE("WEFT_WORKERS", "512", "513", workers, 512),
        VARIABLE("WEFT_SPARES", "512", "513", spares, 512),
        VARIABLE("WEFT_SPIN_NS", "1000000000", "1000000001", spin_ns, 1000000000),
        VARIABLE("WEFT_SPIN_NS", "-1", "-2", spin_ns, WEFT_SPIN_NONE),
        VARIABLE("WEFT_STACK_SIZE", "16384", "16383", stack_size, 16384),
        VARIABLE("WEFT_STACK_SIZE", "9223372036854775807", "9223372036854775808", stack_size, SIZE_MAX / 2),
        VARIABLE("WEFT_STACK_SIZE", "0", "-1", stack_size, 0),
        VARIABLE("WEFT_QUEUE_MAX", "9223372036854775807", "18446744073709551616", queue_max, INT64_MAX),
        VARIABLE("WEFT_QUEUE_MAX", "18446744073709551615", "-1", queue_max, UINT64_MAX),
        VARIABLE("WEFT_TRACE_EVENTS", "16777216", "16777217", trace_events, 16777216),
        VARIABLE("WEFT_WATCHDOG_NS", "9223372036854775807", "9223372036854775808", watchdog_ns, INT64_MAX),
        VARIABLE("WEFT_EXPECT_PERCENT", "100", "101", expect_percent, 100),
        VARIABLE("WEFT_EXPECT_PERCENT", "-1", "-9223372036854775808", expect_percent, WEFT_EXPECT_NONE),
        VARIABLE("WEFT_BACKGROUND_MAX", "512", "513", background_max, 512),
        VARIABLE("WEFT_SLICE_NS", "100000000", "100000001", slice_ns, 100000000),
        VARIABLE("WEFT_SLICE_NS", "100000", "99999", slice_ns, 100000),
        VARIABLE("WEFT_SLICE_NS", "-1", "-18446744073709551615", slice_ns, WEFT_SLICE_NONE),
        VARIABLE("WEFT_JOBSERVER", "1", "2", flags, WEFT_POOL_JOBSERVER),
        VARIABLE("WEFT_JOBSERVER", "0", "on", flags, 0),
        VARIABLE("WEFT_LEASE", "1", "2", flags, WEFT_POOL_LEASE),
        VARIABLE("WEFT_LEASE", "/a/path", "a/path", flags, WEFT_POOL_LEASE),
        VARIABLE("WEFT_LEASE", "0", "on", flags, 0),
        VARIABLE("WEFT_POLICY", "deadline:1:9223372036854775807:9223372036854775807", "deadline:1:2:9223372036854775808",
                 period_ns, INT64_MAX),
#undef VARIABLE
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_config config = config_of(0);
        setenv(all[i].name, all[i].good, 1);
        if (weft_config_from_env(&config) != WEFT_OK) fail_msg("%s=%s is refused", all[i].name, all[i].good);
        assert_null(weft_config_wrong(&config));
        assert_memory_equal((char *)&config + all[i].offset, &all[i].value, sizeof(uint32_t));
        setenv(all[i].name, all[i].bad, 1);
        if (weft_config_from_env(&config) != WEFT_EINVAL) fail_msg("%s=%s is taken", all[i].name, all[i].bad);
        unsetenv(all[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_env),
        cmocka_unit_test(test_from_empty_env),
        cmocka_unit_test(test_from_env_bounds),
        cmocka_unit_test(test_from_bad_env),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
