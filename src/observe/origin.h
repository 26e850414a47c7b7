/* origin.h: finds the submission of each task of a timeline, and the wake-up that ended each sleep. Layer 7.
 *
 * Events of submissions and of tasks both contain the task's cell. A task's submission is the newest one with the same cell
 * before the task's start. The wake-up that ended a sleep is the one that was sent during it.
 *
 * An event of a submission may stand for several that followed. Of these it is known that they were made before the next event of
 * their thread, because then the next one is noted anew (observe.c). */
#ifndef WEFT_ORIGIN_H
#define WEFT_ORIGIN_H

#include "observe/trace.h"

/* A submission, noted for a number of tasks; a wake; a step of a counter; or a thread that takes a seat. */
struct origin {
    uint64_t key;   /* submission: the page of its cell; wake: ORIGIN_WAKES; step: 0; thread: its seat */
    uint64_t time;  /* ticks; sorted by key and time */
    uint64_t place; /* submission: the first cell; wake: how long it took; step: which counter; thread: its number */
    uint16_t seat : 15, is_guessed : 1; /* is_guessed: not even the first task's time is known: it was later */
    uint8_t tasks, stride;
    uint32_t until_us; /* submission: all its tasks were submitted within that time; ORIGIN_OPEN: not known */
};
#define ORIGIN_WAKES UINT64_MAX
#define ORIGIN_OPEN UINT32_MAX
_Static_assert(SEATS_MAX <= 1u << 15 && sizeof(struct origin) == 32, "as the comment of weft_trace_write says");

struct origins {
    struct origin *row; /* NULL: no memory */
    size_t count, most;
    uint64_t ticks_per_us; /* as of the beginning: to ask takes a reading of the clock */
    size_t open;           /* the first row of the ring that is added now whose until_us is not known */
    uint32_t seat;         /* whose ring it is */
    size_t found;          /* the row of the last task that was asked for */
};

/* Makes room for `most` rows, twice, because sorting needs it. Without memory there is no room. */
void origins_make(struct origins *origins, size_t most);
void origins_end(struct origins *origins);
/* Does nothing if there is no room. */
void origins_add(struct origins *origins, const struct origin *origin);
/* The events of each ring one after another, each ring's in their order. */
void origins_add_event(struct origins *origins, uint32_t seat, const struct trace_event *event);
void origins_sort(struct origins *origins);

/* When a task was submitted: at the earliest, and at the latest; the same moment, if it is known to SUBMIT_RUN_US. Ticks. */
struct submitted {
    uint64_t first, last;
};
/* The submission of the task that began at `start` in that cell. NULL: not known. */
const struct origin *origin_of_task(struct origins *origins, uint64_t place, uint64_t start, struct submitted *when);
/* The newest row of that key that is not after `time`; NULL: there is none. */
const struct origin *origin_before(const struct origins *origins, uint64_t key, uint64_t time);
/* The wake that was sent at that time; NULL: not known. */
const struct origin *origin_of_wake(const struct origins *origins, uint64_t sent);

#endif
