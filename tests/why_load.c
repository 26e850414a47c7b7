/* why_load.c: programs whose timelines are hard to tell from: `why_load KIND COUNT`. What `weft why` says of them is checked by
 * test_why.py, which has each kind's purpose. One worker, and no helping, so the order of the tasks is that of their
 * submission. */
#define _GNU_SOURCE
#include <signal.h>

#include "pool_help.h"

static void work(uint64_t ns) {
    for (uint64_t end = clock_ns() + ns; clock_ns() < end;) {}
}

#define TASK(name, ns)                                                                                                      \
    static int name(void *payload, weft_worker *self) {                                                                     \
        (void)payload, (void)self;                                                                                          \
        work(ns);                                                                                                           \
        return 0;                                                                                                           \
    }
TASK(victim, 100000)
TASK(long_task, 15000000)
TASK(quick, 25000)
TASK(empty, 0)

static weft_pool *make(void) {
    weft_config config;
    REQUIRE(weft_config_init(&config) == WEFT_OK && weft_config_from_env(&config) == WEFT_OK);
    config.workers = 1;
    config.flags = WEFT_POOL_NO_HELP;
    return make_pool_with(&config);
}

/* `before` and then `last`, of one group. */
static void run(weft_pool *pool, weft_fn before, unsigned count, weft_fn last) {
    weft_group all = WEFT_GROUP_INIT;
    for (unsigned i = 0; i < count; i++) REQUIRE(weft_submit(pool, &all, before, NULL, 0) == WEFT_OK);
    if (last != NULL) REQUIRE(weft_submit(pool, &all, last, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &all) == WEFT_OK);
}

/* A late victim, between others that are not. */
static void run_late(weft_pool *pool) {
    for (int i = 0; i < 20; i++) run(pool, victim, 1, NULL);
    run(pool, long_task, 1, victim);
}

static atomic_bool ends;
static void on_term(int number) {
    (void)number;
    atomic_store(&ends, true);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *kind = argv[1];
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    weft_pool *pool = make();
    if (strcmp(kind, "rush") == 0) {
        run_late(pool);
        for (unsigned i = 0; i < count; i++) run(pool, empty, 100, NULL);
    } else if (strcmp(kind, "pools") == 0) {
        run_late(pool);
        end_pool(pool);
        pool = make();
        run(pool, empty, count, NULL);
    } else if (strcmp(kind, "queue") == 0) {
        run(pool, quick, count, NULL);
    } else { /* "serve": until SIGTERM */
        REQUIRE(strcmp(kind, "serve") == 0 || strcmp(kind, "mortal") == 0);
        if (strcmp(kind, "serve") == 0) REQUIRE(signal(SIGTERM, on_term) != SIG_ERR);
        run(pool, victim, 1, NULL);
        printf("begun\n");
        fflush(stdout);
        for (unsigned i = 0; i < count && !atomic_load(&ends); i++) run(pool, long_task, 1, NULL);
    }
    end_pool(pool);
    return 0;
}
