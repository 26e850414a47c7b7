/* fftw.c: a complex transform of 512 x 512. */
#include "hooks.h"

#ifdef MISSING_FFTW
const library library_fftw = {.name = "fftw", .missing = MISSING_FFTW};
#else
#include <fftw3.h>
#include <hooks/fftw.h>

enum { SIDE = 512 };
static fftw_complex *in, *out;
static fftw_plan plan;

static void start(weft_pool *pool, int threads) {
    uint32_t state = 1;
    REQUIRE(fftw_init_threads() != 0);
    if (pool != NULL) fftw_threads_set_callback(weft_fftw_loop, pool);
    fftw_plan_with_nthreads(threads);
    in = fftw_alloc_complex((size_t)SIDE * SIDE);
    out = fftw_alloc_complex((size_t)SIDE * SIDE);
    REQUIRE(in != NULL && out != NULL);
    plan = fftw_plan_dft_2d(SIDE, SIDE, in, out, FFTW_FORWARD, FFTW_ESTIMATE);
    REQUIRE(plan != NULL);
    for (int i = 0; i < SIDE * SIDE; i++) {
        in[i][0] = noise(&state);
        in[i][1] = noise(&state);
    }
}

static uint64_t transform(void) {
    for (int i = 0; i < 3; i++) fftw_execute(plan);
    return digest(0, out, sizeof *out * SIDE * SIDE / 8);
}

static void stop(void) {
    fftw_destroy_plan(plan);
    fftw_threads_set_callback(NULL, NULL);
    fftw_free(in);
    fftw_free(out);
    fftw_cleanup_threads();
}

const library library_fftw = {.name = "fftw", .open = start, .run = transform, .close = stop};
#endif
