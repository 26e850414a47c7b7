/* pool.c: making and ending pools.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   P2  pool_drain: load drained       acquire  G4, G11  destroy sleeps on the new event
 *   P3  pool_await_start: load has_begun  acquire  D11  create returns before it sees what a start hook wrote
 *   P4  pool_drain: heavy fence        heavy    T2   destroy misses a submission from outside that saw the pool open
 *   P6  pool_stop: fence               sc       K3   a worker parks and does not see that it must end; T28: as P11
 *   P8  pool_end: or extras            release  D17  a payload goes to the wrong clean function, or to the right one with a wrong
 *                                                   context
 *   P10 pool_await_leavers: load guest_calls  acquire  T26 what a guest's loop has submitted does not run
 *   P11 pool_await_leavers: looks      -        T28  the pool's memory is freed under a submitter
 */
#include "front.h"

#include <string.h>

static PROCESS_STATE struct {
    os_mutex lock;
    weft_pool *pool; /* the process's own, while it has references */
} own;

static void pool_await_start(weft_pool *pool, uint32_t workers) {
    for (uint32_t i = 0; i < workers; i++) {
        os_word *has_begun = &load_rlx(&pool->seats[i])->has_begun;
        while (load_acq(P3, has_begun) == 0) os_wait(has_begun, 0, 0);
    }
}

/* Are all CPUs that the workers should run on absent? */
static bool cpus_are_absent(const weft_pool *pool) {
    os_cpuset before;
    if (pool->config.cpus == NULL || !os_cpuset_current(&before)) return false;
    bool is_absent = !os_cpuset_apply(&pool->cpus);
    if (!is_absent) os_cpuset_apply(&before);
    return is_absent;
}

/* Starts as many of the workers as possible. Tasks that start hooks submit run meanwhile, in spares, too; start hooks may
 * also resize the pool. */
static int pool_start(weft_pool *pool) {
    os_lock(&pool->lock);
    uint32_t wanted = load_rlx(&pool->workers);
    uint32_t started = fit_start(pool, wanted);
    if (started < wanted) {
        store_rlx(&pool->workers, started);
        if (pool->background_follows) store_rlx(&pool->background_max, fit_background(started));
    }
    if (started > 0) park_limit(&pool->park, started);
    os_unlock(&pool->lock);
    pool_await_start(pool, started);
    if (started > 0) return WEFT_OK;
    return cpus_are_absent(pool) ? WEFT_EINVAL : WEFT_EAGAIN;
}

/* In a forked child os_thread_join does not wait: it only frees what is kept of each thread. */
static void pool_join_all(weft_pool *pool, uint32_t workers, uint32_t spares) {
    for (uint32_t i = 0; i < workers; i++) os_thread_join(load_rlx(&pool->seats[i])->thread);
    for (uint32_t i = 0; i < spares; i++) os_thread_join(load_rlx(&pool->seats[pool->workers_max + i])->thread);
}

static void pool_join(weft_pool *pool) {
    os_lock(&pool->lock); /* waits for a thread that is starting one (fit.c) */
    uint32_t workers = pool->workers_made;
    uint32_t spares = load_rlx(&pool->spares_made);
    os_unlock(&pool->lock);
    pool_join_all(pool, workers, spares);
}

static void pool_stop(weft_pool *pool) {
    store_rlx(&pool->exits, 1);
    fence_sc(P6);
    for (uint32_t i = 0; i < pool->park.workers; i++) event_raise(&pool->park.slots[i].event);
    while (park_wake(&pool->park)) {}
    if (pool->has_tokens) tokens_ring(pool);
    pool_join(pool);
}

/* ---- creating ----------------------------------------------------------------------------------------------------- */

#define CONFIG_FLAGS                                                                                                        \
    (WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP | WEFT_POOL_NO_PLACING | WEFT_POOL_BIND | WEFT_POOL_LOCK | WEFT_POOL_JOBSERVER | \
     WEFT_POOL_LEASE)

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
    if (whole->stack_wait_ns > INT64_MAX) return "stack_wait_ns";
    if (whole->expect_percent < WEFT_EXPECT_NONE || whole->expect_percent > 100) return "expect_percent";
    if (whole->background_max > WEFT_WORKERS_MAX) return "background_max";
    if (!slice_is_sound(whole->slice_ns)) return "slice_ns";
    return policy_is_sound(whole) ? NULL : "policy";
}

#ifndef PATIENCE_NS
#define PATIENCE_NS 5000
#endif
#ifndef TINY_NS
#define TINY_NS 1000
#endif
#define SHORT_NS UINT64_C(200000)
#define CLAIM_MAX 32u

/* `to` is zeroed. */
static void text_copy(char *to, size_t size, const char *from) {
    size_t length = 0;
    for (; length + 1 < size && from[length] != 0; length++) to[length] = from[length];
    if (from[length] != 0) to[text_whole(to, length)] = 0;
}

