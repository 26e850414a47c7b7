/* count_malloc.so: counts the calls of the malloc family. It is preloaded only in the counting run, which is not timed. It
 * stands in front of glibc's allocator and calls it by its second name, so it needs no symbol look-up and no memory of its
 * own. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_uint_fast64_t calls;

static void count(void) { atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed); }

/* The number of calls so far. The counting process looks this function up by name. */
EXPORT uint64_t weft_race_malloc_calls(void);
EXPORT uint64_t weft_race_malloc_calls(void) { return atomic_load(&calls); }

EXPORT void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}

EXPORT void *realloc(void *block, size_t size) {
    count();
    return __libc_realloc(block, size);
}

EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *memalign(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size);
EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    count();
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
    void *made = __libc_memalign(alignment, size);
    if (made == NULL) return ENOMEM;
    *block = made;
    return 0;
}
