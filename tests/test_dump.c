/* A pool that hangs: its state in words from a signal handler, the watchdog, names of functions. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#include "os/os.h"
#include "pool_help.h"

/* What was written to a pipe, up to its end or the buffer's. */
static void read_all(int fd, char *text, size_t size) {
    size_t length = 0;
    for (;;) {
        ssize_t got = read(fd, text + length, size - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
    }
    text[length] = 0;
}

static void dump_of(const weft_pool *pool, char *text, size_t size) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(weft_pool_dump(pool, ends[1]) == WEFT_OK);
    close(ends[1]);
    read_all(ends[0], text, size);
    close(ends[0]);
}

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) print_error("no \"%s\" in:\n%s", part, text);
    assert_non_null(strstr(text, part));
}

/* ---- names -------------------------------------------------------------------------------------------------------- */

__attribute__((noinline)) static int a_static_function(int n) { return n * 3; }
__attribute__((noinline)) static int gr\u00f6\u00dfe(int n) { return n * 5; }

static void test_names(void **state) {
    (void)state;
    static const char *const cuts[] = {"", "g", "gr", "gr", "gr\xc3\xb6", "gr\xc3\xb6", "gr\xc3\xb6\xc3\x9f"};
    char name[64], cut[6];
    os_symbol((uintptr_t)a_static_function, name, sizeof name);
    assert_string_equal(name, "a_static_function");
    os_symbol((uintptr_t)a_static_function, cut, sizeof cut);
    assert_string_equal(cut, "a_sta");
    os_symbol((uintptr_t)gr\u00f6\u00dfe, name, sizeof name);
    assert_string_equal(name, "gr\xc3\xb6\xc3\x9f"
                              "e");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) { /* never half a character */
        os_symbol((uintptr_t)gr\u00f6\u00dfe, name, i + 1);
        assert_string_equal(name, cuts[i]);
    }
    os_symbol((uintptr_t)weft_submit, name, sizeof name);
    assert_string_equal(name, "weft_submit");
    os_symbol(0, name, sizeof name);
    assert_string_equal(name, "0x0");
    os_symbol((uintptr_t)&errno, name, sizeof name); /* memory that is not a file's */
    assert_memory_equal(name, "0x", 2);
    static const char data[] = "not a function";
    os_symbol((uintptr_t)data, name, sizeof name);
    assert_has(name, "test_dump+0x");
    errno = 42;
    os_symbol((uintptr_t)a_static_function, name, sizeof name);
    assert_int_equal(errno, 42);
}

/* ---- dump --------------------------------------------------------------------------------------------------------- */

static char text[1 << 16];

static void test_idle(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    while (strstr(text, ", 2 parked, 0 looking") == NULL) {
        nap();
        dump_of(pool, text, sizeof text);
    }
    assert_has(text, "weft pool weft: 2 workers");
    assert_has(text, "  0 worker: parked; 0 tasks run");
    assert_has(text, "  1 worker: parked; 0 tasks run");
    assert_null(strstr(text, "group"));
    end_pool(pool);
}

static void test_backlog(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.queue_max = 10;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    for (int i = 0; i < 5; i++) assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    dump_of(pool, text, sizeof text);
    assert_has(text, "queue 5 of 10");
    assert_has(text, "  0 worker: runs gate_task; 0 tasks run; thread ");
    assert_has(text, "    submitted: 5 cells of tasks not begun, of group 1");
    assert_has(text, "  group 1: 6 tasks not known to have ended, 0 waits");
    assert_int_equal(weft_group_cancel(pool, &group), WEFT_OK);
    dump_of(pool, text, sizeof text);
    assert_has(text, ", cancelled");
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    end_pool(pool);
}

