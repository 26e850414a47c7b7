/* origin.h: finds the submission of each task of a timeline, and the wake-up that ended each sleep. Layer 7.
 *
 * Events of submissions and of tasks both contain the task's cell. A task's submission is the newest one with the same cell
 * before the task's start. The wake-up that ended a sleep is the one that was sent during it. */
#ifndef WEFT_ORIGIN_H
#define WEFT_ORIGIN_H

#include "observe/trace.h"

/* A submission, noted for a number of tasks; a wake; a step of a counter; or a thread that takes a seat. */
struct origin {
    uint64_t key;   /* submission: the page of its cell; wake: ORIGIN_WAKES; step: 0; thread: its seat */
    uint64_t time;  /* ticks; sorted by key and time */
    uint64_t place; /* submission: the first cell; wake: how long it took; step: which counter; thread: its number */
    uint32_t seat;
    uint16_t tasks, stride;
};
#define ORIGIN_WAKES UINT64_MAX

struct origins {
    struct origin *row; /* NULL: no memory */
    size_t count, most;
};

/* Makes room for `most` rows, twice, because sorting needs it. Without memory there is no room. */
void origins_make(struct origins *origins, size_t most);
void origins_end(struct origins *origins);
/* Does nothing if there is no room. */
void origins_add(struct origins *origins, const struct origin *origin);
void origins_add_event(struct origins *origins, uint32_t seat, const struct trace_event *event);
void origins_sort(struct origins *origins);

/* The submission of the task that began at `start` in that cell; *submitted: about when it was. NULL: not known. */
const struct origin *origin_of_task(const struct origins *origins, uint64_t place, uint64_t start, uint64_t *submitted);
/* The newest row of that key that is not after `time`; NULL: there is none. */
const struct origin *origin_before(const struct origins *origins, uint64_t key, uint64_t time);
/* The wake that was sent at that time; NULL: not known. */
const struct origin *origin_of_wake(const struct origins *origins, uint64_t sent);

#endif
