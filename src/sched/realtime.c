/* realtime.c: see realtime.h.
 *
 * Each worker asks for its policy and its CPU itself, before its start hook, and locks its stack. What the system refuses is
 * noted, and the worker does without it. Memory comes from the pool's store, which locks what it allocates.
 *
 * The system takes the CPU from real-time threads that have run for sched_rt_runtime_us in a sched_rt_period_us, and from a
 * thread of WEFT_POLICY_DEADLINE that has run for its runtime, until the period ends. A worker that had spent that time spinning
 * would be late with its next task. So its spins are counted (spin_ticks) in windows of one period, and when they reach a part
 * (an eighth) of what it may run, it does not spin again in that window. No single spin is much longer than that part. So in any
 * stretch of one period it spins for at most three parts: the last spin of one window and all of the next. If the policy is
 * refused to all workers, the pool spins like an ordinary one. */
#include "sched/realtime.h"

NOINLINE uint64_t realtime_spin_left_slow(struct weft_worker *seat) {
    uint64_t now = os_ticks();
    uint64_t spun = load_rlx(&seat->spin_ticks);
    if (now - seat->spin_window >= load_rlx(&seat->pool->realtime.window_ticks)) {
        seat->spin_window = now;
        seat->spin_before = spun;
    }
    uint64_t share = load_rlx(&seat->pool->realtime.share_ticks);
    return share - min_u64(spun - seat->spin_before, share);
}

/* ---- what a thread asks for --------------------------------------------------------------------------------------- */

static void bind(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    if ((pool->config.flags & WEFT_POOL_BIND) == 0) return;
    bool is_spare = seat->index >= pool->workers_max;
    if (is_spare) { /* it has the one CPU of the worker that started it, unless that was refused */
        if (os_cpuset_count(&pool->cpus) > 0) (void)os_cpuset_apply(&pool->cpus);
        return;
    }
    int error = os_cpu_bind(os_cpuset_nth(&pool->cpus, seat->index));
    if (error == 0) return;
    store_rlx(&pool->realtime.bind_error, error);
    add_rlx(&pool->realtime.bind_refused, 1);
}

static void apply_policy(weft_pool *pool) {
    const weft_config *config = &pool->config;
    if (config->policy == WEFT_POLICY_INHERIT) return;
    int error = os_policy_apply(&(os_policy){.kind = (enum os_policy_kind)config->policy,
                                             .priority = config->priority,
                                             .runtime_ns = config->runtime_ns,
                                             .deadline_ns = config->deadline_ns,
                                             .period_ns = config->period_ns});
    if (error == 0) return;
    store_rlx(&pool->realtime.policy_error, error);
    add_rlx(&pool->realtime.policy_refused, 1);
}

static void lock_stack(weft_pool *pool) {
    void *lowest = NULL;
    size_t bytes = pool->config.stack_size;
    if (pool->store.locks && !os_stack(&lowest, &bytes)) lowest = NULL;
    store_lock(&pool->store, lowest, bytes);
}

void realtime_begin(struct weft_worker *seat) {
    bind(seat);
    lock_stack(seat->pool);
    apply_policy(seat->pool);
}

/* The C library may keep the stack for another thread. */
void realtime_end(struct weft_worker *seat) {
    void *lowest;
    size_t bytes;
    if (seat->pool->store.locks && os_stack(&lowest, &bytes)) store_unlock(&seat->pool->store, lowest, bytes);
}
