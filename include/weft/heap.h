/* weft/heap.h: the heap, and private heaps. Part of weft.h, which is what to include.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_HEAP_H
#define WEFT_API_HEAP_H

#include <weft/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the heap ----------------------------------------------------------------------------------------------------- */

/* Memory for payloads, frames and graphs, made on one thread and freed on any other. Every function may be called from any
 * thread, also from destructors of thread-local data and in a child of fork; none sets errno or reads the environment. What
 * was allocated here is freed here, never by free(), nor the other way round. */

/* `size` bytes, not initialised, aligned to 16; size 0 is served as 1. Owned by the caller until weft_free. NULL: out of
 * memory, or size over PTRDIFF_MAX; nothing else happened. */
WEFT_API void *weft_alloc(size_t size);

/* count * size bytes of zeros, as weft_alloc. NULL also when the product overflows. */
WEFT_API void *weft_alloc_zeroed(size_t count, size_t size);

/* As weft_alloc, aligned to `alignment`, a power of two of any size. NULL also when it is not one. */
WEFT_API void *weft_alloc_aligned(size_t alignment, size_t size);

/* Makes the block larger or smaller, in place or elsewhere, keeping the contents up to the lesser size; the alignment is
 * that of weft_alloc. `p` NULL: weft_alloc(size). size 0 leaves a block of the least size. Returns the block, which replaces
 * p; NULL: no memory, and p is as before. */
WEFT_API void *weft_realloc(void *p, size_t size);

/* Ends the life of a block of any thread's; NULL: nothing. What is no block, or was one, ends the process with a line on standard
 * error where it is seen: docs/malloc.md says what is and what is not. */
WEFT_API void weft_free(void *p);

/* weft_free for one who knows what was asked for: `size` as passed to the call that returned p, which was not
 * weft_alloc_aligned (for weft_alloc_zeroed: the product). A size that no such block has ends the process. */
WEFT_API void weft_free_sized(void *p, size_t size);

WEFT_API size_t weft_usable_size(const void *p); /* bytes at p that may be used, at least what was asked for; NULL: 0 */

/* Gives every page that holds no block back to the system, at once: the caller's cache, every thread's empty slabs, the
 * depot. Other threads' caches are bounded and stay. Returns the bytes given back. May take milliseconds. */
WEFT_API size_t weft_trim(void);

/* ---- private heaps ------------------------------------------------------------------------------------------------ */

/* A heap of one's own, for a frame, a request, a parse: its blocks end together. Calls that name a heap come from one thread
 * at a time, each after the one before; its blocks may be used and freed by any thread. */
typedef struct weft_arena weft_arena;

/* *heap is the caller's until weft_arena_destroy. WEFT_OK; WEFT_EINVAL for NULL; WEFT_ENOMEM, and *heap is NULL. */
WEFT_API int weft_arena_create(weft_arena **heap);

/* As weft_alloc, from that heap; the block ends with weft_arena_free, with weft_free or with the heap. NULL also for a heap
 * that is NULL or destroyed; that it was destroyed can be told until another one is created. */
WEFT_API void *weft_arena_alloc(weft_arena *heap, size_t size);

/* Frees a block of that heap, whose next allocation may take it. weft_free does so from any thread, but the heap has it
 * back only when it needs memory; weft_free_sized must not be used. weft_realloc moves a block out of the heap if it must
 * move. WEFT_OK, also for p NULL; WEFT_EINVAL: p is not in this heap's memory, or the heap is NULL or destroyed; nothing
 * happened. That p is the beginning of a live block, and of weft's at all, is seen in checked mode alone. */
WEFT_API int weft_arena_free(weft_arena *heap, void *p);

/* Ends the heap and every block that is still live, whoever holds it, and sets *heap to NULL. All use of the blocks must
 * have ended, a weft_free of one, too. The memory is free for the process at once. Costs some ns for each 64 KiB, however
 * many blocks. WEFT_OK; WEFT_EINVAL for NULL or a heap that is NULL or destroyed already. */
WEFT_API int weft_arena_destroy(weft_arena **heap);

/* How the heap works, for experiments and special needs. Everything zero means the default. */
typedef struct weft_heap_config {
    size_t struct_size;    /* sizeof(weft_heap_config), as in weft_config */
    int32_t pool_capacity; /* ready slabs kept per thread and class; 0: adaptive; WEFT_HEAP_NO_POOL: none, scanned for */
    int32_t pool_prefill;  /* slabs made ready at once when none is; 0: adaptive */
    uint32_t remote;       /* enum weft_heap_remote */
    int64_t decay_ms;      /* empty memory goes back to the system after about this long; 0: 500; -1: only by weft_trim */
    uint32_t purge_thread; /* 1: a thread gives memory back, also while all others sleep; not with decay_ms -1 */
    uint32_t checks;       /* 1: every block is checked from now on, until the process ends; for debugging, slow */
} weft_heap_config;
#define WEFT_HEAP_NO_POOL (-1)

