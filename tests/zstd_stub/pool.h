/* The functions of zstd's pool, as adapters/zstd/pool.c has them. */
#ifndef WEFT_ZSTD_POOL_STUB_H
#define WEFT_ZSTD_POOL_STUB_H

#include "zstd.h"

typedef struct POOL_ctx_s POOL_ctx;
typedef void (*POOL_function)(void *);

POOL_ctx *POOL_create(size_t numThreads, size_t queueSize);
POOL_ctx *POOL_create_advanced(size_t numThreads, size_t queueSize, ZSTD_customMem customMem);
void POOL_free(POOL_ctx *ctx);
void POOL_joinJobs(POOL_ctx *ctx);
int POOL_resize(POOL_ctx *ctx, size_t numThreads);
size_t POOL_sizeof(const POOL_ctx *ctx);
void POOL_add(POOL_ctx *ctx, POOL_function function, void *opaque);
int POOL_tryAdd(POOL_ctx *ctx, POOL_function function, void *opaque);

#endif
