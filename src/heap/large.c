/* large.c: blocks that no slab serves. Layer 2.
 *
 * A block that fits into a segment's slots is a run of them. A block that does not, because it is too large or aligned to
 * too much, is a mapping of its own. Such a mapping starts with a page that holds the first fields of a segment's head, at a
 * multiple of SEGMENT_BYTES, so that a free finds it like any other. If the block itself is at a multiple of SEGMENT_BYTES,
 * the head is at the multiple before it. A mapping's length is a multiple of SEGMENT_BYTES, so that freed mappings can be
 * merged and cut; little of what lies behind the block is in memory. Both sorts grow in place if what lies behind them is
 * free. A mapping may be moved; a run is copied.
 *
 * Sizes that alternate cost little while they stay near each other. A run that shrinks frees the slots behind what is wanted,
 * if these are more than an eighth of it; there it finds them again when it grows. A mapping gives back what it no longer
 * needs when it shrinks. If it grew again after that, it sees the pattern: from then on it keeps its pages while more than half
 * is wanted and the slack allows it.
 *
 * Slack is what may be in memory behind what was asked for. A mapping may have an eighth of its block, and all together
 * SLACK_BYTES more, however it came to it: made of a kept mapping, grown into one, or shrunk.
 *
 * A mapping becomes a run, and a run a slab's block, by a copy, when it needs no more than half of the largest run, or of a
 * slab's largest block.
 *
 * A mapping whose block was freed is kept for a while (kept.c): up to KEPT_BYTES of them, or, if that is more, a quarter of
 * the bytes in live blocks with a mapping. In secure mode none is kept, and guards stand before the block and behind it.
 */
#include <string.h>

#include "heap/heap.h"
#include "heap/hooks.h"

#define RUN_MAX ((SEGMENT_SLOTS - HEAD_SLOTS) * SLOT_BYTES)
#define RUN_LEAST (MEDIUM_MAX / 2) /* a run that needs no more, or a mapping that needs no more than the next, is copied */
#define MAPPING_LEAST (RUN_MAX / 2)
#define KEPT_BYTES ((size_t)64 << 20)
#define SLACK_PART 8                   /* of a block: how much may be in memory behind it in a used mapping, */
#define SLACK_BYTES ((size_t)16 << 20) /* and of all blocks together, how much more */
#define PAGE SLOT_BYTES /* of a head: a multiple of every page size; the system only fills the pages that are used */

/* ---- mappings ----------------------------------------------------------------------------------------------------- */

/* How a mapping's block was resized: not yet; last it became smaller; or larger after that. */
enum { RESIZED_NOT, RESIZED_LESS, RESIZED_MORE };

static PROCESS_STATE ATOMIC(size_t) mapped_bytes; /* of blocks with a mapping */
static PROCESS_STATE ATOMIC(size_t) slack_bytes;  /* behind them */
static PROCESS_STATE ATOMIC(size_t) waiting; /* bytes of blocks that wait, a multiple of PAGE, plus the number of blocks */

size_t large_waiting_bytes(void) { return load_rlx(&waiting) & ~(size_t)(PAGE - 1); }

size_t large_live_bytes(void) {
    size_t bytes = load_rlx(&mapped_bytes), wait = large_waiting_bytes();
    return bytes > wait ? bytes - wait : 0; /* either may be older */
}

void large_wait_end(size_t bytes) { add_rlx(&waiting, -(bytes + 1)); }

bool large_wait_begin(size_t bytes) {
    size_t sum = add_rlx(&waiting, bytes + 1) + bytes + 1;
    if (sum % PAGE <= LARGE_WAITING && sum / PAGE <= LARGE_WAITING_BYTES / PAGE) return true;
    large_wait_end(bytes);
    return false;
}

static char *map_fresh(size_t bytes, size_t alignment) {
    char *start = os_map_aligned(bytes, alignment);
    if (start == NULL && kept_purge(true) != 0) start = os_map_aligned(bytes, alignment);
    if (start == NULL && depot_hollow() != 0) start = os_map_aligned(bytes, alignment);
    if (start == NULL && alignment <= SEGMENT_BYTES && bytes % SEGMENT_BYTES == 0) start = kept_take_clean(bytes);
    PROBE(map, start, bytes);
    return start;
}

struct room {
    char *start; /* NULL: no memory */
    size_t offset, bytes;
    bool used; /* it was kept, or has pages that were slots' */
    bool kept; /* all of it may be in memory */
};

