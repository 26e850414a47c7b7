/* idle.c: what an idle worker does. It polls, so that others may sleep. It wakes up ahead of work that it expects. And it
 * measures what a wake-up costs.
 *
 * Tiny tasks. The poller looks for work every POLL_NS, so a submitter need not wake anybody while another worker runs. It parks
 * when no other worker runs. It also parks after IDLE_LOOKS looks at which nothing had begun and nothing was queued: the other
 * worker's task is long then, and a submission wakes the parked worker, at a cost that no longer matters.
 *
 * More workers than CPUs. If tasks are short, no more workers are woken than there are CPUs, as long as another one polls:
 * the guard. It looks every GUARD_NS, or every second time. It becomes active if no task has begun since its last look, or if
 * a CPU is free, because tasks may block or wait for each other. If that happens repeatedly, as many workers are woken as for
 * long tasks, until it has not happened for a while. If nothing has begun and nothing is queued, the guard parks.
 *
 * Waking up ahead. Each worker learns for itself when work comes to it (expect.c): from wake-ups that end a sleep, by the
 * moment at which they were sent, and from work that it finds while awake ahead of it. The parked worker with the lowest
 * number is woken first, so in bursts of k tasks, k workers learn the period, and no others. A worker that expects work parks
 * with a deadline and wakes up a little earlier than needed. It counts as a searcher, so that nobody needs to be woken, and
 * looks for work until the arrival comes or should have come.
 *
 * A short loop wakes nobody, so no worker learns when it recurs. Its caller does (ready_recur), and passes that on to the
 * first worker.
 *
 * Announced moments. weft_pool_expect writes the moment into the seats of the first workers and changes their event, so that
 * sleeping ones plan again. A worker reads its event before the moment (K6), so either it sees the moment or the event has
 * changed. An announced moment has precedence over what the worker has learned, from eight learned periods before it until it has
 * passed. A loop's caller does not replace the program's announcement.
 *
 * Costs. They are measured on each wake-up that the pool sends.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   D18 poll_work: looks again                   -        K12  a task published while the worker was busy waits for nobody
 */
#include "predict/state.h"

#include <string.h>

/* ---- polling ------------------------------------------------------------------------------------------------------- */

#define POLL_NS UINT64_C(200000)
#define GUARD_NS UINT64_C(1000000)
#define IDLE_LOOKS 4u /* looks at which there was nothing to do, then the poller parks */
#define CALM_LOOKS 8u /* looks at which all went well, then the guard looks half as often */
#define BLOCKED_ONCE 8u
#define BLOCKED_MAX 32u
#ifndef POLL_BACKLOG
#define POLL_BACKLOG 2048u /* cells of tiny tasks */
#endif

/* How many outside threads are in a call and awake, up to `most`. */
static uint32_t guests_awake(const weft_pool *pool, uint32_t most) {
    uint32_t asleep = load_rlx(&pool->guests_asleep);
    uint32_t guests = 0;
    uint32_t count = load_rlx(&pool->seats_used);
    for (uint32_t i = pool->workers_max + pool->spare_seats; i < count && guests < asleep + most; i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat != NULL && load_rlx(&seat->guest_calls) != 0) guests++;
    }
    return guests - (uint32_t)min_u64(guests, asleep);
}

bool poll_suffices(const struct weft_worker *seat, const struct park_view *view) {
    const weft_pool *pool = seat->pool;
    if (!view->polling || !load_rlx(&pool->tasks_are_short) || load_rlx(&predict_of_pool(pool)->blocks) > BLOCKED_ONCE)
        return false;
    uint32_t self = seat->is_worker || seat->frame != NULL ? 0 : 1;
    uint64_t busy = max_u64(guests_awake(pool, load_rlx(&pool->cpus_allowed)), self);
    if (busy == 0 && load_rlx(&pool->outside_runs) && os_ticks() - load_rlx(&pool->outside_ticks) < pool->short_ticks)
        busy = 1;
    if (!pool->helps || pool->config.queue_max != 0) busy = 0;
    return load_rlx(&pool->workers) + busy >=
           view->parked + view->polling + load_rlx(&pool->held_up) + load_rlx(&pool->cpus_allowed);
}

