/* test_hooks_tasks.c: the hooks whose libraries ask for single tasks: libwebp's workers and Box2D's tasks, without the
 * libraries. */
#define _GNU_SOURCE

#include "pool_help.h"

#include "src/utils/thread_utils.h"

#include <hooks/box2d.h>
#include <hooks/webp.h>

/* ---- libwebp ------------------------------------------------------------------------------------------------------ */

static WebPWorkerInterface workers;

int WebPSetWorkerInterface(const WebPWorkerInterface *const winterface) {
    workers = *winterface;
    return 1;
}

static int add_hook(void *sum, void *number) {
    *(unsigned *)sum += *(unsigned *)number;
    return *(unsigned *)number != 13;
}

static WebPWorker make_worker(WebPWorkerHook hook, void *data1, void *data2) {
    WebPWorker worker;
    workers.Init(&worker);
    REQUIRE(worker.status_ == NOT_OK && workers.Reset(&worker) == 1 && worker.status_ == OK);
    worker.hook = hook;
    worker.data1 = data1;
    worker.data2 = data2;
    return worker;
}

static void test_webp_works(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    unsigned sum = 0, number = 1;
    assert_int_equal(weft_webp_install(NULL), 0);
    assert_int_equal(weft_webp_install(pool), 1);
    WebPWorker worker = make_worker(add_hook, &sum, &number);
    for (int i = 0; i < 1000; i++) {
        workers.Launch(&worker);
        assert_int_equal(worker.status_, WORK);
        assert_int_equal(workers.Sync(&worker), 1);
        assert_int_equal(worker.status_, OK);
    }
    for (int i = 0; i < 100; i++) workers.Launch(&worker); /* each waits for the one before */
    assert_int_equal(workers.Sync(&worker), 1);
    workers.Execute(&worker);
    assert_int_equal(sum, 1101);
    workers.End(&worker);
    assert_true(worker.status_ == NOT_OK && worker.impl_ == NULL);
    workers.Launch(&worker); /* nothing */
    workers.End(&worker);
    assert_int_equal(sum, 1101);
    end_pool(pool);
}

/* The process's pool is made by the first launch, not before. */
static void test_webp_late(void **state) {
    (void)state;
    unsigned sum = 0, number = 1;
    assert_int_equal(setenv("WEFT_WORKERS", "none", 1), 0);
    assert_int_equal(weft_webp_install_late(), 0);
    assert_int_equal(setenv("WEFT_WORKERS", "3", 1), 0);
    assert_int_equal(weft_webp_install_late(), 1);
    WebPWorker worker = make_worker(add_hook, &sum, &number);
    assert_null(hook_late);
    for (int i = 0; i < 100; i++) workers.Launch(&worker);
    assert_int_equal(workers.Sync(&worker), 1);
    assert_int_equal(sum, 100);
    assert_int_equal(weft_pool_workers(hook_late), 3);
    workers.End(&worker);
    assert_int_equal(weft_pool_destroy(&hook_late), WEFT_OK);
}

static void test_webp_tells_errors(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    unsigned sum = 0, number = 13;
    assert_int_equal(weft_webp_install(pool), 1);
    WebPWorker worker = make_worker(add_hook, &sum, &number);
    workers.Launch(&worker);
    assert_int_equal(workers.Sync(&worker), 0);
    number = 1;
    workers.Launch(&worker); /* an error stays until Reset */
    assert_int_equal(workers.Sync(&worker), 0);
    assert_int_equal(workers.Reset(&worker), 1); /* which is no error itself */
    workers.Launch(&worker);
    assert_int_equal(workers.Sync(&worker), 1);
    number = 13;
    workers.Launch(&worker);
    assert_int_equal(workers.Reset(&worker), 0); /* it waits, for work that fails */
    assert_int_equal(workers.Sync(&worker), 0);
    number = 1;
    workers.Launch(&worker);
    assert_int_equal(workers.Reset(&worker), 1); /* of that work alone */
    workers.Execute(&worker);
    assert_int_equal(workers.Sync(&worker), 1);
    workers.Launch(&worker);
    workers.End(&worker); /* with work under way */
    assert_int_equal(sum, 31);
    end_pool(pool);
}

