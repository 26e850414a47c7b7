/* tokens.c: a number of threads that several programs share.
 *
 * `make -j N` keeps N - 1 bytes in a pipe, the tokens. Each program that it starts may run one thread. Whoever wants to run one more
 * takes a byte out first and puts it back later. A pool with WEFT_POOL_JOBSERVER does so for its workers.
 *
 * Actors: the first worker, which needs no token; the others; make, and other programs at the pipe. A worker beyond the first is
 *   resting   no token; it sleeps in rest (worker.c)
 *   awake     it has a token: it runs a task, looks for one or is parked
 *   over      the pool has lowered `workers`; it still has its token, and rests after its task
 * Tokens belong to the pool, not to one worker. `workers` is 1 + `held` at most, so fit.c is all that starts workers and lets them
 * rest. Under the pool's lock, 1 + held >= workers always, and 1 + held >= awake but for threads that have just been started and are
 * about to rest. tokens_give_surplus keeps max(workers, awake) - 1, so a worker that is over keeps its token until it rests. One
 * that rises counts as awake under the lock (fit_rise), or finds there that its token is gone.
 *
 * Resting to awake: somebody has seen work that no worker that may run is free for, and has taken a token. That is
 *   - a worker between two tasks: at most once in LOOK_NS after a look in vain, at once after one that was not;
 *   - the next to run, the resting worker of the lowest number, while others are awake: every ASK_NS, later four times that. It sees
 *     a loop, forked calls or a claim of a worker that does not come to its next task. While all sleep, it sleeps without a
 *     limit (`next_sleeps`), and whoever has a task again and looks wakes it.
 * Nobody waits for the pipe: who finds it empty goes on without. So make, which does wait, mostly gets a token first, and starts a
 * job.
 *
 * Awake to over: a worker has been parked for IDLE_NS; with tokens none polls. Then `workers` becomes the
 * number of those that are not asleep, at least one.
 *
 * The end: tokens_end gives back what a pool holds. If the process ends by exit first, a destructor does, for all its pools, whose
 * workers may then run on for a moment. Nothing gives back the tokens of a process that ends by a signal or _exit, or that runs
 * another program by exec: the kernel keeps no record of them. make goes on with fewer, and says at its end that they are missing. A
 * forked child has no token: its registry of pools is empty, and a pool of its parent is only unmapped.
 *
 * No lost wake-up: a worker that rests is none of those that park.c counts, as with weft_pool_resize (fit.c). The first worker never
 * rests, so all that is here may come late or never, and every task runs.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   U4  sleep_soundly: fence  sc  K10  a worker woken meanwhile does not see that it is to look, and the next one sleeps until its next
 *                                      task; the task that it is in may be long
 */
#include "sched/tokens.h"

#include "sched/find.h"
#include "sched/fit.h"
#include "sched/seat.h"
#include "sched/source.h"

#define LOOK_NS UINT64_C(1000000)
#define ASK_NS UINT64_C(8000000)
#define ASK_DOUBLES 2u
#ifndef ASKS_MAX
#define ASKS_MAX UINT32_MAX /* looks in vain; the explorer has a few, for there time is what passes between two of them */
#endif
#define IDLE_NS UINT64_C(1000000)

static PROCESS_STATE ATOMIC(bool) ever_used; /* else the end of the process takes no lock */

void tokens_configure(weft_pool *pool, const char *makeflags) {
    if ((pool->config.flags & WEFT_POOL_JOBSERVER) == 0) return;
    pool->tokens.error = os_jobserver_open(makeflags, &pool->tokens.server);
    if (!tokens_are_used(pool)) return;
    store_rlx(&ever_used, true);
    pool->config.flags |= WEFT_POOL_NO_HELP; /* a thread that waits would be one more that runs */
    pool->tokens.look_ticks = LOOK_NS / 1000 * os_ticks_per_us();
    store_rlx(&pool->workers, 1);
    store_rlx(&pool->fit_due, 0);
}

/* Under the lock. */
static void give_down_to(weft_pool *pool, uint32_t keeps) {
    uint32_t held = load_rlx(&pool->tokens.held);
    while (held > keeps && os_jobserver_give(&pool->tokens.server, pool->tokens.bytes[held - 1])) held--;
    store_rlx(&pool->tokens.held, held);
}

void tokens_give_surplus(weft_pool *pool) {
    if (!tokens_are_used(pool)) return;
    os_lock(&pool->lock);
    give_down_to(pool, (uint32_t)max_u64(max_u64(load_rlx(&pool->workers), load_rlx(&pool->awake)), 1) - 1);
    os_unlock(&pool->lock);
}

void tokens_end(weft_pool *pool) {
    if (!tokens_are_used(pool)) return;
    os_lock(&pool->lock);
    pool->tokens.has_ended = true;
    give_down_to(pool, 0);
    os_unlock(&pool->lock);
}

#if !defined(WEFT_EXPLORE)
__attribute__((destructor)) static void process_ends(void) {
    if (load_rlx(&ever_used)) registry_each(tokens_end);
}
#endif

