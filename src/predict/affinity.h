/* affinity.h: keeps a sleeping worker off the CPU of the thread that will wake it. Layer 6. affinity.c says why.
 *
 * All functions act on the calling thread and its own record; no other thread touches it. */
#ifndef WEFT_AFFINITY_H
#define WEFT_AFFINITY_H

#include "os/os.h"

struct affinity {
    bool is_narrowed;        /* the thread's affinity is `before` without `cpu` */
    bool had_all;            /* `before` was all that the cpuset allows of `wished` */
    uint32_t cpu;            /* of the thread that woke this one last */
    uint32_t turns;          /* sleeps left with a narrowed affinity; 0: the system chooses */
    uint32_t turns_new;      /* how many there will be if the system chooses badly again */
    os_cpuset before;        /* the thread's affinity before it was narrowed */
    const os_cpuset *wished; /* the set that the thread was started with; NULL: none was chosen for it */
};

/* The thread is about to sleep. `has_room`: a CPU would be left for it beside the thread that wakes it. */
void affinity_before_sleep(struct affinity *affinity, bool has_room);
/* The thread has slept, and no code but weft's has run since. Restores its affinity. `woken_from`: the CPU of the thread that
 * woke it; OS_NO_CPU: none did. Returns whether it runs on that CPU though there is room elsewhere. */
bool affinity_after_sleep(struct affinity *affinity, bool has_room, uint32_t woken_from);
/* Moves the thread off that CPU at once, which costs it two system calls or more. */
void affinity_leave(struct affinity *affinity);

#endif