/* Counts the caller of a wait that helps, because it has a CPU, too. */
static bool may_guard(const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uint32_t caller = load_rlx(&pool->outside_runs) && load_rlx(&pool->cpus_allowed) > 1 ? 1 : 0;
    return seat->index + caller >= load_rlx(&pool->cpus_allowed) && seat->index < pool->workers_max;
}

/* What the poller sees, look by look. */
struct polling {
    uint64_t heads;      /* sum over all lanes: rises whenever a task begins */
    uint64_t backlog;    /* cells */
    bool is_stuck;       /* a claim's rest is offered, or a claim or a lane has not moved since the last look */
    bool moves;          /* tasks have begun since the last look */
    uint32_t idle_looks; /* left */
    uint32_t calm_looks; /* in a row */
};

static void survey(const weft_pool *pool, struct polling *polling) {
    uint64_t heads = 0;
    polling->backlog = 0;
    polling->is_stuck = false;
    bool offers = load_rlx(&pool->offers) > 0; /* otherwise an offered claim is a loose one, which moves */
    for (struct seats all = seats_in_use(pool); seats_next(&all);) {
        struct weft_worker *other = all.seat;
        uint64_t mark = claim_mark(&other->claim);
        if (mark != 0 && (mark == load_rlx(&predict_of(other)->claim_seen) || (offers && claim_is_offered(&other->claim))))
            polling->is_stuck = true;
        store_rlx(&predict_of(other)->claim_seen, mark);
        for (struct lane *lane = worker_lanes(other); lane != NULL; lane = load_rlx(&lane->next)) {
            uint64_t head = load_rlx(&lane->head);
            uint64_t backlog = priority_holds(pool, lane) ? 0 : lane_backlog(lane);
            if (backlog > 0 && head == load_rlx(&lane->head_seen)) polling->is_stuck = true;
            store_rlx(&lane->head_seen, head);
            polling->backlog += backlog;
            heads += head;
        }
    }
    polling->moves = heads != polling->heads;
    polling->heads = heads;
}

/* Learns that short tasks block: some are queued and none has begun. Once may be chance. */
static void learn_blocks(weft_pool *pool, bool rests) {
    uint32_t blocks = load_rlx(&predict_of_pool(pool)->blocks);
    if (rests)
        store_rlx(&predict_of_pool(pool)->blocks, (uint32_t)min_u64(blocks + BLOCKED_ONCE, BLOCKED_MAX));
    else if (blocks > 0)
        store_rlx(&predict_of_pool(pool)->blocks, blocks - 1);
}

/* Must the poller get up? It must if tasks pile up, if nothing moves, if a CPU may be free for short tasks, if a claim or a
 * lane is stuck (the running thread may be a wait that helps only with its own group), if there is nothing to guard, if it is
 * time to count the CPUs, and at the end. Otherwise the others do better without one more thread on the CPUs. */
static bool poll_is_over(const struct weft_worker *seat, struct polling *polling) {
    weft_pool *pool = seat->pool;
    bool is_tiny = load_rlx(&pool->tiny) != 0;
    survey(pool, polling);
    bool rests = polling->backlog > 0 && !polling->moves;
    if (!is_tiny && (rests || polling->moves)) learn_blocks(pool, rests);
    struct park_view view = park_look(&pool->park);
    bool has_room = !is_tiny && !poll_suffices(seat, &view);
    bool nobody_runs = is_tiny && view.parked + view.polling >= load_rlx(&pool->workers);
    if (polling->moves || polling->backlog > 0)
        polling->idle_looks = IDLE_LOOKS;
    else
        polling->idle_looks--;
    polling->calm_looks = rests ? 0 : polling->calm_looks + 1;
    return polling->is_stuck || sources_are_open(pool) || sources_hold_back(pool) || rests ||
           (is_tiny && polling->backlog > POLL_BACKLOG) || (polling->backlog > 0 && has_room) || nobody_runs ||
           polling->idle_looks == 0 || fit_is_due(pool) || load_rlx(&pool->exits);
}

