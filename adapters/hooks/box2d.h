/* Box2D 3.2 on a weft pool:
 *
 *     weft_box2d tasks = {pool, WEFT_HELP_ANY};          must outlive the world
 *     def.workerCount = (int)weft_pool_workers(pool) + 1; the stepping thread works, too
 *     def.enqueueTask = weft_box2d_enqueue;
 *     def.finishTask = weft_box2d_finish;
 *     def.userTaskContext = &tasks;
 *
 * A world's state has the same bits for any number of workers. Give the pool one worker fewer than there are CPUs: tasks of
 * the solver spin for each other, so threads beyond the CPUs take time from those that others wait for. Box2D needs no
 * worker to come: the stepping thread runs what no worker has begun.
 *
 * `help` says what a thread runs while it waits for a task. WEFT_HELP_ANY: any task of the pool, for a pool that has only
 * worlds' short tasks. WEFT_HELP_BELOW: only tasks that the same thread has enqueued with the same `tasks` and nobody has
 * begun, for a pool with long tasks of other kinds. The latter matters: the first thread to come leads the solver, and if
 * that is a worker, the stepping thread must be the second. */
#ifndef WEFT_HOOKS_BOX2D_H
#define WEFT_HOOKS_BOX2D_H

#include <sched.h>
#include <weft.h>

typedef struct weft_box2d {
    weft_pool *pool;
    enum weft_help help;
} weft_box2d;

typedef struct weft_box2d_call {
    weft_group group; /* of this one task */
    void (*task)(void *);
    void *context;
    const weft_box2d *tasks;
    struct weft_box2d_call *next, **link; /* the calls that its thread has enqueued and not finished, the newest first */
    int has_run;
} weft_box2d_call;

/* A step enqueues and finishes its tasks on one thread. */
static __thread weft_box2d_call *weft_box2d_open;

static inline int weft_box2d_run(void *payload, weft_worker *self) {
    weft_box2d_call *call = *(weft_box2d_call **)payload;
    (void)self;
    call->task(call->context);
    __atomic_store_n(&call->has_run, 1, __ATOMIC_RELEASE);
    return 0;
}

/* A b2EnqueueTaskCallback; `user` is a weft_box2d. NULL: the task has run here. */
static inline void *weft_box2d_enqueue(void (*task)(void *), void *context, void *user) {
    weft_box2d_call *call = (weft_box2d_call *)weft_alloc(sizeof *call);
    if (call != NULL) {
        const weft_box2d *tasks = (const weft_box2d *)user;
        const weft_box2d_call fresh = {WEFT_GROUP_INIT, task, context, tasks, weft_box2d_open, &weft_box2d_open, 0};
        *call = fresh;
        if (weft_submit(tasks->pool, &call->group, weft_box2d_run, &call, sizeof call) == WEFT_OK) {
            if (call->next != NULL) call->next->link = &call->next;
            weft_box2d_open = call;
            return call;
        }
        weft_free(call);
    }
    task(context);
    return NULL;
}

static inline int weft_box2d_has_run(const weft_box2d_call *call) {
    return __atomic_load_n(&call->has_run, __ATOMIC_ACQUIRE);
}

/* Runs one of this thread's tasks that nobody has begun, the newest: workers begin with the oldest. 0: there is none. */
static inline int weft_box2d_help_one(const weft_box2d *tasks) {
    for (weft_box2d_call *call = weft_box2d_open; call != NULL; call = call->next)
        if (call->tasks == tasks && !weft_box2d_has_run(call) && weft_group_help(tasks->pool, &call->group) == 1) return 1;
    return 0;
}

/* A b2FinishTaskCallback. A task that nobody will run, in a forked child or an aborted pool, runs here. */
static inline void weft_box2d_finish(void *task, void *user) {
    const weft_box2d *tasks = (const weft_box2d *)user;
    weft_box2d_call *call = (weft_box2d_call *)task;
    int error; /* no memory or no place in the pool: the task will run all the same */
    if (call == NULL) return;
    while (tasks->help == WEFT_HELP_BELOW && !weft_box2d_has_run(call) && weft_box2d_help_one(tasks)) {}
    while ((error = weft_group_wait_until(tasks->pool, &call->group, tasks->help, 0)) == WEFT_ENOMEM || error == WEFT_EAGAIN)
        sched_yield();
    if (!call->has_run) call->task(call->context);
    *call->link = call->next;
    if (call->next != NULL) call->next->link = call->link;
    weft_free(call);
}

#endif
