/* worker.h: a pool's threads and what they do. Layer 4. The protocol is in worker.c.
 *
 * A seat is a thread's state in one pool. Workers' seats come first, then those of spares, then those of outside threads that
 * have submitted or waited. When a thread ends, the next one takes over its seat, including its lanes. */
#ifndef WEFT_WORKER_H
#define WEFT_WORKER_H

#include "heap/memory.h"
#include "queue/queue.h"
#include "weft.h"

#define SEATS_MAX WEFT_THREADS_MAX

enum {
    EXTRA_BOUNDED = 1,
    EXTRA_TRACED = 2,
    EXTRA_WATCHED = 4,
    EXTRA_DUE = 8 /* groups have deadlines */,
    EXTRA_ORDERED = 16,
    EXTRA_ABORTED = 32
};
#define TRACE_EVENTS_MAX ((size_t)1 << 24)

/* Where a claim's tasks came from: the claimer's own lanes or an outside thread's; another worker's lanes; another's claim. */
enum claim_source { CLAIM_LANE, CLAIM_STOLEN, CLAIM_REVOKED, CLAIM_SOURCES };

/* Bytes that a seat and a pool reserve for the rooms above. Each room lays them out in its own state.h; sched does not use them. */
#define SEAT_PATTERNS_BYTES 1408
#define SEAT_PREDICT_BYTES 1344
#define SEAT_OBSERVE_BYTES 64
#define POOL_PREDICT_BYTES 128
#define POOL_OBSERVE_BYTES 64

/* In `blocked`: one section of an outside thread. */
#define BLOCKED_OUTSIDE ((UINT64_C(1) << 32) + 1)
/* In waits_for: the wait runs tasks. */
#define WAITS_HELPS (1u << 31)
_Static_assert(RECORDS_MAX <= WAITS_HELPS, "the record's index is below");
/* The value of wait_helps for a wait in an ordered pool that runs what is next in its own lane (wait.c). */
#define HELPS_NEXT ((uint32_t)WEFT_HELP_NONE + 1)

struct loop;

/* A thread's state in one pool. Only the seat's own thread reads and writes a field, unless the field's comment says otherwise.
 * In these comments "it" is that thread. */
