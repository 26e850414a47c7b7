/* pool_help.h: pools, gates and counters for the tests that use weft.h alone. */
#ifndef WEFT_TESTS_POOL_HELP_H
#define WEFT_TESTS_POOL_HELP_H

#include "help.h"
#include "weft.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* ---- pools -------------------------------------------------------------------------------------------------------- */

static inline weft_config config_of(uint32_t workers) {
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK);
    config.workers = workers;
    return config;
}

static inline weft_pool *make_pool_with(const weft_config *config) {
    weft_pool *pool = NULL;
    REQUIRE(weft_pool_create(&pool, config) == WEFT_OK);
    REQUIRE(pool != NULL);
    return pool;
}

static inline weft_pool *make_pool(uint32_t workers) {
    weft_config config = config_of(workers);
    return make_pool_with(&config);
}

static inline void end_pool(weft_pool *pool) {
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    REQUIRE(pool == NULL);
}

static inline weft_stats stats_of(const weft_pool *pool) {
    weft_stats stats = {.struct_size = sizeof stats};
    REQUIRE(weft_pool_stats(pool, &stats) == WEFT_OK);
    return stats;
}

static inline uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

static inline void await(sem_t *event) {
    while (sem_wait(event) != 0) REQUIRE(errno == EINTR);
}

/* A task that says it runs and then stays until it is let go. */
typedef struct gate {
    sem_t entered, opened;
} gate;

static inline int gate_task(void *payload, weft_worker *self) {
    (void)self;
    gate *g = *(gate **)payload;
    sem_post(&g->entered);
    await(&g->opened);
    return 0;
}

static inline void gate_init(gate *g) {
    REQUIRE(sem_init(&g->entered, 0, 0) == 0);
    REQUIRE(sem_init(&g->opened, 0, 0) == 0);
}

/* One worker of the pool stands in the gate when this returns. */
static inline void gate_occupy(gate *g, weft_pool *pool, weft_group *group) {
    gate_init(g);
    REQUIRE(weft_submit(pool, group, gate_task, &g, sizeof g) == WEFT_OK);
    await(&g->entered);
}

static inline void gate_open(gate *g) { sem_post(&g->opened); }

/* ---- tasks -------------------------------------------------------------------------------------------------------- */

/* Payload: pointer to the counter. */
static inline int count_task(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add(*(atomic_uint **)payload, 1);
    return 0;
}

static inline int submit_count(weft_pool *pool, weft_group *group, atomic_uint *counter) {
    return weft_submit(pool, group, count_task, &counter, sizeof counter);
}

static inline int empty_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

static inline void nap(void) {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
}

#endif
