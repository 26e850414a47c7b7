/* heap.c: blocks of memory. Layer 2; the contracts are in weft.h.
 *
 * For now one lock, powers of two, and a list of free blocks for each. A block stands behind a head that knows its start. */
#include <limits.h>
#include <string.h>

#include "os.h"
#include "weft.h"

#define CHUNK_BYTES ((size_t)1 << 20)
#define LISTED_LOG2 16

struct head {
    size_t usable; /* from the block's first byte on */
    size_t start;  /* bytes from the start of the piece to the block, the head in between */
};

struct piece {
    struct piece *next;
};

static struct {
    os_mutex lock;
    struct piece *free[LISTED_LOG2 + 1];
    char *chunk;
    size_t chunk_left;
    weft_heap_counts counts;
} heap;

static unsigned log2_of(size_t bytes) { return bytes <= 32 ? 5 : 64 - (unsigned)__builtin_clzll(bytes - 1); }

static void *piece_get(unsigned log2) {
    struct piece *piece = heap.free[log2];
    size_t bytes = (size_t)1 << log2;
    if (piece != NULL) {
        heap.free[log2] = piece->next;
        return piece;
    }
    if (heap.chunk_left < bytes) {
        char *chunk = os_map(CHUNK_BYTES);
        if (chunk == NULL) return NULL;
        heap.counts.mapped_bytes += CHUNK_BYTES;
        heap.chunk = chunk;
        heap.chunk_left = CHUNK_BYTES;
    }
    heap.chunk_left -= bytes;
    return heap.chunk + heap.chunk_left;
}

static void *bytes_get(size_t bytes) {
    unsigned log2 = log2_of(bytes);
    os_lock(&heap.lock);
    void *got = log2 <= LISTED_LOG2 ? piece_get(log2) : os_map(round_up(bytes, os_page_size()));
    if (got != NULL) heap.counts.allocs++;
    os_unlock(&heap.lock);
    return got;
}

static void bytes_put(void *start, size_t bytes) {
    unsigned log2 = log2_of(bytes);
    os_lock(&heap.lock);
    heap.counts.frees++;
    if (log2 <= LISTED_LOG2) {
        struct piece *piece = start;
        piece->next = heap.free[log2];
        heap.free[log2] = piece;
    } else {
        os_unmap(start, round_up(bytes, os_page_size()));
    }
    os_unlock(&heap.lock);
}

static struct head *head_of(const void *p) { return (struct head *)(uintptr_t)p - 1; }

void *weft_alloc_aligned(size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || size > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2)
        return NULL;
    if (alignment < 16) alignment = 16;
    size_t room = sizeof(struct head) + alignment;
    if (size > PTRDIFF_MAX - room) return NULL;
    size_t bytes = room + round_up(size == 0 ? 1 : size, 16);
    char *start = bytes_get(bytes);
    if (start == NULL) return NULL;
    char *block = start + (round_up((uintptr_t)start + sizeof(struct head), alignment) - (uintptr_t)start);
    *head_of(block) = (struct head){bytes - (size_t)(block - start), (size_t)(block - start)};
    return block;
}

void *weft_alloc(size_t size) { return weft_alloc_aligned(16, size); }

void *weft_alloc_zeroed(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    void *p = weft_alloc(bytes);
    if (p != NULL) memset(p, 0, bytes);
    return p;
}

void weft_free(void *p) {
    if (p == NULL) return;
    struct head head = *head_of(p);
    bytes_put((char *)p - head.start, head.usable + head.start);
}

void weft_free_sized(void *p, size_t size) {
    (void)size;
    weft_free(p);
}

size_t weft_usable_size(const void *p) { return p == NULL ? 0 : head_of(p)->usable; }

void *weft_realloc(void *p, size_t size) {
    size_t usable = weft_usable_size(p);
    if (p != NULL && size <= usable && size >= usable / 2) return p;
    void *other = weft_alloc(size);
    if (other == NULL || p == NULL) return other;
    memcpy(other, p, size < usable ? size : usable);
    weft_free(p);
    return other;
}

size_t weft_trim(void) { return 0; }

int weft_heap_configure(const weft_heap_config *config) {
    if (config == NULL || config->pool_capacity < WEFT_HEAP_NO_POOL || config->pool_capacity > 4096 ||
        config->pool_prefill < 0 || config->remote > WEFT_HEAP_REMOTE_KEEP || config->decay_ms < -1)
        return WEFT_EINVAL;
    return WEFT_OK;
}

int weft_heap_stats(weft_heap_counts *counts) {
    if (counts == NULL || counts->struct_size < sizeof counts->struct_size) return WEFT_EINVAL;
    size_t size = counts->struct_size;
    os_lock(&heap.lock);
    memcpy(counts, &heap.counts, size < sizeof *counts ? size : sizeof *counts);
    os_unlock(&heap.lock);
    counts->struct_size = size;
    return WEFT_OK;
}

int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts) {
    (void)index, (void)block_size, (void)counts;
    return WEFT_EINVAL;
}

int weft_heap_json(char *text, size_t size) {
    static const char empty[] = "{}";
    if (text == NULL && size != 0) return WEFT_EINVAL;
    for (size_t i = 0; i < size && i < sizeof empty; i++) text[i] = i + 1 == size ? 0 : empty[i];
    return sizeof empty - 1;
}

int weft_heap_walk(int (*visit)(const weft_heap_area *area, void *context), void *context) {
    (void)context;
    return visit == NULL ? WEFT_EINVAL : 0;
}
