/* tasks.c: how long tasks take, as far as scheduling needs it. Tiny ones are claimed several at a time; for short ones, no more
 * workers are woken than there are CPUs. All of it is a hint. The results are the `tiny` of lanes and of the pool, the pool's
 * `short` and the seat's `task_ticks`. */
#include "predict/state.h"

#ifndef SHORT_SURE
#define SHORT_SURE 8u
#endif
#ifndef STILL_PAUSES
#define STILL_PAUSES 8 /* in this time a thread that submits tiny tasks has submitted another, or taken its own */
#endif
#define SHORT_MAX 64u
#define SHORT_LOST 2u /* lost by one task that was not short; some were preempted */
#ifndef TIMED_TRUST
#define TIMED_TRUST 4u /* timed claims before tasks count as tiny */
#endif

static void set_tiny(weft_pool *pool, struct lane *lane, bool is_tiny) {
    if (load_rlx(&lane->tiny) != is_tiny) store_rlx(&lane->tiny, is_tiny);
    if (load_rlx(&pool->tiny) != is_tiny) store_rlx(&pool->tiny, is_tiny);
}

static void learn_short(struct weft_worker *seat, uint64_t each) {
    struct predict_seat *mine = predict_of(seat);
    weft_pool *pool = seat->pool;
    bool is_short = each < pool->short_ticks;
    if (is_short)
        mine->shorts = (uint32_t)min_u64(UINT64_C(1) + mine->shorts, SHORT_MAX);
    else
        mine->shorts -= (uint32_t)min_u64(mine->shorts, SHORT_LOST);
    bool is_sure = mine->shorts >= SHORT_SURE; /* a worker that has seen too few tasks leaves the decision to the others */
    if (is_short == is_sure && load_rlx(&pool->tasks_are_short) != is_sure) store_rlx(&pool->tasks_are_short, is_sure);
}

/* The median of the last three, because the thread may have lost its CPU in one of them. */
static uint64_t undisturbed(uint64_t last[2], uint64_t each) {
    uint64_t older = last[1] == 0 ? each : last[0];
    uint64_t old = last[1] == 0 ? each : last[1];
    last[0] = old;
    last[1] = max_u64(each, 1); /* 0: none yet */
    return max_u64(min_u64(older, old), min_u64(each, max_u64(older, old)));
}

/* How long the tasks of one lane take. A longer time counts at once, because such a task may wait for others. */
static void lane_timed(struct weft_worker *seat, const struct lane *lane, uint64_t each) {
    bool is_first = seat->timed_lane != lane;
    seat->timed_lane = lane;
    seat->timed_ticks = is_first ? each + 1 : max_u64(each, (seat->timed_ticks * 3 + each) / 4) + 1; /* 0: not known */
}

void tasks_timed(struct weft_worker *seat, struct lane *lane, uint64_t ticks, uint64_t tasks) {
    struct predict_seat *mine = predict_of(seat);
    uint64_t each = ticks / tasks;
    uint64_t usual = undisturbed(mine->timed_last, each);
    uint32_t caller = seat->pool->helps ? 1 : 0;
    if (load_rlx(&seat->pool->workers) + caller > load_rlx(&seat->pool->cpus_allowed)) learn_short(seat, usual);
    store_rlx(&seat->task_ticks, (load_rlx(&seat->task_ticks) * 3 + usual) / 4);
    lane_timed(seat, lane, each);
    mine->timed++;
    if (each > seat->pool->tiny_ticks * 4) {
        mine->timed = 0;
        set_tiny(seat->pool, lane, false);
    } else if (mine->timed >= TIMED_TRUST) {
        set_tiny(seat->pool, lane, load_rlx(&seat->task_ticks) < seat->pool->tiny_ticks);
    }
}

/* Waits at most tiny_pauses pauses. If a task lies in the lane and nothing moves, there was nobody to wait for; then the next
 * call looks on the way as well, not only at the end. It does not always do so, because each look takes the feeder's cache
 * line away. If tasks came and none is left, the feeder runs its own tasks, as in a wait for each of them: then the number of
 * pauses grows. */
void tasks_let_ahead(struct weft_worker *seat) {
    struct predict_seat *mine = predict_of(seat);
    const struct lane *lane = seat->taken;
    uint32_t turn = 0;
    uint64_t first = load_rlx(&lane->head), head = first, backlog = 0;
    bool is_still = false;
    for (uint32_t left = seat->tiny_pauses;; left--) {
        if (left % STILL_PAUSES == 0 && (left <= STILL_PAUSES || mine->feeder_is_still)) {
            uint64_t head_now = load_rlx(&lane->head), now = lane_backlog(lane);
            is_still = backlog > 0 && now == backlog && head_now == head;
            backlog = now, head = head_now;
        }
        if (left == 0 || is_still) break;
        os_pause();
        find_take_turns(seat, &turn);
    }
    if (backlog > 0) mine->feeder_is_still = is_still;
    if (is_still || head == first || backlog >= seat->pool->claim_max)
        seat->tiny_pauses = TINY_PAUSES;
    else if (backlog == 0 && seat->tiny_pauses < TINY_PAUSES * TINY_GROWN)
        seat->tiny_pauses *= 2;
}
