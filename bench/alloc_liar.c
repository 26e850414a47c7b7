/* alloc_liar.so, for the test of the race: an allocator that sometimes hands out a block of 48 bytes twice. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LIE_SIZE 48u
#define LIE_BLOCKS 65536u

void *__libc_malloc(size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static _Alignas(64) unsigned char blocks[LIE_BLOCKS][LIE_SIZE];
static atomic_uint next;

EXPORT void *malloc(size_t size) {
    if (size != LIE_SIZE) return __libc_malloc(size);
    unsigned number = atomic_fetch_add(&next, 1);
    if (number % 64 == 63) number--; /* the lie */
    return blocks[number % LIE_BLOCKS];
}

static int is_ours(const void *block) { return (uintptr_t)block - (uintptr_t)blocks < sizeof blocks; }

EXPORT void free(void *block);
EXPORT void free(void *block) {
    if (!is_ours(block)) __libc_free(block);
}

EXPORT void *realloc(void *block, size_t size) {
    if (!is_ours(block)) return __libc_realloc(block, size);
    void *moved = malloc(size);
    if (moved != NULL) memcpy(moved, block, size < LIE_SIZE ? size : LIE_SIZE);
    return moved;
}
