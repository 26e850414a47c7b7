/* The control of the x264 race: it does what common/threadpool.c of x264 does, written anew, with at most CONTROL_WORKERS
 * threads.
 *
 * It shows how much of a gain comes from fewer workers alone. As in x264's own pool there are three lists (free, queued,
 * finished), each with a mutex and a condition variable that every addition broadcasts. */
#include "common/common.h"

#include <pthread.h>
#include <stdlib.h>

#ifndef CONTROL_WORKERS
#define CONTROL_WORKERS 2
#endif

typedef struct job {
    void *(*func)(void *);
    void *arg;
    void *result;
} job;

typedef struct job_list {
    pthread_mutex_t lock;
    pthread_cond_t added;
    int count;
    job **item;
} job_list;

struct x264_threadpool_t {
    job_list free;
    job_list queued;
    job_list finished;
    int stop; /* guarded by queued.lock */
    int workers;
    pthread_t *thread;
    job *jobs;
};

static int list_init(job_list *list, int capacity) {
    pthread_mutex_init(&list->lock, NULL);
    pthread_cond_init(&list->added, NULL);
    list->item = calloc((size_t)capacity, sizeof list->item[0]);
    return list->item ? 0 : -1;
}

static void list_end(job_list *list) {
    free(list->item);
    pthread_cond_destroy(&list->added);
    pthread_mutex_destroy(&list->lock);
}

static void list_push(job_list *list, job *one) {
    pthread_mutex_lock(&list->lock);
    list->item[list->count++] = one;
    pthread_mutex_unlock(&list->lock);
    pthread_cond_broadcast(&list->added);
}

/* Takes item `at` and closes the gap; call with the lock held. */
static job *list_take(job_list *list, int at) {
    job *one = list->item[at];
    list->count--;
    for (int i = at; i < list->count; i++) list->item[i] = list->item[i + 1];
    return one;
}

static job *next_job(x264_threadpool_t *pool) {
    job *one = NULL;
    pthread_mutex_lock(&pool->queued.lock);
    while (!pool->stop && !pool->queued.count) pthread_cond_wait(&pool->queued.added, &pool->queued.lock);
    if (!pool->stop) one = list_take(&pool->queued, 0);
    pthread_mutex_unlock(&pool->queued.lock);
    return one;
}

REALIGN_STACK static void *worker(void *argument) {
    x264_threadpool_t *pool = argument;
    for (job *one; (one = next_job(pool));) {
        one->result = one->func(one->arg);
        list_push(&pool->finished, one);
    }
    return NULL;
}

int x264_threadpool_init(x264_threadpool_t **p_pool, int threads) {
    x264_threadpool_t *pool = threads > 0 ? calloc(1, sizeof *pool) : NULL;
    if (!pool) return -1;
    int workers = threads < CONTROL_WORKERS ? threads : CONTROL_WORKERS;
    int failed = list_init(&pool->free, threads) | list_init(&pool->queued, threads) | list_init(&pool->finished, threads);
    pool->jobs = calloc((size_t)threads, sizeof pool->jobs[0]);
    pool->thread = calloc((size_t)workers, sizeof pool->thread[0]);
    if (!failed && pool->jobs && pool->thread) {
        for (int i = 0; i < threads; i++) list_push(&pool->free, &pool->jobs[i]);
        while (pool->workers < workers && !pthread_create(&pool->thread[pool->workers], NULL, worker, pool)) pool->workers++;
    }
    if (!pool->workers) {
        x264_threadpool_delete(pool);
        return -1;
    }
    *p_pool = pool;
    return 0;
}

void x264_threadpool_run(x264_threadpool_t *pool, void *(*func)(void *), void *arg) {
    pthread_mutex_lock(&pool->free.lock);
    while (!pool->free.count) pthread_cond_wait(&pool->free.added, &pool->free.lock);
    job *one = list_take(&pool->free, pool->free.count - 1);
    pthread_mutex_unlock(&pool->free.lock);
    one->func = func;
    one->arg = arg;
    list_push(&pool->queued, one);
}

/* The index of a finished job with this argument, or -1. Call it with the list's lock held. */
static int find_finished(const job_list *finished, const void *arg) {
    for (int i = 0; i < finished->count; i++)
        if (finished->item[i]->arg == arg) return i;
    return -1;
}

void *x264_threadpool_wait(x264_threadpool_t *pool, void *arg) {
    int at;
    pthread_mutex_lock(&pool->finished.lock);
    while ((at = find_finished(&pool->finished, arg)) < 0) pthread_cond_wait(&pool->finished.added, &pool->finished.lock);
    job *one = list_take(&pool->finished, at);
    pthread_mutex_unlock(&pool->finished.lock);
    void *result = one->result;
    list_push(&pool->free, one);
    return result;
}

void x264_threadpool_delete(x264_threadpool_t *pool) {
    pthread_mutex_lock(&pool->queued.lock);
    pool->stop = 1;
    pthread_mutex_unlock(&pool->queued.lock);
    pthread_cond_broadcast(&pool->queued.added);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->thread[i], NULL);
    list_end(&pool->free);
    list_end(&pool->queued);
    list_end(&pool->finished);
    free(pool->thread);
    free(pool->jobs);
    free(pool);
}
