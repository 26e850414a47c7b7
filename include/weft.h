/* weft: short jobs, run now.
 *
 * A pool of worker threads, tasks with their payload stored in the queue itself, and groups to wait for them.
 *
 *     weft_pool *pool;
 *     weft_group group = WEFT_GROUP_INIT;
 *     if (weft_pool_create(&pool, NULL) != WEFT_OK) ...
 *     weft_submit(pool, &group, fn, &payload, sizeof payload);
 *     weft_group_wait(pool, &group);
 *     weft_pool_destroy(&pool);
 *
 * Every function that returns int returns WEFT_OK (0) or one of the negative WEFT_E* codes below, except that a wait returns
 * the group's own error when a task failed. Every function may be called from any thread, and none in a signal handler,
 * unless its comment says otherwise; none is a cancellation point. Sizes are in bytes; times say their unit in their name.
 * How to see what a pool does stands at the end. The environment is read where that is said; WEFT_FENCE=full (no
 * membarrier) by the first pool.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#if defined(WEFT_STATIC) /* what includes this links libweft.a, and does not export it: docs/embedding.md */
#define WEFT_API __attribute__((visibility("hidden")))
#else
#define WEFT_API __attribute__((visibility("default")))
#endif
#if defined(WEFT_PREFIX) /* what all its functions' names begin with: see there */
#include <weft_prefix.h>
#endif

/* ---- results ------------------------------------------------------------------------------------------------------ */

/* One list for the codes and their texts: name, value, text. */
#define WEFT_ERROR_LIST(X)                                                                                                  \
    X(WEFT_OK, 0, "success")                                                                                                \
    X(WEFT_EINVAL, -1, "an argument is NULL, zero or out of range")                                                         \
    X(WEFT_ENOMEM, -2, "out of memory")                                                                                     \
    X(WEFT_EAGAIN, -3, "the system or the pool has no thread left to give")                                                 \
    X(WEFT_ESHUTDOWN, -4, "the pool is being destroyed")                                                                    \
    X(WEFT_EDEADLK, -5, "the call would wait for its own caller")                                                           \
    X(WEFT_EFORK, -6, "the pool belongs to the parent process")                                                             \
    X(WEFT_ETIMEDOUT, -7, "the deadline passed")                                                                            \
    X(WEFT_EFULL, -8, "the bounded queue is full")                                                                          \
    X(WEFT_ECANCELED, -9, "the group was cancelled")                                                                        \
    X(WEFT_EBUSY, -10, "it is in use: the graph runs, or other threads have heaps")                                         \
    X(WEFT_ECYCLE, -11, "a node would run before itself")                                                                   \
    X(WEFT_ELATE, -12, "the group's deadline passed before its end")

enum weft_error {
#define WEFT_ERROR_ENUM(name, value, text) name = (value),
    WEFT_ERROR_LIST(WEFT_ERROR_ENUM)
#undef WEFT_ERROR_ENUM
};

/* The text of a WEFT_* code; a fixed text for any other number. Never NULL; static storage. */
WEFT_API const char *weft_strerror(int error);
WEFT_API const char *weft_version(void); /* the library's, as "major.minor.patch"; static storage */

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

#define WEFT_SPIN_NONE (-1) /* `spin_ns` of a pool whose workers park at once */

/* Everything zero means the default. Set struct_size, or start from weft_config_init. Strings are copied by create. */
typedef struct weft_config {
    size_t struct_size; /* sizeof(weft_config); a newer version's larger one must be all zero beyond this */
    uint32_t workers;   /* threads; 0: min(CPUs this thread may use, the cgroup's CPU quota rounded up) */
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
} weft_config;

/* Sets every field to its default and struct_size. NULL: WEFT_EINVAL. */
static inline int weft_config_init(weft_config *config) {
    if (!config) return WEFT_EINVAL;
    __builtin_memset(config, 0, sizeof *config);
    config->struct_size = sizeof *config; /* the caller's, not the library's */
    return WEFT_OK;
}

/* Overrides fields from WEFT_WORKERS, WEFT_SPARES, WEFT_CPUS, WEFT_SPIN_NS, WEFT_STACK_SIZE, WEFT_QUEUE_MAX, WEFT_STATS,
 * WEFT_TRACE, WEFT_TRACE_EVENTS, WEFT_WATCHDOG_NS, WEFT_EXPECT_PERCENT, WEFT_BACKGROUND_MAX, WEFT_POLICY ("fifo:10",
 * "rr:10", "deadline:RUNTIME:DEADLINE:PERIOD" in ns, "inherit"), in set-user-ID programs from none. A value that does not
 * parse: WEFT_EINVAL, *config as before. Texts point into the environment. No other thread may change that meanwhile. */
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
} weft_real_time;

/* Fills *outcome up to its struct_size. Complete for workers when weft_pool_create has returned. WEFT_OK, WEFT_EINVAL. */
WEFT_API int weft_pool_real_time(const weft_pool *pool, weft_real_time *outcome);

/* Worker threads running (spares not counted); 0 for NULL. */
WEFT_API unsigned weft_pool_workers(const weft_pool *pool);

/* "I need `workers` workers at `when_ns`" (CLOCK_MONOTONIC): they get up shortly before, on their own clocks, and look for
 * work until 200 us after, if they have nothing else to do. Wakes those asleep for a moment now: call it when time does not
 * matter. One moment at a time: the next call replaces it, when_ns 0 takes it back, one that has passed is ignored. Workers
 * learn by themselves when bursts recur. Any thread. WEFT_OK; WEFT_EINVAL (NULL pool, workers 0); WEFT_EFORK. */
WEFT_API int weft_pool_expect(weft_pool *pool, uint32_t workers, uint64_t when_ns);

/* ---- tasks and groups --------------------------------------------------------------------------------------------- */

/* A set of tasks to wait for. Lives in the caller's memory; set it to WEFT_GROUP_INIT. No thread of weft touches it once
 * every wait on it has returned, so it may then be reused, with any pool, or freed. From its first task until then it is one
 * pool's: calls with another return WEFT_EINVAL and do nothing, also when its own was destroyed; WEFT_GROUP_INIT makes it
 * new then. The same goes for a copy of one that has ended: do not copy one that has tasks. */
typedef struct weft_group {
    uint64_t id;    /* weft's */
    uint32_t flags; /* WEFT_GROUP_CANCEL_ON_ERROR, _DROP_LATE, _URGENT or _BACKGROUND; set before the first submit */
    uint32_t zero;  /* must be 0 */
} weft_group;

#define WEFT_GROUP_INIT                                                                                                     \
    { 0, 0, 0 }

