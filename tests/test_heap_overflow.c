/* What a full cache leaves with its thread (heap_overflow.c): who takes it back, what is never kept, what ends it. */
#define _GNU_SOURCE
#include "help.h"

#include <pthread.h>
#include <stdbool.h>

#include "heap/heap.h"
#include "weft.h"

/* ---- a clock and maps of the test's own --------------------------------------------------------------------------- */

static uint64_t test_ns = 1000000000;
static bool no_maps;

uint64_t __wrap_os_now_ns(void);
uint64_t __wrap_os_now_ns(void) { return test_ns; }

void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    return no_maps ? NULL : __real_os_map_aligned(bytes, alignment);
}

/* ---- one class, by count ------------------------------------------------------------------------------------------ */

enum { SIZE = 64, CACHE = CACHE_BLOCKS(SIZE), HALF = CACHE / 2, KEPT = 7 * HALF, MANY = 4000 };

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t size;
    REQUIRE(weft_heap_class_stats(class_of(SIZE), &size, &counts) == WEFT_OK && size == SIZE);
    return counts;
}

static uint64_t slabs_taken(const weft_heap_counts *counts) {
    return counts->from_pool_count + counts->from_list_count + counts->from_lru_count + counts->from_orphans_count +
           counts->from_depot_count + counts->from_system_count;
}

static int add_used(const weft_heap_area *area, void *used) {
    if (area->block_size == SIZE) *(uint64_t *)used += area->blocks_used;
    return 0;
}

/* Blocks of the class that are neither free in a slab, nor live, nor in the caller's cache. No other thread has a heap with
 * any in its cache. */
static uint64_t kept(void) {
    uint64_t used = 0, live = counts_now().live_bytes / SIZE;
    REQUIRE(weft_heap_walk(add_used, &used) == 0);
    uint64_t cached = heap_mine() == (void *)os_no_heap ? 0 : cache_count(heap_mine(), class_of(SIZE));
    REQUIRE(used >= live + cached);
    return used - live - cached;
}

static void configure(weft_heap_config config) {
    config.struct_size = sizeof config;
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

static void *blocks[MANY];

static void make(int count) {
    for (int i = 0; i < count; i++) REQUIRE((blocks[i] = memset(weft_alloc(SIZE), i & 0xff, SIZE)) != NULL);
}
static void end(int first, int count) {
    for (int i = first; i < first + count; i++) {
        for (int k = 0; k < SIZE; k++) REQUIRE(((unsigned char *)blocks[i])[k] == (i & 0xff));
        weft_free(blocks[i]);
    }
}
/* The same, by a thread that does not only free: of each block of `step` another one is made and freed. */
static void end_of_busy(int count, int step) {
    for (int i = 0; i < count; i++) {
        end(i, 1);
        if (i % step == 0) weft_free(weft_alloc(SIZE));
    }
}
static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}
static void *spares[2 * CACHE];
static int spare_count;

/* CACHE + 1 blocks are freed into an empty cache, and half of it overflows. */
static void overflow(void) {
    make(CACHE + 1);
    while (cache_count(heap_mine(), class_of(SIZE)) > 0) REQUIRE((spares[spare_count++] = weft_alloc(SIZE)) != NULL);
    end(0, CACHE + 1);
}
/* The first time it is not kept. */
static void keep_half(void) {
    make(CACHE + HALF);
    overflow();
    REQUIRE(kept() == 0);
    overflow();
    REQUIRE(kept() == HALF);
}
/* The others. */
static void clean(void) {
    end(CACHE + 1, HALF - 1);
    while (spare_count > 0) weft_free(spares[--spare_count]);
    weft_trim();
    REQUIRE(kept() == 0);
}

/* ---- kept and taken back ------------------------------------------------------------------------------------------ */

/* A refill takes back what overflowed, and no slab: the same blocks, each once. */
static void test_taken_back(void **state) {
    (void)state;
    void *freed[CACHE + 1], *again[CACHE + 1];
    weft_trim();
    keep_half();
    memcpy(freed, blocks, sizeof freed);
    weft_heap_counts before = counts_now();
    for (int i = 0; i < CACHE + 1; i++) REQUIRE((again[i] = weft_alloc(SIZE)) != NULL);
    weft_heap_counts after = counts_now();
    assert_int_equal(after.from_overflow_count - before.from_overflow_count, 1);
    assert_int_equal(after.miss_count - before.miss_count, 1);
    assert_int_equal(slabs_taken(&after), slabs_taken(&before));
    assert_int_equal(kept(), 0);
    qsort(freed, CACHE + 1, sizeof *freed, by_address);
    qsort(again, CACHE + 1, sizeof *again, by_address);
    assert_memory_equal(freed, again, sizeof freed);
    for (int i = 0; i < CACHE + 1; i++) weft_free(again[i]);
    clean();
}

