/* malloc.c: the C library's allocation functions, served by weft's heap. See docs/howto/malloc.md.
 *
 * In odd cases each function does what glibc's (2.36) does, and leaves the same in errno; tests/malloc/table.c has the cases
 * one by one. Nothing here allocates, prints, or looks symbols up. */
#include "heap/heap_rest.h"
#include "malloc_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define ALIGNMENT 16u /* of every block */

/* Declared here and not by <stdlib.h>: these are the definitions. */
void *malloc(size_t size);
void free(void *block);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **block, size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
size_t malloc_usable_size(void *block);
int malloc_trim(size_t pad);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

static NOINLINE void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

static inline void *checked(void *block) { return LIKELY(block != NULL) ? block : no_memory(); }

static NOINLINE void *malloc_slow(size_t size) { return checked(heap_alloc_slow(size)); }

EXPORT void *malloc(size_t size) {
    void *block = heap_alloc_quick(size);
    return LIKELY(block != NULL) ? block : malloc_slow(size);
}

EXPORT void free(void *block) { weft_free(block); }

EXPORT void *calloc(size_t count, size_t size) { return checked(weft_alloc_zeroed(count, size)); }

/* A block that should have shrunk to less than half stayed in place for want of memory. Its free will then name the new
 * size. */
static atomic_bool any_stayed;

static void free_of_size(void *block, size_t size) {
    if (UNLIKELY(atomic_load_explicit(&any_stayed, memory_order_relaxed)))
        weft_free(block);
    else
        weft_free_sized(block, size);
}

/* Size 0 frees the block and is no error, unless there was no block. */
EXPORT void *realloc(void *block, size_t size) {
    if (UNLIKELY(size == 0 && block != NULL)) {
        weft_free(block);
        return NULL;
    }
    void *resized = weft_realloc(block, size);
    if (LIKELY(resized != NULL)) return resized;
    if (block == NULL || size > weft_usable_size(block)) return no_memory();
    atomic_store_explicit(&any_stayed, true, memory_order_relaxed);
    return block; /* programs assume that shrinking never fails */
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return no_memory();
    return realloc(block, bytes);
}

/* Rounds an alignment that is not a power of two up to one. */
static void *aligned(size_t alignment, size_t size) {
    if (alignment <= ALIGNMENT) return malloc(size);
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = (size_t)1 << (sizeof(size_t) * CHAR_BIT - 1 - (unsigned)__builtin_clzl(alignment));
    return checked(weft_alloc_aligned(power < alignment ? power * 2 : power, size));
}

EXPORT void *memalign(size_t alignment, size_t size) { return aligned(alignment, size); }

EXPORT void *aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size); }

EXPORT int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
    void *made = aligned(alignment, size);
    if (made == NULL) return ENOMEM;
    *block = made;
    return 0;
}

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

EXPORT void *valloc(size_t size) { return aligned(page_size(), size); }

EXPORT void *pvalloc(size_t size) {
    size_t page = page_size(), rounded;
    if (__builtin_add_overflow(size, page - 1, &rounded)) return no_memory();
    return aligned(page, rounded & ~(page - 1));
}

EXPORT size_t malloc_usable_size(void *block) { return weft_usable_size(block); }

/* `pad` is ignored: it concerns the top of glibc's heap. */
EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    int saved = errno;
    int released = weft_trim() != 0;
    errno = saved;
    return released;
}

/* C23. */
EXPORT void free_sized(void *block, size_t size) { free_of_size(block, size); }

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment, (void)size;
    weft_free(block);
}

/* ---- glibc's own names -------------------------------------------------------------------------------------------- */

/* Programs that put a malloc of their own in front call these. A block from one may go to the other's free. */
#define LIBC(function) __asm__("__libc_" #function) __attribute__((alias(#function), visibility("default")))
void *libc_malloc(size_t size) LIBC(malloc);
void libc_free(void *block) LIBC(free);
void *libc_calloc(size_t count, size_t size) LIBC(calloc);
void *libc_realloc(void *block, size_t size) LIBC(realloc);
void *libc_memalign(size_t alignment, size_t size) LIBC(memalign);
void *libc_valloc(size_t size) LIBC(valloc);
void *libc_pvalloc(size_t size) LIBC(pvalloc);

/* Programs linked before glibc 2.26 may call cfree. */
void libc_cfree(void *block) __asm__("cfree") __attribute__((alias("free"), visibility("default")));

/* ---- C++'s operators ---------------------------------------------------------------------------------------------- */

/* libweft-malloc.a has none. The operators in a C++ runtime's archive call malloc, throw and catch, and give way to the
 * program's. */
#ifndef WEFT_ARCHIVE

/* The most used forms. The others, and what happens without memory, are in operators.cpp. */
void *new_one(size_t size) __asm__("_Znwm");
void *new_array(size_t size) __asm__("_Znam");
void delete_one(void *block) __asm__("_ZdlPv");
void delete_array(void *block) __asm__("_ZdaPv");
void delete_one_sized(void *block, size_t size) __asm__("_ZdlPvm");
void delete_array_sized(void *block, size_t size) __asm__("_ZdaPvm");

_Static_assert(sizeof(size_t) == sizeof(unsigned long), "the names have an m for size_t");

static NOINLINE void *new_slow(size_t size) {
    void *block = heap_alloc_slow(size);
    return LIKELY(block != NULL) ? block : operators_new_slow(size);
}

EXPORT void *new_one(size_t size) {
    void *block = heap_alloc_quick(size);
    return LIKELY(block != NULL) ? block : new_slow(size);
}

EXPORT void delete_one(void *block) { weft_free(block); }

void *operators_new(size_t size) __attribute__((alias("_Znwm")));
void *operators_new_array(size_t size) __attribute__((alias("_Znam")));
void operators_delete(void *block) __attribute__((alias("_ZdlPv")));
void operators_delete_array(void *block) __attribute__((alias("_ZdaPv")));

EXPORT void *new_array(size_t size) {
    if (UNLIKELY(operators_new_is_replaced)) return operators_new_used(size);
    void *block = heap_alloc_quick(size);
    return LIKELY(block != NULL) ? block : new_slow(size);
}

EXPORT void delete_array(void *block) {
    if (UNLIKELY(operators_delete_is_replaced)) return operators_delete_used(block);
    weft_free(block);
}

EXPORT void delete_one_sized(void *block, size_t size) {
    if (UNLIKELY(operators_delete_is_replaced)) return operators_delete_used(block);
    free_of_size(block, size);
}

EXPORT void delete_array_sized(void *block, size_t size) {
    if (UNLIKELY(operators_delete_is_replaced)) return operators_delete_array_used(block);
    free_of_size(block, size);
}

#endif
