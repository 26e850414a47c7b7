/* tokens.c: a number of threads that several programs share.
 *
 * `make -j N` keeps N - 1 bytes in a pipe, the tokens. Each program that it starts may run one thread. Whoever wants to run one more
 * takes a byte out first and puts it back later. A pool with WEFT_POOL_JOBSERVER does so for its workers.
 *
 * Actors: the first worker, which needs no token; the others; who resizes the pool; who ends the process. A token belongs to one
 * worker. That worker alone takes it, while it rests, and gives it back, when it is about to rest:
 *
 *   down (no token)   sleeps in rest (worker.c). Takes a byte: token = byte, is_up, `workers` + 1, under the lock. Then it runs.
 *   up (a token)      runs tasks, looks for some or is parked. It is to rest when it has been parked for IDLE_NS (is_tired), or
 *                     when fewer are wished for. After its task, if it has one: is_up off, `workers` - 1, others are told as
 *                     fit.c says; and only then, under the lock, token = 0, and the byte goes back
 *
 * No more run than there are tokens: a worker reads its own is_up before each task, and is_up without a token is seen only after
 * the process has begun to end. No token is lost: the word has the byte from when it is taken until who writes 0, under the
 * lock, puts the byte back. That is the worker, before it rests or its thread ends, so before destroy has joined it; or, if the
 * process ends by exit first, a destructor, after which none is taken. Nothing gives back the tokens of a process that ends by
 * a signal or _exit, or that runs another program by exec: the kernel keeps no record of them. make goes on with fewer, and says
 * so at its end. A forked child has no token: its registry of pools is empty, and a pool of its parent is only unmapped.
 *
 * Who asks. Of the workers that are down, the lowest is the next to run; its thread has been started (tokens_start). While
 * others are awake it looks every ASK_NS, later 2^ASK_DOUBLES times that, whether all are busy and work is left, and then tries to take a
 * token. Nobody waits for the pipe. So make, which does, mostly gets a token first, and starts a job. One that has come up
 * wakes the next. While all sleep, the next sleeps without a limit, with `asleep` set; who wakes for work clears that, and then changes the
 * next one's event. Both set it under the lock: if it is cleared after it was set, the event changes after the next one read that.
 * Of its store and fence (U4), and its look at who sleeps, and the waker's change of the park word, fence (K10) and look at
 * `asleep`, one side sees the other. A worker that comes to rest below the one that slept so is the next then, and looks itself.
 *
 * No lost wake-up: a worker that rests is none of those that park.c counts, as with weft_pool_resize (fit.c). The first worker
 * never rests but for that, so all that is here may come late or never, and every task runs.
 *
 * Spares that stand in for blocked workers take over these workers' right to run: after weft_block_end, both run until the
 * spare has finished its task.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   U4  sleeps_soundly: fence  sc  K10  a worker woken meanwhile does not ring, and the next sleeps though work is left
 */
#include "sched/tokens.h"

#include "sched/find.h"
#include "sched/fit.h"
#include "sched/seat.h"
#include "sched/source.h"

#define ASK_NS UINT64_C(2000000)
#define ASK_DOUBLES 3u
#define IDLE_NS UINT64_C(1000000)
#define TOKEN 256u

static PROCESS_STATE ATOMIC(bool) ever_used; /* else the end of the process takes no lock */

void tokens_configure(weft_pool *pool, const char *makeflags) {
    if ((pool->config.flags & WEFT_POOL_JOBSERVER) == 0) return;
    pool->tokens.error = os_jobserver_open(makeflags, &pool->tokens.server);
    if (pool->tokens.error != 0) return;
    pool->tokens.are_used = true;
    store_rlx(&ever_used, true);
    pool->config.flags |= WEFT_POOL_NO_HELP; /* a thread that waits would be one more that runs */
    fit_count(pool, 1);
}

void tokens_start(weft_pool *pool) {
    fit_start(pool, (uint32_t)min_u64(load_rlx(&pool->workers) + UINT64_C(1), load_rlx(&pool->wish)));
}

bool tokens_forbid(const struct weft_worker *seat) {
    return !seat->is_up || seat->is_tired || seat->index >= load_rlx(&seat->pool->wish);
}

/* ---- fewer -------------------------------------------------------------------------------------------------------- */

