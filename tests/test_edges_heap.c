/* test_edges_heap.c: what the heap asks the system for: how often, when with huge pages, and again when it was refused once. */
#define _GNU_SOURCE
#include "depot.h"
#include "help.h"
#include "kept.h"
#include "weft.h"

#include <stdatomic.h>
#include <stdbool.h>

/* ---- what the library asks for ------------------------------------------------------------------------------------ */

void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
void __real_os_huge(void *memory, size_t bytes, bool on);
void __wrap_os_huge(void *memory, size_t bytes, bool on);

static struct { atomic_uint maps, refusals_left, huge, not_huge; } asked;

void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    unsigned left = atomic_load(&asked.refusals_left);
    if (left > 0) {
        atomic_store(&asked.refusals_left, left - 1);
        return NULL;
    }
    atomic_fetch_add(&asked.maps, bytes == SEGMENT_BYTES);
    return __real_os_map_aligned(bytes, alignment);
}
void __wrap_os_huge(void *memory, size_t bytes, bool on) {
    atomic_fetch_add(on ? &asked.huge : &asked.not_huge, 1);
    __real_os_huge(memory, bytes, on);
}

static int setup(void **state) {
    (void)state;
    /* Nothing is given back unless it is asked for, however slow the machine. */
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = -1};
    return weft_heap_configure(&config);
}

enum { BLOCK = 32768, SEGMENTS = 24, BLOCKS = SEGMENTS * (int)(SEGMENT_BYTES / BLOCK) };
static void *blocks[BLOCKS];

/* One mapping for each segment; huge pages for those beyond the first dozen or so, until their pages are given back. */
static void test_segments(void **state) {
    (void)state;
    uint64_t before = load_rlx(&depot.segments);
    atomic_store(&asked.maps, 0);
    for (int i = 0; i < BLOCKS; i++) {
        if (load_rlx(&depot.segments) <= 12) assert_int_equal(atomic_load(&asked.huge), 0);
        blocks[i] = weft_alloc(BLOCK);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, 1);
    }
    assert_int_equal(atomic_load(&asked.maps), load_rlx(&depot.segments) - before);
    unsigned huge = atomic_load(&asked.huge);
    assert_true(huge > 0 && huge < SEGMENTS);
    assert_int_equal(atomic_load(&asked.not_huge), 0);
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    assert_true(weft_trim() > 0);
    assert_int_equal(atomic_load(&asked.not_huge), huge);
}

/* Refused once, it gives the system back what it keeps of large blocks, and asks again. */
static void test_refused_once(void **state) {
    (void)state;
    void *large = weft_alloc((size_t)8 << 20);
    assert_non_null(large);
    memset(large, 1, 4096);
    weft_free(large);
    assert_true(kept_bytes() > 0);
    uint64_t before = load_rlx(&depot.segments);
    atomic_store(&asked.refusals_left, 1);
    int count = 0;
    while (count < BLOCKS && load_rlx(&depot.segments) == before) {
        blocks[count] = weft_alloc(BLOCK);
        assert_non_null(blocks[count]);
        count++;
        if (atomic_load(&asked.refusals_left) > 0) assert_true(kept_bytes() > 0);
    }
    assert_int_equal(atomic_load(&asked.refusals_left), 0);
    assert_int_equal(load_rlx(&depot.segments), before + 1);
    assert_int_equal(kept_bytes(), 0);
    for (int i = 0; i < count; i++) weft_free(blocks[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_once), /* first: it wants a new segment */
        cmocka_unit_test(test_segments),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
