/* heap_check.c: checked mode and secure mode. Layer 2.
 *
 * Every thread's caches are closed, so that each call takes the slow path and ends here; the fast paths do not know of
 * checked mode. Each block has a mark outside its slab; a segment's marks are made when its first block is checked. A mark
 * says how many bytes were asked for, and
 *
 *   NONE   never handed out                   OLD    handed out before checked mode began; its bytes are not looked at
 *   LIVE   handed out, canary behind it       FREED  freed, and not handed out again
 *
 * LIVE and OLD become FREED by CAS, so that if two threads free a block, one of the frees is reported. At least CANARY bytes
 * of a pattern follow the bytes asked for; they are checked when the block is freed or resized. A freed block is filled and
 * waits in its thread's quarantine, a ring bounded in blocks and bytes; when it leaves, the fill is checked. Blocks of
 * private heaps do not wait, because they would outlive their heap there. A fault is reported by one write to standard
 * error, and the process aborts.
 *
 * Secure mode does the same, except for these:
 *
 *   places      slab_carve_any and depot.c choose them at random; guards stand around what depot.c gives
 *   canary      its bytes are a secret of the process, and it has at least SECRET_CANARY bytes
 *   bounds      the last bytes of each block of a slab, and those before its first block, hold a canary from the time that a
 *               block beside them is first handed out, also while the block that they are in is free: they then guard its
 *               neighbour. So a free checks both ends of its block. The slab's owner writes a bound before the first of the
 *               two blocks beside it is handed out; from then on every thread only reads it
 *   quarantine  has fewer blocks and bytes; the block that leaves is chosen at random. A block over MEDIUM_MAX that waits
 *               there is itself guarded, so it takes no memory, and any use of it is stopped. Of those with a mapping, all
 *               threads together have only some waiting (heap.h), and none where address space has a limit; the others
 *               are unmapped at once
 *   marks       of a slot become NONE when a slab begins there, because its bounds are new, too
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   M1  marks_make: CAS marks     release  M2  marks are looked at before their memory is made; split: one thread's marks
 *                                              are lost
 *   M3  mark_change: CAS mark     relaxed  -   split: a block that two threads free at once is freed twice
 */
#include <string.h>

#include "heap/block.h"

#define CANARY ((size_t)16)
#define SECRET_CANARY sizeof(uint64_t)
#define CANARY_MAX ((size_t)256) /* bytes of it that are written and checked */
#define CANARY_WORD UINT64_C(0xC5C5C5C5C5C5C5C5)
#define FILL_WORD UINT64_C(0xDBDBDBDBDBDBDBDB)              /* no valid address */
#define QUARANTINE_BLOCKS (SLOT_BYTES / sizeof(void *) / 2) /* a power of two */
#define QUARANTINE_BYTES (SLOT_BYTES * 64)
#define SECURE_BLOCKS (QUARANTINE_BLOCKS / 4)
#define WAITS_MAX (QUARANTINE_BYTES / 4) /* a larger block does not wait */
#define SECURE_BYTES WAITS_MAX
#define WORDS_AT_ONCE 8u
#define GUARDED_BYTES SLOT_BYTES /* what a guarded block counts for in the quarantine */

struct quarantine {
    uint32_t first, count, mappings; /* of the blocks, so many have a mapping, in secure mode */
    size_t bytes;
    void *blocks[QUARANTINE_BLOCKS];
};
_Static_assert(sizeof(struct quarantine) <= SLOT_BYTES, "a quarantine is a slot");

/* The block at p, which must be live; *mark is its mark. Reports a fault otherwise. */
static struct block live_at(const void *p, const char *call, uint64_t *mark) {
    struct block block = block_at(p);
    *mark = block.mark == NULL ? 0 : load_rlx(block.mark);
    unsigned state = mark_state(*mark);
    if (block.start == NULL)
        fault_tell((struct fault){call, p, "no block of this heap has that address", SIZE_ANY}, &block, 0);
    if (state == MARK_NONE)
        fault_tell((struct fault){call, p, "no block was handed out there", SIZE_ANY}, &(struct block){0}, 0);
    if (block.start != p)
        fault_tell(
            (struct fault){call, p, "begins before it: it is inside, at offset ", (size_t)((const char *)p - block.start)},
            &block, *mark);
    if (state == MARK_FREED) fault_tell((struct fault){call, p, "was freed already", SIZE_ANY}, &block, *mark);
    return block;
}

