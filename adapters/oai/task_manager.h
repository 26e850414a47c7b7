/* task_manager.h: OpenAirInterface's task manager and its answers, on weft.
 *
 *     task_manager_t man;
 *     task_ans_t ans[13] = {0};
 *     init_task_manager(&man, 4);                      (or: init_task_manager(&man, core_id, 4))
 *     async_task_manager(&man, (task_t){.args = &symbol[i], .func = run});   where run ends in completed_task_ans(&ans[i])
 *     join_task_ans(ans, 13);
 *     free_task_manager(&man, NULL);
 *
 * Functions may be called from any thread, tasks included, unless they say otherwise. */
#ifndef WEFT_OAI_TASK_MANAGER_H
#define WEFT_OAI_TASK_MANAGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_THREAD_NOT_PINNED (-1)

typedef struct {
    void *args;
    void (*func)(void *args);
} task_t;

typedef struct {
    struct task_manager_pool *pool;
} task_manager_t;

/* Starts num_threads threads, at most 512; 0 counts as 1. 0, or a negative errno value and man->pool is NULL. */
int init_task_manager_threads(task_manager_t *man, uint32_t num_threads);

/* As above, thread i on CPU core_id[i], or on any for TASK_THREAD_NOT_PINNED. A CPU that this process may not use leaves its
 * thread on any. */
int init_task_manager_cores(task_manager_t *man, const int *core_id, size_t num_threads);

#define TASK_MANAGER_PICK(a, b, c, name, ...) name
/* init_task_manager(man, num_threads) or init_task_manager(man, core_id, num_threads) */
#define init_task_manager(...)                                                                                              \
    TASK_MANAGER_PICK(__VA_ARGS__, init_task_manager_cores, init_task_manager_threads, unused)(__VA_ARGS__)

/* Ends the threads. Tasks that run finish; each that has not started goes to clean (may be NULL) once instead. Not from a
 * task of this manager: then nothing happens. man->pool is NULL after. */
void free_task_manager(task_manager_t *man, void (*clean)(task_t *task));

/* Queues the task, which is copied. Tasks of one thread start in their order. When there is no memory it runs here and
 * now. */
void async_task_manager(task_manager_t *man, task_t task);

/* Until every task has finished. From a task of this manager it returns at once. */
void wait_all_task_manager(task_manager_t *man);

/* ---- answers ------------------------------------------------------------------------------------------------------ */

/* What a task says at its end, and what somebody sleeps for until it has. Zeroed, it stands for one task; after
 * init_task_ans for as many as that said. It may go as soon as join has returned. */
typedef struct {
    _Alignas(64) _Atomic uint32_t done; /* how many have completed; the highest bit: somebody sleeps */
    uint32_t jobs;                      /* 1 + the number of tasks, or 0 for one task */
} task_ans_t;

void init_task_ans(task_ans_t *ans, uint32_t num_jobs);

/* The last thing a task does with its answer. What it wrote before is visible to whoever joined. */
void completed_task_ans(task_ans_t *ans);
void completed_many_task_ans(task_ans_t *ans, uint32_t num_jobs);

/* Sleeps until all answers of the array are complete; at once for none. */
void join_task_ans_array(task_ans_t *ans, size_t len);
#define TASK_ANS_PICK(a, b, name, ...) name
#define TASK_ANS_JOIN_ONE(ans) join_task_ans_array(ans, 1)
/* join_task_ans(array, length) or join_task_ans(ans) */
#define join_task_ans(...) TASK_ANS_PICK(__VA_ARGS__, join_task_ans_array, TASK_ANS_JOIN_ONE, unused)(__VA_ARGS__)

#endif
