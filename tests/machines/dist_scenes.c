/* dist_scenes.c: one program, run on 1 to 4 ranks by test_dist.py. Each scene is checked on every rank against what one pool alone
 * does; a rank that finds something wrong ends the job.
 *
 *     mpirun -np 3 dist_scenes WORKERS [SCENE]... */
#include "dist_faults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#include <weft_dist.h>

#include "dist.h"
#include "row.h"

static weft_dist *dist;
static weft_pool *pool;
static int rank, ranks;

/* ---- loops --------------------------------------------------------------------------------------------------------- */

enum { INDICES = 20000 };
static atomic_uchar runs[INDICES];
static size_t fails_at = SIZE_MAX;
static size_t fails_too = SIZE_MAX;

static int count_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    REQUIRE(begin < end && self != NULL);
    for (size_t i = begin; i < end; i++) {
        atomic_fetch_add(&runs[i], 1);
        if (i == fails_at || i == fails_too) return (int)i;
    }
    return 0;
}

static void runs_clear(void) { memset(runs, 0, sizeof runs); }

/* How often each index has run on all ranks. */
static void runs_sum(unsigned char *all) { MPI_Allreduce(runs, all, INDICES, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD); }

static void scene_loop(void) {
    static unsigned char all[INDICES];
    static const size_t grains[] = {0, 1, 7, 1000, INDICES, SIZE_MAX};
    for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
        for (size_t begin = 0; begin < INDICES; begin = begin * 3 + 1) {
            runs_clear();
            REQUIRE(weft_dist_for(dist, (weft_range){begin, INDICES, grains[g]}, count_body, NULL) == WEFT_OK);
            runs_sum(all);
            for (size_t i = 0; i < INDICES; i++) REQUIRE(all[i] == (i >= begin));
        }
    }
    REQUIRE(weft_dist_for(dist, (weft_range){5, 5, 0}, count_body, NULL) == WEFT_OK);
    const size_t far = SIZE_MAX - 3;
    runs_clear();
    REQUIRE(weft_dist_for(dist, (weft_range){far, far, 1}, count_body, NULL) == WEFT_OK);
}

/* Few chunks of a range that is as large as one can be, and ranges at the ends of what numbers say. */
static atomic_size_t far_sum;
static int far_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    REQUIRE(begin < end);
    atomic_fetch_add(&far_sum, end - begin);
    return 0;
}

static int far_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    *(double *)value = (double)begin * 0.5 + (double)(end - begin) / 3;
    return 0;
}
static void far_combine(void *left, const void *right, void *context) {
    (void)context;
    *(double *)left = *(double *)left / 3 + *(const double *)right;
}

static void scene_far(void) {
    static const weft_range ranges[] = {{0, SIZE_MAX, SIZE_MAX / 50},
                                        {0, SIZE_MAX, SIZE_MAX},
                                        {0, SIZE_MAX, 0},
                                        {1, SIZE_MAX, SIZE_MAX / 3},
                                        {INT64_MAX - 100, (size_t)INT64_MAX + 100, 3},
                                        {0, (size_t)INT64_MAX + 1, (size_t)INT64_MAX / 7},
                                        {SIZE_MAX - 100, SIZE_MAX, 1},
                                        {SIZE_MAX - 1, SIZE_MAX, 7}};
    const weft_reduction how = {.size = sizeof(double), .leaf = far_leaf, .combine = far_combine};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double expected, got;
        far_sum = 0;
        REQUIRE(weft_dist_for(dist, ranges[i], far_body, NULL) == WEFT_OK);
        size_t sum = far_sum;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        REQUIRE(sum == ranges[i].end - ranges[i].begin);
        REQUIRE(weft_reduce(pool, ranges[i], &how, &expected) == WEFT_OK);
        REQUIRE(weft_dist_reduce(dist, ranges[i], &how, &got) == WEFT_OK);
        REQUIRE(memcmp(&got, &expected, sizeof got) == 0);
    }
}

