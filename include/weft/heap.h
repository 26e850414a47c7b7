/**
 * @file weft/heap.h
 * The heap, and private heaps. Part of weft.h, which is what to include.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_API_HEAP_H
#define WEFT_API_HEAP_H

#include <weft/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the heap -----------------------------------------------------------------------------------------------------
 *
 * Memory for payloads, frames and graphs, allocated on one thread and freed on any other. "Any thread" includes destructors of
 * thread-local data and a child of fork here. No function sets errno or reads the environment. Free these blocks with
 * weft_free, never with free(), and never pass a block of malloc() to weft_free. */

/**
 * Allocates memory, which is not initialised.
 * @param size bytes; 0 is served as 1
 * @return the block, aligned to 16, the caller's until weft_free; NULL: no memory, or size is over PTRDIFF_MAX
 * @threads Any thread.
 */
WEFT_API void *weft_alloc(size_t size);

/**
 * Allocates count * size bytes of zeros.
 * @param count how many
 * @param size bytes of each
 * @return as weft_alloc; NULL also when the product overflows
 * @threads Any thread.
 */
WEFT_API void *weft_alloc_zeroed(size_t count, size_t size);

/**
 * Allocates memory with an alignment.
 * @param alignment a power of two of any size
 * @param size bytes; 0 is served as 1
 * @return as weft_alloc, with that alignment; NULL also when the alignment is not a power of two
 * @threads Any thread.
 */
WEFT_API void *weft_alloc_aligned(size_t alignment, size_t size);

/**
 * Resizes a block, in place or by moving it, and keeps its contents up to the smaller of both sizes. The alignment is that
 * of weft_alloc.
 * @param p the block; NULL: this is weft_alloc(size)
 * @param size bytes; 0 leaves a block of the smallest size
 * @return the block, which replaces p; NULL: no memory, and p is as before
 * @threads Any thread, one at a time for each block.
 */
WEFT_API void *weft_realloc(void *p, size_t size);

/**
 * Frees a block, whichever thread allocated it. If p is not a block, or was freed before, and weft detects that, the process
 * ends with a line on standard error. docs/howto/malloc.md says what is detected.
 * @param p the block; NULL: nothing happens
 * @threads Any thread.
 */
WEFT_API void weft_free(void *p);

/**
 * Frees a block of known size, which saves looking the size up. If the block cannot have that size, the process ends with
 * a line on standard error.
 * @param p the block, not of weft_alloc_aligned; NULL: nothing happens
 * @param size as passed to the call that returned p; for weft_alloc_zeroed the product
 * @threads Any thread.
 */
WEFT_API void weft_free_sized(void *p, size_t size);

/**
 * Returns how many bytes of a block may be used.
 * @param p the block
 * @return bytes, at least as many as were requested; 0 for NULL
 * @threads Any thread.
 */
WEFT_API size_t weft_usable_size(const void *p);

/**
 * Gives every page that holds no block back to the system, at once: of the caller's cache, every thread's empty slabs and
 * the depot. Other threads' caches are bounded and remain. May take milliseconds.
 * @return bytes given back
 * @threads Any thread.
 */
WEFT_API size_t weft_trim(void);

/* ---- private heaps ------------------------------------------------------------------------------------------------ */

/** A private heap, for example for a frame, a request or a parse: all its blocks are freed together. Opaque. Only one thread at
 * a time may call functions that name the heap; any thread may use and free its blocks. */
typedef struct weft_arena weft_arena;

/**
 * Makes a private heap.
 * @param heap set to the heap, the caller's until weft_arena_destroy; set to NULL when there is no memory
 * @retval WEFT_OK created
 * @retval WEFT_EINVAL heap is NULL
 * @retval WEFT_ENOMEM no memory
 * @threads Any thread.
 */
WEFT_API int weft_arena_create(weft_arena **heap);

/**
 * Allocates from a private heap.
 * @param heap the heap
 * @param size bytes; 0 is served as 1
 * @return as weft_alloc; the block lives until weft_arena_free, weft_free or the end of the heap. NULL also when heap is
 *     NULL or destroyed; a destroyed heap is detected only until another one is created
 * @threads One thread at a time for each heap.
 */
