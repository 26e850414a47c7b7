/* heap.c: see heap.h. Refilling a cache, emptying it, the warm pool.
 *
 *   refill:  cache <- overflow <- warm pool <- LISTED <- LRU <- orphans <- depot <- system
 *   free:    cache -> (full: its older half) overflow -> (full) own to their slabs, others' home, a slab's in one message
 *   slab:    emptied -> LRU -> (more than LRU_MAX, or most of it never handed out) depot
 *
 * The warm pool holds only slabs of its own heap. A slab leaves it when its free blocks are carved (a tier drop), when it has
 * emptied (to the LRU), and when its thread ends. Slabs are in doubly linked lists, so none of the entries is ever stale.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   H5  heap_config_set: load version  acquire  H4  see H4 (heap_api.c)
 *   H9  is_held: light fence           light    H8  see H8 (heap_asleep.c)
 *   H12 is_held: load state            acquire  H10 see H10 (heap_asleep.c)
 *   H13 is_held: load visitors         acquire  H11 see H10 (heap_asleep.c)
 */
#include <string.h>

#include "heap/heap.h"
#include "heap/hooks.h"

#ifndef LRU_MAX
#define LRU_MAX 16u
#endif
#define FREED_BLOCKS 128u /* in the cache of a class that the thread only frees */
#define CACHE_START 8u    /* blocks; doubled at each miss and overflow */
#define CACHE_START_BYTES (1u << 16)
#define ADAPT_LOOKS 32u
#define CAPACITY_START 16u
#define CAPACITY_MAX 4096u
#define PREFILL_MAX 16u
#define RUN_SENT 4u       /* adjacent blocks of one slab in a cache that are sent home at once */
#define TIMED_REFILLS 16u /* one in this many refills is timed */
#define STRIPS_MAX 8      /* ended threads' heaps stripped for one refill */
#define TAKES_TIMED 64u   /* blocks taken past the cache between two looks at the clock */

_Static_assert(KIND_PRIVATE < KINDS && offsetof(struct heap, limit) == OS_HEAP_TOPS * sizeof(void *) &&
                   offsetof(struct heap, frees) == sizeof os_no_heap,
               "as os_no_heap");

INLINE void count_in(struct bin *bin, enum heap_count what, uint64_t n) {
    store_rlx(&bin->count[what], load_rlx(&bin->count[what]) + n);
}

static void count_frees(struct heap *heap, unsigned kind, uint64_t n) {
    store_rlx(&heap->frees[kind], load_rlx(&heap->frees[kind]) + (n << 8));
}

/* Counts blocks that were freed past the cache. */
static void count_past(struct heap *heap, unsigned kind, uint64_t n) {
    count_frees(heap, kind, n);
    count_in(&heap->bins[kind], COUNT_FLUSHED, n);
}

/* ---- tiers -------------------------------------------------------------------------------------------------------- */

/* A class's last slab is usually used only in part. A slab that will hardly be used is better put into a slot with little in
 * memory than into one with all of it: otherwise the next thread would use another part. */
static void count_grown(struct bin *bin, const struct slab *slab, bool comes) {
    if (!slab_has_grown(slab)) return;
    if (!comes) bin->grown_most = (uint32_t)max_u64(bin->grown_most, bin->grown);
    bin->grown += comes ? 1 : UINT32_MAX;
}

static void tier_set(struct bin *bin, struct slab *slab, enum tier tier) {
    if (slab->tier == TIER_NONE || tier == TIER_NONE) count_grown(bin, slab, tier != TIER_NONE);
    if (slab->tier != TIER_NONE) {
        struct slab_list *from = &bin->tier[slab->tier];
        if (slab->prev == NULL)
            from->first = slab->next;
        else
            slab->prev->next = slab->next;
        if (slab->next != NULL) slab->next->prev = slab->prev;
        from->count--;
    }
    slab->tier = (uint8_t)tier;
    if (tier == TIER_NONE) return;
    struct slab_list *to = &bin->tier[tier];
    slab->prev = NULL;
    slab->next = to->first;
    if (to->first != NULL) to->first->prev = slab;
    to->first = slab;
    to->count++;
}

