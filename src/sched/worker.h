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
    EXTRA_ORDERED = 16
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

/* The value of wait_helps for a wait in an ordered pool that runs what is next in its own lane (wait.c). */
#define HELPS_NEXT ((uint32_t)WEFT_HELP_NONE + 1)

struct loop;

/* A thread's state in one pool. Only the seat's own thread reads and writes a field, unless the field's comment says otherwise. */
struct weft_worker {
    struct weft_forker forker; /* first: fork slots point to it. patterns/chunk.c sets its `slow` with the first chunk */
    weft_pool *pool;           /* these two: written by seat_make; read by all */
    uint32_t index;
    uint32_t counter;             /* number of its counter in each group record */
    bool is_worker;               /* a worker or a spare, not an outside thread; written by who starts its thread */
    os_word has_begun;            /* 1: its thread has run its start hook */
    bool hands_over;              /* it submits for its own loop or graph; a full queue accepts that too */
    uint32_t claims_left;         /* claims from this lane before it looks at other lanes first */
    uint32_t blocking;            /* depth of weft_block_begin */
    bool offers;                  /* while it blocks, its claim is offered */
    bool has_spare;               /* while it blocks, a spare stands in */
    uint32_t fenced;              /* submissions with a full fence since it was last biased */
    ATOMIC(uint32_t) inside;      /* its thread is in a submission; pool_await_leavers reads this and the next */
    ATOMIC(uint32_t) guest_calls; /* depth of calls that may sleep, also inside tasks that such calls run */
    void *data;
    struct frame *frame;      /* of the innermost task or wait, or NULL */
    struct lane *lane_bound;  /* the lane that it last bound to a group, or NULL */
    struct record *kept;      /* a free record for the next group it opens, or NULL */
    struct lane *lane;        /* the lane that it last submitted to, or the pool's blank lane, which is no group's */
    struct lane *idle_lanes;  /* its lanes that were empty when it last looked at all, oldest first; linked by next_idle */
    struct lane *lane_unmade; /* a lane that got no segment, kept for the next try */
    uint32_t idle_looks;      /* lanes that it may bind before it looks at all again */
    struct lane *long_lanes;  /* its lanes that had more than LANE_KEEP segments in use; linked by next_long */
    struct lane *taken;       /* the lane that it last claimed from, or NULL */
    struct lane_left taken_left;  /* that lane's head, as it left it */
    uint32_t taken_seat;          /* index of that lane's seat */
    uint32_t claims;              /* claims made; every so many is timed */
    enum claim_source taken_from; /* source of its last claim */
    enum claim_source help_from;  /* source of the last task that it helped with */
    os_thread thread;
    struct loop *in_loop;          /* the loop whose body it calls now, or NULL */
    bool has_worked;               /* it ran a task since its last sleep, at which predict/ cleared this */
    uint64_t counted;              /* of each open section, the last in bit 0: did its thread count before (tokens.c)? */
    bool has_woken;                /* a thread from outside that runs nothing, since it last lingered */
    uint64_t searcher_ticks;       /* how long it looks for work as a searcher before it sleeps; predict/ adapts it */
    uint64_t spin_window;          /* ticks: when the window began in which its spinning is bounded (realtime.c) */
    uint64_t spin_before;          /* spin_ticks then */
    uint64_t slice_ns;             /* its time slice; 0: the system's, unchanged (slice.c) */
    uint64_t slice_ticks;          /* task_ticks when that slice was chosen */
    const struct lane *timed_lane; /* where its last timed claim was from */
    uint64_t timed_ticks;          /* how long that lane's tasks take: the longest lately; 0: not known (predict/tasks.c) */
    const struct cell *cell;       /* the task about to run, if `extras` need it */

    /* read by all, written by the seat's own thread */
    ALIGNED(CACHE_LINE)
    ATOMIC(uintptr_t) running; /* address of the function of its task, forked call or loop; 0: none. Of an awake worker */
    ATOMIC(uint64_t) running_since; /* ticks; 0: not noted */
    ATOMIC(uint64_t) task_ticks;    /* an estimate of how long its tasks take (predict/tasks.c) */
    ATOMIC(uint32_t) runs_on;       /* of a worker: CPU that it last woke on, + 1; 0: not known; a hint (predict/place.c) */
    ATOMIC(uint32_t) in_background; /* it runs a background task in a slot (priority.c) */
    ATOMIC(uint64_t) kept_off;   /* low half: a CPU that its thread is kept off now, + 1, or 0; high half: changes (fit.c) */
    ATOMIC(struct lane *) lanes; /* newest first, linked by lane->next; newer ones may be hidden (lanes.c) */
    ALIGNED(CACHE_LINE) ATOMIC(uint32_t) lanes_made;
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

