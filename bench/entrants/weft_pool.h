/* weft_pool.h: weft behind the entrant's table, using only its public header. */
#ifndef WEFT_BENCH_WEFT_POOL_H
#define WEFT_BENCH_WEFT_POOL_H

#include "../entrant.h"

#include <weft.h>
#include <stdlib.h>

/* The longest spin that weft accepts; no pause within a round is as long. */
#define WEFT_SPIN_LONGEST INT64_C(1000000000)

struct weft_entry {
    weft_pool *pool;
    weft_group group;
};

static inline void *weft_entry_create(const struct entrant_config *config, unsigned workers, unsigned flags) {
    struct weft_entry *entry = (struct weft_entry *)calloc(1, sizeof *entry);
    if (entry == NULL) return NULL;
    weft_config settings;
    weft_config_init(&settings);
    settings.workers = workers;
    settings.flags = flags;
    if (config->spin) settings.spin_ns = WEFT_SPIN_LONGEST;
    if (weft_pool_create(&entry->pool, &settings) == WEFT_OK && weft_pool_workers(entry->pool) == workers) return entry;
    weft_pool_destroy(&entry->pool);
    free(entry);
    return NULL;
}

static inline int weft_entry_submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    struct weft_entry *entry = (struct weft_entry *)pool;
    return weft_submit(entry->pool, &entry->group, fn, payload, size);
}

static inline int weft_entry_wait(void *pool) {
    struct weft_entry *entry = (struct weft_entry *)pool;
    return weft_group_wait(entry->pool, &entry->group);
}

static inline void weft_entry_destroy(void *pool) {
    struct weft_entry *entry = (struct weft_entry *)pool;
    weft_pool_destroy(&entry->pool);
    free(entry);
}

#endif
