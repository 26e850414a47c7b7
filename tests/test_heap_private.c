/* Private heaps: what they give, take back from any thread, and end with. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "pages/depot.h"
#include "help.h"
#include "weft.h"

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    assert_int_equal(weft_heap_stats(&counts), WEFT_OK);
    return counts;
}

static weft_arena *heap_new(void) {
    weft_arena *heap = NULL;
    assert_int_equal(weft_arena_create(&heap), WEFT_OK);
    assert_non_null(heap);
    return heap;
}
static void heap_end(weft_arena *heap) {
    assert_int_equal(weft_arena_destroy(&heap), WEFT_OK);
    assert_null(heap);
}

static const size_t sizes[] = {0, 1, 16, 100, 1000, 1024, 1025, 5000, 32768, 32769, 70000, 300000, 2500000, 6000000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void test_blocks(void **state) {
    (void)state;
    weft_arena *heap = heap_new();
    for (int round = 0; round < 50; round++) {
        unsigned char *blocks[SIZES];
        for (size_t i = 0; i < SIZES; i++) {
            blocks[i] = weft_arena_alloc(heap, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            assert_true(weft_usable_size(blocks[i]) >= sizes[i]);
            memset(blocks[i], (int)i, sizes[i]);
            assert_ptr_equal(weft_realloc(blocks[i], weft_usable_size(blocks[i])), blocks[i]);
        }
        for (size_t i = 0; i < SIZES; i++) {
            for (size_t k = 0; k < sizes[i]; k += sizes[i] / 100 + 1) assert_int_equal(blocks[i][k], i);
            if ((i + (size_t)round) % 2 == 0)
                assert_int_equal(weft_arena_free(heap, blocks[i]), WEFT_OK);
            else
                weft_free(blocks[i]);
        }
    }
    assert_null(weft_arena_alloc(heap, SIZE_MAX));
    assert_null(weft_arena_alloc(heap, (size_t)PTRDIFF_MAX + 1));
    heap_end(heap);
}

/* A large block has its descriptor in front of it, where a freed one had its contents: pieces of what is kept begin anywhere. */
static void test_large_where_others_were(void **state) {
    (void)state;
    weft_trim();
    void *before = weft_alloc((size_t)40 << 20);
    assert_non_null(before);
    memset(before, 0xff, (size_t)40 << 20);
    weft_free(before);
    uint64_t reuses = counts_now().reuse_count;
    weft_arena *heap = heap_new();
    unsigned char *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = weft_arena_alloc(heap, (size_t)5 << 20);
        assert_non_null(blocks[i]);
        memset(blocks[i], (int)i, (size_t)5 << 20);
    }
    assert_int_equal(counts_now().reuse_count - reuses, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(blocks[i][0], i);
        weft_free(blocks[i]);
    }
    assert_non_null(weft_arena_alloc(heap, (size_t)5 << 20));
    heap_end(heap);
}

/* Heaps that were many once keep little: what their caches lay in goes back, too, and they serve again. */
static void test_many_ended(void **state) {
    (void)state;
    enum { HEAPS = 200 };
    static const uint64_t LEFT = 32 << 10;
    if (sysconf(_SC_PAGESIZE) != 4096) SKIP("a heap is few pages here");
    weft_arena *heaps[HEAPS];
    weft_trim();
    uint64_t before = counts_now().resident_bytes;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < HEAPS; i++) heaps[i] = heap_new();
        for (int i = 0; i < HEAPS; i++)
            for (size_t size = 16; size <= 4096; size += 16) assert_non_null(weft_arena_alloc(heaps[i], size));
        assert_true(counts_now().resident_bytes - before > HEAPS * LEFT);
        for (int i = 0; i < HEAPS; i++) heap_end(heaps[i]);
        weft_trim();
        assert_true(counts_now().resident_bytes - before < HEAPS * LEFT);
    }
}

struct wanted {
    const char *block;
    size_t block_size;
    int found;
};
static int find_block(const weft_heap_area *area, void *context) {
    struct wanted *wanted = context;
    size_t offset = (uintptr_t)wanted->block - (uintptr_t)area->start;
    if (offset >= area->size) return 0;
    wanted->found++;
    wanted->block_size = area->block_size;
    assert_true(area->blocks_used >= 1 && area->blocks_used <= area->blocks);
    return 0;
}

