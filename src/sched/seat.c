/* seat.c: the seats of a pool's threads, and spares.
 *
 * A thread remembers its seats in a list of its own (os_self.seatings). It recognises a seat whose pool has ended by the
 * pool's id, which is never reused, and then does not touch the pool. A thread that ends gives its seats back; for that it
 * must know which pools still live. The registry, under one lock, serves only this.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   P1  seat_make: store seat          release  D5   a seat is looked at before it is made
 *   P13 pool_stand_in: CAS peak        relaxed  -    split: a peak is forgotten
 *   P14 send_spares: fence             sc       P15, U4, T17, T7, U1 a section opens while the last worker falls asleep in a
 *                                                        join: no spare comes; or a wait in a section sleeps on
 *   P15 hold_up: fence                 sc       P14, T17, T7 as P14; or a wait in a section sleeps on, though it should help
 *   T15 rest_offer: fence                sc       K3  no worker is woken for the offered tasks
 */
#include "sched/seat.h"

#include "sched/fit.h"

#include "sched/hooks.h"
#include "sched/priority.h"
#include "sched/tokens.h"

struct seating {
    struct seating *next;
    uint64_t pool_id;
    weft_pool *pool;
    struct weft_worker *seat;
    bool blocks;              /* the thread sleeps in another pool, in a section of this one (pool_wait) */
    uint32_t count, sweep_at; /* in the list's first item: the number of items; the number at which to sweep */
};
#define SEATINGS_MIN 8u

static PROCESS_STATE struct {
    os_mutex lock;
    weft_pool *pools;
    uint64_t last_id;
} registry;

void registry_forked(void) {
    registry.lock = (os_mutex){0};
    registry.pools = NULL;
}

void registry_add(weft_pool *pool) {
    os_lock(&registry.lock);
    pool->id = ++registry.last_id;
    pool->registry_next = registry.pools;
    registry.pools = pool;
    os_unlock(&registry.lock);
}

void registry_remove(weft_pool *pool) {
    os_lock(&registry.lock);
    for (weft_pool **link = &registry.pools; *link != NULL; link = &(*link)->registry_next) {
        if (*link != pool) continue;
        *link = pool->registry_next;
        break;
    }
    os_unlock(&registry.lock);
}

static bool registry_has(const weft_pool *pool, uint64_t id) {
    for (const weft_pool *each = registry.pools; each != NULL; each = each->registry_next)
        if (each == pool && each->id == id) return true;
    return false;
}

/* ---- seats -------------------------------------------------------------------------------------------------------- */

/* A group record's counters start with those of workers, followed by some for other seats. Those in blocks have the same order. */
static uint32_t counter_number(weft_pool *pool, uint32_t index) {
    uint32_t outside_near = pool->groups.counters - 1 - pool->workers_near;
    if (index < pool->workers_max) return index < pool->workers_near ? index : index + outside_near;
    uint32_t nth = pool->outside_given++;
    return nth < outside_near ? pool->workers_near + nth : pool->workers_max + nth;
}

struct weft_worker *seat_make(weft_pool *pool, uint32_t index) {
    struct weft_worker *seat = store_get(&pool->store, sizeof *seat);
    if (seat == NULL) return NULL;
    plain_write(&seat->pool, sizeof seat->pool);
    seat->pool = pool;
    seat->index = index;
    seat->counter = counter_number(pool, index);
    seat->lane = &pool->blank;
    seat->searcher_ticks = load_rlx(&pool->spin_ticks);
    store_rel(P1, &pool->seats[index], seat);
    if (index >= load_rlx(&pool->seat_count)) store_rlx(&pool->seat_count, index + 1);
    if (index >= load_rlx(&pool->seats_used)) store_rlx(&pool->seats_used, index + 1);
    return seat;
}

static uint32_t seats_outside(const weft_pool *pool) { return pool->workers_max + pool->spare_seats; }

/* May threads that look for work, for sleepers or for biased seats pass over this seat? */
static bool seat_is_idle(const struct weft_worker *seat) {
    if (load_rlx(&seat->taken_by) || load_rlx(&seat->biased)) return false;
    const struct lane *lane = load_rlx(&seat->lanes);
    while (lane != NULL && lane_is_empty(lane)) lane = load_rlx(&lane->next);
    return lane == NULL;
}

