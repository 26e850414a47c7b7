/* tokens.c: a number of threads that several programs share.
 *
 * `make -j N` keeps N - 1 bytes in a pipe, the tokens. Each program that it starts may run one thread; whoever runs one more takes a
 * byte out first and puts it back later. All pools of a process that have WEFT_POOL_JOBSERVER share what the process has.
 *
 * Who counts: a worker or spare from before it looks for work until it parks, rests or blocks, and a thread from outside while it
 * runs something in a call (a wait that helps, a loop, a region of forks, weft_run). os_self.counts says whether a thread does. It
 * changes in scopes that lie in one another as their calls do: in one that runs (tokens_enter, tokens_leave) it counts; in one that
 * sleeps (tokens_leave, tokens_return), a section of weft_block_begin or a sleep of the library's, it does not; the end of each
 * makes it what it was (in a seat of 64 sections the first is forgotten: after it the thread does not count until its next task).
 * So a section in a task that a wait in a section runs leaves again. A worker counts among its pool's
 * runners, whatever it runs; all others are callers. All is under one lock, but for is_short, a hint.
 *
 * The rules.
 *   1. A thread inside a call or a task never waits here: not for make, nor for another thread. It counts at once, also after a
 *      section or a sleep. If more run than may then, 1 + held, a worker gives way before its next task.
 *   2. A worker with no task in hand begins if less than 1 + held run, or with a token more. Else it waits. It has told what it has
 *      run, and is busy to park.c: it looks for work when it begins, as a searcher. Before it waits it looks once more, and wakes
 *      those that sleep in waits if there is work, for they may run it: a submission may have relied on this one.
 *   3. Each pool has one place to wait at, the mutex `turn`. Who has it polls the pipe and the pool's bell; the others are behind it,
 *      and the next has it when that one leaves, for whatever reason. Room rings the bell, and the
 *      pool's end, and the end of the pool's other runners.
 *   4. If no worker of its pool has run since it began to wait, it goes on without a token after GRACE_NS. So a pool runs at least
 *      one thread, as on a machine with one CPU. It goes on until there is room, which other workers make (1). A caller makes none
 *      until its call ends: while any counts, the pool has a share, a tenth of GRACE_NS or one task, and after it waits ten times as
 *      long as that took, GRACE_NS at least and ten times that at most. What is left of a share is for the next task.
 *   5. Bytes that nobody here runs on or waits for are given back at once, by settle(), after each change.
 *
 * Nothing hangs. By 1 and 4 no thread waits for a token, but for workers of a pool of which another worker runs. By 3 it takes no
 * wake-up to pass the turn on, and who has it looks again after a second, whatever was lost. A pool's end sets `exits` before it
 * rings; who has the turn reads that under the lock, and sleeps on a bell that rings until it is stilled under the lock.
 *
 * A byte that was read is in `bytes` until it is written. Who counts stops before its thread ends, and a pool's end joins its threads:
 * when the last pool has ended, all are back. At exit a destructor gives them back, and none is read afterwards; if a signal
 * handler that calls exit has interrupted who has the lock, they are lost, as those of a process that is killed. A forked child
 * has none: its state begins anew, with the one thread that it may run; one that nobody told of its fork (_Fork) leaves its parent's
 * bytes alone. A pipe that this process can no longer use, or whose make has ended, sets no limit. */
#include "sched/tokens.h"

#include "sched/find.h"
#include "sched/priority.h"
#include "sched/seat.h"

#include <string.h>

PROCESS_STATE os_word tokens_grace_us;
#define TOKENS_MAX 1024u
#define GRACE_NS UINT64_C(100000000)
#define SHARE 10u                  /* beside callers: of ten parts of the time one */
#define EMPTY_NS UINT64_C(1000000) /* for so long a caller takes an empty pipe to be empty */

static PROCESS_STATE struct {
    ATOMIC(uint32_t) is_short; /* a worker is to give way; a hint */
    ATOMIC(uint32_t) is_open;  /* there are pools that share */
    os_mutex lock;             /* of all below, and of the pools' `tokens` */
    os_pipe server;
    weft_pool *pools;
    uint32_t running; /* threads that count */
    uint32_t callers; /* of these, those that are among no pool's runners */
    uint32_t asking;  /* pools of which one waits for a token */
    uint32_t process; /* that holds them: a child by _Fork has a copy of all this */
    uint32_t held;
    bool is_gone; /* the pipe, or its make */
    bool is_over; /* the process ends */
    uint64_t empty_until_ns;
    unsigned char bytes[TOKENS_MAX];
} T;

static uint32_t may_run(void) { return T.is_gone ? UINT32_MAX : 1 + T.held; }
static bool may_ask(void) { return !T.is_gone && !T.is_over && T.held < TOKENS_MAX; }
static uint64_t grace_ns(void) {
    uint32_t grace_us = load_rlx(&tokens_grace_us);
    return grace_us == 0 ? GRACE_NS : grace_us * UINT64_C(1000);
}

