/* loop.h: loops that other threads help with. Layer 6. The protocol is in loop.c. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "patterns/state.h"

/* Whose loops to help with: those it accepts. It is asked while the entry stands open that the finder then enters, else in
 * vain. */
struct loop_filter {
    bool (*accepts)(const void *context, const struct loop *loop);
    const void *context;
    bool leaves; /* perhaps before the loop is over: only where others find what is left */
};
/* Was it called by that thread while that forked in a region from that position on, or in a body of a loop that was? */
bool loop_is_called(const struct loop *loop, const struct weft_worker *caller, uint64_t from);

/* Enters a loop with more to do as its helper of that number, and must call loop_help then. 0: there is none. `filter`
 * NULL: any. */
uint32_t loop_find(struct weft_worker *seat, const struct loop_filter *filter, struct loop **found);
/* Until there is no more to do, or that time (0: none) has passed; then the filter was one that leaves. */
void loop_help(struct weft_worker *seat, struct loop *loop, uint32_t number, uint64_t until_ns);

/* What weft_for is called with; by weft itself, too. */
struct loop_job {
    weft_range range;
    weft_range_fn body;
    void *context;
    uintptr_t function; /* the user's: the body, or what that calls */
    uint64_t site;      /* what tells it from others of that function: cost_site, or the user's */
};
/* weft_for, the arguments having been looked at. */
int loop_for(weft_pool *pool, const struct loop_job *job);

#endif
