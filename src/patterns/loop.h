/* loop.h: loops that other threads help with. Layer 6. The protocol is in loop.c. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "patterns/state.h"

/* Helps only with loops that `accepts` accepts. Asked while a loop's entry is open; an answer about a loop whose entry has
 * changed since is ignored. */
struct loop_filter {
    bool (*accepts)(const void *context, const struct loop *loop);
    const void *context;
    bool leaves; /* the helper may leave before the loop is over: only where others find its rest */
};
/* Did `caller` call the loop while it forked in a region from position `from` on? Or is it in a body of such a loop? */
bool loop_is_called(const struct loop *loop, const struct weft_worker *caller, uint64_t from);

/* Enters a loop with more to do, and returns the helper's number for the call of loop_help that must follow. 0: there is no
 * such loop. `filter` NULL: any loop. */
uint32_t loop_find(struct weft_worker *seat, const struct loop_filter *filter, struct loop **found);
/* Helps until there is no more to do, or until `until_ns` (0: no such time), which needs a filter with `leaves`. */
void loop_help(struct weft_worker *seat, struct loop *loop, uint32_t number, uint64_t until_ns);

/* A call of weft_for, or of weft itself. */
struct loop_job {
    weft_range range;
    weft_range_fn body;
    void *context;
    uintptr_t function; /* the user's: the body, or the function that the body calls */
    uint64_t site;      /* tells the loop from others of that function: cost_site, or the user's */
};
/* weft_for without its check of the arguments. */
int loop_for(weft_pool *pool, const struct loop_job *job);

#endif
