/* shelf.h: a view whose jobs can be set aside while a destroy waits that may still be refused, or while it is paused; and of
 * whose jobs no more run at once than it has threads of its own.
 *
 * Destroy drops the jobs that have not started. But a destroy called in a task, on whatever thread, may find that a job of
 * the view waits for that very task. Then it is refused, and nothing may be lost. So jobs that come up for running meanwhile
 * are copied and set aside, and dropped once the destroy has succeeded. After a refusal they go back into the queue as
 * permits, one for each job. Whatever comes up then, permit or job, is exchanged for the oldest job set aside. So jobs start
 * in their order.
 *
 * Where a job sleeps in a call of weft, weft lets another thread stand in for its own, and that one takes the next job, which
 * the host's own pool would not have started: a pool of one thread may be there to run jobs one by one. So a thread needs a
 * seat before its job starts, and a job that sleeps keeps its seat (shelf_sit). Threads get seats in the order in which they
 * ask. On the process's pool there are no seats.
 *
 * Without memory to set a job aside, its thread waits with it while the view is paused, and runs it if a destroy waits.
 *
 * One source file of a host includes this, as view.h. */
#ifndef WEFT_ADAPTERS_SHELF_H
#define WEFT_ADAPTERS_SHELF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "view.h"

typedef struct shelf_view shelf_view;

/* The beginning of each job's payload. */
typedef struct shelf_job {
    shelf_view *home;
    uint32_t size; /* of the payload; 0: a permit */
    uint32_t tag;  /* the adapter's own */
} shelf_job;

typedef struct shelf_copy {
    struct shelf_copy *next;
    _Alignas(16) shelf_job job; /* and the rest of the payload */
} shelf_copy;

enum shelf_stage {
    SHELF_OPEN,
    SHELF_CLOSING, /* a destroy waits that may be refused */
    SHELF_ENDED    /* a destroy waits that will not be refused, or has waited */
};

struct shelf_view {
    view view;
    void (*run)(shelf_job *job, weft_worker *self); /* at SHELF_ENDED it drops the job; self may be NULL */
    pthread_mutex_t lock;                           /* for what follows; the atomic fields are changed under it */
    pthread_cond_t changed;
    atomic_int stage;
    atomic_bool asks; /* a thread that comes up must ask what to run */
    bool is_paused;
    unsigned releases; /* how many times all permits of the jobs set aside have been sent */
    unsigned loose;    /* jobs whose permits are being sent */
    unsigned waits;    /* threads that sleep for a change: in shelf_wait, or in the adapter */
    shelf_copy *first, **end;
    unsigned seats;         /* 0: jobs need none */
    atomic_uint taken;      /* of these; for a moment also by threads that do not get one */
    atomic_uint standing;   /* threads that sleep for a seat; changed under the lock */
    uint64_t came, seated;  /* of these threads, ever */
    pthread_cond_t vacated; /* with the lock */
};

static _Thread_local const shelf_view *shelf_running; /* whose job this thread runs */
static _Thread_local bool shelf_sits;                 /* and whether it has a seat for that */

/* Call it after the view was opened. */
static inline void shelf_furnish(shelf_view *k, void (*run)(shelf_job *job, weft_worker *self)) {
    k->run = run;
    k->end = &k->first;
    k->seats = k->view.own;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    pthread_cond_init(&k->vacated, NULL);
}

/* ---- seats ---------------------------------------------------------------------------------------------------------- */

static inline void shelf_stand_up(shelf_view *k) {
    atomic_fetch_sub(&k->taken, 1);
    if (atomic_load(&k->standing) == 0) return;
    pthread_mutex_lock(&k->lock);
    pthread_cond_broadcast(&k->vacated);
    pthread_mutex_unlock(&k->lock);
}

static inline void shelf_sit_in_turn(shelf_view *k) {
    pthread_mutex_lock(&k->lock);
    const uint64_t number = k->came++;
    atomic_fetch_add(&k->standing, 1);
    /* Whoever stands up later sees `standing`; a seat that was left before is seen here. */
    while (number != k->seated || atomic_fetch_add(&k->taken, 1) >= k->seats) {
        if (number == k->seated) atomic_fetch_sub(&k->taken, 1);
        pthread_cond_wait(&k->vacated, &k->lock);
    }
    k->seated++;
    atomic_fetch_sub(&k->standing, 1);
    pthread_cond_broadcast(&k->vacated);
    pthread_mutex_unlock(&k->lock);
}

/* Takes a seat, once there is one. false: this thread needs none, because it runs a job of the view already, or comes from
 * outside and waits for it. */