static void slack_end(size_t bytes) {
    if (bytes != 0) add_rlx(&slack_bytes, -bytes);
}

/* Whether the bytes may stay in memory behind a block. If so, they are counted until it ends. */
static bool slack_take(size_t bytes) {
    if (add_rlx(&slack_bytes, bytes) + bytes <= SLACK_BYTES) return true;
    slack_end(bytes);
    return false;
}

/* What the block, of so many bytes, has in memory behind it, beyond the part of it that it may have in any case. */
static size_t slack_of(const struct heap_segment *head, size_t bytes) {
    size_t most = bytes + bytes / SLACK_PART;
    return head->held > most ? head->held - most : 0;
}

/* Counts so much for the mapping. false: that is too much for all together, and nothing changed. */
static bool slack_set(struct heap_segment *head, size_t slack) {
    if (slack > head->slack && !slack_take(slack - head->slack)) return false;
    if (slack < head->slack) slack_end(head->slack - slack);
    head->slack = slack;
    return true;
}

/* Behind the block, only some stays in memory: it spares the system to clear the rest each time that blocks of other sizes
 * come and go, or a block grows again. */
static void slack_bound(struct heap_segment *head, char *p, size_t bytes) {
    size_t over = slack_of(head, bytes);
    if (slack_set(head, over)) return;
    head->held -= over;
    os_purge(p + head->held, over);
    slack_set(head, 0);
}

/* Takes a kept mapping. */
static bool map_kept(struct room *room) {
    room->start = kept_take(room->bytes);
    if (room->start == NULL) room->start = kept_gather(room->bytes);
    return room->used = room->kept = room->start != NULL;
}

/* Maps room->bytes of new address space after `unused` bytes, which it unmaps. keeps: moves pages of free slots there, up to
 * `needed` bytes, if there are any. */
static bool map_new(struct room *room, size_t unused, size_t needed, size_t place, bool keeps) {
    size_t moved = 0;
    room->start = map_fresh(unused + room->bytes, place);
    if (room->start == NULL) return false;
    if (unused != 0) os_unmap(room->start, unused);
    room->start += unused;
    struct hole hole;
    if (keeps && unused == 0 && !depot_move(room->start, room->offset, needed, &moved, &hole)) {
        kept_unmap_around(room->start, room->bytes, hole.start, hole.bytes);
        room->start = map_fresh(room->bytes, place);
        moved = 0;
    }
    room->used = moved != 0;
    if (moved < needed - room->offset) pages_hooks.pressure_before(needed - room->offset - moved, PRESSURE_MAPPING);
    return room->start != NULL;
}

/* Maps room for `size` bytes at a multiple of `alignment`, `offset` after a head. Its length is a multiple of SEGMENT_BYTES,
 * or, if there is no address space for that, just what is needed. keeps: pages that were used before may be reused, with
 * their contents. */
static struct room map_room(size_t size, size_t alignment, bool keeps) {
    size_t front = (size_t)max_u64(alignment, PAGE), needed = round_up(size, PAGE);
    struct room room = {NULL, (size_t)min_u64(front, SEGMENT_BYTES), 0, false, false};
    size_t unused = front - room.offset;
    room.bytes = round_up(room.offset + needed, SEGMENT_BYTES);
    if (keeps && unused == 0 && map_kept(&room)) return room;
    size_t place = (size_t)max_u64(front, SEGMENT_BYTES);
    if (map_new(&room, unused, room.offset + needed, place, keeps)) return room;
    room.bytes = room.offset + needed;
    room.start = os_map_aligned(unused + room.bytes, place);
    if (room.start == NULL || unused == 0) return room;
    os_unmap(room.start, unused);
    room.start += unused;
    return room;
}

/* The block, which the mapping's head knows, has so many bytes now. */
static void record_size(const struct heap_segment *head, const char *p, size_t bytes) {
    store_rlx(&head->mapping->bytes, bytes);
    store_rlx(&head->mapping->behind, (size_t)(head->map_start + head->map_bytes - p) - bytes);
}

/* Clears the descriptor that a private heap's block begins with: what an earlier block left there is none. */
static void slab_clear(struct slab *slab) {
    plain_write(slab, sizeof *slab);
    memset(slab, 0, sizeof *slab);
}

/* Guards everything between the head's first page and the block, and a slot behind the block. */
static void guard_block(char *block, size_t bytes) {
    size_t before = PAGE - os_page_size();
    if (before != 0) os_guard(block - before, before);
    os_guard(block + bytes, PAGE);
}

