/* program_awake.c: apart from drive_program.c, for play.h and worker.h use the same words. */
#include "sched/worker.h"

void pool_stays_awake(weft_pool *pool);
void pool_stays_awake(weft_pool *pool) { pool->tiny_ticks = pool->short_ticks = 0; }