static inline bool shelf_sit(shelf_view *k) {
    if (k->seats == 0 || shelf_running == k || weft_worker_here() == NULL) return false;
    if (atomic_load(&k->standing) == 0) {
        if (atomic_fetch_add(&k->taken, 1) < k->seats) return true;
        shelf_stand_up(k);
    }
    shelf_sit_in_turn(k);
    return true;
}

/* ---- setting aside; all with the lock held -------------------------------------------------------------------------- */

static inline bool shelf_holds(shelf_view *k) {
    const int stage = atomic_load(&k->stage);
    return stage == SHELF_CLOSING || (k->is_paused && stage == SHELF_OPEN);
}

/* false: no memory. */
static inline bool shelf_push(shelf_view *k, const shelf_job *job) {
    shelf_copy *copy = malloc(offsetof(shelf_copy, job) + job->size);
    if (copy == NULL) return false;
    memcpy((char *)copy + offsetof(shelf_copy, job), job, job->size);
    copy->next = NULL;
    *k->end = copy;
    k->end = &copy->next;
    return true;
}

/* Takes the oldest job, which is the caller's now. NULL: there is none. */
static inline shelf_job *shelf_pop(shelf_view *k) {
    shelf_copy *oldest = k->first;
    if (oldest == NULL) return NULL;
    k->first = oldest->next;
    if (k->first == NULL) k->end = &k->first;
    return &oldest->job;
}

static inline void shelf_free(shelf_job *job) { free((char *)job - offsetof(shelf_copy, job)); }

/* Call it after any change: updates `asks` and wakes the sleepers. */
static inline void shelf_tell(shelf_view *k) {
    atomic_store(&k->asks, shelf_holds(k) || k->first != NULL);
    pthread_cond_broadcast(&k->changed);
}

/* ---- what a worker runs ------------------------------------------------------------------------------------------- */

/* What runs in the place of the job that has come up: the job itself, an older one, or NULL for nothing. */
static inline shelf_job *shelf_choose(shelf_view *k, shelf_job *mine) {
    const bool is_permit = mine->size == 0;
    bool is_kept = false;
    shelf_job *chosen = is_permit ? NULL : mine;
    pthread_mutex_lock(&k->lock);
    while (shelf_holds(k) && !is_permit && !(is_kept = shelf_push(k, mine)) && atomic_load(&k->stage) == SHELF_OPEN)
        pthread_cond_wait(&k->changed, &k->lock);
    if (is_kept)
        chosen = NULL;
    else if (!shelf_holds(k) && k->first != NULL && (is_permit || shelf_push(k, mine)))
        chosen = shelf_pop(k);
    atomic_store(&k->asks, shelf_holds(k) || k->first != NULL);
    pthread_mutex_unlock(&k->lock);
    return chosen;
}

static int shelf_run(void *payload, weft_worker *self) {
    shelf_job *mine = payload, *chosen = mine;
    shelf_view *k = mine->home;
    const shelf_view *outer = shelf_running;
    const bool outer_sits = shelf_sits, sits = shelf_sit(k);
    if (mine->size == 0 || atomic_load(&k->asks)) chosen = shelf_choose(k, mine);
    if (outer != k) shelf_sits = sits;
    shelf_running = k;
    if (chosen != NULL) k->run(chosen, self);
    shelf_running = outer;
    shelf_sits = outer_sits;
    if (sits) shelf_stand_up(k);
    if (chosen != NULL && chosen != mine) shelf_free(chosen);
    return 0;
}

/* Copies `job` and what lies behind it, `size` bytes in all. Returns as view_submit. */
static inline int shelf_submit(shelf_view *k, shelf_job *job, size_t size) {
    job->home = k;
    job->size = (uint32_t)size;
    return view_submit(&k->view, shelf_run, job, size);
}

/* ---- letting go --------------------------------------------------------------------------------------------------- */

/* How many permits to send (shelf_send) for the jobs set aside; none while they must stay there. Call it with the lock
 * held. */
static inline unsigned shelf_release(shelf_view *k) {
    unsigned permits = 0;
    if (!shelf_holds(k)) {
        for (const shelf_copy *each = k->first; each != NULL; each = each->next) permits++;
        k->loose += permits;
    }
    shelf_tell(k);
    return permits;
}

/* Sends permits. Call it without the lock: if only few tasks may wait, a submission waits for workers to start others, or
 * runs the permit here. So it needs no memory. */
static inline void shelf_send(shelf_view *k, unsigned permits) {
    shelf_job permit = {.home = k};
    if (permits == 0) return;
    for (unsigned i = 0; i < permits; i++)
        if (view_submit(&k->view, shelf_run, &permit, sizeof permit) != 0) (void)shelf_run(&permit, NULL);
    pthread_mutex_lock(&k->lock);
    k->loose -= permits;
    k->releases++;
    shelf_tell(k);
    pthread_mutex_unlock(&k->lock);
}