/* *used: whether the memory may hold anything but zeros. used == NULL: it must be zeros. */
static void *map_block(size_t size, size_t alignment, bool *used) {
    if (alignment > PTRDIFF_MAX / 4 || size > PTRDIFF_MAX - alignment - 2 * SEGMENT_BYTES) return NULL;
    struct mapping *record = record_take();
    if (record == NULL) return NULL;
    size_t guard = mode_is_secure() ? PAGE : 0;
    struct room room = map_room(size + guard, alignment, used != NULL && guard == 0);
    struct heap_segment *head = (struct heap_segment *)(void *)room.start;
    if (head != NULL && !heads_add(head)) {
        kept_unmap((char *)head, room.bytes);
        head = NULL;
    }
    if (head == NULL) {
        record_drop(record);
        return NULL;
    }
    if (used != NULL) *used = room.used;
    if (room.used) slab_clear(&head->slabs[1]);
    for (unsigned i = 0; i < SEGMENT_SLOTS; i++) slot_kind_set(head, i, KIND_DIRECT);
    size_t bytes = round_up(size, PAGE);
    head->map_start = room.start;
    head->map_bytes = room.bytes;
    head->slack = 0;
    head->held = room.kept ? room.bytes - room.offset : bytes;
    head->mapping = record;
    head->resized = RESIZED_NOT;
    slack_bound(head, room.start + room.offset, bytes);
    if (guard != 0) guard_block(room.start + room.offset, bytes);
    add_rlx(&mapped_bytes, bytes);
    record_size(head, room.start + room.offset, bytes);
    store_rlx(&record->mark, 0);
    store_rlx(&record->block, room.start + room.offset);
    return room.start + room.offset;
}

/* Ends the record of the block at p. Returns how many bytes of other blocks are left. */
static size_t record_end(const void *p) {
    struct mapping *record = head_of(p)->mapping;
    size_t gone = load_rlx(&record->bytes);
    slack_end(head_of(p)->slack);
    heads_remove(head_of(p));
    record_drop(record);
    return add_rlx(&mapped_bytes, -gone) - gone;
}

/* A block of whole segments needs one more for its head. Only the whole segments of the mapping are kept: a kept range would
 * count the rest, though hardly any of it is in memory. */
static size_t kept_part(size_t bytes, size_t used) {
    size_t whole = used & ~SEGMENT_MASK;
    return bytes % SEGMENT_BYTES != 0 || whole == 0 || used - whole > PAGE ? bytes : whole;
}

static void unmap_block(const void *p) {
    struct heap_segment *head = head_of(p);
    char *start = head->map_start;
    size_t bytes = head->map_bytes, had = load_rlx(&head->mapping->bytes), live = record_end(p);
    head->mapping = NULL;
    unpoison(start, bytes);
    size_t part = kept_part(bytes, (size_t)((const char *)p - start) + had);
    bool may_keep = bytes % SEGMENT_BYTES == 0 && !mode_is_secure();
    if (may_keep && kept_put(start, part, (size_t)max_u64(KEPT_BYTES, live / 4))) {
        if (part != bytes) kept_unmap(start + part, bytes - part);
        return;
    }
    if (may_keep)
        kept_unmap(start, bytes);
    else
        os_unmap(start, bytes); /* guards may be left in it */
}

/* Makes reused memory zeros again, without bringing in pages that are not in memory. */
static void zero_block(char *p, size_t size) {
    if (os_resident(p, size) < size / 2)
        os_purge(p, round_up(size, PAGE));
    else
        memset(p, 0, size);
}

/* Moves the block, which is in the `before` bytes from p on. */
static void *move_block(void *p, size_t before, size_t size) {
    struct heap_segment *head = head_of(p);
    size_t room = head->map_bytes - PAGE;
    char *other = map_block(size, BLOCK_MIN, NULL);
    if (other == NULL) return NULL;
    enum os_moved outcome = os_move(p, before, other);
    if (outcome != OS_MOVED) {
        char *start = head_of(other)->map_start;
        size_t bytes = head_of(other)->map_bytes;
        record_end(other);
        kept_unmap_around(start, bytes, other, outcome == OS_LOST ? before : 0);
        return NULL;
    }
    head_of(other)->resized = head->resized;
    heads_pieces_end((char *)p - PAGE, before + PAGE);
    heads_piece(other);
    record_end(p);
    os_unmap(head, PAGE);
    if (room != before) os_unmap((char *)p + before, room - before);
    return other;
}

