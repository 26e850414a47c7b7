/* loop.h: loops that other threads help with. Layer 4. The protocol stands in loop.c. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "worker.h"

/* Has somebody a loop with more to do than its helpers have begun? Any thread. */
bool loops_are_open(const weft_pool *pool);
/* Enters such a loop as its helper of that number, and must call loop_help then. 0: there is none. */
uint32_t loop_find(struct weft_worker *seat, struct loop **found);
void loop_help(struct weft_worker *seat, struct loop *loop, uint32_t number);

/* What weft_for is called with; by weft itself, too. */
struct loop_job {
    weft_range range;
    weft_range_fn body;
    void *context;
    uintptr_t function; /* the user's: the body, or what that calls */
};
/* weft_for, the arguments having been looked at. */
int loop_for(weft_pool *pool, const struct loop_job *job);

#endif
