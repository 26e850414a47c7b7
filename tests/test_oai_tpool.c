/* test_oai_tpool.c: OpenAirInterface's thread pool of tasks and its counting answers, on weft; and what its threads are. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "few_threads.h"

#include "os/os.h"

#include "task_ans.h"
#include "thread-pool.h"

#include "oai_groups.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct counting {
    task_ans_t *ans;
    atomic_uint counter;
} counting;

static void count_args(void *args) {
    counting *c = args;
    atomic_fetch_add(&c->counter, 1);
    completed_task_ans(c->ans);
}

static void push_counted(tpool_t *pool, counting *c, task_ans_t *ans, unsigned tasks) {
    init_task_ans(ans, tasks);
    c->ans = ans;
    for (unsigned i = 0; i < tasks; i++) {
        task_t task = {.args = c, .func = count_args};
        pushTpool(pool, task);
        memset(&task, 0xee, sizeof task); /* it was copied */
    }
}

static void test_push_and_join(void **state) {
    (void)state;
    static char lists[][12] = {"n", "N", "-1", "-1,-1", "-1,-1,-1,-1", " -1, -1", "-1,n"};
    const size_t threads[] = {0, 0, 1, 2, 4, 2, 1};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        tpool_t pool;
        counting c = {.counter = 0};
        task_ans_t ans;
        initTpool(lists[i], &pool, true);
        assert_int_equal(pool.len_thr, threads[i]);
        for (unsigned round = 1; round <= 300; round++) {
            push_counted(&pool, &c, &ans, round % 20);
            join_task_ans(&ans);
            memset(&ans, 0xee, sizeof ans); /* its memory goes as soon as the join has returned */
        }
        assert_int_equal(atomic_load(&c.counter), 15 * 190);
        abortTpool(&pool);
        abortTpool(&pool);                /* twice */
        push_counted(&pool, &c, &ans, 1); /* it runs here */
        join_task_ans(&ans);
    }
}

static void test_floating(void **state) {
    (void)state;
    for (int threads = -1; threads <= 3; threads++) {
        tpool_t pool;
        counting c = {.counter = 0};
        task_ans_t ans;
        initFloatingCoresTpool(threads, &pool, false, "floating");
        assert_int_equal(pool.len_thr, threads < 0 ? 0 : threads);
        push_counted(&pool, &c, &ans, 100);
        join_task_ans(&ans);
        assert_int_equal(atomic_load(&c.counter), 100);
        abortTpool(&pool);
    }
}

static void gate_args(void *args) { gate_task(&args, NULL); }

#ifdef WEFT_OAI_HELP
/* The only thread stands in a gate: what the joining thread has pushed it runs itself. A hang is the failure. */
static void test_join_runs_its_own(void **state) {
    (void)state;
    static char one[] = "-1";
    tpool_t pool;
    counting c = {.counter = 0};
    task_ans_t ans;
    gate g;
    gate_init(&g);
    initNamedTpool(one, &pool, false, "own");
    pushTpool(&pool, (task_t){.args = &g, .func = gate_args});
    await(&g.entered);
    push_counted(&pool, &c, &ans, 5);
    join_task_ans(&ans);
    assert_int_equal(atomic_load(&c.counter), 5);
    gate_open(&g);
    abortTpool(&pool);
}

#else
typedef struct locked {
    pthread_mutex_t lock; /* it says if its holder takes it again */
    task_ans_t ans;
    int error;
    gate busy;
} locked;

static void lock_args(void *args) {
    locked *l = args;
    l->error = pthread_mutex_lock(&l->lock);
    if (l->error == 0) pthread_mutex_unlock(&l->lock);
    completed_task_ans(&l->ans);
}

static void *open_late(void *args) {
    for (int i = 0; i < 1000; i++) sched_yield(); /* most likely the join sleeps by now */
    for (int i = 0; i < 2; i++)
        gate_open(((gate *const *)args)[i]); /* one thread runs that task, the other the joined one */
    return NULL;
}

/* A join in a thread with a lock that a task takes for which it does not wait: the threads are busy, and a join that ran what
 * its thread had pushed would run that task. */
