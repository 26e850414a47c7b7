/* copy.c: a plugin with a weft of its own, linked in. */
#include "copy.h"

#include <stddef.h>
#include <weft.h>

static weft_pool *kept;

static int count_task(void *payload, weft_worker *self) {
    (void)self;
    __atomic_fetch_add(*(unsigned **)payload, 1, __ATOMIC_RELAXED);
    return 0;
}
static int count_indices(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    __atomic_fetch_add((unsigned *)context, (unsigned)(end - begin), __ATOMIC_RELAXED);
    return 0;
}

static unsigned add(weft_pool *pool, unsigned tasks) {
    weft_group group = WEFT_GROUP_INIT;
    unsigned count = 0, *counter = &count;
    for (unsigned i = 0; i < tasks; i++) (void)weft_submit(pool, &group, count_task, &counter, sizeof counter);
    return weft_group_wait(pool, &group) == WEFT_OK ? count : 0;
}

const char *copy_version(void) { return weft_version(); }

unsigned copy_work(unsigned tasks) {
    weft_pool *pool;
    unsigned count = 0;
    void *block = weft_alloc(100);
    weft_free(block);
    if (block == NULL || weft_pool_create(&pool, NULL) != WEFT_OK) return 0;
    count += add(pool, tasks);
    if (weft_for(pool, (weft_range){0, tasks, 1}, count_indices, &count) != WEFT_OK) return 0;
    return weft_pool_destroy(&pool) == WEFT_OK ? count : 0;
}

unsigned copy_keep(void) { return weft_pool_default(&kept) == WEFT_OK ? add(kept, 100) : 0; }
unsigned copy_again(void) { return add(kept, 100); }
int copy_drop(void) { return weft_pool_destroy(&kept); }
