/* drive_kept.c: ranges that the system does not unmap, for want of mappings: they serve again, and are unmapped later. */
#include "explore.h"
#include "heap/heap.h"

/* The ranges lie apart. */
enum { RANGES = 2 };
static char *ranges[RANGES];
static uint64_t bytes_before;

static void setup(void) {
    bytes_before = explore_bytes_left();
    for (int i = 0; i < RANGES; i++) {
        ranges[i] = os_map_aligned(SEGMENT_BYTES, SEGMENT_BYTES);
        plain_write(ranges[i], sizeof(uint32_t));
        *(uint32_t *)(void *)ranges[i] = 5;
    }
}

static void strands(int which) {
    explore_unmaps(false);
    plain_write(ranges[which], sizeof(uint32_t));
    *(uint32_t *)(void *)ranges[which] = 6; /* its user's last write */
    kept_unmap(ranges[which], SEGMENT_BYTES);
}
static void strands_first(void) { strands(0); }
static void strands_second(void) { strands(1); }

/* Has zeros, whoever had the range before. */
static void takes(void) {
    for (int i = 0; i < 2; i++) {
        char *start = kept_take_clean(SEGMENT_BYTES);
        if (start == NULL) continue;
        explore_observe(0);
        plain_write(start, sizeof(uint32_t));
        EXPECT(*(uint32_t *)(void *)start == 0);
        *(uint32_t *)(void *)start = 7;
        explore_unmaps(explore_pick(2) == 0);
        kept_unmap(start, SEGMENT_BYTES);
    }
}
static void gives(void) {
    kept_purge(false);
    if (explore_bytes_left() < bytes_before + RANGES * SEGMENT_BYTES) explore_observe(1);
}

/* None was lost: all can be found, and be unmapped. */
static void check(void) {
    for (int i = 0; i < 2; i++) kept_purge(true);
    EXPECT(kept_bytes() == 0 && kept_held() == 0);
    EXPECT(explore_bytes_left() == bytes_before);
}
EXPLORE_DRIVER(heap_kept_strays, .about = "ranges that are not unmapped are taken, and unmapped later", .setup = setup,
               .threads = {strands_first, strands_second, takes, gives}, .check = check, .must_see = 3);
