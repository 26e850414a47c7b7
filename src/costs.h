/* costs.h: what waking a worker costs on this machine. Layer 4. */
#ifndef WEFT_COSTS_H
#define WEFT_COSTS_H

#include "worker.h"

/* The pool's workers are about to start. */
void costs_init(weft_pool *pool);
/* A thread that slept for `idle` ticks ran `took` ticks after its wake was sent from that CPU. */
void costs_learn(weft_pool *pool, uint64_t idle, uint64_t took, uint32_t sent_from);

/* All workers are parked: how long the last of them is to sleep until it tries a wake; COSTS_NO_TRIAL: it is not to. */
#define COSTS_NO_TRIAL UINT64_MAX
uint64_t costs_trial_ns(const weft_pool *pool);
/* Are sleepers to stay on a CPU each, for a trial? */
bool costs_are_tried(const weft_pool *pool);
/* It does. The caller is a scout. */
void costs_try(weft_pool *pool);
/* The seat was woken: was that a trial? */
bool costs_was_trial(weft_pool *pool);

#endif
