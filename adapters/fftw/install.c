/* FFTW on the process's pool, in programs that are not changed: linked in before FFTW's threads, this is installed before
 * main. It is for double precision; -DFFTW_SINGLE makes it for programs that use floats.
 *
 * Compiled with -I of weft's include and of adapters. If the environment's settings are wrong, FFTW keeps its own threads.
 * The program still chooses how many parts a transform has (fftw_plan_with_nthreads). */
#include <fftw3.h>

#include <hooks/fftw.h>
#include <hooks/late.h>

#ifdef FFTW_SINGLE
#define SET_CALLBACK fftwf_threads_set_callback
#else
#define SET_CALLBACK fftw_threads_set_callback
#endif

/* The first transform in several threads makes the pool: a program may only plan, or never use threads. */
static void loop(void *(*work)(char *), char *data, size_t size, int count, void *nothing) {
    (void)nothing;
    weft_fftw_loop(work, data, size, count, hook_late_pool());
}

__attribute__((constructor)) static void install(void) {
    if (hook_late_can_be()) SET_CALLBACK(loop, NULL);
}
