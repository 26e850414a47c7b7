/* drive_heap_threads.c: whole heaps: threads that allocate, free each other's blocks, end, and give memory back. In the end
 * every slot is free again but those of the heaps themselves. */
#include "explore.h"
#include "heap/heap.h"
#include "pages/poke.h"
#include "pages/kept.h"

#include <string.h>

/* Four blocks to a slab, one slab in an LRU, four blocks in a cache. */
enum { SIZE = 1024, SENT = 3 };

static ATOMIC(uint32_t *) handed[SENT];

static weft_arena *own;
static block_mark mark;
static uint32_t ended;

static void setup(void) {
    memset(&depot, 0, sizeof depot);
    memset(&heaps, 0, sizeof heaps);
    memset(orphans, 0, sizeof orphans);
    memset(handed, 0, sizeof handed);
}

static uint32_t *make_block(uint32_t color) {
    uint32_t *block = heap_alloc(SIZE);
    EXPECT(block != NULL);
    plain_write(block, sizeof *block);
    *block = color;
    return block;
}
static void end_block(uint32_t *block, uint32_t color) {
    plain_write(block, sizeof *block);
    EXPECT(*block == color);
    *block = 0;
    heap_free(block);
}

static void hand_over(void) {
    for (uint32_t i = 0; i < SENT; i++) {
        uint32_t *mine = make_block(100 + i);
        plain_write(mine, sizeof *mine);
        EXPECT(*mine == 100 + i);
        store_rel(drive_heap_given, &handed[i], mine);
    }
}
static void take_over(void) {
    for (uint32_t i = 0; i < SENT; i++) {
        uint32_t *block = load_acq(drive_heap_taken, &handed[i]);
        if (block == NULL) continue;
        end_block(block, 100 + i);
        store_rlx(&handed[i], NULL);
        explore_observe(0);
    }
}
/* Makes a slab's worth of blocks and more, so that slabs fill, empty and come back. */
static void use_some(void) {
    uint32_t *blocks[6];
    for (uint32_t i = 0; i < 6; i++) blocks[i] = make_block(200 + i);
    for (uint32_t i = 0; i < 6; i++) end_block(blocks[i], 200 + i);
}
static void hand_over_and_use(void) {
    hand_over();
    use_some();
}
static void take_over_and_use(void) {
    use_some();
    take_over();
}
static void trims(void) {
    heap_trim();
    explore_observe(1);
}
/* A trim gives back pages of slabs of which blocks are in use, others' among them. A page is as large as a block. */
static void setup_small_pages(void) {
    setup();
    explore_page_bytes = SIZE;
}
static void hand_over_and_trim(void) {
    uint32_t *gone = make_block(400), *stays = make_block(401);
    hand_over();
    end_block(gone, 400);
    heap_trim();
    unpoison(gone, SIZE);
    if (first_word(gone) == 0) explore_observe(2);
    use_some();
    heap_trim();
    end_block(stays, 401);
}
/* Runs of slots and mappings: kept by the thread that frees them, then by the process. */
static void *make_large(size_t size) {
    uint32_t *block = heap_alloc(size);
    EXPECT(block != NULL);
    plain_write(block, sizeof *block);
    return block;
}
static void hand_over_large(void) {
    static const size_t sizes[SENT] = {MEDIUM_MAX + 1, SEGMENT_BYTES, MEDIUM_MAX + 1};
    for (uint32_t i = 0; i < SENT; i++) {
        uint32_t *mine = make_large(sizes[i]);
        *mine = 100 + i;
        store_rel(drive_heap_given, &handed[i], mine);
    }
}
static void use_large(void) {
    take_over();
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t *block = make_large(i == 1 ? SEGMENT_BYTES : MEDIUM_MAX + 1);
        *block = 300;
        end_block(block, 300);
    }
    take_over();
}
static void drops_lrus(void) {
    for (int i = 0; i < 2; i++) heap_drop_lrus();
}

