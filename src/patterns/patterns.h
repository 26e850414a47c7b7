/* patterns.h: the room's door: the sources of work that src/rooms.c lists.
 *
 * patterns/ is for what is made of tasks: forked calls (fork.c, join.c, chunk.c), loops (loop.c, cost.c) and what stands on
 * them: tiles, reductions, sorting; and graphs. sched knows of none of it, but that forked calls and loops are sources of
 * work.
 *
 * What may not be touched: the words that other threads change with a CAS: a slot's state, a seat's offer, a loop's entry
 * and parts. Who may make which change is told at the head of fork.c and loop.c. What both keep of a seat is in state.h, and
 * nobody else's, but for observe/, which reads whether a thread waits in a join. */
#ifndef WEFT_PATTERNS_H
#define WEFT_PATTERNS_H

#include "sched/sched.h"

extern const struct source fork_source;
extern const struct source loop_source;

/* Does the seat's thread wait in the join of a call that another runs? Any thread. */
bool join_waits(const struct weft_worker *seat);

#endif
