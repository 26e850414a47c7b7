/* group.h: the counting behind a weft_group. Layer 3. The protocol is in group.c.
 *
 * The user's weft_group holds an id; the pool owns the record that the id names. Each thread that touches a group counts in
 * its own counter of the record. */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include "queue/store.h"
#include "weft.h"

struct continuation;
struct continuation_wait;
struct lane;
struct loop;

typedef ATOMIC(struct continuation *) continuation_link;

#define RECORDS_MAX (1u << 20)

/* An id: generation (41 bits) | record index (20 bits) | three marks. A user's weft_group never holds a mark; 0 is no group.
 * No id recurs in a process, in whichever pools: see group.c. */
#define ID_CLOSING UINT64_C(1)
#define ID_CANCELLED UINT64_C(2)
#define ID_ENDED UINT64_C(4)
#define ID_MARKS (ID_CLOSING | ID_CANCELLED | ID_ENDED)
#define ID_INDEX_SHIFT 3
#define ID_SHIFT 23
#define ID_BLOCK_SHIFT 8 /* generations that a record takes at once */

/* The weft_group's id, which several threads may read and write. */
typedef ATOMIC(uint64_t) group_id;
INLINE group_id *id_of(weft_group *group) { return (group_id *)(void *)&group->id; }

INLINE uint32_t id_index(uint64_t id) { return (uint32_t)(id >> ID_INDEX_SHIFT) & (RECORDS_MAX - 1); }

/* One thread's counts. They only rise, even from one use of the record to the next. */
struct group_counter {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) submitted;
    ATOMIC(uint64_t) completed;
    ATOMIC(uint64_t) balance;   /* submitted less completed, before the group that uses the counter now */
    ATOMIC(uint64_t) id;        /* that group; or COUNTER_SHARED: the shared counter uses neither this nor the next two */
    ATOMIC(uint64_t) first;     /* `submitted` before that group's first submission here */
    ATOMIC(struct lane *) lane; /* the seat's lane that it last bound to a group of this record */
};

#define COUNTER_SHARED UINT64_MAX /* no group's id */
#define NOT_CANCELLED UINT32_MAX
#define NOT_FAILED UINT64_MAX
#define FOREIGN_NONE 0u
#define FOREIGN_MANY UINT32_MAX
#define LATE_DROPPED UINT64_MAX
#define SLEEPERS_MANY UINT32_MAX
#define COUNTERS_MAX 64u   /* in a record itself: bits of `used` */
#define BLOCK_COUNTERS 16u /* in a block of further ones; at most COUNTERS_MAX blocks */
#define COUNTERS_FURTHER (COUNTERS_MAX * BLOCK_COUNTERS)
#define WAITS_ENDED (UINT32_C(1) << 31) /* the thread that ended the group has left; the last one out frees the record */

/* Counters of seats that have none in the record itself: made when such a seat first counts there, and kept. */
struct counter_block {
    ATOMIC(uint64_t) used; /* a bit for each that the group uses */
    struct group_counter counter[BLOCK_COUNTERS];
};
struct counter_blocks {
    ATOMIC(struct counter_block *) block[COUNTERS_MAX];
};

struct groups;

