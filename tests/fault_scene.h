/* fault_scene.h: a scene that calls every function of weft.h and checks every result, whatever the system refuses. */
#ifndef WEFT_TESTS_FAULT_SCENE_H
#define WEFT_TESTS_FAULT_SCENE_H

#include "fault_calls.h"
#include "pool_help.h"

/* Generated from weft.h: an enum of its functions, and for each a macro that notes its call. After weft.h. */
#define SEEN_NOTE(name) seen_note(SEEN_##name)
#include "seen_calls.h"
void seen_note(enum seen_call call);
extern const char *const seen_names[SEEN_CALLS];

struct scene {
    bool is_strict;    /* nothing is refused: every call must do what it is for */
    bool may_be_late;  /* the clock leaps */
    bool is_forked;    /* a child of fork, made while other threads ran: they may have been changing the heap's profile */
    bool is_left;      /* another thread may have called exit: the library ends its purge thread meanwhile */
    size_t stack_size; /* of workers; 0: 64 KiB */
    const char *files; /* a directory for a timeline and for weft top; NULL: the timeline goes to /dev/null */
};

/* What a run has come to. In memory that the parent shares, where there is one. */
struct outcome {
    atomic_uint seen[SEEN_CALLS];
    atomic_uint accepted, refused, ran, cleaned; /* tasks */
    atomic_uint errors;                          /* calls that returned a documented error of shortage */
    atomic_uint stuck;                           /* tasks the watchdog told of */
    atomic_uint lock_errnos, policy_errnos;      /* bits: what weft_pool_real_time has told of */
};
extern struct outcome *outcome;

/* Runs it on the calling thread, with other threads beside it. Ends the process, with a line, where something is wrong. */
void scene_run(const struct scene *scene);

/* In a child of fork: what the parent's run has come to is the parent's. */
void scene_forget(void);

/* For its parts. */
#define CODE(error) (1u << -(error))
#define OUGHT(call, others) scene_ought((call), (others), __FILE__, __LINE__, #call)
/* The result must be WEFT_OK, one of `others`, or, when the scene is not strict, WEFT_ENOMEM or WEFT_EAGAIN. */
int scene_ought(int error, unsigned others, const char *file, int line, const char *what);
#define SHORT(call) OUGHT(call, 0u)
extern struct scene scene_now;

struct item {
    uint32_t index;
    uint32_t code; /* what the task returns */
};
struct item item_new(void);
/* Notes that the task of that item was accepted, or not. Returns `error`. */
int item_entrust(struct item item, int error);
int item_task(void *payload, weft_worker *self);
void item_clean(void *payload, size_t size, void *context);
/* A task of `size` bytes. Whether it was accepted. */
bool item_submit(weft_pool *pool, weft_group *group, size_t size, unsigned others);
weft_config scene_config(uint32_t workers);
/* NULL when there is no memory, or no thread. */
weft_pool *scene_pool(const weft_config *config);
void scene_end(weft_pool *pool);

void scene_groups(weft_pool *pool);
void scene_loops(weft_pool *pool);
void scene_graphs(weft_pool *pool);
void scene_heap(void);
void scene_observe(weft_pool *pool);
void scene_other_pools(void);

/* For a signal handler: says on standard error what the scene's pools do. */
void scene_dump(void);

#endif
