/* workers.h: libwebp's interface for workers, which libaom has taken over, on a weft pool.
 *
 * webp.h and aom.h include this after they have named their type of worker `hook_worker` and its header is included. Each
 * worker is a group of one task instead of a thread. If the library waits for a task that no thread has begun, the task runs
 * in the wait. The interface has no context, so the pool is a variable of this file: include only one of the two headers, in
 * one source file. */
#ifndef WEFT_HOOKS_WORKERS_H
#define WEFT_HOOKS_WORKERS_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "late.h"

static weft_pool *hook_workers_given; /* NULL: the process's */

static inline weft_pool *hook_workers_pool(void) {
    return hook_workers_given != NULL ? hook_workers_given : hook_late_pool();
}

/* What a worker's impl_ points to. */
typedef struct hook_worker_impl {
    weft_group group; /* of this one task */
    int has_run;
    int has_failed; /* valid once it has run */
} hook_worker_impl;

static inline hook_worker_impl *hook_worker_of(hook_worker *const worker) {
    return (hook_worker_impl *)(void *)worker->impl_;
}

static inline void hook_worker_init(hook_worker *const worker) {
    memset(worker, 0, sizeof *worker);
    worker->status_ = NOT_OK;
}

static inline int hook_worker_fails(hook_worker *const worker) {
    return worker->hook != NULL && !worker->hook(worker->data1, worker->data2);
}

static inline void hook_worker_execute(hook_worker *const worker) { worker->had_error |= hook_worker_fails(worker); }

static inline int hook_worker_task(void *payload, weft_worker *self) {
    hook_worker *const worker = *(hook_worker **)payload;
    hook_worker_impl *impl = hook_worker_of(worker);
    (void)self;
    impl->has_failed = hook_worker_fails(worker);
    impl->has_run = 1;
    return 0;
}

/* Only the owner touches status_ and had_error. The task writes its result to the impl, and the wait for its end orders
 * that. A task that nobody will run, in a forked child or an aborted pool, runs here. */
static inline int hook_worker_sync(hook_worker *const worker) {
    if (worker->status_ == WORK) {
        hook_worker_impl *impl = hook_worker_of(worker);
        int error; /* no memory or no place in the pool: the task will run all the same */
        while ((error = weft_group_wait(hook_workers_pool(), &impl->group)) == WEFT_ENOMEM || error == WEFT_EAGAIN)
            sched_yield();
        if (!impl->has_run) impl->has_failed = hook_worker_fails(worker);
        worker->had_error |= impl->has_failed;
        worker->status_ = OK;
    }
    return !worker->had_error;
}

/* Forgets earlier errors. If work is under way, waits for it; 0: it failed. 0 is also returned without memory: then the
 * worker is not ready. */
static inline int hook_worker_reset(hook_worker *const worker) {
    worker->had_error = 0;
    if (worker->status_ != NOT_OK) return hook_worker_sync(worker);
    hook_worker_impl *impl = (hook_worker_impl *)calloc(1, sizeof *impl); /* WEFT_GROUP_INIT is zero bytes */
    if (impl == NULL) return 0;
    memcpy(&worker->impl_, &impl, sizeof impl); /* libaom declares a type of its own for the target */
    worker->status_ = OK;
    return 1;
}

static inline void hook_worker_launch(hook_worker *const worker) {
    if (worker->status_ == NOT_OK) return;
    (void)hook_worker_sync(worker);
    hook_worker_of(worker)->has_run = 0;
    if (weft_submit(hook_workers_pool(), &hook_worker_of(worker)->group, hook_worker_task, &worker, sizeof worker) ==
        WEFT_OK)
        worker->status_ = WORK;
    else
        hook_worker_execute(worker);
}

static inline void hook_worker_end(hook_worker *const worker) {
    (void)hook_worker_sync(worker);
    free(worker->impl_);
    worker->impl_ = NULL;
    worker->status_ = NOT_OK;
}

#endif
