/* test_os.c: memory, threads, sleeping, fences, time and identity as os.h promises them. */
#define _GNU_SOURCE
#include "help.h"
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

static const os_thread_options plain;

static os_thread start(void (*entry)(void *), void *argument) {
    os_thread thread = {0};
    REQUIRE(os_thread_start(&thread, &plain, entry, argument) == 0);
    return thread;
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static bool all_equal(const unsigned char *bytes, size_t size, unsigned char value) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value) return false;
    return true;
}

static void test_map(void **state) {
    (void)state;
    size_t page = os_page_size(), size = 8 * page;
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    unsigned char *memory = os_map(size);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % page, 0);
    assert_true(all_equal(memory, size, 0));
    memset(memory, 0xa5, size);
    os_purge(memory + page, 2 * page);
    assert_true(all_equal(memory, page, 0xa5));
    assert_true(all_equal(memory + page, 2 * page, 0));
    assert_true(all_equal(memory + 3 * page, size - 3 * page, 0xa5));
    os_unmap(memory, size);
    unsigned char resident;
    assert_true(mincore(memory, page, &resident) == -1 && errno == ENOMEM);
}

static void test_purge_of_locked_memory(void **state) {
    (void)state;
    size_t size = 4 * os_page_size();
    unsigned char *memory = os_map(size);
    assert_non_null(memory);
    memset(memory, 0xa5, size);
    if (mlock(memory, size) != 0) SKIP("no right to lock memory");
    errno = EDOM;
    os_purge(memory, size);
    assert_int_equal(errno, EDOM);
    assert_true(all_equal(memory, size, 0));
    os_unmap(memory, size);
}

