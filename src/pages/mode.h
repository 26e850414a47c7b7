/* mode.h: which checks the heap makes of every block; once chosen, for good. Layer 2.
 *
 *   default  only those that cost nothing (misuse.c)
 *   checked  every block has a mark; every misuse found is reported (heap_check.c)
 *   secure   as checked, with less room for freed blocks, and hard to guess: blocks and slabs lie at random places, guards
 *            stand around slabs and large blocks, and canaries are a secret
 *
 * Once a mode has begun, its words are in read-only memory, sealed where the system can. */
#ifndef WEFT_HEAP_MODE_H
#define WEFT_HEAP_MODE_H

#include "os/os.h"

#if defined(WEFT_EXPLORE)
#define MODE_BYTES CACHE_LINE /* nothing is sealed */
#else
#define MODE_BYTES 4096
#endif

struct heap_mode {
    ALIGNED(MODE_BYTES) ATOMIC(bool) checks; /* checked or secure: no block is cached, each has a mark */
    ATOMIC(bool) secure;
    uint64_t secret; /* secure: for random places */
    uint64_t canary; /* secure */
};
extern struct heap_mode heap_mode; /* alone in its page, if pages have MODE_BYTES */

INLINE bool mode_checks(void) { return load_rlx(&heap_mode.checks); }
INLINE bool mode_is_secure(void) { return load_rlx(&heap_mode.secure); }
/* Draws the secrets. Call it before the mode begins, while only one thread of the process has a heap. */
void mode_secret(void);
/* Begins the mode, which never ends. */
void mode_begin(bool secure);

/* A number that cannot be predicted without the secret. *drawn: how many numbers the caller's sequence has drawn so far. */
INLINE uint64_t mode_random(uint64_t *drawn) {
    uint64_t mixed = (heap_mode.secret | 1) * ++*drawn + (heap_mode.secret >> 7) + (uint64_t)(uintptr_t)drawn;
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0x9e6c63d0876a9a99);
    mixed = (mixed ^ mixed >> 29) * (heap_mode.secret | 1);
    return mixed ^ mixed >> 32;
}
/* A random number below n; n is less than 2^32. */
INLINE uint32_t mode_random_below(uint64_t *drawn, uint32_t n) { return (uint32_t)((mode_random(drawn) >> 32) * n >> 32); }
/* The position of one of the bits, of which at least one is set: the first one at or after a random position, cyclically. */
unsigned mode_random_bit(uint64_t *drawn, uint64_t bits);

#endif
