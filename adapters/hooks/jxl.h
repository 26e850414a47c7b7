/* JPEG XL on a weft pool:
 *
 *     JxlEncoderSetParallelRunner(encoder, weft_jxl_runner, pool);     or JxlDecoderSetParallelRunner
 *
 * The bytes are the same as with libjxl's own runners; libjxl_threads is not needed. */
#ifndef WEFT_HOOKS_JXL_H
#define WEFT_HOOKS_JXL_H

#include <jxl/parallel_runner.h>

#include "jobs.h"

typedef struct weft_jxl_jobs {
    hook_jobs jobs;
    JxlParallelRunFunction func;
    void *opaque;
    uint32_t start;
} weft_jxl_jobs;

static inline void weft_jxl_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    const weft_jxl_jobs *jxl = (const weft_jxl_jobs *)jobs;
    jxl->func(jxl->opaque, jxl->start + (uint32_t)index, slot);
}

/* A JxlParallelRunner; `pool` is a weft_pool. */
static inline JxlParallelRetCode weft_jxl_runner(void *pool, void *opaque, JxlParallelRunInit init,
                                                 JxlParallelRunFunction func, uint32_t start, uint32_t end) {
    if (start > end) return JXL_PARALLEL_RET_RUNNER_ERROR;
    if (start == end) return 0;
    const unsigned workers = weft_pool_workers((weft_pool *)pool), slots = workers > 0 ? workers : 1;
    JxlParallelRetCode error = init(opaque, slots);
    if (error != 0) return error;
    weft_jxl_jobs jxl = {{weft_jxl_run, end - start, 0}, func, opaque, start};
    hook_run((weft_pool *)pool, &jxl.jobs, slots);
    return 0;
}

#endif
