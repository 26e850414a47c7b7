/* weft/task.h: tasks, groups and waits. Part of weft.h, which is what to include.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_TASK_H
#define WEFT_API_TASK_H

#include <weft/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tasks and groups --------------------------------------------------------------------------------------------- */

/* A set of tasks to wait for. Lives in the caller's memory; set it to WEFT_GROUP_INIT. No thread of weft touches it once
 * every wait on it has returned, so it may then be reused, with any pool, or freed. From its first task until then it is one
 * pool's: calls with another return WEFT_EINVAL and do nothing, also when its own was destroyed; WEFT_GROUP_INIT makes it
 * new then. The same goes for a copy of one that has ended: do not copy one that has tasks. */
typedef struct weft_group {
    uint64_t id;    /* weft's */
    uint32_t flags; /* WEFT_GROUP_CANCEL_ON_ERROR, _DROP_LATE, _URGENT or _BACKGROUND; set before the first submit */
    uint32_t zero;  /* must be 0 */
} weft_group;

#define WEFT_GROUP_INIT                                                                                                     \
    { 0, 0, 0 }

/* weft_group.flags: after a task failed, later submissions do not run (earlier do): refused, or payloads go to `clean`. */
#define WEFT_GROUP_CANCEL_ON_ERROR 1u
/* Workers start its tasks before any others, as soon as they have finished the task, or the loop, that they are in. */
#define WEFT_GROUP_URGENT 2u
/* For long-running tasks: workers start them when there is nothing else to do, weft_config.background_max at once at most.
 * Where these would leave no worker to others, a spare stands in. Nobody helps with their loops and forked calls. A thread
 * that waits for the group runs its tasks beyond that number. A task inside weft_block_begin does not count. */
#define WEFT_GROUP_BACKGROUND 4u
/* A worker that comes to one of its tasks after the deadline (weft_group_deadline) cancels the group, as weft_group_cancel
 * does. */
#define WEFT_GROUP_DROP_LATE 8u

/* Queues fn with a copy of `size` bytes at `payload`. `group` NULL is the pool's own group. Payload NULL: the task gets NULL
 * and `size` is ignored; payload not NULL with size 0: the task gets a pointer it must not read. A group that is first
 * submitted to inside a task lies below that task's group, until that one ends: waiting for the upper one helps it.
 * What the caller wrote before is visible to the task. A submitter's tasks of one group start in order.
 * Returns WEFT_OK; WEFT_EINVAL (NULL pool or fn, size over WEFT_PAYLOAD_MAX); WEFT_ENOMEM; WEFT_ESHUTDOWN; WEFT_EFULL;
 * WEFT_EFORK; WEFT_EAGAIN (WEFT_THREADS_MAX threads use this pool); nothing is queued on error. WEFT_EINVAL also for flags
 * that are not known, both of WEFT_GROUP_URGENT and WEFT_GROUP_BACKGROUND, and either in an ordered pool. WEFT_ECANCELED:
 * the group is cancelled, the payload stays the caller's. Does not block, unless bounded with WEFT_FULL_BLOCK; allocates
 * only when the queue has to grow or size > WEFT_INLINE_MAX. */
WEFT_API int weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

/* weft_submit into the group of the task that `self` runs, so that this group, and with it the job that its first task was,
 * is unfinished until the children and their children are:
 *
 *     int decode(void *payload, weft_worker *self) {
 *         for each slice: weft_submit_child(self, decode_slice, &slice, sizeof slice);
 *         return 0;
 *     }
 *     weft_submit(pool, &job, decode, &frame, sizeof frame);
 *     weft_group_wait(pool, &job);   waits for decode and every slice
 *
 * Only from the thread that runs the task. As weft_submit; WEFT_EINVAL also when `self` is NULL or runs no task. */
WEFT_API int weft_submit_child(weft_worker *self, weft_fn fn, const void *payload, size_t size);

/* The two groups of a continuation; NULL is the pool's own. */
typedef struct weft_after {
    weft_group *after; /* the task starts when this has finished */
    weft_group *group; /* the task counts in this: a wait for it waits for the task, from now on */
} weft_after;

