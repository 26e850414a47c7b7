/* test_os.c: threads, sleeping and time as os.h promises them. Memory: test_os_memory.c; fences and identity: test_fence.c. */
#define _GNU_SOURCE
#include "os_help.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- yielding ----------------------------------------------------------------------------------------------------- */

static unsigned yields;
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    yields++;
    return __real_sched_yield();
}
enum { POLICY_OWN = -2, POLICY_REFUSED, POLICY_DEADLINE = 6 };
static int policy = POLICY_OWN; /* what the system is to say of the calling thread's */
int __real_sched_getscheduler(pid_t id);
int __wrap_sched_getscheduler(pid_t id);
int __wrap_sched_getscheduler(pid_t id) { return policy == POLICY_OWN ? __real_sched_getscheduler(id) : policy; }

/* One turn in 64 sleeps. */
static void test_yields(void **state) {
    (void)state;
    yields = 0;
    for (int i = 0; i < 4 * 64; i++) os_yield();
    assert_int_equal(yields, 4 * 63);
}

static unsigned yields_under(int told) {
    yields = 0;
    policy = told;
    os_give_way();
    policy = POLICY_OWN;
    return yields;
}

/* sched_yield would give the rest of a deadline's period away. Where the system does not tell, there is none. */
static void test_keeps_its_period(void **state) {
    (void)state;
    assert_int_equal(yields_under(SCHED_OTHER), 1);
    assert_int_equal(yields_under(SCHED_FIFO | SCHED_RESET_ON_FORK), 1);
    assert_int_equal(yields_under(POLICY_REFUSED), 1);
    assert_int_equal(yields_under(POLICY_DEADLINE), 0);
    assert_int_equal(yields_under(POLICY_DEADLINE | SCHED_RESET_ON_FORK), 0);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

typedef struct facts {
    char name[16];
    sigset_t blocked;
    cpu_set_t cpus;
    size_t stack_size;
    bool ran;
} facts;

static void collect(void *argument) {
    facts *f = argument;
    REQUIRE(prctl(PR_GET_NAME, f->name) == 0);
    REQUIRE(pthread_sigmask(SIG_BLOCK, NULL, &f->blocked) == 0);
    REQUIRE(sched_getaffinity(0, sizeof f->cpus, &f->cpus) == 0);
    pthread_attr_t attr;
    REQUIRE(pthread_getattr_np(pthread_self(), &attr) == 0);
    REQUIRE(pthread_attr_getstacksize(&attr, &f->stack_size) == 0);
    pthread_attr_destroy(&attr);
    f->ran = true;
}

static facts collect_with(const os_thread_options *options) {
    facts f;
    memset(&f, 0, sizeof f);
    os_thread thread;
    errno = EDOM;
    assert_int_equal(os_thread_start(&thread, options, collect, &f), 0);
    os_thread_join(thread);
    assert_int_equal(errno, EDOM);
    assert_true(f.ran);
    return f;
}

static void test_thread_name(void **state) {
    (void)state;
    os_thread_options options = {.name = "exactly15chars!"};
    facts f = collect_with(&options);
    assert_string_equal(f.name, "exactly15chars!");
    options.name = "longer-than-fifteen";
    f = collect_with(&options);
    assert_string_equal(f.name, "longer-than-fif");
    char own[16];
    prctl(PR_GET_NAME, own);
    options.name = NULL;
    f = collect_with(&options);
    assert_string_equal(f.name, own);
}

static void test_thread_signals(void **state) {
    (void)state;
    static const int open_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    facts f = collect_with(&plain);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int number = 1; number <= SIGRTMIN; number++) {
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
        bool open = number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN);
        for (size_t i = 0; i < sizeof open_signals / sizeof open_signals[0]; i++) open = open || open_signals[i] == number;
        if (!open && sigismember(&f.blocked, number) != 1) fail_msg("signal %d is not blocked", number);
        if (open && sigismember(&f.blocked, number) == 1) fail_msg("signal %d is blocked", number);
    }
}