/* Slots of the process's own: the heaps', their quarantines', the table of mappings'. */
static uint64_t slots_of_own(void) {
    uint64_t own_slots = (uint64_t)load_rlx(&heaps.count) * HEAP_SLOTS;
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        own_slots += heap->quarantine != NULL;
    for (const struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older)) own_slots++;
    return own_slots;
}
static bool is_zero(const char *bytes, size_t count) {
    unpoison(bytes, count);
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}
/* What was not taken over is ended here; then only those slots are in use, and the others are clean. */
static void check(void) {
    for (uint32_t i = 0; i < SENT; i++)
        if (load_rlx(&handed[i]) != NULL) end_block(load_rlx(&handed[i]), 100 + i);
    heap_trim();
    heap_trim();
    uint64_t used = 0, spare = 0, segments = 0;
    for (struct heap_segment *s = depot_all(); s != NULL; s = load_rlx(&s->older)) {
        uint64_t free = load_rlx(&s->free);
        EXPECT(free & LISTED);
        used += SEGMENT_SLOTS - HEAD_SLOTS - (uint64_t)__builtin_popcountll(free & ~LISTED);
        spare += (uint64_t)__builtin_popcountll(free & load_rlx(&s->dirty) & ~LISTED);
        EXPECT((load_rlx(&s->part) & ~load_rlx(&s->dirty)) == 0);
        segments++;
        for (uint64_t bits = free & ~LISTED; bits != 0; bits &= bits - 1)
            EXPECT(is_zero(slot_start(s, (unsigned)__builtin_ctzll(bits)), SLOT_BYTES));
    }
    EXPECT(used == slots_of_own());
    EXPECT(depot_taken_bytes() == used * SLOT_BYTES && depot_spare_bytes() == spare * SLOT_BYTES);
    EXPECT(load_rlx(&depot.segments) == segments && load_rlx(&depot.hollows) == 0);
}

EXPLORE_DRIVER(heap_threads, .about = "a thread ends, others free its blocks", .setup = setup,
               .threads = {hand_over, take_over_and_use}, .check = check, .must_see = 1);
EXPLORE_DRIVER(heap_threads_three, .about = "one ends, one frees, one needs memory", .setup = setup,
               .threads = {hand_over, take_over, use_some}, .check = check, .must_see = 1);
EXPLORE_DRIVER(heap_trim, .about = "memory is given back meanwhile", .setup = setup,
               .threads = {hand_over_and_use, take_over, trims}, .check = check, .must_see = 3);
static void check_small_pages(void) {
    explore_page_bytes = SLOT_BYTES;
    check();
}
EXPLORE_DRIVER(heap_trim_part, .about = "a thread gives back pages of its slabs while others free their blocks",
               .setup = setup_small_pages, .threads = {hand_over_and_trim, take_over, use_some}, .check = check_small_pages,
               .must_see = 5);
EXPLORE_DRIVER(heap_lru, .about = "a thread's empty slabs are taken", .setup = setup,
               .threads = {use_some, drops_lrus, use_some}, .check = check);

EXPLORE_DRIVER(heap_large, .about = "large blocks are freed by another thread, memory is given back meanwhile",
               .setup = setup, .threads = {hand_over_large, use_large, trims}, .check = check, .must_see = 3);

/* A run that shrinks frees its end, which others take or purge; then it grows there, or moves. */
static void resizes(void) {
    enum { MOST = 12 * SLOT_BYTES, FEW = MOST / 2 - SLOT_BYTES };
    uint32_t *block = make_large(MOST);
    for (uint32_t i = 0; i < 3; i++) {
        *block = 300 + i;
        uint32_t *less = weft_realloc(block, FEW);
        EXPECT(less == block && weft_usable_size(less) == FEW && *less == 300 + i);
        plain_write(less, FEW);
        block = weft_realloc(less, MOST);
        explore_observe(block == less ? 2 : 0);
        EXPECT(block != NULL && *block == 300 + i);
        plain_write(block, MOST);
    }
    end_block(block, 302);
}
EXPLORE_DRIVER(heap_resize, .about = "a run frees its end and grows again while others take slots", .setup = setup,
               .threads = {resizes, use_some, trims}, .check = check, .must_see = 7);

