/* crew.h: OpenAirInterface's pools of tasks by value, in either form (thread-pool.c, task_manager.c): its threads and what
 * they run.
 *
 * Tasks are copied into weft's own queue: no lock, no allocation, nobody asleep on a queue of its own. A join runs what its
 * thread has given the crew and nobody has begun (weft_oai_help_own), unless threads have a CPU to stay on: tasks are to run
 * there then. -DWEFT_OAI_NO_HELP: it never does. A join in a task has
 * another thread stand in, as many at once as the crew has threads. On the process's pool, where there is none left, it runs
 * tasks of the crew that its thread has used last (weft_oai_help). Both are for task_ans.c, which may be linked without a pool.
 *
 * Included by one source file of a pool, after the host's headers: task_t is the host's. */
#ifndef WEFT_OAI_CREW_H
#define WEFT_OAI_CREW_H

#include <time.h>

#include "../shelf.h"
#include "threads.h"

typedef struct oai_crew {
    shelf_view shelf; /* first: a task's home is its crew */
    oai_threads threads;
    void (*clean)(task_t *task);
    bool joins_help;
    bool drops;            /* what has not started at its end; else that has run */
    struct oai_crew *next; /* under crews.lock */
    unsigned helpers;      /* too: joins that run its tasks */
} oai_crew;

typedef struct crew_task {
    shelf_job head;
    task_t task;
} crew_task;

static _Thread_local const oai_crew *crew_running; /* whose task this thread runs */
static _Thread_local const oai_crew *crew_used;    /* that it gave a task last; it may be gone: only compared */

static void crew_run_now(const oai_crew *crew, task_t task) {
    const oai_crew *outer = crew_running;
    crew_running = crew;
    task.func(task.args);
    crew_running = outer;
}

static void crew_run(shelf_job *head, weft_worker *self) {
    crew_task *mine = (crew_task *)head;
    oai_crew *crew = (oai_crew *)head->home;
    (void)self;
    if (atomic_load(&crew->shelf.stage) != SHELF_ENDED || !crew->drops)
        crew_run_now(crew, mine->task);
    else if (crew->clean != NULL)
        crew->clean(&mine->task);
}

/* ---- those that there are ----------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left; /* a helper has */
    oai_crew *first;
} crews = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void crews_add(oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    crew->next = crews.first;
    crews.first = crew;
    pthread_mutex_unlock(&crews.lock);
}

/* From here on nobody begins to help it. */
static void crews_hide(const oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    oai_crew **link = &crews.first;
    while (*link != crew) link = &(*link)->next;
    *link = crew->next;
    pthread_mutex_unlock(&crews.lock);
}

/* Until nobody helps it any more: after its last task, for helpers are in tasks, too. */
static void crews_empty(const oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    while (crew->helpers > 0) pthread_cond_wait(&crews.left, &crews.lock);
    pthread_mutex_unlock(&crews.lock);
}

/* The one that this thread has used last, which stays until crews_leave; NULL: none, or gone. */
static inline oai_crew *crews_enter(void) {
    pthread_mutex_lock(&crews.lock);
    oai_crew *crew = crews.first;
    while (crew != NULL && crew != crew_used) crew = crew->next;
    if (crew != NULL) crew->helpers++;
    pthread_mutex_unlock(&crews.lock);
    return crew;
}

static inline void crews_leave(oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    if (--crew->helpers == 0) pthread_cond_broadcast(&crews.left);
    pthread_mutex_unlock(&crews.lock);
}

#ifndef WEFT_OAI_NO_HELP
void weft_oai_help_own(const void *answer, bool (*is_done)(const void *answer));
void weft_oai_help_own(const void *answer, bool (*is_done)(const void *answer)) {
    oai_crew *crew = crews_enter();
    if (crew == NULL) return;
    while (crew->joins_help && !is_done(answer) && weft_group_help(crew->shelf.view.pool, &crew->shelf.view.group) > 0) {}
    crews_leave(crew);
}
#endif

#ifdef WEFT_VIEW_SHARED
static uint64_t crew_soon_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + 1000000u;
}

/* Runs tasks of the crew that this thread has used last, for about a millisecond. false: it has none, or is gone, or the
 * caller is one of them. */
bool weft_oai_help(void);
bool weft_oai_help(void) {
    oai_crew *crew = crews_enter();
    if (crew == NULL) return false;
    int error = weft_group_wait_until(crew->shelf.view.pool, &crew->shelf.view.group, WEFT_HELP_BELOW, crew_soon_ns());
    crews_leave(crew);
    return error == WEFT_ETIMEDOUT;
}
#endif

/* ---- its life ----------------------------------------------------------------------------------------------------- */

/* NULL with *error a negative errno value. `threads` is copied. */
static oai_crew *crew_open(const oai_threads *threads, int *error) {
    oai_crew *crew = calloc(1, sizeof *crew);
    *error = -ENOMEM;
    if (crew == NULL) return NULL;
    crew->threads.name = threads->name;
    crew->threads.count = threads->count;
    memcpy(crew->threads.core_id, threads->core_id, sizeof crew->threads.core_id);
    *error = oai_threads_open(&crew->threads, &crew->shelf.view);
    if (*error != 0) {
        free(crew);
        return NULL;
    }
    crew->joins_help = !oai_threads_pin(&crew->threads);
    shelf_furnish(&crew->shelf, crew_run);
    crews_add(crew);
    return crew;
}

static void crew_push(oai_crew *crew, task_t task) {
    crew_task wish = {.task = task};
    crew_used = crew;
    if (shelf_submit(&crew->shelf, &wish.head, sizeof wish) != 0) crew_run_now(crew, task);
}

/* Ends the threads; tasks that run finish. `drops`: those that have not started go to `clean` (may be NULL); else they run.
 * false: nothing has happened: the caller is a task of the crew, or one waits for it. */
static bool crew_close(oai_crew *crew, bool drops, void (*clean)(task_t *task)) {
    int error;
    if (crew == crew_running) return false;
    crews_hide(crew);
    crew->drops = drops;
    crew->clean = clean;
    while (view_tries_again(error = shelf_quiet(&crew->shelf, drops))) {}
    if (view_is_refusal(error)) {
        crews_add(crew);
        return false;
    }
    crews_empty(crew);
    (void)shelf_end(&crew->shelf, error, NULL);
    free(crew);
    return true;
}

#endif
