/* thread_pool_weft.h: options of the thread pool in adapters/libvmaf that libvmaf's own pool does not have. Include
 * libvmaf's thread_pool.h first. */
#ifndef VMAF_THREAD_POOL_WEFT_H
#define VMAF_THREAD_POOL_WEFT_H

typedef struct VmafThreadPoolOptions {
    /* How many jobs may wait to start before enqueue blocks (it never blocks on the threads that run them); 0: no bound.
     * Upstream: n_threads. */
    unsigned queue_max;
    /* Nonzero: destroy runs the jobs that have not started. 0: it drops them. */
    int destroy_runs;
    /* Called once with the data of each job that destroy drops (NULL for a job without data), on some thread. May be
     * NULL. */
    void (*drop)(void *data);
} VmafThreadPoolOptions;

/* Call it before the first enqueue. -EINVAL for NULL. */
int vmaf_thread_pool_options(VmafThreadPool *pool, const VmafThreadPoolOptions *options);

#endif
