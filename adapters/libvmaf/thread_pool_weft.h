/* thread_pool_weft.h: what the thread pool of adapters/libvmaf can do beyond libvmaf's own. Include libvmaf's
 * thread_pool.h first. */
#ifndef VMAF_THREAD_POOL_WEFT_H
#define VMAF_THREAD_POOL_WEFT_H

typedef struct VmafThreadPoolOptions {
    /* Jobs that may wait to start, after which enqueue blocks (on the threads that run them it never does); 0: no bound.
     * Upstream: n_threads. */
    unsigned queue_max;
    /* Nonzero: destroy runs what has not started. 0: it does not. */
    int destroy_runs;
    /* Gets the data of each job that destroy does not run (NULL for a job without), on some thread, once. May be NULL. */
    void (*drop)(void *data);
} VmafThreadPoolOptions;

/* Before the first enqueue. -EINVAL for NULL. */
int vmaf_thread_pool_options(VmafThreadPool *pool, const VmafThreadPoolOptions *options);

#endif
