/* heap_rest.h: what a pool asks of the heap beyond weft.h. Layer 2. */
#ifndef WEFT_HEAP_REST_H
#define WEFT_HEAP_REST_H

/* Gives back all that no block needs, the calling thread's cache too. Nobody works: what is needed again costs page faults. */
void heap_rest(void);

#endif
