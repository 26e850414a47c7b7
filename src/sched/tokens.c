/* tokens.c: a number of threads that several programs share.
 *
 * `make -j N` keeps N - 1 bytes in a pipe, the tokens. Each program that it starts may run one thread; whoever runs one more takes a
 * byte out first and puts it back later. All pools of a process that have WEFT_POOL_JOBSERVER share what the process has. A pipe
 * that this process can no longer use sets no limit.
 *
 * Who counts: a worker or spare from before it looks for work until it parks, rests or blocks, and a thread from outside while it
 * runs something in a call (a wait that helps, a loop, a region of forks, weft_run). Whoever sleeps inside one does not count.
 * os_self.token says whether a thread counts, and where. So of the process
 *
 *   running <= 1 + held, except for those below that go on all the same
 *
 * Everything is under one lock, but for is_short, a hint. settle() follows each change: it gives back the bytes that nobody here
 * waits for, wakes the first who waits if there is room, and sets is_short if more run, or wait for their turn inside a call, than
 * may. A byte that was read is in `bytes` until it is written. Who counts stops before its thread ends, and a pool's end joins its
 * threads, so when the last pool has ended all are back. At exit a destructor gives them back, and none is read afterwards. A forked
 * child has none: its state begins anew, with the one thread that it may run.
 *
 * Waiting for a turn.
 *   - A worker with no task in hand waits as long as it takes. It has told what it has run, and is busy to park.c: it looks for work
 *     when it comes to run, as a searcher. Before it waits it looks once more, and wakes those that sleep in waits if there is
 *     work, for they may run it: a submission may have relied on this one, and it cannot be relied on. Of all such workers one,
 *     `asker`, polls the pipe; the others sleep on an event of their own. The pool's end rings them, and they leave.
 *   - A thread inside a call or a task may hold the program's locks, and what it waits for may wait for it. It is the next to
 *     run, and a worker sees that (is_short) before its next task and waits instead. If none does for GRACE_NS, it goes on
 *     all the same, and so do others until a worker has given way (`stuck`).
 *   - A pool may have tasks that never end, and a thread from outside may wait for tasks in a region of forks or in weft_run. So a worker goes
 *     on, too, if nobody has run anything of its pool for ten times that: each pool runs one thread, as on a machine with one
 *     CPU. While no other worker has given way since, it does not either.
 * So nothing waits for make, but for more than one worker in a pool; and running comes back to 1 + held with the next tasks' ends.
 *
 * No lost wake-up: whoever may not run waits with the lock's changes seen, and sleeps on the event that it read under the lock. A kick
 * of the pipe's poller stays until it is read. */
#include "sched/tokens.h"

#include "sched/find.h"
#include "sched/lanes.h"
#include "sched/priority.h"

#include <string.h>

PROCESS_STATE uint64_t tokens_grace_ns;
#define TOKENS_MAX 1024u
#define GRACE_NS UINT64_C(100000000)
#define POOLS_GRACES 10u

struct waiter {
    struct waiter *next;
    const weft_pool *pool; /* whose worker has no task in hand; NULL: it is inside a call or a task */
    uint32_t *among;       /* where it will count */
    os_word *event;
    uint64_t until_ns; /* it goes on then; 0: that is not decided */
};

static PROCESS_STATE struct {
    ATOMIC(uint32_t) is_short; /* a worker is to give way; a hint */
    os_mutex lock;             /* of all below, and of the pools' `runners` */
    os_jobserver server;
    ATOMIC(uint32_t) pools; /* that share */
    uint32_t running;       /* threads that count */
    uint32_t workers;       /* of these, those that are workers of some pool: they come to a next task */
    uint32_t regions;       /* of these, those in what no worker could run: regions of forks and weft_run */
    uint32_t held;
    uint32_t waiting;           /* for their turn */
    uint32_t callers;           /* of these, those inside a call or a task; they come first in the list */
    struct waiter *first;       /* of those that wait */
    const struct waiter *asker; /* that one polls the pipe */
    const uint32_t *stuck;      /* where the last counts that went on all the same; NULL: a worker has given way since */
    bool is_broken;             /* the pipe is gone */
    bool is_over;               /* the process ends */
    unsigned char bytes[TOKENS_MAX];
} T;