/* weft_group.flags: after a task failed, later submissions do not run (earlier do): refused, or payloads go to `clean`. */
#define WEFT_GROUP_CANCEL_ON_ERROR 1u
/* Workers start its tasks before any others, as soon as they have finished the task, or the loop, that they are in. */
#define WEFT_GROUP_URGENT 2u
/* For long-running tasks: workers start them when there is nothing else to do, weft_config.background_max at once at most.
 * Where these would leave no worker to others, a spare stands in. Nobody helps with their loops and forked calls. A thread
 * that waits for the group runs its tasks beyond that number. A task inside weft_block_begin does not count. */
#define WEFT_GROUP_BACKGROUND 4u
/* A worker that comes to one of its tasks after the deadline (weft_group_deadline) cancels the group, as weft_group_cancel
 * does. */
#define WEFT_GROUP_DROP_LATE 8u

/* Queues fn with a copy of `size` bytes at `payload`. `group` NULL is the pool's own group. Payload NULL: the task gets NULL
 * and `size` is ignored; payload not NULL with size 0: the task gets a pointer it must not read. A group that is first
 * submitted to inside a task lies below that task's group, until that one ends: waiting for the upper one helps it.
 * What the caller wrote before is visible to the task. A submitter's tasks of one group start in order.
 * Returns WEFT_OK; WEFT_EINVAL (NULL pool or fn, size over WEFT_PAYLOAD_MAX); WEFT_ENOMEM; WEFT_ESHUTDOWN; WEFT_EFULL;
 * WEFT_EFORK; WEFT_EAGAIN (WEFT_THREADS_MAX threads use this pool); nothing is queued on error. WEFT_EINVAL also for flags
 * that are not known, both of WEFT_GROUP_URGENT and WEFT_GROUP_BACKGROUND, and either in an ordered pool. WEFT_ECANCELED:
 * the group is cancelled, the payload stays the caller's. Does not block, unless bounded with WEFT_FULL_BLOCK; allocates
 * only when the queue has to grow or size > WEFT_INLINE_MAX. */
WEFT_API int weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

/* weft_submit into the group of the task that `self` runs, so that this group, and with it the job that its first task was,
 * is unfinished until the children and their children are:
 *
 *     int decode(void *payload, weft_worker *self) {
 *         for each slice: weft_submit_child(self, decode_slice, &slice, sizeof slice);
 *         return 0;
 *     }
 *     weft_submit(pool, &job, decode, &frame, sizeof frame);
 *     weft_group_wait(pool, &job);   waits for decode and every slice
 *
 * Only from the thread that runs the task. As weft_submit; WEFT_EINVAL also when `self` is NULL or runs no task. */
WEFT_API int weft_submit_child(weft_worker *self, weft_fn fn, const void *payload, size_t size);

/* The two groups of a continuation; NULL is the pool's own. */
typedef struct weft_after {
    weft_group *after; /* the task starts when this has finished */
    weft_group *group; /* the task counts in this: a wait for it waits for the task, from now on */
} weft_after;

/* weft_submit for a task that starts when all tasks of groups.after have finished, those before this call and those that
 * come before the last of these ends. What they wrote is visible to it. It starts whether they failed, were cancelled or
 * not; a wait for groups.after inside it returns their error at once. Somebody still has to wait for groups.after.
 *
 *     weft_submit_after(pool, (weft_after){&decoded, &shown}, show, &frame, sizeof frame);
 *
 * As weft_submit, which it is when groups.after has finished already. Else it allocates when size is over 112, and takes its
 * place in a bounded queue when it starts. Without memory to queue it then, it runs on the thread that finished
 * groups.after, and its waits for what that thread has begun return WEFT_EDEADLK. WEFT_EDEADLK, nothing queued: the groups
 * are the same, or groups.after cannot finish before groups.group has, for other continuations or a task that sleeps in a
 * wait. Where a task of groups.after waits for groups.group, that wait or this call returns it, whichever comes later. */
WEFT_API int weft_submit_after(weft_pool *pool, weft_after groups, weft_fn fn, const void *payload, size_t size);

/* A payload that is more than its bytes (a C++ callable), for weft_submit_object. */
typedef struct weft_object {
    size_t size; /* at most WEFT_INLINE_MAX */
    weft_fn run; /* also ends the payload; called with `self` NULL, to end it only, when the task will never run */
    void (*move)(void *payload, void *object); /* makes the payload of the caller's object; cannot fail; calls nothing of
                                                  weft. NULL: its bytes are copied */
} weft_object;

/* weft_submit for such a payload: `move` makes it in the queue, on the calling thread, before this returns; on error it was
 * not called. `clean` does not concern it. WEFT_EINVAL also for NULL type, run or object, or a size too large. */
WEFT_API int weft_submit_object(weft_pool *pool, weft_group *group, const weft_object *type, void *object);

/* weft_submit_after for such a payload, of at most 112 bytes, `move` NULL. On error `run` was not called, nor will it be. */
WEFT_API int weft_submit_after_object(weft_pool *pool, weft_after groups, const weft_object *type, void *object);

/* Runs fn at once, on the calling thread, as a task of the group: `payload` is passed as it is, what fn submits lies below
 * the group, others may wait for it, its error is the group's. `group` NULL is the pool's own. Returns WEFT_OK when fn has
 * run; else an error as of weft_submit, and it has not. */
WEFT_API int weft_run(weft_pool *pool, weft_group *group, weft_fn fn, void *payload);

/* How a wait helps, weft_group_wait_until's `help`. */
enum weft_help {
    WEFT_HELP_BELOW = 0, /* runs tasks of this group, of groups below it and of those whose continuations count in either,
                            and helps with what these loop and fork */
    WEFT_HELP_ANY = 1,   /* runs any task of the pool: where tasks wait so, they run on top of each other without a bound */
    WEFT_HELP_NONE = 2   /* runs none */
};

/* Waits until every task submitted to the group has finished; what they wrote is then visible. The waiting thread runs tasks
 * of the group meanwhile (not in an ordered or NO_HELP pool). Several threads may wait. The group can be used again after.
 * `group` NULL waits for the pool's own group. Hold no lock that the group's tasks take: this thread may run them meanwhile.
 * Returns WEFT_OK; WEFT_ELATE (see weft_group_deadline); the error of the failed task that was submitted first (by several
 * threads: the one with the lowest number among its own thread's; numbers are 30 bits for one thread and group);
 * WEFT_ECANCELED when cancelled and no task failed; WEFT_OK also when another thread's wait ended the group before, whatever
 * that wait returned; WEFT_EINVAL for NULL pool; WEFT_EDEADLK from a task of this very group, or of one that the group
 * itself waits for, by continuations or by waits of its tasks (of waits that would keep each other from ending the last one
 * gets it): the group then stays as it is; WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit, the group as it is, in a
 * thread that has yet to use the pool. */
WEFT_API int weft_group_wait(weft_pool *pool, weft_group *group);

