/* The declarations that adapters/zstd/pool.c takes from zstd's tree, for its test. */
#ifndef WEFT_ZSTD_STUB_H
#define WEFT_ZSTD_STUB_H

#include <stddef.h>

typedef void *(*ZSTD_allocFunction)(void *opaque, size_t size);
typedef void (*ZSTD_freeFunction)(void *opaque, void *address);
typedef struct {
    ZSTD_allocFunction customAlloc;
    ZSTD_freeFunction customFree;
    void *opaque;
} ZSTD_customMem;

typedef struct POOL_ctx_s ZSTD_threadPool;
ZSTD_threadPool *ZSTD_createThreadPool(size_t numThreads);
void ZSTD_freeThreadPool(ZSTD_threadPool *pool);

#endif
