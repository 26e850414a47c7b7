/* An entrant that loses a job and says that it has run it: the race must detect that. */
#include "../entrant.h"

static int lost;

static void *create(const struct entrant_config *config) { return config->workers != 0 ? &lost : NULL; }

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    unsigned char copy[2048];
    (void)pool;
    for (size_t i = 0; i < size && i < sizeof copy; i++) copy[i] = ((const unsigned char *)payload)[i];
    if (++lost == 7) return 0;
    return fn(copy, NULL);
}

static int wait(void *pool) {
    (void)pool;
    return 0;
}

static void destroy(void *pool) { (void)pool; }

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .name = "liar",
    .text = "loses one job",
    .workers_min = 1,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