    /* for sleeping in a wait, a join or a loop: written by its own thread, but any thread raises the event */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) wait_id; /* id of the group waited for, or 0 */
    ATOMIC(uint32_t) wait_helps;                  /* enum weft_help + 1 if it could help, else 0; or HELPS_NEXT */
    os_word wait_event;
    ATOMIC(uint32_t) biased;    /* 1: its submissions make no full fence; a worker about to sleep clears it */
    ATOMIC(uint32_t) taken_by;  /* of an outside seat: 1 while a thread has it; written under pool->lock */
    ATOMIC(uint32_t) thread_id; /* the system's number of the thread that has or had the seat, which writes it; a hint */

    struct claim claim;                              /* its own thread and thieves write it, as claim.c says */
    ATOMIC(uint64_t) wakes_timed[WEFT_WAKE_BUCKETS]; /* read by all, written by its own thread */

    ALIGNED(CACHE_LINE) unsigned char patterns[SEAT_PATTERNS_BYTES];
    ALIGNED(CACHE_LINE) unsigned char predict[SEAT_PREDICT_BYTES];
    ALIGNED(CACHE_LINE) unsigned char observe[SEAT_OBSERVE_BYTES];
};

/* All threads read a field. One that is not ATOMIC is written while the pool is made, unless its comment says otherwise. */
struct weft_pool {
    /* read often, written rarely */
    uint64_t id;         /* unique in the process; 0 never */
    uint64_t fork_count; /* os_fork_count when it was made */
    uint32_t references; /* to the process's own pool; under the lock of that pool's place (pool.c) */
    bool is_own;         /* it is the process's own pool; written by pool.c */
    /* worker threads that may run tasks, on the first seats; this and the next are written by fit.c under the lock */
    ATOMIC(uint32_t) workers;
    ATOMIC(uint32_t) surely;       /* of these, those that may at any time: all, or with has_tokens none */
    bool has_tokens;               /* its threads count against make's tokens (tokens.c) */
    uint32_t workers_made;         /* worker threads started; some may rest; under the lock */
    ATOMIC(uint32_t) awake;        /* of these, those that do not rest; written by each (worker.c) and by who starts it */
    uint32_t workers_max;          /* seats for workers; the spares' seats come after them */
    ATOMIC(uint32_t) cpu_count;    /* CPUs for the workers; this and the next are written by fit.c */
    ATOMIC(uint32_t) cpus_allowed; /* CPUs that they may run on: more than cpu_count under a quota */
    ATOMIC(uint64_t) fit_due;      /* ticks: when to count the CPUs again; UINT64_MAX: never; under the lock */
    uint64_t fit_ticks;            /* ticks between two counts */
    bool is_fitted;                /* it may count CPUs, because nobody set the number of workers */
    bool follows;                  /* it does so now; under the lock */
    bool ordered;
    bool helps;                             /* waits may help */
    bool placing;                           /* sleepers keep off their waker's CPU */
    uint32_t spare_seats;                   /* seats for spares */
    bool spares_follow, background_follows; /* these numbers follow that of the workers */
    ATOMIC(uint32_t) background_max;        /* background tasks that may run at once; written under the lock */
    uint32_t claim_max;                     /* tasks in one claim */
    ATOMIC(uint64_t) spin_ticks; /* how long threads look for work before they sleep, at most; written by policy.c */
    int64_t spin_wish_ns;        /* weft_config.spin_ns and expect_percent as asked for */
    int32_t expect_wish;
    bool spin_adapts;          /* the time is shorter if wakes cost less */
    ATOMIC(uint64_t) spin_now; /* ticks: how long they look now; a hint written by predict/, at first spin_ticks */
    uint64_t ticks_per_us;
    ATOMIC(uint32_t) expect_percent; /* share of its time that a worker may be awake ahead of work; 0: never */
    uint64_t patience_ticks;         /* how long a worker asks for what a source holds back before it takes it unasked */
    uint64_t tiny_ticks;             /* tasks shorter than this are claimed several at a time */
    uint64_t short_ticks;            /* tasks shorter than this are short */
    ATOMIC(uint32_t) purged; /* free pages went back since a worker woke; the last to park writes it, and who wakes */
    ATOMIC(uint32_t) tiny;   /* recent tasks were tiny, so polling is soon enough; written by predict/tasks.c */
    ATOMIC(uint32_t) tasks_are_short; /* recent tasks were too short for more workers than CPUs; predict/tasks.c */
    ATOMIC(uint32_t) closed; /* destroy has begun: no submissions from outside; who destroys writes this and the next */
    ATOMIC(uint32_t) exits;  /* no task is left; workers end */
    /* on another line than `closed`, which submissions read, because `offers` changes with each wait inside a task */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) biased; /* biased seats; written by who becomes so (task.c) and who ends it (worker_unbias) */
    ATOMIC(uint32_t) offers; /* seats whose claim is, or was, offered; written by who offers (seat.c) */
    ATOMIC(uint32_t) extras; /* EXTRA_*: what else a task's start must do; bits set by observe/ and weft_group_deadline */
    struct lane blank;       /* no group's */
    struct park park;
    struct groups groups;
    struct pile segments;
    struct store store;
    weft_group group; /* of tasks submitted without a group */

    ATOMIC(struct weft_worker *) *seats; /* SEATS_MAX of them */
    ATOMIC(uint32_t) seat_count;         /* seats made; this and the next three are written under the lock */
    ATOMIC(uint32_t) seats_used;         /* all seats from here on are empty and left by their threads (seat.c) */
    uint32_t seats_taken;                /* all outside seats before this one are taken */
    uint32_t workers_near;  /* workers whose counters are the first in a group record; written as the pool is made */
    uint32_t outside_given; /* other seats made, which get counters in that order */
    ATOMIC(uint32_t) background_runs; /* background slots taken (priority.c) */
    ATOMIC(uint32_t) background_busy; /* tasks that run in slots and are in no blocking section; written as `blocked` is */
    ATOMIC(uint32_t) blocked; /* open blocking sections; any thread that runs a task writes these four (wait.c, seat.c) */
    ATOMIC(uint32_t) blocked_outside; /* of these, sections of outside threads */
    ATOMIC(uint32_t) blocked_peak;
    ATOMIC(uint32_t) held_up;     /* workers and spares asleep inside a task, in no blocking section */
    ATOMIC(uint32_t) spares_made; /* spare threads started; written under the lock */
    ATOMIC(uint64_t) queued;      /* tasks waiting to start, in a bounded pool; any thread writes this and the next two */
    os_word room;                 /* changes when a bounded pool has room again */
    ATOMIC(uint32_t) room_wanted; /* threads that wait for it */
    /* outside threads write these at each burst, so they are on a line that nobody who looks for work reads */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) guests_asleep;      /* outside threads in a wait, a join or a loop */
    ATOMIC(uint32_t) outside_runs;       /* the last outside thread to wait ran tasks in its wait; a hint */
    ATOMIC(uint32_t) outside_sleeps;     /* it might help nobody in its wait, and slept; a hint */
    ATOMIC(uint32_t) from_cpu;           /* CPU on which one last submitted while somebody was idle; a hint */
    ATOMIC(uint64_t) outside_ticks;      /* when that was; a hint */
    ALIGNED(CACHE_LINE) os_word drained; /* changes when a closed pool may have run out of tasks */
    os_mutex lock;                       /* of seats, spares and what says so above */
    weft_config config;
    struct {
        weft_clean_fn fn;
        void *context;
    } abort_clean; /* replaces config.clean; written by who aborts, before `aborted` */
    ATOMIC(uint32_t) aborted;
    weft_pool *registry_next; /* written by seat.c under the registry's lock */
    struct {
        ATOMIC(uint64_t) window_ticks, share_ticks; /* in each window a thread spins for the share at most; 0: no bound */
        ATOMIC(uint32_t) policy_refused, bind_refused;
        ATOMIC(int) policy_error, bind_error;
        char refused[160];
    } realtime; /* written by policy.c; refusals by each worker (realtime.c) */
    struct {
        uint64_t own_ns; /* the maker's own slice; 0: unchanged */
        ATOMIC(uint32_t) refused;
        ATOMIC(int) error;
    } slices; /* written by slice.c; refusals by each worker */
    struct {
        int error;           /* why it has none, where they were asked for */
        weft_pool *next;     /* this and all below: under the lock of tokens.c, where it has_tokens */
        uint32_t runners;    /* its workers and spares that count */
        bool asks;           /* the one that has `turn` sleeps until the bell rings, or there is a token */
        bool relies;         /* it does so without a time limit, for another of the pool runs */
        uint64_t exceeds_ns; /* since when its only runner goes on without a token; 0: it does not */
        uint64_t again_ns;   /* beside callers: not before that once more */
        os_mutex turn;       /* of its workers that wait for a token, one has it; taken before that lock */
        os_pipe bell;
    } tokens;
    char name[16];
    os_cpuset cpus;
    ALIGNED(CACHE_LINE) unsigned char predict[POOL_PREDICT_BYTES];
    ALIGNED(CACHE_LINE) unsigned char observe[POOL_OBSERVE_BYTES];
};

