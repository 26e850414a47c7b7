/* costs.c: see costs.h.
 *
 * Each wake that a pool sends tells something. Beyond that a pool that is idle for the first time tries a few wakes by
 * itself, off everybody's way: the last worker to park sleeps with a deadline, then wakes another, as if there were work;
 * that one looks around, finds nothing and is the last to park in turn. The first comes after a long sleep, wherever the
 * system starts who is woken; then some at once and some after a sleep between, with each worker on a CPU, so that they
 * show wakes from another. Programs that end before, or never pause, see nothing of it; whoever sets the spin time by
 * hand has no use for it. All of it is hints; a trial's wake differs from others only in that it teaches no beat. */
#include "costs.h"

#include <string.h>

#define SHORT_US 100u /* weft.h says so */
#define MIDDLE_US 2000u
#define TRIALS 7u /* the first after a long sleep, then as many after short ones as after middle ones */
#define TRIALS_MIDDLE 3u
#define TRIAL_LONG_NS UINT64_C(10000000)
#define TRIAL_MIDDLE_NS UINT64_C(300000)

static uint64_t averaged(uint64_t known, uint64_t now) {
    return known == 0 ? max_u64(now, 1) : known - known / 8 + min_u64(now, known * 8) / 8;
}

/* Nobody looks longer for work than half as long again as a wake takes that comes soon. */
void costs_learn(weft_pool *pool, uint64_t idle, uint64_t took, uint32_t sent_from) {
    if (sent_from == os_cpu()) {
        store_rlx(&pool->run_here_ticks, averaged(load_rlx(&pool->run_here_ticks), took));
        return;
    }
    uint64_t us = idle / pool->ticks_per_us;
    enum weft_sleep sleep = us < SHORT_US ? WEFT_SLEEP_SHORT : us < MIDDLE_US ? WEFT_SLEEP_MIDDLE : WEFT_SLEEP_LONG;
    uint64_t ticks = averaged(load_rlx(&pool->run_ticks[sleep]), took);
    store_rlx(&pool->run_ticks[sleep], ticks);
    if (pool->spin_adapts && sleep != WEFT_SLEEP_LONG)
        store_rlx(&pool->spin_now, min_u64(ticks + ticks / 2, load_rlx(&pool->spin_ticks)));
}

/* ---- trials ------------------------------------------------------------------------------------------------------- */

void costs_init(weft_pool *pool) {
    bool tries = pool->spin_adapts && pool->cpu_count > 1 && pool->workers_max > 1;
    store_rlx(&pool->trials, tries ? TRIALS : 0);
}

/* Work that comes in between ends a row of trials; the rest waits for the next long sleep. */
bool costs_are_tried(const weft_pool *pool) {
    uint32_t left = load_rlx(&pool->trials);
    return left > 0 && left < TRIALS && os_ticks() - load_rlx(&pool->tried_ticks) < MIDDLE_US * pool->ticks_per_us;
}

uint64_t costs_trial_ns(const weft_pool *pool) {
    uint32_t left = load_rlx(&pool->trials);
    if (left == 0) return COSTS_NO_TRIAL;
    if (!costs_are_tried(pool)) return TRIAL_LONG_NS;
    return left > TRIALS_MIDDLE ? 0 : TRIAL_MIDDLE_NS;
}

void costs_try(weft_pool *pool) {
    uint32_t left = load_rlx(&pool->trials);
    if (left > 0) store_rlx(&pool->trials, left - 1);
    store_rlx(&pool->tried_ticks, os_ticks());
    store_rlx(&pool->is_trial, 1);
    park_wake(&pool->park);
}

bool costs_was_trial(weft_pool *pool) {
    if (LIKELY(load_rlx(&pool->is_trial) == 0)) return false;
    store_rlx(&pool->is_trial, 0);
    return true;
}

int weft_pool_wake_costs(const weft_pool *pool, weft_wake_costs *costs) {
    if (pool == NULL || costs == NULL || costs->struct_size < sizeof(size_t)) return WEFT_EINVAL;
    uint64_t per_us = pool->ticks_per_us;
    weft_wake_costs found = {.struct_size = costs->struct_size,
                             .send_ns = load_rlx(&pool->park.send_ticks) * 1000 / per_us,
                             .run_here_ns = load_rlx(&pool->run_here_ticks) * 1000 / per_us,
                             .spin_ns = load_rlx(&pool->spin_now) * 1000 / per_us};
    for (unsigned i = 0; i < WEFT_SLEEPS; i++) found.run_ns[i] = load_rlx(&pool->run_ticks[i]) * 1000 / per_us;
    memcpy(costs, &found, min_u64(costs->struct_size, sizeof found));
    return WEFT_OK;
}
