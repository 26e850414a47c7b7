/* Slabs by themselves: bits and blocks over many lives of a slot, and what is written into blocks that go home. */
#define _GNU_SOURCE
#include "help.h"

#include "heap/heap.h"

#include <sys/mman.h>
#include <unistd.h>

static struct slab *slab_taken(void) {
    struct slots got = depot_take(1);
    assert_non_null(got.segment);
    depot_soil(got);
    return &got.segment->slabs[__builtin_ctzll(got.bits)];
}

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* ---- lives -------------------------------------------------------------------------------------------------------- */

static bool taken[SLAB_BLOCKS_MAX];

static void take(struct slab *slab, void *const *blocks, uint32_t count) {
    size_t margin = slab_margin(slab->kind, slab_start(slab)), size = class_info[slab->kind].size;
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(slab_of(blocks[i]), slab);
        assert_int_equal((slot_offset(blocks[i]) - margin) % size, 0);
        uint32_t index = index_in(slab->kind, blocks[i]);
        assert_false(taken[index]);
        assert_false(slab_is_free(slab, index));
        taken[index] = true;
    }
}

static void put_some(struct slab *slab, uint32_t *random) {
    char *first = slab_start(slab) + slab_margin(slab->kind, slab_start(slab));
    uint32_t blocks = class_info[slab->kind].blocks, step = 1 + next_random(random) % 5;
    for (uint32_t i = next_random(random) % step; i < blocks; i += step) {
        if (!taken[i]) continue;
        void *block = first + (size_t)i * class_info[slab->kind].size;
        assert_int_equal(slab_put(slab, &block, 1), 1);
        taken[i] = false;
    }
}

/* It ends with whatever is taken and free. */
static void live(struct slab *slab, unsigned kind, uint32_t *random) {
    static void *slots[SLAB_BLOCKS_MAX];
    uint32_t blocks = class_info[kind].blocks, size = class_info[kind].size, cold = 0;
    uint32_t touched = next_random(random) % (SLOT_PARTS + 1);
    uint32_t first_cold = (uint32_t)((touched * SLOT_BYTES / SLOT_PARTS + size - 1) / size);
    if (touched == SLOT_PARTS) first_cold = blocks;
    slab_init(slab, kind, NULL, touched);
    memset(taken, 0, sizeof taken);
    for (int i = 0; i < 8; i++) {
        uint32_t want = 1 + next_random(random) % blocks, room = slab->room;
        cold += slab_cold(slab, want < room ? want : room);
        uint32_t got = slab_carve(slab, slots, want);
        assert_int_equal(got, want < room ? want : room);
        take(slab, slots, got);
        assert_int_equal(cold, slab->carved > first_cold ? slab->carved - first_cold : 0);
        if (next_random(random) % 2 == 0) put_some(slab, random);
        uint32_t free = 0;
        for (uint32_t k = 0; k < blocks; k++) free += !taken[k];
        assert_int_equal(slab->room, free);
        assert_int_equal(load_rlx(&slab->used), blocks - free);
    }
}

/* One slot is a slab of one class after another, its neighbours too: each has its own bits. */
static void test_lives(void **unused) {
    (void)unused;
    uint32_t random = 5;
    struct slab *slab = slab_taken(), *other = slab_taken();
    for (int i = 0; i < 400; i++) {
        live(slab, next_random(&random) % CLASSES, &random);
        uint32_t room = slab->room;
        live(other, next_random(&random) % (i % 2 == 0 ? CLASSES : 4), &random);
        uint32_t free = 0;
        for (uint32_t k = 0; k < class_info[slab->kind].blocks; k++) free += slab_is_free(slab, k);
        assert_int_equal(free, room);
    }
    slab_bits_drop(slab);
    slab_bits_drop(other);
    const struct heap_segment *segment = segment_of(slab);
    assert_true(slab->far_words == SLAB_WORDS_MAX && load_rlx(&segment->far_used) <= 4 * SLAB_WORDS_MAX);
}