/* weft_group_wait with a choice of help and a deadline on CLOCK_MONOTONIC in nanoseconds (0: none). WEFT_ETIMEDOUT: tasks
 * are still unfinished, the group stays as it is and must be waited for again before its memory may go. A task this thread
 * already runs, or a piece of a loop, is finished first, so it may return late.
 * A task that waits without helping (so asked, or in an ordered or NO_HELP pool) counts as inside weft_block_begin. Where no
 * spare is to be had it runs tasks of the group after all, but in an ordered pool returns WEFT_EAGAIN when every thread
 * waits; the group stays as after WEFT_ETIMEDOUT. */
WEFT_API int weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);

/* Tasks of the group that have not started will not: their payloads go to the pool's `clean`. Running ones finish. The group
 * must still be waited for, which ends the cancellation. WEFT_OK, also with nothing queued; WEFT_EINVAL; WEFT_EFORK. */
WEFT_API int weft_group_cancel(weft_pool *pool, weft_group *group);

/* The group, which has tasks, is urgent from now until its wait ends, whatever its flags: also the tasks submitted before.
 * To lift one task alone, give it a group of its own. WEFT_OK, also without tasks: then nothing changes; WEFT_EINVAL (NULL
 * pool, or an ordered one); WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit. */
WEFT_API int weft_group_boost(weft_pool *pool, weft_group *group);

/* The group is to have finished by when_ns (CLOCK_MONOTONIC), and is urgent until its wait ends: of urgent tasks that are
 * there when a worker looks for its next, those with the earliest deadline go first, those without one last. Best before
 * its first submission; one that has none has to be waited for all the same. The next call replaces the moment. If the
 * group finishes later, or WEFT_GROUP_DROP_LATE has dropped tasks, its wait returns WEFT_ELATE, unless a task failed: then
 * that error. weft_stats.tasks_late counts tasks begun, or dropped, after their deadline. WEFT_OK; WEFT_EINVAL (NULL pool,
 * when_ns 0, an ordered pool, flags that are not known); WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit. */
WEFT_API int weft_group_deadline(weft_pool *pool, weft_group *group, uint64_t when_ns);

/* Nonzero when the task that `self` runs belongs to a cancelled group: a long task may look and leave. */
WEFT_API int weft_worker_cancelled(const weft_worker *self);

/* ---- loops -------------------------------------------------------------------------------------------------------- */

/* The indices from `begin` to before `end`: {0, n, 0}, in C also {.end = n}. Of {0, n} compilers warn with -Wextra. */
typedef struct weft_range {
    size_t begin, end;
    size_t grain; /* indices at least in one call of the body (its last call may have fewer); 0: weft chooses */
} weft_range;

/* Runs the indices from `begin` to before `end` in rising order. Returns 0, or an error: then it has stopped at the first
 * index that failed, and no call for higher indices begins any more. `self` is the worker that runs it. */
typedef int (*weft_range_fn)(size_t begin, size_t end, void *context, weft_worker *self);

/* Calls `body` for pieces of the range that cover it exactly, on the calling thread and on workers with nothing else to do,
 * and returns when all calls have returned; what they wrote is then visible. May be called inside tasks and bodies. The body
 * may submit, wait and loop itself; it belongs to the group of the task that called weft_for. Which calls run side by side
 * is weft's choice: none may wait for another's doing.
 * Returns WEFT_OK, also for an empty range; the error of the lowest index that failed: every index below has run, some above
 * may have; WEFT_ECANCELED when the calling task's group was cancelled before every index had begun: those that had have
 * run; WEFT_EINVAL (NULL pool or body, begin > end), WEFT_ESHUTDOWN (from outside, destroy has begun), WEFT_EFORK,
 * WEFT_ENOMEM, WEFT_EAGAIN (as weft_submit): no call was made. In a WEFT_POOL_ORDERED pool the loop starts at
 * once, before queued tasks. In a WEFT_POOL_NO_HELP pool a worker runs the part of a caller from outside, whatever
 * queue_max. */
WEFT_API int weft_for(weft_pool *pool, weft_range range, weft_range_fn body, void *context);

/* As weft_for. What loops cost is learnt, to run short ones on the caller's thread alone, by body, context and size. For a
 * body that runs others' functors `site`, any address, tells better: of the functor's code or type, or of the call. */
WEFT_API int weft_for_site(weft_pool *pool, weft_range range, weft_range_fn body, void *context, const void *site);

/* A range of two dimensions, cut to tiles; those at its far edges may be smaller. */
typedef struct weft_tiles {
    weft_range rows, columns; /* their grains are a tile's height and width; 0: weft chooses, by the range alone */
} weft_tiles;
typedef struct weft_tile {
    size_t row_begin, row_end, column_begin, column_end; /* ends are the first ones not in it */
} weft_tile;

/* Handles one tile, or several side by side as one. Else as a weft_range_fn: tiles count row by row, from the first. */
typedef int (*weft_tile_fn)(const weft_tile *tile, void *context, weft_worker *self);

/* weft_for over the tiles, in that order. WEFT_EINVAL also for more tiles than a size_t can count. */
WEFT_API int weft_for_tiles(weft_pool *pool, weft_tiles tiles, weft_tile_fn body, void *context);

/* A reduction: values of `size` bytes, aligned to 16 wherever weft keeps them. */
typedef struct weft_reduction {
    size_t size;
    /* Writes the value of the indices from `begin` to before `end`, at least one. Returns what a weft_range_fn does. */
    int (*leaf)(size_t begin, size_t end, void *value, void *context, weft_worker *self);
    /* left = left combined with right, whose indices follow left's. */
    void (*combine)(void *left, const void *right, void *context);
    const void *identity; /* the value of an empty range; NULL: zero bytes */
    void *context;        /* passed to both */
} weft_reduction;

/* Reduces the range to one value. The leaves are ranges of range.grain indices (0: as many as make 256 leaves at most), the
 * last may have fewer; they are combined in pairs, pairs of pairs, and so on, in order. So which operands are combined
 * depends on the range alone: the result has the same bits for any number of workers, with floating point, too.
 * Returns as weft_for, *result written with WEFT_OK alone; WEFT_EINVAL also for NULL how, leaf, combine or result, or a size
 * that is 0 or over WEFT_PAYLOAD_MAX; WEFT_ENOMEM: it may allocate when size is over 16. */
WEFT_API int weft_reduce(weft_pool *pool, weft_range range, const weft_reduction *how, void *result);

/* An order of items of `size` bytes: compare is negative, 0 or positive as qsort's. */
typedef struct weft_order {
    size_t size;
    int (*compare)(const void *left, const void *right, void *context);
    void *context;
} weft_order;

/* Sorts `count` items, those that compare equal in the order in which they were. Compares at most count * log2(count) times
 * and a little; the result is the same for any number of workers. `compare` is called on the calling thread and on workers,
 * several at once, perhaps with copies of the items, and not after the return. An order that contradicts itself leaves items
 * twice or not at all, but nothing else is touched.
 * Returns WEFT_OK; WEFT_EINVAL (NULL pool, order or compare, size 0, NULL items with a count, more than memory can hold).
 * The items are as before after WEFT_ENOMEM (it allocates count * size bytes and a little if over 2048) or another error of
 * weft_for; in some order after WEFT_ECANCELED (the calling task's group was cancelled meanwhile) or WEFT_ESHUTDOWN. */