/* Two at once of one pool and one communicator, in turns. */
static void scene_two(void) {
    weft_dist *first = dist, *other = NULL;
    static unsigned char all[INDICES];
    REQUIRE(weft_dist_open(&other, pool, MPI_COMM_WORLD, NULL) == WEFT_OK && other != NULL);
    for (int turn = 0; turn < 6; turn++) {
        runs_clear();
        REQUIRE(weft_dist_for(turn % 2 == 0 ? first : other, (weft_range){0, INDICES, 50}, count_body, NULL) == WEFT_OK);
        runs_sum(all);
        for (size_t i = 0; i < INDICES; i++) REQUIRE(all[i] == 1);
        if (turn == 2) REQUIRE(weft_dist_cancel(other) == WEFT_OK);
        if (turn == 2) REQUIRE(weft_dist_for(other, (weft_range){0, 10, 1}, count_body, NULL) == WEFT_ECANCELED);
    }
    REQUIRE(weft_dist_close(&other) == WEFT_OK);
}

static void scene_failure(void) {
    static unsigned char all[INDICES];
    for (size_t at = 0; at < INDICES; at = at * 2 + 1) {
        fails_at = at + 1 < INDICES ? at + 1 : at;
        fails_too = INDICES - 1;
        runs_clear();
        int expected = (int)fails_at, got = weft_dist_for(dist, (weft_range){0, INDICES, 10}, count_body, NULL);
        REQUIRE(got == expected);
        runs_sum(all);
        for (size_t i = 0; i <= fails_at; i++) REQUIRE(all[i] == 1);
        for (size_t i = 0; i < INDICES; i++) REQUIRE(all[i] <= 1);
    }
    fails_at = fails_too = SIZE_MAX;
    scene_loop(); /* as if nothing had been */
}

/* ---- balance: a chunk that does not end until every other rank has nothing left --------------------------------------- */

enum { SLOW_INDICES = 3000 };
static struct {
    struct row row; /* as the library cuts the loop */
    size_t slow;    /* the index that does not end */
    atomic_bool begun[SLOW_INDICES];
    uint64_t chunks; /* begun here by then, that one among them; 0: it runs elsewhere */
} balance;

/* Ranks that have nothing left: where memory is shared each has fetched one number more than there are chunks. */
static uint64_t ranks_out(void) {
    struct row row = balance.row;
    struct piece piece;
    uint64_t count = 0, next = dist->is_near ? word_load(dist, WORD_NEXT) : 0;
    if (!dist->is_near) return atomic_load(outs);
    while (row_find(&row, count, &piece)) count++;
    return next > count ? next - count : 0;
}

/* The chunks of which this rank has begun anything. */
static uint64_t chunks_begun(void) {
    uint64_t count = 0;
    struct row row = balance.row;
    struct piece piece;
    for (uint64_t step = 0; row_find(&row, step, &piece); step++) {
        bool is_begun = false;
        for (size_t i = piece.begin; i < piece.end; i++) is_begun |= balance.begun[i];
        count += is_begun;
    }
    return count;
}

static int slow_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct timespec moment = {0, 1000000};
    (void)context;
    (void)self;
    for (size_t i = begin; i < end; i++) {
        balance.begun[i] = true;
        if (i != balance.slow) continue;
        balance.chunks = chunks_begun();
        while (ranks_out() < (uint64_t)ranks - 1) nanosleep(&moment, NULL);
    }
    return 0;
}

