/* test_edges_heap.c: what the heap asks the system for: how often, when with huge pages, and again when it was refused
 * once. */
#define _GNU_SOURCE
#include "heap/heap.h"
#include "help.h"
#include "pages/kept.h"
#include "weft.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

/* ---- what the library asks for ------------------------------------------------------------------------------------ */

void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
void __real_os_huge(void *memory, size_t bytes, bool on);
void __wrap_os_huge(void *memory, size_t bytes, bool on);
bool __real_os_unmap(void *memory, size_t bytes);
bool __wrap_os_unmap(void *memory, size_t bytes);

static struct {
    atomic_uint maps, refusals_left, huge, not_huge;
    atomic_bool keeps; /* what is unmapped stays mapped, as where the system has no room for more mappings */
} asked;

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

bool __wrap_os_unmap(void *memory, size_t bytes) {
    if (!atomic_load(&asked.keeps)) return __real_os_unmap(memory, bytes);
    madvise(memory, bytes, MADV_DONTNEED);
    return false;
}

static int setup(void **state) {
    (void)state;
    /* Nothing is given back unless it is asked for, however slow the machine. */
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = -1};
    return weft_heap_configure(&config);
}

enum { BLOCK = 32768, SEGMENTS = 24, BLOCKS = SEGMENTS * (int)(SEGMENT_BYTES / BLOCK) };
static void *blocks[2 * BLOCKS];

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

static unsigned records_used(void) {
    unsigned used = 0;
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (unsigned i = 0; i < CHUNK_WORDS; i++) used += (unsigned)__builtin_popcountll(load_rlx(&chunk->used[i]));
    return used;
}

/* A large block that was refused leaves no record behind. */
static void test_refused_large(void **state) {
    enum { REFUSALS = 100 };
    (void)state;
    weft_free(weft_alloc((size_t)8 << 20));
    weft_trim();
    unsigned before = records_used();
    for (int i = 0; i < 3; i++) {
        atomic_store(&asked.refusals_left, REFUSALS); /* it asks again */
        assert_null(weft_alloc((size_t)8 << 20));
        atomic_store(&asked.refusals_left, 0);
    }
    atomic_store(&asked.refusals_left, REFUSALS);
    assert_null(weft_alloc_aligned((size_t)16 << 20, 100)); /* of which a part would be given back at once */
    atomic_store(&asked.refusals_left, 0);
    assert_int_equal(records_used(), before);
    void *large = weft_alloc((size_t)8 << 20);
    assert_non_null(large);
    assert_int_equal(records_used(), before + 1);
    weft_free(large);
    weft_trim();
    assert_int_equal(records_used(), before);
}

/* What is kept of a large block outlives one turn of decay and not two. */
static void test_kept_for_a_turn(void **state) {
    (void)state;
    weft_trim();
    weft_free(weft_alloc((size_t)8 << 20));
    size_t kept = kept_bytes();
    assert_true(kept > 0);
    assert_int_equal(kept_purge(false), 0);
    assert_int_equal(kept_bytes(), kept);
    assert_int_equal(kept_purge(false), kept);
    assert_int_equal(kept_bytes(), 0);
}

/* A mapping that is kept is not aligned to more than a segment: it serves no block that is. */
static void test_kept_is_not_aligned(void **state) {
    (void)state;
    enum { ALIGNED_TO = 16 << 20 };
    weft_trim();
    for (size_t size = 1; size <= 3; size++) {
        void *gap = weft_alloc(size * SEGMENT_BYTES); /* so that the next one lies elsewhere */
        weft_free(weft_alloc((size_t)ALIGNED_TO + SEGMENT_BYTES / 4));
        assert_true(kept_bytes() > 0);
        void *aligned = weft_alloc_aligned(ALIGNED_TO, 100);
        assert_non_null(aligned);
        assert_int_equal((uintptr_t)aligned % ALIGNED_TO, 0);
        weft_free(aligned);
        weft_free(gap);
        weft_trim();
    }
}

/* Without memory for a private heap its handle is NULL. */
static void test_refused_private(void **state) {
    (void)state;
    int count = 0;
    atomic_store(&asked.refusals_left, UINT32_MAX);
    while (count < 2 * BLOCKS && (blocks[count] = weft_alloc(BLOCK)) != NULL) count++;
    assert_true(count < 2 * BLOCKS);
    weft_arena *heap = (weft_arena *)(void *)blocks; /* not NULL */
    assert_int_equal(weft_arena_create(&heap), WEFT_ENOMEM);
    assert_null(heap);
    atomic_store(&asked.refusals_left, 0);
    for (int i = 0; i < count; i++) weft_free(blocks[i]);
    assert_int_equal(weft_arena_create(&heap), WEFT_OK);
    assert_int_equal(weft_arena_destroy(&heap), WEFT_OK);
}

