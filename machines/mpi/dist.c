/* dist.c: opening on all ranks, and closing. */
#include "dist.h"

#include <string.h>

#define POLL_US 100u
#define POLL_US_MAX 1000000u /* so that no rank sleeps through a call */
#define SILENCE_MS 60000u

static bool mpi_is_up(void) {
    int is_up = 0, is_down = 0;
    return MPI_Initialized(&is_up) == MPI_SUCCESS && MPI_Finalized(&is_down) == MPI_SUCCESS && is_up && !is_down;
}

static bool level_is_enough(void) {
    int level = MPI_THREAD_SINGLE;
    return MPI_Query_thread(&level) == MPI_SUCCESS && level >= MPI_THREAD_FUNNELED;
}

static bool pool_is_fit(const weft_pool *pool) {
    weft_config config = {.struct_size = sizeof config};
    return weft_pool_config(pool, &config) == WEFT_OK && (config.flags & WEFT_POOL_ORDERED) == 0;
}

/* A rank that waits gets up every poll_us, or LOOK_NS: so it speaks four times before it is taken for silent. */
static bool silence_is_sound(uint64_t silence_ms, uint64_t poll_us) {
    uint64_t least_us = poll_us > LOOK_NS / 1000 ? poll_us : LOOK_NS / 1000;
    return silence_ms == 0 || silence_ms >= 4 * least_us / 1000;
}

static bool config_is_sound(const weft_dist_config *config) {
    return config == NULL || (config->struct_size == sizeof *config && config->zero == 0 && config->poll_us <= POLL_US_MAX &&
                              silence_is_sound(config->silence_ms, config->poll_us));
}

/* What the ranks have together: sums, maxima, rank 0's configuration. */
static void dist_share(weft_dist *dist) {
    unsigned workers = weft_pool_workers(dist->pool);
    MPI_Comm near;
    int near_ranks = 0;
    dist_must(dist, MPI_Allreduce(&workers, &dist->workers_all, 1, MPI_UNSIGNED, MPI_SUM, dist->comm),
              "the ranks cannot meet");
    dist_must(dist, MPI_Allreduce(&workers, &dist->workers_most, 1, MPI_UNSIGNED, MPI_MAX, dist->comm),
              "the ranks cannot meet");
    dist_must(dist, MPI_Bcast(&dist->config, sizeof dist->config, MPI_BYTE, 0, dist->comm), "the ranks cannot meet");
    dist_must(dist, MPI_Comm_split_type(dist->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near), "no communicator");
    dist_must(dist, MPI_Comm_size(near, &near_ranks), "no communicator");
    dist_must(dist, MPI_Comm_free(&near), "no communicator");
    int all_near = near_ranks == dist->ranks;
    dist_must(dist, MPI_Allreduce(MPI_IN_PLACE, &all_near, 1, MPI_INT, MPI_MIN, dist->comm), "the ranks cannot meet");
    dist->is_near = all_near != 0;
}

/* Shared memory, if all ranks can have it. */
static bool window_share(weft_dist *dist, MPI_Aint bytes, int unit) {
    MPI_Aint there;
    int failed = 1;
    if (dist->is_near)
        failed = MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, dist->comm, &dist->words, &dist->window) != MPI_SUCCESS;
    dist_must(dist, MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, dist->comm), "no window");
    if (failed == 0) dist_must(dist, MPI_Win_shared_query(dist->window, 0, &there, &unit, &dist->words), "no window");
    return failed == 0;
}

static void window_make(weft_dist *dist) {
    int unit = (int)sizeof(uint64_t);
    size_t words = dist->rank == 0 ? near_words(dist->ranks) : 0;
    dist->is_near = window_share(dist, (MPI_Aint)(words * sizeof(uint64_t)), unit);
    if (!dist->is_near && dist->rank == 0) words = (size_t)WORD_OF(dist->ranks);
    MPI_Aint bytes = (MPI_Aint)(words * sizeof(uint64_t));
    if (!dist->is_near)
        dist_must(dist, MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, dist->comm, &dist->words, &dist->window), "no window");
    dist_must(dist, MPI_Win_set_errhandler(dist->window, MPI_ERRORS_RETURN), "no window");
    if (dist->rank == 0) memset(dist->words, 0, words * sizeof(uint64_t));
    dist_must(dist, MPI_Barrier(dist->comm), "no window"); /* all zero before anybody adds */
    dist_must(dist, MPI_Win_lock_all(MPI_MODE_NOCHECK, dist->window), "no window");
}

