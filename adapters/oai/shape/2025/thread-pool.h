/* What adapters/oai uses of the host's thread-pool.h of 2025. */
#ifndef OAI_SHAPE_2025_THREAD_POOL_H
#define OAI_SHAPE_2025_THREAD_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "assertions.h"
#include "system.h"

/* The host's task.h. */
typedef struct {
    void *args;
    void (*func)(void *args);
} task_t;

typedef struct {
    pthread_t *t_arr;
    size_t len_thr;
    _Atomic(uint64_t) index;
    void *q_arr;
    pthread_barrier_t barrier;
} tpool_t;

void pushTpool(tpool_t *tpool, task_t task);
void abortTpool(tpool_t *t);
void initNamedTpool(char *params, tpool_t *pool, bool performanceMeas, char *name);
void initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, char *name);
#define initTpool(params, pool, measures) initNamedTpool(params, pool, measures, NULL)

#endif