static void make_ready(struct bin *bin, struct slab *slab) {
    bool has_room = bin->tier[TIER_HOT].count < bin->capacity;
    if (has_room) count_in(bin, COUNT_PUSHES, 1);
    tier_set(bin, slab, has_room ? TIER_HOT : TIER_LISTED);
}

/* ---- the LRU ------------------------------------------------------------------------------------------------------ */

void heap_slot_free(struct slab *slab) {
    struct heap_segment *segment = segment_of(slab);
    slot_kind_set(segment, slab_slot(slab), KIND_OTHER);
    slab->touched = (uint8_t)slab_touched(slab);
    uint64_t bit = UINT64_C(1) << slab_slot(slab);
    if (slab->touched <= SLOT_PARTS / 2)
        depot_put_part(segment, bit);
    else
        depot_put(segment, bit);
}

/* Gives the heap's LRU to the depot. Any thread. */
void heap_lru_drop(struct heap *heap) {
    struct slab *slab = slabs_take(&heap->lru);
    while (slab != NULL) {
        struct slab *next = load_rlx(&slab->link);
        heap_slot_free(slab);
        slab = next;
    }
}

/* ---- slabs come and go -------------------------------------------------------------------------------------------- */

static void slab_emptied(struct heap *heap, struct slab *slab) {
    if (UNLIKELY(slab->kind >= KIND_RUN)) {
        heap_hooks.private_large_end(heap, slab);
        return;
    }
    struct bin *bin = &heap->bins[slab->kind];
    tier_set(bin, slab, TIER_NONE);
    slab_bits_drop(slab);
    store_rlx(&slab->state, 0); /* nobody's: any thread may take it from here on, and scan must not see it as the heap's */
    heap_watch_begin(heap);
    if (!slab_has_grown(slab) || (load_rlx(&heap->lru) != NULL && load_rlx(&heap->lru_count) >= LRU_MAX)) {
        heap_slot_free(slab);
        purge_poke();
        return;
    }
    count_in(bin, COUNT_LRU_IN, 1);
    store_rlx(&heap->lru_count, load_rlx(&heap->lru) == NULL ? 1 : load_rlx(&heap->lru_count) + 1);
    slabs_push(&heap->lru, slab);
    purge_poke();
}

/* Call it after blocks came back. */
static void slab_settle(struct heap *heap, struct slab *slab) {
    if (load_rlx(&slab->used) == 0)
        slab_emptied(heap, slab);
    else if (slab->tier == TIER_DRAINING && slab->room >= class_info[slab->kind].hot)
        make_ready(&heap->bins[slab->kind], slab);
}

void heap_collect(struct heap *heap) {
    struct slab *slab = inbox_take(&heap->inbox);
    while (slab != NULL) {
        struct slab *next = inbox_next(slab);
        uint32_t got = inbox_collect(&heap->inbox, slab);
        /* Threads count their frees of other threads' blocks. Frees to a private heap went through no thread's cache. */
        if (load_rlx(&heap->privacy) != PRIVACY_NONE && slab->kind < CLASSES) count_past(heap, slab->kind, got);
        slab_settle(heap, slab);
        slab = next;
    }
}

static struct slab *find_orphans(unsigned kind) {
    struct slab *slab = slabs_take(&orphans[kind]);
    for (int i = 0; slab == NULL && i < STRIPS_MAX && heap_strip_one(); i++) slab = slabs_take(&orphans[kind]);
    return slab;
}

/* Adopts orphans of the class. Returns how many. */
uint32_t heap_adopt(struct heap *heap, unsigned kind) {
    if (load_rlx(&heap->privacy) != PRIVACY_NONE) return 0; /* destroying it would destroy the adopted slabs, too */
    struct bin *bin = &heap->bins[kind];
    uint32_t count = 0;
    struct slab *slab = find_orphans(kind);
    while (slab != NULL) {
        struct slab *next = load_rlx(&slab->link);
        slab->tier = TIER_NONE;
        tier_set(bin, slab, TIER_DRAINING);
        slab_adopt(slab, heap, &heap->inbox);
        slab_settle(heap, slab);
        slab = next;
        count++;
    }
    count_in(bin, COUNT_FROM_ORPHANS, count);
    return count;
}