/* With checks, a block that is freed twice, was never the heap's, is freed with another size than it has, or was written
 * past its end or after its free is told on standard error and the process aborts. Writes past the end are seen when the
 * block is freed, resized or asked for its size, those after its free when it leaves the quarantine: its thread's last 4096
 * freed blocks, or 4 MiB, none over 1 MiB or of private heaps. weft_usable_size is what was asked for. */

/* Blocks freed by a thread that does not own their slab. */
enum weft_heap_remote {
    WEFT_HEAP_REMOTE_HYBRID = 0, /* kept in its cache and used again; what the cache cannot hold goes home by slab */
    WEFT_HEAP_REMOTE_HOME = 1,   /* sent home as soon as a few have gathered, never used again by this thread */
    WEFT_HEAP_REMOTE_KEEP = 2    /* kept, the cache growing as it must: nothing goes home before the thread ends */
};

/* Applies to the whole process, from each thread's next refill on. WEFT_OK; WEFT_EINVAL: NULL, a number out of range, a
 * later version; WEFT_EBUSY: checks are to begin and another thread has allocated already or there is a private heap, or
 * they are to end, or another thread is in this call just now; WEFT_ENOMEM: for the checks; WEFT_EAGAIN: no purge thread to
 * be had. Nothing changed then. The purge thread ends, and is joined, with the first call that does not ask for it, or with
 * the process or the library; a child of fork has none until it asks. */
WEFT_API int weft_heap_configure(const weft_heap_config *config);

/* What happened since the process started; counted without synchronisation, exact when no thread allocates. A miss is an
 * allocation that found its thread's cache empty; each miss is one refill, served from one source or more. */
typedef struct weft_heap_counts {
    size_t struct_size;      /* set by the caller to sizeof(weft_heap_counts) */
    uint64_t allocs;         /* blocks handed out, of all sizes */
    uint64_t frees;          /* blocks taken back */
    uint64_t hits;           /* allocations served by the thread's cache */
    uint64_t misses;         /* allocations that had to refill it */
    uint64_t from_pool;      /* slabs that refills took: from the warm pool */
    uint64_t from_list;      /* ... from the thread's other slabs with room */
    uint64_t from_lru;       /* ... from the thread's empty slabs */
    uint64_t from_orphans;   /* ... from threads that have ended */
    uint64_t from_depot;     /* ... from the empty slabs of all threads */
    uint64_t from_system;    /* ... from memory never used before, or given back */
    uint64_t prefilled;      /* slabs made ready beyond the one needed */
    uint64_t pushes;         /* slabs put into a warm pool */
    uint64_t tier_drops;     /* slabs that left a warm pool because too little of them was left */
    uint64_t lru_in;         /* slabs emptied and kept by their thread */
    uint64_t lru_out;        /* ... and used again by it */
    uint64_t cold;           /* blocks of memory that was never used before */
    uint64_t refills_timed;  /* refills whose time was taken, one in 16 */
    uint64_t refill_ns;      /* what those took together */
    uint64_t flushes;        /* times a cache overflowed */
    uint64_t remote_frees;   /* blocks sent home to another thread's slab */
    uint64_t remote_sends;   /* messages in which they went */
    uint64_t purges;         /* times pages were given back to the system */
    uint64_t page_faults;    /* of the whole process */
    uint64_t mapped_bytes;   /* address space */
    uint64_t resident_bytes; /* of it, held in memory now */
    uint64_t live_bytes;     /* in blocks handed out and not taken back, rounded up to their classes */
    uint32_t heaps;          /* ever made, of threads and private ones; those that ended are used again */
    uint32_t classes;        /* size classes */
    uint64_t finds_timed;    /* slabs whose finding was timed, those of another refill in 16 */
    uint64_t find_ns;        /* what that took together */
    uint64_t reused;         /* blocks over 3.9 MiB in memory that one freed before had */
    uint64_t kept_bytes;     /* kept for such now: at most 64 MiB, or a quarter of what live ones hold */
    uint64_t from_overflow;  /* refills served without a slab, by what the cache had no room for before */
} weft_heap_counts;

/* Fills *counts up to its struct_size: sums over threads and classes. Reads page states: slow. WEFT_OK, WEFT_EINVAL. */
WEFT_API int weft_heap_stats(weft_heap_counts *counts);

/* The same for one size class, 0 .. classes - 1, and its block size; 0 for what has no class. WEFT_OK or WEFT_EINVAL. */
WEFT_API int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts);

/* The counts, the share of operations that refill and each class in use, as weft_stats_json. WEFT_EINVAL: NULL with a
 * size. */
WEFT_API int weft_heap_json(char *text, size_t size);

/* A piece of the heap: a slab of blocks of one size, or one large block. */
typedef struct weft_heap_area {
    const void *start;
    size_t size;        /* bytes, without what was never used of its address space */
    size_t block_size;  /* bytes of each block */
    size_t blocks;      /* that fit */
    size_t blocks_used; /* handed out, or in some thread's cache */
} weft_heap_area;

/* Calls visit(area, context) for each area that holds blocks until it returns nonzero, and returns that; 0 after the last.
 * What other threads do meanwhile may be seen or missed. visit may allocate and free. WEFT_EINVAL for NULL visit. */
WEFT_API int weft_heap_walk(int (*visit)(const weft_heap_area *area, void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