struct weft_worker {
    struct weft_forker forker; /* first: fork slots point to it. patterns/chunk.c sets its `slow` with the first chunk */
    weft_pool *pool;           /* these two: written by seat_make; read by all */
    uint32_t index;
    uint32_t counter;             /* number of its counter in each group record */
    bool is_worker;               /* a worker or a spare, not an outside thread; written before its thread starts */
    os_word has_begun;            /* 1: its thread has run its start hook */
    bool hands_over;              /* it submits for its own loop or graph; even a full queue accepts that */
    uint32_t claims_left;         /* claims that it may make from `taken` before it looks at other lanes first */
    uint32_t blocking;            /* depth of weft_block_begin */
    bool took_ahead;              /* a task of its open claim has begun later ones itself */
    bool offers;                  /* its claim is offered while it blocks */
    bool has_spare;               /* a spare stands in while it blocks */
    uint32_t fenced;              /* submissions with a full fence since it was last biased */
    ATOMIC(uint32_t) inside;      /* it is in a submission; pool_await_leavers reads this and the next */
    ATOMIC(uint32_t) guest_calls; /* depth of calls that may sleep, including calls from tasks that they run */
    void *data;
    struct frame *frame;      /* of the innermost task or wait, or NULL */
    struct lane *lane_bound;  /* the lane that it last bound to a group, or NULL */
    struct record *kept;      /* a free record for the next group it opens, or NULL */
    struct lane *lane;        /* the lane that it last submitted to, or the pool's blank lane, which is no group's */
    struct lane *idle_lanes;  /* its lanes that were empty when it last looked at all of them, oldest first; by next_idle */
    struct lane *lane_unmade; /* a lane that got no segment, kept for the next try */
    uint32_t idle_looks;      /* lanes that it may bind before it looks at all of them again */
    uint32_t claim_group;     /* of its open claim's tasks: the index of their group's record */
    struct lane *long_lanes;  /* its lanes that had more than LANE_KEEP segments in use; linked by next_long */
    struct lane *taken;       /* the lane that it last claimed from, or NULL */
    struct lane_left taken_left;  /* how that claim left the lane's head */
    uint32_t taken_seat;          /* index of that lane's seat */
    uint32_t claims;              /* claims made; one in TIMED_EVERY is timed */
    enum claim_source taken_from; /* source of its last claim */
    enum claim_source help_from;  /* source of the last task that it helped with */
    os_thread thread;
    struct loop *in_loop;          /* the loop whose body it calls now, or NULL */
    bool has_worked;               /* it has run a task since its last sleep; predict/ clears this */
    bool has_woken;                /* it has woken a wait that may run nothing, since it last lingered */
    uint64_t searcher_ticks;       /* how long it looks for work as a searcher before it sleeps; predict/ adapts it */
    uint64_t spin_window;          /* ticks: start of the window in which its spinning is bounded (realtime.c) */
    uint64_t spin_before;          /* spin_ticks at that start */
    uint64_t slice_ns;             /* its time slice; 0: the system's, unchanged (slice.c) */
    uint64_t slice_ticks;          /* task_ticks when that slice was chosen */
    const struct lane *timed_lane; /* the lane of its last timed claim */
    uint64_t timed_ticks;          /* the longest recent time of that lane's tasks; 0: not known (predict/tasks.c) */
    const struct cell *cell;       /* the task about to run, if `extras` need it */
    uint64_t counted;              /* one bit per open section, the last in bit 0: its thread counted before it (tokens.c) */

    /* read by all, written by the seat's own thread */
    ALIGNED(CACHE_LINE)
    ATOMIC(uintptr_t) running;      /* function of its task, forked call or loop; 0: none. Valid for awake workers */
    ATOMIC(uint64_t) running_since; /* ticks; 0: not noted */
    ATOMIC(uint64_t) task_ticks;    /* an estimate of how long its tasks take (predict/tasks.c) */
    ATOMIC(uint32_t) runs_on; /* of a worker: 1 + the CPU that it last woke on; 0: not known; a hint (predict/place.c) */
    ATOMIC(uint32_t) in_background; /* it runs a background task in a slot (priority.c) */
    ATOMIC(uint64_t) kept_off;      /* low half: 1 + the CPU that it is kept off now, or 0; high half: changes (fit.c) */
    ATOMIC(struct lane *) lanes;    /* newest first, linked by lane->next; newer ones may be hidden (lanes.c) */
    ALIGNED(CACHE_LINE) ATOMIC(uint32_t) lanes_made;
    ATOMIC(uint32_t) waits_for; /* the record of its innermost wait's group, and WAITS_HELPS; 0: none. Each wait writes it
                                 * twice: workers do not read this line of each other */
    /* counters of all rooms; observe/counters.c says what each counts */
    ATOMIC(uint64_t) tasks_run;
    ATOMIC(uint64_t) tasks_dropped;
    ATOMIC(uint64_t) claims_made[CLAIM_SOURCES];
    ATOMIC(uint64_t) helped;
    ATOMIC(uint64_t) forks_taken;
    ATOMIC(uint64_t) loops_helped;
    ATOMIC(uint64_t) parks;
    ATOMIC(uint64_t) wakes;
    ATOMIC(uint64_t) spin_ticks; /* ticks spent awake without a task: looking for work or waiting */
    ATOMIC(uint64_t) expect_hits;
    ATOMIC(uint64_t) expect_misses;
    ATOMIC(uint64_t) heap_payloads;
    ATOMIC(uint64_t) tasks_late;

