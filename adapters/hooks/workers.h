/* workers.h: the interface for workers that libwebp has and libaom took from it, on a weft pool.
 *
 * Included by webp.h and aom.h, after `hook_worker` is their name of a worker and its header is there. Each worker is a
 * group of one task instead of a thread; what nobody has begun when the library waits for it runs there. The interface has
 * no context, so the pool is this file's: one of the two, in one source file. */
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
    int has_failed; /* when it has run */
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

/* Status and had_error are the owner's alone: what a task has to say is in the impl, and its end orders that. A task that
 * nobody will run, in a forked child or an aborted pool, runs here. */
static inline int hook_worker_sync(hook_worker *const worker) {
    if (worker->status_ == WORK) {
        hook_worker_impl *impl = hook_worker_of(worker);
        int error; /* no memory, no place: the task runs all the same */
        while ((error = weft_group_wait(hook_workers_pool(), &impl->group)) == WEFT_ENOMEM || error == WEFT_EAGAIN)
            sched_yield();
        if (!impl->has_run) impl->has_failed = hook_worker_fails(worker);
        worker->had_error |= impl->has_failed;
        worker->status_ = OK;
    }
    return !worker->had_error;
}

/* Forgets what went wrong before; work under way is waited for, and 0 if that fails. 0 also: no memory, and the worker is
 * not ready. */
static inline int hook_worker_reset(hook_worker *const worker) {
    worker->had_error = 0;
    if (worker->status_ != NOT_OK) return hook_worker_sync(worker);
    hook_worker_impl *impl = (hook_worker_impl *)calloc(1, sizeof *impl); /* WEFT_GROUP_INIT is zero bytes */
    if (impl == NULL) return 0;
    memcpy(&worker->impl_, &impl, sizeof impl); /* libaom has a type of its own for what it points to */
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
