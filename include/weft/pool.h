/**
 * @file weft/pool.h
 * Pools: configuration, life, the process's own pool. Part of weft.h; include that one.
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

typedef struct weft_pool weft_pool;     /**< worker threads, lanes and groups; opaque */
typedef struct weft_stuck weft_stuck;   /**< what the watchdog has found; see struct weft_stuck */
typedef struct weft_worker weft_worker; /**< a thread's seat in one pool; opaque, passed to each task */

/**
 * A task. No exception or longjmp may leave it. Workers cannot be cancelled by pthread_cancel. If a thread ends inside a
 * task nevertheless, the process ends with a message.
 * @param payload the task's own copy, aligned to 16, writable, valid until the function returns; NULL when the task was
 *     submitted with payload NULL
 * @param self the worker that runs the task
 * @return 0, or an error that the group's wait reports; use positive numbers: weft's own are negative
 */
typedef int (*weft_fn)(void *payload, weft_worker *self);

/**
 * Receives the payload of a task that will never run, because it was cancelled or its pool was aborted. Called once for
 * each such task.
 * @param payload the payload, valid until the function returns; NULL for a task submitted with payload NULL
 * @param size its size; 0 for payload NULL
 * @param context weft_config.context, or the argument of weft_pool_abort
 */
typedef void (*weft_clean_fn)(void *payload, size_t size, void *context);

#define WEFT_INLINE_MAX 2032u                /**< bytes of a payload that fit the queue; a larger one is allocated */
#define WEFT_PAYLOAD_MAX (UINT32_C(1) << 30) /**< bytes of the largest payload */
#define WEFT_WORKERS_MAX 512u                /**< workers of one pool, at most */
#define WEFT_THREADS_MAX 4096u               /**< workers, spares and outside threads that use one pool at once, at most */

/** What weft_submit does when weft_config.queue_max tasks are waiting to start. A task that its submitter runs does not wait
 * for its turn: in a pool with WEFT_POOL_ORDERED it starts before those submitted earlier, a task of a WEFT_GROUP_BACKGROUND
 * group runs beside background_max others, and an outside thread runs it with WEFT_POOL_NO_HELP, too. */
enum weft_full {
    /** Wait until one has started. Inside a task of this pool, run the new task inline instead; so, too, inside a task of another
     * pool if all threads of this one sleep in tasks and no spare is left. */
    WEFT_FULL_BLOCK = 0,
    WEFT_FULL_RUN = 1,  /**< run the new task on the calling thread before returning */
    WEFT_FULL_ERROR = 2 /**< return WEFT_EFULL; nothing was queued */
};

/* weft_config.flags */
/** A submitter's tasks start in the order of submission, whatever their groups, unless it runs one itself because a
 * bounded queue is full (enum weft_full). Waits do not help unless no spare is left: see weft_group_wait_until. */
#define WEFT_POOL_ORDERED 1u
/** Only the pool's own threads run tasks, except by weft_run and by WEFT_FULL_RUN. An outside thread that waits runs
 * none, unless it waits inside a task, of this pool or another, and no spare is left (weft_group_wait_until). */
#define WEFT_POOL_NO_HELP 2u
/** Workers do not change their affinity. Without this flag, a worker that was woken on its waker's CPU although another
 * CPU was free, and whose tasks take under 200 us, removes that CPU from its affinity for a while when it sleeps. Tasks
 * always see the whole affinity. */
#define WEFT_POOL_NO_PLACING 4u
#define WEFT_POOL_BIND 8u /**< worker i runs only on the i-th of the pool's CPUs, modulo their number; spares use all */
/** Locks the pool's memory and the whole stacks of its workers and spares (stack_size) into RAM from the beginning, and
 * what the pool allocates later from then on. Timelines are included; payloads over WEFT_INLINE_MAX and other memory are
 * not. */
