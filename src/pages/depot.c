/* depot.c: see depot.h.
 *
 * A segment's free slots are bits of one word. Bit 0 of that word (LISTED) says that the segment is in the stack of segments with
 * free slots. A thread that frees slots sets their bits and bit 0 in one operation, and pushes the segment if bit 0 was clear. A
 * thread that finds no free slot in the topmost segment pops it, and then owns bit 0: it clears the bit if there is still no free
 * slot, and otherwise pushes the segment again. So a segment with free slots is in the stack or about to be, and no thread scans.
 * In a child of fork, a segment that another thread was about to push stays out of the stack: its free slots only serve runs,
 * and purging finds them.
 *
 *   word        bits clear         bits set
 *   LISTED 0    full, unknown      never
 *   LISTED 1    full, in stack     free slots, in stack or about to be pushed
 *
 * The stacks are R. K. Treiber's ("Systems programming: coping with parallelism", IBM RJ 5118, 1986), with a count of
 * changes beside the top: an item popped and pushed again meanwhile does not fool a late CAS (2^32 changes would have to
 * pass during one pop).
 *
 * If address space is short, a segment whose slots are all free becomes hollow: everything except its head is unmapped, and
 * nobody owns the slots. Before a new segment is made, a hollow one is filled again, if nothing else was mapped in its
 * place. In a process whose address space has a limit (RLIMIT_AS), a segment becomes hollow as soon as all its slots are
 * free, while enough other slots are: if the system refuses the program's own mappings, such as stacks of threads, nobody
 * asks the heap for memory.
 *
 * A slot is dirty once it has been used. Purging takes slots like any other user, so no other thread touches them meanwhile.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   A1  tagged_push: CAS top         release  A2      the link, and earlier writes to the item, are not seen
 *   A2  tagged_pop: load top         acquire  A1      see A1
 *   A3  tagged_pop: CAS top          relaxed  A1      split: two owners
 *   A4  depot_put: or free           release  A5, A6  the last use of the slot is not seen by the next
 *   A5  slots_claim: CAS free        acquire  A4      see A4; split: two owners
 *   A6  segment_unlist: CAS free     relaxed  A4      split: free slots that nobody finds
 *   A7  segment_make: CAS all        release  A8      a segment is looked at before it is made
 *   A8  depot_all: load all          acquire  A7      see A7
 *   A9  depot_take: load top         acquire  A1      see A1
 *   A10 segment_top: load top        acquire  A1      see A1
 *   A11 tagged_push: load top        acquire  A1      a walk over the links reaches a segment before it is made
 *   A12 tagged_push: store link      release  A13     as A11: the link may be newer than the top that the walk began at
 *   A13 segment_below: load link     acquire  A12     as A12
 *   A14 run_look_far: store run_at   release  A15     a search goes on at a segment before it is made
 *   A15 run_look_far: load run_at    acquire  A14     see A14
 *   A16 segment_hollow: store hollow release  A17     the slots are mapped again before they are unmapped: there is no room
 *   A17 segment_fill: CAS hollow     acquire  A16, A18  see A16; split: two threads own all slots
 *   A18 segment_fill: store hollow   release  A17     as A16: what A17 has acquired is passed on to the next thread that tries
 */
#include "pages/depot.h"

#include "pages/heads.h"
#include "pages/kept.h"

/* Once there are this many segments, plus one for each heap, new ones ask for huge pages, unless another thread made one
 * meanwhile. */
#define HUGE_AFTER 15u
/* How many segments are searched for a run of slots before a new one is made: first at the stack's top, then among all. */
#define RUN_LOOKS 8
#define RUN_LOOKS_FAR 64u
/* Runs of fewer slots do not move to a mapping: each becomes a mapping of its own, and the system limits their number. */
#define MOVED_SLOTS 16
/* If address space has a limit: bytes of free slots that stay mapped in any case. */
#define TIGHT_SPARE ((size_t)8 << 20)
/* How many segments are searched for slots of the best sort. */
#define SORT_LOOKS 16
/* On either side of what is taken in secure mode. */
#define GUARD_SLOTS 1u

PROCESS_STATE struct depot depot;

/* ---- tagged stacks ------------------------------------------------------------------------------------------------ */

