/* kept.h: freed mappings that are kept for a while, to be used again instead of new ones. Layer 2. */
#ifndef WEFT_KEPT_H
#define WEFT_KEPT_H

#include "os.h"

/* Whether a mapping of that many bytes serves where `wanted` are: it is at most an eighth too large. */
INLINE bool kept_fits(size_t bytes, size_t wanted) { return bytes >= wanted && bytes - wanted <= wanted / 8; }

/* Takes a mapping at a multiple of SEGMENT_BYTES, a multiple of SLOT_BYTES long, that is the caller's, so that all that
 * are kept together are at most `most` bytes; older ones are unmapped for it. false: they would be more; it stays the
 * caller's. Any thread. */
bool kept_put(char *start, size_t bytes, size_t most);
/* The smallest that fits: it is the caller's, what was written there before still in it. NULL: none. Any thread. */
char *kept_take(size_t wanted, size_t *bytes);
/* Unmaps those that were there at the last call too, or all. Returns the bytes. Any thread. */
size_t kept_purge(bool all);
/* Those kept just now, and what of them is in memory. */
size_t kept_bytes(void);
size_t kept_resident(void);

#endif