static uint32_t may_run(void) { return T.is_broken ? UINT32_MAX : 1 + T.held; }
static bool may_ask(void) { return !T.is_broken && !T.is_over && T.held < TOKENS_MAX; }

static void ring(const struct waiter *waiter) {
    if (T.asker == waiter)
        os_jobserver_kick(&T.server);
    else
        event_raise(waiter->event);
}

static void give_back(uint32_t keep) {
    while (T.held > keep) (void)os_jobserver_give(&T.server, T.bytes[--T.held]);
}

static void settle(void) {
    uint32_t wanted = T.running + T.waiting;
    give_back(wanted > 1 ? wanted - 1 : 0);
    if (T.running < may_run() && T.first != NULL) ring(T.first);
    store_rlx(&T.is_short, T.running + T.callers > may_run());
}

static void ask(void) {
    unsigned char byte;
    if (may_ask() && os_jobserver_take(&T.server, &byte)) T.bytes[T.held++] = byte;
}

static bool has_room(const struct waiter *waiter) {
    uint32_t before = waiter->pool == NULL ? 0 : T.callers;
    if (T.running + before >= may_run()) ask();
    return T.running + before < may_run();
}

static void begin(uint32_t *among) {
    os_self *self = os_self_get();
    T.running++;
    T.workers += self->is_worker;
    ++*among;
    self->token = among;
    settle();
}

/* ---- waiting for a turn ------------------------------------------------------------------------------------------- */

/* Behind others of its kind. */
static void join(struct waiter *waiter) {
    struct waiter **link = &T.first;
    while (*link != NULL && (waiter->pool != NULL || (*link)->pool == NULL)) link = &(*link)->next;
    waiter->next = *link;
    *link = waiter;
    T.waiting++;
    if (waiter->pool == NULL) T.callers++;
}

static void part(const struct waiter *waiter) {
    struct waiter **link = &T.first;
    while (*link != waiter) link = &(*link)->next;
    *link = waiter->next;
    T.waiting--;
    if (waiter->pool == NULL) T.callers--;
    if (T.asker != waiter) return;
    T.asker = NULL;
    const struct waiter *next = T.first;
    while (next != NULL && next->pool == NULL) next = next->next;
    if (next != NULL) event_raise(next->event); /* it asks from now on */
}

static bool is_patient(struct waiter *waiter) {
    if (waiter->pool != NULL && *waiter->among > 0) {
        waiter->until_ns = 0;
        return true;
    }
    if (waiter->pool == NULL && (T.stuck != NULL || T.workers == 0)) return false; /* who should give way? */
    if (tokens_grace_ns == TOKENS_GRACE_NONE) return true;
    uint64_t now = os_now_ns();
    uint64_t grace_ns = tokens_grace_ns == 0 ? GRACE_NS : tokens_grace_ns;
    if (waiter->until_ns == 0) waiter->until_ns = now + (waiter->pool == NULL ? grace_ns : POOLS_GRACES * grace_ns);
    return now < waiter->until_ns;
}

static void turn_sleep(struct waiter *waiter) {
    bool asks = waiter->pool != NULL && may_ask() && (T.asker == NULL || T.asker == waiter);
    if (asks)
        T.asker = waiter;
    else if (T.asker == waiter)
        T.asker = NULL;
    uint32_t seen = load_rlx(waiter->event);
    bool works = true;
    os_unlock(&T.lock);
    if (asks)
        works = os_jobserver_wait(&T.server, waiter->until_ns);
    else
        os_wait(waiter->event, seen, waiter->until_ns);
    os_lock(&T.lock);
    if (!works) T.is_broken = true;
}

/* false: its pool ends. */
static bool turn_await(struct waiter *waiter) {
    bool has_turn = has_room(waiter);
    if (has_turn) return true;
    join(waiter);
    for (;;) {
        has_turn = has_room(waiter);
        if (has_turn || (waiter->pool != NULL && load_rlx(&waiter->pool->exits))) break;
        if (!is_patient(waiter)) {
            has_turn = true;
            T.stuck = waiter->among;
            break;
        }
        settle();
        turn_sleep(waiter);
    }
    part(waiter);
    return has_turn;
}

