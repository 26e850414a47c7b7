/**
 * @file weft/task.h
 * Tasks, groups and waits. Part of weft.h, which is what to include.
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

/**
 * A set of tasks to wait for. It lives in the caller's memory; set it to WEFT_GROUP_INIT. Once every wait on it has
 * returned, no thread of weft touches it: it may be reused, with any pool, or freed. From its first task until then it
 * belongs to one pool. Calls with another pool return WEFT_EINVAL and do nothing, also when its own was destroyed;
 * WEFT_GROUP_INIT then makes it new. The same holds for a copy of a group that has ended. Do not copy a group that has
 * tasks.
 */
typedef struct weft_group {
    uint64_t id;    /**< weft's */
    uint32_t flags; /**< WEFT_GROUP_CANCEL_ON_ERROR, _DROP_LATE, _URGENT or _BACKGROUND; set before the first submit */
    uint32_t zero;  /**< must be 0 */
} weft_group;

/** A group without tasks and flags. */
#define WEFT_GROUP_INIT                                                                                                     \
    { 0, 0, 0 }

/* weft_group.flags */
/** After a task has failed, tasks submitted later do not run; those submitted earlier do. Later submissions are refused, or
 * their payloads go to weft_config.clean. Of several submitters, workers among them, a task is later whose number among its own
 * thread's is higher. */
#define WEFT_GROUP_CANCEL_ON_ERROR 1u
/** Workers start its tasks before any others, as soon as they have finished the task, or the loop, that they are in. */
#define WEFT_GROUP_URGENT 2u
/** For long-running tasks. Workers start them when there is nothing else to do, weft_config.background_max at once at most.
 * Where these would leave no worker for others, a spare stands in. Nobody helps with their loops and forked calls. A thread
 * that waits for the group runs its tasks beyond that number. A task inside weft_block_begin does not count. */
#define WEFT_GROUP_BACKGROUND 4u
/** A worker that comes to one of its tasks after the deadline (weft_group_deadline) cancels the group, as weft_group_cancel
 * does. */
#define WEFT_GROUP_DROP_LATE 8u

/**
 * Queues a task with a copy of its payload. What the caller wrote before is visible to the task. A submitter's tasks of
 * one group start in order. A group that is first submitted to inside a task lies below that task's group until that
 * one ends: waiting for the upper one helps it. Does not block, unless the queue is bounded with WEFT_FULL_BLOCK.
 * Allocates only when the queue has to grow or size is over WEFT_INLINE_MAX.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param fn the function to call
 * @param payload `size` bytes to copy; NULL: the task gets NULL and size is ignored
 * @param size bytes; with 0 the task gets a pointer that it must not read
 * @retval WEFT_OK queued
 * @retval WEFT_EINVAL pool or fn is NULL; size is over WEFT_PAYLOAD_MAX; the group's flags are unknown, hold both
 *     _URGENT and _BACKGROUND, or one of these in an ordered pool; the group is another pool's
 * @retval WEFT_ENOMEM no memory for the queue or the payload
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use this pool
 * @retval WEFT_EFULL the queue is bounded and full, with WEFT_FULL_ERROR
 * @retval WEFT_ECANCELED the group is cancelled; the payload stays the caller's
 * @retval WEFT_ESHUTDOWN destroy has begun and the caller is outside of the pool, or in a stop hook
 * @retval WEFT_EFORK the pool is the parent process's. On every error nothing was queued
 * @threads Any thread.
 */
WEFT_API int weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

/**
 * Queues a task in the group of the task that `self` runs. So that group is unfinished until the children and their
 * children have ended:
 *
 *     int decode(void *payload, weft_worker *self) {
 *         for each slice: weft_submit_child(self, decode_slice, &slice, sizeof slice);
 *         return 0;
 *     }
 *     weft_submit(pool, &job, decode, &frame, sizeof frame);
 *     weft_group_wait(pool, &job);   waits for decode and every slice
 *
 * @param self the calling task's
 * @param fn as in weft_submit
 * @param payload as in weft_submit
 * @param size as in weft_submit
 * @retval WEFT_OK queued
 * @retval WEFT_EINVAL self is NULL or runs no task, or as in weft_submit; the other codes are weft_submit's, too
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_submit_child(weft_worker *self, weft_fn fn, const void *payload, size_t size);

/** The two groups of a continuation; NULL is the pool's own. */
typedef struct weft_after {
    weft_group *after; /**< the task starts when this has finished */
    weft_group *group; /**< the task counts in this: from now on a wait for it waits for the task */
} weft_after;

