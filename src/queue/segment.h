/* segment.h: the pages for a pool's tasks, and their headers. Layer 2. queue/lane.h defines their contents. */
#ifndef WEFT_SEGMENT_H
#define WEFT_SEGMENT_H

#include "queue/store.h"
#include "weft.h"

#ifndef SEGMENT_CELLS
#define SEGMENT_CELLS 128u /* a page of cells; at most 128 (a byte of `done` holds a count of cells) */
#endif
#ifndef SEGMENT_CHUNK_SHIFT
#define SEGMENT_CHUNK_SHIFT 8u /* log2 of the segments made at once */
#endif
#define SEGMENT_CHUNK (1u << SEGMENT_CHUNK_SHIFT)
#define SEGMENTS_MAX (1u << PILE_INDEX_BITS)

#define CELL_BYTES 32u
#define CELL_PAYLOAD 16u

/* A task's first cell, two to a cache line. Payload that needs more runs on into the next cells. */
struct cell {
    weft_fn fn;
    uint64_t meta; /* what the task is: queue/lane.h */
    unsigned char payload[CELL_PAYLOAD];
};

typedef ATOMIC(uint8_t) done_count;

/* Header of a segment. Apart from its cells, so that these can be purged and a late taker still finds a header; and from
 * `done`, because all headers of a chunk are written when it is made, but most pools use few of its segments. */
struct segment {
    ALIGNED(CACHE_LINE) struct pile_item item;
    struct cell *cells;
    done_count *done;       /* SEGMENT_CELLS of them. At a finished piece's first cell: its number of cells */
    uint32_t older_next;    /* owner: index of the next newer of the lane's segments */
    bool purged;            /* its pages went back to the system; known to whoever holds the segment */
    ATOMIC(uint32_t) next;  /* index of the lane's segment after this one; written once per use, before the tail passes */
    ATOMIC(uint32_t) shape; /* stride: cells from task to task | slot where its tasks end; the stride stays from its first
                               task on, the end is lowered once at most, before the tail passes */
};

/* Makes an empty pile of segments for one pool. false: no memory. */
bool segments_init(struct pile *segments, struct store *store);
/* A segment of the caller's own; NULL: no memory. */
struct segment *segment_get(struct pile *segments);
INLINE struct segment *segment_at(const struct pile *segments, uint32_t index) { return pile_at(segments, index); }
/* After the last user has gone: gives cells and `done` back (headers belong to the store). */
void segments_end(struct pile *segments);
/* Lets the system take the pages of the free segments. Any thread. */
void segments_purge(struct pile *segments);
/* Bytes of cells made. */
uint64_t segments_bytes(const struct pile *segments);

#endif
