/* heap_life.c: see heap.h. The life of a thread's heap, and giving memory back to the system.
 *
 * A thread that ends leaves its heap as it is, including the blocks in its caches, among the idle heaps. A new thread takes
 * a heap from there and finds what it needs. A thread that finds no room in its own slabs strips idle heaps before it takes
 * memory that nobody owns; so does each turn of decay. A heap stripped of all that it had is bare. A heap that could not
 * give up some slabs, because others were freeing to them, is owing: those frees reach its inbox, and the next stripping, by
 * a turn of decay, a trim or a thread that takes the heap, finds them. Only new threads take bare heaps, so they do not make
 * new heaps while others are being stripped.
 *
 * The end. Some destructors of the thread's data may run after ours. After all of them the C library frees the thread's own
 * data, and by then the heap is not told about the end any more. So a thread that was told twice borrows an idle heap for
 * one call. So does a thread that will not be told, because the process has no key left.
 *
 * Decay. A turn is taken by the first thread that comes after its time. What has emptied goes to the depot at the first turn
 * after, and to the system at the second. A thread looks at the clock when its caches are refilled or overflow. It may do
 * neither for a long time after something has emptied, so it watches: it also looks once in a number of frees
 * (heap_watch.c).
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   H1  heap_make: CAS all       release  H2      a heap is looked at before it is made
 *   H2  heaps_all: load all      acquire  H1      see H1
 *   H3  turn_if_due: CAS next    relaxed  -       split: two threads take one turn, and the second gives back what was freed just now
 *   H6  counts_leave: add past   release  H7      a thread that sums counts counts a heap's twice
 *   H7  counts_past: load past   acquire  H6      see H6
 */
#include <string.h>

#include "heap/heap.h"
#include "heap/hooks.h"

#define DECAY_MS 500
#define CACHE_BUDGET (8 << 20) /* bytes */
#define CALM_NS 1000000        /* since the last look at the clock: the thread does little */
#define LAST_EXIT 2u           /* a thread told this many times that it ends borrows */

/* ---- beginning ---------------------------------------------------------------------------------------------------- */

struct heap *heaps_all(void) {
    return load_acq(H2, &heaps.all);
}

void heap_begin(struct heap *heap) {
    store_rlx(&heap->has_no_bins, false);
    heap->budget = CACHE_BUDGET;
    bool is_open = !mode_checks();
    for (unsigned i = 0; i < KINDS; i++) {
        heap->divisor[i] = i < CACHED ? class_info[i].divisor : 0;
        if (i < CACHED) heap->room[i] = is_open ? heap_room_start(i) : 0;
        heap->limit[i] = heap->base[i] + (i < CACHED ? heap->room[i] : 0);
        store_rlx(&heap->top[i], heap->base[i]);
    }
    memcpy(heap->class_of, class_of_tiny, sizeof class_of_tiny);
    heap_watch_none(heap);
    heap_config_set(heap);
}

/* Places the caches. Their places never change, because other threads count the blocks in them. The process's first thread
 * uses nearly all of these pages, and a page that is read before it is written costs two faults: so the NULLs are
 * written. */
static void caches_lay(struct heap *heap) {
    bool is_first = load_rlx(&heaps.all) == NULL;
    void **place = heap->places;
    for (unsigned i = 0; i < KINDS; i++) {
        heap->base[i] = place;
        if (i >= CACHED) continue;
        if (is_first) *place = NULL;
        place += 1 + class_info[i].cache_max;
    }
}

struct heap *heap_make(void) {
    struct slots got = depot_take_run(HEAP_SLOTS, 1);
    if (got.segment == NULL) return NULL;
    depot_soil(got);
    struct heap *heap = (struct heap *)(void *)slot_start(got.segment, (unsigned)__builtin_ctzll(got.bits));
    if (got.dirty != 0) {
        plain_write(&heap->inbox, sizeof heap->inbox); /* the only part that others reach by another way than H2 */
        memset(heap, 0, sizeof *heap);
    }
    caches_lay(heap);
    heap_begin(heap);
    add_rlx(&heaps.count, 1);
    add_rlx(&depot.heaps, 1);
    struct heap *newest = load_rlx(&heaps.all);
    do {
        store_rlx(&heap->older, newest);
    } while (!cas_rel(H1, &heaps.all, &newest, heap));
    return heap;
}

