/* test_misuse.c: what a caller gets wrong returns its error, and harms nothing. (Destroying from a task, submitting during
 * destroy and using a parent's pool are in test_life.c, unpaired blocking sections in test_work.c.) */
#define _GNU_SOURCE
#include "pool_help.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>

/* The pool still works. */
static void check_alive(weft_pool *pool) {
    atomic_uint counter = 0;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 100; i++) assert_int_equal(submit_count(pool, &group, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 100);
}

/* ---- NULL --------------------------------------------------------------------------------------------------------- */

static void test_null_pool(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT, before = group;
    weft_pool *none = NULL;
    weft_stats stats = {.struct_size = sizeof stats};
    weft_config config = config_of(1);
    assert_int_equal(weft_pool_create(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_create(NULL, &config), WEFT_EINVAL);
    assert_int_equal(weft_pool_destroy(NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_destroy(&none), WEFT_EINVAL);
    assert_int_equal(weft_pool_abort(NULL, NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_abort(&none, NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_submit(NULL, NULL, empty_task, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit(NULL, &group, empty_task, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_group_wait(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_group_wait(NULL, &group), WEFT_EINVAL);
    assert_int_equal(weft_group_wait_until(NULL, &group, WEFT_HELP_BELOW, 1), WEFT_EINVAL);
    assert_int_equal(weft_group_cancel(NULL, &group), WEFT_EINVAL);
    assert_int_equal(weft_group_cancel(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_config(NULL, &config), WEFT_EINVAL);
    assert_int_equal(weft_pool_stats(NULL, &stats), WEFT_EINVAL);
    assert_int_equal(weft_pool_workers(NULL), 0);
    assert_memory_equal(&group, &before, sizeof group);
}

static void test_null_others(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    char text[8];
    assert_int_equal(weft_submit(pool, &group, NULL, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit(pool, NULL, NULL, "x", 1), WEFT_EINVAL);
    /* also where the task before has gone to the same group */
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_submit(pool, &group, NULL, NULL, 0), WEFT_EINVAL);
    assert_int_equal(weft_submit(pool, &group, NULL, "x", 1), WEFT_EINVAL);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(weft_pool_config(pool, NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_stats(pool, NULL), WEFT_EINVAL);
    assert_int_equal(weft_config_init(NULL), WEFT_EINVAL);
    assert_int_equal(weft_config_from_env(NULL), WEFT_EINVAL);
    assert_int_equal(weft_config_format(NULL, text, sizeof text), WEFT_EINVAL);
    assert_int_equal(weft_config_format(NULL, NULL, 0), WEFT_EINVAL);
    const weft_config config = config_of(1);
    assert_int_equal(weft_config_format(&config, NULL, 1), WEFT_EINVAL);
    check_alive(pool);
    end_pool(pool);
}

static void test_null_worker(void **state) {
    (void)state;
    assert_int_equal(weft_block_begin(NULL), WEFT_EINVAL);
    assert_int_equal(weft_block_end(NULL), WEFT_EINVAL);
    assert_int_equal(weft_worker_cancelled(NULL), 0);
    assert_null(weft_worker_pool(NULL));
    assert_null(weft_worker_data(NULL));
    assert_int_equal(weft_worker_index(NULL), 0);
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

static void test_payload_too_large(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    char byte = 1;
    static const size_t sizes[] = {WEFT_PAYLOAD_MAX + 1, SIZE_MAX,        SIZE_MAX - 16,
                                   SIZE_MAX / 2,         (size_t)1 << 32, ((size_t)1 << 32) + 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(weft_submit(pool, &group, empty_task, &byte, sizes[i]), WEFT_EINVAL);
        assert_int_equal(weft_submit(pool, NULL, empty_task, &byte, sizes[i]), WEFT_EINVAL);
    }
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    assert_int_equal(stats_of(pool).task_run_count, 0);
    check_alive(pool);
    end_pool(pool);
}

static void test_help_out_of_range(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    static const int helps[] = {3, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof helps / sizeof helps[0]; i++)
        assert_int_equal(weft_group_wait_until(pool, &group, (enum weft_help)helps[i], 0), WEFT_EINVAL);
    check_alive(pool);
    end_pool(pool);
}

static void test_stats_size(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = 0;
    assert_int_equal(weft_pool_stats(pool, &stats), WEFT_EINVAL);
    assert_int_equal(stats.task_run_count, 0x5a5a5a5a5a5a5a5a);
    end_pool(pool);
}

/* ---- configurations ----------------------------------------------------------------------------------------------- */

static void refuse(const weft_config *config, const char *field, const char *what) {
    int local = 0;
    weft_pool *pool = (weft_pool *)&local; /* anything but NULL */
    int error = weft_pool_create(&pool, config);
    if (error != WEFT_EINVAL) fail_msg("%s: %d", what, error);
    assert_null(pool);
    assert_string_equal(weft_config_wrong(config), field);
}

#define REFUSE(field, value)                                                                                                \
    do {                                                                                                                    \
        weft_config config = config_of(2);                                                                                  \
        config.field = (value);                                                                                             \
        refuse(&config, #field, #field " = " #value);                                                                       \
    } while (0)

static void test_config_refused(void **state) {
    (void)state;
    REFUSE(struct_size, 0);
    REFUSE(struct_size, 1);
    REFUSE(struct_size, sizeof config + 1);
    REFUSE(struct_size, SIZE_MAX);
    REFUSE(workers, WEFT_WORKERS_MAX + 1);
    REFUSE(workers, UINT32_MAX);
    REFUSE(spares, WEFT_WORKERS_MAX + 1);
    REFUSE(spares, UINT32_MAX);
    REFUSE(cpus, "");
    REFUSE(cpus, "x");
    REFUSE(cpus, "3-1");
    REFUSE(cpus, "0,");
    REFUSE(cpus, "99999999999999999999");
    REFUSE(stack_size, 1);
    REFUSE(stack_size, 16383);
    REFUSE(spin_ns, -2);
    REFUSE(spin_ns, INT64_MIN);
    REFUSE(spin_ns, INT64_MAX);
    REFUSE(flags, WEFT_POOL_LEASE << 1);
    REFUSE(flags, UINT32_MAX);
    REFUSE(expect_percent, 101);
    REFUSE(expect_percent, -2);
    REFUSE(full, 3);
    REFUSE(full, UINT32_MAX);
}

/* A configuration of another version is larger; what is beyond ours must not be believed. */
static void test_config_zero(void **state) {
    (void)state;
    weft_config config;
    memset(&config, 0, sizeof config);
    refuse(&config, "struct_size", "struct_size 0");
    config.struct_size = sizeof config; /* "Set struct_size, or start from weft_config_init" */
    weft_pool *pool = make_pool_with(&config);
    assert_int_equal(weft_pool_workers(pool), weft_cpu_count());
    check_alive(pool);
    end_pool(pool);
}

/* In range, and yet more than a machine gives: an error that leaves nothing behind. */
static void test_config_absurd(void **state) {
    (void)state;
    weft_pool *pool = NULL;
    weft_config config = config_of(2);
    config.stack_size = SIZE_MAX / 2;
    int error = weft_pool_create(&pool, &config);
    assert_true(error == WEFT_EINVAL || error == WEFT_EAGAIN || error == WEFT_ENOMEM);
    assert_null(pool);
    config = config_of(2);
    config.cpus = "1023"; /* a list, if of a CPU that is hardly there */
    error = weft_pool_create(&pool, &config);
    if (error == WEFT_OK) {
        end_pool(pool);
        SKIP("this machine has CPU 1023");
    }
    assert_int_equal(error, WEFT_EINVAL);
    assert_null(pool);
}

/* What lies beyond an older caller's configuration is not looked at. */
static void test_format_of_an_older_caller(void **state) {
    (void)state;
    weft_config config;
    char text[1024];
    for (size_t size = 0; size < sizeof config; size++) {
        const weft_config whole = config_of(2);
        memset(&config, 0xff, sizeof config);
        memcpy(&config, &whole, size);
        config.struct_size = size;
        int length = weft_config_format(&config, text, sizeof text);
        if (size == 0 || size % sizeof size != 0) /* it would end inside a field */
            assert_int_equal(length, WEFT_EINVAL);
        else
            assert_in_range(length, 1, sizeof text);
    }
}

/* A newer caller's structure that the library fills: what it has beyond ours becomes zero, and nothing after it is touched. */
#define CHECK_FILLED(type, call)                                                                                            \
    do {                                                                                                                    \
        struct {                                                                                                            \
            type given;                                                                                                     \
            unsigned char beyond[64], after[64];                                                                            \
        } newer;                                                                                                            \
        memset(&newer, 0x5a, sizeof newer);                                                                                 \
        newer.given.struct_size = sizeof newer - sizeof newer.after;                                                        \
        assert_int_equal(call, WEFT_OK);                                                                                    \
        assert_int_equal(newer.given.struct_size, sizeof newer - sizeof newer.after);                                       \
        for (size_t i = 0; i < sizeof newer.beyond; i++) {                                                                  \
            assert_int_equal(newer.beyond[i], 0);                                                                           \
            assert_int_equal(newer.after[i], 0x5a);                                                                         \
        }                                                                                                                   \
        newer.given.struct_size = sizeof newer.given + 4; /* inside a field */                                              \
        assert_int_equal(call, WEFT_EINVAL);                                                                                \
        newer.given.struct_size = 4104; /* none is so large */                                                              \
        assert_int_equal(call, WEFT_EINVAL);                                                                                \
    } while (0)

static void test_filled_for_newer(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    size_t block_size;
    CHECK_FILLED(weft_config, weft_pool_config(pool, &newer.given));
    CHECK_FILLED(weft_real_time, weft_pool_real_time(pool, &newer.given));
    CHECK_FILLED(weft_stats, weft_pool_stats(pool, &newer.given));
    CHECK_FILLED(weft_worker_counts, weft_worker_stats(pool, 0, &newer.given));
    CHECK_FILLED(weft_wake_costs, weft_pool_wake_costs(pool, &newer.given));
    CHECK_FILLED(weft_heap_counts, weft_heap_stats(&newer.given));
    CHECK_FILLED(weft_heap_counts, weft_heap_class_stats(0, &block_size, &newer.given));
    end_pool(pool);
}

/* A newer caller's configuration is taken while what it has beyond ours is zero; one that ends inside a field is no
 * version's, and half a pointer is not believed. */
static void test_other_versions(void **state) {
    (void)state;
    struct {
        weft_config config;
        unsigned char beyond[64];
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.config = config_of(1);
    newer.config.struct_size = sizeof newer;
    weft_pool *pool = make_pool_with(&newer.config);
    check_alive(pool);
    end_pool(pool);
    assert_int_equal(weft_config_from_env(&newer.config), WEFT_OK);
    assert_null(weft_config_wrong(&newer.config));
    newer.beyond[63] = 1;
    refuse(&newer.config, "struct_size", "something beyond");
    assert_int_equal(weft_config_from_env(&newer.config), WEFT_EINVAL);
    char text[1024];
    assert_int_equal(weft_config_format(&newer.config, text, sizeof text), WEFT_EINVAL);
    for (size_t size = 0; size < sizeof(weft_config); size++) {
        weft_config cut;
        memset(&cut, 0xff, sizeof cut);
        weft_config whole = config_of(1);
        whole.name = "a name";
        memcpy(&cut, &whole, size);
        cut.struct_size = size;
        if (size % 8 != 0 || size == 0) refuse(&cut, "struct_size", "cut");
    }
    for (size_t size = 1; size < 64; size += size % 8 == 7 ? 2 : 1) {
        weft_stats stats = {.struct_size = size};
        weft_worker_counts counts = {.struct_size = size};
        weft_heap_counts heap = {.struct_size = size};
        weft_heap_config heap_config = {.struct_size = size};
        weft_real_time outcome = {.struct_size = size};
        weft_wake_costs costs = {.struct_size = size};
        pool = make_pool(1);
        assert_int_equal(weft_pool_stats(pool, &stats), WEFT_EINVAL);
        assert_int_equal(weft_worker_stats(pool, 0, &counts), WEFT_EINVAL);
        assert_int_equal(weft_heap_stats(&heap), WEFT_EINVAL);
        assert_int_equal(weft_heap_configure(&heap_config), WEFT_EINVAL);
        assert_int_equal(weft_pool_real_time(pool, &outcome), WEFT_EINVAL);
        assert_int_equal(weft_pool_wake_costs(pool, &costs), WEFT_EINVAL);
        end_pool(pool);
    }
    struct {
        weft_heap_config config;
        uint64_t beyond;
    } heap = {{.struct_size = sizeof heap}, 0};
    assert_int_equal(weft_heap_configure(&heap.config), WEFT_OK);
    heap.beyond = 1;
    assert_int_equal(weft_heap_configure(&heap.config), WEFT_EINVAL);
}

/* A list of CPUs is kept whole, however long. */
static void test_long_list(void **state) {
    (void)state;
    enum { LENGTH = 100001 };
    char *list = malloc(LENGTH + 1);
    assert_non_null(list);
    for (size_t i = 0; i < LENGTH; i++) list[i] = i % 2 == 0 ? '0' : ',';
    list[LENGTH] = 0;
    weft_config config = config_of(1), kept = config_of(0);
    config.cpus = list;
    weft_pool *pool = NULL;
    int error = weft_pool_create(&pool, &config);
    if (error == WEFT_EINVAL) SKIP("CPU 0 is not to be had");
    assert_int_equal(error, WEFT_OK);
    assert_int_equal(weft_pool_config(pool, &kept), WEFT_OK);
    assert_string_equal(kept.cpus, list);
    free(list);
    check_alive(pool);
    end_pool(pool);
}

/* ---- the environment ---------------------------------------------------------------------------------------------- */

/* Whatever weft_pool_create would refuse is named. */
static void refuse_variable(const char *name, const char *value) {
    weft_config config = config_of(0);
    weft_pool *pool = NULL;
    REQUIRE(setenv(name, value, 1) == 0);
    const char *wrong = weft_config_wrong(NULL);
    if (wrong == NULL || strcmp(wrong, name) != 0) fail_msg("%s=%s: %s", name, value, wrong == NULL ? "nothing" : wrong);
    assert_int_equal(weft_config_from_env(&config), WEFT_EINVAL);
    assert_int_equal(weft_pool_default(&pool), WEFT_EINVAL);
    assert_null(pool);
    unsetenv(name);
}

static void test_environment_refused(void **state) {
    (void)state;
    refuse_variable("WEFT_STACK_SIZE", "1");
    refuse_variable("WEFT_STACK_SIZE", "16383");
    refuse_variable("WEFT_STACK_SIZE", "-1");
    refuse_variable("WEFT_WORKERS", "513");
    REQUIRE(setenv("WEFT_CPUS", "0", 1) == 0);
    refuse_variable("WEFT_POLICY", "deadline:100000:200000:300000");
    unsetenv("WEFT_CPUS");
    REQUIRE(setenv("WEFT_STACK_SIZE", "0", 1) == 0);
    assert_null(weft_config_wrong(NULL));
    unsetenv("WEFT_STACK_SIZE");
}

/* Files that take nothing. */
static int observed_to_full(void *argument) {
    (void)argument;
    weft_config config = config_of(1);
    config.stats = config.trace = "/dev/full";
    end_pool(make_pool_with(&config));
    return 0;
}
static void test_files_full(void **state) {
    (void)state;
    char said[256];
    if (access("/dev/full", W_OK) != 0) SKIP("there is no /dev/full");
    assert_int_equal(in_child_said(observed_to_full, NULL, said, sizeof said), 0);
    assert_string_equal(said, "weft: /dev/full took not all of the timeline\n"
                              "weft: /dev/full took not all of the counters\n");
}

enum { NOT_SECURE = 77 };

/* What the process is that test_set_user_id starts. */
static int secure_main(void) {
    weft_config config = config_of(3);
    if (getauxval(AT_SECURE) == 0) return NOT_SECURE;
    return weft_config_from_env(&config) == WEFT_OK && config.workers == 3 && config.trace == NULL ? 0 : 1;
}

/* A program that runs with other rights than its caller's does not write where the caller's environment says. */
static void test_set_user_id(void **state) {
    (void)state;
    char path[] = "/tmp/weft-test-XXXXXX";
    static char bytes[65536];
    if (geteuid() != 0) SKIP("only root can make a set-user-ID program for another");
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = mkostemp(path, O_CLOEXEC);
    REQUIRE(from >= 0 && to >= 0);
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;) REQUIRE(write(to, bytes, (size_t)got) == got);
    REQUIRE(fchmod(to, 04755) == 0);
    close(from), close(to);
    pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {path, "--secure", NULL}, *const environment[] = {"WEFT_WORKERS=1", "WEFT_TRACE=x", NULL};
        if (setresuid(65534, 65534, 65534) == 0) execve(path, arguments, environment);
        _exit(NOT_SECURE);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    unlink(path);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_SECURE) SKIP("set-user-ID programs are not allowed in /tmp");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_config_extremes(void **state) {
    (void)state;
    static const int64_t spins[] = {1, 1000000000, WEFT_SPIN_NONE};
    for (size_t i = 0; i < sizeof spins / sizeof spins[0]; i++) {
        weft_config config = config_of(2);
        config.spin_ns = spins[i];
        config.queue_max = i == 0 ? 1 : UINT64_MAX;
        config.full = (uint32_t)i;
        config.spares = WEFT_WORKERS_MAX;
        weft_pool *pool = make_pool_with(&config);
        if (i == 0)
            check_alive(pool);
        else
            for (int k = 0; k < 100; k++) assert_int_equal(weft_submit(pool, NULL, empty_task, NULL, 0), WEFT_OK);
        end_pool(pool);
    }
}

static void test_most_workers(void **state) {
    (void)state;
    weft_config config = config_of(WEFT_WORKERS_MAX);
    config.stack_size = 16384;
    weft_pool *pool = NULL;
    int error = weft_pool_create(&pool, &config);
    if (error == WEFT_EAGAIN || error == WEFT_ENOMEM) SKIP("the system has no room for that many threads");
    assert_int_equal(error, WEFT_OK);
    assert_true(weft_pool_workers(pool) >= 1 && weft_pool_workers(pool) <= WEFT_WORKERS_MAX);
    check_alive(pool);
    end_pool(pool);
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

static void test_group_flags_unknown(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    static const uint32_t flags[] = {16, 17, 0x80000000u, UINT32_MAX, WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        weft_group group = WEFT_GROUP_INIT;
        group.flags = flags[i];
        assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_EINVAL);
    }
    weft_group group = WEFT_GROUP_INIT;
    group.zero = 1;
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_EINVAL);
    check_alive(pool);
    end_pool(pool);
}

/* A group that was never initialised. Whatever it holds, the call returns and the pool lives on. */
static void test_group_of_garbage(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    uint64_t id = 0x9e3779b97f4a7c15;
    for (int round = 0; round < 2000; round++) {
        weft_group group = {.id = round < 64 ? (uint64_t)1 << round : id};
        id = id * 6364136223846793005u + 1442695040888963407u;
        weft_group_wait_until(pool, &group, WEFT_HELP_BELOW, 1);
        weft_group_cancel(pool, &group);
        weft_submit(pool, &group, empty_task, NULL, 0);
        weft_group_wait_until(pool, &group, WEFT_HELP_BELOW, 1);
    }
    assert_int_equal(weft_group_wait(pool, NULL), WEFT_OK);
    check_alive(pool);
    end_pool(pool);
}

/* A group that was used with one pool comes to another before it was waited for, or after. */
static void test_group_of_another_pool(void **state) {
    (void)state;
    weft_pool *first = make_pool(1), *second = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    atomic_uint counter = 0;
    assert_int_equal(submit_count(first, &group, &counter), WEFT_OK);
    assert_int_equal(weft_group_wait(first, &group), WEFT_OK);
    assert_int_equal(submit_count(second, &group, &counter), WEFT_OK); /* after a wait it is free */
    assert_int_equal(weft_group_wait(second, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 2);
    assert_int_equal(submit_count(first, &group, &counter), WEFT_OK);
    weft_group copy = group;
    weft_group_wait_until(second, &copy, WEFT_HELP_BELOW, 1);
    assert_int_equal(weft_group_wait(first, &group), WEFT_OK);
    assert_int_equal(atomic_load(&counter), 3);
    check_alive(first);
    check_alive(second);
    end_pool(first);
    end_pool(second);
}

/* ---- double destroy ----------------------------------------------------------------------------------------------- */

static void test_double_destroy(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
    assert_null(pool);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_EINVAL);
    assert_int_equal(weft_pool_abort(&pool, NULL, NULL), WEFT_EINVAL);
    pool = make_pool(2);
    assert_int_equal(weft_pool_abort(&pool, NULL, NULL), WEFT_OK);
    assert_null(pool);
    assert_int_equal(weft_pool_abort(&pool, NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_EINVAL);
    assert_int_equal(weft_submit(pool, NULL, empty_task, NULL, 0), WEFT_EINVAL);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--secure") == 0) return secure_main();
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_pool),         cmocka_unit_test(test_null_others),
        cmocka_unit_test(test_null_worker),       cmocka_unit_test(test_payload_too_large),
        cmocka_unit_test(test_help_out_of_range), cmocka_unit_test(test_stats_size),
        cmocka_unit_test(test_config_refused),    cmocka_unit_test(test_config_zero),
        cmocka_unit_test(test_config_absurd),     cmocka_unit_test(test_config_extremes),
        cmocka_unit_test(test_most_workers),      cmocka_unit_test(test_group_flags_unknown),
        cmocka_unit_test(test_group_of_garbage),  cmocka_unit_test(test_group_of_another_pool),
        cmocka_unit_test(test_double_destroy),    cmocka_unit_test(test_format_of_an_older_caller),
        cmocka_unit_test(test_filled_for_newer),  cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_long_list),         cmocka_unit_test(test_environment_refused),
        cmocka_unit_test(test_files_full),        cmocka_unit_test(test_set_user_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
