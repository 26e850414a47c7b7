/* C-Thread-Pool on weft: stands in for thpool.c, behind the host's own thpool.h.
 *
 * What a host relies on, and how it is kept:
 *  - thpool_add_work copies function and argument, and returns 0; or -1, and nothing is queued.
 *  - Jobs start in the order in which they were added, whoever added them, and no more run at once than the pool has
 *    threads. So jobs wait in one list under a lock, and a task of weft is a permit to run the oldest ones, one after the
 *    other. There are at most as many permits as threads; a job that blocks keeps its permit, also while weft lets another
 *    thread stand in for its own.
 *  - thpool_wait returns when nothing is queued and nothing runs; jobs may add jobs, and several threads may wait.
 *  - thpool_pause holds every job that has not started, and thpool_resume lets them go, in their order. Jobs that run
 *    already go on (the original stops their threads in a signal handler, wherever they are, even if they hold locks).
 *  - thpool_destroy lets running jobs finish and drops those that have not started. It returns as soon as the last job has
 *    ended (the original polls its idle threads for a second).
 *  - thpool_num_threads_working counts the threads inside a job.
 *  - The threads have the signal mask of the thread that calls thpool_init, and so have child processes that a job starts.
 *    On the process's pool they have weft's mask: nearly all signals are blocked.
 *  - The threads' names are THPOOL_THREAD_NAME, or thpool, and a number. On the process's pool they are weft's.
 * A wait or destroy in a job of the pool, which never returns in the original, returns at once and does nothing. A pool of
 * no threads gets one, and none gets more than WEFT_WORKERS_MAX. In a forked child nothing can be added, and nothing is
 * waited for. The threads are the pool's own, as many as it asks for, because jobs may block on later ones. With
 * -DWEFT_VIEW_SHARED they are the process's, if the pool asks for at least as many as that has (view.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if __has_include(<cthreadpool/thpool.h>)
#include <cthreadpool/thpool.h>
#else
#include "thpool.h"
#endif

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "view.h"

#ifndef THPOOL_THREAD_NAME
#define THPOOL_THREAD_NAME thpool
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

typedef struct job {
    void (*function)(void *); /* NULL: taken back */
    void *argument;
} job;

/* Jobs lie in blocks of some 4 KiB, so that a long list is neither copied nor allocated job by job. */
#define BLOCK_JOBS 254

typedef struct job_block {
    struct job_block *next;
    job jobs[BLOCK_JOBS];
} job_block;

enum stage { OPEN, CLOSING /* a destroy waits that may be refused */, ENDED };

struct thpool_ {
    view view;
    unsigned threads;
    unsigned forks; /* `forked` when it was made */
    atomic_int working;
    sigset_t mask;        /* of its threads */
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    enum stage stage;
    bool is_paused;
    job_block *first, *last, *idle; /* the list; an emptied block, kept for the next one */
    unsigned first_job, end_job;    /* places in `first` and `last` */
    uint64_t added, taken;          /* places of the list, ever */
    uint64_t unfinished;            /* jobs that are queued or run */
    unsigned permits;               /* counted before they are sent */
    unsigned sending;               /* of these, those whose sender has not come back */
    unsigned waits;                 /* threads in thpool_wait */
};

static _Thread_local const struct thpool_ *running; /* the pool whose job this thread runs */

/* ---- forks: in a child the lock may be held for ever ------------------------------------------------------------------ */

static atomic_uint forked; /* how many forks lie between this process and the first one */

static void count_fork(void) { atomic_fetch_add_explicit(&forked, 1, memory_order_relaxed); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, count_fork); }

static bool is_parents(const struct thpool_ *pool) {
    return pool->forks != atomic_load_explicit(&forked, memory_order_relaxed);
}

/* ---- the list; with the lock held ----------------------------------------------------------------------------------- */

/* Returns the job's place; NULL: no memory. */
static job *list_push(struct thpool_ *pool, job wish) {
    if (pool->last == NULL || pool->end_job == BLOCK_JOBS) {
        job_block *block = pool->idle != NULL ? pool->idle : malloc(sizeof *block);
        if (block == NULL) return NULL;
        pool->idle = NULL;
        block->next = NULL;
        if (pool->last != NULL)
            pool->last->next = block;
        else {
            pool->first = block;
            pool->first_job = 0;
        }
        pool->last = block;
        pool->end_job = 0;
    }
    job *place = &pool->last->jobs[pool->end_job++];
    *place = wish;
    pool->added++;
    return place;
}

