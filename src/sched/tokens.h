/* tokens.h: threads that count against a number that several programs share, by make's jobserver or by the lease. Layer 4. See tokens.c. */
#ifndef WEFT_TOKENS_H
#define WEFT_TOKENS_H

#include "sched/worker.h"

/* Called by the maker of a pool with WEFT_POOL_JOBSERVER or WEFT_POOL_LEASE, before its threads start: sets has_tokens, and the error of
 * each that was asked for in vain. */
struct tokens_wish {
    bool make, lease;
    const char *makeflags; /* what MAKEFLAGS says, or NULL */
    const char *path;      /* of the lease's file; NULL: the user's own */
};
void tokens_begin(weft_pool *pool, const struct tokens_wish *wish);
/* After the threads of a pool have ended. */
void tokens_end(weft_pool *pool);
/* The pool ends: its worker that waits for a token looks. */
void tokens_ring(const weft_pool *pool);
/* In a forked child, by its only thread. */
void tokens_forked(void);
/* How long (us) no worker of a pool runs before one goes on without a token; 0: 100 ms. Tests change it: with TOKENS_GRACE_NONE none does,
 * so the number of running workers is exact. */
#define TOKENS_GRACE_NONE UINT32_MAX
extern os_word tokens_grace_us;

/* Called by a worker of a pool with has_tokens that has no task in hand. It counts, and may look for work when this returns, unless the
 * pool ends. false: it has waited, and park.c may have made it a searcher: it owes a look to those that relied on it. */
bool tokens_await(struct weft_worker *seat, bool *is_searcher);

/* The calling thread is about to run something inside a call of that pool: it counts from now on. true: it did not count before, and
 * tokens_leave must follow. Never waits. */
bool tokens_enter_slow(void);
INLINE bool tokens_enter(const weft_pool *pool) { return UNLIKELY(pool->has_tokens) && tokens_enter_slow(); }
/* The calling thread stops counting, if it did: it is about to sleep, or has run what it came for. Returns whether it did, for
 * tokens_return. */
void tokens_leave_slow(void);
INLINE bool tokens_leave(void) {
    if (LIKELY(!os_self_get()->counts)) return false;
    tokens_leave_slow();
    return true;
}
/* After a sleep inside a task or a call. */
INLINE void tokens_return(bool counted) {
    if (UNLIKELY(counted)) (void)tokens_enter_slow();
}

#endif
