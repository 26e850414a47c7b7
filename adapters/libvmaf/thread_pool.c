/* libvmaf's thread pool on weft: stands in for src/thread_pool.c of libvmaf's tree and is compiled there.
 *
 * What libvmaf relies on, and how it is kept:
 *  - The data is copied. Up to some 2000 bytes, more than any job of libvmaf has, it lies in the task itself.
 *  - Data NULL gives the job NULL; other data gives a pointer that is not NULL, also with size 0.
 *  - Jobs start in the order in which one thread enqueued them, and run only on the pool's threads: the enqueuing thread may
 *    block. Beside a job that waits for another weft pool, two neighbours may change places: a second thread takes jobs then.
 *  - thread_data is one pointer for each thread and pool. It is NULL at first, and freed in destroy after the last job. If
 *    more outside threads run jobs than there are places for, theirs is freed at once.
 *  - Destroy without wait drops the jobs that have not started. thread_pool_weft.h has an option for that.
 *  - No more jobs run at once than the pool has threads, also while one of them waits for another pool.
 *  - Enqueue after destroy has begun returns -ECANCELED, also in a job.
 * Beyond that, several threads may wait; a wait or destroy in a job of the pool returns -EDEADLK. So does a destroy for which
 * a job of the pool waits; enqueue has returned -ECANCELED meanwhile, and then works as before.
 *
 * Enqueue blocks while n_threads jobs wait to start, because each holds its pictures. A thread that could run them does not
 * block: it would wait for itself. With -DWEFT_VMAF_UNBOUNDED there is no bound, unless thread_pool_weft.h's options set
 * one. With -DWEFT_VIEW_SHARED the threads are the process's instead of the pool's own (view.h). */
#include "thread_pool.h"
#include "thread_pool_weft.h"
#define VIEW_HAS_DATA
#include "shelf.h"

#ifdef WEFT_VMAF_UNBOUNDED
#define QUEUE_MAX(threads) 0
#else
#define QUEUE_MAX(threads) (threads)
#endif

struct VmafThreadPool {
    shelf_view shelf; /* first: a job's home is its pool */
    VmafThreadPoolOptions options;
    void (*data_free)(void *thread_data);
    unsigned queued; /* jobs that wait to start, counted only while bounded; guarded by shelf.lock */
};

/* A task's payload: this, with the data behind it unless that is too large. The head's tag says whether there is data. */
typedef struct pool_job {
    shelf_job head;
    void (*func)(void *data, void **thread_data);
    void *heap; /* data too large for a task, or NULL */
} pool_job;

_Static_assert(sizeof(pool_job) % 16 == 0, "the data behind it is aligned as malloc's would be");
#define DATA_MAX (WEFT_INLINE_MAX - sizeof(pool_job))

static _Thread_local const VmafThreadPool *running; /* the pool whose job this thread runs */

/* ---- the bound ---------------------------------------------------------------------------------------------------- */

static bool has_begun_to_end(VmafThreadPool *pool) { return atomic_load(&pool->shelf.stage) != SHELF_OPEN; }

/* Whether enqueue returns -ECANCELED, also in a job, unless destroy runs what jobs add. */
static bool refuses_jobs(VmafThreadPool *pool) {
    return has_begun_to_end(pool) && !(running == pool && pool->options.destroy_runs);
}

static bool queue_is_full(VmafThreadPool *pool) {
    return pool->queued >= pool->options.queue_max && !has_begun_to_end(pool);
}

/* Call it with the lock held. */
static void queue_sleep(VmafThreadPool *pool) {
    pool->shelf.waits++;
    (void)view_sleep_begin();
    while (queue_is_full(pool)) pthread_cond_wait(&pool->shelf.changed, &pool->shelf.lock);
    view_sleep_end();
    shelf_leave(&pool->shelf);
}