static void test_priorities(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group groups[3] = {WEFT_GROUP_INIT, WEFT_GROUP_INIT, WEFT_GROUP_INIT};
    gate g;
    gate_occupy(&g, pool, &groups[0]);
    groups[1].flags = WEFT_GROUP_URGENT;
    groups[2].flags = WEFT_GROUP_BACKGROUND;
    for (unsigned i = 1; i < 3; i++) assert_int_equal(weft_submit(pool, &groups[i], empty_task, NULL, 0), WEFT_OK);
    dump_of(pool, text, sizeof text);
    assert_has(text, "  group 1: 1 tasks not known to have ended, 0 waits\n");
    assert_has(text, "  group 2: 1 tasks not known to have ended, 0 waits, urgent\n");
    assert_has(text, "  group 3: 1 tasks not known to have ended, 0 waits, in the background\n");
    assert_int_equal(weft_group_boost(pool, &groups[2]), WEFT_OK);
    dump_of(pool, text, sizeof text);
    assert_has(text, "  group 3: 1 tasks not known to have ended, 0 waits, urgent\n");
    gate_open(&g);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(weft_group_wait(pool, &groups[i]), WEFT_OK);
    end_pool(pool);
}

static weft_pool *dumped;
static int dump_to;
static atomic_uint dumps;

static void on_signal(int signal) {
    (void)signal;
    REQUIRE(weft_pool_dump(dumped, dump_to) == WEFT_OK);
    atomic_fetch_add(&dumps, 1);
}

static void handle(int signal, bool on) {
    struct sigaction action = {0};
    action.sa_handler = on ? on_signal : SIG_DFL;
    action.sa_flags = SA_RESTART;
    REQUIRE(sigaction(signal, &action, NULL) == 0);
}

static int waits_inside(void *payload, weft_worker *self) {
    gate *g = *(gate **)payload;
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(weft_worker_pool(self), &group, gate_task, &g, sizeof g) == WEFT_OK);
    return weft_group_wait_until(weft_worker_pool(self), &group, WEFT_HELP_NONE, 0);
}

/* A process whose pool hangs: one task waits for another, which never ends, and the main thread for both. */
static int hang(void *argument) {
    static gate g, *gate_at = &g;
    dump_to = *(int *)argument;
    weft_config config = config_of(2);
    config.watchdog_ns = 3600000000000;
    dumped = make_pool_with(&config);
    gate_init(&g);
    handle(SIGUSR1, true);
    weft_group group = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(dumped, &group, waits_inside, &gate_at, sizeof gate_at) == WEFT_OK);
    await(&g.entered);
    REQUIRE(write(dump_to, "stuck\n", 6) == 6);
    return weft_group_wait_until(dumped, &group, WEFT_HELP_NONE, 0);
}

enum { SEES_INNER = 1, SEES_OUTER = 2, SEES_WAITER = 4, SEES_GROUP = 8, SEES_ALL = 15 };

static bool both(const char *line, const char *one, const char *other) {
    return strstr(line, one) != NULL && strstr(line, other) != NULL;
}

/* Reads one dump. */
static int what_it_sees(FILE *from) {
    static char line[512];
    int sees = 0;
    do {
        REQUIRE(fgets(line, sizeof line, from) != NULL);
        if (strstr(line, ": runs gate_task for ") != NULL) sees |= SEES_INNER;
        if (both(line, "worker: runs waits_inside for ", "; sleeps in a wait for group 2;")) sees |= SEES_OUTER;
        if (both(line, " thread: outside of tasks;", "; sleeps in a wait for group 1;")) sees |= SEES_WAITER;
        if (both(line, "  group 2: 1 tasks not known to have ended, ", "below group 1")) sees |= SEES_GROUP;
    } while (strncmp(line, "  group 2", 9) != 0);
    return sees;
}

static void test_signal_in_a_hang(void **state) {
    (void)state;
    int ends[2];
    char line[16];
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer holds signals back while a thread sleeps in the kernel");
#endif
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(hang(&ends[1]));
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    assert_non_null(fgets(line, sizeof line, from));
    assert_string_equal(line, "stuck\n");
    do { /* until they have fallen asleep */
        nap();
        assert_int_equal(kill(child, SIGUSR1), 0);
    } while (what_it_sees(from) != SEES_ALL);
    kill(child, SIGKILL);
    assert_int_equal(child_status(child), 1000 + SIGKILL);
    fclose(from);
}

