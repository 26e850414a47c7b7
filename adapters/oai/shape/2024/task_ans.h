/* What adapters/oai uses of the host's task_ans.h of 2024: a flag for each task, which the task sets and a join waits
 * for. */
#ifndef OAI_SHAPE_2024_TASK_ANS_H
#define OAI_SHAPE_2024_TASK_ANS_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct {
    _Alignas(64) _Atomic(int) status;
} task_ans_t;

void join_task_ans(task_ans_t *arr, size_t len);
void completed_task_ans(task_ans_t *task);

#endif
