/* entrant.h: the interface between a pool and the race.
 *
 * An entrant is a shared object that exports one `weft_entrant`. Each runs in a process of its own, so it may keep globals.
 * The race calls it from one thread: create once, then batches of [enter(] submit... [)] wait, and destroy at the end. It
 * may skip destroy, because a process that has finished its rounds is killed. */
#ifndef WEFT_ENTRANT_H
#define WEFT_ENTRANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENTRANT_VERSION 1u

struct weft_worker;

/* A job. It has the type of a weft task; other pools call it with NULL as `self`. So no pool needs an adapter that weft does
 * not need. The payload is the entrant's copy, aligned to at least 8. */
typedef int (*entrant_fn)(void *payload, struct weft_worker *self);

enum entrant_flag {
    ENTRANT_BOUNDED = 1,     /* submit waits while the queue is full */
    ENTRANT_CALLER_RUNS = 2, /* the waiting caller runs jobs, too: it is one of the W workers */
    ENTRANT_INSIDE_ONLY = 4, /* jobs can be submitted only inside `enter` */
    ENTRANT_NESTED = 8,      /* a job may submit jobs */
    ENTRANT_SPINS = 16,      /* idle workers keep a CPU busy */
    ENTRANT_FORK_JOIN = 32,  /* a batch must end inside the call that started it */
    ENTRANT_OURS = 64,       /* weft itself: not a peer */
    ENTRANT_GROUPS = 128     /* halves its loops down to the grain: only for the workload loop-groups */
};

struct entrant_config {
    unsigned workers;   /* threads that run jobs, including a helping caller */
    unsigned spin;      /* 1: idle threads spin for ever, if the entrant can do that; 0: its usual behaviour */
    size_t payload_max; /* no payload of this pool is larger */
};

/* The five functions are create, enter, submit, wait and destroy. Those that return an int return 0 or an error, which ends
 * the entrant's row. */
struct entrant {
    uint32_t version; /* ENTRANT_VERSION */
    uint32_t flags;   /* enum entrant_flag */
    const char *name;
    const char *text;                                     /* one line for --list */
    const char *workload;                                 /* the only workload that it is made for; NULL: any */
    unsigned workers_min;                                 /* worker counts it supports */
    unsigned workers_max;                                 /* 0: no limit */
    size_t payload_max;                                   /* 0: no limit */
    void *(*create)(const struct entrant_config *config); /* NULL: failed */
    /* Calls body(arg) in a place where jobs may be submitted, and returns after it; NULL: any place will do. */
    int (*enter)(void *pool, void (*body)(void *arg), void *arg);
    int (*submit)(void *pool, entrant_fn fn, const void *payload, size_t size); /* copies the payload */
    int (*wait)(void *pool); /* until every submitted job has finished; the caller then sees what they wrote */
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