static uint64_t next_look_ns(const weft_pool *pool, const struct polling *polling) {
    if (load_rlx(&pool->tiny)) return POLL_NS;
    return polling->calm_looks < CALM_LOOKS ? GUARD_NS : 2 * GUARD_NS;
}

static bool poll_on(struct weft_worker *seat, uint64_t *since) {
    weft_pool *pool = seat->pool;
    struct polling polling = {.idle_looks = IDLE_LOOKS};
    worker_unbias(pool);
    sources_ask(pool, NULL, true);
    while (!recheck(D18, poll_is_over(seat, &polling), false)) {
        priority_wake_helpers(pool);
        *since = os_ticks();
        if (park_poll(&pool->park, seat->index, os_now_ns() + next_look_ns(pool, &polling))) return true;
    }
    predict_of(seat)->polled_in_vain = polling.idle_looks == 0;
    park_poll_end(&pool->park, seat->index);
    return false;
}

enum poll_end poll_work(struct weft_worker *seat, bool is_searcher, uint64_t *since) {
    weft_pool *pool = seat->pool;
    struct predict_seat *mine = predict_of(seat);
    struct park_view view = park_look(&pool->park);
    bool another_runs = view.parked + 1 + view.polling < load_rlx(&pool->workers);
    bool guards = load_rlx(&pool->tasks_are_short) && may_guard(seat);
    bool polls = (load_rlx(&pool->tiny) || guards) && another_runs && !mine->polled_in_vain && !pool->has_tokens;
    mine->polled_in_vain = false;
    if (!polls || !park_poll_announce(&pool->park, seat->index, is_searcher)) return POLL_NOT;
    return poll_on(seat, since) ? POLL_WOKEN : POLL_OVER;
}

/* ---- what a wake costs -------------------------------------------------------------------------------------------- */

#define SHORT_US 100u /* weft.h says so */
#define MIDDLE_US 2000u

static uint64_t averaged(uint64_t known, uint64_t now) {
    return known == 0 ? max_u64(now, 1) : known - known / 8 + min_u64(now, known * 8) / 8;
}

/* A thread that slept for `idle` ticks ran `took` ticks after its wake was sent from that CPU. Nobody looks for work longer
 * than one and a half times what a wake takes after a sleep that was not long. */
static void costs_learn(weft_pool *pool, uint64_t idle, uint64_t took, uint32_t sent_from) {
    if (sent_from == os_cpu()) {
        store_rlx(&predict_of_pool(pool)->run_here_ticks, averaged(load_rlx(&predict_of_pool(pool)->run_here_ticks), took));
        return;
    }
    uint64_t us = idle / pool->ticks_per_us;
    enum weft_sleep sleep = us < SHORT_US ? WEFT_SLEEP_SHORT : us < MIDDLE_US ? WEFT_SLEEP_MIDDLE : WEFT_SLEEP_LONG;
    uint64_t ticks = averaged(load_rlx(&predict_of_pool(pool)->run_ticks[sleep]), took);
    store_rlx(&predict_of_pool(pool)->run_ticks[sleep], ticks);
    if (pool->spin_adapts && sleep != WEFT_SLEEP_LONG)
        store_rlx(&pool->spin_now, min_u64(ticks + ticks / 2, load_rlx(&pool->spin_ticks)));
}

