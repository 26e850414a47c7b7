/* for.c: weft_chunks_for: chunks claimed one after the other, each a loop of its own in the pool. */
#include "chunks.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define NAP_MS_MIN 10u
#define NAP_MS_MAX 500u

/* The thread that renews the lease. */
struct keeper {
    weft_chunks *queue;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    bool ends;
    pthread_t thread;
};

static struct timespec after_ms(uint64_t ms) {
    uint64_t then = now_ns() + ms * 1000000;
    return (struct timespec){.tv_sec = (time_t)(then / 1000000000), .tv_nsec = (long)(then % 1000000000)};
}

static void *keeper_run(void *argument) {
    struct keeper *keeper = argument;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->ends) {
        struct timespec then = after_ms(keeper->queue->plan.given.lease_ms / 4);
        pthread_cond_timedwait(&keeper->ending, &keeper->lock, &then);
        if (keeper->ends) break;
        pthread_mutex_unlock(&keeper->lock);
        weft_chunks_renew(keeper->queue); /* refused: the lease runs out, and finishing tells */
        pthread_mutex_lock(&keeper->lock);
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

/* Signals are the program's: the thread takes none but those of its own faults. */
static int thread_create(struct keeper *keeper) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int error = pthread_create(&keeper->thread, NULL, keeper_run, keeper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int keeper_start(struct keeper *keeper) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->ending, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&keeper->lock, NULL);
    errno = thread_create(keeper);
    if (errno == 0) return WEFT_OK;
    why_system("no thread to renew the lease");
    pthread_cond_destroy(&keeper->ending);
    pthread_mutex_destroy(&keeper->lock);
    return WEFT_EAGAIN;
}

static void keeper_stop(struct keeper *keeper) {
    pthread_mutex_lock(&keeper->lock);
    keeper->ends = true;
    pthread_cond_signal(&keeper->ending);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->ending);
    pthread_mutex_destroy(&keeper->lock);
}

/* A loop of a negative result has not failed: this process has. */
static int chunk_run(weft_chunks *queue, const weft_chunks_work *work, const weft_chunk *chunk) {
    const weft_range range = {chunk->begin, chunk->end, work->grain};
    int error = weft_for(work->pool, range, work->body, work->context);
    int noted = error < 0 ? weft_chunks_release(queue, chunk) : weft_chunks_finish(queue, chunk, error);
    /* What could not be noted is no claim that anybody goes on with: the next call claims it anew. */
    if (noted != WEFT_OK) queue->marks[chunk->index].is_mine = false;
    if (error < 0) return why(error, "chunk %zu: %s; it was given back", chunk->index, weft_chunks_strerror(error));
    return noted == WEFT_CHUNKS_LOST ? WEFT_OK : noted; /* whoever has it now finishes it */
}

static void nap(const weft_chunks *queue) {
    uint64_t ms = queue->plan.given.lease_ms / 16;
    ms = ms < NAP_MS_MIN ? NAP_MS_MIN : ms > NAP_MS_MAX ? NAP_MS_MAX : ms;
    const struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

/* One chunk, or a nap while others have them. False: *error is the outcome. */
static bool goes_on(weft_chunks *queue, const weft_chunks_work *work, int *error) {
    weft_chunk chunk;
    *error = weft_chunks_claim(queue, &chunk);
    if (*error == WEFT_OK) {
        *error = chunk_run(queue, work, &chunk);
        return *error == WEFT_OK;
    }
    if (*error == WEFT_CHUNKS_END || *error == WEFT_ECANCELED)
        *error = weft_chunks_result(queue); /* all may have been done before */
    if (*error == WEFT_CHUNKS_BUSY) nap(queue);
    return *error == WEFT_CHUNKS_BUSY;
}

int weft_chunks_for(weft_chunks *queue, const weft_chunks_work *work) {
    if (queue == NULL || work == NULL || work->pool == NULL || work->body == NULL)
        return why(WEFT_EINVAL, "no queue, pool or body");
    struct keeper keeper = {.queue = queue};
    int error = keeper_start(&keeper);
    if (error != WEFT_OK) return error;
    while (goes_on(queue, work, &error)) {}
    keeper_stop(&keeper);
    return error;
}