static void heap_leave(os_self *self) {
    struct heap *heap = self->heap;
    if (heap == (void *)os_no_heap) return;
    self->heap = os_no_heap;
    self->heap_mask = 0;
    tagged_push(&heaps.idle, heap, IDLE_LINK);
    purge_poke();
}

/* Asks to be told once more: destructors that run after this one in the same round may use a heap a lot. */
static void heap_exit(os_self *self) {
    heap_leave(self);
    if (self->heap_exits++ == 0) os_self_watch(OS_EXIT_HEAP, heap_exit);
}

struct heap *heap_get(void) {
    os_self *self = os_self_get();
    if (LIKELY(self->heap != os_no_heap)) return self->heap;
    struct heap *heap = tagged_pop(&heaps.idle, IDLE_LINK);
    if (heap == NULL) heap = tagged_pop(&heaps.owing, IDLE_LINK);
    if (heap == NULL) heap = tagged_pop(&heaps.bare, IDLE_LINK);
    if (heap == NULL) heap = heap_make();
    if (heap == NULL) return NULL;
    store_rlx(&heap->has_no_bins, false);
    self->heap = heap; /* before os_self_watch, which may allocate */
    self->heap_base = (uintptr_t)heap - SLOT_MARK;
    self->heap_mask = mode_checks() ? 0 : ~SEGMENT_MASK;
    if (self->heap_exits < LAST_EXIT && os_self_watch(OS_EXIT_HEAP, heap_exit) != 0) self->heap_exits = LAST_EXIT;
    return heap;
}

struct heap *heap_borrow(bool *is_lent) {
    const os_self *self = os_self_get();
    bool has_none = self->heap == os_no_heap;
    struct heap *heap = heap_get();
    *is_lent = UNLIKELY(self->heap_exits >= LAST_EXIT) && has_none;
    return heap;
}

void heap_return(bool is_lent) {
    if (UNLIKELY(is_lent)) heap_leave(os_self_get());
}

/* ---- ended threads' heaps ----------------------------------------------------------------------------------------- */

static bool was_used(const struct heap *heap, unsigned kind) {
    if (load_rlx(&heap->top[kind]) != heap->base[kind]) return true;
    if (kind >= CLASSES) return false;
    const struct bin *bin = &heap->bins[kind];
    return load_rlx(&bin->count[COUNT_MISSES]) + load_rlx(&bin->count[COUNT_FLUSHED]) + heap_frees(heap, kind) != 0;
}

void heap_tidy(struct heap *heap) {
    heap_hooks.check_flush(heap);
    for (unsigned i = 0; i < CACHED; i++)
        if (was_used(heap, i)) heap_kind_tidy(heap, i);
    heap_overflow_end(heap);
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
}

void counts_past(unsigned kind, heap_counter *past) {
    for (unsigned k = 0; k < HEAP_COUNTS; k++) store_rlx(&past[k], load_acq(H7, &heaps.past[kind][k]));
}

/* Adds the heap's counts to `past`. Of blocks carved and flushed only the difference is added: a thread that sums counts
 * meanwhile misses some, but never takes all blocks ever carved for live ones. It reads `past` before the heaps, and a heap
 * sets has_no_bins before `past` has its counts. So nothing is summed twice. */
static void counts_leave(struct heap *heap) {
    store_rlx(&heap->has_no_bins, true);
    for (unsigned i = 0; i < CLASSES; i++) {
        heap_counter *count = heap->bins[i].count;
        store_rlx(&count[COUNT_CARVED], load_rlx(&count[COUNT_CARVED]) - load_rlx(&count[COUNT_FLUSHED]));
        store_rlx(&count[COUNT_FLUSHED], 0);
        for (unsigned k = 0; k < HEAP_COUNTS; k++) {
            if (load_rlx(&count[k]) != 0) add_rel(H6, &heaps.past[i][k], load_rlx(&count[k]));
            store_rlx(&count[k], 0);
        }
    }
}

