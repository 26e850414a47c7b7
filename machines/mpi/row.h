/* row.h: the row of chunks that every rank computes for itself, in grains. Chunk n is a share of what the chunks before have
 * left, one of twice as many as there are ranks, but no less than `least`. So the row is the same everywhere, and its number is
 * all that a rank has to fetch. */
#ifndef WEFT_DIST_ROW_H
#define WEFT_DIST_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
    size_t grains;
    size_t least;
    size_t shares;
    uint64_t step; /* the chunk that begins at `at` */
    size_t at;
};

struct piece {
    size_t begin; /* in grains */
    size_t end;
};

static inline size_t row_size(const struct row *row) {
    size_t rest = row->grains - row->at;
    size_t size = rest / row->shares;
    if (size < row->least) size = row->least;
    return size < rest ? size : rest;
}

/* Chunk `step`, which is no lower than any asked for before. False: there is none. */
static inline bool row_find(struct row *row, uint64_t step, struct piece *piece) {
    for (; row->step < step && row->at < row->grains; row->step++) row->at += row_size(row);
    if (row->at >= row->grains) return false;
    *piece = (struct piece){row->at, row->at + row_size(row)};
    return true;
}

/* Is so much left after `piece` that a rank may take another one before this one has ended, and none runs out meanwhile? */
static inline bool row_is_long(const struct row *row, struct piece piece) {
    return (row->grains - piece.end) / row->shares >= row->least;
}

#endif
