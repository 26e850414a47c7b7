/* C-Thread-Pool on weft: stands in for thpool.c, behind the host's own thpool.h.
 *
 * What a host relies on, and how it is kept:
 *  - thpool_add_work copies function and argument, and returns 0; or -1, and nothing is queued.
 *  - thpool_wait returns when nothing is queued and nothing runs; jobs may add jobs, and several threads may wait.
 *  - thpool_pause holds every job that has not started, and thpool_resume lets them go, in their order. Jobs that run
 *    already go on (the original stops their threads in a signal handler, wherever they are, even if they hold locks).
 *  - thpool_destroy lets running jobs finish and drops those that have not started. It returns as soon as the last job has
 *    ended (the original polls its idle threads for a second).
 *  - thpool_num_threads_working counts the threads inside a job.
 *  - The threads have the signal mask of the thread that calls thpool_init, and so have child processes that a job starts.
 *    On the process's pool they have weft's mask: nearly all signals are blocked.
 * A wait or destroy in a job of the pool, which never returns in the original, returns at once and does nothing. A pool of
 * no threads gets one. The threads are the pool's own, as many as it asks for, because jobs may block on later ones. With
 * -DWEFT_VIEW_SHARED they are the process's, if the pool asks for at least as many as that has (view.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if __has_include(<cthreadpool/thpool.h>)
#include <cthreadpool/thpool.h>
#else
#include "thpool.h"
#endif

#include <signal.h>

#include "shelf.h"

typedef struct job {
    shelf_job head;
    void (*function)(void *);
    void *argument;
} job;

struct thpool_ {
    shelf_view shelf; /* first: a job's home is its pool */
    atomic_int working;
    sigset_t mask; /* of its threads */
};

static _Thread_local const struct thpool_ *running; /* the pool whose job this thread runs */

static void run_job(shelf_job *head, weft_worker *self) {
    const job *mine = (const job *)head;
    struct thpool_ *pool = (struct thpool_ *)head->home;
    (void)self;
    if (atomic_load(&pool->shelf.stage) == SHELF_ENDED) return;
    const struct thpool_ *outer = running;
    running = pool;
    atomic_fetch_add(&pool->working, 1);
    mine->function(mine->argument);
    atomic_fetch_sub(&pool->working, 1);
    running = outer;
}

/* ---- the host's seven functions ----------------------------------------------------------------------------------- */

/* Runs on each thread before its first job. */
static void set_mask(weft_worker *self, void *context) {
    (void)self;
    pthread_sigmask(SIG_SETMASK, &((const struct thpool_ *)context)->mask, NULL);
}

static int open_view(struct thpool_ *pool, unsigned threads) {
    weft_config config;
    int error = view_open_shared(&pool->shelf.view, threads);
    if (error <= 0) return error;
    pthread_sigmask(SIG_SETMASK, NULL, &pool->mask);
    view_own_threads(&config, threads, "thread-pool");
    config.start = set_mask;
    config.context = pool;
    return view_open_with(&pool->shelf.view, &config);
}

struct thpool_ *thpool_init(int num_threads) {
    struct thpool_ *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    if (open_view(pool, num_threads > 0 ? (unsigned)num_threads : 1) != 0) {
        free(pool);
        return NULL;
    }
    shelf_furnish(&pool->shelf, run_job);
    return pool;
}

int thpool_add_work(struct thpool_ *pool, void (*function_p)(void *), void *arg_p) {
    if (pool == NULL || function_p == NULL) return -1;
    job wish = {.function = function_p, .argument = arg_p};
    return shelf_submit(&pool->shelf, &wish.head, sizeof wish) == 0 ? 0 : -1;
}

void thpool_wait(struct thpool_ *pool) {
    if (pool == NULL || running == pool) return;
    while (view_tries_again(shelf_wait(&pool->shelf))) {}
}

void thpool_pause(struct thpool_ *pool) {
    if (pool != NULL) shelf_pause(&pool->shelf, true);
}

void thpool_resume(struct thpool_ *pool) {
    if (pool != NULL) shelf_pause(&pool->shelf, false);
}

int thpool_num_threads_working(struct thpool_ *pool) { return pool == NULL ? 0 : atomic_load(&pool->working); }

void thpool_destroy(struct thpool_ *pool) {
    if (pool == NULL || running == pool) return;
    int error;
    while (view_tries_again(error = shelf_close(&pool->shelf, true, NULL))) {}
    if (error == 0) free(pool); /* otherwise a job of the pool waits for the caller: as if one of its own had called */
}
