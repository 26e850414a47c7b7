/* dist_faults.h: calls of MPI that fail, by the interface that MPI has for layers like this one.
 *
 *     WEFT_FAIL_CALLS=MPI_Test:3,MPI_Barrier:1      the third call of one and the first of the other
 *     WEFT_FAIL_RANK=0                              on this rank; without it on all
 *
 * All that libweft-mpi calls are here, but MPI_Abort, which does not return, and MPI_Error_string, which only words what failed. */
#ifndef WEFT_TESTS_DIST_FAULTS_H
#define WEFT_TESTS_DIST_FAULTS_H

#include "help.h"

#include <mpi.h>
#include <stdatomic.h>

static const char *faults; /* of this rank; NULL: none */

/* Where memory is not shared a rank that has nothing left of a loop says so by MPI_Iallgather: who counts that puts a counter here. */
static atomic_uint *outs;

static int strikes(const char *name, unsigned long *calls) {
    size_t length = strlen(name);
    if (outs != NULL && strcmp(name, "MPI_Iallgather") == 0) atomic_fetch_add(outs, 1);
    ++*calls;
    for (const char *at = faults; at != NULL && *at != 0; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, name, length) != 0 || at[length] != ':') continue;
        if (strtoul(at + length + 1, NULL, 10) != *calls) continue;
        printf("struck %s\n", name);
        fflush(stdout);
        return 1;
    }
    return 0;
}

#define LAYER(name, parameters, arguments)                                                                                  \
    int name parameters {                                                                                                   \
        static unsigned long calls;                                                                                         \
        return strikes(#name, &calls) ? MPI_ERR_OTHER : P##name arguments;                                                  \
    }

LAYER(MPI_Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
LAYER(MPI_Comm_free, (MPI_Comm * comm), (comm))
LAYER(MPI_Comm_rank, (MPI_Comm comm, int *number), (comm, number))
LAYER(MPI_Comm_size, (MPI_Comm comm, int *count), (comm, count))
LAYER(MPI_Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
LAYER(MPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
LAYER(MPI_Initialized, (int *flag), (flag))
LAYER(MPI_Finalized, (int *flag), (flag))
LAYER(MPI_Query_thread, (int *level), (level))
LAYER(MPI_Test, (MPI_Request * request, int *done, MPI_Status *status), (request, done, status))
LAYER(MPI_Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status), (source, tag, comm, flag, status))
LAYER(MPI_Barrier, (MPI_Comm comm), (comm))
LAYER(MPI_Bcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm), (data, count, type, root, comm))
LAYER(MPI_Allreduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
      (from, to, count, type, op, comm))
LAYER(MPI_Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request))
LAYER(MPI_Iallreduce,
      (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
      (from, to, count, type, op, comm, request))
LAYER(MPI_Iallgather,
      (const void *from, int count, MPI_Datatype type, void *to, int other_count, MPI_Datatype other, MPI_Comm comm,
       MPI_Request *request),
      (from, count, type, to, other_count, other, comm, request))
LAYER(MPI_Iallgatherv,
      (const void *from, int count, MPI_Datatype type, void *to, const int counts[], const int places[], MPI_Datatype other,
       MPI_Comm comm, MPI_Request *request),
      (from, count, type, to, counts, places, other, comm, request))
LAYER(MPI_Ialltoall,
      (const void *from, int count, MPI_Datatype type, void *to, int other_count, MPI_Datatype other, MPI_Comm comm,
       MPI_Request *request),
      (from, count, type, to, other_count, other, comm, request))
LAYER(MPI_Ialltoallv,
      (const void *from, const int counts[], const int places[], MPI_Datatype type, void *to, const int other_counts[],
       const int other_places[], MPI_Datatype other, MPI_Comm comm, MPI_Request *request),
      (from, counts, places, type, to, other_counts, other_places, other, comm, request))
LAYER(MPI_Type_contiguous, (int count, MPI_Datatype old, MPI_Datatype *made), (count, old, made))
LAYER(MPI_Type_commit, (MPI_Datatype * type), (type))
LAYER(MPI_Type_free, (MPI_Datatype * type), (type))
LAYER(MPI_Win_allocate, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory, MPI_Win *made),
      (bytes, unit, info, comm, memory, made))
LAYER(MPI_Win_allocate_shared, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory, MPI_Win *made),
      (bytes, unit, info, comm, memory, made))
LAYER(MPI_Win_shared_query, (MPI_Win window, int its, MPI_Aint *bytes, int *unit, void *memory),
      (window, its, bytes, unit, memory))
LAYER(MPI_Win_set_errhandler, (MPI_Win window, MPI_Errhandler handler), (window, handler))
LAYER(MPI_Win_lock_all, (int how, MPI_Win window), (how, window))
LAYER(MPI_Win_unlock_all, (MPI_Win window), (window))
LAYER(MPI_Win_flush, (int its, MPI_Win window), (its, window))
LAYER(MPI_Win_free, (MPI_Win * window), (window))
LAYER(MPI_Accumulate,
      (const void *from, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count, MPI_Datatype target_type,
       MPI_Op op, MPI_Win window),
      (from, count, type, target, at, target_count, target_type, op, window))
LAYER(MPI_Rget_accumulate,
      (const void *from, int count, MPI_Datatype type, void *to, int to_count, MPI_Datatype to_type, int target, MPI_Aint at,
       int target_count, MPI_Datatype target_type, MPI_Op op, MPI_Win window, MPI_Request *request),
      (from, count, type, to, to_count, to_type, target, at, target_count, target_type, op, window, request))

static void faults_choose(void) {
    const char *chosen = getenv("WEFT_FAIL_RANK");
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (chosen == NULL || atoi(chosen) == rank) faults = getenv("WEFT_FAIL_CALLS");
}

#endif
