/* view.h: what the adapters share: a host's pool as a view of a weft pool.
 *
 * A view has a group of its own for the host's jobs and, if VIEW_HAS_DATA is defined, a pointer of its own for each thread
 * that runs them. It has as many threads of its own as the host asks for, because a host's jobs may block on each other.
 * With WEFT_VIEW_SHARED defined, a host that asks for at least as many threads as the process's pool has gets that pool's
 * threads. A host that asks for fewer still gets its own, so that no more of its jobs run at once than it said. Only the
 * pool's threads run a view's jobs; a thread that waits does not, unless it asks for anybody's tasks (WEFT_HELP_ANY).
 *
 * One source file of a host includes this and is compiled with the host; it needs weft.h and libc. */
#ifndef WEFT_ADAPTERS_VIEW_H
#define WEFT_ADAPTERS_VIEW_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <weft.h>

typedef struct view {
    weft_pool *pool;
    weft_group group; /* every job of the view */
    unsigned own;     /* how many threads of its own it asked for; 0: they are the process's */
#ifdef VIEW_HAS_DATA
    void **data; /* VIEW_PLACES, by worker index; only its worker writes each */
#endif
} view;

/* Every worker and spare has a place; outside threads have one while they are not too many. */
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

/* Makes the view's own part, once there is a pool. */
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

/* A view on threads of its own. 0 or a negative errno value. */
static inline int view_open_with(view *v, const weft_config *config) {
    int error = weft_pool_create(&v->pool, config);
    v->own = config->workers;
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

/* Opens a view on the process's pool, if that is wanted, for a host that asks for at least as many threads as that pool has.
 * 0; a negative errno value; or 1: it is not wanted, or the host asks for fewer. */
static inline int view_open_shared(view *v, unsigned threads) {
#ifndef WEFT_VIEW_SHARED
    (void)v;
    (void)threads;
#else
    if (threads >= view_default_threads()) {
        int error = weft_pool_default(&v->pool);
        if (error != WEFT_OK) return view_error(error);
        v->own = 0;
        if (threads >= weft_pool_workers(v->pool)) return view_furnish(v);
        weft_pool_destroy(&v->pool); /* made when the process had more CPUs */
    }
#endif
    return 1;
}

#define VIEW_STACK_BYTES ((size_t)8 << 20) /* address space */

/* The stack of a thread that the host itself would make (`ulimit -s`, or what pthread_setattr_default_np has set), and at
 * least VIEW_STACK_BYTES, because some systems' default is too small for a host. */
static inline size_t view_stack_bytes(void) {
    pthread_attr_t usual;
    size_t bytes = 0;
    if (pthread_attr_init(&usual) == 0) {
        (void)pthread_attr_getstacksize(&usual, &bytes);
        (void)pthread_attr_destroy(&usual);
    }
    return bytes > VIEW_STACK_BYTES ? bytes : VIEW_STACK_BYTES;
}

/* Fills in a configuration for threads of a view's own, for view_open_with. */
static inline void view_own_threads(weft_config *config, unsigned threads, const char *name) {
    weft_config_init(config);
    config->workers = threads < WEFT_WORKERS_MAX ? threads : WEFT_WORKERS_MAX;
    config->name = name;
    config->stack_size = view_stack_bytes();
    config->flags = WEFT_POOL_NO_HELP;
}

/* Opens a view for a host that asks for `threads` > 0; threads of its own get `name`. 0 or a negative errno value. */
static inline int view_open(view *v, unsigned threads, const char *name) {
    weft_config config;
    int error = view_open_shared(v, threads);
    if (error <= 0) return error;
    view_own_threads(&config, threads, name);
    return view_open_with(v, &config);
}

#ifdef VIEW_HAS_DATA
/* The running worker's pointer in this view, NULL at first. Returns NULL for a thread without a place, and for self NULL. */
static inline void **view_data(const view *v, weft_worker *self) {
    return self != NULL && weft_worker_index(self) < VIEW_PLACES ? &v->data[weft_worker_index(self)] : NULL;
}
#endif

static inline int view_submit(view *v, weft_fn fn, const void *payload, size_t size) {
    return view_error(weft_submit(v->pool, &v->group, fn, payload, size));
}

/* Call it before a sleep that waits for jobs, in a function of the host that may be called in a task of some weft pool:
 * another thread stands in. false: none could, so the sleep may last for ever. Each begin needs an end. */
static inline int view_sleep_begin(void) {
    weft_worker *self = weft_worker_here();
    return self == NULL || weft_block_begin(self) == WEFT_OK;
}
static inline void view_sleep_end(void) {
    weft_worker *self = weft_worker_here();
    if (self != NULL) weft_block_end(self);
}

/* Waits until every job of the view has finished. -EDEADLK: called from one of them. */
static inline int view_wait(view *v) { return view_error(weft_group_wait_until(v->pool, &v->group, WEFT_HELP_NONE, 0)); }

/* Errors after which nothing has happened and the view is as it was. */
static inline int view_is_refusal(int error) { return error == -EDEADLK || error == -ENOMEM || error == -EAGAIN; }

/* For a host's functions that cannot return an error: whether to try again. Without memory, or a place for the calling
 * thread, jobs still run and end, and the caller relies on that. */
static inline int view_tries_again(int error) {
    if (error != -ENOMEM && error != -EAGAIN) return 0;
    (void)sched_yield();
    return 1;
}

/* Whether a wait would fail at once. 0: it would not, though -EDEADLK may still come while it waits; a refusal; -EINVAL: in
 * a forked child. */
static inline int view_check(view *v) {
    int error = weft_group_wait_until(v->pool, &v->group, WEFT_HELP_NONE, 1);
    return error == WEFT_ETIMEDOUT ? 0 : view_error(error);
}

/* Waits, passes each pointer that a job has set to data_free (may be NULL), and gives the threads back. -EDEADLK: called
 * from a job of the view, or from one that such a job waits for. -ENOMEM, -EAGAIN: the calling thread finds no place in the
 * pool. On these errors nothing has happened. */
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

/* As view_close, but waits if there is no memory or no place. */
static inline int view_close_in_time(view *v) {
    int error;
    while (view_tries_again(error = view_close(v, NULL))) {}
    return error;
}

#endif