/* What a full cache leaves with its thread (heap_overflow.c): handed out once each, home when the thread ends. It frees not
 * only: each overflow is kept but the first, and the last round's is left behind. */
enum { KEPT = CACHE_BLOCKS(SIZE) / 2 * 3, MUCH = CACHE_BLOCKS(SIZE) + KEPT };

static uint64_t times_taken_back(void) { return load_rlx(&heap_mine()->bins[class_of(SIZE)].count[COUNT_FROM_OVERFLOW]); }
static void use_much(void) {
    uint32_t *blocks[MUCH];
    for (uint32_t i = 0; i < MUCH; i++) blocks[i] = make_block(200 + i);
    for (uint32_t i = 0; i < MUCH; i++) {
        end_block(blocks[i], 200 + i);
        end_block(make_block(100), 100);
    }
}
static void overflows(void) {
    for (uint32_t i = 0; i < 3; i++) use_much();
    if (times_taken_back() >= 3) explore_observe(0);
    if (heap_mine()->overflow != NULL) explore_observe(2);
}
/* Where it lies other things lay before, or nothing. */
static void setup_dirty(void) {
    setup();
    if (explore_pick(2) == 0) return;
    struct slots got = depot_take_run(SEGMENT_SLOTS / 2, 1);
    depot_soil(got);
    memset(slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits)), 0xff, SEGMENT_SLOTS / 2 * SLOT_BYTES);
    depot_put(got.segment, got.bits);
}
EXPLORE_DRIVER(heap_overflow, .about = "a thread keeps what its cache has no room for, and ends", .setup = setup_dirty,
               .threads = {overflows, use_some, trims}, .check = check, .must_see = 7);

/* Others' blocks go home, and are not kept. */
static os_word given, freed;
static const struct heap *keeper; /* the test's own */

static void setup_keeper(void) {
    setup();
    store_rlx(&given, 0);
    store_rlx(&freed, 0);
}
static bool is_cached(const struct heap *heap, const void *block) {
    unsigned kind = class_of(SIZE);
    for (uint32_t i = 1; i <= cache_count(heap, kind); i++)
        if (heap->base[kind][i] == block) return true;
    return false;
}
static void tell(os_word *word) {
    add_rel(drive_heap_told, word, 1);
    os_wake(word, 1);
}
static void hear(os_word *word) {
    while (load_acq(drive_heap_seen, word) == 0) os_wait(word, 0, 0);
}
static void hand_over_and_look(void) {
    uint32_t *mine[SENT];
    hand_over();
    for (uint32_t i = 0; i < SENT; i++) mine[i] = load_rlx(&handed[i]);
    tell(&given);
    hear(&freed);
    heap_collect(heap_mine());
    for (uint32_t i = 0; i < SENT; i++) {
        bool is_home = slab_is_free(slab_of(mine[i]), index_in(class_of(SIZE), mine[i]));
        EXPECT(is_home != is_cached(keeper, mine[i]));
        explore_observe(is_home);
    }
}
static void keep_own(void) {
    uint32_t *blocks[CACHE_BLOCKS(SIZE) + 1];
    for (uint32_t i = 0; i < 2; i++) use_much();
    for (uint32_t i = 0; i < CACHE_BLOCKS(SIZE) + 1; i++) blocks[i] = make_block(200 + i);
    hear(&given);
    take_over();
    for (uint32_t i = 0; i < CACHE_BLOCKS(SIZE) + 1; i++) {
        end_block(blocks[i], 200 + i);
        end_block(make_block(100), 100);
    }
    keeper = heap_mine();
    tell(&freed);
}
EXPLORE_DRIVER(heap_overflow_others, .about = "a thread that keeps its own blocks frees another's", .setup = setup_keeper,
               .threads = {hand_over_and_look, keep_own}, .check = check, .must_see = 2);