/* Extends the mapping in place. */
static enum os_grow grow_map(struct heap_segment *head, void *p, size_t wanted) {
    char *end = head->map_start + head->map_bytes;
    size_t room = (size_t)(end - (char *)p);
    size_t bytes = round_up((size_t)((char *)p - head->map_start) + wanted, SEGMENT_BYTES), more = bytes - head->map_bytes;
    if (head->map_bytes % SEGMENT_BYTES == 0 && kept_take_at(end, more)) {
        head->map_bytes = bytes;
        head->held = room + more;
        return OS_GREW;
    }
    enum os_grow outcome = os_grow(end - PAGE, PAGE, PAGE + more);
    if (outcome == OS_NO_ROOM) {
        more = wanted - room;
        outcome = os_grow(p, room, wanted);
    }
    if (outcome == OS_GREW) head->map_bytes += more;
    return outcome;
}

/* Gives back what the block no longer needs: whole segments of address space, and the pages of the rest. */
static void shrink_map(struct heap_segment *head, char *p, size_t wanted) {
    size_t front = (size_t)(p - head->map_start),
           bytes = (size_t)min_u64(round_up(front + wanted, SEGMENT_BYTES), head->map_bytes);
    if (bytes < head->map_bytes) kept_unmap(head->map_start + bytes, head->map_bytes - bytes);
    head->map_bytes = bytes;
    size_t end = (size_t)min_u64(front + head->held, bytes);
    os_purge(p + wanted, end - front - wanted);
    head->held = wanted;
    slack_set(head, 0);
}

/* Whether the mapping may stay as it is. */
static bool map_stays(const struct heap_segment *head, size_t before, size_t wanted) {
    return wanted == before || (wanted < before && wanted > before / 2 && head->resized == RESIZED_MORE);
}

/* Makes the mapping larger or smaller, with the same pages. NULL: no memory, or they cannot be moved. */
static void *remap_block(void *p, size_t size) {
    struct heap_segment *head = head_of(p);
    size_t before = large_size(p, KIND_DIRECT), wanted = round_up(size, PAGE);
    size_t room = (size_t)(head->map_start + head->map_bytes - (char *)p);
    if (map_stays(head, before, wanted) && slack_set(head, slack_of(head, wanted))) return p;
    if (wanted < before)
        head->resized = RESIZED_LESS;
    else if (head->resized == RESIZED_LESS)
        head->resized = RESIZED_MORE;
    if (wanted < before) {
        shrink_map(head, p, wanted);
    } else if (wanted > room) {
        enum os_grow outcome = grow_map(head, p, wanted);
        if (outcome == OS_NO_ROOM && (char *)p == (char *)head + PAGE) return move_block(p, before, size);
        if (outcome != OS_GREW) return NULL;
    }
    head->held = (size_t)max_u64(head->held, wanted);
    slack_bound(head, p, wanted);
    add_rlx(&mapped_bytes, wanted - before);
    record_size(head, p, wanted);
    return p;
}

/* ---- runs of slots ------------------------------------------------------------------------------------------------ */

static unsigned kind_of_slots(unsigned count) { return count <= RUNS ? CLASSES + count - 1 : KIND_RUN; }

