/* played.h: a pool whose one worker is played by the driver's threads. */
#ifndef WEFT_EXPLORE_PLAYED_H
#define WEFT_EXPLORE_PLAYED_H

#include "explore.h"
#include "front.h"

/* One worker without its thread, no spares, nobody spins. */
INLINE weft_pool *pool_played(weft_config *config) {
    EXPECT(weft_config_init(config) == WEFT_OK);
    config->workers = 1;
    config->spares = 0;
    config->spin_ns = WEFT_SPIN_NONE;
    weft_pool *pool = pool_make(config);
    EXPECT(pool != NULL);
    return pool;
}

#endif
