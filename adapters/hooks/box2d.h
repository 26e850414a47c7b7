/* Box2D 3.2 on a weft pool:
 *
 *     weft_box2d tasks = {pool, WEFT_HELP_ANY};          must outlive the world
 *     def.workerCount = (int)weft_pool_workers(pool) + 1; the stepping thread works, too
 *     def.enqueueTask = weft_box2d_enqueue;
 *     def.finishTask = weft_box2d_finish;
 *     def.userTaskContext = &tasks;
 *
 * A world's state has the same bits for any number of workers. Give the pool one worker fewer than there are CPUs: tasks of
 * the solver spin for each other, so threads beyond the CPUs take time from those that are awaited. Box2D needs nobody
 * to come: what no worker has begun the stepping thread runs.
 *
 * While it waits for one task it runs, by `help`, any task of the pool (WEFT_HELP_ANY, for a pool that has nothing else to
 * do than worlds' short tasks), or that one alone (WEFT_HELP_BELOW, for one with long tasks of other kinds). */
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
    int has_run;
} weft_box2d_call;

static inline int weft_box2d_run(void *payload, weft_worker *self) {
    weft_box2d_call *call = *(weft_box2d_call **)payload;
    (void)self;
    call->task(call->context);
    call->has_run = 1;
    return 0;
}

/* A b2EnqueueTaskCallback; `user` is a weft_box2d. NULL: the task has run here. */
static inline void *weft_box2d_enqueue(void (*task)(void *), void *context, void *user) {
    weft_box2d_call *call = (weft_box2d_call *)weft_alloc(sizeof *call);
    if (call != NULL) {
        const weft_box2d_call fresh = {WEFT_GROUP_INIT, task, context, 0};
        *call = fresh;
        if (weft_submit(((weft_box2d *)user)->pool, &call->group, weft_box2d_run, &call, sizeof call) == WEFT_OK)
            return call;
        weft_free(call);
    }
    task(context);
    return NULL;
}

/* A b2FinishTaskCallback. A task that nobody will run, in a forked child or an aborted pool, runs here. */
static inline void weft_box2d_finish(void *task, void *user) {
    const weft_box2d *tasks = (const weft_box2d *)user;
    weft_box2d_call *call = (weft_box2d_call *)task;
    int error; /* no memory, no place: the task runs all the same */
    if (call == NULL) return;
    while ((error = weft_group_wait_until(tasks->pool, &call->group, tasks->help, 0)) == WEFT_ENOMEM || error == WEFT_EAGAIN)
        sched_yield();
    if (!call->has_run) call->task(call->context);
    weft_free(call);
}

#endif
