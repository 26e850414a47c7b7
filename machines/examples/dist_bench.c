/* dist_bench.c: what loops over ranks cost, beside a static split, a plain master with workers and a static split with MPI_Allreduce.
 *
 *     mpirun -np 4 dist_bench WORKERS INDICES US [even|uneven [ROUNDS [for|reduce]]]
 *
 * Each index computes for US microseconds, or, uneven, for 0 to 4 times as long, by a fixed pseudo-random row. All ways, or those of one kind, run in turns.
 * One line for each: the median of ROUNDS (9); the median of what it took beside the static split of the same round, with the
 * quartiles; how many chunks there were, and the processors' time that each took beyond its computing; how far apart the ranks' ends
 * were. The static splits run twice in each round: the second one beside the first says what the machine alone does. */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft_dist.h>

enum { ROUNDS_MAX = 99 };

static weft_pool *pool;
static weft_dist *dist;
static int rank, ranks;
static size_t indices;
static unsigned long turns_per_us = 1000;
static unsigned us;
static int uneven;
static int rounds = 9;
static const char *kind = ""; /* of ways; empty: all */

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

static double ended;    /* when this rank had nothing left */
static uint64_t chunks; /* that it ran */

static void counts_take(void) {
    weft_dist_counts counts = {.struct_size = sizeof counts};
    weft_dist_counts_of(dist, &counts);
    ended = seconds() - (double)counts.wait_ns * 1e-9;
    chunks = counts.chunks;
}