WEFT_API void *weft_arena_alloc(weft_arena *heap, size_t size);

/**
 * Frees a block of a private heap, whose next allocation may reuse it. weft_free does the same from any thread, but the
 * heap reuses such a block only when it needs memory. weft_free_sized must not be used. If weft_realloc has to move a
 * block, it moves it out of the heap. Only checked mode detects that p is not the beginning of a live block.
 * @param heap the heap
 * @param p the block; NULL: nothing happens
 * @retval WEFT_OK freed
 * @retval WEFT_EINVAL p is not in this heap's memory, or heap is NULL or destroyed; nothing happened
 * @threads One thread at a time for each heap.
 */
WEFT_API int weft_arena_free(weft_arena *heap, void *p);

/**
 * Destroys a private heap and frees every block that is still live, whoever holds it. All use of the blocks must have
 * ended, including any weft_free. The process can reuse the memory at once. Takes some ns for each 64 KiB, regardless of
 * the number of blocks.
 * @param heap set to NULL
 * @retval WEFT_OK destroyed
 * @retval WEFT_EINVAL heap or *heap is NULL, or the heap was destroyed before
 * @threads One thread at a time for each heap.
 */
WEFT_API int weft_arena_destroy(weft_arena **heap);

/* ---- configuration ------------------------------------------------------------------------------------------------ */

/**
 * How the heap works, for experiments and special needs. A field that is zero has its default.
 *
 * With `checks` the process aborts, with a line on standard error, for a block that is freed twice, was never the
 * heap's, is freed with another size than it has, or was written past its end or after its free. A write past the end
 * is seen when the block is freed, resized or asked for its size. A write after the free is seen when the block leaves
 * the quarantine: its thread's last 4096 freed blocks, or 4 MiB of them, without those over 1 MiB and those of private
 * heaps. weft_usable_size is then what was asked for.
 *
 * WEFT_HEAP_SECURE finds the same, and is for programs that work with what strangers send. Blocks lie at random places of their
 * slabs, and slabs of their segments; memory that nobody may touch stands around each slab and each block over 32 KiB; what
 * follows a block is a secret of the process; of 1024 freed blocks or 1 MiB in each thread's quarantine a random one leaves. A freed
 * block over 32 KiB may not be touched while it waits there. docs/howto/malloc.md says what it costs.
 */
typedef struct weft_heap_config {
    size_t struct_size; /**< sizeof(weft_heap_config), as in weft_config */
    int32_t
        pool_capacity; /**< ready slabs kept for each thread and class; 0: adaptive; WEFT_HEAP_POOL_NONE: none, searched for */
    int32_t pool_prefill;  /**< slabs made ready at once when none is; 0: adaptive */
    uint32_t remote;       /**< enum weft_heap_remote */
    int64_t decay_ms;      /**< empty memory goes back to the system after about this long; 0: 500; -1: only by weft_trim */
    uint32_t purge_thread; /**< 1: a thread gives memory back, also while all others sleep; not with decay_ms -1 */
    uint32_t checks;       /**< enum weft_heap_checks: from now on, until the process ends */
} weft_heap_config;

/** How blocks are checked. */
enum weft_heap_checks {
    WEFT_HEAP_PLAIN = 0,   /**< as far as it costs next to nothing */
    WEFT_HEAP_CHECKED = 1, /**< every block; for debugging, slow */
    WEFT_HEAP_SECURE = 2   /**< every block, and the heap is hard to attack */
};

#define WEFT_HEAP_POOL_NONE (-1) /**< `pool_capacity`: no slabs are kept ready */

/** What becomes of blocks freed by a thread that does not own their slab. */
enum weft_heap_remote {
    WEFT_HEAP_REMOTE_HYBRID = 0, /**< kept in its cache and used again; what the cache cannot hold goes home by slab */
    WEFT_HEAP_REMOTE_HOME = 1,   /**< the same; for programs that ask for it */
    WEFT_HEAP_REMOTE_KEEP = 2    /**< the same; for programs that ask for it */
};