/* What goes home whole leaves no mark: the class begins anew, as one that has kept and used nothing. */
static void test_marks(void **state) {
    (void)state;
    const uint32_t bit = UINT32_C(1) << class_of(SIZE);
    void *again[CACHE + 1];
    weft_trim();
    keep_half();
    for (int i = 0; i < CACHE + 1; i++) REQUIRE((again[i] = weft_alloc(SIZE)) != NULL);
    assert_true((heap_mine()->overflow_wanted & heap_mine()->overflow_used & bit) != 0);
    weft_trim();
    assert_int_equal((heap_mine()->overflow_wanted | heap_mine()->overflow_used) & bit, 0);
    for (int i = 0; i < CACHE + 1; i++) weft_free(again[i]);
    clean();
}

/* A class that is too large for it takes nothing from it. */
static void test_larger_takes_none(void **state) {
    enum { SMALLEST = 16, MOST = CACHE_BLOCKS(SMALLEST), LARGER = TINY_MAX + 1 };
    (void)state;
    static void *small[MOST + 1], *rest[4 * MOST], *larger[CACHE_BLOCKS(LARGER)];
    int rests = 0;
    weft_trim();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i <= MOST; i++) REQUIRE((small[i] = weft_alloc(SMALLEST)) != NULL);
        while (cache_count(heap_mine(), class_of(SMALLEST)) > 0) REQUIRE((rest[rests++] = weft_alloc(SMALLEST)) != NULL);
        for (int i = 0; i <= MOST; i++) weft_free(small[i]);
    }
    REQUIRE(heap_mine()->overflow != NULL);
    for (int i = 0; i < (int)CACHE_BLOCKS(LARGER); i++) {
        larger[i] = weft_alloc(LARGER);
        assert_true(larger[i] != NULL && kind_of(larger[i]) == class_of(LARGER));
    }
    for (int i = 0; i < (int)CACHE_BLOCKS(LARGER); i++) weft_free(larger[i]);
    while (rests > 0) weft_free(rest[--rests]);
    weft_trim();
    REQUIRE(heap_mine()->overflow == NULL);
}

/* Seven halves; the next ones go to their slabs. Each of the blocks comes back once. */
static void test_bounded(void **state) {
    (void)state;
    weft_trim();
    make(MANY);
    uint64_t before = counts_now().flush_count;
    end_of_busy(MANY, 16);
    assert_int_equal(kept(), KEPT);
    assert_true(counts_now().flush_count - before > KEPT / HALF + 2);
    make(MANY);
    qsort(blocks, MANY, sizeof *blocks, by_address);
    for (int i = 1; i < MANY; i++) assert_ptr_not_equal(blocks[i - 1], blocks[i]);
    for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
    weft_trim();
    assert_int_equal(kept(), 0);
    assert_null(heap_mine()->overflow);
}

/* Blocks over TINY_MAX are not kept, and those of the largest class up to it are. */
static void test_classes(void **state) {
    (void)state;
    for (size_t size = 16; size <= 8192; size *= 2) {
        int count = (int)(3 * CACHE_BLOCKS(size));
        weft_trim();
        for (int i = 0; i < count; i++) REQUIRE((blocks[i] = weft_alloc(size)) != NULL);
        for (int i = 0; i < count; i++) {
            weft_free(blocks[i]);
            if (i % 16 == 0) weft_free(weft_alloc(size));
        }
        assert_int_equal(heap_mine()->overflow != NULL, size <= TINY_MAX);
    }
    weft_trim();
    assert_null(heap_mine()->overflow);
}

/* A cache is dense if of eight pairs of neighbours in it, as far from each other as they can be, all but one are of one slab each. */
static void test_dense(void **state) {
    enum { PAIRS = 8, STEP = CACHE / PAIRS };
    (void)state;
    const unsigned kind = class_of(SIZE);
    weft_trim();
    make(MANY);
    while (cache_count(heap_mine(), kind) > 0) REQUIRE((spares[spare_count++] = weft_alloc(SIZE)) != NULL);
    const struct slab *slab = slab_of(blocks[MANY / 2]);
    for (int odd = 0; odd <= 2; odd++) {
        int inside = 0, outside = 0;
        for (int i = 0; i < CACHE; i++) {
            bool is_outside = i % STEP == 1 && i / STEP >= 1 && i / STEP <= odd;
            int *next = is_outside ? &outside : &inside;
            while ((slab_of(blocks[*next]) == slab) == is_outside) ++*next;
            weft_free(blocks[(*next)++]);
        }
        REQUIRE(cache_count(heap_mine(), kind) == CACHE);
        assert_int_equal(heap_overflow_is_dense(heap_mine(), kind), odd <= 1);
        while (cache_count(heap_mine(), kind) > 0) REQUIRE(weft_alloc(SIZE) != NULL); /* the same ones */
    }
    for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
    while (spare_count > 0) weft_free(spares[--spare_count]);
    weft_trim();
}

