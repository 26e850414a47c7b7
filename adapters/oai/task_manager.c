/* OpenAirInterface's work-stealing task manager (2024) on weft: replaces
 * common/utils/task_manager/thread_pool/task_manager.c and is compiled in its place, with the host's own task_manager.h.
 *
 * What the host relies on, and how it is kept:
 *  - core_id has one entry for each thread: the CPU it is bound to, or -1. There is at least one thread.
 *  - The threads have the host's real-time policy and priority; a refusal by the system is reported (threads.h).
 *  - Tasks are taken by value, and from any thread, tasks included.
 *  - free lets running tasks finish; each task that has not started goes to `clean` (may be NULL) once instead.
 *  - If something cannot be had, the program ends with a message, as in the original.
 * Beyond that: free in a task of the manager, which never returns in the original, does nothing: q_arr stays set.
 *
 * Of ws_task_manager_t, q_arr is the crew and len_thr the number of threads; nothing else is used. */
#define _GNU_SOURCE
#include "task_manager.h"

#include "assertions.h"
#include "system.h"

#include "crew.h"

void init_ws_task_manager(ws_task_manager_t *man, int *core_id, size_t num_threads) {
    DevAssert(man != NULL && core_id != NULL);
    AssertFatal(num_threads > 0 && num_threads <= OAI_THREADS_MAX, "%zu threads: 1 to %d are possible\n", num_threads,
                OAI_THREADS_MAX);
    oai_threads threads = {.name = "Tpool", .count = (int)num_threads};
    memcpy(threads.core_id, core_id, num_threads * sizeof *core_id);
    int error = 0;
    memset(man, 0, sizeof *man);
    oai_crew *crew = crew_open(&threads, &error);
    AssertFatal(crew != NULL, "no %zu threads: %s\n", num_threads, strerror(-error));
    man->q_arr = crew;
    man->len_thr = weft_pool_workers(crew->shelf.view.pool);
}

void async_ws_task_manager(ws_task_manager_t *man, task_t t) {
    DevAssert(man != NULL && man->q_arr != NULL && t.func != NULL);
    crew_push(man->q_arr, t);
}

void free_ws_task_manager(ws_task_manager_t *man, void (*clean)(task_t *args)) {
    DevAssert(man != NULL);
    if (man->q_arr == NULL || !crew_close(man->q_arr, true, clean)) return;
    man->q_arr = NULL;
    man->len_thr = 0;
}
