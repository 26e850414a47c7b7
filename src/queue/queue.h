/* queue.h: the room's door: what threads share without a lock, one protocol per file, and the typed memory in which it lies.
 *
 * lane.c: a thread's tasks of one group, and who may take them. claim.c: pieces of a lane that a worker took, and how the
 * rest is taken back. group.c: counting tasks and ending a wait. continuation.c: what starts when a group has finished.
 * park.c: sleep without a lost wake-up. lease.c: a number of threads that programs share, by locks on a file. store.c and segment.c: memory that keeps its type until the pool ends.
 *
 * What may not be touched: the protocols. Each file's head says who may write what, and pairs each ordered access with its
 * partner;
 * verify/ has a driver for each. Workers, pools and policies are unknown here: they are sched's. */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include "queue/claim.h"
#include "queue/continuation.h"
#include "queue/lease.h"
#include "queue/park.h"
#include "queue/segment.h"
#include "queue/store.h"

#endif