static void take_turn(const weft_pool *pool, uint32_t *among) {
    struct waiter waiter = {.pool = pool, .among = among, .event = &os_self_get()->token_event};
    os_lock(&T.lock);
    if (turn_await(&waiter))
        begin(among);
    else
        settle();
    os_unlock(&T.lock);
}

/* ---- a thread inside a call or a task ----------------------------------------------------------------------------- */

bool tokens_enter_slow(uint32_t *among) {
    if (os_self_get()->token != NULL) return false;
    take_turn(NULL, among);
    return true;
}

bool tokens_enter_region(void) { return tokens_enter_slow(&T.regions); }

void tokens_leave_slow(void) {
    os_self *self = os_self_get();
    os_lock(&T.lock);
    uint32_t *among = self->token;
    self->token = NULL;
    T.running--;
    T.workers -= self->is_worker;
    --*among;
    if (self->is_worker) T.stuck = NULL;
    for (const struct waiter *each = T.first; each != NULL && *among == 0; each = each->next)
        if (each->among == among) ring(each); /* nobody runs anything of its pool */
    settle();
    os_unlock(&T.lock);
}

/* ---- workers ------------------------------------------------------------------------------------------------------ */

/* Between two tasks. false: it does not count. */
static bool goes_on(void) {
    const uint32_t *among = os_self_get()->token;
    if (among == NULL || !load_rlx(&T.is_short)) return among != NULL;
    os_lock(&T.lock);
    if (T.running + T.callers > may_run()) ask();
    settle();
    bool may = T.running + T.callers <= may_run() || (T.stuck == among && *among == 1);
    os_unlock(&T.lock);
    if (!may) tokens_leave_slow();
    return may;
}

static bool begins_at_once(struct weft_worker *seat) {
    const struct waiter waiter = {.pool = seat->pool};
    os_lock(&T.lock);
    bool may = has_room(&waiter);
    if (may) begin(&seat->pool->runners);
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

bool tokens_await(struct weft_worker *seat, bool is_searcher) {
    if (goes_on() || begins_at_once(seat)) return true;
    hand_over(seat, is_searcher);
    take_turn(seat->pool, &seat->pool->runners);
    return false;
}

/* ---- pools and processes ------------------------------------------------------------------------------------------ */

void tokens_begin(weft_pool *pool, const char *makeflags) {
    if ((pool->config.flags & WEFT_POOL_JOBSERVER) == 0) return;
    os_lock(&T.lock);
    if (load_rlx(&T.pools) == 0) {
        T.is_broken = false;
        pool->tokens_error = os_jobserver_open(makeflags, &T.server);
    }
    pool->has_tokens = pool->tokens_error == 0;
    if (pool->has_tokens) add_rlx(&T.pools, 1);
    os_unlock(&T.lock);
}

void tokens_end(const weft_pool *pool) {
    if (!pool->has_tokens || pool->fork_count != os_fork_count()) return;
    os_lock(&T.lock);
    if (add_rlx(&T.pools, UINT32_MAX) == 1) {
        give_back(0);
        os_jobserver_close(&T.server);
    }
    os_unlock(&T.lock);
}

void tokens_ring(const weft_pool *pool) {
    os_lock(&T.lock);
    for (const struct waiter *each = T.first; each != NULL; each = each->next)
        if (each->pool == pool) ring(each);
    os_unlock(&T.lock);
}

void tokens_forked(void) {
    if (load_rlx(&T.pools) > 0) os_jobserver_close(&T.server);
    memset(&T, 0, sizeof T);
}

#if !defined(WEFT_EXPLORE)
__attribute__((destructor)) static void process_ends(void)
#else
void explore_process_ends(void)
#endif
{
    if (load_rlx(&T.pools) == 0) return;
    os_lock(&T.lock);
    T.is_over = true;
    give_back(0);
    os_unlock(&T.lock);
}
