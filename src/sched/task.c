/* task.c: submitting.
 *
 * The caller's seat has a lane for each group that it submits to; the lane used last is at hand. The submitter counts the task
 * in the group's record (counter_submit), looks at the group once more, then writes and publishes the task:
 *
 *   Submitter                                  Closer (record_close), destroy (pool_drain)
 *     1. submitted + 1                           1. marks the id / closes the pool
 *     2. light fence (T2)                        2. heavy fence (G8, P4)
 *     3. the id and the pool still open?         3. sums again
 *        no: completed + 1, starts over
 *     4. writes the task, publishes (L6)
 *     5. not biased: full fence (T4); biased: light fence (T3)
 *     6. reads who sleeps (park.c)
 *
 * The task may cause the pool's end before its submitter has finished step 6. So a submitter is `inside` its seat from step 1 to
 * the end of step 6, and destroy waits until no thread is inside (pool_drain). Entering and leaving are a plain store each, because
 * only the seat's own thread writes `inside`. Calls that may sleep enter and leave in the same way: a thread that may destroy the
 * pool knows so from something that happened after the entering, or sees the caller thanks to the heavy fence (R1, J32).
 *
 * A lane's owner binds it to another group when it is empty. Each task carries its own group's record, so this does not affect
 * tasks claimed before. lanes.c decides which lanes a seat has.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   T1  submit_at_hand: light fence       light    G8  a task is counted in the record's next group, or lost in destroy
 *   T2  count_from: light fence           light    G8  as T1
 *   T3  submit_publish: light fence       light    D1  a biased seat's task is not seen by the worker that parks: by the compiler's
 *                                               doing, or where the barrier was lost since the seat became biased
 *   T4  submit_fenced: fence              sc       K3  lost wake-up
 *   T5  seat_bias: fence                  sc       K3  a worker parks without the heavy fence that the bias needs
 *   T7  queue_reserve: fence              sc       D13, P14, P15, D12  a submitter waits for room that is there, or that nobody is left
 *                                                  to make
 *   T11 group_open: CAS id                release  T16 another thread uses the record before it is open; split: two records
 *   T16 task_bind: load id, x2            acquire  T11 see T11
 *   T30 lane_for: store lane              release  I1 a lane is looked at before it is made
 *   T28 submit_leave: store inside        release  P6  the pool's memory goes while the submitter of its last task uses it
 *   T26 guest_leave: store guest_calls   release  P10 the pool's memory goes while a guest uses it
 */
#include <string.h>

#include "sched/hooks.h"
#include "sched/priority.h"
#include "sched/task.h"
#include "sched/tokens.h"

#ifndef BIAS_AFTER
#define BIAS_AFTER 256u /* submissions */
#endif

#define GROUP_FLAGS (WEFT_GROUP_CANCEL_ON_ERROR | WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND | WEFT_GROUP_DROP_LATE)

/* Takes back a submission counted there. */
static void count_undo(struct weft_worker *seat, struct record *record, struct group_counter *counter) {
    counter_complete(counter, counter_is_shared(counter), 1);
    worker_settle(seat, record); /* a waiter may have gone to sleep because of this count */
}
void task_undo(struct weft_worker *seat, struct record *record, uint64_t id) {
    count_undo(seat, record, counter_use(&seat->pool->groups, record, seat->counter, id));
}

/* ---- lanes of a seat ---------------------------------------------------------------------------------------------- */

/* Makes room for a task of `cells` cells, which is about to be submitted. false: no memory; nothing changed. */
static bool lane_grow(struct weft_worker *seat, struct lane *lane, uint32_t cells) {
    if (!lane_fits_to(lane, cells, lane->end) && !lane_extend(lane, cells)) return false;
    trace_submit(seat, lane);
    if (lane->in_use > LANE_KEEP && !lane->is_long) {
        lane->is_long = true;
        lane->next_long = seat->long_lanes;
        seat->long_lanes = lane;
    }
    return true;
}

