/* dist_bench.c: what loops over ranks cost, beside the same loop on one pool, a static split and a plain master with workers.
 *
 *     mpirun -np 4 dist_bench WORKERS INDICES US [even|uneven]
 *
 * Each index computes for US microseconds, or, uneven, for 0 to 4 times as long, by a fixed pseudo-random row. One line for each way:
 * the median of ROUNDS, and how far apart the ranks' ends were. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft_dist.h>

enum { ROUNDS = 9 };

static weft_pool *pool;
static weft_dist *dist;
static int rank, ranks;
static size_t indices;
static unsigned long turns_per_us = 1000;
static unsigned us;
static int uneven;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double compute(unsigned long turns, double x) {
    for (unsigned long i = 0; i < turns; i++) x = x * 0.999999 + 1e-6;
    return x;
}

static unsigned long turns_of(size_t index) {
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return turns_per_us * us * (uneven ? (unsigned long)(x % 4001) : 1000) / 1000;
}

static _Atomic unsigned sink;
static int body(size_t begin, size_t end, void *context, weft_worker *self) {
    double x = 1;
    (void)context;
    (void)self;
    for (size_t i = begin; i < end; i++) x = compute(turns_of(i), x + (double)i);
    atomic_fetch_add_explicit(&sink, (unsigned)x, memory_order_relaxed);
    return 0;
}

/* ---- the ways ------------------------------------------------------------------------------------------------------ */

static double ended; /* when this rank had nothing left */

static void way_weft(void) {
    weft_dist_for(dist, (weft_range){0, indices, 1}, body, NULL);
    weft_dist_counts counts = {.struct_size = sizeof counts};
    weft_dist_counts_of(dist, &counts);
    ended = seconds() - (double)counts.wait_ns * 1e-9;
}

static void way_static(void) {
    size_t begin = indices * (size_t)rank / (size_t)ranks, end = indices * ((size_t)rank + 1) / (size_t)ranks;
    weft_for(pool, (weft_range){begin, end, 1}, body, NULL);
    ended = seconds();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 hands out two indices for each worker at a time, and computes nothing. */
static void way_master(void) {
    size_t step = 2 * (size_t)weft_pool_workers(pool), next = 0;
    uint64_t at;
    MPI_Status status;
    if (rank > 0) {
        for (;;) {
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 1, &at, 1, MPI_UINT64_T, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (at >= indices) break;
            weft_for(pool, (weft_range){at, at + step < indices ? at + step : indices, 1}, body, NULL);
        }
    }
    for (int left = rank == 0 ? ranks - 1 : 0; left > 0;) {
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        at = next;
        left -= next >= indices;
        next += next < indices ? step : 0;
        MPI_Send(&at, 1, MPI_UINT64_T, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
    ended = seconds();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- reductions: the same tree, beside a sum in any order ----------------------------------------------------------- */

static int leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    double x = 0;
    (void)context;
    (void)self;
    for (size_t i = begin; i < end; i++) x += compute(turns_of(i), (double)i);
    *(double *)value = x;
    return 0;
}
static void combine(void *left, const void *right, void *context) {
    (void)context;
    *(double *)left += *(const double *)right;
}
static const weft_reduction sum = {.size = sizeof(double), .leaf = leaf, .combine = combine};

static void way_reduce(void) {
    double result;
    weft_dist_reduce(dist, (weft_range){0, indices, 1}, &sum, &result);
    ended = seconds();
}
static void way_allreduce(void) {
    size_t begin = indices * (size_t)rank / (size_t)ranks, end = indices * ((size_t)rank + 1) / (size_t)ranks;
    double part, result;
    weft_reduce(pool, (weft_range){begin, end, 1}, &sum, &part);
    MPI_Allreduce(&part, &result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    ended = seconds();
}

/* All ranks begin at once. Those of MPI_Barrier spin, and where ranks share processors keep the last one from its own. */
static void meet(void) {
    const struct timespec moment = {0, 100000};
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nanosleep(&moment, NULL);
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static const struct way {
    const char *name;
    void (*run)(void);
} ways[] = {{"weft_dist_for", way_weft},
            {"static split", way_static},
            {"master-worker", way_master},
            {"weft_dist_reduce", way_reduce},
            {"static, MPI_Allreduce", way_allreduce}};
enum { WAYS = sizeof ways / sizeof *ways };

static int compare(const void *left, const void *right) {
    double one = *(const double *)left, other = *(const double *)right;
    return one < other ? -1 : one > other;
}

static void round_run(const struct way *way, double *time, double *apart) {
    meet();
    double begin = seconds(), last, first;
    way->run();
    *time = seconds() - begin;
    MPI_Allreduce(MPI_IN_PLACE, time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&ended, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&ended, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    *apart = last - first;
}

/* On one processor, the others idle: so it is the same for any ranks and workers. */
static void calibrate(void) {
    double best = 1;
    meet();
    for (int i = 0; i < 20 && rank == 0; i++) {
        double begin = seconds();
        atomic_fetch_add(&sink, (unsigned)compute(1000000, begin));
        best = fmin(best, seconds() - begin);
    }
    meet();
    MPI_Bcast(&best, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    turns_per_us = (unsigned long)(1 / best);
}

int main(int argc, char **argv) {
    int level;
    weft_config config;
    static double times[WAYS][ROUNDS], apart[WAYS][ROUNDS];
    if (argc < 4) {
        fprintf(stderr, "usage: dist_bench WORKERS INDICES US [even|uneven]\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    weft_config_init(&config);
    config.workers = (uint32_t)strtoul(argv[1], NULL, 10);
    indices = strtoul(argv[2], NULL, 10);
    us = (unsigned)strtoul(argv[3], NULL, 10);
    uneven = argc > 4 && strcmp(argv[4], "uneven") == 0;
    if (weft_pool_create(&pool, &config) != WEFT_OK || weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL) != WEFT_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    rank = weft_dist_rank(dist);
    ranks = weft_dist_ranks(dist);
    calibrate();
    for (int round = -1; round < ROUNDS; round++) /* in turns; the first warms up */
        for (int way = 0; way < WAYS; way++) {
            if (ways[way].run == way_master && ranks == 1) continue;
            round_run(&ways[way], &times[way][round < 0 ? 0 : round], &apart[way][round < 0 ? 0 : round]);
        }
    for (int way = 0; way < WAYS && rank == 0; way++) {
        if (ways[way].run == way_master && ranks == 1) continue;
        qsort(times[way], ROUNDS, sizeof(double), compare);
        qsort(apart[way], ROUNDS, sizeof(double), compare);
        printf("%d x %u  %-22s %8.2f ms (%.2f to %.2f), ends apart %.2f ms\n", ranks, config.workers, ways[way].name,
               times[way][ROUNDS / 2] * 1e3, times[way][0] * 1e3, times[way][ROUNDS - 1] * 1e3,
               apart[way][ROUNDS / 2] * 1e3);
    }
    weft_dist_close(&dist);
    weft_pool_destroy(&pool);
    MPI_Finalize();
    return 0;
}
