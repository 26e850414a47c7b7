/* tokens.c: a number of threads that several programs share.
 *
 * `make -j N` keeps N - 1 bytes in a pipe, the tokens. Each program that make starts may run one thread. A program takes a byte out of the
 * pipe before it runs one more, and puts the byte back later. Without make there is the lease (lease.c): a program takes a token for
 * its first thread, too. A process has tokens of one server, make or the lease; all its pools with WEFT_POOL_JOBSERVER or
 * WEFT_POOL_LEASE share them. A process without such a pool does nothing of this. "May run" is 1 + held below make, held in the lease.
 *
 * Which threads count. A worker or a spare counts from before it looks for work until it parks, rests or blocks. An outside thread
 * counts while it runs something in a call: a wait that helps, a loop, a region of forks, weft_run. os_self.counts says whether a
 * thread counts. It changes in scopes that nest as their calls do. In a scope that runs (tokens_enter, tokens_leave) the thread
 * counts. In a scope that sleeps (tokens_leave, tokens_return; a section of weft_block_begin, or a sleep of the library's) it does
 * not. The end of each restores what was before. So a section in a task that a wait in a section runs ends counting again. Of more
 * than 64 nested sections the first is forgotten: after it the thread does not count until its next task. A worker is one of its
 * pool's runners, whatever it runs; all other threads that count are callers. One lock protects everything but is_short, a hint.
 *
 * The rules.
 *   1. A thread inside a call or a task never waits here, neither for make nor for another thread. It counts at once, also after a
 *      section or a sleep. If more threads count than may run, a worker gives way before its next task.
 *   2. A worker with no task in hand begins if fewer count than may run, or once it has one more token. Else it waits. Before it
 *      waits, it has reported what it has run, and looks once more: if there is work, it wakes the threads that sleep in waits, which
 *      may run that work; a submission may have relied on this worker. park.c takes it for busy meanwhile. When it begins, it looks
 *      for work as a searcher.
 *   3. In each pool one worker has the turn: it polls the server and the pool's bell. The others sleep until they have the turn, which
 *      each passes on when it is done, for whatever reason. The bell rings when there is room, when the pool ends, and when its
 *      other runners have stopped.
 *   4. If no worker of its pool has run since it began to wait, a worker goes on without a token after GRACE_NS. So a pool runs at
 *      least one thread, as on a machine with one CPU. It goes on until there is room, which other workers make (1). A caller makes
 *      no room until its call ends. So beside callers the pool has a share: it runs for a tenth of GRACE_NS, or for one task if
 *      that is longer, and then waits ten times as long, at least GRACE_NS and at most ten times GRACE_NS. The next task may use up what
 *      is left of a share. When the last caller's call has ended, the pool waits no longer for its share.
 *   5. settle() runs after each change. It gives back at once the tokens that no thread here runs on or waits for.
 *   6. The lease: a worker that finishes a task, at most one each millisecond, looks what others want. It gives way if the process has more
 *      than one token and another program has none; or if others wait, after TERM_NS divided by the number of tokens beyond the first. So
 *      who has most gives most often, and all that wait come to have equally many. For SHY_NS the process takes none again.
 *   7. The lease: once the process has waited for GRACE_NS in vain, those with tokens do not look, in long tasks or stopped. Until it
 *      has had a token again, its first thread looks for one, and does not wait.
 *
 * Nothing hangs. By 1 and 4 the only threads that wait for a token are workers of a pool in which another worker runs. The turn is
 * passed on under the lock. Its owner looks again after a second, whatever was lost. A pool's end sets `exits` before it rings; the
 * owner reads `exits` under the lock, and then sleeps on a bell that rings until it is stilled under the lock. Of the lease, a process
 * hears once for all its pools that something has changed: who takes a token because of it rings the bells of those that wait.
 *
 * No byte is lost in the process. A byte that was read is in `bytes` until it is written. A thread stops counting before it ends,
 * and a pool's end joins its threads, so after the last pool's end all bytes are back. At exit a destructor gives them back, and
 * none is taken afterwards; one thread goes on. Signals are blocked under the lock, so a handler that calls exit has not
 * interrupted its owner. A forked child has no bytes: its state begins anew, with the one thread that it may run. A child that the
 * library was not told of (_Fork) leaves its parent's bytes alone. A process that is killed, or calls _exit or exec, loses the
 * bytes that it holds; those of the lease are back at once. A pipe that this process can no longer use, or whose make has ended,
 * sets no limit. */
