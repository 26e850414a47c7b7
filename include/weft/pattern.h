/**
 * @file weft/pattern.h
 * Loops, graphs, fork and join. Part of weft.h; include that one.
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

/** The indices from `begin` up to, but not including, `end`: {0, n, 0}; in C also {.end = n}. With -Wextra,
 * compilers warn about {0, n}. */
typedef struct weft_range {
    size_t begin; /**< the first index */
    size_t end;   /**< the first index beyond */
    size_t grain; /**< least number of indices in one call of the body (the last call may have fewer); 0: weft chooses */
} weft_range;

/**
 * Runs the indices from begin up to, but not including, end, in ascending order.
 * @param begin the first index
 * @param end the first index beyond
 * @param context the loop's
 * @param self the worker that runs it
 * @return 0, or an error: then the call must have stopped at the first index that failed, and no call for higher
 *     indices begins any more
 */
typedef int (*weft_range_fn)(size_t begin, size_t end, void *context, weft_worker *self);

/**
 * Calls the body for pieces of the range that cover it exactly, on the calling thread and on idle workers. Returns
 * when all calls have returned; what they wrote is then visible. The body may submit, wait and loop itself; it belongs
 * to the group of the task that called weft_for. weft decides which calls run at the same time, so no call may wait
 * for another. In a pool with WEFT_POOL_ORDERED the loop starts at once, before queued tasks. In a pool with
 * WEFT_POOL_NO_HELP, if an outside thread calls weft_for, a worker runs that thread's part, regardless of queue_max;
 * if the pool is also ordered, it does so after the tasks that the thread has queued before. Between weft_fork_enter
 * and weft_fork_leave, in a task that weft_run calls, and in a task of another pool while no thread of this one is
 * left (weft_group_wait_until), the outside thread runs its part itself. If there is no memory for the loop, one call
 * of the body gets the whole range.
 * @param pool the pool
 * @param range the indices
 * @param body what handles them
 * @param context passed to the body
 * @return the error of the lowest index that failed (every index below has run, some above may have), or one of these
 * @retval WEFT_OK every index has run; also for an empty range
 * @retval WEFT_ECANCELED the calling task's group was cancelled before every index had begun; those that had begun have
 *     run
 * @retval WEFT_EINVAL pool or body is NULL, or begin is over end; no call was made, as with the codes below
 * @retval WEFT_ESHUTDOWN destroy has begun, and the caller is outside of the pool
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory, in a thread that has not used the pool before, or to have a worker run the caller's part
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread, also inside tasks and bodies.
 */
WEFT_API int weft_for(weft_pool *pool, weft_range range, weft_range_fn body, void *context);

/**
 * Loops as weft_for does. weft learns how long loops take, by body, context and size, and runs short ones on the calling
 * thread alone. If one body runs many different functors, `site` distinguishes them.
 * @param pool as in weft_for
 * @param range as in weft_for
 * @param body as in weft_for
 * @param context as in weft_for
 * @param site any address, for example that of the functor's code or of the call; weft does not read from it
 * @return as weft_for
 * @threads Any thread, also inside tasks and bodies.
 */
WEFT_API int weft_for_site(weft_pool *pool, weft_range range, weft_range_fn body, void *context, const void *site);

/** A range of two dimensions, cut into tiles; those at its far edges may be smaller. */
typedef struct weft_tiles {
    weft_range rows;    /**< the grain is a tile's height; 0: weft chooses it from the ranges alone */
    weft_range columns; /**< the grain is a tile's width; 0: weft chooses it from the ranges alone */
} weft_tiles;

/** One tile, or several side by side. */
typedef struct weft_tile {
    size_t row_begin;    /**< the first row */
    size_t row_end;      /**< the first row beyond */
    size_t column_begin; /**< the first column */
    size_t column_end;   /**< the first column beyond */
} weft_tile;

/**
 * Handles one tile, or several side by side as one. Otherwise like a weft_range_fn, with tiles in place of indices,
 * numbered row by row.
 * @param tile the rows and columns
 * @param context the loop's
 * @param self the worker that runs it
 * @return as a weft_range_fn
 */
typedef int (*weft_tile_fn)(const weft_tile *tile, void *context, weft_worker *self);