/* A heap that has followed to a configuration has what it says. */
enum { CAPACITY = 5 };
static void sets_capacity(void) {
    const weft_heap_config config = {.struct_size = sizeof config, .pool_capacity = CAPACITY};
    EXPECT(weft_heap_configure(&config) == WEFT_OK);
}
static void follows(void) {
    use_some();
    const struct heap *heap = heap_mine();
    bool has_followed = heap->config_seen == 1;
    EXPECT(!has_followed || heap->bins[class_of(SIZE)].capacity == CAPACITY);
    explore_observe(has_followed);
}
EXPLORE_DRIVER(heap_configured, .about = "a heap follows to a configuration as a whole", .setup = setup,
               .threads = {follows, sets_capacity}, .check = check, .must_see = 3);

/* Two configure at once; whichever was the last to store, a heap has that in the end. */
static ATOMIC(uint32_t) configured;
static void setup_configured_twice(void) {
    setup();
    store_rlx(&configured, 0);
}
static void set_capacity_to(int32_t capacity) {
    const weft_heap_config config = {.struct_size = sizeof config, .pool_capacity = capacity};
    while (weft_heap_configure(&config) == WEFT_EBUSY) os_yield(); /* the other is about it */
    add_rel(drive_heap_set, &configured, 1);
}
static void sets_one(void) { set_capacity_to(CAPACITY); }
static void sets_another(void) { set_capacity_to(CAPACITY + 1); }
static void follows_to_the_last(void) {
    use_some();
    while (load_acq(drive_heap_both, &configured) < 2) {
        explore_observe(heap_mine()->config_seen == 1);
        os_pause();
        use_some();
    }
    use_some();
    EXPECT(heap_mine()->bins[class_of(SIZE)].capacity == (uint32_t)load_rlx(&heaps.pool_capacity));
}
EXPLORE_DRIVER(heap_configured_twice, .about = "a heap follows to the last of two configurations",
               .setup = setup_configured_twice, .threads = {follows_to_the_last, sets_one, sets_another}, .check = check,
               .must_see = 3);

/* Two threads at a time need two heaps, however often the idle ones are looked after. */
static void setup_two_heaps(void) {
    setup();
    for (int i = 0; i < 2; i++) tagged_push(&heaps.bare, heap_make(), offsetof(struct heap, idle_link));
}
static void trims_twice(void) {
    heap_trim();
    heap_trim();
}
static void begins(void) { end_block(make_block(100), 100); }
static void check_two_heaps(void) { EXPECT(load_rlx(&heaps.count) == 2); }
EXPLORE_DRIVER(heap_two, .about = "a thread begins while ended threads' heaps are looked after", .setup = setup_two_heaps,
               .threads = {trims_twice, begins}, .check = check_two_heaps);

/* A private heap, whose owner goes on while another thread frees its blocks. */
static void setup_private(void) {
    setup();
    EXPECT(weft_arena_create(&own) == WEFT_OK);
}
static uint32_t *make_own(size_t size, uint32_t color) {
    uint32_t *block = weft_arena_alloc(own, size);
    EXPECT(block != NULL);
    plain_write(block, sizeof *block);
    *block = color;
    return block;
}
static void hand_over_own(void) {
    for (uint32_t i = 0; i < SENT; i++)
        store_rel(drive_heap_given, &handed[i], make_own(i == 1 ? MEDIUM_MAX + 1 : SIZE, 100 + i));
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t *block = make_own(SIZE, 200 + i);
        if (i % 2 == 0) EXPECT(weft_arena_free(own, block) == WEFT_OK);
    }
    make_own(MEDIUM_MAX + 1, 300);
}
static void check_private(void) {
    take_over();
    EXPECT(weft_arena_destroy(&own) == WEFT_OK);
    check();
}
EXPLORE_DRIVER(heap_private, .about = "a private heap's blocks are freed by another thread", .setup = setup_private,
               .threads = {hand_over_own, take_over}, .check = check_private, .must_see = 1);