/* Segments that are hollow count no slots as taken, nor do those that are filled again. */
static void test_hollow_is_not_taken(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = weft_alloc(BLOCK));
        for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
        weft_trim();
        size_t taken = depot_taken_bytes();
        assert_true(taken < SEGMENTS * SEGMENT_BYTES / 2);
        assert_true(depot_hollow() > 0);
        assert_int_equal(depot_taken_bytes(), taken);
    }
}

/* A segment that the system does not unmap serves on. */
static void test_what_stays_mapped_serves(void **state) {
    (void)state;
    for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = weft_alloc(BLOCK));
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    weft_trim();
    uint64_t hollows = load_rlx(&depot.hollows);
    atomic_store(&asked.keeps, true);
    assert_int_equal(depot_hollow(), 0);
    atomic_store(&asked.keeps, false);
    assert_int_equal(load_rlx(&depot.hollows), hollows);
    atomic_store(&asked.refusals_left, UINT32_MAX);
    for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = weft_alloc(BLOCK));
    atomic_store(&asked.refusals_left, 0);
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    weft_trim();
}

/* Where address space is limited, empty segments are unmapped, also if nearly all of their slots were given back before. */
static void test_purged_segments_are_unmapped(void **state) {
    (void)state;
    store_rlx(&depot.is_tight, true);
    for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = weft_alloc(BLOCK));
    const void *last = NULL;
    int left = 0;
    for (int i = 0; i < BLOCKS; i++) {
        const void *segment = segment_of(blocks[i]);
        if (segment != last)
            blocks[left++] = blocks[i];
        else
            weft_free(blocks[i]);
        last = segment;
    }
    weft_trim();
    uint64_t hollows = load_rlx(&depot.hollows);
    for (int i = 0; i < left; i++) weft_free(blocks[i]);
    weft_trim();
    assert_true(load_rlx(&depot.hollows) - hollows > SEGMENTS / 2);
    store_rlx(&depot.is_tight, false);
}

static unsigned slabs_grown(const struct bin *bin) {
    unsigned count = 0;
    for (enum tier tier = TIER_HOT; tier <= TIER_DRAINING; tier++)
        for (const struct slab *slab = bin->tier[tier].first; slab != NULL; slab = slab->next) count += slab_has_grown(slab);
    return count;
}

/* A class knows of how many of its slabs more than half was handed out. */
static void test_grown_slabs_are_counted(void **state) {
    (void)state;
    enum { SIZE = 1536, MANY = 500 };
    const struct bin *bin = &heap_mine()->bins[class_of(SIZE)];
    for (int i = 0; i < MANY; i++) {
        assert_non_null(blocks[i] = weft_alloc(SIZE));
        assert_int_equal(bin->grown, slabs_grown(bin));
    }
    assert_true(bin->grown > 3);
    for (int i = 0; i < MANY; i++) {
        weft_free(blocks[i]);
        assert_int_equal(bin->grown, slabs_grown(bin));
    }
}

/* What is aligned to no more than a slab's blocks are is one of them; what no address space has is refused. */
static void test_aligned(void **state) {
    (void)state;
    for (size_t alignment = 32; alignment <= 4096; alignment *= 2) {
        void *p = weft_alloc_aligned(alignment, 100);
        assert_true(p != NULL && (uintptr_t)p % alignment == 0 && kind_of(p) < CLASSES);
        weft_free(p);
    }
    for (unsigned power = 48; power < 64; power++) assert_null(weft_alloc_aligned((size_t)1 << power, 100));
}

