/* What adapters/x264 takes from x264's own common/common.h, for tests without x264's tree. */
#ifndef X264_STUB_COMMON_H
#define X264_STUB_COMMON_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#define REALIGN_STACK __attribute__((force_align_arg_pointer))
#else
#define REALIGN_STACK
#endif

/* x264 compiles each file once for every bit depth and tells the copies apart by name. */
#define x264_template(name) x264_stub_##name

typedef struct x264_threadpool_t x264_threadpool_t;

#define x264_threadpool_init x264_template(threadpool_init)
#define x264_threadpool_run x264_template(threadpool_run)
#define x264_threadpool_wait x264_template(threadpool_wait)
#define x264_threadpool_delete x264_template(threadpool_delete)

int x264_threadpool_init(x264_threadpool_t **p_pool, int threads);
void x264_threadpool_run(x264_threadpool_t *pool, void *(*func)(void *), void *arg);
void *x264_threadpool_wait(x264_threadpool_t *pool, void *arg);
void x264_threadpool_delete(x264_threadpool_t *pool);

#endif
