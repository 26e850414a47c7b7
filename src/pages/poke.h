/* poke.h: the purge thread's state word, and how threads that free memory wake it. The protocol is in heap_purge.c. Layer 2. */
#ifndef WEFT_POKE_H
#define WEFT_POKE_H

#include "os/os.h"

enum { PURGE_NONE, PURGE_AWAKE, PURGE_ASLEEP, PURGE_CHANGING, PURGE_STOPPING, PURGE_BITS = 3, PURGE_MASK = 7 };

extern os_word purge_word;
/* This process's word, and what a word means in it. */
INLINE uint32_t purge_word_of(uint32_t state) { return (uint32_t)os_fork_count() << PURGE_BITS | state; }

/* There is something to give back: the purge thread, if there is one, may not sleep. Any thread. */
void purge_poke(void);
/* Wakes it, should it sleep. */
void purge_wake(void);

#endif