WEFT_API int weft_sort(weft_pool *pool, void *items, size_t count, const weft_order *order);

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

/* Functions with an order between them. Built once, run many times; a run allocates nothing once the pool is warm.
 *
 *     weft_graph *graph;
 *     weft_node decode, left, right;
 *     weft_graph_create(&graph);
 *     weft_graph_add(graph, &decode, decode_fn, frame);  ... left, right ...
 *     weft_graph_edge(graph, decode, left);
 *     weft_graph_edge(graph, decode, right);
 *     weft_graph_build(graph, NULL);
 *     for each frame: weft_graph_run(pool, graph);
 *
 * One thread at a time may change a graph, nobody while it runs (WEFT_EBUSY, nothing changed). It belongs to no pool. */
typedef struct weft_graph weft_graph; /* opaque */
typedef uint64_t weft_node;           /* a node of one graph; 0 is none */

/* An empty graph, which the caller ends with weft_graph_destroy. WEFT_OK; WEFT_EINVAL; WEFT_ENOMEM, *graph NULL. */
WEFT_API int weft_graph_create(weft_graph **graph);

/* Frees the graph and sets *graph NULL. WEFT_EINVAL for NULL or an already NULL *graph; WEFT_EBUSY. */
WEFT_API int weft_graph_destroy(weft_graph **graph);

/* Adds a node, which calls fn with `context` as its payload: the pointer itself, nothing is copied. Nodes have the order of
 * their adding. `node` may be NULL. WEFT_OK; WEFT_EINVAL (NULL graph or fn); WEFT_ENOMEM (or too many nodes); WEFT_EBUSY. */
WEFT_API int weft_graph_add(weft_graph *graph, weft_node *node, weft_fn fn, void *context);

/* `after` starts when `before` has returned, and sees what it wrote. The same edge again changes nothing. WEFT_OK;
 * WEFT_EINVAL (NULL graph, a node that is not this graph's); WEFT_ECYCLE (the same node twice); WEFT_ENOMEM; WEFT_EBUSY. */
WEFT_API int weft_graph_edge(weft_graph *graph, weft_node before, weft_node after);

/* Makes the graph ready to run; needed again after a node or an edge was added. WEFT_OK; WEFT_ECYCLE: nodes wait for one
 * another in a circle, of which *on_cycle (may be NULL) is the first by the nodes' order; WEFT_EINVAL; WEFT_ENOMEM;
 * WEFT_EBUSY. The graph is not ready after an error, but can be added to and built again. */
WEFT_API int weft_graph_build(weft_graph *graph, weft_node *on_cycle);

/* Runs every node once, each after those before it, and returns when all have returned. The waiting thread helps as in
 * weft_group_wait; a task or a node may run another graph. When a node fails (returns another number than 0) the nodes after
 * it, directly or not, do not run; all others do. What a node submits to its own group is waited for by the run, not by the
 * nodes after. Returns WEFT_OK; of the codes of the nodes that failed that of the first by their order; WEFT_ECANCELED when
 * cancelled or the pool is aborted, and no node failed; WEFT_EINVAL (NULL, or not built); WEFT_EBUSY when this graph is
 * running, also in one of its own nodes; and, with nothing run, the errors of weft_submit. */
WEFT_API int weft_graph_run(weft_pool *pool, weft_graph *graph);

/* Nodes that have not started in the run that goes on in `pool` will not run; those running finish, and see
 * weft_worker_cancelled. Without a run nothing happens. From any thread, the graph's nodes included. WEFT_OK; WEFT_EINVAL;
 * WEFT_EFORK. */
WEFT_API int weft_graph_cancel(weft_pool *pool, weft_graph *graph);

/* ---- fork and join ------------------------------------------------------------------------------------------------ */

/* A forked call is one that another thread may run; joining it gives its result. Where nobody is idle, a fork costs a few
 * plain stores and the join calls the function directly: no atomic read-modify-write, no fence, no allocation.
 *
 *     static int fib(weft_fork_slot *here, int n);
 *     WEFT_FORK(fib, int, int)
 *
 *     static int fib(weft_fork_slot *here, int n) {
 *         if (n < 2) return n;
 *         int less = n - 1;
 *         weft_fork_slot *deeper = fib_fork(here, &less);
 *         int other = fib(deeper, n - 2);
 *         return fib_join(here, &less) + other;
 *     }
 *
 *     weft_fork_slot *here;
 *     if (weft_enter(pool, &here) != WEFT_OK) ...
 *     int result = fib(here, 38);
 *     weft_leave(here);
 *
 * A slot is where one fork can be noted. A fork uses up its slot and returns the next, which whatever is called before the
 * join gets as its own `here`; the join is given the slot and the argument that the fork was given. Each fork is joined
 * once, by the thread and in the function that made it, the last one first. Any number may be open at once: without memory
 * for more, joins run further forks by themselves. Forked functions may do all that tasks may, wait and block too. A join
 * whose call another thread has taken runs calls and loops below that one meanwhile (never anything else), then sleeps.
 * In code compiled with WEFT_CHECKED a fork at a slot in use, a join without a fork and one out of order end the
 * process. */

#define WEFT_FORK_BYTES 48u /* of an argument, and of a result; larger ones go by pointer */

typedef struct weft_fork_slot weft_fork_slot;
typedef void (*weft_fork_fn)(weft_fork_slot *here, void *payload); /* the payload holds the argument, then the result */

/* Enters fork-join: *here is the calling thread's first slot, for the calls of this thread until weft_leave. Also inside
 * tasks, bodies of loops and forked functions, there without need: these have a slot already. WEFT_OK; WEFT_EINVAL for
 * NULL, or code compiled for another layout of slots; WEFT_ENOMEM, WEFT_EAGAIN, WEFT_ESHUTDOWN, WEFT_EFORK as weft_submit:
 * *here is NULL. Every WEFT_OK needs a weft_leave: destroy waits for it, and a thread that ends before ends the process. */
static inline int weft_enter(weft_pool *pool, weft_fork_slot **here);

/* Ends what weft_enter began; all forks are joined. On the same thread, the last entered first. NULL: nothing. */
WEFT_API void weft_leave(weft_fork_slot *here);

WEFT_API weft_worker *weft_fork_worker(weft_fork_slot *here); /* the calling thread as a worker, as tasks get it */

/* After a declaration of `result_type name(weft_fork_slot *here, argument_type argument)`, defines the two functions
 *     weft_fork_slot *name_fork(weft_fork_slot *here, argument_type const *argument);  the argument is copied, and kept for the join
 *     result_type name_join(weft_fork_slot *here, argument_type const *argument);  the same pointer, unchanged
 * A structure of more than 16 bytes had better go by pointer, as to any function: passed by value, each call copies it. */
