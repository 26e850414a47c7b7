/* heap_rest.h: what a pool and the malloc library ask of the heap beyond weft.h. Layer 2. */
#ifndef WEFT_HEAP_REST_H
#define WEFT_HEAP_REST_H

#include <stddef.h>

/* Gives back all memory that no block needs, including the calling thread's cache. For a time when no thread works: what is
 * needed again costs page faults. */
void heap_rest(void);

/* A block of the thread's cache. NULL: the cache is empty, or serves no such size. Calls nothing, so a caller that
 * tail-calls the rest needs no stack frame. */
void *heap_alloc_quick(size_t size);
/* Serves what heap_alloc_quick could not. NULL: no memory. */
void *heap_alloc_slow(size_t size);

#endif