/* The counter is in memory that all ranks share: a file. */
static void outs_make(void) {
    char name[] = "/tmp/weft-outs-XXXXXX";
    int fd = rank == 0 ? mkstemp(name) : -1;
    MPI_Bcast(name, sizeof name, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank != 0) fd = open(name, O_RDWR);
    REQUIRE(fd >= 0 && ftruncate(fd, sizeof *outs) == 0);
    outs = mmap(NULL, sizeof *outs, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(outs != MAP_FAILED && close(fd) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(name);
}

static void scene_balance(void) {
    uint64_t most = 0;
    outs_make();
    for (balance.slow = 7; balance.slow < SLOW_INDICES; balance.slow += 311) {
        weft_dist_counts counts = {.struct_size = sizeof counts};
        balance.row = (struct row){SLOW_INDICES, 2 * weft_pool_workers(pool), 2 * (size_t)ranks, 0, 0};
        for (size_t i = 0; i < SLOW_INDICES; i++) balance.begun[i] = false;
        balance.chunks = 0;
        if (rank == 0) atomic_store(outs, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        REQUIRE(weft_dist_for(dist, (weft_range){0, SLOW_INDICES, 1}, slow_body, NULL) == WEFT_OK);
        REQUIRE(weft_dist_counts_of(dist, &counts) == WEFT_OK);
        REQUIRE(counts.chunks == chunks_begun());
        uint64_t after = balance.chunks == 0 ? 0 : counts.chunks - balance.chunks;
        MPI_Allreduce(MPI_IN_PLACE, &after, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
        if (after > most) most = after;
    }
    outs = NULL;
    if (rank == 0) printf("chunks begun after the others had none: %llu\n", (unsigned long long)most);
}

static int cancel_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct timespec moment = {0, 100000};
    (void)self;
    if (begin == 0 && *(int *)context) weft_dist_cancel(dist);
    for (size_t i = begin; i < end; i++) nanosleep(&moment, NULL);
    return 0;
}

/* In the last chunk: nothing is left that could be kept from running. */
static int late_cancel_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin;
    (void)context;
    (void)self;
    if (end == 100) REQUIRE(weft_dist_cancel(dist) == WEFT_OK);
    return 0;
}

/* The call that fails takes the wish to cancel with it. */
static int fail_and_cancel_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)end;
    (void)context;
    (void)self;
    REQUIRE(weft_dist_cancel(dist) == WEFT_OK);
    return begin == 0 ? 55 : 0;
}

static void scene_cancel(void) {
    int cancels = 1;
    for (size_t grain = 1; grain <= 100; grain = grain * 3 + 7) {
        REQUIRE(weft_dist_for(dist, (weft_range){0, 100, grain}, late_cancel_body, NULL) == WEFT_ECANCELED);
        int failed = weft_dist_for(dist, (weft_range){0, 100, grain}, fail_and_cancel_body, NULL);
        REQUIRE(failed == 55 || failed == WEFT_ECANCELED);
        REQUIRE(weft_dist_for(dist, (weft_range){0, 8, 1}, count_body, NULL) == WEFT_OK);
    }
    REQUIRE(weft_dist_for(dist, (weft_range){0, 10000, 1}, cancel_body, &cancels) == WEFT_ECANCELED);
    if (rank == ranks - 1) REQUIRE(weft_dist_cancel(dist) == WEFT_OK); /* the next one is */
    cancels = 0;
    REQUIRE(weft_dist_for(dist, (weft_range){0, 10000, 1}, cancel_body, &cancels) == WEFT_ECANCELED);
    REQUIRE(weft_dist_for(dist, (weft_range){0, 8, 1}, cancel_body, &cancels) == WEFT_OK);
}

/* ---- reductions ---------------------------------------------------------------------------------------------------- */

static double term(size_t index) {
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return ((double)(x >> 12) - 1e15) * (x % 7 == 0 ? 1e-20 : 1.0);
}

/* Of several doubles, so that values have any size. */
static size_t doubles;
static int sum_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    double *sums = value;
    (void)context;
    (void)self;
    REQUIRE((uintptr_t)value % 16 == 0);
    for (size_t k = 0; k < doubles; k++) sums[k] = 0;
    for (size_t i = begin; i < end; i++) {
        if (i == fails_at) return 77;
        for (size_t k = 0; k < doubles; k++) sums[k] += term(i * 31 + k);
    }
    return 0;
}
static void sum_combine(void *left, const void *right, void *context) {
    (void)context;
    for (size_t k = 0; k < doubles; k++) ((double *)left)[k] += ((const double *)right)[k];
}

