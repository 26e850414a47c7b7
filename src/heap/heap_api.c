/* heap_api.c: the heap's public functions; their contracts are in weft.h. Layer 2.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   H4  weft_heap_configure: version + 1  release  H5  a heap follows to the new version with the old configuration, for
 *                                                      good
 */
#include <string.h>

#include "heap/hooks.h"

void *weft_alloc(size_t size) { return heap_alloc(size); }
void *heap_alloc_quick(size_t size) { return heap_alloc_cached(size); }
void weft_free(void *p) { heap_free(p); }
void weft_free_sized(void *p, size_t size) { heap_free_sized(p, size); }

void *weft_alloc_zeroed(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    bool zeroed = false, is_large = bytes > MEDIUM_MAX && !mode_checks();
    void *p = is_large && bytes <= RUN_CACHED_MAX ? cache_pop(heap_mine(), kind_of_run(bytes)) : NULL;
    if (p == NULL && is_large && load_rlx(&heaps.sampler) != NULL)
        p = sampling_alloc(bytes, &zeroed, __builtin_return_address(0));
    else if (p == NULL)
        p = is_large ? large_alloc(bytes, BLOCK_MIN, &zeroed) : heap_alloc(bytes);
    handed_out(p, bytes);
    if (p != NULL && !zeroed) memset(p, 0, bytes);
    return p;
}

void *weft_alloc_aligned(size_t alignment, size_t size) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) return NULL;
    if (alignment <= BLOCK_MIN) return heap_alloc(size);
    if (UNLIKELY(mode_checks())) return check_alloc(size, alignment);
    unsigned kind = class_aligned(alignment, size);
    if (kind < CLASSES) return heap_alloc(class_info[kind].size);
    if (size > MEDIUM_MAX && alignment <= SLOT_BYTES) return heap_alloc(size);
    return large_alloc(size == 0 ? 1 : size, alignment, NULL);
}

/* The usable bytes of the block, whoever owns it. */
static size_t heap_usable(const void *p) {
    unsigned kind = kind_of(p);
    if (kind == KIND_PRIVATE) kind = load_rlx(&slab_of(p)->private_kind);
    return kind < CLASSES ? class_info[kind].size : large_size(p, kind);
}

#if defined(WEFT_POISONS)
/* Reads the block first, so that AddressSanitizer reports a second free here. */
void given_back(void *p) {
    if (p == NULL || mode_checks()) return;
    (void)load_rlx((ATOMIC(uint8_t) *)p);
    poison(p, heap_usable(p));
}
#endif

size_t weft_usable_size(const void *p) {
    if (p == NULL) return 0;
    if (UNLIKELY(mode_checks())) return check_usable(p);
    heap_hooks.misuse_look(p, "use");
    size_t usable = heap_usable(p);
    unpoison(p, usable);
    return usable;
}

static void *realloc_copy(void *p, size_t usable, size_t size) {
    void *other = heap_alloc(size);
    if (other == NULL) return NULL;
    memcpy(other, p, size < usable ? size : usable);
    heap_free(p);
    return other;
}

/* The class of a live block whose free would take the fast path; CLASSES: something else is at p. */
static unsigned small_class(const os_self *self, const void *p) {
    const struct heap_segment *head = head_of(p);
    if (self->heap_mask == 0 || !heads_has(head)) return CLASSES;
    uint64_t word = load_rlx(&head->words[slot_of(p)]);
    const struct heap_row *row = (const struct heap_row *)(self->heap_base + word);
    unsigned kind = (unsigned)(word - SLOT_MARK) / (unsigned)sizeof(void *);
    bool is_small = kind < CLASSES && !is_misuse(p, row->divisor[0], freed_tag(p, word)) && is_start(kind, p);
    return is_small ? kind : CLASSES;
}

static bool stays(size_t usable, size_t size) { return size <= usable && (size > usable / 2 || usable == BLOCK_MIN); }

/* For a block of a private heap. A sample stays in place exactly when an ordinary block of its class would: otherwise it
 * would stand for more allocations than it should. */
static void *realloc_private(void *p, size_t size) {
    size_t usable = heap_usable(p);
    bool is_sample = sampling_has(slab_of(p));
    if (is_sample ? !stays(usable, size) : usable < size) return realloc_copy(p, usable, size);
    if (is_sample) sampling_resize(p, size);
    return p;
}