/* A forked child has none of the pool's threads: its dump does not say that they run. */
static void test_in_a_child(void **state) {
    (void)state;
    gate closed;
    gate *payload = &closed;
    weft_group all = WEFT_GROUP_INIT;
    weft_pool *pool = make_pool(1);
    gate_init(&closed);
    REQUIRE(weft_submit(pool, &all, gate_task, &payload, sizeof payload) == WEFT_OK);
    await(&closed.entered);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(weft_pool_dump(pool, ends[1]) == WEFT_OK ? 0 : 1);
    close(ends[1]);
    char told[4096];
    read_all(ends[0], told, sizeof told);
    close(ends[0]);
    assert_int_equal(child_status(child), 0);
    assert_has(told, "has none of these threads");
    assert_has(told, "ran, when this process was forked, gate_task");
    assert_null(strstr(told, ": runs "));
    sem_post(&closed.opened);
    REQUIRE(weft_group_wait(pool, &all) == WEFT_OK);
    end_pool(pool);
}

static void test_signals_at_work(void **state) {
    (void)state;
    dumped = make_pool(3);
    dump_to = open("/dev/null", O_WRONLY);
    atomic_store(&dumps, 0);
    handle(SIGALRM, true);
    const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t tasks = 0;
    while (atomic_load(&dumps) < 50) {
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 100; i++) REQUIRE(weft_submit(dumped, &group, empty_task, NULL, 0) == WEFT_OK);
        REQUIRE(weft_group_wait(dumped, &group) == WEFT_OK);
        tasks += 100;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    handle(SIGALRM, false);
    assert_int_equal(stats_of(dumped).task_run_count, tasks);
    end_pool(dumped);
    close(dump_to);
}

/* ---- watchdog ----------------------------------------------------------------------------------------------------- */

struct found {
    sem_t event;
    atomic_uint calls;
    uint64_t ns[3];
    char name[3][64];
    _Atomic uint64_t backlog; /* at the last call */
};

static void note_stuck(const weft_stuck *stuck, void *context) {
    struct found *found = context;
    unsigned call = atomic_fetch_add(&found->calls, 1);
    REQUIRE(stuck->worker == 0 && stuck->pool != NULL);
    if (call < 3) {
        REQUIRE(stuck->function == (uintptr_t)gate_task);
        found->ns[call] = stuck->ns;
        snprintf(found->name[call], sizeof found->name[call], "%s", stuck->name);
    }
    atomic_store(&found->backlog, stuck->backlog);
    sem_post(&found->event);
}

/* The only worker is stuck, and nobody waits: the watchdog alone can see it. */
static void test_watchdog(void **state) {
    (void)state;
    static struct found found;
    sem_init(&found.event, 0, 0);
    weft_config config = config_of(1);
    config.watchdog_ns = 2000000;
    config.watchdog = note_stuck;
    config.context = &found;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    assert_int_equal(weft_submit(pool, &group, empty_task, NULL, 0), WEFT_OK);
    for (int i = 0; i < 3 || atomic_load(&found.backlog) == 0; i++) await(&found.event); /* who is slow submits late */
    assert_int_equal(found.backlog, 1);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    assert_true(found.ns[0] >= 2000000 && found.ns[1] >= 4000000 && found.ns[2] >= 8000000);
    for (int i = 0; i < 3; i++) assert_string_equal(found.name[i], "gate_task");
}

static void test_watchdog_line(void **state) {
    (void)state;
    int ends[2], saved = dup(2);
    assert_int_equal(pipe(ends), 0);
    weft_config config;
    assert_int_equal(weft_config_init(&config), WEFT_OK);
    setenv("WEFT_WATCHDOG_NS", "1000000", 1);
    assert_int_equal(weft_config_from_env(&config), WEFT_OK);
    unsetenv("WEFT_WATCHDOG_NS");
    config.workers = 1;
    weft_pool *pool = make_pool_with(&config);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    gate_occupy(&g, pool, &group);
    fflush(stderr);
    dup2(ends[1], 2);
    char line[256] = "";
    for (size_t at = 0; strchr(line, '\n') == NULL && at + 1 < sizeof line; at++) REQUIRE(read(ends[0], line + at, 1) == 1);
    dup2(saved, 2);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
    close(saved);
    close(ends[0]);
    close(ends[1]);
    assert_has(line, "weft: worker 0 has run gate_task for ");
}

/* ---- threads that wait and help ----------------------------------------------------------------------------------- */