static void scene_reduce(void) {
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 255, 256, 257, 1000, 4095, 20011};
    static const size_t grains[] = {0, 1, 3, 100, 5000, SIZE_MAX};
    static double expected[512], got[512];
    uint64_t hash = 0;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            doubles = (c + g) % 3 == 0 ? 1 : (c + g) % 3 == 1 ? 3 : 512;
            if (counts[c] > 5000 && doubles > 3) continue;
            const double identity[512] = {1.5};
            const weft_reduction how = {
                .size = doubles * sizeof(double), .leaf = sum_leaf, .combine = sum_combine, .identity = identity};
            weft_range range = {11, 11 + counts[c], grains[g]};
            memset(got, 255, sizeof got);
            REQUIRE(weft_reduce(pool, range, &how, expected) == WEFT_OK);
            REQUIRE(weft_dist_reduce(dist, range, &how, got) == WEFT_OK);
            REQUIRE(memcmp(got, expected, how.size) == 0);
            for (size_t k = 0; k < doubles; k++) {
                uint64_t bits;
                memcpy(&bits, &got[k], sizeof bits);
                hash = (hash ^ bits) * UINT64_C(0x100000001b3);
            }
        }
    }
    if (rank == 0) printf("bits %016llx\n", (unsigned long long)hash);
    const weft_reduction how = {.size = sizeof(double), .leaf = sum_leaf, .combine = sum_combine};
    doubles = 1;
    fails_at = 4321;
    got[0] = 42;
    REQUIRE(weft_dist_reduce(dist, (weft_range){0, 9999, 3}, &how, got) == 77);
    REQUIRE(got[0] == 42);
    fails_at = SIZE_MAX;
}

/* ---- sorts --------------------------------------------------------------------------------------------------------- */

struct item {
    uint32_t key;
    uint32_t origin;
    uint32_t more; /* 12 bytes: a size that nothing is made for */
};

static int key_compare(const void *left, const void *right, void *context) {
    uint32_t one = ((const struct item *)left)->key, other = ((const struct item *)right)->key;
    (void)context;
    return one < other ? -1 : one > other;
}

/* All items of all ranks are known to each; a stable sort of them has one outcome. */
static void sort_case(size_t total, uint32_t keys, unsigned skew) {
    struct item *all = calloc(total + 1, sizeof *all);
    for (size_t i = 0; i < total; i++) {
        uint64_t x = (i + 1 + total) * UINT64_C(0x9e3779b97f4a7c15);
        all[i] = (struct item){(uint32_t)(x >> 40) % keys, (uint32_t)i, ~(uint32_t)i};
    }
    size_t here = (size_t)rank, last = (size_t)ranks - 1, few = skew == 2 ? total / 10 : total;
    size_t begin = few * here / (last + 1), end = few * (here + 1) / (last + 1);
    if (skew == 1) begin = here == 0 ? 0 : total; /* one has all */
    if (skew == 1 || here == last) end = total;   /* or the last one most */
    struct item *mine = calloc(end - begin + 1, sizeof *mine);
    memcpy(mine, all + begin, (end - begin) * sizeof *mine);
    const weft_order order = {sizeof *mine, key_compare, NULL};
    REQUIRE(weft_dist_sort(dist, mine, end - begin, &order) == WEFT_OK);
    REQUIRE(weft_sort(pool, all, total, &order) == WEFT_OK);
    REQUIRE(memcmp(mine, all + begin, (end - begin) * sizeof *mine) == 0);
    free(all);
    free(mine);
}

static void scene_sort(void) {
    static const size_t totals[] = {0, 1, 2, 3, 5, 17, 100, 1000, 30011};
    static const uint32_t keys[] = {1, 2, 50, UINT32_MAX};
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++)
        for (size_t k = 0; k < 4; k++)
            for (unsigned skew = 0; skew < 3; skew++) sort_case(totals[t], keys[k], skew);
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