/* As large_resize. A block that grows, or whose mapping changes, becomes a sample with the chance of its new size, as if it
 * were copied. Its end as a sample is reported first, because its address may be another block's as soon as it has moved. */
static void *resize_sampled(void *p, unsigned kind, size_t size, size_t usable) {
    bool is_anew = kind == KIND_DIRECT ? !large_stays(p, size) : size > usable, may_be_one = kind >= CACHED;
    if (is_anew && may_be_one) sampling_end(p);
    void *resized = large_resize(p, kind, size);
    if (resized != NULL && is_anew) sampling_large(resized, size, __builtin_return_address(0));
    if (resized != NULL && !is_anew && may_be_one) sampling_resize(resized, size);
    return resized;
}

static void *realloc_any(void *p, size_t size) {
    if (p == NULL) return heap_alloc(size);
    if (size > PTRDIFF_MAX) return NULL;
    if (UNLIKELY(mode_checks())) return check_resize(p, size) ? p : realloc_copy(p, check_usable(p), size);
    heap_hooks.misuse_look(p, "realloc");
    unsigned kind = kind_of(p);
    unpoison(p, heap_usable(p));
    if (UNLIKELY(kind == KIND_PRIVATE)) return realloc_private(p, size);
    if (kind >= CLASSES) {
        size_t usable = large_size(p, kind);
        void *resized =
            load_rlx(&heaps.sampler) == NULL ? large_resize(p, kind, size) : resize_sampled(p, kind, size, usable);
        return resized != NULL ? resized : realloc_copy(p, usable, size);
    }
    size_t usable = class_info[kind].size;
    return stays(usable, size) ? p : realloc_copy(p, usable, size);
}

/* Stays in place while the block is at most twice too large. A large block also shrinks further in place, and grows if there
 * is room (large.c). */
void *weft_realloc(void *p, size_t size) {
    unsigned kind = small_class(os_self_get(), p);
    if (UNLIKELY(kind == CLASSES)) return realloc_any(p, size);
    size_t usable = class_info[kind].size;
    unpoison(p, usable);
    if (stays(usable, size)) return p;
    return realloc_copy(p, usable, size);
}

size_t weft_trim(void) { return heap_trim(); }

int weft_heap_configure(const weft_heap_config *config) {
    weft_heap_config c = {0};
    if (config == NULL || !struct_read(&c, sizeof c, config)) return WEFT_EINVAL;
    if (c.pool_capacity < WEFT_HEAP_POOL_NONE || c.pool_capacity > 4096 || c.pool_prefill < 0 || c.pool_prefill > 4096 ||
        c.remote > WEFT_HEAP_REMOTE_KEEP || c.checks > WEFT_HEAP_SECURE || c.purge_thread > 1 ||
        (c.purge_thread && c.decay_ms < 0) || c.decay_ms < -1 || c.decay_ms > INT32_MAX)
        return WEFT_EINVAL;
    if (c.checks == 0 && mode_checks()) return WEFT_EBUSY;
    static int (*const begin[])(void) = {NULL, check_begin, check_begin_secure}; /* enum weft_heap_checks */
    int error = purge_set(c.purge_thread != 0, begin[c.checks]);
    if (error != WEFT_OK) return error;
    store_rlx(&heaps.pool_capacity, c.pool_capacity);
    store_rlx(&heaps.pool_prefill, c.pool_prefill);
    store_rlx(&heaps.decay_ms, c.decay_ms);
    add_rel(H4, &heaps.config_version, 1);
    return WEFT_OK;
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

static void add_counts(weft_heap_counts *to, const heap_counter *count, uint64_t frees, uint64_t cached, unsigned kind) {
    uint64_t taken = load_rlx(&count[COUNT_CARVED]) - load_rlx(&count[COUNT_FLUSHED]) - cached, allocs = frees + taken;
    to->alloc_count += allocs;
    to->free_count += frees;
    to->live_bytes += taken * class_info[kind].size;
    to->hit_count += allocs - load_rlx(&count[COUNT_MISSES]);
    to->lru_out_count += load_rlx(&count[COUNT_FROM_LRU]);
#define ADD(which, field) to->field += load_rlx(&count[which]);
    HEAP_COUNTERS(ADD)
#undef ADD
}

static void add_bin(weft_heap_counts *to, const struct heap *heap, unsigned kind) {
    static const heap_counter none[HEAP_COUNTS];
    const heap_counter *count = load_rlx(&heap->has_no_bins) ? none : heap->bins[kind].count;
    add_counts(to, count, heap_frees(heap, kind), cache_count(heap, kind), kind);
}

static void add_class(weft_heap_counts *to, unsigned kind) {
    heap_counter past[HEAP_COUNTS];
    counts_past(kind, past);
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older)) add_bin(to, heap, kind);
    add_counts(to, past, 0, 0, kind);
}

