/* What adapters/oai uses of the host's task_manager.h of 2024. */
#ifndef OAI_SHAPE_2024_TASK_MANAGER_H
#define OAI_SHAPE_2024_TASK_MANAGER_H

#include "../task_ans.h"

#include <pthread.h>
#include <stdint.h>

/* The host's task.h. */
typedef struct {
    void *args;
    void (*func)(void *args);
} task_t;

typedef struct {
    pthread_t *t_arr;
    size_t len_thr;
    _Atomic(uint64_t) index;
    void *q_arr;
    _Atomic(uint64_t) num_task;
    pthread_barrier_t barrier;
} ws_task_manager_t;

void init_ws_task_manager(ws_task_manager_t *man, int *core_id, size_t num_threads);
void free_ws_task_manager(ws_task_manager_t *man, void (*clean)(task_t *args));
void async_ws_task_manager(ws_task_manager_t *man, task_t t);

#endif
