/* What x264 expects of its thread pool, asked of adapters/x264 without x264's tree (tests/x264_stub stands in for it).
 *
 * No case depends on time: where a thread has to be asleep first, the kernel is asked whether it is. */
#define _GNU_SOURCE
#include "common/common.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "few_threads.h"
#include "help.h"

#define JOBS 8
#ifdef WEFT_VIEW_SHARED
#define IS_SHARED 1
#else
#define IS_SHARED 0
#endif

/* ---- helpers ------------------------------------------------------------------------------------------------------ */

static x264_threadpool_t *pool_of(int threads) {
    x264_threadpool_t *pool = NULL;
    assert_int_equal(x264_threadpool_init(&pool, threads), 0);
    assert_non_null(pool);
    return pool;
}

/* On the process's pool, one whose jobs share one worker: the affinity leaves one CPU while it is made. */
static x264_threadpool_t *pool_on_one_cpu(int threads) {
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    x264_threadpool_t *pool = pool_of(threads);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    return pool;
}

/* A door that a job waits at. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int open;
    atomic_int reached; /* somebody stands before it, or went through */
} gate;

#define GATE_INIT                                                                                                           \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 }

static void gate_open(gate *door) {
    pthread_mutex_lock(&door->lock);
    door->open = 1;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
}

static void *pass_gate(void *argument) {
    gate *door = argument;
    atomic_store(&door->reached, 1);
    pthread_mutex_lock(&door->lock);
    while (!door->open) pthread_cond_wait(&door->changed, &door->lock);
    pthread_mutex_unlock(&door->lock);
    return door;
}

static void *return_arg(void *arg) { return arg; }

/* ---- slots and results -------------------------------------------------------------------------------------------- */

static void init_refuses_no_threads(void **state) {
    (void)state;
    x264_threadpool_t *pool = NULL;
    assert_int_equal(x264_threadpool_init(&pool, 0), -1);
    assert_int_equal(x264_threadpool_init(&pool, -3), -1);
}

static void *add_one(void *number) { return (void *)++*(intptr_t *)number; }

static void results_are_kept_until_asked_for(void **state) {
    (void)state;
    intptr_t kept[JOBS - 1] = {0}, other = 0;
    x264_threadpool_t *pool = pool_of(JOBS);
    for (intptr_t i = 0; i < JOBS - 1; i++) {
        kept[i] = 100 * i;
        x264_threadpool_run(pool, add_one, &kept[i]);
    }
    for (intptr_t i = 1; i <= 1000; i++) { /* the same argument again, through the one slot left */
        x264_threadpool_run(pool, add_one, &other);
        assert_int_equal((intptr_t)x264_threadpool_wait(pool, &other), i);
        assert_int_equal(other, i);
    }
    for (int i = JOBS - 2; i >= 0; i--) {
        assert_int_equal((intptr_t)x264_threadpool_wait(pool, &kept[i]), 100 * i + 1);
        assert_int_equal(kept[i], 100 * i + 1);
    }
    x264_threadpool_delete(pool);
}

/* A thread that calls run or wait, and what it saw. */
typedef struct caller {
    x264_threadpool_t *pool;
    int arg;
    atomic_int thread;    /* its id, once it runs */
    atomic_int *released; /* set by the test just before the call may return */
    int saw_released;     /* ... as seen when it had returned */
    atomic_int returned;
    void *result;
} caller;

static void caller_returned(caller *me) {
    me->saw_released = atomic_load(me->released);
    atomic_store(&me->returned, 1);
}

static void *call_run(void *argument) {
    caller *me = argument;
    atomic_store(&me->thread, thread_id());
    x264_threadpool_run(me->pool, return_arg, &me->arg);
    caller_returned(me);
    return NULL;
}

static void *call_wait(void *argument) {
    caller *me = argument;
    atomic_store(&me->thread, thread_id());
    me->result = x264_threadpool_wait(me->pool, &me->arg);
    caller_returned(me);
    return NULL;
}

