/* continuation.h: tasks that start when a group has finished. Layer 3. The protocol is in continuation.c. */
#ifndef WEFT_CONTINUATION_H
#define WEFT_CONTINUATION_H

#include "queue/group.h"
#include "queue/lane.h"

struct weft_worker;

#define CONTINUATION_CELLS 4u
#define CONTINUATION_INLINE_MAX (CONTINUATION_CELLS * CELL_BYTES - (CELL_BYTES - CELL_PAYLOAD))

/* One that is also a wait for the group that holds it. Lies in the last bytes of the cells. */
struct continuation_await {
    weft_group *group; /* that holds it */
    weft_tell_fn tell; /* NULL: its task will not run */
};
#define CONTINUATION_AWAIT_MAX (CONTINUATION_INLINE_MAX - sizeof(struct continuation_await))

struct continuation_kind {
    void (*start)(struct weft_worker *seat,
                  struct continuation *continuation); /* the task may run now; ends with continuation_put */
    bool awaits;
};

struct continuation {
    struct pile_item item;
    struct continuation *next; /* the one held before this; after continuation_take: after this */
    struct record *record;     /* of the group that counts it; `id`: of that group */
    uint64_t id;
    struct record *after;      /* of the group that holds it. This and the next two are continuation.c's */
    continuation_link in_next; /* the one of the same group added before; in_link: what points to this one */
    continuation_link *in_link;
    const struct continuation_kind *kind;
    ALIGNED(16) struct cell cells[CONTINUATION_CELLS]; /* the task as it will lie in a lane */
};

/* A continuation for the caller. NULL: no memory. */
INLINE struct continuation *continuation_get(struct groups *groups) { return pile_get(&groups->continuation); }
INLINE void continuation_put(struct groups *groups, struct continuation *continuation) {
    pile_put(&groups->continuation, continuation);
}

/* Makes a task start when the group that the record serves has finished. Inside a wait for that group (record_enter), which
 * must last until a thread has taken the task. Then the caller must fence and look whether the group has finished already.
 * false: the group cannot finish before the task's own group. */
bool continuation_add(struct groups *groups, struct record *record, struct continuation *continuation);

struct taken {
    struct continuation *oldest;
    bool ends; /* some await the group: the taker has closed the record, and ends it */
};
/* Takes what the record holds, oldest first, if its group has finished. Any thread that sees the counts change; its seat has that
 * index. The taker tells, starts each task, and leaves the wait once for each. If it ends the group, the first wait that it
 * leaves is the one that did. */
struct taken continuation_take(struct groups *groups, struct record *record, uint32_t seat);

INLINE struct continuation_await *continuation_await(struct continuation *continuation) {
    unsigned char *end = (unsigned char *)&continuation->cells[CONTINUATION_CELLS];
    return (struct continuation_await *)(void *)(end - sizeof(struct continuation_await));
}
/* Those that await the group are told its result, and the group ends, before the taker starts the first of them. */
void continuation_tell(struct record *record, const struct taken *taken);

/* A sleeping wait inside a task, without a deadline: until it returns, no group of the frames around it can finish. */
struct continuation_wait {
    struct continuation_wait *next; /* the next wait for the same group */
    struct record *record;          /* of the group waited for */
    struct frame *frame;
    bool insists;     /* the other waits of a circle must give way */
    uint32_t circles; /* groups->circles when the wait began: it sleeps only while they are equal */
};

/* These two enclose the sleep. false: the sleep would never end, because the group waited for cannot finish before a group
 * of the frames has; then the wait has not begun, unless it insists. */
bool continuation_wait_begin(struct groups *groups, struct continuation_wait *wait);
void continuation_wait_end(struct groups *groups, struct continuation_wait *wait);

/* Can the group `to` finish only after a group of the frames has? */
bool continuation_leads(struct groups *groups, struct frame *frame, uint64_t to);

/* Does no other group serve the one that the record serves? A thread that publishes a task of such a group noted it
 * before. */
INLINE bool group_is_alone(const struct record *record) {
    return load_rlx(&record->above) == 0 && load_rlx(&record->continuation_in) == NULL;
}
/* May a wait for the group `goal` run tasks of the group `id`? Yes if `id` serves `goal`: it is below `goal`; or it, or a
 * group above it, holds tasks of a group that serves `goal`. Harmless for any id. */
bool group_serves(struct groups *groups, uint64_t id, uint64_t goal);

#endif
