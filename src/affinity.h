/* affinity.h: keeps a sleeping worker off the CPU of the thread that is going to wake it. Layer 3. affinity.c says why.
 *
 * A thread's own record; nobody else touches it. */
#ifndef WEFT_AFFINITY_H
#define WEFT_AFFINITY_H

#include "os.h"

struct affinity {
    bool is_narrowed;   /* its affinity is `less` */
    uint32_t cpu;       /* of the thread that woke it last */
    uint32_t turns;     /* sleeps to go with a narrowed affinity; 0: the system chooses */
    uint32_t turns_new; /* how many it will be, should the system choose badly again */
    os_cpuset before;   /* its affinity, when narrowed */
    os_cpuset less;     /* that without `cpu`, or one CPU of it */
};

/* It is about to sleep. `has_room`: a CPU would be left for it beside the thread that wakes it. */
void affinity_before_sleep(struct affinity *affinity, bool has_room);
/* Instead: it is to run on one CPU, another one for the next index. */
void affinity_pin(struct affinity *affinity, uint32_t index);
/* It has slept; nothing that is not weft's may run before. `woken_from`: the CPU of the thread that woke it; OS_NO_CPU:
 * nobody did. Is it on that CPU, though there is room elsewhere? */
bool affinity_after_sleep(struct affinity *affinity, bool has_room, uint32_t woken_from);
/* Then it goes elsewhere at once: who has time for that. */
void affinity_leave(struct affinity *affinity);

#endif
