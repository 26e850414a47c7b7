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
 * No id comes twice in a process, whatever its pools: see group.c. */
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

/* One thread's counts. They only rise, also from one use of the record to the next. */
struct group_counter {
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) submitted;
    ATOMIC(uint64_t) completed;
    ATOMIC(uint64_t) balance;   /* submitted less completed before the group that uses the counter now */
    ATOMIC(uint64_t) id;        /* that group, or COUNTER_SHARED: that counter has neither this nor the next two */
    ATOMIC(uint64_t) first;     /* `submitted` before that group's first submission here */
    ATOMIC(struct lane *) lane; /* the seat's own: which it last bound to a group of this record */
};

#define COUNTER_SHARED UINT64_MAX /* no group's id */
#define NOT_CANCELLED UINT32_MAX
#define NOT_FAILED UINT64_MAX
#define FOREIGN_NONE 0u
#define FOREIGN_MANY UINT32_MAX
#define LATE_DROPPED UINT64_MAX
#define SLEEPERS_MANY UINT32_MAX
#define COUNTERS_MAX 64u   /* of a record itself: bits of `used` */
#define BLOCK_COUNTERS 16u /* in a block of further ones; COUNTERS_MAX of those at most */
#define COUNTERS_FURTHER (COUNTERS_MAX * BLOCK_COUNTERS)
#define WAITS_ENDED (UINT32_C(1) << 31) /* who ended the group has left; the last one out frees the record */

/* Counters of seats for which the record itself has none: made when one of these first counts there, and kept. */
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
    ATOMIC(uint32_t) counters;      /* how many */
    ATOMIC(uint32_t) flags;         /* the weft_group's, and RECORD_RUN */
    ATOMIC(uint64_t) id;            /* of the group it serves, with marks; 0: free */
    ATOMIC(uint64_t) last_id;       /* of the group it served last */
    ATOMIC(uint64_t) parent;        /* id of the group above, or 0 */
    ATOMIC(uint32_t) cancel_after;  /* tasks with a greater sequence number do not run */
    ATOMIC(uint32_t) waiting;       /* threads in a wait for it; too many for a moment is harmless | WAITS_ENDED */
    ATOMIC(uint64_t) failed;        /* sequence number | code of the failed task submitted first; NOT_FAILED */
    ATOMIC(uint32_t) foreign;       /* who, outside its own tasks, submitted to it: seat + 1, none, or many */
    ATOMIC(uint32_t) depth;         /* of the group, in the groups above it; 1: none is */
    continuation_link continuation; /* tasks that start when it has finished, newest first; changed under groups->lock */
    ATOMIC(uint64_t) urgent;        /* the group that goes first; nonzero: counted in groups->urgent */
    ATOMIC(uint64_t) deadline_ns;   /* when the group is to have finished; nonzero: counted in groups->due */
    ATOMIC(uint64_t) late;          /* the last moment that it is known to miss; LATE_DROPPED: tasks were dropped for that */
    ATOMIC(uint64_t) shared_first;  /* `submitted` of the shared counter when the group began */
    ATOMIC(uint64_t) used;          /* a bit for each counter that the group uses: only these are summed */
    ATOMIC(uint64_t) used_blocks;   /* and for each block with such ones */
    ATOMIC(uint32_t) sleeper;       /* the seat + 1 that has slept in a wait for it; 0: none; SLEEPERS_MANY */
    ATOMIC(uint64_t) shared_next;   /* the shared counter's balance for the next group; by who closes this one */
    ATOMIC(struct counter_blocks *) blocks; /* NULL: none yet; written under groups->blocks_lock */
    /* continuation.c's, changed under groups->lock */
    continuation_link continuation_in;  /* continuations that count in the group, the last added first */
    ATOMIC(uint32_t) slept_in;          /* waits that sleep inside its tasks, once for each frame of it */
    ATOMIC(uint32_t) above;             /* groups were opened below it; by who opens one */
    struct continuation_wait *sleepers; /* waits for the group that sleep inside tasks */
    uint64_t walk;
    struct record *walk_next, *walk_from;
    ATOMIC(uint64_t) serves; /* a group that waits for what it holds, as last found; or 0 */
    uint64_t serves_not[3];  /* its group, one that this does not, and groups->holds when that was found */
    ALIGNED(CACHE_LINE) struct group_counter counter[];
};

