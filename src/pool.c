/* pool.c: making and ending pools, and the seats of threads from outside.
 *
 * A thread remembers its seats in a list of its own (os_self.seatings); one whose pool has ended is recognised by the
 * pool's id, which is never used again, and its pool is then not touched. A thread that ends gives its seats back, for
 * which it must know that the pools still live: the registry, under one lock, is for that and for nothing else.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   P1  seat_make: store seat          release  D5   a seat is looked at before it is made
 *   P2  pool_drain: load drained       acquire  G4   destroy sleeps on a new event
 *   P3  pool_await_start: load started acquire  D11  create returns before it sees what a start hook wrote
 *   P4  pool_drain: heavy fence        heavy    T2   a submission from outside that saw the pool open is not counted
 *   P6  pool_stop: fence               sc       K3   a worker parks and does not see that it should end; T28: as P11
 *   P8  pool_end: store aborted        release  D17  a payload goes to the wrong clean, or to the right one with a wrong context
 *   P10 pool_await_leavers: load guests  acquire  T26, R3 what a guest's loop has submitted is not run
 *   P13 pool_stand_in: CAS peak        relaxed  -    split: a peak is forgotten
 *   P14 pool_stand_in: fence           sc       P15, D10 a section opens while the last worker falls asleep in a join: no spare comes
 *   P15 hold_up: fence                 sc       P14, T17 as P14; or a wait in a section sleeps on, though it had better help
 *   P11 pool_await_leavers: looks      -        T28  the pool's memory goes under a submitter
 */
#include "pool.h"

#include <string.h>

#include "find.h"
#include "idle.h"
#include "lanes.h"
#include "observe.h"
#include "real.h"

struct seating {
    struct seating *next;
    uint64_t pool_id;
    weft_pool *pool;
    struct weft_worker *seat;
    uint32_t count, sweep_at; /* in the list's first: how many there are; at how many they are looked through */
};
#define SEATINGS_MIN 8u

static PROCESS_STATE struct {
    os_mutex lock;
    weft_pool *pools;
    os_mutex own_lock;
    weft_pool *own; /* the process's own pool, while it has references */
    uint64_t last_id;
} registry;

/* After a fork the locks may be held by threads that do not exist here, and the pools are the parent's. */
static void registry_forked(void) {
    registry.lock = (os_mutex){0};
    registry.pools = NULL;
    registry.own_lock = (os_mutex){0};
    registry.own = NULL;
}

static void registry_lock(void) { os_lock(&registry.lock); }

static void registry_add(weft_pool *pool) {
    registry_lock();
    pool->id = ++registry.last_id;
    pool->registry_next = registry.pools;
    registry.pools = pool;
    os_unlock(&registry.lock);
}

