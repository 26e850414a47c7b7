/* libwebp on a weft pool. Its interface for workers is exported, but no package has the header: include it from libwebp's
 * source.
 *
 *     #include "src/utils/thread_utils.h"
 *     #include <hooks/webp.h>
 *     weft_webp_install(pool);     before the first encode or decode; `pool` must outlive the last
 *
 * It concerns those who ask for threads (WebPConfig.thread_level, WebPDecoderOptions.use_threads, cwebp -mt). Each of
 * libwebp's workers is a group of one task instead of a thread; what nobody has begun when libwebp waits for it runs there.
 * The interface has no context, so the pool is this file's: include it in one. */
#ifndef WEFT_HOOKS_WEBP_H
#define WEFT_HOOKS_WEBP_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static weft_pool *weft_webp_pool;

/* What WebPWorker.impl_ points to. */
typedef struct weft_webp_impl {
    weft_group group; /* of this one task */
    int has_run;
} weft_webp_impl;

static inline weft_webp_impl *weft_webp_of(WebPWorker *const worker) { return (weft_webp_impl *)worker->impl_; }

static inline void weft_webp_init(WebPWorker *const worker) {
    memset(worker, 0, sizeof *worker);
    worker->status_ = NOT_OK;
}

static inline void weft_webp_execute(WebPWorker *const worker) {
    if (worker->hook != NULL) worker->had_error |= !worker->hook(worker->data1, worker->data2);
}

static inline int weft_webp_task(void *payload, weft_worker *self) {
    WebPWorker *const worker = *(WebPWorker **)payload;
    (void)self;
    weft_webp_execute(worker);
    weft_webp_of(worker)->has_run = 1;
    return 0;
}

/* The status is the owner's alone; a task writes had_error, and its end orders that. A task that nobody will run, in a
 * forked child or an aborted pool, runs here. */
static inline int weft_webp_sync(WebPWorker *const worker) {
    if (worker->status_ == WORK) {
        weft_webp_impl *impl = weft_webp_of(worker);
        int error; /* no memory, no place: the task runs all the same */
        while ((error = weft_group_wait(weft_webp_pool, &impl->group)) == WEFT_ENOMEM || error == WEFT_EAGAIN) sched_yield();
        if (!impl->has_run) weft_webp_execute(worker);
        worker->status_ = OK;
    }
    return !worker->had_error;
}

/* 0: no memory, and the worker is not ready. */
static inline int weft_webp_reset(WebPWorker *const worker) {
    if (worker->status_ != NOT_OK) {
        const int is_well = weft_webp_sync(worker);
        worker->had_error = 0;
        return is_well;
    }
    worker->had_error = 0;
    worker->impl_ = calloc(1, sizeof(weft_webp_impl)); /* WEFT_GROUP_INIT is zero bytes */
    if (worker->impl_ == NULL) return 0;
    worker->status_ = OK;
    return 1;
}

static inline void weft_webp_launch(WebPWorker *const worker) {
    if (worker->status_ == NOT_OK) return;
    (void)weft_webp_sync(worker);
    weft_webp_of(worker)->has_run = 0;
    if (weft_submit(weft_webp_pool, &weft_webp_of(worker)->group, weft_webp_task, &worker, sizeof worker) == WEFT_OK)
        worker->status_ = WORK;
    else
        weft_webp_execute(worker);
}

static inline void weft_webp_end(WebPWorker *const worker) {
    (void)weft_webp_sync(worker);
    free(worker->impl_);
    worker->impl_ = NULL;
    worker->status_ = NOT_OK;
}

/* Nonzero when libwebp has taken it. */
static inline int weft_webp_install(weft_pool *pool) {
    const WebPWorkerInterface workers = {weft_webp_init,   weft_webp_reset,   weft_webp_sync,
                                         weft_webp_launch, weft_webp_execute, weft_webp_end};
    weft_webp_pool = pool;
    return pool != NULL && WebPSetWorkerInterface(&workers);
}

#endif
