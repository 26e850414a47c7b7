/* libaom on a weft pool. Its interface for workers is only in the static library, and no package has the header: include it
 * from libaom's source.
 *
 *     #include "aom_util/aom_thread.h"
 *     #include <hooks/aom.h>
 *     weft_aom_install(pool);     before the first encoder or decoder; `pool` must outlive the last one
 *     weft_aom_install_late();    or this, for the process's pool
 *
 * It applies to encoders and decoders that ask for threads (aom_codec_enc_cfg_t.g_threads, aom_codec_dec_cfg_t.threads).
 * Workers take rows and tiles in their order, and wait only for rows that some worker has begun, so fewer threads than
 * workers are enough. workers.h says what takes the place of a thread, and why only one of your source files may include
 * this. */
#ifndef WEFT_HOOKS_AOM_H
#define WEFT_HOOKS_AOM_H

typedef AVxWorker hook_worker;
#include "workers.h"

static inline int weft_aom_set(void) {
    const AVxWorkerInterface workers = {hook_worker_init,   hook_worker_reset,   hook_worker_sync,
                                        hook_worker_launch, hook_worker_execute, hook_worker_end};
    return aom_set_worker_interface(&workers);
}

/* Returns nonzero if libaom has accepted it. */
static inline int weft_aom_install(weft_pool *pool) {
    hook_workers_given = pool;
    return pool != NULL && weft_aom_set();
}

/* The same with the process's pool, which is made when libaom first has work for a thread. 0: libaom has not accepted it, or
 * the environment's settings are wrong. If the pool cannot be made, the work runs on the calling thread. */
static inline int weft_aom_install_late(void) {
    hook_workers_given = NULL;
    return hook_late_can_be() && weft_aom_set();
}

#endif