static void until_asleep_or_back(caller *them) {
    while (!atomic_load(&them->thread) || (!atomic_load(&them->returned) && !thread_sleeps(atomic_load(&them->thread))))
        sched_yield();
}

static void run_blocks_until_a_job_is_waited_for(void **state) {
    (void)state;
    int args[3];
    atomic_int released = 0;
    pthread_t thread;
    x264_threadpool_t *pool = pool_of(3);
    caller fourth = {.pool = pool, .released = &released};
    for (int i = 0; i < 3; i++) /* they finish at once, but only a wait gives the slot back */
        x264_threadpool_run(pool, return_arg, &args[i]);
    assert_int_equal(pthread_create(&thread, NULL, call_run, &fourth), 0);
    until_asleep_or_back(&fourth);
    atomic_store(&released, 1);
    assert_ptr_equal(x264_threadpool_wait(pool, &args[1]), &args[1]);
    pthread_join(thread, NULL);
    assert_true(fourth.saw_released);
    assert_ptr_equal(x264_threadpool_wait(pool, &fourth.arg), &fourth.arg);
    assert_ptr_equal(x264_threadpool_wait(pool, &args[0]), &args[0]);
    assert_ptr_equal(x264_threadpool_wait(pool, &args[2]), &args[2]);
    x264_threadpool_delete(pool);
}

static void wait_may_come_before_run(void **state) {
    (void)state;
    atomic_int released = 0;
    pthread_t thread;
    x264_threadpool_t *pool = pool_of(2);
    caller early = {.pool = pool, .released = &released};
    assert_int_equal(pthread_create(&thread, NULL, call_wait, &early), 0);
    until_asleep_or_back(&early);
    atomic_store(&released, 1);
    x264_threadpool_run(pool, return_arg, &early.arg);
    pthread_join(thread, NULL);
    assert_true(early.saw_released);
    assert_ptr_equal(early.result, &early.arg);
    x264_threadpool_delete(pool);
}