struct record {
    struct pile_item item;
    ATOMIC(uint32_t) counters;      /* how many the record itself has */
    ATOMIC(uint32_t) flags;         /* the weft_group's, and RECORD_RUN */
    ATOMIC(uint64_t) id;            /* of the group it serves, with marks; 0: free */
    ATOMIC(uint64_t) last_id;       /* of the group it served last */
    ATOMIC(uint64_t) parent;        /* id of the group above, or 0 */
    ATOMIC(uint32_t) cancel_after;  /* tasks with a greater sequence number do not run */
    ATOMIC(uint32_t) waiting;       /* threads in a wait for it, for a moment perhaps too many | WAITS_ENDED */
    ATOMIC(uint64_t) failed;        /* sequence number | code of the failed task submitted first; NOT_FAILED */
    ATOMIC(uint32_t) foreign;       /* the stranger that submitted to it: seat + 1, FOREIGN_NONE or FOREIGN_MANY */
    ATOMIC(uint32_t) depth;         /* of the group below those above it; 1: there are none */
    continuation_link continuation; /* tasks that start when it has finished, newest first; changed under groups->lock */
    ATOMIC(uint64_t) urgent;        /* id of the group that was made urgent; nonzero: counted in groups->urgent */
    ATOMIC(uint64_t) deadline_ns;   /* when the group is due to have finished; nonzero: counted in groups->due */
    ATOMIC(uint64_t) late;          /* the latest deadline it is known to miss; LATE_DROPPED: tasks were dropped */
    ATOMIC(uint64_t) shared_first;  /* `submitted` of the shared counter when the group began */
    ATOMIC(uint64_t) used;          /* a bit for each counter that the group uses: only these are summed */
    ATOMIC(uint64_t) used_blocks;   /* a bit for each block with such counters */
    ATOMIC(uint32_t) sleeper;       /* seat + 1 of the one that has slept in a wait for it; 0: none; or SLEEPERS_MANY */
    ATOMIC(uint64_t) shared_next;   /* the shared counter's balance for the next group; the closer writes it */
    ATOMIC(struct counter_blocks *) blocks; /* NULL: none yet; written under groups->blocks_lock */
    /* continuation.c's, changed under groups->lock */
    continuation_link continuation_in;  /* continuations that count in the group, newest first */
    ATOMIC(uint32_t) slept_in;          /* waits that sleep inside its tasks, counted once for each frame of the group */
    ATOMIC(uint32_t) above;             /* groups were opened below it; the thread that opens one writes it */
    struct continuation_wait *sleepers; /* waits for the group that sleep inside tasks */
    uint64_t walk;
    struct record *walk_next, *walk_from;
    ATOMIC(uint64_t) serves; /* a group that waits for what this one holds, as last found; or 0 */
    uint64_t serves_not[3];  /* the record's group, one that it does not serve, and groups->holds at that finding */
    ALIGNED(CACHE_LINE) struct group_counter counter[];
};

/* What a seat is running: on its stack, one frame for each task or row of tasks of one group. */
struct frame {
    uint64_t id; /* the group's */
    struct record *record;
    uint32_t index;      /* the record's; 0: none */
    uint32_t deepest;    /* depth of the deepest group of the frames above; 0: they have none */
    uint32_t sections;   /* blocking sections begun in it that are open */
    struct frame *above; /* the frame that waits for this one */
    uint64_t unflushed;  /* completed tasks that are not yet counted in the record */
    uintptr_t running;   /* the seat's value before this frame; so are the next two */
    uint64_t running_since;
    struct loop *in_loop;
    struct frame *caller; /* of a helper: the frame of the loop or forked call that it helps with; or NULL */
    uint64_t walk;        /* continuation.c's, under groups->lock; so is the next */
    struct frame *walk_next;
};

struct groups {
    struct pile records;
    struct pile continuation;
    struct store *store;
    uint32_t counters;       /* in each record itself */
    os_mutex blocks_lock;    /* taken to make blocks of counters */
    ATOMIC(uint32_t) urgent; /* records that serve urgent groups */
    ATOMIC(uint32_t) background;
    ATOMIC(uint32_t) due; /* records with deadlines */
    os_mutex lock;        /* protects what groups hold, and which waits are for them */
    uint64_t walks;
    uint64_t holds;           /* tasks held so far */
    uint64_t steps;           /* steps of all searches so far; for tests */
    ATOMIC(uint32_t) circles; /* circles closed by waits that insist; changed under the lock */
};

bool groups_init(struct groups *groups, struct store *store, uint32_t counters);

/* The group of a graph's run: a task of the group above, if any, is in weft_graph_run until this group has ended. */
#define RECORD_RUN (UINT32_C(1) << 31)
INLINE void record_mark_run(struct record *record) { store_rlx(&record->flags, load_rlx(&record->flags) | RECORD_RUN); }

/* Makes a record that nobody uses serve a new group, and returns the group's id. */
uint64_t record_begin(struct groups *groups, struct record *record, uint64_t parent, uint32_t flags);
INLINE struct record *record_at(const struct groups *groups, uint32_t index) { return pile_at(&groups->records, index); }

/* The counter of a seat, by its number (seat->counter): in the record itself or in a block. If there are too many seats, or
 * was no memory for the block so far, it is the record's last counter, which all such seats share. */
