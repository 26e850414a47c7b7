/* weft, W workers and a caller that runs nothing (WEFT_POOL_NO_HELP): weft_for, handed to a worker. */
#include "../entrants/weft_pool.h"
#include "../patterns.h"

static void *create(const struct entrant_config *config) {
    return weft_entry_create(config, config->workers, WEFT_POOL_NO_HELP);
}

static int loop(void *pool, const struct pattern_loop *loop) {
    weft_range range = {0, loop->n, 0};
    return weft_for(((struct weft_entry *)pool)->pool, range, loop->body, loop->context);
}

const struct patterns weft_patterns = {
    .version = PATTERNS_VERSION,
    .flags = ENTRANT_OURS,
    .name = "weft-no-help",
    .text = "weft: weft_for; W workers and a caller that runs nothing",
    .workers_min = 1,
    .create = create,
    .destroy = weft_entry_destroy,
    .loop = loop,
};