struct lane *task_lane(const struct weft_worker *seat, uint64_t id, struct record *record) {
    const struct group_counter *counter = counter_of(record, seat->counter);
    struct lane *lane = load_rlx(&counter->lane);
    if (lane != NULL && lane->group_id == id) return lane;
    /* a lane may still count in the shared counter, for lack of memory then, though the seat has its own counter by now */
    if (LIKELY(counter_is_near(record, seat->counter) || (!counter_is_shared(counter) && record_is_apart(record))))
        return NULL;
    for (lane = load_rlx(&seat->lanes); lane != NULL && lane->group_id != id;) lane = load_rlx(&lane->next);
    return lane;
}

/* The seat's lane for the group: the one bound to it, an empty one, or a new one. An ordered pool has one lane for all groups. The
 * lane comes to hand only if weft_submit may take the short way: the pool is not bounded, and the counter is the seat's own. */
static struct lane *lane_for(struct weft_worker *seat, uint64_t id, struct record *record) {
    struct lane *lane = task_lane(seat, id, record);
    bool is_bound = lane != NULL;
    if (lane == NULL) lane = lanes_get(seat);
    if (lane == NULL) return NULL;
    if (!is_bound && observe_tasks(seat->pool)) lane->last = NULL; /* so that the time of its first task is noted */
    lane->group_id = id;
    lane->record = record;
    bool stays = is_bound && counter_is_shared(lane->counter); /* so that its tasks' sequence numbers continue */
    struct group_counter *counter = stays ? lane->counter : counter_use(&seat->pool->groups, record, seat->counter, id);
    lane->counter = counter;
    lane->first = counter_first(record, counter);
    lane->meta = meta_make(record->item.index, 0, CELL_INLINE, 0);
    store_rlx(&lane->group, record->item.index);
    bool is_shared = counter_is_shared(counter);
    if (!is_shared) store_rel(T30, &counter->lane, lane);
    bool is_plain = seat->pool->config.queue_max == 0 && !is_shared;
    seat->lane = is_plain ? lane : &seat->pool->blank;
    seat->lane_bound = lane;
    return lane;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

/* True for a group that was opened in this task. */
bool task_is_deepest(const struct weft_worker *seat, uint64_t id) {
    const struct frame *frame = seat->frame;
    uint32_t depth = record_depth(record_at(&seat->pool->groups, id_index(id)));
    return depth > frame->deepest && depth > record_depth(frame->record);
}

/* A group deeper than those of all frames is none of them. The groups above those do not count: a task may submit to a group of
 * its own and end, and then the task's group may end before the other. */
bool task_is_inside(const struct weft_worker *seat, uint64_t id) {
    const struct frame *frame = seat->frame;
    if (frame == NULL) return false;
    if (frame->id == id) return true;
    if (task_is_deepest(seat, id)) return false;
    while (frame != NULL && frame->id != id) frame = frame->above;
    return frame != NULL;
}

/* Opens a record for a group that has none, and returns it and its id. NULL: *error says why; if that is WEFT_OK, another thread
 * has opened one, and the caller must acquire its id. */
static struct record *group_open(struct weft_worker *seat, weft_group *group, uint64_t *of, int *error) {
    struct groups *groups = &seat->pool->groups;
    *error = WEFT_EINVAL;
    if ((group->flags & ~GROUP_FLAGS) != 0 || group->zero != 0 || !priority_allows(seat->pool, group->flags)) return NULL;
    struct record *record = seat->kept != NULL ? seat->kept : pile_get(&groups->records);
    *error = WEFT_ENOMEM;
    if (record == NULL) return NULL;
    seat->kept = NULL;
    uint64_t none = 0;
    uint64_t id = *of = record_begin(groups, record, seat->frame == NULL ? 0 : seat->frame->id, group->flags);
    counter_begin_first(groups, record, seat->counter, id);
    store_rlx(&record->foreign, seat->index + 1);
    *error = WEFT_OK;
    if (cas_rel(T11, id_of(group), &none, id)) return record;
    record_discard(groups, record);
    return NULL;
}

uint64_t task_bind(struct weft_worker *seat, weft_group *group, int *error) {
    for (;;) {
        uint64_t id = load_acq(T16, id_of(group));
        *error = WEFT_OK;
        if (id != 0 || group_open(seat, group, &id, error) != NULL) return id;
        if (*error != WEFT_OK) return 0;
    }
}

struct record *task_open(struct weft_worker *seat, weft_group *group, uint64_t *of, int *error) {
    for (;;) {
        uint64_t id = *of = load_acq(T16, id_of(group));
        if (id == 0) {
            struct record *fresh = group_open(seat, group, of, error);
            if (fresh != NULL || *error != WEFT_OK) return fresh;
            continue;
        }
        struct record *record = record_at(&seat->pool->groups, id_index(id));
        *error = WEFT_EINVAL;
        if (record == NULL) return NULL;
        uint64_t now = task_is_inside(seat, id) ? load_rlx(&record->id) : record_note_foreign(record, id, seat->index);
        *error = WEFT_ECANCELED;
        if (now == (id | ID_CANCELLED)) return NULL;
        if (now == id) return record;
        *error = WEFT_EINVAL;
        if (group_is_astray(&seat->pool->groups, record, id_of(group), id)) return NULL;
        os_yield(); /* a waiter is ending the group; its id is about to go */
    }
}

struct lane *task_enter(struct weft_worker *seat, weft_group *group, int *error) {
    uint64_t id;
    struct record *record = task_open(seat, group, &id, error);
    if (record == NULL) return NULL;
    *error = WEFT_ENOMEM;
    return lane_for(seat, id, record);
}

/* ---- submit ------------------------------------------------------------------------------------------------------- */

static void seat_bias(struct weft_worker *seat) {
    seat->fenced = 0;
    if (!os_fence_is_asymmetric()) return;
    add_rlx(&seat->pool->biased, 1);
    fence_rmw_sc(T5);
    store_rlx(&seat->biased, 1);
}

/* The pool does not end until the seat's thread has left; after that it may be gone. */
INLINE void submit_enter(struct weft_worker *seat) { store_rlx(&seat->inside, 1); }
INLINE int submit_leave(struct weft_worker *seat, uint32_t inside) {
    plain_read(&seat->pool, sizeof seat->pool);
    store_rel(T28, &seat->inside, inside);
    return WEFT_OK;
}

/* The rest of submit_publish below, if it has to call other functions. */
static NOINLINE int submit_notified(struct weft_worker *seat, const struct lane *lane, bool leaves) {
    worker_notify(seat, lane, lane->group_id);
    return leaves ? submit_leave(seat, 0) : WEFT_OK;
}
static NOINLINE int submit_fenced(struct weft_worker *seat, const struct lane *lane, bool leaves) {
    fence_sc(T4);
    if (++seat->fenced >= BIAS_AFTER) seat_bias(seat);
    return submit_notified(seat, lane, leaves);
}

/* Publishes the task in `cell`; WEFT_OK. Calls of other functions come last, so that weft_submit need not save registers. */
INLINE int submit_publish(weft_pool *pool, struct weft_worker *seat, struct lane *lane, struct cell *cell, bool leaves) {
    lane_publish(lane, cell);
    if (UNLIKELY(!load_rlx(&seat->biased))) return submit_fenced(seat, lane, leaves);
    os_fence_light(T3);
    if (UNLIKELY(!worker_is_calm(pool))) return submit_notified(seat, lane, leaves);
    return leaves ? submit_leave(seat, 0) : WEFT_OK;
}

INLINE void copy_payload(unsigned char *to, const void *payload, size_t size) {
    const unsigned char *from = payload;
    if (size > CELL_PAYLOAD) {
        memcpy(to, from, size);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else {
        for (size_t i = 0; i < size; i++) to[i] = from[i];
    }
}

/* A task that is submitted the long way. */
struct job {
    weft_fn fn;
    const void *payload;
    uint32_t bytes; /* in the cells */
    enum cell_kind kind;
    void (*move)(void *payload, void *object); /* CELL_OBJECT, else NULL */
    void *object;
    struct heap_payload heap;
};

/* task_count with the counter given. */
INLINE bool count_from(struct weft_worker *seat, struct record *record, uint64_t id, struct group_counter *counter,
                       uint32_t *sequence) {
    uint64_t before = counter_submit(counter, counter_is_shared(counter), 1);
    os_fence_light(T2);
    *sequence = (uint32_t)(before - counter_first(record, counter)) & META_SEQUENCE_MAX;
    if (load_rlx(&record->id) == id && (!load_rlx(&seat->pool->closed) || seat->frame != NULL)) return true;
    count_undo(seat, record, counter);
    return false;
}

bool task_count(struct weft_worker *seat, struct record *record, uint64_t id, uint32_t *sequence) {
    struct group_counter *counter = counter_use(&seat->pool->groups, record, seat->counter, id);
    return count_from(seat, record, id, counter, sequence);
}

bool task_put(struct weft_worker *seat, uint64_t id, struct record *record, const struct cell *cells) {
    uint32_t count = cells_of(meta_bytes(cells->meta));
    struct lane *lane = lane_for(seat, id, record);
    if (lane == NULL || (!lane_fits(lane, count) && !lane_grow(seat, lane, count))) return false;
    struct cell *cell = lane_cell(lane);
    memcpy(cell, cells, (size_t)count * CELL_BYTES);
    submit_publish(seat->pool, seat, lane, cell, false);
    return true;
}

/* Counts the task, checks that the group is still open, writes and publishes. false: nothing happened. */
static bool submit_checked(struct weft_worker *seat, struct lane *lane, const struct job *job) {
    const struct record *record = lane->record;
    uint32_t sequence;
    if (!count_from(seat, lane->record, lane->group_id, lane->counter, &sequence)) return false;
    struct cell *cell = lane_cell(lane);
    cell->fn = job->fn;
    cell->meta = meta_make(record->item.index, job->bytes, job->kind, sequence);
    if (job->move != NULL)
        job->move(cell->payload, job->object);
    else
        copy_payload(cell->payload, job->payload, job->bytes);
    submit_publish(seat->pool, seat, lane, cell, false);
    return true;
}

/* A visit has found the queue full, and no thread of this pool is left to make room: all sleep in tasks, perhaps until this one goes on.
 * Whoever falls asleep last wakes it (T7, P14, P15, D12). */
static bool queue_is_stuck(weft_pool *pool) {
    return !pool_has_runner(pool) && pool_is_visited(pool) && !pool_call_spares(pool);
}

/* Reserves a place among the tasks that may wait in a bounded pool. WEFT_OK; an error; or 1: the caller runs the task itself. */
static int queue_reserve(struct weft_worker *seat) {
    weft_pool *pool = seat->pool;
    for (;;) {
        if (task_is_refused(seat)) return WEFT_ESHUTDOWN;
        bool is_unbound = seat->hands_over || pool_is_aborted(pool); /* then tasks are dropped, not run here */
        if (add_rlx(&pool->queued, 1) < pool->config.queue_max || is_unbound) return WEFT_OK;
        uint32_t room = load_rlx(&pool->room);
        add_rlx(&pool->room_wanted, 1);
        add_rlx(&pool->queued, UINT64_MAX);
        fence_rmw_sc(T7);
        bool is_full = load_rlx(&pool->queued) >= pool->config.queue_max;
        bool blocks = pool->config.full == WEFT_FULL_BLOCK && seat->frame == NULL;
        if (task_is_refused(seat)) is_full = false; /* the next turn returns the error */
        blocks = blocks && !(is_full && queue_is_stuck(pool));
        if (is_full && blocks) pool_wait(pool, &pool->room, room, 0);
        add_rlx(&pool->room_wanted, UINT32_MAX);
        if (is_full && !blocks) return pool->config.full == WEFT_FULL_ERROR ? WEFT_EFULL : 1;
    }
}

/* Runs a task on this thread; it is counted and reported like a queued one. An object is first moved to `payload`. */
static int run_now(struct weft_worker *seat, weft_group *group, const struct job *job, void *payload) {
    struct lane *lane;
    uint32_t sequence;
    for (;;) {
        int error;
        if (task_is_refused(seat)) return WEFT_ESHUTDOWN;
        lane = task_enter(seat, group, &error);
        if (lane == NULL) return error;
        if (task_count(seat, lane->record, lane->group_id, &sequence)) break;
    }
    struct record *record = lane->record;
    if (!record_lets_run(record, sequence)) {
        task_undo(seat, record, lane->group_id);
        return WEFT_ECANCELED;
    }
    struct frame frame;
    frame_push(seat, &frame);
    frame.record = record;
    frame.index = record->item.index;
    frame.id = lane->group_id;
    if (UNLIKELY((load_rlx(&seat->pool->extras) & EXTRA_DUE) != 0)) {
        priority_before_task(seat);
        if (!record_lets_run(record, sequence)) { /* the task would be late */
            frame_pop(seat);
            task_undo(seat, record, frame.id);
            return WEFT_ECANCELED;
        }
    }
    if (job->move != NULL) job->move(payload, job->object);
    store_rlx(&seat->running, (uintptr_t)job->fn);
    int error = observe_task(seat->pool, job->fn)(payload, seat);
    if (error != 0) record_fail(record, sequence, error);
    count_up(&seat->tasks_run, 1);
    frame.unflushed++;
    worker_flush(seat);
    frame_pop(seat);
    return WEFT_OK;
}

/* The same for a task that found the queue full. */
static int run_job(struct weft_worker *seat, weft_group *group, const struct job *job, size_t size) {
    char small[64] ALIGNED(16);
    if (job->payload == NULL) return run_now(seat, group, job, NULL);
    void *copy = size <= sizeof small ? small : weft_alloc(size);
    if (copy == NULL) return WEFT_ENOMEM;
    if (job->move == NULL) memcpy(copy, job->payload, size);
    int error = run_now(seat, group, job, copy);
    if (copy != small) weft_free(copy);
    return error;
}

/* Copies the task's payload to the heap; the cell then holds pointer and size. false: no memory. */
static bool job_to_heap(struct job *job, size_t size) {
    job->heap.copy = weft_alloc(size);
    job->heap.size = size;
    if (job->heap.copy == NULL) return false;
    memcpy(job->heap.copy, job->payload, size);
    job->payload = &job->heap;
    job->bytes = sizeof job->heap;
    job->kind = CELL_HEAP;
    return true;
}

static int submit_job(struct weft_worker *seat, weft_group *group, const struct job *job) {
    for (;;) {
        if (task_is_refused(seat)) return WEFT_ESHUTDOWN;
        int error;
        struct lane *lane = task_enter(seat, group, &error);
        if (lane == NULL) return error;
        if (!lane_fits(lane, cells_of(job->bytes)) && !lane_grow(seat, lane, cells_of(job->bytes))) return WEFT_ENOMEM;
        if (submit_checked(seat, lane, job)) return WEFT_OK;
    }
}

static int submit_seated(struct weft_worker *seat, weft_group *group, struct job *job, size_t size) {
    if (job->payload == NULL)
        job->kind = CELL_NO_PAYLOAD;
    else if (size > WEFT_INLINE_MAX && !job_to_heap(job, size))
        return WEFT_ENOMEM;
    int error = submit_job(seat, group, job);
    if (error != WEFT_OK)
        weft_free(job->heap.copy);
    else if (job->kind == CELL_HEAP)
        count_up(&seat->heap_payloads, 1);
    return error;
}

static int submit_bounded(struct weft_worker *seat, weft_group *group, struct job *job, size_t size) {
    int error = queue_reserve(seat);
    if (error < 0) return error;
    if (error > 0) return run_job(seat, group, job, size);
    error = submit_seated(seat, group, job, size);
    if (error != WEFT_OK) worker_leave_queue(seat->pool);
    return error;
}

static int submit_any(weft_pool *pool, weft_group *group, struct job *job, size_t size) {
    if (pool == NULL || job->fn == NULL || (job->payload != NULL && size > WEFT_PAYLOAD_MAX)) return WEFT_EINVAL;
    if (group == NULL) group = &pool->group;
    if (job->payload == NULL) job->bytes = 0;
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    if (pool->config.queue_max == 0) {
        uint32_t was_inside = load_rlx(&seat->inside);
        submit_enter(seat);
        error = submit_seated(seat, group, job, size);
        submit_leave(seat, was_inside);
        return error;
    }
    guest_enter(seat);
    error = submit_bounded(seat, group, job, size);
    guest_leave(seat);
    return error;
}

/* Passed by value, in two registers. */
struct call {
    weft_fn fn;
    const void *payload;
};

static NOINLINE int submit_slow(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    struct job job = {.fn = call.fn, .payload = call.payload, .bytes = (uint32_t)size, .kind = kind};
    if (kind == CELL_PLAIN && (call.payload == NULL || size > WEFT_INLINE_MAX)) return WEFT_EINVAL;
    return submit_any(pool, group, &job, size);
}

/* The group or the pool ended meanwhile: takes back the counted submission and starts over. */
static NOINLINE int submit_again(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    struct weft_worker *seat = os_self_get()->worker;
    count_undo(seat, seat->lane->record, seat->lane->counter);
    store_rlx(&seat->inside, 0); /* submit_slow enters anew */
    return submit_slow(pool, group, call, size, kind);
}

/* The lane at hand is full: the usual reason to leave the short way. */
static NOINLINE int submit_refill(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    struct weft_worker *seat = os_self_get()->worker;
    if (!lane_grow(seat, seat->lane, cells_of((uint32_t)size))) return WEFT_ENOMEM;
    return kind == CELL_PLAIN ? weft_submit_plain(pool, group, call.fn, call.payload, size)
                              : weft_submit(pool, group, call.fn, call.payload, size);
}

/* Submits to the lane at hand, which is the group's. */
INLINE int submit_to(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    struct weft_worker *seat = os_self_get()->worker;
    struct lane *lane = seat->lane;
    if (UNLIKELY(!lane_fits(lane, cells_of((uint32_t)size)))) return submit_refill(pool, group, call, size, kind);
    submit_enter(seat);
    uint64_t before = counter_submit(lane->counter, false, 1);
    os_fence_light(T1);
    const struct record *record = lane->record;
    if (UNLIKELY(load_rlx(&record->id) != lane->group_id || load_rlx(&pool->closed)))
        return submit_again(pool, group, call, size, kind);
    struct cell *cell = lane_cell(lane);
    cell->fn = call.fn;
    cell->meta = lane->meta | meta_shape(size, kind) | ((before - lane->first) & META_SEQUENCE_MAX);
    copy_payload(cell->payload, call.payload, size);
    return submit_publish(pool, seat, lane, cell, true);
}

/* Brings the group's lane to hand, then submits. */
static NOINLINE int submit_bind(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    struct weft_worker *seat = os_self_get()->worker;
    int error;
    if (group == NULL || call.fn == NULL || pool->config.queue_max != 0 || load_rlx(&pool->closed))
        return submit_slow(pool, group, call, size, kind);
    const struct lane *lane = task_enter(seat, group, &error);
    if (UNLIKELY(lane == NULL)) return error;
    if (UNLIKELY(lane != seat->lane)) return submit_slow(pool, group, call, size, kind);
    return submit_to(pool, group, call, size, kind);
}

/* The caller has checked pool, payload and size. The group and the function are checked here: the compiler would turn all checks
 * in one place into arithmetic. */
INLINE int submit_at_hand(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    const struct weft_worker *seat = os_self_get()->worker;
    if (UNLIKELY(group == NULL || seat->lane->group_id != load_rlx(id_of(group)) || call.fn == NULL))
        return submit_bind(pool, group, call, size, kind);
    return submit_to(pool, group, call, size, kind);
}

/* A separate function, because memcpy is a call. */
static NOINLINE int submit_large(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    if (UNLIKELY(size > WEFT_INLINE_MAX)) return submit_slow(pool, group, call, size, kind);
    return submit_at_hand(pool, group, call, size, kind);
}

INLINE int submit(weft_pool *pool, weft_group *group, struct call call, size_t size, enum cell_kind kind) {
    if (UNLIKELY(pool == NULL || os_self_get()->pool_id != pool->id || call.payload == NULL))
        return submit_slow(pool, group, call, size, kind);
    if (size > CELL_PAYLOAD) return submit_large(pool, group, call, size, kind);
    return submit_at_hand(pool, group, call, size, kind);
}

/* NOINLINE: the compiler would inline part of these two in the functions above, which would cost a jump. */
NOINLINE int weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size) {
    return submit(pool, group, (struct call){fn, payload}, size, CELL_INLINE);
}

NOINLINE int weft_submit_plain(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size) {
    return submit(pool, group, (struct call){fn, payload}, size, CELL_PLAIN);
}

int weft_submit_child(weft_worker *self, weft_fn fn, const void *payload, size_t size) {
    if (self == NULL || self->frame == NULL || self->frame->id == 0) return WEFT_EINVAL;
    weft_group group = {.id = self->frame->id};
    return weft_submit(self->pool, &group, fn, payload, size);
}

/* ---- weft's own --------------------------------------------------------------------------------------------------- */

int task_submit_own(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload) {
    struct job job = {.fn = fn, .payload = payload, .bytes = TASK_OWN_BYTES, .kind = CELL_OWN};
    return submit_any(pool, group, &job, TASK_OWN_BYTES);
}

/* Does not check the group's id as submit_checked does: a group cannot end during its own task, and a closed pool still runs
 * what its tasks submit. */
bool task_publish_own(struct weft_worker *seat, weft_fn fn, const void *payload) {
    const struct frame *frame = seat->frame;
    weft_pool *pool = seat->pool;
    struct lane *lane = seat->lane;
    if (UNLIKELY(lane->group_id != frame->id)) lane = lane_for(seat, frame->id, frame->record);
    if (UNLIKELY(lane == NULL || (!lane_fits(lane, 1) && !lane_grow(seat, lane, 1)))) return false;
    if (UNLIKELY(pool->config.queue_max != 0) && add_rlx(&pool->queued, 1) >= pool->config.queue_max) {
        worker_leave_queue(pool);
        return false;
    }
    uint64_t before = counter_submit(lane->counter, counter_is_shared(lane->counter), 1);
    struct cell *cell = lane_cell(lane);
    cell->fn = fn;
    cell->meta = meta_make(frame->index, TASK_OWN_BYTES, CELL_OWN, (uint32_t)(before - lane->first) & META_SEQUENCE_MAX);
    memcpy(cell->payload, payload, TASK_OWN_BYTES);
    submit_publish(seat->pool, seat, lane, cell, false);
    return true;
}

int weft_submit_object(weft_pool *pool, weft_group *group, const weft_object *type, void *object) {
    if (type == NULL || object == NULL || type->size > WEFT_INLINE_MAX) return WEFT_EINVAL;
    struct job job = {type->run, object, (uint32_t)type->size, CELL_OBJECT, type->move, object, {NULL, 0}};
    return submit_any(pool, group, &job, type->size);
}

int weft_run(weft_pool *pool, weft_group *group, weft_fn fn, void *payload) {
    if (pool == NULL || fn == NULL) return WEFT_EINVAL;
    const struct job job = {.fn = fn};
    int error = WEFT_OK;
    struct weft_worker *seat = seat_find(pool, &error);
    if (seat == NULL) return error;
    guest_enter(seat);
    bool counts = tokens_enter(pool);
    error = run_now(seat, group == NULL ? &pool->group : group, &job, payload);
    if (UNLIKELY(counts)) (void)tokens_leave();
    guest_leave(seat);
    return error;
}
