/* patterns.h: the room's door: the sources of work that src/rooms.c lists.
 *
 * patterns/ is for what is built from tasks: forked calls (fork.c, join.c, chunk.c), loops (loop.c, cost.c), what is built on
 * loops (tiles, reductions, sorting), and graphs. sched only knows that forked calls and loops are sources of work.
 *
 * What may not be touched: the words that several threads change with a CAS: a slot's state, a seat's offer, a loop's entry
 * and subranges. The heads of fork.c and loop.c say which thread may make which change. The state that both keep for a seat is
 * in state.h. Only this room uses it, except that observe/ reads whether a thread waits in a join. */
#ifndef WEFT_PATTERNS_H
#define WEFT_PATTERNS_H

#include "sched/sched.h"

extern const struct source fork_source;
extern const struct source loop_source;

/* Does the seat's thread wait in the join of a call that another runs? Any thread. */
bool join_waits(const struct weft_worker *seat);

#endif