#include "sched/tokens.h"

#include "sched/find.h"
#include "sched/priority.h"
#include "sched/seat.h"

#include <string.h>

PROCESS_STATE os_word tokens_grace_us;
#define TOKENS_MAX 1024u
#define GRACE_NS UINT64_C(100000000)
#define SHARE 10u                  /* beside callers a pool has a tenth of the time */
#define EMPTY_NS UINT64_C(1000000) /* how long a caller relies on having found no token */
#define LOOK_US UINT64_C(1000)     /* of the lease: how often a running worker looks what others want */
#define TERM_NS UINT64_C(100000000)
#define SHY_NS UINT64_C(2000000)

static PROCESS_STATE struct {
    ATOMIC(uint32_t) is_short; /* a worker must give way; a hint */
    ATOMIC(uint32_t) is_open;  /* there are pools that share */
    ATOMIC(uint32_t) looks;    /* workers look what others want: the lease, with a pass or more than one token; a hint */
    ATOMIC(uint64_t) looked;   /* ticks; when one did last */
    os_mutex lock;             /* of all below, and of the pools' `tokens` */
    uint64_t signals;          /* the mask of the lock's owner before it blocked all signals */
    bool is_lease;             /* the server is the lease, else make */
    os_pipe server;            /* make's pipe */
    struct lease lease;
    weft_pool *pools;
    uint32_t running; /* threads that count */
    uint32_t callers; /* of these, those that are not among a pool's runners */
    uint32_t asking;  /* pools of which a worker waits for a token */
    uint32_t process; /* the one that holds the tokens: a child by _Fork has a copy of all this */
    uint32_t held;
    bool is_gone; /* the pipe, its make, or the lease's file */
    bool is_over; /* the process ends */
    bool in_vain; /* of the lease: it has waited for GRACE_NS, and had no token since */
    uint64_t empty_until_ns;
    uint64_t term_ns, shy_until_ns;  /* of the lease: when it last gave a token to others that wait; 0: not now */
    bool is_shy;                     /* at the last look for a token */
    unsigned char bytes[TOKENS_MAX]; /* make's */
} T;

static void lock(void) {
    uint64_t before = os_signals_block();
    os_lock(&T.lock);
    T.signals = before;
}
static void unlock(void) {
    uint64_t before = T.signals;
    os_unlock(&T.lock);
    os_signals_restore(before);
}

static uint32_t free_threads(void) { return T.is_lease && !T.is_over ? 0 : 1; }
static uint32_t may_run(void) { return T.is_gone ? UINT32_MAX : free_threads() + T.held; }
static bool may_ask(void) { return !T.is_gone && !T.is_over && T.held < TOKENS_MAX; }
static uint64_t grace_ns(void) {
    uint32_t grace_us = load_rlx(&tokens_grace_us);
    return grace_us == 0 ? GRACE_NS : grace_us * UINT64_C(1000);
}

static void give_back(uint32_t keep) {
    if (T.held > keep) T.empty_until_ns = 0;
    while (T.held > keep) {
        T.held--;
        if (T.is_lease)
            lease_give(&T.lease);
        else
            (void)os_jobserver_give(&T.server, T.bytes[T.held]);
    }
}

static void settle_lease(void) {
    if (T.asking == 0) lease_rest(&T.lease, T.running > 0);
    if (T.held <= 1) T.term_ns = 0;
    store_rlx(&T.looks, !T.is_gone && (T.held > 1 || T.lease.has_pass));
}

