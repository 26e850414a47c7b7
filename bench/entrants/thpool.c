/* C-Thread-Pool: takes a pointer, so the payload lies in the caller's memory. */
#include "records.h"

#include <cthreadpool/thpool.h>

struct thpool_entry {
    threadpool pool;
    struct records records;
};

static void run(void *record) { record_run((struct record *)record); }

static void *create(const struct entrant_config *config) {
    struct thpool_entry *self = (struct thpool_entry *)calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    records_init(&self->records, sizeof(struct record), config->payload_max);
    self->pool = thpool_init((int)config->workers);
    if (self->pool != NULL) return self;
    free(self);
    return NULL;
}

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    struct thpool_entry *self = (struct thpool_entry *)pool;
    struct record *record = records_fill(&self->records, fn, payload, size);
    return record == NULL ? -1 : thpool_add_work(self->pool, run, record);
}

static int wait(void *pool) {
    struct thpool_entry *self = (struct thpool_entry *)pool;
    thpool_wait(self->pool);
    records_reset(&self->records);
    return 0;
}

static void destroy(void *pool) {
    struct thpool_entry *self = (struct thpool_entry *)pool;
    thpool_destroy(self->pool);
    records_free(&self->records);
    free(self);
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_NESTED,
    .name = "c-thread-pool",
    .text = "C-Thread-Pool (thpool), jobs in the caller's memory",
    .workers_min = 1,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
