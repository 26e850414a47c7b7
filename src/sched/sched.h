/* sched.h: the door of sched/: what the rooms above may use.
 *
 * sched/ runs tasks. Lanes and claims hold them, groups count them, workers find and run them, park and are woken. Waits,
 * continuations and priorities are here, too. It calls only queue/, heap/ and os/. It reaches the rooms above through two
 * tables that src/rooms.c binds: sources of work (source.h), and hooks of prediction and observation (hooks.h).
 *
 * What may not be touched: the ordering tables at the heads of lane.c, claim.c, group.c, park.c, task.c, wait.c and worker.c.
 * Without the order that a row names, a task could be lost, run twice or never be waited for; each row has a mutant that a
 * check must kill (verify/). Only the thread that a field's comment names may write a field of weft_worker or weft_pool. */
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
#include "sched/tokens.h"

#endif