static void settle(void) {
    uint32_t wanted = T.running + T.asking, most_free = free_threads();
    give_back(wanted > most_free ? wanted - most_free : 0);
    if (T.is_lease) settle_lease();
    store_rlx(&T.is_short, T.running > may_run());
    for (weft_pool *pool = T.pools; pool != NULL; pool = pool->tokens.next) {
        bool has_share = T.callers > 0 && pool->tokens.runners == 0; /* the next task may use up what is left */
        if (T.running <= may_run() && !has_share) pool->tokens.exceeds_ns = 0;
        bool is_alone = pool->tokens.relies && pool->tokens.runners == 0;
        bool may_go_on = pool->tokens.is_beside && T.callers == 0;
        if (pool->tokens.asks && (T.running < may_run() || is_alone || may_go_on)) os_bell_ring(&pool->tokens.bell);
    }
}

/* Of the lease: what this thread heard, those that sleep did not. */
static void ring_waiting(void) {
    for (weft_pool *pool = T.pools; pool != NULL; pool = pool->tokens.next)
        if (pool->tokens.asks) os_bell_ring(&pool->tokens.bell);
}

static bool take_one(void) {
    if (!T.is_lease) return os_jobserver_take(&T.server, &T.bytes[T.held]);
    T.is_shy = T.shy_until_ns != 0 && T.held > 0 && os_now_ns() < T.shy_until_ns;
    bool has_one = !T.is_shy && lease_take(&T.lease, T.asking > 0);
    T.is_gone |= T.lease.file.has_failed;
    return has_one;
}

static void take(void) {
    if (!may_ask()) return;
    if (!take_one()) {
        T.empty_until_ns = os_now_ns() + EMPTY_NS;
        return;
    }
    T.held++;
    T.in_vain = false;
    if (T.is_lease && T.asking > 0) ring_waiting();
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
    lock();
    take_unless_empty(); /* with a token no worker need give way */
    begin();
    unlock();
    return true;
}

void tokens_leave_slow(void) {
    lock();
    leave();
    unlock();
}

/* ---- workers ------------------------------------------------------------------------------------------------------ */

/* Beside callers: a worker of the pool, of which no other runs, may go on without a token. */
static bool share_lasts(const weft_pool *pool) {
    return pool->tokens.exceeds_ns != 0 && os_now_ns() < pool->tokens.exceeds_ns + grace_ns() / SHARE;
}

static bool exceeds(const weft_pool *pool) {
    if (pool->tokens.exceeds_ns == 0 || pool->tokens.runners > 1) return false;
    return T.callers == 0 || share_lasts(pool);
}

static bool has_to_look(const weft_pool *pool) {
    return load_rlx(&T.looks) && os_ticks() - load_rlx(&T.looked) >= LOOK_US * pool->ticks_per_us;
}

/* Rule 6. true: it has given a token to others, and a worker is to give way. */
static bool gives_to_others(void) {
    store_rlx(&T.looked, os_ticks());
    enum lease_wish wish = T.is_gone ? LEASE_NOTHING : lease_look(&T.lease);
    uint64_t now_ns = wish == LEASE_WANTED ? os_now_ns() : 0;
    if (wish == LEASE_WANTED && T.term_ns == 0) T.term_ns = now_ns;
    if (wish == LEASE_NOTHING || (wish == LEASE_WANTED && now_ns - T.term_ns < TERM_NS / (T.held - 1))) return false;
    if (wish == LEASE_WANTED) {
        T.term_ns = now_ns;
        T.shy_until_ns = now_ns + SHY_NS;
    }
    give_back(T.held - 1);
    return true;
}

/* Between two tasks of a worker. false: it does not count, or no more. */
static bool goes_on(const weft_pool *pool) {
    if (!os_self_get()->counts) return false;
    bool looks = has_to_look(pool);
    if (!looks && !load_rlx(&T.is_short)) return true;
    lock();
    bool yields = looks && gives_to_others();
    if (!yields && T.running > may_run()) take_unless_empty();
    bool may = !yields && (T.running <= may_run() || exceeds(pool));
    if (may)
        settle();
    else
        leave();
    unlock();
    return may;
}

static bool begins_at_once(const weft_pool *pool) {
    lock();
    bool may = has_room() || (T.callers > 0 && pool->tokens.runners == 0 && share_lasts(pool));
    if (may) begin();
    unlock();
    return may;
}