static void *run_block(size_t size, size_t alignment, bool *zeroed) {
    unsigned count = (unsigned)((size + SLOT_BYTES - 1) >> SLOT_SHIFT);
    struct slots got = depot_take_run(count, alignment > SLOT_BYTES ? (unsigned)(alignment >> SLOT_SHIFT) : 1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    unsigned first = (unsigned)__builtin_ctzll(got.bits);
    store_rlx(&got.segment->slabs[first].run_slots, count);
    slot_kind_set(got.segment, first, kind_of_slots(count));
    if (zeroed != NULL) *zeroed = got.dirty == 0;
    if (got.dirty != 0) tag_clear(slot_start(got.segment, first));
    return slot_start(got.segment, first);
}

/* The run has another length now. If it may be a sample, its kind stays KIND_RUN (sampling.c). */
static void run_set(struct heap_segment *segment, unsigned first, unsigned count) {
    store_rlx(&segment->slabs[first].run_slots, count);
    bool may_be_sample = slot_kind(segment, first) == KIND_RUN && load_rlx(&heaps.sampler) != NULL;
    if (!may_be_sample) slot_kind_set(segment, first, kind_of_slots(count));
}

/* Extends the run by the slots behind it, if they are free. */
static bool run_grow(struct heap_segment *segment, unsigned first, unsigned count, unsigned wanted) {
    struct slots got;
    if (first + wanted > SEGMENT_SLOTS) return false;
    if (!depot_take_at(&got, segment, ((UINT64_C(1) << (wanted - count)) - 1) << (first + count))) return false;
    depot_soil(got);
    run_set(segment, first, wanted);
    return true;
}

/* Frees the slots that the run no longer needs. */
static void run_shrink(struct heap_segment *segment, unsigned first, unsigned count, unsigned wanted) {
    run_set(segment, first, wanted);
    depot_put(segment, ((UINT64_C(1) << (count - wanted)) - 1) << (first + wanted));
    purge_poke();
    heap_freed_large();
}

static void *run_resize(void *p, unsigned kind, size_t size) {
    struct heap_segment *segment = segment_of(p);
    unsigned first = slot_of(p), count = load_rlx(&segment->slabs[first].run_slots);
    unsigned wanted = (unsigned)((size + SLOT_BYTES - 1) >> SLOT_SHIFT);
    if (wanted > count) {
        if (kind < KIND_RUN && load_rlx(&heaps.sampler) != NULL) return NULL; /* only an allocation can make it a sample */
        return run_grow(segment, first, count, wanted) ? p : NULL;
    }
    if (count - wanted > wanted / SLACK_PART) run_shrink(segment, first, count, wanted);
    return p;
}

static void run_free(const void *p) {
    struct heap_segment *segment = segment_of(p);
    unsigned first = slot_of(p), count = load_rlx(&segment->slabs[first].run_slots);
    slot_kind_set(segment, first, KIND_OTHER);
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
    bool used = false, is_run = false;
    void *p = NULL;
    if (size <= RUN_MAX && alignment <= SEGMENT_BYTES / 2) is_run = (p = run_block(size, alignment, zeroed)) != NULL;
    if (p == NULL) p = map_block(size, alignment, &used);
    if (p == NULL) return NULL;
    if (!is_run && zeroed != NULL) {
        if (used) zero_block(p, size);
        *zeroed = true;
    }
    count_in(large_size(p, is_run ? KIND_RUN : KIND_DIRECT));
    if (used) count_large(LARGE_REUSED, 1);
    if (UNLIKELY(load_rlx(&heaps.sampler) != NULL)) heap_hooks.sampling_large(p, size, __builtin_return_address(0));
    return p;
}

size_t large_size(const void *p, unsigned kind) {
    if (kind <= KIND_RUN) return load_rlx(&slab_of(p)->run_slots) * SLOT_BYTES;
    return load_rlx(&head_of(p)->mapping->bytes);
}

void large_free(void *p, unsigned kind) {
    ASSERT(kind >= CLASSES && kind <= KIND_DIRECT);
    if (UNLIKELY(load_rlx(&heaps.sampler) != NULL) && kind >= KIND_RUN) heap_hooks.sampling_end(p);
    count_out(large_size(p, kind));
    if (kind <= KIND_RUN)
        run_free(p);
    else
        unmap_block(p);
}

/* A mapping's size is known only to the page, and less than half of it may be left of what was requested. */
bool large_may_have(size_t usable, unsigned kind, size_t size) {
    if (kind > KIND_RUN) return true;
    return size > usable / 2 || (usable == SLOT_BYTES && size > RUN_LEAST);
}

bool large_stays(const void *p, size_t size) {
    size_t wanted = round_up(size, PAGE), slack = slack_of(head_of(p), wanted), had = head_of(p)->slack;
    if (size <= MAPPING_LEAST || !map_stays(head_of(p), large_size(p, KIND_DIRECT), wanted)) return false;
    return slack <= had || load_rlx(&slack_bytes) + slack - had <= SLACK_BYTES;
}

void *large_resize(void *p, unsigned kind, size_t size) {
    bool is_run = kind <= KIND_RUN;
    if (size <= (is_run ? RUN_LEAST : MAPPING_LEAST) || (is_run && size > RUN_MAX)) return NULL;
    size_t before = large_size(p, kind);
    void *other = is_run ? run_resize(p, kind, size) : remap_block(p, size);
    if (other == NULL) return NULL;
    size_t after = large_size(other, kind);
    if (after == before) return other;
    count_out(before);
    count_in(after);
    return other;
}
