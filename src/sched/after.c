/* after.c: tasks that start when a group has finished. The protocol is in continuation.c.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   V1  hold: fence                       sc       G4, G11  the thread that completes last misses the continuation, and
 *                                                    this thread the completion: it never starts. Also T17: a helper sleeps
 *   V2  after_group: load id              acquire  T25  a task that starts at once does not see what the group's tasks wrote
 */
#include "sched/task.h"

#include <string.h>

/* Puts the task into a lane of the calling thread; if there is no memory for that, the thread runs it at once. */
static void start(struct weft_worker *seat, struct continuation *continuation) {
    if (seat->pool->config.queue_max != 0) add_rlx(&seat->pool->queued, 1);
    if (!task_put(seat, continuation->id, continuation->record, continuation->cells)) {
        struct frame frame;
        uint32_t was_inside = load_rlx(&seat->inside); /* of the submission around this, if there is one */
        frame_push(seat, &frame);
        worker_run_cell(seat, continuation->cells);
        /* A submission in the task has reset `inside`. The pool is not drained before the flush, so it still exists. */
        store_rlx(&seat->inside, was_inside);
        worker_flush(seat);
        frame_pop(seat);
    }
    seat->lane = &seat->pool->blank;
    continuation_put(&seat->pool->groups, continuation);
}

#define HAS_FINISHED 1 /* no error: nothing to await */
static const struct continuation_kind plain = {start, false}, awaiting = {start, true};

/* The task to submit. */
struct after_task {
    weft_tell_fn tell; /* NULL: it does not await the group */
    weft_fn fn;
    const void *payload;
    size_t size;
    const weft_object *type; /* or NULL */
    void *object;
};

static int submit_at_once(weft_pool *pool, weft_group *group, const struct after_task *task) {
    if (task->type != NULL) return weft_submit_object(pool, group, task->type, task->object);
    return weft_submit(pool, group, task->fn, task->payload, task->size);
}

/* Writes the task as it will lie in a lane, except for its group. false: no memory. */
static bool continuation_fill(struct continuation *continuation, const struct after_task *task) {
    struct cell *cell = continuation->cells;
    cell->fn = task->fn;
    cell->meta = meta_make(0, 0, CELL_NO_PAYLOAD, 0);
    if (task->payload == NULL) return true;
    if (task->size <= CONTINUATION_INLINE_MAX) {
        cell->meta = meta_make(0, (uint32_t)task->size, task->type == NULL ? CELL_INLINE : CELL_OBJECT, 0);
        memcpy(cell->payload, task->payload, task->size);
        return true;
    }
    const struct heap_payload heap = {weft_alloc(task->size), task->size};
    if (heap.copy == NULL) return false;
    memcpy(heap.copy, task->payload, task->size);
    memcpy(cell->payload, &heap, sizeof heap);
    cell->meta = meta_make(0, sizeof heap, CELL_HEAP, 0);
    return true;
}

static void continuation_drop(struct groups *groups, struct continuation *continuation) {
    struct heap_payload heap;
    memcpy(&heap, continuation->cells->payload, sizeof heap);
    if (meta_kind(continuation->cells->meta) == CELL_HEAP) weft_free(heap.copy);
    continuation_put(groups, continuation);
}

/* Counts the task in its group. */
static int continuation_count(struct weft_worker *seat, weft_group *group, struct continuation *continuation) {
    for (;;) {
        int error;
        if (task_is_refused(seat)) return WEFT_ESHUTDOWN;
        uint32_t sequence;
        continuation->record = task_open(seat, group, &continuation->id, &error);
        if (continuation->record == NULL) return error;
        if (!task_count(seat, continuation->record, continuation->id, &sequence)) continue;
        continuation->cells->meta |= meta_make(continuation->record->item.index, 0, CELL_INLINE, sequence);
        return WEFT_OK;
    }
}

/* The caller has entered the record of the group `id`. WEFT_OK: the task will start, and the thread that starts it leaves the record. */
static int hold(struct weft_worker *seat, struct record *record, uint64_t id, struct continuation *continuation) {
    weft_pool *pool = seat->pool;
    if (!continuation_add(&pool->groups, record, continuation)) {
        task_undo(seat, continuation->record, continuation->id);
        return WEFT_EDEADLK;
    }
    fence_sc(V1);
    if (load_rlx(&pool->park.word[0].helpers) > 0) worker_wake_helpers(pool, id);
    if (record_is_finished(record)) worker_start_continuation(seat, record);
    return WEFT_OK;
}