static void test_thread_cpus(void **state) {
    (void)state;
    os_cpuset all, one = {{0}};
    assert_true(os_cpuset_current(&all));
    unsigned last = OS_CPUS_MAX - 1;
    while ((all.bits[last / 64] >> last % 64 & 1) == 0) last--;
    one.bits[last / 64] = (uint64_t)1 << last % 64;
    const os_thread_options options = {.cpus = &one, .stack_size = 65536};
    facts f = collect_with(&options);
    assert_int_equal(CPU_COUNT(&f.cpus), 1);
    assert_true(CPU_ISSET(last, &f.cpus));
    f = collect_with(&plain);
    assert_int_equal(CPU_COUNT(&f.cpus), os_cpuset_count(&all));
}

/* Thread-local data of a program with much of it: the C library takes it out of each thread's stack. */
static __thread char local_data[40000];

/* Uses `argument` bytes of stack, every page of them. */
static void use_stack(void *argument) {
    size_t size = *(const size_t *)argument;
    char *memory = __builtin_alloca(size);
    memset(local_data, 1, sizeof local_data);
    for (size_t i = 0; i < size; i += 512) memory[i] = (char)i;
    __asm__ volatile("" ::"r"(memory) : "memory");
}

static void test_thread_stack(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{16384, 8192}, {16385, 8192}, {20000, 12000}, {1, 4096}, {1 << 20, 1 << 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        os_thread_options options = {.stack_size = sizes[i][0]};
        facts f = collect_with(&options);
        assert_true(f.stack_size >= sizes[i][0]);
        size_t use = sizes[i][1];
        os_thread thread;
        assert_int_equal(os_thread_start(&thread, &options, use_stack, &use), 0);
        os_thread_join(thread);
    }
}

static void never(void *argument) {
    (void)argument;
    REQUIRE(false && "a thread that was not to start");
}

static void test_thread_refused(void **state) {
    (void)state;
    os_thread thread;
    os_cpuset none = {{0}};
    const os_thread_options no_cpu = {.cpus = &none, .stack_size = 16384};
    errno = EDOM;
    assert_int_equal(os_thread_start(&thread, &no_cpu, never, NULL), EINVAL);
    const os_thread_options whole_memory = {.stack_size = SIZE_MAX};
    assert_int_equal(os_thread_start(&thread, &whole_memory, never, NULL), EINVAL);
    assert_int_equal(errno, EDOM);
#if !defined(SANITIZED_THREAD)
    const os_thread_options too_much = {.stack_size = (size_t)1 << 60};
    assert_true(os_thread_start(&thread, &too_much, never, NULL) > 0);
#endif
}

static int start_without_right(void *argument) {
    (void)argument;
    const struct rlimit none = {0, 0};
    REQUIRE(setrlimit(RLIMIT_NPROC, &none) == 0);
    if (geteuid() == 0) REQUIRE(setresuid(65534, 65534, 65534) == 0);
    os_thread thread;
    errno = EDOM;
    REQUIRE(os_thread_start(&thread, &plain, never, NULL) == EAGAIN);
    REQUIRE(errno == EDOM);
    sigset_t blocked;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    REQUIRE(sigismember(&blocked, SIGTERM) == 0);
    return 0;
}

static void test_thread_limit(void **state) {
    (void)state;
    assert_int_equal(in_child(start_without_right, NULL), 0);
}

/* ---- sleeping ----------------------------------------------------------------------------------------------------- */

static void test_wait_returns_at_once(void **state) {
    (void)state;
    os_word word = {7};
    errno = EDOM;
    assert_int_equal(os_wait(&word, 8, 0), OS_WOKEN);
    assert_int_equal(os_wait(&word, 8, 1), OS_WOKEN);
    assert_int_equal(os_wait(&word, 8, UINT64_MAX), OS_WOKEN);
    assert_int_equal(os_wait(&word, 7, 1), OS_TIMEDOUT);
    assert_int_equal(os_wait(&word, 7, os_now_ns()), OS_TIMEDOUT);
    os_wake(&word, 1);
    os_wake(&word, INT_MAX);
    assert_int_equal(errno, EDOM);
}

static void test_wait_until_deadline(void **state) {
    (void)state;
    os_word word = {7};
    for (uint64_t span_ns = 1; span_ns < 20000000; span_ns *= 7) {
        uint64_t deadline_ns = os_now_ns() + span_ns;
        enum os_wait_result result = OS_WOKEN;
        errno = EDOM;
        while (result == OS_WOKEN) result = os_wait(&word, 7, deadline_ns);
        assert_int_equal(errno, EDOM);
        assert_true(os_now_ns() >= deadline_ns);
    }
}