/* Excludes the last seats from walks while they are idle. A thread that takes one again raises seats_used before its first task
 * and fences after that, as with a seat just made. Under the lock. */
static void seats_trim(weft_pool *pool) {
    uint32_t used = load_rlx(&pool->seats_used);
    while (used > seats_outside(pool) && seat_is_idle(load_rlx(&pool->seats[used - 1]))) used--;
    store_rlx(&pool->seats_used, used);
}

/* A seat for an outside thread: one that another thread has left, or a new one. */
static struct weft_worker *seat_take(weft_pool *pool, int *error) {
    os_lock(&pool->lock);
    struct weft_worker *seat = NULL;
    uint32_t index = (uint32_t)max_u64(pool->seats_taken, seats_outside(pool));
    for (; index < SEATS_MAX; index++) {
        seat = load_rlx(&pool->seats[index]);
        if (seat == NULL || !load_rlx(&seat->taken_by)) break;
    }
    bool is_full = index >= SEATS_MAX;
    if (is_full) seat = NULL;
    if (seat == NULL && !is_full) seat = seat_make(pool, index);
    if (seat != NULL) {
        store_rlx(&seat->taken_by, 1);
        store_rlx(&seat->thread_id, os_thread_id());
        pool->seats_taken = index + 1;
        if (index >= load_rlx(&pool->seats_used)) store_rlx(&pool->seats_used, index + 1);
    }
    os_unlock(&pool->lock);
    *error = is_full ? WEFT_EAGAIN : WEFT_ENOMEM;
    return seat;
}

static void seat_leave(weft_pool *pool, struct weft_worker *seat) {
    if (load_rlx(&seat->biased)) worker_unbias(pool); /* a biased seat cannot be passed over */
    os_lock(&pool->lock);
    seat->lane = &pool->blank;
    lanes_hide(seat);
    store_rlx(&seat->taken_by, 0);
    pool->seats_taken = (uint32_t)min_u64(pool->seats_taken, seat->index);
    seats_trim(pool);
    os_unlock(&pool->lock);
}

/* Leaves all of the thread's seats. Returns whether the thread is still in a task, a call or a loop's body. */
static bool seats_leave(const os_self *self) {
    bool is_inside = false;
    os_lock(&registry.lock);
    for (struct seating *seating = self->seatings; seating != NULL; seating = seating->next) {
        if (!registry_has(seating->pool, seating->pool_id)) continue;
        is_inside |= seating->seat->frame != NULL;
        seat_leave(seating->pool, seating->seat);
    }
    os_unlock(&registry.lock);
    return is_inside;
}

static void self_exit(os_self *self) {
    bool is_inside = self->is_worker || (self->seatings != NULL && seats_leave(self));
    if (is_inside) /* that task or call would never end */
        os_die("a thread has ended (pthread_exit, pthread_cancel?) inside a task, or before weft_fork_leave");
    while (self->seatings != NULL) {
        struct seating *seating = self->seatings;
        self->seatings = seating->next;
        os_free(seating);
    }
    self->pool_id = 0;
    self->worker = NULL;
}

void seat_watch(void) { (void)os_self_watch(OS_EXIT_POOL, self_exit); /* no memory: the thread's end goes unnoticed */ }

/* Forgets the seatings whose pools have ended. */
static void seatings_sweep(os_self *self) {
    uint32_t count = 0;
    os_lock(&registry.lock);
    struct seating **link = (struct seating **)&self->seatings;
    while (*link != NULL) {
        struct seating *seating = *link;
        if (registry_has(seating->pool, seating->pool_id)) {
            link = &seating->next;
            count++;
        } else {
            *link = seating->next;
            os_free(seating);
        }
    }
    os_unlock(&registry.lock);
    struct seating *first = self->seatings;
    if (first == NULL) return;
    first->count = count;
    first->sweep_at = 2 * count + SEATINGS_MIN;
}