static int short_nap_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct timespec moment = {0, 20000000};
    (void)begin;
    (void)end;
    (void)context;
    (void)self;
    nanosleep(&moment, NULL);
    return 0;
}

/* Times as long as can be said are never, and none is so long that a rank would sleep through a call. The test looks whether the watchdog
 * is silent. */
static void scene_limits(void) {
    static const uint64_t longs[] = {UINT64_MAX, UINT64_MAX / 1000000 + 1, UINT64_MAX / 250000 + 1, UINT64_MAX / 1000};
    weft_dist *other = NULL;
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++) {
        const weft_dist_config config = {.struct_size = sizeof config, .watchdog_ms = longs[i], .silence_ms = longs[i]};
        REQUIRE(weft_dist_open(&other, pool, MPI_COMM_WORLD, &config) == WEFT_OK);
        REQUIRE(weft_dist_for(other, (weft_range){0, 16, 1}, short_nap_body, NULL) == WEFT_OK);
        REQUIRE(weft_dist_close(&other) == WEFT_OK);
    }
    const weft_dist_config slow = {.struct_size = sizeof slow, .poll_us = 1000001};
    REQUIRE(weft_dist_open(&other, pool, MPI_COMM_WORLD, &slow) == WEFT_EINVAL && other == NULL);
}

/* ---- misuse -------------------------------------------------------------------------------------------------------- */

static int no_order(const void *left, const void *right, void *context) {
    (void)left;
    (void)right;
    (void)context;
    return 1; /* everything is greater than everything */
}

/* A call from inside one of the same: the other ranks do not make it. */
static int nested_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const weft_reduction *how = context;
    weft_dist *same = dist;
    const weft_order order = {4, no_order, NULL};
    uint32_t items[2] = {0};
    double value;
    (void)begin;
    (void)end;
    (void)self;
    REQUIRE(weft_dist_for(dist, (weft_range){0, 1, 1}, count_body, NULL) == WEFT_EDEADLK);
    REQUIRE(weft_dist_reduce(dist, (weft_range){0, 1, 1}, how, &value) == WEFT_EDEADLK);
    REQUIRE(weft_dist_sort(dist, items, 2, &order) == WEFT_EDEADLK);
    REQUIRE(weft_dist_close(&same) == WEFT_EDEADLK && same == dist);
    return 0;
}

