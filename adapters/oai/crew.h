/* crew.h: OpenAirInterface's pools of tasks by value, in either form (thread-pool.c, task_manager.c): their threads and what
 * these run.
 *
 * Tasks are copied into weft's own queue: there is no lock, no allocation, and no thread sleeps on a separate queue. One
 * thread's tasks start in the order in which it gave them to a crew. No more run at once than the crew has threads
 * (shelf.h), with one exception: if every thread sleeps in a join of a task, most likely for tasks of its own crew, the
 * host's pool would hang; here another thread stands in for the last one (weft_oai_sleep_begin).
 *
 * A join runs no tasks: it cannot tell which tasks its answer needs, and its thread may hold a lock that others take. With
 * -DWEFT_OAI_HELP a join runs tasks that its thread has given the crew and no thread has begun (weft_oai_help_own), unless
 * threads are bound to CPUs, because then tasks must run there; the order is then only weft's. On the process's pool, if no
 * spare is left, a join in a task runs tasks of the crew that its thread has used last (weft_oai_help). task_ans.c calls
 * these functions; it may be linked without a pool.
 *
 * One source file of a pool includes this, after the host's headers: task_t is the host's. */
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
    bool drops;            /* at its end, drops the tasks that have not started; otherwise they run */
    struct oai_crew *next; /* under crews.lock */
    unsigned helpers;      /* also under crews.lock: joins that run its tasks */
    atomic_uint asleep;    /* threads that sleep in a join in a task, most likely for other tasks of the crew */
} oai_crew;

typedef struct crew_task {
    shelf_job head;
    task_t task;
} crew_task;

static _Thread_local oai_crew *crew_running;    /* the crew whose task this thread runs */
static _Thread_local const oai_crew *crew_used; /* the one it gave a task last; it may be gone: only compared */

static void crew_run_now(oai_crew *crew, task_t task) {
    oai_crew *outer = crew_running;
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

/* ---- all crews ---------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t left; /* a helper has left */
    oai_crew *first;
} crews = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void crews_add(oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    crew->next = crews.first;
    crews.first = crew;
    pthread_mutex_unlock(&crews.lock);
}

/* After this no thread begins to help the crew. */
static void crews_hide(const oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    oai_crew **link = &crews.first;
    while (*link != crew) link = &(*link)->next;
    *link = crew->next;
    pthread_mutex_unlock(&crews.lock);
}

/* Waits until no thread helps the crew. Call it after the crew's last task, because helpers may be in tasks, too. */
static void crews_empty(const oai_crew *crew) {
    pthread_mutex_lock(&crews.lock);
    while (crew->helpers > 0) pthread_cond_wait(&crews.left, &crews.lock);
    pthread_mutex_unlock(&crews.lock);
}

/* The crew that this thread has used last; it stays until crews_leave. NULL: there is none, or it is gone. */
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

/* Before and after a join sleeps. The thread keeps its seat, unless all others sleep in such joins already. */
enum crew_sleep { CREW_ELSEWHERE, CREW_SEATED, CREW_STANDING };

int weft_oai_sleep_begin(void);
int weft_oai_sleep_begin(void) {
    oai_crew *crew = crew_running;
    if (crew == NULL || crew_used != crew || shelf_running != &crew->shelf || !shelf_sits) return CREW_ELSEWHERE;
    if (atomic_fetch_add(&crew->asleep, 1) + 1 < crew->shelf.seats) return CREW_SEATED;
    shelf_stand_up(&crew->shelf);
    return CREW_STANDING;
}

void weft_oai_sleep_end(int how);
void weft_oai_sleep_end(int how) {
    if (how == CREW_ELSEWHERE) return;
    oai_crew *crew = crew_running;
    if (how == CREW_STANDING) atomic_fetch_add(&crew->shelf.taken, 1);
    atomic_fetch_sub(&crew->asleep, 1);
}

#ifdef WEFT_OAI_HELP
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

/* Runs tasks of the crew that this thread has used last, for about a millisecond. false: there is no such crew, it is gone,
 * or the caller is one of its tasks. */
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

/* Copies `threads`. NULL: *error is a negative errno value. */
static oai_crew *crew_open(const oai_threads *threads, int *error) {
    oai_crew *crew = calloc(1, sizeof *crew);
    *error = -ENOMEM;
    if (crew == NULL) return NULL;
    crew->threads.name = threads->name;
    crew->threads.count = threads->count;
    memcpy(crew->threads.core_id, threads->core_id, sizeof crew->threads.core_id);
    *error = oai_threads_open(&crew->threads, &crew->shelf.view, true);
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

/* Ends the threads; tasks that run finish. `drops`: tasks that have not started go to `clean` (may be NULL); otherwise they
 * run. false: nothing has happened, because the caller is a task of the crew, or a task of the crew waits for it. */
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
