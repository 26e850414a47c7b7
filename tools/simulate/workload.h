/* workload.h: programs that `weft simulate` runs, over weft.h alone: on a machine in virtual time, and on this one. What they need
 * besides weft comes from the stage they run on. C, for the engine compiles them with the library. */
#ifndef WEFT_SIMULATE_WORKLOAD_H
#define WEFT_SIMULATE_WORKLOAD_H

#include <stdint.h>
#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a workload runs. */
struct stage {
    uint64_t (*now_ns)(void);
    void (*work)(uint64_t ns); /* a task's own work */
    void (*sleep_until)(uint64_t when_ns);
    /* Calls body(0, context) .. body(threads - 1, context) on as many threads of their own; returns when all have. */
    void (*together)(unsigned threads, void (*body)(unsigned index, void *context), void *context);
    /* What has happened until now does not count / what comes does not. */
    void (*begin)(weft_pool *pool);
    void (*end)(weft_pool *pool);
};

/* What is asked of it. */
struct play {
    const struct stage *on;
    unsigned workers;
    unsigned submitters; /* of `producers`; 0: as many as workers */
    uint64_t tasks;      /* of a round, or hops, groups, nodes; 0: its own */
    uint64_t task_ns;    /* own work of each */
    uint64_t seed;
    unsigned rounds; /* that count, after one that does not */
    uint32_t *waits; /* ns from each task's submission to its beginning, room for waits_max; NULL: nobody asks */
    uint64_t waits_max, wait_count;
    weft_config config;
};

/* What came of it. */
struct outcome {
    uint64_t tasks;      /* that count */
    uint64_t work_ns;    /* their own work */
    uint64_t elapsed_ns; /* of the rounds */
    uint64_t ideal_ns;   /* what those take at least on so many threads; 0: nobody can say */
    uint64_t worst_ns;   /* slot: the 99th of a hundred slots; else 0 */
};

struct workload {
    const char *name, *about;
    uint64_t task_ns;                                                        /* unless others are asked for */
    int (*run)(struct play *play, weft_pool *pool, struct outcome *outcome); /* 0, or weft's error */
};

/* Ends with one whose name is NULL. */
extern const struct workload workloads[];
const struct workload *workload_find(const char *name);
/* Makes the pool, runs the workload, ends the pool. 0, or weft's error. */
int workload_play(const struct workload *workload, struct play *play, struct outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif
