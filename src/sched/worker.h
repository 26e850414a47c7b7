/* worker.h: a pool's threads and what they do. Layer 4. The protocol is in worker.c.
 *
 * A seat is a thread's state in one pool. Workers' seats come first, then those of spares, then those of outside threads that
 * have submitted or waited. When a thread ends, the next one takes over its seat, including its lanes. */
#ifndef WEFT_WORKER_H
#define WEFT_WORKER_H

#include "sched/claim.h"
#include "sched/continuation.h"
#include "sched/park.h"
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

/* Where a claim's tasks came from: the claimer's own lanes or an outside thread's; another worker's; another's claim. */
enum claim_source { CLAIM_LANE, CLAIM_STOLEN, CLAIM_REVOKED, CLAIM_SOURCES };

/* Bytes of a seat and of a pool for what the rooms above keep of them, each in its own state.h: not for sched. */
#define SEAT_PATTERNS_BYTES 1408
#define SEAT_PREDICT_BYTES 1344
#define SEAT_OBSERVE_BYTES 64
#define POOL_PREDICT_BYTES 128
#define POOL_OBSERVE_BYTES 64

/* wait_helps of a wait in an ordered pool that runs what is next in its own lane (wait.c). */
#define HELPS_NEXT ((uint32_t)WEFT_HELP_NONE + 1)

struct loop;

/* What a thread has in one pool. Only the seat's own thread touches a field, unless it says otherwise. */
struct weft_worker {
    struct weft_forker forker; /* first: spans point to it. Its `slow`: patterns/chunk.c, with the first span */
    weft_pool *pool;           /* these two: seat_make; read by all */
    uint32_t index;
    uint32_t counter;             /* the number of its counter in each group record */
    bool is_worker;               /* a worker or a spare, not a thread from outside; by who starts its thread */
    os_word has_begun;            /* 1: its thread has run its start hook */
    bool hands_over;              /* it submits a loop or a graph of its own: a full queue takes that, too */
    uint32_t claims_left;         /* until it looks at other lanes first */
    uint32_t blocking;            /* depth of weft_block_begin */
    bool offers;                  /* its claim is offered meanwhile */
    bool has_spare;               /* a spare stands in meanwhile */
    uint32_t fenced;              /* submissions since it was last biased */
    ATOMIC(uint32_t) inside;      /* its thread is in a submission; this and the next: pool_drain reads them */
    ATOMIC(uint32_t) guest_calls; /* calls that may sleep, in tasks of calls, too */
    void *data;
    struct frame *frame;          /* innermost, or NULL */
    struct lane *lane_bound;      /* the lane it bound to a group last, or NULL */
    struct record *kept;          /* a free record for the next group it opens, or NULL */
    struct lane *lane;            /* the lane it submitted to last, or the pool's blank lane, which is no group's */
    struct lane *idle_lanes;      /* that were empty when it looked at all, the oldest first; linked by next_idle */
    struct lane *lane_unmade;     /* one that got no segment, for the next try */
    uint32_t idle_looks;          /* how many lanes it binds before it looks at all again */
    struct lane *long_lanes;      /* that had more than LANE_KEEP segments in use; linked by next_long */
    struct lane *taken;           /* the lane it claimed from last, or NULL */
    struct lane_left taken_left;  /* the head there, as it left it */
    uint32_t taken_seat;          /* whose that is */
    uint32_t claims;              /* count, for choosing which to time */
    enum claim_source taken_from; /* what it claimed last */
    enum claim_source help_from;  /* where worker_help found its last */
    os_thread thread;
    struct loop *in_loop;    /* whose body it calls now, or NULL */
    bool has_worked;         /* since predict/ cleared it at its last sleep */
    uint64_t searcher_ticks; /* how long it looks for work now, as a searcher, before it sleeps; predict/ learns it */
    uint16_t *nearest;       /* the workers, nearest first (predict/topology.c); NULL: in the order of seats */
    uint64_t spin_window;    /* ticks: since when it counts what it may spin, and spin_ticks then (realtime.c) */
    uint64_t spin_before;
    uint64_t slice_ns;       /* the time slice it has; 0: left alone (slice.c) */
    uint64_t slice_ticks;    /* task_ticks when it was last chosen */
    const struct cell *cell; /* of the task about to run, where `extras` ask for more than that */