int weft_pool_wake_costs(const weft_pool *pool, weft_wake_costs *costs) {
    if (pool == NULL || costs == NULL) return WEFT_EINVAL;
    uint64_t per_us = pool->ticks_per_us;
    weft_wake_costs found = {.send_ns = load_rlx(&pool->park.send_ticks) * 1000 / per_us,
                             .run_here_ns = load_rlx(&predict_of_pool(pool)->run_here_ticks) * 1000 / per_us,
                             .spin_ns = load_rlx(&pool->spin_now) * 1000 / per_us};
    for (unsigned i = 0; i < WEFT_SLEEP_CLASSES; i++)
        found.run_ns[i] = load_rlx(&predict_of_pool(pool)->run_ticks[i]) * 1000 / per_us;
    return struct_write(costs, &found, sizeof found) ? WEFT_OK : WEFT_EINVAL;
}

/* ---- waking up ahead of work -------------------------------------------------------------------------------------- */

#define SEARCHER_SHORTEST 16u /* part of the pool's spin time */
#define IDLE_NS 50000u        /* ns: a shorter sleep was between two parts of one burst */
#define RECUR_NS_MIN 5000u    /* ns: shorter loops are not worth waking up for */
#define RECUR_NS_MAX 100000u  /* ns: longer loops wake a worker, which then learns for itself */
#define AWAY_US 10u           /* us: a look takes this long only if another thread has the CPU */
#define CROWDED_ARRIVALS 16u  /* arrivals to sleep through if there was no CPU free to wake up on */

/* Looking for work before sleeping pays if it finds some, or would have. A worker that looked in vain looks half as long the
 * next time; one that found work looks twice as long; one that was woken so soon that looking would have found the work
 * looks as long as allowed. */
void ready_searched(struct weft_worker *seat, bool came) {
    uint64_t most = load_rlx(&seat->pool->spin_now);
    if (!seat->pool->spin_adapts)
        seat->searcher_ticks = most;
    else if (came)
        seat->searcher_ticks = min_u64(max_u64(seat->searcher_ticks, most / SEARCHER_SHORTEST) * 2, most);
    else
        seat->searcher_ticks = seat->searcher_ticks / 2 < most / SEARCHER_SHORTEST ? 0 : seat->searcher_ticks / 2;
}

uint64_t ready_plan(struct weft_worker *seat, uint64_t told_ns) {
    predict_of(seat)->plan = (struct expect_plan){0, 0};
    if (seat->has_worked) predict_of(seat)->idle_since = os_ticks();
    seat->has_worked = false;
    if (load_rlx(&seat->pool->expect_percent) == 0) return 0;
    expect_tell(&predict_of(seat)->expect, told_ns);
    predict_of(seat)->plan = expect_next(&predict_of(seat)->expect, os_now_ns(), load_rlx(&seat->pool->expect_percent));
    return predict_of(seat)->plan.wake;
}

void ready_woken(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    uint64_t spin = load_rlx(&pool->spin_now);
    uint64_t sent = load_rlx(&pool->park.slots[seat->index].sent_ticks);
    uint64_t now = os_ticks();
    uint64_t idle = sent - predict_of(seat)->idle_since;
    if (idle > now - predict_of(seat)->idle_since) return; /* the waker has not stored sent_ticks yet */
    costs_learn(pool, idle, now - sent, load_rlx(&pool->park.slots[seat->index].sent_from));
    if (idle < spin) seat->searcher_ticks = spin;
    if (load_rlx(&pool->expect_percent) == 0 || idle < IDLE_NS * pool->ticks_per_us / 1000) return;
    expect_arrival(&predict_of(seat)->expect, os_now_ns() - (now - sent) * 1000 / pool->ticks_per_us, false);
}