/* ---- what ends it ------------------------------------------------------------------------------------------------- */

static void test_trim(void **state) {
    (void)state;
    keep_half();
    weft_trim();
    assert_int_equal(kept(), 0);
    assert_null(heap_mine()->overflow);
    clean();
}

static void make_and_end_apart(void) {
    enum { SLABS = 40, BLOCKS = (int)(SLOT_BYTES / SIZE) };
    static void *of_all[SLABS * BLOCKS];
    for (int i = 0; i < SLABS * BLOCKS; i++) REQUIRE((of_all[i] = weft_alloc(SIZE)) != NULL);
    for (int i = 0; i < BLOCKS; i++)
        for (int slab = 0; slab < SLABS; slab++) weft_free(of_all[slab * BLOCKS + i]);
}

/* A thread that only frees, one block of each slab after another: what it kept would keep them all. */
static void test_only_frees(void **state) {
    (void)state;
    weft_trim();
    make(MANY);
    end_of_busy(MANY / 2, 16);
    assert_int_equal(kept(), KEPT);
    make_and_end_apart();
    assert_int_equal(kept(), 0);
    end(MANY / 2, MANY / 2);
    weft_trim();
    assert_null(heap_mine()->overflow);
    make_and_end_apart();
    assert_null(heap_mine()->overflow);
}

/* One that makes a burst of fewer blocks than a slab has and then frees them in order has all of the next one from what it kept, and none from slabs. */
static void test_bursts(void **state) {
    enum { ROUNDS = 40, BURST = SLOT_BYTES / SIZE - HALF };
    (void)state;
    weft_heap_counts before = counts_now(), after;
    weft_trim();
    for (int i = 0; i < ROUNDS; i++) {
        if (i == ROUNDS / 2) before = counts_now();
        make(BURST);
        end(0, BURST);
    }
    after = counts_now();
    assert_int_equal(slabs_taken(&after), slabs_taken(&before));
    assert_true(after.from_overflow_count - before.from_overflow_count >= ROUNDS / 2 * (BURST - CACHE) / HALF);
    weft_trim();
    assert_int_equal(kept(), 0);
    assert_null(heap_mine()->overflow);
}

/* Rounds of a millisecond, at most a second. */
static void test_rest(void **state) {
    (void)state;
    weft_trim();
    while (heap_mine()->watches) {
        weft_free(weft_alloc(SIZE));
        test_ns += 1000000;
    }
    keep_half();
    assert_true(heap_mine()->watches);
    int ms = 0;
    for (; ms < 1000 && heap_mine()->overflow != NULL; ms++) {
        weft_free(weft_alloc(SIZE));
        test_ns += 1000000;
    }
    print_message("given back after %d ms\n", ms);
    assert_in_range(ms, 1, 999);
    assert_int_equal(kept(), 0);
    clean();
}

/* What is of use stays, however many rests there are. */
static void test_use(void **state) {
    (void)state;
    enum { ROUNDS = 3000 };
    weft_trim();
    make(CACHE + HALF);
    uint64_t before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        end(0, CACHE + HALF);
        if (i == 1) before = counts_now().from_overflow_count;
        make(CACHE + HALF);
        test_ns += 1000000;
    }
    assert_int_equal(counts_now().from_overflow_count - before, ROUNDS - 1);
    end(0, CACHE + HALF);
    weft_trim();
    assert_int_equal(kept(), 0);
}

static void *keep_and_leave(void *unused) {
    (void)unused;
    keep_half();
    return NULL;
}
static void *take_kept(void *unused) {
    (void)unused;
    uint64_t before = counts_now().from_overflow_count;
    make(CACHE + 1);
    REQUIRE(counts_now().from_overflow_count == before + 1);
    end(0, CACHE + 1);
    return NULL;
}
static void in_thread(void *(*function)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, function, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* An ended thread's goes to the next one with the heap, or home. */
static void test_thread_end(void **state) {
    (void)state;
    weft_trim();
    configure((weft_heap_config){.decay_ms = -1});
    in_thread(keep_and_leave);
    in_thread(take_kept);
    configure((weft_heap_config){0});
    assert_true(kept() > 0);
    clean();
    assert_int_equal(kept(), 0);
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older)) assert_null(heap->overflow);
}

