/* lanes.c: the lanes of a seat.
 *
 * They stand in a list that only grows, by the owner alone: each lane's `next` is the next older one and never changes.
 * Others begin at seat->lanes. After many groups at once they would pass as many empty lanes for the pool's life, so where
 * they begin is the owner's to move: over the newest lanes while those are empty, which hides them, and back to the next
 * newer one before that is bound again.
 *
 *   Owner                                        Who looks for tasks
 *     hides, when it binds, has nothing to do,     1. about to sleep: says so, fences (park.c, wait.c)
 *     or leaves a wait:                            2. begins at seat->lanes (D6)
 *       the lane is empty? is nobody's group's     3. goes on by `next` to the oldest
 *       lanes = the next older one (T6)
 *     shows:
 *       lanes = the next newer one (T6)
 *       binds, publishes (L6), fences (task.c)
 *       who sleeps?
 *
 * 1. A lane with an unclaimed task is shown: only empty ones are hidden, and tasks are published only in a lane that was
 *    bound while shown and was not hidden since. The owner has three ways to a lane it does not bind anew: by its group, the
 *    one at hand (both compare group_id, which hiding takes away), and the list of those found idle (whose numbers it compares).
 * 2. So who fences between saying that it sleeps and its look, or publishes, fences and then sees no sleeper, is served as
 *    with a lane just made: the showing comes before the publication. Who looks without a fence may miss both.
 * 3. Who stands on a lane that is hidden meanwhile goes on as if it were not, and sees all that are shown and older. What it
 *    claims there is good: a claim asks the lane alone.
 * 4. Empty means claimed, not done: pieces may still run in segments of a hidden lane. They are the lane's as in one that is
 *    shown and empty, and written again when they are done.
 * 5. A seat goes from a thread that ended to the next by the pool's lock, its hidden lanes with it.
 *
 * A lane that stays in use keeps those older than it in sight.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   T6  lanes_show: store lanes           release  D6, Q8  a lane is looked at before it is made
 */
#include "sched/seat.h"

#ifndef LANES_KEPT
#define LANES_KEPT 16u /* lanes of a seat that are never hidden; one at least */
#endif
#ifndef LOOK_PART
#define LOOK_PART 8u /* of the lanes shown, bound until all are looked at again */
#endif

static void lanes_show(struct weft_worker *seat, struct lane *from) { store_rel(T6, &seat->lanes, from); }

void lanes_hide(struct weft_worker *seat) {
    struct lane *newest = load_rlx(&seat->lanes);
    struct lane *from = newest;
    for (; from != NULL && from->number >= LANES_KEPT && lane_is_empty(from); from = load_rlx(&from->next))
        from->group_id = LANE_NO_GROUP;
    if (from == newest) return;
    lanes_show(seat, from);
    seat->idle_looks = (uint32_t)min_u64(seat->idle_looks, (from->number + 1) / LOOK_PART);
}

/* The oldest hidden one, shown again; NULL: there is none. */
static struct lane *lane_hidden(struct weft_worker *seat) {
    struct lane *newest = load_rlx(&seat->lanes);
    if (newest == NULL || newest->newer == NULL) return NULL;
    lanes_show(seat, newest->newer);
    return newest->newer;
}

/* None is hidden. */
static struct lane *lane_make(struct weft_worker *seat) {
    struct lane *newest = load_rlx(&seat->lanes);
    struct lane *lane = seat->lane_unmade != NULL ? seat->lane_unmade : store_get(&seat->pool->store, sizeof *lane);
    seat->lane_unmade = lane;
    if (lane == NULL || !lane_init(lane, &seat->pool->segments, 0)) return NULL;
    seat->lane_unmade = NULL;
    plain_write(&lane->segments, sizeof lane->segments);
    lane->number = load_rlx(&seat->lanes_made);
    lane->seat = seat->index;
    store_rlx(&seat->lanes_made, lane->number + 1);
    store_rlx(&lane->next, newest);
    if (newest != NULL) newest->newer = lane;
    lanes_show(seat, lane);
    return lane;
}

/* Looks at all that are shown, which among very many costs more than a new one: once for each eighth of their number that is
 * bound. So there are at most nine for each seven that were in use at one time. */
static void lanes_look(struct weft_worker *seat) {
    uint32_t count = 0;
    seat->idle_lanes = NULL;
    for (struct lane *lane = load_rlx(&seat->lanes); lane != NULL; lane = load_rlx(&lane->next), count++) {
        if (!lane_is_empty(lane)) continue;
        lane->next_idle = seat->idle_lanes;
        seat->idle_lanes = lane;
    }
    seat->idle_looks = count / LOOK_PART;
}

/* One that was found idle, is so still and was not hidden since, or NULL. The oldest come first: behind a hidden one all
 * are. */
static struct lane *lane_idle(struct weft_worker *seat) {
    for (struct lane *lane; (lane = seat->idle_lanes) != NULL;) {
        if (lane->number > load_rlx(&seat->lanes)->number) return NULL;
        seat->idle_lanes = lane->next_idle;
        if (lane_is_empty(lane)) return lane;
    }
    return NULL;
}

struct lane *lanes_get(struct weft_worker *seat) {
    struct lane *newest = load_rlx(&seat->lanes);
    if (seat->pool->ordered && newest != NULL) return newest;
    struct lane *last = seat->lane_bound; /* unless it is hidden */
    if (last != NULL && last->number <= newest->number && lane_is_empty(last)) return last;
    lanes_hide(seat);
    if (seat->idle_looks == 0)
        lanes_look(seat);
    else
        seat->idle_looks--;
    struct lane *lane = lane_idle(seat);
    if (lane == NULL) lane = lane_hidden(seat);
    return lane != NULL ? lane : lane_make(seat);
}
