/* weft_free_sized of blocks that shrank in place: they are in a larger class than their size says. */
#include "help.h"

#include "weft.h"

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

/* Blocks that shrank in place come back by their size, in the cache that aligned ones come from: those begin elsewhere in
 * a page. */
static void test_aligned_after_sized_free(void **state) {
    enum { BLOCKS = 30 };
    (void)state;
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = weft_realloc(weft_alloc(5000), 4000);
    for (int i = 0; i < BLOCKS; i++) weft_free_sized(blocks[i], 4000);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = weft_alloc_aligned(4096, 4000);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 4096, 0);
        assert_true(weft_usable_size(blocks[i]) >= 4000);
    }
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
}

static void test_count_after_sized_free(void **state) {
    enum { BLOCKS = 2000 };
    (void)state;
    void *blocks[BLOCKS];
    weft_trim();
    uint64_t live_bytes = counts_now().live_bytes;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) blocks[i] = weft_realloc(weft_alloc(128), 70);
        for (int i = 0; i < BLOCKS; i++) weft_free_sized(blocks[i], 70);
    }
    weft_trim();
    assert_int_equal(counts_now().live_bytes, live_bytes);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_after_sized_free),
        cmocka_unit_test(test_count_after_sized_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
