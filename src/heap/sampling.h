/* sampling.h: which allocations are samples, and that their frees are told. Layer 2.
 *
 * Somebody above wants some of the allocations (src/profile): each with a chance that grows with its size, whatever came before
 * it. sampling.c says how they are found without a count on the short way. Its other callers are the heap's own, by hooks.h. */
#ifndef WEFT_HEAP_SAMPLING_H
#define WEFT_HEAP_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who wants them. A constant; any thread calls its functions, which may not allocate but by weft_arena_alloc. */
struct sampler {
    /* A block of `size` bytes, at most MEDIUM_MAX, of the private heap that sampling_arena_set was told of. NULL: no memory. */
    void *(*take)(size_t size);
    /* A block of that heap is free. */
    void (*put)(void *p);
    /* A sample is live: one allocation of so many bytes in 1 / chance was to become one. from: in whose call. */
    void (*begin)(void *p, size_t size, double chance, const void *from);
    /* A block that may be a sample lives no more. */
    void (*end)(const void *p);
    /* It has that size now, and is the same sample. */
    void (*resize)(const void *p, size_t size);
    /* Zeros that stay. NULL: no memory. */
    void *(*memory)(size_t bytes);
};

/* From now on, each `interval_bytes` one sample on average; 0: none any more, but of those there are the ends are told. false: every
 * block is checked, there are no samples. */
bool sampling_set(const struct sampler *sampler, uint64_t interval_bytes, uint64_t seed);
/* The heap that `take` takes from; NULL: none. */
void sampling_arena_set(const void *arena);
/* Whether there may be samples, and checked mode must not begin. */
bool sampling_is_set(void);
/* Of an allocation that takes so many bytes: whether at least one of the points lies in it that are an interval apart on average. */
double sampling_chance(uint64_t bytes, uint64_t interval_bytes);

#endif