/**
 * Configures the heap for the whole process, from each thread's next refill on. The purge thread ends, and is joined,
 * with the first call that does not ask for it, or with the process or the library; a child of fork has none until it
 * asks.
 * @param config how
 * @retval WEFT_OK done
 * @retval WEFT_EINVAL config is NULL, a number is out of range, or a field that this version does not know is not zero;
 *     nothing changed, as with the codes below
 * @retval WEFT_EBUSY checks are to begin, and another thread has allocated already or there is a private heap; or they
 *     are to end or to be others; or another thread is in this call just now
 * @retval WEFT_ENOMEM no memory for the checks
 * @retval WEFT_EAGAIN no purge thread to be had
 * @threads Any thread.
 */
WEFT_API int weft_heap_configure(const weft_heap_config *config);

/* ---- what the heap does ------------------------------------------------------------------------------------------- */

/** What happened since the process started. Counted without synchronisation: exact when no thread allocates. A miss is an
 * allocation that found its thread's cache empty. Each miss is one refill, served from one source or more. */
typedef struct weft_heap_counts {
    size_t struct_size;           /**< set by the caller to sizeof(weft_heap_counts) */
    uint64_t alloc_count;         /**< blocks handed out, of all sizes */
    uint64_t free_count;          /**< blocks taken back */
    uint64_t hit_count;           /**< allocations served by the thread's cache */
    uint64_t miss_count;          /**< allocations that had to refill it */
    uint64_t from_pool_count;     /**< slabs that refills took from the warm pool */
    uint64_t from_list_count;     /**< ... from the thread's other slabs with room */
    uint64_t from_lru_count;      /**< ... from the thread's empty slabs */
    uint64_t from_orphans_count;  /**< ... from threads that have ended */
    uint64_t from_depot_count;    /**< ... from the empty slabs of all threads */
    uint64_t from_system_count;   /**< ... from memory never used before, or given back */
    uint64_t prefill_count;       /**< slabs made ready beyond the one needed */
    uint64_t push_count;          /**< slabs put into a warm pool */
    uint64_t tier_drop_count;     /**< slabs that left a warm pool because too little of them was left */
    uint64_t lru_in_count;        /**< slabs emptied and kept by their thread */
    uint64_t lru_out_count;       /**< ... and used again by it */
    uint64_t cold_count;          /**< blocks of memory that was never used before */
    uint64_t refill_timed_count;  /**< refills whose time was taken, one in 16 */
    uint64_t refill_ns;           /**< what those took together */
    uint64_t flush_count;         /**< times a cache overflowed */
    uint64_t remote_free_count;   /**< blocks sent home to another thread's slab */
    uint64_t remote_send_count;   /**< messages in which they went */
    uint64_t purge_count;         /**< times pages were given back to the system */
    uint64_t page_fault_count;    /**< of the whole process */
    uint64_t mapped_bytes;        /**< address space */
    uint64_t resident_bytes;      /**< of it, held in memory now */
    uint64_t live_bytes;          /**< in blocks handed out and not taken back, rounded up to their classes */
    uint32_t heap_count;          /**< heaps ever made, of threads and private ones; those that ended are used again */
    uint32_t classes;             /**< size classes */
    uint64_t find_timed_count;    /**< slabs whose finding was timed, those of another refill in 16 */
    uint64_t find_ns;             /**< what that took together */
    uint64_t reuse_count;         /**< blocks over 3.9 MiB in memory that one freed before had */
    uint64_t kept_bytes;          /**< kept for such now: at most 64 MiB, or a quarter of what live ones hold */
    uint64_t from_overflow_count; /**< refills served without a slab, by what the cache had no room for before */
} weft_heap_counts;

/**
 * Reads the counts, summed over threads and classes. Slow: it asks the system which pages are in memory.
 * @param counts filled up to its struct_size
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL counts is NULL, or the struct_size is invalid
 * @threads Any thread.
 */
WEFT_API int weft_heap_stats(weft_heap_counts *counts);

/**
 * Reads the counts of one size class.
 * @param index 0 to before weft_heap_counts.classes
 * @param block_size set to the bytes of its blocks
 * @param counts filled up to its struct_size; 0 for what has no class
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL a pointer is NULL, the struct_size is invalid, or there is no such class
 * @threads Any thread.
 */
