/* test_oai_adapter.c: OpenAirInterface's work-stealing task manager and its answers, and the older pool of messages, on weft. The
 * thread pool of tasks that came after them is test_oai_tpool.c's: its header and theirs exclude each other. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "few_threads.h"

#include "os/os.h"

#include "oai/fifo/thread-pool.h"
#include "task_manager.h"

#include <stdlib.h>

/* ---- the task manager --------------------------------------------------------------------------------------------- */

static void make(ws_task_manager_t *man, size_t threads) {
    int floating[8];
    for (size_t i = 0; i < threads; i++) floating[i] = -1;
    init_ws_task_manager(man, floating, threads);
}

static void count_task_args(void *args) { atomic_fetch_add((atomic_uint *)args, 1); }
static void gate_args(void *args) { gate_task(&args, NULL); }

static void occupy(gate *g, ws_task_manager_t *man) {
    gate_init(g);
    async_ws_task_manager(man, (task_t){.args = g, .func = gate_args});
    await(&g->entered);
}

typedef struct counting {
    task_ans_t ans;
    atomic_uint *counter;
} counting;

static void count_and_answer(void *args) {
    counting *c = args;
    atomic_fetch_add(c->counter, 1);
    completed_task_ans(&c->ans);
}

static void test_async_and_join(void **state) {
    (void)state;
    enum { TASKS = 500 };
    static counting c[TASKS];
    for (size_t threads = 1; threads <= 4; threads++) {
        ws_task_manager_t man;
        atomic_uint counter = 0;
        make(&man, threads);
        assert_int_equal(man.len_thr, threads);
        for (unsigned round = 1; round <= 5; round++) {
            memset(c, 0, sizeof c);
            for (int i = 0; i < TASKS; i++) {
                c[i].counter = &counter;
                task_t task = {.args = &c[i], .func = count_and_answer};
                async_ws_task_manager(&man, task);
                memset(&task, 0xee, sizeof task); /* it was copied */
            }
            for (int i = 0; i < TASKS; i++) join_task_ans(&c[i].ans, 1);
            assert_int_equal(atomic_load(&counter), TASKS * round);
        }
        free_ws_task_manager(&man, NULL);
        free_ws_task_manager(&man, NULL); /* twice */
        assert_null(man.q_arr);
    }
}

/* As many run at once as were asked for, however many CPUs there are: they wait for each other. */
static void test_tasks_wait_for_each_other(void **state) {
    (void)state;
    enum { THREADS = 8 };
    ws_task_manager_t man;
    gate g[THREADS];
    make(&man, THREADS);
    for (int i = 0; i < THREADS; i++) occupy(&g[i], &man);
    for (int i = 0; i < THREADS; i++) gate_open(&g[i]);
    free_ws_task_manager(&man, NULL);
}

typedef struct pinned {
    task_ans_t ans;
    atomic_uint *on_one;
} pinned;

static void cpu_args(void *args) {
    pinned *p = args;
    cpu_set_t cpus;
    REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0);
    if (CPU_COUNT(&cpus) == 1) atomic_fetch_add(p->on_one, 1);
    completed_task_ans(&p->ans);
}

static void test_cores(void **state) {
    (void)state;
    int here = sched_getcpu();
    int on_here[] = {here, here}, floating[] = {-1, -1}, absent[] = {CPU_SETSIZE + 5, 1023};
    int *lists[] = {on_here, floating, absent};
    for (int i = 0; i < 3; i++) {
        ws_task_manager_t man;
        cpu_set_t own;
        atomic_uint on_one = 0;
        static pinned p[100];
        memset(p, 0, sizeof p);
        init_ws_task_manager(&man, lists[i], 2);
        for (int task = 0; task < 100; task++) {
            p[task].on_one = &on_one;
            async_ws_task_manager(&man, (task_t){&p[task], cpu_args});
        }
        for (int task = 0; task < 100; task++) join_task_ans(&p[task].ans, 1);
        assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof own, &own), 0);
        if (CPU_COUNT(&own) > 1) assert_int_equal(atomic_load(&on_one), i == 0 ? 100 : 0);
        free_ws_task_manager(&man, NULL);
    }
}

static atomic_uint cleaned;

