/* FFmpeg's slice threads on weft: stands in for libavutil/slicethread.c, which codecs, filter graphs and the scaler share.
 *
 * What FFmpeg relies on, and how it is kept:
 *  - nb_threads threads, the caller one of them unless there is a main_func; 0 means one more than there are CPUs. Jobs may
 *    wait for each other (VP7, VP8), and main_func for jobs (VP9), so the threads are the context's own.
 *  - Each thread that takes part has a number, below the count of those that do; its first job has that number. It takes
 *    further jobs in rising order, one after the other.
 *  - execute returns when every job has ended. One thread at a time executes on a context.
 * If the system starts fewer threads, create fails, as FFmpeg's own does; its callers then go on with one thread. The
 * caller waits for no thread that has not come: it takes that thread's number and part. With -DWEFT_VIEW_SHARED the threads
 * are the process's, if it has no more than are asked for (view.h); do not use that for codecs whose jobs wait. */
#include "avassert.h"
#include "cpu.h"
#include "error.h"
#include "macros.h"
#include "mem.h"
#include "slicethread.h"

#include "view.h"

struct AVSliceThread {
    view jobs; /* no pool: the caller is the only thread */
    void *priv;
    void (*worker_func)(void *priv, int jobnr, int threadnr, int nb_jobs, int nb_threads);
    void (*main_func)(void *priv);
    int nb_threads;
    int nb_jobs;   /* of this execute; so are the three below */
    int nb_active; /* how many threads may take part */
    int next_thread;
    int next_job; /* beyond the first ones; may pass nb_jobs */
};

static void take_jobs(AVSliceThread *ctx) {
    const int thread = __atomic_fetch_add(&ctx->next_thread, 1, __ATOMIC_RELAXED);
    int job = thread;
    do ctx->worker_func(ctx->priv, job, thread, ctx->nb_jobs, ctx->nb_active);
    while ((job = __atomic_fetch_add(&ctx->next_job, 1, __ATOMIC_RELAXED)) < ctx->nb_jobs);
}

static int take_part(void *payload, weft_worker *self) {
    (void)self;
    take_jobs(*(AVSliceThread **)payload);
    return 0;
}

/* Makes `count` workers, which help only with their own context. 0 or an AVERROR. */
static int open_threads(AVSliceThread *ctx, int count) {
    weft_config config;
    int error = view_open_shared(&ctx->jobs, (unsigned)count);
    if (error <= 0) return error;
    view_own_threads(&config, (unsigned)count, "slice");
    config.flags &= ~(uint32_t)WEFT_POOL_NO_HELP; /* the caller runs what nobody has begun */
    error = view_open_with(&ctx->jobs, &config);
    if (error != 0 || weft_pool_workers(ctx->jobs.pool) == (unsigned)count) return error;
    weft_pool_destroy(&ctx->jobs.pool);
    return AVERROR(EAGAIN);
}

int avpriv_slicethread_create(AVSliceThread **pctx, void *priv,
                              void (*worker_func)(void *priv, int jobnr, int threadnr, int nb_jobs, int nb_threads),
                              void (*main_func)(void *priv), int nb_threads) {
    int workers, error;
    av_assert0(nb_threads >= 0);
    if (nb_threads == 0) nb_threads = av_cpu_count() > 1 ? av_cpu_count() + 1 : 1;
    nb_threads = FFMIN(nb_threads, (int)WEFT_WORKERS_MAX);
    workers = main_func != NULL ? nb_threads : nb_threads - 1;
    AVSliceThread *ctx = *pctx = av_mallocz(sizeof(*ctx));
    if (ctx == NULL) return AVERROR(ENOMEM);
    ctx->priv = priv;
    ctx->worker_func = worker_func;
    ctx->main_func = main_func;
    error = workers > 0 ? open_threads(ctx, workers) : 0;
    if (error == 0) return ctx->nb_threads = nb_threads;
    av_freep(pctx);
    return error;
}

/* Submits `count` parts. Returns how many nobody will take, for want of memory. */
static int submit(AVSliceThread *ctx, int count) {
    while (count > 0 && view_submit(&ctx->jobs, take_part, &ctx, sizeof(ctx)) == 0) count--;
    return count;
}

void avpriv_slicethread_execute(AVSliceThread *ctx, int nb_jobs, int execute_main) {
    const int runs_main = ctx->main_func != NULL && execute_main;
    av_assert0(nb_jobs > 0);
    ctx->nb_jobs = nb_jobs;
    ctx->nb_active = FFMIN(nb_jobs, ctx->nb_threads);
    ctx->next_thread = 0;
    ctx->next_job = ctx->nb_active;
    /* Runs the caller's own part, if it has one, and parts left over. This comes before main_func, which may wait for
     * jobs. */
    for (int parts = submit(ctx, ctx->nb_active - !runs_main) + !runs_main; parts > 0; parts--) take_jobs(ctx);
    if (runs_main) ctx->main_func(ctx->priv);
    if (ctx->jobs.pool != NULL) (void)weft_group_wait(ctx->jobs.pool, &ctx->jobs.group);
}

void avpriv_slicethread_free(AVSliceThread **pctx) {
    AVSliceThread *ctx;
    if (pctx == NULL || *pctx == NULL) return;
    ctx = *pctx;
    *pctx = NULL;
    if (ctx->jobs.pool == NULL || view_close_in_time(&ctx->jobs) == 0) av_freep(&ctx); /* else its jobs may still come */
}
