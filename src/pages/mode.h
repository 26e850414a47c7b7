/* mode.h: which checks the heap makes of every block, for good. Layer 2.
 *
 *   default  none but those that cost nothing (misuse.c)
 *   checked  every block has a mark; what is wrong with it is told (heap_check.c)
 *   secure   the same with less room for what is freed, and made hard to guess: blocks and slabs lie at random places, guards
 *            stand around slabs and large blocks, and canaries are a secret
 *
 * Once a mode has begun, its words are read-only memory, sealed where the system can. */
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
    uint64_t secret; /* secure: of places */
    uint64_t canary; /* secure */
};
extern struct heap_mode heap_mode; /* alone in its page, where pages have MODE_BYTES */

INLINE bool mode_checks(void) { return load_rlx(&heap_mode.checks); }
INLINE bool mode_is_secure(void) { return load_rlx(&heap_mode.secure); }
/* Before the mode begins, in a process with one thread that has a heap. */
void mode_secret(void);
/* It begins, and never ends. */
void mode_begin(bool secure);

/* A number that nobody foresees who does not know the secret. *drawn: how many were drawn of the caller's row. */
INLINE uint64_t mode_random(uint64_t *drawn) {
    uint64_t mixed = (heap_mode.secret | 1) * ++*drawn + (heap_mode.secret >> 7) + (uint64_t)(uintptr_t)drawn;
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0x9e6c63d0876a9a99);
    mixed = (mixed ^ mixed >> 29) * (heap_mode.secret | 1);
    return mixed ^ mixed >> 32;
}
/* Less than n, which is less than 2^32. */
INLINE uint32_t mode_random_below(uint64_t *drawn, uint32_t n) { return (uint32_t)((mode_random(drawn) >> 32) * n >> 32); }
/* The place of one of the bits, of which there is at least one: of a random place on, the first. */
unsigned mode_random_bit(uint64_t *drawn, uint64_t bits);

#endif