static void scene_misuse(void) {
    const weft_reduction how = {.size = 8, .leaf = sum_leaf, .combine = sum_combine};
    weft_reduction bad = how;
    weft_dist *none = NULL;
    weft_dist_counts counts = {.struct_size = 1};
    double value;
    uint32_t items[64] = {0};
    weft_order order = {4, key_compare, NULL};
    REQUIRE(weft_dist_for(NULL, (weft_range){0, 1, 1}, count_body, NULL) == WEFT_EINVAL);
    REQUIRE(weft_dist_for(dist, (weft_range){0, 1, 1}, NULL, NULL) == WEFT_EINVAL);
    REQUIRE(weft_dist_for(dist, (weft_range){2, 1, 1}, count_body, NULL) == WEFT_EINVAL);
    bad.size = 0;
    REQUIRE(weft_dist_reduce(dist, (weft_range){0, 1, 1}, &bad, &value) == WEFT_EINVAL);
    REQUIRE(weft_dist_reduce(dist, (weft_range){0, 1, 1}, NULL, &value) == WEFT_EINVAL);
    REQUIRE(weft_dist_reduce(dist, (weft_range){0, 1, 1}, &how, NULL) == WEFT_EINVAL);
    REQUIRE(weft_dist_sort(dist, NULL, 1, &order) == WEFT_EINVAL);
    REQUIRE(weft_dist_sort(dist, items, SIZE_MAX / 4, &order) == WEFT_EINVAL);
    REQUIRE(weft_dist_sort(dist, items, 1, NULL) == WEFT_EINVAL);
    REQUIRE(weft_dist_for(dist, (weft_range){0, 20, 1}, nested_body, (void *)&how) == WEFT_OK);
    order.compare = no_order;
    REQUIRE(weft_dist_sort(dist, items, 64, &order) == WEFT_OK);
    if (ranks > 1) { /* different ones, or one of them wrong */
        REQUIRE(weft_dist_for(dist, (weft_range){0, 10 + (size_t)rank, 1}, count_body, NULL) == WEFT_EINVAL);
        REQUIRE(weft_dist_for(dist, (weft_range){0, 10, 1}, rank == 1 ? NULL : count_body, NULL) == WEFT_EINVAL);
        weft_dist *same = dist;
        REQUIRE((rank == 0 ? weft_dist_close(&same) : weft_dist_for(dist, (weft_range){0, 1, 1}, count_body, NULL)) ==
                WEFT_EINVAL);
        REQUIRE(same == dist);
        REQUIRE((rank == 0 ? weft_dist_for(dist, (weft_range){0, 1, 1}, count_body, NULL)
                           : weft_dist_reduce(dist, (weft_range){0, 1, 1}, &how, &value)) == WEFT_EINVAL);
    }
    REQUIRE(weft_dist_open(&none, rank == ranks - 1 ? NULL : pool, MPI_COMM_WORLD, NULL) == WEFT_EINVAL && none == NULL);
    REQUIRE(weft_dist_open(&none, pool, MPI_COMM_NULL, NULL) == WEFT_EINVAL);
    weft_dist_config config = {.struct_size = 1};
    REQUIRE(weft_dist_open(&none, pool, MPI_COMM_WORLD, &config) == WEFT_EINVAL);
    static const struct {
        uint32_t poll_us;
        uint64_t silence_ms;
        int error;
    } pairs[] = {{1000000, 3999, WEFT_EINVAL}, {1000000, 4000, WEFT_OK}, {1000000, 0, WEFT_OK},
                 {0, 79, WEFT_EINVAL},         {0, 80, WEFT_OK},         {30000, 100, WEFT_EINVAL},
                 {30000, 120, WEFT_OK}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) { /* one rank's alone is everybody's */
        const weft_dist_config pair = {
            .struct_size = sizeof pair, .poll_us = pairs[i].poll_us, .silence_ms = pairs[i].silence_ms};
        REQUIRE(weft_dist_open(&none, pool, MPI_COMM_WORLD, rank == ranks - 1 ? &pair : NULL) == pairs[i].error);
        REQUIRE(pairs[i].error == WEFT_OK ? weft_dist_close(&none) == WEFT_OK : none == NULL);
    }
    REQUIRE(weft_dist_close(&none) == WEFT_EINVAL && weft_dist_close(NULL) == WEFT_EINVAL);
    REQUIRE(weft_dist_cancel(NULL) == WEFT_EINVAL && weft_dist_counts_of(dist, &counts) == WEFT_EINVAL);
    REQUIRE(weft_dist_rank(NULL) == -1 && weft_dist_ranks(NULL) == 0 && weft_dist_workers(NULL) == 0);
}

/* ---- ranks that die, hang and are silent --------------------------------------------------------------------------- */

static int victim;

static int dying_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)end;
    (void)self;
    const struct timespec moment = {0, 3000000};
    nanosleep(&moment, NULL);
    if (*(int *)context != 0 && rank == victim && begin > 20) raise(*(int *)context);
    return 0;
}

static void scene_die(void) {
    int killed = SIGKILL;
    victim = ranks - 1;
    weft_dist_for(dist, (weft_range){0, 100000, 1}, dying_body, &killed);
    puts("a result"); /* that must not count */
}

static void silence(int of) {
    int stopped = SIGSTOP;
    victim = of;
    weft_dist_for(dist, (weft_range){0, 100000, 1}, dying_body, &stopped);
    puts("a result");
}

static void scene_silent(void) { silence(ranks - 1); }
static void scene_silent_first(void) { silence(0); }

