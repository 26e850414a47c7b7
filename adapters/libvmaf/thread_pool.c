/* libvmaf's thread pool on weft: stands in for src/thread_pool.c of libvmaf's tree and is compiled there.
 *
 * What libvmaf relies on, and how it is kept:
 *  - The data is copied. It lies in the task itself up to some 2000 bytes, more than any job of libvmaf's has.
 *  - Data NULL gives the job NULL; data that is not NULL gives a pointer that is not, also with size 0.
 *  - Jobs start in the order in which one thread enqueued them, and run on the pool's threads alone: the enqueuer may block.
 *  - thread_data is one pointer for each thread and pool, NULL at first, freed in destroy after the last job (at once where more
 *    threads from outside run jobs than there are places for).
 *  - Destroy without wait drops what has not started. See thread_pool_weft.h for the choice.
 * Beyond that, several threads may wait; a wait or destroy in a job of the pool returns -EDEADLK; enqueue after destroy
 * has begun returns -ECANCELED.
 *
 * -DWEFT_VMAF_BOUNDED: enqueue blocks while n_threads jobs wait to start, as upstream's does; but no thread that could run them.
 * -DWEFT_VIEW_OWN_THREADS: threads of its own instead of the process's (view.h). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "thread_pool.h"
#include "thread_pool_weft.h"
#include "view.h"

#ifdef WEFT_VMAF_BOUNDED
#define QUEUE_MAX(threads) (threads)
#else
#define QUEUE_MAX(threads) 0
#endif

struct VmafThreadPool {
    view view;
    VmafThreadPoolOptions options;
    void (*data_free)(void *thread_data);
    atomic_bool ends;
    pthread_mutex_t lock; /* for a bounded queue */
    pthread_cond_t room;
    unsigned queued; /* jobs that wait to start, counted when bounded; guarded by lock */
};

/* A task's payload: this, and the data behind it unless that is too large. */
typedef struct pool_job {
    VmafThreadPool *pool;
    void (*func)(void *data, void **thread_data);
    void *heap; /* data too large for a task, or NULL */
    size_t has_data;
} pool_job;

_Static_assert(sizeof(pool_job) % 16 == 0, "the data behind it is aligned as malloc's would be");
#define DATA_MAX (WEFT_INLINE_MAX - sizeof(pool_job))

static _Thread_local const VmafThreadPool *running; /* the pool whose job this thread runs */

/* ---- the bound ---------------------------------------------------------------------------------------------------- */

static int queue_enter(VmafThreadPool *pool) {
    if (pool->options.queue_max == 0) return 0;
    const weft_worker *self = weft_worker_here();
    int is_needed = running == pool || (self != NULL && weft_worker_pool(self) == pool->view.pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->queued >= pool->options.queue_max && !is_needed && !atomic_load(&pool->ends))
        pthread_cond_wait(&pool->room, &pool->lock);
    int error = atomic_load(&pool->ends) ? -ECANCELED : 0;
    if (error == 0) pool->queued++;
    pthread_mutex_unlock(&pool->lock);
    return error;
}

static void queue_leave(VmafThreadPool *pool) {
    if (pool->options.queue_max == 0) return;
    pthread_mutex_lock(&pool->lock);
    pool->queued--;
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_signal(&pool->room);
}

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

static int run_job(void *payload, weft_worker *self) {
    pool_job *job = payload;
    VmafThreadPool *pool = job->pool;
    void *data = job->heap != NULL ? job->heap : job->has_data ? job + 1 : NULL;
    queue_leave(pool);
    if (!atomic_load(&pool->ends) || pool->options.destroy_runs) {
        const VmafThreadPool *outer = running;
        void *brief = NULL, **own = view_data(&pool->view, self);
        running = pool;
        job->func(data, own != NULL ? own : &brief);
        running = outer;
        if (brief != NULL && pool->data_free != NULL) pool->data_free(brief);
    } else if (pool->options.drop != NULL) {
        pool->options.drop(data);
    }
    free(job->heap);
    return 0;
}

/* ---- libvmaf's four functions, and the options --------------------------------------------------------------------- */

int vmaf_thread_pool_create(VmafThreadPool **pool, VmafThreadPoolConfig cfg) {
    if (pool == NULL || cfg.n_threads == 0) return -EINVAL;
    VmafThreadPool *made = calloc(1, sizeof *made);
    if (made == NULL) return -ENOMEM;
    int error = view_open(&made->view, cfg.n_threads, "vmaf");
    if (error != 0) {
        free(made);
        return error;
    }
    made->options.queue_max = QUEUE_MAX(cfg.n_threads);
    made->data_free = cfg.thread_data_free;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->room, NULL);
    *pool = made;
    return 0;
}

int vmaf_thread_pool_options(VmafThreadPool *pool, const VmafThreadPoolOptions *options) {
    if (pool == NULL || options == NULL) return -EINVAL;
    pool->options = *options;
    return 0;
}

/* The job with its data behind it, in a buffer of WEFT_INLINE_MAX bytes; the size of both, or 0 when there is no memory. */
static size_t job_write(pool_job *job, const void *data, size_t size) {
    job->has_data = data != NULL;
    job->heap = NULL;
    if (data == NULL) return sizeof *job;
    if (size <= DATA_MAX) {
        memcpy(job + 1, data, size);
        /* One byte more, so that a pointer to no data is one into the task. */
        return sizeof *job + (size > 0 ? size : 1);
    }
    job->heap = malloc(size);
    if (job->heap == NULL) return 0;
    memcpy(job->heap, data, size);
    return sizeof *job;
}

int vmaf_thread_pool_enqueue(VmafThreadPool *pool, void (*func)(void *data, void **thread_data), void *data,
                             size_t data_sz) {
    if (pool == NULL || func == NULL) return -EINVAL;
    if (atomic_load(&pool->ends) && running != pool) return -ECANCELED;
    union {
        pool_job job;
        _Alignas(16) unsigned char bytes[WEFT_INLINE_MAX];
    } buffer;
    buffer.job.pool = pool;
    buffer.job.func = func;
    size_t size = job_write(&buffer.job, data, data_sz);
    if (size == 0) return -ENOMEM;
    int error = queue_enter(pool);
    if (error == 0) {
        error = view_submit(&pool->view, run_job, &buffer, size);
        if (error != 0) queue_leave(pool);
    }
    if (error != 0) free(buffer.job.heap);
    return error;
}

int vmaf_thread_pool_wait(VmafThreadPool *pool) { return pool == NULL ? -EINVAL : view_wait(&pool->view); }

int vmaf_thread_pool_destroy(VmafThreadPool *pool) {
    if (pool == NULL) return -EINVAL;
    if (running == pool) return -EDEADLK;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->ends, 1);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_broadcast(&pool->room);
    int error = view_close(&pool->view, pool->data_free);
    if (error != 0) {
        atomic_store(&pool->ends, 0);
        return error;
    }
    pthread_cond_destroy(&pool->room);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
    return 0;
}
