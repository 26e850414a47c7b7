/* zstd's thread pool on weft: stands in for lib/common/pool.c of zstd's tree and is compiled there, behind its own pool.h.
 *
 * What zstd relies on, and how it is kept:
 *  - Jobs start in the order in which they were added, because a compression job waits for the one before it. A task of weft
 *    is a permit to take the oldest job, so it does not matter which worker comes first.
 *  - A queue of size n holds n jobs that have not started; POOL_add waits for a place, POOL_tryAdd returns 0. A queue of
 *    size 0 takes a job when a thread is free for it, and only then.
 *  - POOL_resize may come while jobs run. More threads are a further view beside the first; fewer are a limit on permits,
 *    which running jobs do not notice.
 *  - POOL_free runs the queued jobs. In a job of the pool, for which it would wait, the pool stays. POOL_joinJobs waits for
 *    all jobs.
 *  - The pool's own memory comes from the caller's ZSTD_customMem; that of weft's threads and queues does not.
 * Threads begin with the first job: the zstd program makes pools for every file, and small files need none. If no permit can
 * be sent (no memory, no threads, a forked child), the job runs in the thread that adds it. In a forked child, the jobs that
 * the parent's threads ran are lost; the first call there runs those that had not started. With -DWEFT_VIEW_SHARED the
 * threads are the process's instead of the pool's own (view.h). */
#include "pool.h"

#ifdef ZSTD_MULTITHREAD
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "view.h"

typedef struct pool_job {
    POOL_function function;
    void *opaque;
} pool_job;

typedef struct pool_crew {
    view view; /* valid while is_open: from the first permit on */
    bool is_open;
    struct pool_crew *next;
    POOL_ctx *pool;
    size_t threads;
    size_t permits; /* sent and not yet back; guarded by the pool's lock */
} pool_crew;

struct POOL_ctx_s {
    ZSTD_customMem memory;
    size_t queue_size;      /* 0: a job is taken when a thread is free for it */
    pthread_mutex_t lock;   /* for what follows */
    pthread_cond_t changed; /* signalled while `waiting`, if a job has started or ended */
    size_t waiting;
    pool_crew *crews;
    size_t threads; /* in all crews */
    size_t limit;   /* of permits, and so of running jobs */
    size_t permits;
    size_t running;
    bool has_ended;
    pool_job *jobs; /* those that have not started: a ring */
    size_t capacity, first, queued;
};

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static void *pool_take(ZSTD_customMem memory, size_t size) {
    void *bytes = memory.customAlloc != NULL ? memory.customAlloc(memory.opaque, size) : malloc(size);
    return bytes != NULL ? memset(bytes, 0, size) : NULL;
}

static void pool_give(ZSTD_customMem memory, void *bytes) {
    if (memory.customFree != NULL && bytes != NULL)
        memory.customFree(memory.opaque, bytes);
    else
        free(bytes);
}

/* Makes room for as many jobs as may be queued. */
static bool pool_reserve(POOL_ctx *pool, size_t threads) {
    const size_t capacity = pool->queue_size > threads ? pool->queue_size : threads;
    if (capacity <= pool->capacity) return true;
    pool_job *jobs = capacity <= SIZE_MAX / sizeof *jobs ? pool_take(pool->memory, capacity * sizeof *jobs) : NULL;
    if (jobs == NULL) return false;
    for (size_t i = 0; i < pool->queued; i++) jobs[i] = pool->jobs[(pool->first + i) % pool->capacity];
    pool_give(pool->memory, pool->jobs);
    pool->jobs = jobs;
    pool->capacity = capacity;
    pool->first = 0;
    return true;
}

/* A pool of one thread reads or writes files ahead of a caller that is busy itself. Spinning would take time from the
 * caller, and the caller comes so often that the thread would set its affinity all the time. */
static int pool_open(view *v, unsigned threads) {
    weft_config config;
    int error = view_open_shared(v, threads);
    if (error <= 0) return error;
    view_own_threads(&config, threads, "zstd");
    if (threads == 1) {
        config.spin_ns = WEFT_SPIN_NONE;
        config.flags |= WEFT_POOL_NO_PLACING;
    }
    return view_open_with(v, &config);
}

/* Adds `threads` more threads, which begin with the first permit: in several views, if they are more than one can have. */
static bool pool_hire(POOL_ctx *pool, size_t threads) {
    while (threads > 0) {
        const size_t some = threads < WEFT_WORKERS_MAX ? threads : WEFT_WORKERS_MAX;
        pool_crew *crew = pool_take(pool->memory, sizeof *crew);
        if (crew == NULL) return false;
        *crew = (pool_crew){.next = pool->crews, .pool = pool, .threads = some};
        pool->crews = crew;
        pool->threads += some;
        threads -= some;
    }
    return true;
}

/* ---- jobs and permits; with the lock held --------------------------------------------------------------------------- */

