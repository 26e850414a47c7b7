/* weft/pattern.h: loops, graphs, fork and join. Part of weft.h, which is what to include.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_PATTERN_H
#define WEFT_API_PATTERN_H

#include <weft/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- loops -------------------------------------------------------------------------------------------------------- */

/* The indices from `begin` to before `end`: {0, n, 0}, in C also {.end = n}. Of {0, n} compilers warn with -Wextra. */
typedef struct weft_range {
    size_t begin, end;
    size_t grain; /* indices at least in one call of the body (its last call may have fewer); 0: weft chooses */
} weft_range;

/* Runs the indices from `begin` to before `end` in rising order. Returns 0, or an error: then it has stopped at the first
 * index that failed, and no call for higher indices begins any more. `self` is the worker that runs it. */
typedef int (*weft_range_fn)(size_t begin, size_t end, void *context, weft_worker *self);

/* Calls `body` for pieces of the range that cover it exactly, on the calling thread and on workers with nothing else to do,
 * and returns when all calls have returned; what they wrote is then visible. May be called inside tasks and bodies. The body
 * may submit, wait and loop itself; it belongs to the group of the task that called weft_for. Which calls run side by side
 * is weft's choice: none may wait for another's doing.
 * Returns WEFT_OK, also for an empty range; the error of the lowest index that failed: every index below has run, some above
 * may have; WEFT_ECANCELED when the calling task's group was cancelled before every index had begun: those that had have
 * run; WEFT_EINVAL (NULL pool or body, begin > end), WEFT_ESHUTDOWN (from outside, destroy has begun), WEFT_EFORK,
 * WEFT_ENOMEM, WEFT_EAGAIN (as weft_submit): no call was made. In a WEFT_POOL_ORDERED pool the loop starts at
 * once, before queued tasks. In a WEFT_POOL_NO_HELP pool a worker runs the part of a caller from outside, whatever
 * queue_max. */
WEFT_API int weft_for(weft_pool *pool, weft_range range, weft_range_fn body, void *context);

/* As weft_for. What loops cost is learnt, to run short ones on the caller's thread alone, by body, context and size. For a
 * body that runs others' functors `site`, any address, tells better: of the functor's code or type, or of the call. */
WEFT_API int weft_for_site(weft_pool *pool, weft_range range, weft_range_fn body, void *context, const void *site);

/* A range of two dimensions, cut to tiles; those at its far edges may be smaller. */
typedef struct weft_tiles {
    weft_range rows, columns; /* their grains are a tile's height and width; 0: weft chooses, by the range alone */
} weft_tiles;
typedef struct weft_tile {
    size_t row_begin, row_end, column_begin, column_end; /* ends are the first ones not in it */
} weft_tile;

/* Handles one tile, or several side by side as one. Else as a weft_range_fn: tiles count row by row, from the first. */
typedef int (*weft_tile_fn)(const weft_tile *tile, void *context, weft_worker *self);

/* weft_for over the tiles, in that order. WEFT_EINVAL also for more tiles than a size_t can count. */
WEFT_API int weft_for_tiles(weft_pool *pool, weft_tiles tiles, weft_tile_fn body, void *context);

/* A reduction: values of `size` bytes, aligned to 16 wherever weft keeps them. */
typedef struct weft_reduction {
    size_t size;
    /* Writes the value of the indices from `begin` to before `end`, at least one. Returns what a weft_range_fn does. */
    int (*leaf)(size_t begin, size_t end, void *value, void *context, weft_worker *self);
    /* left = left combined with right, whose indices follow left's. */
    void (*combine)(void *left, const void *right, void *context);
    const void *identity; /* the value of an empty range; NULL: zero bytes */
    void *context;        /* passed to both */
} weft_reduction;

/* Reduces the range to one value. The leaves are ranges of range.grain indices (0: as many as make 256 leaves at most), the
 * last may have fewer; they are combined in pairs, pairs of pairs, and so on, in order. So which operands are combined
 * depends on the range alone: the result has the same bits for any number of workers, with floating point, too.
 * Returns as weft_for, *result written with WEFT_OK alone; WEFT_EINVAL also for NULL how, leaf, combine or result, or a size
 * that is 0 or over WEFT_PAYLOAD_MAX; WEFT_ENOMEM: it may allocate when size is over 16. */
