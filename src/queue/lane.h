/* lane.h: the queue that is its tasks' allocator. Layer 3. The protocol is in lane.c.
 *
 * One thread, the owner, pushes; any thread claims from the head. A task lies in one or more cells side by side in a segment
 * of SEGMENT_CELLS cells, and stays there while it runs. */
#ifndef WEFT_LANE_H
#define WEFT_LANE_H

#include "queue/segment.h"
#include "weft.h"

/* meta: record index (20 bits) | payload bytes (11) | kind (3) | sequence number within its group and submitter (30) */
enum cell_kind {
    CELL_INLINE = 0,
    CELL_NO_PAYLOAD = 1,
    CELL_HEAP = 2,
    CELL_OWN = 3,   /* as CELL_INLINE; the task is weft's own and always runs */
    CELL_PLAIN = 4, /* as CELL_INLINE; nothing has to end the payload */
    CELL_OBJECT = 5 /* as CELL_INLINE; fn ends the payload, whether it runs or not */
};
#define CELL_KIND_SHIFT 30
#define META_SEQUENCE_MAX 0x3fffffffu
#define META_BYTES_SHIFT 33

INLINE uint64_t meta_make(uint32_t record, uint32_t bytes, enum cell_kind kind, uint32_t sequence) {
    return (uint64_t)record << 44 | (uint64_t)bytes << META_BYTES_SHIFT | (uint64_t)kind << CELL_KIND_SHIFT | sequence;
}
INLINE uint32_t meta_record(uint64_t meta) { return (uint32_t)(meta >> 44); }
INLINE uint32_t meta_bytes(uint64_t meta) { return (uint32_t)(meta >> META_BYTES_SHIFT) & 0x7ff; }
INLINE enum cell_kind meta_kind(uint64_t meta) { return (enum cell_kind)((meta >> CELL_KIND_SHIFT) & 7); }
/* CELL_INLINE or CELL_PLAIN, by one test. */
INLINE bool meta_is_inline(uint64_t meta) { return (meta & (uint64_t)3 << CELL_KIND_SHIFT) == 0; }
/* Bytes and kind, for a lane's meta. */
INLINE uint64_t meta_shape(uint64_t bytes, enum cell_kind kind) {
    return (bytes << (META_BYTES_SHIFT - CELL_KIND_SHIFT) | kind) << CELL_KIND_SHIFT;
}
INLINE uint32_t meta_sequence(uint64_t meta) { return (uint32_t)meta & META_SEQUENCE_MAX; }
/* Cells that a task with a payload of `bytes` needs. */
INLINE uint32_t cells_of(uint32_t bytes) { return (bytes + (CELL_BYTES - CELL_PAYLOAD) + CELL_BYTES - 1) / CELL_BYTES; }

INLINE uint32_t shape_make(uint32_t stride, uint32_t end) { return end << 8 | stride; }
INLINE uint32_t shape_stride(uint32_t shape) { return shape & 0xff; }
INLINE uint32_t shape_end(uint32_t shape) { return shape >> 8; }

struct lane {
    /* only the owner's: written with each task */
    struct segment *current; /* where the tail is */
    struct cell *cell;       /* of `current`: where the next task will lie */
    struct cell *last;       /* submit needs no slow path up to here: `end`, or before it (trace_submit) */
    struct cell *end;        /* the last place in `current` for a task of its stride */
    uint64_t origin;         /* a cell's position less its address in cells, throughout `current` */
    uint32_t stride;         /* cells that each task takes in `current` */
    uint32_t oldest;         /* segments in use, oldest first, linked by older_next; the last is `current` */
    uint32_t in_use;         /* number of those segments */
    uint64_t group_id;       /* the group whose tasks it takes now; LANE_NO_GROUP: none */
    void *record;            /* that group's record and counter (task.c's) */
    void *counter;
    uint64_t first; /* the counter's value before that group's first task */
    uint64_t meta;  /* meta word of a task of that group, without size and sequence number */

    /* written rarely, so that takers keep this line in their caches */
    ALIGNED(CACHE_LINE) struct lane *newer; /* the seat's next newer lane, or NULL */
    ATOMIC(struct lane *) next;             /* the seat's next older lane; written before this one is published */
    struct pile *segments;                  /* set by lane_init */
    ATOMIC(uint32_t) tiny;                  /* nonzero: its tasks were seen to be tiny (worker.c); takers write it */
    uint32_t number;                        /* the number of older lanes */
    uint32_t seat;                          /* the owner; written before the lane is published */
    struct lane *next_idle;                 /* in the seat's list of idle lanes */
    struct lane *next_long;                 /* in the seat's list of long lanes */
    bool is_long;                           /* it is in that list */

    /* published by the owner */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) tail; /* position after the last published task, not cut to 40 bits */
    ATOMIC(uint32_t) group;                    /* index of the record of the group it is bound to; written before the tail */
    ATOMIC(uint64_t) head_seen;                /* the poller's: the head when it last looked */

    /* the takers'; alone in its cache line, because the line travels from taker to taker */
    ALIGNED(CACHE_LINE) ATOMIC(uint64_t) head; /* position (40 bits) | segment index of the first unclaimed task */
};

