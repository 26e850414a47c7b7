/* play.h: a program being run: who is where, what was submitted, who knows of it. play.c, play_more.c and play_heap.c make the
 * calls, spec.c judges them. The world (the explorer, or real threads) supplies threads, memory and the clock. */
#ifndef WEFT_VERIFY_PLAY_H
#define WEFT_VERIFY_PLAY_H

#include "program.h"
#if defined(WEFT_EXPLORE)
#include "explore.h"
#endif
#include "weft.h"

#include <stdatomic.h>

enum {
    SLOTS = 16384,
    BATCHES = 4096,
    KNOWN = 256,  /* batches, and calls of weft_graph_cancel, whose order with others is kept */
    NUMBERS = 64, /* groups whose relations are kept */
    UNTRACKED = 255,
    NO_RESULT = 1 << 20,
    SERIALS = 16384, /* groups of which an account is kept */
    ANONYMOUS = 8,   /* batches at once whose payload has no room for a number */
    OWN_BATCHES = 16
};

/* What has happened before: batches by their number. */
typedef struct mask {
    uint64_t word[KNOWN / 64];
} mask;
typedef struct shared_mask {
    _Atomic uint64_t word[KNOWN / 64];
} shared_mask;

/* A weft_group, from its making until its memory goes. */
struct group {
    weft_group *memory; /* NULL: the pool's own */
    uint32_t flags;
    uint32_t serial; /* no other group ever has it */
    uint8_t number;  /* or UNTRACKED */
    bool is_shared;  /* more than one may use it at once */
    bool is_pools;
    _Atomic uint32_t failures; /* bit n: a task returned n */
    _Atomic uint32_t cancels, deadlines, others;
    /* what the frame that opened it knows, while others is 0 */
    bool is_open, is_cancelled, must_be_late, is_unsure, has_tasks;
    bool is_awaited, has_changed; /* by a task, since the last wait; it was used after that */
    _Atomic uint32_t ends_told;   /* since the last wait: tasks told that their wait ends it */
    _Atomic int32_t told;         /* what the last of these was told */
    uint32_t first_await;         /* is_awaited: the first batch that may await it since */
    uint32_t batch_count;
    uint16_t batch[OWN_BATCHES];
    struct group *next; /* of play.abandoned */
};

enum slot_state { SLOT_FREE, SLOT_GIVEN, SLOT_BEGUN, SLOT_ENDED, SLOT_FAILED, SLOT_CLEANED, SLOT_REFUSED };

/* A task. */
struct slot {
    _Atomic uint8_t state;  /* enum slot_state */
    _Atomic uint8_t moved;  /* an object's payload was made so often */
    _Atomic uint8_t told;   /* the result that it awaits, so often */
    _Atomic int32_t result; /* that, where another wait has ended the group; NO_RESULT: not told, or this wait has */
    uint16_t batch;
    uint16_t index; /* in the batch */
    uint32_t size;
    uint32_t written;     /* plain: by the task, or by clean */
    unsigned char *block; /* plain: by who submits it; the task frees it */
};

/* The tasks of one call of an operation. */
struct batch {
    const struct op *op;
    struct group *group;           /* there as long as a task of it has not ended */
    uint32_t serial, after_serial; /* of the groups */
    uint8_t number, after_number, anonymous;
    bool is_held;                      /* submitted after another group */
    bool is_joined;                    /* by a frame that is */
    bool was_circle;                   /* before the call, by who submits it; so the next */
    uint32_t waits_ended;              /* play.waits_ended */
    struct group *after;               /* OP_AWAIT: there as long as no wait for it has returned; so the next */
    uint32_t after_flags, ends_before; /* ends of it that had been told, waits for it that had returned, to begin with */
    uint32_t by;                       /* the task of that group that submits it, or SLOTS */
    _Atomic int32_t result;    /* what its tasks must be told, once the wait that ends the group has returned; NO_RESULT */
    _Atomic uint8_t must_drop; /* its own group was cancelled before the other could finish */
    uint16_t levels;
    uint32_t first, given; /* slots */
    _Atomic uint32_t accepted, ended, begun;
    mask known;      /* when they were submitted */
    shared_mask end; /* when they had ended */
};

/* A loop, a forked call or a graph's run: what runs inside belongs to `group`. Also each frame, in what it is a piece of, and on
 * top of another. */
struct region {
    const struct region *above;   /* what it lies in, or NULL */
    const struct region *beneath; /* what its thread has interrupted for it, or NULL */
    struct group *group;          /* NULL: a thread's from outside */
    const struct op *op;
    mask known;
    shared_mask end;
    uint32_t written; /* plain */
    bool is_joined;
};

enum doing { DOES_NOTHING, SUBMITS, RUNS, WAITS, LOOPS, JOINS, CALLS, RUNS_GRAPH, BLOCKS };