static void give_back(uint32_t keep) {
    if (T.held > keep) T.empty_until_ns = 0;
    while (T.held > keep) (void)os_jobserver_give(&T.server, T.bytes[--T.held]);
}

static void settle(void) {
    uint32_t wanted = T.running + T.asking;
    give_back(wanted > 1 ? wanted - 1 : 0);
    store_rlx(&T.is_short, T.running > may_run());
    for (weft_pool *pool = T.pools; pool != NULL; pool = pool->tokens.next) {
        bool has_share = T.callers > 0 && pool->tokens.runners == 0; /* what is left of it stays */
        if (T.running <= may_run() && !has_share) pool->tokens.exceeds_ns = 0;
        bool is_alone = pool->tokens.relies && pool->tokens.runners == 0;
        if (pool->tokens.asks && (T.running < may_run() || is_alone)) os_bell_ring(&pool->tokens.bell);
    }
}

static void take(void) {
    unsigned char byte;
    if (!may_ask()) return;
    if (os_jobserver_take(&T.server, &byte))
        T.bytes[T.held++] = byte;
    else
        T.empty_until_ns = os_now_ns() + EMPTY_NS;
}

static void take_unless_empty(void) {
    if (T.running >= may_run() && os_now_ns() >= T.empty_until_ns) take();
}

/* May one more run? */
static bool has_room(void) {
    if (T.running >= may_run()) take();
    return T.running < may_run();
}

/* The calling thread's pool, if that shares. */
static weft_pool *own_pool(void) {
    const os_self *self = os_self_get();
    weft_pool *pool = self->is_worker ? ((struct weft_worker *)self->worker)->pool : NULL;
    return pool != NULL && pool->has_tokens ? pool : NULL;
}

static void begin(void) {
    weft_pool *own = own_pool();
    os_self_get()->counts = true;
    T.running++;
    ++*(own != NULL ? &own->tokens.runners : &T.callers);
    settle();
}

static void leave(void) {
    weft_pool *own = own_pool();
    os_self_get()->counts = false;
    T.running--;
    --*(own != NULL ? &own->tokens.runners : &T.callers);
    if (own != NULL && own->tokens.exceeds_ns != 0) {
        uint64_t now_ns = os_now_ns();
        own->tokens.again_ns = now_ns + min_u64(SHARE * (now_ns - own->tokens.exceeds_ns), SHARE * grace_ns());
    }
    settle();
}

/* ---- a thread inside a call or a task ----------------------------------------------------------------------------- */

bool tokens_enter_slow(void) {
    if (os_self_get()->counts) return false;
    os_lock(&T.lock);
    take_unless_empty(); /* then nobody need give way */
    begin();
    os_unlock(&T.lock);
    return true;
}

void tokens_leave_slow(void) {
    os_lock(&T.lock);
    leave();
    os_unlock(&T.lock);
}

/* ---- workers ------------------------------------------------------------------------------------------------------ */

/* May one of the pool's workers, if no other runs, do without a token beside callers? */
static bool share_lasts(const weft_pool *pool) {
    return pool->tokens.exceeds_ns != 0 && os_now_ns() < pool->tokens.exceeds_ns + grace_ns() / SHARE;
}

static bool exceeds(const weft_pool *pool) {
    if (pool->tokens.exceeds_ns == 0 || pool->tokens.runners > 1) return false;
    return T.callers == 0 || share_lasts(pool);
}

/* Between two tasks. false: it does not count. */
static bool goes_on(const weft_pool *pool) {
    if (!os_self_get()->counts) return false;
    if (!load_rlx(&T.is_short)) return true;
    os_lock(&T.lock);
    if (T.running > may_run()) take_unless_empty();
    bool may = T.running <= may_run() || exceeds(pool);
    if (may)
        settle();
    else
        leave();
    os_unlock(&T.lock);
    return may;
}

static bool begins_at_once(const weft_pool *pool) {
    os_lock(&T.lock);
    bool may = has_room() || (T.callers > 0 && pool->tokens.runners == 0 && share_lasts(pool));
    if (may) begin();
    os_unlock(&T.lock);
    return may;
}

/* It is about to wait: it holds back nothing, and who sleeps in a wait and could run what it would have run does. */
static void hand_over(struct weft_worker *seat, bool is_searcher) {
    weft_pool *pool = seat->pool;
    worker_flush(seat);
    lanes_hide(seat);
    store_rlx(&seat->running, 0);
    if (is_searcher) park_unscout(&pool->park, seat->index);
    worker_unbias(pool);
    sources_ask(pool, NULL, true);
    priority_wake_helpers(pool);
    if (find_sees(pool, true, NULL) || sources_hold_back(pool)) worker_wake_helpers(pool, 0);
}

