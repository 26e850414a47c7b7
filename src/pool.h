/* pool.h: seats and the life of a pool, for the files of layer 5. Layer 4. */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include "worker.h"

/* The calling thread's seat, taken on first use. NULL: *error is WEFT_EAGAIN, WEFT_ENOMEM or WEFT_EFORK. Takes locks when the
 * thread has no seat yet or last used another pool. */
struct weft_worker *seat_find(weft_pool *pool, int *error);

/* A pool without a thread, from a configuration that was checked. NULL: no memory. */
weft_pool *pool_make(const weft_config *config);

/* Starts a spare thread when fewer run than sections are open. Whether one stands in now. */
bool pool_add_spare(weft_pool *pool);
/* A worker is not to be had for a while: a spare stands in, started if need be. Whether there is one. */
bool pool_stand_in(weft_pool *pool);
void pool_stand_down(weft_pool *pool);

#endif
