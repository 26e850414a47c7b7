/* fork.h: forked calls that other threads take. Layer 4. The protocol stands in fork.c. */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include "worker.h"

/* A call that the finder has taken: it must run it. */
struct fork_call {
    weft_place *place;
    weft_fork_fn fn;
};

/* Takes a call that some seat offers; `force`: also one that its thread has not offered, being long in something else. */
bool fork_find(struct weft_worker *seat, bool force, struct fork_call *call);
void fork_run(struct weft_worker *seat, const struct fork_call *call);

/* Might there be something to take? `force` as above. Any thread. */
bool forks_are_open(const weft_pool *pool, bool force);
/* Asks every thread that forks to offer its oldest call. */
void forks_ask(const weft_pool *pool);
/* The same by one that is about to sleep: whatever is forked from now on will be offered and somebody woken. */
void forks_ask_firmly(const weft_pool *pool);

#endif
