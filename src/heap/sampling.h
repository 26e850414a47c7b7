/* sampling.h: which allocations are samples, and reports of their frees. Layer 2.
 *
 * A room above (src/profile) wants some of the allocations: each with a chance that grows with its size, whatever came
 * before it. sampling.c says how they are found without a count on the fast path. Its other callers are in the heap, through
 * hooks.h. */
#ifndef WEFT_HEAP_SAMPLING_H
#define WEFT_HEAP_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The functions of the room that wants samples. A constant. Any thread calls them; they may allocate only by
 * weft_arena_alloc. */
struct sampler {
    /* A block of `size` bytes, at most MEDIUM_MAX, from the private heap given to sampling_arena_set. NULL: no memory. */
    void *(*take)(size_t size);
    /* Frees a block of that heap. */
    void (*put)(void *p);
    /* A sample is live. An allocation of that size becomes a sample with that chance. from: the return address of its
     * caller. */
    void (*begin)(void *p, size_t size, double chance, const void *from);
    /* A block that may be a sample ends. */
    void (*end)(const void *p);
    /* A block that may be a sample has that size now, and stays the same sample. */
    void (*resize)(const void *p, size_t size);
    /* Zeroed memory that is never freed. NULL: no memory. */
    void *(*memory)(size_t bytes);
};

/* From now on takes one sample for each `interval_bytes` on average; 0: takes none, but reports the ends of those there are.
 * false: checked mode is on, and there are no samples. */
bool sampling_set(const struct sampler *sampler, uint64_t interval_bytes, uint64_t seed);
/* Sets the heap that `take` takes from; NULL: none. */
void sampling_arena_set(const void *arena);
/* Whether there may be samples, and checked mode must not begin. */
bool sampling_is_set(void);
/* The chance that an allocation of `bytes` contains at least one of the points that are an interval apart on average. */
double sampling_chance(uint64_t bytes, uint64_t interval_bytes);

#endif