/* One index takes until another rank's watchdog has spoken: the test looks for its words. */
static int long_body(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    const struct timespec time = {1, 500000000};
    for (size_t i = begin; i < end; i++)
        if (i == 3) nanosleep(&time, NULL);
    return 0;
}

/* A loop of a minute and more: somebody cuts a rank's link. */
static void scene_cut(void) {
    int none = 0;
    puts("begins");
    fflush(stdout);
    weft_dist_for(dist, (weft_range){0, 100000, 1}, dying_body, &none);
    puts("a result");
}

static void scene_watchdog(void) { REQUIRE(weft_dist_for(dist, (weft_range){0, 64, 1}, long_body, NULL) == WEFT_OK); }

/* ---- all of them --------------------------------------------------------------------------------------------------- */

static const struct scene {
    const char *name;
    void (*run)(void);
    bool alone; /* only when asked for */
} scenes[] = {
    {"misuse", scene_misuse, false},
    {"loop", scene_loop, false},
    {"far", scene_far, false},
    {"two", scene_two, false},
    {"limits", scene_limits, true},
    {"reduce", scene_reduce, false},
    {"sort", scene_sort, false},
    {"failure", scene_failure, false},
    {"cancel", scene_cancel, false},
    {"die", scene_die, true},
    {"silent", scene_silent, true},
    {"watchdog", scene_watchdog, true},
    {"silent_first", scene_silent_first, true},
    {"cut", scene_cut, true},
    {"balance", scene_balance, true},
};

/* One rank has asked MPI for too little: every rank is told. */
static int levels(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE, me = 0, count = 0;
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (number == NULL) number = getenv("PMI_RANK");
    REQUIRE(number != NULL && weft_pool_create(&pool, NULL) == WEFT_OK);
    REQUIRE(weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL) == WEFT_EINVAL && dist == NULL); /* MPI is not up */
    MPI_Init_thread(&argc, &argv, atoi(number) == 1 ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &provided);
    int is_enough = provided >= MPI_THREAD_FUNNELED, all_enough = 0;
    MPI_Allreduce(&is_enough, &all_enough, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    REQUIRE(count > 1 && (me == 1 || is_enough));
    int error = weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL);
    REQUIRE(error == (all_enough ? WEFT_OK : WEFT_EINVAL));
    if (error == WEFT_OK) REQUIRE(weft_dist_close(&dist) == WEFT_OK);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    if (me == 0) printf("%spassed\n", all_enough ? "MPI gave more than was asked for, " : "");
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    int provided;
    weft_config config;
    REQUIRE(argc >= 2);
    if (argc > 2 && strcmp(argv[2], "levels") == 0) return levels(argc, argv);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    REQUIRE(weft_config_init(&config) == WEFT_OK);
    config.workers = (uint32_t)strtoul(argv[1], NULL, 10);
    REQUIRE(weft_pool_create(&pool, &config) == WEFT_OK);
    weft_dist_config how = {.struct_size = sizeof how};
    faults_choose();
    if (argc > 2) how.watchdog_ms = 500;
    if (argc > 2 && (strncmp(argv[2], "silent", 6) == 0 || strcmp(argv[2], "cut") == 0)) how.silence_ms = 2000;
    REQUIRE(weft_dist_open(&dist, pool, MPI_COMM_WORLD, &how) == WEFT_OK);
    rank = weft_dist_rank(dist);
    ranks = weft_dist_ranks(dist);
    REQUIRE(weft_dist_workers(dist) == config.workers * (unsigned)ranks);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        bool is_chosen = argc == 2 && !scenes[i].alone;
        for (int word = 2; word < argc; word++) is_chosen |= strcmp(argv[word], scenes[i].name) == 0;
        if (is_chosen) scenes[i].run();
    }
    REQUIRE(weft_dist_close(&dist) == WEFT_OK && dist == NULL);
    REQUIRE(weft_pool_destroy(&pool) == WEFT_OK);
    if (rank == 0) puts("passed");
    MPI_Finalize();
    return 0;
}
