/* fit.c: how many workers run.
 *
 * If the number of workers was not configured, a pool has one for each CPU that it may use: those of its affinity, at most as
 * many as the cgroup's quota. Both change while it runs. So every half second a worker checks them between two tasks; sleeping
 * workers need not know. The pool has seats for as many workers as the machine has CPUs; the first `workers` of these run.
 *
 * A worker whose task takes long does not look. So while workers are awake, the first resting one wakes up and looks in their place.
 * Once none is awake, it sleeps until the next look is due, and then without an end; the next look of a worker makes it watch again.
 * A pool without a resting thread looks when a task has ended.
 *
 * Where the number of workers was configured or set by hand, it stays. But whether threads spin and wake up ahead depends on the
 * CPUs, so these are counted all the same: by affinity alone, without the quota's files (a sandbox may forbid those). They are fewer
 * only if the main thread has lost them, too: if workers alone have, a start hook or a task has bound them, and whoever submits may
 * be elsewhere.
 *
 * More: resting threads continue, others are started. Fewer: a worker whose seat is beyond the number finishes its task and then
 * rests on its seat's event, like a spare that is not needed. The tasks that it has submitted are in its lanes, where others find
 * them; before it rests, it makes sure that a thread looks for them. Sleeping workers are woken once, to rest. The first worker
 * never rests. So the proof in park.c, that all busy workers look again before they sleep, holds without the resting ones.
 *
 * Prediction keeps a sleeper's thread off one CPU (predict/place.c). That CPU counts all the same: `kept_off` names it from after
 * the system call that takes it until after the one that gives it back. A reader reads the word, asks the system and reads the word
 * again. If both words are equal, one state held meanwhile, because each change has its own number; else the reader asks again.
 * While a CPU is being taken, the thread may have more CPUs than before (predict/affinity.c): FIT_UNSURE says so, and the reader
 * changes nothing and looks again before the next task.
 *
 * `workers`, `workers_made` and the threads' starts are under the pool's lock. A pool that is being destroyed starts no thread,
 * and destroy takes and releases the lock after it has set `exits` and before it joins the threads. So who has the lock and sees no
 * `exits` may ask for the threads' CPUs.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   U1  set_workers: fence  sc  U4, P14  a worker that is to run again rests on the new event; a spare does not come
 *   U2  fit_keep_off: store kept_off     release  U3  the CPU counts as given back while the thread still lacks it
 *   U3  cpus_of: load kept_off           acquire  U2  see U2
 *   U4  fit_rest: load event             acquire  P14, U1  a spare, or a worker, reads the new event but not its change, and sleeps
 */
#include "sched/fit.h"

#include "sched/seat.h"
#include "sched/tokens.h"

#include <string.h>

#define FIT_NS UINT64_C(500000000)
#define SPIN_NS_DEFAULT 50000
#define EXPECT_PERCENT_DEFAULT 12

void fit_keep_off(struct weft_worker *seat, uint32_t cpu) {
    uint64_t changes = (load_rlx(&seat->kept_off) >> 32) + 1;
    store_rel(U2, &seat->kept_off, changes << 32 | (uint32_t)(cpu + 1));
}

/* The CPUs that the worker may be on if no sleep kept it off one. false: the system does not tell, or the set is not sure. */
static bool cpus_of(const struct weft_worker *seat, os_cpuset *set, bool *is_sure) {
    uint64_t kept_off;
    do {
        kept_off = load_acq(U3, &seat->kept_off);
        if (!os_thread_cpuset(seat->thread, set)) return false;
    } while (load_rlx(&seat->kept_off) != kept_off);
    uint32_t cpu = (uint32_t)kept_off - 1;
    if (cpu == FIT_UNSURE) return *is_sure = false;
    if (cpu != OS_NO_CPU) set->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
    return true;
}

static void add_set(os_cpuset *all, const os_cpuset *more) {
    for (uint32_t word = 0; word < OS_CPUS_MAX / 64; word++) all->bits[word] |= more->bits[word];
}