/* Every slot of a segment in its most expensive order of lives: the words of remote bits suffice. */
static void test_far_words(void **unused) {
    (void)unused;
    struct slab *slab = slab_taken();
    struct heap_segment *segment = segment_of(slab);
    for (unsigned slot = HEAD_SLOTS; slot < SEGMENT_SLOTS; slot++) {
        uint64_t bit = UINT64_C(1) << slot;
        if ((load_rlx(&segment->free) & bit) == 0) continue;
        static const unsigned kinds[] = {7, 4, 2, 0, 7, 1, 0};
        for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) slab_init(&segment->slabs[slot], kinds[i], NULL, 0);
        slot_kind_set(segment, slot, KIND_OTHER);
    }
    assert_true(load_rlx(&segment->far_used) <= FAR_WORDS);
}

enum { MANY_SLABS = 3 * SEGMENT_SLOTS };

static size_t lines_taken(const struct slab *slab) {
    if (slab->free == NULL || slab->free == slab->near_free) return 0;
    return (class_info[slab->kind].blocks + CACHE_LINE * 8 - 1) / (CACHE_LINE * 8);
}

static void expect_apart(const struct slab *one, const struct slab *other) {
    uintptr_t end = (uintptr_t)one->free + lines_taken(one) * CACHE_LINE;
    uintptr_t other_end = (uintptr_t)other->free + lines_taken(other) * CACHE_LINE;
    assert_true(one == other || lines_taken(other) == 0 || end <= (uintptr_t)other->free ||
                other_end <= (uintptr_t)one->free);
}

/* The slab's next life begins, and the first of its blocks comes back. */
static void begin_with_bits(struct slab *slab, unsigned kind) {
    void *block;
    slab_init(slab, kind, NULL, 0);
    assert_int_equal(slab_carve(slab, &block, 1), 1);
    assert_int_equal(slab_put(slab, &block, 1), 1);
    assert_true(slab->free[0] == 1);
}

/* A block that was not handed out yet does not come back: neither the next one nor one after it. */
static void test_never_handed_out(void **unused) {
    (void)unused;
    struct slab *slab = slab_taken();
    void *blocks[2];
    slab_init(slab, 0, NULL, 0);
    assert_int_equal(slab_carve(slab, blocks, 2), 2);
    char *next = slab_start(slab) + slab_margin(0, slab_start(slab)) + 2 * (size_t)class_info[0].size;
    void *given[] = {blocks[0], next, next + class_info[0].size};
    assert_int_equal(slab_put(slab, given, 2), 1);
    assert_int_equal(slab_put(slab, given + 2, 1), 0);
    assert_int_equal(load_rlx(&slab->used), 1);
    slab_bits_drop(slab);
    depot_put(segment_of(slab), UINT64_C(1) << slab_slot(slab));
}

/* Slabs that have bits beyond their descriptors have them apart from all others', whatever they were before, and whoever
 * needs some finds them: also when all others have lines that stand in the way. In the end all are zeros, and nobody's. */
static void test_bits(void **unused) {
    (void)unused;
    static struct slab *slabs[MANY_SLABS];
    uint32_t random = 7;
    for (unsigned i = 0; i < MANY_SLABS; i++) slabs[i] = slab_taken();
    for (unsigned i = 0; i < MANY_SLABS; i++) begin_with_bits(slabs[i], 7);
    for (unsigned i = 0; i < 20 * MANY_SLABS; i++) {
        struct slab *slab = slabs[i < 2 * MANY_SLABS ? i % MANY_SLABS : next_random(&random) % MANY_SLABS];
        begin_with_bits(slab, i < MANY_SLABS ? 0 : next_random(&random) % 14);
        if (next_random(&random) % 4 == 0) slab_bits_drop(slab);
        for (unsigned k = 0; k < MANY_SLABS && lines_taken(slab) != 0; k++) expect_apart(slab, slabs[k]);
    }
    for (unsigned i = 0; i < MANY_SLABS; i++) slab_bits_drop(slabs[i]);
    for (unsigned i = 0; i < MANY_SLABS; i++) {
        const struct heap_segment *segment = segment_of(slabs[i]);
        for (size_t k = 0; k < FAR_MASKS; k++) assert_true(load_rlx(&segment->far_lines[k]) == 0);
        for (size_t k = 0; k < SEGMENT_SLOTS * FAR_LINES * LINE_WORDS; k++) assert_true(segment->far_free[k] == 0);
    }
}