static void slab_begin(struct heap *heap, struct slab *slab, unsigned kind, uint32_t touched) {
    slab_init(slab, kind, heap, heap_trim_last(heap, slab, kind, touched));
    if (UNLIKELY(mode_is_secure())) heap_hooks.check_renew(slab);
    if (load_rlx(&heap->privacy) != PRIVACY_NONE) {
        store_rlx(&slab->private_kind, (uint8_t)kind);
        slot_kind_set(segment_of(slab), slab_slot(slab), KIND_PRIVATE);
    }
    make_ready(&heap->bins[kind], slab);
}

/* Makes slabs of slots from the depot. false: there are none. */
static bool slabs_new(struct heap *heap, unsigned kind, struct slots got) {
    struct bin *bin = &heap->bins[kind];
    if (got.segment == NULL) return false;
    depot_soil(got);
    uint32_t taken = (uint32_t)__builtin_popcountll(got.bits), dirty = (uint32_t)__builtin_popcountll(got.dirty);
    count_in(bin, COUNT_FROM_DEPOT, dirty);
    count_in(bin, COUNT_FROM_SYSTEM, taken - dirty);
    count_in(bin, COUNT_PREFILLED, taken - 1);
    for (uint64_t bits = got.bits; bits != 0; bits &= bits - 1) {
        uint64_t bit = bits & -bits;
        struct slab *slab = &got.segment->slabs[__builtin_ctzll(bits)];
        slab_begin(heap, slab, kind, (got.dirty & bit) == 0 ? 0 : (got.part & bit) == 0 ? SLOT_PARTS : slab->touched);
    }
    return true;
}

/* ---- finding a slab ----------------------------------------------------------------------------------------------- */

/* Replaces a warm pool of capacity 0: looks at every slab of the process until one fits. */
static struct slab *scan(const struct heap *heap, unsigned kind) {
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        for (unsigned i = 0; i < SEGMENT_SLOTS; i++) {
            struct slab *slab = &segment->slabs[i];
            if (slot_kind(segment, i) != kind || slab_owner(slab) != heap) continue;
            if (slab->tier == TIER_LISTED) return slab;
        }
    return NULL;
}

/* Grows a pool that misses too often, fast below 80 % hits, and shrinks one that hardly ever does. */
static void adapt(struct bin *bin) {
    if (bin->looks < ADAPT_LOOKS) return;
    uint32_t percent = bin->found * 100 / bin->looks;
    bin->looks = bin->found = 0;
    bool grow = percent<90, shrink = percent> 95;
    if (load_rlx(&heaps.pool_capacity) == 0) {
        if (grow && bin->capacity < CAPACITY_MAX) bin->capacity += percent < 80 ? bin->capacity : bin->capacity / 4;
        if (shrink && bin->capacity > CAPACITY_START) bin->capacity -= bin->capacity / 16;
    }
    if (load_rlx(&heaps.pool_prefill) == 0) {
        if (grow && bin->prefill < PREFILL_MAX) bin->prefill++;
        if (shrink && bin->prefill > 1) bin->prefill--;
    }
}

static struct slab *ready_slab(const struct bin *bin) {
    return bin->tier[TIER_HOT].first != NULL ? bin->tier[TIER_HOT].first : bin->tier[TIER_LISTED].first;
}

/* The pool is empty: makes up to `prefill` slabs ready. false: no memory. */
static bool pool_fill(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    uint32_t want = bin->prefill, ready = 0;
    bool is_last = bin->grown == bin->grown_most && bin->tier[TIER_LISTED].first == NULL;
    if (is_last && slabs_new(heap, kind, depot_take_part())) return true;
    for (; ready < want && bin->tier[TIER_LISTED].first != NULL; ready++) {
        make_ready(bin, bin->tier[TIER_LISTED].first);
        count_in(bin, COUNT_FROM_LIST, 1);
    }
    for (struct slab *slab; ready < want && (slab = slabs_pop(&heap->lru)) != NULL; ready++) {
        store_rlx(&heap->lru_count, load_rlx(&heap->lru_count) - 1);
        count_in(bin, COUNT_FROM_LRU, 1);
        slab_begin(heap, slab, kind, slab_touched(slab));
    }
    if (ready > 1) count_in(bin, COUNT_PREFILLED, ready - 1);
    if (ready > 0) return true;
    if (heap_adopt(heap, kind) > 0) {
        if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
        if (ready_slab(bin) != NULL) return true;
    }
    return slabs_new(heap, kind, depot_take(want));
}

