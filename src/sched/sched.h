/* sched.h: the room's door: what the rooms above may use.
 *
 * sched/ runs tasks: lanes and claims hold them, groups count them, workers find and run them, park and wake; waits,
 * continuations, priorities. It calls heap/ and os/ alone. The rooms above are reached by two tables that
 * src/rooms.c binds: sources of work (source.h), hooks of prediction and observation (hooks.h).
 *
 * What may not be touched: the ordering tables at the head of lane.c, claim.c, group.c, park.c, task.c, wait.c, worker.c.
 * Each row is a place where a task would be lost, run twice or never waited for; each has a mutant that must fail (verify/).
 * A field of weft_worker or weft_pool is written by whom its comment says, and by nobody else. */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

#include "sched/find.h"
#include "sched/fit.h"
#include "sched/hooks.h"
#include "sched/seat.h"
#include "sched/priority.h"
#include "sched/realtime.h"
#include "sched/slice.h"
#include "sched/source.h"
#include "sched/task.h"

#endif