/* Call it only if `taken` is less than `added`. */
static job list_pop(struct thpool_ *pool) {
    job_block *block = pool->first;
    const job oldest = block->jobs[pool->first_job++];
    pool->taken++;
    if (pool->taken == pool->added && block == pool->last) {
        pool->first_job = pool->end_job = 0;
    } else if (pool->first_job == BLOCK_JOBS) {
        pool->first = block->next;
        pool->first_job = 0;
        free(pool->idle);
        pool->idle = block;
    }
    return oldest;
}

static void list_free(struct thpool_ *pool) {
    for (job_block *block; (block = pool->first) != NULL;) {
        pool->first = block->next;
        free(block);
    }
    free(pool->idle);
}

/* ---- permits -------------------------------------------------------------------------------------------------------- */

static bool is_held(const struct thpool_ *pool) { return pool->is_paused || pool->stage != OPEN; }

/* How many permits to send now: one for each job that nobody else will take. They are counted. With the lock held. */
static unsigned permits_lacking(struct thpool_ *pool) {
    const uint64_t queued = pool->added - pool->taken;
    unsigned count = 0;
    if (!is_held(pool) && pool->permits < pool->threads) count = pool->threads - pool->permits;
    if (count > queued) count = (unsigned)queued;
    pool->permits += count;
    pool->sending += count;
    return count;
}

static int run_permit(void *payload, weft_worker *self) {
    struct thpool_ *pool = *(struct thpool_ **)payload;
    const struct thpool_ *outer = running;
    (void)self;
    pthread_mutex_lock(&pool->lock);
    while (!is_held(pool) && pool->taken < pool->added) {
        const job mine = list_pop(pool);
        if (mine.function == NULL) continue;
        pthread_mutex_unlock(&pool->lock);
        running = pool;
        atomic_fetch_add(&pool->working, 1);
        mine.function(mine.argument);
        atomic_fetch_sub(&pool->working, 1);
        running = outer;
        pthread_mutex_lock(&pool->lock);
        pool->unfinished--;
    }
    pool->permits--;
    pthread_mutex_unlock(&pool->lock);
    return 0;
}

/* Sends permits that permits_lacking has counted, without the lock: the process's pool may be bounded, and then a submission
 * waits for workers to start others, or runs the permit here. false: one could not be sent, and none is out. On return the
 * lock is held. */
static bool permits_send(struct thpool_ *pool, unsigned count) {
    unsigned left = count;
    while (left > 0 && view_submit(&pool->view, run_permit, &pool, sizeof pool) == 0) left--;
    pthread_mutex_lock(&pool->lock);
    pool->permits -= left;
    pool->sending -= count;
    if (pool->sending == 0) pthread_cond_broadcast(&pool->changed);
    return left == 0 || pool->permits > pool->sending;
}

/* Lets the jobs go that were held. Call it with the lock held, which it gives up. If no permit can be sent, they run here. */
static void let_go(struct thpool_ *pool) {
    const unsigned count = permits_lacking(pool);
    bool runs_here = false;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    if (count == 0) return;
    if (!permits_send(pool, count)) {
        runs_here = true;
        pool->permits++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (runs_here) (void)run_permit(&pool, NULL);
}

/* ---- the host's seven functions ----------------------------------------------------------------------------------- */

/* Runs on each thread before its first job. */
static void begin_thread(weft_worker *self, void *context) {
    char name[16];
    snprintf(name, sizeof name, TEXT(THPOOL_THREAD_NAME) "-%u", weft_worker_index(self));
    pthread_setname_np(pthread_self(), name);
    pthread_sigmask(SIG_SETMASK, &((const struct thpool_ *)context)->mask, NULL);
}

static int open_view(struct thpool_ *pool) {
    weft_config config;
    int error = view_open_shared(&pool->view, pool->threads);
    if (error <= 0) return error;
    pthread_sigmask(SIG_SETMASK, NULL, &pool->mask);
    view_own_threads(&config, pool->threads, TEXT(THPOOL_THREAD_NAME) "-");
    config.start = begin_thread;
    config.context = pool;
    return view_open_with(&pool->view, &config);
}

struct thpool_ *thpool_init(int num_threads) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    struct thpool_ *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->threads = num_threads > 0 ? (unsigned)num_threads : 1;
    pool->forks = atomic_load_explicit(&forked, memory_order_relaxed);
    if (open_view(pool) != 0) {
        free(pool);
        return NULL;
    }
    if (pool->threads > WEFT_WORKERS_MAX) pool->threads = WEFT_WORKERS_MAX;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    return pool;
}