/* A slab to carve from; NULL: no memory. */
static struct slab *find_slab(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    bin->looks++;
    if (bin->tier[TIER_HOT].first != NULL) {
        bin->found++;
        count_in(bin, COUNT_FROM_POOL, 1);
        adapt(bin);
        return bin->tier[TIER_HOT].first;
    }
    adapt(bin);
    if (UNLIKELY(bin->capacity == 0)) {
        struct slab *slab = scan(heap, kind);
        if (slab != NULL) {
            count_in(bin, COUNT_FROM_LIST, 1);
            return slab;
        }
    }
    return pool_fill(heap, kind) ? ready_slab(bin) : NULL;
}

/* Three readings of the clock give the time: the first two tell what a reading costs. */
static uint64_t took_ns(uint64_t before_ns, uint64_t start_ns) {
    uint64_t whole_ns = os_now_ns() - start_ns, look_ns = start_ns - before_ns;
    return whole_ns > look_ns ? whole_ns - look_ns : 0;
}

static NOINLINE struct slab *find_slab_timed(struct heap *heap, unsigned kind) {
    uint64_t before_ns = os_now_ns(), start_ns = os_now_ns();
    struct slab *slab = find_slab(heap, kind);
    count_in(&heap->bins[kind], COUNT_FIND_NS, took_ns(before_ns, start_ns));
    count_in(&heap->bins[kind], COUNT_FINDS_TIMED, 1);
    return slab;
}

/* ---- refill ------------------------------------------------------------------------------------------------------- */

uint32_t heap_room_start(unsigned kind) {
    uint64_t blocks = min_u64(CACHE_START, max_u64(CACHE_START_BYTES / class_info[kind].size, 1));
    return (uint32_t)min_u64(blocks, class_info[kind].cache_max);
}

void heap_room_set(struct heap *heap, unsigned kind, uint32_t blocks) {
    if (class_info[kind].size > TINY_MAX) heap->budget += ((int64_t)heap->room[kind] - blocks) * class_info[kind].size;
    heap->room[kind] = blocks;
    heap->limit[kind] = heap->base[kind] + blocks;
}

void heap_config_set(struct heap *heap) {
    heap->config_seen = load_acq(H5, &heaps.config_version);
    int32_t capacity = load_rlx(&heaps.pool_capacity), prefill = load_rlx(&heaps.pool_prefill);
    for (unsigned i = 0; i < CLASSES; i++) {
        struct bin *bin = &heap->bins[i];
        bin->capacity = capacity == 0 ? CAPACITY_START : capacity < 0 ? 0 : (uint32_t)capacity;
        bin->prefill = prefill == 0 ? 1 : (uint32_t)prefill;
        while (bin->capacity < bin->tier[TIER_HOT].count) tier_set(bin, bin->tier[TIER_HOT].first, TIER_LISTED);
        if (mode_checks()) heap_room_set(heap, i, 0);
    }
}

static void config_follow(struct heap *heap) {
    if (UNLIKELY(heap->config_seen != load_rlx(&heaps.config_version))) heap_config_set(heap);
}

static void cache_grow(struct heap *heap, unsigned kind) {
    uint32_t room = heap->room[kind], more = (uint32_t)min_u64(room, class_info[kind].cache_max - room);
    if (class_info[kind].size > TINY_MAX && (int64_t)more * class_info[kind].size > heap->budget) return;
    if (more != 0) heap_room_set(heap, kind, room + more);
}

/* ---- filling a cache ---------------------------------------------------------------------------------------------- */