static bool crew_is_open(pool_crew *crew) {
    if (!crew->is_open) crew->is_open = pool_open(&crew->view, (unsigned)crew->threads) == 0;
    return crew->is_open;
}

static bool pool_is_full(const POOL_ctx *pool) {
    return pool->queue_size > 0 ? pool->queued >= pool->queue_size : pool->queued + pool->running >= pool->limit;
}

static void pool_tell(POOL_ctx *pool) {
    if (pool->waiting > 0) pthread_cond_broadcast(&pool->changed);
}

/* Sleeps until something may have changed. */
static void pool_sleep(POOL_ctx *pool) {
    pool->waiting++;
    pthread_cond_wait(&pool->changed, &pool->lock);
    pool->waiting--;
}

static void pool_run_oldest(POOL_ctx *pool) {
    const pool_job job = pool->jobs[pool->first];
    pool->first = (pool->first + 1) % pool->capacity;
    pool->queued--;
    pool->running++;
    if (pool->queue_size > 0) pool_tell(pool);
    pthread_mutex_unlock(&pool->lock);
    job.function(job.opaque);
    pthread_mutex_lock(&pool->lock);
    pool->running--;
    pool_tell(pool);
}

static int pool_permit(void *payload, weft_worker *self) {
    pool_crew *crew = *(pool_crew **)payload;
    POOL_ctx *pool = crew->pool;
    (void)self;
    pthread_mutex_lock(&pool->lock);
    while (pool->queued > 0 && pool->permits <= pool->limit) pool_run_oldest(pool);
    pool->permits--;
    crew->permits--;
    pthread_mutex_unlock(&pool->lock);
    return 0;
}

/* Sends a permit. It is counted first, and sent without the lock: the process's pool may be bounded, and then the submission
 * waits for workers to start others, or runs the permit here. false: it could not be sent. */
static bool pool_send(POOL_ctx *pool, pool_crew *crew) {
    if (!crew_is_open(crew)) return false;
    pool->permits++;
    crew->permits++;
    pthread_mutex_unlock(&pool->lock);
    const bool is_sent = view_submit(&crew->view, pool_permit, &crew, sizeof crew) == 0;
    pthread_mutex_lock(&pool->lock);
    if (is_sent) return true;
    pool->permits--;
    crew->permits--;
    return false;
}

static bool pool_lacks_permits(const POOL_ctx *pool) {
    return pool->permits < pool->limit && pool->permits < pool->running + pool->queued;
}

/* In a forked child the permits sent by the parent are lost, with the jobs that ran. Jobs that have not started run here. */
static void pool_inherit(POOL_ctx *pool) {
    bool is_lost = false;
    for (pool_crew *crew = pool->crews; crew != NULL && !is_lost; crew = crew->next)
        is_lost = crew->permits > 0 && view_check(&crew->view) == -EINVAL;
    if (!is_lost) return;
    for (pool_crew *crew = pool->crews; crew != NULL; crew = crew->next) crew->permits = 0;
    pool->permits = pool->running = 0;
    while (pool->queued > 0) pool_run_oldest(pool);
}

/* Sends as many permits as there are jobs that nobody else will take. If none can be sent, and no permit is out, the jobs
 * run here. */
static void pool_send_permits(POOL_ctx *pool) {
    bool all_sent = true, are_sent = false;
    for (pool_crew *crew = pool->crews; crew != NULL; crew = crew->next) {
        bool is_sent = true;
        while (is_sent && crew->permits < crew->threads && pool_lacks_permits(pool))
            are_sent |= is_sent = pool_send(pool, crew);
        all_sent = all_sent && is_sent;
    }
    while (!all_sent && pool->permits == 0 && pool->queued > 0) pool_run_oldest(pool);
    if (!are_sent && pool->queued > 0) pool_inherit(pool);
}

static void pool_queue(POOL_ctx *pool, pool_job job) {
    pool->jobs[(pool->first + pool->queued++) % pool->capacity] = job;
    pool_send_permits(pool);
}

/* ---- zstd's functions ---------------------------------------------------------------------------------------------- */