/* Private heaps come and go while all LRUs are emptied. */
static void use_private(void) {
    for (int round = 0; round < 2; round++) {
        weft_arena *heap;
        uint32_t *blocks[6];
        EXPECT(weft_arena_create(&heap) == WEFT_OK);
        for (uint32_t i = 0; i < 6; i++) EXPECT((blocks[i] = weft_arena_alloc(heap, SIZE)) != NULL);
        for (uint32_t i = 0; i < 5; i++) EXPECT(weft_arena_free(heap, blocks[i]) == WEFT_OK);
        EXPECT(weft_arena_destroy(&heap) == WEFT_OK);
    }
}
EXPLORE_DRIVER(heap_private_lru, .about = "private heaps end while LRUs are taken", .setup = setup,
               .threads = {use_private, drops_lrus, use_private}, .check = check);

/* Checked mode: threads make the marks of one segment together, and free each other's blocks. */
static void setup_checked(void) {
    setup();
    store_rlx(&heap_mode.checks, true);
}
EXPLORE_DRIVER(heap_checked, .about = "checked blocks are freed by another thread", .setup = setup_checked,
               .threads = {hand_over, take_over_and_use}, .check = check, .must_see = 1);

/* It begins where a thread holds blocks and keeps some, which are handed out again, and whose old ones another frees; or it
 * does not, since that one was first. */
static bool is_second;
static void setup_begin(void) {
    setup_keeper();
    is_second = explore_pick(2) == 0;
}
static void begin_checks(void) {
    const weft_heap_config config = {.struct_size = sizeof config, .checks = 1};
    for (uint32_t i = 0; i < 2; i++) use_much();
    uint32_t *old = make_block(200), *old_too = make_block(100);
    if (!is_second) hear(&given);
    EXPECT(weft_heap_configure(&config) == (is_second ? WEFT_OK : WEFT_EBUSY));
    EXPECT((heap_mine()->overflow == NULL) == is_second);
    tell(&freed);
    store_rel(drive_heap_given, &handed[0], old_too);
    store_rel(drive_heap_given, &handed[1], make_block(101));
    end_block(old, 200);
    use_some();
}
static void use_beside(void) {
    if (!is_second) use_some();
    tell(&given);
    hear(&freed);
    take_over();
}
EXPLORE_DRIVER(heap_checked_begin, .about = "checked mode begins, or another thread was first", .setup = setup_begin,
               .threads = {begin_checks, use_beside}, .check = check, .must_see = 1);

/* A mapping is freed while the record of one that stood before it comes to name a longer one elsewhere. */
static void hand_over_mapping(void) {
    uint32_t *first = heap_alloc(SEGMENT_BYTES), *second = heap_alloc(SEGMENT_BYTES);
    EXPECT(first != NULL && second > first);
    store_rel(drive_heap_given, &handed[0], second);
    heap_free(first);
    first = heap_alloc(3 * SEGMENT_BYTES);
    EXPECT(first != NULL);
    heap_free(first);
}
static void free_mapping(void) {
    uint32_t *block = load_acq(drive_heap_taken, &handed[0]);
    if (block == NULL) return;
    heap_free(block);
    explore_observe(0);
}
EXPLORE_DRIVER(heap_checked_mapping, .about = "a checked mapping is freed while others come and go", .setup = setup_checked,
               .threads = {hand_over_mapping, free_mapping}, .must_see = 1);

/* Two free one block. */
static void setup_mark(void) {
    memset(&mark, 0, sizeof mark);
    store_rlx(&mark, 1);
    ended = 0;
}
static void end_mark(void) {
    uint64_t found = 1;
    if (check_mark_end(&mark, &found)) ended++;
}
static void check_mark(void) { EXPECT(ended == 1); }
EXPLORE_DRIVER(heap_mark, .about = "two free one block, one may", .setup = setup_mark, .threads = {end_mark, end_mark},
               .check = check_mark);