/* Call it after blocks of the slab have been handed out. */
static void slab_carved(struct bin *bin, struct slab *slab, bool had_grown) {
    if (UNLIKELY(!had_grown && slab_has_grown(slab))) bin->grown++;
    if (slab->room > 0) return;
    if (slab->tier == TIER_HOT) count_in(bin, COUNT_TIER_DROPS, 1);
    tier_set(bin, slab, TIER_DRAINING);
}

/* Whether a visitor holds the slab, which was carved from just now (heap_asleep.c). */
static bool is_held(const struct heap *heap, const struct slab *slab) {
    os_fence_light(H9);
    return UNLIKELY(load_acq(H13, &heap->inbox.visitors) % VISITORS != 0) && (load_acq(H12, &slab->state) & SLAB_HELD) != 0;
}

/* Puts blocks into an empty cache. 0: no memory. */
static uint32_t fill(struct heap *heap, unsigned kind, uint32_t want) {
    struct bin *bin = &heap->bins[kind];
    bool times_finds = load_rlx(&bin->count[COUNT_MISSES]) % TIMED_REFILLS == TIMED_REFILLS / 2;
    void **slots = heap->base[kind] + 1;
    uint32_t got = heap_overflow_take(heap, kind, slots, want);
    if (got > 0) {
        count_in(bin, COUNT_FROM_OVERFLOW, 1);
        want = got;
    }
    while (got < want) {
        if (got > 0 && bin->tier[TIER_HOT].first == NULL) break;
        struct slab *slab = UNLIKELY(times_finds) ? find_slab_timed(heap, kind) : find_slab(heap, kind);
        if (slab == NULL) break;
        ASSERT(slab_owner(slab) == heap && slab->kind == kind && slab->room > 0);
        slab_prefetch(slab->next);
        count_in(bin, COUNT_COLD, slab_cold(slab, want - got));
        bool had_grown = slab_has_grown(slab);
        uint32_t carved = slab_carve(slab, slots + got, want - got);
        slab_carved(bin, slab, had_grown);
        if (UNLIKELY(is_held(heap, slab))) { /* it comes back through the inbox */
            carved -= slab_put(slab, slots + got, carved);
            tier_set(bin, slab, TIER_DRAINING);
        }
        got += carved;
    }
    count_in(bin, COUNT_CARVED, got);
    return got;
}

static uint32_t refill(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    prefetch_write(&heap->inbox); /* as in release */
    config_follow(heap);
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
    uint32_t room = heap->room[kind], half = (room == 0 ? class_info[kind].cache_max : room) / 2;
    uint32_t got = fill(heap, kind, half + (half == 0)); /* none would mean: no memory */
    store_rlx(&heap->top[kind], heap->base[kind] + got);
    cache_grow(heap, kind);
    count_in(bin, COUNT_MISSES, 1);
    PROBE(refill, class_info[kind].size, got);
    return got;
}

static NOINLINE uint32_t refill_timed(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    heap_decay(heap);
    uint64_t before_ns = os_now_ns(), start_ns = os_now_ns();
    uint32_t got = refill(heap, kind);
    count_in(bin, COUNT_REFILL_NS, took_ns(before_ns, start_ns));
    count_in(bin, COUNT_REFILLS_TIMED, 1);
    return got;
}

void *heap_alloc_refilled(struct heap *heap, unsigned kind) {
    void *block = cache_pop(heap, kind);
    if (block != NULL && is_start(kind, block)) return block;
    if (block != NULL) heap_hooks.misuse_found(block);
    bool is_timed = load_rlx(&heap->bins[kind].count[COUNT_MISSES]) % TIMED_REFILLS == 0;
    uint32_t got = is_timed ? refill_timed(heap, kind) : refill(heap, kind);
    while (got == 0 && heap_visit_wait(heap)) got = refill(heap, kind);
    return got == 0 ? NULL : cache_pop(heap, kind);
}

static NOINLINE void *alloc_uncached(size_t size) {
    if (UNLIKELY(mode_checks())) return heap_hooks.check_alloc(size, BLOCK_MIN);
    if (size > MEDIUM_MAX) return heap_hooks.large_alloc(size, BLOCK_MIN, NULL);
    bool is_lent;
    struct heap *heap = heap_borrow(&is_lent);
    bool is_late = mode_checks(); /* another thread began checked mode before this one had a heap */
    void *block = heap == NULL || is_late ? NULL : heap_alloc_refilled(heap, class_of(size));
    heap_return(is_lent);
    if (UNLIKELY(is_late)) return heap_hooks.check_alloc(size, BLOCK_MIN);
    handed_out(block, size);
    return block;
}