/* What a seat is running: one for each task, or row of tasks of one group, on its stack. */
struct frame {
    uint64_t id; /* the group's */
    struct record *record;
    uint32_t index;      /* the record's; 0: none */
    uint32_t deepest;    /* depth of the deepest group of the frames above; 0: of none */
    struct frame *above; /* the frame that waits for this one */
    uint64_t unflushed;  /* tasks completed that the record does not know of yet */
    uintptr_t running;   /* of the seat, before this one; so the next two */
    uint64_t running_since;
    struct loop *in_loop;
    struct frame *caller; /* of one who helps: the frame of the loop or forked call that it helps with; or NULL */
    uint64_t walk;        /* continuation.c's, under groups->lock; so the next */
    struct frame *walk_next;
};

struct groups {
    struct pile records;
    struct pile continuation;
    struct store *store;
    uint32_t counters;       /* in each record itself */
    os_mutex blocks_lock;    /* making blocks of counters */
    ATOMIC(uint32_t) urgent; /* records that serve such groups */
    ATOMIC(uint32_t) background;
    ATOMIC(uint32_t) due; /* records with deadlines */
    os_mutex lock;        /* what groups hold, and who waits for them */
    uint64_t walks;
    uint64_t holds;           /* tasks held so far */
    uint64_t steps;           /* of all searches so far; for tests */
    ATOMIC(uint32_t) circles; /* closed by waits that insist; changed under the lock */
};

bool groups_init(struct groups *groups, struct store *store, uint32_t counters);

/* A graph's run: a task of the group above, if there is one, is in weft_graph_run until this group has ended. */
#define RECORD_RUN (UINT32_C(1) << 31)
INLINE void record_mark_run(struct record *record) { store_rlx(&record->flags, load_rlx(&record->flags) | RECORD_RUN); }

/* A record that nobody uses serves a new group from now on: its id. */
uint64_t record_begin(struct groups *groups, struct record *record, uint64_t parent, uint32_t flags);
INLINE struct record *record_at(const struct groups *groups, uint32_t index) { return pile_at(&groups->records, index); }

/* The counter of a seat, by its number (seat->counter): the record has one for it, or a block. Where there are too many
 * seats, or was no memory for the block so far, it is the record's last one, which all such seats share. */
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

/* Depth of the group that the record serves; 0: of none. */
INLINE uint32_t record_depth(const struct record *record) { return record == NULL ? 0 : load_rlx(&record->depth); }

/* Has no seat that shares its counter submitted to the group? */
INLINE bool record_is_apart(const struct record *record) {
    return load_rlx(&record->counter[load_rlx(&record->counters) - 1].submitted) == load_rlx(&record->shared_first);
}

/* Counts `tasks` about to be published; one that is not published must be counted as completed. Returns the count before. */
INLINE uint64_t counter_submit(struct group_counter *counter, bool is_shared, uint64_t tasks) {
    if (UNLIKELY(is_shared)) return add_rlx(&counter->submitted, tasks);
    uint64_t before = load_rlx(&counter->submitted);
    store_rlx(&counter->submitted, before + tasks);
    return before;
}
/* The seat's counter, to be got so before a thread first counts for the group there, having acquired the id. It is another
 * one later if there was no memory for its own. */
struct group_counter *counter_begin(struct groups *groups, struct record *record, uint32_t number, uint64_t id);
INLINE struct group_counter *counter_use(struct groups *groups, struct record *record, uint32_t number, uint64_t id) {
    struct group_counter *counter = &record->counter[number];
    if (LIKELY(counter_is_near(record, number) && load_rlx(&counter->id) == id)) return counter;
    return counter_begin(groups, record, number, id);
}
/* The same by who has opened the group, before anybody else knows of it. */
void counter_begin_first(struct groups *groups, struct record *record, uint32_t number, uint64_t id);
/* Where the numbers of the group's tasks begin that are counted in that counter, which counter_use has returned. */
INLINE uint64_t counter_first(struct record *record, const struct group_counter *counter) {
    return counter_is_shared(counter) ? load_rlx(&record->shared_first) : load_rlx(&counter->first);
}
/* Counts `tasks` that have run; what they did is visible to whoever finds the record finished. */
void counter_complete(struct group_counter *counter, bool is_shared, uint64_t tasks);