#define WEFT_POOL_LOCK 16u
/** The pool takes part in GNU make's jobserver (`make -jN`), which MAKEFLAGS names; docs/howto/make.md. Of all pools of the
 * process with this flag one thread runs, and one more for each token that the process has taken. weft_config.workers is
 * still the most that run. Workers and spares count while they are awake and in no blocking section; outside threads count
 * while they run tasks, loops or their forks in a call. A worker gives its token back before it sleeps. No thread waits for
 * a token in a call: if too many run, a worker stops before its next task. If no worker of the pool has run for 100 ms, one
 * runs without a token; while outside threads run in calls, for a tenth of the time. But tasks that wait for each other by
 * other means than weft's need weft_block_begin, because there may never be a second thread. No worker wakes ahead of work
 * (weft_config.expect_percent). If there is no jobserver for this program, the pool runs as without the flag, and
 * weft_config.refused and weft_real_time.jobserver_errno report that. Once make has ended there is no limit. */
#define WEFT_POOL_JOBSERVER 32u
/** The pool shares the machine's CPUs with all programs of this user that do so, without make: the lease,
 * docs/howto/share-a-machine.md. There are as many tokens as weft_cpu_count() said when the process made its first such
 * pool. Of all pools of the process with this flag as many threads run as it holds tokens, and one if it holds none. What
 * counts, who waits and what happens after 100 ms is as with WEFT_POOL_JOBSERVER. Tokens of a process that is killed, calls
 * _exit or exec come back at once. A process with more than one token gives one back when another program has none, and now
 * and then when others wait for more: its workers look once a millisecond, between two tasks that a worker takes from a
 * queue, not inside a wait that helps. The tokens are locks on a file: /dev/shm/weft-lease-UID (that name in /tmp where
 * /dev/shm takes no files), or the path (which begins with /) that the environment variable WEFT_LEASE holds. If the file
 * cannot be had, the pool runs as without the flag, and weft_config.refused and weft_real_time.lease_errno report that. With
 * WEFT_POOL_JOBSERVER as well, make's tokens are used where make has some for this program, else the lease. */
#define WEFT_POOL_LEASE 64u

/** weft_config.policy: how the system schedules workers and spares. Threads that tasks create do not inherit it. */
enum weft_policy {
    /** As the thread that creates the pool; for spares and workers that start later, as the thread that starts them. */
    WEFT_POLICY_INHERIT = 0,
    WEFT_POLICY_FIFO = 1,    /**< SCHED_FIFO */
    WEFT_POLICY_RR = 2,      /**< SCHED_RR */
    WEFT_POLICY_DEADLINE = 3 /**< SCHED_DEADLINE */
};

#define WEFT_SPIN_NONE (-1)   /**< `spin_ns` of a pool whose workers sleep at once */
#define WEFT_EXPECT_NONE (-1) /**< `expect_percent` of a pool whose workers do not wake up ahead of work */
#define WEFT_SLICE_NONE (-1)  /**< `slice_ns` of a pool that does not change time slices */

/**
 * How a pool is made. Zero in a field means its default. Set struct_size, or start from weft_config_init.
 * weft_pool_create copies the strings.
 */
