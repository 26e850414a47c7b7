/* libaom on a weft pool. Its interface for workers is in the static library alone, and no package has the header: include
 * it from libaom's source.
 *
 *     #include "aom_util/aom_thread.h"
 *     #include <hooks/aom.h>
 *     weft_aom_install(pool);     before the first encoder or decoder; `pool` must outlive the last
 *
 * It concerns those who ask for threads (aom_codec_enc_cfg_t.g_threads, aom_codec_dec_cfg_t.threads). Workers take rows
 * and tiles in their order, and wait only for rows that some worker has begun: so fewer threads than workers do. What stands
 * for a thread, and why this file goes into one of yours alone, is in workers.h. */
#ifndef WEFT_HOOKS_AOM_H
#define WEFT_HOOKS_AOM_H

typedef AVxWorker hook_worker;
#include "workers.h"

/* Nonzero when libaom has taken it. */
static inline int weft_aom_install(weft_pool *pool) {
    const AVxWorkerInterface workers = {hook_worker_init,   hook_worker_reset,   hook_worker_sync,
                                        hook_worker_launch, hook_worker_execute, hook_worker_end};
    hook_workers_pool = pool;
    return pool != NULL && aom_set_worker_interface(&workers);
}

#endif