static bool ready_begin(struct weft_worker *seat, uint64_t *until) {
    weft_pool *pool = seat->pool;
    uint64_t now = os_now_ns();
    if (predict_of(seat)->plan.wake == 0 || now < predict_of(seat)->plan.wake) return false;
    bool is_crowded = park_look(&pool->park).searchers >= load_rlx(&pool->cpu_count);
    if (is_crowded || realtime_is_spent(seat)) {
        expect_pass(&predict_of(seat)->expect,
                    is_crowded ? CROWDED_ARRIVALS : 1); /* otherwise it would wake up for the same arrival again, at once */
        return false;
    }
    predict_of(seat)->plan.wake = now;
    if (now < predict_of(seat)->plan.until)
        *until = os_ticks() + (predict_of(seat)->plan.until - now) * pool->ticks_per_us / 1000;
    return now < predict_of(seat)->plan.until;
}

static void ready_looked(struct weft_worker *seat, bool came, uint64_t away) {
    uint64_t now = os_now_ns();
    expect_looked(&predict_of(seat)->expect,
                  min_u64(predict_of(seat)->plan.wake + away * 1000 / seat->pool->ticks_per_us, now), now);
    if (came) {
        expect_arrival(&predict_of(seat)->expect, now, true);
        count_up(&seat->expect_hits, 1);
    } else {
        count_up(&seat->expect_misses, 1);
    }
}

/* The clock has woken the worker as a searcher: it looks out for the work that it expects. The budget bounds that, so it
 * gives way only to a thread that is about to submit: another program's thread would keep the CPU for its whole slice, and
 * the arrival would find nobody. If tasks are long, it gives way: then the program's own other threads count. */
void look_out(struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uint64_t until = 0;
    uint64_t start = os_ticks();
    if (!ready_begin(seat, &until)) return;
    until = realtime_look_until(seat, start, until);
    bool sees = false;
    uint32_t turn = 0;
    uint64_t away = 0;
    uint64_t ticks = start;
    bool gives_way = load_rlx(&seat->task_ticks) >= pool->short_ticks;
    while (!sees && ticks - start < until - start && !load_rlx(&pool->exits)) {
        uint64_t before = ticks;
        sources_ask(pool, NULL, false);
        os_pause();
        if (gives_way || os_cpu() == load_rlx(&pool->from_cpu)) os_take_turns(&turn);
        sees = find_sees(pool, false, NULL);
        ticks = os_ticks();
        if (ticks - before >= AWAY_US * pool->ticks_per_us) away += ticks - before;
    }
    count_up(&seat->spin_ticks, ticks - start - away);
    ready_looked(seat, sees, away);
}

void ready_recur(struct weft_worker *seat, uint64_t since, uint64_t start, uint64_t end) {
    weft_pool *pool = seat->pool;
    uint64_t ns = (end - start) * 1000 / pool->ticks_per_us;
    if (seat->is_worker || load_rlx(&pool->expect_percent) == 0 || ns < RECUR_NS_MIN || ns > RECUR_NS_MAX) return;
    if (start - since < IDLE_NS * pool->ticks_per_us / 1000) return;
    uint64_t now = os_now_ns();
    expect_arrival(&predict_of(seat)->expect, now - ns, false);
    if (expect_next(&predict_of(seat)->expect, now, load_rlx(&pool->expect_percent)).wake == 0) return;
    uint64_t told_ns = park_told(&pool->park, 0);
    if (told_ns > now && told_ns != predict_of(seat)->recurs_ns) return; /* by the program, or for another loop */
    store_rlx(&pool->from_cpu, os_cpu());
    predict_of(seat)->recurs_ns = predict_of(seat)->expect.planned;
    park_expect(&pool->park, 0, predict_of(seat)->recurs_ns);
}

int weft_pool_expect(weft_pool *pool, uint32_t workers, uint64_t when_ns) {
    if (pool == NULL || workers == 0) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    if (load_rlx(&pool->expect_percent) == 0) return WEFT_OK;
    store_rlx(&pool->from_cpu, os_cpu());
    for (uint32_t i = 0; i < load_rlx(&pool->workers); i++) {
        uint64_t told_ns = i < workers ? when_ns : 0;
        if (i < workers || park_told(&pool->park, i) != 0) park_expect(&pool->park, i, told_ns);
    }
    return WEFT_OK;
}