static void registry_remove(weft_pool *pool) {
    registry_lock();
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

static struct weft_worker *seat_make(weft_pool *pool, uint32_t index) {
    struct weft_worker *seat = store_get(&pool->store, sizeof *seat);
    if (seat == NULL) return NULL;
    plain_write(&seat->pool, sizeof seat->pool);
    seat->pool = pool;
    seat->index = index;
    seat->lane = &pool->blank;
    seat->scout_ticks = load_rlx(&pool->spin_ticks);
    store_rel(P1, &pool->seats[index], seat);
    if (index >= load_rlx(&pool->seat_count)) store_rlx(&pool->seat_count, index + 1);
    return seat;
}

/* A seat for a thread from outside: one that was left, or a new one. */
static struct weft_worker *seat_take(weft_pool *pool, int *error) {
    uint32_t first = pool->workers_max + pool->config.spares;
    os_lock(&pool->lock);
    struct weft_worker *seat = NULL;
    uint32_t index = first;
    for (; index < SEATS_MAX && seat == NULL; index++) {
        seat = load_rlx(&pool->seats[index]);
        if (seat == NULL) break;
        if (load_rlx(&seat->taken_by)) seat = NULL;
    }
    if (seat == NULL && index < SEATS_MAX) seat = seat_make(pool, index);
    if (seat != NULL) store_rlx(&seat->taken_by, 1);
    os_unlock(&pool->lock);
    *error = index < SEATS_MAX ? WEFT_ENOMEM : WEFT_EAGAIN;
    return seat;
}

/* Whether the thread is in a task, a call or a loop's body still. */
static bool seats_leave(const os_self *self) {
    bool is_inside = false;
    registry_lock();
    for (struct seating *seating = self->seatings; seating != NULL; seating = seating->next) {
        if (!registry_has(seating->pool, seating->pool_id)) continue;
        is_inside |= seating->seat->frame != NULL;
        os_lock(&seating->pool->lock);
        seating->seat->lane = &seating->pool->blank;
        lanes_hide(seating->seat);
        store_rlx(&seating->seat->taken_by, 0);
        os_unlock(&seating->pool->lock);
    }
    os_unlock(&registry.lock);
    return is_inside;
}

static void self_exit(os_self *self) {
    bool is_inside = self->is_worker || (self->seatings != NULL && seats_leave(self));
    if (is_inside) /* what it is in would never end */
        os_die("a thread has ended (pthread_exit, pthread_cancel?) inside a task, or before weft_leave");
    while (self->seatings != NULL) {
        struct seating *seating = self->seatings;
        self->seatings = seating->next;
        os_free(seating);
    }
    self->pool_id = 0;
    self->worker = NULL;
}

void seat_watch(void) { (void)os_self_watch(OS_EXIT_POOL, self_exit); /* no memory: it is not noticed then */ }

/* Forgets the seatings whose pools have ended. */
static void seatings_sweep(os_self *self) {
    uint32_t count = 0;
    registry_lock();
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

static void seating_drop(os_self *self, uint64_t pool_id) {
    for (struct seating **link = (struct seating **)&self->seatings; *link != NULL; link = &(*link)->next) {
        struct seating *seating = *link;
        if (seating->pool_id != pool_id) continue;
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
                                first == NULL ? 1 : first->count + 1,
                                first == NULL ? SEATINGS_MIN : first->sweep_at};
    self->seatings = seating;
    return seat;
}

/* The thread's seat in that pool, or NULL. */
static struct weft_worker *seat_of(const os_self *self, const weft_pool *pool) {
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

static int seat_start_thread(weft_pool *pool, struct weft_worker *seat) {
    char name[16];
    os_thread_options options = {
        .stack_size = pool->config.stack_size, .name = name, .cpus = pool->config.cpus == NULL ? NULL : &pool->cpus};
    size_t length = 0;
    while (length < 11 && pool->name[length] != 0) {
        name[length] = pool->name[length];
        length++;
    }
    uint32_t number = seat->index;
    uint32_t scale = number >= 100 ? 100 : number >= 10 ? 10 : 1;
    for (; scale > 0; scale /= 10) name[length++] = (char)('0' + number / scale % 10);
    name[length] = 0;
    return os_thread_start(&seat->thread, &options, worker_main, seat);
}

/* Of workers and spares. The other count is the greater one for a moment while a section begins or ends. */
static uint32_t blocked_inside(const weft_pool *pool) {
    uint32_t blocked = load_rlx(&pool->blocked);
    return blocked - (uint32_t)min_u64(blocked, load_rlx(&pool->blocked_outside));
}

uint32_t pool_spares_wanted(const weft_pool *pool) {
    uint32_t held_up = load_rlx(&pool->held_up);
    uint32_t workers = load_rlx(&pool->workers);
    if (load_rlx(&pool->blocked) == 0) return 0;
    return blocked_inside(pool) + (held_up < workers ? 0 : held_up - workers + 1);
}

bool pool_has_runner(const weft_pool *pool) {
    return blocked_inside(pool) + load_rlx(&pool->held_up) < load_rlx(&pool->workers) + load_rlx(&pool->spares_made);
}

/* Starts spares, as many as are wanted and may be. How many there are. */
static uint32_t pool_add_spares(weft_pool *pool) {
    os_lock(&pool->lock);
    uint32_t made = load_rlx(&pool->spares_made);
    for (; made < pool_spares_wanted(pool) && made < pool->config.spares; made++) {
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

/* Looks once: who makes another one needed later calls, too, after its own P14 or P15. */
bool pool_call_spares(weft_pool *pool) {
    uint32_t wanted = pool_spares_wanted(pool);
    uint32_t made = load_rlx(&pool->spares_made);
    if (made < wanted) made = pool_add_spares(pool);
    for (uint32_t i = 0; i < made && i < wanted; i++)
        event_raise(&pool->park.slots[pool->workers_max + i].event); /* after P14 or P15 */
    return wanted <= made;
}

bool pool_stand_in(weft_pool *pool) {
    uint32_t blocked = add_rlx(&pool->blocked, 1) + 1;
    uint32_t peak = load_rlx(&pool->blocked_peak);
    while (blocked > peak)
        if (cas_rlx(P13, &pool->blocked_peak, &peak, blocked)) break;
    fence_sc(P14);
    return pool_call_spares(pool);
}

void pool_stand_down(weft_pool *pool) { add_rlx(&pool->blocked, UINT32_MAX); }

static void hold_up(const struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if (!seat->is_worker) add_rlx(&pool->guests_asleep, seat->guest_calls);
    if (!seat->is_worker || seat->blocking > 0) return;
    uint32_t held_up = add_rlx(&pool->held_up, 1) + 1;
    fence_sc(P15);
    if (load_rlx(&pool->blocked) == 0 || held_up < load_rlx(&pool->workers) || pool_call_spares(pool)) return;
    worker_wake_stranded(pool);
}

static void let_go(const struct weft_worker *seat) {
    if (!seat->is_worker) add_rlx(&seat->pool->guests_asleep, 0u - seat->guest_calls);
    if (seat->is_worker && seat->blocking == 0) add_rlx(&seat->pool->held_up, UINT32_MAX);
}

void pool_sleep(struct weft_worker *seat, uint32_t event, uint64_t deadline_ns) {
    uint64_t start = trace_begin(seat);
    count_up(&seat->parks, 1);
    hold_up(seat);
    os_wait(&seat->wait_event, event, deadline_ns);
    let_go(seat);
    trace_end(seat, TRACE_WAIT, start, 0);
}

static void pool_await_start(weft_pool *pool) {
    for (;;) {
        uint32_t started = load_acq(P3, &pool->started);
        if (started >= load_rlx(&pool->workers)) return;
        os_wait(&pool->started, started, 0);
    }
}

/* Is none of the CPUs there that the workers are to be on? */
static bool cpus_are_absent(const weft_pool *pool) {
    os_cpuset before;
    if (pool->config.cpus == NULL || !os_cpuset_current(&before)) return false;
    bool is_absent = !os_cpuset_apply(&pool->cpus);
    if (!is_absent) os_cpuset_apply(&before);
    return is_absent;
}

/* Starts the workers; as many as there can be. */
static int pool_start(weft_pool *pool) {
    costs_init(pool);
    for (uint32_t i = 0; i < pool->workers_max; i++) {
        struct weft_worker *seat = load_rlx(&pool->seats[i]);
        seat->is_worker = true;
        if (seat_start_thread(pool, seat) == 0) continue;
        store_rlx(&pool->workers, i);
        break;
    }
    pool_await_start(pool);
    if (load_rlx(&pool->workers) > 0) return WEFT_OK;
    return cpus_are_absent(pool) ? WEFT_EINVAL : WEFT_EAGAIN;
}

static void pool_join(weft_pool *pool) {
    uint32_t spares = load_rlx(&pool->spares_made);
    for (uint32_t i = 0; i < load_rlx(&pool->workers); i++) os_thread_join(load_rlx(&pool->seats[i])->thread);
    for (uint32_t i = 0; i < spares; i++) os_thread_join(load_rlx(&pool->seats[pool->workers_max + i])->thread);
}

static void pool_stop(weft_pool *pool) {
    store_rlx(&pool->exits, 1);
    fence_sc(P6);
    for (uint32_t i = 0; i < pool->park.workers; i++) event_raise(&pool->park.slots[i].event);
    while (park_wake(&pool->park)) {}
    pool_join(pool);
}

/* ---- creating ----------------------------------------------------------------------------------------------------- */

#define CONFIG_FLAGS (WEFT_ORDERED | WEFT_NO_HELP | WEFT_NO_PLACING | WEFT_BIND | WEFT_LOCK)

const char *config_read(weft_config *whole, const weft_config *config) {
    *whole = (weft_config){.struct_size = sizeof *whole};
    if (config == NULL) return NULL;
    if (!struct_read(whole, sizeof *whole, config)) return "struct_size";
    whole->struct_size = sizeof *whole;
    os_cpuset cpus;
    if (whole->workers > WEFT_WORKERS_MAX) return "workers";
    if (whole->spares > WEFT_WORKERS_MAX) return "spares";
    if (whole->cpus != NULL && !os_cpuset_parse(&cpus, whole->cpus)) return "cpus";
    if (whole->stack_size != 0 && (whole->stack_size < STACK_SIZE_MIN || whole->stack_size > SIZE_MAX / 2))
        return "stack_size";
    if (whole->spin_ns < WEFT_SPIN_NONE || whole->spin_ns > INT64_C(1000000000)) return "spin_ns";
    if ((whole->flags & ~CONFIG_FLAGS) != 0) return "flags";
    if (whole->full > WEFT_FULL_ERROR) return "full";
    if (whole->trace_events > TRACE_EVENTS_MAX) return "trace_events";
    if (whole->watchdog_ns > INT64_MAX) return "watchdog_ns";
    if (whole->expect_percent < WEFT_SPIN_NONE || whole->expect_percent > 100) return "expect_percent";
    if (whole->background_max > WEFT_WORKERS_MAX) return "background_max";
    return real_is_sound(whole) ? NULL : "policy";
}

#define SPIN_NS_DEFAULT 50000
#define EXPECT_PERCENT_DEFAULT 12
#ifndef PATIENCE_NS
#define PATIENCE_NS 5000
#endif
#ifndef TINY_NS
#define TINY_NS 1000
#endif
#define BRIEF_NS UINT64_C(200000)
#define CLAIM_MAX 32u

static void text_copy(char *to, size_t size, const char *from) {
    size_t length = 0;
    while (length + 1 < size && from[length] != 0) {
        to[length] = from[length];
        length++;
    }
    to[length] = 0;
}

/* CPUs that its workers may be on, though a quota may not let them use all of each. */
static uint32_t pool_cpus_allowed(const weft_pool *pool) {
    os_cpuset current;
    if (pool->config.cpus != NULL) return os_cpuset_count(&pool->cpus);
    return os_cpuset_current(&current) ? os_cpuset_count(&current) : pool->cpu_count;
}

static void configure_threads(weft_pool *pool) {
    weft_config *config = &pool->config;
    pool->cpu_count = os_cpu_count();
    if (config->cpus != NULL) pool->cpu_count = (uint32_t)min_u64(pool->cpu_count, os_cpuset_count(&pool->cpus));
    if (config->workers == 0) config->workers = (uint32_t)min_u64(pool->cpu_count, WEFT_WORKERS_MAX);
    if (config->spares == 0) config->spares = config->workers;
    if (config->background_max == 0) config->background_max = (uint32_t)max_u64(config->workers / 2, 1);
    if (config->stack_size == 0) config->stack_size = os_stack_size();
    pool->cpus_allowed = pool_cpus_allowed(pool);
    pool->workers_max = config->workers;
    pool->background_max = config->background_max;
    store_rlx(&pool->workers, config->workers);
}

static void configure_times(weft_pool *pool) {
    weft_config *config = &pool->config;
    pool->spin_adapts = config->spin_ns == 0;
    if (pool->spin_adapts) config->spin_ns = SPIN_NS_DEFAULT;
    if (pool->cpus_allowed == 1 && config->cpus == NULL)
        config->spin_ns = WEFT_SPIN_NONE; /* it would keep the submitter waiting */
    if (config->expect_percent == 0)
        config->expect_percent = config->spin_ns == WEFT_SPIN_NONE ? WEFT_SPIN_NONE : EXPECT_PERCENT_DEFAULT;
    if (pool->cpu_count == 1) config->expect_percent = WEFT_SPIN_NONE;
    pool->expect_percent = config->expect_percent < 0 ? 0 : (uint32_t)config->expect_percent;
    pool->ticks_per_us = os_ticks_per_us();
    pool->patience_ticks = PATIENCE_NS * pool->ticks_per_us / 1000;
    pool->tiny_ticks = TINY_NS * pool->ticks_per_us / 1000;
    pool->brief_ticks = BRIEF_NS * pool->ticks_per_us / 1000;
}

/* Replaces every default. */
static void pool_configure(weft_pool *pool, const weft_config *wish) {
    weft_config *config = &pool->config;
    *config = *wish;
    text_copy(pool->name, 12, config->name == NULL ? "weft" : config->name);
    config->name = pool->name;
    if (config->cpus != NULL) os_cpuset_parse(&pool->cpus, config->cpus); /* pool_furnish keeps the text */
    configure_threads(pool);
    configure_times(pool);
    pool->ordered = (config->flags & WEFT_ORDERED) != 0;
    pool->helps = (config->flags & (WEFT_ORDERED | WEFT_NO_HELP)) == 0;
    pool->placing = (config->flags & WEFT_NO_PLACING) == 0 && pool->cpus_allowed > 1;
    pool->claim_max = pool->ordered || !os_fence_is_asymmetric() ? 1 : CLAIM_MAX;
    store_rlx(&pool->from_cpu, OS_NO_CPU);
    real_configure(pool);
    pool->fork_count = os_fork_count();
    store_rlx(&pool->extras, config->queue_max != 0 ? EXTRA_BOUNDED : 0);
}

#ifndef LINES_OUTSIDE
#define LINES_OUTSIDE 4u /* outside threads with a line of their own in each group record; further ones share one */
#endif
#define LINES_MAX 64u

bool pool_keep_text(weft_pool *pool, const char **text) {
    if (*text == NULL) return true;
    size_t bytes = strlen(*text) + 1;
    char *kept = store_get(&pool->store, bytes);
    if (kept == NULL) return false;
    memcpy(kept, *text, bytes);
    *text = kept;
    return true;
}

/* Where the pool's memory is to stay, that for the first tasks is there from the beginning. */
static bool furnish_segments(weft_pool *pool) {
    if (!segments_init(&pool->segments, &pool->store)) return false;
    void *first = pool->store.locks ? pile_get(&pool->segments) : NULL;
    if (first != NULL) pile_put(&pool->segments, first);
    return first != NULL || !pool->store.locks;
}

static bool pool_furnish(weft_pool *pool) {
    uint32_t threads = pool->workers_max + pool->config.spares;
    uint32_t lines = (uint32_t)min_u64(threads + LINES_OUTSIDE + 1, LINES_MAX);
    pool->blank.group_id = LANE_NO_GROUP;
    pool->seats = store_get(&pool->store, SEATS_MAX * sizeof *pool->seats);
    if (pool->seats == NULL || !park_init(&pool->park, &pool->store, threads) ||
        !groups_init(&pool->groups, &pool->store, lines) || !furnish_segments(pool) ||
        !pool_keep_text(pool, &pool->config.cpus))
        return false;
    pool->park.all = PARK_MASK >> (PARK_BITS - min_u64(pool->workers_max, PARK_BITS));
    for (uint32_t i = 0; i < pool->workers_max; i++)
        if (seat_make(pool, i) == NULL) return false;
    near_configure(pool);
    return true;
}

static void pool_free(weft_pool *pool) {
    segments_end(&pool->segments);
    store_end(&pool->store);
    os_unmap(pool, round_up(sizeof *pool, os_page_size()));
}

weft_pool *pool_make(const weft_config *config) {
    weft_pool *pool = os_map(round_up(sizeof *pool, os_page_size()));
    if (pool == NULL) return NULL;
    pool_configure(pool, config);
    if (!pool_furnish(pool)) {
        pool_free(pool);
        return NULL;
    }
    registry_add(pool);
    return pool;
}

static void pool_init(void) {
    os_init();
    os_on_fork(registry_forked);
}

int weft_pool_create(weft_pool **pool, const weft_config *config) {
    if (pool == NULL) return WEFT_EINVAL;
    *pool = NULL;
    weft_config wish;
    if (config_read(&wish, config) != NULL) return WEFT_EINVAL;
    pool_init();
    weft_pool *made = pool_make(&wish);
    if (made == NULL) return WEFT_ENOMEM;
    int error = observe_start(made);
    if (error == WEFT_OK) error = pool_start(made);
    if (error != WEFT_OK) {
        observe_end(made);
        registry_remove(made);
        pool_free(made);
        return error;
    }
    made->config.workers = load_rlx(&made->workers);
    real_started(made);
    *pool = made;
    return WEFT_OK;
}

/* ---- the process's own pool --------------------------------------------------------------------------------------- */

static void own_lock(void) { os_lock(&registry.own_lock); }

/* Libraries of all kinds run on it: where the system's default is small, stacks are not. */
#define OWN_STACK_MIN ((size_t)1 << 20)

static int own_make(void) {
    weft_config config;
    weft_config_init(&config);
    int error = weft_config_from_env(&config);
    if (config.stack_size == 0 && os_stack_size() < OWN_STACK_MIN) config.stack_size = OWN_STACK_MIN;
    if (error == WEFT_OK) error = weft_pool_create(&registry.own, &config);
    if (error == WEFT_OK) registry.own->is_own = true;
    return error;
}

int weft_default_pool(weft_pool **pool) {
    if (pool == NULL) return WEFT_EINVAL;
    *pool = NULL;
    pool_init();
    own_lock();
    int error = registry.own == NULL ? own_make() : WEFT_OK;
    if (error == WEFT_OK) {
        registry.own->references++;
        *pool = registry.own;
    }
    os_unlock(&registry.own_lock);
    return error;
}

/* ---- ending ------------------------------------------------------------------------------------------------------- */

static bool pool_is_drained(const weft_pool *pool) {
    uint32_t made = load_rlx(&pool->groups.records.made);
    for (uint32_t i = 1; i < made; i++) {
        const struct record *record = record_at(&pool->groups, i);
        if (record != NULL && !record_is_finished(record)) return false;
    }
    return true;
}

/* Until every thread from outside has left the submission that led to this, and every guest its call. */
static void pool_await_leavers(weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        struct weft_worker *seat = load_rlx(&pool->seats[i]);
        while (seat != NULL && recheck(P11, load_rlx(&seat->inside) != 0, false)) os_yield();
    }
    while (load_acq(P10, &pool->guests) > 0) os_yield();
}

/* Until nothing is queued or running, and nothing more can come. */
static void pool_drain(weft_pool *pool) {
    store_rlx(&pool->closed, 1);
    os_fence_heavy(P4);
    event_raise(&pool->room);
    do { /* a guest's loop may have submitted */
        for (;;) {
            uint32_t event = load_acq(P2, &pool->drained);
            if (pool_is_drained(pool)) break;
            os_wait(&pool->drained, event, 0);
        }
        pool_await_leavers(pool);
    } while (!pool_is_drained(pool));
}

static void pool_free_data(weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count && pool->config.data_free != NULL; i++) {
        struct weft_worker *seat = load_rlx(&pool->seats[i]);
        if (seat != NULL && seat->data != NULL) pool->config.data_free(seat->data);
    }
}

/* Is the caller running a task of this pool? */
static bool pool_is_inside(weft_pool *pool) {
    const struct weft_worker *seat = seat_of(os_self_get(), pool);
    return seat != NULL && (seat->is_worker || seat->frame != NULL);
}

/* Gives one reference to the process's own pool back. True for the last: the pool ends, unless a task of it asks for
 * that. */
static bool own_release(weft_pool *pool) {
    own_lock();
    bool is_last = pool->references == 1;
    if (!is_last)
        pool->references--;
    else if (registry.own == pool && !pool_is_inside(pool))
        registry.own = NULL;
    os_unlock(&registry.own_lock);
    return is_last;
}

static int pool_end(weft_pool **handle, bool aborts, weft_clean_fn clean, void *context) {
    if (handle == NULL || *handle == NULL) return WEFT_EINVAL;
    weft_pool *pool = *handle;
    bool is_child = pool->fork_count != os_fork_count();
    if (pool->is_own && aborts && !is_child) return WEFT_EINVAL;
    if (pool->is_own && !own_release(pool)) {
        *handle = NULL;
        return is_child ? WEFT_EFORK : WEFT_OK;
    }
    if (is_child) {
        *handle = NULL;
        pool_free(pool);
        return WEFT_EFORK;
    }
    if (pool_is_inside(pool)) return WEFT_EDEADLK;
    *handle = NULL;
    if (aborts) {
        plain_write(&pool->abort_clean, sizeof pool->abort_clean);
        pool->abort_clean.fn = clean;
        pool->abort_clean.context = context;
        store_rel(P8, &pool->aborted, 1);
    }
    pool_drain(pool);
    pool_stop(pool);
    observe_end(pool);
    pool_free_data(pool);
    registry_remove(pool);
    os_self *self = os_self_get();
    if (self->pool_id == pool->id && !self->is_worker) self->pool_id = 0;
    seating_drop(self, pool->id);
    pool_free(pool);
    return WEFT_OK;
}

int weft_pool_destroy(weft_pool **pool) { return pool_end(pool, false, NULL, NULL); }

int weft_pool_abort(weft_pool **pool, weft_clean_fn clean, void *context) { return pool_end(pool, true, clean, context); }
