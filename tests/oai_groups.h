/* oai_groups.h: tasks of OpenAirInterface's thread pool that meet in groups as large as the pool. They end only if one thread's
 * start in the order in which it pushed them. */
#ifndef WEFT_TESTS_OAI_GROUPS_H
#define WEFT_TESTS_OAI_GROUPS_H

#include <stdatomic.h>
#include <unistd.h>

enum { MEET = 4, GROUPS = 50 };
static atomic_uint groups_arrived[GROUPS];

static void meet_args(void *args) {
    atomic_uint *arrived = args;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < MEET) usleep(10); /* the threads may be real-time ones */
}

static inline void push_groups(tpool_t *pool) {
    for (int i = 0; i < GROUPS; i++) {
        atomic_store(&groups_arrived[i], 0);
        for (int each = 0; each < MEET; each++) pushTpool(pool, (task_t){.args = &groups_arrived[i], .func = meet_args});
    }
}

#endif
