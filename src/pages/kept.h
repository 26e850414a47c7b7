/* kept.h: a cache of freed mappings, which are reused instead of new ones. Layer 2. */
#ifndef WEFT_KEPT_H
#define WEFT_KEPT_H

#include "os/os.h"

/* Ranges of address space: they begin at multiples of SEGMENT_BYTES and are multiples of it long. */

/* Takes a range that is the caller's, so that all that are kept together are at most `most` bytes: others are unmapped for it, in
 * part if that is enough. false: it alone is more; it stays the caller's. Any thread. */
bool kept_put(char *start, size_t bytes, size_t most);
/* `bytes` of the smallest range that has them; NULL: none. What was written there before is still in it. Any thread. */
char *kept_take(size_t bytes);
/* A range of so many bytes that has as many pages of kept ones as there are, and new ones behind them. NULL: none is kept, or they
 * cannot be moved. Any thread. */
char *kept_gather(size_t bytes);
/* Unmaps a range of the caller's but for a hole in it, which is the caller's no more. */
void kept_unmap_around(char *start, size_t bytes, const char *hole, size_t hole_bytes);
/* The `bytes` from `start` on. false: they are not kept, or not all in one range. Any thread. */
bool kept_take_at(const char *start, size_t bytes);
/* Unmaps those that were there at the last call too, or all. Returns the bytes. Any thread. */
size_t kept_purge(bool all);
/* Unmaps about so many bytes, the oldest first. Returns how many; 0: nothing is kept. Any thread. */
size_t kept_give(size_t bytes);
/* How much is kept, or about to be. */
size_t kept_held(void);
/* Those kept just now, and what of them is in memory. */
size_t kept_bytes(void);
size_t kept_resident(void);

#endif