static inline void shelf_pause(shelf_view *k, bool is_paused) {
    pthread_mutex_lock(&k->lock);
    k->is_paused = is_paused;
    unsigned permits = shelf_release(k);
    pthread_mutex_unlock(&k->lock);
    shelf_send(k, permits);
}

/* ---- waiting, and the end ----------------------------------------------------------------------------------------- */

/* Has every job finished that was there when `releases` was read? Call it with the lock held, after a view_wait. A permit
 * sent during that wait may have come too late for it, and its job may still run. Then `loose` or `releases` says so. */
static inline bool shelf_is_done(shelf_view *k, unsigned releases) {
    if (atomic_load(&k->stage) == SHELF_ENDED) return true;
    return k->first == NULL && k->loose == 0 && k->releases == releases;
}

/* Sleeps while jobs must stay set aside, or their permits are being sent. Call it with the lock held. */
static inline void shelf_sleep(shelf_view *k) {
    if (!(shelf_holds(k) && k->first != NULL) && k->loose == 0) return;
    (void)view_sleep_begin();
    while ((shelf_holds(k) && k->first != NULL) || k->loose > 0) pthread_cond_wait(&k->changed, &k->lock);
    view_sleep_end();
}

/* Ends one of `waits`. Call it with the lock held; after giving up the lock, the caller touches nothing of the view. */
static inline void shelf_leave(shelf_view *k) {
    if (--k->waits == 0) pthread_cond_broadcast(&k->changed);
}

/* Waits until every job has finished, including those set aside. Returns as view_wait. */
static inline int shelf_wait(shelf_view *k) {
    int error = view_check(&k->view);
    if (error != 0) return error;
    bool is_done = false;
    pthread_mutex_lock(&k->lock);
    k->waits++;
    while (error == 0 && !is_done) {
        const unsigned releases = k->releases;
        pthread_mutex_unlock(&k->lock);
        error = view_wait(&k->view);
        pthread_mutex_lock(&k->lock);
        if (error == 0) shelf_sleep(k);
        is_done = shelf_is_done(k, releases);
    }
    shelf_leave(k);
    pthread_mutex_unlock(&k->lock);
    return error;
}

static inline void shelf_enter(shelf_view *k, enum shelf_stage stage) {
    unsigned permits = 0;
    pthread_mutex_lock(&k->lock);
    atomic_store(&k->stage, (int)stage);
    if (stage == SHELF_OPEN)
        permits = shelf_release(k);
    else
        shelf_tell(k);
    pthread_mutex_unlock(&k->lock);
    shelf_send(k, permits);
}

/* At SHELF_ENDED, after the last job: has `run` drop the jobs set aside, then waits until `waits` is 0. */
static inline void shelf_drop(shelf_view *k) {
    pthread_mutex_lock(&k->lock);
    for (shelf_job *job; (job = shelf_pop(k)) != NULL;) {
        pthread_mutex_unlock(&k->lock);
        k->run(job, NULL);
        shelf_free(job);
        pthread_mutex_lock(&k->lock);
    }
    while (k->waits > 0) pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    pthread_cond_destroy(&k->vacated);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
}

/* For a forked child, where nobody runs jobs and the lock may be held for ever. */
static inline int shelf_close_forked(shelf_view *k, void (*data_free)(void *)) {
    for (shelf_job *job; (job = shelf_pop(k)) != NULL;) shelf_free(job);
    return view_close(&k->view, data_free);
}

/* The first half of shelf_close, which may be refused: waits until the last job has ended. -EINVAL in a forked child. */
static inline int shelf_quiet(shelf_view *k, bool drops) {
    int error = view_check(&k->view);
    if (error != 0) return error;
    shelf_enter(k, drops ? SHELF_CLOSING : SHELF_ENDED);
    error = view_wait(&k->view);
    shelf_enter(k, error != 0 ? SHELF_OPEN : SHELF_ENDED);
    return error;
}

/* The second half: after shelf_quiet, unless that was refused. */
static inline int shelf_end(shelf_view *k, int quiet, void (*data_free)(void *)) {
    if (quiet != 0) return shelf_close_forked(k, data_free);
    pthread_mutex_lock(&k->lock);
    shelf_sleep(k);
    pthread_mutex_unlock(&k->lock);
    (void)view_wait(&k->view); /* for permits that found no job */
    shelf_drop(k);
    return view_close(&k->view, data_free);
}

/* As view_close. `drops`: jobs that have not started go to `run` at SHELF_ENDED, which drops them; otherwise they run. After
 * a refusal every job is there as before. */
static inline int shelf_close(shelf_view *k, bool drops, void (*data_free)(void *)) {
    const int error = shelf_quiet(k, drops);
    return view_is_refusal(error) ? error : shelf_end(k, error, data_free);
}

#endif