/* The pool's only worker is busy: whoever waits for the work does it. */
static void test_webp_needs_nobody(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    unsigned sum = 0, number = 2;
    assert_int_equal(weft_webp_install(pool), 1);
    gate_occupy(&g, pool, &group);
    WebPWorker worker = make_worker(add_hook, &sum, &number);
    workers.Launch(&worker);
    assert_int_equal(workers.Sync(&worker), 1);
    assert_int_equal(sum, 2);
    workers.End(&worker);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- Box2D -------------------------------------------------------------------------------------------------------- */

enum { TASKS = 300 };

static void mark(void *context) { REQUIRE(atomic_fetch_add((atomic_uint *)context, 1) == 0); }

static void step(weft_box2d *tasks) {
    atomic_uint runs[TASKS] = {0};
    void *handles[TASKS];
    for (int i = 0; i < TASKS; i++) handles[i] = weft_box2d_enqueue(mark, &runs[i], tasks);
    for (int i = 0; i < TASKS; i++) {
        weft_box2d_finish(handles[i], tasks);
        REQUIRE(atomic_load(&runs[i]) == 1);
    }
}

static void test_box2d_each_task_once(void **state) {
    (void)state;
    static const enum weft_help helps[] = {WEFT_HELP_BELOW, WEFT_HELP_ANY, WEFT_HELP_NONE};
    for (uint32_t count = 1; count <= 3; count++)
        for (int i = 0; i < 3; i++) {
            weft_box2d tasks = {make_pool(count), helps[i]};
            for (int round = 0; round < 20; round++) step(&tasks);
            weft_box2d_finish(NULL, &tasks);
            end_pool(tasks.pool);
        }
}

/* While it waits for a task that runs elsewhere it runs the others that it may: its own, and with WEFT_HELP_ANY all. */
static void gate_context(void *context) { gate_task(&context, NULL); }
static void open_context(void *context) { gate_open(context); }

static void test_box2d_helps(void **state) {
    (void)state;
    static const enum weft_help helps[] = {WEFT_HELP_BELOW, WEFT_HELP_ANY};
    for (int i = 0; i < 2; i++) {
        weft_box2d tasks = {make_pool(1), helps[i]};
        gate g;
        gate_init(&g);
        void *first = weft_box2d_enqueue(gate_context, &g, &tasks);
        await(&g.entered);
        void *second = weft_box2d_enqueue(open_context, &g, &tasks); /* the worker stands in the gate */
        weft_box2d_finish(first, &tasks);
        weft_box2d_finish(second, &tasks);
        end_pool(tasks.pool);
    }
}

/* With WEFT_HELP_BELOW it runs no task of another kind, nor of another world's. */
static void note_thread(void *context) { *(pthread_t *)context = pthread_self(); }

static int note_task(void *payload, weft_worker *self) {
    (void)self;
    note_thread(*(void **)payload);
    return 0;
}

static void test_box2d_helps_below_alone(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    weft_box2d tasks = {pool, WEFT_HELP_BELOW}, other = {pool, WEFT_HELP_BELOW};
    weft_group group = WEFT_GROUP_INIT;
    gate g;
    pthread_t noted[2] = {pthread_self(), pthread_self()}, *pointer = &noted[0];
    gate_init(&g);
    void *first = weft_box2d_enqueue(gate_context, &g, &tasks);
    await(&g.entered);
    assert_int_equal(weft_submit(pool, &group, note_task, &pointer, sizeof pointer), WEFT_OK);
    void *second = weft_box2d_enqueue(open_context, &g, &tasks);
    void *foreign = weft_box2d_enqueue(note_thread, &noted[1], &other);
    weft_box2d_finish(first, &tasks);
    weft_box2d_finish(second, &tasks);
    assert_int_equal(weft_group_wait_until(pool, &group, WEFT_HELP_NONE, 0), WEFT_OK);
    other.help = WEFT_HELP_NONE;
    weft_box2d_finish(foreign, &other);
    for (int i = 0; i < 2; i++) assert_false(pthread_equal(noted[i], pthread_self()));
    end_pool(pool);
}

static int step_task(void *payload, weft_worker *self) {
    weft_box2d tasks = {weft_worker_pool(self), WEFT_HELP_BELOW};
    (void)payload;
    step(&tasks);
    return 0;
}

static void test_box2d_in_tasks(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 20; i++) assert_int_equal(weft_submit(pool, &group, step_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end_pool(pool);
}

/* ---- both: in a task whose group is cancelled ---------------------------------------------------------------------- */

static int cancelled_task(void *payload, weft_worker *self) {
    weft_group *group = *(weft_group **)payload;
    weft_box2d tasks = {weft_worker_pool(self), WEFT_HELP_BELOW};
    atomic_uint runs[4] = {0};
    void *handles[4];
    unsigned sum = 0, number = 3;
    WebPWorker worker = make_worker(add_hook, &sum, &number);
    for (int i = 0; i < 2; i++) handles[i] = weft_box2d_enqueue(mark, &runs[i], &tasks);
    workers.Launch(&worker);
    REQUIRE(weft_group_cancel(tasks.pool, group) == WEFT_OK);
    for (int i = 2; i < 4; i++) handles[i] = weft_box2d_enqueue(mark, &runs[i], &tasks);
    for (int i = 0; i < 4; i++) {
        weft_box2d_finish(handles[i], &tasks);
        REQUIRE(atomic_load(&runs[i]) == 1);
    }
    REQUIRE(workers.Sync(&worker) == 1 && sum == 3);
    workers.Launch(&worker);
    REQUIRE(workers.Sync(&worker) == 1 && sum == 6);
    workers.End(&worker);
    return 0;
}

static void test_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group busy = WEFT_GROUP_INIT;
    gate g;
    assert_int_equal(weft_webp_install(pool), 1);
    gate_occupy(&g, pool, &busy); /* so that what is launched has not begun when the group is cancelled */
    weft_group group = WEFT_GROUP_INIT, *pointer = &group;
    assert_int_equal(weft_submit(pool, &group, cancelled_task, &pointer, sizeof pointer), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    end_pool(pool);
}

/* ---- both: in a forked child, where the pool's threads are not there ------------------------------------------------ */

typedef struct begun {
    weft_box2d tasks;
    void *handle;
    WebPWorker *worker;
    atomic_uint runs;
    unsigned sum;
} begun;

static int end_in_child(void *argument) {
    begun *b = argument;
    weft_box2d_finish(b->handle, &b->tasks);
    REQUIRE(atomic_load(&b->runs) == 1);
    REQUIRE(workers.Sync(b->worker) == 1 && b->sum == 5);
    workers.Launch(b->worker);
    REQUIRE(workers.Sync(b->worker) == 1 && b->sum == 10);
    atomic_store(&b->runs, 0);
    REQUIRE(weft_box2d_enqueue(mark, &b->runs, &b->tasks) == NULL && atomic_load(&b->runs) == 1);
    return 0;
}

static void test_forked_child(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
    weft_pool *pool = make_pool(1);
    weft_group busy = WEFT_GROUP_INIT;
    gate g;
    assert_int_equal(weft_webp_install(pool), 1);
    gate_occupy(&g, pool, &busy); /* what follows does not begin here */
    begun b = {.tasks = {pool, WEFT_HELP_BELOW}};
    unsigned number = 5;
    WebPWorker worker = make_worker(add_hook, &b.sum, &number);
    b.worker = &worker;
    b.handle = weft_box2d_enqueue(mark, &b.runs, &b.tasks);
    workers.Launch(&worker);
    assert_int_equal(in_child(end_in_child, &b), 0);
    weft_box2d_finish(b.handle, &b.tasks);
    assert_int_equal(workers.Sync(&worker), 1);
    assert_true(atomic_load(&b.runs) == 1 && b.sum == 5);
    workers.End(&worker);
    gate_open(&g);
    assert_int_equal(weft_group_wait(pool, &busy), WEFT_OK);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_webp_late), /* first: a thread that has ended may still be in /proc */

        cmocka_unit_test(test_webp_works),        cmocka_unit_test(test_webp_tells_errors),
        cmocka_unit_test(test_webp_needs_nobody), cmocka_unit_test(test_box2d_each_task_once),
        cmocka_unit_test(test_box2d_helps),       cmocka_unit_test(test_box2d_helps_below_alone),
        cmocka_unit_test(test_box2d_in_tasks),    cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_forked_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
