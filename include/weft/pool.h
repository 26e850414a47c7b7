/* weft/pool.h: pools: configuration, life, the process's own pool. Part of weft.h, which is what to include.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_POOL_H
#define WEFT_API_POOL_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

typedef struct weft_pool weft_pool;     /* worker threads, lanes and groups; opaque */
typedef struct weft_stuck weft_stuck;   /* a task that runs too long: see the watchdog below */
typedef struct weft_worker weft_worker; /* a thread's seat in one pool; opaque, passed to each task */

/* A task. `payload` is the task's own copy, aligned to 16, writable, valid until the function returns; NULL when the task
 * was submitted with payload NULL. `self` is the worker that runs it. Returns 0, or an error that the group's wait will
 * report (use positive numbers to tell yours from weft's). No exception or longjmp may leave it. pthread_cancel does not
 * concern workers; where a thread ends inside a task nevertheless, the process ends with a message. */
typedef int (*weft_fn)(void *payload, weft_worker *self);

/* Receives the payload of a task that will never run (cancelled, or queued when the pool was aborted), once for each. A task
 * submitted with payload NULL gives (NULL, 0). The payload's memory goes when it returns. */
typedef void (*weft_clean_fn)(void *payload, size_t size, void *context);

/* Payloads up to this many bytes are stored in the queue; larger ones cost one allocation. */
#define WEFT_INLINE_MAX 2032u
#define WEFT_PAYLOAD_MAX (UINT32_C(1) << 30) /* the largest payload */
/* The most workers one pool can have, and the most threads: workers, spares and those from outside that use it at once. */
#define WEFT_WORKERS_MAX 512u
#define WEFT_THREADS_MAX 4096u

/* What weft_submit does when `queue_max` tasks are waiting to start. */
enum weft_full {
    WEFT_FULL_BLOCK = 0, /* wait until one has started (a task of this pool runs its new task inline instead) */
    WEFT_FULL_RUN = 1,   /* run the new task on the calling thread before returning */
    WEFT_FULL_ERROR = 2  /* return WEFT_EFULL; nothing was queued */
};

/* weft_config.flags */
/* A submitter's tasks start in the order of submission, whatever their groups; waits do not help. */
#define WEFT_POOL_ORDERED 1u
#define WEFT_POOL_NO_HELP 2u /* only the pool's own threads run tasks: no waiting thread does */
/* Workers leave their affinity alone. Else one with tasks under 200 us that was woken on its waker's own CPU, though another
 * was free, sleeps with that CPU taken out of its affinity for a while; tasks always see the affinity whole. */
#define WEFT_POOL_NO_PLACING 4u
#define WEFT_POOL_BIND 8u /* worker i keeps to the i-th of the pool's CPUs, counted round; spares have them all */
/* The pool's memory, and its workers' and spares' whole stacks (stack_size), are there from the beginning and stay; so is
 * what it grows by, from that moment on. Timelines are part of it, payloads over WEFT_INLINE_MAX and other memory not. */
#define WEFT_POOL_LOCK 16u

/* weft_config.policy: how the system schedules workers and spares. Threads that their tasks make are ordinary ones. */
enum weft_policy {
    WEFT_POLICY_INHERIT = 0, /* as the thread that makes the pool; spares: that needs them */
    WEFT_POLICY_FIFO = 1,
    WEFT_POLICY_RR = 2,
    WEFT_POLICY_DEADLINE = 3
};

#define WEFT_SPIN_NONE (-1)  /* `spin_ns` of a pool whose workers park at once */
#define WEFT_SLICE_NONE (-1) /* `slice_ns` of a pool that leaves time slices alone */