    /* for sleeping in a wait, a join or a loop: its own thread writes these, but any thread raises the event */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) wait_id; /* id of the group waited for, or 0 */
    ATOMIC(uint32_t) wait_helps;                  /* enum weft_help + 1 if it may help; HELPS_NEXT; else 0 */
    os_word wait_event;
    ATOMIC(uint32_t) biased;    /* 1: its submissions make no full fence; a worker about to sleep clears it */
    ATOMIC(uint32_t) taken_by;  /* of an outside seat: 1 while a thread has the seat; written under pool->lock */
    ATOMIC(uint32_t) thread_id; /* system's number of the thread that has or had the seat; a hint; that thread writes it */

    struct claim claim;                              /* its own thread and thieves write it, as claim.c says */
    ATOMIC(uint64_t) wakes_timed[WEFT_WAKE_BUCKETS]; /* read by all, written by its own thread */

    ALIGNED(CACHE_LINE) unsigned char patterns[SEAT_PATTERNS_BYTES];
    ALIGNED(CACHE_LINE) unsigned char predict[SEAT_PREDICT_BYTES];
    ALIGNED(CACHE_LINE) unsigned char observe[SEAT_OBSERVE_BYTES];
};

/* All threads read a field. A field that is not ATOMIC is written while the pool is made, unless its comment says otherwise. "The
 * lock" is `lock`. */
