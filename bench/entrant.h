/* entrant.h: what a pool shows to the race.
 *
 * An entrant is a shared object that exports one `weft_entrant`. Each runs in a process of its own, so it may keep globals.
 * The race calls it from one thread: create once, then batches of [enter(] submit... [)] wait, and destroy at the end, or
 * never: a process that has done its rounds is killed. */
#ifndef WEFT_ENTRANT_H
#define WEFT_ENTRANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENTRANT_VERSION 1u

struct weft_worker;

/* A job. The same type as a weft task, so that no pool needs an adapter more than weft does; others pass NULL as `self`. The
 * payload is the entrant's copy, aligned to 8 at least. */
typedef int (*entrant_fn)(void *payload, struct weft_worker *self);

enum entrant_flag {
    ENTRANT_BOUNDED = 1,     /* submit waits while the queue is full */
    ENTRANT_CALLER_RUNS = 2, /* the waiting caller runs jobs too: it is one of the W workers */
    ENTRANT_INSIDE_ONLY = 4, /* jobs can be submitted inside `enter` alone */
    ENTRANT_NESTED = 8,      /* a job may submit jobs */
    ENTRANT_SPINS = 16,      /* idle workers keep a CPU busy */
    ENTRANT_FORK_JOIN = 32,  /* a batch must end inside the call that started it */
    ENTRANT_OURS = 64,       /* weft itself: not a peer */
    ENTRANT_GROUPS = 128     /* its loops are cut by halves down to the grain: of the workload loop-groups alone */
};

struct entrant_config {
    unsigned workers;   /* threads that run jobs, a helping caller counted */
    unsigned spin;      /* 1: idle threads spin for ever, if the entrant can; 0: as it is usually */
    size_t payload_max; /* no payload of this pool is larger */
};

/* The five functions: create, enter, submit, wait, destroy. An int is 0 or the entrant's error, which ends its row. */
struct entrant {
    uint32_t version; /* ENTRANT_VERSION */
    uint32_t flags;   /* enum entrant_flag */
    const char *name;
    const char *text;                                     /* one line for --list */
    const char *workload;                                 /* the only workload it is made for; NULL: any */
    unsigned workers_min;                                 /* worker counts it supports */
    unsigned workers_max;                                 /* 0: no limit */
    size_t payload_max;                                   /* 0: no limit */
    void *(*create)(const struct entrant_config *config); /* NULL: failed */
    /* Calls body(arg) where jobs may be submitted, and returns after it; NULL when any place serves. */
    int (*enter)(void *pool, void (*body)(void *arg), void *arg);
    int (*submit)(void *pool, entrant_fn fn, const void *payload, size_t size); /* copies the payload */
    int (*wait)(void *pool); /* until every job submitted has finished; what they wrote is visible */
    void (*destroy)(void *pool);
};

#if defined(__GNUC__)
#define ENTRANT_EXPORT __attribute__((visibility("default")))
#else
#define ENTRANT_EXPORT
#endif

extern ENTRANT_EXPORT const struct entrant weft_entrant;

#ifdef __cplusplus
}
#endif
#endif
