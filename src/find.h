/* find.h: what there is to run, and whom a worker takes from first. Layer 4. */
#ifndef WEFT_FIND_H
#define WEFT_FIND_H

#include "fork.h"
#include "loop.h"

struct find {
    struct lane *lane; /* where they were claimed; NULL: from another's claim */
    struct piece piece;
    uint32_t tasks;     /* 0: a loop or a forked call */
    bool is_background; /* one task, in a slot that was taken for it */
    struct loop *loop;
    uint32_t helper; /* of the loop; 0: none */
    struct fork_call call;
};

/* What may be taken though its thread does not offer it. */
enum { FORCE_CLAIMS = 1, FORCE_FORKS = 2 };

/* Claims something to run. `force`: also what another worker has claimed and not begun, what another thread has forked. */
bool find_work(struct weft_worker *seat, unsigned force, struct find *find);
/* Might there be anything to take? `claims`: also from another's open claim; what is offered counts always. */
bool find_sees(const weft_pool *pool, bool claims);
/* Between two looks. Each look takes the submitter's cache line away; where tasks are tiny it had better run ahead. That
 * is long enough to keep others from the CPU: `turn` is os_take_turns's. */
void find_pause(const weft_pool *pool, uint32_t *turn);

/* Claims one task that `filter` accepts (NULL: any) for a wait that helps. true: *piece is the caller's, for
 * worker_run_help. */
bool find_help(struct weft_worker *seat, lane_filter filter, const void *context, struct piece *piece);
/* The same from that lane of the seat's own alone. */
bool find_help_own(struct weft_worker *seat, struct lane *lane, lane_filter filter, const void *context,
                   struct piece *piece);

/* Near: workers whose CPUs share a core, a cache or a node. */

/* How far two CPUs are from each other: 0 the same one, then by the first level at which they share; OS_NEAR_LEVELS + 1:
 * nothing. */
uint32_t near_distance(const uint16_t *shared, uint32_t one, uint32_t other);
/* The numbers of all workers, nearest to number `self` first, of equals those after it first. `cpus`: where each runs;
 * OS_NO_CPU: nobody knows. */
void near_sort(const uint16_t *shared, const uint32_t *cpus, uint16_t *order, uint32_t workers, uint32_t self);

/* Reads the topology where it makes a difference. No memory: nothing is near. */
void near_configure(weft_pool *pool);
/* By a worker that begins, or may have been moved to another CPU meanwhile. */
void near_moved_slow(struct weft_worker *seat);
INLINE void near_moved(struct weft_worker *seat) {
    if (UNLIKELY(seat->pool->shared != NULL)) near_moved_slow(seat);
}

#endif