/**
 * Queues a task that starts when all tasks of groups.after have finished: those submitted before this call, and those
 * that come before the last of these ends. What they wrote is visible to it. It starts whether they failed, were
 * cancelled or not; a wait for groups.after inside it returns their error at once. Somebody still has to wait for
 * groups.after.
 *
 *     weft_submit_after(pool, (weft_after){&decoded, &shown}, show, &frame, sizeof frame);
 *
 * When groups.after has finished already this is weft_submit. Otherwise it allocates when size is over 112, and the
 * task takes its place in a bounded queue when it starts. If there is no memory to queue it then, it runs on the thread
 * that finished groups.after, and its waits for what that thread has begun return WEFT_EDEADLK.
 * @param pool the pool
 * @param groups what it waits for and where it counts
 * @param fn as in weft_submit
 * @param payload as in weft_submit
 * @param size as in weft_submit
 * @retval WEFT_OK queued, or it will be
 * @retval WEFT_EDEADLK nothing queued: the groups are the same, or groups.after cannot finish before groups.group has,
 *     for other continuations or for a task that sleeps in a wait. Where a task of groups.after waits for groups.group,
 *     that wait or this call returns it, whichever comes later
 * @retval WEFT_EINVAL as in weft_submit; the other codes are weft_submit's, too
 * @threads Any thread.
 */
WEFT_API int weft_submit_after(weft_pool *pool, weft_after groups, weft_fn fn, const void *payload, size_t size);

/** The type of a payload that is more than its bytes (a C++ callable), for weft_submit_object. */
typedef struct weft_object {
    size_t size; /**< at most WEFT_INLINE_MAX */
    weft_fn run; /**< runs and ends the payload; with `self` NULL it only ends it: the task will never run */
    /** Makes the payload of the caller's object. It cannot fail and calls nothing of weft. NULL: the bytes are copied. */
    void (*move)(void *payload, void *object);
} weft_object;

/**
 * Queues a task whose payload is an object, which `move` makes in the queue, on the calling thread, before this
 * returns. On error it was not called. weft_config.clean does not concern it.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param type how it is moved, run and ended; need not outlive the call
 * @param object what `move` gets
 * @retval WEFT_OK queued
 * @retval WEFT_EINVAL type, its run or object is NULL, its size is too large, or as in weft_submit; the other codes are
 *     weft_submit's, too
 * @threads Any thread.
 */
WEFT_API int weft_submit_object(weft_pool *pool, weft_group *group, const weft_object *type, void *object);

/**
 * Queues a continuation, as weft_submit_after, whose payload is an object of at most 112 bytes. On error `run` was not
 * called, nor will it be.
 * @param pool the pool
 * @param groups as in weft_submit_after
 * @param type as in weft_submit_object, with `move` NULL
 * @param object its bytes
 * @retval WEFT_OK queued, or it will be
 * @retval WEFT_EINVAL as in weft_submit_object, or `move` is not NULL; the other codes are weft_submit_after's, too
 * @threads Any thread.
 */
WEFT_API int weft_submit_after_object(weft_pool *pool, weft_after groups, const weft_object *type, void *object);

/**
 * Runs a function at once, on the calling thread, as a task of the group. What it submits lies below the group, others
 * may wait for it, and its error is the group's.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param fn the function
 * @param payload passed as it is, not copied
 * @retval WEFT_OK fn has run
 * @retval WEFT_EINVAL as in weft_submit; the other codes are weft_submit's, too; fn has not run
 * @threads Any thread.
 */
WEFT_API int weft_run(weft_pool *pool, weft_group *group, weft_fn fn, void *payload);

/** How a wait helps: `help` of weft_group_wait_until. */
enum weft_help {
    /** Runs tasks of this group, of groups below it and of those whose continuations count in either, and helps with what
     * these loop and fork. */
    WEFT_HELP_BELOW = 0,
    WEFT_HELP_ANY = 1, /**< runs any task of the pool: where tasks wait so, they run on top of each other without a bound */
    WEFT_HELP_NONE = 2 /**< runs none */
};

/**
 * Waits until every task submitted to the group has finished; what they wrote is then visible. The waiting thread runs
 * tasks of the group meanwhile, except in a pool with WEFT_POOL_ORDERED or WEFT_POOL_NO_HELP. Several threads may wait.
 * The group can be used again after. Hold no lock that the group's tasks take: this thread may run them.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @return the error of the failed task that was submitted first (of several submitters: the one with the lowest number
 *     among its own thread's; numbers are 30 bits for each thread and group), or one of these
 * @retval WEFT_OK no task failed; also when another thread's wait ended the group before, whatever that wait returned
 * @retval WEFT_ELATE no task failed, but the group's deadline had passed (weft_group_deadline)
 * @retval WEFT_ECANCELED no task failed, but the group was cancelled, or weft_pool_abort kept some from starting
 * @retval WEFT_EDEADLK called in a task of this group, or of one that the group itself waits for, by continuations or
 *     by waits of its tasks; of waits that would keep each other from ending, the last one gets it. The group stays as
 *     it is
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before; the group stays as it is
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool; the group stays as it is
 * @threads Any thread.
 */
WEFT_API int weft_group_wait(weft_pool *pool, weft_group *group);

