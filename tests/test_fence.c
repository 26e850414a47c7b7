/* test_fence.c: both kinds of fence, and what a thread and a forked child know of themselves, as os.h promises them. */
#define _GNU_SOURCE
#include "os_help.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>

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
    os_thread thread = start_thread(light_side, &d);
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

/* By the library when it was loaded: a process that gets threads first waits for the kernel at its first pool. */
static void test_is_registered_before_a_pool(void **state) {
    (void)state;
    if (!machine_has_membarrier()) SKIP("no membarrier");
#if defined(__GLIBC__) && __has_include(<sys/single_threaded.h>)
    assert_int_equal(membarrier_now(), 0);
#else
    SKIP("this C library does not say whether the process has one thread");
#endif
}

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
    execl("/proc/self/exe", "test_fence", "--fence", (char *)wish, (char *)NULL);
    return 77;
}

static void test_fence_by_environment(void **state) {
    (void)state;
    char said[256];
    int status = in_child_said(exec_with_fence, "full", said, sizeof said);
    if (status == 77) SKIP("this program cannot be started again (under an emulator)");
    assert_int_equal(status, 0);
    assert_string_equal(said, "");
    assert_int_equal(in_child_said(exec_with_fence, "", said, sizeof said), 0);
    assert_string_equal(said, "");
    assert_int_equal(in_child_said(exec_with_fence, "other", said, sizeof said), 0);
    assert_string_equal(said, "weft: WEFT_FENCE=other is not understood and has no effect\n");
}

static int fence_after_filter(void *argument) {
    (void)argument;
    os_init();
    REQUIRE(os_fence_is_asymmetric());
    if (!forbid_call(SYS_membarrier, ANY_SECOND, EPERM)) return 77;
    REQUIRE(membarrier_now() == -1);
    errno = EDOM;
    REQUIRE(dekker_failures() == 0);
    REQUIRE(errno == EDOM);
    REQUIRE(!os_fence_is_asymmetric());
    return 0;
}

/* A sandbox may let nobody sleep; the stores are to have time all the same. */
static int settle_without_sleep(void *argument) {
    (void)argument;
    if (!forbid_call(SYS_clock_nanosleep, ANY_SECOND, EPERM) || !forbid_call(SYS_nanosleep, ANY_SECOND, EPERM)) return 77;
    uint64_t start_ns = os_now_ns();
    errno = EDOM;
    os_settle_now();
    REQUIRE(errno == EDOM && os_now_ns() - start_ns >= 1000000);
    return 0;
}

static void test_settle(void **state) {
    (void)state;
    int status = in_child(settle_without_sleep, NULL);
    if (status == 77) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
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
    REQUIRE(self->pool_id == 0 && self->worker == NULL && self->seatings == NULL);
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
    self->seatings = self;
    assert_int_equal(in_child(child_of_fork, &before), 0);
    assert_int_equal(os_fork_count(), before);
    assert_true(self->pool_id == 1 && self->worker == self && self->seatings == self);
    memset(self, 0, sizeof *self);
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
    watched *w = self->seatings;
    w->exits++;
    w->last_exit = ++w->step;
}

static void other_key_ends(void *value) {
    watched *w = value;
    w->key_ended = ++w->step;
    if (w->again) REQUIRE(os_self_watch(OS_EXIT_POOL, watched_exit) == 0);
}

static void watch_and_end(void *argument) {
    watched *w = argument;
    REQUIRE(os_self_get()->pool_id == 0 && os_self_get()->worker == NULL && os_self_get()->seatings == NULL);
    os_self_get()->seatings = w;
    REQUIRE(os_self_watch(OS_EXIT_POOL, watched_exit) == 0);
    REQUIRE(os_self_watch(OS_EXIT_POOL, watched_exit) == 0);
    REQUIRE(pthread_setspecific(other_key, w) == 0);
}

static void do_nothing(void *argument) { (void)argument; }

static void test_watch(void **state) {
    (void)state;
    assert_int_equal(pthread_key_create(&other_key, other_key_ends), 0);
    watched once = {.again = false}, again = {.again = true};
    os_thread_join(start_thread(watch_and_end, &once));
    assert_int_equal(once.exits, 1);
    /* Destructors of other libraries may use weft after on_exit: it then comes once more. */
    os_thread_join(start_thread(watch_and_end, &again));
    assert_true(again.exits >= 1 && again.key_ended != 0);
    assert_true(again.last_exit > again.key_ended);
    os_thread_join(start_thread(do_nothing, NULL));
    assert_int_equal(once.exits, 1);
    pthread_key_delete(other_key);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--fence") == 0) return fence_as_told(argv[2]);
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_registered_before_a_pool),
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_fence_by_environment),
        cmocka_unit_test(test_fence_lost_later),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_fork_count),
        cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