/* Gives back a bare heap's memory, except for its first page: the places of its caches, and its bins, which must follow the
 * configuration again afterwards. Other threads sum the bins' counts meanwhile, so these are set to zero first. Nothing else
 * is cleared by hand: if the system does not take the pages, they stay as they are. If the heap has samples, its bins stay,
 * because their counts say when the next sample is due. */
static void strip_memory(struct heap *heap) {
    bool has_samples = heap->samples != NULL;
    size_t end = HEAP_SLOTS * SLOT_BYTES;
    size_t first = round_up(has_samples ? offsetof(struct heap, places) : offsetof(struct heap, bins), os_page_size());
    if (!has_samples) {
        counts_leave(heap);
        heap->config_seen = load_rlx(&heaps.config_version) - 1;
    }
    if (first < end) depot_purge_pages((char *)heap + first, end - first);
}

static void strip(struct heap *heap) {
    heap_tidy(heap);
    heap_lru_drop(heap);
    bool is_bare = heap_abandon(heap);
    if (is_bare) strip_memory(heap);
    tagged_push(is_bare ? &heaps.bare : &heaps.owing, heap, IDLE_LINK);
}

bool heap_strip_one(void) {
    struct heap *heap = tagged_pop(&heaps.idle, IDLE_LINK);
    if (heap == NULL) return false;
    strip(heap);
    return true;
}

/* Heaps of threads that end meanwhile may be left to the next time. */
static void strip_all(void) {
    struct heap *first = NULL, *heap;
    while ((heap = tagged_pop(&heaps.owing, IDLE_LINK)) != NULL) {
        heap->visited = first;
        first = heap;
    }
    for (uint32_t left = load_rlx(&heaps.count); left > 0 && heap_strip_one(); left--) {}
    while (first != NULL) {
        heap = first;
        first = heap->visited;
        strip(heap);
    }
}

/* Private heaps that were destroyed have nothing left but their own memory. */
static void strip_ended(void) {
    for (struct heap *heap; (heap = tagged_pop(&heaps.ended, IDLE_LINK)) != NULL;) {
        strip_memory(heap);
        tagged_push(&heaps.ended_bare, heap, IDLE_LINK);
    }
}

/* ---- giving back -------------------------------------------------------------------------------------------------- */

static void adopt_all(struct heap *heap) {
    strip_all();
    for (unsigned i = 0; i < CLASSES; i++)
        if (load_rlx(&orphans[i]) != NULL) heap_adopt(heap, i);
    if (!inbox_is_empty(&heap->inbox)) heap_collect(heap);
}

void heap_drop_lrus(void) {
    for (struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older)) heap_lru_drop(heap);
}

/* Gives back what is empty. Pages of slabs that are used in part are left to heap_trim: only a slab's owner knows which of
 * its blocks are free, and they would soon come again. heap: the caller's, or NULL. */
static size_t give_back(struct heap *heap) {
    if (heap != NULL) {
        heap_tidy(heap);
        adopt_all(heap);
    }
    heap_drop_lrus();
    strip_ended();
    return heap_asleep_trim(heaps_all()) + kept_purge(true) + depot_purge(true);
}

size_t heap_trim(void) {
    bool is_lent;
    struct heap *heap = heap_borrow(&is_lent);
    size_t bytes = give_back(heap);
    if (heap != NULL && !mode_checks()) bytes += heap_purge_slabs(heap); /* checked blocks end in patterns that must stay */
    heap_return(is_lent);
    return bytes;
}

void heap_rest(void) {
    struct heap *heap = heap_mine();
    if (load_rlx(&heaps.decay_ms) >= 0) give_back(heap == (void *)os_no_heap ? NULL : heap);
}

/* A slab is likely the class's last if the class has as many grown slabs as it ever had. Such a slab is used only in part,
 * so its pages are given back and come again as they are used. A wrong guess costs most, so this is done once for each class
 * from one rest of the caches to the next, however often slabs come and go. */
