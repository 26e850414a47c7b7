/* OpenAirInterface's task manager on weft; task_manager.h says what each function promises.
 *
 * Tasks are copied into weft's own queue: no lock, no allocation, nobody asleep on a queue of its own. A manager with
 * pinned threads has threads of its own; others share the process's (view.h). Answers are futex words: a join sleeps at
 * once after a short look, and the task that completes the last one wakes it. A join in a task of weft's has another
 * thread stand in; when there is none left, it runs tasks of the manager that its thread has used last. */
#define _GNU_SOURCE
#include "task_manager.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../shelf.h"
#include "pin.h"

struct task_manager_pool {
    shelf_view shelf; /* first: a task's home is its manager */
    void (*clean)(task_t *task);
    int *core_id; /* by worker index, or NULL */
    size_t cores;
    struct task_manager_pool *next; /* under managers.lock */
    unsigned helpers;               /* too: joins that run its tasks */
};

typedef struct queued_task {
    shelf_job head;
    task_t task;
} queued_task;

static _Thread_local const struct task_manager_pool *running; /* the manager whose task this thread runs */
static _Thread_local const struct task_manager_pool *used;    /* the one that it gave a task last; it may be gone */

static void run_now(struct task_manager_pool *pool, task_t task) {
    const struct task_manager_pool *outer = running;
    running = pool;
    task.func(task.args);
    running = outer;
}

static void run_task(shelf_job *head, weft_worker *self) {
    queued_task *queued = (queued_task *)head;
    struct task_manager_pool *pool = (struct task_manager_pool *)head->home;
    (void)self;
    if (atomic_load(&pool->shelf.stage) != SHELF_ENDED)
        run_now(pool, queued->task);
    else if (pool->clean != NULL)
        pool->clean(&queued->task);
}

/* ---- those that there are ----------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left; /* a helper has */
    struct task_manager_pool *first;
} managers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void managers_add(struct task_manager_pool *pool) {
    pthread_mutex_lock(&managers.lock);
    pool->next = managers.first;
    managers.first = pool;
    pthread_mutex_unlock(&managers.lock);
}

/* Until nobody helps it any more. */
static void managers_remove(struct task_manager_pool *pool) {
    pthread_mutex_lock(&managers.lock);
    struct task_manager_pool **link = &managers.first;
    while (*link != pool) link = &(*link)->next;
    *link = pool->next;
    while (pool->helpers > 0) pthread_cond_wait(&managers.left, &managers.lock);
    pthread_mutex_unlock(&managers.lock);
}

static uint64_t soon_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + 1000000u;
}

/* Runs tasks of the manager that this thread has used last, for about a millisecond. false: it has none, or is gone, or
 * the caller is one of them. */
static bool managers_help(void) {
    pthread_mutex_lock(&managers.lock);
    struct task_manager_pool *pool = managers.first;
    while (pool != NULL && pool != used) pool = pool->next;
    if (pool != NULL) pool->helpers++;
    pthread_mutex_unlock(&managers.lock);
    if (pool == NULL) return false;
    int error = weft_wait_until(pool->shelf.view.pool, &pool->shelf.view.group, WEFT_HELP_BELOW, soon_ns());
    pthread_mutex_lock(&managers.lock);
    if (--pool->helpers == 0) pthread_cond_broadcast(&managers.left);
    pthread_mutex_unlock(&managers.lock);
    return error == WEFT_ETIMEDOUT;
}

/* ---- the manager -------------------------------------------------------------------------------------------------- */

/* On each worker before its first task; spares stay where they are. */
static void pin(weft_worker *self, void *context) {
    const struct task_manager_pool *pool = context;
    size_t index = weft_worker_index(self);
    if (index < pool->cores) pin_self(pool->core_id[index]);
}

static int open_pinned(struct task_manager_pool *pool, const int *core_id, size_t count) {
    pool->core_id = malloc(count * sizeof *core_id);
    if (pool->core_id == NULL) return -ENOMEM;
    for (size_t i = 0; i < count; i++) pool->core_id[i] = core_id[i];
    pool->cores = count;
    weft_config config;
    weft_config_init(&config);
    config.workers = (uint32_t)count;
    config.name = "Tpool";
    config.stack_size = VIEW_STACK_BYTES;
    config.flags = WEFT_NO_HELP;
    config.start = pin;
    config.context = pool;
    return view_open_with(&pool->shelf.view, &config);
}