/* A way that does not do its work has no time. */
static void must(int error) {
    if (error == WEFT_OK) return;
    fprintf(stderr, "dist_bench: rank %d: %s\n", rank, weft_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void way_weft(void) {
    must(weft_dist_for(dist, (weft_range){0, indices, 1}, body, NULL));
    counts_take();
}

static void way_static(void) {
    size_t begin = indices * (size_t)rank / (size_t)ranks, end = indices * ((size_t)rank + 1) / (size_t)ranks;
    must(weft_for(pool, (weft_range){begin, end, 1}, body, NULL));
    ended = seconds();
    chunks = 1;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 hands out two indices for each worker at a time, and computes nothing. */
static void way_master(void) {
    size_t step = 2 * (size_t)weft_pool_workers(pool), next = 0;
    uint64_t at;
    MPI_Status status;
    chunks = 0;
    if (rank > 0) {
        for (;;) {
            MPI_Sendrecv(NULL, 0, MPI_BYTE, 0, 1, &at, 1, MPI_UINT64_T, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (at >= indices) break;
            chunks++;
            must(weft_for(pool, (weft_range){at, at + step < indices ? at + step : indices, 1}, body, NULL));
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
    must(weft_dist_reduce(dist, (weft_range){0, indices, 1}, &sum, &result));
    counts_take();
    ended = seconds(); /* with the exchange of values */
}
static void way_allreduce(void) {
    size_t begin = indices * (size_t)rank / (size_t)ranks, end = indices * ((size_t)rank + 1) / (size_t)ranks;
    double part, result;
    must(weft_reduce(pool, (weft_range){begin, end, 1}, &sum, &part));
    MPI_Allreduce(&part, &result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    ended = seconds();
    chunks = 1;
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
    int beside; /* which way it is compared with */
    const char *kind;
} ways[] = {{"weft_dist_for", way_weft, 1, "for"},         {"static split", way_static, 1, "for"},
            {"static split again", way_static, 1, "for"},  {"master-worker", way_master, 1, "for"},
            {"weft_dist_reduce", way_reduce, 5, "reduce"}, {"static, MPI_Allreduce", way_allreduce, 5, "reduce"},
            {"the same again", way_allreduce, 5, "reduce"}};
enum { WAYS = sizeof ways / sizeof *ways };

static struct {
    double time[ROUNDS_MAX];
    double apart[ROUNDS_MAX];
    double beside[ROUNDS_MAX];
    uint64_t chunks;
} seen[WAYS];

static int compare(const void *left, const void *right) {
    double one = *(const double *)left, other = *(const double *)right;
    return one < other ? -1 : one > other;
}

static void round_run(int way, int round) {
    double *time = &seen[way].time[round], last, first;
    meet();
    double begin = seconds();
    ways[way].run();
    *time = seconds() - begin;
    meet(); /* who ends first does not spin against the others */
    MPI_Allreduce(MPI_IN_PLACE, time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&ended, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&ended, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&chunks, &seen[way].chunks, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    seen[way].apart[round] = last - first;
}

/* Seconds that the loop needs of all its processors together. */
static double computing(void) {
    double turns = 0;
    for (size_t i = 0; i < indices; i++) turns += (double)turns_of(i);
    return turns / (double)turns_per_us * 1e-6;
}

static double quartile(const double *sorted, int number) { return sorted[(rounds - 1) * number / 4]; }

static void way_print(int way) {
    double *time = seen[way].time, *apart = seen[way].apart, *beside = seen[way].beside;
    unsigned workers = weft_pool_workers(pool), lanes = workers * (unsigned)ranks;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if ((long)lanes < cpus) cpus = (long)lanes;
    qsort(time, (size_t)rounds, sizeof *time, compare);
    qsort(apart, (size_t)rounds, sizeof *apart, compare);
    qsort(beside, (size_t)rounds, sizeof *beside, compare);
    printf("%d x %u  %-22s %8.2f ms; %+6.2f %% (%+.2f to %+.2f); %4llu chunks, %7.1f us each; ends apart %.2f ms\n", ranks,
           workers, ways[way].name, quartile(time, 2) * 1e3, quartile(beside, 2) * 100, quartile(beside, 1) * 100,
           quartile(beside, 3) * 100, (unsigned long long)seen[way].chunks,
           (quartile(time, 2) * (double)cpus - computing()) / (double)seen[way].chunks * 1e6, quartile(apart, 2) * 1e3);
}

static bool is_chosen(int way) {
    return (ways[way].run != way_master || ranks > 1) && (kind[0] == 0 || strcmp(kind, ways[way].kind) == 0);
}

static void ways_print(void) {
    for (int way = 0; way < WAYS; way++)
        for (int round = 0; round < rounds; round++)
            seen[way].beside[round] = seen[way].time[round] / seen[ways[way].beside].time[round] - 1;
    for (int way = 0; way < WAYS; way++)
        if (is_chosen(way)) way_print(way);
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

static bool number_read(const char *text, size_t most, size_t *number) {
    char *rest;
    *number = strtoul(text, &rest, 10);
    return text[0] >= '0' && text[0] <= '9' && *rest == 0 && *number <= most;
}

static bool words_read(int argc, char **argv, size_t *workers) {
    size_t each_us, turns = (size_t)rounds;
    if (argc < 4 || argc > 7 || !number_read(argv[1], UINT32_MAX, workers) ||
        !number_read(argv[2], SIZE_MAX / 2, &indices) || !number_read(argv[3], 1000000, &each_us))
        return false;
    if (argc > 4 && strcmp(argv[4], "even") != 0 && strcmp(argv[4], "uneven") != 0) return false;
    if (argc > 5 && (!number_read(argv[5], ROUNDS_MAX, &turns) || turns == 0)) return false;
    if (argc > 6 && strcmp(argv[6], "for") != 0 && strcmp(argv[6], "reduce") != 0) return false;
    us = (unsigned)each_us;
    uneven = argc > 4 && strcmp(argv[4], "uneven") == 0;
    rounds = (int)turns;
    if (argc > 6) kind = argv[6];
    return true;
}

int main(int argc, char **argv) {
    int level;
    size_t workers;
    weft_config config;
    if (!words_read(argc, argv, &workers)) {
        fprintf(stderr, "usage: dist_bench WORKERS INDICES US [even|uneven [ROUNDS [for|reduce]]]\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    weft_config_init(&config);
    config.workers = (uint32_t)workers;
    must(weft_pool_create(&pool, &config));
    must(weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL));
    rank = weft_dist_rank(dist);
    ranks = weft_dist_ranks(dist);
    calibrate();
    for (int round = -1; round < rounds; round++) /* in turns; the first warms up */
        for (int way = 0; way < WAYS; way++)
            if (is_chosen(way)) round_run(way, round < 0 ? 0 : round);
    if (rank == 0) ways_print();
    weft_dist_close(&dist);
    weft_pool_destroy(&pool);
    MPI_Finalize();
    return 0;
}