/* ---- marks -------------------------------------------------------------------------------------------------------- */

/* false: no memory. */
static bool marks_make(struct heap_segment *segment) {
    struct marks *none = NULL, *marks = load_rlx(&segment->marks);
    if (marks != NULL) return true;
    marks = os_map(sizeof *marks);
    if (marks == NULL) return false;
    if (!cas_rel(M1, &segment->marks, &none, marks)) os_unmap(marks, sizeof *marks);
    return true;
}

void check_forget(const struct slab *slab) {
    if (!mode_checks()) return;
    unsigned blocks = class_info[slab->kind].blocks;
    if (slab->kind == KIND_DIRECT) return; /* its mark is in its record, which goes with it */
    for (unsigned i = 0; i < blocks; i++) {
        block_mark *mark = mark_in(segment_of(slab), slab_slot(slab), i);
        if (mark != NULL && load_rlx(mark) != 0) store_rlx(mark, load_rlx(mark) | MARK_FREED);
    }
}

void check_renew(const struct slab *slab) {
    for (unsigned i = 0; i < class_info[slab->kind].blocks; i++) {
        block_mark *mark = mark_in(segment_of(slab), slab_slot(slab), i);
        if (mark != NULL && load_rlx(mark) != 0) store_rlx(mark, 0);
    }
}

/* ---- patterns ----------------------------------------------------------------------------------------------------- */

/* The bytes of the word in the order in which they lie at that address, if the pattern repeats from multiples of 8
 * (little-endian). */
static uint64_t word_from(uint64_t word, const char *at) {
    unsigned by = 8 * ((uintptr_t)at & 7);
    return by == 0 ? word : word >> by | word << (64 - by);
}
static char word_byte(uint64_t word, size_t i) { return (char)(word >> 8 * (i & 7)); }

/* Whether all of WORDS_AT_ONCE words are `word`. It has no branch for each, so that the compiler compares several at a
 * time. */
static bool are_all(const char *bytes, uint64_t word) {
    uint64_t differ = 0, found[WORDS_AT_ONCE];
    memcpy(found, bytes, sizeof found);
    for (size_t i = 0; i < WORDS_AT_ONCE; i++) differ |= found[i] ^ word;
    return differ == 0;
}

/* The index of the first byte that differs from the pattern at its address; `count`: none. */
static size_t first_other(const char *bytes, size_t count, uint64_t word) {
    uint64_t turned = word_from(word, bytes), found;
    size_t i = 0;
    while (i + WORDS_AT_ONCE * sizeof word <= count && are_all(bytes + i, turned)) i += WORDS_AT_ONCE * sizeof word;
    for (; i + sizeof found <= count; i += sizeof found) {
        memcpy(&found, bytes + i, sizeof found);
        if (found != turned) break;
    }
    while (i < count && bytes[i] == word_byte(turned, i)) i++;
    return i;
}

static void write_words(char *bytes, size_t count, uint64_t word) {
    uint64_t turned = word_from(word, bytes);
    size_t i = 0;
    for (; i + sizeof turned <= count; i += sizeof turned) memcpy(bytes + i, &turned, sizeof turned);
    for (; i < count; i++) bytes[i] = word_byte(turned, i);
}

static size_t canary_least(void) { return mode_is_secure() ? SECRET_CANARY : CANARY; }
static uint64_t canary_word(void) { return mode_is_secure() ? heap_mode.canary : CANARY_WORD; }

/* Whether the block's slab has bounds. AddressSanitizer reports writes beside a block itself, and would not let bounds be
 * read. */
static bool has_bounds(const struct block *block) {
#if defined(WEFT_POISONS)
    return block == NULL;
#else
    return mode_is_secure() && block->kind < CLASSES && is_guarded(segment_of(block->start), slot_of(block->start));
#endif
}

static size_t canary_size(const struct block *block, size_t size) {
    return (size_t)min_u64(block->usable - size, CANARY_MAX);
}

/* Whether a guard follows the block. */
static bool is_walled(const struct block *block) {
    if (!mode_is_secure() || block->kind < CLASSES) return false;
    return block->kind == KIND_DIRECT || is_guarded(segment_of(block->start), slot_of(block->start));
}

/* The last canary of the block: where the excess of a large block ends, and another block may begin. If a guard is there, the
 * block has none, so it needs no page for it. */