void *heap_alloc_slow(size_t size) {
    void *block = size > MEDIUM_MAX && size <= RUN_CACHED_MAX ? cache_pop(heap_mine(), kind_of_run(size)) : NULL;
    if (block == NULL) {
        if (LIKELY(load_rlx(&heaps.sampler) == NULL)) return alloc_uncached(size);
        return heap_hooks.sampling_alloc(size, NULL, __builtin_return_address(0));
    }
    handed_out(block, size);
    return block;
}

/* For secure mode: a block at a random place of a slab. NULL: no memory. */
static void *take_any(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    struct slab *slab = find_slab(heap, kind);
    if (slab == NULL) return NULL;
    bool had_grown = slab_has_grown(slab);
    void *block = slab_carve_any(slab, &heap->drawn);
    slab_carved(bin, slab, had_grown);
    count_in(bin, COUNT_CARVED, 1);
    return block;
}

void *heap_take_one(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    config_follow(heap);
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
    if (load_rlx(&bin->count[COUNT_MISSES]) % TAKES_TIMED == 0) heap_decay(heap);
    void *block = mode_is_secure() ? take_any(heap, kind) : fill(heap, kind, 1) == 0 ? NULL : heap->base[kind][1];
    if (block != NULL) count_in(bin, COUNT_MISSES, 1);
    return block;
}

/* ---- flush -------------------------------------------------------------------------------------------------------- */

/* Sends blocks of one slab home. */
static void send_home(struct heap *heap, struct bin *bin, void *const *blocks, uint32_t count) {
    struct slab *slab = slab_of(blocks[0]);
    unsigned kind = slab_kind_of(slab, slot_kind(segment_of(slab), slab_slot(slab)));
    for (uint32_t i = 0; i < count; i++)
        if (UNLIKELY(!is_start(kind, blocks[i]))) heap_hooks.misuse_found(blocks[i]);
    slab_send_prefetch(slab, kind, blocks[0]);
    if (trial_writes(&heap->trial, count)) blocks_write(kind, blocks, count, &bin->lines_spared);
    slab_send(slab, blocks, count);
    count_in(bin, COUNT_REMOTE_FREES, count);
    count_in(bin, COUNT_REMOTE_SENDS, 1);
    purge_poke(); /* the owner may be asleep */
}

/* Sends blocks[0] home, and with it the others of its slab, which become NULL. */
static void send_slab(struct heap *heap, struct bin *bin, void **blocks, uint32_t count) {
    void *message[64];
    uint32_t n = 1;
    struct slab *slab = slab_of(blocks[0]);
    message[0] = blocks[0];
    for (uint32_t i = 1; i < count && n < 64; i++) {
        if (blocks[i] == NULL || slab_of(blocks[i]) != slab) continue;
        message[n++] = blocks[i];
        blocks[i] = NULL;
    }
    send_home(heap, bin, message, n);
}

static void put_own(struct heap *heap, struct slab *slab, void *const *blocks, uint32_t count) {
    uint32_t put = slab_put(slab, blocks, count);
    if (UNLIKELY(put < count)) heap_hooks.misuse_found(blocks[put]);
    if ((load_rlx(&slab->state) & PENDING_MASK) != 0) purge_poke(); /* others may have freed the rest */
    slab_settle(heap, slab);
}

/* Puts own blocks into their slabs and sends the others home. Overwrites `blocks`. */
static void release(struct heap *heap, struct bin *bin, void **blocks, uint32_t count) {
    uint32_t foreign = 0;
    for (uint32_t i = 0, n; i < count; i += n) {
        struct slab *slab = slab_of(blocks[i]);
        prefetch_write(&slab->state); /* a thread that first only reads the line waits for it twice */
        n = slab_run(blocks + i, count - i);
        if (slab_owner(slab) == heap)
            put_own(heap, slab, blocks + i, n);
        else if (n >= RUN_SENT)
            send_home(heap, bin, blocks + i, n);
        else
            for (uint32_t k = 0; k < n; k++) blocks[foreign++] = blocks[i + k];
    }
    for (uint32_t i = 0; i < foreign; i++)
        if (blocks[i] != NULL) send_slab(heap, bin, blocks + i, foreign - i);
}

