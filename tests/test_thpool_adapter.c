/* test_thpool_adapter.c: the functions of C-Thread-Pool's own header, on weft: on threads of the pool's own, and with
 * WEFT_VIEW_SHARED on the process's. */
#define _GNU_SOURCE
#include "pool_help.h"

#include <cthreadpool/thpool.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void count_job(void *argument) { atomic_fetch_add((atomic_uint *)argument, 1); }
static void gate_job(void *argument) { gate_task(&argument, NULL); }

static threadpool make(int threads) {
    threadpool pool = thpool_init(threads);
    REQUIRE(pool != NULL);
    return pool;
}

static void occupy(gate *g, threadpool pool) {
    gate_init(g);
    REQUIRE(thpool_add_work(pool, gate_job, g) == 0);
    await(&g->entered);
}

static void test_work_and_wait(void **state) {
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        threadpool pool = make(threads);
        atomic_uint counter = 0;
        thpool_wait(pool); /* for nothing */
        for (unsigned round = 1; round <= 5; round++) {
            for (int i = 0; i < 1000; i++) assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
            thpool_wait(pool);
            assert_int_equal(atomic_load(&counter), 1000 * round);
        }
        thpool_destroy(pool);
    }
}

static void test_misuse(void **state) {
    (void)state;
    atomic_uint counter = 0;
    assert_int_equal(thpool_add_work(NULL, count_job, &counter), -1);
    thpool_wait(NULL);
    thpool_pause(NULL);
    thpool_resume(NULL);
    thpool_destroy(NULL);
    assert_int_equal(thpool_num_threads_working(NULL), 0);
    for (int threads = -1; threads <= 0; threads++) { /* as one */
        threadpool pool = make(threads);
        assert_int_equal(thpool_add_work(pool, NULL, NULL), -1);
        assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
        thpool_wait(pool);
        thpool_destroy(pool);
    }
    assert_int_equal(atomic_load(&counter), 2);
}

typedef struct in_order {
    atomic_uint *next;
    unsigned index;
} in_order;

static void in_order_job(void *argument) {
    const in_order *o = argument;
    unsigned expected = o->index;
    atomic_compare_exchange_strong(o->next, &expected, o->index + 1);
}

static void test_order(void **state) {
    (void)state;
    enum { JOBS = 5000 };
    static in_order o[JOBS];
    threadpool pool = make(1);
    atomic_uint next = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        if (i == JOBS / 4) thpool_pause(pool); /* those held back keep their order too */
        if (i == JOBS / 2) thpool_resume(pool);
        o[i] = (in_order){&next, i};
        assert_int_equal(thpool_add_work(pool, in_order_job, &o[i]), 0);
        if (i == JOBS / 2 - 1) /* some have come to a worker by now */
            for (int turn = 0; turn < 1000; turn++) sched_yield();
    }
    thpool_wait(pool);
    assert_int_equal(atomic_load(&next), JOBS);
    thpool_destroy(pool);
}

/* ---- one order, whoever adds ------------------------------------------------------------------------------------------ */

typedef struct ordered {
    threadpool pool;
    atomic_uint *next;
    unsigned first, count;
    unsigned wrong;
} ordered;

static void ordered_job(void *argument) {
    ordered *o = argument;
    o->wrong += atomic_fetch_add(o->next, 1) != o->first + o->count;
    o->count++;
}

static void *add_some(void *argument) {
    for (int i = 0; i < 3; i++) REQUIRE(thpool_add_work(((ordered *)argument)->pool, ordered_job, argument) == 0);
    return NULL;
}

static void add_some_job(void *argument) { (void)add_some(argument); }

