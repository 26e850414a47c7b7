/**
 * @file weft/task.h
 * Tasks, groups and waits. Part of weft.h; include that one.
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
 * A set of tasks to wait for. It lives in the caller's memory; initialise it with WEFT_GROUP_INIT. Once every wait on it
 * has returned, no thread of weft touches it, not even for a task that awaits it (weft_submit_await): it may be reused,
 * with any pool, or freed. From its first task until then it belongs to one pool. Calls with another pool return
 * WEFT_EINVAL and do nothing, even if its own pool was destroyed; then assign WEFT_GROUP_INIT to use it again. The same is
 * true of a copy of a group that has ended. Do not copy a group that has tasks.
 */
typedef struct weft_group {
    uint64_t id;    /**< weft's own */
    uint32_t flags; /**< WEFT_GROUP_CANCEL_ON_ERROR, _DROP_LATE, _URGENT or _BACKGROUND; set before the first submit */
    uint32_t zero;  /**< must be 0 */
} weft_group;

/** A group without tasks or flags. */
#define WEFT_GROUP_INIT                                                                                                     \
    { 0, 0, 0 }

/* weft_group.flags */
/** After a task has failed, tasks submitted later do not run; those submitted earlier do. Later submissions are refused, or
 * their payloads go to weft_config.clean. With several submitters, workers included, each thread numbers its own tasks, and
 * the task with the higher number counts as the later one. */
#define WEFT_GROUP_CANCEL_ON_ERROR 1u
/** Workers start its tasks before any others, as soon as they have finished their current task or loop, or the tiny tasks
 * that they have taken together with it, up to 32. */
#define WEFT_GROUP_URGENT 2u
/** For long-running tasks. Workers start them when there is nothing else to do, at most weft_config.background_max at
 * once. If they would take every worker, a spare stands in. Nobody helps with their loops and forked calls. A thread
 * that waits for the group runs its tasks in addition to that number, and so does a submitter that finds a bounded queue
 * full (enum weft_full). A task does not count while it sleeps in a wait or is inside weft_block_begin; afterwards it
 * goes on, even beside as many others. */
#define WEFT_GROUP_BACKGROUND 4u
/** If a worker would start one of its tasks after the deadline (weft_group_deadline), it cancels the group instead, as
 * weft_group_cancel does. */
#define WEFT_GROUP_DROP_LATE 8u

/**
 * Queues a task with a copy of its payload. What the caller wrote before is visible to the task. Threads take a
 * submitter's tasks of one group in order; where one takes several tiny ones, another may begin the later of these
 * first. In a pool with WEFT_POOL_ORDERED they start in order, unless the queue is full (enum weft_full). If a task
 * makes the first submission to a group, that group lies below the task's own group until the latter ends: a thread that
 * waits for the upper group also runs tasks of the lower one. Does not block, unless the queue is bounded with
 * WEFT_FULL_BLOCK. Allocates only when the queue has to grow or size is over WEFT_INLINE_MAX.
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
 * @retval WEFT_ESHUTDOWN destroy has begun, and the caller is an outside thread or a stop hook
 * @retval WEFT_EFORK the pool is the parent process's. After every error, nothing was queued
 * @threads Any thread.
 */
