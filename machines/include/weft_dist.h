/* weft_dist: weft's loops, reductions and sorts over the ranks of an MPI program, with the same bits out.
 *
 *     MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
 *     weft_dist_open(&dist, pool, MPI_COMM_WORLD, NULL);
 *     weft_dist_for(dist, (weft_range){0, n, 0}, body, context);      the same call on every rank; without mpirun one rank
 *     weft_dist_reduce(dist, range, &how, &result);                   the result on every rank
 *     weft_dist_close(&dist);
 *     MPI_Finalize();
 *
 * Who runs what. The range is cut into a row of chunks that every rank computes for itself: the first ones large, each a
 * share of what is left, none below two grains for each of a rank's workers; one rank alone has one chunk. A rank's first
 * chunk is that of its number. A counter in a window of rank 0 says which is next; a rank fetches it by an atomic operation
 * of passive-target RMA, without the other ranks' doing (A. Eleliemy, F. Ciorba, "Dynamic loop scheduling using MPI
 * passive-target remote memory access", PDP 2019, doi:10.1109/EMPDP.2019.8671559), and its pool runs the chunk as a loop,
 * with stealing. Where ranks do not share memory one has the next chunk queued before the last has ended, until few are
 * left.
 *
 * Balance. When the first rank finds nothing left, every other one has at most the chunk that it runs; where ranks do not
 * share memory, one more if that chunk takes far longer than its last.
 *
 * Progress. Only the calling thread calls MPI, so MPI_THREAD_FUNNELED is enough. It does not run chunks: it sleeps while the
 * pool does and, where ranks do not share memory, gets up every poll_us to let MPI work: on rank 0, and on another one while
 * it has asked for something. So rank 0 answers the others over TCP while its bodies compute. Where ranks share memory they
 * meet in it, by a futex, and few values of a reduction travel through it. No wait here spins, whatever the MPI does in its
 * own.
 *
 * Same bits. weft_dist_reduce cuts the range into the leaves of weft_reduce and combines them by the same tree: a rank
 * computes whole subtrees, and the tree above them is done on every rank in the same order. So the result has the bits of
 * weft_reduce, for any ranks and workers, where all machines compute a leaf alike. A stable sort has one result anyhow.
 *
 * Failures. A body that fails ends the loop: no chunk above it is begun, every rank returns the error of the lowest chunk
 * that failed. A rank that dies ends the job, non-zero, as MPI does by default; one that is silent for silence_ms inside a
 * call is taken for dead, and the job is aborted: a call that has returned has the whole result, else there is none. An
 * error of MPI itself aborts likewise. Each rank puts what it holds, and that it lives, into rank 0's window: with
 * watchdog_ms rank 0 names on standard error who has had which chunk for so long, and who has not come to the call.
 *
 * Calls are collective: every rank makes the same ones with the same arguments, from one thread, inside no task; from a body
 * of such a call they return WEFT_EDEADLK, and nothing was done. Ranges, grains and sizes that differ are seen: WEFT_EINVAL
 * on every rank, nothing was run.
 *
 * Copyright the weft authors. MIT licence, see LICENSE.
 */
#ifndef WEFT_DIST_H
#define WEFT_DIST_H

#include <mpi.h>
#include <weft.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_dist weft_dist; /* a pool on each rank of a communicator; opaque */

/* Everything zero but struct_size means the default. Rank 0's holds. */
typedef struct weft_dist_config {
    size_t struct_size;   /* sizeof(weft_dist_config) */
    uint32_t poll_us;     /* how often a waiting rank lets MPI work, at most 1000000; 0: 100 */
    uint32_t zero;        /* 0 */
    uint64_t watchdog_ms; /* name who holds a chunk for so long, again after 2, 4, 8 times as long; 0: nobody */
    uint64_t
        silence_ms; /* a rank inside a call that is not heard of for so long is dead; 0: 60000; UINT64_MAX: never; at least
                           * four times poll_us, and 80 */
} weft_dist_config;