/* Has every task counted so far run? true: what they wrote is visible. */
bool record_is_finished(const struct record *record);

/* Of all groups that it serves and ever served: tasks completed, and, read after these, submitted. */
uint64_t record_completed(const struct record *record);
uint64_t record_submitted(const struct record *record);

/* Has every task run of all groups together that the records of these indices, `to` left out, serve and ever served. */
bool records_are_finished(const struct groups *groups, uint32_t from, uint32_t to);

/* The counters that the group uses, one after the other; NULL: there is no more. */
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

/* A wait of that seat is about to sleep; a full fence follows. */
void record_note_sleeper(struct record *record, uint32_t seat);

/* After counter_complete: is the record finished, and does somebody sleep, or a continuation wait, for that? */
bool record_must_wake(const struct record *record);

/* A task failed. Keeps the lowest sequence number, and of equal ones the lower code. */
void record_fail(struct record *record, uint32_t sequence, int code);
/* The code kept, or 0. */
int record_error(const struct record *record);

/* The record of the group `id`, and what it said as that was opened is visible; NULL when that has ended. */
struct record *record_serving(const struct groups *groups, uint64_t id);
/* The group above `id`, or 0. Harmless for any id. */
uint64_t group_parent(const struct groups *groups, uint64_t id);

/* Marks the group `id` as cancelled. false: it is not open any more, or was cancelled already. */
bool record_cancel(struct record *record, uint64_t id);
/* The group `id` is urgent from now on, if it is open still. */
void record_boost(struct groups *groups, struct record *record, uint64_t id);
/* Inside a wait: the group that the record serves has that deadline. */
void record_due(struct groups *groups, struct record *record, uint64_t deadline_ns);
/* Is it past its deadline? Notes that it is, then. By who is about to begin, or to complete, a task of it. */
bool record_is_late(struct record *record);
/* It misses that moment, and all before; LATE_DROPPED: whatever its deadline will be. A completion of a task of it
 * follows. */
void record_miss(struct record *record, uint64_t deadline_ns);
/* Inside a wait: did it miss its deadline as that is now? */
INLINE bool record_was_late(const struct record *record) {
    uint64_t late = load_rlx(&record->late);
    return late != 0 && late >= load_rlx(&record->deadline_ns);
}
/* The task of that sequence number may still start. */
INLINE bool record_lets_run(const struct record *record, uint32_t sequence) {
    return (load_rlx(&record->id) & ID_CANCELLED) == 0 && sequence <= load_rlx(&record->cancel_after);
}

/* A seat is about to submit to the group `id`, which it has learnt by an acquiring load, from outside the group's own tasks.
 * Returns the record's id as it then is: `id` when open, with ID_CANCELLED or ID_CLOSING (look again later), or another (the
 * group has ended). */
uint64_t record_note_foreign(struct record *record, uint64_t id, uint32_t seat);

/* A wait for the group `id` begins: the record stays the group's until record_leave. false: the group had ended; no wait has
 * begun. */
bool record_enter(struct groups *groups, struct record *record, uint64_t id);
/* A weft_group held `id`, and the record did not serve that. `holder` is the weft_group's id: does that stand there still?
 * Then the group is another pool's, whether that lives or not, or a copy of one that has ended. */
bool group_is_astray(struct groups *groups, struct record *record, const group_id *holder, uint64_t id);
/* A wait ends; `has_ended`: it has called record_end. The last one out of an ended group frees the record. */
void record_leave(struct groups *groups, struct record *record, bool has_ended);
/* The same, but the record is the caller's if it was the last one out: true. */
bool record_leave_last(struct groups *groups, struct record *record, bool has_ended);
/* Inside a wait: has the group ended? */
bool record_has_ended(const struct record *record);
/* Inside a wait: is another waiter about to end it? */
INLINE bool record_is_closing(const struct record *record) { return (load_rlx(&record->id) & ID_CLOSING) != 0; }

/* Inside a wait, the record finished: true for one caller, and then nobody counts in it any more; the caller ends its use of
 * the user's weft_group and calls record_end. `seat` is the caller's. false: it is not finished after all, or another
 * caller is ending it. */
bool record_close(struct record *record, uint64_t id, uint32_t seat);
void record_end(struct record *record);
/* Never used: gives back a record just opened. */
void record_discard(struct groups *groups, struct record *record);

#endif