/* Under the pool's lock: adds the workers' CPUs to the set, first worker first, until there are `enough`. Returns how many it has. */
static uint32_t add_cpus(const weft_pool *pool, os_cpuset *all, uint32_t enough, bool *is_sure) {
    os_cpuset one;
    for (uint32_t i = 0; i < pool->workers_made; i++) {
        if (!cpus_of(load_rlx(&pool->seats[i]), &one, is_sure)) continue;
        add_set(all, &one);
        if (os_cpuset_count(all) >= enough) break;
    }
    return os_cpuset_count(all);
}

/* The number of CPUs that the calling thread or any worker may be on: a task or start hook may restrict one worker, but the others
 * count. Before there are workers, only the calling thread's CPUs count. If there are fewer than `least`, the main thread's count as
 * well, up to `least`. 0: not sure, and the next look is due at once; or the pool ends. */
static uint32_t cpus_of_workers(weft_pool *pool, uint32_t least) {
    os_cpuset all, of_main;
    bool is_sure = true;
    if (!os_cpuset_current(&all)) return load_rlx(&pool->cpu_count);
    os_lock(&pool->lock);
    bool ends = load_rlx(&pool->exits); /* then threads may be joined once the lock is free */
    uint32_t count = ends ? 0 : add_cpus(pool, &all, OS_CPUS_MAX, &is_sure);
    if (!is_sure) store_rlx(&pool->fit_due, 0);
    os_unlock(&pool->lock);
    if (ends) return 0;
    if (!is_sure || count >= least || !os_cpuset_main(&of_main)) return is_sure ? count : 0;
    add_set(&all, &of_main);
    return (uint32_t)min_u64(os_cpuset_count(&all), least);
}

bool fit_cpus(const weft_pool *pool, os_cpuset *set) {
    os_cpuset own;
    bool is_sure;
    uint32_t enough = load_rlx(&pool->cpus_allowed);
    memset(set, 0, sizeof *set);
    bool is_first = pool->workers_made == 0;
    if (is_first || (pool->config.flags & WEFT_POOL_BIND) != 0 || !os_cpuset_current(&own)) return false;
    return add_cpus(pool, set, enough, &is_sure) >= enough && memcmp(set, &own, sizeof own) != 0;
}

static void note_quota(weft_pool *pool, uint32_t count, uint32_t allowed) {
    store_rlx(&pool->cpus_quota, count < allowed ? count : OS_CPUS_MAX);
}

static void count_cpus(weft_pool *pool, uint32_t count, uint32_t allowed) {
    if (pool->config.cpus != NULL) { /* it may name CPUs that do not exist */
        allowed = (uint32_t)min_u64(os_cpuset_count(&pool->cpus), os_cpus_online());
        count = (uint32_t)min_u64(count, allowed);
    }
    store_rlx(&pool->cpu_count, count);
    store_rlx(&pool->cpus_allowed, allowed);
}

/* A bound worker's CPU says nothing about the pool's CPUs; a real-time worker has no time to read files. */
static bool may_look(const weft_config *config) {
    return (config->flags & (WEFT_POOL_BIND | WEFT_POOL_LOCK)) == 0 && config->policy == WEFT_POLICY_INHERIT;
}

void fit_configure(weft_pool *pool) {
    weft_config *config = &pool->config;
    bool is_chosen = config->workers == 0;
    uint32_t count = is_chosen ? os_cpu_count() : os_cpu_count_lately();
    store_rlx(&pool->cpu_count, count);
    uint32_t allowed = cpus_of_workers(pool, 0);
    note_quota(pool, count, allowed);
    count_cpus(pool, count, allowed);
    pool->is_fitted = is_chosen && may_look(config);
    pool->follows = pool->is_fitted;
    pool->fit_ticks = FIT_NS / 1000 * os_ticks_per_us();
    if (is_chosen) config->workers = (uint32_t)min_u64(load_rlx(&pool->cpu_count), WEFT_WORKERS_MAX);
    pool->workers_max = config->workers;
    if (pool->is_fitted) pool->workers_max = (uint32_t)min_u64(max_u64(os_cpus_online(), config->workers), WEFT_WORKERS_MAX);
    store_rlx(&pool->workers, config->workers);
    store_rlx(&pool->fit_due, may_look(config) ? os_ticks() + pool->fit_ticks : UINT64_MAX);
}