/* weft_submit for a task that starts when all tasks of groups.after have finished, those before this call and those that
 * come before the last of these ends. What they wrote is visible to it. It starts whether they failed, were cancelled or
 * not; a wait for groups.after inside it returns their error at once. Somebody still has to wait for groups.after.
 *
 *     weft_submit_after(pool, (weft_after){&decoded, &shown}, show, &frame, sizeof frame);
 *
 * As weft_submit, which it is when groups.after has finished already. Else it allocates when size is over 112, and takes its
 * place in a bounded queue when it starts. Without memory to queue it then, it runs on the thread that finished
 * groups.after, and its waits for what that thread has begun return WEFT_EDEADLK. WEFT_EDEADLK, nothing queued: the groups
 * are the same, or groups.after cannot finish before groups.group has, for other continuations or a task that sleeps in a
 * wait. Where a task of groups.after waits for groups.group, that wait or this call returns it, whichever comes later. */
WEFT_API int weft_submit_after(weft_pool *pool, weft_after groups, weft_fn fn, const void *payload, size_t size);

/* A payload that is more than its bytes (a C++ callable), for weft_submit_object. */
typedef struct weft_object {
    size_t size; /* at most WEFT_INLINE_MAX */
    weft_fn run; /* also ends the payload; called with `self` NULL, to end it only, when the task will never run */
    void (*move)(void *payload, void *object); /* makes the payload of the caller's object; cannot fail; calls nothing of
                                                  weft. NULL: its bytes are copied */
} weft_object;

/* weft_submit for such a payload: `move` makes it in the queue, on the calling thread, before this returns; on error it was
 * not called. `clean` does not concern it. WEFT_EINVAL also for NULL type, run or object, or a size too large. */
WEFT_API int weft_submit_object(weft_pool *pool, weft_group *group, const weft_object *type, void *object);

/* weft_submit_after for such a payload, of at most 112 bytes, `move` NULL. On error `run` was not called, nor will it be. */
WEFT_API int weft_submit_after_object(weft_pool *pool, weft_after groups, const weft_object *type, void *object);

/* Runs fn at once, on the calling thread, as a task of the group: `payload` is passed as it is, what fn submits lies below
 * the group, others may wait for it, its error is the group's. `group` NULL is the pool's own. Returns WEFT_OK when fn has
 * run; else an error as of weft_submit, and it has not. */
WEFT_API int weft_run(weft_pool *pool, weft_group *group, weft_fn fn, void *payload);

/* How a wait helps, weft_group_wait_until's `help`. */
enum weft_help {
    WEFT_HELP_BELOW = 0, /* runs tasks of this group, of groups below it and of those whose continuations count in either,
                            and helps with what these loop and fork */
    WEFT_HELP_ANY = 1,   /* runs any task of the pool: where tasks wait so, they run on top of each other without a bound */
    WEFT_HELP_NONE = 2   /* runs none */
};

/* Waits until every task submitted to the group has finished; what they wrote is then visible. The waiting thread runs tasks
 * of the group meanwhile (not in an ordered or NO_HELP pool). Several threads may wait. The group can be used again after.
 * `group` NULL waits for the pool's own group. Hold no lock that the group's tasks take: this thread may run them meanwhile.
 * Returns WEFT_OK; WEFT_ELATE (see weft_group_deadline); the error of the failed task that was submitted first (by several
 * threads: the one with the lowest number among its own thread's; numbers are 30 bits for one thread and group);
 * WEFT_ECANCELED when cancelled and no task failed; WEFT_OK also when another thread's wait ended the group before, whatever
 * that wait returned; WEFT_EINVAL for NULL pool; WEFT_EDEADLK from a task of this very group, or of one that the group
 * itself waits for, by continuations or by waits of its tasks (of waits that would keep each other from ending the last one
 * gets it): the group then stays as it is; WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit, the group as it is, in a
 * thread that has yet to use the pool. */
WEFT_API int weft_group_wait(weft_pool *pool, weft_group *group);

