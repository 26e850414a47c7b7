/* OpenMP tasks, made by one thread of a parallel region; the same file is built for gcc's and LLVM's runtime. The region's
 * end waits for the tasks, and the caller is one of its W threads. */
#include "records.h"

struct omp_pool {
    int workers;
    struct records records;
};

struct small {
    unsigned char bytes[16];
};
struct middle {
    unsigned char bytes[64];
};

static void *create(const struct entrant_config *config) {
    struct omp_pool *self = (struct omp_pool *)calloc(1, sizeof *self);
    if (self == NULL) return NULL;
    self->workers = (int)config->workers;
    records_init(&self->records, sizeof(struct record), config->payload_max);
    return self;
}

static int enter(void *pool, void (*body)(void *), void *arg) {
#pragma omp parallel num_threads(((struct omp_pool *)pool)->workers)
#pragma omp single
    body(arg);
    return 0;
}

static int submit_small(entrant_fn fn, const void *payload, size_t size) {
    struct small copy;
    memcpy(copy.bytes, payload, size);
#pragma omp task firstprivate(fn, copy)
    fn(copy.bytes, NULL);
    return 0;
}

static int submit_middle(entrant_fn fn, const void *payload, size_t size) {
    struct middle copy;
    memcpy(copy.bytes, payload, size);
#pragma omp task firstprivate(fn, copy)
    fn(copy.bytes, NULL);
    return 0;
}

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    if (size <= sizeof(struct small)) return submit_small(fn, payload, size);
    if (size <= sizeof(struct middle)) return submit_middle(fn, payload, size);
    struct record *record = records_fill(&((struct omp_pool *)pool)->records, fn, payload, size);
    if (record == NULL) return -1;
#pragma omp task firstprivate(record)
    record_run(record);
    return 0;
}

static int wait(void *pool) {
    records_reset(&((struct omp_pool *)pool)->records);
    return 0; /* the region's end has waited */
}

static void destroy(void *pool) {
    records_free(&((struct omp_pool *)pool)->records);
    free(pool);
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_CALLER_RUNS | ENTRANT_INSIDE_ONLY | ENTRANT_NESTED | ENTRANT_FORK_JOIN | ENTRANT_SPINS,
    .name = OPENMP_NAME,
    .text = OPENMP_TEXT,
    .workers_min = 1,
    .create = create,
    .enter = enter,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
