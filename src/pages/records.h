/* records.h: the table of all blocks with a mapping of their own: chunks of records, in slots. Layer 2. */
#ifndef WEFT_RECORDS_H
#define WEFT_RECORDS_H

#include "pages/depot.h"

/* A block with a mapping of its own, in a table that grows. */
struct mapping {
    ATOMIC(char *) block;         /* NULL: none */
    ATOMIC(size_t) bytes, behind; /* of the block, and of the mapping behind it, of which some may be in memory */
    block_mark mark;              /* checked mode's */
};
#define CHUNK_WORDS (SLOT_BYTES / 2048 - 1)
struct chunk {
    ATOMIC(struct chunk *) older;
    ATOMIC(uint64_t) used[CHUNK_WORDS];
    struct mapping records[CHUNK_WORDS * 64];
};
/* The newest chunk; the others follow by `older`. */
struct chunk *mapping_chunks(void);
/* A record of the caller's; NULL: no memory. Any thread. */
struct mapping *record_take(void);
/* Gives it up: no block has it any more. */
void record_drop(struct mapping *record);

#endif
