/* memory.h: the room's door: what pools need of the heap beyond weft.h.
 *
 * heap/ is a library of its own: with pages/ and os/ it is all that the malloc library needs, apart from a thin shell.
 *
 * What may not be touched: the rules that say which thread may write which word of a slab or a segment (slab.h,
 * pages/depot.h). Threads may read a descriptor late, so it stays a descriptor for ever. The ordering tables are at the
 * heads of slab.c and heap_life.c. Large blocks, private heaps, checked mode, reports of misuse and samples are attached to
 * the core by hooks (hooks.h). */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include "heap/heap_rest.h"
#include "heap/sampling.h"

#endif