static void pool_set_ended(POOL_ctx *pool, bool has_ended) {
    pthread_mutex_lock(&pool->lock);
    if (has_ended && pool->queued > 0) pool_inherit(pool);
    pool->has_ended = has_ended;
    pool_tell(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* Ends the threads of the newest crew. false: one of them has called this, or waits for the caller. */
static bool pool_dismiss(POOL_ctx *pool) {
    pool_crew *crew = pool->crews;
    if (crew->is_open && view_close_in_time(&crew->view) != 0) return false;
    pool->crews = crew->next;
    pool->threads -= crew->threads;
    pool_give(pool->memory, crew);
    return true;
}

void POOL_free(POOL_ctx *ctx) {
    if (ctx == NULL) return;
    pool_set_ended(ctx, true);
    while (ctx->crews != NULL)
        if (!pool_dismiss(ctx)) {
            pool_set_ended(ctx, false);
            return;
        }
    pthread_cond_destroy(&ctx->changed);
    pthread_mutex_destroy(&ctx->lock);
    const ZSTD_customMem memory = ctx->memory;
    pool_give(memory, ctx->jobs);
    pool_give(memory, ctx);
}

POOL_ctx *POOL_create_advanced(size_t numThreads, size_t queueSize, ZSTD_customMem customMem) {
    POOL_ctx *pool = numThreads > 0 ? pool_take(customMem, sizeof *pool) : NULL;
    if (pool == NULL) return NULL;
    pool->memory = customMem;
    pool->queue_size = queueSize;
    pool->limit = numThreads;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    if (pool_reserve(pool, numThreads) && pool_hire(pool, numThreads)) return pool;
    POOL_free(pool);
    return NULL;
}

POOL_ctx *POOL_create(size_t numThreads, size_t queueSize) {
    return POOL_create_advanced(numThreads, queueSize, (ZSTD_customMem){NULL, NULL, NULL});
}

POOL_ctx *ZSTD_createThreadPool(size_t numThreads) { return POOL_create(numThreads, 0); }

void ZSTD_freeThreadPool(ZSTD_threadPool *pool) { POOL_free(pool); }

int POOL_resize(POOL_ctx *ctx, size_t numThreads) {
    if (ctx == NULL || numThreads == 0) return 1;
    pthread_mutex_lock(&ctx->lock);
    const bool is_there =
        numThreads <= ctx->threads || (pool_reserve(ctx, numThreads) && pool_hire(ctx, numThreads - ctx->threads));
    if (is_there) {
        ctx->limit = numThreads;
        pool_send_permits(ctx);
        pool_tell(ctx);
    }
    pthread_mutex_unlock(&ctx->lock);
    return !is_there;
}

size_t POOL_sizeof(const POOL_ctx *ctx) {
    if (ctx == NULL) return 0;
    size_t size = sizeof *ctx + ctx->capacity * sizeof *ctx->jobs;
    for (const pool_crew *crew = ctx->crews; crew != NULL; crew = crew->next) size += sizeof *crew;
    return size;
}

void POOL_add(POOL_ctx *ctx, POOL_function function, void *opaque) {
    pthread_mutex_lock(&ctx->lock);
    if (pool_is_full(ctx)) pool_inherit(ctx);
    if (pool_is_full(ctx) && !ctx->has_ended) {
        (void)view_sleep_begin();
        while (pool_is_full(ctx) && !ctx->has_ended) pool_sleep(ctx);
        view_sleep_end();
    }
    if (!ctx->has_ended) pool_queue(ctx, (pool_job){function, opaque});
    pthread_mutex_unlock(&ctx->lock);
}

int POOL_tryAdd(POOL_ctx *ctx, POOL_function function, void *opaque) {
    pthread_mutex_lock(&ctx->lock);
    if (pool_is_full(ctx)) pool_inherit(ctx);
    const bool is_full = pool_is_full(ctx);
    if (!is_full && !ctx->has_ended) pool_queue(ctx, (pool_job){function, opaque});
    pthread_mutex_unlock(&ctx->lock);
    return !is_full;
}

void POOL_joinJobs(POOL_ctx *ctx) {
    pthread_mutex_lock(&ctx->lock);
    if (ctx->queued + ctx->running > 0) pool_inherit(ctx);
    if (ctx->queued + ctx->running > 0) {
        (void)view_sleep_begin();
        while (ctx->queued + ctx->running > 0) pool_sleep(ctx);
        view_sleep_end();
    }
    pthread_mutex_unlock(&ctx->lock);
}

#else /* no threads: a job runs where it is added */

struct POOL_ctx_s {
    char nothing;
};
static POOL_ctx only;

POOL_ctx *POOL_create_advanced(size_t numThreads, size_t queueSize, ZSTD_customMem customMem) {
    (void)numThreads, (void)queueSize, (void)customMem;
    return &only;
}
POOL_ctx *POOL_create(size_t numThreads, size_t queueSize) {
    (void)numThreads, (void)queueSize;
    return &only;
}
void POOL_free(POOL_ctx *ctx) { (void)ctx; }
void POOL_joinJobs(POOL_ctx *ctx) { (void)ctx; }
int POOL_resize(POOL_ctx *ctx, size_t numThreads) {
    (void)ctx, (void)numThreads;
    return 0;
}
size_t POOL_sizeof(const POOL_ctx *ctx) { return ctx != NULL ? sizeof *ctx : 0; }
void POOL_add(POOL_ctx *ctx, POOL_function function, void *opaque) {
    (void)ctx;
    function(opaque);
}
int POOL_tryAdd(POOL_ctx *ctx, POOL_function function, void *opaque) {
    POOL_add(ctx, function, opaque);
    return 1;
}
#endif