/* Threads add one after the other, and then a job: the jobs of each come before those of the next. */
static void test_order_of_submitters(void **state) {
    (void)state;
    enum { SUBMITTERS = 20 };
    static ordered o[SUBMITTERS + 1];
    threadpool pool = make(1);
    atomic_uint next = 0;
    gate g;
    occupy(&g, pool);
    for (unsigned i = 0; i <= SUBMITTERS; i++) o[i] = (ordered){pool, &next, 3 * i, 0, 0}; /* the job's are last */
    for (unsigned i = 0; i < SUBMITTERS; i++) {
        pthread_t thread;
        if (i == SUBMITTERS / 2) assert_int_equal(thpool_add_work(pool, add_some_job, &o[SUBMITTERS]), 0);
        assert_int_equal(pthread_create(&thread, NULL, add_some, &o[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    gate_open(&g);
    thpool_wait(pool);
    for (unsigned i = 0; i <= SUBMITTERS; i++) {
        assert_int_equal(o[i].count, 3);
        assert_int_equal(o[i].wrong, 0);
    }
    thpool_destroy(pool);
}

typedef struct spawn {
    threadpool pool;
    atomic_uint counter;
    int depth;
} spawn;

static void spawn_job(void *argument) {
    spawn *s = argument;
    if (atomic_fetch_add(&s->counter, 1) < 500) REQUIRE(thpool_add_work(s->pool, spawn_job, s) == 0);
}

static void test_jobs_add_jobs(void **state) {
    (void)state;
    spawn s = {.pool = make(2)};
    assert_int_equal(thpool_add_work(s.pool, spawn_job, &s), 0);
    thpool_wait(s.pool);
    assert_int_equal(atomic_load(&s.counter), 501);
    thpool_destroy(s.pool);
}

static void test_working(void **state) {
    (void)state;
    threadpool pool = make(2);
    gate g[2];
    assert_int_equal(thpool_num_threads_working(pool), 0);
    for (int i = 0; i < 2; i++) {
        occupy(&g[i], pool);
        assert_int_equal(thpool_num_threads_working(pool), i + 1);
    }
    for (int i = 0; i < 2; i++) gate_open(&g[i]);
    thpool_wait(pool);
    assert_int_equal(thpool_num_threads_working(pool), 0);
    thpool_destroy(pool);
}

static void *resume_thread(void *argument) {
    thpool_resume(argument);
    return NULL;
}

static void test_pause(void **state) {
    (void)state;
    threadpool pool = make(2);
    for (unsigned round = 0; round < 20; round++) {
        gate g;
        pthread_t thread;
        atomic_uint counter = 0;
        occupy(&g, pool);
        thpool_pause(pool);
        thpool_pause(pool);
        for (int i = 0; i < 100; i++) assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
        gate_open(&g); /* what runs, runs on */
        while (thpool_num_threads_working(pool) > 0) sched_yield();
        for (int i = 0; i < 200; i++) sched_yield(); /* time to do what they must not */
        assert_int_equal(atomic_load(&counter), 0);
        assert_int_equal(pthread_create(&thread, NULL, resume_thread, pool), 0);
        thpool_wait(pool); /* also for those held back */
        assert_int_equal(atomic_load(&counter), 100);
        pthread_join(thread, NULL);
    }
    thpool_resume(pool); /* not paused */
    thpool_destroy(pool);
}

#ifdef WEFT_VIEW_SHARED
typedef struct resumer {
    threadpool pool;
    gate open;
} resumer;

static void resume_job(void *argument) {
    resumer *r = argument;
    gate_job(&r->open);
    thpool_resume(r->pool);
}

/* The process's pool takes so few tasks that more are put by than may wait to start. */
static void test_bounded(void **state) {
    (void)state;
    assert_int_equal(setenv("WEFT_QUEUE_MAX", "2", 1), 0);
    for (int inside = 0; inside < 2; inside++) {
        resumer r = {.pool = make(2)};
        atomic_uint counter = 0;
        gate_init(&r.open);
        if (inside) assert_int_equal(thpool_add_work(r.pool, resume_job, &r), 0);
        if (inside) await(&r.open.entered);
        thpool_pause(r.pool);
        for (int i = 0; i < 100; i++) assert_int_equal(thpool_add_work(r.pool, count_job, &counter), 0);
        gate_open(&r.open);
        if (!inside) thpool_resume(r.pool);
        thpool_wait(r.pool);
        assert_int_equal(atomic_load(&counter), 100);
        thpool_destroy(r.pool);
    }
    assert_int_equal(unsetenv("WEFT_QUEUE_MAX"), 0);
}
#else
typedef struct meeting {
    sem_t arrived, begun;
} meeting;

static void meet_job(void *argument) {
    meeting *m = argument;
    sem_post(&m->arrived);
    await(&m->begun);
}

/* All jobs run at once, or none of them ends: more than there are CPUs, and than the process's pool has threads. */
static void test_jobs_wait_for_each_other(void **state) {
    (void)state;
    enum { THREADS = 10 };
    threadpool pool = make(THREADS);
    meeting m;
    assert_int_equal(sem_init(&m.arrived, 0, 0), 0);
    assert_int_equal(sem_init(&m.begun, 0, 0), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(thpool_add_work(pool, meet_job, &m), 0);
    for (int i = 0; i < THREADS; i++) await(&m.arrived);
    assert_int_equal(thpool_num_threads_working(pool), THREADS);
    for (int i = 0; i < THREADS; i++) sem_post(&m.begun);
    thpool_wait(pool);
    thpool_destroy(pool);
}

enum { MEET = 4 };

static void join_group_job(void *argument) {
    atomic_uint *arrived = argument;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < MEET) sched_yield();
}

/* Jobs that meet in groups as large as the pool come to their ends only if no group starts before the one added first has
 * begun. Tiny jobs come first: threads would like to take several at once. */
static void test_groups_meet(void **state) {
    (void)state;
    enum { GROUPS = 50 };
    static atomic_uint arrived[GROUPS];
    threadpool pool = make(MEET);
    atomic_uint counter = 0;
    for (int i = 0; i < 1000; i++) assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
    thpool_wait(pool);
    for (int i = 0; i < GROUPS; i++) {
        atomic_store(&arrived[i], 0);
        for (int each = 0; each < MEET; each++) assert_int_equal(thpool_add_work(pool, join_group_job, &arrived[i]), 0);
    }
    thpool_wait(pool);
    for (int i = 0; i < GROUPS; i++) assert_int_equal(atomic_load(&arrived[i]), MEET);
    thpool_destroy(pool);
}

typedef struct serial {
    threadpool other;
    gate open;
    atomic_uint at_once, most;
} serial;

static void serial_enter(serial *s) {
    const unsigned now = atomic_fetch_add(&s->at_once, 1) + 1;
    if (now > atomic_load(&s->most)) atomic_store(&s->most, now);
}

static void serial_wait_job(void *argument) {
    serial *s = argument;
    serial_enter(s);
    REQUIRE(thpool_add_work(s->other, gate_job, &s->open) == 0);
    thpool_wait(s->other);
    atomic_fetch_sub(&s->at_once, 1);
}

static void serial_job(void *argument) {
    serial_enter(argument);
    atomic_fetch_sub(&((serial *)argument)->at_once, 1);
}

/* A job of a one-thread pool waits for another pool: nothing of its own pool starts meanwhile. */
static void test_one_at_a_time(void **state) {
    (void)state;
    threadpool pool = make(1);
    serial s = {.other = make(1)};
    for (int round = 0; round < 20; round++) {
        gate_init(&s.open);
        assert_int_equal(thpool_add_work(pool, serial_wait_job, &s), 0);
        assert_int_equal(thpool_add_work(pool, serial_job, &s), 0);
        await(&s.open.entered);
        for (int i = 0; i < 500; i++) sched_yield(); /* time to do what it must not */
        gate_open(&s.open);
        thpool_wait(pool);
    }
    assert_int_equal(atomic_load(&s.most), 1);
    thpool_destroy(pool);
    thpool_destroy(s.other);
}

/* In a forked child nobody would run jobs: it is told so, and waits for nothing. */
static void test_fork(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
    threadpool pool = make(2);
    atomic_uint counter = 0;
    gate g;
    occupy(&g, pool);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int added = thpool_add_work(pool, count_job, &counter);
        thpool_pause(pool);
        thpool_resume(pool);
        thpool_wait(pool);
        thpool_destroy(pool);
#ifdef SANITIZED_THREAD /* no threads after a fork there */
        _exit(added == -1 && atomic_load(&counter) == 0 ? 0 : 1);
#endif
        threadpool own = thpool_init(1); /* the child's */
        const int again = own == NULL ? -1 : thpool_add_work(own, count_job, &counter);
        thpool_wait(own);
        thpool_destroy(own);
        _exit(added == -1 && again == 0 && atomic_load(&counter) == 1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    gate_open(&g);
    thpool_wait(pool);
    thpool_destroy(pool);
}

static void name_job(void *name) { pthread_getname_np(pthread_self(), name, 16); }

static void test_name(void **state) {
    (void)state;
    char name[16] = "";
    threadpool pool = make(1);
    assert_int_equal(thpool_add_work(pool, name_job, name), 0);
    thpool_wait(pool);
    assert_string_equal(name, "thpool-0");
    thpool_destroy(pool);
}

static void stack_job(void *bytes) {
    pthread_attr_t attr;
    REQUIRE(pthread_getattr_np(pthread_self(), &attr) == 0);
    REQUIRE(pthread_attr_getstacksize(&attr, bytes) == 0);
    pthread_attr_destroy(&attr);
}

/* As threads that the host makes itself: its stacks may be larger than usual. */
static void test_stack_size(void **state) {
    (void)state;
    pthread_attr_t before, large;
    size_t bytes = 0;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&large), 0);
    assert_int_equal(pthread_attr_setstacksize(&large, (size_t)24 << 20), 0);
    assert_int_equal(pthread_setattr_default_np(&large), 0);
    threadpool pool = make(1);
    assert_int_equal(thpool_add_work(pool, stack_job, &bytes), 0);
    thpool_wait(pool);
    thpool_destroy(pool);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&large);
    pthread_attr_destroy(&before);
    assert_true(bytes >= (size_t)23 << 20);
}
#endif

static void test_destroy_drops(void **state) {
    (void)state;
    for (int paused = 0; paused < 2; paused++) {
        threadpool pool = make(1);
        atomic_uint counter = 0;
        if (paused) thpool_pause(pool);
        for (int i = 0; i < 1000; i++) assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
        thpool_destroy(pool);
        assert_true(paused ? atomic_load(&counter) == 0 : atomic_load(&counter) <= 1000);
    }
}

static void stuck_job(void *argument) {
    threadpool pool = argument;
    thpool_wait(pool);
    thpool_destroy(pool);
}

static void test_wait_in_a_job(void **state) {
    (void)state;
    threadpool pool = make(1);
    assert_int_equal(thpool_add_work(pool, stuck_job, pool), 0);
    thpool_wait(pool);
    thpool_destroy(pool);
}

static void *wait_thread(void *argument) {
    thpool_wait(argument);
    return NULL;
}

static void test_several_wait(void **state) {
    (void)state;
    threadpool pool = make(2);
    gate g;
    pthread_t thread[4];
    occupy(&g, pool);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, wait_thread, pool), 0);
    gate_open(&g);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    thpool_destroy(pool);
}

