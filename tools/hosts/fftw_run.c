/* fftw_run ROWS COLUMNS THREADS COUNT: COUNT transforms of ROWS x COLUMNS complex numbers on THREADS threads, forth and back
 * in turn; prints what came of the bits. Only FFTW's own interface: what runs the threads is linked beside it. */
#include <fftw3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The same numbers everywhere. */
static void fill(double *numbers, size_t count) {
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = (double)(state >> 40) / 16777216.0 - 0.5;
    }
}

static uint64_t digest(const void *bytes, size_t size) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}

static int run(int rows, int columns, int count) {
    const size_t numbers = (size_t)rows * (size_t)columns;
    fftw_complex *in = fftw_alloc_complex(numbers), *out = fftw_alloc_complex(numbers);
    if (in == NULL || out == NULL) return 1;
    fftw_plan forth = fftw_plan_dft_2d(rows, columns, in, out, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_plan back = fftw_plan_dft_2d(rows, columns, out, in, FFTW_BACKWARD, FFTW_ESTIMATE);
    if (forth == NULL || back == NULL) return 1;
    fill((double *)in, 2 * numbers);
    for (int i = 0; i < count; i++) {
        fftw_execute(forth);
        fftw_execute(back);
        for (size_t k = 0; k < numbers; k++) in[k][0] /= (double)numbers, in[k][1] /= (double)numbers;
    }
    printf("%d x %d: %016llx %016llx\n", rows, columns, (unsigned long long)digest(in, numbers * sizeof *in),
           (unsigned long long)digest(out, numbers * sizeof *out));
    fftw_destroy_plan(forth);
    fftw_destroy_plan(back);
    fftw_free(in);
    fftw_free(out);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5 || !fftw_init_threads()) return 2;
    fftw_plan_with_nthreads(atoi(argv[3]));
    int error = run(atoi(argv[1]), atoi(argv[2]), atoi(argv[4]));
    fftw_cleanup_threads();
    return error;
}