void seat_forget(os_self *self, const weft_pool *pool) {
    for (struct seating **link = (struct seating **)&self->seatings; *link != NULL; link = &(*link)->next) {
        struct seating *seating = *link;
        if (seating->pool_id != pool->id) continue;
        *link = seating->next;
        os_free(seating);
        return;
    }
}

static struct weft_worker *seat_enter(weft_pool *pool, os_self *self, int *error) {
    *error = WEFT_ENOMEM;
    const struct seating *first = self->seatings;
    if (first != NULL && first->count >= first->sweep_at) seatings_sweep(self);
    struct seating *seating = os_alloc(sizeof *seating);
    if (seating == NULL || os_self_watch(OS_EXIT_POOL, self_exit) != 0) {
        os_free(seating);
        return NULL;
    }
    struct weft_worker *seat = seat_take(pool, error);
    if (seat == NULL) {
        os_free(seating);
        return NULL;
    }
    first = self->seatings;
    *seating = (struct seating){self->seatings,
                                pool->id,
                                pool,
                                seat,
                                false,
                                first == NULL ? 1 : first->count + 1,
                                first == NULL ? SEATINGS_MIN : first->sweep_at};
    self->seatings = seating;
    void *left = seat->data; /* of the thread that had the seat before */
    seat->data = NULL;
    if (left != NULL && pool->config.data_free != NULL) pool->config.data_free(left);
    return seat;
}

struct weft_worker *seat_of(const os_self *self, const weft_pool *pool) {
    if (self->pool_id == pool->id) return self->worker;
    for (const struct seating *seating = self->seatings; seating != NULL; seating = seating->next)
        if (seating->pool_id == pool->id) return seating->seat;
    return NULL;
}

