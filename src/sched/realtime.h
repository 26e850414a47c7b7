/* realtime.h: real-time pools: what was asked for, what the system granted, how long a real-time worker may spin. Layer 4. */
#ifndef WEFT_REAL_H
#define WEFT_REAL_H

#include "sched/worker.h"

/* Called by a worker or a spare as its first and its last step. */
void realtime_begin(struct weft_worker *seat);
void realtime_end(struct weft_worker *seat);

/* How long (ticks) the seat's thread may spin before the system might take the CPU from its tasks because of that. */
uint64_t realtime_spin_left_slow(struct weft_worker *seat);
INLINE uint64_t realtime_spin_left(struct weft_worker *seat) {
    return UNLIKELY(load_rlx(&seat->pool->realtime.window_ticks) != 0) ? realtime_spin_left_slow(seat) : UINT64_MAX;
}
INLINE bool realtime_is_spent(struct weft_worker *seat) { return realtime_spin_left(seat) == 0; }
/* When a look-out planned from `start` to `until` must end under that bound. */
INLINE uint64_t realtime_look_until(struct weft_worker *seat, uint64_t start, uint64_t until) {
    return start + min_u64(until - start, realtime_spin_left(seat));
}
/* How long (ticks) the thread may spin now. */
INLINE uint64_t realtime_spin_ticks(struct weft_worker *seat) {
    return realtime_is_spent(seat) ? 0 : load_rlx(&seat->pool->spin_now);
}

#endif
