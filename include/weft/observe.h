/* weft/observe.h: what a pool does: counters, timeline, watchdog. Part of weft.h, which is what to include.
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
 * claims of several tasks and from others, parks, wakes, waits, submissions (where they come fast, one for several). The newest weft_config.trace_events of each thread are kept,
 * 32 bytes each; the memory comes with a thread's first event and stays until the pool ends. A recording that was on begins
 * anew. Tasks that run already are left out. WEFT_OK, WEFT_EINVAL (NULL), WEFT_EFORK.
 * weft_config.trace, or WEFT_TRACE=file with weft_config_from_env, records from create on and writes the file in destroy. */
WEFT_API int weft_trace_start(weft_pool *pool);

/* Ends the recording; what there is stays. A task that runs is still noted at its end. As weft_trace_start. */
WEFT_API int weft_trace_stop(weft_pool *pool);

/* Writes what is recorded as Chrome trace JSON, for ui.perfetto or chrome://tracing: times in us on CLOCK_MONOTONIC, functions
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