uint32_t heap_trim_last(struct heap *heap, struct slab *slab, unsigned kind, uint32_t touched) {
    struct bin *bin = &heap->bins[kind];
    uint32_t rest = (uint32_t)heap->next_rest_ns;
    bool is_last =
        bin->grown == bin->grown_most && bin->tier[TIER_HOT].first == NULL && bin->tier[TIER_LISTED].first == NULL;
    if (!is_last || touched <= SLOT_PARTS / 2 || bin->last_trimmed == rest) return touched;
    if (load_rlx(&heap->privacy) != PRIVACY_NONE || load_rlx(&heaps.decay_ms) < 0 || load_rlx(&segment_of(slab)->huge))
        return touched;
    bin->last_trimmed = rest;
    unpoison(slab_start(slab), SLOT_BYTES);
    os_purge(slab_start(slab), SLOT_BYTES);
    return 0;
}

/* Empties the caches that were not used since the last rest, and shrinks their room; does the same for the overflow. */
static void rest_caches(struct heap *heap) {
    heap_watch_rest(heap);
    for (unsigned i = 0; i < CACHED; i++) {
        uint64_t allocs = heap_allocs(heap, i);
        if (heap->allocs_seen[i] == allocs && load_rlx(&heap->top[i]) != heap->base[i]) {
            heap_kind_tidy(heap, i);
            heap_room_set(heap, i, (uint32_t)min_u64(heap->room[i], heap_room_start(i)));
        } else if (heap_overflow_is_idle(heap, i)) {
            heap_overflow_drop(heap, i);
        }
        heap->allocs_seen[i] = allocs;
    }
    heap_overflow_end(heap);
}

/* A private heap takes the turn for its thread. What ended threads have left goes to the thread's own heap. */
static struct heap *adopter(struct heap *heap) {
    if (load_rlx(&heap->privacy) == PRIVACY_NONE) return heap;
    struct heap *mine = heap_mine();
    return mine == (void *)os_no_heap ? heap : mine;
}

static NOINLINE void decay_turn(struct heap *heap) {
    adopt_all(adopter(heap));
    heap_drop_lrus();
    strip_ended();
    heap_asleep_turn(heaps_all());
    kept_purge(false);
    depot_purge(false);
    purge_turned();
}

uint64_t heap_decay_period_ns(void) {
    int64_t wanted_ms = load_rlx(&heaps.decay_ms);
    return (uint64_t)(wanted_ms <= 0 ? DECAY_MS : wanted_ms) * 500000;
}

void heap_decay_turn(struct heap *heap) {
    store_rlx(&heaps.next_decay_ns, os_now_ns() + 2 * heap_decay_period_ns());
    decay_turn(heap);
    heap_abandon(heap);
}

/* A due time lies at most two periods ahead. If it lies further, it was set before a shorter decay_ms was configured. */
static bool is_due(uint64_t next_ns, uint64_t now_ns) {
    return now_ns >= next_ns || next_ns - now_ns > 2 * heap_decay_period_ns();
}

/* A private heap's caches end with it. */
static void rest_if_due(struct heap *heap, uint64_t now_ns) {
    if (!is_due(heap->next_rest_ns, now_ns) || load_rlx(&heap->privacy) != PRIVACY_NONE) return;
    if (heap->next_rest_ns != 0) rest_caches(heap);
    heap->next_rest_ns = now_ns + heap_decay_period_ns();
}

static void turn_if_due(struct heap *heap, uint64_t now_ns) {
    uint64_t next_ns = load_rlx(&heaps.next_decay_ns);
    if (!is_due(next_ns, now_ns) || !cas_rlx(H3, &heaps.next_decay_ns, &next_ns, now_ns + heap_decay_period_ns())) return;
    if (next_ns != 0) decay_turn(heap);
}

void heap_decay(struct heap *heap) {
    if (load_rlx(&heaps.decay_ms) < 0) return;
    uint64_t now_ns = os_now_ns(), last_ns = heap->looked_ns;
    heap->looked_ns = now_ns;
    rest_if_due(heap, now_ns);
    turn_if_due(heap, now_ns);
    heap_watch_looked(heap, now_ns - last_ns >= CALM_NS);
}

NOINLINE void heap_counted_free(const void *p) { heap_counted(heap_mine(), kind_of(p)); }

NOINLINE void heap_counted(struct heap *heap, unsigned kind) {
    if (heap_watch_counted(heap, kind)) heap_decay(heap);
    if (UNLIKELY(load_rlx(&heaps.sampler) != NULL)) heap_hooks.sampling_lower(heap, kind);
}