#define ADDRESS_MASK ((UINT64_C(1) << ADDRESS_BITS) - 1)

static tagged_link *link_of(void *item, size_t link_at) { return (tagged_link *)(void *)((char *)item + link_at); }
static void *item_of(uint64_t top) { return (void *)(uintptr_t)((top & ADDRESS_MASK) << SLOT_SHIFT); }
static uint64_t next_top(uint64_t top, uint64_t address) {
    return ((top >> ADDRESS_BITS) + 1) << ADDRESS_BITS | (address & ADDRESS_MASK);
}

void tagged_push(struct tagged *stack, void *item, size_t link_at) {
    uint64_t top;
    do {
        top = load_acq(A11, &stack->top);
        store_rel(A12, link_of(item, link_at), top);
    } while (!cas_rel(A1, &stack->top, &top, next_top(top, (uintptr_t)item >> SLOT_SHIFT)));
}

bool tagged_is_empty(const struct tagged *stack) { return item_of(load_rlx(&stack->top)) == NULL; }

/* Takes the item that `top` names, if it is still the topmost. */
static bool pop_exactly(struct tagged *stack, uint64_t top, size_t link_at) {
    return cas_rlx(A3, &stack->top, &top, next_top(top, load_rlx(link_of(item_of(top), link_at))));
}

void *tagged_pop(struct tagged *stack, size_t link_at) {
    for (;;) {
        uint64_t top = load_acq(A2, &stack->top);
        void *item = item_of(top);
        if (item == NULL || pop_exactly(stack, top, link_at)) return item;
    }
}

/* ---- segments ----------------------------------------------------------------------------------------------------- */

#define STACK_LINK offsetof(struct heap_segment, stack_link)

#define HEAD_BYTES (HEAD_SLOTS * SLOT_BYTES)

#if !defined(WEFT_EXPLORE)
/* Runs when the library is loaded: a sandbox that the program enters later may forbid the call. */
__attribute__((constructor)) static void tight_begin(void) { store_rlx(&depot.is_tight, os_space_is_limited()); }
#endif

/* Maps a hollow segment's slots again, if nothing else is there by now. The slots are the caller's. NULL: none. */
static struct heap_segment *segment_fill(void) {
    if (LIKELY(load_rlx(&depot.hollows) == 0)) return NULL;
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older)) {
        bool found = true;
        if (!load_rlx(&segment->hollow) || !cas_acq(A17, &segment->hollow, &found, false)) continue;
        add_rlx(&depot.hollows, (uint64_t)-1);
        if (os_grow(segment, HEAD_BYTES, SEGMENT_BYTES) == OS_GREW) return segment;
        add_rlx(&depot.hollows, 1);
        store_rel(A18, &segment->hollow, true);
    }
    return NULL;
}

/* A new or refilled segment. Its slots are the caller's. */
static struct heap_segment *segment_make(void) {
    struct heap_segment *segment = segment_fill();
    if (segment != NULL) return segment;
    segment = os_map_aligned(SEGMENT_BYTES, SEGMENT_BYTES);
    if (segment == NULL && kept_purge(true) != 0) segment = os_map_aligned(SEGMENT_BYTES, SEGMENT_BYTES);
    if (segment == NULL) segment = (struct heap_segment *)(void *)kept_take_clean(SEGMENT_BYTES);
    if (segment == NULL) return NULL;
    PROBE(map, segment, SEGMENT_BYTES);
    if (!heads_add(segment)) {
        kept_unmap((char *)segment, SEGMENT_BYTES);
        return NULL;
    }
    if (add_rlx(&depot.segments, 1) >= HUGE_AFTER + load_rlx(&depot.heaps) && tagged_is_empty(&depot.stack)) {
        os_huge(segment, SEGMENT_BYTES, true);
        store_rlx(&segment->huge, true);
    }
    for (unsigned i = 0; i < SEGMENT_SLOTS; i++) slot_kind_set(segment, i, KIND_OTHER);
    struct heap_segment *newest = load_rlx(&depot.all);
    do {
        store_rlx(&segment->older, newest);
    } while (!cas_rel(A7, &depot.all, &newest, segment));
    return segment;
}