/**
 * Waits as weft_group_wait does, with a choice of help and a deadline. A task, or a piece of a loop, that this thread
 * has begun is finished first, so it may return late. A task that waits without helping (because it said so, or in an
 * ordered or NO_HELP pool) counts as inside weft_block_begin. Where no spare is left it runs tasks of the group after
 * all. In an ordered pool it cannot: each wait in a task keeps its thread, so there must be more workers and spares than
 * such waits at once; of more, the last returns WEFT_EAGAIN. A task that sleeps in a call of another pool counts in its
 * own as inside weft_block_begin, too. A thread that something else holds up counts as running, and the waits as waits
 * for it, unless it says so (weft_block_begin).
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @param help enum weft_help
 * @param deadline_ns on CLOCK_MONOTONIC; 0: none
 * @return as weft_group_wait, or one of these
 * @retval WEFT_ETIMEDOUT tasks are still unfinished; the group stays as it is, and must be waited for again before its
 *     memory may go
 * @retval WEFT_EAGAIN in an ordered pool: every thread waits; the group stays as it is
 * @retval WEFT_EINVAL help is none of these, or as in weft_group_wait
 * @threads Any thread.
 */
WEFT_API int weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);

/**
 * Runs one task of the group that this thread has submitted and nobody has begun. For a thread that waits for something
 * else than the group's end: one task's flag, say. It runs nobody else's tasks and does not end the group: that needs
 * its wait. Hold no lock that the group's tasks take.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @return 1: it has run one; 0: there is none, or the pool is ordered or NO_HELP; or an error, with nothing run
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread, also in tasks.
 */
WEFT_API int weft_group_help(weft_pool *pool, weft_group *group);

/**
 * Cancels the group: tasks that have not started will not, and their payloads go to weft_config.clean. Running ones
 * finish. The group must still be waited for, which ends the cancellation.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @retval WEFT_OK cancelled, also when nothing was queued
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread.
 */
WEFT_API int weft_group_cancel(weft_pool *pool, weft_group *group);

/**
 * Makes a group that has tasks urgent until its wait ends, whatever its flags: also the tasks submitted before. To lift
 * one task alone, give it a group of its own.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @retval WEFT_OK it is; without tasks nothing changes
 * @retval WEFT_EINVAL pool is NULL or ordered, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread.
 */
WEFT_API int weft_group_boost(weft_pool *pool, weft_group *group);

/**
 * Gives the group a moment by which it is to have finished, and makes it urgent until its wait ends. Of the urgent
 * tasks that are there when a worker looks for its next, those with the earliest deadline go first, those without one
 * last. Best called before the group's first submission; a group that has none must be waited for all the same. The
 * next call replaces the moment. If the group finishes later, or WEFT_GROUP_DROP_LATE has dropped tasks, its wait
 * returns WEFT_ELATE, unless a task failed: then that error. weft_stats.task_late_count counts tasks begun, or dropped,
 * after their deadline.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @param when_ns on CLOCK_MONOTONIC, not 0
 * @retval WEFT_OK set
 * @retval WEFT_EINVAL pool is NULL or ordered, when_ns is 0, the flags are unknown, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread.
 */
WEFT_API int weft_group_deadline(weft_pool *pool, weft_group *group, uint64_t when_ns);

/**
 * Tells whether the group of the task that `self` runs is cancelled: a long task may look and leave.
 * @param self the calling task's
 * @return nonzero when it is; 0 also when self is NULL or runs no task
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_worker_cancelled(const weft_worker *self);

/* ---- inside a task ------------------------------------------------------------------------------------------------ */

/**
 * Gives a pointer for the thread's own use, kept from task to task. It is NULL at first, also for an outside thread
 * that helps: that has run no start hook.
 * @param self a task's, not NULL
 * @return where the pointer is, never NULL; weft_config.data_free ends what it points to
 * @threads The thread that runs the task of `self`.
 */
WEFT_API void **weft_worker_data(weft_worker *self);

/**
 * Gives the index of a thread in its pool.
 * @param self the worker
 * @return below WEFT_THREADS_MAX: the workers' come first, then those of spares and outside threads
 * @threads Any thread.
 */
WEFT_API unsigned weft_worker_index(const weft_worker *self);

/**
 * Gives the pool of a worker.
 * @param self the worker
 * @return its pool
 * @threads Any thread.
 */
WEFT_API weft_pool *weft_worker_pool(const weft_worker *self);

/**
 * Gives the calling thread as a worker or spare of the pool that it belongs to, for functions that block and may be
 * called in tasks without being passed `self`.
 * @return the worker; NULL on every other thread
 * @threads Any thread.
 */
WEFT_API weft_worker *weft_worker_here(void);

/**
 * Begins a section in which the calling task may block: I/O, a lock, another task's signal. A spare worker stands in,
 * and tasks that this worker had claimed go to others. Sections nest; each begin needs its weft_block_end.
 * @param self the calling task's
 * @retval WEFT_OK a spare stands in
 * @retval WEFT_EAGAIN none does: all are in use, or none could be started; the section counts all the same: call
 *     weft_block_end
 * @retval WEFT_EINVAL self is NULL or runs no task
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_block_begin(weft_worker *self);

/**
 * Ends the section that the last weft_block_begin began.
 * @param self the calling task's
 * @retval WEFT_OK ended
 * @retval WEFT_EINVAL self is NULL, or no section is open
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_block_end(weft_worker *self);

#ifdef __cplusplus
}
#endif
#endif
