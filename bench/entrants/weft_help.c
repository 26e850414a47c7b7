/* weft, W - 1 workers and the caller, which helps while it waits. */
#include "weft_pool.h"

static void *create(const struct entrant_config *config) { return weft_entry_create(config, config->workers - 1, 0); }

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_OURS | ENTRANT_NESTED | ENTRANT_CALLER_RUNS,
    .name = "weft-help",
    .text = "weft, W - 1 workers and a caller that helps while it waits",
    .workers_min = 2,
    .create = create,
    .submit = weft_entry_submit,
    .wait = weft_entry_wait,
    .destroy = weft_entry_destroy,
};