/* ---- what is in memory -------------------------------------------------------------------------------------------- */

static void test_touched(void **unused) {
    (void)unused;
    static void *slots[SLAB_BLOCKS_MAX];
    struct slab *slab = slab_taken();
    slab_init(slab, 0, NULL, 0);
    assert_int_equal(slab_touched(slab), 0);
    slab_carve(slab, slots, 1);
    assert_int_equal(slab_touched(slab), 1);
    slab_carve(slab, slots, SLAB_BLOCKS_MAX / 4);
    assert_int_equal(slab_touched(slab), SLOT_PARTS / 4 + 1);
    assert_false(slab_has_grown(slab));
    slab_init(slab, 3, NULL, slab_touched(slab));
    assert_int_equal(slab_touched(slab), SLOT_PARTS / 4 + 1);
    slab_carve(slab, slots, class_info[3].blocks / 2 + 1);
    assert_true(slab_has_grown(slab));
    assert_int_equal(slab_touched(slab), SLOT_PARTS / 2 + 1);
}

/* Of one segment's free slots: those in memory first, in part last, untouched ones when there are no others; in part alone
 * when that is wanted. */
static void test_parts(void **unused) {
    (void)unused;
    struct slots whole = depot_take(1), part = depot_take(1), twice = depot_take(1);
    depot_soil(whole);
    depot_soil(part);
    depot_soil(twice);
    assert_null(depot_take_part().segment);
    part.segment->slabs[__builtin_ctzll(part.bits)].touched = 3;
    depot_put_part(part.segment, part.bits);
    depot_put(whole.segment, whole.bits);
    struct slots got = depot_take(8);
    assert_true(got.segment == whole.segment && got.bits == whole.bits && got.dirty == whole.bits && got.part == 0);
    struct slots other = depot_take(8);
    assert_true(other.segment == part.segment && other.bits == part.bits && other.dirty == part.bits &&
                other.part == part.bits);
    depot_soil(other);
    assert_int_equal(other.segment->slabs[__builtin_ctzll(other.bits)].touched, 3);
    depot_put(other.segment, other.bits);
    assert_null(depot_take_part().segment);
    depot_put_part(twice.segment, twice.bits);
    other = depot_take_part();
    assert_true(other.segment == twice.segment && other.bits == twice.bits && other.part == twice.bits);
    depot_soil(other);
    depot_put_part(other.segment, other.bits);
    depot_purge(true);
    assert_null(depot_take_part().segment);
    assert_true((load_rlx(&twice.segment->free) & twice.bits) != 0 && load_rlx(&twice.segment->part) == 0);
}

/* Pages of a block's slot. */
static unsigned resident_around(const void *block) {
    char *start = slot_start(segment_of(block), slot_of(block));
    unsigned char pages[SLOT_PARTS];
    unsigned count = 0;
    assert_int_equal(mincore(start, SLOT_BYTES, pages), 0);
    for (unsigned i = 0; i < SLOT_PARTS; i++) count += pages[i] & 1;
    return count;
}

/* A class's first slab may stay its last: where only slots that are in memory whole are free it gets one whose pages went
 * back. The next one does not, however few there were. */