static void clean(task_t *task) {
    REQUIRE(task->func == count_task_args);
    atomic_fetch_add((atomic_uint *)task->args, 1);
    atomic_fetch_add(&cleaned, 1);
}

static void *open_gate_thread(void *argument) {
    gate_open(argument);
    return NULL;
}

/* Each task either runs or is cleaned, once. */
static void test_free_cleans(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        static atomic_uint seen[500];
        ws_task_manager_t man;
        gate g;
        pthread_t thread;
        memset(seen, 0, sizeof seen);
        make(&man, 1);
        occupy(&g, &man);
        for (int i = 0; i < 500; i++) async_ws_task_manager(&man, (task_t){&seen[i], count_task_args});
        if (round % 2 == 0) gate_open(&g);
        if (round % 2 != 0) assert_int_equal(pthread_create(&thread, NULL, open_gate_thread, &g), 0);
        free_ws_task_manager(&man, clean);
        if (round % 2 != 0) pthread_join(thread, NULL);
        for (int i = 0; i < 500; i++) assert_int_equal(atomic_load(&seen[i]), 1);
    }
    assert_true(atomic_load(&cleaned) > 0);
}

static void test_shut_down_often(void **state) {
    (void)state;
    for (int i = 0; i < (SANITIZED ? 100 : 1000); i++) {
        ws_task_manager_t man;
        atomic_uint counter = 0;
        make(&man, (size_t)(1 + i % 4));
        for (int task = 0; task < i % 7; task++) async_ws_task_manager(&man, (task_t){&counter, count_task_args});
        free_ws_task_manager(&man, NULL);
        assert_true(atomic_load(&counter) <= 7);
    }
}

typedef struct freeing {
    task_ans_t ans;
    ws_task_manager_t *man;
} freeing;

static void free_args(void *args) {
    freeing *f = args;
    free_ws_task_manager(f->man, NULL);
    completed_task_ans(&f->ans);
}

