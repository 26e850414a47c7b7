/* jobs.h: what the hooks share: a library's call for n jobs, on a weft pool.
 *
 * Each thread that takes part has a slot, a number below `slots` that no other thread has meanwhile, and takes the next job
 * that no thread has taken. So jobs start in rising order, a job may wait for lower ones but not for higher ones, and never
 * more than `slots` run at once. The calling thread has slot 0 and needs no other thread to come. The others are tasks, not
 * a weft_for: weft learns how long a loop body's calls take, and here one body would run different libraries' jobs. */
#ifndef WEFT_HOOKS_JOBS_H
#define WEFT_HOOKS_JOBS_H

#include <weft.h>

typedef struct hook_jobs {
    void (*run)(const struct hook_jobs *jobs, size_t index, unsigned slot);
    size_t count;
    size_t next; /* the lowest job that no thread has taken; may exceed count */
} hook_jobs;

typedef struct hook_slot {
    hook_jobs *jobs;
    unsigned slot;
} hook_slot;

/* One thread's share; the payload is a hook_slot. */
static inline int hook_take(void *payload, weft_worker *self) {
    const hook_slot *mine = (const hook_slot *)payload;
    hook_jobs *jobs = mine->jobs;
    (void)self;
    for (size_t i; (i = __atomic_fetch_add(&jobs->next, 1, __ATOMIC_RELAXED)) < jobs->count;) jobs->run(jobs, i, mine->slot);
    return 0;
}

/* false for an ordered pool: there a thread that waits may be needed to run what it waits for. */
static inline int hook_is_shared(const weft_pool *pool) {
    weft_config config;
    weft_config_init(&config);
    return weft_pool_config(pool, &config) == WEFT_OK && !(config.flags & WEFT_POOL_ORDERED);
}

/* Runs every job once, on at most `slots` threads including the calling one, and returns when all have ended. If the pool
 * has no thread to give (a forked child has its parent's pool; no memory; an ordered pool), they run here, one after the
 * other. */
static inline void hook_run_on(weft_pool *pool, hook_jobs *jobs, size_t slots) {
    weft_group group = WEFT_GROUP_INIT;
    hook_slot slot = {jobs, 0};
    jobs->next = 0;
    if (slots > jobs->count) slots = jobs->count;
    if (slots > 1 && hook_is_shared(pool))
        while (++slot.slot < slots && weft_submit(pool, &group, hook_take, &slot, sizeof slot) == WEFT_OK) {}
    slot.slot = 0;
    (void)hook_take(&slot, NULL);
    (void)weft_group_wait(pool, &group); /* helps, so that a task that no worker has taken ends at once */
}

/* As hook_run_on, but on no more threads than the pool has workers. */
static inline void hook_run(weft_pool *pool, hook_jobs *jobs, size_t slots) {
    const size_t workers = weft_pool_workers(pool);
    hook_run_on(pool, jobs, slots < workers ? slots : workers);
}

#endif