/* Until when the pool does not do without a token; 0: another of its workers runs. */
static uint64_t pool_until(const weft_pool *pool, uint64_t *since) {
    if (load_rlx(&tokens_grace_us) == TOKENS_GRACE_NONE || pool->tokens.runners > 0) return *since = 0;
    if (*since == 0) *since = os_now_ns();
    uint64_t until_ns = *since + grace_ns();
    return T.callers > 0 ? max_u64(until_ns, pool->tokens.again_ns) : until_ns;
}

static void bell_sleep(weft_pool *pool, uint64_t until_ns) {
    bool asks = may_ask();
    os_bell_still(&pool->tokens.bell);
    pool->tokens.asks = true;
    pool->tokens.relies = pool->tokens.runners > 0;
    os_unlock(&T.lock);
    bool works = os_jobserver_wait(&T.server, &pool->tokens.bell, asks, until_ns);
    os_lock(&T.lock);
    pool->tokens.asks = false;
    if (!works) T.is_gone = true;
}

/* It has the turn. */
static void await_token(weft_pool *pool) {
    uint64_t since = 0;
    os_lock(&T.lock);
    T.asking++;
    while (!load_rlx(&pool->exits) && !has_room()) {
        uint64_t until_ns = pool_until(pool, &since);
        uint64_t now_ns = until_ns == 0 ? 0 : os_now_ns();
        if (until_ns != 0 && now_ns >= until_ns) {
            pool->tokens.exceeds_ns = now_ns;
            break;
        }
        bell_sleep(pool, until_ns);
    }
    T.asking--;
    if (load_rlx(&pool->exits))
        settle();
    else
        begin();
    os_unlock(&T.lock);
}

bool tokens_await(struct weft_worker *seat, bool is_searcher) {
    weft_pool *pool = seat->pool;
    if (goes_on(pool) || begins_at_once(pool)) return true;
    hand_over(seat, is_searcher);
    os_lock(&pool->tokens.turn);
    await_token(pool);
    os_unlock(&pool->tokens.turn);
    return false;
}

/* ---- pools and processes ------------------------------------------------------------------------------------------ */

void tokens_begin(weft_pool *pool, const char *makeflags) {
    if ((pool->config.flags & WEFT_POOL_JOBSERVER) == 0) return;
    os_lock(&T.lock);
    if (T.pools == NULL) T.is_gone = false;
    int error = T.pools == NULL ? os_jobserver_open(makeflags, &T.server) : 0;
    if (error == 0) {
        error = os_bell_open(&pool->tokens.bell);
        if (error != 0 && T.pools == NULL) os_pipe_close(&T.server);
    }
    pool->tokens.error = error;
    pool->has_tokens = error == 0;
    if (pool->has_tokens) {
        pool->tokens.next = T.pools;
        T.pools = pool;
        T.process = os_process_id();
        store_rlx(&T.is_open, 1);
    }
    os_unlock(&T.lock);
}

void tokens_end(weft_pool *pool) {
    if (!pool->has_tokens || pool->fork_count != os_fork_count()) return;
    os_lock(&T.lock);
    weft_pool **link = &T.pools;
    while (*link != pool) link = &(*link)->tokens.next;
    *link = pool->tokens.next;
    os_pipe_close(&pool->tokens.bell);
    if (T.pools == NULL) {
        give_back(0);
        os_pipe_close(&T.server);
        store_rlx(&T.is_open, 0);
    }
    os_unlock(&T.lock);
}

void tokens_ring(const weft_pool *pool) {
    os_lock(&T.lock);
    os_bell_ring(&pool->tokens.bell);
    os_unlock(&T.lock);
}

void tokens_forked(void) {
    if (load_rlx(&T.is_open)) os_pipe_close(&T.server);
    for (weft_pool *pool = T.pools; pool != NULL; pool = pool->tokens.next) os_pipe_close(&pool->tokens.bell);
    memset(&T, 0, sizeof T);
    os_self_get()->counts = false;
}

#if !defined(WEFT_EXPLORE)
__attribute__((destructor)) static void process_ends(void)
#else
void explore_process_ends(void)
#endif
{
    if (!load_rlx(&T.is_open) || T.process != os_process_id()) return;
    uint64_t until_ns = os_now_ns() + GRACE_NS;
    bool has_lock = os_try_lock(&T.lock);
    while (!has_lock && os_now_ns() < until_ns) {
        os_yield();
        has_lock = os_try_lock(&T.lock);
    }
    if (!has_lock) return; /* the caller itself may have it, below a signal handler */
    T.is_over = true;
    give_back(0);
    os_unlock(&T.lock);
}
