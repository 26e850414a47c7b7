/* play_heap.c: a program's use of the heap. Blocks are filled; a shelf lets one thread free what another has allocated. */
#include "play.h"

#include <string.h>

enum { KEPT = 16 };

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t block_size(uint32_t *state) {
    static const size_t most[] = {16, 64, 112, 600, 3000, 20000, 150000};
    uint32_t which = draw(state) % (play.limits->is_model ? 5 : 16);
    which = which < 14 ? which % 5 : which - 9;
    return 1 + draw(state) % most[which];
}

struct kept {
    unsigned char *block;
    size_t bytes;
    uint32_t number;
};

static void kept_check(const struct kept *kept) {
    if (weft_usable_size(kept->block) < kept->bytes) play_fail("a block of %zu bytes has less", kept->bytes);
    if (!is_filled(kept->block, kept->bytes, kept->number))
        play_fail("a block of %zu bytes is not as it was filled", kept->bytes);
}

static void kept_free(struct kept *kept, uint32_t how) {
    if (kept->block == NULL) return;
    kept_check(kept);
    if (how % 2 == 0)
        weft_free(kept->block);
    else
        weft_free_sized(kept->block, kept->bytes);
    kept->block = NULL;
}

static void kept_alloc(struct kept *kept, uint32_t *state) {
    kept->bytes = block_size(state);
    kept->number = draw(state);
    bool is_zeroed = draw(state) % 4 == 0;
    kept->block = is_zeroed ? weft_alloc_zeroed(1, kept->bytes) : weft_alloc(kept->bytes);
    if (kept->block == NULL) play_fail("no memory for %zu bytes", kept->bytes);
    if ((uintptr_t)kept->block % 16 != 0) play_fail("a block is not aligned to 16");
    for (size_t i = 0; is_zeroed && i < kept->bytes; i++)
        if (kept->block[i] != 0) play_fail("a block of zeros is not");
    fill(kept->block, kept->bytes, kept->number);
}

static void kept_resize(struct kept *kept, uint32_t *state) {
    size_t bytes = block_size(state), less = bytes < kept->bytes ? bytes : kept->bytes;
    unsigned char *block = weft_realloc(kept->block, bytes);
    if (block == NULL || !is_filled(block, less, kept->number)) play_fail("weft_realloc lost what a block held");
    kept->block = block;
    kept->bytes = bytes;
    fill(block, bytes, kept->number);
}

void play_heap(struct frame *frame, const struct op *op) {
    struct kept kept[KEPT];
    uint32_t state = op->how * 2654435761u + op->count;
    (void)frame;
    memset(kept, 0, sizeof kept);
    for (uint32_t i = 0; i < op->count; i++) {
        struct kept *at = &kept[draw(&state) % KEPT];
        if (at->block == NULL)
            kept_alloc(at, &state);
        else if (draw(&state) % 4 == 0)
            kept_resize(at, &state);
        else
            kept_free(at, draw(&state));
    }
    if (!play.limits->is_model && op->how == 7 && op->count < 8) weft_trim();
    for (uint32_t i = 0; i < KEPT; i++) kept_free(&kept[i], i);
}

void play_private(struct frame *frame, const struct op *op) {
    struct kept kept[KEPT];
    uint32_t state = op->how * 2654435761u + op->count;
    weft_arena *heap;
    (void)frame;
    memset(kept, 0, sizeof kept);
    if (weft_arena_create(&heap) != WEFT_OK) play_fail("weft_arena_create");
    for (uint32_t i = 0; i < op->count; i++) {
        struct kept *at = &kept[draw(&state) % KEPT];
        if (at->block != NULL) {
            kept_check(at);
            if (draw(&state) % 2 == 0)
                weft_free(at->block);
            else if (weft_arena_free(heap, at->block) != WEFT_OK)
                play_fail("weft_arena_free");
            at->block = NULL;
            continue;
        }
        at->bytes = block_size(&state);
        at->number = draw(&state);
        at->block = weft_arena_alloc(heap, at->bytes);
        if (at->block == NULL) play_fail("no memory for %zu bytes in a private heap", at->bytes);
        fill(at->block, at->bytes, at->number);
    }
    for (uint32_t i = 0; i < KEPT; i++)
        if (kept[i].block != NULL) kept_check(&kept[i]);
    if (weft_arena_destroy(&heap) != WEFT_OK || heap != NULL) play_fail("weft_arena_destroy");
}