static void add_large(weft_heap_counts *to, const struct heap *heap) {
    to->alloc_count += load_rlx(&heap->large[LARGE_ALLOCS]);
    to->reuse_count += load_rlx(&heap->large[LARGE_REUSED]);
    to->free_count += load_rlx(&heap->large[LARGE_FREES]);
    to->live_bytes += load_rlx(&heap->large[LARGE_BYTES_IN]) - load_rlx(&heap->large[LARGE_BYTES_OUT]);
    for (unsigned i = CLASSES; i < CACHED; i++) { /* the counts above lack the runs that caches served */
        uint64_t frees = heap_frees(heap, i), taken = heap_taken(heap, i);
        to->alloc_count += frees + taken;
        to->free_count += frees;
        to->live_bytes += taken * class_info[i].size;
    }
}

static void add_mappings(weft_heap_counts *to) {
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (size_t i = 0; i < CHUNK_WORDS * 64; i++) {
            const char *block = load_rlx(&chunk->records[i].block);
            if (block == NULL) continue;
            size_t bytes = load_rlx(&chunk->records[i].bytes) + load_rlx(&chunk->records[i].behind);
            to->mapped_bytes += bytes;
            to->resident_bytes += os_resident(block, bytes);
        }
}

static void add_memory(weft_heap_counts *to) {
    for (const struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older)) {
        size_t bytes = segment_bytes(segment);
        to->mapped_bytes += bytes;
        to->resident_bytes += os_resident(segment, bytes);
    }
    add_mappings(to);
    to->kept_bytes = kept_bytes();
    to->mapped_bytes += to->kept_bytes;
    to->resident_bytes += kept_resident();
    to->purge_count = load_rlx(&depot.purges);
    to->page_fault_count = os_page_faults();
    to->heap_count = load_rlx(&heaps.count);
    to->classes = CLASSES;
}

/* Blocks move between threads while this goes through the threads: it may see a free without its allocation. */
static void counts_settle(weft_heap_counts *to) {
    uint64_t *sums[] = {&to->alloc_count, &to->free_count, &to->hit_count, &to->live_bytes};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        if ((int64_t)*sums[i] < 0) *sums[i] = 0;
}

static void counts_all(weft_heap_counts *to) {
    *to = (weft_heap_counts){0};
    for (unsigned i = 0; i < CLASSES; i++) add_class(to, i);
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older)) add_large(to, heap);
    to->live_bytes -= large_waiting_bytes();
    counts_settle(to);
    add_memory(to);
}

int weft_heap_stats(weft_heap_counts *counts) {
    if (counts == NULL) return WEFT_EINVAL;
    weft_heap_counts sum;
    counts_all(&sum);
    return struct_write(counts, &sum, sizeof sum) ? WEFT_OK : WEFT_EINVAL;
}

static void counts_class(weft_heap_counts *to, unsigned kind) {
    *to = (weft_heap_counts){0};
    add_class(to, kind);
    counts_settle(to);
}

