/* The files that observation writes: what ends no program, and what several writers make of one name. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "observe/state.h"
#include "pool_help.h"

static char directory[] = "/tmp/weft-files-XXXXXX";

static void path_in(const char *name, char (*path)[96]) { snprintf(*path, sizeof *path, "%s/%s", directory, name); }

static int seen_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

static void run_seen(weft_pool *pool, unsigned count) {
    weft_group group = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < count; i++) REQUIRE(weft_submit(pool, &group, seen_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
}

/* ---- a file that may not grow -------------------------------------------------------------------------------------- */

static void limit_files(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static bool is_raised(void) {
    sigset_t pending;
    return sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ);
}

static int writes_too_much(void *top) {
    char trace[96], stats[96], other[96];
    path_in("trace", &trace), path_in("stats", &stats), path_in("other", &other);
    weft_config config = config_of(1);
    config.trace = trace;
    config.stats = stats;
    config.top = top;
    limit_files(100);
    weft_pool *pool = make_pool_with(&config); /* writes for weft top */
    run_seen(pool, 100);
    int fd = open(other, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || weft_heap_profile_start(NULL) != WEFT_OK) return 1;
    weft_free(weft_alloc(8 << 20));
    if (weft_pool_dump(pool, fd) != WEFT_EINVAL || weft_pool_stats_print(pool, fd) != WEFT_EINVAL) return 2;
    if (weft_trace_write(pool, fd) != WEFT_EINVAL || weft_trace_save(pool, trace) != WEFT_EINVAL) return 3;
    if (weft_heap_profile_write(fd, WEFT_HEAP_PROFILE_PPROF) != WEFT_EINVAL) return 4;
    if (is_raised()) return 5;
    end_pool(pool);
    return is_raised() ? 6 : close(fd);
}

/* The greatest size of a file (ulimit -f) ends no program that is observed. */
static void test_size_limit(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitized process does not fork well with threads");
    char said[512];
    int status = in_child_said(writes_too_much, directory, said, sizeof said);
    print_message("%s", said);
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "took not all of the timeline"));
    assert_non_null(strstr(said, "took not all of the counters\n"));
    assert_non_null(strstr(said, "took not all of the counters for weft top"));
}

static void on_size(int signal) { (void)signal; }

static int keeps_signal(void *argument) {
    (void)argument;
    char path[96];
    path_in("kept", &path);
    limit_files(10);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    sigset_t size;
    sigemptyset(&size);
    sigaddset(&size, SIGXFSZ);
    weft_pool *pool = make_pool(1);
    if (fd < 0 || signal(SIGXFSZ, on_size) == SIG_ERR || pthread_sigmask(SIG_BLOCK, &size, NULL) != 0) return 1;
    if (write(fd, path, 11) != 10 || write(fd, path, 1) != -1 || errno != EFBIG || !is_raised()) return 2;
    if (weft_pool_dump(pool, fd) != WEFT_EINVAL || !is_raised()) return 3; /* the program's own is still there */
    end_pool(pool);
    return 0;
}

/* A signal that the program itself has raised, and blocks, stays. */
static void test_own_signal(void **state) {
    (void)state;
    if (SANITIZED) SKIP("a sanitized process does not fork well with threads");
    assert_int_equal(in_child(keeps_signal, NULL), 0);
}

/* ---- one file, saved by several ------------------------------------------------------------------------------------ */

static const unsigned saved_tasks[] = {3000, 20};
static atomic_uint save_turn;

/* Saves once in each round; the one with little to save begins in the midst of the other. */
static void *saves(void *of) {
    char path[96];
    path_in("saved", &path);
    unsigned round = atomic_load(&save_turn);
    for (unsigned i = 0; i < 20 * round; i++) sched_yield();
    REQUIRE(weft_trace_save(of, path) == WEFT_OK);
    return NULL;
}

static void check_saved(void) {
    static char text[1 << 22];
    char path[96];
    path_in("saved", &path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, sizeof text - 1);
    assert_true(length > 0 && length < (ssize_t)sizeof text - 1 && close(fd) == 0);
    text[length] = 0;
    assert_int_equal(strlen(text), length); /* no hole, which is of zeros */
    unsigned tasks = 0;
    for (const char *at = text; (at = strstr(at, "\"cat\":\"task\"")) != NULL; at++) tasks++;
    assert_true(tasks == saved_tasks[0] || tasks == saved_tasks[1]);
    assert_memory_equal(text, "{\"traceEvents\":[", 16);
    assert_null(strstr(text + 16, "\"traceEvents\""));
    assert_string_equal(text + length - 3, "}}\n");
}

