/* What adapters/oai uses of the host's task_ans.h of 2025: one answer for several jobs. */
#ifndef OAI_SHAPE_2025_TASK_ANS_H
#define OAI_SHAPE_2025_TASK_ANS_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    sem_t sem;
    _Alignas(64) _Atomic(int) counter;
} task_ans_t;

void init_task_ans(task_ans_t *ans, unsigned int num_jobs);
void join_task_ans(task_ans_t *arr);
void completed_many_task_ans(task_ans_t *ans, uint num_completed_jobs);
static inline void completed_task_ans(task_ans_t *ans) { completed_many_task_ans(ans, 1); }

#endif