/* weft_group_wait with a choice of help and a deadline on CLOCK_MONOTONIC in nanoseconds (0: none). WEFT_ETIMEDOUT: tasks
 * are still unfinished, the group stays as it is and must be waited for again before its memory may go. A task this thread
 * already runs, or a piece of a loop, is finished first, so it may return late.
 * A task that waits without helping (so asked, or in an ordered or NO_HELP pool) counts as inside weft_block_begin. Where no
 * spare is to be had it runs tasks of the group after all, but in an ordered pool returns WEFT_EAGAIN when every thread
 * waits; the group stays as after WEFT_ETIMEDOUT. */
WEFT_API int weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);

/* Runs one task of the group that this thread has submitted and nobody has begun, for a thread that waits for something else
 * than the group's end: one task's flag, say. It runs nobody else's. `group` NULL: the pool's own. May be called in tasks;
 * hold no lock that the group's tasks take. Does not end the group: that needs its wait.
 * Returns 1: it has run one; 0: there is none, or the pool is ordered or NO_HELP; or the error, which is negative, with
 * nothing run: WEFT_EINVAL (NULL pool), WEFT_EFORK, WEFT_ENOMEM, WEFT_EAGAIN as weft_submit. */
WEFT_API int weft_group_help(weft_pool *pool, weft_group *group);

/* Tasks of the group that have not started will not: their payloads go to the pool's `clean`. Running ones finish. The group
 * must still be waited for, which ends the cancellation. WEFT_OK, also with nothing queued; WEFT_EINVAL; WEFT_EFORK. */
WEFT_API int weft_group_cancel(weft_pool *pool, weft_group *group);

/* The group, which has tasks, is urgent from now until its wait ends, whatever its flags: also the tasks submitted before.
 * To lift one task alone, give it a group of its own. WEFT_OK, also without tasks: then nothing changes; WEFT_EINVAL (NULL
 * pool, or an ordered one); WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit. */
WEFT_API int weft_group_boost(weft_pool *pool, weft_group *group);

/* The group is to have finished by when_ns (CLOCK_MONOTONIC), and is urgent until its wait ends: of urgent tasks that are
 * there when a worker looks for its next, those with the earliest deadline go first, those without one last. Best before
 * its first submission; one that has none has to be waited for all the same. The next call replaces the moment. If the
 * group finishes later, or WEFT_GROUP_DROP_LATE has dropped tasks, its wait returns WEFT_ELATE, unless a task failed: then
 * that error. weft_stats.tasks_late counts tasks begun, or dropped, after their deadline. WEFT_OK; WEFT_EINVAL (NULL pool,
 * when_ns 0, an ordered pool, flags that are not known); WEFT_EFORK; WEFT_ENOMEM, WEFT_EAGAIN as weft_submit. */
WEFT_API int weft_group_deadline(weft_pool *pool, weft_group *group, uint64_t when_ns);

/* Nonzero when the task that `self` runs belongs to a cancelled group: a long task may look and leave. */
WEFT_API int weft_worker_cancelled(const weft_worker *self);

/* ---- inside a task ------------------------------------------------------------------------------------------------ */

/* A pointer for the thread's own use, kept from task to task; NULL at first, also for a thread from outside that helps: it
 * has run no start hook. Never NULL itself; `self` must be a task's. */
WEFT_API void **weft_worker_data(weft_worker *self);

/* Below WEFT_THREADS_MAX: 0 .. weft_pool_workers - 1 are the workers', spares' and outside threads' follow. */
WEFT_API unsigned weft_worker_index(const weft_worker *self);
WEFT_API weft_pool *weft_worker_pool(const weft_worker *self); /* the worker's */

/* The calling thread as a worker, or spare, of the pool that it belongs to; NULL on every other thread. For functions that
 * block and may be called in tasks without being given `self`. */
WEFT_API weft_worker *weft_worker_here(void);

/* Between begin and end the calling task may block (I/O, a lock, another task's signal): a spare worker stands in, and tasks
 * this worker had claimed go to others. begin and end pair up; nesting counts. WEFT_OK; WEFT_EAGAIN from begin when every
 * spare is in use or none could be started (the section still counts: call end); WEFT_EINVAL for NULL or an unpaired end. */
WEFT_API int weft_block_begin(weft_worker *self);
WEFT_API int weft_block_end(weft_worker *self);

#ifdef __cplusplus
}
#endif
#endif