WEFT_API int weft_reduce(weft_pool *pool, weft_range range, const weft_reduction *how, void *result);

/* An order of items of `size` bytes: compare is negative, 0 or positive as qsort's. */
typedef struct weft_order {
    size_t size;
    int (*compare)(const void *left, const void *right, void *context);
    void *context;
} weft_order;

/* Sorts `count` items, those that compare equal in the order in which they were. Compares at most count * log2(count) times
 * and a little; the result is the same for any number of workers. `compare` is called on the calling thread and on workers,
 * several at once, perhaps with copies of the items, and not after the return. An order that contradicts itself leaves items
 * twice or not at all, but nothing else is touched.
 * Returns WEFT_OK; WEFT_EINVAL (NULL pool, order or compare, size 0, NULL items with a count, more than memory can hold).
 * The items are as before after WEFT_ENOMEM (it allocates count * size bytes and a little if over 2048) or another error of
 * weft_for; in some order after WEFT_ECANCELED (the calling task's group was cancelled meanwhile) or WEFT_ESHUTDOWN. */
WEFT_API int weft_sort(weft_pool *pool, void *items, size_t count, const weft_order *order);

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

/* Functions with an order between them. Built once, run many times; a run allocates nothing once the pool is warm.
 *
 *     weft_graph *graph;
 *     weft_node decode, left, right;
 *     weft_graph_create(&graph);
 *     weft_graph_add(graph, &decode, decode_fn, frame);  ... left, right ...
 *     weft_graph_edge(graph, decode, left);
 *     weft_graph_edge(graph, decode, right);
 *     weft_graph_build(graph, NULL);
 *     for each frame: weft_graph_run(pool, graph);
 *
 * One thread at a time may change a graph, nobody while it runs (WEFT_EBUSY, nothing changed). It belongs to no pool. */
typedef struct weft_graph weft_graph; /* opaque */
typedef uint64_t weft_node;           /* a node of one graph; 0 is none */

/* An empty graph, which the caller ends with weft_graph_destroy. WEFT_OK; WEFT_EINVAL; WEFT_ENOMEM, *graph NULL. */
WEFT_API int weft_graph_create(weft_graph **graph);

/* Frees the graph and sets *graph NULL. WEFT_EINVAL for NULL or an already NULL *graph; WEFT_EBUSY. */
WEFT_API int weft_graph_destroy(weft_graph **graph);

/* Adds a node, which calls fn with `context` as its payload: the pointer itself, nothing is copied. Nodes have the order of
 * their adding. `node` may be NULL. WEFT_OK; WEFT_EINVAL (NULL graph or fn); WEFT_ENOMEM (or too many nodes); WEFT_EBUSY. */
WEFT_API int weft_graph_add(weft_graph *graph, weft_node *node, weft_fn fn, void *context);

/* `after` starts when `before` has returned, and sees what it wrote. The same edge again changes nothing. WEFT_OK;
 * WEFT_EINVAL (NULL graph, a node that is not this graph's); WEFT_ECYCLE (the same node twice); WEFT_ENOMEM; WEFT_EBUSY. */
WEFT_API int weft_graph_edge(weft_graph *graph, weft_node before, weft_node after);

/* Makes the graph ready to run; needed again after a node or an edge was added. WEFT_OK; WEFT_ECYCLE: nodes wait for one
 * another in a circle, of which *on_cycle (may be NULL) is the first by the nodes' order; WEFT_EINVAL; WEFT_ENOMEM;
 * WEFT_EBUSY. The graph is not ready after an error, but can be added to and built again. */
WEFT_API int weft_graph_build(weft_graph *graph, weft_node *on_cycle);