WEFT_API int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts);

/**
 * Writes the counts, the share of operations that refill, and each class in use as one JSON object, in the manner of
 * snprintf.
 * @param text where to; may be NULL when size is 0
 * @param size bytes there are, the ending zero included
 * @return the length of the whole text, whether it fitted or not; or WEFT_EINVAL: text is NULL and size is not 0
 * @threads Any thread.
 */
WEFT_API int weft_heap_stats_json(char *text, size_t size);

/** A piece of the heap: a slab of blocks of one size, or one large block. */
typedef struct weft_heap_area {
    const void *start;  /**< its first byte */
    size_t size;        /**< bytes, without what was never used of its address space */
    size_t block_size;  /**< bytes of each block */
    size_t blocks;      /**< that fit */
    size_t blocks_used; /**< handed out, or in some thread's cache */
} weft_heap_area;

/**
 * Calls a function for each area that holds blocks. What other threads do meanwhile may be seen or missed.
 * @param visit called until it returns nonzero; may allocate and free
 * @param context passed to visit
 * @return what visit returned last; 0 when there was no area; WEFT_EINVAL when visit is NULL
 * @threads Any thread.
 */
WEFT_API int weft_heap_walk(int (*visit)(const weft_heap_area *area, void *context), void *context);

/* ---- who holds it -------------------------------------------------------------------------------------------------
 *
 * A profile of the heap by samples: which calls allocated what lives, and what was allocated altogether. Of each interval_bytes that
 * are allocated one byte is looked at on average, by chance, and the block that has it is a sample: where it was allocated is
 * noted. The sums are estimates without bias; docs/howto/heap-profile.md says how far off they may be. Blocks of private heaps are
 * no samples, but for those over 256 KiB. */

/** How samples are taken. A field that is zero has its default. */
typedef struct weft_heap_profile_config {
    size_t struct_size;      /**< sizeof(weft_heap_profile_config), as in weft_config */
    uint64_t interval_bytes; /**< allocated between samples on average; 0: 524288 */
    uint64_t seed;           /**< of the chance, for runs that are to be alike; 0: another one each time */
} weft_heap_profile_config;

/** What a profile is written as. */
enum weft_heap_profile_form {
    WEFT_HEAP_PROFILE_PPROF = 0,  /**< pprof's protocol buffer, not compressed: live and allocated blocks and bytes */
    WEFT_HEAP_PROFILE_FOLDED = 1, /**< a line for each stack that holds live bytes: names and bytes */
    WEFT_HEAP_PROFILE_FOLDED_ALLOCATED = 2 /**< a line for each stack that allocated: names and bytes */
};

/**
 * Samples allocations of the whole process from now on, or changes how. Not with `checks`. What a thread's cache of a size
 * holds is handed out first, and is not sampled.
 * @param config how; NULL: by the defaults
 * @retval WEFT_OK it does
 * @retval WEFT_EINVAL a number is out of range, or a field that this version does not know is not zero
 * @retval WEFT_EBUSY every block is checked; checks cannot begin any more either once this has returned WEFT_OK
 * @retval WEFT_ENOMEM no memory
 * @retval WEFT_EFORK a thread was changing the profile when this child of fork was made: it has none
 * @threads Any thread.
 */
WEFT_API int weft_heap_profile_start(const weft_heap_profile_config *config);

/**
 * Takes no more samples. The profile stays, and goes on to follow which of its samples are freed.
 * @retval WEFT_OK done
 * @retval WEFT_EINVAL no profile was ever started
 * @threads Any thread.
 */
WEFT_API int weft_heap_profile_stop(void);

/**
 * Writes the profile of all samples so far. Neither allocates nor locks. Names of functions are read from the files of
 * program and libraries, which takes some ms each; pprof finds them itself.
 * @param fd a file descriptor to write to
 * @param form enum weft_heap_profile_form
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL there is no such form, no profile was ever started, or the descriptor takes not all of it
 * @retval WEFT_ENOMEM no memory to put it in order
 * @threads Any thread, signal handlers too.
 */
WEFT_API int weft_heap_profile_write(int fd, uint32_t form);

#ifdef __cplusplus
}
#endif
#endif
