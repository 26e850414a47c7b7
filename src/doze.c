/* doze.c: see doze.h.
 *
 * Tiny tasks: the dozer looks around every DOZE_NS, so a submitter need not wake anybody as long as another worker runs.
 *
 * More workers than CPUs: where tasks are brief, no more are woken than there are CPUs, as long as another one dozes: the
 * guard. It looks around every GUARD_NS, or two, and gets up should nothing have moved, or a CPU be free: tasks may
 * block, or wait for each other. Where that happens again and again, as many are woken as if tasks were long, until
 * nothing has happened for a while. A guard that has nothing to guard, for nothing has begun and nothing is queued,
 * parks.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   D18 doze: looks again                   -        K12  a task published while the worker was busy waits for nobody
 */
#include "doze.h"

#include "fork.h"
#include "loop.h"
#include "rank.h"

#define DOZE_NS UINT64_C(200000)
#define GUARD_NS UINT64_C(1000000)
#define IDLE_LOOKS 4u /* at which nothing was to be done; then the guard parks */
#define CALM_LOOKS 8u /* at which all went well; then it looks half as often */
#define BLOCKED_ONCE 8u
#define BLOCKED_MAX 32u
#ifndef DOZE_BACKLOG
#define DOZE_BACKLOG 2048u /* cells of tiny tasks */
#endif

bool doze_suffices(const struct weft_worker *seat, const struct park_view *view) {
    const weft_pool *pool = seat->pool;
    if (!view->dozing || !load_rlx(&pool->brief) || load_rlx(&pool->blocks) > BLOCKED_ONCE) return false;
    uint32_t self = seat->is_worker || seat->frame != NULL ? 0 : 1;
    uint32_t guests = load_rlx(&pool->guests);
    uint64_t busy = max_u64(guests - min_u64(guests, load_rlx(&pool->guests_asleep)), self);
    if (busy == 0 && load_rlx(&pool->outside_runs) && os_ticks() - load_rlx(&pool->outside_ticks) < pool->brief_ticks)
        busy = 1;
    if (!pool->helps || pool->config.queue_max != 0) busy = 0;
    return load_rlx(&pool->workers) + busy >= view->parked + view->dozing + load_rlx(&pool->held_up) + pool->cpu_count;
}

/* The caller of a wait that helps has a CPU, too. */
bool doze_may_guard(const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uint32_t caller = load_rlx(&pool->outside_runs) && pool->cpu_count > 1 ? 1 : 0;
    return seat->index + caller >= pool->cpu_count && seat->index < pool->workers_max;
}

/* What it sees, look by look. */
struct dozing {
    uint64_t heads;      /* of all lanes, together: rises whenever a task begins */
    uint64_t backlog;    /* cells */
    bool is_stuck;       /* a claim's rest is offered, or that or a lane has not moved since the last look */
    bool moves;          /* tasks have begun since */
    uint32_t idle_looks; /* left */
    uint32_t calm_looks; /* in a row */
};

static void survey(const weft_pool *pool, struct dozing *dozing) {
    uint32_t count = load_rlx(&pool->seat_count);
    uint64_t heads = 0;
    dozing->backlog = 0;
    dozing->is_stuck = false;
    for (uint32_t i = 0; i < count; i++) {
        struct weft_worker *other = worker_seat(pool, i);
        if (other == NULL) continue;
        uint64_t mark = claim_mark(&other->claim);
        if (mark != 0 && (mark == load_rlx(&other->claim_seen) || claim_is_offered(&other->claim))) dozing->is_stuck = true;
        store_rlx(&other->claim_seen, mark);
        for (struct lane *lane = worker_lanes(other); lane != NULL; lane = load_rlx(&lane->next)) {
            uint64_t head = load_rlx(&lane->head);
            uint64_t backlog = rank_holds(pool, lane) ? 0 : lane_backlog(lane);
            if (backlog > 0 && head == load_rlx(&lane->head_seen)) dozing->is_stuck = true;
            store_rlx(&lane->head_seen, head);
            dozing->backlog += backlog;
            heads += head;
        }
    }
    dozing->moves = heads != dozing->heads;
    dozing->heads = heads;
}

/* Tasks are queued and none has begun: brief ones block. Once may be chance. */
static void learn_blocks(weft_pool *pool, bool rests) {
    uint32_t blocks = load_rlx(&pool->blocks);
    if (rests)
        store_rlx(&pool->blocks, (uint32_t)min_u64(blocks + BLOCKED_ONCE, BLOCKED_MAX));
    else if (blocks > 0)
        store_rlx(&pool->blocks, blocks - 1);
}

/* Must it get up? When tasks pile up, when nothing moves, when a CPU may be free for brief ones, when a claim or a lane
 * is stuck (who runs may be a wait that helps with its own group alone), when there is nothing to guard, at the end. Else
 * the others do better without one more on the CPUs. */
static bool doze_is_over(const struct weft_worker *seat, struct dozing *dozing) {
    weft_pool *pool = seat->pool;
    bool is_brisk = load_rlx(&pool->brisk) != 0;
    survey(pool, dozing);
    bool rests = dozing->backlog > 0 && !dozing->moves;
    if (!is_brisk && (rests || dozing->moves)) learn_blocks(pool, rests);
    struct park_view view = park_look(&pool->park);
    bool has_room = !is_brisk && !doze_suffices(seat, &view);
    bool nobody_runs = view.parked + view.dozing >= load_rlx(&pool->workers);
    bool is_idle = is_brisk ? nobody_runs : !dozing->moves && dozing->backlog == 0;
    if (!is_idle)
        dozing->idle_looks = IDLE_LOOKS;
    else if (dozing->idle_looks > 0)
        dozing->idle_looks = is_brisk ? 0 : dozing->idle_looks - 1;
    dozing->calm_looks = rests ? 0 : dozing->calm_looks + 1;
    return dozing->is_stuck || loops_are_open(pool) || forks_are_open(pool, true) || rests ||
           (is_brisk && dozing->backlog > DOZE_BACKLOG) || (dozing->backlog > 0 && has_room) || dozing->idle_looks == 0 ||
           load_rlx(&pool->exits);
}

static uint64_t next_look_ns(const weft_pool *pool, const struct dozing *dozing) {
    if (load_rlx(&pool->brisk)) return DOZE_NS;
    return dozing->calm_looks < CALM_LOOKS ? GUARD_NS : 2 * GUARD_NS;
}

bool doze(struct weft_worker *seat, uint64_t *since) {
    weft_pool *pool = seat->pool;
    struct dozing dozing = {.idle_looks = IDLE_LOOKS};
    worker_unbias(pool);
    forks_ask_firmly(pool, NULL);
    while (!recheck(D18, doze_is_over(seat, &dozing), false)) {
        rank_wake_helpers(pool);
        *since = os_ticks();
        if (park_doze(&pool->park, seat->index, os_now_ns() + next_look_ns(pool, &dozing))) return true;
    }
    seat->dozed_in_vain = dozing.idle_looks == 0;
    park_doze_end(&pool->park, seat->index);
    return false;
}