#define WEFT_FORK(name, result_type, argument_type)                                                                         \
    WEFT_FORK_CHECK(result_type)                                                                                            \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, payload);                                                                  \
        result_type result = name(here, argument);                                                                          \
        __builtin_memcpy(payload, &result, sizeof result);                                                                  \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline __attribute__((always_inline, unused))                                                                    \
    result_type name##_join(weft_fork_slot *here, argument_type const *given) {                                             \
        if (__builtin_expect(name##_taken(here, given), 0)) {                                                               \
            result_type result;                                                                                             \
            __builtin_memcpy(&result, here->payload, sizeof result);                                                        \
            return result;                                                                                                  \
        }                                                                                                                   \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, here->payload);                                                            \
        return name(here, argument);                                                                                        \
    }

/* The same for a function that returns nothing. */
#define WEFT_FORK_VOID(name, argument_type)                                                                                 \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, payload);                                                                  \
        name(here, argument);                                                                                               \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) void name##_join(weft_fork_slot *here, argument_type const *given) {         \
        if (__builtin_expect(name##_taken(here, given), 0)) return;                                                         \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, here->payload);                                                            \
        name(here, argument);                                                                                               \
    }

/* What follows is weft's own. It is compiled into programs, so a change is a new layout: weft_enter_layout refuses unknown
 * ones. What the accesses are for stands in the library's fork.c; its schedule explorer puts its own in their place. */
#define WEFT_FORK_LAYOUT 2u

/* clang can be told that a call leaves its caller's registers alone: functions that fork then save none before they know
 * that they will. gcc saves them beside the call. */
#if defined(__clang__) && defined(__x86_64__)
#define WEFT_FORK_KEEPS __attribute__((preserve_most))
#define WEFT_FORK_SLOW static inline __attribute__((always_inline))
#else
#define WEFT_FORK_KEEPS
#define WEFT_FORK_SLOW static __attribute__((noinline, cold, unused))
#endif
#define WEFT_FORK_WORD(type)                                                                                                \
    struct {                                                                                                                \
        type raw;                                                                                                           \
    }

struct weft_fork_slot {
    WEFT_FORK_WORD(weft_fork_fn) fn; /* NULL: free */
    WEFT_FORK_WORD(uint64_t) state;  /* 0: nobody else knows of it */
    unsigned char payload[WEFT_FORK_BYTES];
} __attribute__((aligned(64)));
struct weft_forker {
    void (*slow)(weft_fork_slot *here) WEFT_FORK_KEEPS; /* what forks at other slots call */
    weft_fork_slot *deeper;                             /* their next slot, then */
};
struct weft_fork_chunk {
    WEFT_FORK_WORD(weft_fork_slot *) limit; /* forks at slots below it need not look further */
    struct weft_forker *forker;             /* the thread's */
};

WEFT_API int weft_enter_layout(weft_pool *pool, weft_fork_slot **here, unsigned layout);
WEFT_API int weft_join_slow(weft_fork_slot *here, const void *argument, size_t size) __attribute__((cold));
WEFT_API void weft_fork_misused(int is_join) __attribute__((cold, noreturn));
static inline int weft_enter(weft_pool *pool, weft_fork_slot **here) {
    return weft_enter_layout(pool, here, WEFT_FORK_LAYOUT);
}

#ifndef WEFT_FORK_CHUNK
#define WEFT_FORK_CHUNK 16384u /* slots stand in chunks aligned to this; the first slot of one is its head */
#define weft_store_rel(tag, a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELEASE)
#define weft_store_rlx(a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELAXED)
#define weft_load_rlx(a) __atomic_load_n(&(a)->raw, __ATOMIC_RELAXED)
#define weft_fence_light(tag) __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* Structures are copied as what they are: the compiler writes their members one by one into the payload. Through memory, a
 * processor would wait until each has arrived there: it cannot forward several small stores to one large load. */
#if defined(__cplusplus)
#define WEFT_CAST(type, value) reinterpret_cast<type>(value)
#define WEFT_NULL nullptr
#define WEFT_FORK_CHECK(type) static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");
#define WEFT_FORK_COPY(type, to, from) __builtin_memcpy(to, from, sizeof(type))
#else
#define WEFT_CAST(type, value) ((type)(value))
#define WEFT_NULL NULL
#define WEFT_FORK_CHECK(type)                                                                                               \
    __extension__ _Static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");
#define WEFT_FORK_COPY(type, to, from)                                                                                      \
    do {                                                                                                                    \
        typedef type weft_copied __attribute__((aligned(16))); /* that much the payload has */                              \
        if (sizeof(type) <= 8)                                                                                              \
            __builtin_memcpy(to, from, sizeof(type));                                                                       \
        else                                                                                                                \
            *(weft_copied *)(void *)(to) = *(weft_copied const *)(const void *)(from);                                      \
    } while (0)
#endif

static inline __attribute__((always_inline)) struct weft_fork_chunk *weft_fork_slot_chunk(weft_fork_slot *here) {
    return WEFT_CAST(struct weft_fork_chunk *, WEFT_CAST(uintptr_t, here) / WEFT_FORK_CHUNK * WEFT_FORK_CHUNK);
}
WEFT_FORK_SLOW weft_fork_slot *weft_place_ask(weft_fork_slot *here) {
    struct weft_forker *forker = weft_fork_slot_chunk(here)->forker;
    forker->slow(here);
    return forker->deeper;
}

#if defined(WEFT_CHECKED) && !defined(WEFT_EXPLORE) /* the last slot of a chunk may have refused its fork */
#define WEFT_FORK_EXPECT(is_join, x) ((x) ? (void)0 : weft_fork_misused(is_join))
#define WEFT_FORK_IS_LAST(here) (WEFT_CAST(uintptr_t, (here) + 1) % WEFT_FORK_CHUNK == 0)
#else
#define WEFT_FORK_EXPECT(is_join, x) ((void)0)
#endif

/* The payload has been written. Returns the next slot. */
static inline __attribute__((always_inline)) weft_fork_slot *weft_fork_slot_push(weft_fork_slot *here, weft_fork_fn fn) {
    WEFT_FORK_EXPECT(0, weft_load_rlx(&here->fn) == WEFT_NULL);
    weft_store_rel(J44, &here->fn, fn);
    weft_fence_light(J43);
    if (__builtin_expect(here < weft_load_rlx(&weft_fork_slot_chunk(here)->limit), 1)) return here + 1;
    return weft_place_ask(here);
}

/* 0: the caller runs the call itself, its argument is in the payload. Else it asks weft_join_slow, whose 1 says that it has
 * been run, and the result is in the payload. */
static inline __attribute__((always_inline)) int weft_fork_slot_pop(weft_fork_slot *here) {
    WEFT_FORK_EXPECT(1, WEFT_FORK_IS_LAST(here) || (weft_load_rlx(&here->fn) && !weft_load_rlx(&here[1].fn)));
    weft_store_rlx(&here->fn, WEFT_NULL);
    weft_fence_light(J8);
    return __builtin_expect(weft_load_rlx(&here->state) != 0, 0) ? 1 : 0;
}

#define WEFT_FORK_PUSH(name, argument_type)                                                                                 \
    WEFT_FORK_CHECK(argument_type)                                                                                          \
    static inline __attribute__((always_inline, unused))                                                                    \
    weft_fork_slot *name##_fork(weft_fork_slot *here, argument_type const *argument) {                                      \
        WEFT_FORK_COPY(argument_type, here->payload, argument);                                                             \
        return weft_fork_slot_push(here, name##_forked);                                                                    \
    }                                                                                                                       \
    /* What weft_join_slow is shown must lie in memory all the time: of a structure it gets a copy made late. */            \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) int name##_taken(weft_fork_slot *here, argument_type const *given) {         \
        if (!weft_fork_slot_pop(here)) return 0;                                                                            \
        argument_type copy;                                                                                                 \
        WEFT_FORK_COPY(argument_type, &copy, given);                                                                        \
        return weft_join_slow(here, sizeof copy > 8 ? &copy : given, sizeof copy);                                          \
    }

