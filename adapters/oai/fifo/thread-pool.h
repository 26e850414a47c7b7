/* thread-pool.h: OpenAirInterface's pool of threads and messages (until 2024), on weft: stands in for both
 * common/utils/threadPool/thread-pool.h, whose pushTpool is inline, and thread-pool.c. With the host's tree on the include path it
 * brings what that header does.
 *
 * A message goes to the pool with pushTpool, its function runs on a worker, then it goes to the queue it names, if any. A
 * message belongs to whoever has it: the caller, the pool, the response queue. Functions may be called from any thread. */
#ifndef THREAD_POOL_H
#define THREAD_POOL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#if __has_include("common/utils/time_meas.h")
/* What other files of the host find through this one. */
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
    uint64_t key; /* what abort functions compare */
    struct notifiedFIFO_s *reponseFifo;
    void (*processingFunc)(void *data);
    bool malloced;
    /* CPU ticks, kept when the pool measures: pushed, started, ended, pulled */
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
    struct tpool_threads *threads; /* NULL: "n", messages are processed in pushTpool */
    notifiedFIFO_t incomingFifo;
    bool measurePerf;
    int traceFd; /* messages that are pulled are written there, or -1 */
    int nbThreads;
} tpool_t;
#define tpool_nbthreads(tpool) ((tpool).nbThreads)

/* ---- messages ----------------------------------------------------------------------------------------------------- */

/* A message with `size` bytes of data, aligned to 32; NULL when there is no memory. Freed with delNotifiedFIFO_elt. */
notifiedFIFO_elt_t *newNotifiedFIFO_elt(int size, uint64_t key, notifiedFIFO_t *reponseFifo, void (*processingFunc)(void *));
void delNotifiedFIFO_elt(notifiedFIFO_elt_t *elt);
static inline void *NotifiedFifoData(notifiedFIFO_elt_t *elt) { return elt->msgData; }

void initNotifiedFIFO(notifiedFIFO_t *nf);
/* For a queue that one thread has: it may be neither pushed to nor pulled from by others. */
static inline void initNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf) {
    nf->inF = nf->outF = NULL;
    nf->abortFIFO = false;
}
void pushNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg);
notifiedFIFO_elt_t *pullNotifiedFIFO_nothreadSafe(notifiedFIFO_t *nf);
void pushNotifiedFIFO(notifiedFIFO_t *nf, notifiedFIFO_elt_t *msg);
/* The oldest message; sleeps for one. NULL once the queue is aborted. */
notifiedFIFO_elt_t *pullNotifiedFIFO(notifiedFIFO_t *nf);
/* As pull, but NULL instead of sleeping. */
notifiedFIFO_elt_t *pollNotifiedFIFO(notifiedFIFO_t *nf);
/* Deletes the messages of that key; returns how many. */
int abortNotifiedFIFOJob(notifiedFIFO_t *nf, uint64_t key);
/* Deletes all messages and ends the queue: whoever sleeps in a pull gets NULL. Returns how many were deleted. */
int abortNotifiedFIFO(notifiedFIFO_t *nf);

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

/* params: one entry for each thread, separated by commas: a CPU number keeps it there, -1 leaves it where the system puts it; or
 * "n": no threads. They have the host's real-time policy and priority (threads.h). 0, or -EINVAL for anything else, -ENOMEM,
 * -EAGAIN: said on stderr, and the pool then has no threads and works as for "n". Messages are measured, and written when
 * pulled, where OAI_THREADPOOLMEASUREMENTS names a pipe (measurement_display). */
int initNamedTpool(const char *params, tpool_t *pool, bool performanceMeas, const char *name);
#define initTpool(params, pool, measures) initNamedTpool(params, pool, measures, NULL)
/* nbThreads threads on any CPU; 0: as "n". The same errors; -EINVAL for more than 512. */
int initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, const char *name);

void pushTpool(tpool_t *t, notifiedFIFO_elt_t *msg);
notifiedFIFO_elt_t *pullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
notifiedFIFO_elt_t *tryPullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
/* Deletes messages of that key that have not started; those that run go on, and are deleted instead of answered. How
 * many. */
int abortTpoolJob(tpool_t *t, uint64_t key);
/* Deletes what has not started, waits for what runs, ends the threads. How many were deleted. In a message's function it does
 * nothing and returns 0. */
int abortTpool(tpool_t *t);

#if __has_include("common/utils/time_meas.h")
/* How long a message's function took, as one measurement; none: all zero. */
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
