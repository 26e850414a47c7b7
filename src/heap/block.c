/* block.c: see block.h.
 *
 * Whether an address is the heap's is answered without touching it (heads.h). Only to report an address inside a mapping are
 * the records of all mappings searched.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   M2  mark_in: load marks  acquire  M1  see M1 (heap_check.c)
 */
#include "heap/block.h"

#include <stdlib.h>

NOINLINE void fault_tell(struct fault fault, const struct block *block, uint64_t mark) {
    char memory[320];
    struct text text = {memory, sizeof memory, 0, TEXT_TO_MEMORY, false};
    text_format(&text, "weft heap: %s of %#lx: ", fault.call, (uintptr_t)fault.p);
    if (block->start != NULL) {
        bool is_marked = mark_state(mark) != MARK_NONE;
        text_format(&text, "the block of %s%lu bytes at %#lx ", is_marked ? "" : "at most ",
                    is_marked ? mark_size(mark) : block->usable, (uintptr_t)block->start);
    }
    text_put(&text, fault.what);
    if (fault.offset != SIZE_ANY) text_put_number(&text, fault.offset);
    text_put(&text, "\n");
    text_end(&text);
    os_write(2, memory, min_u64(text.length, sizeof memory - 1));
    abort();
}

/* ---- whose address it is ------------------------------------------------------------------------------------------ */

/* A segment's head or a mapping's. NULL: no head stands where p's would. */
static struct heap_segment *head_known(const void *p) {
    struct heap_segment *head = head_of(p);
    return heads_has(head) ? head : NULL;
}

static bool is_mapping(const struct heap_segment *head) { return slot_kind(head, 0) == KIND_DIRECT; }

struct heap_segment *segment_known(const void *p) {
    struct heap_segment *head = head_known(p);
    return head == NULL || is_mapping(head) ? NULL : head;
}

block_mark *mark_in(struct heap_segment *segment, unsigned slot, unsigned index) {
    struct marks *marks = load_acq(M2, &segment->marks);
    return marks == NULL ? NULL : &marks->of[slot][index];
}

/* The first slot of the run that may contain the slot, which begins nothing itself; or the slot itself. */
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

/* The record of the mapping whose block covers p, for a report. Searches all records, which other threads change
 * meanwhile. */
static struct mapping *record_around(const void *p) {
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (size_t i = 0; i < CHUNK_WORDS * 64; i++) {
            struct mapping *record = &chunk->records[i];
            const char *start = (load_rlx(&chunk->used[i / 64]) >> i % 64 & 1) != 0 ? load_rlx(&record->block) : NULL;
            if (start != NULL && (uintptr_t)p - (uintptr_t)start < load_rlx(&record->bytes)) return record;
        }
    return NULL;
}

/* If the block of a mapping is not the caller's, it may go meanwhile. */
static struct block block_mapped(const struct heap_segment *head, const void *p) {
    struct mapping *record = head == NULL ? NULL : head->mapping;
    bool begins = record != NULL && load_rlx(&record->block) == p;
    if (!begins && (record = record_around(p)) == NULL) return (struct block){NULL, 0, NULL, KIND_OTHER, false};
    bool is_private = begins && kind_of(p) == KIND_PRIVATE;
    return (struct block){load_rlx(&record->block), load_rlx(&record->bytes), &record->mark, KIND_DIRECT, is_private};
}

struct block block_at(const void *p) {
    struct heap_segment *head = head_known(p);
    return head != NULL && !is_mapping(head) ? block_in(head, p) : block_mapped(head, p);
}
