/**
 * @file weft/heap.h
 * The heap, and private heaps. Part of weft.h; include that one.
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
 * Memory for payloads, frames and graphs. A block may be allocated on one thread and freed on any other. Here "any
 * thread" includes destructors of thread-local data and a child of fork. No function sets errno or reads the
 * environment. Free these blocks with weft_free, never with free(), and never pass a block of malloc() to weft_free. */

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
 * of weft_alloc. A block keeps about twice the size in memory at most, or four times up to 32 KiB; it stays where it is
 * if the size goes back and forth within these bounds.
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
 * Gives pages that hold no block back to the system at once: those of freed large blocks, of empty slabs, whoever owns
 * them and whoever emptied them, and in the slabs of the calling thread and of threads that have ended also those
 * between blocks in use. What remains: the caches of other threads, at most some 14 MiB in each (docs/howto/malloc.md),
 * and those of their slabs, of 64 KiB each, that have a block in use or in a cache; with `checks`, such slabs of all
 * threads; and behind blocks of over 3.9 MiB in use what freed ones left there, an eighth of each and 16 MiB more in
 * all. May take milliseconds.
 * @return bytes given back
 * @threads Any thread.
 */
WEFT_API size_t weft_trim(void);

/* ---- private heaps ------------------------------------------------------------------------------------------------ */

/** A private heap, for example for a frame, a request or a parse: all its blocks are freed together. Opaque. Only one
 * thread at a time may call functions that name the heap; any thread may use and free its blocks. */
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
 * Frees a block of a private heap; the heap's next allocation may reuse it. weft_free does the same from any thread,
 * but the heap reuses such a block only when it needs memory. weft_free_sized must not be used. If weft_realloc has to
 * move a block, it moves it out of the heap. Only checked mode detects that p is not the beginning of a live block.
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
 * With `checks` the process aborts, with a line on standard error, if a block is freed twice, was never the heap's, is
 * freed with the wrong size, or was written past its end or after its free. A write past the end is detected when the
 * block is freed, resized or passed to weft_usable_size. A write after the free is detected when the block leaves the
 * quarantine: its thread's last 4096 freed blocks, or 4 MiB of them, without those over 1 MiB and those of private
 * heaps. weft_usable_size then returns the size that was requested.
 *
 * WEFT_HEAP_SECURE detects the same, and is for programs that process untrusted input. Blocks lie at random places in
 * their slabs, and slabs in their segments. Guard pages surround each slab and each block over 32 KiB. The bytes behind
 * a block hold a secret of the process. Each thread's quarantine holds 1024 freed blocks or 1 MiB of them, and a random
 * one leaves it. A freed block over 32 KiB is inaccessible while it waits there. docs/howto/malloc.md says what this
 * costs.
 */
typedef struct weft_heap_config {
    size_t struct_size; /**< sizeof(weft_heap_config), as in weft_config */
    int32_t
        pool_capacity; /**< ready slabs kept for each thread and class; 0: adaptive; WEFT_HEAP_POOL_NONE: none, refills search */
    int32_t pool_prefill;  /**< slabs made ready at once when none is; 0: adaptive */
    uint32_t remote;       /**< enum weft_heap_remote */
    int64_t decay_ms;      /**< empty memory goes back to the system after about this long; 0: 500; -1: only by weft_trim */
    uint32_t purge_thread; /**< 1: a thread gives memory back, also while all others sleep; not with decay_ms -1 */
    uint32_t checks;       /**< enum weft_heap_checks: in force from now until the process ends */
} weft_heap_config;

/** How blocks are checked. */
enum weft_heap_checks {
    WEFT_HEAP_PLAIN = 0,   /**< only what costs next to nothing */
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
 * Configures the heap for the whole process, from each thread's next refill on. The purge thread is ended and joined by
 * the first call that does not ask for it, or when the process ends or the library is unloaded. A child of fork has
 * none until it asks for one.
 * @param config how
 * @retval WEFT_OK done
 * @retval WEFT_EINVAL config is NULL, a number is out of range, or a field that this version does not know is not zero;
 *     nothing changed, as with the codes below
 * @retval WEFT_EBUSY checks were to begin, but another thread has allocated already, a private heap exists or a profile
 *     has begun; or checks were to end or to change; or another thread is in this call
 * @retval WEFT_ENOMEM no memory for the checks
 * @retval WEFT_EAGAIN the purge thread could not be started
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
    uint64_t page_fault_count;    /**< page faults of the whole process */
    uint64_t mapped_bytes;        /**< address space */
    uint64_t resident_bytes;      /**< the part of it that is in memory now */
    uint64_t live_bytes;          /**< in blocks handed out and not taken back, rounded up to their classes */
    uint32_t heap_count;          /**< heaps ever made, of threads and private ones; those that ended are used again */
    uint32_t classes;             /**< size classes */
    uint64_t find_timed_count;    /**< slabs whose search was timed: those of a different refill in 16 */
    uint64_t find_ns;             /**< what that took together */
    uint64_t reuse_count;         /**< blocks over 3.9 MiB that reused the memory of a freed one */
    uint64_t kept_bytes;          /**< kept for such reuse now: at most 64 MiB, or a quarter of what live ones hold */
    uint64_t from_overflow_count; /**< refills served without a slab, by blocks that had overflowed from the cache */
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
 * @param index less than weft_heap_counts.classes
 * @param block_size set to the bytes of its blocks
 * @param counts filled up to its struct_size; counts that no class has are 0
 * @retval WEFT_OK filled
 * @retval WEFT_EINVAL a pointer is NULL, the struct_size is invalid, or there is no such class
 * @threads Any thread.
 */
WEFT_API int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts);

