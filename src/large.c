/* large.c: blocks that no slab serves. Layer 2.
 *
 * Up to half a segment a block is a run of slots; above that, or aligned to more than a segment's slots can give, it is a
 * mapping of its own. Such a mapping starts with a page that holds the first fields of a segment's head, at a multiple of
 * SEGMENT_BYTES, so that a free finds it like any other; where the block itself is at a multiple of SEGMENT_BYTES, at the
 * one before. Where there is no address space for it, it is a run of most of a segment, if that is enough. Either grows where it
 * stands if what is behind it is free; a mapping may be moved, a run is copied.
 *
 * A mapping whose block was freed is kept for a while (kept.c): KEPT_BYTES of them, or a quarter of those that hold blocks.
 *
 * All mappings stand in a table of records for weft_heap_walk: chunks of them, one bit each.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   E1  chunk_make: CAS chunks     release  E2  a chunk is looked at before it is made
 *   E2  mapping_chunks: load       acquire  E1  see E1
 *   E3  record_drop: used - bit    release  E4  what its next user writes into a record is overwritten by its last one's
 *   E4  record_in: CAS used        acquire  E3  see E3; split: two mappings have one record
 */
#include <string.h>

#include "heap.h"
#include "kept.h"

#define RUN_MAX (SEGMENT_BYTES / 2)
#define RUN_MOST ((SEGMENT_SLOTS - HEAD_SLOTS) * SLOT_BYTES)
#ifndef KEPT_BYTES
#define KEPT_BYTES ((size_t)64 << 20)
#endif
#define PAGE SLOT_BYTES /* of a head: a multiple of every page size, of which the system fills what is used */

/* ---- records of mappings ------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(struct chunk) <= SLOT_BYTES, "a chunk is a slot");

static PROCESS_STATE ATOMIC(struct chunk *) chunks;

static struct chunk *chunk_make(void) {
    struct slots got = depot_take(1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    struct chunk *chunk = (struct chunk *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    if (got.dirty != 0) memset(chunk, 0, sizeof *chunk);
    struct chunk *newest = load_rlx(&chunks);
    do {
        store_rlx(&chunk->older, newest);
    } while (!cas_rel(E1, &chunks, &newest, chunk));
    return chunk;
}

static struct mapping *record_in(struct chunk *chunk) {
    for (unsigned i = 0; i < CHUNK_WORDS; i++) {
        uint64_t used = load_rlx(&chunk->used[i]);
        while (used != UINT64_MAX) {
            unsigned free = (unsigned)__builtin_ctzll(~used);
            if (cas_acq(E4, &chunk->used[i], &used, used | UINT64_C(1) << free)) return &chunk->records[i * 64 + free];
        }
    }
    return NULL;
}

struct chunk *mapping_chunks(void) {
    return load_acq(E2, &chunks);
}

static struct mapping *record_take(void) {
    struct chunk *chunk = mapping_chunks();
    for (;;) {
        for (; chunk != NULL; chunk = load_rlx(&chunk->older)) {
            struct mapping *record = record_in(chunk);
            if (record != NULL) return record;
        }
        chunk = chunk_make();
        if (chunk == NULL) return NULL;
    }
}

static void record_drop(struct mapping *record) {
    struct chunk *chunk = (struct chunk *)((uintptr_t)record & ~(uintptr_t)(SLOT_BYTES - 1));
    size_t index = (size_t)(record - chunk->records);
    store_rlx(&record->block, NULL);
    add_rel(E3, &chunk->used[index / 64], -(UINT64_C(1) << index % 64));
}

/* ---- mappings ----------------------------------------------------------------------------------------------------- */

static PROCESS_STATE ATOMIC(size_t) mapped_bytes; /* of mappings that hold blocks */

static char *map_fresh(size_t bytes, size_t alignment) {
    char *start = os_map_aligned(bytes, alignment);
    return start != NULL || kept_purge(true) == 0 ? start : os_map_aligned(bytes, alignment);
}

/* Room for `size` bytes at a multiple of `alignment`, *offset after a head. *used, where not NULL: it was kept; where
 * NULL it may not be. NULL: no memory. */