/* Is it a worker's or a spare's seat? Any thread may ask, as it may not of is_worker. */
INLINE bool seat_is_inside(const struct weft_worker *seat) {
    return seat->index < seat->pool->workers_max + seat->pool->spare_seats;
}

/* A seat, or NULL; and a seat's lanes, newest first; hidden ones are empty. Any thread. */
INLINE struct weft_worker *worker_seat(const weft_pool *pool, uint32_t index) {
    struct weft_worker *seat = load_acq(D5, &pool->seats[index]);
    if (seat != NULL) plain_read(&seat->pool, sizeof seat->pool);
    return seat;
}
INLINE struct lane *worker_lanes(const struct weft_worker *seat) { return load_acq(D6, &seat->lanes); }

/* A walk over seats: for (struct seats all = seats_in_use(pool); seats_next(&all);) has each in all.seat. Any thread. */
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
/* Those where there may be work: from the first-th on, and round; in order; all but that one, from the next one on. */
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
/* All, also those of threads that have ended. */
INLINE struct seats seats_made(const weft_pool *pool) {
    uint32_t count = load_rlx(&pool->seat_count);
    return (struct seats){.pool = pool, .left = count, .count = count};
}

/* What a worker or spare thread runs. `argument` is its seat. */
void worker_main(void *argument);