static char *canary_last(const struct block *block) { return block->start + block->usable - canary_least(); }

static void canary_write(const struct block *block, size_t size) {
    bool is_bounded = has_bounds(block);
    size_t inside = block->usable - (is_bounded ? SECRET_CANARY : 0) - size;
    write_words(block->start + size, (size_t)min_u64(inside, CANARY_MAX), canary_word());
    if (!is_bounded && !is_walled(block)) write_words(canary_last(block), canary_least(), canary_word());
}

static void canary_check(const struct block *block, const char *call, uint64_t mark) {
    if (mark_state(mark) != MARK_LIVE) return;
    size_t size = mark_size(mark), bytes = canary_size(block, size), least = canary_least(),
           at = first_other(block->start + size, bytes, canary_word());
    if (at == bytes) {
        at = is_walled(block) ? least : first_other(canary_last(block), least, canary_word());
        if (at == least) return;
        at += block->usable - least - size;
    }
    const char *what = "was written past its end, by itself or from before the next one: first at offset ";
    fault_tell((struct fault){call, block->start, what, size + at}, block, mark);
}

/* Checks the bytes before a segment's first slot, which its head does not use. */
static void front_check(const struct block *block, uint64_t mark) {
    if (block->kind > KIND_RUN || slot_of(block->start) != HEAD_SLOTS || slot_offset(block->start) != 0) return;
    if (sizeof(struct heap_segment) + CANARY > HEAD_SLOTS * SLOT_BYTES) return;
    if (first_other(block->start - CANARY, CANARY, 0) == CANARY) return;
    fault_tell((struct fault){"free", block->start, "was written before its start", SIZE_ANY}, block, mark);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------- */

/* Whether the block `on` places further is in the slab and was handed out before. */
static bool is_known(const struct block *block, unsigned index, int on) {
    unsigned other = index + (unsigned)on; /* before the first: more than any index */
    return other < class_info[block->kind].blocks && mark_state(load_rlx(block->mark + on)) != MARK_NONE;
}

static unsigned index_of(const struct block *block) {
    return index_in(block->kind, block->start - slab_margin(block->kind, block->start));
}

/* Blocks begin at multiples of BLOCK_MIN, so the canary lies there without rotation. */
static bool is_whole(const char *bound) {
    uint64_t found;
    memcpy(&found, bound, sizeof found);
    return found == heap_mode.canary;
}

/* Writes or checks a bound of a block that is about to be handed out. */
static void bound_begin(const struct block *block, char *bound, bool is_made) {
    if (!is_made) { /* a page that is read before it is written costs two faults */
        write_words(bound, SECRET_CANARY, canary_word());
        return;
    }
    if (is_whole(bound)) return;
    const char *what = "was written while it was free, from beside it";
    fault_tell((struct fault){"alloc", block->start, what, SIZE_ANY}, block, load_rlx(block->mark));
}

/* Whether the block has a bound before it. A slab's first block has none if its margin has no room for it; between that
 * block and the guard the heap keeps nothing. */
static bool has_front(const struct block *block) {
    return index_of(block) != 0 || slab_margin(block->kind, block->start) >= SECRET_CANARY;
}

static void bounds_begin(const struct block *block) {
    unsigned index = index_of(block);
    bool was_out = is_known(block, index, 0);
    if (has_front(block)) bound_begin(block, block->start - SECRET_CANARY, was_out || is_known(block, index, -1));
    bound_begin(block, canary_last(block), was_out || is_known(block, index, 1));
}

/* Checks the bound before a block that is freed; canary_check checks the one behind it. */
static void bounds_check(const struct block *block, uint64_t mark) {
    if (!has_front(block) || is_whole(block->start - SECRET_CANARY)) return;
    const char *what = "was written before its start, by itself or from past the end of the one before it";
    fault_tell((struct fault){"free", block->start, what, SIZE_ANY}, block, mark);
}

/* ---- what waits --------------------------------------------------------------------------------------------------- */

/* Whether the block has a mapping that must leave address space to others when it is freed. */
static bool has_mapping(const struct block *block) { return mode_is_secure() && block->kind == KIND_DIRECT; }

/* Whether the block is guarded if it waits. */
static bool is_wall(const struct block *block) { return mode_is_secure() && block->kind >= CLASSES && !block->is_private; }

/* false: the system refuses. */
static bool wall_make(const struct block *block) {
    if (block->kind == KIND_DIRECT) return os_bar(block->start, block->usable);
    return os_guard(block->start, block->usable);
}

/* Returns whether the block can be freed. A mapping is unmapped as it is, and a run is opened together with the guards beside
 * it, if it has any. */
static bool wall_end(const struct block *block) {
    if (is_walled(block)) return true;
    return os_unguard(block->start, block->usable);
}

/* In checked mode, a large block's pages that nobody touched stay untouched. A secure block may have been larger before. */
static size_t fill_size(const struct block *block, uint64_t mark) {
    size_t least = block->usable - (has_bounds(block) ? SECRET_CANARY : 0);
    if (block->kind >= CLASSES && !mode_is_secure()) least = (size_t)min_u64(least, mark_size(mark) + CANARY_MAX);
    return (size_t)min_u64(least, WAITS_MAX);
}

static void fill(const struct block *block, uint64_t mark) {
    if (!is_wall(block) && !has_mapping(block)) write_words(block->start, fill_size(block, mark), FILL_WORD);
}

static void fill_check(const struct block *block) {
    size_t bytes = fill_size(block, load_rlx(block->mark)), at = first_other(block->start, bytes, FILL_WORD);
    if (at == bytes) return;
    const char *what = "was written after it was freed: first at offset ";
    fault_tell((struct fault){"quarantine", block->start, what, at}, block, load_rlx(block->mark));
}

/* ---- allocating --------------------------------------------------------------------------------------------------- */

static void *take(struct heap *heap, size_t bytes, size_t alignment) {
    unsigned kind = class_aligned(alignment, bytes);
    if (kind < CLASSES) return heap_take_one(heap, kind);
    if (load_rlx(&heap->privacy) != PRIVACY_NONE) return private_large(heap, bytes);
    return large_alloc(bytes, alignment, NULL);
}

static void *mark_begin(void *p, size_t size) {
    struct heap_segment *segment = segment_known(p);
    if (segment != NULL && !marks_make(segment)) return NULL;
    struct block block = block_at(p);
    ASSERT(block.start == p && mark_state(load_rlx(block.mark)) != MARK_LIVE);
    unpoison(p, block.usable);
    if (has_bounds(&block)) bounds_begin(&block);
    canary_write(&block, size);
    poison(p, block.usable);
    unpoison(p, size);
    store_rlx(block.mark, (uint64_t)size << MARK_BITS | MARK_LIVE);
    return p;
}

static void put(struct heap *heap, const struct block *block) {
    void *p = block->start;
    if (block->is_private)
        private_free(p);
    else if (block->kind >= CLASSES)
        large_free(p, block->kind);
    else if (heap != NULL)
        heap_put_one(heap, p, block->kind);
    else
        slab_send(slab_of(p), &p, 1);
}

/* How many bytes a request counts for: in secure mode at least one, as with the C library. */
static size_t asked(size_t size) { return size == 0 && mode_is_secure() ? 1 : size; }

static void *alloc_in(struct heap *heap, size_t wanted, size_t alignment) {
    size_t size = asked(wanted);
    if (size > PTRDIFF_MAX - CANARY) return NULL;
    size_t bytes = size + canary_least();
    void *p = take(heap, bytes, alignment);
    if (p == NULL && heap->quarantine != NULL) {
        check_flush(heap);
        p = take(heap, bytes, alignment);
    }
    if (p == NULL || mark_begin(p, size) != NULL) return p;
    struct block block = block_at(p);
    put(heap, &block);
    return NULL;
}

void *check_alloc(size_t size, size_t alignment) {
    bool is_lent;
    struct heap *heap = heap_borrow(&is_lent);
    void *p = heap == NULL ? NULL : alloc_in(heap, size, alignment);
    heap_return(is_lent);
    return p;
}

void *check_alloc_in(struct heap *heap, size_t size) { return alloc_in(heap, size, BLOCK_MIN); }

/* ---- freeing ------------------------------------------------------------------------------------------------------ */

static struct quarantine *quarantine_of(struct heap *heap) {
    if (heap->quarantine != NULL) return heap->quarantine;
    struct slots got = depot_take(1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    struct quarantine *made = (struct quarantine *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    made->first = made->count = made->mappings = 0;
    made->bytes = 0;
    return heap->quarantine = made;
}

static size_t waiting_bytes(const struct block *block) { return is_wall(block) ? GUARDED_BYTES : block->usable; }

/* For secure mode: a number below `count`, which is not 0. */
static uint32_t draw(struct heap *heap, const struct quarantine *quarantine) {
    return mode_random_below(&heap->drawn, quarantine->count);
}

static void **waiting_at(struct quarantine *quarantine, uint32_t i) {
    return &quarantine->blocks[(quarantine->first + i) % QUARANTINE_BLOCKS];
}

/* Takes the block at that place out of the quarantine and frees it; the oldest one takes its place. */
static void release(struct heap *heap, struct quarantine *quarantine, void **place) {
    struct block block = block_at(*place);
    *place = *waiting_at(quarantine, 0);
    quarantine->first++;
    quarantine->count--;
    quarantine->bytes -= waiting_bytes(&block);
    if (has_mapping(&block)) {
        quarantine->mappings--;
        large_wait_end(block.usable);
    }
    unpoison(block.start, block.usable);
    if (!is_wall(&block))
        fill_check(&block);
    else if (!wall_end(&block))
        return; /* it stays guarded for good */
    poison(block.start, block.usable);
    put(heap, &block);
}

static void release_one(struct heap *heap, struct quarantine *quarantine) {
    release(heap, quarantine, waiting_at(quarantine, mode_is_secure() ? draw(heap, quarantine) : 0));
}

/* Frees one that has a mapping. false: there is none. */
static bool release_mapping(struct heap *heap, struct quarantine *quarantine) {
    if (quarantine->mappings == 0) return false;
    uint32_t i = draw(heap, quarantine);
    while (kind_of(*waiting_at(quarantine, i)) != KIND_DIRECT) i = (i + 1) % quarantine->count;
    release(heap, quarantine, waiting_at(quarantine, i));
    return true;
}

void check_flush(struct heap *heap) {
    struct quarantine *quarantine = heap->quarantine;
    while (quarantine != NULL && quarantine->count > 0) release_one(heap, quarantine);
}

/* Whether a block with a mapping waits; if so, it is counted. Those of this thread that waited longer make room for it. */
static bool mapping_begins(struct heap *heap, struct quarantine *quarantine, size_t bytes) {
    if (bytes > LARGE_WAITING_BYTES || os_space_is_limited()) return false;
    while (!large_wait_begin(bytes))
        if (!release_mapping(heap, quarantine)) return false;
    return true;
}

static void detain(struct heap *heap, const struct block *block) {
    struct quarantine *quarantine = heap == NULL || block->is_private ? NULL : quarantine_of(heap);
    bool is_secure = mode_is_secure(), is_counted = has_mapping(block);
    uint32_t most = is_secure ? SECURE_BLOCKS : QUARANTINE_BLOCKS;
    size_t bytes = waiting_bytes(block), bytes_most = is_secure ? SECURE_BYTES : QUARANTINE_BYTES;
    if (quarantine == NULL || bytes > WAITS_MAX || (is_counted && !mapping_begins(heap, quarantine, block->usable))) {
        put(heap, block);
        return;
    }
    if (is_wall(block) && !wall_make(block)) {
        if (is_counted) large_wait_end(block->usable);
        if (wall_end(block)) put(heap, block);
        return;
    }
    while (quarantine->count == most || quarantine->bytes + bytes > bytes_most) release_one(heap, quarantine);
    *waiting_at(quarantine, quarantine->count++) = block->start;
    quarantine->bytes += bytes;
    if (is_counted) quarantine->mappings++;
}

static bool mark_change(block_mark *mark, uint64_t *found, uint64_t to) {
    uint64_t seen = *found;
    bool is_mine = cas_rlx(M3, mark, &seen, to);
    *found = seen;
    return is_mine;
}

bool check_mark_end(block_mark *mark, uint64_t *found) { return mark_change(mark, found, *found | MARK_FREED); }

/* If several calls free the block at p, one of them returns; in the others the process ends. */
static struct block mark_end(void *p, size_t size) {
    uint64_t mark;
    struct block block = live_at(p, "free", &mark);
    if (size != SIZE_ANY && mark_state(mark) == MARK_LIVE && mark_size(mark) != asked(size))
        fault_tell((struct fault){"free", p, "was freed with another size: ", size}, &block, mark);
    while (!check_mark_end(block.mark, &mark)) block = live_at(p, "free", &mark);
    unpoison(block.start, block.usable);
    canary_check(&block, "free", mark);
    front_check(&block, mark);
    if (has_bounds(&block)) bounds_check(&block, mark);
    fill(&block, mark);
    poison(block.start, block.usable);
    return block;
}

void check_free(void *p, size_t size) {
    bool is_lent;
    struct block block = mark_end(p, size);
    detain(heap_borrow(&is_lent), &block);
    heap_return(is_lent);
}

bool check_free_in(struct heap *heap, void *p) {
    uint64_t mark;
    struct block block = live_at(p, "free", &mark);
    if (!block.is_private || slab_owner(slab_of(p)) != heap) return false;
    mark_end(p, SIZE_ANY);
    if (block.kind < CLASSES)
        heap_put_one(heap, p, block.kind);
    else
        private_large_end(heap, slab_of(p));
    return true;
}

size_t check_usable(const void *p) {
    uint64_t mark;
    struct block block = live_at(p, "use", &mark);
    unpoison(block.start, block.usable);
    if (mark_state(mark) == MARK_OLD) return block.usable;
    canary_check(&block, "use", mark);
    poison(block.start, block.usable);
    unpoison(block.start, mark_size(mark));
    return mark_size(mark);
}

bool check_resize(void *p, size_t wanted) {
    uint64_t mark;
    struct block block = live_at(p, "realloc", &mark);
    size_t size = asked(wanted), bytes = size + SECRET_CANARY;
    if (!mode_is_secure() || mark_state(mark) != MARK_LIVE || bytes > block.usable || bytes <= block.usable / 2)
        return false;
    unpoison(block.start, block.usable);
    canary_check(&block, "realloc", mark);
    if (!mark_change(block.mark, &mark, (uint64_t)size << MARK_BITS | MARK_LIVE)) live_at(p, "realloc", &mark);
    canary_write(&block, size);
    poison(block.start, block.usable);
    unpoison(block.start, size);
    return true;
}

/* ---- beginning ---------------------------------------------------------------------------------------------------- */

static void mark_old(struct heap_segment *segment, unsigned slot, unsigned index) {
    unsigned kind = slot_kind(segment, slot);
    char *first = slot_start(segment, slot) + slab_margin(kind, slot_start(segment, slot));
    struct block block = block_at(first + (size_t)index * class_info[kind].size);
    store_rlx(block.mark, (uint64_t)block.usable << MARK_BITS | MARK_OLD);
}

/* Gives marks to the blocks handed out before. No other thread uses the heap. */
static bool segment_begin(struct heap_segment *segment) {
    for (unsigned slot = 0; slot < SEGMENT_SLOTS; slot++) {
        unsigned kind = slot_kind(segment, slot);
        if (kind > KIND_RUN) continue;
        if (!marks_make(segment)) return false;
        const struct slab *slab = &segment->slabs[slot];
        for (unsigned i = 0; i < class_info[kind].blocks; i++)
            if (kind >= CLASSES || !slab_is_free(slab, i)) mark_old(segment, slot, i);
    }
    return true;
}

static void mappings_begin(void) {
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (size_t i = 0; i < CHUNK_WORDS * 64; i++) {
            struct mapping *record = &chunk->records[i];
            if (load_rlx(&record->block) != NULL)
                store_rlx(&record->mark, (uint64_t)load_rlx(&record->bytes) << MARK_BITS | MARK_OLD);
        }
}

/* Whether no other thread ever had a heap and no private heap is alive. Destroyed private heaps have no blocks. */
static bool is_only_heap(const struct heap *mine) {
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        if (heap != mine && load_rlx(&heap->privacy) != PRIVACY_ENDED) return false;
    return true;
}

static int mode_change(bool secure) {
    struct heap *heap = heap_get();
    if (mode_checks()) return mode_is_secure() == secure ? WEFT_OK : WEFT_EBUSY;
    if (heap == NULL) return WEFT_ENOMEM;
    if (!is_only_heap(heap) || load_rlx(&heaps.sampler) != NULL) return WEFT_EBUSY;
    heap_tidy(heap);
    heap_lru_drop(heap);
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        if (!segment_begin(segment)) return WEFT_ENOMEM;
    mappings_begin();
    if (secure) mode_secret();
    mode_begin(secure);
    os_self_get()->heap_mask = 0;
    heap_begin(heap);
    return WEFT_OK;
}

int check_begin(void) { return mode_change(false); }
int check_begin_secure(void) { return mode_change(true); }
