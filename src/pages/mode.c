/* mode.c: see mode.h. */
#include "pages/mode.h"

PROCESS_STATE struct heap_mode heap_mode;

void mode_secret(void) {
    heap_mode.secret = os_entropy();
    heap_mode.canary = os_entropy(); /* separate: an attacker who reads beyond a block learns only this one */
}

void mode_begin(bool secure) {
    store_rlx(&heap_mode.secure, secure);
    store_rlx(&heap_mode.checks, true);
    if (sizeof heap_mode % os_page_size() == 0) os_seal(&heap_mode, sizeof heap_mode);
}

unsigned mode_random_bit(uint64_t *drawn, uint64_t bits) {
    unsigned by = (unsigned)(mode_random(drawn) & 63);
    uint64_t turned = bits >> by | bits << (-by & 63);
    return ((unsigned)__builtin_ctzll(turned) + by) & 63;
}
