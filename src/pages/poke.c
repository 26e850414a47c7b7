/* poke.c: see poke.h.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   W4  purge_poke: light fence  light    W5  the thread sleeps while memory waits to be given back
 *   W6  purge_wake: CAS word     relaxed  -   split: a change is overwritten, and its join never ends
 *   W7  purge_turned: CAS turns  relaxed  -   split: what was made meanwhile stays until something else is made
 */
#include "pages/poke.h"

PROCESS_STATE os_word purge_word;
PROCESS_STATE turn_count purge_turns;

void purge_wake(void) {
    uint32_t found = purge_word_of(PURGE_ASLEEP);
    if (cas_rlx(W6, &purge_word, &found, purge_word_of(PURGE_AWAKE))) os_wake(&purge_word, 1);
}

void purge_turned(void) {
    uint32_t left = load_rlx(&purge_turns);
    if (left != 0) cas_rlx(W7, &purge_turns, &left, left - 1);
}

void purge_poke(void) {
    if (load_rlx(&purge_turns) != POKE_TURNS) store_rlx(&purge_turns, POKE_TURNS);
    if (LIKELY((load_rlx(&purge_word) & PURGE_MASK) == PURGE_NONE)) return;
    os_fence_light(W4);
    if (load_rlx(&purge_word) == purge_word_of(PURGE_ASLEEP)) purge_wake();
}