/* After something was published and a full fence: wakes whom that needs. A task: its lane, and its group's id for waits
 * that may help with it; an open claim: NULL and 0. */
void worker_notify_slow(struct weft_worker *seat, const struct lane *lane, uint64_t id);
INLINE bool worker_is_calm(const weft_pool *pool) { /* is there nobody to wake? */
    uint64_t glance = park_glance(&pool->park);
    return LIKELY(!park_has_sleeper(glance)) || (load_rlx(&pool->tiny) && park_has_guard(&pool->park, glance));
}
INLINE void worker_notify(struct weft_worker *seat, const struct lane *lane, uint64_t id) {
    if (UNLIKELY(!worker_is_calm(seat->pool))) worker_notify_slow(seat, lane, id);
}
/* After the seat has offered its claim and a full fence: whoever is idle takes it. */
void worker_notify_offer(struct weft_worker *seat);
/* How many of the pool's workers are busy or looking for work. */
uint32_t workers_awake(const weft_pool *pool);
/* Is a CPU free beside the waker's, or does the waker need its own? */
bool workers_leave_room(const weft_pool *pool);
/* Wakes one parked worker if there is one. */
void worker_wake(struct weft_worker *seat);
/* Ends every seat's bias: their publications are visible, and they fence from now on. */
void worker_unbias(weft_pool *pool);

/* Runs a task that find_help has claimed on top of what the seat runs. */
void worker_run_help(struct weft_worker *seat, struct piece *piece);

/* Runs the task in the cell, or drops it, counting it in the seat's frame, which it changes if need be. */
void worker_run_cell(struct weft_worker *seat, struct cell *cell);
/* Tells the record of the seat's frame what has been completed, and wakes who waits for it. */
void worker_flush(struct weft_worker *seat);
/* The same without the waking: that record, if the caller has to see to it; the frame is of no group. */
struct record *worker_count(struct weft_worker *seat);
void frame_push(struct weft_worker *seat, struct frame *frame);
void frame_pop(struct weft_worker *seat);

/* After a change of the record's counts: wakes who waits for the sums to be equal, and starts what the group holds until
 * then. */
void worker_settle(struct weft_worker *seat, struct record *record);
/* The same by who has found them equal after a full fence. `id`: the group's. */
void worker_settled(struct weft_worker *seat, struct record *record, uint64_t id);
/* Starts what the record holds, if its group has finished. */
void worker_start_continuation(struct weft_worker *seat, struct record *record);
/* A bounded pool's task has started, or was not submitted after all. */
void worker_leave_queue(weft_pool *pool);

/* Wakes sleepers in waits that may help with a task of group `id` (0: not known, then all that help). */
void worker_wake_helpers(weft_pool *pool, uint64_t id);
/* Something was claimed from that seat's lane in an ordered pool: wakes its thread if that may run what is next. */
void worker_tell_owner(struct weft_worker *owner);
/* Wakes every thread that sleeps in a wait in which it helps nobody. */
void worker_wake_stranded(weft_pool *pool);
/* Wakes every thread that sleeps in a wait. */
void worker_wake_waits(weft_pool *pool);
/* Wakes every thread that sleeps in a wait for that group. */
void worker_wake_waiters(weft_pool *pool, const struct record *record, uint64_t id);

/* An event has come (worker.c): who sleeps on it looks again. */
INLINE void event_raise(os_word *event) {
    add_rlx(event, 1);
    os_wake(event, INT32_MAX);
}

/* Adds to a counter that only the caller's thread writes. */
#define count_up(counter, n) store_rlx(counter, load_rlx(counter) + (n))

#endif