/* Takes the oldest `count` blocks out of the cache. */
static void flush(struct heap *heap, unsigned kind, uint32_t count) {
    struct bin *bin = &heap->bins[kind];
    void **oldest = heap->base[kind] + 1;
    uint32_t left = cache_count(heap, kind) - count;
    count_in(bin, COUNT_FLUSHES, 1);
    count_in(bin, COUNT_FLUSHED, count);
    if (left == 0 || !heap_overflow_put(heap, kind, oldest, count)) release(heap, bin, oldest, count);
    memmove(oldest, oldest + count, left * sizeof *oldest);
    store_rlx(&heap->top[kind], heap->base[kind] + left);
}

static void push(struct heap *heap, unsigned kind, void *p) {
    void **top = load_rlx(&heap->top[kind]);
    top[1] = p;
    store_rlx(&heap->top[kind], top + 1);
    if (count_byte(&heap->frees[kind])) heap_counted(heap, kind);
}

/* Whether the thread has allocated nothing of the class since its cache was last full. Then others' blocks that it frees are
 * of no use to it, and the sooner their owner has them back, the more of them is still in some processor's cache. Its own
 * blocks are freed in any order, and each of them may be the one that keeps a slab from emptying. */
static bool only_frees(struct heap *heap, unsigned kind) {
    struct bin *bin = &heap->bins[kind];
    uint64_t before = bin->allocs_when_full;
    bin->allocs_when_full = heap_allocs(heap, kind);
    return bin->allocs_when_full == before;
}

static uint32_t freed_room(unsigned kind) {
    return (uint32_t)min_u64(max_u64(CACHE_START_BYTES / class_info[kind].size, 2),
                             min_u64(FREED_BLOCKS, class_info[kind].cache_max));
}

void heap_free_small(struct heap *heap, void *p, unsigned kind) {
    config_follow(heap);
    if (UNLIKELY(heap->room[kind] == 0)) { /* checked mode has closed the caches since the caller looked */
        heap_put_one(heap, p, kind);
        return;
    }
    if (cache_push(heap, kind, p)) return;
    if (only_frees(heap, kind) && !heap_overflow_is_dense(heap, kind)) {
        heap_room_set(heap, kind, freed_room(kind));
        heap_overflow_drop(heap, kind);
        flush(heap, kind, cache_count(heap, kind));
    } else {
        cache_grow(heap, kind);
    }
    /* If the room shrank, the cache may hold more than fits. */
    while (cache_count(heap, kind) >= heap->room[kind]) flush(heap, kind, (cache_count(heap, kind) + 1) / 2);
    push(heap, kind, p);
    if (load_rlx(&heap->bins[kind].count[COUNT_FLUSHES]) % TIMED_REFILLS == 0) heap_decay(heap);
}

static void runs_drop(struct heap *heap, unsigned kind, uint32_t count) {
    void **oldest = heap->base[kind] + 1;
    uint32_t left = cache_count(heap, kind) - count;
    for (uint32_t i = 0; i < count; i++) heap_hooks.large_free(oldest[i], kind);
    if (count != 0) heap_watch_begin(heap);
    count_frees(heap, kind, -(uint64_t)count);
    memmove(oldest, oldest + count, left * sizeof *oldest);
    store_rlx(&heap->top[kind], heap->base[kind] + left);
}

static void free_run(struct heap *heap, void *p, unsigned kind) {
    if (cache_push(heap, kind, p)) return;
    if (UNLIKELY(heap->room[kind] == 0)) { /* as in heap_free_small */
        heap_hooks.large_free(p, kind);
        return;
    }
    heap_decay(heap);
    cache_grow(heap, kind);
    /* Drops no more than it must: a later allocation has to search for each run that goes. */
    if (cache_count(heap, kind) >= heap->room[kind]) runs_drop(heap, kind, cache_count(heap, kind) - heap->room[kind] + 1);
    push(heap, kind, p);
}