static void test_join_runs_nothing(void **state) {
    (void)state;
    static char two[] = "-1,-1";
    tpool_t pool;
    locked l = {.error = -1};
    gate other;
    task_ans_t ans;
    counting c = {.counter = 0};
    pthread_t thread;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&l.lock, &attr);
    initNamedTpool(two, &pool, false, "own");
    gate *const gates[] = {&other, &l.busy};
    for (int i = 0; i < 2; i++) {
        gate_init(gates[i]);
        pushTpool(&pool, (task_t){.args = gates[i], .func = gate_args});
        await(&gates[i]->entered);
    }
    init_task_ans(&l.ans, 1);
    pthread_mutex_lock(&l.lock);
    pushTpool(&pool, (task_t){.args = &l, .func = lock_args});
    push_counted(&pool, &c, &ans, 1);
    REQUIRE(pthread_create(&thread, NULL, open_late, (void *)gates) == 0);
    join_task_ans(&ans);
    pthread_mutex_unlock(&l.lock);
    join_task_ans(&l.ans);
    pthread_join(thread, NULL);
    assert_int_equal(l.error, 0);
    abortTpool(&pool);
    pthread_mutex_destroy(&l.lock);
    pthread_mutexattr_destroy(&attr);
}

/* Tasks that meet in groups as large as the pool: one thread's start in the order in which it pushed them. Tiny ones come
 * first, of which threads would like to take several at once. */
static void test_groups_meet(void **state) {
    (void)state;
    tpool_t pool;
    counting c = {.counter = 0};
    task_ans_t ans;
    initFloatingCoresTpool(MEET, &pool, false, NULL);
    push_counted(&pool, &c, &ans, 1000);
    join_task_ans(&ans);
    push_groups(&pool);
    abortTpool(&pool);
    for (int i = 0; i < GROUPS; i++) assert_int_equal(atomic_load(&groups_arrived[i]), MEET);
}
#endif

typedef struct serial {
    tpool_t *other;
    task_ans_t *ans;
    gate open;
    atomic_uint at_once, most;
} serial;

static void serial_enter(serial *s) {
    const unsigned now = atomic_fetch_add(&s->at_once, 1) + 1;
    if (now > atomic_load(&s->most)) atomic_store(&s->most, now);
}

static void serial_leave(serial *s) {
    atomic_fetch_sub(&s->at_once, 1);
    completed_task_ans(s->ans);
}

typedef struct gated {
    gate *gate;
    task_ans_t ans;
} gated;

static void gated_args(void *args) {
    gated *g = args;
    gate_args(g->gate);
    completed_task_ans(&g->ans);
}

static void serial_join_args(void *args) {
    serial *s = args;
    gated g = {.gate = &s->open};
    serial_enter(s);
    init_task_ans(&g.ans, 1);
    pushTpool(s->other, (task_t){.args = &g, .func = gated_args});
    await(&s->open.entered); /* it has begun, so nobody helps with it */
    sem_post(&s->open.entered);
    join_task_ans(&g.ans);
    serial_leave(s);
}

static void serial_args(void *args) {
    serial_enter(args);
    serial_leave(args);
}

/* A task of a pool of one thread joins another pool's: nothing of its own pool starts meanwhile. */
static void test_one_at_a_time(void **state) {
    (void)state;
    tpool_t pool, other;
    task_ans_t ans;
    initFloatingCoresTpool(1, &pool, false, NULL);
    initFloatingCoresTpool(1, &other, false, NULL);
    serial s = {.other = &other, .ans = &ans};
    for (int round = 0; round < 20; round++) {
        gate_init(&s.open);
        init_task_ans(&ans, 3);
        pushTpool(&pool, (task_t){.args = &s, .func = serial_join_args});
        for (int i = 0; i < 2; i++) pushTpool(&pool, (task_t){.args = &s, .func = serial_args});
        await(&s.open.entered);
        sem_post(&s.open.entered);
        usleep(1000); /* time to do what it must not */
        gate_open(&s.open);
        while (atomic_load_explicit(&ans.counter, memory_order_relaxed) > 0) usleep(10);
    }
    assert_int_equal(atomic_load(&s.most), 1);
    abortTpool(&pool);
    abortTpool(&other);
}

