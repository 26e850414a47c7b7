/* write.h: a profile in the forms that tools read. Layer 3. Safe in signal handlers. */
#ifndef WEFT_PROFILE_WRITE_H
#define WEFT_PROFILE_WRITE_H

#include "profile/samples.h"

/* The addresses in all stacks, each once, in memory of its own. */
struct address {
    uintptr_t address; /* 0: none */
    char *name;        /* NULL: not looked up yet */
};
struct addresses {
    struct address *entries;
    size_t room; /* a power of two */
};
/* false: no memory. */
bool addresses_make(struct addresses *addresses, const struct stack *newest);
void addresses_end(struct addresses *addresses);
struct address *addresses_find(const struct addresses *addresses, uintptr_t address);

/* Each writes all stacks to the descriptor. A WEFT_* code: WEFT_ENOMEM; WEFT_EINVAL: a write failed. */
int pprof_write(int fd, uint64_t interval_bytes);
/* One line for each stack: names from the outermost call on, then its value of that total. */
int folded_write(int fd, enum total total);

#endif
