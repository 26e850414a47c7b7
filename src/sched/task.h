/* task.h: submitting weft's own internal tasks, for the files of layer 5. Layer 5. The protocols are in task.c and wait.c.
 *
 * Such tasks count in their group like any task. But they also run if the group is cancelled or the pool aborted (they check
 * that themselves), and their payloads never go to `clean`. */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include "sched/seat.h"

/* The payload in a cell of kind CELL_HEAP. */
struct heap_payload {
    void *copy;
    size_t size;
};

/* The pool is being destroyed, and the seat's thread may submit no more: it is from outside, or in its stop hook. */
INLINE bool task_is_refused(const struct weft_worker *seat) {
    return UNLIKELY(load_rlx(&seat->pool->closed)) && (seat->frame == NULL || load_rlx(&seat->pool->exits));
}

/* In a task: is the group deeper than those of all the thread's frames? Then it is none of them, nor above one of them. */
bool task_is_deepest(const struct weft_worker *seat, uint64_t id);
/* Is the seat running a task of that group, or waiting inside one? Then the group cannot end meanwhile. */
bool task_is_inside(const struct weft_worker *seat, uint64_t id);
/* The group's id; opens a group that has none. 0: *error says why. */
uint64_t task_bind(struct weft_worker *seat, weft_group *group, int *error);
/* The group's record and its id; opens a group that has none. The group had not ended a moment ago. NULL: *error says why. */
struct record *task_open(struct weft_worker *seat, weft_group *group, uint64_t *of, int *error);
/* The same, but returns the seat's lane for the group. NULL: *error says why. */
struct lane *task_enter(struct weft_worker *seat, weft_group *group, int *error);
/* The seat's lane that is bound to the group, or NULL. */
struct lane *task_lane(const struct weft_worker *seat, uint64_t id, struct record *record);
/* Counts a task in the group `id` if the group and the pool are still open. The caller must have read the id with acquire. */
bool task_count(struct weft_worker *seat, struct record *record, uint64_t id, uint32_t *sequence);
/* Takes that count back. The group is open: the caller's count keeps it open. */
void task_undo(struct weft_worker *seat, struct record *record, uint64_t id);
/* Publishes a task of the open group `id` that has been counted. false: no memory; nothing happened. */
bool task_put(struct weft_worker *seat, uint64_t id, struct record *record, const struct cell *cells);

/* The seat's thread enters and leaves a call that may sleep: the end of the pool waits until it has left. */
INLINE void guest_enter(struct weft_worker *seat) { count_up(&seat->guest_calls, 1); }
INLINE void guest_leave(struct weft_worker *seat) {
    plain_read(&seat->pool, sizeof seat->pool);
    store_rel(T26, &seat->guest_calls, load_rlx(&seat->guest_calls) - 1);
}

#define TASK_OWN_BYTES CELL_PAYLOAD

/* weft_submit for a task of weft's own with TASK_OWN_BYTES of payload. */
int task_submit_own(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload);
/* Inside a task: submits such a task to that task's group. Never runs it at once. false: no memory or no room; nothing happened. */
bool task_publish_own(struct weft_worker *seat, weft_fn fn, const void *payload);
/* Waits for the end of a group that no other thread has, whatever that takes. In a task, other waits that would keep this one
 * from ending are refused. true: the group was cancelled. */
bool task_await_own(weft_pool *pool, weft_group *group);

#endif
