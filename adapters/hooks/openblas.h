/* OpenBLAS on weft (the versions with openblas_set_threads_callback_function), in one source file:
 *
 *     #include <cblas.h>
 *     #include <hooks/openblas.h>
 *     weft_openblas_start(openblas_get_num_threads());
 *     ...
 *     weft_openblas_stop();
 *
 * with OPENBLAS_THREAD_TIMEOUT=4 in the environment before the program starts: parts of LAPACK (dgetrf) still give jobs to
 * OpenBLAS's own threads, which would spin for tens of milliseconds after each; with this setting they do not spin.
 *
 * Jobs of one call spin for each other, so with fewer threads than jobs they would hang. Therefore they do not share a pool:
 * they have as many threads of their own as a call needs, the calling thread among them, and calls take turns. A forked
 * child has OpenBLAS's own threads; a fork waits for the current call.
 *
 * Only one thread at a time may factorise by LU (dgetrf, dgesv and their like). OpenBLAS 0.3.34 gives jobs of it to its own
 * threads without waiting for another caller's, and with any callback two such callers hang. Products and Cholesky
 * factorisations may overlap.
 *
 * If the names have a prefix, as in scipy_openblas32, define WEFT_OPENBLAS_PREFIX(name) as scipy_##name. */
#ifndef WEFT_HOOKS_OPENBLAS_H
#define WEFT_HOOKS_OPENBLAS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>

#ifndef WEFT_OPENBLAS_PREFIX
#define WEFT_OPENBLAS_PREFIX(name) name
#endif

/* How long a thread looks for the next call before it sleeps: a factorisation makes a call every few tens of microseconds. A
 * longer time gains nothing for one program, and costs other threads of the process a tenth when four libraries compute at
 * once. */
#ifndef WEFT_OPENBLAS_SPIN_NS
#define WEFT_OPENBLAS_SPIN_NS 50000
#endif

static weft_pool *weft_openblas_pool;
static pthread_mutex_t weft_openblas_turn = PTHREAD_MUTEX_INITIALIZER; /* one call at a time */

typedef struct weft_openblas_job {
    openblas_dojob_callback run;
    int index, data;
    void *job;
} weft_openblas_job;

static inline int weft_openblas_run(void *payload, weft_worker *self) {
    const weft_openblas_job *job = (const weft_openblas_job *)payload;
    (void)self;
    job->run(job->index, job->job, job->data);
    return 0;
}

/* Provides at least `workers` threads. WEFT_OK; on an error there is no pool. */
static inline int weft_openblas_reserve(unsigned workers) {
    if (weft_pool_workers(weft_openblas_pool) >= workers) return WEFT_OK;
    weft_pool_destroy(&weft_openblas_pool);
    weft_config config;
    weft_config_init(&config);
    config.workers = workers;
    config.spares = 1;
    config.name = "openblas";
    config.stack_size = (size_t)8 << 20;
    config.spin_ns = WEFT_OPENBLAS_SPIN_NS;
    int error = weft_pool_create(&weft_openblas_pool, &config);
    if (error == WEFT_OK && weft_pool_workers(weft_openblas_pool) < workers) {
        error = WEFT_EAGAIN;
        weft_pool_destroy(&weft_openblas_pool);
    }
    return error;
}

/* OpenBLAS takes no error codes, and the other jobs would spin for ever for a missing one. */
static inline void weft_openblas_require(int error) {
    if (error == WEFT_OK) return;
    fprintf(stderr, "weft: no thread for OpenBLAS: %s\n", weft_strerror(error));
    abort();
}

static inline void weft_openblas_jobs(int sync, openblas_dojob_callback run, int count, size_t size, void *jobs, int data) {
    weft_group group = WEFT_GROUP_INIT;
    (void)sync; /* waiting is correct in either case */
    pthread_mutex_lock(&weft_openblas_turn);
    if (count > 1) weft_openblas_require(weft_openblas_reserve((unsigned)count - 1));
    for (int i = 1; i < count; i++) {
        const weft_openblas_job job = {run, i, data, (char *)jobs + (size_t)i * size};
        weft_openblas_require(weft_submit(weft_openblas_pool, &group, weft_openblas_run, &job, sizeof job));
    }
    if (count > 0) run(0, jobs, data);
    if (count > 1) weft_openblas_require(weft_group_wait(weft_openblas_pool, &group));
    pthread_mutex_unlock(&weft_openblas_turn);
}

static inline void weft_openblas_before_fork(void) { pthread_mutex_lock(&weft_openblas_turn); }
static inline void weft_openblas_in_parent(void) { pthread_mutex_unlock(&weft_openblas_turn); }
static inline void weft_openblas_in_child(void) {
    WEFT_OPENBLAS_PREFIX(openblas_set_threads_callback_function)(NULL);
    weft_pool_destroy(&weft_openblas_pool);
    pthread_mutex_unlock(&weft_openblas_turn);
}

/* `threads` is as for openblas_set_num_threads, which this calls. WEFT_OK, or an error of weft_pool_create: OpenBLAS then
 * keeps its own threads. Call it while OpenBLAS computes nothing. */
static inline int weft_openblas_start(int threads) {
    static int watches_forks;
    if (threads < 1) return WEFT_EINVAL;
    int error = weft_openblas_reserve((unsigned)threads - 1);
    if (error != WEFT_OK) return error;
    if (!watches_forks && pthread_atfork(weft_openblas_before_fork, weft_openblas_in_parent, weft_openblas_in_child) != 0) {
        weft_pool_destroy(&weft_openblas_pool);
        return WEFT_ENOMEM;
    }
    watches_forks = 1;
    WEFT_OPENBLAS_PREFIX(openblas_set_threads_callback_function)(weft_openblas_jobs);
    WEFT_OPENBLAS_PREFIX(openblas_set_num_threads)(threads);
    return WEFT_OK;
}

/* Returns to OpenBLAS's own threads. Call it while OpenBLAS computes nothing. */
static inline void weft_openblas_stop(void) {
    WEFT_OPENBLAS_PREFIX(openblas_set_threads_callback_function)(NULL);
    weft_pool_destroy(&weft_openblas_pool);
}

#endif