/* What a thread is in: its own body, a task, a piece of a loop, a forked call, a node. On the thread's stack. */
struct frame {
    struct frame *beneath;   /* what it has interrupted, waiting */
    const struct body *body; /* or NULL */
    weft_worker *self;       /* NULL: a thread from outside */
    struct group *group;     /* NULL: none */
    struct region *part_of;  /* or NULL */
    struct region own;
    mask known;
    enum doing doing;
    enum weft_help help;     /* WAITS */
    struct group *waits_for; /* WAITS, RUNS_GRAPH */
    struct region *joins;    /* JOINS, LOOPS, CALLS, RUNS_GRAPH */
    uint32_t batch;          /* SUBMITS, RUNS */
    uint32_t task;           /* which; is_task */
    struct group *local[2];
    bool is_task;
    bool is_joined; /* a loop or a join may be waiting for it: see waits_are_bounded */
};

/* A thread's own. */
struct here {
    struct frame *top;
    unsigned char payload[PROGRAM_PAYLOAD + 16] __attribute__((aligned(16)));
};

struct node {
    struct graph *graph;
    uint8_t index;
    _Atomic uint8_t begun, ended, failed;
    shared_mask end;
};
struct graph {
    weft_graph *graph;
    const struct program_graph *drawn;
    _Atomic uint32_t used; /* a thread is about to run it, or runs it */
    struct node node[PROGRAM_NODES];
    struct group group; /* of the run */
    uint32_t *written;  /* plain: by each node, in memory of the run's own */
    struct region region;
    _Atomic uint32_t cancelled_inside;
    shared_mask ends; /* runs that have returned */
    _Atomic uint32_t cancels_begun, cancels_ended;
    shared_mask cancels; /* that have returned */
};

/* Of a group, also when it is gone, and of all the times that it was used. */
struct account {
    _Atomic uint32_t failures, cancels, deadlines; /* as in struct group */
    _Atomic uint32_t ends_begun, ends_over;        /* waits for it, and ends told */
};

struct play {
    const struct program *program;
    const struct program_pool *drawn;
    const struct program_limits *limits;
    weft_pool *pool;
    weft_config config;
    struct group own, shared[PROGRAM_SHARED];
    struct graph graph[PROGRAM_GRAPHS];
    struct slot slot[SLOTS];
    struct batch batch[BATCHES];
    struct account account[SERIALS]; /* by serial; the last: of all further groups, unused */
    _Atomic uint32_t slots, batches, serials;
    _Atomic uint32_t anonymous[ANONYMOUS]; /* batch + 1 */
    _Atomic uint32_t null_cleaned;
    _Atomic uint32_t aborting;
    struct group *_Atomic abandoned;          /* whose last wait was refused: their memory stays until the pool has ended */
    _Atomic uint64_t numbers;                 /* in use */
    _Atomic uint32_t has_untracked;           /* there were more groups at once: relations are not known */
    _Atomic uint32_t ends_begun, ends_done;   /* of groups, which change `below` */
    _Atomic uint64_t below[NUMBERS];          /* by group: those of which a task of it has made use */
    _Atomic uint32_t waits[NUMBERS][NUMBERS]; /* by group: those that it waits for now, and how often */
    _Atomic uint32_t waits_ended;             /* how often such a wait ended */
    uint64_t tasks;                           /* of all programs so far */
};

extern struct play play;

/* ---- the world ---------------------------------------------------------------------------------------------------- */

void *world_alloc(size_t bytes);
void world_free(void *memory);
/* The last wait for the group has returned: nobody of weft may touch it any more. */
void world_group_end(weft_group *group);
void world_reads(const void *memory, size_t bytes);
void world_writes(const void *memory, size_t bytes);
/* Lets others run. */
void world_step(void);
uint64_t world_now_ns(void);
struct here *world_here(void);
void world_fail(const char *text) __attribute__((noreturn));

/* ---- play.c ------------------------------------------------------------------------------------------------------- */

/* The program's pools, one after another, are begun and ended by one thread: for each, play_begin, then a thread for each of
 * drawn->threads, which calls play_thread and gets its knowledge back, and when these have ended play_end. */
void play_reset(const struct program *program, const struct program_limits *limits);
void play_begin(uint32_t pool);
void play_thread(uint32_t thread, mask *known);
void play_end(const mask *known);
void play_finish(void); /* after the last pool */

void play_body(struct frame *frame);
void frame_enter(struct frame *frame);
void frame_leave(const struct frame *frame);
struct group *group_named(struct frame *frame, uint8_t name);
uint64_t moment_ns(uint8_t when);
/* The number of something that others may know of; KNOWN: there are no more. */
uint32_t event_new(void);
struct batch *batch_new(struct frame *frame, const struct op *op, struct group *group);
void batch_submit(struct frame *frame, struct batch *batch, uint32_t count);
void group_new(struct group *group, weft_group *memory, uint32_t flags);
void group_end(const struct group *group); /* no task of it is left */
int group_wait(struct frame *frame, struct group *group, enum weft_help help, uint64_t until_ns);

/* play_more.c, play_heap.c */
void play_op_more(struct frame *frame, const struct op *op);
void play_graphs_make(void);
void play_graphs_end(void);
void play_heap(struct frame *frame, const struct op *op);
void play_private(struct frame *frame, const struct op *op);
void fill(unsigned char *memory, size_t bytes, uint32_t number);
bool is_filled(const unsigned char *memory, size_t bytes, uint32_t number);

__attribute__((noreturn, format(printf, 1, 2))) void play_fail(const char *format, ...);

#endif