static void configure_threads(weft_pool *pool) {
    weft_config *config = &pool->config;
    fit_configure(pool);
    pool->spares_follow = config->spares == 0 && pool->is_fitted; /* else the number of workers can only fall */
    pool->background_follows = config->background_max == 0;
    if (config->spares == 0) config->spares = config->workers;
    pool->spare_seats = pool->spares_follow ? pool->workers_max : config->spares;
    if (config->background_max == 0) config->background_max = fit_background(config->workers);
    if (config->stack_size == 0) config->stack_size = os_stack_size();
    store_rlx(&pool->background_max, config->background_max);
}

static void configure_times(weft_pool *pool) {
    weft_config *config = &pool->config;
    pool->spin_adapts = config->spin_ns == 0;
    pool->spin_wish_ns = config->spin_ns;
    pool->expect_wish = config->expect_percent;
    uint32_t percent = fit_expect_percent(pool);
    config->spin_ns = fit_spin_ns(pool);
    config->expect_percent = percent == 0 ? WEFT_EXPECT_NONE : (int32_t)percent;
    store_rlx(&pool->expect_percent, percent);
    pool->ticks_per_us = os_ticks_per_us();
    pool->patience_ticks = PATIENCE_NS * pool->ticks_per_us / 1000;
    pool->tiny_ticks = TINY_NS * pool->ticks_per_us / 1000;
    pool->short_ticks = SHORT_NS * pool->ticks_per_us / 1000;
}

/* No other pool reads these variables. */
static void share_threads(weft_pool *pool) {
    uint32_t flags = pool->config.flags;
    struct tokens_wish wish = {.make = (flags & WEFT_POOL_JOBSERVER) != 0, .lease = (flags & WEFT_POOL_LEASE) != 0};
    if (wish.make) wish.makeflags = variable("MAKEFLAGS");
    if (wish.lease) wish.path = lease_path(variable("WEFT_LEASE"));
    if (wish.make || wish.lease) tokens_begin(pool, &wish);
}

/* Replaces every default. */
static void pool_configure(weft_pool *pool, const weft_config *wish) {
    weft_config *config = &pool->config;
    *config = *wish;
    pool->fork_count = os_fork_count();
    share_threads(pool);
    text_copy(pool->name, 12, config->name == NULL ? "weft" : config->name);
    config->name = pool->name;
    if (config->cpus != NULL) os_cpuset_parse(&pool->cpus, config->cpus); /* pool_furnish keeps the text */
    configure_threads(pool);
    configure_times(pool);
    pool->ordered = (config->flags & WEFT_POOL_ORDERED) != 0;
    pool->helps = (config->flags & (WEFT_POOL_ORDERED | WEFT_POOL_NO_HELP)) == 0;
    pool->placing = (config->flags & WEFT_POOL_NO_PLACING) == 0 && load_rlx(&pool->cpus_allowed) > 1;
    pool->claim_max = pool->ordered || pool->has_tokens || !os_fence_is_asymmetric() ? 1 : CLAIM_MAX;
    store_rlx(&pool->from_cpu, OS_NO_CPU);
    policy_configure(pool);
    slice_configure(pool);
    store_rlx(&pool->extras, (config->queue_max != 0 ? EXTRA_BOUNDED : 0) | (pool->ordered ? EXTRA_ORDERED : 0));
}

#ifndef LINES_OUTSIDE
#define LINES_OUTSIDE 4u /* outside threads with counters in each record itself; others' are in blocks */
#endif

/* If the pool's memory is locked, the memory for its first tasks is there from the beginning. */
static bool furnish_segments(weft_pool *pool) {
    if (!segments_init(&pool->segments, &pool->store)) return false;
    void *first = pool->store.locks ? pile_get(&pool->segments) : NULL;
    if (first != NULL) pile_put(&pool->segments, first);
    return first != NULL || !pool->store.locks;
}

static bool pool_furnish(weft_pool *pool) {
    uint32_t threads = pool->workers_max + pool->spare_seats;
    uint32_t lines = (uint32_t)min_u64(threads + LINES_OUTSIDE + 1, COUNTERS_MAX);
    pool->workers_near = (uint32_t)min_u64(pool->workers_max, lines - 1 - min_u64(LINES_OUTSIDE, lines - 1));
    pool->blank.group_id = LANE_NO_GROUP;
    pool->seats = store_get(&pool->store, SEATS_MAX * sizeof *pool->seats);
    if (pool->seats == NULL || !park_init(&pool->park, &pool->store, threads) ||
        !groups_init(&pool->groups, &pool->store, lines) || !furnish_segments(pool) ||
        !store_text(&pool->store, &pool->config.cpus))
        return false;
    for (uint32_t i = 0; i < pool->workers_max; i++)
        if (seat_make(pool, i) == NULL) return false;
    park_limit(&pool->park, load_rlx(&pool->workers));
    return true;
}