/**
 * Loops over tiles, row by row, as weft_for does over indices.
 * @param pool as in weft_for
 * @param tiles rows and columns
 * @param body what handles a tile
 * @param context passed to the body
 * @return as weft_for, with tiles in place of indices
 * @retval WEFT_EINVAL as in weft_for, or a size_t cannot hold the number of tiles
 * @threads Any thread, also inside tasks and bodies.
 */
WEFT_API int weft_for_tiles(weft_pool *pool, weft_tiles tiles, weft_tile_fn body, void *context);

/** A reduction. Its values are `size` bytes, aligned to 16 wherever weft keeps them. */
typedef struct weft_reduction {
    size_t size; /**< bytes of a value */
    /** Writes the value of the indices from `begin` up to, but not including, `end`; there is at least one. Returns what a
     * weft_range_fn returns. */
    int (*leaf)(size_t begin, size_t end, void *value, void *context, weft_worker *self);
    /** left = left combined with right; right's indices follow left's. */
    void (*combine)(void *left, const void *right, void *context);
    const void *identity; /**< the value of an empty range; NULL: zero bytes */
    void *context;        /**< passed to both */
} weft_reduction;

/**
 * Reduces the range to one value. The range is cut into leaves of range.grain indices; the last leaf may have fewer. The
 * leaves' values are combined in pairs, then pairs of pairs, and so on, in order. So the range and `size` alone determine
 * which operands are combined: the result has the same bits for any number of workers, also in floating point. May
 * allocate if size is over 16.
 *
 * If the grain is 0, there are at most 256 leaves; if values are larger than 4096 bytes, as many as fit in 1 MiB, but at
 * least 16. From 32 indices on, a leaf has more than one index, up to 4. Give a grain of 1 if single indices take long.
 * @param pool as in weft_for
 * @param range the indices
 * @param how the reduction
 * @param result `size` bytes, written only if WEFT_OK is returned
 * @return as weft_for
 * @retval WEFT_EINVAL as in weft_for; how, leaf, combine or result is NULL; or size is 0 or over WEFT_PAYLOAD_MAX
 * @retval WEFT_ENOMEM no memory for values
 * @threads Any thread, also inside tasks and bodies.
 */
WEFT_API int weft_reduce(weft_pool *pool, weft_range range, const weft_reduction *how, void *result);
/** @cond */
/* The grain that weft chooses for a reduction of `count` indices to a value of `size` bytes. */
static inline size_t weft_reduce_grain(size_t count, size_t size) {
    size_t most = 1048576; /* bytes of all leaves: see weft_reduce */
    most /= size;
    most = most > 256 ? 256 : most < 16 ? 16 : most;
    size_t least = count / 16; /* indices */
    least = least > 4 ? 4 : least < 1 ? 1 : least;
    size_t grain = count / most + (count % most != 0);
    return grain > least ? grain : least;
}
/** @endcond */

/** An order of items of `size` bytes. */
typedef struct weft_order {
    size_t size; /**< bytes of an item */
    /** Returns a negative number, 0 or a positive number, as qsort's function does. */
    int (*compare)(const void *left, const void *right, void *context);
    void *context; /**< passed to compare */
} weft_order;

/**
 * Sorts items; those that compare equal keep their order. Makes at most little more than count * log2(count)
 * comparisons. The result is the same for any number of workers. `compare` is called on the calling thread and on
 * workers, several at once, possibly with copies of the items, and never after the return. If the order contradicts
 * itself, items may be duplicated or lost, but no other memory is touched. Allocates a little more than count * size
 * bytes if that is over 2048; for items of more than 384 bytes, at most 17 bytes for each, and one item.
 * @param pool as in weft_for
 * @param items an array of `count` items; may be NULL if count is 0
 * @param count how many
 * @param order how they compare
 * @retval WEFT_OK sorted
 * @retval WEFT_EINVAL pool, order or compare is NULL, size is 0, items is NULL and count is not 0, or the items exceed the
 *     address space; the items are as before
 * @retval WEFT_ENOMEM no memory; the items are as before, as after weft_for's other errors, except these two:
 * @retval WEFT_ECANCELED the calling task's group was cancelled meanwhile; the items are in some order
 * @retval WEFT_ESHUTDOWN destroy has begun, and the caller is outside of the pool; the items are in some order
 * @threads Any thread, also inside tasks and bodies.
 */
