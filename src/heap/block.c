/* block.c: see block.h.
 *
 * Whether an address is the heap's is answered without touching it: from a small table of segments found before, else
 * from the list of them, else from the records of mappings.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   M2  mark_in: load marks  acquire  M1  see M1 (heap_check.c)
 */
#include "heap/block.h"

#include <stdlib.h>

#define KNOWN 256u

NOINLINE void fault_tell(struct fault fault, const struct block *block, uint64_t mark) {
    char memory[320];
    struct text text = {memory, sizeof memory, 0, TEXT_TO_MEMORY, false};
    text_put(&text, "weft heap: ");
    text_put(&text, fault.call);
    text_put(&text, " of ");
    text_put_hex(&text, (uintptr_t)fault.p);
    text_put(&text, ": ");
    if (block->start != NULL) {
        bool is_marked = mark_state(mark) != MARK_NONE;
        text_put(&text, is_marked ? "the block of " : "the block of at most ");
        text_put_number(&text, is_marked ? mark_size(mark) : block->usable);
        text_put(&text, " bytes at ");
        text_put_hex(&text, (uintptr_t)block->start);
        text_put(&text, " ");
    }
    text_put(&text, fault.what);
    if (fault.offset != SIZE_ANY) text_put_number(&text, fault.offset);
    text_put(&text, "\n");
    text_end(&text);
    os_write(2, memory, min_u64(text.length, sizeof memory - 1));
    abort();
}

/* ---- whose address it is ------------------------------------------------------------------------------------------ */

typedef ATOMIC(struct heap_segment *) segment_place;
static PROCESS_STATE segment_place known[KNOWN];

struct heap_segment *segment_known(const void *p) {
    struct heap_segment *wanted = segment_of(p);
    segment_place *place = &known[((uintptr_t)p >> SEGMENT_SHIFT) % KNOWN];
    if (load_rlx(place) == wanted) return wanted;
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older)) {
        if (segment != wanted) continue;
        store_rlx(place, wanted);
        return wanted;
    }
    return NULL;
}

block_mark *mark_in(struct heap_segment *segment, unsigned slot, unsigned index) {
    struct marks *marks = load_acq(M2, &segment->marks);
    return marks == NULL ? NULL : &marks->of[slot][index];
}

/* The run that the slot, which is none's first, may be inside of; or the slot itself. */
static unsigned run_around(const struct heap_segment *segment, unsigned slot) {
    for (unsigned first = slot; first-- > 0;) {
        unsigned kind = slab_kind_of(&segment->slabs[first], slot_kind(segment, first));
        if (kind == KIND_OTHER) continue;
        bool is_inside = kind >= CLASSES && kind <= KIND_RUN && first + load_rlx(&segment->slabs[first].run_slots) > slot;
        return is_inside ? first : slot;
    }
    return slot;
}

static struct block block_in(struct heap_segment *segment, const void *p) {
    struct block block = {NULL, 0, NULL, KIND_OTHER, false};
    unsigned slot = slot_of(p);
    if (slot < HEAD_SLOTS) return block;
    if (slot_kind(segment, slot) == KIND_OTHER) slot = run_around(segment, slot);
    block.is_private = slot_kind(segment, slot) == KIND_PRIVATE;
    block.kind = slab_kind_of(&segment->slabs[slot], slot_kind(segment, slot));
    if (block.kind > KIND_RUN) return block;
    size_t margin = slab_margin(block.kind, p);
    unsigned index = block.kind < CLASSES ? index_in(block.kind, (const char *)p - margin) : 0;
    if (slot_offset(p) < margin || index >= class_info[block.kind].blocks) return block;
    block.start = slot_start(segment, slot) + margin + (size_t)index * class_info[block.kind].size;
    block.usable = block.kind < CLASSES ? class_info[block.kind].size : large_size(block.start, block.kind);
    block.mark = mark_in(segment, slot, index);
    return block;
}

/* The record of the mapping whose block begins less than `within` bytes before p, and covers it. Others' records change
 * meanwhile: only one that begins at p, which is the caller's, is sure to be what it says. NULL: none. */
static struct mapping *record_of(const void *p, size_t within) {
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (size_t i = 0; i < CHUNK_WORDS * 64; i++) {
            if (i % 64 == 0 && load_rlx(&chunk->used[i / 64]) == 0) {
                i += 63;
                continue;
            }
            struct mapping *record = &chunk->records[i];
            const char *start = load_rlx(&record->block);
            size_t bytes = load_rlx(&record->bytes), offset = (uintptr_t)p - (uintptr_t)start;
            if (start != NULL && offset < bytes && offset < within) return record;
        }
    return NULL;
}

static struct block block_mapped(const void *p) {
    struct mapping *record = record_of(p, 1), *around = record == NULL ? record_of(p, SIZE_MAX) : record;
    if (around == NULL) return (struct block){NULL, 0, NULL, KIND_OTHER, false};
    bool is_private = record != NULL && kind_of(p) == KIND_PRIVATE;
    return (struct block){load_rlx(&around->block), load_rlx(&around->bytes), &around->mark, KIND_DIRECT, is_private};
}

struct block block_at(const void *p) {
    struct heap_segment *segment = segment_known(p);
    return segment != NULL ? block_in(segment, p) : block_mapped(p);
}
