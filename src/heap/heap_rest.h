/* heap_rest.h: what a pool and the malloc library ask of the heap beyond weft.h. Layer 2. */
#ifndef WEFT_HEAP_REST_H
#define WEFT_HEAP_REST_H

#include <stddef.h>

/* Gives back all that no block needs, the calling thread's cache too. Nobody works: what is needed again costs page
 * faults. */
void heap_rest(void);

/* A block of the thread's cache; NULL: it has none, or is not for that size. Calls nothing, so that a caller which
 * does without a frame for the rest needs none. */
void *heap_alloc_quick(size_t size);
/* What heap_alloc_quick could not serve. NULL: no memory. */
void *heap_alloc_slow(size_t size);

#endif
