/* slice.h: the time slices of a pool's threads. Layer 4. See slice.c. */
#ifndef WEFT_SLICE_H
#define WEFT_SLICE_H

#include "sched/worker.h"

/* Called by the pool's maker before the pool's threads start. */
void slice_configure(weft_pool *pool);
/* Called by a worker or a spare: as its first step; when it is about to sleep. */
void slice_begin(struct weft_worker *seat);
void slice_before_sleep_slow(struct weft_worker *seat);
INLINE void slice_before_sleep(struct weft_worker *seat) {
    if (LIKELY(load_rlx(&seat->task_ticks) == seat->slice_ticks) || seat->slice_ns == 0) return;
    slice_before_sleep_slow(seat);
}
/* Called by a worker around a background task. */
void slice_stretch(struct weft_worker *seat);
void slice_back(struct weft_worker *seat);

#endif
