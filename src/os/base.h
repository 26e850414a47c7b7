/* base.h: attributes, bits and assertions. Layer 0.
 *
 * Nothing here touches memory that another thread may touch. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64
/* Processors fetch cache lines in pairs. Lines that different threads write all the time stand this far apart. */
#define LINES_APART 128

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))
#define ALIGNED(n) __attribute__((aligned(n)))

/* Marks variables of the process, which outlive a pool. The schedule explorer zeroes them before each schedule. */
#if defined(WEFT_EXPLORE)
#define PROCESS_STATE __attribute__((section("explore_state")))
#else
#define PROCESS_STATE
#endif

/* Checks for a programmer's error inside weft. Checked builds (WEFT_CHECKED) stop at once; release builds do not evaluate
 * it. */
#if defined(WEFT_CHECKED)
void weft_panic(const char *what, const char *file, int line) __attribute__((noreturn));
#define ASSERT(x) (LIKELY(x) ? (void)0 : weft_panic(#x, __FILE__, __LINE__))
#else
#define ASSERT(x) ((void)sizeof((x) ? 1 : 0))
#endif

/* For AddressSanitizer: marks bytes that nobody may touch until they are handed out. Does nothing in other builds. */
#if defined(__SANITIZE_ADDRESS__)
#define WEFT_POISONS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_POISONS
#endif
#endif
#if defined(WEFT_POISONS)
void __asan_poison_memory_region(const void *p, size_t size);
void __asan_unpoison_memory_region(const void *p, size_t size);
INLINE void poison(const void *p, size_t size) { __asan_poison_memory_region(p, size); }
INLINE void unpoison(const void *p, size_t size) { __asan_unpoison_memory_region(p, size); }
#else
INLINE void poison(const void *p, size_t size) { (void)p, (void)size; }
INLINE void unpoison(const void *p, size_t size) { (void)p, (void)size; }
#endif

/* Prefetches the cache line of `p` for reading. Any address will do. */
INLINE void prefetch_read(const void *p) { __builtin_prefetch(p); }
/* The same for writing: the line leaves all other processors' caches. */
INLINE void prefetch_write(const void *p) {
#if defined(__x86_64__)
    /* The builtin would need -mprfchw. Processors without the instruction treat it as a nop. */
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

INLINE uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
INLINE uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* How many bits are set. The builtin would be a call unless all targeted processors have the instruction. */
INLINE uint32_t bits_set(uint64_t word) {
#if defined(__x86_64__) && !defined(__POPCNT__)
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
#else
    return (uint32_t)__builtin_popcountll(word);
#endif
}

/* `n` rounded up to a multiple of `unit`, a power of two. */
INLINE size_t round_up(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }

/* Whether this can be the struct_size of a public structure, of any version. All are whole words, so none ends inside a
 * field. */
#define STRUCT_BYTES_MAX 4096u
INLINE bool struct_size_is_sound(size_t size) {
    return size >= sizeof size && size % sizeof size == 0 && size <= STRUCT_BYTES_MAX;
}
/* Copies a structure from a caller of another version into `whole`, which is all zero. An older caller's structure is
 * shorter; a newer one's must be zero beyond `size`. Both begin with their struct_size; `size` is the library's. */
INLINE bool struct_read(void *whole, size_t size, const void *given) {
    size_t given_size;
    __builtin_memcpy(&given_size, given, sizeof given_size);
    if (!struct_size_is_sound(given_size)) return false;
    for (size_t i = size; i < given_size; i++)
        if (((const unsigned char *)given)[i] != 0) return false;
    __builtin_memcpy(whole, given, min_u64(given_size, size));
    return true;
}
/* Copies `whole`, of `size` bytes, to the structure of a caller of another version. An older caller's structure is shorter;
 * a newer one's becomes zero beyond `size`. */
INLINE bool struct_write(void *given, const void *whole, size_t size) {
    size_t given_size;
    __builtin_memcpy(&given_size, given, sizeof given_size);
    if (!struct_size_is_sound(given_size)) return false;
    __builtin_memset(given, 0, given_size);
    __builtin_memcpy(given, whole, min_u64(given_size, size));
    __builtin_memcpy(given, &given_size, sizeof given_size);
    return true;
}

#endif
