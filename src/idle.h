/* idle.h: what a worker does that has nothing to run: it dozes, gets up ahead of work, learns what a wake costs. Layer 4. The
 * rest is told in idle.c. */
#ifndef WEFT_IDLE_H
#define WEFT_IDLE_H

#include "worker.h"

/* ---- dozing: the worker that looks around now and then so that others may sleep ----------------------------------- */

/* Are as many awake as there are CPUs for brief tasks, and one more looks around now and then? Threads from outside count
 * while they submit, and while they wait and help, and one that did so last time counts from its submission on; not in a
 * bounded pool, where they may sleep until there is room. */
bool doze_suffices(const struct weft_worker *seat, const struct park_view *view);
/* Is the seat's worker one of those beyond the number of CPUs, which may be the one that looks around? */
bool doze_may_guard(const struct weft_worker *seat);
/* Dozes until there is something to do; the worker is a scout after. Returns whether another thread woke it, from the sleep
 * that began at *since (ticks). */
bool doze(struct weft_worker *seat, uint64_t *since);

/* ---- what waking a worker costs on this machine ------------------------------------------------------------------- */

/* The pool's workers are about to start. */
void costs_init(weft_pool *pool);

/* All workers are parked: how long the last of them is to sleep until it tries a wake; COSTS_NO_TRIAL: it is not to. */
#define COSTS_NO_TRIAL UINT64_MAX
uint64_t costs_trial_ns(const weft_pool *pool);
/* Are sleepers to stay on a CPU each, for a trial? */
bool costs_are_tried(const weft_pool *pool);
/* Tries a wake. The caller is a scout. */
void costs_try(weft_pool *pool);

/* ---- workers that get up ahead of work that is expected ----------------------------------------------------------- */

/* The worker is about to park, and was told to be awake at `told_ns` (0: it was not). Returns when the clock should wake it
 * (CLOCK_MONOTONIC ns); 0: not at all. */
uint64_t ready_plan(struct weft_worker *seat, uint64_t told_ns);
/* The worker slept until another thread woke it. */
void ready_woken(struct weft_worker *seat);
/* The worker looked for work before it would sleep; `came`: it found some; `looked_on`: it looked longer than it would have, as
 * another thread ran a task. */
void ready_scouted(struct weft_worker *seat, bool came, bool looked_on);
/* For how long at most it may do so: no longer than a wait would for the end of such a task. Ticks; 0: not at all. */
uint64_t ready_step_ticks(const struct weft_worker *seat);
/* The worker's sleep ended by the clock, and it is a scout. true: it is to look out for the beat it expects until *until
 * (ticks), then to call ready_looked. false: it expects none now, or may not spend the time. */
bool ready_begin(struct weft_worker *seat, uint64_t *until);
/* `came`: the beat did; for `away` ticks of the time the worker had no CPU. */
void ready_looked(struct weft_worker *seat, bool came, uint64_t away);

/* A loop of the seat's thread began at `start` and ended at `end`; the loop before it ended at `since` (ticks). Where short
 * loops recur, the first worker is told when the next one is due. */
void ready_recur(struct weft_worker *seat, uint64_t since, uint64_t start, uint64_t end);

#endif