WEFT_API int weft_submit(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

/**
 * Queues a task in the group of the task that `self` runs. That group has not finished until the children and their
 * children have:
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
 * @retval WEFT_EINVAL self is NULL or runs no task, or as in weft_submit; the other codes as in weft_submit
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_submit_child(weft_worker *self, weft_fn fn, const void *payload, size_t size);

/** The two groups of a continuation; NULL is the pool's own. */
typedef struct weft_after {
    weft_group *after; /**< the task starts when this group has finished */
    weft_group *group; /**< the task belongs to this group: from now on, a wait for it also waits for the task */
} weft_after;

/**
 * Queues a task that starts when all tasks of groups.after have finished: those submitted before this call, and those
 * submitted before the last of these ends. What they wrote is visible to it. It starts even if they failed or were
 * cancelled. Some thread still has to wait for groups.after, else its memory stays with the pool. That may be this task:
 * its wait returns their error at once, if no other wait has ended the group. If another has, such as that of a second
 * task that starts then, the group has no tasks any more, and the wait returns WEFT_OK. weft_submit_await tells every
 * such task the error.
 *
 *     weft_submit_after(pool, (weft_after){&decoded, &shown}, show, &frame, sizeof frame);
 *
 * If groups.after has already finished, this is the same as weft_submit. Otherwise it allocates if size is over 112, and
 * the task takes its place in a bounded queue when it starts. If there is no memory to queue it at that time, it runs on
 * the thread that finished groups.after, and its waits for tasks that this thread has begun return WEFT_EDEADLK.
 * @param pool the pool
 * @param groups the group that it waits for and the group that it belongs to
 * @param fn as in weft_submit
 * @param payload as in weft_submit
 * @param size as in weft_submit
 * @retval WEFT_OK queued, or it will be
 * @retval WEFT_EDEADLK nothing queued: the groups are the same, or groups.after cannot finish before groups.group has,
 *     because of other continuations or a task that sleeps in a wait. If a task of groups.after waits for groups.group,
 *     that wait and this call conflict: whichever comes later returns this code
 * @retval WEFT_EINVAL as in weft_submit; the other codes as in weft_submit
 * @threads Any thread.
 */
WEFT_API int weft_submit_after(weft_pool *pool, weft_after groups, weft_fn fn, const void *payload, size_t size);

/** The type of a payload that is more than its bytes (a C++ callable), for weft_submit_object. */
typedef struct weft_object {
    size_t size; /**< at most WEFT_INLINE_MAX */
    weft_fn run; /**< runs and destroys the payload; with `self` NULL it only destroys it: the task will never run */
    /** Moves the caller's object into the payload. It must not fail or call weft. NULL: the bytes are copied. */
    void (*move)(void *payload, void *object);
} weft_object;

/**
 * Queues a task whose payload is an object. `move` constructs it in the queue, on the calling thread, before this
 * returns. After an error, `move` was not called. weft_config.clean is not called for such tasks.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param type how the object is moved, run and destroyed; need not outlive the call
 * @param object passed to `move`
 * @retval WEFT_OK queued
 * @retval WEFT_EINVAL type, its run or object is NULL, its size is too large, or as in weft_submit; the other codes as
 *     in weft_submit
 * @threads Any thread.
 */
WEFT_API int weft_submit_object(weft_pool *pool, weft_group *group, const weft_object *type, void *object);

/**
 * Queues a task as weft_submit does, with a payload that owns nothing, such as a C++ callable of plain bytes:
 * weft_config.clean is not called for it.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param fn as in weft_submit
 * @param payload its bytes are copied
 * @param size at most WEFT_INLINE_MAX
 * @retval WEFT_OK queued
 * @retval WEFT_EINVAL payload is NULL, size is too large, or as in weft_submit; the other codes as in weft_submit
 * @threads Any thread.
 */
WEFT_API int weft_submit_plain(weft_pool *pool, weft_group *group, weft_fn fn, const void *payload, size_t size);

/**
 * Queues a continuation, as weft_submit_after does, whose payload is an object of at most 112 bytes. After an error,
 * `run` was not called and will not be.
 * @param pool the pool
 * @param groups as in weft_submit_after
 * @param type as in weft_submit_object, with `move` NULL
 * @param object its bytes
 * @retval WEFT_OK queued, or it will be
 * @retval WEFT_EINVAL as in weft_submit_object, or `move` is not NULL; the other codes as in weft_submit_after
 * @threads Any thread.
 */
WEFT_API int weft_submit_after_object(weft_pool *pool, weft_after groups, const weft_object *type, void *object);

/**
 * Tells a task the result of the group that it awaits. Must be quick, and neither call weft nor wait.
 * @param payload the task's, before the task starts; it may be changed
 * @param result what weft_group_wait returns for the group
 * @param has_ended not 0: this wait ends the group, and the weft_group is still in place until this function returns. Among
 *     several that are told, it is the same for all. 0: another wait has ended it, and its memory may have been freed
 */
typedef void (*weft_tell_fn)(void *payload, int result, int has_ended);

/**
 * Queues a continuation, as weft_submit_after_object does, that is also a wait for groups.after. When that has finished, its
 * result is told, and it ends as by a wait; then the task is queued. As a wait does, it also waits for what is submitted to
 * groups.after before the group has ended. The task itself need not turn to groups.after, which may
 * be gone by then. Any number of such tasks and of threads may wait for one group: each gets its result. If groups.group is
 * cancelled before, the task will not run, nothing is told, and groups.after is left to other waits.
 * @param pool the pool
 * @param groups as in weft_submit_after
 * @param type as in weft_submit_object, with `move` NULL and a size of at most 96
 * @param object its bytes
 * @param tell is called before the task can start, on the thread that has finished groups.after or on the calling one
 * @retval WEFT_OK it will be queued
 * @retval 1 nothing was queued: groups.after has finished, and weft_group_wait returns its result
 * @retval WEFT_EINVAL tell is NULL, or as in weft_submit_after_object; the other codes as in weft_submit_after
 * @threads Any thread.
 */
WEFT_API int weft_submit_await(weft_pool *pool, weft_after groups, const weft_object *type, void *object, weft_tell_fn tell);

/**
 * Runs a function at once, on the calling thread, as a task of the group. Groups that it submits to lie below this
 * group, other threads may wait for it, and its error becomes the group's.
 * @param pool the pool
 * @param group the task's group; NULL: the pool's own
 * @param fn the function
 * @param payload passed on, not copied
 * @retval WEFT_OK fn has run
 * @retval WEFT_EINVAL as in weft_submit; the other codes as in weft_submit; fn has not run
 * @threads Any thread.
 */
WEFT_API int weft_run(weft_pool *pool, weft_group *group, weft_fn fn, void *payload);

/** How a wait helps: `help` of weft_group_wait_until. */
enum weft_help {
    /** Runs tasks of this group, of groups below it and of groups with continuations in either, and helps with the loops and
     * forked calls of these tasks. */
    WEFT_HELP_BELOW = 0,
    WEFT_HELP_ANY = 1, /**< runs any task of the pool; tasks that wait in this way nest on one stack without bound */
    WEFT_HELP_NONE = 2 /**< runs no task, unless no other thread is left to (weft_group_wait_until) */
};

/**
 * Waits until every task submitted to the group has finished; what they wrote is then visible. The waiting thread runs
 * tasks of the group meanwhile, except in a pool with WEFT_POOL_ORDERED; with WEFT_POOL_NO_HELP, only the pool's own
 * threads do, when they wait inside their tasks. Where no other thread is left to run them, a wait inside a task runs
 * tasks also in such pools (weft_group_wait_until). Several threads may wait. Afterwards the group can be used again.
 * Hold no lock that the group's tasks take: this thread may run them.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @return the error of the failed task that was submitted first (with several submitters: the one with the lowest number
 *     among its own thread's tasks; numbers have 30 bits for each thread and group), or one of these
 * @retval WEFT_OK no task failed, or another thread's wait has ended the group already, whatever that wait returned
 * @retval WEFT_ELATE no task failed, but the group's deadline had passed (weft_group_deadline)
 * @retval WEFT_ECANCELED no task failed, but the group was cancelled, or weft_pool_abort kept some from starting
 * @retval WEFT_EDEADLK called in a task of this group, or of a group that this one waits for, through continuations or
 *     waits of its tasks. If several waits would keep each other from ending, the last one gets this code. The group
 *     stays as it is. Only groups of this pool count: waits in two pools that keep each other from ending may
 *     never return
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before; the group stays as it is
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool; the group stays as it is
 * @threads Any thread.
 */
WEFT_API int weft_group_wait(weft_pool *pool, weft_group *group);

/**
 * Waits as weft_group_wait does, with a choice of help and a deadline. If this thread has begun a task, or a piece of a
 * loop, it finishes that first, so the call may return after the deadline.
 *
 * A task that waits without helping (with WEFT_HELP_NONE, or in an ordered pool) is treated as if it were inside
 * weft_block_begin. If no spare is left, it runs tasks of the group after all, whatever thread it is. In an ordered pool
 * it then runs only tasks that its own thread has submitted, and only while they are next among that thread's tasks:
 * enough for chains of any length in which each task waits for the one that it has submitted. For other waits in tasks,
 * an ordered pool needs more workers and spares than there are such waits at once; otherwise the last wait returns
 * WEFT_EAGAIN. A task that sleeps in a call of another pool is also treated in its own pool as if it were inside
 * weft_block_begin. If every thread of that other pool waits as well, and no spare is left there, the wait runs tasks of
 * its group itself, whatever `help` says; in an ordered pool only as above, and it goes on waiting otherwise. So pools
 * may call each other to any depth, also through weft_graph_run and loops; of ordered pools one such chain of calls may,
 * and more than there are threads may never end. A task that blocks on anything else without weft_block_begin counts as
 * running, so such waits go on waiting for it.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @param help enum weft_help
 * @param deadline_ns on CLOCK_MONOTONIC; 0: none
 * @return as weft_group_wait, or one of these
 * @retval WEFT_ETIMEDOUT tasks are still unfinished; the group stays as it is, and must be waited for again before its
 *     memory may be freed
 * @retval WEFT_EAGAIN in an ordered pool: every other thread waits already; the group stays as it is
 * @retval WEFT_EINVAL help is none of these, or as in weft_group_wait
 * @threads Any thread.
 */
WEFT_API int weft_group_wait_until(weft_pool *pool, weft_group *group, enum weft_help help, uint64_t deadline_ns);

/**
 * Runs one task of the group that no thread has begun: one that this thread has submitted, or one that it has taken
 * together with the task that it runs now. It is meant for a thread that waits for something other than the group's end,
 * such as a flag that one task sets. It does not look for tasks that other threads have submitted, and does not end the
 * group: weft_group_wait does. Hold no lock that the group's tasks take.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @return 1: one task has run; 0: no task has run, because there is none, the pool is ordered, or it has
 *     WEFT_POOL_NO_HELP and this thread is not its own; or an error, and no task has run
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread, also in tasks.
 */
WEFT_API int weft_group_help(weft_pool *pool, weft_group *group);

/**
 * Cancels the group: tasks that have not started never will, and their payloads go to weft_config.clean. Running tasks
 * finish. The group must still be waited for; that ends the cancellation.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @retval WEFT_OK cancelled; or nothing was submitted to the group since its last wait, and it stays as it is
 * @retval WEFT_EINVAL pool is NULL, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread.
 */
WEFT_API int weft_group_cancel(weft_pool *pool, weft_group *group);

/**
 * Makes a group that has tasks urgent until its wait ends, whatever its flags; this includes tasks submitted before. To
 * boost a single task, give it a group of its own.
 * @param pool the pool
 * @param group the group; NULL: the pool's own
 * @retval WEFT_OK it is urgent; if it has no tasks, nothing has changed
 * @retval WEFT_EINVAL pool is NULL or ordered, or the group is another pool's
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread.
 */
WEFT_API int weft_group_boost(weft_pool *pool, weft_group *group);

/**
 * Sets the moment by which the group should have finished, and makes it urgent until its wait ends. When a worker looks
 * for its next task, it takes the urgent one with the earliest deadline first, and those without a deadline last. Call
 * this before the group's first submission if possible. Even if nothing is submitted, the group must then be waited for.
 * A later call replaces the moment. If the group finishes later than that, or WEFT_GROUP_DROP_LATE has dropped tasks, its
 * wait returns WEFT_ELATE, unless a task failed: then it returns that error. weft_stats.task_late_count counts tasks
 * that began, or were dropped, after their deadline.
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
 * Tells whether the group of the task that `self` runs is cancelled. A long task may check this and return early.
 * @param self the calling task's
 * @return nonzero if it is cancelled; 0 if not, or if self is NULL or runs no task
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_worker_cancelled(const weft_worker *self);

/* ---- inside a task ------------------------------------------------------------------------------------------------ */

/**
 * Returns the address of a pointer for the thread's own use, which is kept from task to task. The pointer is NULL at
 * first. Note that an outside thread that helps has run no start hook.
 * @param self a task's, not NULL
 * @return the address, never NULL; weft_config.data_free frees what the pointer points to
 * @threads The thread that runs the task of `self`.
 */
WEFT_API void **weft_worker_data(weft_worker *self);

/**
 * Returns the index of a thread in its pool.
 * @param self the worker
 * @return less than WEFT_THREADS_MAX; workers have the lowest indices, then come spares and outside threads
 * @threads Any thread.
 */
WEFT_API unsigned weft_worker_index(const weft_worker *self);

/**
 * Returns the pool of a worker.
 * @param self the worker
 * @return its pool
 * @threads Any thread.
 */
WEFT_API weft_pool *weft_worker_pool(const weft_worker *self);

/**
 * Returns the calling thread as a worker or spare of the pool that it belongs to. For functions that block and are called
 * in tasks without `self` as an argument.
 * @return the worker; NULL on every other thread
 * @threads Any thread.
 */
WEFT_API weft_worker *weft_worker_here(void);

/**
 * Begins a section in which the calling task may block: in I/O, on a lock, or until another task signals. A spare worker
 * stands in, and other workers take the tasks that this worker had claimed. Sections nest; each needs its
 * weft_block_end.
 * @param self the calling task's
 * @retval WEFT_OK a spare stands in
 * @retval WEFT_EAGAIN no spare stands in: all are in use, or none could be started; the section is open all the same, so
 *     call weft_block_end
 * @retval WEFT_EINVAL self is NULL or runs no task
 * @retval WEFT_EFORK the pool is the parent process's; no section is open
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_block_begin(weft_worker *self);

/**
 * Ends the section that the last weft_block_begin began.
 * @param self the calling task's
 * @retval WEFT_OK ended
 * @retval WEFT_EINVAL self is NULL, or the task has no open section; one around a wait that runs this task is not its own
 * @retval WEFT_EFORK the pool is the parent process's, where the section was begun
 * @threads The thread that runs the task of `self`.
 */
WEFT_API int weft_block_end(weft_worker *self);

#ifdef __cplusplus
}
#endif
#endif