void heap_freed_large(void) {
    struct heap *heap = heap_mine();
    if (heap == (void *)os_no_heap) return;
    heap_watch_begin(heap);
    heap_decay(heap);
}

static void free_large(void *p, unsigned kind) {
    heap_hooks.large_free(p, kind);
    heap_freed_large();
}

void heap_free_slow(void *p) {
    if (p == NULL) return;
    if (UNLIKELY(mode_checks())) {
        heap_hooks.check_free(p, SIZE_ANY);
        return;
    }
    heap_hooks.misuse_look(p, "free");
    unsigned kind = kind_of(p);
    if (UNLIKELY(kind == KIND_PRIVATE)) {
        heap_hooks.private_free(p);
        return;
    }
    bool is_lent = false;
    if (kind < CACHED) tag_put(p, tag_of(p, kind));
    struct heap *heap = kind < CACHED ? heap_borrow(&is_lent) : NULL;
    bool is_sampled = heap != NULL && heap->samples != NULL;
    if (UNLIKELY(is_sampled)) heap_hooks.sampling_lift(heap, kind);
    if (heap == NULL && kind < CLASSES)
        slab_send(slab_of(p), &p, 1);
    else if (heap == NULL)
        free_large(p, kind);
    else if (kind < CLASSES)
        heap_free_small(heap, p, kind);
    else
        free_run(heap, p, kind);
    if (UNLIKELY(is_sampled)) heap_hooks.sampling_lower(heap, kind);
    heap_return(is_lent);
}

void heap_free_sized_slow(void *p, size_t size) {
    if (p == NULL) return;
    if (UNLIKELY(mode_checks())) {
        heap_hooks.check_free(p, size);
        return;
    }
    heap_hooks.misuse_sized(p, size);
    heap_free_slow(p);
}

void heap_put_one(struct heap *heap, void *p, unsigned kind) {
    count_past(heap, kind, 1);
    release(heap, &heap->bins[kind], &p, 1);
}

/* Releases what the overflow keeps of the class. */
void heap_overflow_drop(struct heap *heap, unsigned kind) {
    uint32_t count;
    void **blocks = heap_overflow_all(heap, kind, &count);
    release(heap, &heap->bins[kind], blocks, count);
}

/* ---- for heap_life.c ---------------------------------------------------------------------------------------------- */

void heap_kind_tidy(struct heap *heap, unsigned kind) {
    if (UNLIKELY(heap->samples != NULL)) heap_hooks.sampling_lift(heap, kind);
    uint32_t count = cache_count(heap, kind);
    if (kind >= CLASSES) {
        runs_drop(heap, kind, count);
        return;
    }
    struct bin *bin = &heap->bins[kind];
    count_in(bin, COUNT_FLUSHED, count);
    release(heap, bin, heap->base[kind] + 1, count);
    store_rlx(&heap->top[kind], heap->base[kind]);
    heap_overflow_drop(heap, kind);
}

size_t heap_purge_slabs(const struct heap *heap) {
    size_t bytes = 0;
    for (unsigned i = 0; i < CLASSES; i++)
        for (enum tier tier = TIER_HOT; tier <= TIER_DRAINING; tier++)
            for (const struct slab *slab = heap->bins[i].tier[tier].first; slab != NULL; slab = slab->next)
                bytes += slab_purge(slab);
    return bytes;
}

bool heap_abandon(struct heap *heap) {
    bool all = true;
    for (unsigned i = 0; i < CLASSES; i++) {
        struct bin *bin = &heap->bins[i];
        for (enum tier tier = TIER_HOT; tier <= TIER_DRAINING; tier++) {
            struct slab *slab = bin->tier[tier].first;
            while (slab != NULL) {
                struct slab *next = slab->next;
                if (slab_abandon(slab, heap)) {
                    tier_set(bin, slab, TIER_NONE);
                    slabs_push(&orphans[i], slab);
                } else {
                    all = false;
                }
                slab = next;
            }
        }
    }
    return all;
}
