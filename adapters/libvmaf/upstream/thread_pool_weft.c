/*
 * The thread pool on weft, for builds with -Denable_weft=true; other builds use thread_pool.c.
 *
 * Job data lies in weft's own queue; up to WEFT_INLINE_MAX bytes it needs no allocation. At most as many jobs wait to start
 * as there are threads; vmaf_thread_pool_enqueue() blocks for a place, except in a job of this pool, where it would wait for
 * itself: there the new job runs at once.
 *
 * While a job sleeps in a call of another pool, weft lets another thread stand in for its own. That thread waits here for its
 * turn, so that no more jobs run at once than there are threads. Then two neighbours may start in the other order.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weft.h>

#include "thread_pool.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

typedef void (*VmafJobFunc)(void *data, void **thread_data);

/* Lies in the queue, with a copy of the job's data behind it. */
typedef struct VmafThreadPoolJob {
    VmafThreadPool *pool;
    VmafJobFunc func;
    bool has_data;
} VmafThreadPoolJob;

#define JOB_SIZE ((sizeof(VmafThreadPoolJob) + 15) & ~(size_t) 15)

struct VmafThreadPool {
    weft_pool *weft;
    weft_group jobs;
    atomic_bool stop;
    unsigned n_threads;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t turn;
    unsigned n_working;
    unsigned long n_came, n_started;
};

/* The pool whose job this thread runs. */
static _Thread_local const VmafThreadPool *running;

static int vmaf_error(int weft_error)
{
    switch (weft_error) {
    case WEFT_OK: return 0;
    case WEFT_ENOMEM: return -ENOMEM;
    case WEFT_EAGAIN: return -EAGAIN;
    case WEFT_EDEADLK: return -EDEADLK;
    case WEFT_ESHUTDOWN: return -ECANCELED;
    default: return -EINVAL;
    }
}

static void job_begin(VmafThreadPool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const unsigned long number = pool->n_came++;
    while (number != pool->n_started || pool->n_working == pool->n_threads)
        pthread_cond_wait(&pool->turn, &pool->lock);
    pool->n_started++;
    pool->n_working++;
    if (pool->n_came != pool->n_started) pthread_cond_broadcast(&pool->turn);
    pthread_mutex_unlock(&pool->lock);
}

static void job_end(VmafThreadPool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->n_working--;
    if (pool->n_came != pool->n_started) pthread_cond_broadcast(&pool->turn);
    pthread_mutex_unlock(&pool->lock);
}

static int vmaf_thread_pool_run(void *payload, weft_worker *self)
{
    const VmafThreadPoolJob *job = payload;
    VmafThreadPool *const pool = job->pool;
    void *data = job->has_data ? (char *) payload + JOB_SIZE : NULL;
    const VmafThreadPool *const outer = running;

    /* A job that a full queue makes run inside another takes the other's turn. */
    if (outer != pool) job_begin(pool);
    running = pool;
    if (!atomic_load(&pool->stop) || outer == pool)
        job->func(data, weft_worker_data(self));
    running = outer;
    if (outer != pool) job_end(pool);
    return 0;
}

static void vmaf_thread_pool_free(VmafThreadPool *pool)
{
    pthread_cond_destroy(&pool->turn);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

int vmaf_thread_pool_create(VmafThreadPool **pool, VmafThreadPoolConfig cfg)
{
    if (!pool) return -EINVAL;
    if (!cfg.n_threads) return -EINVAL;

    VmafThreadPool *const p = *pool = calloc(1, sizeof(*p));
    if (!p) return -ENOMEM;

    weft_config config;
    weft_config_init(&config);
    config.workers = MIN(cfg.n_threads, WEFT_WORKERS_MAX);
    config.name = "vmaf";
    config.queue_max = cfg.n_threads;
    config.full = WEFT_FULL_BLOCK;
    config.flags = WEFT_POOL_NO_HELP;
    config.data_free = cfg.thread_data_free;

    p->n_threads = config.workers;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->turn, NULL);
    const int err = weft_pool_create(&p->weft, &config);
    if (err) {
        vmaf_thread_pool_free(p);
        *pool = NULL;
    }
    return vmaf_error(err);
}

int vmaf_thread_pool_enqueue(VmafThreadPool *pool,
                             void (*func)(void *data, void **thread_data),
                             void *data, size_t data_sz)
{
    if (!pool) return -EINVAL;
    if (!func) return -EINVAL;
    if (atomic_load(&pool->stop)) return -ECANCELED;
    if (data_sz > WEFT_PAYLOAD_MAX - JOB_SIZE) return -ENOMEM;

    unsigned char small[WEFT_INLINE_MAX];
    /* One byte more, so that a pointer to empty data is not NULL. */
    const size_t size = JOB_SIZE + (data ? data_sz + !data_sz : 0);
    unsigned char *const payload = size <= sizeof(small) ? small : malloc(size);
    if (!payload) return -ENOMEM;

    const VmafThreadPoolJob job = { .pool = pool, .func = func, .has_data = data != NULL };
    memcpy(payload, &job, sizeof(job));
    if (data) memcpy(payload + JOB_SIZE, data, data_sz);

    const int err =
        weft_submit(pool->weft, &pool->jobs, vmaf_thread_pool_run, payload, size);
    if (payload != small) free(payload);
    return vmaf_error(err);
}

int vmaf_thread_pool_wait(VmafThreadPool *pool)
{
    if (!pool) return -EINVAL;

    return vmaf_error(weft_group_wait_until(pool->weft, &pool->jobs, WEFT_HELP_NONE, 0));
}

int vmaf_thread_pool_destroy(VmafThreadPool *pool)
{
    if (!pool) return -EINVAL;

    if (running == pool) return -EDEADLK;

    /* Jobs that have not started never do. Jobs that run may still call enqueue, which needs pool->weft. */
    weft_pool *weft = pool->weft;
    atomic_store(&pool->stop, true);
    const int err = weft_pool_abort(&weft, NULL, NULL);
    if (!err) vmaf_thread_pool_free(pool);
    else atomic_store(&pool->stop, false);
    return vmaf_error(err);
}
