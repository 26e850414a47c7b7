/* FFTW on the process's pool, in programs that stay as they are: linked to one before FFTW's threads, this is installed
 * before main. In double precision; -DFFTW_SINGLE for programs of floats.
 *
 * Compiled with -I of weft's include and of adapters. Where the environment's settings are wrong, FFTW keeps its own
 * threads. How many parts a transform has stays the program's choice (fftw_plan_with_nthreads). */
#include <fftw3.h>

#include <hooks/fftw.h>
#include <hooks/late.h>

#ifdef FFTW_SINGLE
#define SET_CALLBACK fftwf_threads_set_callback
#else
#define SET_CALLBACK fftw_threads_set_callback
#endif

/* The pool is made by the first transform in several threads: a program may only plan, or have none. */
static void loop(void *(*work)(char *), char *data, size_t size, int count, void *nothing) {
    (void)nothing;
    weft_fftw_loop(work, data, size, count, hook_late_pool());
}

__attribute__((constructor)) static void install(void) {
    if (hook_late_can_be()) SET_CALLBACK(loop, NULL);
}
