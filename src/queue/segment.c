/* segment.c: the pages for a pool's tasks. Free segments are in a pile, and the one freed last is taken first. So below a
 * segment without pages, none has any. */
#include "queue/segment.h"

#define CHUNK_CELL_BYTES ((size_t)SEGMENT_CHUNK * SEGMENT_CELLS * CELL_BYTES)
/* A chunk's cells, and behind them its `done` bytes. */
#define CHUNK_BYTES (CHUNK_CELL_BYTES + (size_t)SEGMENT_CHUNK * SEGMENT_CELLS)

static bool segments_make(const struct pile *segments, void *items, uint32_t count) {
    struct segment *segment = items;
    struct cell *cells = os_map(CHUNK_BYTES);
    if (cells == NULL) return false;
    store_lock(segments->store, cells, CHUNK_BYTES);
    done_count *done = (done_count *)&cells[(size_t)SEGMENT_CHUNK * SEGMENT_CELLS];
    for (uint32_t i = 0; i < count; i++) {
        segment[i].cells = &cells[(size_t)i * SEGMENT_CELLS];
        segment[i].done = &done[(size_t)i * SEGMENT_CELLS];
        segment[i].purged = true;
    }
    return true;
}

bool segments_init(struct pile *segments, struct store *store) {
    return pile_init(segments, &(struct pile){.store = store,
                                              .item_bytes = sizeof(struct segment),
                                              .chunk_shift = SEGMENT_CHUNK_SHIFT,
                                              .items_max = SEGMENTS_MAX,
                                              .make = segments_make});
}

void segments_end(struct pile *segments) {
    uint32_t made = load_rlx(&segments->made);
    for (uint32_t index = 0; index < made; index += SEGMENT_CHUNK) os_unmap(segment_at(segments, index)->cells, CHUNK_BYTES);
    store_rlx(&segments->made, 0);
}

uint64_t segments_bytes(const struct pile *segments) {
    return (uint64_t)load_rlx(&segments->made) * SEGMENT_CELLS * CELL_BYTES;
}

struct segment *segment_get(struct pile *segments) {
    struct segment *segment = pile_get(segments);
    if (segment != NULL) segment->purged = false;
    return segment;
}

/* Merges two lists of segments, linked by older_next and sorted by index. */
static uint32_t list_merge(const struct pile *segments, uint32_t a, uint32_t b) {
    uint32_t first = PILE_NONE;
    uint32_t *link = &first;
    while (a != PILE_NONE && b != PILE_NONE) {
        uint32_t *least = a < b ? &a : &b;
        struct segment *segment = segment_at(segments, *least);
        *link = *least;
        *least = segment->older_next;
        link = &segment->older_next;
    }
    *link = a != PILE_NONE ? a : b;
    return first;
}

/* Takes the free segments that have pages, and perhaps one without. Returns a list sorted by index. */
static uint32_t segments_take_used(struct pile *segments) {
    uint32_t sorted[PILE_INDEX_BITS + 1]; /* [i]: a list of 2^i segments, or none */
    for (uint32_t i = 0; i <= PILE_INDEX_BITS; i++) sorted[i] = PILE_NONE;
    struct segment *segment;
    while ((segment = pile_pop(segments)) != NULL) {
        uint32_t list = segment->item.index;
        uint32_t i = 0;
        segment->older_next = PILE_NONE;
        for (; sorted[i] != PILE_NONE; i++) {
            list = list_merge(segments, sorted[i], list);
            sorted[i] = PILE_NONE;
        }
        sorted[i] = list;
        if (segment->purged) break; /* no segment below it on the stack was used since the last purge */
    }
    uint32_t all = PILE_NONE;
    for (uint32_t i = 0; i <= PILE_INDEX_BITS; i++) all = list_merge(segments, sorted[i], all);
    return all;
}

/* Purges neighbours in one call: a call for each would cost more than everything else a pool does before it is idle. */
static void list_purge(const struct pile *segments, uint32_t list) {
    struct cell *begin = NULL;
    struct cell *end = NULL;
    while (list != PILE_NONE) {
        struct segment *segment = segment_at(segments, list);
        if (segment->cells != end) {
            if (begin != NULL) os_purge(begin, (size_t)(end - begin) * CELL_BYTES);
            begin = segment->cells;
        }
        end = segment->cells + SEGMENT_CELLS;
        segment->purged = true;
        list = segment->older_next;
    }
    if (begin != NULL) os_purge(begin, (size_t)(end - begin) * CELL_BYTES);
}

void segments_purge(struct pile *segments) {
    uint32_t list = segments_take_used(segments);
    list_purge(segments, list);
    while (list != PILE_NONE) {
        struct segment *segment = segment_at(segments, list);
        list = segment->older_next;
        pile_put(segments, segment);
    }
}
