/* openblas.c: a product of matrices and a factorisation, both of 480 x 480. */
#include "hooks.h"

#ifdef MISSING_OPENBLAS
const library library_openblas = {.name = "openblas", .missing = MISSING_OPENBLAS};
#else
#include <cblas.h>
#include <lapacke.h>
#define WEFT_OPENBLAS_PREFIX(name) scipy_##name
#include <hooks/openblas.h>

enum { SIDE = 480 };
static double left[SIDE * SIDE], right[SIDE * SIDE], product[SIDE * SIDE];
static int pivots[SIDE];

static void start(weft_pool *pool, int threads) {
    uint32_t state = 1;
    for (int i = 0; i < SIDE * SIDE; i++) {
        left[i] = noise(&state) % 1000 / 1000.0;
        right[i] = noise(&state) % 1000 / 1000.0;
    }
    if (pool != NULL)
        REQUIRE(weft_openblas_start(threads) == WEFT_OK);
    else
        scipy_openblas_set_num_threads(threads);
}

static uint64_t compute(void) {
    scipy_cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, left, SIDE, right, SIDE, 0, product,
                      SIDE);
    REQUIRE(scipy_LAPACKE_dgetrf(LAPACK_ROW_MAJOR, SIDE, SIDE, product, SIDE, pivots) == 0);
    return digest(0, product, sizeof product / 4);
}

static void stop(void) { weft_openblas_stop(); }

const library library_openblas = {.name = "openblas", .open = start, .run = compute, .close = stop};
#endif
