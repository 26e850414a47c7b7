/* thread-pool.h: OpenAirInterface's pool of threads and messages (until 2024), on weft. It replaces
 * common/utils/threadPool/thread-pool.h, whose pushTpool is inline, and thread-pool.c. With the host's tree on the include
 * path it provides what that header provides.
 *
 * A message goes to the pool with pushTpool, its function runs on a worker, and then it goes to the queue that it names, if
 * any. A message belongs to whoever holds it: the caller, the pool, or the response queue. Any thread may call the
 * functions. */
#ifndef THREAD_POOL_H
#define THREAD_POOL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#if __has_include("common/utils/time_meas.h")
/* Other files of the host find these through this header. */
#include <malloc.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "assertions.h"
#include "common/utils/system.h"
#include "common/utils/time_meas.h"
#else
typedef long long oai_cputime_t;
#endif

typedef struct notifiedFIFO_elt_s {
    struct notifiedFIFO_elt_s *next;
    uint64_t key; /* compared by the abort functions */
    struct notifiedFIFO_s *reponseFifo;
    void (*processingFunc)(void *data);
    bool malloced;
    /* CPU ticks when it was pushed, started, ended and pulled, if the pool measures */
    oai_cputime_t creationTime;
    oai_cputime_t startProcessingTime;
    oai_cputime_t endProcessingTime;
    oai_cputime_t returnTime;
    alignas(32) void *msgData; /* last: the data lies behind it */
} notifiedFIFO_elt_t;

typedef struct notifiedFIFO_s {
    notifiedFIFO_elt_t *outF;
    notifiedFIFO_elt_t *inF;
    pthread_mutex_t lockF;
    pthread_cond_t notifF;
    bool abortFIFO; /* pulls return NULL */
} notifiedFIFO_t;

typedef struct thread_pool {
    struct tpool_threads *threads; /* NULL: "n"; messages are processed in pushTpool */
    notifiedFIFO_t incomingFifo;
    bool measurePerf;
    int traceFd; /* where pulled messages are written, or -1 */
    int nbThreads;
} tpool_t;
#define tpool_nbthreads(tpool) ((tpool).nbThreads)

/* ---- messages ----------------------------------------------------------------------------------------------------- */

/* A message with `size` bytes of data, aligned to 32; NULL: no memory. Freed with delNotifiedFIFO_elt. */
notifiedFIFO_elt_t *newNotifiedFIFO_elt(int size, uint64_t key, notifiedFIFO_t *reponseFifo, void (*processingFunc)(void *));
void delNotifiedFIFO_elt(notifiedFIFO_elt_t *elt);
static inline void *NotifiedFifoData(notifiedFIFO_elt_t *elt) { return elt->msgData; }

void initNotifiedFIFO(notifiedFIFO_t *nf);
/* For a queue that only one thread uses. */
static inline void initNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf) {
    nf->inF = nf->outF = NULL;
    nf->abortFIFO = false;
}
void pushNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg);
notifiedFIFO_elt_t *pullNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf);
void pushNotifiedFIFO(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg);
/* Takes the oldest message, sleeping until there is one. NULL once the queue is aborted. */
notifiedFIFO_elt_t *pullNotifiedFIFO(notifiedFIFO_t *nf);
/* The same, but returns NULL instead of sleeping. */
notifiedFIFO_elt_t *pollNotifiedFIFO(notifiedFIFO_t *nf);
/* Deletes the messages of that key. Returns how many. */
int abortNotifiedFIFOJob(notifiedFIFO_t *nf, uint64_t key);
/* Deletes all messages and ends the queue: threads that sleep in a pull get NULL. Returns how many were deleted. */
int abortNotifiedFIFO(notifiedFIFO_t *nf);

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

/* params: one entry for each thread, separated by commas: a CPU number binds the thread to it, -1 leaves it to the system;
 * or "n": no threads. The threads have the host's real-time policy and priority (threads.h). 0; -EINVAL for anything else;
 * -ENOMEM; -EAGAIN. An error is reported on stderr, and the pool then has no threads and works as for "n". If
 * OAI_THREADPOOLMEASUREMENTS names a pipe (measurement_display), messages are measured, and written to it when they are
 * pulled. */
int initNamedTpool(const char *params, tpool_t *pool, bool performanceMeas, const char *name);
#define initTpool(params, pool, measures) initNamedTpool(params, pool, measures, NULL)
/* nbThreads threads on any CPU; 0: as "n". Returns the same errors; -EINVAL for more than 512. */
int initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, const char *name);

void pushTpool(tpool_t *t, notifiedFIFO_elt_t *msg);
notifiedFIFO_elt_t *pullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
notifiedFIFO_elt_t *tryPullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
/* Deletes messages of that key that have not started. Those that run go on, and are deleted instead of answered. Returns how
 * many. */
int abortTpoolJob(tpool_t *t, uint64_t key);
/* Deletes the messages that have not started, waits for those that run, and ends the threads. Returns how many were deleted.
 * In a message's function it does nothing and returns 0. */
int abortTpool(tpool_t *t);

#if __has_include("common/utils/time_meas.h")
/* How long a message's function took, as one measurement. All zero: it was not measured. */
static inline time_stats_t exec_time_stats_NotifiedFIFO(const notifiedFIFO_elt_t *elt) {
    time_stats_t stats = {0};
    const oai_cputime_t took = elt->endProcessingTime - elt->startProcessingTime;
    if (elt->startProcessingTime == 0 && elt->endProcessingTime == 0) return stats;
    stats.in = elt->startProcessingTime;
    stats.diff = stats.p_time = stats.max = took;
    stats.diff_square = (double)took * (double)took;
    stats.trials = 1;
    return stats;
}
#endif

#endif
