/* fuzz_heap.c: sequences of the heap's calls by one thread; each block is filled, and looked at before it goes. (With
 * several threads and forks: tests/fuzz_heap.c, which draws by itself.) */
#include "fuzz.h"
#include "weft.h"

const char *const fuzz_words[] = {NULL};

enum { BLOCKS = 48, HEAPS = 2, STEPS_MAX = 4000 };

static struct block {
    unsigned char *p;
    size_t size;
    unsigned char color;
    unsigned heap; /* 0: none */
} blocks[BLOCKS];
static weft_arena *heaps[HEAPS + 1];

static void look(const struct block *b, size_t size) {
    if (size != 0) FUZZ_CHECK(b->p[0] == b->color && memcmp(b->p, b->p + 1, size - 1) == 0); /* all as the first */
}
static void paint(struct block *b, size_t size, unsigned char color) {
    b->size = size;
    b->color = color;
    memset(b->p, color, size);
}
static void drop(struct block *b) {
    if (b->p == NULL) return;
    look(b, b->size);
    if (b->heap != 0)
        FUZZ_CHECK(weft_arena_free(heaps[b->heap], b->p) == WEFT_OK);
    else
        weft_free(b->p);
    b->p = NULL;
}

static size_t some_size(struct fuzz *input) {
    unsigned shift = fuzz_below(input, 8);
    return (size_t)fuzz_number(input, 2) << (shift == 7 ? 6 : shift == 6 ? 3 : 0);
}

static void make(struct fuzz *input, struct block *b) {
    size_t size = some_size(input), alignment = 16;
    unsigned kind = fuzz_below(input, 5), heap = 1 + fuzz_below(input, HEAPS);
    drop(b);
    b->heap = 0;
    if (kind == 0) {
        b->p = weft_alloc_zeroed(1, size);
        for (size_t i = 0; i < size; i++) FUZZ_CHECK(b->p[i] == 0);
    } else if (kind == 1) {
        alignment <<= fuzz_below(input, 13);
        b->p = weft_alloc_aligned(alignment, size);
    } else if (kind == 2 && heaps[heap] != NULL) {
        b->p = weft_arena_alloc(heaps[heap], size);
        b->heap = heap;
    } else {
        b->p = weft_alloc(size);
    }
    FUZZ_CHECK(b->p != NULL && (uintptr_t)b->p % alignment == 0);
    if (b->heap == 0) FUZZ_CHECK(weft_usable_size(b->p) >= size);
    paint(b, size, fuzz_byte(input));
}

static void resize(struct fuzz *input, struct block *b) {
    size_t size = some_size(input);
    if (b->p == NULL || b->heap != 0 || size == 0) return;
    unsigned char *p = weft_realloc(b->p, size);
    FUZZ_CHECK(p != NULL);
    b->p = p;
    look(b, size < b->size ? size : b->size);
    paint(b, size, b->color);
}

/* Makes the heap, or destroys it with its blocks. */
static void turn(unsigned heap) {
    if (heaps[heap] == NULL) {
        FUZZ_CHECK(weft_arena_create(&heaps[heap]) == WEFT_OK && heaps[heap] != NULL);
        return;
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].p != NULL && blocks[i].heap == heap) {
            look(&blocks[i], blocks[i].size);
            blocks[i].p = NULL;
        }
    FUZZ_CHECK(weft_arena_destroy(&heaps[heap]) == WEFT_OK && heaps[heap] == NULL);
}

void fuzz_one(struct fuzz *input) {
    for (int step = 0; step < STEPS_MAX && input->left > 0; step++) {
        struct block *b = &blocks[fuzz_below(input, BLOCKS)];
        switch (fuzz_below(input, 8)) {
        case 0:
        case 1:
        case 2: make(input, b); break;
        case 3:
        case 4: drop(b); break;
        case 5: resize(input, b); break;
        case 6: turn(1 + fuzz_below(input, HEAPS)); break;
        default: weft_trim(); break;
        }
    }
    for (int i = 0; i < BLOCKS; i++) drop(&blocks[i]);
    for (unsigned i = 1; i <= HEAPS; i++)
        if (heaps[i] != NULL) turn(i);
}