/* ---- no memory for a wait ------------------------------------------------------------------------------------------- */

static int refusals; /* that are left; with the last one the gate opens */
static gate *refused_gate;

/* The names are the linker's choice. */
int __real_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);
int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);

int __wrap_weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns) {
    if (refusals == 0) return __real_weft_group_wait_until(pool, group, help, deadline_ns);
    if (--refusals == 0) gate_open(refused_gate);
    return refusals % 2 == 0 ? WEFT_ENOMEM : WEFT_EAGAIN;
}

static void refuse_waits(gate *g) {
    refused_gate = g;
    refusals = 3;
}

/* A function that tells no error does not return before its time. */
static void test_wait_without_memory(void **state) {
    (void)state;
    threadpool pool = make(1);
    atomic_uint counter = 0;
    gate g;
    occupy(&g, pool);
    assert_int_equal(thpool_add_work(pool, count_job, &counter), 0);
    refuse_waits(&g);
    thpool_wait(pool);
    assert_int_equal(atomic_load(&counter), 1);
    occupy(&g, pool);
    refuse_waits(&g);
    thpool_destroy(pool);
    assert_int_equal(refusals, 0);
    refused_gate = NULL; /* it was this function's */
}

#ifndef WEFT_VIEW_SHARED
static void mask_job(void *mask) { pthread_sigmask(SIG_SETMASK, NULL, mask); }

