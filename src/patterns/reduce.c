/* reduce.c: reductions whose result does not depend on which thread computes what.
 *
 * The leaves are ranges of `grain` indices; the first begins at the range's begin. Above them stands a binary tree: node i
 * of level l combines nodes 2i and 2i+1 of level l-1; a node whose right half is empty equals its left half. A block is a
 * subtree, with so many leaves that the number of blocks fits. A loop's body computes blocks, and the caller combines
 * them. The tree is the same for every block size, so that size may be chosen freely. */
#include "patterns/cost.h"
#include "patterns/loop.h"

#include <string.h>

#define BLOCKS_MAX 256u
#define BLOCKS_MIN 32u
#define BLOCKS_BYTES 131072u /* of values, for more blocks than BLOCKS_MIN */
#define SMALL_BYTES 4096u    /* of values on the caller's stack */
#define LEVELS_BYTES 1024u   /* and on the stack of a block's body */

struct reduce {
    const weft_reduction *how;
    size_t begin;
    size_t end;
    size_t grain;
    size_t stride;         /* bytes from value to value */
    unsigned levels;       /* of a block: it has 1 << levels leaves */
    unsigned char *values; /* one for each block */
};

static void combine(const struct reduce *reduce, void *left, const void *right) {
    reduce->how->combine(left, right, reduce->how->context);
}

static int leaf(const struct reduce *reduce, size_t index, void *value, weft_worker *self) {
    size_t begin = reduce->begin + index * reduce->grain;
    size_t end = reduce->end - begin > reduce->grain ? begin + reduce->grain : reduce->end;
    return reduce->how->leaf(begin, end, value, reduce->how->context, self);
}

/* The values of subtrees that wait for their right neighbours, largest subtree first. */
struct stack {
    unsigned char *values;
    size_t stride;
    unsigned count;
};

static void *stack_at(const struct stack *stack, unsigned index) { return stack->values + index * stack->stride; }

/* The value on top is the `index`th of level 0. Combines the pairs that are complete. */
static void stack_settle(const struct reduce *reduce, struct stack *stack, size_t index) {
    for (; (index & 1) != 0; index >>= 1) {
        stack->count--;
        combine(reduce, stack_at(stack, stack->count - 1), stack_at(stack, stack->count));
    }
}

/* Nothing more comes: combines all values into the first. */
static void stack_close(const struct reduce *reduce, struct stack *stack) {
    for (; stack->count > 1; stack->count--)
        combine(reduce, stack_at(stack, stack->count - 2), stack_at(stack, stack->count - 1));
}

static size_t leaf_count(const struct reduce *reduce) {
    size_t indices = reduce->end - reduce->begin;
    return indices / reduce->grain + (indices % reduce->grain != 0);
}

/* Computes a block's value into stack->values. */
static int block_run(const struct reduce *reduce, struct stack *stack, size_t block, weft_worker *self) {
    size_t first = block << reduce->levels;
    size_t count = (size_t)min_u64((uint64_t)1 << reduce->levels, leaf_count(reduce) - first);
    for (size_t i = 0; i < count; i++) {
        int error = leaf(reduce, first + i, stack_at(stack, stack->count), self);
        if (error != 0) return error;
        stack->count++;
        stack_settle(reduce, stack, i);
    }
    stack_close(reduce, stack);
    return 0;
}

static int block_body(size_t begin, size_t end, void *context, weft_worker *self) {
    const struct reduce *reduce = context;
    unsigned char small[LEVELS_BYTES] ALIGNED(CACHE_LINE);
    size_t bytes = reduce->stride * (reduce->levels + 2);
    unsigned char *values = bytes <= sizeof small ? small : weft_alloc(bytes);
    if (values == NULL) return WEFT_ENOMEM;
    int error = 0;
    for (size_t block = begin; block < end && error == 0; block++) {
        struct stack stack = {values, reduce->stride, 0};
        error = block_run(reduce, &stack, block, self);
        if (error == 0) memcpy(reduce->values + block * reduce->stride, values, reduce->how->size);
    }
    if (values != small) weft_free(values);
    return error;
}

/* Combines the blocks' values into the first one, in place. */
static void blocks_unite(const struct reduce *reduce, size_t blocks) {
    struct stack stack = {reduce->values, reduce->stride, 0};
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *to = stack_at(&stack, stack.count);
        const unsigned char *from = reduce->values + i * reduce->stride;
        if (to != from) memcpy(to, from, reduce->how->size);
        stack.count++;
        stack_settle(reduce, &stack, i);
    }
    stack_close(reduce, &stack);
}

static bool is_sound(weft_range range, const weft_reduction *how) {
    return how != NULL && how->size > 0 && how->size <= WEFT_PAYLOAD_MAX && how->leaf != NULL && how->combine != NULL &&
           range.begin <= range.end;
}

static int reduce_run(weft_pool *pool, struct reduce *reduce, void *result) {
    unsigned char small[SMALL_BYTES] ALIGNED(CACHE_LINE);
    uint64_t blocks_max = max_u64(min_u64(BLOCKS_BYTES / reduce->stride, BLOCKS_MAX), BLOCKS_MIN);
    size_t leaves = leaf_count(reduce);
    size_t blocks = leaves;
    while (blocks > blocks_max) {
        reduce->levels++;
        blocks = blocks / 2 + blocks % 2;
    }
    size_t bytes = blocks * reduce->stride;
    reduce->values = bytes <= sizeof small ? small : weft_alloc(bytes);
    if (reduce->values == NULL) return WEFT_ENOMEM;
    uint64_t site = cost_site(reduce->how->context, leaves);
    int error = loop_for(pool, &(struct loop_job){{0, blocks, 1}, block_body, reduce, (uintptr_t)reduce->how->leaf, site});
    if (error == WEFT_OK) {
        blocks_unite(reduce, blocks);
        memcpy(result, reduce->values, reduce->how->size);
    }
    if (reduce->values != small) weft_free(reduce->values);
    return error;
}

int weft_reduce(weft_pool *pool, weft_range range, const weft_reduction *how, void *result) {
    if (pool == NULL || result == NULL || !is_sound(range, how)) return WEFT_EINVAL;
    if (pool->fork_count != os_fork_count()) return WEFT_EFORK; /* an empty range calls no loop */
    size_t indices = range.end - range.begin;
    if (indices == 0) {
        if (how->identity != NULL) memcpy(result, how->identity, how->size);
        if (how->identity == NULL) memset(result, 0, how->size);
        return WEFT_OK;
    }
    struct reduce reduce = {.how = how, .begin = range.begin, .end = range.end, .grain = range.grain};
    if (reduce.grain == 0) reduce.grain = weft_reduce_grain(indices, how->size);
    reduce.stride = round_up(how->size, 16);
    return reduce_run(pool, &reduce, result);
}
