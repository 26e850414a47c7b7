/* fence.h: waits for a FIFO pool that has no wait of its own.
 *
 * Submits one more job per worker; each of these waits until all of them have started. Then every job before them has
 * started and finished, and the measured jobs needed no shared counter. */
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