/* Everything zero means the default. Set struct_size, or start from weft_config_init. Strings are copied by create. */
typedef struct weft_config {
    size_t struct_size; /* sizeof(weft_config); a newer version's larger one must be all zero beyond this */
    uint32_t workers;   /* threads; 0: as many as weft_cpu_count says, now and, mostly, as that changes (weft_pool_resize) */
    uint32_t spares;    /* threads at most that stand in for blocked ones (weft_block_begin); 0: as many as workers */
    const char *name;   /* prefix of the threads' names, "weft" when NULL; cut to 11 characters */
    const char *cpus;   /* CPUs of the workers, as in "0-3,8"; NULL: the creator's affinity */
    size_t stack_size;  /* of each worker, bytes; 0: the system's default; at least 16384 */
    /* How long an idle worker looks for work before it parks, and a wait for its end, at most 10^9; WEFT_SPIN_NONE: not at
     * all; 0: half as long again as the pool's own wakes take, at most 50000, less where it looks in vain
     * (weft_pool_wake_costs). None looks while more are awake than there are CPUs, or on one CPU for all (`cpus` NULL). */
    int64_t spin_ns;
    uint32_t flags;                                  /* WEFT_POOL_ORDERED, _NO_HELP, _NO_PLACING, _BIND, _LOCK */
    uint32_t full;                                   /* enum weft_full, used when queue_max is set */
    uint64_t queue_max;                              /* tasks that may wait to start; 0: no bound */
    void (*start)(weft_worker *self, void *context); /* on each worker and spare, before its first task; or NULL */
    void (*stop)(weft_worker *self, void *context);  /* on each worker and spare, after its last task; or NULL */
    void (*data_free)(void *data); /* for each *weft_worker_data that is not NULL, in destroy, after every stop hook */
    weft_clean_fn clean;           /* payloads of cancelled tasks; or NULL */
    void *context;                 /* passed to start, stop, clean and watchdog */
    /* What the pool does, to be seen: see the end of this file. A file that took not all of it is named on stderr. */
    const char *stats; /* file to which destroy adds the counters, as weft_stats_print; or NULL */
    const char *trace; /* file that is a timeline after destroy, recorded from create on; or NULL */
    /* Events kept of each thread, 32 bytes each; 0: 65536; rounded up to a power of two, at most 2^24. */
    size_t trace_events;
    uint64_t watchdog_ns; /* a thread of its own names tasks that run longer, again after 2, 4, 8 times as long; 0: none */
    void (*watchdog)(const weft_stuck *stuck, void *context); /* is told, on that thread; NULL: a line on stderr */
    /* How much of its time each worker may spend awake ahead of work that recurs, or as weft_pool_expect asked, percent, at
     * most 100; 0: 12, but none where spin_ns is WEFT_SPIN_NONE; WEFT_SPIN_NONE: none. None where there is one CPU. */
    int32_t expect_percent;
    uint32_t background_max; /* tasks of WEFT_GROUP_BACKGROUND groups at once, at most; 0: half as many as workers, or 1 */
    /* Real time. What the system refuses (without CAP_SYS_NICE, RLIMIT_RTPRIO or RLIMIT_MEMLOCK, mostly), here, of
     * WEFT_POOL_BIND and of WEFT_POOL_LOCK, the pool goes without, and weft_pool_real_time tells. A real-time worker's spins
     * are over for a period when they come to an eighth of what the system lets such threads run (sched_rt_runtime_us in
     * sched_rt_period_us; runtime_ns in period_ns): of no stretch of that length does it spin away more than three
     * eighths. */
    uint32_t policy;   /* enum weft_policy */
    uint32_t priority; /* WEFT_POLICY_FIFO, WEFT_POLICY_RR: 1 to 99; else 0 */
    /* WEFT_POLICY_DEADLINE, for each worker: runtime <= deadline <= period; deadline 0: the period. Neither `cpus` nor
     * WEFT_POOL_BIND go with it, nor does weft slot workers then: the kernel admits no such thread with fewer than all
     * CPUs. */
    uint64_t runtime_ns, deadline_ns, period_ns;
    const char *refused; /* by weft_pool_config: what the system refused at the start, or NULL; ignored by create */
    /* Time slice of workers and spares, 100000 to 100000000 ns: who wakes with a short one gets the CPU from another
     * program's busy thread at once. 0: chosen from what tasks take, never longer than it was. Tasks of
     * WEFT_GROUP_BACKGROUND run with a long one. WEFT_SLICE_NONE: left alone, as with another policy than
     * WEFT_POLICY_INHERIT. Threads and processes that tasks make inherit it. Linux before 6.12 has none: weft_pool_real_time
     * tells. */
    int64_t slice_ns;
} weft_config;