static bool is_pinned(const int *core_id, size_t count) {
    for (size_t i = 0; core_id != NULL && i < count; i++)
        if (core_id[i] >= 0) return true;
    return false;
}

int init_task_manager_cores(task_manager_t *man, const int *core_id, size_t num_threads) {
    if (man == NULL) return -EINVAL;
    man->pool = NULL;
    size_t count = num_threads == 0 ? 1 : num_threads < WEFT_WORKERS_MAX ? num_threads : WEFT_WORKERS_MAX;
    struct task_manager_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return -ENOMEM;
    bool pins = num_threads > 0 && is_pinned(core_id, count);
    int error = pins ? open_pinned(pool, core_id, count) : view_open(&pool->shelf.view, (unsigned)count, "Tpool");
    if (error == 0) {
        shelf_furnish(&pool->shelf, run_task);
        managers_add(pool);
        man->pool = pool;
    } else {
        free(pool->core_id);
        free(pool);
    }
    return error;
}

int init_task_manager_threads(task_manager_t *man, uint32_t num_threads) {
    return init_task_manager_cores(man, NULL, num_threads);
}

void async_task_manager(task_manager_t *man, task_t task) {
    if (man == NULL || man->pool == NULL || task.func == NULL) return;
    queued_task queued = {.task = task};
    used = man->pool;
    if (shelf_submit(&man->pool->shelf, &queued.head, sizeof queued) != 0) run_now(man->pool, task);
}

void wait_all_task_manager(task_manager_t *man) {
    if (man != NULL && man->pool != NULL && man->pool != running) shelf_wait(&man->pool->shelf);
}

void free_task_manager(task_manager_t *man, void (*clean)(task_t *task)) {
    if (man == NULL || man->pool == NULL || man->pool == running) return;
    struct task_manager_pool *pool = man->pool;
    managers_remove(pool);
    pool->clean = clean;
    if (shelf_close(&pool->shelf, true, NULL) !=
        0) { /* a task of the manager waits for the caller: as from one of its own */
        managers_add(pool);
        return;
    }
    man->pool = NULL;
    free(pool->core_id);
    free(pool);
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

#define SLEEPING (UINT32_C(1) << 31)
#define LOOKS 200 /* before a join sleeps: the last task is often about to end */

void init_task_ans(task_ans_t *ans, uint32_t num_jobs) {
    atomic_store_explicit(&ans->done, 0, memory_order_relaxed);
    ans->jobs = num_jobs + 1;
}

static bool is_complete(uint32_t done, uint32_t jobs) { return (done & ~SLEEPING) >= jobs; }
static uint32_t answer_jobs(const task_ans_t *ans) { return ans->jobs == 0 ? 1 : ans->jobs - 1; }

void completed_many_task_ans(task_ans_t *ans, uint32_t num_jobs) {
    const uint32_t jobs = answer_jobs(ans);
    uint32_t before = atomic_fetch_add_explicit(&ans->done, num_jobs, memory_order_acq_rel);
    /* From here on *ans may be gone: its address alone is used. */
    if ((before & SLEEPING) != 0 && is_complete(before + num_jobs, jobs))
        syscall(SYS_futex, &ans->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void completed_task_ans(task_ans_t *ans) { completed_many_task_ans(ans, 1); }

static void join_one(task_ans_t *ans) {
    const uint32_t jobs = answer_jobs(ans);
    uint32_t done = atomic_load_explicit(&ans->done, memory_order_acquire);
    for (int i = 0; i < LOOKS && !is_complete(done, jobs); i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        done = atomic_load_explicit(&ans->done, memory_order_acquire);
    }
    if (is_complete(done, jobs)) return;
    if (!view_sleep_begin()) /* the tasks joined may need this thread */
        while (!is_complete(atomic_load_explicit(&ans->done, memory_order_acquire), jobs) && managers_help()) {}
    done = atomic_load_explicit(&ans->done, memory_order_acquire);
    while (!is_complete(done, jobs)) {
        if ((done & SLEEPING) != 0)
            syscall(SYS_futex, &ans->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
        else if (!atomic_compare_exchange_strong_explicit(&ans->done, &done, done | SLEEPING, memory_order_acquire,
                                                          memory_order_acquire))
            continue;
        done = atomic_load_explicit(&ans->done, memory_order_acquire);
    }
    view_sleep_end();
}

void join_task_ans_array(task_ans_t *ans, size_t len) {
    /* The last task most likely ends last: one sleep, not one for each. */
    for (size_t i = len; i > 0 && ans != NULL; i--) join_one(&ans[i - 1]);
}