static int queue_enter(VmafThreadPool *pool) {
    if (pool->options.queue_max == 0) return 0;
    const weft_worker *self = weft_worker_here();
    int is_needed = running == pool || (self != NULL && weft_worker_pool(self) == pool->shelf.view.pool);
    pthread_mutex_lock(&pool->shelf.lock);
    if (queue_is_full(pool) && !is_needed) queue_sleep(pool);
    int error = refuses_jobs(pool) ? -ECANCELED : 0;
    if (error == 0) pool->queued++;
    pthread_mutex_unlock(&pool->shelf.lock);
    return error;
}

static void queue_leave(VmafThreadPool *pool) {
    if (pool->options.queue_max == 0) return;
    pthread_mutex_lock(&pool->shelf.lock);
    pool->queued--;
    pthread_cond_broadcast(&pool->shelf.changed);
    pthread_mutex_unlock(&pool->shelf.lock);
}

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

static void run_job(shelf_job *head, weft_worker *self) {
    pool_job *job = (pool_job *)head;
    VmafThreadPool *pool = (VmafThreadPool *)head->home;
    void *data = job->heap != NULL ? job->heap : head->tag != 0 ? job + 1 : NULL;
    queue_leave(pool);
    if (atomic_load(&pool->shelf.stage) != SHELF_ENDED || pool->options.destroy_runs) {
        const VmafThreadPool *outer = running;
        void *brief = NULL, **own = view_data(&pool->shelf.view, self);
        running = pool;
        job->func(data, own != NULL ? own : &brief);
        running = outer;
        if (brief != NULL && pool->data_free != NULL) pool->data_free(brief);
    } else if (pool->options.drop != NULL) {
        pool->options.drop(data);
    }
    free(job->heap);
}

/* ---- libvmaf's four functions, and the options --------------------------------------------------------------------- */

int vmaf_thread_pool_create(VmafThreadPool **pool, VmafThreadPoolConfig cfg) {
    if (pool == NULL || cfg.n_threads == 0) return -EINVAL;
    VmafThreadPool *made = calloc(1, sizeof *made);
    if (made == NULL) return -ENOMEM;
    int error = view_open(&made->shelf.view, cfg.n_threads, "vmaf");
    if (error != 0) {
        free(made);
        return error;
    }
    made->options.queue_max = QUEUE_MAX(cfg.n_threads);
    made->data_free = cfg.thread_data_free;
    shelf_furnish(&made->shelf, run_job);
    *pool = made;
    return 0;
}

int vmaf_thread_pool_options(VmafThreadPool *pool, const VmafThreadPoolOptions *options) {
    if (pool == NULL || options == NULL) return -EINVAL;
    pool->options = *options;
    return 0;
}

/* Writes the job, with its data behind it, to a buffer of WEFT_INLINE_MAX bytes. Returns the size of both; 0: no memory. */
static size_t job_write(pool_job *job, const void *data, size_t size) {
    job->head.tag = data != NULL;
    job->heap = NULL;
    if (data == NULL) return sizeof *job;
    if (size <= DATA_MAX) {
        memcpy(job + 1, data, size);
        /* One byte more, so that a pointer to empty data points into the task. */
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
    if (refuses_jobs(pool)) return -ECANCELED;
    union {
        pool_job job;
        _Alignas(16) unsigned char bytes[WEFT_INLINE_MAX];
    } buffer;
    buffer.job.func = func;
    size_t size = job_write(&buffer.job, data, data_sz);
    if (size == 0) return -ENOMEM;
    int error = queue_enter(pool);
    if (error == 0) {
        error = shelf_submit(&pool->shelf, &buffer.job.head, size);
        if (error != 0) queue_leave(pool);
    }
    if (error != 0) free(buffer.job.heap);
    return error;
}

int vmaf_thread_pool_wait(VmafThreadPool *pool) {
    if (pool == NULL) return -EINVAL;
    return running == pool ? -EDEADLK : shelf_wait(&pool->shelf);
}

int vmaf_thread_pool_destroy(VmafThreadPool *pool) {
    if (pool == NULL) return -EINVAL;
    if (running == pool) return -EDEADLK;
    int error = shelf_close(&pool->shelf, !pool->options.destroy_runs, pool->data_free);
    if (error == 0) free(pool);
    return error;
}