/* Sets every field to its default and struct_size. NULL: WEFT_EINVAL. */
static inline int weft_config_init(weft_config *config) {
    if (!config) return WEFT_EINVAL;
    __builtin_memset(config, 0, sizeof *config);
    config->struct_size = sizeof *config; /* the caller's, not the library's */
    return WEFT_OK;
}

/* Overrides fields from WEFT_WORKERS, WEFT_SPARES, WEFT_CPUS, WEFT_SPIN_NS, WEFT_STACK_SIZE, WEFT_QUEUE_MAX, WEFT_STATS,
 * WEFT_TRACE, WEFT_TRACE_EVENTS, WEFT_WATCHDOG_NS, WEFT_EXPECT_PERCENT, WEFT_BACKGROUND_MAX, WEFT_SLICE_NS, WEFT_POLICY
 * ("fifo:10", "rr:10", "deadline:RUNTIME:DEADLINE:PERIOD" in ns, "inherit"), in set-user-ID programs from none. A value that
 * does not parse: WEFT_EINVAL, *config as before. Texts point into the environment. No other thread may change that
 * meanwhile. */
WEFT_API int weft_config_from_env(weft_config *config);
/* What makes weft_pool_create or weft_config_from_env return WEFT_EINVAL, but for files and absent CPUs: the first field
 * of *config (NULL: the defaults) that is wrong, or else the first variable: "stack_size", "WEFT_CPUS". NULL: nothing. */
WEFT_API const char *weft_config_wrong(const weft_config *config);

/* Writes a configuration as text, "workers=2 spares=2 ..." on one line, like snprintf: at most `size` bytes with the ending
 * zero; returns the length it would have without a limit, or WEFT_EINVAL for NULL config, or for NULL text with a size. */
WEFT_API int weft_config_format(const weft_config *config, char *text, size_t size);

/* The CPUs a pool with workers = 0 would take now: min(affinity, cgroup v1/v2 quota of all ancestors, rounded up). >= 1. */
WEFT_API unsigned weft_cpu_count(void);

/* Creates a pool and starts its workers. `config` NULL: defaults. The caller owns *pool and ends it with weft_pool_destroy
 * or weft_pool_abort. Returns WEFT_OK; or, with nothing created and *pool NULL, WEFT_EINVAL (also: a file of `config` cannot
 * be written, or no CPU of its list is there), WEFT_ENOMEM, WEFT_EAGAIN when not one thread could be started. When only some
 * could, the pool runs with those: weft_pool_workers tells. Blocks until every worker has run its start hook. */
WEFT_API int weft_pool_create(weft_pool **pool, const weft_config *config);

/* Runs what is queued, and what those tasks submit, then ends the workers, calls data_free, frees the pool, sets *pool NULL.
 * WEFT_EINVAL for NULL or an already NULL *pool; WEFT_EDEADLK from a task of this pool (nothing happens); WEFT_EFORK in a
 * forked child, where the pool's memory is released without touching the parent's threads. From its start on, weft_submit
 * from outside returns WEFT_ESHUTDOWN. A submission whose task led to the call may still be under way in its thread: destroy
 * waits for it. No other call from outside may be under way when destroy returns, or follow. Blocks. */
WEFT_API int weft_pool_destroy(weft_pool **pool);

/* As destroy, but tasks that have not started never run: each payload goes to `clean` (may be NULL) once, with `context`, on
 * the calling thread or a worker. Tasks already running finish. */
WEFT_API int weft_pool_abort(weft_pool **pool, weft_clean_fn clean, void *context);