typedef struct sleeper {
    os_word *word;
    os_word *returned; /* counts the sleepers whose os_wait came back */
    os_word tid;       /* 0: not running yet */
    pthread_t handle;
    uint64_t deadline_ns;
    enum os_wait_result result;
    int errno_after;
    bool signals; /* lets SIGUSR1 in */
} sleeper;

static void sleep_once(void *argument) {
    sleeper *s = argument;
    s->handle = pthread_self();
    if (s->signals) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    }
    errno = EDOM;
    store_rel(T1, &s->tid, (uint32_t)gettid());
    s->result = os_wait(s->word, 0, s->deadline_ns);
    s->errno_after = errno;
    add_acq_rel(T2, s->returned, 1u);
}

/* Whether the kernel shows the thread in a futex call on the word. -1: it does not say. */
static int sleeps_on(const sleeper *s) {
    char path[64], text[128], expected[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/syscall", load_acq(T1, &s->tid));
    int fd = open(path, O_RDONLY);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return -1;
    text[got] = 0;
    snprintf(expected, sizeof expected, "%d 0x%" PRIxPTR " ", SYS_futex, (uintptr_t)s->word);
    return strncmp(text, expected, strlen(expected)) == 0;
}

/* Waits for the thread to sleep. false: the kernel does not say, or says it in another way (under an emulator). */
static bool await_sleep(const sleeper *s) {
    const struct timespec moment = {0, 1000000};
    for (int turn = 0; turn < 3000; turn++) {
        int sleeping = load_acq(T1, &s->tid) == 0 ? 0 : sleeps_on(s);
        if (sleeping != 0) return sleeping > 0;
        nanosleep(&moment, NULL);
    }
    return false;
}

static void await_count(os_word *word, uint32_t count) {
    while (load_acq(T2, word) < count) os_yield();
}

enum { SLEEPERS = 3 };

/* Three threads sleep; wakes them one by one, or all at once. */
static void wake_sleepers(bool each) {
    os_word word = {0}, returned = {0};
    sleeper sleepers[SLEEPERS];
    os_thread threads[SLEEPERS];
    bool visible = true;
    memset(sleepers, 0, sizeof sleepers);
    for (int i = 0; i < SLEEPERS; i++) {
        sleepers[i].word = &word;
        sleepers[i].returned = &returned;
        threads[i] = start_thread(sleep_once, &sleepers[i]);
        visible = visible && await_sleep(&sleepers[i]);
    }
    for (uint32_t woken = 1; visible && woken <= SLEEPERS; woken = each ? woken + 1 : SLEEPERS + 1) {
        os_wake(&word, each ? 1 : INT_MAX);
        await_count(&returned, each ? woken : SLEEPERS);
        assert_int_equal(load_acq(T2, &returned), each ? woken : SLEEPERS);
    }
    /* When nothing could be seen: whoever is late does not sleep, the others are woken until all are out. */
    store_rlx(&word, 1u);
    while (load_acq(T2, &returned) < SLEEPERS) {
        os_wake(&word, INT_MAX);
        os_yield();
    }
    for (int i = 0; i < SLEEPERS; i++) {
        os_thread_join(threads[i]);
        assert_int_equal(sleepers[i].result, OS_WOKEN);
        assert_int_equal(sleepers[i].errno_after, EDOM);
    }
    if (!visible) SKIP("the kernel does not show where a thread sleeps");
}

static void test_wake_one_by_one(void **state) {
    (void)state;
    wake_sleepers(true);
}

static void test_wake_all(void **state) {
    (void)state;
    wake_sleepers(false);
}

static void on_signal(int number) { (void)number; }

/* A wait that a signal interrupts comes back as woken, with a deadline and without. */
static void wait_under_signals(uint64_t deadline_ns) {
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* no SA_RESTART */
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    os_word word = {0}, returned = {0};
    sleeper s = {.word = &word, .returned = &returned, .signals = true, .deadline_ns = deadline_ns};
    os_thread thread = start_thread(sleep_once, &s);
    while (load_acq(T1, &s.tid) == 0) os_yield();
    while (load_acq(T2, &returned) == 0) {
        pthread_kill(s.handle, SIGUSR1);
        os_yield();
    }
    os_thread_join(thread);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(s.result, OS_WOKEN);
    assert_int_equal(s.errno_after, EDOM);
}

static void test_wait_and_signals(void **state) {
    (void)state;
    wait_under_signals(0);
    wait_under_signals(UINT64_MAX);
}

enum { LOCKERS = 4, LOCK_ROUNDS = SANITIZED ? 5000 : 50000 };

typedef struct counted {
    os_mutex mutex;
    uint64_t count;
} counted;

static void lock_often(void *argument) {
    counted *c = argument;
    errno = EDOM;
    for (int i = 0; i < LOCK_ROUNDS; i++) {
        os_lock(&c->mutex);
        uint64_t seen = c->count;
        if (i % 64 == 0) os_yield(); /* the others pile up and sleep */
        c->count = seen + 1;
        os_unlock(&c->mutex);
    }
    REQUIRE(errno == EDOM);
}

static void test_mutex(void **state) {
    (void)state;
    counted c = {.count = 0};
    os_thread threads[LOCKERS];
    for (int i = 0; i < LOCKERS; i++) threads[i] = start_thread(lock_often, &c);
    for (int i = 0; i < LOCKERS; i++) os_thread_join(threads[i]);
    assert_int_equal(c.count, LOCKERS * LOCK_ROUNDS);
    assert_int_equal(load_rlx(&c.mutex.word), 0);
}

static void lock_once(void *argument) {
    os_lock(argument);
    os_unlock(argument);
}

/* Who finds the lock taken says so in the word, to be woken by it. */
static void test_mutex_announces_sleepers(void **state) {
    (void)state;
    os_mutex mutex = {{0}};
    os_lock(&mutex);
    assert_int_equal(load_rlx(&mutex.word), gettid());
    os_thread thread = start_thread(lock_once, &mutex);
    while ((load_rlx(&mutex.word) & FUTEX_WAITERS) == 0) os_yield();
    os_unlock(&mutex);
    os_thread_join(thread);
    assert_int_equal(load_rlx(&mutex.word), 0);
}

static int join_parents_thread(void *thread) {
    os_thread_join(*(os_thread *)thread); /* would hang, were it a real join */
    return 0;
}

static void test_join_in_forked_child(void **state) {
    (void)state;
    os_init();
    os_word word = {0}, returned = {0};
    sleeper s = {.word = &word, .returned = &returned};
    os_thread thread = start_thread(sleep_once, &s);
    assert_int_equal(in_child(join_parents_thread, &thread), 0);
    store_rlx(&word, 1u);
    while (load_acq(T2, &returned) == 0) os_wake(&word, 1);
    os_thread_join(thread);
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static void test_clock(void **state) {
    (void)state;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t now_ns = os_now_ns();
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(now_ns >= (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec);
    assert_true(now_ns <= (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
}

static bool ticks_are_steady(void) {
#if defined(__x86_64__)
    FILE *info = fopen("/proc/cpuinfo", "r");
    char line[8192];
    bool steady = false;
    while (info != NULL && !steady && fgets(line, sizeof line, info) != NULL)
        steady = strstr(line, "constant_tsc") != NULL && strstr(line, "nonstop_tsc") != NULL;
    if (info != NULL) fclose(info);
    return steady;
#else
    return true;
#endif
}

static void test_ticks(void **state) {
    (void)state;
    os_init();
    uint64_t per_us = os_ticks_per_us();
    assert_true(per_us >= 1);
    if (!ticks_are_steady()) SKIP("this machine's counter is not steady");
    /* Each reading of the counter lies between two of the clock, so the bounds hold however long any of them took. */
    uint64_t a_ns = os_now_ns(), a = os_ticks(), b_ns = os_now_ns();
    while (os_now_ns() - b_ns < 20000000) {}
    uint64_t c_ns = os_now_ns(), c = os_ticks(), d_ns = os_now_ns();
    per_us = os_ticks_per_us();
    double ticks_ns = (double)(c - a) * 1000.0 / (double)per_us;
    double slack = 1.0 / (double)per_us + 0.01; /* the rate is a whole number */
    assert_true(ticks_ns >= (double)(c_ns - b_ns) * (1.0 - slack));
    assert_true(ticks_ns <= (double)(d_ns - a_ns) * (1.0 + slack));
}

/* ---- assertions --------------------------------------------------------------------------------------------------- */

#if defined(WEFT_CHECKED)
static int panic_to_pipe(void *pipe_end) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGABRT, SIG_DFL);
    dup2(*(const int *)pipe_end, STDERR_FILENO);
    weft_panic("the moon is round", "sky.c", 1807);
}

static void test_panic(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(in_child(panic_to_pipe, &ends[1]), 1000 + SIGABRT);
    char text[256];
    ssize_t got = read(ends[0], text, sizeof text - 1);
    assert_true(got > 0);
    text[got] = 0;
    assert_non_null(strstr(text, "the moon is round"));
    assert_non_null(strstr(text, "sky.c:1807"));
    close(ends[0]);
    close(ends[1]);
}
#else
static void test_panic(void **state) {
    (void)state;
    SKIP("assertions are not in this build");
}
#endif

/* A thread of high priority waits for one that has none, on the same CPU. */
typedef struct inversion {
    _Atomic bool ends;
    unsigned long yields;
} inversion;

static void *yield_until(void *argument) {
    inversion *i = argument;
    for (; !i->ends; i->yields++) os_yield();
    return NULL;
}

static int yield_above(void *argument) {
    (void)argument;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    const struct sched_param high = {.sched_priority = 1};
    pthread_attr_t fifo;
    pthread_attr_init(&fifo);
    pthread_attr_setinheritsched(&fifo, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&fifo, SCHED_FIFO);
    pthread_attr_setschedparam(&fifo, &high);
    inversion i = {.ends = false};
    pthread_t thread;
    if (pthread_create(&thread, &fifo, yield_until, &i) != 0) return 1;
    i.ends = true;
    pthread_join(thread, NULL);
    return i.yields < 1000000 ? 0 : 2; /* the system throttles it after millions; a second where others want the CPU, too */
}

static void test_yield_to_lower_priority(void **state) {
    (void)state;
    if (SANITIZED) SKIP("sanitizers start threads of their own");
    int result = in_child(yield_above, NULL);
    if (result == 1) SKIP("no right to SCHED_FIFO");
    assert_int_equal(result, 0);
}

/* A process without streams: no file becomes one of them. */
static int without_streams(void *path) {
    for (int fd = 0; fd <= 2; fd++) close(fd);
    int made = os_create(path);
    int appended = os_append(path);
    bool is_none = fcntl(0, F_GETFD) == -1 && fcntl(1, F_GETFD) == -1 && fcntl(2, F_GETFD) == -1;
    bool is_closed_by_exec = fcntl(made, F_GETFD) == FD_CLOEXEC && fcntl(appended, F_GETFD) == FD_CLOEXEC;
    bool is_written = os_write(made, "text", 4);
    os_empty(appended);
    off_t left = lseek(appended, 0, SEEK_END);
    return made > 2 && appended > 2 && is_none && is_closed_by_exec && is_written && left == 0 &&
                   os_create("/dev/stdout") == -1
               ? 0
               : 1;
}

static void test_files_without_streams(void **state) {
    (void)state;
    char path[] = "/tmp/weft-os-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    int status = in_child(without_streams, path);
    unlink(path);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yields),
        cmocka_unit_test(test_keeps_its_period),
        cmocka_unit_test(test_thread_name),
        cmocka_unit_test(test_thread_signals),
        cmocka_unit_test(test_thread_cpus),
        cmocka_unit_test(test_thread_stack),
        cmocka_unit_test(test_thread_refused),
        cmocka_unit_test(test_thread_limit),
        cmocka_unit_test(test_wait_returns_at_once),
        cmocka_unit_test(test_wait_until_deadline),
        cmocka_unit_test(test_wake_one_by_one),
        cmocka_unit_test(test_wake_all),
        cmocka_unit_test(test_wait_and_signals),
        cmocka_unit_test(test_mutex),
        cmocka_unit_test(test_mutex_announces_sleepers),
        cmocka_unit_test(test_join_in_forked_child),
        cmocka_unit_test(test_yield_to_lower_priority),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_files_without_streams),
        cmocka_unit_test(test_panic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