int64_t fit_spin_ns(const weft_pool *pool) {
    if (load_rlx(&pool->cpus_allowed) == 1 && pool->config.cpus == NULL)
        return WEFT_SPIN_NONE; /* spinning would keep the submitter waiting */
    return pool->spin_adapts ? SPIN_NS_DEFAULT : pool->spin_wish_ns;
}

uint32_t fit_expect_percent(const weft_pool *pool) {
    int32_t percent = pool->has_tokens ? WEFT_EXPECT_NONE : pool->expect_wish;
    if (percent == 0) percent = fit_spin_ns(pool) == WEFT_SPIN_NONE ? WEFT_EXPECT_NONE : EXPECT_PERCENT_DEFAULT;
    return percent < 0 || load_rlx(&pool->cpu_count) == 1 ? 0 : (uint32_t)percent;
}

static void fit_times(weft_pool *pool) {
    int64_t spin_ns = fit_spin_ns(pool);
    uint64_t ticks = spin_ns < 0 ? 0 : (uint64_t)spin_ns * pool->ticks_per_us / 1000;
    if (load_rlx(&pool->realtime.window_ticks) != 0) ticks = min_u64(ticks, load_rlx(&pool->realtime.share_ticks));
    if (load_rlx(&pool->spin_ticks) != ticks) {
        store_rlx(&pool->spin_ticks, ticks);
        store_rlx(&pool->spin_now, ticks);
    }
    store_rlx(&pool->expect_percent, fit_expect_percent(pool));
}

/* ---- more and fewer ----------------------------------------------------------------------------------------------- */

uint32_t fit_start(weft_pool *pool, uint32_t wanted) {
    while (pool->workers_made < wanted) {
        struct weft_worker *seat = load_rlx(&pool->seats[pool->workers_made]);
        seat->is_worker = true;
        if (seat_start_thread(pool, seat) != 0) break;
        pool->workers_made++;
        add_rlx(&pool->awake, 1);
    }
    return (uint32_t)min_u64(pool->workers_made, wanted);
}

enum mover { BY_LOOK, BY_HAND };

/* Returns whether that many workers run now. A number set by hand stays until the workers are to follow the CPUs again. */
static bool set_workers(weft_pool *pool, uint32_t wanted, enum mover mover) {
    os_lock(&pool->lock);
    uint32_t before = load_rlx(&pool->workers);
    bool may = !load_rlx(&pool->closed) && (mover == BY_HAND || pool->follows);
    if (mover == BY_HAND) pool->follows = false;
    uint32_t now = may ? fit_start(pool, wanted) : before;
    store_rlx(&pool->workers, now);
    if (pool->background_follows) store_rlx(&pool->background_max, fit_background(now));
    park_limit(&pool->park, now);
    os_unlock(&pool->lock);
    fence_sc(U1);
    for (uint32_t i = before; i < now; i++) event_raise(&pool->park.slots[i].event);
    for (uint32_t i = now; i < before; i++) park_wake_worker(&pool->park, i); /* to rest */
    /* the workers that will rest stood in for sleeping ones; each looks for spares again when it rests */
    if (now < before && !pool_call_spares(pool)) worker_wake_stranded(pool);
    return now == wanted;
}

/* The first resting thread sleeps anew, to look before long. There is no fence: if it misses that, the next look calls it again. */
static void call_watcher(weft_pool *pool) {
    uint32_t workers = load_rlx(&pool->workers);
    if (workers < pool->workers_max) event_raise(&pool->park.slots[workers].event);
}

/* Puts the next look off. false: another worker makes this one. *follows: the number of workers is to follow. */
static bool put_off(weft_pool *pool, bool *follows) {
    os_lock(&pool->lock);
    uint64_t now = os_ticks();
    bool is_due = load_rlx(&pool->fit_due) <= now;
    if (is_due) store_rlx(&pool->fit_due, now + pool->fit_ticks);
    *follows = pool->follows;
    os_unlock(&pool->lock);
    return is_due;
}