int thpool_add_work(struct thpool_ *pool, void (*function_p)(void *), void *arg_p) {
    if (pool == NULL || function_p == NULL || is_parents(pool)) return -1;
    int result = 0;
    pthread_mutex_lock(&pool->lock);
    job *const place = list_push(pool, (job){function_p, arg_p});
    const uint64_t number = pool->added;
    if (place == NULL) {
        result = -1;
    } else {
        pool->unfinished++;
        const unsigned count = permits_lacking(pool);
        if (count > 0) {
            pthread_mutex_unlock(&pool->lock);
            if (!permits_send(pool, count) && number > pool->taken) {
                place->function = NULL; /* nobody would run it */
                pool->unfinished--;
                result = -1;
            }
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}

/* Sleeps while jobs are held or permits are on their way. With the lock held. */
static void sleep_for_jobs(struct thpool_ *pool) {
    if (pool->stage == ENDED || pool->unfinished == 0 || !(is_held(pool) || pool->sending > 0)) return;
    (void)view_sleep_begin();
    while (pool->stage != ENDED && pool->unfinished > 0 && (is_held(pool) || pool->sending > 0))
        pthread_cond_wait(&pool->changed, &pool->lock);
    view_sleep_end();
}

void thpool_wait(struct thpool_ *pool) {
    if (pool == NULL || running == pool || is_parents(pool)) return;
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    pool->waits++;
    while (pool->stage != ENDED && pool->unfinished > 0 && error == 0) {
        pthread_mutex_unlock(&pool->lock);
        while (view_tries_again(error = view_wait(&pool->view))) {}
        pthread_mutex_lock(&pool->lock);
        if (error == 0) sleep_for_jobs(pool);
    }
    if (--pool->waits == 0) pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

void thpool_pause(struct thpool_ *pool) {
    if (pool == NULL || is_parents(pool)) return;
    pthread_mutex_lock(&pool->lock);
    pool->is_paused = true;
    pthread_mutex_unlock(&pool->lock);
}

void thpool_resume(struct thpool_ *pool) {
    if (pool == NULL || is_parents(pool)) return;
    pthread_mutex_lock(&pool->lock);
    pool->is_paused = false;
    let_go(pool);
}

int thpool_num_threads_working(struct thpool_ *pool) { return pool == NULL ? 0 : atomic_load(&pool->working); }

/* Waits for the running jobs, with the others held. false: a job of the pool waits for the caller; all is as before. */
static bool end_jobs(struct thpool_ *pool) {
    int error;
    pthread_mutex_lock(&pool->lock);
    pool->stage = CLOSING;
    pthread_mutex_unlock(&pool->lock);
    while (view_tries_again(error = view_wait(&pool->view))) {}
    pthread_mutex_lock(&pool->lock);
    if (error != 0) {
        pool->stage = OPEN;
        let_go(pool);
        return false;
    }
    pool->stage = ENDED;
    pthread_cond_broadcast(&pool->changed);
    while (pool->waits > 0 || pool->sending > 0) pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return true;
}

void thpool_destroy(struct thpool_ *pool) {
    if (pool == NULL || running == pool) return;
    if (!is_parents(pool) && !end_jobs(pool)) return; /* as if one of its own jobs had called */
    if (view_close_in_time(&pool->view) != 0) return;
    if (!is_parents(pool)) {
        pthread_cond_destroy(&pool->changed);
        pthread_mutex_destroy(&pool->lock);
    }
    list_free(pool);
    free(pool);
}
