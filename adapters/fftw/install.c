/* FFTW on the process's pool, in programs that stay as they are: linked to one before FFTW's threads, this is installed
 * before main. In double precision; -DFFTW_SINGLE for programs of floats.
 *
 * Compiled with -I of weft's include and of adapters. Without a pool, as where the environment's settings are wrong, FFTW
 * keeps its own threads. How many parts a transform has stays the program's choice (fftw_plan_with_nthreads). */
#include <fftw3.h>

#include <hooks/fftw.h>

#ifdef FFTW_SINGLE
#define SET_CALLBACK fftwf_threads_set_callback
#else
#define SET_CALLBACK fftw_threads_set_callback
#endif

__attribute__((constructor)) static void install(void) {
    weft_pool *pool;
    if (weft_pool_default(&pool) == WEFT_OK) SET_CALLBACK(weft_fftw_loop, pool);
}
