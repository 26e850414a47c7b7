/* hooks.h: what hangs on the heap's core: large blocks, private heaps, checked mode, reports of misuse without it, samples.
 * The core calls none of them by name, and none of them calls upwards: checked mode knows private heaps and large blocks,
 * private heaps know large blocks. hooks.c binds them. Their contracts are in heap.h. */
#ifndef WEFT_HEAP_HOOKS_H
#define WEFT_HEAP_HOOKS_H

#include "heap/heap.h"

struct heap_hooks {
    void *(*large_alloc)(size_t size, size_t alignment, bool *zeroed);
    void (*large_free)(void *p, unsigned kind);
    void (*private_free)(void *p);
    void (*private_large_end)(struct heap *heap, struct slab *slab);
    void *(*check_alloc)(size_t size, size_t alignment);
    void (*check_free)(void *p, size_t size);
    void (*check_flush)(struct heap *heap);
    void *(*check_alloc_in)(struct heap *heap, size_t size);
    bool (*check_free_in)(struct heap *heap, void *p);
    void (*check_forget)(const struct slab *slab);
    void (*check_renew)(const struct slab *slab);
    void (*misuse_look)(const void *p, const char *call);
    void (*misuse_sized)(const void *p, size_t size);
    void (*misuse_found)(const void *p);
    void *(*sampling_alloc)(size_t size, bool *zeroed, const void *from);
    void (*sampling_large)(void *p, size_t size, const void *from);
    void (*sampling_lift)(struct heap *heap, unsigned kind);
    void (*sampling_lower)(struct heap *heap, unsigned kind);
    bool (*sampling_has)(const struct slab *slab);
    void (*sampling_free)(void *p);
    void (*sampling_end)(const void *p);
    void (*sampling_resize)(const void *p, size_t size);
};
extern const struct heap_hooks heap_hooks;

#endif
