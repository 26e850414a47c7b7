/* libwebp on a weft pool. Its interface for workers is exported, but no package has the header: include it from libwebp's
 * source.
 *
 *     #include "src/utils/thread_utils.h"
 *     #include <hooks/webp.h>
 *     weft_webp_install(pool);     before the first encode or decode; `pool` must outlive the last one
 *     weft_webp_install_late();    or this, for the process's pool
 *
 * It applies to encoders and decoders that ask for threads (WebPConfig.thread_level, WebPDecoderOptions.use_threads, cwebp
 * -mt). workers.h says what takes the place of a thread, and why only one of your source files may include this. */
#ifndef WEFT_HOOKS_WEBP_H
#define WEFT_HOOKS_WEBP_H

typedef WebPWorker hook_worker;
#include "workers.h"

static inline int weft_webp_set(void) {
    const WebPWorkerInterface workers = {hook_worker_init,   hook_worker_reset,   hook_worker_sync,
                                         hook_worker_launch, hook_worker_execute, hook_worker_end};
    return WebPSetWorkerInterface(&workers);
}

/* Returns nonzero if libwebp has accepted it. */
static inline int weft_webp_install(weft_pool *pool) {
    hook_workers_given = pool;
    return pool != NULL && weft_webp_set();
}

/* The same with the process's pool, which is made when libwebp first has work for a thread. 0: libwebp has not accepted it,
 * or the environment's settings are wrong. If the pool cannot be made, the work runs on the calling thread. */
static inline int weft_webp_install_late(void) {
    hook_workers_given = NULL;
    return hook_late_can_be() && weft_webp_set();
}

#endif