int weft_heap_class_stats(unsigned index, size_t *block_size, weft_heap_counts *counts) {
    if (index >= CLASSES || block_size == NULL || counts == NULL) return WEFT_EINVAL;
    weft_heap_counts sum;
    counts_class(&sum, index);
    if (!struct_write(counts, &sum, sizeof sum)) return WEFT_EINVAL;
    *block_size = class_info[index].size;
    return WEFT_OK;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

#define PUT(name) text_put_field(text, #name, c->name)

static void put_counts(struct text *text, const weft_heap_counts *c) {
    PUT(alloc_count), PUT(free_count), PUT(hit_count), PUT(miss_count), PUT(from_overflow_count), PUT(from_pool_count),
        PUT(from_list_count), PUT(from_lru_count), PUT(from_orphans_count);
    PUT(from_depot_count), PUT(from_system_count), PUT(prefill_count), PUT(push_count), PUT(tier_drop_count),
        PUT(lru_in_count), PUT(lru_out_count), PUT(cold_count);
    PUT(flush_count), PUT(remote_free_count), PUT(remote_send_count), PUT(live_bytes);
    text_put_field(text, "refills_per_million", c->alloc_count == 0 ? 0 : c->miss_count * 1000000 / c->alloc_count);
    uint64_t slabs = c->from_pool_count + c->from_list_count + c->from_lru_count + c->from_orphans_count +
                     c->from_depot_count + c->from_system_count;
    text_put_field(text, "pool_percent", slabs == 0 ? 0 : c->from_pool_count * 100 / slabs);
    PUT(refill_timed_count), PUT(find_timed_count);
    text_put_field(text, "find_ns", c->find_timed_count == 0 ? 0 : c->find_ns / c->find_timed_count);
    text_format(text, "\"refill_ns\": %lu", c->refill_timed_count == 0 ? 0 : c->refill_ns / c->refill_timed_count);
}

static void put_classes(struct text *text) {
    const char *before = "\n  ";
    for (unsigned i = 0; i < CLASSES; i++) {
        weft_heap_counts c;
        counts_class(&c, i);
        if (c.alloc_count == 0 && c.free_count == 0) continue;
        text_put(text, before);
        text_put(text, "{");
        text_put_field(text, "block_size", class_info[i].size);
        put_counts(text, &c);
        text_put(text, "}");
        before = ",\n  ";
    }
}

int weft_heap_stats_json(char *to, size_t size) {
    if (to == NULL && size != 0) return WEFT_EINVAL;
    struct text all = {.size = size, .fd = TEXT_TO_MEMORY}, *text = &all;
    all.to = to;
    weft_heap_counts sum, *c = &sum;
    counts_all(&sum);
    text_put(text, "{");
    PUT(heap_count), PUT(purge_count), PUT(page_fault_count), PUT(mapped_bytes), PUT(resident_bytes), PUT(kept_bytes),
        PUT(reuse_count);
    put_counts(text, c);
    text_put(text, ",\n \"classes\": [");
    put_classes(text);
    text_put(text, "]}\n");
    return text_end(text);
}

/* ---- walk --------------------------------------------------------------------------------------------------------- */

typedef int (*visit_fn)(const weft_heap_area *area, void *context);

static int walk_slot(const struct heap_segment *segment, unsigned slot, visit_fn visit, void *context) {
    unsigned kind = slab_kind_of(&segment->slabs[slot], slot_kind(segment, slot));
    weft_heap_area area = {slot_start(segment, slot), SLOT_BYTES, 0, 1, 1};
    if (kind < CLASSES) {
        area.block_size = class_info[kind].size;
        area.blocks = class_info[kind].blocks;
        area.blocks_used = (size_t)min_u64(load_rlx(&segment->slabs[slot].used), area.blocks); /* the class may be new */
        if (area.blocks_used == 0) return 0;
    } else if (kind <= KIND_RUN) {
        area.size = area.block_size = load_rlx(&segment->slabs[slot].run_slots) * SLOT_BYTES;
    } else {
        return 0;
    }
    return visit(&area, context);
}

static int walk_mappings(visit_fn visit, void *context) {
    for (struct chunk *chunk = mapping_chunks(); chunk != NULL; chunk = load_rlx(&chunk->older))
        for (size_t i = 0; i < CHUNK_WORDS * 64; i++) {
            const char *block = load_rlx(&chunk->records[i].block);
            if (block == NULL) continue;
            size_t bytes = load_rlx(&chunk->records[i].bytes);
            weft_heap_area area = {block, bytes, bytes, 1, 1};
            int result = visit(&area, context);
            if (result != 0) return result;
        }
    return 0;
}

int weft_heap_walk(visit_fn visit, void *context) {
    if (visit == NULL) return WEFT_EINVAL;
    for (const struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        for (unsigned i = 0; i < SEGMENT_SLOTS; i++) {
            int result = walk_slot(segment, i, visit, context);
            if (result != 0) return result;
        }
    return walk_mappings(visit, context);
}
