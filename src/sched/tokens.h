/* tokens.h: threads that count against a number that several programs share, by make's jobserver. Layer 4. See tokens.c. */
#ifndef WEFT_TOKENS_H
#define WEFT_TOKENS_H

#include "sched/worker.h"

/* By who makes the pool, while its configuration is being read; and when its threads have ended. */
void tokens_begin(weft_pool *pool, const char *makeflags);
void tokens_end(weft_pool *pool);
/* The pool ends: its worker that waits for a token looks. */
void tokens_ring(const weft_pool *pool);
/* How long a pool does without a token of which no worker runs; 0: 100 ms. Tests change it: without an end what they count of workers is
 * exact, and what they wait for comes without it. */
#define TOKENS_GRACE_NONE UINT32_MAX
extern os_word tokens_grace_us;
/* In a forked child, its only thread. */
void tokens_forked(void);

/* By a worker with no task in hand, where its pool has_tokens: it may look for work when this returns true. false: it has waited, and
 * is not a searcher any more; or the pool ends. */
bool tokens_await(struct weft_worker *seat, bool is_searcher);

/* The calling thread is about to run something inside a call of that pool. It counts from now on.
 * true: it did not before, and tokens_leave is to follow. Never waits. */
bool tokens_enter_slow(void);
INLINE bool tokens_enter(const weft_pool *pool) { return UNLIKELY(pool->has_tokens) && tokens_enter_slow(); }
/* The calling thread counts no more, if it did: it is about to sleep, or has run what it came for. Did it? For tokens_return. */
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
