/* heads.h: the addresses of the heap's heads: those of segments and of mappings. Layer 2.
 *
 * Tells whether an address belongs to the heap, in constant time and without reading memory there. */
#ifndef WEFT_HEADS_H
#define WEFT_HEADS_H

#include "pages/depot.h"

/* One region of the address space: a bit for each SEGMENT_BYTES. A leaf is made when its region gets a first head, and
 * stays. */
#define LEAF_HEADS 32768u
typedef ATOMIC(uint64_t) leaf_word;
typedef ATOMIC(uint8_t) piece_count;
struct leaf {
    struct leaf *older;
    uint64_t region;
    leaf_word bits[LEAF_HEADS / 64];
    piece_count pieces[LEAF_HEADS]; /* pages that were moved there, in so many parts */
};
typedef ATOMIC(struct leaf *) leaf_list;
#define LEAF_LISTS 64u
extern leaf_list leaf_lists[LEAF_LISTS]; /* by the region's number */

INLINE uint64_t head_number(const void *head) { return (uint64_t)(uintptr_t)head >> SEGMENT_SHIFT; }
INLINE leaf_list *leaf_list_of(uint64_t region) { return &leaf_lists[region % LEAF_LISTS]; }
/* NULL: the list has no leaf for that region. */
INLINE struct leaf *leaf_in(struct leaf *newest, uint64_t region) {
    struct leaf *leaf = newest;
    while (leaf != NULL && leaf->region != region) leaf = leaf->older;
    return leaf;
}

/* Notes that a head stands at `head`, a multiple of SEGMENT_BYTES. false: no memory. Any thread. */
bool heads_add(const void *head);
/* Notes that none stands there any more. Any thread. */
void heads_remove(const void *head);
/* Whether a head stands at `head`, which may be any address. Any thread. */
INLINE bool heads_has(const void *head) {
    uint64_t number = head_number(head), index = number % LEAF_HEADS, region = number / LEAF_HEADS;
    struct leaf *leaf = leaf_in(load_acq(Z2, leaf_list_of(region)), region);
    return leaf != NULL && (load_rlx(&leaf->bits[index / 64]) >> index % 64 & 1) != 0;
}

/* Pages that were moved to another address stay a mapping of their own, whatever lies beside them, and a process may have
 * only 65,530 mappings. So these count the pieces, and nothing is moved to save page faults while there are PIECES_MAX:
 * they make at most twice as many mappings. */
#define PIECES_MAX 4096u
uint32_t heads_pieces(void);
/* Pages of one segment's address space were moved to one other's, at `to`. If they left a whole one, it has none any more. */
void heads_piece(const char *to);
/* The pages there have gone. */
void heads_pieces_end(const char *start, size_t bytes);

#endif