uint64_t tokens_patience(const struct weft_worker *seat) { return seat->is_up ? os_now_ns() + IDLE_NS : 0; }

static void count(weft_pool *pool, uint32_t change) { fit_count(pool, load_rlx(&pool->workers) + change); }

void tokens_fall(struct weft_worker *seat) {
    if (!seat->is_up) return;
    os_lock(&seat->pool->lock);
    count(seat->pool, UINT32_MAX);
    os_unlock(&seat->pool->lock);
    seat->is_up = false;
}

/* Under the lock. */
static void give(struct weft_worker *seat) {
    uint32_t token = load_rlx(&seat->token);
    if (token != 0) os_jobserver_give(&seat->pool->tokens.server, (unsigned char)token);
    store_rlx(&seat->token, 0);
}

void tokens_give(struct weft_worker *seat) {
    seat->is_tired = false;
    if (load_rlx(&seat->token) == 0) return; /* nobody else sets it */
    os_lock(&seat->pool->lock);
    give(seat);
    os_unlock(&seat->pool->lock);
}

static void tokens_end(weft_pool *pool) {
    if (!tokens_are_used(pool)) return;
    os_lock(&pool->lock);
    pool->tokens.have_ended = true;
    for (uint32_t i = 0; i < pool->workers_made; i++) give(load_rlx(&pool->seats[i]));
    os_unlock(&pool->lock);
}

#if !defined(WEFT_EXPLORE)
__attribute__((destructor)) static void process_ends(void) {
    if (load_rlx(&ever_used)) registry_each(tokens_end);
}
#else
void explore_process_ends(void) { registry_each(tokens_end); }
#endif

/* ---- more --------------------------------------------------------------------------------------------------------- */

/* The lowest worker that is down. */
static uint32_t next_of(const weft_pool *pool) {
    uint32_t next = 1;
    while (next < pool->workers_max && load_rlx(&load_rlx(&pool->seats[next])->token) != 0) next++;
    return next;
}

static void wake_next(weft_pool *pool) {
    uint32_t next = next_of(pool);
    if (next < pool->workers_max) event_raise(&pool->park.slots[next].event);
}

static void set_asleep(weft_pool *pool, uint32_t asleep) {
    os_lock(&pool->lock);
    store_rlx(&pool->tokens.asleep, asleep);
    os_unlock(&pool->lock);
}

void tokens_ring(weft_pool *pool) {
    set_asleep(pool, 0);
    store_rlx(&pool->tokens.asks, 0);
    wake_next(pool);
}

/* Is everybody busy who may run, and work left? */
static bool is_lacking(weft_pool *pool) {
    struct park_view view = park_look(&pool->park);
    if (view.parked + view.searchers > 0) return false;
    sources_ask(pool, NULL, false);
    return find_sees(pool, true, NULL) || sources_hold_back(pool);
}

static bool rise(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    unsigned char byte;
    os_lock(&pool->lock);
    bool may = !pool->tokens.have_ended && !load_rlx(&pool->exits) && seat->index < load_rlx(&pool->wish);
    seat->is_up = may && os_jobserver_take(&pool->tokens.server, &byte);
    if (seat->is_up) {
        store_rlx(&seat->token, TOKEN | byte);
        count(pool, 1);
        if (!load_rlx(&pool->closed)) tokens_start(pool);
    }
    os_unlock(&pool->lock);
    return seat->is_up;
}

/* Do all sleep that may run? Then who wakes rings. */
static bool sleeps_soundly(weft_pool *pool) {
    if (workers_awake(pool) > 0) return false;
    set_asleep(pool, 1);
    fence_sc(U4);
    return workers_awake(pool) == 0;
}

uint64_t tokens_rest(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if (!tokens_are_used(pool) || seat->index >= load_rlx(&pool->wish) || seat->index != next_of(pool)) return 0;
    if (is_lacking(pool) && rise(seat)) {
        store_rlx(&pool->tokens.asks, 0);
        wake_next(pool);
        return 1; /* long ago */
    }
    if (sleeps_soundly(pool)) return 0;
    uint32_t asks = load_rlx(&pool->tokens.asks);
    store_rlx(&pool->tokens.asks, asks + 1);
    return os_now_ns() + (ASK_NS << min_u64(asks, ASK_DOUBLES));
}