static void pool_free(weft_pool *pool) {
    tokens_end(pool);
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

/* In a forked child: locks may be held by threads that do not exist here, and the pools are the parent's. */
static void pools_forked(void) {
    registry_forked();
    tokens_forked();
    observe_forked();
    own.lock = (os_mutex){0};
    own.pool = NULL;
}

static void pool_init(void) {
    os_init();
    os_on_fork(pools_forked);
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
    policy_started(made);
    *pool = made;
    return WEFT_OK;
}

/* ---- the process's own pool --------------------------------------------------------------------------------------- */

static void own_lock(void) { os_lock(&own.lock); }

/* All kinds of libraries run on this pool, so its stacks are not small even if the system's default is. */
#define OWN_STACK_MIN ((size_t)1 << 20)

static int own_make(void) {
    weft_config config;
    weft_config_init(&config);
    int error = weft_config_from_env(&config);
    if (config.stack_size == 0 && os_stack_size() < OWN_STACK_MIN) config.stack_size = OWN_STACK_MIN;
    if (error == WEFT_OK) error = weft_pool_create(&own.pool, &config);
    if (error == WEFT_OK) own.pool->is_own = true;
    return error;
}

int weft_pool_default(weft_pool **pool) {
    if (pool == NULL) return WEFT_EINVAL;
    *pool = NULL;
    pool_init();
    own_lock();
    int error = own.pool == NULL ? own_make() : WEFT_OK;
    if (error == WEFT_OK) {
        own.pool->references++;
        *pool = own.pool;
    }
    os_unlock(&own.lock);
    return error;
}

/* ---- ending ------------------------------------------------------------------------------------------------------- */

/* Checks the records one by one first: if the pool is not drained, that mostly shows at once. */
static bool pool_is_drained(const weft_pool *pool) {
    uint32_t made = load_rlx(&pool->groups.records.made);
    for (uint32_t i = 1; i < made; i++)
        if (!records_are_finished(&pool->groups, i, i + 1)) return false;
    return records_are_finished(&pool->groups, 1, UINT32_MAX); /* also records made since */
}

/* Waits until every outside thread has left its submission, and every guest its call. */
static void pool_await_leavers(weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    for (uint32_t i = 0; i < count; i++) {
        struct weft_worker *seat = load_rlx(&pool->seats[i]);
        while (seat != NULL && recheck(P11, load_rlx(&seat->inside) != 0, false)) os_yield();
        while (seat != NULL && load_acq(P10, &seat->guest_calls) > 0) os_yield();
    }
}

/* Waits until nothing is queued or running, and nothing more can come. */
static void pool_drain(weft_pool *pool) {
    store_rlx(&pool->closed, 1);
    os_fence_heavy(P4);
    event_raise(&pool->room);
    do { /* a guest's loop may have submitted */
        for (;;) {
            uint32_t event = load_acq(P2, &pool->drained);
            if (pool_is_drained(pool)) break;
            pool_wait(pool, &pool->drained, event, 0);
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

/* Releases one reference to the process's own pool. true: it was the last, and the pool ends, unless a task of that pool
 * makes the call. */
static bool own_release(weft_pool *pool) {
    own_lock();
    bool is_last = pool->references == 1;
    if (!is_last)
        pool->references--;
    else if (own.pool == pool && !pool_is_inside(pool))
        own.pool = NULL;
    os_unlock(&own.lock);
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
        /* Without the lock: a thread that does not exist here may hold it. */
        pool_join_all(pool, pool->workers_made, load_rlx(&pool->spares_made));
        observe_end(pool);
        pool_free(pool);
        return WEFT_EFORK;
    }
    if (pool_is_inside(pool)) return WEFT_EDEADLK;
    *handle = NULL;
    if (aborts) {
        plain_write(&pool->abort_clean, sizeof pool->abort_clean);
        pool->abort_clean.fn = clean;
        pool->abort_clean.context = context;
        or_rel(P8, &pool->extras, EXTRA_ABORTED);
    }
    pool_drain(pool);
    pool_stop(pool);
    observe_end(pool);
    pool_free_data(pool);
    registry_remove(pool);
    os_self *self = os_self_get();
    if (self->pool_id == pool->id && !self->is_worker) self->pool_id = 0;
    seat_forget(self, pool);
    pool_free(pool);
    return WEFT_OK;
}

int weft_pool_destroy(weft_pool **pool) { return pool_end(pool, false, NULL, NULL); }

int weft_pool_abort(weft_pool **pool, weft_clean_fn clean, void *context) { return pool_end(pool, true, clean, context); }
