/* thread_pool.h: OpenAirInterface's older pool of threads and messages, on weft.
 *
 * A message goes to the pool with pushTpool, its function runs on a worker, then it goes to the queue it names, if any. A
 * message belongs to whoever has it: the caller, the pool, the response queue. Functions may be called from any thread. */
#ifndef WEFT_OAI_THREAD_POOL_H
#define WEFT_OAI_THREAD_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct notifiedFIFO_elt_s {
    struct notifiedFIFO_elt_s *next;
    uint64_t key; /* what abort functions compare */
    struct notifiedFIFO_s *reponseFifo;
    void (*processingFunc)(void *data);
    bool malloced;
    /* CPU ticks, kept when the pool measures: pushed, started, ended, pulled */
    uint64_t creationTime;
    uint64_t startProcessingTime;
    uint64_t endProcessingTime;
    uint64_t returnTime;
    void *msgData;
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
    int nbThreads;
} tpool_t;

/* ---- messages ----------------------------------------------------------------------------------------------------- */

/* A message with `size` bytes of data, aligned to 32; NULL when there is no memory. Freed with delNotifiedFIFO_elt. */
notifiedFIFO_elt_t *newNotifiedFIFO_elt(int size, uint64_t key, notifiedFIFO_t *reponseFifo, void (*processingFunc)(void *));
void delNotifiedFIFO_elt(notifiedFIFO_elt_t *elt);
static inline void *NotifiedFifoData(notifiedFIFO_elt_t *elt) { return elt->msgData; }

void initNotifiedFIFO(notifiedFIFO_t *nf);
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

/* params: one entry for each thread, separated by commas: a CPU number pins it, -1 leaves it where the system puts it; or
 * "n": no threads. 0, or -EINVAL for anything else, -ENOMEM, -EAGAIN: the pool then has no threads and works as for "n". */
int initTpool(const char *params, tpool_t *pool, bool performanceMeas);
#define initFloatingCoresTpool(n, pool, perf) initTpoolFloating(n, pool, perf)
/* n threads on any CPU. */
int initTpoolFloating(int n, tpool_t *pool, bool performanceMeas);

void pushTpool(tpool_t *t, notifiedFIFO_elt_t *msg);
notifiedFIFO_elt_t *pullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
notifiedFIFO_elt_t *tryPullTpool(notifiedFIFO_t *responseFifo, tpool_t *t);
/* Deletes messages of that key that have not started; those that run go on, and are deleted instead of answered. How
 * many. */
int abortTpoolJob(tpool_t *t, uint64_t key);
/* Deletes what has not started, waits for what runs, ends the threads. How many were deleted. In a message's function it does
 * nothing and returns 0. */
int abortTpool(tpool_t *t);

#endif
