/* find.h: finding work for a thread. Layer 4. */
#ifndef WEFT_FIND_H
#define WEFT_FIND_H

#include "sched/source.h"

struct find {
    struct lane *lane; /* where they were claimed; NULL: from another's claim */
    struct piece piece;
    uint32_t tasks;     /* 0: `work`, of another source */
    bool is_background; /* one task, in a slot that was taken for it */
    struct source_work work;
};

#ifndef TINY_PAUSES
#define TINY_PAUSES 40u /* that let who submits tiny tasks run ahead */
#endif
#define TINY_GROWN 8u /* they become so many times as many where that thread runs its tasks itself */

/* What may be taken though its thread does not offer it. */
enum { FORCE_CLAIMS = 1, FORCE_SOURCES = 2 };

/* Claims something to run. `force`: also what others have claimed and not begun, or hold back. */
bool find_work(struct weft_worker *seat, unsigned force, struct find *find);
/* Where tasks are tiny: the lane of a worker that runs some, which is about to take them itself. Each hop of a chain would go
 * to another thread else, which costs more than it takes: that lane is let pass until nobody took from it between two looks. */
struct find_passed {
    const struct lane *lane;
    uint64_t head;
};
/* Might there be anything to take? `claims`: also from another's open claim; what is offered counts always. `passed`: of the
 * look before, at first of none; NULL: nothing is let pass. */
bool find_sees(const weft_pool *pool, bool claims, struct find_passed *passed);
/* Between two looks. Each look takes the submitter's cache line away; where tasks are tiny it had better run ahead. That
 * is long enough to keep others from the CPU: `turn` is os_take_turns's. */
void find_pause(const struct weft_worker *seat, uint32_t *turn);
/* For each turn of a loop that waits for what others run, or looks for work: at times a thread that is kept waiting for this
 * CPU goes first. Not where tasks are short and no thread of the pool is likely to be here: another program's would keep
 * the CPU for its whole turn, for milliseconds, and the loop is over sooner. */
void find_take_turns(const struct weft_worker *seat, uint32_t *turn);

/* Claims one task that `filter` accepts (NULL: any) for a wait that helps; *piece is then for worker_run_help. */
bool find_help(struct weft_worker *seat, lane_filter filter, const void *context, struct piece *piece);
/* The same from the lanes bound to the group that the record serves, of seats with counters of their own. */
bool find_help_record(struct weft_worker *seat, struct record *record, lane_filter filter, const void *context,
                      struct piece *piece);

#endif
