/* poke.h: the purge thread's state word, and how threads that free memory wake it. The protocol is in heap_purge.c. Layer 2. */
#ifndef WEFT_POKE_H
#define WEFT_POKE_H

#include "os/os.h"

enum { PURGE_NONE, PURGE_AWAKE, PURGE_ASLEEP, PURGE_CHANGING, PURGE_STOPPING, PURGE_BITS = 3, PURGE_MASK = 7 };

extern os_word purge_word;
/* The word for that state, in this process: a forked child's differ from its parent's. */
INLINE uint32_t purge_word_of(uint32_t state) { return (uint32_t)os_fork_count() << PURGE_BITS | state; }

/* Turns of decay until all that was made so far has gone back. While there are any, threads that work look at the clock
 * (heap_watch.c), whichever thread made it. */
#define POKE_TURNS 4u /* at the second one after; one more for what the first one empties, and one for what crosses a turn */
typedef ATOMIC(uint32_t) turn_count;
extern turn_count purge_turns;

/* Call it after making memory that can be given back, so that a turn takes it, and the purge thread, if there is one, does
 * not sleep on. Any thread. */
void purge_poke(void);
/* Call it after a turn. */
void purge_turned(void);
/* Wakes the purge thread if it sleeps. */
void purge_wake(void);

#endif
