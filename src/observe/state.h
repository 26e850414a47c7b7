/* state.h: the state that observation keeps for each seat and pool, and the functions that its files share. */
#ifndef WEFT_OBSERVE_STATE_H
#define WEFT_OBSERVE_STATE_H

#include "observe/observe.h"
#include "observe/trace.h"

struct observe_seat {
    ATOMIC(struct trace_ring *) ring; /* its events, or NULL; written by its own thread */
    uint32_t claims_seen;             /* of seat->claims; this and the next five fields: its own thread's */
    uint32_t submit_run;              /* how many submissions are noted together */
    uint32_t submit_guesses;          /* how many were noted since the clock was last read for one */
    uint64_t submit_ticks;            /* when the clock was last read for one */
    uint64_t task_end;                /* of the task that has just run; 0: none */
    struct lane *noted;               /* whose next submissions may be noted already; NULL: none's */
    uint64_t watched_since;           /* the watchdog's: the running_since that it last saw, and the age to report next */
    uint64_t watched_limit;
};

struct observe_pool {
    struct {
        os_mutex lock;
        int file;                   /* descriptor + 1, or 0; written by the threads that make and end the pool */
        ATOMIC(uint64_t) recording; /* its number */
        ATOMIC(uint64_t) since;     /* ticks; since_ns: the same moment on CLOCK_MONOTONIC */
        ATOMIC(uint64_t) since_ns;
    } trace;
    struct {
        os_thread thread;
        bool runs;
        os_word ends;
    } looker;       /* the watchdog, which also writes the counters for weft top */
    int stats_file; /* as trace.file; so are the next two */
    int top_file;
    int top_directory;
    uint32_t top_number; /* in the file's name */
};

_Static_assert(sizeof(struct observe_seat) <= SEAT_OBSERVE_BYTES && sizeof(struct observe_pool) <= POOL_OBSERVE_BYTES,
               "sched/worker.h has room for them");
INLINE struct observe_seat *observe_of(const struct weft_worker *seat) {
    return (struct observe_seat *)(void *)seat->observe;
}
INLINE struct observe_pool *observe_of_pool(const weft_pool *pool) { return (struct observe_pool *)(void *)pool->observe; }

/* The newest lane of a seat, or NULL. Any thread. */
struct lane *observe_lanes(const struct weft_worker *seat);
/* Cells of tasks in its lanes that no thread has begun. */
uint64_t observe_backlog(const struct weft_worker *seat);
/* Its events; NULL: it has recorded none yet. */
struct trace_ring *observe_ring(const struct weft_worker *seat);
/* Nanoseconds of a span of ticks. */
uint64_t observe_ns(uint64_t ticks);
/* The clock of the events, and CLOCK_MONOTONIC, at one moment. */
uint64_t observe_clocks(uint64_t *ns);
/* If the pool is configured for it, writes the stack of the thread that runs a task there. */
void observe_put_stack(struct text *text, const struct weft_worker *seat);
#define FILE_NAME_BYTES 64u
/* KIND-PROCESS-POOL.json: the pool's file of that kind, where several pools share a directory. From `number` 2 on
 * KIND-PROCESS-POOL.NUMBER.json: another's file has the name. */
void observe_file_name(const weft_pool *pool, const char *kind, uint32_t number, char name[FILE_NAME_BYTES]);
/* The pool's sums as JSON fields. */
void stats_put_sums(struct text *text, const weft_pool *pool);

/* timeline.c: what is in a file already, of other pools. */
struct joined {
    uint64_t pools;  /* 0: nothing */
    uint64_t events; /* the most that a thread of theirs keeps */
    uint64_t dropped, since_ns;
};
/* weft_trace_write; or with `joins`, what follows their events, and an end for all. */
int timeline_write(const weft_pool *pool, int fd, const struct joined *joins);

/* trace_file.c: the file that weft_config.trace names. WEFT_OK, or what the configuration's error is. */
int trace_file_open(weft_pool *pool);
/* Writes the pool's timeline to it. false: not all of it could be written. */
bool trace_file_write(const weft_pool *pool);
/* Only one thread writes to a file that others may write to. false: another process does, and does not end; nothing is locked. */
bool files_lock(int fd);
void files_unlock(int fd);

/* publish.c: a pool's counters in a file while it runs. Called by the pool's looking thread, and, while there is none, by
 * the threads that make and end the pool. */
#define PUBLISH_NS UINT64_C(250000000) /* from one update to the next */

struct publisher {
    uint64_t number;       /* of the next update */
    weft_heap_counts heap; /* as of some updates ago */
};

/* Creates the file, if the configuration asks for it. WEFT_OK; WEFT_EINVAL: the directory takes no file; WEFT_ENOMEM. */
int publish_start(weft_pool *pool);
/* Rewrites the file. After a failed write it says so and stops publishing. */
void publish(weft_pool *pool, struct publisher *own);
void publish_end(weft_pool *pool);

#endif