/* What is there in the end is one timeline, whole. */
static void test_saved_at_once(void **state) {
    (void)state;
    weft_pool *pools[2];
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        pools[i] = make_pool(1);
        assert_int_equal(weft_trace_start(pools[i]), WEFT_OK);
        run_seen(pools[i], saved_tasks[i]);
    }
    for (unsigned round = 0; round < 100; round++) {
        atomic_store(&save_turn, round);
        assert_int_equal(pthread_create(&thread, NULL, saves, pools[1]), 0);
        char path[96];
        path_in("saved", &path);
        assert_int_equal(weft_trace_save(pools[0], path), WEFT_OK);
        pthread_join(thread, NULL);
        check_saved();
    }
    for (int i = 0; i < 2; i++) end_pool(pools[i]);
}

/* ---- weft top's delays -------------------------------------------------------------------------------------------- */

static struct publisher publisher;

/* What the pool's next update says, as weft top would read it. */
static uint64_t published(weft_pool *pool, const char *name, bool updates) {
    char text[8192], field[64];
    char path[96];
    path_in("top", &path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    observe_of_pool(pool)->top_file = fd + 1; /* no thread of the pool publishes */
    if (updates) publish(pool, &publisher);
    observe_of_pool(pool)->top_file = 0;
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    REQUIRE(length > 0 && close(fd) == 0);
    text[length] = 0;
    snprintf(field, sizeof field, "\"%s\": ", name);
    const char *at = strstr(text, field);
    REQUIRE(at != NULL);
    return strtoull(at + strlen(field), NULL, 10);
}

/* Each task counts in one update, however many there were: the longest delay is that of all. */
static void test_published_delays(void **state) {
    (void)state;
    weft_config config = config_of(1);
    weft_pool *pool = make_pool_with(&config);
    gate stays;
    weft_group held = WEFT_GROUP_INIT, victim = WEFT_GROUP_INIT;
    publisher = (struct publisher){0};
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    gate_occupy(&stays, pool, &held);
    assert_int_equal(weft_submit(pool, &victim, seen_task, NULL, 0), WEFT_OK);
    uint64_t since = clock_ns();
    for (int i = 0; i < 20; i++) nap();
    uint64_t until = clock_ns();
    assert_int_equal(published(pool, "queued_task_count", true), 0); /* no task has ended */
    gate_open(&stays);
    assert_int_equal(weft_group_wait(pool, &held), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &victim), WEFT_OK);
    for (int i = 0; i < 20; i++) run_seen(pool, 1000);
    assert_int_equal(published(pool, "queued_task_count", true), 20002);
    assert_true(published(pool, "queued_ns_max", false) >= until - since);
    assert_int_equal(published(pool, "queued_unseen_count", false), 0);
    assert_int_equal(published(pool, "queued_task_count", true), 0);
    run_seen(pool, 3);
    assert_int_equal(published(pool, "queued_task_count", true), 3);
    assert_int_equal(weft_trace_stop(pool), WEFT_OK);
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    assert_int_equal(published(pool, "queued_task_count", true), 0);
    end_pool(pool);
}

static void test_published_unseen(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.trace_events = 64;
    weft_pool *pool = make_pool_with(&config);
    publisher = (struct publisher){0};
    assert_int_equal(weft_trace_start(pool), WEFT_OK);
    run_seen(pool, 5000);
    uint64_t tasks = published(pool, "queued_task_count", true);
    assert_in_range(tasks, 0, 128); /* of two threads; and their events are not all tasks, nor are all submissions known */
    assert_true(published(pool, "queued_unseen_count", false) >= 5000 - 128);
    end_pool(pool);
}

/* ------------------------------------------------------------------------------------------------------------------- */

static int directory_make(void **state) {
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int directory_end(void **state) {
    (void)state;
    char path[96];
    DIR *all = opendir(directory);
    for (const struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        snprintf(path, sizeof path, "%s/%.60s", directory, one->d_name);
        if (one->d_name[0] != '.') unlink(path);
    }
    if (all != NULL) closedir(all);
    return rmdir(directory);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_limit),       cmocka_unit_test(test_own_signal),
        cmocka_unit_test(test_saved_at_once),    cmocka_unit_test(test_published_delays),
        cmocka_unit_test(test_published_unseen),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_end);
}
