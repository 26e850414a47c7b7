/* continuation.h: tasks that start when a group has finished. Layer 3. The protocol is in continuation.c. */
#ifndef WEFT_CONTINUATION_H
#define WEFT_CONTINUATION_H

#include "queue/group.h"
#include "queue/lane.h"

struct weft_worker;

#define CONTINUATION_CELLS 4u
#define CONTINUATION_INLINE_MAX (CONTINUATION_CELLS * CELL_BYTES - (CELL_BYTES - CELL_PAYLOAD))

struct continuation {
    struct pile_item item;
    struct continuation *next; /* held before this one; after continuation_take: after this one */
    struct record *record;     /* of the group it counts in, and that group's id */
    uint64_t id;
    struct record *after;      /* of the group that holds it; it and the next two: continuation.c's */
    continuation_link in_next; /* another that counts in the same group, added before; and who points to this one */
    continuation_link *in_link;
    void (*start)(struct weft_worker *seat,
                  struct continuation *continuation);  /* the task may run now; ends with continuation_put */
    ALIGNED(16) struct cell cells[CONTINUATION_CELLS]; /* the task as it will lie in a lane */
};

/* One of the caller's own; NULL: no memory. */
INLINE struct continuation *continuation_get(struct groups *groups) { return pile_get(&groups->continuation); }
INLINE void continuation_put(struct groups *groups, struct continuation *continuation) {
    pile_put(&groups->continuation, continuation);
}

/* Inside a wait (record_enter) on the group that the record serves, which lasts until somebody has taken the task: it starts
 * when the group has finished. false: that group cannot finish before the task's own has. A fence must follow, then a look
 * whether the group has finished already. */
bool continuation_add(struct groups *groups, struct record *record, struct continuation *continuation);

/* What the record holds, in the order it was added, when its group has finished. Any thread that sees the counts change.
 * The taker starts each task and leaves the wait once for each. */
struct continuation *continuation_take(struct groups *groups, struct record *record);

/* A wait without a deadline, inside a task, that sleeps: until it returns no group of the frames around it can finish. */
struct continuation_wait {
    struct continuation_wait *next; /* for the same group */
    struct record *record;          /* of the group waited for, and that group's id */
    uint64_t id;
    struct frame *frame;
    bool insists;     /* others are to give way */
    uint32_t circles; /* groups->circles as it began: sleeps only while it is that */
};

/* Around the sleep. false: it would never end, for the group waited for cannot finish before one of the frames' has; then
 * it has not begun, but for one that insists. */
bool continuation_wait_begin(struct groups *groups, struct continuation_wait *wait);
void continuation_wait_end(struct groups *groups, struct continuation_wait *wait);

/* Can the group `to` finish only after a group of these frames has? */
bool continuation_leads(struct groups *groups, struct frame *frame, uint64_t to);

/* Does no other group serve the one that the record serves? Whoever publishes a task of one that does has said so before. */
INLINE bool group_is_alone(const struct record *record) {
    return load_rlx(&record->above) == 0 && load_rlx(&record->continuation_in) == NULL;
}
/* May a wait for the group `goal` run tasks of the group `id`: is that below it, or does it, or a group above it, hold tasks
 * of a group that is, and so on? Harmless for any id. */
bool group_serves(struct groups *groups, uint64_t id, uint64_t goal);

#endif
