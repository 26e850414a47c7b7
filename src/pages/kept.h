/* kept.h: a cache of freed mappings, which are reused instead of new ones. Layer 2. */
#ifndef WEFT_KEPT_H
#define WEFT_KEPT_H

#include "os/os.h"

/* Ranges begin at multiples of SEGMENT_BYTES and are multiples of it long. */

/* Keeps a range of the caller's, so that at most `most` bytes are kept in all: if necessary, other ranges are unmapped, in
 * part if that is enough. false: the range cannot be kept within `most`, and stays the caller's. Any thread. */
bool kept_put(char *start, size_t bytes, size_t most);
/* `bytes` of the smallest range that is long enough; NULL: none. Its pages still hold what was written before. Any
 * thread. */
char *kept_take(size_t bytes);
/* A range of `bytes` with as many pages of kept ranges as there are, and new ones behind them. NULL: nothing is kept, or
 * pages cannot be moved. Any thread. */
char *kept_gather(size_t bytes);
/* The same, with zeros; for when the system makes no new mapping. */
char *kept_take_clean(size_t bytes);
/* Unmaps a range of the caller's, or keeps what of it the system does not unmap, for want of mappings. Any thread. */
void kept_unmap(char *start, size_t bytes);
/* Unmaps a range of the caller's except for a hole in it, which is no longer the caller's. */
void kept_unmap_around(char *start, size_t bytes, const char *hole, size_t hole_bytes);
/* Takes the `bytes` from `start` on. false: no single kept range begins there and has them. Any thread. */
bool kept_take_at(const char *start, size_t bytes);
/* Unmaps the ranges that were there at the last call too, or all. Returns the bytes. Any thread. */
size_t kept_purge(bool all);
/* Unmaps about `bytes`, old ranges first. Returns how many; 0: nothing is kept. Any thread. */
size_t kept_give(size_t bytes);
/* How many bytes are kept or about to be. */
size_t kept_held(void);
/* How many are kept just now, and how many of these are in memory. */
size_t kept_bytes(void);
size_t kept_resident(void);

#endif
