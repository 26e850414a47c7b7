/* publish.h: a pool's counters in a file while it runs. Layer 7. By the pool's looking thread, and by who makes and ends it while
 * there is none. */
#ifndef WEFT_PUBLISH_H
#define WEFT_PUBLISH_H

#include "observe/observe.h"

#define PUBLISH_NS UINT64_C(250000000) /* from one writing to the next */

struct publisher {
    uint64_t number;       /* of the next writing */
    weft_heap_counts heap; /* as of some writings ago */
};

/* If the configuration asks for it. WEFT_OK; WEFT_EINVAL: the directory takes no file; WEFT_ENOMEM. */
int publish_start(weft_pool *pool);
/* Writes it anew. What it cannot write it tells, and ends. */
void publish(weft_pool *pool, struct publisher *own);
void publish_end(weft_pool *pool);

#endif