struct weft_pool {
    /* read often, written rarely */
    uint64_t id;              /* unique in the process; never 0 */
    uint64_t fork_count;      /* os_fork_count when it was made */
    uint32_t references;      /* to the process's own pool; under the lock in pool.c */
    bool is_own;              /* it is the process's own pool; written by pool.c */
    ATOMIC(uint32_t) workers; /* worker threads that may run tasks: the first seats; fit.c writes it under the lock */
    uint32_t workers_made;    /* worker threads started; some may rest; under the lock */
    ATOMIC(uint32_t) awake;   /* of these, the ones not resting; each writes it (worker.c), and the thread that starts it */
    uint32_t workers_max;     /* seats for workers; the spares' seats come after them */
    ATOMIC(uint32_t) cpu_count;    /* CPUs for the workers; this and the next are written by fit.c */
    ATOMIC(uint32_t) cpus_allowed; /* CPUs that they may run on: more than cpu_count under a quota */
    ATOMIC(uint32_t) cpus_quota;   /* CPUs of the quota when it was last read; OS_CPUS_MAX: all */
    ATOMIC(uint64_t) fit_due;      /* ticks: time of the next count of CPUs; UINT64_MAX: never; under the lock */
    uint64_t fit_ticks;            /* ticks between two counts */
    bool is_fitted;                /* `workers` may follow that count, because it was not configured */
    bool follows;                  /* it does; under the lock */
    bool ordered;
    bool helps;                             /* waits may help */
    bool placing;                           /* sleepers keep off their waker's CPU */
    bool has_tokens;                        /* its threads count against make's tokens (tokens.c) */
    uint32_t spare_seats;                   /* seats for spares */
    bool spares_follow, background_follows; /* these numbers follow the number of workers */
    ATOMIC(uint32_t) background_max;        /* background tasks that may run at once; written under the lock */
    uint32_t claim_max;                     /* tasks in one claim */
    ATOMIC(uint64_t) spin_ticks; /* longest time that threads look for work before they sleep; written by policy.c, fit.c */
    int64_t spin_wish_ns;        /* weft_config.spin_ns and expect_percent as requested */
    int32_t expect_wish;
    bool spin_adapts;          /* threads look for less time if wakes cost less */
    ATOMIC(uint64_t) spin_now; /* ticks: how long they look now; a hint; fit.c sets it to spin_ticks, predict/ adapts it */
    uint64_t ticks_per_us;
    ATOMIC(uint32_t) expect_percent; /* share of its time that a worker may spend awake ahead of work; 0: none */
    uint64_t patience_ticks;         /* how long a worker asks for the work that a source holds back; then it takes it */
    uint64_t tiny_ticks;             /* tasks shorter than this are claimed several at a time */
    uint64_t short_ticks;            /* tasks shorter than this are short */
    ATOMIC(uint32_t) purged; /* free pages went back since a worker woke; written by the last to park and a woken worker */
    ATOMIC(uint32_t) tiny;   /* recent tasks were tiny, so polling finds work soon enough; written by predict/tasks.c */
    ATOMIC(uint32_t) tasks_are_short; /* recent tasks were too short for more workers than CPUs; predict/tasks.c */
    ATOMIC(uint32_t) closed; /* destroy has begun: no submissions from outside; the destroyer writes this and the next */
    ATOMIC(uint32_t) exits;  /* no task is left; workers end */
    /* on another cache line than `closed`, which submissions read: `offers` changes with each wait inside a task */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) biased; /* biased seats; raised when a seat becomes biased (task.c), lowered by worker_unbias */
    ATOMIC(uint32_t) offers; /* seats whose claim is, or was, offered; the offering thread writes it (seat.c) */
    ATOMIC(uint32_t)
    extras;            /* EXTRA_*: what else a task's start must do; bits set by observe/, weft_group_deadline, abort */
    struct lane blank; /* no group's */
    struct park park;
    struct groups groups;
    struct pile segments;
    struct store store;
    weft_group group; /* of tasks submitted without a group */

    ATOMIC(struct weft_worker *) *seats; /* SEATS_MAX of them */
    ATOMIC(uint32_t) seat_count;         /* seats made; this and the next three are written under the lock */
    ATOMIC(uint32_t) seats_used;         /* all seats from this index on are empty and left by their threads (seat.c) */
    uint32_t seats_taken;                /* all outside seats before this one are taken */
    uint32_t workers_near;  /* workers whose counters come first in a group record; written while the pool is made */
    uint32_t outside_given; /* other seats made; they get their counters in that order */
    ATOMIC(uint32_t) background_runs; /* background slots taken (priority.c) */
    ATOMIC(uint32_t) background_busy; /* tasks in slots that are in no blocking section; written as `blocked` is */
    /* Open blocking sections; in the high half, those of outside threads, which are in the low half, too. Any thread that runs a
     * task writes these three (wait.c, seat.c). */
    ATOMIC(uint64_t) blocked;
    ATOMIC(uint32_t) blocked_peak;
    ATOMIC(uint32_t) held_up;     /* workers and spares asleep inside a task, in no blocking section */
    ATOMIC(uint32_t) spares_made; /* spare threads started; written under the lock */
    ATOMIC(uint64_t) queued;      /* tasks waiting to start, in a bounded pool; any thread writes this and the next two */
    os_word room;                 /* changes when a bounded pool has room again */
    ATOMIC(uint32_t) room_wanted; /* threads that wait for it */
    /* outside threads write these at each burst, so they are on a cache line that no thread looking for work reads */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) guests_asleep;      /* outside threads in a wait, a join or a loop */
    ATOMIC(uint32_t) outside_runs;       /* the last outside thread to wait ran tasks in its wait; a hint */
    ATOMIC(uint32_t) outside_sleeps;     /* the last one that waited could not help, and slept; a hint */
    ATOMIC(uint32_t) from_cpu;           /* CPU of the last outside submission that found an idle thread; a hint */
    ATOMIC(uint64_t) outside_ticks;      /* time of that submission; a hint */
    ALIGNED(CACHE_LINE) os_word drained; /* changes when a closed pool may have run out of tasks */
    os_mutex lock;                       /* for seats, spares and the fields above that name it */
    weft_config config;
    struct {
        weft_clean_fn fn;
        void *context;
    } abort_clean;            /* replaces config.clean; the aborting thread writes it before EXTRA_ABORTED */
    weft_pool *registry_next; /* written by seat.c under the registry's lock */
    struct {
        ATOMIC(uint64_t) window_ticks, share_ticks; /* a thread spins at most the share of each window; 0: no bound */
        ATOMIC(uint32_t) policy_refused, bind_refused;
        ATOMIC(int) policy_error, bind_error;
        char refused[160];
    } realtime; /* policy.c writes it; each worker writes its refusals (realtime.c) */
    struct {
        uint64_t own_ns; /* the slice of the pool's maker; 0: unchanged */
        ATOMIC(uint32_t) refused;
        ATOMIC(int) error;
    } slices; /* slice.c writes it; each worker writes its refusals */
    struct {
        int error, lease_error; /* why WEFT_POOL_JOBSERVER, WEFT_POOL_LEASE has no effect: a positive errno value */
        weft_pool *next;        /* this and all below: under the lock of tokens.c, where has_tokens is set */
        uint32_t runners;       /* its workers and spares that count */
        bool asks;              /* the owner of the turn sleeps until the bell rings or there is a token */
        bool relies;            /* it does so without a time limit, because another worker of the pool runs */
        bool is_beside;         /* it may do so longer than the grace, because callers count */
        bool turn_is_taken;     /* a worker waits for a token; the others that wait, wait for the turn */
        uint32_t turn_waiters;  /* workers that wait for the turn */
        os_word turn;           /* changes when the turn is passed on */
        uint64_t exceeds_ns;    /* since when its only runner goes on without a token; 0: it does not */
        uint64_t again_ns;      /* beside callers it does not do so again before this time */
        os_pipe bell;
    } tokens;
    char name[16];
    os_cpuset cpus;
    ALIGNED(CACHE_LINE) unsigned char predict[POOL_PREDICT_BYTES];
    ALIGNED(CACHE_LINE) unsigned char observe[POOL_OBSERVE_BYTES];
};

