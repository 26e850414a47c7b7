/* drive_heap_threads.c: whole heaps: threads that allocate, free each other's blocks, end, and give memory back. In the end
 * every slot is free again but those of the heaps themselves. */
#include "explore.h"
#include "heap.h"

#include <string.h>

/* Four blocks to a slab, one slab in an LRU, four blocks in a cache. */
enum { SIZE = 1024, SENT = 3 };

static ATOMIC(uint32_t *) handed[SENT];

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
        store_rel(Y1, &handed[i], mine);
    }
}
static void take_over(void) {
    for (uint32_t i = 0; i < SENT; i++) {
        uint32_t *block = load_acq(Y2, &handed[i]);
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
static void drops_lrus(void) {
    for (int i = 0; i < 2; i++) heap_drop_lrus();
}

/* What was not taken over is ended here; then only the heaps' own slots are in use. */
static void check(void) {
    for (uint32_t i = 0; i < SENT; i++)
        if (load_rlx(&handed[i]) != NULL) end_block(load_rlx(&handed[i]), 100 + i);
    heap_trim();
    heap_trim();
    uint64_t used = 0;
    for (const struct segment *s = depot_all(); s != NULL; s = load_rlx(&s->older)) {
        EXPECT(load_rlx(&s->free) & LISTED);
        used += SEGMENT_SLOTS - (uint64_t)__builtin_popcountll(s->head_bits) -
                (uint64_t)__builtin_popcountll(load_rlx(&s->free) & ~LISTED);
    }
    EXPECT(used == load_rlx(&heaps.count) * HEAP_SLOTS);
}

EXPLORE_DRIVER(heap_threads, .about = "a thread ends, others free its blocks", .setup = setup,
               .threads = {hand_over, take_over_and_use}, .check = check, .must_see = 1);
EXPLORE_DRIVER(heap_threads_three, .about = "one ends, one frees, one needs memory", .setup = setup,
               .threads = {hand_over, take_over, use_some}, .check = check, .must_see = 1);
EXPLORE_DRIVER(heap_trim, .about = "memory is given back meanwhile", .setup = setup,
               .threads = {hand_over_and_use, take_over, trims}, .check = check, .must_see = 3);
EXPLORE_DRIVER(heap_lru, .about = "a thread's empty slabs are taken", .setup = setup,
               .threads = {use_some, drops_lrus, use_some}, .check = check);

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