/* The worker is about to wait. It leaves nothing unreported, and wakes the waits that can run what it would have run. */
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

/* The time (CLOCK_MONOTONIC) at which the pool may go on without a token. 0: never, because another of its workers runs. *since:
 * since when none does; 0: one does. */
static uint64_t pool_until(const weft_pool *pool, uint64_t *since) {
    if (load_rlx(&tokens_grace_us) == TOKENS_GRACE_NONE || pool->tokens.runners > 0) return *since = 0;
    if (*since == 0) *since = os_now_ns();
    uint64_t until_ns = T.in_vain && T.running == 0 ? *since : *since + grace_ns();
    return T.callers > 0 ? max_u64(until_ns, pool->tokens.again_ns) : until_ns;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns) { return a_ns == 0 || (b_ns != 0 && b_ns < a_ns) ? b_ns : a_ns; }

/* false: the server cannot be used any more. */
static bool server_sleep(weft_pool *pool, uint64_t until_ns) {
    bool asks = may_ask();
    if (!T.is_lease) {
        unlock();
        bool works = os_jobserver_wait(&T.server, &pool->tokens.bell, asks, until_ns);
        lock();
        return works;
    }
    os_lock_file file = T.lease.file; /* its watch may be another's by then, and is compared */
    until_ns = earlier(until_ns, os_lock_file_look_ns(&T.lease.file));
    if (T.is_shy) until_ns = earlier(until_ns, T.shy_until_ns); /* it did not look, so nobody will tell it */
    T.is_shy = false;
    unlock();
    bool works = os_lock_file_wait(&file, &pool->tokens.bell, asks, until_ns);
    lock();
    return works;
}

static void bell_sleep(weft_pool *pool, uint64_t until_ns) {
    os_bell_still(&pool->tokens.bell);
    pool->tokens.asks = true;
    pool->tokens.relies = pool->tokens.runners > 0;
    pool->tokens.is_beside = T.callers > 0;
    if (!server_sleep(pool, until_ns)) T.is_gone = true;
    pool->tokens.asks = false;
}

/* Under the lock, by the owner of the turn. */
static void await_token(weft_pool *pool) {
    uint64_t since = 0;
    T.asking++;
    while (!load_rlx(&pool->exits) && !has_room()) {
        uint64_t until_ns = pool_until(pool, &since);
        uint64_t now_ns = until_ns == 0 ? 0 : os_now_ns();
        if (until_ns != 0 && now_ns >= until_ns) {
            pool->tokens.exceeds_ns = now_ns;
            T.in_vain = T.is_lease;
            break;
        }
        bell_sleep(pool, until_ns);
    }
    T.asking--;
    if (load_rlx(&pool->exits))
        settle();
    else
        begin();
}

/* Both under the lock. The turn is no os_mutex: that one spins where the system has no FUTEX_LOCK_PI, and this one may be long. */
static void turn_take(weft_pool *pool) {
    while (pool->tokens.turn_is_taken) {
        uint32_t seen = load_rlx(&pool->tokens.turn);
        pool->tokens.turn_waiters++;
        unlock();
        os_wait(&pool->tokens.turn, seen, 0);
        lock();
        pool->tokens.turn_waiters--;
    }
    pool->tokens.turn_is_taken = true;
}
static void turn_pass(weft_pool *pool) {
    pool->tokens.turn_is_taken = false;
    if (pool->tokens.turn_waiters == 0) return;
    add_rlx(&pool->tokens.turn, 1);
    os_wake(&pool->tokens.turn, 1);
}

bool tokens_await(struct weft_worker *seat, bool *is_searcher) {
    weft_pool *pool = seat->pool;
    if (goes_on(pool) || begins_at_once(pool)) return true;
    hand_over(seat, *is_searcher);
    lock();
    turn_take(pool);
    await_token(pool);
    turn_pass(pool);
    unlock();
    *is_searcher = park_searcher(&pool->park, seat->index);
    return false;
}

/* ---- pools and processes ------------------------------------------------------------------------------------------ */

