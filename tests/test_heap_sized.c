/* Blocks that shrink or grow where they stand. Those that shrank are in a larger class than the size says that
 * weft_free_sized gets. */
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
        for (int i = 0; i < BLOCKS; i++) REQUIRE((blocks[i] = weft_alloc(70)) != NULL); /* the short way */
        for (int i = 0; i < BLOCKS; i++) weft_free_sized(blocks[i], 70);
    }
    weft_trim();
    assert_int_equal(counts_now().live_bytes, live_bytes);
}

enum { GROWN = 24, GROWN_FROM = 400 << 10, GROWN_TO = 900 << 10 };

static void is_all(const unsigned char *p, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) REQUIRE(p[i] == value);
}

/* Blocks of several slots grow where they stand while what is behind them is free, and what is used there stays. */
static void test_runs_grown(void **state) {
    (void)state;
    static unsigned char *blocks[GROWN], *others[GROWN];
    static void *fillers[3 * GROWN]; /* of the gaps that there are, and of those that blocks leave which move */
    int in_place = 0;
    uint64_t before = counts_now().live_bytes;
    for (int i = 0; i < 2 * GROWN; i++) REQUIRE((fillers[i] = weft_alloc(GROWN_FROM)) != NULL);
    for (int i = 0; i < GROWN; i++) {
        unsigned char *p = weft_alloc(GROWN_FROM);
        REQUIRE(p != NULL);
        memset(p, i, GROWN_FROM);
        others[i] = i % 4 != 0 ? NULL : weft_alloc(GROWN_FROM); /* mostly behind it */
        if (others[i] != NULL) memset(others[i], 100 + i, GROWN_FROM);
        REQUIRE((blocks[i] = weft_realloc(p, GROWN_TO)) != NULL);
        in_place += blocks[i] == p;
        fillers[2 * GROWN + i] = blocks[i] == p ? NULL : weft_alloc(GROWN_FROM);
        is_all(blocks[i], i, GROWN_FROM);
        memset(blocks[i], i, GROWN_TO);
        assert_true(weft_usable_size(blocks[i]) >= GROWN_TO);
    }
    print_message("%d of %d in place\n", in_place, GROWN);
    assert_in_range(in_place, GROWN / 4, GROWN - 1);
    for (int i = 0; i < GROWN; i++) {
        is_all(blocks[i], i, GROWN_TO);
        if (others[i] != NULL) is_all(others[i], 100 + i, GROWN_FROM);
        weft_free(blocks[i]);
        weft_free(others[i]);
    }
    for (int i = 0; i < 3 * GROWN; i++) weft_free(fillers[i]);
    assert_int_equal(counts_now().live_bytes, before);
}

/* ---- resizing ----------------------------------------------------------------------------------------------------- */

/* A block stays where it is from just over half of its size to all of it; the smallest always. */
static void test_resizing_in_place(void **state) {
    (void)state;
    for (size_t size = 16; size <= 32768; size = size < 512 ? size + 16 : size * 2) {
        void *p = weft_alloc(size);
        size_t usable = weft_usable_size(p), half = usable / 2;
        assert_ptr_equal(weft_realloc(p, usable), p);
        assert_ptr_equal(weft_realloc(p, half + 1), p);
        void *smaller = weft_realloc(p, half);
        assert_true((smaller == p) == (usable == 16));
        assert_in_range(weft_usable_size(smaller), half, usable == 16 ? 16 : usable - 1);
        void *larger = weft_realloc(weft_realloc(smaller, size), usable + 1);
        assert_true(weft_usable_size(larger) > usable);
        weft_free(larger);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_after_sized_free),
        cmocka_unit_test(test_count_after_sized_free),
        cmocka_unit_test(test_runs_grown),
        cmocka_unit_test(test_resizing_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
