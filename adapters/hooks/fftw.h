/* FFTW on a weft pool, in any precision (tested with 3.3.10):
 *
 *     fftw_init_threads();
 *     fftw_threads_set_callback(weft_fftw_loop, pool);
 *     fftw_plan_with_nthreads((int)weft_pool_workers(pool));
 *
 * A plan's output is the same as with FFTW's own threads. `pool` must live until the callback is reset to NULL. */
#ifndef WEFT_HOOKS_FFTW_H
#define WEFT_HOOKS_FFTW_H

#include "jobs.h"

typedef struct weft_fftw_jobs {
    hook_jobs jobs;
    void *(*work)(char *);
    char *data;
    size_t size;
} weft_fftw_jobs;

static inline void weft_fftw_run(const hook_jobs *jobs, size_t index, unsigned slot) {
    const weft_fftw_jobs *fftw = (const weft_fftw_jobs *)jobs;
    (void)slot;
    fftw->work(fftw->data + index * fftw->size);
}

/* For fftw_threads_set_callback; `pool` is a weft_pool. */
static inline void weft_fftw_loop(void *(*work)(char *), char *data, size_t size, int count, void *pool) {
    weft_fftw_jobs fftw = {{weft_fftw_run, count > 0 ? (size_t)count : 0, 0}, work, data, size};
    hook_run((weft_pool *)pool, &fftw.jobs, fftw.jobs.count);
}

#endif