/* The process's own pool, for libraries that would else each bring threads: one for all callers, made at the first call with
 * the defaults and what weft_config_from_env finds, sized to the CPUs and the quota, stacks of 1 MiB at least. Each call is
 * a reference, and weft_pool_destroy gives it back: it sets *pool NULL and returns WEFT_OK at once, from a task too; the
 * last one ends the pool as usual. Wait for what was submitted before giving a reference back. weft_pool_abort on it returns
 * WEFT_EINVAL and does nothing. A forked child gets a pool of its own at its first call. Returns what weft_pool_create does,
 * and WEFT_EINVAL for an environment that does not parse. */
WEFT_API int weft_pool_default(weft_pool **pool);

/* Fills *config up to its struct_size (weft_config_init sets it) with the configuration in force, every default replaced by
 * its value. Strings belong to the pool. WEFT_OK, or WEFT_EINVAL for NULL or a struct_size that cannot be one. */
WEFT_API int weft_pool_config(const weft_pool *pool, weft_config *config);

/* What the system has refused of a pool's real-time wishes so far; all zero: nothing, or nothing was wished for. */
typedef struct weft_real_time {
    size_t struct_size;      /* set by the caller to sizeof(weft_real_time) */
    uint32_t policy_refused; /* workers and spares that run without the policy */
    int32_t policy_errno;    /* why the last of them does: EPERM, no right to it; EBUSY, too many of WEFT_POLICY_DEADLINE */
    uint32_t bind_refused;   /* workers that may use more than their CPU */
    int32_t bind_errno;      /* EINVAL also: the system does not tell which CPUs there are */
    int32_t lock_errno;      /* why the last of unlocked_bytes are: ENOMEM or EPERM, RLIMIT_MEMLOCK */
    uint32_t zero;           /* 0 */
    uint64_t locked_bytes;   /* by WEFT_POOL_LOCK */
    uint64_t unlocked_bytes; /* there, but may be paged out */
    uint32_t slice_refused;  /* workers and spares that could not set their time slice, also by default */
    int32_t slice_errno;     /* why the last of them could not: EOPNOTSUPP, Linux before 6.12; EPERM or ENOSYS, a sandbox */
} weft_real_time;

/* Fills *outcome up to its struct_size. Complete for workers when weft_pool_create has returned. WEFT_OK, WEFT_EINVAL. */
WEFT_API int weft_pool_real_time(const weft_pool *pool, weft_real_time *outcome);

/* Worker threads that run tasks (neither spares nor those that rest); 0 for NULL. */
WEFT_API unsigned weft_pool_workers(const weft_pool *pool);

/* From now on so many workers run tasks, at most as many as weft_config.workers said, or, where that was 0, as the machine
 * had CPUs. Those beyond finish their tasks and rest; their threads stay, with what `start` has made. Such a pool otherwise
 * follows the affinity of its workers and the cgroup's quota by itself, within about half a second of work (not with
 * WEFT_POOL_BIND or _LOCK, or a real-time policy); this ends it, and `workers` 0 begins it anew. Any thread, not after
 * destroy has begun. WEFT_OK; WEFT_EAGAIN: fewer, for not as many threads could be started; WEFT_EINVAL: NULL, too many, or
 * 0 for a pool that does not follow; WEFT_EFORK. */
WEFT_API int weft_pool_resize(weft_pool *pool, unsigned workers);

/* "I need `workers` workers at `when_ns`" (CLOCK_MONOTONIC): they get up shortly before, on their own clocks, and look for
 * work until 200 us after, if they have nothing else to do. Wakes those asleep for a moment now: call it when time does not
 * matter. One moment at a time: the next call replaces it, when_ns 0 takes it back, one that has passed is ignored. Workers
 * learn by themselves when bursts recur. Any thread. WEFT_OK; WEFT_EINVAL (NULL pool, workers 0); WEFT_EFORK. */
WEFT_API int weft_pool_expect(weft_pool *pool, uint32_t workers, uint64_t when_ns);

#ifdef __cplusplus
}
#endif
#endif