/* ---- more --------------------------------------------------------------------------------------------------------- */

/* Is everybody busy who may run, and work left? `firmly`: also what a thread has claimed, or has not published. */
static bool tokens_lack(const weft_pool *pool, bool firmly) {
    uint32_t workers = load_rlx(&pool->workers);
    if (workers >= load_rlx(&pool->wish) || load_rlx(&pool->exits)) return false;
    if (workers_awake(pool) < workers || park_look(&pool->park).searchers > 0) return false;
    if (firmly) sources_ask(pool, NULL, false);
    return find_sees(pool, firmly, NULL) || (firmly && sources_hold_back(pool));
}

static bool tokens_take(weft_pool *pool) {
    os_lock(&pool->lock);
    uint32_t held = load_rlx(&pool->tokens.held);
    bool may = !pool->tokens.has_ended && held + 1 < load_rlx(&pool->wish);
    bool has_one = may && os_jobserver_take(&pool->tokens.server, &pool->tokens.bytes[held]);
    if (has_one) {
        store_rlx(&pool->tokens.held, held + 1);
        store_rlx(&pool->tokens.taken, os_ticks());
        store_rlx(&pool->tokens.asks, 0);
    }
    os_unlock(&pool->lock);
    return has_one;
}

static void look_soon(weft_pool *pool) {
    os_lock(&pool->lock);
    pool->tokens.due = 0;
    store_rlx(&pool->fit_due, 0);
    os_unlock(&pool->lock);
}

static bool tokens_ask(weft_pool *pool, bool firmly) {
    uint32_t before = load_rlx(&pool->workers);
    if (!tokens_lack(pool, firmly) || !tokens_take(pool)) return false;
    fit_to_tokens(pool, WEFT_WORKERS_MAX);
    if (load_rlx(&pool->workers) > before)
        look_soon(pool); /* there may be more, and more work: the new worker looks before its first task */
    else
        tokens_give_surplus(pool); /* the system has refused a thread */
    return true;
}

void tokens_look(weft_pool *pool) {
    if (!tokens_are_used(pool)) return;
    os_lock(&pool->lock);
    uint64_t now = os_ticks();
    bool is_due = pool->tokens.due <= now;
    bool wakes = is_due && pool->tokens.next_sleeps;
    if (is_due) pool->tokens.due = now + pool->tokens.look_ticks;
    if (is_due) pool->tokens.next_sleeps = false;
    os_unlock(&pool->lock);
    if (is_due && !tokens_ask(pool, false) && wakes) fit_wake_next(pool);
}

/* Does every worker sleep that may run, and no thread run anything? One that was woken is awake before it runs. */
static bool all_sleep(const weft_pool *pool) {
    if (workers_awake(pool) > 0) return false;
    uint32_t count = load_rlx(&pool->seats_used);
    for (uint32_t i = 0; i < count; i++) {
        const struct weft_worker *seat = worker_seat(pool, i);
        if (seat != NULL && load_rlx(&seat->running) != 0) return false;
    }
    return true;
}

/* It sleeps until a worker looks; the next one that runs a task does. */
static uint64_t sleep_soundly(weft_pool *pool) {
    os_lock(&pool->lock);
    pool->tokens.next_sleeps = true;
    pool->tokens.due = 0;
    store_rlx(&pool->fit_due, 0);
    os_unlock(&pool->lock);
    store_rlx(&pool->tokens.asks, 0);
    fence_sc(U4);
    return !all_sleep(pool) && ASKS_MAX == UINT32_MAX ? os_now_ns() + ASK_NS : 0;
}

uint64_t tokens_rest(const struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    uint32_t next = load_rlx(&pool->workers);
    if (!tokens_are_used(pool) || seat->index != next || next >= load_rlx(&pool->wish)) return 0;
    uint32_t asks = load_rlx(&pool->tokens.asks);
    if (all_sleep(pool) || asks >= ASKS_MAX) return sleep_soundly(pool);
    store_rlx(&pool->tokens.asks, asks + 1);
    bool is_early = os_ticks() - load_rlx(&pool->tokens.taken) < pool->tokens.look_ticks; /* its worker is on its way */
    if (is_early) return os_now_ns() + LOOK_NS;
    if (tokens_ask(pool, true)) return 1; /* long ago: it looks again whether it is to run */
    return os_now_ns() + (ASK_NS << min_u64(asks, ASK_DOUBLES));
}

/* ---- fewer -------------------------------------------------------------------------------------------------------- */

uint64_t tokens_patience(const weft_pool *pool) {
    return tokens_are_used(pool) && load_rlx(&pool->workers) > 1 ? os_now_ns() + IDLE_NS : 0;
}

void tokens_are_idle(weft_pool *pool) {
    uint32_t awake = (uint32_t)max_u64(workers_awake(pool), 1);
    if (awake < load_rlx(&pool->workers)) fit_to_tokens(pool, awake);
}
