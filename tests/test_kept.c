/* test_kept.c: ranges that are kept stay for a turn of decay, go back young when nothing older is there, and make room for others. */
#define _GNU_SOURCE
#include "help.h"

#include "heap/heap.h"
#include "pages/kept.h"
#include "weft.h"

static bool refuses;
void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    return refuses ? NULL : __real_os_map_aligned(bytes, alignment);
}

static char *map_segments(size_t count) {
    char *range = os_map_aligned(count * SEGMENT_BYTES, SEGMENT_BYTES);
    REQUIRE(range != NULL);
    return range;
}

static void test_young_go_too(void **state) {
    (void)state;
    kept_purge(true);
    assert_true(kept_put(map_segments(2), 2 * SEGMENT_BYTES, SIZE_MAX));
    assert_int_equal(kept_give(1), SEGMENT_BYTES);
    assert_int_equal(kept_held(), SEGMENT_BYTES);
    assert_int_equal(kept_give(SIZE_MAX), SEGMENT_BYTES);
    assert_int_equal(kept_give(1), 0);
}

/* A turn of decay gives back what was there at the turn before. */
static void test_young_stay_for_a_turn(void **state) {
    (void)state;
    kept_purge(true);
    assert_true(kept_put(map_segments(2), 2 * SEGMENT_BYTES, SIZE_MAX));
    assert_int_equal(kept_purge(false), 0);
    assert_int_equal(kept_held(), 2 * SEGMENT_BYTES);
    assert_int_equal(kept_purge(false), 2 * SEGMENT_BYTES);
    assert_int_equal(kept_held(), 0);
}

static void test_room_for_another(void **state) {
    (void)state;
    kept_purge(true);
    assert_true(kept_put(map_segments(2), 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES));
    assert_true(kept_put(map_segments(2), 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES));
    assert_int_equal(kept_held(), 3 * SEGMENT_BYTES);
    char *large = map_segments(4);
    assert_false(kept_put(large, 4 * SEGMENT_BYTES, 3 * SEGMENT_BYTES));
    assert_int_equal(kept_held(), 3 * SEGMENT_BYTES);
    os_unmap(large, 4 * SEGMENT_BYTES);
    kept_purge(true);
}

/* Without address space for what is to be gathered, the first range goes back, and the others stay. */
static void test_gathered_without_memory(void **state) {
    enum { RANGES = 3, EACH = 2 };
    (void)state;
    kept_purge(true);
    char *all = map_segments((size_t)RANGES * EACH);
    for (int i = 0; i < RANGES; i++) /* behind each is what does not let it grow */
        assert_true(kept_put(all + (size_t)i * EACH * SEGMENT_BYTES, SEGMENT_BYTES, SIZE_MAX));
    refuses = true;
    assert_null(kept_gather(2 * SEGMENT_BYTES));
    refuses = false;
    assert_int_equal(kept_held(), (RANGES - 1) * SEGMENT_BYTES);
    assert_int_equal(kept_bytes(), (RANGES - 1) * SEGMENT_BYTES);
    char *gathered = kept_gather(2 * SEGMENT_BYTES);
    assert_non_null(gathered);
    assert_int_equal(kept_held(), 0);
    os_unmap(gathered, 2 * SEGMENT_BYTES);
    for (int i = 0; i < RANGES; i++) os_unmap(all + ((size_t)i * EACH + 1) * SEGMENT_BYTES, SEGMENT_BYTES);
}

static uint64_t reused(void) { return load_rlx(&heap_mine()->large[LARGE_REUSED]); }

/* A mapping that was kept counts as used again, a new one does not. */
static void test_reuse_is_counted(void **state) {
    enum { BYTES = 9 << 20 };
    (void)state;
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = -1};
    assert_int_equal(weft_heap_configure(&config), WEFT_OK);
    weft_free(weft_alloc(1)); /* the thread has a heap */
    kept_purge(true);
    uint64_t before = reused();
    weft_heap_counts counts = {.struct_size = sizeof counts}, more = counts;
    assert_int_equal(weft_heap_stats(&counts), WEFT_OK);
    char *block = weft_alloc(BYTES);
    assert_non_null(block);
    memset(block, 1, BYTES);
    assert_int_equal(reused(), before);
    assert_int_equal(weft_heap_stats(&more), WEFT_OK);
    assert_true(more.mapped_bytes >= counts.mapped_bytes + BYTES && more.resident_bytes >= counts.resident_bytes + BYTES);
    weft_free(block);
    block = weft_alloc(BYTES);
    assert_non_null(block);
    assert_int_equal(reused(), before + 1);
    weft_free(block);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_young_go_too),     cmocka_unit_test(test_young_stay_for_a_turn),
        cmocka_unit_test(test_room_for_another), cmocka_unit_test(test_gathered_without_memory),
        cmocka_unit_test(test_reuse_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