/* Enters the record of the group `after`. NULL: the group has finished; or it is not of this pool, and *error says so. A finished
 * group that has not ended counts as finished only for a task that `hurries`. */
static struct record *after_group(weft_pool *pool, weft_group *after, bool hurries, uint64_t *id, int *error) {
    *error = WEFT_OK;
    *id = load_acq(V2, id_of(after));
    if (*id == 0) return NULL;
    struct record *record = record_at(&pool->groups, id_index(*id));
    if (record != NULL && record_enter(&pool->groups, record, *id)) {
        if (!hurries || !record_is_finished(record)) return record;
        record_leave(&pool->groups, record, false);
        return NULL;
    }
    if (record == NULL || group_is_astray(&pool->groups, record, id_of(after), *id)) *error = WEFT_EINVAL;
    return NULL;
}

/* The task will start when the group `id` has finished. On error nothing happened. */
static int submit_continuation(struct weft_worker *seat, struct record *record, uint64_t id, weft_after two,
                               const struct after_task *task) {
    struct groups *groups = &seat->pool->groups;
    struct continuation *continuation = continuation_get(groups);
    if (continuation == NULL) return WEFT_ENOMEM;
    continuation->kind = task->tell == NULL ? &plain : &awaiting;
    if (task->tell != NULL) *continuation_await(continuation) = (struct continuation_await){two.after, task->tell};
    if (!continuation_fill(continuation, task)) {
        continuation_put(groups, continuation);
        return WEFT_ENOMEM;
    }
    int error = continuation_count(seat, two.group, continuation);
    if (error == WEFT_OK) error = hold(seat, record, id, continuation);
    if (error != WEFT_OK) continuation_drop(groups, continuation);
    return error;
}

static int submit_after(weft_pool *pool, weft_after groups, const struct after_task *task) {
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    if (groups.after == NULL) groups.after = &pool->group;
    if (groups.group == NULL) groups.group = &pool->group;
    if (groups.after == groups.group) return WEFT_EDEADLK;
    guest_enter(seat);
    uint64_t id;
    bool hurries =
        pool->config.queue_max != 0 || task->tell != NULL; /* it needs a place in the queue; or the caller can wait */
    struct record *record = after_group(pool, groups.after, hurries, &id, &error);
    if (record == NULL) {
        if (error == WEFT_OK && task->tell != NULL)
            error = HAS_FINISHED;
        else if (error == WEFT_OK)
            error = submit_at_once(pool, groups.group, task);
    } else {
        error = submit_continuation(seat, record, id, groups, task);
        if (error != WEFT_OK) record_leave(&pool->groups, record, false);
    }
    guest_leave(seat);
    return error;
}

static bool is_good(const weft_object *type, size_t most) {
    return type != NULL && type->run != NULL && type->move == NULL && type->size <= most;
}

int weft_submit_after(weft_pool *pool, weft_after groups, weft_fn fn, const void *payload, size_t size) {
    if (pool == NULL || fn == NULL || (payload != NULL && size > WEFT_PAYLOAD_MAX)) return WEFT_EINVAL;
    return submit_after(pool, groups, &(struct after_task){.fn = fn, .payload = payload, .size = size});
}

int weft_submit_after_object(weft_pool *pool, weft_after groups, const weft_object *type, void *object) {
    if (pool == NULL || object == NULL || !is_good(type, CONTINUATION_INLINE_MAX)) return WEFT_EINVAL;
    return submit_after(pool, groups, &(struct after_task){NULL, type->run, object, type->size, type, object});
}

int weft_submit_await(weft_pool *pool, weft_after groups, const weft_object *type, void *object, weft_tell_fn tell) {
    if (pool == NULL || object == NULL || tell == NULL || !is_good(type, CONTINUATION_AWAIT_MAX)) return WEFT_EINVAL;
    return submit_after(pool, groups, &(struct after_task){tell, type->run, object, type->size, type, object});
}
