/* ready.h: workers that get up ahead of work that is expected. Layer 4. */
#ifndef WEFT_READY_H
#define WEFT_READY_H

#include "worker.h"

/* The worker, which was told that moment (0: none), is about to park: when the clock should wake it; 0: not at all. */
uint64_t ready_plan(struct weft_worker *seat, uint64_t told_ns);
/* It slept until another thread woke it. */
void ready_woken(struct weft_worker *seat);
/* It has looked for work before going to sleep; whether any came. */
void ready_scouted(struct weft_worker *seat, bool came);
/* It slept, nobody woke it, it is a scout. Is it to look out for what is expected now, and may it? Until *until (ticks),
 * then, and ready_looked. */
bool ready_begin(struct weft_worker *seat, uint64_t *until);
/* For `away` ticks of that it had no CPU. */
void ready_looked(struct weft_worker *seat, bool came, uint64_t away);

/* A loop of the seat's thread ends that began at `start`, `since` (ticks) the last one ended. Should short ones recur,
 * the first worker is told when the next is due. */
void ready_recur(struct weft_worker *seat, uint64_t start, uint64_t since);

#endif