static void test_free_in_a_task(void **state) {
    (void)state;
    ws_task_manager_t man;
    make(&man, 1);
    freeing f = {.man = &man};
    async_ws_task_manager(&man, (task_t){&f, free_args});
    join_task_ans(&f.ans, 1);
    assert_non_null(man.q_arr);
    free_ws_task_manager(&man, NULL);
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

typedef struct answering {
    task_ans_t ans;
    unsigned result;
} answering;

static void answer_args(void *args) {
    answering *a = args;
    a->result = 7;
    completed_task_ans(&a->ans);
}

/* The answers' memory goes as soon as the join has returned. */
static void test_join(void **state) {
    (void)state;
    ws_task_manager_t man;
    make(&man, 2);
    join_task_ans(NULL, 0);
    for (unsigned round = 0; round < 300; round++) {
        size_t count = round % 14;
        answering *a = aligned_alloc(64, (count + 1) * sizeof *a);
        assert_non_null(a);
        memset(a, 0, (count + 1) * sizeof *a);
        for (size_t i = 0; i < count; i++) async_ws_task_manager(&man, (task_t){&a[i], answer_args});
        for (size_t i = 0; i < count; i++) {
            join_task_ans(&a[i].ans, 1);
            assert_int_equal(a[i].result, 7);
        }
        memset(a, 0xee, (count + 1) * sizeof *a);
        free(a);
    }
    free_ws_task_manager(&man, NULL);
}

static void complete_args(void *args) { completed_task_ans(args); }

static void test_join_many(void **state) {
    (void)state;
    ws_task_manager_t man;
    make(&man, 2);
    for (unsigned round = 0; round < 300; round++) {
        task_ans_t flags[13] = {0};
        for (int i = 0; i < 13; i++) async_ws_task_manager(&man, (task_t){&flags[i], complete_args});
        join_task_ans(flags, 13);
    }
    free_ws_task_manager(&man, NULL);
}

/* A task joins tasks of its own manager, more of them than there are threads: the original hangs with one. */
typedef struct joining {
    task_ans_t ans;
    ws_task_manager_t *man;
} joining;

static void join_args(void *args) {
    joining *j = args;
    task_ans_t ans[3] = {0};
    for (int i = 0; i < 3; i++) async_ws_task_manager(j->man, (task_t){&ans[i], complete_args});
    join_task_ans(ans, 3);
    completed_task_ans(&j->ans);
}

static void test_join_in_a_task(void **state) {
    (void)state;
    enum { TASKS = 50 };
    for (size_t threads = 1; threads <= 2; threads++) {
        ws_task_manager_t man;
        static joining j[TASKS];
        memset(j, 0, sizeof j);
        make(&man, threads);
        for (int i = 0; i < TASKS; i++) {
            j[i].man = &man;
            async_ws_task_manager(&man, (task_t){&j[i], join_args});
            join_task_ans(&j[i].ans, 1); /* as many joins in tasks at once as there are threads, no more */
        }
        free_ws_task_manager(&man, NULL);
    }
}

/* ---- messages ----------------------------------------------------------------------------------------------------- */

typedef struct message {
    unsigned value;
    gate *gate;
} message;

static void process_message(void *data) {
    message *m = data;
    if (m->gate != NULL) gate_task(&m->gate, NULL);
    m->value *= 2;
}

static notifiedFIFO_elt_t *message_make(uint64_t key, notifiedFIFO_t *response, unsigned value, gate *g) {
    notifiedFIFO_elt_t *msg = newNotifiedFIFO_elt(sizeof(message), key, response, process_message);
    REQUIRE(msg != NULL && (uintptr_t)NotifiedFifoData(msg) % 32 == 0);
    *(message *)NotifiedFifoData(msg) = (message){value, g};
    return msg;
}

static void test_params(void **state) {
    (void)state;
    const struct {
        const char *params;
        int result, threads;
    } cases[] = {{"n", 0, 0},        {"N", 0, 0},       {"-1", 0, 1},       {"-1,-1,-1", 0, 3},
                 {" 0,0", 0, 2},     {"-1,0", 0, 2},    {"", 0, 0},         {"1,,0", 0, 2},
                 {"1,", 0, 1},       {"x", -EINVAL, 0}, {"-2", -EINVAL, 0}, {"99999999999999999999", -EINVAL, 0},
                 {"0;1", -EINVAL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tpool_t pool;
        notifiedFIFO_t response;
        initNotifiedFIFO(&response);
        assert_int_equal(initTpool(cases[i].params, &pool, false), cases[i].result);
        assert_int_equal(pool.nbThreads, cases[i].threads);
        pushTpool(&pool, message_make(1, &response, 21, NULL)); /* whatever it became, it works */
        notifiedFIFO_elt_t *msg = pullTpool(&response, &pool);
        assert_int_equal(((message *)NotifiedFifoData(msg))->value, 42);
        delNotifiedFIFO_elt(msg);
        assert_int_equal(abortTpool(&pool), 0);
    }
    tpool_t pool;
    assert_int_equal(initTpool(NULL, &pool, false), -EINVAL);
    assert_int_equal(initTpool("n", NULL, false), -EINVAL);
    assert_int_equal(initFloatingCoresTpool(3, &pool, false, "three"), 0);
    assert_int_equal(pool.nbThreads, 3);
    abortTpool(&pool);
    assert_null(newNotifiedFIFO_elt(-1, 0, NULL, process_message));
}

static void test_messages(void **state) {
    (void)state;
    tpool_t pool;
    notifiedFIFO_t response;
    initNotifiedFIFO(&response);
    assert_int_equal(initTpool("-1,-1", &pool, true), 0);
    assert_null(tryPullTpool(&response, &pool));
    unsigned sum = 0;
    for (unsigned i = 0; i < 500; i++) pushTpool(&pool, message_make(i, &response, i, NULL));
    for (unsigned i = 0; i < 500; i++) {
        notifiedFIFO_elt_t *msg = pullTpool(&response, &pool);
        sum += ((message *)NotifiedFifoData(msg))->value;
        assert_true(msg->creationTime > 0 && msg->startProcessingTime >= msg->creationTime);
        assert_true(msg->endProcessingTime >= msg->startProcessingTime && msg->returnTime >= msg->endProcessingTime);
        delNotifiedFIFO_elt(msg);
    }
    assert_int_equal(sum, 500 * 499);
    pushTpool(&pool, message_make(0, NULL, 1, NULL)); /* nobody wants the answer: it is deleted */
    abortTpool(&pool);
}

/* Messages start in their order. */
static void test_message_order(void **state) {
    (void)state;
    tpool_t pool;
    notifiedFIFO_t response;
    gate g;
    initNotifiedFIFO(&response);
    gate_init(&g);
    assert_int_equal(initTpool("-1", &pool, false), 0);
    pushTpool(&pool, message_make(0, &response, 1, &g));
    await(&g.entered);
    for (unsigned i = 1; i < 50; i++) pushTpool(&pool, message_make(i, &response, 1, NULL));
    gate_open(&g);
    for (unsigned i = 0; i < 50; i++) {
        notifiedFIFO_elt_t *msg = pullTpool(&response, &pool);
        assert_int_equal(msg->key, i);
        delNotifiedFIFO_elt(msg);
    }
    abortTpool(&pool);
}

static void process_cpu(void *data) {
    cpu_set_t cpus;
    REQUIRE(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) == 0);
    *(int *)data = CPU_COUNT(&cpus);
}

static void test_message_cores(void **state) {
    (void)state;
    char params[32];
    tpool_t pool;
    notifiedFIFO_t response;
    initNotifiedFIFO(&response);
    snprintf(params, sizeof params, "%d,%d", sched_getcpu(), sched_getcpu());
    assert_int_equal(initTpool(params, &pool, false), 0);
    for (int i = 0; i < 50; i++) {
        pushTpool(&pool, newNotifiedFIFO_elt(sizeof(int), 0, &response, process_cpu));
        notifiedFIFO_elt_t *msg = pullTpool(&response, &pool);
        assert_int_equal(*(int *)NotifiedFifoData(msg), 1);
        delNotifiedFIFO_elt(msg);
    }
    abortTpool(&pool);
}

static void test_abort_by_key(void **state) {
    (void)state;
    tpool_t pool;
    notifiedFIFO_t response;
    gate g;
    initNotifiedFIFO(&response);
    gate_init(&g);
    assert_int_equal(initTpool("-1", &pool, false), 0);
    pushTpool(&pool, message_make(1, &response, 1, &g));
    await(&g.entered);
    for (unsigned i = 0; i < 20; i++) pushTpool(&pool, message_make(i % 2, &response, 10, NULL));
    assert_int_equal(abortTpoolJob(&pool, 1), 11); /* ten that wait, and the one that runs */
    assert_int_equal(abortTpoolJob(&pool, 1), 0);
    gate_open(&g);
    for (int i = 0; i < 10; i++) {
        notifiedFIFO_elt_t *msg = pullTpool(&response, &pool);
        assert_int_equal(msg->key, 0);
        delNotifiedFIFO_elt(msg);
    }
    abortTpool(&pool);
    assert_null(tryPullTpool(&response, &pool));
    for (uint64_t key = 0; key < 10; key++) pushNotifiedFIFO(&response, message_make(key % 2, NULL, 0, NULL));
    assert_int_equal(abortNotifiedFIFOJob(&response, 1), 5);
    assert_int_equal(abortNotifiedFIFO(&response), 5);
}

typedef struct pull {
    notifiedFIFO_t *from;
    atomic_int thread; /* its id, once it is about to pull */
} pull;

static void *pull_thread(void *argument) {
    pull *p = argument;
    atomic_store(&p->thread, thread_id());
    REQUIRE(pullNotifiedFIFO(p->from) == NULL);
    return NULL;
}

static void test_abort_all(void **state) {
    (void)state;
    tpool_t pool;
    notifiedFIFO_t response;
    pthread_t puller, opener;
    gate g;
    initNotifiedFIFO(&response);
    gate_init(&g);
    assert_int_equal(initTpool("-1", &pool, false), 0);
    pushTpool(&pool, message_make(1, NULL, 1, &g));
    await(&g.entered);
    for (unsigned i = 0; i < 20; i++) pushTpool(&pool, message_make(i, NULL, 10, NULL));
    assert_int_equal(pthread_create(&opener, NULL, open_gate_thread, &g), 0);
    int deleted = abortTpool(&pool);
    assert_true(deleted >= 0 && deleted <= 20);
    pthread_join(opener, NULL);
    pull asleep = {&response, 0};
    assert_int_equal(pthread_create(&puller, NULL, pull_thread, &asleep), 0);
    while (atomic_load(&asleep.thread) == 0 || !thread_sleeps(atomic_load(&asleep.thread))) sched_yield();
    assert_int_equal(abortNotifiedFIFO(&response), 0);
    pthread_join(puller, NULL);
    pushNotifiedFIFO(&response, message_make(0, NULL, 0, NULL)); /* after the end: deleted */
    assert_null(pollNotifiedFIFO(&response));
}

typedef struct aborter {
    tpool_t *pool;
    int result;
} aborter;

static void process_abort(void *data) {
    aborter *a = data;
    a->result = abortTpool(a->pool);
}

/* It would wait for itself: nothing happens, and messages pushed after are processed. */
static void test_abort_in_a_message(void **state) {
    (void)state;
    tpool_t pool;
    notifiedFIFO_t response;
    initNotifiedFIFO(&response);
    assert_int_equal(initTpool("-1,-1", &pool, false), 0);
    notifiedFIFO_elt_t *msg = newNotifiedFIFO_elt(sizeof(aborter), 1, &response, process_abort);
    assert_non_null(msg);
    *(aborter *)NotifiedFifoData(msg) = (aborter){&pool, -1};
    pushTpool(&pool, msg);
    assert_ptr_equal(pullTpool(&response, &pool), msg);
    assert_int_equal(((aborter *)NotifiedFifoData(msg))->result, 0);
    delNotifiedFIFO_elt(msg);
    pushTpool(&pool, message_make(2, &response, 21, NULL));
    msg = pullTpool(&response, &pool);
    assert_int_equal(((message *)NotifiedFifoData(msg))->value, 42);
    delNotifiedFIFO_elt(msg);
    assert_int_equal(abortTpool(&pool), 0);
}

typedef struct puller {
    tpool_t *pool;
    notifiedFIFO_t response;
    unsigned value;
} puller;

static int pull_task(void *payload, weft_worker *self) {
    puller *p = *(puller **)payload;
    (void)self;
    notifiedFIFO_elt_t *msg = pullTpool(&p->response, p->pool);
    p->value = ((message *)NotifiedFifoData(msg))->value;
    delNotifiedFIFO_elt(msg);
    return 0;
}

static int push_task(void *payload, weft_worker *self) {
    puller *p = *(puller **)payload;
    (void)self;
    pushTpool(p->pool, message_make(1, &p->response, 21, NULL));
    return 0;
}

/* The only worker of another pool pulls before there is anything: its spare pushes, as soon as the pull sleeps. */
static void test_pull_without_threads(void **state) {
    (void)state;
    weft_pool *other = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    tpool_t pool;
    puller p = {.pool = &pool}, *pointer = &p;
    initNotifiedFIFO(&p.response);
    assert_int_equal(initTpool("n", &pool, false), 0);
    assert_int_equal(weft_submit(other, &group, pull_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_submit(other, &group, push_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait_until(other, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(p.value, 42);
    assert_int_equal(abortTpool(&pool), 0);
    end_pool(other);
}

static sem_t abort_began;

static void process_told_abort(void *data) {
    sem_post(&abort_began);
    process_abort(data);
}

/* The message that its pull runs is the abort: the pool's own thread is busy. */
static int pull_abort_task(void *payload, weft_worker *self) {
    puller *p = *(puller **)payload;
    (void)self;
    notifiedFIFO_elt_t *msg = newNotifiedFIFO_elt(sizeof(aborter), 1, &p->response, process_told_abort);
    REQUIRE(msg != NULL);
    *(aborter *)NotifiedFifoData(msg) = (aborter){p->pool, -1};
    pushTpool(p->pool, msg);
    REQUIRE(pullTpool(&p->response, p->pool) == msg);
    p->value = (unsigned)((aborter *)NotifiedFifoData(msg))->result;
    delNotifiedFIFO_elt(msg);
    return 0;
}

static void test_abort_in_a_message_elsewhere(void **state) {
    (void)state;
    weft_pool *other = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    tpool_t pool;
    gate g;
    puller p = {.pool = &pool, .value = 1}, *pointer = &p;
    sem_init(&abort_began, 0, 0);
    gate_init(&g);
    initNotifiedFIFO(&p.response);
    assert_int_equal(initTpool("-1", &pool, false), 0);
    pushTpool(&pool, message_make(1, NULL, 1, &g));
    await(&g.entered);
    assert_int_equal(weft_submit(other, &group, pull_abort_task, &pointer, sizeof pointer), WEFT_OK);
    await(&abort_began);
    gate_open(&g);
    assert_int_equal(weft_group_wait_until(other, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    assert_int_equal(p.value, 0);
    assert_int_equal(tpool_nbthreads(pool), 1);
    pushTpool(&pool, message_make(2, &p.response, 21, NULL));
    notifiedFIFO_elt_t *msg = pullTpool(&p.response, &pool);
    assert_int_equal(((message *)NotifiedFifoData(msg))->value, 42);
    delNotifiedFIFO_elt(msg);
    assert_int_equal(abortTpool(&pool), 0);
    end_pool(other);
}

typedef struct serial {
    tpool_t *other;
    gate *gate;
} serial;

static atomic_uint at_once, most_at_once;

static void process_serial(void *data) {
    const serial *s = data;
    const unsigned now = atomic_fetch_add(&at_once, 1) + 1;
    if (now > atomic_load(&most_at_once)) atomic_store(&most_at_once, now);
    if (s->other != NULL) {
        notifiedFIFO_t response;
        initNotifiedFIFO(&response);
        pushTpool(s->other, message_make(1, &response, 1, s->gate));
        await(&s->gate->entered); /* it has begun: the pull sleeps */
        sem_post(&s->gate->entered);
        delNotifiedFIFO_elt(pullTpool(&response, s->other));
    }
    atomic_fetch_sub(&at_once, 1);
}

/* A message's function pulls from another pool: its own pool of one thread starts nothing meanwhile. */
static void test_one_message_at_a_time(void **state) {
    (void)state;
    tpool_t pool, other;
    assert_int_equal(initTpool("-1", &pool, false), 0);
    assert_int_equal(initTpool("-1", &other, false), 0);
    for (int round = 0; round < 20; round++) {
        notifiedFIFO_t response;
        gate g;
        gate_init(&g);
        initNotifiedFIFO(&response);
        for (int i = 0; i < 3; i++) {
            notifiedFIFO_elt_t *msg = newNotifiedFIFO_elt(sizeof(serial), 1, &response, process_serial);
            REQUIRE(msg != NULL);
            *(serial *)NotifiedFifoData(msg) = (serial){i == 0 ? &other : NULL, &g};
            pushTpool(&pool, msg);
        }
        await(&g.entered);
        sem_post(&g.entered);
        for (int i = 0; i < 500; i++) sched_yield(); /* time to do what it must not */
        gate_open(&g);
        for (int i = 0; i < 3; i++) delNotifiedFIFO_elt(pullTpool(&response, &pool));
    }
    assert_int_equal(atomic_load(&most_at_once), 1);
    assert_int_equal(abortTpool(&pool), 0);
    assert_int_equal(abortTpool(&other), 0);
}

/* A pool says how many there are, not how many were asked for. */
static void test_threads_refused(void **state) {
    (void)state;
    tpool_t pool;
    threads_left = 2;
    assert_int_equal(initTpool("-1,-1,-1,-1", &pool, false), 0);
    threads_left = -1;
    assert_int_equal(tpool_nbthreads(pool), 2);
    assert_int_equal(abortTpool(&pool), 0);
    assert_int_equal(initFloatingCoresTpool(513, &pool, false, "many"), -EINVAL);
    assert_int_equal(tpool_nbthreads(pool), 0);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    setenv("WEFT_WORKERS", "2", 1); /* some cases need two jobs to run at once, on any machine */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_async_and_join),
        cmocka_unit_test(test_tasks_wait_for_each_other),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_free_cleans),
        cmocka_unit_test(test_shut_down_often),
        cmocka_unit_test(test_free_in_a_task),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_join_many),
        cmocka_unit_test(test_join_in_a_task),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_message_order),
        cmocka_unit_test(test_message_cores),
        cmocka_unit_test(test_abort_by_key),
        cmocka_unit_test(test_abort_all),
        cmocka_unit_test(test_abort_in_a_message),
        cmocka_unit_test(test_abort_in_a_message_elsewhere),
        cmocka_unit_test(test_pull_without_threads),
        cmocka_unit_test(test_one_message_at_a_time),
        cmocka_unit_test(test_threads_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