/* The purge thread gives back what another thread freed, however the two fall together, and is stopped. */
static bool slots_wait(void) {
    for (const struct heap_segment *s = depot_all(); s != NULL; s = load_rlx(&s->older))
        if ((load_rlx(&s->free) & load_rlx(&s->dirty) & ~LISTED) != 0) return true;
    return false;
}
static os_word nobodys;
static void give_slots(void) {
    EXPECT(purge_set(true, NULL) == WEFT_OK);
    for (int i = 0; i < 2; i++) {
        struct slots got = depot_take(1);
        depot_soil(got);
        depot_put(got.segment, got.bits);
        purge_poke();
        while (slots_wait()) os_wait(&nobodys, 0, os_now_ns() + heap_decay_period_ns());
    }
    EXPECT(purge_set(false, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(heap_purge, .about = "the purge thread misses nothing that is freed", .setup = setup, .threads = {give_slots},
               .check = check);
/* It sleeps, is woken and is stopped at the same moment. */
static bool was_asleep; /* the test's own */
static void setup_asleep(void) {
    setup();
    was_asleep = false;
    EXPECT(purge_set(true, NULL) == WEFT_OK);
}
static void await_asleep(void) {
    while (!was_asleep && load_rlx(&purge_word) != purge_word_of(PURGE_ASLEEP))
        os_wait(&nobodys, 0, os_now_ns() + heap_decay_period_ns());
    was_asleep = true;
}
static void wake_it(void) {
    await_asleep();
    purge_poke();
}
static void stop_it(void) {
    await_asleep();
    EXPECT(purge_set(false, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(heap_purge_stop, .about = "the purge thread is woken while it is stopped", .setup = setup_asleep,
               .threads = {wake_it, stop_it}, .check = check);
/* Nothing stays behind when threads that used the heap end, whoever frees last. */
static bool memory_waits(void) {
    for (struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        if (load_rlx(&heap->lru) != NULL) return true;
    return slots_wait() || kept_bytes() != 0;
}
static os_word left;
static void setup_purged(void) {
    setup();
    store_rlx(&left, 0);
    EXPECT(purge_set(true, NULL) == WEFT_OK);
}
static void hand_over_and_leave(void) {
    hand_over_large();
    use_some();
    add_rel(drive_heap_told, &left, 1);
    os_wake(&left, 1);
}
static void free_and_wait(void) {
    while (load_acq(drive_heap_seen, &left) == 0) os_wait(&left, 0, 0);
    take_over();
    while (memory_waits()) os_wait(&nobodys, 0, os_now_ns() + heap_decay_period_ns());
    EXPECT(purge_set(false, NULL) == WEFT_OK);
}
EXPLORE_DRIVER(heap_purge_end, .about = "the purge thread misses nothing of a thread that ends", .setup = setup_purged,
               .threads = {hand_over_and_leave, free_and_wait}, .check = check);
/* A thread that goes on with little gives back what it used before, and the overflow when it takes from it no more. */
static void sleep_for_a_turn(void) { os_wait(&nobodys, 0, os_now_ns() + heap_decay_period_ns()); }
static bool overflow_waits(void) { return heap_mine()->overflow != NULL; }
static bool anything_waits(void) { return overflow_waits() || memory_waits(); }
static void go_on_with_little(bool (*waits)(void)) {
    for (uint32_t i = 0; i < 3; i++) {
        use_much();
        sleep_for_a_turn();
    }
    if (times_taken_back() > 2) explore_observe(0);
    if (explore_pick(2) == 0) end_block(make_large(SEGMENT_BYTES), 0);
    for (uint64_t end_ns = os_now_ns() + 32 * heap_decay_period_ns(); waits(); sleep_for_a_turn()) {
        EXPECT(os_now_ns() < end_ns);
        heap_free(heap_alloc(BLOCK_MIN));
    }
}
static void go_on_alone(void) { go_on_with_little(anything_waits); }
EXPLORE_DRIVER(heap_watch, .about = "a thread that goes on with little gives memory back", .setup = setup_dirty,
               .threads = {go_on_alone}, .check = check, .must_see = 1);

/* Its own rests count, not the turns that another takes meanwhile, and may be long about. */
static void go_on_beside(void) { go_on_with_little(overflow_waits); }
static void take_turns(void) {
    for (uint32_t i = 0; i < 8; i++) {
        heap_decay(heap_get());
        sleep_for_a_turn();
    }
}
EXPLORE_DRIVER(heap_watch_turns, .about = "the same while another thread takes the turns of decay", .setup = setup,
               .threads = {go_on_beside, take_turns}, .check = check);

/* What another empties goes back by a thread that goes on with little, also if it empties during a turn. */
static bool is_putting; /* the test's own */
static void setup_left(void) {
    setup();
    is_putting = false;
    store_rlx(&left, 0);
}
/* Each thread sees what the other stored before its last turn: no machine hides a store for that long. */
static uint32_t see_and_show(uint32_t n) {
    add_rel(drive_heap_told, &left, n);
    return add_acq(drive_heap_seen, &left, 0);
}
static void empty_slots(void) {
    for (uint32_t i = 0; i < 3; i++) {
        struct slots got = depot_take(1);
        is_putting = true;
        see_and_show(0);
        depot_soil(got);
        depot_put(got.segment, got.bits);
        purge_poke();
        see_and_show(1);
        is_putting = false;
        sleep_for_a_turn();
    }
}
static bool left_waits(void) { return see_and_show(0) < 3 || slots_wait(); }
static void go_on_after_it(void) {
    uint32_t beside = 0;
    for (uint64_t end_ns = os_now_ns() + 64 * heap_decay_period_ns(); left_waits(); sleep_for_a_turn()) {
        EXPECT(os_now_ns() < end_ns);
        beside = is_putting ? beside + 1 : 0;
        if (beside < 2) heap_free(heap_alloc(BLOCK_MIN));
    }
}
EXPLORE_DRIVER(heap_watch_left, .about = "a thread gives back what another empties", .setup = setup_left,
               .threads = {go_on_after_it, empty_slots}, .check = check);

static void start_or_stop(void) {
    for (int i = 0; i < 2; i++) {
        int error = purge_set(explore_pick(2) == 0, NULL);
        EXPECT(error == WEFT_OK || error == WEFT_EBUSY);
    }
}
static void check_stopped(void) { EXPECT(purge_set(false, NULL) == WEFT_OK); }
EXPLORE_DRIVER(heap_purge_life, .about = "two start and stop the purge thread", .setup = setup,
               .threads = {start_or_stop, start_or_stop}, .check = check_stopped);

/* Two make a block with a mapping of its own, while a third looks at the table of them. */
static uint32_t mappings_seen(void) {
    uint32_t seen = 0;
    for (const struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (uint32_t i = 0; i < CHUNK_WORDS * 64; i++) seen += load_rlx(&chunk->records[i].block) != NULL;
    return seen;
}
static void make_mapping(void) {
    bool zeroed;
    EXPECT(large_alloc(SEGMENT_BYTES, BLOCK_MIN, &zeroed) != NULL);
}
static void look_at_mappings(void) { explore_observe(mappings_seen()); }
static void check_mappings(void) { EXPECT(mappings_seen() == 2); }
EXPLORE_DRIVER(heap_mappings, .about = "two add a mapping each to the table", .setup = setup,
               .threads = {make_mapping, make_mapping, look_at_mappings}, .check = check_mappings, .must_see = 7);

/* A record of the table changes hands: the next mapping in its place stays there. */
static void change_mapping(void) {
    for (int i = 0; i < 2; i++) {
        void *block = large_alloc(SEGMENT_BYTES, BLOCK_MIN, NULL);
        EXPECT(block != NULL);
        if (i == 0) large_free(block, KIND_DIRECT);
    }
}
EXPLORE_DRIVER(heap_records, .about = "two use one record of the table of mappings in turn", .setup = setup,
               .threads = {change_mapping, change_mapping}, .check = check_mappings);

/* Two give their records back at once: both are free. */
static void *mapped[2];
static void setup_mapped(void) {
    setup();
    for (int i = 0; i < 2; i++) EXPECT((mapped[i] = large_alloc(SEGMENT_BYTES, BLOCK_MIN, NULL)) != NULL);
}
static void free_first(void) { large_free(mapped[0], KIND_DIRECT); }
static void free_second(void) { large_free(mapped[1], KIND_DIRECT); }
static void check_no_mappings(void) {
    for (const struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (uint32_t i = 0; i < CHUNK_WORDS; i++) EXPECT(load_rlx(&chunk->used[i]) == 0);
}
EXPLORE_DRIVER(heap_records_two, .about = "two records of the table of mappings go back at once", .setup = setup_mapped,
               .threads = {free_first, free_second}, .check = check_no_mappings);

/* Sums while blocks go from thread to thread: none falls below zero. */
enum { COUNTED_MAX = 1 << 20 };
static void look_at_counts(void) {
    weft_heap_counts one = {.struct_size = sizeof one};
    size_t size = 0;
    EXPECT(weft_heap_class_stats(class_of(SIZE), &size, &one) == WEFT_OK && size == SIZE);
    EXPECT(one.alloc_count <= COUNTED_MAX && one.free_count <= COUNTED_MAX && one.hit_count <= COUNTED_MAX &&
           one.live_bytes <= COUNTED_MAX);
    explore_observe(one.free_count != 0);
}
EXPLORE_DRIVER(heap_counts, .about = "blocks are counted while they change threads", .setup = setup,
               .threads = {hand_over, take_over, look_at_counts}, .check = check, .must_see = 3);

/* A heap whose thread has ended goes back while its counts are summed: they may be missed, and never count twice. */
static ATOMIC(uint64_t) misses;
static void use_and_end(void) {
    EXPECT(heap_alloc(SIZE) != NULL);
    store_rel(drive_heap_used, &misses, load_rlx(&heap_mine()->bins[class_of(SIZE)].count[COUNT_MISSES]));
}
static void setup_misses(void) {
    setup();
    store_rlx(&misses, 0);
}
static void trim_often(void) {
    for (int i = 0; i < 3; i++) heap_trim();
}
static void sum_misses(void) {
    weft_heap_counts one = {.struct_size = sizeof one};
    size_t size = 0;
    uint64_t most;
    while ((most = load_acq(drive_heap_sums, &misses)) == 0) os_pause();
    EXPECT(weft_heap_class_stats(class_of(SIZE), &size, &one) == WEFT_OK);
    EXPECT(one.miss_count <= most);
    explore_observe(load_rlx(&heaps.past[class_of(SIZE)][COUNT_MISSES]) != 0);
}
EXPLORE_DRIVER(heap_past, .about = "counts are summed while an ended thread's heap goes back", .setup = setup_misses,
               .threads = {use_and_end, trim_often, sum_misses}, .must_see = 2);

/* Two ended threads' heaps go back at once: the counts of both are kept. */
static void setup_counted(void) {
    setup();
    for (int i = 0; i < 2; i++) {
        struct heap *heap = heap_make();
        store_rlx(&heap->bins[class_of(SIZE)].count[COUNT_MISSES], 1);
        tagged_push(&heaps.idle, heap, offsetof(struct heap, idle_link));
    }
}
static void strip_one(void) { EXPECT(heap_strip_one()); }
static void check_counted(void) { EXPECT(load_rlx(&heaps.past[class_of(SIZE)][COUNT_MISSES]) == 2); }
EXPLORE_DRIVER(heap_past_two, .about = "two ended threads' heaps go back at once", .setup = setup_counted,
               .threads = {strip_one, strip_one}, .check = check_counted);

/* Two come when a turn of decay is due: one takes it, so that what was freed since the last one stays until the next. */
static struct slots dirtied;
static void setup_due(void) {
    setup_two_heaps();
    dirtied = depot_take(1);
    depot_soil(dirtied);
    depot_put(dirtied.segment, dirtied.bits);
    store_rlx(&heaps.next_decay_ns, 1);
}
static void take_turn(void) { heap_decay(heap_get()); }
static void check_one_turn(void) {
    EXPECT((load_rlx(&dirtied.segment->old) & dirtied.bits) == dirtied.bits);
    EXPECT((load_rlx(&dirtied.segment->dirty) & dirtied.bits) == dirtied.bits);
}
EXPLORE_DRIVER(heap_turn, .about = "two come when a turn of decay is due", .setup = setup_due,
               .threads = {take_turn, take_turn}, .check = check_one_turn);