WEFT_API int weft_sort(weft_pool *pool, void *items, size_t count, const weft_order *order);

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

/**
 * A set of functions with an order between them. It is built once and run many times; a run allocates nothing once the
 * pool is warm. Opaque.
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
 * One thread at a time may change a graph. While the graph runs, or another thread changes it, changes fail with WEFT_EBUSY,
 * and so do runs during a change. A graph belongs to no pool.
 */
typedef struct weft_graph weft_graph;
typedef uint64_t weft_node; /**< a node of one graph; 0: no node */

/**
 * Makes an empty graph.
 * @param graph set to the graph, which the caller frees with weft_graph_destroy; set to NULL if there is no memory
 * @retval WEFT_OK created
 * @retval WEFT_EINVAL graph is NULL
 * @retval WEFT_ENOMEM no memory
 * @threads Any thread.
 */
WEFT_API int weft_graph_create(weft_graph **graph);

/**
 * Frees a graph.
 * @param graph set to NULL
 * @retval WEFT_OK freed
 * @retval WEFT_EINVAL graph or *graph is NULL
 * @retval WEFT_EBUSY the graph runs, or another thread changes it; nothing happened
 * @threads One thread at a time for each graph.
 */
WEFT_API int weft_graph_destroy(weft_graph **graph);

/**
 * Adds a node. Nodes are ordered by when they were added.
 * @param graph the graph
 * @param node set to the node; may be NULL
 * @param fn the function that the node calls
 * @param context its payload: the pointer itself, nothing is copied
 * @retval WEFT_OK added
 * @retval WEFT_EINVAL graph or fn is NULL
 * @retval WEFT_ENOMEM no memory, or too many nodes
 * @retval WEFT_EBUSY the graph runs, or another thread changes it
 * @threads One thread at a time for each graph.
 */
WEFT_API int weft_graph_add(weft_graph *graph, weft_node *node, weft_fn fn, void *context);

/**
 * Adds an edge: `after` starts when `before` has returned, and sees what it wrote. An edge that is added again counts once.
 * @param graph the graph
 * @param before a node of it
 * @param after another node of it
 * @retval WEFT_OK added
 * @retval WEFT_EINVAL graph is NULL, or a node is not this graph's
 * @retval WEFT_ECYCLE both are the same node
 * @retval WEFT_ENOMEM no memory
 * @retval WEFT_EBUSY the graph runs, or another thread changes it
 * @threads One thread at a time for each graph.
 */
WEFT_API int weft_graph_edge(weft_graph *graph, weft_node before, weft_node after);

/**
 * Makes the graph ready to run. Must be called again after nodes or edges were added. After an error the graph is not
 * ready; it can be changed and built again.
 * @param graph the graph
 * @param on_cycle on WEFT_ECYCLE, set to the node of a cycle that was added first; may be NULL
 * @retval WEFT_OK ready
 * @retval WEFT_ECYCLE edges form a cycle
 * @retval WEFT_EINVAL graph is NULL
 * @retval WEFT_ENOMEM no memory
 * @retval WEFT_EBUSY the graph runs, or another thread changes it
 * @threads One thread at a time for each graph.
 */
WEFT_API int weft_graph_build(weft_graph *graph, weft_node *on_cycle);

/**
 * Runs every node once, each after its predecessors, and returns when all have returned. The waiting thread helps as in
 * weft_group_wait. A task or a node may run another graph. If a node fails (returns anything but 0), its direct and
 * indirect successors do not run; all other nodes do. The run waits for tasks that a node submits to its own group; the
 * node's successors do not. An error of such a task is not the run's.
 * @param pool the pool
 * @param graph the graph, built
 * @return the code of the first node, in the order of adding, that failed, or one of these
 * @retval WEFT_OK every node has run
 * @retval WEFT_ECANCELED no node failed, but the run was cancelled or the pool aborted
 * @retval WEFT_EINVAL pool or graph is NULL, or the graph is not built; nothing has run, as with the codes below
 * @retval WEFT_EBUSY this graph already runs, perhaps because one of its own nodes made this call, or is being changed
 * @retval WEFT_ESHUTDOWN as in weft_submit, as are WEFT_EFORK, WEFT_ENOMEM, WEFT_EAGAIN and WEFT_EDEADLK
 * @threads Any thread, also in tasks and in nodes of other graphs.
 */
