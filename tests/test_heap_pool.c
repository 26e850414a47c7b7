/* test_heap_pool.c: which slabs a heap takes, keeps and lets go, and how much room its caches have: step by step, by count,
 * of heaps that no thread has. */
#define _GNU_SOURCE
#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/heap.h"
#include "weft.h"

enum { SIZE = 16384, EACH = 4, MANY = 20, LRU_MOST = 16 };

static struct heap *heap;
static struct bin *bin;
static unsigned kind;
static void *blocks[MANY * EACH];
static uint64_t marked[HEAP_COUNTS];

/* The purge thread is told of what a heap has to give back. */
static unsigned pokes;
void __real_purge_poke(void);
void __wrap_purge_poke(void);
void __wrap_purge_poke(void) {
    pokes++;
    __real_purge_poke();
}

static void configure(int32_t capacity, int32_t prefill) {
    weft_heap_config config = {
        .struct_size = sizeof config, .pool_capacity = capacity, .pool_prefill = prefill, .decay_ms = -1};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

/* A heap without slabs; what slots the depot has are as new. */
static void begin_sized(int32_t capacity, int32_t prefill, size_t size) {
    configure(capacity, prefill);
    weft_trim();
    heap = heap_make();
    REQUIRE(heap != NULL);
    kind = class_of(size);
    bin = &heap->bins[kind];
    REQUIRE(class_info[kind].size == size);
    memset(marked, 0, sizeof marked);
}
static void begin(int32_t capacity, int32_t prefill) {
    begin_sized(capacity, prefill, SIZE);
    REQUIRE(class_info[kind].blocks == EACH && class_info[kind].hot == 1);
}

static void *take(void) {
    void *block = heap_take_one(heap, kind);
    REQUIRE(block != NULL && slab_owner(slab_of(block)) == heap);
    return block;
}
/* Blocks [first, first + count) of those that a test has. */
static void take_some(int first, int count) {
    for (int i = first; i < first + count; i++) blocks[i] = take();
}
static void put_some(int first, int count) {
    for (int i = first; i < first + count; i++) heap_put_one(heap, blocks[i], kind);
}
/* Nothing of the heap's is in use any more. */
static void end(void) {
    heap_lru_drop(heap);
    REQUIRE(heap_abandon(heap));
    for (unsigned tier = TIER_HOT; tier <= TIER_DRAINING; tier++) REQUIRE(bin->tier[tier].count == 0);
    configure(0, 0);
    weft_trim();
}

/* What was counted since it was asked the last time. */
static uint64_t counted(enum heap_count what) {
    uint64_t now = load_rlx(&bin->count[what]), since = now - marked[what];
    marked[what] = now;
    return since;
}

/* The lists of the class hold so many, each linked both ways and in its own tier. */
static void expect_tiers(uint32_t hot, uint32_t listed, uint32_t draining) {
    const uint32_t wanted[] = {[TIER_HOT] = hot, [TIER_LISTED] = listed, [TIER_DRAINING] = draining};
    for (unsigned tier = TIER_HOT; tier <= TIER_DRAINING; tier++) {
        uint32_t count = 0;
        const struct slab *before = NULL;
        for (const struct slab *slab = bin->tier[tier].first; slab != NULL; before = slab, slab = slab->next, count++)
            assert_true(slab->prev == before && slab->tier == tier);
        assert_int_equal(count, wanted[tier]);
        assert_int_equal(bin->tier[tier].count, count);
    }
}
static void expect_found(uint64_t in_pool, uint64_t in_list, uint64_t in_lru, uint64_t from_system) {
    assert_int_equal(counted(COUNT_FROM_POOL), in_pool);
    assert_int_equal(counted(COUNT_FROM_LIST), in_list);
    assert_int_equal(counted(COUNT_FROM_LRU), in_lru);
    assert_int_equal(counted(COUNT_FROM_SYSTEM), from_system);
}

/* ---- where slabs come from, and where they go --------------------------------------------------------------------- */

/* A pool of two that is filled by three at a time. */
static void test_tiers(void **state) {
    (void)state;
    begin(2, 3);
    take_some(0, 1); /* of three new ones, one has no room in the pool */
    expect_tiers(2, 1, 0);
    expect_found(0, 0, 0, 3);
    assert_int_equal(counted(COUNT_PREFILLED), 2);
    assert_int_equal(counted(COUNT_PUSHES), 2);
    take_some(1, EACH - 1);
    expect_tiers(1, 1, 1);
    expect_found(EACH - 1, 0, 0, 0);
    assert_int_equal(counted(COUNT_TIER_DROPS), 1);
    take_some(EACH, EACH);
    expect_tiers(0, 1, 2);
    take_some(2 * EACH, 1); /* the one that waited */
    expect_tiers(1, 0, 2);
    expect_found(EACH, 1, 0, 0);
    assert_int_equal(counted(COUNT_PREFILLED), 0);
    assert_int_equal(counted(COUNT_PUSHES), 1);
    take_some(2 * EACH + 1, EACH - 1);
    take_some(3 * EACH, 1);
    expect_tiers(2, 1, 3);
    expect_found(EACH - 1, 0, 0, 3);
    put_some(0, 1); /* ready again, while the pool is full */
    expect_tiers(2, 2, 2);
    put_some(1, EACH - 1);
    expect_tiers(2, 1, 2);
    put_some(EACH, EACH);
    expect_tiers(2, 1, 1);
    assert_int_equal(counted(COUNT_LRU_IN), 2);
    assert_int_equal(load_rlx(&heap->lru_count), 2);
    take_some(0, EACH - 1 + EACH); /* all of the pool */
    expect_tiers(0, 1, 3);
    counted(COUNT_PREFILLED), counted(COUNT_PUSHES), counted(COUNT_FROM_POOL);
    blocks[2 * EACH - 1] = take(); /* from the list, and two from the LRU */
    expect_tiers(2, 1, 3);
    expect_found(0, 1, 2, 0);
    assert_int_equal(counted(COUNT_PREFILLED), 2);
    assert_int_equal(counted(COUNT_PUSHES), 2);
    assert_int_equal(load_rlx(&heap->lru_count), 0);
    assert_int_equal(load_rlx(&bin->count[COUNT_CARVED]), 5 * EACH + 1);
    put_some(0, 3 * EACH + 1);
    assert_int_equal(heap_allocs(heap, kind), 5 * EACH + 1);
    assert_int_equal(heap_frees(heap, kind), 5 * EACH + 1);
    expect_tiers(1, 1, 0); /* those that nothing was taken of */
    end();
}

/* The LRU holds so many; who takes it whole leaves room for as many. */
static void test_lru(void **state) {
    (void)state;
    begin(64, 1);
    take_some(0, MANY * EACH);
    expect_tiers(0, 0, MANY);
    put_some(0, (LRU_MOST - 1) * EACH);
    assert_int_equal(counted(COUNT_LRU_IN), LRU_MOST - 1);
    put_some((LRU_MOST - 1) * EACH, 3 * EACH);
    assert_int_equal(counted(COUNT_LRU_IN), 1);
    assert_int_equal(load_rlx(&heap->lru_count), LRU_MOST);
    for (int i = 0; i < LRU_MOST; i++) assert_int_equal(load_rlx(&slab_of(blocks[i * EACH])->state), 0); /* nobody's */
    heap_lru_drop(heap);
    put_some((LRU_MOST + 2) * EACH, EACH);
    assert_int_equal(counted(COUNT_LRU_IN), 1);
    assert_int_equal(load_rlx(&heap->lru_count), 1);
    put_some((LRU_MOST + 3) * EACH, EACH);
    assert_int_equal(load_rlx(&heap->lru_count), 2);
    end();
}

/* Of which at most half was handed out goes to the depot, which keeps it for the next last slab of a class. */
static void test_part(void **state) {
    (void)state;
    begin(2, 1);
    for (int used = 1; used <= EACH; used++) {
        take_some(0, used);
        assert_int_equal(counted(COUNT_FROM_SYSTEM) + counted(COUNT_FROM_DEPOT), used <= EACH / 2 + 1);
        const struct slab *slab = slab_of(blocks[0]);
        uint64_t bit = UINT64_C(1) << slab_slot(slab);
        pokes = 0;
        put_some(0, used);
        expect_tiers(0, 0, 0);
        bool is_part = used <= EACH / 2;
        assert_int_equal(pokes, 1);
        assert_int_equal((load_rlx(&segment_of(slab)->part) & bit) != 0, is_part);
        assert_int_equal((load_rlx(&segment_of(slab)->free) & bit) != 0, is_part);
        assert_int_equal(slot_kind(segment_of(slab), slab_slot(slab)) == KIND_OTHER, is_part);
        assert_int_equal(counted(COUNT_LRU_IN), !is_part);
    }
    end();
}

/* Its bits beyond the descriptor are nobody's as soon as it is empty. */
static void test_bits(void **state) {
    (void)state;
    begin_sized(2, 1, 16);
    take_some(0, EACH);
    put_some(0, 1);
    unsigned taken = 0;
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        for (unsigned i = 0; i < FAR_MASKS; i++) taken += load_rlx(&segment->far_lines[i]) != 0;
    assert_int_equal(taken, 1);
    put_some(1, EACH - 1);
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        for (unsigned i = 0; i < FAR_MASKS; i++) assert_int_equal(load_rlx(&segment->far_lines[i]), 0);
    end();
}

/* Without a pool the slabs of the process are looked through; with room in it again, what is listed goes there. */
static void test_no_pool(void **state) {
    (void)state;
    begin(WEFT_HEAP_POOL_NONE, 2);
    take_some(0, 1);
    expect_tiers(0, 2, 0);
    expect_found(0, 0, 0, 2);
    take_some(1, EACH);
    expect_found(0, EACH, 0, 0);
    expect_tiers(0, 1, 1);
    configure(3, 1);
    take_some(EACH + 1, 1);
    expect_tiers(1, 0, 1);
    take_some(EACH + 2, 2 * EACH);
    expect_tiers(1, 0, 3);
    put_some(0, 1);
    put_some(EACH + 2, EACH);
    configure(1, 1);
    take_some(0, 1); /* of those ready one may stay in the pool */
    assert_int_equal(bin->tier[TIER_HOT].count, 1);
    assert_int_equal(bin->capacity, 1);
    put_some(0, EACH + 2);
    put_some(2 * EACH + 2, EACH);
    end();
}

/* Into the cache, which may have been shut. */
static void push_one(void *block) {
    heap_room_set(heap, kind, heap->room[kind]);
    REQUIRE(cache_push(heap, kind, block));
}

/* Another heap's blocks go home, at most 64 of a slab in a message, those of a slab side by side at once. */
static void test_sends(void **state) {
    (void)state;
    enum { PART = 70, ALL = 1200 };
    static void *all[ALL];
    begin_sized(4, 2, 64);
    struct heap *owner = heap;
    for (int i = 0; i < ALL; i++) all[i] = take();
    void **first = all, **second = all + ALL - (size_t)2 * PART; /* of two slabs, each more than a message holds */
    for (int i = 0; i < 2 * PART; i++)
        REQUIRE(slab_of(first[i]) == slab_of(all[0]) && slab_of(second[i]) != slab_of(all[0]));
    heap = heap_make();
    REQUIRE(heap != NULL);
    bin = &heap->bins[kind];
    memset(marked, 0, sizeof marked);
    heap_room_set(heap, kind, 2 * PART);
    for (int i = 0; i < PART; i++) push_one(first[i]), push_one(second[i]);
    heap_kind_tidy(heap, kind);
    assert_int_equal(counted(COUNT_REMOTE_FREES), 2 * PART);
    assert_int_equal(counted(COUNT_REMOTE_SENDS), 4);
    for (int i = 0; i < 2 * PART; i++) push_one(i < PART ? first[PART + i] : second[i]);
    heap_kind_tidy(heap, kind);
    assert_int_equal(counted(COUNT_REMOTE_FREES), 2 * PART);
    assert_int_equal(counted(COUNT_REMOTE_SENDS), 2);
    void *mixed[] = {all[(size_t)2 * PART], all[2 * PART + 1], all[2 * PART + 2],
                     all[2 * PART + 3],     second[-1],        all[2 * PART + 4]}; /* four side by side are enough */
    for (int i = 0; i < 6; i++) push_one(mixed[i]);
    heap_kind_tidy(heap, kind);
    assert_int_equal(counted(COUNT_REMOTE_FREES), 6);
    assert_int_equal(counted(COUNT_REMOTE_SENDS), 3);
    end();
    heap = owner;
    bin = &heap->bins[kind];
    for (int i = 2 * PART + 5; i < ALL - 2 * PART - 1; i++) heap_put_one(heap, all[i], kind);
    assert_false(inbox_is_empty(&heap->inbox));
    all[0] = take(); /* collects what came home */
    assert_true(inbox_is_empty(&heap->inbox));
    heap_put_one(heap, all[0], kind);
    expect_tiers(0, 0, 0);
    end();
}

/* ---- the pool's size ---------------------------------------------------------------------------------------------- */

struct adaptation {
    uint32_t looks, found; /* with the one that adapts */
    uint32_t capacity, prefill;
    uint32_t new_capacity, new_prefill;
};

/* One look at a pool that has a slab. */
static void adapt_once(const struct adaptation *a, int32_t fixed_capacity, int32_t fixed_prefill) {
    begin(fixed_capacity, fixed_prefill);
    take_some(0, 1);
    bin->looks = a->looks - 1;
    bin->found = a->found - 1;
    bin->capacity = a->capacity;
    bin->prefill = a->prefill;
    take_some(1, 1);
    bool adapts = a->looks >= 32;
    assert_int_equal(bin->looks, adapts ? 0 : a->looks);
    assert_int_equal(bin->found, adapts ? 0 : a->found);
    assert_int_equal(bin->capacity, fixed_capacity != 0 ? a->capacity : a->new_capacity);
    assert_int_equal(bin->prefill, fixed_prefill != 0 ? a->prefill : a->new_prefill);
    put_some(0, 2);
    end();
}

static void test_adapts(void **state) {
    (void)state;
    static const struct adaptation all[] = {
        {31, 1, 64, 2, 64, 2},         {32, 32, 64, 2, 60, 1},        {32, 16, 64, 2, 128, 3}, {100, 79, 64, 2, 128, 3},
        {100, 80, 64, 2, 80, 3},       {100, 89, 64, 2, 80, 3},       {100, 90, 64, 2, 64, 2}, {100, 95, 64, 2, 64, 2},
        {100, 96, 64, 2, 60, 1},       {100, 96, 16, 1, 16, 1},       {100, 96, 17, 1, 16, 1}, {100, 50, 4096, 16, 4096, 16},
        {100, 50, 4095, 15, 8190, 16}, {100, 85, 2048, 15, 2560, 16},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        adapt_once(&all[i], 0, 0);
        adapt_once(&all[i], 7, 0);
        adapt_once(&all[i], 0, 3);
    }
}

/* ---- the caches' room --------------------------------------------------------------------------------------------- */

static void *alloc(void) {
    void *block = heap_alloc_refilled(heap, kind);
    REQUIRE(block != NULL);
    return block;
}

/* Doubled at each refill, of half the room each, up to the class's most. */
static void test_room(void **state) {
    (void)state;
    begin_sized(0, 0, 64);
    static void *got[1024];
    uint32_t most = class_info[kind].cache_max, count = 0;
    assert_int_equal(heap->room[kind], 8);
    int64_t budget = heap->budget;
    for (uint32_t room = 8; room < most * 4; room *= 2) {
        uint32_t before = room < most ? room : most, after = 2 * room < most ? 2 * room : most;
        assert_int_equal(heap->room[kind], before);
        got[count++] = alloc();
        assert_int_equal(cache_count(heap, kind), before / 2 - 1);
        assert_int_equal(heap->room[kind], after);
        assert_true(heap->limit[kind] == heap->base[kind] + after);
        while (cache_count(heap, kind) > 0) got[count++] = cache_pop(heap, kind);
        REQUIRE(count + most < 1024);
    }
    assert_int_equal(heap->budget, budget); /* blocks of this size are not bounded by it */
    for (uint32_t i = 0; i < count; i++) heap_put_one(heap, got[i], kind);
    end();
}

/* Of blocks over TINY_MAX all caches together grow by so many bytes. */
static void test_budget(void **state) {
    (void)state;
    begin(0, 0);
    uint32_t room = heap->room[kind];
    assert_int_equal(room, 4);
    int64_t budget = heap->budget = (int64_t)room * SIZE - 1;
    blocks[0] = alloc();
    assert_int_equal(heap->room[kind], room);
    assert_int_equal(heap->budget, budget);
    while (cache_count(heap, kind) > 0) put_some(1, (blocks[1] = cache_pop(heap, kind)) != NULL);
    heap->budget = (int64_t)room * SIZE;
    blocks[1] = alloc();
    assert_int_equal(heap->room[kind], 2 * room);
    assert_int_equal(heap->budget, 0);
    heap_room_set(heap, kind, room);
    assert_int_equal(heap->budget, (int64_t)room * SIZE);
    heap_kind_tidy(heap, kind);
    put_some(0, 2);
    end();
}

/* The time is taken of one refill in 16, and of what another one in 16 does to find slabs. */
static void test_timed(void **state) {
    (void)state;
    begin(0, 0);
    take_some(0, 40);
    assert_int_equal(counted(COUNT_MISSES), 40);
    assert_int_equal(counted(COUNT_FINDS_TIMED), 2);
    assert_int_equal(counted(COUNT_REFILLS_TIMED), 0);
    put_some(0, 40);
    for (uint32_t i = 0; i < 40; i++) { /* the refills 40 to 79; of room for two each takes one */
        heap_room_set(heap, kind, 2);
        blocks[i] = alloc();
    }
    assert_int_equal(counted(COUNT_MISSES), 40);
    assert_int_equal(counted(COUNT_REFILLS_TIMED), 2);
    assert_int_equal(counted(COUNT_FINDS_TIMED), 3);
    put_some(0, 40);
    end();
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

enum { FREED = 70000, CARVED = 50000, FLUSHED = 20000, LIVE = CARVED - FLUSHED };

/* Each count of a heap's is another number. */
static uint64_t number_of(enum heap_count what) {
    return what == COUNT_CARVED ? CARVED : what == COUNT_FLUSHED ? FLUSHED : 1001 + 7 * (uint64_t)what;
}

static const struct {
    enum heap_count what;
    size_t at;
    const char *name; /* in JSON; NULL: not there as such */
} fields[] = {
#define FIELD(what, name)                                                                                                   \
    { what, offsetof(weft_heap_counts, name), #name }
    FIELD(COUNT_MISSES, miss_count),
    FIELD(COUNT_FROM_OVERFLOW, from_overflow_count),
    FIELD(COUNT_FROM_POOL, from_pool_count),
    FIELD(COUNT_FROM_LIST, from_list_count),
    FIELD(COUNT_FROM_LRU, from_lru_count),
    FIELD(COUNT_FROM_ORPHANS, from_orphans_count),
    FIELD(COUNT_FROM_DEPOT, from_depot_count),
    FIELD(COUNT_FROM_SYSTEM, from_system_count),
    FIELD(COUNT_PREFILLED, prefill_count),
    FIELD(COUNT_PUSHES, push_count),
    FIELD(COUNT_TIER_DROPS, tier_drop_count),
    FIELD(COUNT_LRU_IN, lru_in_count),
    FIELD(COUNT_FROM_LRU, lru_out_count),
    FIELD(COUNT_COLD, cold_count),
    FIELD(COUNT_REFILLS_TIMED, refill_timed_count),
    {COUNT_REFILL_NS, offsetof(weft_heap_counts, refill_ns), NULL},
    FIELD(COUNT_FINDS_TIMED, find_timed_count),
    {COUNT_FIND_NS, offsetof(weft_heap_counts, find_ns), NULL},
    FIELD(COUNT_FLUSHES, flush_count),
    FIELD(COUNT_REMOTE_FREES, remote_free_count),
    FIELD(COUNT_REMOTE_SENDS, remote_send_count),
};
enum { FIELDS = sizeof fields / sizeof *fields };

static uint64_t field_of(const weft_heap_counts *counts, size_t at) {
    uint64_t value;
    memcpy(&value, (const char *)counts + at, sizeof value);
    return value;
}
static weft_heap_counts counts_of_class(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t size = 0;
    REQUIRE(weft_heap_class_stats(kind, &size, &counts) == WEFT_OK && size == class_info[kind].size);
    return counts;
}
static weft_heap_counts counts_of_all(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

static void count_numbers(uint64_t sign) {
    for (unsigned i = 0; i < HEAP_COUNTS; i++) store_rlx(&bin->count[i], load_rlx(&bin->count[i]) + sign * number_of(i));
    store_rlx(&heap->frees[kind], load_rlx(&heap->frees[kind]) + ((sign * FREED) << 8));
    for (unsigned i = 0; i < LARGE_COUNTS; i++)
        store_rlx(&heap->large[i], load_rlx(&heap->large[i]) + sign * (900 - 100 * i));
    store_rlx(&heap->frees[CLASSES], load_rlx(&heap->frees[CLASSES]) + ((sign * 50) << 8));
}

static void expect_numbers(const weft_heap_counts *before, const weft_heap_counts *after) {
    for (size_t i = 0; i < FIELDS; i++)
        assert_int_equal(field_of(after, fields[i].at) - field_of(before, fields[i].at), number_of(fields[i].what));
    assert_int_equal(after->hit_count - before->hit_count, FREED + LIVE - number_of(COUNT_MISSES));
}

static uint64_t json_of(const char *text, const char *name) {
    char field[64];
    snprintf(field, sizeof field, "\"%s\": ", name);
    const char *at = strstr(text, field);
    REQUIRE(at != NULL);
    return strtoull(at + strlen(field), NULL, 10);
}

static void expect_json(const char *text, const weft_heap_counts *counts) {
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].name != NULL) assert_int_equal(json_of(text, fields[i].name), field_of(counts, fields[i].at));
    assert_int_equal(json_of(text, "alloc_count"), counts->alloc_count);
    assert_int_equal(json_of(text, "free_count"), counts->free_count);
    assert_int_equal(json_of(text, "hit_count"), counts->hit_count);
    assert_int_equal(json_of(text, "live_bytes"), counts->live_bytes);
    assert_int_equal(json_of(text, "refill_ns"), counts->refill_ns / counts->refill_timed_count);
    assert_int_equal(json_of(text, "find_ns"), counts->find_ns / counts->find_timed_count);
    assert_int_equal(json_of(text, "refills_per_million"), counts->miss_count * 1000000 / counts->alloc_count);
    uint64_t slabs = counts->from_pool_count + counts->from_list_count + counts->from_lru_count +
                     counts->from_orphans_count + counts->from_depot_count + counts->from_system_count;
    assert_int_equal(json_of(text, "pool_percent"), counts->from_pool_count * 100 / slabs);
}

static void test_class_counts(void **state) {
    (void)state;
    weft_heap_counts counts = {.struct_size = sizeof counts};
    size_t size = 0, before = 0;
    for (unsigned i = 0; i < counts_of_all().classes; i++) {
        assert_int_equal(weft_heap_class_stats(i, &size, &counts), WEFT_OK);
        assert_true(size > before);
        before = size;
    }
    assert_int_equal(weft_heap_class_stats(counts_of_all().classes, &size, &counts), WEFT_EINVAL);
    assert_int_equal(weft_heap_class_stats(0, NULL, &counts), WEFT_EINVAL);
    assert_int_equal(weft_heap_class_stats(0, &size, NULL), WEFT_EINVAL);
}

/* What a heap has counted is in its class's counts, in those of all, and in JSON. */
static void test_counts(void **state) {
    (void)state;
    begin(0, 0);
    weft_heap_counts class_before = counts_of_class(), all_before = counts_of_all();
    count_numbers(1);
    weft_heap_counts of_class = counts_of_class(), of_all = counts_of_all();
    expect_numbers(&class_before, &of_class);
    expect_numbers(&all_before, &of_all);
    assert_int_equal(of_class.alloc_count - class_before.alloc_count, FREED + LIVE);
    assert_int_equal(of_class.free_count - class_before.free_count, FREED);
    assert_int_equal(of_class.live_bytes - class_before.live_bytes, LIVE * SIZE);
    assert_int_equal(of_all.alloc_count - all_before.alloc_count, FREED + LIVE + 900 - 100 * LARGE_ALLOCS + 50);
    assert_int_equal(of_all.free_count - all_before.free_count, FREED + 900 - 100 * LARGE_FREES + 50);
    assert_int_equal(of_all.reuse_count - all_before.reuse_count, 900 - 100 * LARGE_REUSED);
    assert_int_equal(of_all.live_bytes - all_before.live_bytes, LIVE * SIZE + 100 * (LARGE_BYTES_OUT - LARGE_BYTES_IN));
    static char text[65536];
    int length = weft_heap_stats_json(text, sizeof text);
    REQUIRE(length > 0 && length < (int)sizeof text);
    expect_json(text, &of_all);
    const char *row = strstr(text, "\"block_size\": 16384,");
    REQUIRE(row != NULL);
    expect_json(row, &of_class);
    count_numbers(UINT64_MAX);
    assert_int_equal(counts_of_all().alloc_count, all_before.alloc_count);
    end();
}

/* A cache with room for one block is refilled with one, whatever the bounds make of its room. */
static void test_room_of_one(void **state) {
    (void)state;
    begin_sized(0, 0, MEDIUM_MAX);
    heap->budget = 0; /* no cache grows */
    heap_room_set(heap, kind, 1);
    void *block = heap_alloc_refilled(heap, kind);
    assert_non_null(block);
    heap_put_one(heap, block, kind);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiers),       cmocka_unit_test(test_lru),     cmocka_unit_test(test_part),
        cmocka_unit_test(test_bits),        cmocka_unit_test(test_no_pool), cmocka_unit_test(test_sends),
        cmocka_unit_test(test_adapts),      cmocka_unit_test(test_counts),  cmocka_unit_test(test_class_counts),
        cmocka_unit_test(test_timed),       cmocka_unit_test(test_room),    cmocka_unit_test(test_budget),
        cmocka_unit_test(test_room_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
