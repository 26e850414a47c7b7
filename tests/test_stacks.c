/* Stacks in the dump: of a task that works, one that sleeps in the kernel, one that blocks the signal; whose signal it was. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/os.h"
#include "pool_help.h"

#define WAIT_NS UINT64_C(60000000000)
#define SHORT_NS UINT64_C(50000000)

static char text[1 << 16];

static void dump_of(const weft_pool *pool) {
    FILE *file = tmpfile();
    REQUIRE(file != NULL);
    REQUIRE(weft_pool_dump(pool, fileno(file)) == WEFT_OK);
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
}

static void assert_has(const char *part) {
    if (strstr(text, part) == NULL) print_error("no \"%s\" in:\n%s", part, text);
    assert_non_null(strstr(text, part));
}

static weft_pool *pool_with(uint64_t wait_ns) {
    weft_config config = config_of(1);
    config.stack_wait_ns = wait_ns;
    return make_pool_with(&config);
}

/* Where this system cannot do it, the dump says so. */
static bool is_without(void) {
    if (os_stacks_begin() == 0) return false;
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    dump_of(pool);
    assert_has("    no stack: this C library has no backtrace");
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    printf("skipped, stacks: this C library has no backtrace\n");
    return true;
}

/* ---- tasks that are stuck ------------------------------------------------------------------------------------------- */

static atomic_bool spins, goes_on;

__attribute__((noinline)) static void spins_here(void) {
    atomic_store(&spins, true);
    while (!atomic_load(&goes_on)) {
#if defined(SANITIZED_THREAD)
        usleep(100); /* ThreadSanitizer holds signals back until a call like this */
#endif
    }
}

__attribute__((noinline)) static int calls_who_spins(void) {
    spins_here();
    return atomic_load(&spins) ? 0 : 1; /* no tail call */
}

static int spinning_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    int result = calls_who_spins();
    atomic_store(&spins, false);
    return result;
}

static int blocking_task(void *payload, weft_worker *self) {
    sigset_t profile;
    sigemptyset(&profile);
    sigaddset(&profile, SIGPROF);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &profile, NULL) == 0);
    int result = spinning_task(payload, self);
    REQUIRE(pthread_sigmask(SIG_UNBLOCK, &profile, NULL) == 0); /* what is late comes now */
    return result;
}

static void begin(weft_pool *pool, weft_group *group, weft_fn task) {
    atomic_store(&goes_on, false);
    atomic_store(&spins, false);
    *group = (weft_group)WEFT_GROUP_INIT;
    assert_int_equal(weft_submit(pool, group, task, NULL, 0), WEFT_OK);
    while (!atomic_load(&spins)) sched_yield();
}

static void finish(weft_pool *pool, weft_group *group) {
    atomic_store(&goes_on, true);
    assert_int_equal(weft_group_wait(pool, group), WEFT_OK);
}

static int nothing(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 0;
}

/* ---- cases -------------------------------------------------------------------------------------------------------- */

static void test_works(void **state) {
    (void)state;
    if (is_without()) skip();
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group;
    begin(pool, &group, spinning_task);
    for (int i = 0; i < 100; i++) {
        dump_of(pool);
        assert_has(" spins_here\n    called by calls_who_spins\n    called by spinning_task\n");
    }
    finish(pool, &group);
    do dump_of(pool);
    while (strstr(text, "0 worker: parked") == NULL);
    assert_null(strstr(text, "    at "));
    end_pool(pool);
}

static void test_sleeps(void **state) {
    (void)state;
    if (is_without()) skip();
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    for (int i = 0; i < 100; i++) {
        dump_of(pool);
        assert_has("    called by gate_task\n");
    }
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* Signals at any moment of calls that hold locks, or change what the unwinder reads: each is answered, and nothing breaks. */
static int busy_task(void *payload, weft_worker *self) {
    char text_of_number[64];
    unsigned n = 0;
    (void)payload;
    atomic_store(&spins, true);
    while (!atomic_load(&goes_on)) {
        void *block = malloc(n % 5000 + 1), *own = weft_alloc(n % 5000 + 1);
        REQUIRE(block != NULL && own != NULL);
        snprintf(text_of_number, sizeof text_of_number, "%f", (double)n++);
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 10; i++) REQUIRE(weft_submit(weft_worker_pool(self), &group, nothing, NULL, 0) == WEFT_OK);
        REQUIRE(weft_group_wait(weft_worker_pool(self), &group) == WEFT_OK);
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library != NULL) dlclose(library);
        free(block);
        weft_free(own);
#if defined(SANITIZED_THREAD)
        usleep(1);
#endif
    }
    return 0;
}

static void test_any_moment(void **state) {
    (void)state;
    if (is_without()) skip();
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group;
    begin(pool, &group, busy_task);
    for (int i = 0; i < (SANITIZED ? 400 : 2000); i++) { /* each takes ten times as long under ThreadSanitizer */
        dump_of(pool);
        assert_null(strstr(text, "no stack"));
    }
    finish(pool, &group);
    end_pool(pool);
}

static void test_does_not_answer(void **state) {
    (void)state;
    if (is_without()) skip();
    weft_pool *pool = pool_with(SHORT_NS);
    weft_group group;
    begin(pool, &group, blocking_task);
    dump_of(pool);
    assert_has("    no stack: the thread did not answer in time: it blocks SIGPROF, or got no CPU\n");
    dump_of(pool);
    assert_has("    no stack: the thread did not answer in time");
    finish(pool, &group);
    end_pool(pool);
    pool = pool_with(WAIT_NS); /* nobody is asked for ever */
    begin(pool, &group, spinning_task);
    dump_of(pool);
    assert_has(" spins_here\n");
    finish(pool, &group);
    end_pool(pool);
}