typedef struct weft_config {
    size_t struct_size; /**< sizeof(weft_config); weft.h has the rules for other versions' sizes */
    uint32_t workers;   /**< threads; 0: weft_cpu_count(), and the pool mostly follows its changes (weft_pool_resize) */
    uint32_t spares;    /**< most threads that stand in for blocked ones (weft_block_begin); 0: as many as workers run */
    const char *name;   /**< prefix of the threads' names; NULL: "weft"; cut to 11 bytes, at a whole character of UTF-8 */
    const char *cpus;   /**< CPUs of the workers, as in "0-3,8"; NULL: the creator's affinity */
    size_t stack_size;  /**< of each worker, bytes; 0: the system's default; at least 16384 */
    /** How long an idle worker spins, looking for work, before it sleeps; a waiting thread spins as long for the end of its
     * group. At most 10^9. WEFT_SPIN_NONE: not at all. 0: 1.5 times what the pool's wake-ups take, measured as it runs, at
     * most 50000, and less after spins that found nothing (weft_pool_wake_costs); a waiting thread spins up to twice as
     * long where tasks take a little longer than that. Leave it at 0, unless idle workers may use their CPUs. Nobody spins
     * while more workers are awake than there are CPUs, or if the whole pool has one CPU (`cpus` NULL). */
    int64_t spin_ns;
    uint32_t flags;     /**< WEFT_POOL_ORDERED, _NO_HELP, _NO_PLACING, _BIND, _LOCK, _JOBSERVER, _LEASE */
    uint32_t full;      /**< enum weft_full, used when queue_max is set */
    uint64_t queue_max; /**< tasks that may wait to start; 0: no bound */
    void (*start)(weft_worker *self, void *context); /**< on each worker and spare, before its first task; or NULL */
    void (*stop)(weft_worker *self, void *context);  /**< on each worker and spare, after its last task; or NULL */
    /** Called for each *weft_worker_data that is not NULL: in destroy, after every stop hook. If its thread came from
     * outside and has ended, it is called earlier: by the next outside thread that takes over its seat. */
    void (*data_free)(void *data);
    weft_clean_fn clean; /**< receives the payloads of cancelled tasks; or NULL */
    void *context;       /**< passed to start, stop, clean and watchdog */
    const char *stats;   /**< file to which destroy appends what weft_pool_stats_print writes; if that fails, a line on
                              stderr names the file; or NULL */
    const char *trace;   /**< file that holds a timeline after destroy, recorded from create on. Several pools of one
                              process may name it: it has the events of all. A directory: `trace-PROCESS-POOL.json`
                              in it, or, where that exists, `trace-PROCESS-POOL.2.json` and so on. Or NULL */
    size_t
        trace_events; /**< events kept of each thread, 32 bytes each; 0: 65536; rounded up to a power of two; at most 2^24 */
    /** A thread of its own reports tasks that run longer than this, and again after 2, 4 and 8 times as long; 0: none. */
    uint64_t watchdog_ns;
    void (*watchdog)(const weft_stuck *stuck, void *context); /**< called for each report, on that thread; NULL: to stderr */
    /** How much of its time each worker may spend awake ahead of work that recurs, or that weft_pool_expect announced;
     * percent, at most 100. 0: 12, or none if spin_ns is WEFT_SPIN_NONE. WEFT_EXPECT_NONE: none. Always none on one
     * CPU. */
    int32_t expect_percent;
    /** Most tasks of WEFT_GROUP_BACKGROUND groups that workers run at once, without those asleep in a wait and those inside
     * weft_block_begin; 0: half the workers, or 1. */
    uint32_t background_max;
    /** Real time: see enum weft_policy. The system may refuse a policy, WEFT_POOL_BIND or WEFT_POOL_LOCK, mostly for lack of
     * CAP_SYS_NICE, RLIMIT_RTPRIO or RLIMIT_MEMLOCK. Then the pool runs without it, and weft_pool_real_time reports that. A
     * real-time worker may spin for an eighth of what the system lets such threads run (sched_rt_runtime_us in each
     * sched_rt_period_us; runtime_ns in each period_ns): with the usual 950 of 1000 ms, 119 ms. Then it stops until its own
     * period of that length ends. These periods need not begin with the system's, so within one of the system's periods it
     * may spin for up to three eighths. */
    uint32_t policy;
    uint32_t priority; /**< for WEFT_POLICY_FIFO and WEFT_POLICY_RR: 1 to 99; else 0 */
    uint64_t
        runtime_ns; /**< for WEFT_POLICY_DEADLINE, of each worker: runtime <= deadline <= period. The kernel admits such a
                              thread only if it may use all CPUs. So the policy excludes `cpus` and WEFT_POOL_BIND, and
                              implies WEFT_POOL_NO_PLACING */
    uint64_t deadline_ns; /**< for WEFT_POLICY_DEADLINE; 0: the period */
    uint64_t period_ns;   /**< for WEFT_POLICY_DEADLINE */
    const char *refused; /**< filled by weft_pool_config: what the system refused at the start, or NULL; create ignores it */
    /** Time slice of workers and spares, 100000 to 100000000. A thread that wakes with a short slice gets the CPU from
     * another program's busy thread at once. 0: chosen by how long tasks take, never longer than the creator's.
     * WEFT_SLICE_NONE: not changed; nor is it with a policy other than WEFT_POLICY_INHERIT. Tasks of
     * WEFT_GROUP_BACKGROUND run with a long slice. Threads and processes that tasks create inherit it. Linux before
     * 6.12 has no such slices: weft_pool_real_time reports that. */
    int64_t slice_ns;
    /** If not 0, weft_pool_dump and the watchdog show the stack of each thread that runs a task. Each such thread gets
     * a SIGPROF and has this long to answer. System calls that are not restarted after a signal (nanosleep, poll)
     * return EINTR to the task. The program's own handler of SIGPROF still gets its own signals. Needs glibc 2.35;
     * elsewhere the dump says that there are no stacks. */
    uint64_t stack_wait_ns;
    /** An existing directory, for `weft top`. A thread of the pool writes the counters to the file
     * weft-PROCESS-POOL.json there four times a second, and removes the file when the pool ends. If a living process has
     * that name, the file is weft-PROCESS-POOL.2.json, and so on. NULL: no file. */
    const char *top;
} weft_config;