struct heap_segment *depot_all(void) {
    return load_acq(A8, &depot.all);
}

/* Clears LISTED of a segment that the caller has just popped, or pushes the segment again if slots are free. */
static void segment_unlist(struct heap_segment *segment) {
    uint64_t found = load_rlx(&segment->free);
    do {
        if (found != LISTED) {
            tagged_push(&depot.stack, segment, STACK_LINK);
            return;
        }
    } while (!cas_rlx(A6, &segment->free, &found, 0));
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

/* Either half of the word may be negative for a moment. */
static void count_slots(int taken, int spare) {
    add_rlx(&depot.slots, ((uint64_t)(int64_t)taken << 32) + (uint64_t)(int64_t)spare);
}
static int32_t spare_slots(uint64_t slots) { return (int32_t)(uint32_t)slots; }
static int32_t taken_slots(uint64_t slots) {
    return (int32_t)(uint32_t)((slots - (uint64_t)(int64_t)spare_slots(slots)) >> 32);
}
static size_t bytes_of_slots(int32_t slots) { return slots <= 0 ? 0 : (size_t)slots * SLOT_BYTES; }
size_t depot_taken_bytes(void) {
    return bytes_of_slots(taken_slots(load_rlx(&depot.slots)) - (int32_t)load_rlx(&depot.given));
}
size_t depot_spare_bytes(void) { return bytes_of_slots(spare_slots(load_rlx(&depot.slots))); }

/* Announces that the caller will soon use those of the slots that were clean. */
static struct slots press(struct slots got) {
    uint64_t clean = got.bits & ~got.dirty;
    if (UNLIKELY(mode_is_secure())) clean &= got.bits >> 1 & got.bits << 1; /* guards take no memory */
    if (clean != 0) pages_hooks.pressure_before((size_t)__builtin_popcountll(clean) * SLOT_BYTES, PRESSURE_SLOTS);
    return got;
}

/* The lowest `count` bits, or all if there are fewer. */
static uint64_t lowest_bits(uint64_t bits, unsigned count) {
    uint64_t rest = bits;
    while (rest != 0 && count-- > 0) rest &= rest - 1;
    return bits & ~rest;
}

/* Takes bits out of `free`. false: not all are free any more, or the word changed; *found is its value then. */
static bool slots_claim(struct slots *got, struct heap_segment *segment, uint64_t *found, uint64_t bits) {
    uint64_t free = *found;
    bool is_taken = cas_acq(A5, &segment->free, &free, free & ~bits);
    *found = free;
    if (!is_taken) return false;
    for (uint64_t left = bits; left != 0; left &= left - 1)
        unpoison(slot_start(segment, (unsigned)__builtin_ctzll(left)), SLOT_BYTES);
    uint64_t dirty = load_rlx(&segment->dirty) & bits;
    *got = (struct slots){segment, bits, dirty, load_rlx(&segment->part) & dirty};
    count_slots(__builtin_popcountll(bits), -__builtin_popcountll(dirty));
    return true;
}

static struct heap_segment *segment_top(void) { return item_of(load_acq(A10, &depot.stack.top)); }
static struct heap_segment *segment_below(const struct heap_segment *segment) {
    return item_of(load_acq(A13, &segment->stack_link));
}

/* Free slots of one sort. Dirtier sorts are better. */
struct candidate {
    struct heap_segment *segment;
    uint64_t found; /* all its free slots */
    uint64_t bits;
    enum { DIRTY, DIRTY_IN_PART, CLEAN, NONE } sort;
};

static struct candidate segment_candidate(struct heap_segment *segment) {
    uint64_t found = load_rlx(&segment->free), free = found & ~LISTED;
    uint64_t dirty = free & load_rlx(&segment->dirty), part = dirty & load_rlx(&segment->part);
    if (dirty != part) return (struct candidate){segment, found, dirty & ~part, DIRTY};
    if (part != 0) return (struct candidate){segment, found, part, DIRTY_IN_PART};
    return (struct candidate){segment, found, free, free != 0 ? CLEAN : NONE};
}

/* NONE: the topmost segment has no free slot. */
static struct candidate best_candidate(struct heap_segment *top) {
    struct candidate best = segment_candidate(top);
    if (best.sort == NONE) return best;
    struct heap_segment *segment = segment_below(top);
    for (int i = 1; i < SORT_LOOKS && segment != NULL && best.sort != DIRTY; i++, segment = segment_below(segment)) {
        struct candidate candidate = segment_candidate(segment);
        if (candidate.sort < best.sort) best = candidate;
    }
    return best;
}

/* The bits at which `count` adjacent set bits begin, where the bit `lead` further on is at a multiple of `align`. */
static uint64_t bits_starts(uint64_t free, unsigned count, unsigned align, unsigned lead) {
    uint64_t starts = free;
    for (unsigned have = 1; have < count;) {
        unsigned step = have < count - have ? have : count - have;
        starts &= starts >> step;
        have += step;
    }
    if (align > 1) {
        uint64_t aligned = 0;
        for (unsigned i = 0; i < 64; i += align) aligned |= UINT64_C(1) << i;
        starts &= aligned >> lead;
    }
    return starts;
}

static uint64_t bits_of_run(unsigned count) { return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1; }

uint64_t bits_find(uint64_t free, unsigned count, unsigned align) {
    uint64_t starts = bits_starts(free, count, align, 0);
    return starts == 0 ? 0 : bits_of_run(count) << __builtin_ctzll(starts);
}

/* Takes the lowest row of adjacent bits out of *bits. */
static uint64_t bits_row(uint64_t *bits) {
    uint64_t row = *bits & ~(*bits + (*bits & -*bits));
    *bits &= ~row;
    return row;
}

/* Does not count bits, because that is a call on processors of the lowest level. */
static unsigned row_length(uint64_t row) { return 64 - (unsigned)(__builtin_clzll(row) + __builtin_ctzll(row)); }

/* A run in one segment, how many of its slots are clean, and how many free slots remain beside it. */
struct run {
    struct heap_segment *segment; /* NULL: none */
    uint64_t found;
    uint64_t bits;
    unsigned clean, beside;
};

/* `count` adjacent slots. The one `guards` further on than the first must be at a multiple of `align`. */
struct want {
    unsigned count, align, guards; /* guards at each end, included in the count */
};

static struct want wanted_run(unsigned count, unsigned align) {
    unsigned guards = mode_is_secure() ? GUARD_SLOTS : 0;
    return (struct want){count + 2 * guards, align, guards};
}

static uint64_t run_starts(uint64_t free, const struct want *want) {
    return bits_starts(free, want->count, want->align, want->guards);
}

/* The run's slots that are not guards. */
static uint64_t inside(uint64_t run, const struct want *want) { return want->guards == 0 ? run : run & run << 1 & run >> 1; }

/* The run at the lowest of the starts; in secure mode at a random one. That prefers runs whose first inner slot is dirty and
 * whose front guard is clean, because a slot that becomes a guard loses its pages. */
static uint64_t run_at(uint64_t starts, uint64_t dirty, const struct want *want) {
    if (want->guards == 0) return bits_of_run(want->count) << __builtin_ctzll(starts);
    static PROCESS_STATE ATOMIC(uint64_t) drawn;
    uint64_t row = add_rlx(&drawn, 1), kept = starts & dirty >> 1 & ~dirty;
    return bits_of_run(want->count) << mode_random_bit(&row, kept != 0 ? kept : starts);
}

/* The adjacent free slots from the lowest start on; in secure mode all free slots of the segment. Where starts are aligned, free
 * slots before the first one are left out, so `beside` does not count them. */
static uint64_t row_at(uint64_t starts, uint64_t free, const struct want *want) {
    return want->guards != 0 ? free : free & ~(free + (starts & -starts));
}

static bool run_is_better(const struct run *run, const struct run *best) {
    return best->segment == NULL || run->clean < best->clean || (run->clean == best->clean && run->beside < best->beside);
}

/* Sets *best to the best run in the segment if that has fewer clean slots, or as many and leaves fewer free slots beside it.
 * false: no other run can be better than *best. */
static bool run_look(struct run *best, struct heap_segment *segment, const struct want *want) {
    struct run run = {segment, load_rlx(&segment->free), 0, 0, 0};
    uint64_t free = run.found & ~LISTED, dirty = free & load_rlx(&segment->dirty);
    uint64_t starts = run_starts(free, want), soiled = want->guards != 0 ? 0 : run_starts(dirty, want);
    while (starts != 0) {
        uint64_t row = row_at(starts, free, want), here = starts & row, wholly = soiled & row;
        starts &= ~row;
        run.bits = run_at(wholly != 0 ? wholly : here, dirty, want);
        run.clean = wholly != 0 ? 0 : (unsigned)__builtin_popcountll(inside(run.bits, want) & ~dirty);
        if (want->guards == 0) run.beside = row_length(row) - want->count;
        if (run_is_better(&run, best)) *best = run;
    }
    return best->segment == NULL || best->clean > 0 || best->beside > 0;
}

bool depot_take_at(struct slots *got, struct heap_segment *segment, uint64_t bits) {
    uint64_t found = load_rlx(&segment->free);
    while ((found & bits) == bits)
        if (slots_claim(got, segment, &found, bits)) return true;
    return false;
}

/* Makes a segment. The slots of `bits` go to the caller, the others become free. */
static struct slots take_new(uint64_t bits) {
    struct slots got = {segment_make(), bits, 0, 0};
    if (got.segment == NULL) return got;
    count_slots(__builtin_popcountll(SLOTS_ALL), 0);
    depot_put(got.segment, SLOTS_ALL & ~bits);
    return press(got);
}

struct slots depot_take(unsigned count) {
    struct slots got = {NULL, 0, 0, 0};
    if (UNLIKELY(mode_is_secure())) return depot_take_run(1, 1);
    for (;;) {
        uint64_t top = load_acq(A9, &depot.stack.top);
        struct heap_segment *segment = item_of(top);
        if (segment == NULL) break;
        struct candidate best = best_candidate(segment);
        if (best.sort != NONE) {
            if (slots_claim(&got, best.segment, &best.found, lowest_bits(best.bits, count))) return press(got);
        } else if (pop_exactly(&depot.stack, top, STACK_LINK)) {
            segment_unlist(segment);
        }
    }
    return take_new(lowest_bits(SLOTS_ALL, count));
}

struct slots depot_take_part(void) {
    struct slots got = {NULL, 0, 0, 0};
    struct heap_segment *segment = mode_is_secure() ? NULL : segment_top();
    for (int i = 0; i < SORT_LOOKS && segment != NULL; i++, segment = segment_below(segment)) {
        uint64_t found = load_rlx(&segment->free), part = found & load_rlx(&segment->part);
        if (part != 0 && slots_claim(&got, segment, &found, part & -part)) return got;
    }
    return got;
}

/* Segments that have no room for any run may lie on top of the stack for good. So this search goes on among all segments,
 * cyclically, each time from where the last one ended or found the best run. It thus reaches any segment that has a run; and
 * for each new segment that is made, `looks` old ones were found to have none. */
static void run_look_far(struct run *best, const struct want *want, uint64_t looks) {
    struct heap_segment *segment = load_acq(A15, &depot.run_at), *before = best->segment;
    bool goes_on = true;
    for (; looks > 0 && goes_on; looks--) {
        if (segment == NULL) segment = depot_all();
        if (segment == NULL) return;
        goes_on = run_look(best, segment, want);
        if (goes_on) segment = load_rlx(&segment->older);
    }
    store_rel(A14, &depot.run_at, best->segment == before ? segment : best->segment);
}

/* Of the runs in the segments searched, the one with the most slots in memory. */
static struct run run_best(const struct want *want) {
    struct run best = {NULL, 0, 0, 0, 0};
    bool goes_on = true;
    struct heap_segment *segment = segment_top();
    for (int i = 0; i < RUN_LOOKS && segment != NULL && goes_on; i++, segment = segment_below(segment))
        goes_on = run_look(&best, segment, want);
    if (goes_on && (best.segment == NULL || depot_spare_bytes() >= want->count * SLOT_BYTES))
        run_look_far(&best, want, min_u64(load_rlx(&depot.segments), RUN_LOOKS_FAR));
    return best;
}

static struct slots take_run(const struct want *want) {
    struct slots got = {NULL, 0, 0, 0};
    uint64_t starts = run_starts(SLOTS_ALL, want);
    if (starts == 0) return got; /* a segment has no room for it beside its head */
    struct run run;
    while ((run = run_best(want)).segment != NULL)
        if (slots_claim(&got, run.segment, &run.found, run.bits)) return press(got);
    got = take_new(run_at(starts, 0, want));
    if (got.segment != NULL) return got;
    do {
        run = (struct run){NULL, 0, 0, 0, 0};
        run_look_far(&run, want, load_rlx(&depot.segments));
    } while (run.segment != NULL && !slots_claim(&got, run.segment, &run.found, run.bits));
    return got;
}

/* Turns the first and the last of the slots taken into guards. If the system refuses to protect one, still nobody uses
 * it. */
static void guards_make(struct slots *got) {
    uint64_t front = got->bits & -got->bits, rear = got->bits & ~(got->bits >> 1), guards = front | rear;
    uint64_t clean = 0;
    for (uint64_t left = guards; left != 0; left &= left - 1)
        if (os_guard(slot_start(got->segment, (unsigned)__builtin_ctzll(left)), SLOT_BYTES)) clean |= left & -left;
    and_rlx(&got->segment->dirty, ~clean);
    and_rlx(&got->segment->part, ~clean);
    or_rlx(&got->segment->fronts, front);
    or_rlx(&got->segment->rears, rear);
    count_slots(-2, 0);
    *got = (struct slots){got->segment, got->bits & ~guards, got->dirty & ~guards, got->part & ~guards};
}

/* The lowest bit, and those adjacent to it above. */
static uint64_t bits_first(uint64_t bits) {
    uint64_t low = bits & -bits;
    return bits & ~(bits + low);
}

/* Removes the guards of slots that are about to be free, and what guards these themselves. Returns the slots and the guards,
 * except those that the system does not unprotect: they stay as they are for good. */
static uint64_t guards_end(struct heap_segment *segment, uint64_t bits) {
    uint64_t front = bits >> 1 & ~bits & load_rlx(&segment->fronts);
    uint64_t rear = bits << 1 & ~bits & load_rlx(&segment->rears), guards = front | rear, open = bits | guards;
    if (LIKELY(guards == 0)) return bits;
    for (uint64_t left = open, some; left != 0; left &= ~some) {
        some = bits_first(left);
        char *start = slot_start(segment, (unsigned)__builtin_ctzll(some));
        if (!os_unguard(start, (size_t)__builtin_popcountll(some) * SLOT_BYTES)) open &= ~some;
    }
    and_rlx(&segment->fronts, ~(front & open));
    and_rlx(&segment->rears, ~(rear & open));
    count_slots(__builtin_popcountll(guards & open), 0);
    return open;
}

struct slots depot_take_run(unsigned count, unsigned align) {
    struct want want = wanted_run(count, align);
    struct slots got = take_run(&want);
    if (UNLIKELY(want.guards != 0) && got.segment != NULL) guards_make(&got);
    return got;
}

/* Ends the segment's huge pages. Otherwise the kernel would bring back to memory what is given back. */
static void huge_end(struct heap_segment *segment) {
    if (!load_rlx(&segment->huge)) return;
    store_rlx(&segment->huge, false);
    os_huge(segment, SEGMENT_BYTES, false);
}

/* Returns whether all the segment's slots are free now. */
static bool slots_put(struct heap_segment *segment, uint64_t bits) {
    for (uint64_t left = bits; left != 0; left &= left - 1)
        poison(slot_start(segment, (unsigned)__builtin_ctzll(left)), SLOT_BYTES);
    count_slots(-__builtin_popcountll(bits), __builtin_popcountll(load_rlx(&segment->dirty) & bits));
    uint64_t before = or_rel(A4, &segment->free, bits | LISTED);
    if ((before & LISTED) == 0) tagged_push(&depot.stack, segment, STACK_LINK);
    return ((before | bits) & SLOTS_ALL) == SLOTS_ALL;
}

static size_t segment_hollow(struct heap_segment *segment) {
    struct slots got;
    if (!depot_take_at(&got, segment, SLOTS_ALL)) return 0;
    huge_end(segment);
    if (!os_unmap(slot_start(segment, HEAD_SLOTS), SEGMENT_BYTES - HEAD_BYTES)) {
        slots_put(segment, SLOTS_ALL); /* as dirty as before: locked pages keep their contents */
        return 0;
    }
    and_rlx(&segment->dirty, ~SLOTS_ALL);
    and_rlx(&segment->part, ~SLOTS_ALL);
    count_slots(-__builtin_popcountll(SLOTS_ALL), 0);
    add_rlx(&depot.hollows, 1);
    store_rel(A16, &segment->hollow, true);
    return SEGMENT_BYTES - HEAD_BYTES;
}

/* Bytes of address space in free slots, whether in memory or not. */
static size_t free_bytes(void) {
    uint64_t segments = load_rlx(&depot.segments) - load_rlx(&depot.hollows);
    uint64_t slots = segments * (uint64_t)__builtin_popcountll(SLOTS_ALL);
    int32_t taken = taken_slots(load_rlx(&depot.slots));
    return taken < 0 || (uint64_t)taken > slots ? 0 : (size_t)(slots - (uint64_t)taken) * SLOT_BYTES;
}

void depot_put(struct heap_segment *segment, uint64_t slots) {
    uint64_t open = guards_end(segment, slots);
    if (open == 0) return;
    bool is_empty = slots_put(segment, open);
    if (UNLIKELY(is_empty) && load_rlx(&depot.is_tight) && free_bytes() > TIGHT_SPARE) segment_hollow(segment);
}

void depot_put_part(struct heap_segment *segment, uint64_t bit) {
    or_rlx(&segment->part, bit);
    depot_put(segment, bit);
}

void depot_soil(struct slots got) {
    if ((got.bits & ~got.dirty) != 0) or_rlx(&got.segment->dirty, got.bits);
    and_rlx(&got.segment->old, ~got.bits);
    if (got.part != 0) and_rlx(&got.segment->part, ~got.part);
}

/* ---- giving back -------------------------------------------------------------------------------------------------- */

void depot_purge_pages(void *pages, size_t bytes) {
    huge_end(segment_of(pages));
    os_purge_pages(pages, bytes);
}

static void purge_slots(const struct slots *got) {
    struct heap_segment *segment = got->segment;
    huge_end(segment);
    uint64_t left = got->bits;
    while (left != 0) {
        unsigned first = (unsigned)__builtin_ctzll(left);
        uint64_t rest = ~(left >> first);
        unsigned count = rest == 0 ? 64 : (unsigned)__builtin_ctzll(rest);
        os_purge(slot_start(segment, first), count * SLOT_BYTES);
        left &= count + first >= 64 ? 0 : UINT64_MAX << (first + count);
    }
    and_rlx(&segment->dirty, ~got->bits);
    and_rlx(&segment->part, ~got->bits);
    add_rlx(&depot.purges, 1);
    depot_put(segment, got->bits);
}

/* Gives back at most `most` free slots among `which`. Returns the bytes. */
static size_t segment_purge_of(struct heap_segment *segment, uint64_t which, uint32_t most) {
    struct slots got = {NULL, 0, 0, 0};
    uint64_t found = load_rlx(&segment->free);
    while ((found & which) != 0)
        if (slots_claim(&got, segment, &found, lowest_bits(found & which, most))) break;
    if (got.segment != NULL) purge_slots(&got);
    return (size_t)__builtin_popcountll(got.bits) * SLOT_BYTES;
}

/* ---- pages for a mapping ------------------------------------------------------------------------------------------ */

/* The longest row of adjacent bits. */
static uint64_t bits_longest(uint64_t bits) {
    uint64_t best = 0;
    while (bits != 0) {
        uint64_t one = bits_row(&bits);
        if (__builtin_popcountll(one) > __builtin_popcountll(best)) best = one;
    }
    return best;
}

/* Moves the pages of the caller's adjacent slots to the same place in the range at `to`, and frees the slots. OS_LOST: *hole
 * is lost. */
static enum os_moved slots_move(const struct slots *got, char *to, struct hole *hole) {
    unsigned first = (unsigned)__builtin_ctzll(got->bits), count = (unsigned)__builtin_popcountll(got->bits);
    huge_end(got->segment);
    hole->start = to + first * SLOT_BYTES;
    hole->bytes = count * SLOT_BYTES;
    enum os_moved outcome = os_move_pages(slot_start(got->segment, first), hole->bytes, hole->start);
    if (outcome == OS_MOVED) {
        and_rlx(&got->segment->dirty, ~got->bits);
        and_rlx(&got->segment->part, ~got->bits);
        heads_piece(to);
    }
    depot_put(got->segment, got->bits);
    return outcome;
}

/* Moves those of the segment's slots that fill the most of what is wanted; their bits leave *wanted. */
static enum os_moved segment_move(struct heap_segment *segment, uint64_t *wanted, char *to, struct hole *hole) {
    struct slots got = {NULL, 0, 0, 0};
    uint64_t found = load_rlx(&segment->free), dirty = load_rlx(&segment->dirty) & ~load_rlx(&segment->part);
    for (;;) {
        uint64_t bits = bits_longest(found & dirty & *wanted);
        if (__builtin_popcountll(bits) < MOVED_SLOTS) return OS_STAYED;
        if (slots_claim(&got, segment, &found, bits)) break;
    }
    enum os_moved outcome = slots_move(&got, to, hole);
    if (outcome == OS_MOVED) *wanted &= ~got.bits;
    return outcome;
}

/* In the range's segment that begins at offset `at`: its slots between the offsets `from` and `end`. */
static uint64_t slots_wanted(size_t at, size_t from, size_t end) {
    unsigned low = from <= at ? 0 : (unsigned)((from - at + SLOT_BYTES - 1) >> SLOT_SHIFT);
    unsigned high = end <= at ? 0 : (unsigned)min_u64((end - at) >> SLOT_SHIFT, SEGMENT_SLOTS);
    uint64_t below = high == 0 ? 0 : UINT64_MAX >> (64 - high);
    return low >= high ? 0 : below & UINT64_MAX << low & SLOTS_ALL;
}

bool depot_move(char *range, size_t from, size_t end, size_t *moved, struct hole *hole) {
    size_t at = 0;
    uint64_t wanted = slots_wanted(at, from, end);
    struct heap_segment *segment = os_moves() && heads_pieces() < PIECES_MAX ? depot_all() : NULL;
    *moved = 0;
    for (; segment != NULL && at < end; segment = load_rlx(&segment->older)) {
        uint64_t before = wanted;
        if (segment_move(segment, &wanted, range + at, hole) == OS_LOST) return false;
        *moved += (size_t)__builtin_popcountll(before & ~wanted) * SLOT_BYTES;
        while (__builtin_popcountll(bits_longest(wanted)) < MOVED_SLOTS && at < end)
            wanted = slots_wanted(at += SEGMENT_BYTES, from, end);
    }
    return true;
}

/* ---- turns of giving back ----------------------------------------------------------------------------------------- */

static size_t segment_purge(struct heap_segment *segment, bool all) {
    uint64_t dirty = load_rlx(&segment->dirty) & ~LISTED;
    size_t bytes = segment_purge_of(segment, all ? dirty : load_rlx(&segment->old) & dirty, SEGMENT_SLOTS);
    store_rlx(&segment->old, load_rlx(&segment->free) & load_rlx(&segment->dirty) & ~LISTED);
    return bytes;
}

size_t depot_hollow(void) {
    size_t bytes = 0;
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        bytes += segment_hollow(segment);
    return bytes;
}

void depot_give(size_t bytes) {
    size_t gone = 0;
    struct heap_segment *segment = depot_all();
    for (; segment != NULL && gone < bytes; segment = load_rlx(&segment->older))
        gone += segment_purge_of(segment, load_rlx(&segment->dirty) & ~LISTED,
                                 (uint32_t)((bytes - gone + SLOT_BYTES - 1) >> SLOT_SHIFT));
}

size_t depot_purge(bool all) {
    size_t bytes = 0;
    for (struct heap_segment *segment = depot_all(); segment != NULL; segment = load_rlx(&segment->older))
        bytes += segment_purge(segment, all);
    PROBE(purge, bytes, all);
    return bytes;
}