/* ---- inside a task ------------------------------------------------------------------------------------------------ */

/* A pointer for the thread's own use, kept from task to task; NULL at first, also for a thread from outside that helps: it
 * has run no start hook. Never NULL itself; `self` must be a task's. */
WEFT_API void **weft_worker_data(weft_worker *self);

/* Below WEFT_THREADS_MAX: 0 .. weft_pool_workers - 1 are the workers', spares' and outside threads' follow. */
WEFT_API unsigned weft_worker_index(const weft_worker *self);
WEFT_API weft_pool *weft_worker_pool(const weft_worker *self); /* the worker's */

/* The calling thread as a worker, or spare, of the pool that it belongs to; NULL on every other thread. For functions that
 * block and may be called in tasks without being given `self`. */
WEFT_API weft_worker *weft_worker_here(void);

/* Between begin and end the calling task may block (I/O, a lock, another task's signal): a spare worker stands in, and tasks
 * this worker had claimed go to others. begin and end pair up; nesting counts. WEFT_OK; WEFT_EAGAIN from begin when every
 * spare is in use or none could be started (the section still counts: call end); WEFT_EINVAL for NULL or an unpaired end. */
WEFT_API int weft_block_begin(weft_worker *self);
WEFT_API int weft_block_end(weft_worker *self);

/* ---- the heap ----------------------------------------------------------------------------------------------------- */

/* Memory for payloads, frames and graphs, made on one thread and freed on any other. Every function may be called from any
 * thread, also from destructors of thread-local data and in a child of fork; none sets errno or reads the environment. What
 * was allocated here is freed here, never by free(), nor the other way round. */

/* `size` bytes, not initialised, aligned to 16; size 0 is served as 1. Owned by the caller until weft_free. NULL: out of
 * memory, or size over PTRDIFF_MAX; nothing else happened. */
WEFT_API void *weft_alloc(size_t size);

/* count * size bytes of zeros, as weft_alloc. NULL also when the product overflows. */
WEFT_API void *weft_alloc_zeroed(size_t count, size_t size);

/* As weft_alloc, aligned to `alignment`, a power of two of any size. NULL also when it is not one. */
WEFT_API void *weft_alloc_aligned(size_t alignment, size_t size);

/* Makes the block larger or smaller, in place or elsewhere, keeping the contents up to the lesser size; the alignment is
 * that of weft_alloc. `p` NULL: weft_alloc(size). size 0 leaves a block of the least size. Returns the block, which replaces
 * p; NULL: no memory, and p is as before. */
WEFT_API void *weft_realloc(void *p, size_t size);

WEFT_API void weft_free(void *p); /* ends the life of a block of any thread's; NULL: nothing */

/* weft_free for one who knows what was asked for: `size` as passed to the call that returned p, which was not
 * weft_alloc_aligned (for weft_alloc_zeroed: the product). Saves a look at the block. Another size is undefined. */
WEFT_API void weft_free_sized(void *p, size_t size);

WEFT_API size_t weft_usable_size(const void *p); /* bytes at p that may be used, at least what was asked for; NULL: 0 */

/* Gives every page that holds no block back to the system, at once: the caller's cache, every thread's empty slabs, the
 * depot. Other threads' caches are bounded and stay. Returns the bytes given back. May take milliseconds. */
WEFT_API size_t weft_trim(void);

/* ---- private heaps ------------------------------------------------------------------------------------------------ */

/* A heap of one's own, for a frame, a request, a parse: its blocks end together. Calls that name a heap come from one thread
 * at a time, each after the one before; its blocks may be used and freed by any thread. */
typedef struct weft_arena weft_arena;

/* *heap is the caller's until weft_arena_destroy. WEFT_OK; WEFT_EINVAL for NULL; WEFT_ENOMEM, and *heap is NULL. */
WEFT_API int weft_arena_create(weft_arena **heap);

/* As weft_alloc, from that heap; the block ends with weft_arena_free, with weft_free or with the heap. NULL also for a heap
 * that is NULL or destroyed; that it was destroyed can be told until another one is created. */
WEFT_API void *weft_arena_alloc(weft_arena *heap, size_t size);

/* Frees a block of that heap, whose next allocation may take it. weft_free does so from any thread, but the heap has it
 * back only when it needs memory; weft_free_sized must not be used. weft_realloc moves a block out of the heap if it must
 * move. WEFT_OK, also for p NULL; WEFT_EINVAL: p is not in this heap's memory, or the heap is NULL or destroyed; nothing
 * happened. That p is the beginning of a live block, and of weft's at all, is seen in checked mode alone. */
WEFT_API int weft_arena_free(weft_arena *heap, void *p);

/* Ends the heap and every block that is still live, whoever holds it, and sets *heap to NULL. All use of the blocks must
 * have ended, a weft_free of one, too. The memory is free for the process at once. Costs some ns for each 64 KiB, however
 * many blocks. WEFT_OK; WEFT_EINVAL for NULL or a heap that is NULL or destroyed already. */
WEFT_API int weft_arena_destroy(weft_arena **heap);

/* How the heap works, for experiments and special needs. Everything zero means the default. */
typedef struct weft_heap_config {
    size_t struct_size;    /* sizeof(weft_heap_config), as in weft_config */
    int32_t pool_capacity; /* ready slabs kept per thread and class; 0: adaptive; WEFT_HEAP_NO_POOL: none, scanned for */
    int32_t pool_prefill;  /* slabs made ready at once when none is; 0: adaptive */
    uint32_t remote;       /* enum weft_heap_remote */
    int64_t decay_ms;      /* empty memory goes back to the system after about this long; 0: 500; -1: only by weft_trim */
    uint32_t purge_thread; /* 1: a thread gives memory back, also while all others sleep; not with decay_ms -1 */
    uint32_t checks;       /* 1: every block is checked from now on, until the process ends; for debugging, slow */
} weft_heap_config;
#define WEFT_HEAP_NO_POOL (-1)