/* As many run at once as were asked for, and what was pushed before the end runs. */
static void test_abort_lets_finish(void **state) {
    (void)state;
    enum { THREADS = 6, TASKS = 100 };
    tpool_t pool;
    gate g[THREADS];
    counting c = {.counter = 0};
    task_ans_t ans;
    initFloatingCoresTpool(THREADS, &pool, false, NULL);
    for (int i = 0; i < THREADS; i++) {
        gate *each = &g[i];
        gate_init(each);
        pushTpool(&pool, (task_t){.args = each, .func = gate_args});
    }
    for (int i = 0; i < THREADS; i++) await(&g[i].entered);
    push_counted(&pool, &c, &ans, TASKS);
    assert_int_equal(atomic_load(&c.counter), 0);
    for (int i = 0; i < THREADS; i++) gate_open(&g[i]);
    abortTpool(&pool);
    assert_int_equal(atomic_load(&c.counter), TASKS);
}

typedef struct inner {
    tpool_t *pool;
    task_ans_t *ans;
    bool aborts;
} inner;

static void inner_args(void *args) {
    const inner *own = args;
    counting c = {.counter = 0};
    task_ans_t ans;
    if (own->aborts) abortTpool(own->pool); /* does nothing */
    push_counted(own->pool, &c, &ans, 3);
    join_task_ans(&ans);
    REQUIRE(atomic_load(&c.counter) == 3);
    completed_task_ans(own->ans);
}

/* Tasks join tasks of their own pool, more of them than there are threads: the original hangs. */
static void test_join_in_a_task(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        tpool_t pool;
        task_ans_t ans;
        initFloatingCoresTpool(threads, &pool, false, NULL);
        inner own = {&pool, &ans, false};
        for (int i = 0; i < 50; i++) {
            own.aborts = i % 2 != 0;
            init_task_ans(&ans, (unsigned)threads); /* as many joins in tasks at once as there are threads, no more */
            for (int task = 0; task < threads; task++) pushTpool(&pool, (task_t){.args = &own, .func = inner_args});
            join_task_ans(&ans);
        }
        assert_int_equal(pool.len_thr, threads);
        abortTpool(&pool);
    }
}

static void test_completed_many(void **state) {
    (void)state;
    task_ans_t ans;
    init_task_ans(&ans, 0);
    join_task_ans(&ans);
    init_task_ans(&ans, 5);
    completed_many_task_ans(&ans, 3);
    completed_many_task_ans(&ans, 0);
    completed_many_task_ans(&ans, 2);
    join_task_ans(&ans);
}

/* ---- what the threads are ----------------------------------------------------------------------------------------- */

typedef struct seen {
    task_ans_t *ans;
    int policy, priority, cpus;
    int child_policy, child_priority; /* of a thread that the task makes */
} seen;

static void *look_child(void *args) {
    seen *s = args;
    struct sched_param param;
    s->child_policy = sched_getscheduler(0);
    REQUIRE(sched_getparam(0, &param) == 0);
    s->child_priority = param.sched_priority;
    return NULL;
}

static void look_args(void *args) {
    seen *s = args;
    struct sched_param param;
    cpu_set_t cpus;
    REQUIRE(pthread_getschedparam(pthread_self(), &s->policy, &param) == 0);
    REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, look_child, s) == 0 && pthread_join(thread, NULL) == 0);
    s->priority = param.sched_priority;
    s->cpus = CPU_COUNT(&cpus);
    completed_task_ans(s->ans);
}