static char *map_room(size_t size, size_t alignment, size_t *offset, size_t *map_bytes, bool *used) {
    size_t front = alignment > PAGE ? alignment : PAGE;
    *offset = (size_t)min_u64(front, SEGMENT_BYTES);
    *map_bytes = front + round_up(size, PAGE);
    char *start = used == NULL || front > SEGMENT_BYTES ? NULL : kept_take(*map_bytes, map_bytes);
    if (used != NULL) *used = start != NULL;
    if (start == NULL) start = map_fresh(*map_bytes, (size_t)max_u64(front, SEGMENT_BYTES));
    size_t unused = front - *offset;
    if (start == NULL || unused == 0) return start;
    os_unmap(start, unused);
    *map_bytes -= unused;
    return start + unused;
}

static void *map_block(size_t size, size_t alignment, bool *used) {
    if (alignment > PTRDIFF_MAX / 4 || size > PTRDIFF_MAX - alignment - SEGMENT_BYTES) return NULL;
    struct mapping *record = record_take();
    if (record == NULL) return NULL;
    size_t offset, bytes;
    char *start = map_room(size, alignment, &offset, &bytes, used);
    struct segment *head = (struct segment *)(void *)start;
    if (head == NULL) {
        record_drop(record);
        return NULL;
    }
    for (unsigned i = 0; i < SEGMENT_SLOTS; i++) store_rlx(&head->kinds[i], KIND_DIRECT);
    head->map_start = start;
    head->map_bytes = bytes;
    head->mapping = record;
    add_rlx(&mapped_bytes, bytes);
    store_rlx(&record->bytes, bytes - offset);
    store_rlx(&record->mark, 0);
    store_rlx(&record->block, start + offset);
    return start + offset;
}

/* keeps: the mapping may be kept. */
static void unmap_block(const void *p, bool keeps) {
    struct segment *head = head_of(p);
    char *start = head->map_start;
    size_t bytes = head->map_bytes, live = add_rlx(&mapped_bytes, -bytes) - bytes;
    record_drop(head->mapping);
    head->mapping = NULL; /* a second free crashes */
    unpoison(start, bytes);
    if (!keeps || !kept_put(start, bytes, (size_t)max_u64(KEPT_BYTES, live / 4))) os_unmap(start, bytes);
}

/* What was kept is zeros again, without bringing to memory what is not there. */
static void zero_block(char *p, size_t size) {
    if (os_resident(p, size) < size / 2)
        os_purge(p, round_up(size, PAGE));
    else
        memset(p, 0, size);
}

static void *move_block(void *p, size_t room, size_t size) {
    struct segment *head = head_of(p);
    char *other = map_block(size, BLOCK_MIN, NULL);
    if (other == NULL) return NULL;
    if (!os_move(p, room, other)) {
        unmap_block(other, false); /* the system may have unmapped some of it */
        return NULL;
    }
    record_drop(head->mapping);
    add_rlx(&mapped_bytes, -head->map_bytes);
    os_unmap(head, PAGE);
    return other;
}

/* A larger or smaller mapping with the same pages. NULL: no memory, or they cannot be moved. */
static void *remap_block(void *p, size_t size) {
    struct segment *head = head_of(p);
    size_t room = large_size(p, KIND_DIRECT), wanted = round_up(size, PAGE);
    if (wanted < room) {
        os_unmap((char *)p + wanted, room - wanted);
    } else if (wanted > room) {
        enum os_grow outcome = os_grow(p, room, wanted);
        if (outcome == OS_NO_ROOM && (char *)p == (char *)head + PAGE) return move_block(p, room, size);
        if (outcome != OS_GREW) return NULL;
    }
    head->map_bytes += wanted - room;
    add_rlx(&mapped_bytes, wanted - room);
    store_rlx(&head->mapping->bytes, wanted);
    return p;
}

/* ---- runs of slots ------------------------------------------------------------------------------------------------ */

