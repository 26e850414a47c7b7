/* No pool: submit calls the job. The baseline of every efficiency. */
#include "../entrant.h"

#include <string.h>

/* Room, aligned to 16 bytes, for the copy that every pool makes. */
static union {
    unsigned char bytes[1 << 16];
    long double align;
} copy;

static void *create(const struct entrant_config *config) { return config->workers == 1 ? &copy : NULL; }

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    (void)pool;
    memcpy(copy.bytes, payload, size);
    return fn(copy.bytes, NULL);
}

static int wait(void *pool) {
    (void)pool;
    return 0;
}

static void destroy(void *pool) { (void)pool; }

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_CALLER_RUNS | ENTRANT_NESTED,
    .name = "serial",
    .text = "no pool: each job is called where it is submitted",
    .workers_min = 1,
    .workers_max = 1,
    .payload_max = sizeof copy.bytes,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
