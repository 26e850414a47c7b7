/* test_lock.c: os_mutex hands its holder the priority of who waits for it, and works without the kernel's help. */
#define _GNU_SOURCE
#include "os_help.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>

/* As the kernel runs the calling thread now: below 0 is real time. */
static long priority_now(void) {
    char path[64];
    char line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread_id());
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    const char *field = strrchr(line, ')'); /* the second */
    for (int i = 2; i < 18 && field != NULL; i++) field = strchr(field + 1, ' ');
    REQUIRE(field != NULL);
    return strtol(field, NULL, 10);
}

static bool become_fifo(int priority) {
    return sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = priority}) == 0;
}

typedef struct contest {
    os_mutex mutex;
    os_word holds, boosted;
} contest;

/* Of ordinary priority; keeps the lock until it runs as the one that waits for it does. */
static void hold_until_boosted(void *argument) {
    contest *c = argument;
    os_lock(&c->mutex);
    store_rel(T1, &c->holds, 1u);
    while (priority_now() >= 0) os_yield();
    store_rlx(&c->boosted, 1u);
    os_unlock(&c->mutex);
    REQUIRE(priority_now() >= 0);
}

static void lock_as_fifo(void *argument) {
    contest *c = argument;
    REQUIRE(become_fifo(2));
    os_lock(&c->mutex);
    REQUIRE(load_rlx(&c->boosted) == 1);
    os_unlock(&c->mutex);
}

static int can_be_fifo(void *nothing) {
    (void)nothing;
    return become_fifo(1) ? 0 : 1;
}

static void test_holder_inherits(void **state) {
    (void)state;
    if (in_child(can_be_fifo, NULL) != 0) SKIP("no right to SCHED_FIFO");
    contest c = {.holds = {0}};
    os_thread low = start_thread(hold_until_boosted, &c);
    while (load_acq(T1, &c.holds) == 0) os_yield();
    os_thread high = start_thread(lock_as_fifo, &c);
    os_thread_join(high);
    os_thread_join(low);
    assert_int_equal(load_rlx(&c.mutex.word), 0);
}

/* ---- without FUTEX_LOCK_PI ---------------------------------------------------------------------------------------- */

enum { LOCKERS = 3, LOCK_ROUNDS = 2000 };

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
        if (i % 64 == 0) os_yield();
        c->count = seen + 1;
        os_unlock(&c->mutex);
    }
    REQUIRE(errno == EDOM);
}

static int lock_without_kernel(void *nothing) {
    (void)nothing;
    if (!forbid_call(SYS_futex, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, ENOSYS)) return 77;
    counted c = {.count = 0};
    os_thread threads[LOCKERS];
    for (int i = 0; i < LOCKERS; i++) threads[i] = start_thread(lock_often, &c);
    for (int i = 0; i < LOCKERS; i++) os_thread_join(threads[i]);
    REQUIRE(c.count == (uint64_t)LOCKERS * LOCK_ROUNDS);
    REQUIRE(load_rlx(&c.mutex.word) == 0);
    return 0;
}

static void test_without_kernel(void **state) {
    (void)state;
    int status = in_child(lock_without_kernel, NULL);
    if (status == 77) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
}

static int lock_again(void *mutex) {
    os_lock(mutex); /* the child's thread has another id */
    REQUIRE(load_rlx(&((os_mutex *)mutex)->word) == (uint32_t)thread_id());
    os_unlock(mutex);
    REQUIRE(load_rlx(&((os_mutex *)mutex)->word) == 0);
    return 0;
}

static void test_after_fork(void **state) {
    (void)state;
    os_init();
    os_mutex mutex = {{0}};
    os_lock(&mutex);
    os_unlock(&mutex);
    assert_int_equal(in_child(lock_again, &mutex), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holder_inherits),
        cmocka_unit_test(test_without_kernel),
        cmocka_unit_test(test_after_fork),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