/* A child of a job inherits it, and is to end with SIGTERM as one of the program's first thread is. */
static void test_signal_mask(void **state) {
    (void)state;
    sigset_t some, before, seen;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigfillset(&seen);
    pthread_sigmask(SIG_BLOCK, &some, &before);
    threadpool pool = make(2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(thpool_add_work(pool, mask_job, &seen), 0);
    thpool_wait(pool);
    thpool_destroy(pool);
    assert_int_equal(sigismember(&seen, SIGUSR2), 1);
    for (int number = 1; number < 32; number++)
        if (number != SIGUSR2) assert_int_equal(sigismember(&seen, number), sigismember(&before, number));
}
#endif

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    setenv("WEFT_WORKERS", "2", 1); /* some cases need two jobs to run at once, on any machine */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_and_wait),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_jobs_add_jobs),
        cmocka_unit_test(test_order_of_submitters),
        cmocka_unit_test(test_working),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_destroy_drops),
        cmocka_unit_test(test_wait_in_a_job),
        cmocka_unit_test(test_several_wait),
        cmocka_unit_test(test_wait_without_memory),
#ifdef WEFT_VIEW_SHARED
        cmocka_unit_test(test_bounded),
#else
        cmocka_unit_test(test_jobs_wait_for_each_other),
        cmocka_unit_test(test_groups_meet),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_stack_size),
        cmocka_unit_test(test_signal_mask),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