/* Of what is kept the smallest range that is long enough is taken. */
static void test_kept_fits_best(void **state) {
    (void)state;
    enum { RANGES = 4 };
    static const size_t lengths[RANGES] = {3, 6, 2, 4};
    char *gap[RANGES];
    weft_trim();
    for (int i = 0; i < RANGES; i++) { /* with something between, so that they stay apart */
        char *start = os_map_aligned((lengths[i] + 1) * SEGMENT_BYTES, SEGMENT_BYTES);
        assert_non_null(start);
        gap[i] = start + lengths[i] * SEGMENT_BYTES;
        assert_true(kept_put(start, lengths[i] * SEGMENT_BYTES, SIZE_MAX));
    }
    size_t kept = kept_bytes();
    for (size_t wanted = 2; wanted <= 6; wanted++) {
        char *got = kept_take(wanted * SEGMENT_BYTES);
        if (wanted == 5) assert_ptr_equal(got, gap[1] - 6 * SEGMENT_BYTES);
        for (int i = 0; i < RANGES; i++)
            if (lengths[i] == wanted) assert_ptr_equal(got, gap[i] - wanted * SEGMENT_BYTES);
        assert_true(kept_put(got, wanted * SEGMENT_BYTES, SIZE_MAX) && kept_bytes() == kept);
    }
    char *second = gap[1] - 6 * SEGMENT_BYTES;
    assert_false(kept_take_at(second, 7 * SEGMENT_BYTES) || kept_take_at(gap[1], SEGMENT_BYTES));
    assert_true(kept_take_at(second, 6 * SEGMENT_BYTES) && kept_bytes() == kept - 6 * SEGMENT_BYTES);
    assert_true(kept_put(second, 6 * SEGMENT_BYTES, SIZE_MAX));
    assert_int_equal(kept_purge(true), kept);
    for (int i = 0; i < RANGES; i++)
        assert_int_equal(msync(gap[i] - SEGMENT_BYTES, os_page_size(), MS_ASYNC), -1); /* unmapped */
    for (int i = 0; i < RANGES; i++) os_unmap(gap[i], SEGMENT_BYTES);
}

/* What live mappings hold, by which is decided how much is kept for later. */
static void test_live_bytes_of_mappings(void **state) {
    (void)state;
    size_t before = large_live_bytes(), bytes = 8 * SEGMENT_BYTES;
    void *p = weft_alloc(bytes);
    assert_non_null(p);
    assert_int_equal(large_live_bytes(), before + bytes);
    p = weft_realloc(p, 2 * bytes);
    assert_non_null(p);
    assert_int_equal(large_live_bytes(), before + 2 * bytes);
    weft_free(p);
    assert_int_equal(large_live_bytes(), before);
}

/* A cache that has no room for one more run gives back its oldest ones, and those alone. */
static void test_cached_runs_are_dropped(void **state) {
    (void)state;
    enum { COUNT = 64, BYTES = 2 * SLOT_BYTES };
    unsigned kind = kind_of_run(BYTES);
    char *runs[COUNT];
    uint64_t cached = 0;
    bool has_dropped = false;
    for (int i = 0; i < COUNT; i++) assert_non_null(runs[i] = weft_alloc(BYTES));
    for (int i = 0; i < COUNT; i++) {
        weft_free(runs[i]);
        uint64_t now = cache_count(heap_mine(), kind);
        has_dropped |= now <= cached;
        cached = now;
    }
    assert_true(has_dropped && cached > 1);
    for (uint64_t i = 0; i < cached; i++) assert_ptr_equal(weft_alloc(BYTES), runs[COUNT - 1 - i]);
    for (uint64_t i = 0; i < cached; i++) weft_free(runs[COUNT - 1 - i]);
}

/* The largest run that a cache takes is served from it. */
static void test_largest_cached_run(void **state) {
    (void)state;
    unsigned kind = kind_of_run(RUN_CACHED_MAX);
    for (int i = 0; i < 2; i++) {
        weft_free(weft_alloc(RUN_CACHED_MAX));
        uint64_t cached = cache_count(heap_mine(), kind);
        assert_true(cached > 0);
        void *p = i == 0 ? weft_alloc(RUN_CACHED_MAX) : weft_alloc_zeroed(1, RUN_CACHED_MAX);
        assert_int_equal(cache_count(heap_mine(), kind), cached - 1);
        weft_free(p);
    }
    void *p = weft_alloc(RUN_CACHED_MAX + 1);
    uint64_t cached = cache_count(heap_mine(), kind);
    weft_free(p);
    assert_int_equal(cache_count(heap_mine(), kind), cached);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_bytes_of_mappings),
        cmocka_unit_test(test_cached_runs_are_dropped),
        cmocka_unit_test(test_largest_cached_run),
        cmocka_unit_test(test_refused_once), /* first: it wants a new segment */
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_refused_large),
        cmocka_unit_test(test_refused_private),
        cmocka_unit_test(test_kept_for_a_turn),
        cmocka_unit_test(test_kept_is_not_aligned),
        cmocka_unit_test(test_hollow_is_not_taken),
        cmocka_unit_test(test_what_stays_mapped_serves),
        cmocka_unit_test(test_purged_segments_are_unmapped),
        cmocka_unit_test(test_grown_slabs_are_counted),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_kept_fits_best),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
