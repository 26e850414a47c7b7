/* memory.h: the room's door: what pools need of the heap beyond weft.h.
 *
 * heap/ is a library of its own: it needs only os/, and the malloc library consists of it and a thin shell. Beside the heap it
 * contains the memory of pools (store.c, segment.c), which keeps its type until the pool ends.
 *
 * What may not be touched: the rules which thread may write which word of a slab or a segment (slab.h, depot.h). Threads may read a
 * descriptor late, so it stays a descriptor for ever. The ordering tables are at the heads of depot.c, slab.c and heap_life.c.
 * Large blocks, private heaps, checked mode, the purge thread and the clock's watch are attached to the core by hooks (hooks.h). */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include "heap/heap_rest.h"
#include "heap/sampling.h"
#include "heap/segment.h"
#include "heap/store.h"

#endif