static void a_job_that_cannot_be_queued_fails(void **state) {
    (void)state;
    int arg, status = 0;
    x264_threadpool_t *pool = pool_of(2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) { /* the workers stayed with the parent */
        x264_threadpool_run(pool, return_arg, &arg);
        _exit((intptr_t)x264_threadpool_wait(pool, &arg) == -1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    x264_threadpool_delete(pool);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

static struct {
    atomic_int count;
    void *arg[JOBS];
    pthread_t thread[JOBS];
} started;

static void *note_start(void *arg) {
    int at = atomic_fetch_add(&started.count, 1);
    started.arg[at] = arg;
    started.thread[at] = pthread_self();
    return arg;
}

typedef struct submission {
    x264_threadpool_t *pool;
    int *arg;
} submission;

static void *submit_noted(void *argument) {
    submission *one = argument;
    x264_threadpool_run(one->pool, note_start, one->arg);
    return NULL;
}

/* Each job is run by a thread of its own, one after the other, while the only worker is busy. */
static void jobs_start_in_order_whoever_runs_them(void **state) {
    (void)state;
    int args[JOBS];
    gate door = GATE_INIT;
    atomic_store(&started.count, 0);
    x264_threadpool_t *pool = pool_on_one_cpu(JOBS + 1);
    x264_threadpool_run(pool, pass_gate, &door);
    for (int i = 0; i < JOBS; i++) {
        submission one = {pool, &args[i]};
        pthread_t thread;
        if (i % 2) {
            assert_int_equal(pthread_create(&thread, NULL, submit_noted, &one), 0);
            pthread_join(thread, NULL);
        } else {
            submit_noted(&one);
        }
    }
    gate_open(&door);
    assert_ptr_equal(x264_threadpool_wait(pool, &door), &door);
    while (atomic_load(&started.count) < JOBS) sched_yield();
    for (int i = JOBS - 1; i >= 0; i--) assert_ptr_equal(x264_threadpool_wait(pool, &args[i]), &args[i]);
    for (int i = 0; i < JOBS; i++) {
        assert_ptr_equal(started.arg[i], &args[i]);
        assert_false(pthread_equal(started.thread[i], pthread_self())); /* run does not run it */
    }
    x264_threadpool_delete(pool);
}

typedef struct opener {
    gate *door;
    pid_t until_sleeps;
} opener;

static void *open_when_asleep(void *argument) {
    opener *me = argument;
    while (!thread_sleeps(me->until_sleeps)) sched_yield();
    gate_open(me->door);
    return NULL;
}

/* The only worker stands at a door that opens after the wait: nobody else can run the job. */
static void a_wait_runs_its_job_when_it_is_next(void **state) {
    (void)state;
    int arg;
    gate door = GATE_INIT;
    atomic_store(&started.count, 0);
    x264_threadpool_t *pool = pool_on_one_cpu(2);
    x264_threadpool_run(pool, pass_gate, &door);
    while (!atomic_load(&door.reached)) sched_yield();
    x264_threadpool_run(pool, note_start, &arg);
    assert_ptr_equal(x264_threadpool_wait(pool, &arg), &arg);
    assert_true(pthread_equal(started.thread[0], pthread_self()));
    gate_open(&door);
    assert_ptr_equal(x264_threadpool_wait(pool, &door), &door);
    x264_threadpool_run(pool, return_arg, &arg); /* what the job left behind does no harm */
    assert_ptr_equal(x264_threadpool_wait(pool, &arg), &arg);
    x264_threadpool_delete(pool);
}

/* As many jobs as workers at most: the worker is about to begin the job, and the caller has other things to do. */
static void a_wait_leaves_its_job_to_a_free_worker(void **state) {
    (void)state;
    int arg;
    x264_threadpool_t *pool = pool_on_one_cpu(1);
    for (int i = 0; i < 200; i++) {
        atomic_store(&started.count, 0);
        x264_threadpool_run(pool, note_start, &arg);
        assert_ptr_equal(x264_threadpool_wait(pool, &arg), &arg);
        assert_false(pthread_equal(started.thread[0], pthread_self()));
    }
    x264_threadpool_delete(pool);
}

static void *run_in_other_pool(void *other) {
    int arg;
    x264_threadpool_run(other, return_arg, &arg);
    return x264_threadpool_wait(other, &arg) == &arg ? other : NULL;
}

/* The two pools share the one worker, on which the wait is: only it can run the job. A hang is the failure. */
static void a_wait_on_a_worker_runs_its_job(void **state) {
    (void)state;
    x264_threadpool_t *pool = pool_on_one_cpu(1), *other = pool_on_one_cpu(1);
    x264_threadpool_run(pool, run_in_other_pool, other);
    assert_ptr_equal(x264_threadpool_wait(pool, other), other);
    x264_threadpool_delete(other);
    x264_threadpool_delete(pool);
}

static void a_wait_runs_no_other_job(void **state) {
    (void)state;
    int args[2];
    gate door = GATE_INIT;
    opener later = {&door, thread_id()};
    pthread_t thread;
    atomic_store(&started.count, 0);
    x264_threadpool_t *pool = pool_on_one_cpu(3);
    x264_threadpool_run(pool, pass_gate, &door);
    while (!atomic_load(&door.reached)) sched_yield();
    x264_threadpool_run(pool, note_start, &args[0]);
    x264_threadpool_run(pool, note_start, &args[1]);
    assert_int_equal(pthread_create(&thread, NULL, open_when_asleep, &later), 0);
    assert_ptr_equal(x264_threadpool_wait(pool, &args[1]), &args[1]);
    pthread_join(thread, NULL);
    assert_ptr_equal(started.arg[0], &args[0]);
    assert_ptr_equal(started.arg[1], &args[1]);
    assert_false(pthread_equal(started.thread[0], pthread_self()));
    x264_threadpool_delete(pool);
}

/* A frame: each of its rows needs the row below of the frame before, as motion search does. */
#define ROWS 5
typedef struct frame {
    struct frame *before;
    pthread_mutex_t lock;
    pthread_cond_t advanced;
    int rows_done;
} frame;

static void frame_await(frame *one, int rows) {
    pthread_mutex_lock(&one->lock);
    while (one->rows_done < rows) pthread_cond_wait(&one->advanced, &one->lock);
    pthread_mutex_unlock(&one->lock);
}

static void *encode_frame(void *argument) {
    frame *me = argument;
    for (int row = 0; row < ROWS; row++) {
        if (me->before) frame_await(me->before, row + 2 < ROWS ? row + 2 : ROWS);
        pthread_mutex_lock(&me->lock);
        me->rows_done = row + 1;
        pthread_cond_broadcast(&me->advanced);
        pthread_mutex_unlock(&me->lock);
    }
    return me;
}

/* As the encoder does: frame k starts, frame k - threads + 1 is waited for. A hang is the failure. */
static void encode(x264_threadpool_t *pool, int threads, int frame_count) {
    frame ring[JOBS];
    for (int k = 0; k < frame_count + threads - 1; k++) {
        int oldest = k - threads + 1;
        if (k < frame_count) {
            frame *one = &ring[k % JOBS];
            pthread_mutex_init(&one->lock, NULL);
            pthread_cond_init(&one->advanced, NULL);
            one->rows_done = 0;
            one->before = k && threads > 1 ? &ring[(k - 1) % JOBS] : NULL;
            x264_threadpool_run(pool, encode_frame, one);
        }
        if (oldest >= 0) {
            frame *one = &ring[oldest % JOBS];
            assert_ptr_equal(x264_threadpool_wait(pool, one), one);
            assert_int_equal(one->rows_done, ROWS);
        }
    }
}

static void blocking_jobs_never_hang(void **state) {
    (void)state;
    for (int threads = 1; threads < JOBS; threads++) {
        x264_threadpool_t *pool = pool_of(threads);
        encode(pool, threads, 200);
        x264_threadpool_delete(pool);
    }
}

static void blocking_jobs_never_hang_with_one_worker(void **state) {
    (void)state;
    for (int threads = 1; threads < JOBS; threads++) {
        x264_threadpool_t *pool = pool_on_one_cpu(threads);
        encode(pool, threads, 200);
        x264_threadpool_delete(pool);
    }
}

/* ---- delete ------------------------------------------------------------------------------------------------------- */

static void delete_drops_what_has_not_started(void **state) {
    (void)state;
    int args[3];
    gate door = GATE_INIT;
    opener later = {&door, thread_id()};
    pthread_t thread;
    atomic_store(&started.count, 0);
    x264_threadpool_t *pool = pool_on_one_cpu(JOBS);
    x264_threadpool_run(pool, pass_gate, &door);
    while (!atomic_load(&door.reached)) sched_yield();
    for (int i = 0; i < 3; i++) x264_threadpool_run(pool, note_start, &args[i]);
    assert_int_equal(pthread_create(&thread, NULL, open_when_asleep, &later), 0);
    x264_threadpool_delete(pool); /* sleeps until the worker is through the door */
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&started.count), 0);
}

static void delete_takes_finished_jobs_nobody_waited_for(void **state) {
    (void)state;
    int args[JOBS];
    for (int round = 0; round < 50; round++) {
        x264_threadpool_t *pool = pool_of(JOBS);
        for (int i = 0; i < JOBS; i++) x264_threadpool_run(pool, return_arg, &args[i]);
        assert_ptr_equal(x264_threadpool_wait(pool, &args[round % JOBS]), &args[round % JOBS]);
        x264_threadpool_delete(pool);
    }
}

/* ---- the stack ---------------------------------------------------------------------------------------------------- */

/* Runs a job that counts itself as started on a worker: the wait finds it started. */
static intptr_t result_on_worker(void *(*func)(void *), void *arg) {
    x264_threadpool_t *pool = pool_of(2);
    atomic_store(&started.count, 0);
    x264_threadpool_run(pool, func, arg);
    while (!atomic_load(&started.count)) sched_yield();
    intptr_t result = (intptr_t)x264_threadpool_wait(pool, arg);
    x264_threadpool_delete(pool);
    return result;
}

/* Where a variable that the compiler places by the stack alignment it was told of really lies. */
static void *misalignment(void *arg) {
    (void)arg;
    atomic_fetch_add(&started.count, 1);
    char local[64] __attribute__((aligned(64)));
    uintptr_t address = (uintptr_t)local;
    __asm__ volatile("" : "+r"(address) : : "memory"); /* so that it is not taken as known */
    return (void *)(address % 64);
}

static void the_stack_is_aligned_as_x264_assumes(void **state) {
    (void)state;
#if !defined(X264_STACK_ALIGNMENT)
    print_message("skipped: no compiler flag here makes code trust a 64-byte aligned stack\n");
    skip();
#else
    int arg;
    assert_int_equal(result_on_worker(misalignment, &arg), 0);
#endif
}

#define STACK_NEED_BYTES (160 << 10)

static void *use_stack(void *arg) {
    unsigned char block[STACK_NEED_BYTES];
    atomic_fetch_add(&started.count, 1);
    memset(block, *(int *)arg, sizeof block);
    __asm__ volatile("" : : "r"(block) : "memory");
    return (void *)(intptr_t)(block[0] + block[sizeof block - 1]);
}

static void the_stack_does_not_depend_on_the_default(void **state) {
    (void)state;
    int arg = 21;
    pthread_attr_t before, small;
    size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN); /* more than half of what is needed on some machines */
    size_t size = least > STACK_NEED_BYTES / 2 ? least : STACK_NEED_BYTES / 2;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_true(size < STACK_NEED_BYTES);
    assert_int_equal(pthread_attr_setstacksize(&small, size), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    assert_int_equal(result_on_worker(use_stack, &arg), 42);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&before);
}