/**
 * Sets every field to its default, and struct_size to the size that the caller was compiled with.
 * @param config the configuration to set
 * @retval WEFT_OK it is
 * @retval WEFT_EINVAL config is NULL
 * @threads Any thread.
 */
static inline int weft_config_init(weft_config *config) {
    if (!config) return WEFT_EINVAL;
    __builtin_memset(config, 0, sizeof *config);
    config->struct_size = sizeof *config; /* the caller's, not the library's */
    return WEFT_OK;
}

/**
 * Overrides fields from the environment: WEFT_WORKERS, WEFT_SPARES, WEFT_CPUS, WEFT_SPIN_NS, WEFT_STACK_SIZE,
 * WEFT_QUEUE_MAX, WEFT_STATS, WEFT_TRACE, WEFT_TRACE_EVENTS, WEFT_TOP, WEFT_WATCHDOG_NS, WEFT_STACK_WAIT_NS,
 * WEFT_EXPECT_PERCENT, WEFT_BACKGROUND_MAX, WEFT_SLICE_NS, WEFT_JOBSERVER ("1" sets WEFT_POOL_JOBSERVER, "0" clears it),
 * WEFT_LEASE ("1" or a path that begins with / sets WEFT_POOL_LEASE, "0" clears it) and WEFT_POLICY ("fifo:10", "rr:10",
 * "deadline:RUNTIME:DEADLINE:PERIOD" in ns, "inherit"). A set-user-ID program reads none.
 * @param config the configuration to change; its strings then point into the environment
 * @retval WEFT_OK every variable that is set was valid
 * @retval WEFT_EINVAL config is NULL or a variable does not parse (weft_config_wrong names it); *config is as before
 * @threads Any thread, while no other thread changes the environment.
 */
WEFT_API int weft_config_from_env(weft_config *config);

/**
 * Names the field or variable that makes weft_pool_create or weft_config_from_env return WEFT_EINVAL. It does not check
 * whether files can be written or CPUs exist.
 * @param config the configuration; NULL: the defaults
 * @return the first field that is wrong ("stack_size"); if none is, the first wrong environment variable
 *     ("WEFT_CPUS"); in static storage; NULL when nothing is wrong
 * @threads Any thread, while no other thread changes the environment.
 */
WEFT_API const char *weft_config_wrong(const weft_config *config);

/**
 * Writes a configuration as text on one line, "workers=2 spares=2 ...", in the manner of snprintf.
 * @param config the configuration
 * @param text where to write; may be NULL when size is 0
 * @param size bytes available there, including the terminating zero
 * @return the length of the whole text, whether it fitted or not; or WEFT_EINVAL: config is NULL, or text is
 *     NULL and size is not 0
 * @threads Any thread.
 */
WEFT_API int weft_config_format(const weft_config *config, char *text, size_t size);

/**
 * Counts the CPUs that a pool with `workers` 0 would take now: those of the calling thread's affinity, limited by the
 * quotas of all its cgroups (v1 and v2), rounded up.
 * @return at least 1
 * @threads Any thread.
 */
WEFT_API unsigned weft_cpu_count(void);

/**
 * Creates a pool and starts its workers. Blocks until every worker has run its start hook. If the system can start only
 * some of the threads, the pool runs with those: weft_pool_workers returns their number. Workers and spares block all
 * signals except those of faults and SIGPROF. Children that a task starts inherit that mask; a start hook may set
 * another mask (pthread_sigmask).
 * @param pool set to the pool, which the caller owns and ends with weft_pool_destroy or weft_pool_abort; set to NULL on
 *     error
 * @param config how; NULL: the defaults
 * @retval WEFT_OK created
 * @retval WEFT_EINVAL pool is NULL, a field is out of range (weft_config_wrong names it), a file of `config` cannot be
 *     written, or no CPU of its list exists
 * @retval WEFT_ENOMEM no memory; nothing was created
 * @retval WEFT_EAGAIN not one thread could be started; nothing was created
 * @threads Any thread.
 */
