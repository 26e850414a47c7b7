/* view.h: what the adapters share: a host's pool as a view of a weft pool.
 *
 * A view has the host's jobs in a group of its own and, where VIEW_HAS_DATA is defined, its own pointer for each thread that
 * runs them. It has as many threads of its own as the host asks for: a host's jobs may block on each other. With
 * WEFT_VIEW_SHARED defined, a host that asks for at least as many threads as the process's pool has gets that pool's threads;
 * one that asks for fewer still gets its own, so that no more of its jobs run at once than it said. The pool's threads run a
 * view's jobs, never one that waits, unless it asks for anybody's tasks (WEFT_HELP_ANY).
 *
 * Included by one source file of a host, which is compiled there; needs weft.h and libc. */
#ifndef WEFT_ADAPTERS_VIEW_H
#define WEFT_ADAPTERS_VIEW_H

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <weft.h>

typedef struct view {
    weft_pool *pool;
    weft_group group; /* every job of the view */
#ifdef VIEW_HAS_DATA
    void **data; /* VIEW_PLACES, by worker index; each written by its worker alone */
#endif
} view;

/* Every worker and spare has one, and threads from outside while there are not too many. */
#define VIEW_PLACES (2 * WEFT_WORKERS_MAX)

/* 0 or a negative errno value. */
static inline int view_error(int error) {
    switch (error) {
    case WEFT_OK: return 0;
    case WEFT_ENOMEM: return -ENOMEM;
    case WEFT_EAGAIN: return -EAGAIN;
    case WEFT_EDEADLK: return -EDEADLK;
    case WEFT_ESHUTDOWN: return -ECANCELED;
    default: return -EINVAL;
    }
}

/* After the pool is there: the view's own part. */
static inline int view_furnish(view *v) {
    v->group = (weft_group)WEFT_GROUP_INIT;
#ifdef VIEW_HAS_DATA
    v->data = calloc(VIEW_PLACES, sizeof *v->data);
    if (v->data == NULL) {
        weft_pool_destroy(&v->pool);
        return -ENOMEM;
    }
#endif
    return 0;
}

#define VIEW_STACK_BYTES ((size_t)8 << 20) /* address space; the system's default may be too small for a host */

/* A view on threads of its own. 0 or a negative errno value. */
static inline int view_open_with(view *v, const weft_config *config) {
    int error = weft_pool_create(&v->pool, config);
    return error != WEFT_OK ? view_error(error) : view_furnish(v);
}

#ifdef WEFT_VIEW_SHARED
/* How many threads weft_pool_default makes; 0: the environment's settings are wrong. */
static inline unsigned view_default_threads(void) {
    weft_config config;
    weft_config_init(&config);
    if (weft_config_from_env(&config) != WEFT_OK) return 0;
    return config.workers > 0 ? config.workers : weft_cpu_count();
}
#endif

/* A view on the process's pool, if that is wanted, for a host that asks for as many threads as that has or more. 0, a
 * negative errno value, or 1: it is not, or the host asks for fewer. */
static inline int view_open_shared(view *v, unsigned threads) {
#ifndef WEFT_VIEW_SHARED
    (void)v;
    (void)threads;
#else
    if (threads >= view_default_threads()) {
        int error = weft_pool_default(&v->pool);
        if (error != WEFT_OK) return view_error(error);
        if (threads >= weft_pool_workers(v->pool)) return view_furnish(v);
        weft_pool_destroy(&v->pool); /* made when the process had more CPUs */
    }
#endif
    return 1;
}

/* Threads of a view's own, for view_open_with. */
static inline void view_own_threads(weft_config *config, unsigned threads, const char *name) {
    weft_config_init(config);
    config->workers = threads < WEFT_WORKERS_MAX ? threads : WEFT_WORKERS_MAX;
    config->name = name;
    config->stack_size = VIEW_STACK_BYTES;
    config->flags = WEFT_POOL_NO_HELP;
}

/* A view for a host that asks for `threads` > 0; `name` is that of threads of its own. 0 or a negative errno value. */
static inline int view_open(view *v, unsigned threads, const char *name) {
    weft_config config;
    int error = view_open_shared(v, threads);
    if (error <= 0) return error;
    view_own_threads(&config, threads, name);
    return view_open_with(v, &config);
}

#ifdef VIEW_HAS_DATA
/* The running worker's pointer in this view, NULL at first. NULL itself for a thread that there is no place for, and for
 * self NULL. */
static inline void **view_data(const view *v, weft_worker *self) {
    return self != NULL && weft_worker_index(self) < VIEW_PLACES ? &v->data[weft_worker_index(self)] : NULL;
}
#endif

static inline int view_submit(view *v, weft_fn fn, const void *payload, size_t size) {
    return view_error(weft_submit(v->pool, &v->group, fn, payload, size));
}

/* Before a sleep for what jobs do, in a function of a host that may be called in a task of some weft pool: another thread
 * stands in. false: none could, so that a sleep may be for ever. Each begin needs an end. */
static inline int view_sleep_begin(void) {
    weft_worker *self = weft_worker_here();
    return self == NULL || weft_block_begin(self) == WEFT_OK;
}
static inline void view_sleep_end(void) {
    weft_worker *self = weft_worker_here();
    if (self != NULL) weft_block_end(self);
}

/* Until every job of the view has finished; -EDEADLK from one of them. */
static inline int view_wait(view *v) { return view_error(weft_group_wait_until(v->pool, &v->group, WEFT_HELP_NONE, 0)); }

/* Errors after which nothing has happened and the view is as it was. */
static inline int view_is_refusal(int error) { return error == -EDEADLK || error == -ENOMEM || error == -EAGAIN; }

/* For functions of hosts that cannot tell an error: whether to try again. Without memory, or a place for the
 * calling thread, jobs run and end all the same, and who called relies on that. */
static inline int view_tries_again(int error) {
    if (error != -ENOMEM && error != -EAGAIN) return 0;
    (void)sched_yield();
    return 1;
}

/* Whether a wait would fail at once: 0; a refusal, though -EDEADLK may also come while it waits; -EINVAL in a forked
 * child. */
static inline int view_check(view *v) {
    int error = weft_group_wait_until(v->pool, &v->group, WEFT_HELP_NONE, 1);
    return error == WEFT_ETIMEDOUT ? 0 : view_error(error);
}

/* Waits, hands each pointer that a job set to data_free (may be NULL), and gives the threads back. -EDEADLK from a job of
 * the view, or one that such a job waits for; -ENOMEM, -EAGAIN: the calling thread finds no place in the pool. Then nothing
 * has happened. */
static inline int view_close(view *v, void (*data_free)(void *)) {
    int error = view_wait(v);
    if (view_is_refusal(error)) return error;
#ifdef VIEW_HAS_DATA
    for (unsigned i = 0; i < VIEW_PLACES && data_free != NULL; i++)
        if (v->data[i] != NULL) data_free(v->data[i]);
#else
    (void)data_free;
#endif
    weft_pool_destroy(&v->pool);
#ifdef VIEW_HAS_DATA
    free(v->data);
#endif
    return 0;
}

/* As view_close, but for want of memory or a place it waits. */
static inline int view_close_in_time(view *v) {
    int error;
    while (view_tries_again(error = view_close(v, NULL))) {}
    return error;
}

#endif
