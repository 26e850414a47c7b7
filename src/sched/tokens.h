/* tokens.h: a number of threads that several programs share: make's jobserver. Layer 4. See tokens.c. */
#ifndef WEFT_TOKENS_H
#define WEFT_TOKENS_H

#include "sched/worker.h"

/* By who makes the pool, after fit_configure, with what MAKEFLAGS says (NULL: nothing): asks for tokens if the configuration does. */
void tokens_configure(weft_pool *pool, const char *makeflags);
/* By who ends it, when no thread runs any more: gives all back. */
void tokens_end(weft_pool *pool);

INLINE bool tokens_are_used(const weft_pool *pool) { return pool->tokens.server.fd >= 0; }
/* Under the lock: so many workers may run. */
INLINE uint32_t tokens_limit(const weft_pool *pool) {
    return tokens_are_used(pool) ? load_rlx(&pool->tokens.held) + 1 : WEFT_WORKERS_MAX;
}

/* By a worker, between tasks, when the pool's time to look has come: takes a token if another worker would have something to run. */
void tokens_look(weft_pool *pool);
/* By a worker that has come to rest: gives back what nobody needs. */
void tokens_give_surplus(weft_pool *pool);
/* By a worker that rests: looks for work and a token, if it is its turn. Until when it is to sleep (CLOCK_MONOTONIC ns); 0: until its
 * event. */
uint64_t tokens_rest(const struct weft_worker *seat);
/* By a worker that parks: when it gives up waiting for work, as tokens_rest says it; 0: never. And then: who sleeps is to rest. */
uint64_t tokens_patience(const weft_pool *pool);
void tokens_are_idle(weft_pool *pool);

#endif