WEFT_API int weft_graph_run(weft_pool *pool, weft_graph *graph);

/**
 * Cancels the graph's run in that pool: nodes that have not started never will; running ones finish and can ask
 * weft_worker_cancelled. If the graph does not run there, nothing happens.
 * @param pool the pool
 * @param graph the graph
 * @retval WEFT_OK cancelled, or there was no run
 * @retval WEFT_EINVAL pool or graph is NULL
 * @retval WEFT_EFORK the pool is the parent process's
 * @threads Any thread, also in the graph's nodes.
 */
WEFT_API int weft_graph_cancel(weft_pool *pool, weft_graph *graph);

/* ---- fork and join ------------------------------------------------------------------------------------------------ */

/**
 * The memory of one forked call. Opaque.
 *
 * A forked call is one that another thread may run; joining it returns its result. If no thread is idle, a fork costs a
 * few plain stores and the join calls the function directly: no atomic read-modify-write, no fence, no allocation.
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
 *     if (weft_fork_enter(pool, &here) != WEFT_OK) ...
 *     int result = fib(here, 38);
 *     weft_fork_leave(here);
 *
 * A fork uses up its slot and returns the next one. Pass that one as `here` to every function that you call before the
 * join. Pass the slot and the argument of the fork to the join. Each fork is joined once, by the thread and in the
 * function that made it, the last one first. Any number may be open at once: if there is no memory for more, joins run
 * further calls themselves. Forked functions may do all that tasks may, including waiting and blocking. If another thread
 * has taken the call, its join runs calls and loops below that call, never anything else, and then sleeps. In code
 * compiled with WEFT_CHECKED, a fork at a slot in use, a join without a fork and a join out of order end the process.
 */
typedef struct weft_fork_slot weft_fork_slot;

#define WEFT_FORK_BYTES 48u /**< most bytes of an argument, and of a result; pass larger ones by pointer */

/**
 * The type of the function that WEFT_FORK generates.
 * @param here its slot
 * @param payload holds the argument, then the result
 */
typedef void (*weft_fork_fn)(weft_fork_slot *here, void *payload);

/**
 * Enters fork-join. This is also possible inside tasks, bodies of loops and forked functions, though the latter already
 * have a slot. Each call that returned WEFT_OK needs a weft_fork_leave: destroy waits for it, and a thread that ends
 * before it ends the process.
 * @param pool the pool
 * @param here set to the calling thread's first slot, for the calls of this thread until weft_fork_leave; NULL on error
 * @retval WEFT_OK entered
 * @retval WEFT_EINVAL pool or here is NULL, or the code was compiled for another layout of slots
 * @retval WEFT_ESHUTDOWN destroy has begun, and the caller is outside of the pool
 * @retval WEFT_EFORK the pool is the parent process's
 * @retval WEFT_ENOMEM no memory
 * @retval WEFT_EAGAIN WEFT_THREADS_MAX threads use the pool
 * @threads Any thread.
 */
static inline int weft_fork_enter(weft_pool *pool, weft_fork_slot **here);

/**
 * Ends what weft_fork_enter began. All forks must be joined, and the last entered is left first.
 * @param here the slot from weft_fork_enter; NULL: nothing happens
 * @threads The thread that entered.
 */
WEFT_API void weft_fork_leave(weft_fork_slot *here);

/**
 * Returns the calling thread as a worker, as tasks get it.
 * @param here a slot of the calling thread
 * @return the worker; NULL for NULL
 * @threads The thread that the slot belongs to.
 */
WEFT_API weft_worker *weft_fork_worker(weft_fork_slot *here);

/**
 * Defines, after a declaration of `result_type name(weft_fork_slot *here, argument_type argument)`, the two functions
 *
 *     weft_fork_slot *name_fork(weft_fork_slot *here, argument_type const *argument);  the argument is copied; keep it for the join
 *     result_type name_join(weft_fork_slot *here, argument_type const *argument);  the same pointer, unchanged
 *
 * Pass structures of more than 16 bytes by pointer, as to any function: passed by value, each call copies them. In C++,
 * both types must be trivially copyable (a default constructor is not needed), and no exception may leave the function: it
 * ends the process if another thread has taken the call, and otherwise leaves calls unjoined. weft::invoke passes
 * exceptions on.
 */