/**
 * Writes the counts, the share of operations that refill, and each class in use as one JSON object, in the manner of
 * snprintf.
 * @param text where to write; may be NULL when size is 0
 * @param size bytes available there, including the terminating zero
 * @return the length of the whole text, whether it fitted or not; or WEFT_EINVAL: text is NULL and size is not 0
 * @threads Any thread.
 */
WEFT_API int weft_heap_stats_json(char *text, size_t size);

/** A piece of the heap: a slab of blocks of one size, or one large block. */
typedef struct weft_heap_area {
    const void *start;  /**< its first byte */
    size_t size;        /**< bytes, without address space that was never used */
    size_t block_size;  /**< bytes of each block */
    size_t blocks;      /**< blocks that fit */
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
 * A sampled profile of the heap: which calls allocated the blocks that are live, and which calls allocated how much
 * altogether. On average, one byte in interval_bytes is chosen at random. The block that contains it becomes a sample:
 * weft records where it was allocated. The sums are unbiased estimates; docs/howto/heap-profile.md says how far off
 * they may be. Blocks of private heaps are not sampled, except those over 256 KiB. */

/** How samples are taken. A field that is zero has its default. */
typedef struct weft_heap_profile_config {
    size_t struct_size;      /**< sizeof(weft_heap_profile_config), as in weft_config */
    uint64_t interval_bytes; /**< allocated between samples on average; 0: 524288 */
    uint64_t seed;           /**< of the random choice, for repeatable runs; 0: a different one each time */
} weft_heap_profile_config;

/** The form in which a profile is written. */
enum weft_heap_profile_form {
    WEFT_HEAP_PROFILE_PPROF = 0,  /**< pprof's protocol buffer, not compressed: live and allocated blocks and bytes */
    WEFT_HEAP_PROFILE_FOLDED = 1, /**< a line for each stack that holds live bytes: names and bytes */
    WEFT_HEAP_PROFILE_FOLDED_ALLOCATED = 2 /**< a line for each stack that allocated: names and bytes */
};

/**
 * Samples allocations of the whole process from now on, or changes how. Excludes `checks`. Blocks that a thread's cache
 * already holds are handed out first, and are not sampled.
 * @param config how; NULL: the defaults
 * @retval WEFT_OK sampling
 * @retval WEFT_EINVAL a number is out of range, or a field that this version does not know is not zero
 * @retval WEFT_EBUSY every block is checked. In turn, checks cannot begin once this has returned WEFT_OK
 * @retval WEFT_ENOMEM no memory
 * @retval WEFT_EFORK a thread was changing the profile when this child was forked: the child has no profile
 * @threads Any thread.
 */
WEFT_API int weft_heap_profile_start(const weft_heap_profile_config *config);

/**
 * Takes no more samples. The profile remains, and still notes which of its samples are freed.
 * @retval WEFT_OK done
 * @retval WEFT_EINVAL no profile was ever started
 * @threads Any thread.
 */
WEFT_API int weft_heap_profile_stop(void);

/**
 * Writes the profile of all samples so far. Takes no lock, and no memory from the heap. For the folded forms, it reads
 * the names of functions from the files of the program and its libraries, which takes some ms for each name; pprof
 * finds them itself.
 * @param fd a file descriptor to write to
 * @param form enum weft_heap_profile_form
 * @retval WEFT_OK written
 * @retval WEFT_EINVAL there is no such form, no profile was ever started, or the descriptor does not accept all of it
 * @retval WEFT_ENOMEM no memory to sort it
 * @threads Any thread, signal handlers too.
 */
WEFT_API int weft_heap_profile_write(int fd, uint32_t form);

#ifdef __cplusplus
}
#endif
#endif