/* The first pool opens one: make's, if there is one; else the lease, if that is wished for. The others have what is there. */
static void server_open(weft_pool *pool, const struct tokens_wish *wish) {
    bool has_make = false, has_lease = false;
    T.is_gone = T.in_vain = false;
    if (wish->make) pool->tokens.error = os_jobserver_open(wish->makeflags, &T.server);
    has_make = wish->make && pool->tokens.error == 0;
    if (wish->lease && !has_make) pool->tokens.lease_error = lease_open(&T.lease, wish->path, os_cpu_count_lately());
    has_lease = wish->lease && !has_make && pool->tokens.lease_error == 0;
    T.is_lease = has_lease;
    pool->has_tokens = has_make || has_lease;
}

static void server_close(void) {
    if (T.is_lease)
        lease_close(&T.lease);
    else
        os_pipe_close(&T.server);
}

static void server_join(weft_pool *pool, const struct tokens_wish *wish) {
    int error = T.process == os_process_id() ? 0 : EBADF; /* a child that no fork handler saw: the tokens are its parent's */
    pool->has_tokens = error == 0 && (T.is_lease ? wish->lease : wish->make);
    if (wish->make && (error != 0 || T.is_lease)) pool->tokens.error = error != 0 ? error : EBUSY;
    if (wish->lease && (error != 0 || !pool->has_tokens)) pool->tokens.lease_error = error != 0 ? error : EBUSY;
}

void tokens_begin(weft_pool *pool, const struct tokens_wish *wish) {
    lock();
    if (T.pools == NULL)
        server_open(pool, wish);
    else
        server_join(pool, wish);
    int error = pool->has_tokens ? os_bell_open(&pool->tokens.bell) : 0;
    if (error != 0) {
        *(T.is_lease ? &pool->tokens.lease_error : &pool->tokens.error) = error;
        if (T.pools == NULL) server_close();
        pool->has_tokens = false;
    }
    if (pool->has_tokens) {
        pool->tokens.next = T.pools;
        T.pools = pool;
        T.process = os_process_id();
        store_rlx(&T.is_open, 1);
    }
    unlock();
}

void tokens_end(weft_pool *pool) {
    if (!pool->has_tokens || pool->fork_count != os_fork_count()) return;
    lock();
    weft_pool **link = &T.pools;
    while (*link != pool) link = &(*link)->tokens.next;
    *link = pool->tokens.next;
    os_pipe_close(&pool->tokens.bell);
    if (T.pools == NULL) {
        give_back(0);
        server_close();
        store_rlx(&T.is_open, 0);
        store_rlx(&T.looks, 0);
    }
    unlock();
}

void tokens_ring(const weft_pool *pool) {
    lock();
    os_bell_ring(&pool->tokens.bell);
    unlock();
}

void tokens_forked(void) {
    if (load_rlx(&T.is_open) && !T.is_lease) os_pipe_close(&T.server);
    lease_forked(&T.lease); /* also one that was being opened: its owner, another thread, is not in the child */
    for (weft_pool *pool = T.pools; pool != NULL; pool = pool->tokens.next) os_pipe_close(&pool->tokens.bell);
    memset(&T, 0, sizeof T);
    T.server.fd = -1;
    T.is_gone = true; /* until the child makes a pool */
    os_self_get()->counts = false;
}

#if !defined(WEFT_EXPLORE)
__attribute__((destructor)) static void process_ends(void)
#else
void explore_process_ends(void)
#endif
{
    if (!load_rlx(&T.is_open) || T.process != os_process_id()) return;
    uint64_t signals = os_signals_block();
    uint64_t until_ns = os_now_ns() + GRACE_NS;
    bool has_lock = os_try_lock(&T.lock);
    while (!has_lock && os_now_ns() < until_ns) { /* no end may hang, whatever has become of the owner */
        os_yield();
        has_lock = os_try_lock(&T.lock);
    }
    if (has_lock) {
        T.is_over = true;
        give_back(0);
        if (T.is_lease) settle();
        os_unlock(&T.lock);
    }
    os_signals_restore(signals);
}
