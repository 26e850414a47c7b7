/* mode.c: see mode.h. */
#include "heap/mode.h"

PROCESS_STATE struct heap_mode heap_mode;

void mode_secret(void) { heap_mode.secret = os_entropy(); }

void mode_begin(bool secure) {
    store_rlx(&heap_mode.secure, secure);
    store_rlx(&heap_mode.checks, true);
    if (sizeof heap_mode % os_page_size() == 0) os_seal(&heap_mode, sizeof heap_mode);
}

unsigned mode_random_bit(uint64_t *drawn, uint64_t bits) {
    uint32_t skip = mode_random_below(drawn, (uint32_t)__builtin_popcountll(bits));
    while (skip-- > 0) bits &= bits - 1;
    return (unsigned)__builtin_ctzll(bits);
}