/* ---- what is never kept ------------------------------------------------------------------------------------------- */

static void *end_others(void *unused) {
    (void)unused;
    uint64_t before = counts_now().flush_count;
    end_of_busy(MANY, 16);
    REQUIRE(counts_now().flush_count - before > 5);
    REQUIRE(heap_mine()->overflow == NULL);
    return NULL;
}

/* A half with another thread's blocks goes home. */
static void test_others_blocks(void **state) {
    (void)state;
    weft_trim();
    make(MANY);
    in_thread(end_others);
    weft_trim();
}

static void test_other_policies(void **state) {
    (void)state;
    weft_heap_config no_pool = {.pool_capacity = WEFT_HEAP_POOL_NONE};
    weft_trim();
    configure(no_pool);
    make(MANY);
    end_of_busy(MANY, 16);
    assert_null(heap_mine()->overflow);
    weft_trim();
    configure((weft_heap_config){0});
    keep_half();
    configure(no_pool); /* while some is kept */
    clean();
    make(MANY);
    end_of_busy(MANY, 16);
    configure((weft_heap_config){.remote = WEFT_HEAP_REMOTE_HOME}); /* the default */
    keep_half();
    clean();
    configure((weft_heap_config){.remote = WEFT_HEAP_REMOTE_KEEP}); /* as well */
    keep_half();
    configure((weft_heap_config){0});
    weft_trim();
    assert_int_equal(kept(), 0);
}

static void test_private(void **state) {
    (void)state;
    weft_trim();
    weft_arena *heap;
    assert_int_equal(weft_arena_create(&heap), WEFT_OK);
    for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = weft_arena_alloc(heap, SIZE)) != NULL);
    for (int i = 0; i < MANY; i++) {
        REQUIRE(weft_arena_free(heap, blocks[i]) == WEFT_OK);
        if (i % 16 == 0) REQUIRE(weft_arena_free(heap, weft_arena_alloc(heap, SIZE)) == WEFT_OK);
    }
    assert_null(((struct heap *)(void *)heap)->overflow);
    assert_int_equal(weft_arena_destroy(&heap), WEFT_OK);
}

/* ---- others ------------------------------------------------------------------------------------------------------- */

/* Where there is no memory for it, what overflows goes to its slabs. */
static void test_no_memory(void **state) {
    (void)state;
    enum { SLOTS = 1000 };
    static void *slots[SLOTS];
    int count = 0;
    weft_trim();
    make(MANY);
    no_maps = true;
    while (count < SLOTS && (slots[count] = weft_alloc(SLOT_BYTES)) != NULL) count++;
    assert_in_range(count, 0, SLOTS - 1);
    end_of_busy(MANY / 2, 16);
    assert_null(heap_mine()->overflow);
    no_maps = false;
    while (count > 0) weft_free(slots[--count]);
    end(MANY / 2, MANY / 2);
    weft_trim();
    assert_int_equal(kept(), 0);
}

static int take_in_child(void *unused) {
    (void)unused;
    uint64_t before = counts_now().from_overflow_count;
    make(CACHE + 1);
    REQUIRE(counts_now().from_overflow_count == before + 1);
    end(0, CACHE + 1);
    weft_trim();
    REQUIRE(kept() == 0);
    return 0;
}

static int check_in_child(void *unused) {
    (void)unused;
    configure((weft_heap_config){.checks = 1});
    REQUIRE(kept() == 0 && heap_mine()->overflow == NULL);
    make(MANY);
    end(0, MANY);
    REQUIRE(heap_mine()->overflow == NULL);
    return 0;
}

/* A child of fork has what was kept; checked mode begins without. */
static void test_children(void **state) {
    (void)state;
    weft_trim();
    keep_half();
    assert_int_equal(in_child(take_in_child, NULL), 0);
    assert_int_equal(in_child(check_in_child, NULL), 0);
    clean();
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children), /* first: checked mode wants a process of one heap */
        cmocka_unit_test(test_taken_back), cmocka_unit_test(test_marks),         cmocka_unit_test(test_larger_takes_none),
        cmocka_unit_test(test_bounded),    cmocka_unit_test(test_classes),       cmocka_unit_test(test_trim),
        cmocka_unit_test(test_only_frees), cmocka_unit_test(test_bursts),        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_use),        cmocka_unit_test(test_others_blocks), cmocka_unit_test(test_other_policies),
        cmocka_unit_test(test_private),    cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_thread_end),
        cmocka_unit_test(test_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
