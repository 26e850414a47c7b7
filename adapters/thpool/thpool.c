/* C-Thread-Pool on weft: stands in for thpool.c, behind the host's own thpool.h.
 *
 * What a host relies on, and how it is kept:
 *  - thpool_add_work copies function and argument, returns 0, or -1 and nothing is queued.
 *  - thpool_wait returns when nothing is queued and nothing runs; jobs may add jobs, and several threads may wait.
 *  - thpool_pause holds every job that has not started, thpool_resume lets them go, in their order. Jobs that run when it is called
 *    run on (the original stops their threads in a signal handler, wherever they are, locks held or not).
 *  - thpool_destroy lets what runs finish and drops what has not started. It returns as soon as the last job has (the
 *    original polls its idle threads for a second).
 *  - thpool_num_threads_working counts the threads inside a job.
 * A wait or destroy in a job of the pool, for which the original never returns, returns at once and does nothing. A pool
 * of no threads gets one. -DWEFT_VIEW_OWN_THREADS: threads of its own instead of the process's (view.h). */
#if __has_include(<cthreadpool/thpool.h>)
#include <cthreadpool/thpool.h>
#else
#include "thpool.h"
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "view.h"

typedef struct job {
    struct thpool_ *pool;
    void (*function)(void *);
    void *argument;
    struct job *next; /* of those held back */
} job;

struct thpool_ {
    view view;
    atomic_int working;
    atomic_bool holds; /* paused or ended: a job that starts must ask; changed under lock */
    pthread_mutex_t lock;
    pthread_cond_t resumed;
    bool is_paused, ends;
    unsigned resumes; /* how often jobs held back went back into the queue */
    job *held, **held_end;
};

static _Thread_local const struct thpool_ *running; /* the pool whose job this thread runs */

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

/* With the lock held: puts the job behind those held back. false: no memory. */
static bool held_push(struct thpool_ *pool, const job *wish) {
    job *kept = malloc(sizeof *kept);
    if (kept == NULL) return false;
    *kept = *wish;
    kept->next = NULL;
    *pool->held_end = kept;
    pool->held_end = &kept->next;
    return true;
}

/* With the lock held: takes the oldest job held back, if there is one. */
static bool held_pop(struct thpool_ *pool, job *taken) {
    job *oldest = pool->held;
    if (oldest == NULL) return false;
    pool->held = oldest->next;
    if (pool->held == NULL) pool->held_end = &pool->held;
    *taken = *oldest;
    free(oldest);
    return true;
}

/* Replaces the job that has come to a worker by the one to run now. After a pause that is the oldest held back, and the job
 * itself goes behind the others; a permit (function NULL) came for one of them. false: nothing to run now. */
static bool job_choose(struct thpool_ *pool, job *mine) {
    bool is_held = false;
    pthread_mutex_lock(&pool->lock);
    while (pool->is_paused && !pool->ends && !(is_held = mine->function == NULL || held_push(pool, mine)))
        pthread_cond_wait(&pool->resumed, &pool->lock); /* no memory: its thread is held too */
    if (!is_held && pool->held != NULL && (mine->function == NULL || held_push(pool, mine))) held_pop(pool, mine);
    if (!pool->is_paused && !pool->ends && pool->held == NULL) atomic_store(&pool->holds, false);
    bool may = !is_held && !pool->ends && mine->function != NULL;
    pthread_mutex_unlock(&pool->lock);
    return may;
}

static int run_job(void *payload, weft_worker *self) {
    job *mine = payload;
    struct thpool_ *pool = mine->pool;
    (void)self;
    if (atomic_load(&pool->holds) && !job_choose(pool, mine)) return 0;
    if (mine->function == NULL) return 0; /* its job has run already */
    const struct thpool_ *outer = running;
    running = pool;
    atomic_fetch_add(&pool->working, 1);
    mine->function(mine->argument);
    atomic_fetch_sub(&pool->working, 1);
    running = outer;
    return 0;
}

/* ---- the host's seven functions ----------------------------------------------------------------------------------- */

struct thpool_ *thpool_init(int num_threads) {
    struct thpool_ *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    if (view_open(&pool->view, num_threads > 0 ? (unsigned)num_threads : 1, "thread-pool") != 0) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->resumed, NULL);
    pool->held_end = &pool->held;
    return pool;
}

int thpool_add_work(struct thpool_ *pool, void (*function_p)(void *), void *arg_p) {
    if (pool == NULL || function_p == NULL) return -1;
    const job wish = {.pool = pool, .function = function_p, .argument = arg_p};
    return view_submit(&pool->view, run_job, &wish, sizeof wish) == 0 ? 0 : -1;
}

void thpool_wait(struct thpool_ *pool) {
    if (pool == NULL || running == pool) return;
    bool is_done = false;
    pthread_mutex_lock(&pool->lock);
    while (!is_done) {
        unsigned resumes = pool->resumes;
        pthread_mutex_unlock(&pool->lock);
        view_wait(&pool->view);
        pthread_mutex_lock(&pool->lock);
        (void)view_sleep_begin();
        while (pool->held != NULL && pool->is_paused && !pool->ends) pthread_cond_wait(&pool->resumed, &pool->lock);
        view_sleep_end();
        is_done = pool->held == NULL && resumes == pool->resumes && atomic_load(&pool->working) == 0;
    }
    pthread_mutex_unlock(&pool->lock);
}

void thpool_pause(struct thpool_ *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->is_paused = true;
    atomic_store(&pool->holds, true);
    pthread_mutex_unlock(&pool->lock);
}

void thpool_resume(struct thpool_ *pool) {
    if (pool == NULL) return;
    job permit = {.pool = pool};
    int failed = 0;
    pthread_mutex_lock(&pool->lock);
    pool->is_paused = false;
    pool->resumes += pool->held != NULL;
    for (const job *each = pool->held; each != NULL; each = each->next)
        failed += view_submit(&pool->view, run_job, &permit, sizeof permit) != 0;
    pthread_cond_broadcast(&pool->resumed);
    pthread_mutex_unlock(&pool->lock);
    for (; failed > 0; failed--) run_job(&permit, NULL); /* no memory for so many: the rest runs here */
}

int thpool_num_threads_working(struct thpool_ *pool) { return pool == NULL ? 0 : atomic_load(&pool->working); }

void thpool_destroy(struct thpool_ *pool) {
    if (pool == NULL || running == pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->ends = true;
    atomic_store(&pool->holds, true);
    pthread_cond_broadcast(&pool->resumed);
    pthread_mutex_unlock(&pool->lock);
    if (view_close(&pool->view, NULL) != 0) { /* a job of the pool waits for the caller: as from one of its own */
        pthread_mutex_lock(&pool->lock);
        pool->ends = false;
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    for (job dropped; held_pop(pool, &dropped);) {}
    pthread_cond_destroy(&pool->resumed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
