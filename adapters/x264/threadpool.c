/* x264's thread pool on weft: stands in for common/threadpool.c of x264's tree and is compiled there, with x264's flags.
 *
 * What x264 relies on, and how it is kept:
 *  - Jobs start in the order of x264_threadpool_run, whichever threads called it, because a job blocks on earlier ones. So a
 *    weft task is only a permit to run the oldest job that has not started; the order lives in the pool's own queue. With
 *    that order a blocked job always has its predecessors running or finished, and any number of workers is enough. A pool
 *    has as many workers of its own as it asks for (workers_open); if the system starts fewer, init fails. With -DWEFT_VIEW_SHARED the main pool and the lookahead
 *    pool are views of the process's pool (view.h).
 *  - Run never runs the job itself. Wait does, if the job is the next to start, but only where a pool has more jobs than
 *    threads to run them. Otherwise a worker is about to take it, and the caller soon has other work, which would have to
 *    wait for a whole frame. On one of weft's workers, wait always does.
 *  - There are `threads` job slots. Run takes a slot, and blocks until there is one; wait gives it back, not completion.
 *  - A job keeps its result until a thread waits for its argument, however long after.
 *  - Delete drops the jobs that have not started, and results that nobody waited for.
 *  - Jobs of frame threads block on each other's rows. They do not announce it (weft_block_begin): the oldest frame, for
 *    which all others wait, would share its CPU with what a spare starts meanwhile (docs/hosts/x264.md has the figures).
 *  - x264's code assumes a stack aligned as its own compiler flags say: run_oldest realigns it.
 *
 * Every field is guarded by `lock`, except the function, argument and result of a job, which belong to the thread that moved
 * it to JOB_STARTED until that thread moves it to JOB_FINISHED. */
#include "common/common.h"

#include <pthread.h>
#include <stdlib.h>

#include "view.h"

/* What a job that could not be queued returns. x264 takes a negative result for a failed encode. */
#define RESULT_FAILED ((void *)(intptr_t)-1)

enum job_state {
    JOB_FREE,    /* the slot may be taken */
    JOB_QUEUED,  /* in the queue; a permit is on its way */
    JOB_STARTED, /* runs on a worker */
    JOB_FINISHED /* has its result, which no thread has taken yet */
};

typedef struct pool_job {
    void *(*func)(void *);
    void *arg;
    void *result;
    enum job_state state;
    int awaited; /* a thread sleeps on `finished`: the slot is its own */
    pthread_cond_t finished;
    struct pool_job *next; /* the next younger job in the queue */
} pool_job;

struct x264_threadpool_t {
    view workers;
    pthread_mutex_t lock;
    pthread_cond_t slot_freed;
    pthread_cond_t job_added; /* for a wait that comes before its run */
    pool_job *oldest;         /* the queue of JOB_QUEUED */
    pool_job *youngest;
    int slots;
    int is_crowded; /* more slots than workers */
    pool_job job[];
};

/* ---- the queue: call with the lock held --------------------------------------------------------------------------- */

static void queue_push(x264_threadpool_t *pool, pool_job *job) {
    job->next = NULL;
    if (pool->oldest)
        pool->youngest->next = job;
    else
        pool->oldest = job;
    pool->youngest = job;
}

static pool_job *queue_pop(x264_threadpool_t *pool) {
    pool_job *job = pool->oldest;
    pool->oldest = job->next;
    return job;
}

static pool_job *queue_pop_youngest(x264_threadpool_t *pool) {
    pool_job *job = pool->oldest, *before = NULL;
    while (job->next) {
        before = job;
        job = job->next;
    }
    if (before)
        before->next = NULL;
    else
        pool->oldest = NULL;
    pool->youngest = before;
    return job;
}

/* Returns nonzero if a thread waits for the job. Then signal job->finished after giving up the lock; otherwise the woken
 * thread may at once sleep again for the lock. */
static int job_finish(pool_job *job, void *result) {
    job->result = result;
    job->state = JOB_FINISHED;
    return job->awaited;
}

/* Runs the oldest job on this thread, with the lock given up meanwhile. Returns what job_finish does. */
static int job_run(x264_threadpool_t *pool) {
    pool_job *job = queue_pop(pool);
    job->state = JOB_STARTED;
    pthread_mutex_unlock(&pool->lock);
    void *result = job->func(job->arg);
    pthread_mutex_lock(&pool->lock);
    return job_finish(job, result);
}

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

/* A weft task: a permit. If a wait has run a job, one permit finds no work. */
REALIGN_STACK static int run_oldest(void *payload, weft_worker *self) {
    (void)self;
    x264_threadpool_t *pool = *(x264_threadpool_t **)payload;
    pthread_mutex_lock(&pool->lock);
    pool_job *job = pool->oldest;
    int awaited = job && job_run(pool);
    pthread_mutex_unlock(&pool->lock);
    if (awaited) pthread_cond_signal(&job->finished);
    return WEFT_OK;
}

