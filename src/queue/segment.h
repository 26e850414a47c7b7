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

/* Header of a segment. It lies apart from the cells, so that these can be purged while a late taker still finds a header. It
 * lies apart from `done`, because all headers of a chunk are written when it is made, but most pools use few segments. */
struct segment {
    ALIGNED(CACHE_LINE) struct pile_item item;
    struct cell *cells;
    done_count *done;       /* SEGMENT_CELLS of them. At a finished piece's first cell: its number of cells */
    uint32_t older_next;    /* owner: index of the lane's next newer segment */
    bool purged;            /* its pages went back to the system; only the segment's holder reads it */
    ATOMIC(uint32_t) next;  /* index of the lane's segment after this one; written once per use, before the tail passes */
    ATOMIC(uint32_t) shape; /* slot where its tasks end | stride: cells from task to task. The stride stays from the first
                               task on; the end is lowered at most once, before the tail passes */
};

/* Makes an empty pile of segments for one pool. false: no memory. */
bool segments_init(struct pile *segments, struct store *store);
/* A segment for the caller. NULL: no memory. */
struct segment *segment_get(struct pile *segments);
INLINE struct segment *segment_at(const struct pile *segments, uint32_t index) { return pile_at(segments, index); }
/* After the last use: gives cells and `done` back (headers belong to the store). */
void segments_end(struct pile *segments);
/* Lets the system take the pages of the free segments. Any thread. */
void segments_purge(struct pile *segments);
/* Bytes of all cells made so far. */
uint64_t segments_bytes(const struct pile *segments);

#endif
