/* A program of a user of libweft-chunks, and of libweft-mpi with -DOVER_MPI; C99. Prints as consumer.c does. */
#include <stdio.h>
#include <weft_chunks.h>
#ifdef OVER_MPI
#include <weft_dist.h>
#endif

static int sum(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (*(size_t *)value = 0; begin < end; begin++) *(size_t *)value += begin;
    return 0;
}
static int count(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)self;
    *(size_t *)context += end - begin;
    return 0;
}

#ifdef OVER_MPI
static void combine(void *left, const void *right, void *context) {
    (void)context;
    *(size_t *)left += *(const size_t *)right;
}
static int over_ranks(weft_pool *pool) {
    const weft_reduction how = {sizeof(size_t), sum, combine, NULL, NULL};
    const weft_range range = {0, 1000, 10};
    weft_dist *dist;
    size_t result = 0;
    int level, error;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    error = weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL);
    if (error == WEFT_OK) error = weft_dist_reduce(dist, range, &how, &result);
    if (error == WEFT_OK) error = weft_dist_close(&dist);
    MPI_Finalize();
    return error == WEFT_OK && result == 499500 ? 0 : 1;
}
#else
static int over_ranks(weft_pool *pool) {
    size_t result = 0;
    (void)pool;
    return sum(0, 1000, &result, NULL, NULL) != 0 || result != 499500;
}
#endif

int main(int argc, char **argv) {
    weft_pool *pool;
    weft_config config;
    weft_chunks *queue;
    weft_chunks_plan plan = {0};
    weft_chunks_work work = {0};
    size_t indices = 0;
    if (argc < 2 || weft_config_init(&config) != WEFT_OK) return 1;
    config.workers = 1; /* so that the body needs no lock */
    if (weft_pool_create(&pool, &config) != WEFT_OK) return 2;
    plan.struct_size = sizeof plan;
    plan.end = 100;
    plan.chunk = 7;
    work.pool = pool;
    work.body = count;
    work.context = &indices;
    if (weft_chunks_create(argv[1], &plan) != WEFT_OK || weft_chunks_open(&queue, argv[1]) != WEFT_OK) return 3;
    if (weft_chunks_for(queue, &work) != WEFT_OK || weft_chunks_close(&queue) != WEFT_OK) return 4;
    if (over_ranks(pool) != 0 || weft_pool_destroy(&pool) != WEFT_OK) return 5;
    printf("weft %s %d\n", weft_version(), indices == 100);
    return indices == 100 ? 0 : 6;
}
