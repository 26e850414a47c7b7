/**
 * @file weft/observe.h
 * What a pool does: counters, timeline, watchdog. Part of weft.h; include that one.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_OBSERVE_H
#define WEFT_API_OBSERVE_H

#include <weft/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- counters ----------------------------------------------------------------------------------------------------- */

/** Buckets of a histogram of wake-ups: bucket i counts those of 2^i to 2^(i+1) ns, the last one also all longer ones. */
#define WEFT_WAKE_BUCKETS 32

/** Sums over all threads since the pool was created. Counted without synchronisation: exact when the pool is quiet. */
typedef struct weft_stats {
    size_t struct_size;           /**< set by the caller to sizeof(weft_stats) */
    uint64_t task_run_count;      /**< task functions called */
    uint64_t task_dropped_count;  /**< payloads handed to clean, or dropped without one */
    uint64_t claim_count;         /**< successful claims, each of one or more tasks */
    uint64_t claim_revoked_count; /**< claims whose unstarted rest another worker took */
    uint64_t task_helped_count;   /**< tasks run by waiting threads */
    uint64_t park_count;          /**< times a thread went to sleep */
    uint64_t wake_count;          /**< wake-ups sent */
    uint64_t heap_payload_count;  /**< payloads over WEFT_INLINE_MAX */
    uint64_t queue_bytes;         /**< memory of the lanes now */
    uint32_t workers;             /**< worker threads */
    uint32_t spare_started_count; /**< spare threads ever started */
    uint32_t spares_peak;         /**< most blocking sections that were open at once */
    uint32_t lane_count;          /**< lanes ever made */
    uint64_t steal_count;         /**< claims from another worker's lane; not from an outside thread's */
    uint64_t fork_taken_count;    /**< forked calls run for another thread */
    uint64_t loop_helped_count;   /**< times a thread came to help with another's loop */
    uint64_t woken_count;         /**< sleeps of workers that a wake ended */
    uint64_t spin_ns;             /**< time spent awake without work: looking for it, or for the end of a wait */
    uint64_t expect_hit_count;    /**< workers awake ahead of work that came */
    uint64_t expect_miss_count;   /**< ... that did not come */
    uint64_t
        wake_ns_log2_count[WEFT_WAKE_BUCKETS]; /**< woken_count by time from wake-up to running: see WEFT_WAKE_BUCKETS */
    uint32_t threads;                          /**< indices of weft_worker_stats: 0 to threads - 1 */
    uint64_t task_late_count;                  /**< tasks begun, or dropped, after their group's deadline */
} weft_stats;

/**
 * Reads the sums of a pool.
 * @param pool the pool
 * @param stats filled up to its struct_size
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL pool or stats is NULL, or the struct_size is invalid
 * @threads Any thread.
 */
WEFT_API int weft_pool_stats(const weft_pool *pool, weft_stats *stats);

/** What kind of thread of a pool it is. */
enum weft_worker_kind {
    WEFT_KIND_NONE = 0,   /**< no thread has had this index */
    WEFT_KIND_WORKER = 1, /**< one of the pool's workers */
    WEFT_KIND_SPARE = 2,  /**< stands in for a blocked worker */
    WEFT_KIND_OUTSIDE = 3 /**< not one of the pool's threads: it has submitted or helped */
};

/** One thread's share of the sums; the names are those of weft_stats. */
typedef struct weft_worker_counts {
    size_t struct_size;                             /**< set by the caller to sizeof(weft_worker_counts) */
    uint32_t index;                                 /**< as weft_worker_index */
    uint32_t kind;                                  /**< enum weft_worker_kind; with WEFT_KIND_NONE the rest is 0 */
    uint64_t task_run_count;                        /**< as in weft_stats, as are those below */
    uint64_t task_dropped_count;                    /**< payloads handed to clean, or dropped without one */
    uint64_t claim_count;                           /**< claims */
    uint64_t steal_count;                           /**< claims from another worker's lane */
    uint64_t claim_revoked_count;                   /**< claims of others whose rest this thread took */
    uint64_t task_helped_count;                     /**< tasks run while waiting */
    uint64_t fork_taken_count;                      /**< forked calls run for another thread */
    uint64_t loop_helped_count;                     /**< times it came to help with another's loop */
    uint64_t park_count;                            /**< times it went to sleep */
    uint64_t wake_count;                            /**< wake-ups it sent */
    uint64_t woken_count;                           /**< its sleeps that a wake ended */
    uint64_t spin_ns;                               /**< spent awake without work */
    uint64_t expect_hit_count;                      /**< times awake ahead of work that came */
    uint64_t expect_miss_count;                     /**< ... that did not come */
    uint64_t heap_payload_count;                    /**< payloads over WEFT_INLINE_MAX */
    uint64_t wake_ns_log2_count[WEFT_WAKE_BUCKETS]; /**< woken_count by the time it took */
    uint64_t task_late_count;                       /**< tasks begun, or dropped, after their deadline */
} weft_worker_counts;

/**
 * Reads one thread's share. When an outside thread ends, the next one takes over its index and continues its counts.
 * @param pool the pool
 * @param index less than weft_stats.threads
 * @param counts filled up to its struct_size
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL pool or counts is NULL, the struct_size is invalid, or there is no such index
 * @threads Any thread.
 */
WEFT_API int weft_worker_stats(const weft_pool *pool, unsigned index, weft_worker_counts *counts);

/**
 * Writes the sums and every thread's share as one JSON object, in the manner of snprintf. Allocates nothing.
 * @param pool the pool
 * @param text where to write; may be NULL when size is 0
 * @param size bytes available there, including the terminating zero
 * @return the length of the whole text, whether it fitted or not; or WEFT_EINVAL: pool is NULL, or text is NULL and
 *     size is not 0
 * @threads Any thread.
 */