/* Runs every node once, each after those before it, and returns when all have returned. The waiting thread helps as in
 * weft_group_wait; a task or a node may run another graph. When a node fails (returns another number than 0) the nodes after
 * it, directly or not, do not run; all others do. What a node submits to its own group is waited for by the run, not by the
 * nodes after. Returns WEFT_OK; of the codes of the nodes that failed that of the first by their order; WEFT_ECANCELED when
 * cancelled or the pool is aborted, and no node failed; WEFT_EINVAL (NULL, or not built); WEFT_EBUSY when this graph is
 * running, also in one of its own nodes; and, with nothing run, the errors of weft_submit. */
WEFT_API int weft_graph_run(weft_pool *pool, weft_graph *graph);

/* Nodes that have not started in the run that goes on in `pool` will not run; those running finish, and see
 * weft_worker_cancelled. Without a run nothing happens. From any thread, the graph's nodes included. WEFT_OK; WEFT_EINVAL;
 * WEFT_EFORK. */
WEFT_API int weft_graph_cancel(weft_pool *pool, weft_graph *graph);

/* ---- fork and join ------------------------------------------------------------------------------------------------ */

/* A forked call is one that another thread may run; joining it gives its result. Where nobody is idle, a fork costs a few
 * plain stores and the join calls the function directly: no atomic read-modify-write, no fence, no allocation.
 *
 *     static int fib(weft_fork_slot *here, int n);
 *     WEFT_FORK(fib, int, int)
 *
 *     static int fib(weft_fork_slot *here, int n) {
 *         if (n < 2) return n;
 *         int less = n - 1;
 *         weft_fork_slot *deeper = fib_fork(here, &less);
 *         int other = fib(deeper, n - 2);
 *         return fib_join(here, &less) + other;
 *     }
 *
 *     weft_fork_slot *here;
 *     if (weft_enter(pool, &here) != WEFT_OK) ...
 *     int result = fib(here, 38);
 *     weft_leave(here);
 *
 * A slot is where one fork can be noted. A fork uses up its slot and returns the next, which whatever is called before the
 * join gets as its own `here`; the join is given the slot and the argument that the fork was given. Each fork is joined
 * once, by the thread and in the function that made it, the last one first. Any number may be open at once: without memory
 * for more, joins run further forks by themselves. Forked functions may do all that tasks may, wait and block too. A join
 * whose call another thread has taken runs calls and loops below that one meanwhile (never anything else), then sleeps.
 * In code compiled with WEFT_CHECKED a fork at a slot in use, a join without a fork and one out of order end the
 * process. */

#define WEFT_FORK_BYTES 48u /* of an argument, and of a result; larger ones go by pointer */

typedef struct weft_fork_slot weft_fork_slot;
typedef void (*weft_fork_fn)(weft_fork_slot *here, void *payload); /* the payload holds the argument, then the result */

/* Enters fork-join: *here is the calling thread's first slot, for the calls of this thread until weft_leave. Also inside
 * tasks, bodies of loops and forked functions, there without need: these have a slot already. WEFT_OK; WEFT_EINVAL for
 * NULL, or code compiled for another layout of slots; WEFT_ENOMEM, WEFT_EAGAIN, WEFT_ESHUTDOWN, WEFT_EFORK as weft_submit:
 * *here is NULL. Every WEFT_OK needs a weft_leave: destroy waits for it, and a thread that ends before ends the process. */
static inline int weft_enter(weft_pool *pool, weft_fork_slot **here);

/* Ends what weft_enter began; all forks are joined. On the same thread, the last entered first. NULL: nothing. */
WEFT_API void weft_leave(weft_fork_slot *here);

WEFT_API weft_worker *weft_fork_worker(weft_fork_slot *here); /* the calling thread as a worker, as tasks get it */

/* After a declaration of `result_type name(weft_fork_slot *here, argument_type argument)`, defines the two functions
 *     weft_fork_slot *name_fork(weft_fork_slot *here, argument_type const *argument);  the argument is copied, and kept for the join
 *     result_type name_join(weft_fork_slot *here, argument_type const *argument);  the same pointer, unchanged
 * A structure of more than 16 bytes had better go by pointer, as to any function: passed by value, each call copies it. */
