/* fiber.h: coroutines on one OS thread. */
#ifndef WEFT_EXPLORE_FIBER_H
#define WEFT_EXPLORE_FIBER_H

#include <stdbool.h>
#include <stddef.h>

struct fiber {
    void *stack_pointer;
    void *stack; /* lowest byte; NULL for the one that started as the OS thread */
    size_t size;
    void *shadow;        /* AddressSanitizer's */
    void (*entry)(void); /* for AddressSanitizer's first landing */
};

/* A stack with an unmapped page below it, kept for many fibres one after the other. */
bool fiber_stack(struct fiber *fiber);
/* Starts again with `entry`, which must never return. */
void fiber_reset(struct fiber *fiber, void (*entry)(void));
/* Runs `to` until something switches back to `from`; `last`: nothing will. */
void fiber_switch(struct fiber *from, struct fiber *to, bool last);

#endif