struct weft_worker *seat_find(weft_pool *pool, int *error) {
    os_self *self = os_self_get();
    if (LIKELY(self->pool_id == pool->id)) return self->worker;
    if (pool->fork_count != os_fork_count()) {
        *error = WEFT_EFORK;
        return NULL;
    }
    struct weft_worker *seat = seat_of(self, pool);
    if (seat == NULL) seat = seat_enter(pool, self, error);
    if (seat == NULL) return NULL;
    if (self->is_worker) return seat;
    self->pool_id = pool->id;
    self->worker = seat;
    return seat;
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

int seat_start_thread(weft_pool *pool, struct weft_worker *seat) {
    char name[16];
    os_cpuset others;
    const os_cpuset *cpus = pool->config.cpus != NULL ? &pool->cpus : fit_cpus(pool, &others) ? &others : NULL;
    os_thread_options options = {.stack_size = pool->config.stack_size, .name = name, .cpus = cpus};
    struct text text = {.to = name, .size = sizeof name, .fd = TEXT_TO_MEMORY};
    text_put(&text, pool->name);
    text_put_number(&text, seat->index);
    text_end(&text);
    return os_thread_start(&seat->thread, &options, worker_main, seat);
}

/* How many of the threads are beyond all workers but one. */
static uint32_t excess(uint32_t threads, uint32_t workers) { return threads < workers ? 0 : threads - workers + 1; }

/* Workers and spares in sections. */
static uint32_t blocked_inside(const weft_pool *pool) {
    uint64_t blocked = load_rlx(&pool->blocked);
    return (uint32_t)blocked - (uint32_t)(blocked >> 32);
}

uint32_t pool_spares_wanted(const weft_pool *pool) {
    uint32_t workers = load_rlx(&pool->workers);
    uint32_t inside = blocked_inside(pool) + excess(load_rlx(&pool->background_busy), workers);
    if (inside == 0 && load_rlx(&pool->blocked) == 0) return 0;
    return inside + excess(load_rlx(&pool->held_up), workers);
}

/* Counts workers that are to rest but still run, and resting workers that are to run again. Background tasks that take the last
 * worker leave no runner; one that sleeps in a wait is held up, and has given its slot back, so it is not counted twice. */
bool pool_has_runner(const weft_pool *pool) {
    uint64_t workers = max_u64(load_rlx(&pool->workers), load_rlx(&pool->awake));
    uint64_t behind = min_u64(load_rlx(&pool->background_busy), load_rlx(&pool->background_runs));
    uint32_t held_up = load_rlx(&pool->held_up) + excess((uint32_t)behind, load_rlx(&pool->workers));
    return blocked_inside(pool) + held_up < workers + load_rlx(&pool->spares_made);
}

uint32_t pool_spares_most(const weft_pool *pool) {
    return (uint32_t)max_u64(pool->config.spares, pool->spares_follow ? load_rlx(&pool->workers) : 0);
}

bool pool_spare_may_come(const weft_pool *pool) {
    return pool_spares_wanted(pool) < max_u64(pool_spares_most(pool), load_rlx(&pool->spares_made));
}

/* Starts the spares that are wanted and allowed; none once the destroyer has counted them. Returns how many there are. */
static uint32_t pool_add_spares(weft_pool *pool) {
    os_lock(&pool->lock);
    uint32_t made = load_rlx(&pool->spares_made);
    for (; made < pool_spares_wanted(pool) && made < pool_spares_most(pool) && !load_rlx(&pool->exits); made++) {
        uint32_t index = pool->workers_max + made;
        struct weft_worker *seat = load_rlx(&pool->seats[index]);
        if (seat == NULL) seat = seat_make(pool, index);
        if (seat == NULL) break;
        seat->is_worker = true;
        if (seat_start_thread(pool, seat) != 0) break;
        store_rlx(&pool->spares_made, made + 1);
    }
    os_unlock(&pool->lock);
    return made;
}

/* Looks once: a thread that makes one more spare necessary later calls this, too, after its own P14 or P15. */
bool pool_call_spares(weft_pool *pool) {
    uint32_t wanted = pool_spares_wanted(pool);
    uint32_t made = load_rlx(&pool->spares_made);
    if (made < wanted) made = pool_add_spares(pool);
    for (uint32_t i = 0; i < made && i < wanted; i++)
        event_raise(&pool->park.slots[pool->workers_max + i].event); /* after P14 or P15 */
    return wanted <= made;
}

static bool send_spares(weft_pool *pool) {
    fence_rmw_sc(P14);
    if (pool_call_spares(pool)) return true;
    worker_wake_stranded(pool); /* the caller may have been the last thread that ran tasks */
    return false;
}

/* One change for both halves of `blocked`: if a guest's section were the worker's for a moment, or the worker's the guest's, a spare
 * might rest that is wanted, and nobody would call it again. */
static uint64_t section_of(const struct weft_worker *seat) { return seat->is_worker ? 1 : BLOCKED_OUTSIDE; }

bool pool_stand_in(const struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    uint32_t blocked = (uint32_t)add_rlx(&pool->blocked, section_of(seat)) + 1;
    uint32_t peak = load_rlx(&pool->blocked_peak);
    while (blocked > peak)
        if (cas_rlx(P13, &pool->blocked_peak, &peak, blocked)) break;
    return send_spares(pool);
}

void pool_stand_down(const struct weft_worker *seat) { add_rlx(&seat->pool->blocked, -section_of(seat)); }

void pool_stand_aside(weft_pool *pool) {
    add_rlx(&pool->background_busy, 1);
    (void)send_spares(pool);
}

/* ---- blocking ----------------------------------------------------------------------------------------------------- */

bool rest_offer(struct weft_worker *seat) {
    if (!claim_offer(&seat->claim)) return false;
    add_rlx(&seat->pool->offers, 1);
    fence_rmw_sc(T15);
    worker_notify_offer(seat);
    return true;
}
void rest_keep(struct weft_worker *seat) {
    claim_unoffer(&seat->claim);
    add_rlx(&seat->pool->offers, UINT32_MAX);
}

int weft_block_begin(weft_worker *self) {
    if (self == NULL || self->frame == NULL) return WEFT_EINVAL;
    weft_pool *pool = self->pool;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    self->frame->sections++;
    self->counted = self->counted << 1 | (uint64_t)tokens_leave(); /* the thread may count for another pool */
    if (++self->blocking > 1) return self->has_spare ? WEFT_OK : WEFT_EAGAIN;
    self->offers = rest_offer(self);
    if (load_rlx(&self->in_background)) priority_pause(self);
    self->has_spare = pool_stand_in(self);
    return self->has_spare ? WEFT_OK : WEFT_EAGAIN;
}

int weft_block_end(weft_worker *self) {
    if (self == NULL || self->frame == NULL || self->frame->sections == 0) return WEFT_EINVAL;
    if (self->pool->fork_count != os_fork_count()) return WEFT_EFORK;
    self->frame->sections--;
    if (--self->blocking == 0) {
        pool_stand_down(self);
        if (load_rlx(&self->in_background)) priority_resume(self->pool);
        if (self->offers) rest_keep(self);
        self->offers = false;
    }
    tokens_return((self->counted & 1) != 0);
    self->counted >>= 1;
    return WEFT_OK;
}

/* Is the calling thread in a task of the seating's pool? Safe if that pool has ended; a pool with such a task has not. */
static bool seating_is_inside(const struct seating *seating) {
    os_lock(&registry.lock);
    bool is_inside = registry_has(seating->pool, seating->pool_id) && seating->seat->frame != NULL;
    os_unlock(&registry.lock);
    return is_inside;
}

/* The calling thread is about to sleep on an event of `pool`: opens a blocking section in each other pool where it is a guest inside a
 * task. guests_unblock ends them. */
static void guests_block(const os_self *self, const weft_pool *pool) {
    for (struct seating *seating = self->seatings; seating != NULL; seating = seating->next) {
        if (seating->pool_id == pool->id) continue;
        seating->blocks = seating_is_inside(seating) && weft_block_begin(seating->seat) != WEFT_EINVAL;
    }
}
static void guests_unblock(const os_self *self) {
    for (struct seating *seating = self->seatings; seating != NULL; seating = seating->next) {
        if (seating->blocks) weft_block_end(seating->seat);
        seating->blocks = false;
    }
}

bool pool_is_visited(const weft_pool *pool) {
    const os_self *self = os_self_get();
    if (self->is_worker && self->pool_id != pool->id) return true;
    for (const struct seating *seating = self->seatings; seating != NULL; seating = seating->next)
        if (seating->pool_id != pool->id && seating_is_inside(seating)) return true;
    return false;
}

void pool_wait(const weft_pool *pool, os_word *word, uint32_t value, uint64_t deadline_ns) {
    const os_self *self = os_self_get();
    struct weft_worker *own = self->is_worker ? self->worker : NULL;
    bool blocks = own != NULL && own->pool != pool && weft_block_begin(own) != WEFT_EINVAL;
    guests_block(self, pool);
    bool counted = tokens_leave();
    os_wait(word, value, deadline_ns);
    tokens_return(counted);
    guests_unblock(self);
    if (blocks) weft_block_end(own);
}

static void hold_up(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if (!seat->is_worker) add_rlx(&pool->guests_asleep, 1);
    if (!seat->is_worker || seat->blocking > 0) return;
    uint32_t held_up = add_rlx(&pool->held_up, 1) + 1;
    if (load_rlx(&seat->in_background)) priority_give(seat);
    fence_rmw_sc(P15);
    if (pool_spares_wanted(pool) == 0 || (held_up < load_rlx(&pool->workers) && pool_has_runner(pool))) return;
    if (pool_call_spares(pool)) return;
    worker_wake_stranded(pool);
}

static void let_go(const struct weft_worker *seat) {
    if (!seat->is_worker) add_rlx(&seat->pool->guests_asleep, UINT32_MAX);
    if (!seat->is_worker || seat->blocking > 0) return;
    add_rlx(&seat->pool->held_up, UINT32_MAX);
    if (load_rlx(&seat->in_background)) priority_take_back(seat->pool);
}

void pool_sleep(struct weft_worker *seat, uint32_t event, uint64_t deadline_ns) {
    uint64_t start = trace_begin(seat);
    count_up(&seat->parks, 1);
    hold_up(seat);
    pool_wait(seat->pool, &seat->wait_event, event, deadline_ns);
    let_go(seat);
    trace_end(seat, TRACE_WAIT, start, 0);
}