/* Are the pool's tasks to be dropped? */
INLINE bool pool_is_aborted(const weft_pool *pool) { return UNLIKELY((load_rlx(&pool->extras) & EXTRA_ABORTED) != 0); }

/* Is it a worker's or a spare's seat? Any thread may call this; only the seat's own may read is_worker. */
INLINE bool seat_is_inside(const struct weft_worker *seat) {
    return seat->index < seat->pool->workers_max + seat->pool->spare_seats;
}

/* A seat, or NULL; a seat's lanes, newest first; without hidden lanes, which are empty. Any thread. */
INLINE struct weft_worker *worker_seat(const weft_pool *pool, uint32_t index) {
    struct weft_worker *seat = load_acq(D5, &pool->seats[index]);
    if (seat != NULL) plain_read(&seat->pool, sizeof seat->pool);
    return seat;
}
INLINE struct lane *worker_lanes(const struct weft_worker *seat) { return load_acq(D6, &seat->lanes); }

/* A walk over seats: for (struct seats all = seats_in_use(pool); seats_next(&all);) yields each in all.seat. Any thread. */
struct seats {
    const weft_pool *pool;
    uint32_t at, left, count;
    struct weft_worker *seat;
};
INLINE bool seats_next(struct seats *all) {
    while (all->left > 0) {
        all->left--;
        all->seat = worker_seat(all->pool, all->at);
        all->at = all->at + 1 < all->count ? all->at + 1 : 0;
        if (all->seat != NULL) return true;
    }
    return false;
}
/* The seats where there may be work: from index `first` on, wrapping round; from 0 on; all but the given one, from the next on. */
INLINE struct seats seats_from(const weft_pool *pool, uint32_t first) {
    uint32_t count = load_rlx(&pool->seats_used);
    return (struct seats){.pool = pool, .at = first % count, .left = count, .count = count};
}
INLINE struct seats seats_in_use(const weft_pool *pool) { return seats_from(pool, 0); }
INLINE struct seats seats_beside(const struct weft_worker *seat) {
    struct seats others = seats_from(seat->pool, seat->index + 1);
    others.left--;
    return others;
}
/* All seats, also those of threads that have ended. */
INLINE struct seats seats_made(const weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    return (struct seats){.pool = pool, .left = count, .count = count};
}

