/* tokens.h: workers that share a number of threads with other programs, by make's jobserver. Layer 4. See tokens.c. */
#ifndef WEFT_TOKENS_H
#define WEFT_TOKENS_H

#include "sched/worker.h"

INLINE bool tokens_are_used(const weft_pool *pool) { return UNLIKELY(pool->tokens.are_used); }

/* By who makes the pool, once it is known how many workers it wants: with WEFT_POOL_JOBSERVER one runs, others by tokens. */
void tokens_configure(weft_pool *pool, const char *makeflags);
/* Under the lock: one thread more than run has been started, to ask for the next token, if so many are wished for. */
void tokens_start(weft_pool *pool);

/* By a worker, of itself. May it not run tasks? Where workers need tokens. */
bool tokens_forbid(const struct weft_worker *seat);
/* It is about to rest, and no more among those that run: before others are told. */
void tokens_fall(struct weft_worker *seat);
/* It has run its last task and told others: its token goes back. */
void tokens_give(struct weft_worker *seat);
/* While it rests, after it has read its event: may take a token, so that it may run. Until when to sleep; 0: until the event. */
uint64_t tokens_rest(struct weft_worker *seat);
/* When a worker that parks now is to rest; 0: never. */
uint64_t tokens_patience(const struct weft_worker *seat);
/* Somebody runs again after all have slept, and a full fence: the next one to run is to look whether it is wanted. */
void tokens_ring(weft_pool *pool);

#endif
