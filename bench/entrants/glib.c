/* GLib's GThreadPool with threads of its own. It takes pointers and has no wait, so this uses records and a fence. */
#include "fence.h"
#include "records.h"

#include <glib.h>

struct glib_pool {
    GThreadPool *pool;
    unsigned workers;
    struct fence fence;
    struct records records;
};

static void run(gpointer data, gpointer user_data) {
    (void)user_data;
    record_run((struct record *)data);
}

static void *create(const struct entrant_config *config) {
    struct glib_pool *self = (struct glib_pool *)calloc(1, sizeof *self);
    if (self == NULL || fence_init(&self->fence, config->workers) != 0) {
        free(self);
        return NULL;
    }
    self->workers = config->workers;
    records_init(&self->records, sizeof(struct record), config->payload_max < 8 ? 8 : config->payload_max);
    self->pool = g_thread_pool_new(run, NULL, (gint)config->workers, TRUE, NULL);
    if (self->pool != NULL) return self;
    free(self);
    return NULL;
}

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    struct glib_pool *self = (struct glib_pool *)pool;
    struct record *record = records_fill(&self->records, fn, payload, size);
    if (record == NULL) return -1;
    return g_thread_pool_push(self->pool, record, NULL) ? 0 : -1;
}

static int wait(void *pool) {
    struct glib_pool *self = (struct glib_pool *)pool;
    struct fence *fence = &self->fence;
    for (unsigned i = 0; i < self->workers; i++) {
        if (submit(self, fence_job, &fence, sizeof fence) != 0) return -1;
    }
    fence_meet(fence);
    records_reset(&self->records);
    return 0;
}

static void destroy(void *pool) {
    struct glib_pool *self = (struct glib_pool *)pool;
    g_thread_pool_free(self->pool, FALSE, TRUE);
    records_free(&self->records);
    free(self);
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_NESTED,
    .name = "glib",
    .text = "GLib GThreadPool, exclusive threads, jobs in the caller's memory",
    .workers_min = 1,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