static void test_walk(void **state) {
    (void)state;
    weft_arena *heap = heap_new();
    for (size_t i = 0; i < SIZES; i++) {
        struct wanted wanted = {.block = weft_arena_alloc(heap, sizes[i])};
        assert_non_null(wanted.block);
        assert_int_equal(weft_heap_walk(find_block, &wanted), 0);
        assert_int_equal(wanted.found, 1);
        assert_int_equal(wanted.block_size, weft_usable_size(wanted.block));
    }
    heap_end(heap);
}

/* What was live is free for everybody, and the second life of a heap begins empty. */
static void test_destroyed_whole(void **state) {
    (void)state;
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = -1}; /* else that gives segments back meanwhile */
    assert_int_equal(weft_heap_configure(&config), WEFT_OK);
    weft_trim();
    uint64_t live = counts_now().live_bytes, mapped = 0;
    for (int round = 0; round < 20; round++) {
        weft_arena *heap = heap_new();
        for (int i = 0; i < 20000; i++) memset(weft_arena_alloc(heap, 300), round, 300);
        for (size_t i = 0; i < SIZES; i++) memset(weft_arena_alloc(heap, sizes[i]), round, sizes[i]);
        assert_true(counts_now().live_bytes >= live + 6000000);
        heap_end(heap);
        assert_int_equal(counts_now().live_bytes, live);
        if (round == 3) mapped = counts_now().mapped_bytes;
    }
    assert_int_equal(counts_now().mapped_bytes, mapped);
    weft_trim();
    assert_true(counts_now().resident_bytes < 2000000);
    config.decay_ms = 0;
    assert_int_equal(weft_heap_configure(&config), WEFT_OK);
}

static void test_misuse(void **state) {
    (void)state;
    weft_arena *heap = heap_new(), *other = heap_new(), *none = NULL;
    void *p = weft_arena_alloc(heap, 100), *large = weft_arena_alloc(heap, 100000), *ordinary = weft_alloc(100);
    void *huge = weft_alloc((size_t)8 << 20), *apart = weft_alloc_aligned((size_t)4 << 20, 100);
    assert_int_equal(weft_arena_create(NULL), WEFT_EINVAL);
    assert_int_equal(weft_arena_destroy(NULL), WEFT_EINVAL);
    assert_int_equal(weft_arena_destroy(&none), WEFT_EINVAL);
    assert_null(weft_arena_alloc(NULL, 1));
    assert_int_equal(weft_arena_free(NULL, p), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(other, p), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(other, large), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, ordinary), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, huge), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, apart), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, (char *)huge + ((size_t)6 << 20)), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, &heap), WEFT_EINVAL);               /* of the stack */
    assert_int_equal(weft_arena_free(heap, (void *)test_misuse), WEFT_EINVAL); /* of the program */
    assert_int_equal(weft_arena_free(heap, (void *)(uintptr_t)48), WEFT_EINVAL);
    assert_int_equal(weft_arena_free(heap, NULL), WEFT_OK);
    weft_arena *copy = heap;
    heap_end(heap);
    assert_int_equal(weft_arena_destroy(&copy), WEFT_EINVAL);
    assert_null(weft_arena_alloc(copy, 1));
    assert_int_equal(weft_arena_free(copy, NULL), WEFT_EINVAL);
    weft_free(ordinary);
    weft_free(huge);
    weft_free(apart);
    heap_end(other);
}

static void test_resizing(void **state) {
    (void)state;
    weft_arena *heap = heap_new();
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char *p = weft_arena_alloc(heap, sizes[i]);
        memset(p, 7, sizes[i]);
        p = weft_realloc(p, sizes[i] * 3 + 40);
        assert_non_null(p);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[k], 7);
        assert_true(weft_usable_size(p) >= sizes[i] * 3 + 40);
        weft_free(p);
    }
    heap_end(heap);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

#define SENT 3000
static _Atomic(void *) ring[64];

