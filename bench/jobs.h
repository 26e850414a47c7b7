/* jobs.h: what the race's jobs do, and the proof that each ran exactly once.
 *
 * The functions are in a translation unit of their own, so no pool's compiler sees into them. A job adds to a counter of the
 * thread that runs it, two cache lines apart from any other thread's. Only job_shared uses a counter that all threads
 * share. */
#ifndef WEFT_BENCH_JOBS_H
#define WEFT_BENCH_JOBS_H

#include "entrant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most threads that may ever run jobs in one process; with more, the program ends. */
#define JOB_THREADS_MAX 4096u

struct job_totals {
    uint64_t count;
    uint64_t sum;   /* of the jobs' numbers */
    uint64_t check; /* of what each job computes from its payload: job_scramble, or a Fibonacci number */
};

/* Call either only while no job is under way. */
void jobs_reset(void);
struct job_totals jobs_total(void);

/* Payload: the job's number, a uint32_t. */
int job_int(void *payload, struct weft_worker *self);
/* The same with one atomic counter for all threads; it adds only to `check`, not to count and sum. */
int job_shared(void *payload, struct weft_worker *self);

/* A payload of at least 12 bytes: number, size, ..., and in its last four bytes the scrambled number. */
struct job_block_head {
    uint32_t number;
    uint32_t size;
};
int job_block(void *payload, struct weft_worker *self);

struct job_fib_payload {
    uint32_t number;
    uint16_t n;
    uint16_t times;
};
int job_fib(void *payload, struct weft_worker *self);
uint64_t job_fib_value(unsigned n); /* by iteration */

/* Works, counts one latch down, works, and counts another down. A latch number is below JOB_LATCHES; JOB_NO_LATCH: none. */
#define JOB_LATCHES 4u
#define JOB_NO_LATCH JOB_LATCHES
struct job_work_payload {
    uint32_t number;
    uint32_t iterations_before;
    uint32_t iterations_after;
    uint16_t latch_before;
    uint16_t latch_after;
};
int job_work(void *payload, struct weft_worker *self);
void job_spin(uint32_t iterations);

/* Bodies of loops: `count` gets the number of indices, `sum` their sum. The first does nothing else; the second spins for
 * each index; the third adds x to y. */
struct job_axpy_context {
    const double *x;
    double *y;
};
int job_range_empty(size_t begin, size_t end, void *context, struct weft_worker *self);
int job_range_spin(size_t begin, size_t end, void *context, struct weft_worker *self); /* context: uint32_t, iterations */
int job_range_axpy(size_t begin, size_t end, void *context, struct weft_worker *self); /* context: job_axpy_context */

void latch_set(unsigned latch, unsigned count);
void latch_wait(unsigned latch); /* until the latch has been counted down to zero */

/* What job_int, job_shared, job_block and job_work add to `check` for a number. */
uint32_t job_scramble(uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
