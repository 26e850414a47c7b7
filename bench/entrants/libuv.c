/* libuv's uv_queue_work: requests lie in the caller's memory, and the caller's loop delivers completions. */
#include "records.h"

#include <stdio.h>
#include <uv.h>

struct request {
    uv_work_t work;
    struct record record; /* the payload follows it */
};

struct uv_pool {
    uv_loop_t loop;
    struct records records;
};

static void run(uv_work_t *work) { record_run(&((struct request *)work)->record); }

static void after(uv_work_t *work, int status) {
    (void)work;
    (void)status;
}

static void *create(const struct entrant_config *config) {
    struct uv_pool *self = (struct uv_pool *)calloc(1, sizeof *self);
    char workers[16];
    snprintf(workers, sizeof workers, "%u", config->workers);
    if (self == NULL || setenv("UV_THREADPOOL_SIZE", workers, 1) != 0 || uv_loop_init(&self->loop) != 0) {
        free(self);
        return NULL;
    }
    records_init(&self->records, sizeof(struct request), config->payload_max);
    return self;
}

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    struct uv_pool *self = (struct uv_pool *)pool;
    struct request *request = (struct request *)records_take(&self->records);
    if (request == NULL) return -1;
    request->record.fn = fn;
    memcpy(record_payload(&request->record), payload, size);
    return uv_queue_work(&self->loop, &request->work, run, after);
}

static int wait(void *pool) {
    struct uv_pool *self = (struct uv_pool *)pool;
    int result = uv_run(&self->loop, UV_RUN_DEFAULT);
    records_reset(&self->records);
    return result;
}

static void destroy(void *pool) {
    struct uv_pool *self = (struct uv_pool *)pool;
    uv_loop_close(&self->loop);
    records_free(&self->records);
    free(self);
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .name = "libuv",
    .text = "libuv uv_queue_work, requests in the caller's memory",
    .workers_min = 1,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