static void test_no_memory(void **state) {
    (void)state;
    errno = EDOM;
    assert_null(os_map((size_t)1 << 62));
    assert_int_equal(errno, EDOM);
    void *memory = os_alloc(100);
    assert_non_null(memory);
    memset(memory, 1, 100);
    os_free(memory);
    os_free(NULL);
    assert_int_equal(errno, EDOM);
    if (SANITIZED) SKIP("the sanitizer's malloc ends the process instead of failing");
    assert_null(os_alloc((size_t)1 << 62));
    assert_int_equal(errno, EDOM);
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
    for (int number = 1; number < NSIG; number++) {
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
    REQUIRE(!"a thread that was not to start");
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

/* false: the kernel does not say. */
static bool await_sleep(const sleeper *s) {
    for (;;) {
        int sleeping = load_acq(T1, &s->tid) == 0 ? 0 : sleeps_on(s);
        if (sleeping != 0) return sleeping > 0;
        os_yield();
    }
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
        threads[i] = start(sleep_once, &sleepers[i]);
        visible = await_sleep(&sleepers[i]) && visible;
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
    os_thread thread = start(sleep_once, &s);
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
    counted c = {{{0}}, 0};
    os_thread threads[LOCKERS];
    for (int i = 0; i < LOCKERS; i++) threads[i] = start(lock_often, &c);
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
    assert_int_equal(load_rlx(&mutex.word), 1);
    os_thread thread = start(lock_once, &mutex);
    while (load_rlx(&mutex.word) != 2) os_yield();
    os_unlock(&mutex);
    os_thread_join(thread);
    assert_int_equal(load_rlx(&mutex.word), 0);
}

/* ---- fences ------------------------------------------------------------------------------------------------------- */

enum { FENCE_ROUNDS = 5000 };

/* Each side sets its flag, fences, and reads the other's: at least one must see the other's flag. */
typedef struct dekker {
    ALIGNED(CACHE_LINE) os_word light;
    ALIGNED(CACHE_LINE) os_word heavy;
    ALIGNED(CACHE_LINE) os_word light_round;
    ALIGNED(CACHE_LINE) os_word heavy_round;
    ALIGNED(CACHE_LINE) uint32_t light_saw[FENCE_ROUNDS];
    uint32_t heavy_saw[FENCE_ROUNDS];
} dekker;

static void meet(os_word *own, os_word *other, uint32_t round) {
    store_rel(T3, own, round);
    for (uint32_t turns = 1; load_acq(T3, other) < round; turns++)
        if (turns % 256 == 0)
            os_yield();
        else
            os_pause();
}

/* Shifts the two sides against each other by a few nanoseconds more or less from round to round. */
static void skew(uint32_t turns) {
    for (uint32_t i = 0; i < turns; i++) __asm__ volatile("");
}

static void light_side(void *argument) {
    dekker *d = argument;
    for (uint32_t i = 0; i < FENCE_ROUNDS; i++) {
        meet(&d->light_round, &d->heavy_round, i + 1);
        skew(i % 64);
        store_rlx(&d->light, i + 1);
        os_fence_light(T4);
        d->light_saw[i] = load_rlx(&d->heavy);
    }
}

static void heavy_side(dekker *d) {
    for (uint32_t i = 0; i < FENCE_ROUNDS; i++) {
        meet(&d->heavy_round, &d->light_round, i + 1);
        skew(i / 64 % 64);
        store_rlx(&d->heavy, i + 1);
        os_fence_heavy(T4);
        d->heavy_saw[i] = load_rlx(&d->light);
    }
}

/* The rounds in which each side missed the other. */
static int dekker_failures(void) {
    static dekker d;
    memset(&d, 0, sizeof d);
    os_thread thread = start(light_side, &d);
    heavy_side(&d);
    os_thread_join(thread);
    int failures = 0;
    for (uint32_t i = 0; i < FENCE_ROUNDS; i++) failures += d.light_saw[i] != i + 1 && d.heavy_saw[i] != i + 1;
    return failures;
}

static bool machine_has_membarrier(void) {
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

static long membarrier_now(void) { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }

static void test_fence(void **state) {
    (void)state;
    os_init();
    assert_int_equal(os_fence_is_asymmetric(), machine_has_membarrier());
    errno = EDOM;
    os_fence_heavy(T4);
    assert_int_equal(errno, EDOM);
    assert_int_equal(dekker_failures(), 0);
}

/* The second life of this program, started by test_fence_by_environment. */
static int fence_as_told(const char *wish) {
    os_init();
    bool expected = strcmp(wish, "full") != 0 && machine_has_membarrier();
    REQUIRE(os_fence_is_asymmetric() == expected);
    REQUIRE(setenv("WEFT_FENCE", expected ? "full" : "", 1) == 0);
    os_init(); /* reads it no second time */
    REQUIRE(os_fence_is_asymmetric() == expected);
    REQUIRE(dekker_failures() == 0);
    return 0;
}

static int exec_with_fence(void *wish) {
    REQUIRE(setenv("WEFT_FENCE", wish, 1) == 0);
    execl("/proc/self/exe", "test_os", "--fence", (char *)wish, (char *)NULL);
    return 98;
}

static void test_fence_by_environment(void **state) {
    (void)state;
    assert_int_equal(in_child(exec_with_fence, "full"), 0);
    assert_int_equal(in_child(exec_with_fence, ""), 0);
    assert_int_equal(in_child(exec_with_fence, "other"), 0);
}

/* From now on membarrier fails in this process. */
static bool forbid_membarrier(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int fence_after_filter(void *argument) {
    (void)argument;
    os_init();
    REQUIRE(os_fence_is_asymmetric());
    if (!forbid_membarrier()) return 77;
    REQUIRE(membarrier_now() == -1);
    errno = EDOM;
    REQUIRE(dekker_failures() == 0);
    REQUIRE(errno == EDOM);
    REQUIRE(!os_fence_is_asymmetric());
    return 0;
}

static void test_fence_lost_later(void **state) {
    (void)state;
    if (!machine_has_membarrier()) SKIP("no membarrier to lose");
    int status = in_child(fence_after_filter, NULL);
    if (status == 77) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
}

/* ---- who am I ----------------------------------------------------------------------------------------------------- */

static int grandchild(void *expected) {
    REQUIRE(os_fork_count() == *(const uint64_t *)expected + 2);
    return 0;
}

static int child_of_fork(void *expected) {
    const os_self *self = os_self_get();
    REQUIRE(os_fork_count() == *(const uint64_t *)expected + 1);
    REQUIRE(self->pool_id == 0 && self->worker == NULL && self->places == NULL);
    if (os_fence_is_asymmetric()) REQUIRE(membarrier_now() == 0);
    os_fence_heavy(T4);
    REQUIRE(os_fence_is_asymmetric() == machine_has_membarrier());
    REQUIRE(dekker_failures() == 0);
    return in_child(grandchild, expected);
}

static void test_fork_count(void **state) {
    (void)state;
    os_init();
    os_init();
    uint64_t before = os_fork_count();
    os_self *self = os_self_get();
    self->pool_id = 1;
    self->worker = self;
    self->places = self;
    assert_int_equal(in_child(child_of_fork, &before), 0);
    assert_int_equal(os_fork_count(), before);
    assert_true(self->pool_id == 1 && self->worker == self && self->places == self);
    memset(self, 0, sizeof *self);
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
    os_thread thread = start(sleep_once, &s);
    assert_int_equal(in_child(join_parents_thread, &thread), 0);
    store_rlx(&word, 1u);
    while (load_acq(T2, &returned) == 0) os_wake(&word, 1);
    os_thread_join(thread);
}

typedef struct watched {
    int step;      /* counts what happened at the thread's end */
    int exits;     /* calls of on_exit */
    int last_exit; /* step of the last */
    int key_ended; /* step of the other key's destructor */
    bool again;
} watched;

static pthread_key_t other_key;

static void watched_exit(os_self *self) {
    REQUIRE(self == os_self_get());
    watched *w = self->places;
    w->exits++;
    w->last_exit = ++w->step;
}

static void other_key_ends(void *value) {
    watched *w = value;
    w->key_ended = ++w->step;
    if (w->again) REQUIRE(os_self_watch(watched_exit) == 0);
}

static void watch_and_end(void *argument) {
    watched *w = argument;
    REQUIRE(os_self_get()->pool_id == 0 && os_self_get()->worker == NULL && os_self_get()->places == NULL);
    os_self_get()->places = w;
    REQUIRE(os_self_watch(watched_exit) == 0);
    REQUIRE(os_self_watch(watched_exit) == 0);
    REQUIRE(pthread_setspecific(other_key, w) == 0);
}

static void do_nothing(void *argument) { (void)argument; }

static void test_watch(void **state) {
    (void)state;
    assert_int_equal(pthread_key_create(&other_key, other_key_ends), 0);
    watched once = {.again = false}, again = {.again = true};
    os_thread_join(start(watch_and_end, &once));
    assert_int_equal(once.exits, 1);
    /* Destructors of other libraries may use weft after on_exit: it then comes once more. */
    os_thread_join(start(watch_and_end, &again));
    assert_true(again.exits >= 1 && again.key_ended != 0);
    assert_true(again.last_exit > again.key_ended);
    os_thread_join(start(do_nothing, NULL));
    assert_int_equal(once.exits, 1);
    pthread_key_delete(other_key);
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

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--fence") == 0) return fence_as_told(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_purge_of_locked_memory),
        cmocka_unit_test(test_no_memory),
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
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_fence_by_environment),
        cmocka_unit_test(test_fence_lost_later),
        cmocka_unit_test(test_fork_count),
        cmocka_unit_test(test_join_in_forked_child),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_panic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
