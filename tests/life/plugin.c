/* plugin.c: what a host loads and closes: it uses weft, linked in or shared. */
#include <weft.h>

#define EXPORTED __attribute__((visibility("default")))

static int count_task(void *payload, weft_worker *self) {
    (void)self;
    __atomic_fetch_add(*(unsigned **)payload, 1, __ATOMIC_RELAXED);
    return 0;
}

static unsigned run(weft_pool *pool, unsigned tasks) {
    weft_group group = WEFT_GROUP_INIT;
    unsigned count = 0, *counter = &count;
    for (unsigned i = 0; i < tasks; i++) (void)weft_submit(pool, &group, count_task, &counter, sizeof counter);
    return weft_group_wait(pool, &group) == WEFT_OK ? count : 0;
}

/* Everything is given back: 100. */
EXPORTED unsigned plugin_use(void);
EXPORTED unsigned plugin_use(void) {
    weft_pool *pool = NULL;
    if (weft_pool_default(&pool) != WEFT_OK) return 0;
    unsigned count = run(pool, 100);
    return weft_pool_destroy(&pool) == WEFT_OK ? count : 0;
}

/* The reference is kept, the pool's threads live on: 100 and the process's pool. */
EXPORTED unsigned plugin_leave(weft_pool **pool);
EXPORTED unsigned plugin_leave(weft_pool **pool) { return weft_pool_default(pool) == WEFT_OK ? run(*pool, 100) : 0; }
