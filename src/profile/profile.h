/* profile.h: the room's door: who holds memory, told by samples of the allocations. Layer 3.
 *
 * profile/ is the sampler that the heap has its samples told to (heap/sampling.h); its own functions are those of weft.h. What may not
 * be touched: samples are begun and ended in the middle of allocations of any thread, so nothing here allocates but by a private heap,
 * and what is written down is never taken back while the process lives: who writes a profile reads it without a lock, in a
 * signal handler too. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include "heap/memory.h"
#include "os/os.h"

/* No sample was ever taken. */
bool profile_is_empty(void);

#endif