/* ---- x264's four functions ---------------------------------------------------------------------------------------- */

static void pool_free(x264_threadpool_t *pool) {
    for (int i = 0; i < pool->slots; i++) pthread_cond_destroy(&pool->job[i].finished);
    pthread_cond_destroy(&pool->job_added);
    pthread_cond_destroy(&pool->slot_freed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* Makes as many threads as x264 asks for, though fewer would be enough: beside other programs, the system gives CPUs to
 * threads, not to encoders. They sleep at once: all CPUs are busy, and when the next job comes, a worker that looks out for
 * it stands behind the others in the system's queue, while one that sleeps is woken ahead of them. Nor do they keep off
 * their waker's CPU: a thread that changes its affinity gives up the CPU. docs/hosts/x264.md has the figures. */
static int workers_open(view *workers, unsigned threads) {
    weft_config config;
    int error = view_open_shared(workers, threads);
    if (error <= 0) return error;
    view_own_threads(&config, threads, "x264");
    config.spin_ns = WEFT_SPIN_NONE; /* this also turns off expecting work */
    config.flags |= WEFT_POOL_NO_PLACING;
    return view_open_with(workers, &config);
}

int x264_threadpool_init(x264_threadpool_t **p_pool, int threads) {
    if (threads <= 0) return -1;
    x264_threadpool_t *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->job[0]);
    if (!pool) return -1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->slot_freed, NULL);
    pthread_cond_init(&pool->job_added, NULL);
    pool->slots = threads;
    for (int i = 0; i < threads; i++) pthread_cond_init(&pool->job[i].finished, NULL);
    if (workers_open(&pool->workers, (unsigned)threads) != 0) {
        pool_free(pool);
        return -1;
    }
    const unsigned started = weft_pool_workers(pool->workers.pool);
    if (started < pool->workers.own) { /* the system refused some: as the original */
        weft_pool_destroy(&pool->workers.pool);
        pool_free(pool);
        return -1;
    }
    pool->is_crowded = threads > (int)started;
    *p_pool = pool;
    return 0;
}

static pool_job *slot_take(x264_threadpool_t *pool) {
    for (;;) {
        for (int i = 0; i < pool->slots; i++)
            if (pool->job[i].state == JOB_FREE) return &pool->job[i];
        pthread_cond_wait(&pool->slot_freed, &pool->lock);
    }
}

void x264_threadpool_run(x264_threadpool_t *pool, void *(*func)(void *), void *arg) {
    pthread_mutex_lock(&pool->lock);
    pool_job *job = slot_take(pool);
    job->func = func;
    job->arg = arg;
    job->state = JOB_QUEUED;
    queue_push(pool, job);
    pthread_cond_broadcast(&pool->job_added);
    pthread_mutex_unlock(&pool->lock);

    /* Outside the lock: otherwise the worker that this wakes would wait for the lock at once. */
    if (view_submit(&pool->workers, run_oldest, &pool, sizeof pool) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pool_job *failed = pool->oldest ? queue_pop_youngest(pool) : NULL;
    if (failed && job_finish(failed, RESULT_FAILED)) pthread_cond_signal(&failed->finished);
    pthread_mutex_unlock(&pool->lock);
}

/* A job with this argument that no thread waits for, preferably a finished one; or NULL. */
static pool_job *job_find(x264_threadpool_t *pool, void *arg) {
    pool_job *found = NULL;
    for (int i = 0; i < pool->slots; i++) {
        pool_job *job = &pool->job[i];
        if (job->state == JOB_FREE || job->awaited || job->arg != arg) continue;
        if (job->state == JOB_FINISHED) return job;
        found = job;
    }
    return found;
}

void *x264_threadpool_wait(x264_threadpool_t *pool, void *arg) {
    pool_job *job;
    pthread_mutex_lock(&pool->lock);
    while (!(job = job_find(pool, arg))) pthread_cond_wait(&pool->job_added, &pool->lock);
    job->awaited = 1;
    if (job == pool->oldest && (pool->is_crowded || weft_worker_here())) job_run(pool);
    while (job->state != JOB_FINISHED) pthread_cond_wait(&job->finished, &pool->lock);
    void *result = job->result;
    job->awaited = 0;
    job->state = JOB_FREE;
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_signal(&pool->slot_freed);
    return result;
}

void x264_threadpool_delete(x264_threadpool_t *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->oldest = NULL; /* the permits of these jobs find nothing */
    pthread_mutex_unlock(&pool->lock);
    if (view_close_in_time(&pool->workers) == 0) pool_free(pool); /* otherwise its jobs may still come */
}
