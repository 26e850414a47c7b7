/* samples.h: stacks, what was allocated by each, and the files that they lead through. Layer 3. */
#ifndef WEFT_PROFILE_SAMPLES_H
#define WEFT_PROFILE_SAMPLES_H

#include "os/os.h"

#define OBJECT_PARTS 256 /* in which objects are counted */

enum total { ALLOCATED_PARTS, ALLOCATED_BYTES, LIVE_PARTS, LIVE_BYTES, TOTALS };

/* Calls that allocated. What it has of each total is estimated: each sample stands for the allocations that were none. */
struct stack {
    struct stack *chained; /* of those with like hashes */
    struct stack *older;
    uint64_t hash;
    ATOMIC(uint64_t) total[TOTALS];
    size_t count;
    uintptr_t frames[]; /* return addresses, the innermost first */
};

struct module {
    struct module *older;
    struct os_module os; /* cut behind its path */
};

/* The newest, and all that were before it; they stay as they are, but for the totals. Any thread, signal handlers too. */
const struct stack *samples_stacks(void);
const struct module *samples_modules(void);
/* Samples that there was no memory for. */
uint64_t samples_lost(void);

/* The first time makes what is needed. WEFT_OK, WEFT_ENOMEM, or WEFT_EBUSY: every
 * block is checked. Any thread. */
int samples_start(uint64_t interval_bytes, uint64_t seed);
/* No new ones. WEFT_OK; WEFT_EINVAL: none were ever taken. */
int samples_stop(void);

#endif