/* What a worker or spare thread runs. `argument` is its seat. */
void worker_main(void *argument);

/* Called after a publication and a full fence: wakes the threads that the published work needs. A task: its lane, and its
 * group's id for waits that may help with it; an open claim: NULL and 0. */
void worker_notify_slow(struct weft_worker *seat, const struct lane *lane, uint64_t id);
INLINE bool worker_is_calm(const weft_pool *pool) { /* is there nobody to wake? */
    uint64_t glance = park_glance(&pool->park);
    return LIKELY(!park_has_sleeper(glance)) || (load_rlx(&pool->tiny) && park_has_guard(&pool->park, glance));
}
INLINE void worker_notify(struct weft_worker *seat, const struct lane *lane, uint64_t id) {
    if (UNLIKELY(!worker_is_calm(seat->pool))) worker_notify_slow(seat, lane, id);
}
/* Called after the seat has offered its claim and fenced: wakes an idle worker to take it, unless a searcher will. */
void worker_notify_offer(struct weft_worker *seat);
/* How many of the pool's workers are busy or looking for work. */
uint32_t workers_awake(const weft_pool *pool);
/* Is a CPU free beside the waker's, or does the waker go on using its own? */
bool workers_leave_room(const weft_pool *pool);
/* Wakes one parked worker if there is one. */
void worker_wake(struct weft_worker *seat);
/* Ends every seat's bias: the seats' publications are then visible, and later ones are fenced. */
void worker_unbias(weft_pool *pool);

/* Runs a task that find_help has claimed, on top of the task that the seat runs. */
void worker_run_help(struct weft_worker *seat, struct piece *piece);

/* Runs or drops the task in the cell and counts it in the seat's frame, which it switches to the task's group if necessary. */
void worker_run_cell(struct weft_worker *seat, struct cell *cell);
/* Adds the completed tasks to the record of the seat's frame, and wakes the threads that wait for its group. */
void worker_flush(struct weft_worker *seat);
/* worker_flush without the waking. Returns the record if the caller has to settle it, else NULL. The frame then has no group. */
struct record *worker_count(struct weft_worker *seat);
void frame_push(struct weft_worker *seat, struct frame *frame);
void frame_pop(struct weft_worker *seat);

/* Called after a change of the record's counts. If the sums are equal, wakes the group's waiters and starts its
 * continuations. */
void worker_settle(struct weft_worker *seat, struct record *record);
/* The same, called by a thread that has found the sums equal after a full fence. `id`: the group's. */
void worker_settled(struct weft_worker *seat, struct record *record, uint64_t id);
/* Starts the record's continuations, if its group has finished. */
void worker_start_continuation(struct weft_worker *seat, struct record *record);
/* A bounded pool's task has started, or was not submitted after all. */
void worker_leave_queue(weft_pool *pool);

/* Wakes sleepers in waits that may help with a task of group `id` (0: not known; wakes all that may help). */
void worker_wake_helpers(weft_pool *pool, uint64_t id);
/* A task was claimed from that seat's lane in an ordered pool: wakes its thread if that may run the lane's next task. */
void worker_tell_owner(struct weft_worker *owner);
/* Wakes every thread that sleeps in a wait that helps no group. */
void worker_wake_stranded(weft_pool *pool);
/* Wakes every thread that sleeps in a wait. */
void worker_wake_waits(weft_pool *pool);
/* Wakes every thread that sleeps in a wait for that group. */
void worker_wake_waiters(weft_pool *pool, const struct record *record, uint64_t id);

/* Signals an event (worker.c): threads that sleep on it look again. */
INLINE void event_raise(os_word *event) {
    add_rlx(event, 1);
    os_wake(event, INT32_MAX);
}

/* Adds to a counter that only the caller's thread writes. */
#define count_up(counter, n) store_rlx(counter, load_rlx(counter) + (n))

#endif
