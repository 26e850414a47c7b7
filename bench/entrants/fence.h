/* fence.h: waiting for a FIFO pool that cannot be waited for.
 *
 * One more job per worker, each of which stays until all of them have started: then every job before them has been started
 * and finished, and no counter had to be shared by the jobs that are measured. */
#ifndef WEFT_BENCH_FENCE_H
#define WEFT_BENCH_FENCE_H

#include "../entrant.h"

#include <pthread.h>
#include <stdlib.h>

struct fence {
    pthread_barrier_t barrier;
};

static inline int fence_init(struct fence *fence, unsigned workers) {
    return pthread_barrier_init(&fence->barrier, NULL, workers + 1);
}

static inline void fence_meet(struct fence *fence) {
    int result = pthread_barrier_wait(&fence->barrier);
    if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD) abort();
}

/* The extra job: its payload is the address of the fence. */
static inline int fence_job(void *payload, struct weft_worker *self) {
    (void)self;
    fence_meet(*(struct fence **)payload);
    return 0;
}

#endif