INLINE bool counter_is_near(const struct record *record, uint32_t number) {
    return number + 1 < load_rlx(&record->counters);
}
INLINE struct group_counter *counter_shared(struct record *record) {
    return &record->counter[load_rlx(&record->counters) - 1];
}
struct group_counter *counter_of_far(struct record *record, uint32_t number);
INLINE struct group_counter *counter_of(struct record *record, uint32_t number) {
    return LIKELY(counter_is_near(record, number)) ? &record->counter[number] : counter_of_far(record, number);
}
INLINE bool counter_is_shared(const struct group_counter *counter) { return load_rlx(&counter->id) == COUNTER_SHARED; }

/* Depth of the group that the record serves; 0: no record. */
INLINE uint32_t record_depth(const struct record *record) { return record == NULL ? 0 : load_rlx(&record->depth); }

/* true: no seat that shares its counter has submitted to the group. */
INLINE bool record_is_apart(const struct record *record) {
    return load_rlx(&record->counter[load_rlx(&record->counters) - 1].submitted) == load_rlx(&record->shared_first);
}

/* Counts `tasks` about to be published; a task that is then not published must be counted as completed. Returns the count
 * before. */
INLINE uint64_t counter_submit(struct group_counter *counter, bool is_shared, uint64_t tasks) {
    if (UNLIKELY(is_shared)) return add_rlx(&counter->submitted, tasks);
    uint64_t before = load_rlx(&counter->submitted);
    store_rlx(&counter->submitted, before + tasks);
    return before;
}
/* The seat's counter. A thread must get it in this way, having acquired the id, before it first counts for the group there.
 * A later call returns another counter if there was no memory for the seat's own. */
struct group_counter *counter_begin(struct groups *groups, struct record *record, uint32_t number, uint64_t id);
INLINE struct group_counter *counter_use(struct groups *groups, struct record *record, uint32_t number, uint64_t id) {
    struct group_counter *counter = &record->counter[number];
    if (LIKELY(counter_is_near(record, number) && load_rlx(&counter->id) == id)) return counter;
    return counter_begin(groups, record, number, id);
}
/* As counter_begin, for the thread that has opened the group, before any other thread knows of it. */
void counter_begin_first(struct groups *groups, struct record *record, uint32_t number, uint64_t id);
/* The number at which the group's tasks in `counter` begin. counter_use has returned `counter`. */
INLINE uint64_t counter_first(struct record *record, const struct group_counter *counter) {
    return counter_is_shared(counter) ? load_rlx(&record->shared_first) : load_rlx(&counter->first);
}
/* Counts `tasks` that have run; what they wrote is visible to a thread that finds the record finished. */
void counter_complete(struct group_counter *counter, bool is_shared, uint64_t tasks);

/* Has every task counted so far run? true: what they wrote is visible. */
bool record_is_finished(const struct record *record);

/* Tasks of all groups that the record serves or ever served: completed, and submitted. Sum the completed ones first. */
uint64_t record_completed(const struct record *record);
uint64_t record_submitted(const struct record *record);

/* Has every task run of all groups that the records with indices from `from` to before `to` serve or ever served? */
bool records_are_finished(const struct groups *groups, uint32_t from, uint32_t to);

/* Walks over the counters that the group uses; NULL: there are no more. */
struct counter_walk {
    const struct group_counter *counters;
    uint64_t left, blocks;
};
INLINE struct counter_walk counters_walk(const struct record *record) {
    return (struct counter_walk){record->counter, load_rlx(&record->used), load_acq(G37, &record->used_blocks)};
}
void counters_next_block(const struct record *record, struct counter_walk *walk);
INLINE const struct group_counter *counter_next_used(const struct record *record, struct counter_walk *walk) {
    while (walk->left == 0) {
        if (LIKELY(walk->blocks == 0)) return NULL;
        counters_next_block(record, walk);
    }
    uint32_t at = (uint32_t)__builtin_ctzll(walk->left);
    walk->left &= walk->left - 1;
    return &walk->counters[at];
}

/* A wait of `seat` is about to sleep; the caller makes a full fence next. */
void record_note_sleeper(struct record *record, uint32_t seat);

