/* OpenAirInterface's thread pool of tasks (since December 2024) on weft: replaces common/utils/threadPool/thread-pool.c and
 * is compiled in its place, with the host's own thread-pool.h.
 *
 * What the host relies on, and how it is kept:
 *  - params has one entry for each thread: the CPU it is bound to, or -1; "n": no threads, and pushTpool runs the task
 *    itself.
 *  - The threads have the host's real-time policy and priority; a refusal by the system is reported (threads.h).
 *  - Tasks are taken by value, and from any thread, tasks included.
 *  - abortTpool lets all pushed tasks run, then ends the threads. The pool then works as for "n".
 *  - If something cannot be had, the program ends with a message, as in the original, also if a thread is missing.
 * Beyond that: abortTpool in a task of the pool, which never returns in the original, does nothing.
 *
 * Of tpool_t, q_arr is the crew and len_thr the number of threads; nothing else is used. */
#define _GNU_SOURCE
#include "thread-pool.h"

#include "crew.h"

void pushTpool(tpool_t *tpool, task_t task) {
    DevAssert(tpool != NULL && task.func != NULL);
    if (tpool->q_arr == NULL)
        task.func(task.args);
    else
        crew_push(tpool->q_arr, task);
}

static void open_pool(tpool_t *tpool, oai_threads *threads, const char *name) {
    int error = 0;
    memset(tpool, 0, sizeof *tpool);
    if (threads->count == 0) return;
    threads->name = name == NULL ? "Tpool" : name;
    oai_crew *crew = crew_open(threads, &error);
    AssertFatal(crew != NULL, "%s: no %d threads: %s\n", threads->name, threads->count, strerror(-error));
    tpool->q_arr = crew;
    tpool->len_thr = weft_pool_workers(crew->shelf.view.pool);
}

void initNamedTpool(char *params, tpool_t *tpool, bool performanceMeas, char *name) {
    (void)performanceMeas;
    DevAssert(tpool != NULL && params != NULL);
    oai_threads threads;
    AssertFatal(oai_threads_parse(&threads, params) == 0, "not a list of CPUs, -1 and n: \"%s\"\n", params);
    open_pool(tpool, &threads, name);
}

void initFloatingCoresTpool(int nbThreads, tpool_t *pool, bool performanceMeas, char *name) {
    (void)performanceMeas;
    DevAssert(pool != NULL);
    AssertFatal(nbThreads <= OAI_THREADS_MAX, "%d threads: at most %d are possible\n", nbThreads, OAI_THREADS_MAX);
    oai_threads threads;
    threads.count = nbThreads < 0 ? 0 : nbThreads;
    for (int i = 0; i < threads.count; i++) threads.core_id[i] = OAI_FLOATING;
    open_pool(pool, &threads, name);
}

void abortTpool(tpool_t *t) {
    DevAssert(t != NULL);
    if (t->q_arr == NULL || !crew_close(t->q_arr, false, NULL)) return;
    t->q_arr = NULL;
    t->len_thr = 0;
}