static void *run_block(size_t size, size_t alignment, bool *zeroed) {
    unsigned count = (unsigned)((size + SLOT_BYTES - 1) >> SLOT_SHIFT);
    struct slots got = depot_take_run(count, alignment > SLOT_BYTES ? (unsigned)(alignment >> SLOT_SHIFT) : 1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    unsigned first = (unsigned)__builtin_ctzll(got.bits);
    store_rlx(&got.segment->slabs[first].run_slots, count);
    store_rlx(&got.segment->kinds[first], count <= RUNS ? (uint8_t)(CLASSES + count - 1) : KIND_RUN);
    if (zeroed != NULL) *zeroed = got.dirty == 0;
    return slot_start(got.segment, first);
}

/* With the slots behind it, if they are free. */
static bool run_grow(void *p, size_t size) {
    struct segment *segment = segment_of(p);
    unsigned first = slot_of(p), count = load_rlx(&segment->slabs[first].run_slots);
    unsigned wanted = (unsigned)((size + SLOT_BYTES - 1) >> SLOT_SHIFT);
    struct slots got;
    if (first + wanted > SEGMENT_SLOTS) return false;
    if (!depot_take_at(&got, segment, ((UINT64_C(1) << (wanted - count)) - 1) << (first + count))) return false;
    depot_soil(got);
    store_rlx(&segment->slabs[first].run_slots, wanted);
    return true;
}

static void run_free(const void *p) {
    struct segment *segment = segment_of(p);
    unsigned first = slot_of(p), count = load_rlx(&segment->slabs[first].run_slots);
    store_rlx(&segment->kinds[first], KIND_OTHER);
    depot_put(segment, ((UINT64_C(1) << count) - 1) << first);
    purge_poke();
}

/* ---- either ------------------------------------------------------------------------------------------------------- */

static void count_large(unsigned what, size_t n) {
    bool is_lent;
    struct heap *heap = heap_borrow(&is_lent);
    if (heap == NULL) return;
    store_rlx(&heap->large[what], load_rlx(&heap->large[what]) + n);
    heap_return(is_lent);
}

static void count_in(size_t bytes) {
    count_large(LARGE_ALLOCS, 1);
    count_large(LARGE_BYTES_IN, bytes);
}

static void count_out(size_t bytes) {
    count_large(LARGE_FREES, 1);
    count_large(LARGE_BYTES_OUT, bytes);
}

void *large_alloc(size_t size, size_t alignment, bool *zeroed) {
    bool is_run = size <= RUN_MAX && alignment <= RUN_MAX;
    bool used = false;
    void *p = is_run ? NULL : map_block(size, alignment, &used);
    if (p == NULL && size <= RUN_MOST && alignment <= RUN_MAX) {
        is_run = true;
        p = run_block(size, alignment, zeroed);
    }
    if (p == NULL) return NULL;
    if (!is_run && zeroed != NULL) {
        if (used) zero_block(p, size);
        *zeroed = true;
    }
    count_in(large_size(p, is_run ? KIND_RUN : KIND_DIRECT));
    if (used) count_large(LARGE_REUSED, 1);
    return p;
}

size_t large_size(const void *p, unsigned kind) {
    if (kind <= KIND_RUN) return load_rlx(&slab_of(p)->run_slots) * SLOT_BYTES;
    const struct segment *head = head_of(p);
    return (size_t)(head->map_start + head->map_bytes - (const char *)p);
}

void large_free(void *p, unsigned kind) {
    ASSERT(kind >= CLASSES && kind <= KIND_DIRECT);
    count_out(large_size(p, kind));
    if (kind <= KIND_RUN)
        run_free(p);
    else
        unmap_block(p, true);
}

void *large_resize(void *p, unsigned kind, size_t size) {
    size_t before = large_size(p, kind);
    if (kind <= KIND_RUN && size <= before) return size > before / 2 ? p : NULL;
    if (kind < KIND_RUN || (kind == KIND_RUN) != (size <= RUN_MAX)) return NULL;
    void *other = kind == KIND_DIRECT ? remap_block(p, size) : run_grow(p, size) ? p : NULL;
    if (other == NULL) return NULL;
    count_out(before);
    count_in(large_size(other, kind));
    return other;
}