/* After counter_complete: is the record finished, and does a thread sleep or a continuation wait for that? */
bool record_must_wake(const struct record *record);

/* A task failed. Keeps the failure with the lowest sequence number; among equal ones, the one with the lower code. */
void record_fail(struct record *record, uint32_t sequence, int code);
/* The code kept, or 0. */
int record_error(const struct record *record);

/* The record of the group `id`; what it held when the group was opened is visible. NULL: the group has ended. */
struct record *record_serving(const struct groups *groups, uint64_t id);
/* The group above `id`, or 0. Harmless for any id. */
uint64_t group_parent(const struct groups *groups, uint64_t id);

/* Marks the group `id` as cancelled. false: it is not open any more, or was cancelled already. */
bool record_cancel(struct record *record, uint64_t id);
/* The group `id` is urgent from now on, if it is still open. */
void record_boost(struct groups *groups, struct record *record, uint64_t id);
/* Inside a wait: gives the group that the record serves a deadline. */
void record_due(struct groups *groups, struct record *record, uint64_t deadline_ns);
/* Is the group past its deadline? If so, notes that. For a thread that is about to begin or to complete a task of it. */
bool record_is_late(struct record *record);
/* The group misses that deadline and all earlier ones; LATE_DROPPED: any deadline. The caller then completes a task of
 * it. */
void record_miss(struct record *record, uint64_t deadline_ns);
/* Inside a wait: did the group miss its present deadline? */
INLINE bool record_was_late(const struct record *record) {
    uint64_t late = load_rlx(&record->late);
    return late != 0 && late >= load_rlx(&record->deadline_ns);
}
/* Inside a wait: was the group cancelled? */
INLINE bool record_was_cancelled(const struct record *record) { return (load_rlx(&record->id) & ID_CANCELLED) != 0; }
/* Inside a wait, when the record is finished: what the wait returns. */
INLINE int record_result(const struct record *record) {
    int error = record_error(record);
    if (error != 0) return error;
    if (record_was_late(record)) return WEFT_ELATE;
    return record_was_cancelled(record) ? WEFT_ECANCELED : WEFT_OK;
}
/* May the task with that sequence number still start? */
INLINE bool record_lets_run(const struct record *record, uint32_t sequence) {
    return (load_rlx(&record->id) & ID_CANCELLED) == 0 && sequence <= load_rlx(&record->cancel_after);
}

/* A seat is about to submit to the group `id`, learnt by an acquiring load, from outside the group's own tasks. Returns the
 * record's id after that: `id` (open), `id` with ID_CANCELLED or ID_CLOSING (look again later), or another (the group has
 * ended). */
uint64_t record_note_foreign(struct record *record, uint64_t id, uint32_t seat);

/* A wait for the group `id` begins: the record stays the group's until record_leave. false: the group had ended; no wait has
 * begun. */
bool record_enter(struct groups *groups, struct record *record, uint64_t id);
/* A weft_group held `id`, and the record did not serve it. Does `holder`, the weft_group's id, still hold it? Then the group
 * belongs to another pool, living or not, or is a copy of one that has ended. */
bool group_is_astray(struct groups *groups, struct record *record, const group_id *holder, uint64_t id);
/* A wait ends; `has_ended`: it has called record_end. The last one out of an ended group frees the record. */
void record_leave(struct groups *groups, struct record *record, bool has_ended);
/* As record_leave, but if the caller is the last one out (true), the record is the caller's. */
bool record_leave_last(struct groups *groups, struct record *record, bool has_ended);
/* Inside a wait: has the group ended? */
bool record_has_ended(const struct record *record);
/* Inside a wait: is another waiter about to end it? */
INLINE bool record_is_closing(const struct record *record) { return (load_rlx(&record->id) & ID_CLOSING) != 0; }

/* Inside a wait, when the record is finished. true, for one caller only: nobody counts in the record any more; the caller
 * calls record_end, with which its use of the user's weft_group ends. `seat` is the caller's. false: the record is not finished
 * after all, or another caller is ending it. */
bool record_close(struct record *record, uint64_t id, uint32_t seat);
void record_end(struct record *record, weft_group *group);
/* Gives back a record that was just opened and never used. */
void record_discard(struct groups *groups, struct record *record);

#endif
