/* ready.c: see ready.h.
 *
 * Each worker learns by itself when work comes to it (expect.c): from wakes that end a sleep, by the moment at which they
 * were sent, and from work that it sees while it looks out. The first parked is woken first, so in bursts of k tasks k
 * workers learn the period, and no others. A worker that expects work parks with a deadline, gets up a little earlier
 * than needed, counts as a scout, so that nobody needs to be woken, and looks out until the beat comes or should have
 * come.
 *
 * A short loop wakes nobody, so no worker learns when it recurs: its caller does (ready_recur), and tells the first worker.
 *
 * By hand: weft_expect writes the moment into the slots of the first workers and changes their event, so that those
 * asleep plan again. A worker reads its event before the moment (K6), so either it sees the moment or the event has
 * changed. What it was told comes before what it has learned, until that moment has passed. */
#include "ready.h"

#include "costs.h"
#include "real.h"

#define SCOUT_SHORTEST 16u   /* part of the pool's spin time */
#define IDLE_NS 50000u       /* who slept shorter was between two parts of the same burst */
#define RECUR_NS_MIN 5000u   /* what takes less is not worth getting up for */
#define RECUR_NS_MAX 100000u /* what takes longer wakes a worker, which then learns by itself */
#define CROWDED_BEATS 16u    /* to sleep through when there was no CPU to look out on */

/* Looking for work before sleeping is worth it where it finds some, or would have: who looked in vain looks half as long
 * the next time, who found work looks twice as long, who was woken so soon after that looking would have found it as long
 * as may be. */
void ready_scouted(struct weft_worker *seat, bool came) {
    uint64_t most = load_rlx(&seat->pool->spin_now);
    if (!seat->pool->spin_adapts)
        seat->scout_ticks = most;
    else if (came)
        seat->scout_ticks = min_u64(max_u64(seat->scout_ticks, most / SCOUT_SHORTEST) * 2, most);
    else
        seat->scout_ticks = seat->scout_ticks / 2 < most / SCOUT_SHORTEST ? 0 : seat->scout_ticks / 2;
}

uint64_t ready_plan(struct weft_worker *seat, uint64_t told_ns) {
    seat->plan = (struct expect_plan){0, 0};
    if (seat->has_worked || costs_are_tried(seat->pool)) seat->idle_since = os_ticks();
    seat->has_worked = false;
    if (seat->pool->expect_percent == 0) return 0;
    expect_tell(&seat->expect, told_ns);
    seat->plan = expect_next(&seat->expect, os_now_ns(), seat->pool->expect_percent);
    return seat->plan.wake;
}

void ready_woken(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    uint64_t spin = load_rlx(&pool->spin_now);
    bool is_trial = costs_was_trial(pool);
    uint64_t sent = load_rlx(&pool->park.slots[seat->index].sent_ticks);
    uint64_t now = os_ticks();
    uint64_t idle = sent - seat->idle_since;
    if (idle > now - seat->idle_since) return; /* the waker has not come to that yet */
    costs_learn(pool, idle, now - sent, load_rlx(&pool->park.slots[seat->index].sent_from));
    if (is_trial) return;
    if (idle < spin) seat->scout_ticks = spin;
    if (pool->expect_percent == 0 || idle < IDLE_NS * pool->ticks_per_us / 1000) return;
    expect_beat(&seat->expect, os_now_ns() - (now - sent) * 1000 / pool->ticks_per_us, false);
}

bool ready_begin(struct weft_worker *seat, uint64_t *until) {
    weft_pool *pool = seat->pool;
    uint64_t now = os_now_ns();
    if (seat->plan.wake == 0 || now < seat->plan.wake) return false;
    bool is_crowded = park_look(&pool->park).scouts >= pool->cpu_count;
    if (is_crowded || real_is_spent(seat)) {
        expect_pass(&seat->expect, is_crowded ? CROWDED_BEATS : 1); /* else it would be woken for it again, at once */
        return false;
    }
    seat->plan.wake = now;
    if (now < seat->plan.until) *until = os_ticks() + (seat->plan.until - now) * pool->ticks_per_us / 1000;
    return now < seat->plan.until;
}

void ready_looked(struct weft_worker *seat, bool came, uint64_t away) {
    uint64_t now = os_now_ns();
    expect_looked(&seat->expect, min_u64(seat->plan.wake + away * 1000 / seat->pool->ticks_per_us, now), now);
    if (came) {
        expect_beat(&seat->expect, now, true);
        count_up(&seat->expect_hits, 1);
    } else {
        count_up(&seat->expect_misses, 1);
    }
}

void ready_recur(struct weft_worker *seat, uint64_t start, uint64_t since) {
    weft_pool *pool = seat->pool;
    uint64_t ns = (os_ticks() - start) * 1000 / pool->ticks_per_us;
    if (seat->is_worker || pool->expect_percent == 0 || ns < RECUR_NS_MIN || ns > RECUR_NS_MAX) return;
    if (start - since < IDLE_NS * pool->ticks_per_us / 1000) return;
    uint64_t now = os_now_ns();
    expect_beat(&seat->expect, now - ns, false);
    if (expect_next(&seat->expect, now, pool->expect_percent).wake == 0) return;
    uint64_t told_ns = park_told(&pool->park, 0);
    if (told_ns > now && told_ns != seat->recurs_ns) return; /* by hand, or by another's loop */
    store_rlx(&pool->from_cpu, os_cpu());
    seat->recurs_ns = seat->expect.planned;
    park_expect(&pool->park, 0, seat->recurs_ns);
}

int weft_expect(weft_pool *pool, uint32_t workers, uint64_t when_ns) {
    if (pool == NULL || workers == 0) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    if (pool->expect_percent == 0) return WEFT_OK;
    store_rlx(&pool->from_cpu, os_cpu());
    for (uint32_t i = 0; i < load_rlx(&pool->workers); i++) {
        uint64_t told_ns = i < workers ? when_ns : 0;
        if (i < workers || park_told(&pool->park, i) != 0) park_expect(&pool->park, i, told_ns);
    }
    return WEFT_OK;
}
