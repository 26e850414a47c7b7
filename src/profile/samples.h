/* samples.h: stacks, what each of them allocated, and the files that hold their code. Layer 3. */
#ifndef WEFT_PROFILE_SAMPLES_H
#define WEFT_PROFILE_SAMPLES_H

#include "os/os.h"

#define OBJECT_PARTS 256 /* objects are counted in parts of this size */

enum total { ALLOCATED_PARTS, ALLOCATED_BYTES, LIVE_PARTS, LIVE_BYTES, TOTALS };

/* The calls that led to an allocation. Its totals are estimates: each sample stands for a number of allocations. */
struct stack {
    struct stack *chained; /* the next one in its hash list */
    struct stack *older;
    uint64_t hash;
    ATOMIC(uint64_t) total[TOTALS];
    size_t count;
    uintptr_t frames[]; /* return addresses, the innermost first */
};

struct module {
    struct module *older;
    struct os_module os; /* cut off after its path */
};

/* The newest one; `older` leads to all others. They never change, except for the totals. Any thread, signal handlers too. */
const struct stack *samples_stacks(void);
const struct module *samples_modules(void);
/* How many samples were lost for want of memory. */
uint64_t samples_lost(void);

/* Starts sampling; the first call makes what is needed. WEFT_OK; WEFT_ENOMEM; WEFT_EBUSY: checked mode is on; WEFT_EFORK: a
 * fork has torn the tables. Any thread. */
int samples_start(uint64_t interval_bytes, uint64_t seed);
/* Takes no new samples. WEFT_OK; WEFT_EINVAL: none were ever taken. */
int samples_stop(void);

#endif