static void *free_sent(void *unused) {
    (void)unused;
    for (int i = 0; i < SENT;) {
        void *p = atomic_exchange(&ring[i % 64], NULL);
        if (p == NULL) {
            sched_yield();
            continue;
        }
        weft_free(p);
        i++;
    }
    return NULL;
}

/* Blocks freed by another thread come back: the heap does not grow with what passes through it. */
static void test_remote(void **state) {
    (void)state;
    weft_trim();
    uint64_t live = counts_now().live_bytes;
    for (size_t i = 0; i < SIZES; i++) {
        weft_arena *heap = heap_new();
        uint64_t mapped = counts_now().mapped_bytes;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, free_sent, NULL), 0);
        int count = sizes[i] > 1000000 ? SENT / 10 : SENT;
        for (int k = 0; k < SENT; k++) {
            void *p = k < count ? weft_arena_alloc(heap, sizes[i]) : weft_alloc(1);
            assert_non_null(p);
            *(char *)p = 1;
            while (ring[k % 64] != NULL) sched_yield();
            ring[k % 64] = p;
        }
        pthread_join(thread, NULL);
        assert_true(counts_now().mapped_bytes <= mapped + 160 * (sizes[i] + 65536) + ((uint64_t)4 << 20));
        heap_end(heap);
        assert_true(counts_now().live_bytes <= live + (uint64_t)64 * 16);
    }
}

static void *use_own(void *seed) {
    for (uintptr_t round = 0; round < 200; round++) {
        weft_arena *heap;
        REQUIRE(weft_arena_create(&heap) == WEFT_OK);
        for (uintptr_t i = 0; i < 300; i++) {
            uintptr_t size = (i * 37 + round + (uintptr_t)seed) % 2000 + 8, *p = weft_arena_alloc(heap, size);
            REQUIRE(p != NULL);
            *p = size;
            if (i % 5 == 0) weft_arena_free(heap, p);
            if (i % 5 == 1) weft_free(p);
            weft_free(weft_alloc(size));
        }
        REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
        if (round % 50 == 0) weft_trim();
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_own, (void *)i), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_true(counts_now().heap_count <= 40);
}

/* A heap that is handed over goes on, and another thread may destroy it. */
static void *use_and_destroy(void *value) {
    weft_arena *heap = value;
    for (int i = 0; i < 1000; i++) REQUIRE(weft_arena_alloc(heap, 100) != NULL);
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    return NULL;
}
static void test_handed_over(void **state) {
    (void)state;
    weft_arena *heap = heap_new();
    for (int i = 0; i < 1000; i++) assert_non_null(weft_arena_alloc(heap, 100));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_and_destroy, heap), 0);
    pthread_join(thread, NULL);
}

static int use_in_child(void *value) {
    weft_arena *heap = value;
    REQUIRE(weft_arena_alloc(heap, 100) != NULL);
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    return 0;
}
static void test_fork(void **state) {
    (void)state;
    weft_arena *heap = heap_new();
    assert_non_null(weft_arena_alloc(heap, 100));
    assert_int_equal(in_child(use_in_child, heap), 0);
    assert_non_null(weft_arena_alloc(heap, 100));
    heap_end(heap);
}

/* What no cache has room for is the heap's own again. */
static void test_used_again(void **state) {
    enum { BLOCKS = 3000, SIZE = 2000, ROUNDS = 20 };
    (void)state;
    static void *blocks[BLOCKS];
    weft_arena *heap = heap_new();
    size_t first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = weft_arena_alloc(heap, SIZE));
        for (int i = 0; i < BLOCKS; i++) assert_int_equal(weft_arena_free(heap, blocks[i]), WEFT_OK);
        if (round == 0) first = depot_taken_bytes();
        assert_true(depot_taken_bytes() <= first + SEGMENT_BYTES);
    }
    heap_end(heap);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_destroyed_whole),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_large_where_others_were),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_resizing),
        cmocka_unit_test(test_remote),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_handed_over),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_used_again),
        cmocka_unit_test(test_large_where_others_were),
        cmocka_unit_test(test_many_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