#define WEFT_FORK(name, result_type, argument_type)                                                                         \
    WEFT_FORK_CHECK(result_type)                                                                                            \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        WEFT_FORK_ROOM(argument_type, argument)                                                                             \
        WEFT_FORK_COPY(argument_type, WEFT_FORK_AT(argument), payload);                                                     \
        result_type result = name(here, WEFT_FORK_OUT(argument_type, argument));                                            \
        __builtin_memcpy(payload, WEFT_FORK_AT(result), sizeof result);                                                     \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline __attribute__((always_inline, unused))                                                                    \
    result_type name##_join(weft_fork_slot *here, argument_type const *given) {                                             \
        if (__builtin_expect(name##_taken(here, given), 0)) {                                                               \
            WEFT_FORK_ROOM(result_type, result)                                                                             \
            __builtin_memcpy(WEFT_FORK_AT(result), here->payload, sizeof result);                                           \
            return WEFT_FORK_OUT(result_type, result);                                                                      \
        }                                                                                                                   \
        WEFT_FORK_ROOM(argument_type, argument)                                                                             \
        WEFT_FORK_COPY(argument_type, WEFT_FORK_AT(argument), here->payload);                                               \
        return name(here, WEFT_FORK_OUT(argument_type, argument));                                                          \
    }

/** WEFT_FORK for a function that returns nothing. */
#define WEFT_FORK_VOID(name, argument_type)                                                                                 \
    static void name##_forked(weft_fork_slot *here, void *payload) {                                                        \
        WEFT_FORK_ROOM(argument_type, argument)                                                                             \
        WEFT_FORK_COPY(argument_type, WEFT_FORK_AT(argument), payload);                                                     \
        name(here, WEFT_FORK_OUT(argument_type, argument));                                                                 \
    }                                                                                                                       \
    WEFT_FORK_PUSH(name, argument_type)                                                                                     \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) void name##_join(weft_fork_slot *here, argument_type const *given) {         \
        if (__builtin_expect(name##_taken(here, given), 0)) return;                                                         \
        WEFT_FORK_ROOM(argument_type, argument)                                                                             \
        WEFT_FORK_COPY(argument_type, WEFT_FORK_AT(argument), here->payload);                                               \
        name(here, WEFT_FORK_OUT(argument_type, argument));                                                                 \
    }

/** @cond */
/* What follows is weft's own. It is compiled into programs, so a change to it needs a new WEFT_FORK_LAYOUT:
 * weft_fork_enter_layout refuses unknown ones. src/patterns/fork.c explains the ordered accesses; the schedule explorer
 * replaces them by its own. */
#define WEFT_FORK_LAYOUT 2u

/* With preserve_most, clang knows that the call leaves its caller's registers alone. So functions that fork need not save
 * registers before they know that they will fork. gcc saves them at the call. */
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
    WEFT_FORK_WORD(uint64_t) state;  /* 0: no other thread knows of the call */
    unsigned char payload[WEFT_FORK_BYTES];
} __attribute__((aligned(64)));
struct weft_forker {
    void (*slow)(weft_fork_slot *here) WEFT_FORK_KEEPS; /* called by forks at slots from a chunk's limit on */
    weft_fork_slot *deeper;                             /* the next slot that `slow` has found */
};
struct weft_fork_chunk {
    WEFT_FORK_WORD(weft_fork_slot *) limit; /* forks at slots below it need not call `slow` */
    struct weft_forker *forker;             /* the thread's */
};

WEFT_API int weft_fork_enter_layout(weft_pool *pool, weft_fork_slot **here, unsigned layout);
WEFT_API int weft_fork_join_slow(weft_fork_slot *here, const void *argument, size_t size) __attribute__((cold));
WEFT_API void weft_fork_misused(int is_join) __attribute__((cold, noreturn));
static inline int weft_fork_enter(weft_pool *pool, weft_fork_slot **here) {
    return weft_fork_enter_layout(pool, here, WEFT_FORK_LAYOUT);
}