static struct {
    weft_pool *pool;
    gate gate;
    _Atomic pid_t thread;
    enum weft_help help;
} helper;

static int outer_task(void *payload, weft_worker *self) {
    (void)payload;
    gate *at = &helper.gate;
    weft_group inner = WEFT_GROUP_INIT;
    REQUIRE(weft_submit(weft_worker_pool(self), &inner, gate_task, &at, sizeof at) == WEFT_OK);
    return weft_group_wait(weft_worker_pool(self), &inner);
}

/* Its task is one that no other thread can run: the worker is held. */
static void *wait_and_help(void *fn) {
    gate *at = &helper.gate;
    weft_group group = WEFT_GROUP_INIT;
    atomic_store(&helper.thread, thread_id());
    REQUIRE(weft_submit(helper.pool, &group, *(weft_fn *)fn, &at, sizeof at) == WEFT_OK);
    REQUIRE(weft_group_wait_until(helper.pool, &group, helper.help, 0) == WEFT_OK);
    return NULL;
}

static void help_and_dump(weft_fn fn, const char *is_shown) {
    char line[160];
    gate held;
    pthread_t thread;
    weft_group group = WEFT_GROUP_INIT;
    weft_config config = config_of(1);
    helper.pool = make_pool_with(&config);
    gate_occupy(&held, helper.pool, &group);
    gate_init(&helper.gate);
    REQUIRE(pthread_create(&thread, NULL, wait_and_help, &fn) == 0);
    await(&helper.gate.entered);
    dump_of(helper.pool, text, sizeof text);
    gate_open(&helper.gate);
    pthread_join(thread, NULL);
    snprintf(line, sizeof line, "thread: runs gate_task; %s; 0 tasks run; thread %d\n", is_shown,
             (int)atomic_load(&helper.thread));
    assert_has(text, line);
    assert_has(text, "  0 worker: runs gate_task; 0 tasks run; thread ");
    dump_of(helper.pool, text, sizeof text);
    assert_null(strstr(text, "; waits for group"));
    gate_open(&held);
    REQUIRE(weft_group_wait(helper.pool, &group) == WEFT_OK);
    end_pool(helper.pool);
}

static void test_helper(void **state) {
    (void)state;
    helper.help = WEFT_HELP_BELOW;
    help_and_dump(gate_task, "waits for group 2, helps");
    help_and_dump(outer_task, "waits for group 3, helps"); /* the innermost */
}

/* A thread that waits and does not help is told, whether it sleeps already or not. */
static void test_waiter(void **state) {
    (void)state;
    gate held;
    pthread_t thread;
    weft_fn fn = empty_task;
    weft_group group = WEFT_GROUP_INIT;
    weft_config config = config_of(1);
    helper.help = WEFT_HELP_NONE;
    helper.pool = make_pool_with(&config);
    gate_occupy(&held, helper.pool, &group);
    REQUIRE(pthread_create(&thread, NULL, wait_and_help, &fn) == 0);
    do dump_of(helper.pool, text, sizeof text);
    while (strstr(text, "thread: outside of tasks; waits for group 2; 0 tasks") == NULL &&
           strstr(text, "thread: outside of tasks; sleeps in a wait for group 2; 0 tasks") == NULL);
    gate_open(&held);
    pthread_join(thread, NULL);
    REQUIRE(weft_group_wait(helper.pool, &group) == WEFT_OK);
    end_pool(helper.pool);
}

static void test_bad_arguments(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    assert_int_equal(weft_pool_dump(NULL, 1), WEFT_EINVAL);
    assert_int_equal(weft_pool_dump(pool, -1), WEFT_EINVAL);
    assert_int_equal(weft_pool_dump(pool, 1000000), WEFT_EINVAL);
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) assert_int_equal(weft_pool_dump(pool, full), WEFT_EINVAL);
    if (full >= 0) close(full);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_signal_in_a_hang),
        cmocka_unit_test(test_in_a_child),
        cmocka_unit_test(test_signals_at_work),
        cmocka_unit_test(test_watchdog),
        cmocka_unit_test(test_watchdog_line),
        cmocka_unit_test(test_helper),
        cmocka_unit_test(test_waiter),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