static void test_last_trimmed(void **unused) {
    (void)unused;
    enum { COUNT = 2048, SIZE = 1024, OTHER = 640 };
    if (sysconf(_SC_PAGESIZE) != (long)(SLOT_BYTES / SLOT_PARTS)) {
        print_message("skipped: it counts pages of 4 KiB\n");
        skip();
    }
    static void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) memset(blocks[i] = weft_alloc(SIZE), 1, SIZE);
    assert_int_equal(resident_around(blocks[COUNT / 2]), SLOT_PARTS);
    for (unsigned i = 0; i < COUNT; i++) weft_free(blocks[i]);
    unsigned count = 0;
    blocks[count++] = weft_alloc(OTHER);
    assert_true(resident_around(blocks[0]) <= 1);
    while (slab_of(blocks[count - 1]) == slab_of(blocks[0])) blocks[count++] = weft_alloc(OTHER);
    assert_int_equal(resident_around(blocks[count - 1]), SLOT_PARTS);
    while (count > 0) weft_free(blocks[--count]);
}

static uintptr_t slot_used_by(weft_arena *heap, size_t size, unsigned count) {
    void *block = NULL;
    while (count-- > 0) block = weft_arena_alloc(heap, size);
    assert_non_null(block);
    return (uintptr_t)block / SLOT_BYTES;
}

/* Who has a few blocks of a class gets the slot of which one before had little, not the one that is in memory whole. */
static void test_parts_taken(void **unused) {
    (void)unused;
    weft_arena *little, *much, *next;
    depot_purge(true);
    assert_int_equal(weft_arena_create(&little), WEFT_OK);
    assert_int_equal(weft_arena_create(&much), WEFT_OK);
    uintptr_t part = slot_used_by(little, 512, 1), whole = slot_used_by(much, 512, 128);
    assert_int_not_equal(part, whole);
    weft_arena_destroy(&little);
    weft_arena_destroy(&much);
    assert_int_equal(weft_arena_create(&next), WEFT_OK);
    assert_int_equal(slot_used_by(next, 256, 1), part);
    assert_int_equal(slot_used_by(next, 512, 128), whole);
    weft_arena_destroy(&next);
}

/* ---- blocks that go home ------------------------------------------------------------------------------------------ */

enum { KIND_512 = 15, LINES = 512 / CACHE_LINE, BLOCKS = 128 };

static void *home[BLOCKS];

static void home_lay(void) {
    static char room[SLOT_BYTES] ALIGNED(SLOT_BYTES);
    assert_int_equal(class_info[KIND_512].size, 512);
    for (unsigned i = 0; i < BLOCKS; i++) home[i] = room + i * (size_t)512;
}

/* Their users write so many lines of each, and send them. Returns how many lines were written on the way: the first was when the
 * block was freed. */
static unsigned trip(unsigned lines, uint16_t *spared) {
    unsigned written = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned k = 0; k < lines; k++) ((char *)home[i])[(size_t)k * CACHE_LINE] = 1;
    static char before[SLOT_BYTES];
    memcpy(before, home[0], sizeof before);
    blocks_write(KIND_512, home, BLOCKS, spared);
    for (unsigned i = 0; i < BLOCKS * LINES; i++) {
        size_t at = (size_t)i * CACHE_LINE;
        written += memcmp(before + at, (char *)home[0] + at, CACHE_LINE) != 0;
    }
    return written;
}

/* Lines that nobody uses are left alone after a while, and not when they are used again. */
static void test_lines_learnt(void **unused) {
    (void)unused;
#if defined(SANITIZED_ADDRESS)
    SKIP("blocks that go home are poisoned, not written");
#endif
    home_lay();
    uint16_t spared = 0;
    assert_int_equal(trip(LINES, &spared), BLOCKS * (LINES - 1)); /* all, before anything is known */
    for (int i = 0; i < 100; i++) assert_int_equal(trip(LINES, &spared), BLOCKS * (LINES - 1));
    for (int i = 0; i < 100; i++) trip(1, &spared);
    assert_int_equal(trip(1, &spared), 0);
    assert_int_equal(trip(3, &spared), 2 * BLOCKS / 16);
    for (int i = 0; i < 100; i++) trip(3, &spared);
    assert_int_equal(trip(3, &spared), 2 * BLOCKS);
    for (int i = 0; i < 100; i++) trip(LINES, &spared);
    assert_int_equal(trip(LINES, &spared), BLOCKS * (LINES - 1));
}

