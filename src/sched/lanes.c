/* lanes.c: the lanes of a seat.
 *
 * A seat's lanes form a list that only grows; only the owner adds to it. Each lane's `next` is the next older lane and never
 * changes. Other threads begin at seat->lanes. After many groups at once they would pass as many empty lanes for the pool's life,
 * so the owner moves seat->lanes: past the newest lanes while those are empty, which hides them, and back to the next newer lane
 * before it binds that one again.
 *
 *   Owner                                        Thread that looks for tasks
 *     hides, when it binds, has nothing to do,     1. about to sleep: announces it, fences (park.c, wait.c)
 *     or leaves a wait:                            2. begins at seat->lanes (D6)
 *       the lane is empty? is nobody's group's     3. goes on by `next` to the oldest
 *       lanes = the next older one (T6)
 *     shows:
 *       lanes = the next newer one (T6)
 *       binds, publishes (L6), fences (task.c)
 *       looks for sleepers
 *
 * 1. A lane with an unclaimed task is shown: only empty lanes are hidden, and tasks are published only in a lane that was bound
 *    while shown and has not been hidden since. The owner reaches a lane in three ways without showing it: by its group, at hand
 *    (both compare group_id, which hiding clears), and in the list of lanes found idle (whose numbers it compares).
 * 2. So hiding loses no wake-up: a sleeper fences between its announcement and its look, and a publisher fences before it looks
 *    for sleepers. The lane is shown before the publication, as a lane just made. A look without a fence may miss both.
 * 3. A thread that stands on a lane when it is hidden goes on as if it were not, and sees all shown lanes that are older. Its
 *    claims there are valid: a claim depends on the lane alone.
 * 4. Empty means claimed, not done: pieces may still run in segments of a hidden lane. The lane keeps these segments, as a shown
 *    empty lane does, and they are written again when they are done.
 * 5. The pool's lock hands a seat, with its hidden lanes, from a thread that has ended to the next one.
 *
 * A lane that stays in use keeps all older lanes shown.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   T6  lanes_show: store lanes           release  D6, Q8  a lane is looked at before it is made
 */
#include "sched/seat.h"

#ifndef LANES_KEPT
#define LANES_KEPT 16u /* lanes of a seat that are never hidden; at least 1 */
#endif
#ifndef LOOK_PART
#define LOOK_PART 8u /* all shown lanes are looked at again after 1 / LOOK_PART of their number were bound */
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

/* Shows the oldest hidden lane again and returns it. NULL: no lane is hidden. */
static struct lane *lane_hidden(struct weft_worker *seat) {
    struct lane *newest = load_rlx(&seat->lanes);
    if (newest == NULL || newest->newer == NULL) return NULL;
    lanes_show(seat, newest->newer);
    return newest->newer;
}

/* Makes a new lane. No lane is hidden. */
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

/* Looks at all shown lanes for empty ones. If they are very many, that costs more than a new lane, so it is done only once in each
 * eighth of their number that are bound. So a seat has at most nine lanes for each seven that were in use at one time. */
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

/* A lane that was found empty, still is, and was not hidden since; or NULL. The list is oldest first, so all lanes after a hidden
 * one are hidden. */
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