    /* read by all, written by its own thread */
    ALIGNED(CACHE_LINE)
    ATOMIC(uintptr_t) running;      /* the function of the task, forked call or loop, or 0; of a worker that is awake */
    ATOMIC(uint64_t) running_since; /* ticks; 0: not noted */
    ATOMIC(uint64_t) task_ticks;    /* about how long its tasks take (predict/tasks.c) */
    ATOMIC(uint32_t) runs_on; /* of a worker: the CPU that it woke on last, + 1 (predict/topology.c); 0: not known; a hint */
    ATOMIC(uint32_t) in_background; /* it runs a task in a slot (priority.c) */
    ATOMIC(uint64_t) kept_off;      /* fit.c: a CPU that its thread is kept off for now, + 1, or 0; above, a count */
    ATOMIC(struct lane *) lanes;    /* newest first, linked by lane->next; without newer ones that are hidden (lanes.c) */
    ALIGNED(CACHE_LINE) ATOMIC(uint32_t) lanes_made;
    /* counters of all rooms; counters.c says what each counts */
    ATOMIC(uint64_t) tasks_run;
    ATOMIC(uint64_t) tasks_dropped;
    ATOMIC(uint64_t) claims_made[CLAIM_SOURCES];
    ATOMIC(uint64_t) helped;
    ATOMIC(uint64_t) forks_taken;
    ATOMIC(uint64_t) loops_helped;
    ATOMIC(uint64_t) parks;
    ATOMIC(uint64_t) wakes;
    ATOMIC(uint64_t) spin_ticks; /* ticks spent awake, looking for work or waiting */
    ATOMIC(uint64_t) expect_hits;
    ATOMIC(uint64_t) expect_misses;
    ATOMIC(uint64_t) heap_payloads;
    ATOMIC(uint64_t) tasks_late;

    /* while it sleeps in a wait, a join or a loop: written by its own thread, except the event, which any thread raises */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) wait_id; /* the group waited for, or 0 */
    ATOMIC(uint32_t) wait_helps;                  /* enum weft_help + 1 when it could help, else 0; HELPS_NEXT */
    os_word wait_event;
    ATOMIC(uint32_t) biased;    /* 1: its submissions make no full fence; a worker that is about to sleep clears it */
    ATOMIC(uint32_t) taken_by;  /* outside seats: 1 while a thread has it; under pool->lock */
    ATOMIC(uint32_t) thread_id; /* the system's number of the thread that has or had it; that thread; a hint */

    struct claim claim;                              /* its own thread and thieves, as claim.c says */
    ATOMIC(uint64_t) wakes_timed[WEFT_WAKE_BUCKETS]; /* read by all, written by its own thread */

    ALIGNED(CACHE_LINE) unsigned char patterns[SEAT_PATTERNS_BYTES];
    ALIGNED(CACHE_LINE) unsigned char predict[SEAT_PREDICT_BYTES];
    ALIGNED(CACHE_LINE) unsigned char observe[SEAT_OBSERVE_BYTES];
};