WEFT_API int weft_pool_create(weft_pool **pool, const weft_config *config);

/**
 * Runs what is queued and what those tasks submit, ends the workers, calls data_free and frees the pool. Blocks. Once it
 * has begun, weft_submit returns WEFT_ESHUTDOWN to outside threads and in stop hooks. A submission whose own task caused
 * this call may still be under way in its thread: destroy waits for it.
 * @param pool the pool; set to NULL
 * @retval WEFT_OK the pool is gone
 * @retval WEFT_EINVAL pool or *pool is NULL
 * @retval WEFT_EDEADLK called in a task of this pool; nothing happened
 * @retval WEFT_EFORK called in a forked child: the pool's memory was released, the parent's threads were not touched
 * @threads Any thread, except in tasks of this pool. Calls of other outside threads must have returned before it does,
 *     and none may follow.
 */
WEFT_API int weft_pool_destroy(weft_pool **pool);

/**
 * Ends a pool as weft_pool_destroy does, but tasks that have not started never run. Running ones finish.
 * @param pool the pool; set to NULL
 * @param clean receives each payload once, on the calling thread or a worker; or NULL
 * @param context passed to clean
 * @retval WEFT_OK the pool is gone
 * @retval WEFT_EINVAL pool or *pool is NULL, or it is the pool of weft_pool_default; nothing happened
 * @retval WEFT_EDEADLK called in a task of this pool; nothing happened
 * @retval WEFT_EFORK called in a forked child, as in weft_pool_destroy
 * @threads As weft_pool_destroy.
 */
WEFT_API int weft_pool_abort(weft_pool **pool, weft_clean_fn clean, void *context);

/**
 * Returns a reference to the process's own pool, for libraries that would otherwise each start threads. The first call
 * creates it with the defaults and what weft_config_from_env finds, sized to the CPUs and the quota, with stacks of at
 * least 1 MiB. A forked child gets a pool of its own at its first call.
 * @param pool set to the pool. weft_pool_destroy returns the reference: it sets *pool to NULL and returns WEFT_OK at
 *     once, also in a task. Returning the last reference ends the pool. Wait for what you submitted before you return
 *     yours
 * @retval WEFT_OK *pool is set
 * @retval WEFT_EINVAL pool is NULL; a variable does not parse (weft_config_wrong(NULL) names it); a file that one names
 *     cannot be written, or no CPU of WEFT_CPUS exists
 * @retval WEFT_ENOMEM no memory to create it
 * @retval WEFT_EAGAIN not one thread could be started
 * @threads Any thread.
 */
WEFT_API int weft_pool_default(weft_pool **pool);

/**
 * Writes the configuration in force, with every default replaced by its value.
 * @param pool the pool, which owns the strings
 * @param config filled up to its struct_size (weft_config_init sets it)
 * @retval WEFT_OK it is filled
 * @retval WEFT_EINVAL pool or config is NULL, or the struct_size is invalid
 * @threads Any thread.
 */
WEFT_API int weft_pool_config(const weft_pool *pool, weft_config *config);

