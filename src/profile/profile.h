/* profile.h: the room's door: who holds memory, known from samples of the allocations. Layer 3.
 *
 * profile/ is the sampler to which the heap reports its samples (heap/sampling.h); its public functions are in weft.h. What
 * may not be touched: samples begin and end in the middle of allocations of any thread, so nothing here allocates except
 * from a private heap. And what is recorded is never taken back while the process lives, because a thread that writes a
 * profile reads it without a lock, even in a signal handler. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include "heap/memory.h"
#include "os/os.h"

/* Whether no sample was ever taken. */
bool profile_is_empty(void);

#endif
