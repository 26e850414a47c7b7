/* Blosc2 on a weft pool (for versions that have blosc2_set_threads_callback):
 *
 *     blosc2_set_threads_callback(weft_blosc2_loop, pool);     before any other call of Blosc2
 *
 * Set nthreads of the contexts as before. Compressed data is as long as with Blosc2's own threads and holds the same blocks.
 * With either, the order of the blocks is that in which threads finished. */
#ifndef WEFT_HOOKS_BLOSC2_H
#define WEFT_HOOKS_BLOSC2_H

#include "jobs.h"

typedef struct weft_blosc2_jobs {
    hook_jobs jobs;
    void (*work)(void *);
    char *data;
    size_t size;
} weft_blosc2_jobs;

static inline void weft_blosc2_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    const weft_blosc2_jobs *blosc = (const weft_blosc2_jobs *)jobs;
    (void)slot;
    blosc->work(blosc->data + index * blosc->size);
}

/* For blosc2_set_threads_callback; `pool` is a weft_pool. */
static inline void weft_blosc2_loop(void *pool, void (*work)(void *), int count, size_t size, void *data) {
    weft_blosc2_jobs blosc = {{weft_blosc2_run, count > 0 ? (size_t)count : 0, 0}, work, (char *)data, size};
    hook_run((weft_pool *)pool, &blosc.jobs, blosc.jobs.count);
}

#endif