/* What is not ATOMIC is written while the pool is made, or where it says, and read by all. */
struct weft_pool {
    /* read often, written rarely */
    uint64_t id;                   /* unique in the process; 0 never */
    uint64_t fork_count;           /* os_fork_count when it was made */
    uint32_t references;           /* to the process's own pool, under its lock (pool.c) */
    bool is_own;                   /* it is the process's own; pool.c, when it is made */
    ATOMIC(uint32_t) workers;      /* worker threads that run tasks: those of the first seats; fit.c, under the lock */
    uint32_t workers_made;         /* worker threads started, some of which may rest; under the lock */
    ATOMIC(uint32_t) awake;        /* of these, that do not rest: each itself (worker.c), and who starts it */
    uint32_t workers_max;          /* seats for workers: the spares' come after */
    ATOMIC(uint32_t) cpu_count;    /* CPUs for them; these two: fit.c */
    ATOMIC(uint32_t) cpus_allowed; /* CPUs that they may be on: more, where there is a quota */
    ATOMIC(uint64_t) fit_due;      /* ticks: when to look again how many CPUs there are; UINT64_MAX: never; under the lock */
    uint64_t fit_ticks;            /* so often */
    uint64_t fit_seen;             /* when they were last looked at; under the lock */
    ATOMIC(uint32_t) wish;         /* worker threads that are to run, tokens allowing; as `workers` */
    bool is_fitted;                /* it may look: nobody has said how many workers it is to have */
    bool follows;                  /* it does; under the lock */
    bool ordered;
    bool helps;                             /* waits may help */
    bool placing;                           /* sleepers keep off their waker's CPU */
    uint32_t spare_seats;                   /* seats for spares */
    bool spares_follow, background_follows; /* their numbers, that of the workers */
    ATOMIC(uint32_t) background_max;        /* background tasks that may run at once; under the lock */
    uint32_t claim_max;                     /* tasks in one claim */
    ATOMIC(uint64_t) spin_ticks;            /* how long threads look, before they sleep, at most; policy.c */
    int64_t spin_wish_ns;                   /* weft_config.spin_ns and expect_percent as asked for */
    int32_t expect_wish;
    bool spin_adapts;          /* and less where a wake costs less */
    ATOMIC(uint64_t) spin_now; /* ticks: how long they do; a hint of predict/'s, at first spin_ticks */
    uint64_t ticks_per_us;
    ATOMIC(uint32_t) expect_percent; /* of its time that a worker may be awake ahead of work; 0: never */
    uint64_t patience_ticks;         /* how long it asks for what a source holds back before it takes it unasked */
    uint64_t tiny_ticks;             /* tasks shorter than this are claimed several at a time */
    uint64_t short_ticks;            /* tasks shorter than this are short */
    ATOMIC(uint32_t) purged; /* free segments' pages went back since a worker last woke; the last to park, and who wakes */
    ATOMIC(uint32_t) tiny;   /* tasks seen lately were tiny: a poll is short enough a delay for them; predict/tasks.c */
    ATOMIC(uint32_t)
    tasks_are_short;         /* they were so short that more workers than CPUs would only delay them; predict/tasks.c */
    ATOMIC(uint32_t) closed; /* destroy has begun: no submissions from outside; who destroys, so the next */
    ATOMIC(uint32_t) exits;  /* nothing is left: workers end */
    /* apart from `closed`, which submissions read: `offers` changes with each wait inside a task */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) biased; /* seats that are biased: who becomes so (task.c), and who ends it (worker_unbias) */
    ATOMIC(uint32_t) offers; /* seats whose claim is, or was, offered; who offers (wait.c) */
    ATOMIC(uint32_t) extras; /* EXTRA_*: what a task's start is asked for beside; bits by observe/ and weft_group_deadline */
    struct lane blank;       /* no group's */
    struct park park;
    struct groups groups;
    struct pile segments;
    struct store store;
    weft_group group; /* the one for tasks submitted without a group */

    ATOMIC(struct weft_worker *) *seats; /* SEATS_MAX of them */
    ATOMIC(uint32_t) seat_count;         /* made; this and the next three: under the lock */
    ATOMIC(uint32_t) seats_used;         /* from here on all are left by their threads and empty: seat.c */
    uint32_t seats_taken;                /* outside seats before this one are taken */
    uint32_t counters_given;             /* counters of workers, then of other seats in the order of making */
    ATOMIC(uint32_t) background_runs;    /* slots taken, priority.c */
    ATOMIC(uint32_t) background_busy;    /* tasks that run in slots, in no section; as `blocked` */
    ATOMIC(uint32_t) blocked;            /* sections open; these four: any thread of a task (wait.c, seat.c) */
    ATOMIC(uint32_t) blocked_outside;    /* of these, by threads from outside */
    ATOMIC(uint32_t) blocked_peak;
    ATOMIC(uint32_t) held_up;     /* workers and spares asleep inside a task, in no section */
    ATOMIC(uint32_t) spares_made; /* spare threads started; under the lock */
    ATOMIC(uint64_t) queued;      /* tasks waiting to start, counted only in a bounded pool; any thread, so the next two */
    os_word room;                 /* changes when a bounded pool has room again */
    ATOMIC(uint32_t) room_wanted; /* threads that wait for it */
    /* written by threads from outside at each burst: on a counter that nobody who looks for work reads */
    ALIGNED(CACHE_LINE)
    ATOMIC(uint32_t) guests_asleep;      /* outside threads in a wait, a join or a loop */
    ATOMIC(uint32_t) outside_runs;       /* an outside thread ran tasks in its last wait; a hint */
    ATOMIC(uint32_t) outside_sleeps;     /* it helped nobody in that, and slept; a hint */
    ATOMIC(uint32_t) from_cpu;           /* the CPU that one last submitted on while somebody was idle; a hint */
    ATOMIC(uint64_t) outside_ticks;      /* and when; a hint */
    ALIGNED(CACHE_LINE) os_word drained; /* changes when a closed pool may have run out of tasks */
    os_mutex lock;                       /* seats, spares */
    weft_config config;
    struct {
        weft_clean_fn fn;
        void *context;
    } abort_clean; /* in place of config.clean; who aborts, before `aborted` */
    ATOMIC(uint32_t) aborted;
    weft_pool *registry_next; /* seat.c, under the registry's lock */
    struct {
        ATOMIC(uint64_t) window_ticks,
            share_ticks; /* a thread spins for the second at most in each of the first; 0: no bound */
        ATOMIC(uint32_t) policy_refused, bind_refused;
        ATOMIC(int) policy_error, bind_error;
        char refused[160];
    } realtime; /* policy.c; what was refused: each worker, realtime.c */
    struct {
        uint64_t own_ns; /* the maker's; 0: left alone */
        ATOMIC(uint32_t) refused;
        ATOMIC(int) error;
    } slices; /* slice.c; what was refused: each worker */
    struct {
        os_jobserver server;      /* fd below 0: no tokens are needed */
        int error;                /* why not, where they were asked for */
        ATOMIC(uint32_t) held;    /* of them that many of `bytes`; this and the rest under the lock */
        bool has_ended;           /* all are given back */
        bool next_sleeps;         /* the next worker to run sleeps until somebody looks */
        ATOMIC(uint64_t) taken;   /* ticks: when the last one was; a hint */
        ATOMIC(uint32_t) asks;    /* looks in vain of the next one to run; a hint */
        uint64_t due, look_ticks; /* ticks: when to look next whether one is wanted; and so long after that */
        unsigned char bytes[WEFT_WORKERS_MAX];
    } tokens; /* tokens.c */
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
/* The i-th seat to take from: all of them for i below `count`, its own first, then those near it. By its own thread. */
INLINE uint32_t worker_victim(const struct weft_worker *seat, uint32_t i, uint32_t count) {
    if (LIKELY(seat->nearest == NULL)) return (seat->index + i) % count;
    return i < seat->pool->workers_max ? seat->nearest[i] : i;
}
INLINE struct lane *worker_lanes(const struct weft_worker *seat) { return load_acq(D6, &seat->lanes); }

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
