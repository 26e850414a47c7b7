/* find.h: finding work for a thread. Layer 4. */
#ifndef WEFT_FIND_H
#define WEFT_FIND_H

#include "sched/source.h"

struct find {
    struct lane *lane; /* the tasks' lane; NULL: revoked from another worker's claim */
    struct piece piece;
    uint32_t tasks;     /* 0: another source's `work` instead */
    bool is_background; /* it is one task, for which a slot was taken */
    struct source_work work;
};

#ifndef TINY_PAUSES
#define TINY_PAUSES 40 /* they let a submitter of tiny tasks run ahead */
#endif

/* What a worker may take although its thread does not offer it. */
enum { FORCE_CLAIMS = 1, FORCE_SOURCES = 2 };

/* Claims something to run. `force`: also what others have claimed and not started, or hold back. */
bool find_work(struct weft_worker *seat, unsigned force, struct find *find);
/* A lane that a look passes over, if tasks are tiny: its owner, a worker, runs a task and is about to claim these itself. Otherwise
 * each task of a chain would move to another thread, which costs more than the task. The lane is passed over until no thread has
 * claimed from it between two looks. */
struct find_passed {
    const struct lane *lane;
    uint64_t head;
};
/* Might there be anything to take? `claims`: also in another worker's open claim; offered claims always count. `passed`: the lane
 * that the previous look passed over, at first none; NULL: no lane is passed over. */
bool find_sees(const weft_pool *pool, bool claims, struct find_passed *passed);
/* Pauses between two looks. Each look takes the submitter's cache line away; if tasks are tiny, the submitter should run ahead.
 * Such a pause is long enough to keep other threads off the CPU: hence `turn`, as in find_take_turns. */
void find_pause(const struct weft_worker *seat, uint32_t *turn);
/* Called in each turn of a loop that waits for other threads or looks for work: at times it lets a thread that waits for this CPU
 * run first. It does not if tasks are short and no thread of the pool is likely to be on this CPU: another program's thread would
 * keep the CPU for its whole time slice, for milliseconds, and the loop is over sooner. */
void find_take_turns(const struct weft_worker *seat, uint32_t *turn);

/* Begins the next task of the claim that the seat's thread runs now, if `filter` accepts its group. */
INLINE bool find_help_rest(struct weft_worker *seat, lane_filter filter, const void *context, struct piece *piece) {
    if (LIKELY(!claim_has_rest(&seat->claim))) return false;
    seat->help_from = CLAIM_LANE;
    bool takes = filter(context, seat->claim_group) && claim_take_next(&seat->claim, piece);
    seat->took_ahead |= takes;
    return takes;
}
/* Claims one task that `filter` accepts (NULL: any) for a wait that helps; *piece is then for worker_run_help. */
bool find_help(struct weft_worker *seat, lane_filter filter, const void *context, struct piece *piece);
/* The same, but only from lanes bound to the record's group, of seats with counters of their own. */
bool find_help_record(struct weft_worker *seat, struct record *record, lane_filter filter, const void *context,
                      struct piece *piece);

#endif