#define LANE_NO_GROUP UINT64_MAX
#ifndef LANE_KEEP
#define LANE_KEEP 64u /* segments that a lane keeps over a wait */
#endif
#define LANE_POSITION_MASK ((UINT64_C(1) << 40) - 1)

/* Part of a segment that belongs to one thread: tasks from `begin` to before `end`. */
struct piece {
    struct segment *segment;
    uint32_t begin; /* slots */
    uint32_t end;
    uint32_t stride; /* slots from task to task */
};

/* Starts the positions at `position` (a test's choice, a multiple of SEGMENT_CELLS; 0 otherwise). false: no memory. */
bool lane_init(struct lane *lane, struct pile *segments, uint64_t position);

/* Owner: does a task of `cells` cells fit into the current segment? `up_to` is `last` (it fits, and needs no slow path) or
 * `end` (it fits). Each stride is at least one cell. */
INLINE bool lane_fits_to(const struct lane *lane, uint32_t cells, const struct cell *up_to) {
    return (cells == 1 || cells <= lane->stride) && (uintptr_t)lane->cell <= (uintptr_t)up_to;
}
INLINE bool lane_fits(const struct lane *lane, uint32_t cells) { return lane_fits_to(lane, cells, lane->last); }
/* Owner: the cell where the next task will lie; after lane_fits. */
INLINE struct cell *lane_cell(const struct lane *lane) { return lane->cell; }
/* Owner: makes room for a task of `cells` cells (at most SEGMENT_CELLS - 1). false: no memory, nothing changed. */
bool lane_extend(struct lane *lane, uint32_t cells);
/* The position of the owner's next task. */
INLINE uint64_t lane_position(const struct lane *lane) { return lane->origin + (uintptr_t)lane->cell / CELL_BYTES; }
/* Owner: publishes the task written at `cell`, which is lane_cell. */
INLINE void lane_publish(struct lane *lane, struct cell *cell) {
    plain_write(cell, (size_t)lane->stride * CELL_BYTES);
    lane->cell = cell + lane->stride;
    store_rel(L6, &lane->tail, lane_position(lane));
}
/* Owner: gives finished segments beyond the current one back to the pool. */
void lane_trim(struct lane *lane);

/* Unclaimed cells, at a recent moment. Any thread. */
uint64_t lane_backlog(const struct lane *lane);
INLINE bool lane_is_empty(const struct lane *lane) { return lane_backlog(lane) == 0; }

/* May tasks of the group with this record be taken? The group may have ended: the question must then be harmless. In an
 * ordered pool a lane holds tasks of several groups, and the record is that of the task submitted last. */
typedef bool (*lane_filter)(const void *context, uint32_t record);

/* The head as a thread's last claim left it. Where many threads claim, a load of the head costs as much as a claim. So if
 * others claimed many tasks between the thread's last two claims there, its next claim begins with this head. Otherwise a
 * load is cheaper than a CAS that fails. */
#ifndef LEFT_OTHERS
#define LEFT_OTHERS 4u /* many: this many times the tasks of the claim */
#endif
struct lane_left {
    uint64_t position; /* not cut to 40 bits */
    uint32_t segment;  /* its index; PILE_NONE: not known */
    bool are_many;     /* others claimed many tasks before the last claim */
};

INLINE void left_forget(struct lane_left *left) {
    left->segment = PILE_NONE;
    left->are_many = false;
}

struct lane_want {
    uint32_t max; /* tasks */
    lane_filter filter;
    const void *context;
    struct lane_left *left; /* or NULL */
    uint32_t share;         /* at most 1 + the lane's tasks / share; 0: no bound */
};

/* Claims up to `max` tasks from the head, in order; only if `filter` (NULL: any) accepts their group. Any thread. Returns
 * the number of tasks claimed; 0: none. *piece holds them, and the caller ends them with piece_done. */
uint32_t lane_claim_want(struct lane *lane, const struct lane_want *want, struct piece *piece);
INLINE uint32_t lane_claim(struct lane *lane, uint32_t max, lane_filter filter, const void *context, struct piece *piece) {
    return lane_claim_want(lane, &(struct lane_want){max, filter, context, NULL, 0}, piece);
}

/* Owner: the record of the first unclaimed task's group; 0: there is no such task. May be asked in a filter of lane_claim:
 * if another thread claims in between, the CAS of lane_claim fails. */
uint32_t lane_next_record(const struct lane *lane);

/* The tasks from piece->begin to before piece->end have run; the lane's owner may overwrite their cells at once. */
INLINE void piece_done(const struct piece *piece) {
    store_rel(L4, &piece->segment->done[piece->begin], (uint8_t)(piece->end - piece->begin));
}

#endif
