/* tasks.c: how long tasks take, as far as scheduling asks: tiny ones are claimed several at a time, brief ones are not worth
 * more workers than there are CPUs. Hints all of it: who says what is lanes' and the pool's `brisk`, the pool's `brief`, the
 * seat's `task_ticks`. */
#include "predict/state.h"

#ifndef BRIEFS_SURE
#define BRIEFS_SURE 8u
#endif
#define BRIEFS_MAX 64u
#define BRIEFS_LOST 2u /* by one task that was not brief; some were preempted */
#ifndef TIMED_TRUST
#define TIMED_TRUST 4u /* timed claims before tasks count as tiny */
#endif

static void set_brisk(weft_pool *pool, struct lane *lane, bool is_brisk) {
    if (load_rlx(&lane->brisk) != is_brisk) store_rlx(&lane->brisk, is_brisk);
    if (load_rlx(&pool->brisk) != is_brisk) store_rlx(&pool->brisk, is_brisk);
}

static void learn_brief(struct weft_worker *seat, uint64_t each) {
    struct predict_seat *mine = predict_of(seat);
    weft_pool *pool = seat->pool;
    bool is_brief = each < pool->brief_ticks;
    if (is_brief)
        mine->briefs = (uint32_t)min_u64(UINT64_C(1) + mine->briefs, BRIEFS_MAX);
    else
        mine->briefs -= (uint32_t)min_u64(mine->briefs, BRIEFS_LOST);
    bool is_sure = mine->briefs >= BRIEFS_SURE; /* who has seen too few leaves it to the others */
    if (is_brief == is_sure && load_rlx(&pool->brief) != is_sure) store_rlx(&pool->brief, is_sure);
}

/* The middle one of the last three, for one of them may have lost its CPU. */
static uint64_t undisturbed(uint64_t last[2], uint64_t each) {
    uint64_t older = last[1] == 0 ? each : last[0];
    uint64_t old = last[1] == 0 ? each : last[1];
    last[0] = old;
    last[1] = max_u64(each, 1); /* 0: none yet */
    return max_u64(min_u64(older, old), min_u64(each, max_u64(older, old)));
}

void tasks_timed(struct weft_worker *seat, struct lane *lane, uint64_t ticks, uint64_t tasks) {
    struct predict_seat *mine = predict_of(seat);
    uint64_t each = ticks / tasks;
    uint64_t usual = undisturbed(mine->timed_last, each);
    uint32_t caller = seat->pool->helps ? 1 : 0;
    if (seat->pool->workers_max + caller > seat->pool->cpus_allowed) learn_brief(seat, usual);
    store_rlx(&seat->task_ticks, (load_rlx(&seat->task_ticks) * 3 + usual) / 4);
    mine->timed++;
    if (each > seat->pool->tiny_ticks * 4) {
        mine->timed = 0;
        set_brisk(seat->pool, lane, false);
    } else if (mine->timed >= TIMED_TRUST) {
        set_brisk(seat->pool, lane, load_rlx(&seat->task_ticks) < seat->pool->tiny_ticks);
    }
}