/* ---- whether to write into them ----------------------------------------------------------------------------------- */

enum { TRIED = 9, CYCLE = 255 };

/* So many phases, each of which takes as long as the machine needs with writing or without; one of them ten times as long.
 * Returns in how many it wrote. */
static unsigned phases(struct trial *trial, unsigned count, uint64_t with_ns, uint64_t without_ns, unsigned disturbed) {
    static uint64_t now_ns = 1000;
    unsigned wrote = 0;
    for (unsigned i = 0; i < count; i++) {
        bool writes = trial_writes(trial, 0);
        wrote += writes;
        now_ns += (writes ? with_ns : without_ns) * (i == disturbed ? 10 : 1);
        trial_next(trial, now_ns);
    }
    return wrote;
}

/* A trial, and what follows it: how many phases of that wrote. */
static unsigned follows(struct trial *trial, uint64_t with_ns, uint64_t without_ns, unsigned disturbed) {
    assert_int_equal(phases(trial, TRIED, with_ns, without_ns, disturbed), 4);
    return phases(trial, CYCLE - TRIED, 1, 1, CYCLE);
}

static void test_trial_chooses_the_quicker(void **unused) {
    (void)unused;
    struct trial trial = {0};
    assert_int_equal(phases(&trial, 2, 100, 100, 2), 0); /* does not write to begin with */
    trial = (struct trial){0};
    assert_int_equal(follows(&trial, 80, 100, CYCLE), CYCLE - TRIED);
    assert_int_equal(follows(&trial, 100, 100, CYCLE), CYCLE - TRIED); /* no difference: as before */
    assert_int_equal(follows(&trial, 102, 100, CYCLE), CYCLE - TRIED);
    assert_int_equal(follows(&trial, 100, 80, CYCLE), 0);
    assert_int_equal(follows(&trial, 100, 102, CYCLE), 0);
    assert_int_equal(follows(&trial, 100, 200, CYCLE), CYCLE - TRIED);
}

/* A thread that is kept from its CPU during one phase chooses what it would have chosen. */
static void test_trial_bears_a_long_phase(void **unused) {
    (void)unused;
    for (unsigned i = 0; i < TRIED; i++) {
        struct trial trial = {0};
        assert_int_equal(follows(&trial, 80, 100, i), CYCLE - TRIED);
        assert_int_equal(follows(&trial, 100, 80, i), 0);
    }
}

/* What a descriptor has room for is there, or it would take a line of the head for nothing. */
static void test_bits_near(void **unused) {
    (void)unused;
    void *block;
    for (unsigned kind = 0; kind < CLASSES; kind++) {
        struct slab *slab = slab_taken();
        slab_init(slab, kind, NULL, 0);
        assert_int_equal(slab_carve(slab, &block, 1), 1);
        assert_int_equal(slab_put(slab, &block, 1), 1);
        assert_int_equal(slab->free == slab->near_free, class_info[kind].blocks <= 64 * FREE_NEAR);
        slab_bits_drop(slab);
        depot_put(segment_of(slab), UINT64_C(1) << slab_slot(slab));
    }
}

static void test_trial_counts_blocks(void **unused) {
    (void)unused;
    struct trial trial = {0};
    for (unsigned phase = 0; phase < TRIED; phase++) {
        assert_int_equal(trial.phase, phase);
        for (unsigned i = 1; i < TRIAL_BLOCKS / 128; i++) trial_writes(&trial, 128);
        assert_int_equal(trial.phase, phase);
        trial_writes(&trial, 128);
    }
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_far_words),
        cmocka_unit_test(test_never_handed_out),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_bits_near),
        cmocka_unit_test(test_touched),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_taken),
        cmocka_unit_test(test_lines_learnt),
        cmocka_unit_test(test_trial_chooses_the_quicker),
        cmocka_unit_test(test_trial_bears_a_long_phase),
        cmocka_unit_test(test_trial_counts_blocks),
        cmocka_unit_test(test_last_trimmed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