/* With checks, a block that is freed twice, was never the heap's, is freed with another size than it has, or was written
 * past its end or after its free is told on standard error and the process aborts. Writes past the end are seen when the
 * block is freed, resized or asked for its size, those after its free when it leaves the quarantine: its thread's last 4096
 * freed blocks, or 4 MiB, none over 1 MiB or of private heaps. weft_usable_size is what was asked for. */

/* Blocks freed by a thread that does not own their slab. */
enum weft_heap_remote {
    WEFT_HEAP_REMOTE_HYBRID = 0, /* kept in its cache and used again; what the cache cannot hold goes home by slab */
    WEFT_HEAP_REMOTE_HOME = 1,   /* sent home as soon as a few have gathered, never used again by this thread */
    WEFT_HEAP_REMOTE_KEEP = 2    /* kept, the cache growing as it must: nothing goes home before the thread ends */
};

/* Applies to the whole process, from each thread's next refill on. WEFT_OK; WEFT_EINVAL: NULL, a number out of range, a
 * later version; WEFT_EBUSY: checks are to begin and another thread has allocated already or there is a private heap, or
 * they are to end, or another thread is in this call just now; WEFT_ENOMEM: for the checks; WEFT_EAGAIN: no purge thread to
 * be had. Nothing changed then. The purge thread ends, and is joined, with the first call that does not ask for it, or with
 * the process or the library; a child of fork has none until it asks. */
WEFT_API int weft_heap_configure(const weft_heap_config *config);

/* What happened since the process started; counted without synchronisation, exact when no thread allocates. A miss is an
 * allocation that found its thread's cache empty; each miss is one refill, served from one source or more. */
typedef struct weft_heap_counts {
    size_t struct_size;      /* set by the caller to sizeof(weft_heap_counts) */
    uint64_t allocs;         /* blocks handed out, of all sizes */
    uint64_t frees;          /* blocks taken back */
    uint64_t hits;           /* allocations served by the thread's cache */
    uint64_t misses;         /* allocations that had to refill it */
    uint64_t from_pool;      /* slabs that refills took: from the warm pool */
    uint64_t from_list;      /* ... from the thread's other slabs with room */
    uint64_t from_lru;       /* ... from the thread's empty slabs */
    uint64_t from_orphans;   /* ... from threads that have ended */
    uint64_t from_depot;     /* ... from the empty slabs of all threads */
    uint64_t from_system;    /* ... from memory never used before, or given back */
    uint64_t prefilled;      /* slabs made ready beyond the one needed */
    uint64_t pushes;         /* slabs put into a warm pool */
    uint64_t tier_drops;     /* slabs that left a warm pool because too little of them was left */
    uint64_t lru_in;         /* slabs emptied and kept by their thread */
    uint64_t lru_out;        /* ... and used again by it */
    uint64_t cold;           /* blocks of memory that was never used before */
    uint64_t refills_timed;  /* refills whose time was taken, one in 16 */
    uint64_t refill_ns;      /* what those took together */
    uint64_t flushes;        /* times a cache overflowed */
    uint64_t remote_frees;   /* blocks sent home to another thread's slab */
    uint64_t remote_sends;   /* messages in which they went */
    uint64_t purges;         /* times pages were given back to the system */
    uint64_t page_faults;    /* of the whole process */
    uint64_t mapped_bytes;   /* address space */
    uint64_t resident_bytes; /* of it, held in memory now */
    uint64_t live_bytes;     /* in blocks handed out and not taken back, rounded up to their classes */
    uint32_t heaps;          /* ever made, of threads and private ones; those that ended are used again */
    uint32_t classes;        /* size classes */
    uint64_t finds_timed;    /* slabs whose finding was timed, those of another refill in 16 */
    uint64_t find_ns;        /* what that took together */
    uint64_t reused;         /* blocks over 3.9 MiB in memory that one freed before had */
    uint64_t kept_bytes;     /* kept for such now: at most 64 MiB, or a quarter of what live ones hold */
    uint64_t from_overflow;  /* refills served without a slab, by what the cache had no room for before */
} weft_heap_counts;

/* Fills *counts up to its struct_size: sums over threads and classes. Reads page states: slow. WEFT_OK, WEFT_EINVAL. */
WEFT_API int weft_heap_stats(weft_heap_counts *counts);

/* The same for one size class, 0 .. classes - 1, and its block size; 0 for what has no class. WEFT_OK or WEFT_EINVAL. */
WEFT_API int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts);

/* The counts, the share of operations that refill and each class in use, as weft_stats_json. WEFT_EINVAL: NULL with a
 * size. */
WEFT_API int weft_heap_json(char *text, size_t size);

/* A piece of the heap: a slab of blocks of one size, or one large block. */
typedef struct weft_heap_area {
    const void *start;
    size_t size;        /* bytes, without what was never used of its address space */
    size_t block_size;  /* bytes of each block */
    size_t blocks;      /* that fit */
    size_t blocks_used; /* handed out, or in some thread's cache */
} weft_heap_area;

/* Calls visit(area, context) for each area that holds blocks until it returns nonzero, and returns that; 0 after the last.
 * What other threads do meanwhile may be seen or missed. visit may allocate and free. WEFT_EINVAL for NULL visit. */
WEFT_API int weft_heap_walk(int (*visit)(const weft_heap_area *area, void *context), void *context);

/* ---- counters ----------------------------------------------------------------------------------------------------- */

/* Bucket i counts wake-ups that took 2^i ns and more, the last one all that took longer. */
#define WEFT_WAKE_BUCKETS 32

