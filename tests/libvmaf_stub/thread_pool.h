/* What adapters/libvmaf takes from libvmaf's own thread_pool.h, for tests without libvmaf's tree. */
#ifndef LIBVMAF_STUB_THREAD_POOL_H
#define LIBVMAF_STUB_THREAD_POOL_H

#include <stddef.h>

typedef struct VmafThreadPool VmafThreadPool;

typedef struct VmafThreadPoolConfig {
    unsigned n_threads;
    void (*thread_data_free)(void *thread_data);
} VmafThreadPoolConfig;

int vmaf_thread_pool_create(VmafThreadPool **pool, VmafThreadPoolConfig cfg);
int vmaf_thread_pool_enqueue(VmafThreadPool *pool, void (*func)(void *data, void **thread_data), void *data, size_t data_sz);
int vmaf_thread_pool_wait(VmafThreadPool *pool);
int vmaf_thread_pool_destroy(VmafThreadPool *pool);

#endif