static weft_dist *dist_make(weft_pool *pool, MPI_Comm comm, int rank, int ranks) {
    weft_dist *dist = weft_alloc_zeroed(1, sizeof *dist);
    struct seen *seen = weft_alloc_zeroed(rank == 0 ? (size_t)ranks : 1, sizeof *seen);
    uint64_t *look = weft_alloc_zeroed(RANK_WORDS * (rank == 0 ? (size_t)ranks : 1), sizeof *look);
    struct outcome *outcomes = weft_alloc_zeroed((size_t)ranks, sizeof *outcomes);
    if (dist == NULL || seen == NULL || look == NULL || outcomes == NULL) {
        weft_free(outcomes);
        weft_free(dist);
        weft_free(seen);
        weft_free(look);
        return NULL;
    }
    *dist = (weft_dist){
        .pool = pool, .comm = comm, .rank = rank, .ranks = ranks, .seen = seen, .look = look, .outcomes = outcomes};
    dist->saying = dist->looking = dist->request = MPI_REQUEST_NULL;
    return dist;
}

static void config_take(weft_dist *dist, const weft_dist_config *config) {
    if (config != NULL) dist->config = *config;
    dist->config.struct_size = sizeof dist->config;
    if (dist->config.poll_us == 0) dist->config.poll_us = POLL_US;
    if (dist->config.silence_ms == 0) dist->config.silence_ms = SILENCE_MS;
}

static void dist_free(weft_dist *dist) {
    weft_free(dist->seen);
    weft_free(dist->look);
    weft_free(dist->outcomes);
    weft_free(dist);
}

int weft_dist_open(weft_dist **dist, weft_pool *pool, MPI_Comm comm, const weft_dist_config *config) {
    if (dist != NULL) *dist = NULL;
    if (!mpi_is_up() || comm == MPI_COMM_NULL) return WEFT_EINVAL;
    MPI_Comm own;
    if (MPI_Comm_dup(comm, &own) != MPI_SUCCESS) return WEFT_EINVAL;
    /* 0: fine; 1: no memory; 2: misused. The worst is everybody's. */
    int rank = 0, ranks = 1;
    bool is_sound = MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN) == MPI_SUCCESS &&
                    MPI_Comm_rank(own, &rank) == MPI_SUCCESS && MPI_Comm_size(own, &ranks) == MPI_SUCCESS;
    /* What one rank alone can see is said here, where all meet: none waits for another that has returned. */
    is_sound = is_sound && level_is_enough() && dist != NULL && pool != NULL && config_is_sound(config) && pool_is_fit(pool);
    weft_dist *made = is_sound ? dist_make(pool, own, rank, ranks) : NULL;
    int trouble = made != NULL ? 0 : is_sound ? 1 : 2;
    int code = MPI_Allreduce(MPI_IN_PLACE, &trouble, 1, MPI_INT, MPI_MAX, own);
    if (code != MPI_SUCCESS || trouble > 0 || made == NULL) {
        if (made != NULL) dist_free(made);
        MPI_Comm_free(&own);
        return trouble == 1 && code == MPI_SUCCESS ? WEFT_ENOMEM : WEFT_EINVAL;
    }
    config_take(made, config);
    dist_share(made);
    window_make(made);
    *dist = made;
    return WEFT_OK;
}

int weft_dist_close(weft_dist **dist) {
    if (dist == NULL || *dist == NULL) return WEFT_EINVAL;
    weft_dist *one = *dist;
    if (!dist_enter(one)) return WEFT_EDEADLK;
    int error = dist_begin(one, 0, WEFT_OK); /* no rank needs another's answer any more */
    if (error != WEFT_OK) return dist_leave(one, error);
    watch_end(one);
    dist_must(one, MPI_Ibarrier(one->comm, &one->request), "the ranks cannot part");
    dist_await(one, "the ranks cannot part");
    watch_end(one);
    dist_must(one, MPI_Win_unlock_all(one->window), "the window cannot be closed");
    dist_must(one, MPI_Win_free(&one->window), "the window cannot be closed");
    MPI_Comm_free(&one->comm);
    dist_free(one);
    *dist = NULL;
    return WEFT_OK;
}

int weft_dist_rank(const weft_dist *dist) { return dist == NULL ? -1 : dist->rank; }
int weft_dist_ranks(const weft_dist *dist) { return dist == NULL ? 0 : dist->ranks; }
unsigned weft_dist_workers(const weft_dist *dist) { return dist == NULL ? 0 : dist->workers_all; }

int weft_dist_cancel(weft_dist *dist) {
    if (dist == NULL) return WEFT_EINVAL;
    atomic_store_explicit(&dist->cancelled, true, memory_order_release);
    return WEFT_OK;
}

int weft_dist_counts_of(const weft_dist *dist, weft_dist_counts *counts) {
    if (dist == NULL || counts == NULL || counts->struct_size != sizeof *counts) return WEFT_EINVAL;
    *counts = dist->counts;
    counts->struct_size = sizeof *counts;
    return WEFT_OK;
}