/* As x264's own pool, which does not begin with fewer. */
static void init_fails_if_a_thread_is_missing(void **state) {
    (void)state;
    for (int left = 0; left <= 3 && !IS_SHARED; left++) {
        x264_threadpool_t *pool = NULL;
        threads_left = left;
        assert_int_equal(x264_threadpool_init(&pool, 4), -1);
        assert_null(pool);
    }
    threads_left = -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_refuses_no_threads),
        cmocka_unit_test(results_are_kept_until_asked_for),
        cmocka_unit_test(run_blocks_until_a_job_is_waited_for),
        cmocka_unit_test(wait_may_come_before_run),
        cmocka_unit_test(a_job_that_cannot_be_queued_fails),
        cmocka_unit_test(a_wait_leaves_its_job_to_a_free_worker),
        cmocka_unit_test(a_wait_on_a_worker_runs_its_job),
        cmocka_unit_test(blocking_jobs_never_hang),
        cmocka_unit_test(blocking_jobs_never_hang_with_one_worker),
        cmocka_unit_test(delete_takes_finished_jobs_nobody_waited_for),
        cmocka_unit_test(the_stack_is_aligned_as_x264_assumes),
        cmocka_unit_test(the_stack_does_not_depend_on_the_default),
        cmocka_unit_test(init_fails_if_a_thread_is_missing),
    };
    /* Of a pool's own threads there are as many as jobs: these wait for no worker. */
    const struct CMUnitTest queues[] = {
        cmocka_unit_test(jobs_start_in_order_whoever_runs_them),
        cmocka_unit_test(a_wait_runs_its_job_when_it_is_next),
        cmocka_unit_test(a_wait_runs_no_other_job),
        cmocka_unit_test(delete_drops_what_has_not_started),
    };
    int failed = cmocka_run_group_tests_name("x264 adapter", tests, NULL, NULL);
    if (IS_SHARED) failed += cmocka_run_group_tests_name("x264 adapter, fewer workers than jobs", queues, NULL, NULL);
    return failed;
}