NOINLINE void fit_look_slow(weft_pool *pool) {
    bool follows;
    if (!put_off(pool, &follows)) return;
    call_watcher(pool);
    uint32_t allowed = load_rlx(&pool->cpus_allowed);
    uint32_t before = load_rlx(&pool->cpu_count);
    uint32_t workers_have = cpus_of_workers(pool, follows ? 0 : allowed);
    if (workers_have == 0 || (!follows && workers_have == allowed)) return;
    uint32_t count = follows ? os_cpu_count_now(workers_have) : (uint32_t)min_u64(workers_have, load_rlx(&pool->cpus_quota));
    if (count == 0) return; /* not known: nothing changes */
    if (follows) note_quota(pool, count, workers_have);
    count_cpus(pool, count, workers_have);
    if (before != load_rlx(&pool->cpu_count) || allowed != load_rlx(&pool->cpus_allowed)) fit_times(pool);
    uint32_t wanted = (uint32_t)min_u64(load_rlx(&pool->cpu_count), pool->workers_max);
    if (!follows || wanted == load_rlx(&pool->workers)) return;
    set_workers(pool, wanted, BY_LOOK);
    call_watcher(pool); /* it may be another one now */
}

/* ---- awake -------------------------------------------------------------------------------------------------------- */

uint32_t workers_awake(const weft_pool *pool) {
    struct park_view view = park_look(&pool->park);
    uint32_t asleep = view.parked + view.polling;
    uint32_t workers = load_rlx(&pool->workers);
    return workers > asleep ? workers - asleep : 0;
}

bool workers_leave_room(const weft_pool *pool) {
    return workers_awake(pool) < load_rlx(&pool->cpus_allowed) ||
           load_rlx(&pool->outside_runs); /* the caller is among the awake */
}

/* ---- resting ------------------------------------------------------------------------------------------------------ */

/* Until when a resting thread sleeps (ns); 0: no end. If no worker is awake, the watch ends when the next look is due: then the
 * first worker that has work looks, and starts the watch anew. */
static uint64_t watch_until(const struct weft_worker *seat) {
    const weft_pool *pool = seat->pool;
    uint64_t due = load_rlx(&pool->fit_due), now = os_ticks();
    if (due == UINT64_MAX || seat->index != load_rlx(&pool->workers)) return 0;
    if (workers_awake(pool) > 0) return os_now_ns() + FIT_NS;
    return due > now ? os_now_ns() + (due - now) * 1000 / pool->ticks_per_us + 1 : 0;
}

NOINLINE bool fit_spare_is_wanted(const struct weft_worker *seat) {
    uint32_t first = seat->pool->workers_max;
    return seat->index >= first && seat->index - first < pool_spares_wanted(seat->pool);
}
/* The first surplus worker also counts the CPUs, for workers whose tasks take long. */
void fit_rest(struct weft_worker *seat) {
    os_word *event = &seat->pool->park.slots[seat->index].event;
    if (UNLIKELY(seat->pool->has_tokens)) (void)tokens_leave();
    for (;;) {
        uint32_t seen = load_acq(U4, event);
        if (fit_is_wanted(seat) || load_rlx(&seat->pool->exits)) return;
        uint64_t until_ns = watch_until(seat);
        os_wait(event, seen, until_ns);
        if (until_ns != 0 && os_now_ns() >= until_ns && workers_awake(seat->pool) > 0) fit_look(seat->pool);
    }
}

/* ---- by hand ------------------------------------------------------------------------------------------------------ */

/* A worker looks before its next task. */
static int follow_again(weft_pool *pool) {
    os_lock(&pool->lock);
    pool->follows = true;
    store_rlx(&pool->fit_due, 0);
    os_unlock(&pool->lock);
    call_watcher(pool);
    return WEFT_OK;
}

int weft_pool_resize(weft_pool *pool, unsigned workers) {
    if (pool == NULL || workers > pool->workers_max || (workers == 0 && !pool->is_fitted)) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK;
    if (workers == 0) return follow_again(pool);
    return set_workers(pool, workers, BY_HAND) ? WEFT_OK : WEFT_EAGAIN;
}