/** Which real-time settings of a pool the system has refused so far. All zero: none, or none were asked for. */
typedef struct weft_real_time {
    size_t struct_size;      /**< set by the caller to sizeof(weft_real_time) */
    uint32_t policy_refused; /**< workers and spares that run without the policy */
    int32_t policy_errno;    /**< why the last of them does: EPERM, no permission; EBUSY, too many of WEFT_POLICY_DEADLINE */
    uint32_t bind_refused;   /**< workers that are not bound to their CPU */
    int32_t bind_errno;      /**< why the last of them is not; EINVAL also: the system does not say which CPUs there are */
    int32_t lock_errno;      /**< why the last of unlocked_bytes are not locked: ENOMEM or EPERM, RLIMIT_MEMLOCK */
    /** Why WEFT_POOL_JOBSERVER has no effect: ENOENT, MAKEFLAGS names no jobserver, or its named pipe is gone; EBADF, make
     * has not left its pipe open to this program (a recipe without `+`), or it cannot be told that the pipe is make's;
     * EINVAL, not a pipe; EACCES; EMFILE, ENFILE; EBUSY, other pools of the process share the lease. */
    int32_t jobserver_errno;
    uint64_t locked_bytes;   /**< held in memory by WEFT_POOL_LOCK */
    uint64_t unlocked_bytes; /**< present at the start, but may be paged out */
    uint32_t slice_refused;  /**< workers and spares that could not set their time slice, also by default */
    int32_t slice_errno; /**< why the last of them could not: EOPNOTSUPP, Linux before 6.12; EPERM or ENOSYS, a sandbox */
    /** Why WEFT_POOL_LEASE has no effect: EPERM, the file is another user's, or a sandbox refuses fcntl's locks; EACCES;
     * EINVAL, it is no regular file, or the kernel has no such locks (before Linux 3.15); ELOOP, it is a symbolic link;
     * ENOENT, ENOTDIR, EROFS, ENOSPC, of its directory; ENOLCK or EOPNOTSUPP, of its file system; EMFILE, ENFILE; EBUSY,
     * other pools of the process share make's tokens, and this one does not ask for those. */
    int32_t lease_errno;
    int32_t zero; /**< 0 */
} weft_real_time;

/**
 * Reports which real-time settings of the pool the system refused. Complete for workers when weft_pool_create has
 * returned.
 * @param pool the pool
 * @param outcome filled up to its struct_size
 * @retval WEFT_OK it is filled
 * @retval WEFT_EINVAL pool or outcome is NULL, or the struct_size is invalid
 * @threads Any thread.
 */
WEFT_API int weft_pool_real_time(const weft_pool *pool, weft_real_time *outcome);

/**
 * Counts the worker threads that run tasks, without spares and resting workers (weft_pool_resize).
 * @param pool the pool
 * @return how many; 0 for NULL
 * @threads Any thread.
 */
WEFT_API unsigned weft_pool_workers(const weft_pool *pool);

/**
 * Sets how many workers run tasks from now on. The others finish their tasks, up to 32 if they have taken that many tiny
 * ones, and rest; their threads stay, with what `start` has made. A spare that stands in for a blocked one goes on until
 * that section ends. A pool with weft_config.workers 0 follows the affinity of its workers and the cgroup's quota by
 * itself, within about half a second of work, or after the next task if no thread rests, unless it has WEFT_POOL_BIND,
 * WEFT_POOL_LOCK or a real-time policy. This call ends that. With the same exceptions, a pool whose number of workers was
 * set still counts the CPUs of their affinity, but does not read the quota: whether its threads spin and wake up ahead
 * depends on that.
 * @param pool the pool
 * @param workers how many: at most weft_config.workers; if that was 0, the number of the machine's CPUs, or, where the pool
 *     does not follow, as many as it began with; 0: follow affinity and quota again
 * @retval WEFT_OK that many run, with WEFT_POOL_JOBSERVER or WEFT_POOL_LEASE as far as there are tokens
 * @retval WEFT_EAGAIN fewer run: the system could not start enough threads
 * @retval WEFT_EINVAL pool is NULL, workers is too large, or is 0 for a pool that does not follow
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread, not after destroy has begun.
 */
WEFT_API int weft_pool_resize(weft_pool *pool, unsigned workers);

/**
 * Announces that work for that many workers will come at that moment. These workers wake up shortly before it, by their
 * own timers, and look for work until 200 us after it if they have nothing else to do. The call itself wakes sleeping
 * workers briefly, so call it when time does not matter. There is one announced moment at a time: the next call
 * replaces it. Bursts that recur need no announcement: workers learn them. They are also awake for those that are due
 * eight periods or more before the announced moment. Loops of up to 100 us that recur are learned by their caller, and
 * nobody is awake for them until that moment has passed.
 * @param pool the pool
 * @param workers how many
 * @param when_ns on CLOCK_MONOTONIC; 0 withdraws the announcement; a moment that has passed is ignored
 * @retval WEFT_OK noted
 * @retval WEFT_EINVAL pool is NULL or workers is 0
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread.
 */
WEFT_API int weft_pool_expect(weft_pool *pool, uint32_t workers, uint64_t when_ns);

#ifdef __cplusplus
}
#endif
#endif
