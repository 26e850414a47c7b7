/* test_fork_child.c: the first calls of several threads of a forked child. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "pool_help.h"

#include "os/os.h"

/* The thread that is held, in a child, when it asks for the number of forks the third time: by then the library must not be
 * about to make anything new that other threads of the child use already. */
static struct {
    atomic_uint asked;
    atomic_int is_held; /* or has left */
    atomic_int is_free;
} slow;
static __thread int is_slow;

uint64_t __real_os_fork_count(void);
uint64_t __wrap_os_fork_count(void);
uint64_t __wrap_os_fork_count(void) {
    if (is_slow && atomic_fetch_add(&slow.asked, 1) == 2) {
        atomic_store(&slow.is_held, 1);
        while (!atomic_load(&slow.is_free)) sched_yield();
    }
    return __real_os_fork_count();
}

static atomic_uint registered; /* what is to be done in a child */
void __real_os_on_fork(void (*begin)(void));
void __wrap_os_on_fork(void (*begin)(void));
void __wrap_os_on_fork(void (*begin)(void)) {
    atomic_fetch_add(&registered, 1);
    __real_os_on_fork(begin);
}

static void *create_slowly(void *pool) {
    is_slow = 1;
    *(weft_pool **)pool = make_pool(1);
    atomic_store(&slow.is_held, 1);
    is_slow = 0;
    return NULL;
}
static void *submit_once(void *pool) {
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(pool, &group, empty_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    return NULL;
}
static void in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run, argument) == 0 && pthread_join(thread, NULL) == 0);
}

/* A thread's seat goes to the next thread, for the pool is known to live still. */
static int child(void *argument) {
    (void)argument;
    weft_pool *other = NULL;
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, create_slowly, &other) == 0);
    while (!atomic_load(&slow.is_held)) sched_yield();
    weft_pool *pool = make_pool(1);
    atomic_store(&slow.is_free, 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
    in_thread(submit_once, pool);
    uint32_t threads = stats_of(pool).threads;
    for (int i = 0; i < 5; i++) in_thread(submit_once, pool);
    REQUIRE(stats_of(pool).threads == threads);
    end_pool(pool);
    end_pool(other);
    return 0;
}

static void test_two_threads_of_a_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    weft_pool *pool = make_pool(1);
    assert_true(atomic_load(&registered) > 0);
    assert_int_equal(in_child(child, NULL), 0);
    end_pool(pool);
}

static unsigned open_files(void) {
    unsigned count = 0;
    for (int fd = 3; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static size_t files_like(const char *pattern) {
    glob_t found = {0};
    glob(pattern, 0, NULL, &found);
    size_t count = found.gl_pathc;
    globfree(&found);
    return count;
}

/* What the parent's pool writes to is closed with the child's copy of the pool, and left to the parent. */
static int ends_parents_pool(void *argument) {
    weft_pool *pool = argument;
    unsigned before = open_files();
    if (weft_pool_destroy(&pool) != WEFT_EFORK) return 1;
    return before - open_files() == 4 ? 0 : 2; /* timeline, counters, weft top's and its directory */
}

static void test_files_of_parents_pool(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
    char directory[] = "/tmp/weft-fork-XXXXXX", trace[64], stats[64], top[64];
    REQUIRE(mkdtemp(directory) != NULL);
    snprintf(trace, sizeof trace, "%s/trace", directory);
    snprintf(stats, sizeof stats, "%s/stats", directory);
    weft_config config = config_of(1);
    config.trace = trace;
    config.stats = stats;
    config.top = directory;
    weft_pool *pool = make_pool_with(&config);
    snprintf(top, sizeof top, "%s/weft-*.json", directory);
    int status = in_child(ends_parents_pool, pool);
    struct stat written;
    assert_int_equal(status, 0);
    assert_true(files_like(top) == 1 && stat(trace, &written) == 0 && written.st_size == 0);
    end_pool(pool);
    assert_true(files_like(top) == 0 && stat(trace, &written) == 0 && written.st_size > 0);
    REQUIRE(unlink(trace) == 0 && unlink(stats) == 0 && rmdir(directory) == 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files_of_parents_pool),
                                       cmocka_unit_test(test_two_threads_of_a_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
