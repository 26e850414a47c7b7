/* weft, W workers; the caller only waits. */
#include "weft_pool.h"

static void *create(const struct entrant_config *config) {
    return weft_entry_create(config, config->workers, WEFT_POOL_NO_HELP);
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_OURS | ENTRANT_NESTED,
    .name = "weft",
    .text = "weft, W workers beside the caller",
    .workers_min = 1,
    .create = create,
    .submit = weft_entry_submit,
    .wait = weft_entry_wait,
    .destroy = weft_entry_destroy,
};
