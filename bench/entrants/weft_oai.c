/* weft behind OpenAirInterface's task manager, as its programs use it: W threads; each task completes its answer, and the
 * caller joins the answers. */
#include "records.h"
#include "task_manager.h"

#include <weft.h>

#define ANSWERS 64u /* tasks of one join */

struct oai {
    ws_task_manager_t manager;
    struct records records;
    task_ans_t answers[ANSWERS];
    unsigned open;
};

/* Lies before the payload. */
struct oai_job {
    struct record record;
    task_ans_t *answer;
    uint64_t unused; /* keeps the payload aligned to 16 */
};

static void destroy(void *pool) {
    struct oai *self = (struct oai *)pool;
    free_ws_task_manager(&self->manager, NULL);
    records_free(&self->records);
    free(self);
}

static void *create(const struct entrant_config *config) {
    struct oai *self = (struct oai *)aligned_alloc(64, (sizeof *self + 63u) & ~(size_t)63u);
    if (self == NULL) return NULL;
    memset(self, 0, sizeof *self);
    records_init(&self->records, sizeof(struct oai_job), config->payload_max);
    int floating[WEFT_WORKERS_MAX];
    for (unsigned i = 0; i < WEFT_WORKERS_MAX; i++) floating[i] = -1;
    init_ws_task_manager(&self->manager, floating, config->workers);
    return self;
}

static void run(void *args) {
    struct oai_job *job = (struct oai_job *)args;
    job->record.fn(job + 1, NULL);
    completed_task_ans(job->answer);
}

static int wait(void *pool) {
    struct oai *self = (struct oai *)pool;
    join_task_ans(self->answers, self->open);
    memset(self->answers, 0, self->open * sizeof self->answers[0]);
    self->open = 0;
    records_reset(&self->records);
    return 0;
}

static int submit(void *pool, entrant_fn fn, const void *payload, size_t size) {
    struct oai *self = (struct oai *)pool;
    if (self->open == ANSWERS) wait(pool);
    struct oai_job *job = (struct oai_job *)records_take(&self->records);
    if (job == NULL) return -1;
    job->record.fn = fn;
    job->answer = &self->answers[self->open++];
    memcpy(job + 1, payload, size);
    async_ws_task_manager(&self->manager, (task_t){.args = job, .func = run});
    return 0;
}

const struct entrant weft_entrant = {
    .version = ENTRANT_VERSION,
    .flags = ENTRANT_OURS | ENTRANT_NESTED,
    .name = "weft-oai",
    .text = "weft behind OpenAirInterface's task manager, joined by answers",
    .workload = "slot",
    .workers_min = 1,
    .create = create,
    .submit = submit,
    .wait = wait,
    .destroy = destroy,
};