/* Opens on all ranks of `comm`, which is duplicated. `pool` is this rank's; it must live until weft_dist_close. The caller
 * ends *dist with that. WEFT_OK; or, on every rank and with *dist NULL, WEFT_EINVAL (NULL, less than MPI_THREAD_FUNNELED,
 * another struct_size, a poll_us that is too large, a silence_ms that is too small for it, an ordered pool; on any rank),
 * WEFT_ENOMEM. WEFT_EINVAL on this rank alone, which can meet no other: MPI not initialised, or finalised; a NULL
 * communicator. */
WEFT_API int weft_dist_open(weft_dist **dist, weft_pool *pool, MPI_Comm comm, const weft_dist_config *config);

/* Ends it on all ranks and sets *dist NULL; before MPI_Finalize. WEFT_OK; WEFT_EINVAL (NULL or an already NULL *dist; or
 * another rank makes another call: nothing was ended). */
WEFT_API int weft_dist_close(weft_dist **dist);

WEFT_API int weft_dist_rank(const weft_dist *dist);         /* this rank, from 0; -1 for NULL */
WEFT_API int weft_dist_ranks(const weft_dist *dist);        /* how many there are; 0 for NULL */
WEFT_API unsigned weft_dist_workers(const weft_dist *dist); /* of all ranks' pools; 0 for NULL */

/* Calls `body` for pieces that cover the range exactly, on the workers of all ranks. What a body writes stays on the rank
 * that ran it: which one that was may differ each time. range.grain 0: as many as make 64 grains for each worker. Returns
 * the same on every rank, after the last call of the body anywhere: WEFT_OK; the body's error in the lowest chunk that
 * failed: every chunk below has run, some above may have; WEFT_ECANCELED (weft_dist_cancel); WEFT_EINVAL (NULL, begin > end,
 * arguments that differ); the errors of weft_for and weft_submit, where no rank's body failed before. */
WEFT_API int weft_dist_for(weft_dist *dist, weft_range range, weft_range_fn body, void *context);

/* weft_reduce over all ranks: the same leaves, the same tree, the same bits; *result on every rank. Returns as
 * weft_dist_for, *result written with WEFT_OK alone; WEFT_EINVAL also as weft_reduce; WEFT_ENOMEM. Values travel as bytes:
 * no pointers. */
WEFT_API int weft_dist_reduce(weft_dist *dist, weft_range range, const weft_reduction *how, void *result);

/* Sorts the items of all ranks as one array, rank 0's first: afterwards each rank has as many as before, sorted, none less
 * than those of the rank before; those that compare equal stay in their order. `count` may differ from rank to rank, the
 * size may not. WEFT_OK; WEFT_EINVAL as weft_sort, or 2^31 items and more on one rank, or items so large that one of each
 * rank has 2^31 bytes; WEFT_ENOMEM; WEFT_ESHUTDOWN. The items are in some order, but all there on their ranks, after an
 * error. Samples take 64 MiB of a rank at most, or one item of each rank. */
WEFT_API int weft_dist_sort(weft_dist *dist, void *items, size_t count, const weft_order *order);

/* From a body, or any thread of any rank, during weft_dist_for or weft_dist_reduce: no chunk is begun any more but the first
 * of a rank that has not heard of it, those that run on this rank are cut short, and the call returns WEFT_ECANCELED on
 * every rank. Without one, the next such call is; so is the next when a call's bodies had all ended before. A call that
 * fails takes the wish with it. WEFT_OK; WEFT_EINVAL for NULL. */
WEFT_API int weft_dist_cancel(weft_dist *dist);

/* What this rank did in its last weft_dist_for or weft_dist_reduce. */
typedef struct weft_dist_counts {
    size_t struct_size; /* set by the caller to sizeof(weft_dist_counts) */
    uint64_t chunks;    /* run here */
    uint64_t indices;
    uint64_t busy_ns;    /* from the first chunk's begin to the last one's end */
    uint64_t wait_ns;    /* for the other ranks, after */
    uint64_t longest_ns; /* the longest chunk */
} weft_dist_counts;

/* Fills *counts. WEFT_OK or WEFT_EINVAL. Not collective. */
WEFT_API int weft_dist_counts_of(const weft_dist *dist, weft_dist_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
