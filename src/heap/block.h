/* block.h: finds the block of an address, and reports misuse of it. Layer 2. */
#ifndef WEFT_HEAP_BLOCK_H
#define WEFT_HEAP_BLOCK_H

#include "heap/heap.h"

/* Checked mode's marks (heap_check.c). */
enum { MARK_NONE, MARK_LIVE, MARK_OLD, MARK_FREED, MARK_BITS = 2, MARK_MASK = 3 };
INLINE size_t mark_size(uint64_t mark) { return (size_t)(mark >> MARK_BITS); }
INLINE unsigned mark_state(uint64_t mark) { return (unsigned)(mark & MARK_MASK); }

struct block {
    char *start; /* NULL: no block of the heap is there */
    size_t usable;
    block_mark *mark; /* NULL: no block of its segment was checked */
    unsigned kind;
    bool is_private;
};

/* The block that p is in, or would be in if one were handed out there; p itself is not touched. */
struct block block_at(const void *p);
/* p's segment; NULL: it is in none. */
struct heap_segment *segment_known(const void *p);
/* NULL: no block of the segment was checked. */
block_mark *mark_in(struct heap_segment *segment, unsigned slot, unsigned index);

struct fault {
    const char *call; /* what found it */
    const void *p;
    const char *what;
    size_t offset; /* after `what`; SIZE_ANY: none */
};
/* Reports the fault on standard error and aborts the process. `mark`: the block's; MARK_NONE: it has none. */
__attribute__((noreturn)) void fault_tell(struct fault fault, const struct block *block, uint64_t mark);

#endif
