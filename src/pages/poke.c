/* poke.c: see poke.h.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   W4  purge_poke: light fence  light    W5  the thread sleeps while memory waits to be given back
 *   W6  purge_wake: CAS word     relaxed  -   split: a change is overwritten, and its join never ends
 */
#include "pages/poke.h"

PROCESS_STATE os_word purge_word;

void purge_wake(void) {
    uint32_t found = purge_word_of(PURGE_ASLEEP);
    if (cas_rlx(W6, &purge_word, &found, purge_word_of(PURGE_AWAKE))) os_wake(&purge_word, 1);
}

void purge_poke(void) {
    if (LIKELY((load_rlx(&purge_word) & PURGE_MASK) == PURGE_NONE)) return;
    os_fence_light(W4);
    if (load_rlx(&purge_word) == purge_word_of(PURGE_ASLEEP)) purge_wake();
}