WEFT_API int weft_pool_stats_json(const weft_pool *pool, char *text, size_t size);

/**
 * Writes every thread's share as a table for people.
 * @param pool the pool
 * @param fd file descriptor to write to
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL pool is NULL, or the descriptor cannot be written to
 * @threads Any thread, signal handlers too.
 */
WEFT_API int weft_pool_stats_print(const weft_pool *pool, int fd);

/** Classes of how long a woken thread had slept. */
enum weft_sleep {
    WEFT_SLEEP_SHORT = 0,  /**< less than 100 us */
    WEFT_SLEEP_MIDDLE = 1, /**< less than 2 ms */
    WEFT_SLEEP_LONG = 2,   /**< 2 ms or longer */
    WEFT_SLEEP_CLASSES = 3 /**< how many there are */
};

/** What waking costs on this machine, measured on the pool's own recent wake-ups. 0: not known yet. */
typedef struct weft_wake_costs {
    size_t struct_size;                  /**< set by the caller to sizeof(weft_wake_costs) */
    uint64_t send_ns;                    /**< time that the waker spends on waking another thread */
    uint64_t run_ns[WEFT_SLEEP_CLASSES]; /**< time until the woken thread runs on another CPU, by how long it slept */
    uint64_t run_here_ns;                /**< time until the woken thread runs on the waker's own CPU */
    uint64_t spin_ns;                    /**< how long threads spin now before they sleep: weft_config.spin_ns */
} weft_wake_costs;

/**
 * Reads what waking costs.
 * @param pool the pool
 * @param costs filled up to its struct_size
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL pool or costs is NULL, or the struct_size is invalid
 * @threads Any thread.
 */
WEFT_API int weft_pool_wake_costs(const weft_pool *pool, weft_wake_costs *costs);

/* ---- timeline ----------------------------------------------------------------------------------------------------- */

/**
 * Starts recording, for each thread of the pool, what it runs and when it sleeps: tasks, forked calls that it took from
 * others, loops, claims of several tasks and of others' tasks, sleeps, wake-ups, waits and submissions (in quick
 * succession, one event stands for several). Each thread keeps its newest weft_config.trace_events events, 32 bytes
 * each. The memory is allocated at a thread's first event and freed with the pool. If a recording was on, what it has
 * recorded is discarded. Tasks that already run are not recorded. With weft_config.trace, or WEFT_TRACE=file and
 * weft_config_from_env, recording starts in create, and destroy writes the file.
 * @param pool the pool
 * @retval WEFT_OK recording
 * @retval WEFT_EINVAL pool is NULL
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread.
 */
WEFT_API int weft_trace_start(weft_pool *pool);

/**
 * Stops recording and keeps what was recorded. The end of a task that runs now is still recorded.
 * @param pool the pool
 * @retval WEFT_OK ended
 * @retval WEFT_EINVAL pool is NULL
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread.
 */
WEFT_API int weft_trace_stop(weft_pool *pool);

/**
 * Writes the recording as Chrome trace JSON, for ui.perfetto or chrome://tracing. Times are in us on CLOCK_MONOTONIC.
 * Functions have their symbol's name, static ones too, or file+offset. Where the time of a submission is a guess,
 * "later_us" says how much later it may have been. "otherData".dropped is the number of events that
 * newer ones have overwritten. May be called while recording. While it runs, it uses memory from the system: some 64
 * bytes for each recorded wake-up and submission, 128 for each sleep and 256 for each task. Without that memory the
 * file has no arrows and no counters.
 * @param pool the pool
 * @param fd file descriptor to write to
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL pool is NULL, or the descriptor cannot be written to
 * @threads Any thread, also several at once.
 */
WEFT_API int weft_trace_write(const weft_pool *pool, int fd);

/**
 * Writes the recording to a file, as weft_trace_write does. If several calls write to one file at once, by whatever thread
 * or process, one timeline remains, whole.
 * @param pool the pool
 * @param path the file, which is replaced
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL pool or path is NULL, or the file cannot be written
 * @threads Any thread, also several at once.
 */
WEFT_API int weft_trace_save(const weft_pool *pool, const char *path);

/* ---- a pool that hangs -------------------------------------------------------------------------------------------- */

/**
 * Writes as text what each thread of the pool does, where tasks wait that no thread has begun, which groups have not
 * finished and which threads wait for them. Takes no lock, allocates nothing, needs 8 KiB of stack. It says how long a
 * task has run if the pool has a watchdog, or if the task began while a timeline was recorded. With
 * weft_config.stack_wait_ns it shows the stack of each thread that runs a task.
 * @param pool the pool
 * @param fd file descriptor to write to
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL pool is NULL, or the descriptor cannot be written to
 * @threads Any thread, signal handlers and debuggers too: `call weft_pool_dump(pool, 2)`.
 */
WEFT_API int weft_pool_dump(const weft_pool *pool, int fd);

/** What the watchdog has found: see weft_config.watchdog_ns. Valid during the call. */
struct weft_stuck {
    weft_pool *pool;    /**< the pool */
    unsigned worker;    /**< weft_worker_index */
    uintptr_t function; /**< the function that it runs; for a loop, the body */
    const char *name;   /**< the function's symbol, or file+offset */
    uint64_t ns;        /**< how long it has run */
    uint64_t backlog;   /**< cells of tasks in the pool that no thread has begun */
};

#ifdef __cplusplus
}
#endif
#endif