/* A pool of the list `params`, one task on it; what it said on stderr. */
static seen look(char *params, char *said, size_t size) {
    FILE *file = tmpfile();
    const int errors = dup(STDERR_FILENO);
    REQUIRE(file != NULL && errors >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    tpool_t pool;
    initNamedTpool(params, &pool, false, "cells");
    REQUIRE(dup2(errors, STDERR_FILENO) >= 0 && close(errors) == 0);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = 0;
    fclose(file);
    task_ans_t ans;
    seen s = {.ans = &ans};
    init_task_ans(&ans, 1);
    pushTpool(&pool, (task_t){.args = &s, .func = look_args});
    join_task_ans(&ans);
    abortTpool(&pool);
    return s;
}

static void test_what_is_wished_for(void **state) {
    (void)state;
    char said[400], here[16];
    const int priority = OAI_PRIORITY_RT_MAX;
    snprintf(here, sizeof here, "%d", sched_getcpu());
    seen s = look(here, said, sizeof said);
    print_message("%s", said);
    assert_int_equal(s.cpus, 1);
    assert_non_null(strstr(said, "cells: 1 threads, SCHED_RR priority 97"));
    const bool is_refused = strstr(said, "refused to 1 of them") != NULL;
    if (is_refused) print_message("skipped, the priority itself: this process may not give it\n");
    assert_int_equal(s.policy, is_refused ? SCHED_OTHER : SCHED_RR);
    assert_int_equal(s.priority, is_refused ? 0 : priority);
    assert_int_equal(s.child_policy, s.policy); /* as the host's own pool has it */
    assert_int_equal(s.child_priority, s.priority);
    static char absent[] = "1022,1023";
    (void)look(absent, said, sizeof said);
    assert_non_null(strstr(said, "2 not on their CPU"));
}

/* Without the right to it: ordinary threads, and a line that says so. In a child, which gives the right up. */
static void test_what_is_refused(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {{0}};
        const struct rlimit zero = {0, 0};
        char said[400];
        static char one[] = "-1";
        if (syscall(SYS_capset, &header, none) != 0 || setrlimit(RLIMIT_RTPRIO, &zero) != 0) _exit(2);
        seen s = look(one, said, sizeof said);
        const char *told = strstr(said, "SCHED_RR priority 97 refused to 1 of them (Operation not permitted)");
        _exit(s.policy == SCHED_OTHER && told != NULL ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_abort(void (*call)(void)) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka's would go on */
        call();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void init_with_words(void) {
    static char words[] = "1,two";
    tpool_t pool;
    initTpool(words, &pool, false);
}
static void push_nothing(void) {
    static char none[] = "n";
    tpool_t pool;
    initTpool(none, &pool, false);
    pushTpool(&pool, (task_t){.args = &pool, .func = NULL});
}

/* The system refuses the third. */
static void init_few(void) {
    tpool_t pool;
    threads_left = 2;
    initFloatingCoresTpool(3, &pool, false, NULL);
}

static void init_many(void) {
    tpool_t pool;
    initFloatingCoresTpool(513, &pool, false, NULL);
}

static void test_misuse_ends_the_program(void **state) {
    (void)state;
    expect_abort(init_many);
    expect_abort(init_few);
    expect_abort(init_with_words);
    expect_abort(push_nothing);
}

#ifdef WEFT_OAI_HELP
typedef struct nested {
    tpool_t outer, inner;
    task_ans_t outer_ans, inner_ans;
} nested;

static void abort_outer(void *args) {
    nested *n = args;
    abortTpool(&n->outer);
    completed_task_ans(&n->inner_ans);
}

static void push_inner(void *args) {
    nested *n = args;
    init_task_ans(&n->inner_ans, 1);
    pushTpool(&n->inner, (task_t){n, abort_outer});
    join_task_ans(&n->inner_ans);
    completed_task_ans(&n->outer_ans);
}

/* This thread joins and runs both tasks, one inside the other: the abort is one of a task of the outer pool. */
static void test_abort_in_a_join(void **state) {
    (void)state;
    static char one[] = "-1";
    nested n;
    gate gates[2];
    initTpool(one, &n.outer, false);
    initTpool(one, &n.inner, false);
    tpool_t *const pools[] = {&n.outer, &n.inner};
    for (int i = 0; i < 2; i++) {
        gate_init(&gates[i]);
        pushTpool(pools[i], (task_t){&gates[i], gate_args});
        await(&gates[i].entered);
    }
    init_task_ans(&n.outer_ans, 1);
    pushTpool(&n.outer, (task_t){&n, push_inner});
    join_task_ans(&n.outer_ans);
    assert_int_equal(n.outer.len_thr, 1); /* nothing has happened */
    for (int i = 0; i < 2; i++) gate_open(&gates[i]);
    for (int i = 0; i < 2; i++) abortTpool(pools[i]);
    assert_int_equal(n.outer.len_thr, 0);
}
#endif

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_and_join),           cmocka_unit_test(test_floating),
        cmocka_unit_test(test_one_at_a_time),           cmocka_unit_test(test_abort_lets_finish),
        cmocka_unit_test(test_join_in_a_task),          cmocka_unit_test(test_completed_many),
        cmocka_unit_test(test_what_is_wished_for),      cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_misuse_ends_the_program),
#ifdef WEFT_OAI_HELP
        cmocka_unit_test(test_join_runs_its_own),       cmocka_unit_test(test_abort_in_a_join),
#else
        cmocka_unit_test(test_join_runs_nothing),       cmocka_unit_test(test_groups_meet),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