#define WEFT_FORK(name, result_type, argument_type)                                                                         \
    WEFT_FORK_CHECK(result_type)                                                                                            \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, payload);                                                                  \
        result_type result = name(here, argument);                                                                          \
        __builtin_memcpy(payload, &result, sizeof result);                                                                  \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline __attribute__((always_inline, unused))                                                                    \
    result_type name##_join(weft_fork_slot *here, argument_type const *given) {                                             \
        if (__builtin_expect(name##_taken(here, given), 0)) {                                                               \
            result_type result;                                                                                             \
            __builtin_memcpy(&result, here->payload, sizeof result);                                                        \
            return result;                                                                                                  \
        }                                                                                                                   \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, here->payload);                                                            \
        return name(here, argument);                                                                                        \
    }

/* The same for a function that returns nothing. */
#define WEFT_FORK_VOID(name, argument_type)                                                                                 \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, payload);                                                                  \
        name(here, argument);                                                                                               \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) void name##_join(weft_fork_slot *here, argument_type const *given) {         \
        if (__builtin_expect(name##_taken(here, given), 0)) return;                                                         \
        argument_type argument;                                                                                             \
        WEFT_FORK_COPY(argument_type, &argument, here->payload);                                                            \
        name(here, argument);                                                                                               \
    }

/* What follows is weft's own. It is compiled into programs, so a change is a new layout: weft_enter_layout refuses unknown
 * ones. What the accesses are for stands in the library's fork.c; its schedule explorer puts its own in their place. */
#define WEFT_FORK_LAYOUT 2u

/* clang can be told that a call leaves its caller's registers alone: functions that fork then save none before they know
 * that they will. gcc saves them beside the call. */
#if defined(__clang__) && defined(__x86_64__)
#define WEFT_FORK_KEEPS __attribute__((preserve_most))
#define WEFT_FORK_SLOW static inline __attribute__((always_inline))
#else
#define WEFT_FORK_KEEPS
#define WEFT_FORK_SLOW static __attribute__((noinline, cold, unused))
#endif
#define WEFT_FORK_WORD(type)                                                                                                \
    struct {                                                                                                                \
        type raw;                                                                                                           \
    }

struct weft_fork_slot {
    WEFT_FORK_WORD(weft_fork_fn) fn; /* NULL: free */
    WEFT_FORK_WORD(uint64_t) state;  /* 0: nobody else knows of it */
    unsigned char payload[WEFT_FORK_BYTES];
} __attribute__((aligned(64)));
struct weft_forker {
    void (*slow)(weft_fork_slot *here) WEFT_FORK_KEEPS; /* what forks at other slots call */
    weft_fork_slot *deeper;                             /* their next slot, then */
};
struct weft_fork_chunk {
    WEFT_FORK_WORD(weft_fork_slot *) limit; /* forks at slots below it need not look further */
    struct weft_forker *forker;             /* the thread's */
};

WEFT_API int weft_enter_layout(weft_pool *pool, weft_fork_slot **here, unsigned layout);
WEFT_API int weft_join_slow(weft_fork_slot *here, const void *argument, size_t size) __attribute__((cold));
WEFT_API void weft_fork_misused(int is_join) __attribute__((cold, noreturn));
static inline int weft_enter(weft_pool *pool, weft_fork_slot **here) {
    return weft_enter_layout(pool, here, WEFT_FORK_LAYOUT);
}

#ifndef WEFT_FORK_CHUNK
#define WEFT_FORK_CHUNK 16384u /* slots stand in chunks aligned to this; the first slot of one is its head */
#define weft_store_rel(tag, a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELEASE)
#define weft_store_rlx(a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELAXED)
#define weft_load_rlx(a) __atomic_load_n(&(a)->raw, __ATOMIC_RELAXED)
#define weft_fence_light(tag) __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* Structures are copied as what they are: the compiler writes their members one by one into the payload. Through memory, a
 * processor would wait until each has arrived there: it cannot forward several small stores to one large load. */
#if defined(__cplusplus)
#define WEFT_CAST(type, value) reinterpret_cast<type>(value)
#define WEFT_NULL nullptr
#define WEFT_FORK_CHECK(type) static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");
#define WEFT_FORK_COPY(type, to, from) __builtin_memcpy(to, from, sizeof(type))
#else
#define WEFT_CAST(type, value) ((type)(value))
#define WEFT_NULL NULL
#define WEFT_FORK_CHECK(type)                                                                                               \
    __extension__ _Static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");
#define WEFT_FORK_COPY(type, to, from)                                                                                      \
    do {                                                                                                                    \
        typedef type weft_copied __attribute__((aligned(16))); /* that much the payload has */                              \
        if (sizeof(type) <= 8)                                                                                              \
            __builtin_memcpy(to, from, sizeof(type));                                                                       \
        else                                                                                                                \
            *(weft_copied *)(void *)(to) = *(weft_copied const *)(const void *)(from);                                      \
    } while (0)
#endif

static inline __attribute__((always_inline)) struct weft_fork_chunk *weft_fork_slot_chunk(weft_fork_slot *here) {
    return WEFT_CAST(struct weft_fork_chunk *, WEFT_CAST(uintptr_t, here) / WEFT_FORK_CHUNK * WEFT_FORK_CHUNK);
}
WEFT_FORK_SLOW weft_fork_slot *weft_place_ask(weft_fork_slot *here) {
    struct weft_forker *forker = weft_fork_slot_chunk(here)->forker;
    forker->slow(here);
    return forker->deeper;
}

#if defined(WEFT_CHECKED) && !defined(WEFT_EXPLORE) /* the last slot of a chunk may have refused its fork */
#define WEFT_FORK_EXPECT(is_join, x) ((x) ? (void)0 : weft_fork_misused(is_join))
#define WEFT_FORK_IS_LAST(here) (WEFT_CAST(uintptr_t, (here) + 1) % WEFT_FORK_CHUNK == 0)
#else
#define WEFT_FORK_EXPECT(is_join, x) ((void)0)
#endif

/* The payload has been written. Returns the next slot. */
static inline __attribute__((always_inline)) weft_fork_slot *weft_fork_slot_push(weft_fork_slot *here, weft_fork_fn fn) {
    WEFT_FORK_EXPECT(0, weft_load_rlx(&here->fn) == WEFT_NULL);
    weft_store_rel(J44, &here->fn, fn);
    weft_fence_light(J43);
    if (__builtin_expect(here < weft_load_rlx(&weft_fork_slot_chunk(here)->limit), 1)) return here + 1;
    return weft_place_ask(here);
}

/* 0: the caller runs the call itself, its argument is in the payload. Else it asks weft_join_slow, whose 1 says that it has
 * been run, and the result is in the payload. */
static inline __attribute__((always_inline)) int weft_fork_slot_pop(weft_fork_slot *here) {
    WEFT_FORK_EXPECT(1, WEFT_FORK_IS_LAST(here) || (weft_load_rlx(&here->fn) && !weft_load_rlx(&here[1].fn)));
    weft_store_rlx(&here->fn, WEFT_NULL);
    weft_fence_light(J8);
    return __builtin_expect(weft_load_rlx(&here->state) != 0, 0) ? 1 : 0;
}

#define WEFT_FORK_PUSH(name, argument_type)                                                                                 \
    WEFT_FORK_CHECK(argument_type)                                                                                          \
    static inline __attribute__((always_inline, unused))                                                                    \
    weft_fork_slot *name##_fork(weft_fork_slot *here, argument_type const *argument) {                                      \
        WEFT_FORK_COPY(argument_type, here->payload, argument);                                                             \
        return weft_fork_slot_push(here, name##_forked);                                                                    \
    }                                                                                                                       \
    /* What weft_join_slow is shown must lie in memory all the time: of a structure it gets a copy made late. */            \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) int name##_taken(weft_fork_slot *here, argument_type const *given) {         \
        if (!weft_fork_slot_pop(here)) return 0;                                                                            \
        argument_type copy;                                                                                                 \
        WEFT_FORK_COPY(argument_type, &copy, given);                                                                        \
        return weft_join_slow(here, sizeof copy > 8 ? &copy : given, sizeof copy);                                          \
    }

#ifdef __cplusplus
}
#endif
#endif