/* Sums over all threads since the pool was created. Counted without synchronisation: exact when the pool is quiet. */
typedef struct weft_stats {
    size_t struct_size;                  /* set by the caller to sizeof(weft_stats) */
    uint64_t tasks_run;                  /* task functions called */
    uint64_t tasks_dropped;              /* payloads handed to clean, or dropped without one */
    uint64_t claims;                     /* successful claims, each of one or more tasks */
    uint64_t claims_revoked;             /* claims whose unstarted rest another worker took */
    uint64_t helped;                     /* tasks run by waiting threads */
    uint64_t parks;                      /* times a thread went to sleep */
    uint64_t wakes;                      /* wake-ups sent */
    uint64_t heap_payloads;              /* payloads over WEFT_INLINE_MAX */
    uint64_t queue_bytes;                /* memory of the lanes now */
    uint32_t workers;                    /* worker threads */
    uint32_t spares_started;             /* spare threads ever started */
    uint32_t spares_peak;                /* blocking sections open at once, at most */
    uint32_t lanes;                      /* lanes ever made */
    uint64_t steals;                     /* claims from another worker's lane; not from an outside thread's */
    uint64_t forks_taken;                /* forked calls run for another thread */
    uint64_t loops_helped;               /* times a thread came to help with another's loop */
    uint64_t woken;                      /* sleeps of workers that a wake ended */
    uint64_t spin_ns;                    /* spent looking for work or for the end of a wait, awake */
    uint64_t expect_hits;                /* workers awake ahead of work that came */
    uint64_t expect_misses;              /* ... that did not come */
    uint64_t wake_ns[WEFT_WAKE_BUCKETS]; /* `woken` by how long it took from the wake to running: 2^i ns and more, at i */
    uint32_t threads;                    /* indices for weft_worker_stats: 0 .. threads - 1 */
    uint64_t tasks_late;                 /* begun, or dropped, after their group's deadline */
} weft_stats;

/* Fills *stats up to its struct_size. WEFT_OK or WEFT_EINVAL. */
WEFT_API int weft_pool_stats(const weft_pool *pool, weft_stats *stats);

enum weft_worker_kind { WEFT_NO_THREAD = 0, WEFT_WORKER = 1, WEFT_SPARE = 2, WEFT_OUTSIDE = 3 };

/* One thread's share of them; the names are those of weft_stats. */
typedef struct weft_worker_counts {
    size_t struct_size; /* set by the caller to sizeof(weft_worker_counts) */
    uint32_t index;     /* as weft_worker_index */
    uint32_t kind;      /* enum weft_worker_kind; WEFT_NO_THREAD: nobody has had this index yet, all is 0 */
    uint64_t tasks_run;
    uint64_t tasks_dropped;
    uint64_t claims;
    uint64_t steals;
    uint64_t claims_revoked; /* by this thread from others */
    uint64_t helped;
    uint64_t forks_taken;
    uint64_t loops_helped;
    uint64_t parks;
    uint64_t wakes;
    uint64_t woken;
    uint64_t spin_ns;
    uint64_t expect_hits;
    uint64_t expect_misses;
    uint64_t heap_payloads;
    uint64_t wake_ns[WEFT_WAKE_BUCKETS];
    uint64_t tasks_late;
} weft_worker_counts;

/* Fills *counts up to its struct_size. An outside thread that ends leaves its index, and its counts, to the next. WEFT_OK;
 * WEFT_EINVAL: NULL, or no such index. */
WEFT_API int weft_worker_stats(const weft_pool *pool, unsigned index, weft_worker_counts *counts);

/* The sums and every thread's share as one JSON object, like snprintf: at most `size` bytes with the ending zero; returns
 * the length without a limit, or WEFT_EINVAL for NULL pool, or NULL text with a size. Allocates nothing. */
WEFT_API int weft_stats_json(const weft_pool *pool, char *text, size_t size);

/* Every thread's share as a table for people, written to a file descriptor. Safe in signal handlers. WEFT_OK; WEFT_EINVAL:
 * NULL pool, or the descriptor does not take it. */
WEFT_API int weft_stats_print(const weft_pool *pool, int fd);

/* How long the thread slept that is woken. */
enum weft_sleep {
    WEFT_SLEEP_SHORT = 0,  /* < 100 us */
    WEFT_SLEEP_MIDDLE = 1, /* < 2 ms */
    WEFT_SLEEP_LONG = 2,
    WEFT_SLEEPS = 3
};

/* What waking costs on this machine, as the pool's own wakes have shown lately; 0: not yet. A pool of several workers
 * that is idle for 10 ms for the first time tries some wakes for that, unless spin_ns says how long to spin. */
typedef struct weft_wake_costs {
    size_t struct_size;           /* set by the caller to sizeof(weft_wake_costs) */
    uint64_t send_ns;             /* to the thread that wakes another */
    uint64_t run_ns[WEFT_SLEEPS]; /* until that runs, on another CPU, by how long it slept */
    uint64_t run_here_ns;         /* until that runs, on the CPU of the thread that woke it */
    uint64_t spin_ns; /* how long threads look for work, or for a wait's end, before they sleep: weft_config.spin_ns */
} weft_wake_costs;

/* Fills *costs up to its struct_size. WEFT_OK or WEFT_EINVAL. */
WEFT_API int weft_pool_wake_costs(const weft_pool *pool, weft_wake_costs *costs);

/* ---- timeline ----------------------------------------------------------------------------------------------------- */

/* Records, for each thread of the pool, what it runs and when it sleeps, from now on: tasks, forked calls it took, loops,
 * claims of several tasks and from others, parks, wakes, waits. The newest weft_config.trace_events of each thread are kept,
 * 32 bytes each; the memory comes with a thread's first event and stays until the pool ends. A recording that was on begins
 * anew. Tasks that run already are left out. WEFT_OK, WEFT_EINVAL (NULL), WEFT_EFORK.
 * weft_config.trace, or WEFT_TRACE=file with weft_config_from_env, records from create on and writes the file in destroy. */
WEFT_API int weft_trace_start(weft_pool *pool);

/* Ends the recording; what there is stays. A task that runs is still noted at its end. As weft_trace_start. */
WEFT_API int weft_trace_stop(weft_pool *pool);

/* Writes what is recorded as Chrome trace JSON, for ui.perfetto or chrome://tracing: times in us since the start, functions
 * by their symbols, static ones too, or as file+offset; how many events had to go is "otherData".dropped. Also while it goes
 * on, and by several threads. WEFT_OK; WEFT_EINVAL: NULL, or the descriptor or file does not take it. */
WEFT_API int weft_trace_write(const weft_pool *pool, int fd);
WEFT_API int weft_trace_save(const weft_pool *pool, const char *path);

/* ---- a pool that hangs -------------------------------------------------------------------------------------------- */

/* Writes in words what each thread of the pool does, where tasks wait that nobody has begun, which groups have not finished
 * and who waits for them. From a debugger (`call weft_dump(pool, 2)`), a signal handler or any thread: takes no lock,
 * allocates nothing, needs 8 KiB of stack. It knows how long a task has run in pools with a watchdog, and where it began
 * while a timeline was recorded. WEFT_OK; WEFT_EINVAL: NULL pool, or the descriptor does not take it. */
WEFT_API int weft_dump(const weft_pool *pool, int fd);

/* What the watchdog has found: see weft_config.watchdog_ns. Valid during the call. */
struct weft_stuck {
    weft_pool *pool;
    unsigned worker;    /* weft_worker_index */
    uintptr_t function; /* what it runs; of a loop its body */
    const char *name;   /* its symbol, or file+offset */
    uint64_t ns;        /* how long it has run */
    uint64_t backlog;   /* cells of tasks in the pool that nobody has begun */
};

#ifdef __cplusplus
}
#endif
#endif
