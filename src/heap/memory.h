/* memory.h: the room's door: what pools ask of the heap beyond weft.h.
 *
 * heap/ is a library of its own: it needs os/ alone, and the malloc library is it and a thin shell. Beside the heap it has the
 * memory of pools (store.c, segment.c), which keeps its type until the pool ends.
 *
 * What may not be touched: who may write which word of a slab or a segment (slab.h, depot.h): a descriptor is read by threads
 * that come late, so it stays a descriptor for ever. The ordering tables stand at the head of depot.c, slab.c, heap_life.c.
 * Large blocks, private heaps, checked mode, the purge thread and who watches the clock hang on the core by hooks (hooks.h). */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include "heap/heap_rest.h"
#include "heap/segment.h"
#include "heap/store.h"

#endif