/* ---- one that is asked and has not answered: another dump, and a forked child ------------------------------------------ */

/* Whether a signal waits for a thread of the pool. */
static bool is_pending(void) {
    char path[64], line[256];
    bool is = false;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (strncmp(line, "SigPnd:", 7) == 0) is |= (strtoull(line + 7, NULL, 16) >> (SIGPROF - 1) & 1) != 0;
        if (file != NULL) fclose(file);
    }
    closedir(tasks);
    return is;
}

static void *dumping_thread(void *pool) {
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && weft_pool_dump(pool, fd) == WEFT_OK);
    close(fd);
    return NULL;
}

static int spins_in_child(void *argument) {
    (void)argument;
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group;
    begin(pool, &group, spinning_task);
    dump_of(pool);
    REQUIRE(strstr(text, " spins_here\n") != NULL);
    finish(pool, &group);
    end_pool(pool);
    return 0;
}

static int child_of(int (*run)(void *)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(run(NULL));
    return child_status(child);
}

static void test_asked_meanwhile(void **state) {
    (void)state;
    if (is_without()) skip();
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group;
    pthread_t thread;
    begin(pool, &group, blocking_task);
    assert_int_equal(pthread_create(&thread, NULL, dumping_thread, pool), 0);
    while (!is_pending()) sched_yield();
    dump_of(pool);
    assert_has("    no stack: another thread is being asked for its own\n");
#if !defined(SANITIZED_THREAD)
    if (is_emulated())
        printf("skipped, the forked child: the emulator does not fork with threads\n");
    else
        assert_int_equal(child_of(spins_in_child), 0);
#else
    printf("skipped, the forked child: ThreadSanitizer has no threads after a fork of several\n");
#endif
    finish(pool, &group); /* the task takes the signal now */
    assert_int_equal(pthread_join(thread, NULL), 0);
    end_pool(pool);
}

static void test_not_asked_for(void **state) {
    (void)state;
    weft_pool *pool = pool_with(0);
    weft_group group;
    begin(pool, &group, spinning_task);
    dump_of(pool);
    assert_has("runs spinning_task");
    assert_null(strstr(text, "    at "));
    assert_null(strstr(text, "no stack"));
    finish(pool, &group);
    end_pool(pool);
}

static atomic_uint own_signals;
static void on_own(int signal) {
    (void)signal;
    atomic_fetch_add(&own_signals, 1);
}

/* In a process whose program has the signal already: it gets its own ones, and none of the dump's. */
static int with_own_handler(void *argument) {
    (void)argument;
    struct sigaction action = {0};
    action.sa_handler = on_own;
    REQUIRE(sigaction(SIGPROF, &action, NULL) == 0);
    weft_pool *pool = pool_with(WAIT_NS);
    weft_group group;
    begin(pool, &group, spinning_task);
    dump_of(pool);
    REQUIRE(strstr(text, " spins_here\n") != NULL);
    REQUIRE(atomic_load(&own_signals) == 0);
    REQUIRE(kill(getpid(), SIGPROF) == 0);
    while (atomic_load(&own_signals) != 1) sched_yield();
    REQUIRE(raise(SIGPROF) == 0 && atomic_load(&own_signals) == 2); /* to a thread, as those of the dump */
    finish(pool, &group);
    end_pool(pool);
    return 0;
}

/* ... and where nobody had it, one that is not the dump's ends the process, as it would without, whatever flags came with that. */
static int with_no_handler(void *argument) {
    const struct sigaction none = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART};
    (void)argument;
    REQUIRE(sigaction(SIGPROF, &none, NULL) == 0);
    weft_pool *pool = pool_with(WAIT_NS);
    REQUIRE(kill(getpid(), SIGPROF) == 0);
    for (;;) sched_yield();
    end_pool(pool);
}

/* Where the limit of signals is reached they tell nothing of themselves: the thread answers; one that is late ends nobody. */
static int with_limit(void *argument) {
    (void)argument;
    struct rlimit none = {0, 0};
    REQUIRE(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    int result = spins_in_child(NULL);
    weft_pool *pool = pool_with(SHORT_NS);
    weft_group group;
    begin(pool, &group, blocking_task);
    dump_of(pool);
    REQUIRE(strstr(text, "    no stack: the thread did not answer in time") != NULL);
    finish(pool, &group);
    end_pool(pool);
    return result;
}

static int is_without_any(void *argument) {
    (void)argument;
    return os_stacks_begin() == 0 ? 0 : 1;
}

static void test_others_signals(void **state) {
    (void)state;
    if (child_of(is_without_any) != 0) SKIP("this C library has no backtrace for handlers");
    assert_int_equal(child_of(with_own_handler), 0);
    assert_int_equal(child_of(with_no_handler), 1000 + SIGPROF);
    assert_int_equal(child_of(with_limit), 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_signals), /* before this process has the signal */
        cmocka_unit_test(test_not_asked_for),   cmocka_unit_test(test_works),
        cmocka_unit_test(test_sleeps),          cmocka_unit_test(test_any_moment),
        cmocka_unit_test(test_does_not_answer), cmocka_unit_test(test_asked_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