#ifndef WEFT_FORK_CHUNK
#define WEFT_FORK_CHUNK 16384u /* slots lie in chunks aligned to this; the first slot of a chunk is its head */
#define weft_store_rel(tag, a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELEASE)
#define weft_store_rlx(a, v) __atomic_store_n(&(a)->raw, v, __ATOMIC_RELAXED)
#define weft_load_rlx(a) __atomic_load_n(&(a)->raw, __ATOMIC_RELAXED)
#define weft_fence_light(tag) __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* Structures are copied as their own type, so the compiler writes their members one by one into the payload. A copy through
 * memory would stall: a processor cannot forward several small stores to one large load. The payload is aligned to 16, the
 * user's argument as its type requires. */
#if defined(__cplusplus)
#define WEFT_CAST(type, value) reinterpret_cast<type>(value)
#define WEFT_NULL nullptr
#define WEFT_FORK_CHECK(type)                                                                                               \
    static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");                                \
    static_assert(__is_trivially_copyable(type), #type " is not trivially copyable");
#define WEFT_FORK_COPY(type, to, from) __builtin_memcpy(to, from, sizeof(type))
#define WEFT_FORK_AT(object) __builtin_addressof(object)
/* An object whose bytes are copied into it next: the type may have no constructor without arguments. */
#define WEFT_FORK_ROOM(type, object)                                                                                        \
    union weft_room_of_##object {                                                                                           \
        type value;                                                                                                         \
        char none;                                                                                                          \
        weft_room_of_##object() : none(0) {}                                                                                \
    } weft_room_##object;                                                                                                   \
    type &object = weft_room_##object.value;
#define WEFT_FORK_OUT(type, object) static_cast<type &&>(object)
#else
#define WEFT_CAST(type, value) ((type)(value))
#define WEFT_NULL NULL
#define WEFT_FORK_CHECK(type)                                                                                               \
    __extension__ _Static_assert(sizeof(type) <= WEFT_FORK_BYTES, #type " is larger than WEFT_FORK_BYTES");
#define WEFT_FORK_AT(object) (&(object))
#define WEFT_FORK_ROOM(type, object) type object;
#define WEFT_FORK_OUT(type, object) (object)
#define WEFT_FORK_COPY(type, to, from)                                                                                      \
    do {                                                                                                                    \
        typedef type weft_copied __attribute__((aligned(__alignof__(type) < 16 ? __alignof__(type) : 16)));                 \
        if (sizeof(type) <= 8)                                                                                              \
            __builtin_memcpy(to, from, sizeof(type));                                                                       \
        else                                                                                                                \
            *(weft_copied *)(void *)(to) = *(weft_copied const *)(const void *)(from);                                      \
    } while (0)
#endif

static inline __attribute__((always_inline)) struct weft_fork_chunk *weft_fork_slot_chunk(weft_fork_slot *here) {
    return WEFT_CAST(struct weft_fork_chunk *, WEFT_CAST(uintptr_t, here) / WEFT_FORK_CHUNK * WEFT_FORK_CHUNK);
}
WEFT_FORK_SLOW weft_fork_slot *weft_fork_slot_ask(weft_fork_slot *here) {
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
    return weft_fork_slot_ask(here);
}

/* 0: the caller must run the call itself; the argument is in the payload. Otherwise it calls weft_fork_join_slow; if
 * that returns 1, the call has been run, and the result is in the payload. */
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
    /* The argument of weft_fork_join_slow must lie in memory: a structure is copied only here, on the cold path. */        \
    static inline                                                                                                           \
        __attribute__((always_inline, unused)) int name##_taken(weft_fork_slot *here, argument_type const *given) {         \
        if (!weft_fork_slot_pop(here)) return 0;                                                                            \
        WEFT_FORK_ROOM(argument_type, copy)                                                                                 \
        WEFT_FORK_COPY(argument_type, WEFT_FORK_AT(copy), given);                                                           \
        return weft_fork_join_slow(here, sizeof copy > 8 ? WEFT_FORK_AT(copy) : given, sizeof copy);                        \
    }

/** @endcond */

#ifdef __cplusplus
}
#endif
#endif
