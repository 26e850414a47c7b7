/* What adapters/oai uses of the host's system.h: the threads of its pools are real-time ones. */
#ifndef OAI_SHAPE_SYSTEM_H
#define OAI_SHAPE_SYSTEM_H

#include <sched.h>

#define SCHED_OAI SCHED_RR
#define OAI_PRIORITY_RT_MAX sched_get_priority_max(SCHED_OAI) - 2

#endif
