/* drive_edges_heap.c: the heap's small parts at their edges: a stack whose topmost item was gone and is back. */
#include "pages/heads.h"
#include "heap/heap.h"
#include "explore.h"

#include <string.h>

/* ---- the topmost item goes and comes back ------------------------------------------------------------------------- */

struct entry {
    ALIGNED(SLOT_BYTES) tagged_link link;
    ATOMIC(uint32_t) owners;
};

static struct {
    struct tagged stack;
    struct entry entry[3];
} piled;

static void piled_setup(void) {
    memset(&piled.stack, 0, sizeof piled.stack);
    EXPECT(tagged_is_empty(&piled.stack));
    for (int i = 0; i < 3; i++) {
        store_rlx(&piled.entry[i].owners, 0);
        store_rlx(&piled.entry[i].link, 0);
        tagged_push(&piled.stack, &piled.entry[i], 0);
        EXPECT(!tagged_is_empty(&piled.stack));
    }
}
static struct entry *entry_take(void) {
    struct entry *entry = tagged_pop(&piled.stack, 0);
    if (entry != NULL) EXPECT(add_rlx(&entry->owners, 1) == 0);
    return entry;
}
static void entry_put(struct entry *entry) {
    if (entry == NULL) return;
    EXPECT(add_rlx(&entry->owners, UINT32_MAX) == 1);
    tagged_push(&piled.stack, entry, 0);
}
static void take_one(void) { entry_take(); }
static void take_two_put_one(void) {
    struct entry *first = entry_take();
    entry_take();
    entry_put(first);
}
/* What nobody owns is in the stack, each once. */
static void piled_check(void) {
    uint32_t owned = 0;
    for (int i = 0; i < 3; i++) owned += load_rlx(&piled.entry[i].owners);
    for (; owned < 3; owned++) EXPECT(entry_take() != NULL);
    EXPECT(entry_take() == NULL && tagged_is_empty(&piled.stack));
}
EXPLORE_DRIVER(edge_stack_back, .about = "the topmost item is taken and put back between another's two looks",
               .setup = piled_setup, .threads = {take_one, take_two_put_one}, .check = piled_check);

/* ---- where heads stand -------------------------------------------------------------------------------------------- */

static void *head_at(uint64_t region, uint64_t number) {
    return (void *)(uintptr_t)((region * LEAF_HEADS + number) << SEGMENT_SHIFT);
}
static void head_stands(uint64_t region, uint64_t number) {
    EXPECT(!heads_has(head_at(region, number)));
    EXPECT(heads_add(head_at(region, number)) && heads_has(head_at(region, number)));
    EXPECT(!heads_has(head_at(region, 70)) && !heads_has(head_at(region + LEAF_LISTS, 7)));
}
static void head_first(void) { head_stands(3, 7); }
static void head_beside(void) { head_stands(3, 8); }
static void head_far(void) { head_stands(3 + 2 * LEAF_LISTS, 7); }
static void heads_check(void) {
    EXPECT(heads_has(head_at(3, 7)) && heads_has(head_at(3, 8)) && heads_has(head_at(3 + 2 * LEAF_LISTS, 7)));
    heads_remove(head_at(3, 7));
    EXPECT(!heads_has(head_at(3, 7)) && heads_has(head_at(3, 8)) && heads_has(head_at(3 + 2 * LEAF_LISTS, 7)));
}
EXPLORE_DRIVER(heap_heads, .about = "heads are noted in one region, and in one whose leaf is in the same list",
               .threads = {head_first, head_beside, head_far}, .check = heads_check);

static void heads_setup(void) { EXPECT(heads_add(head_at(3, 7))); }
static void head_goes(void) { heads_remove(head_at(3, 7)); }
static void heads_gone_check(void) { EXPECT(!heads_has(head_at(3, 7)) && heads_has(head_at(3 + 2 * LEAF_LISTS, 7))); }
EXPLORE_DRIVER(heap_heads_gone, .about = "a head goes while another region's leaf is put before its own",
               .setup = heads_setup, .threads = {head_goes, head_far}, .check = heads_gone_check);

/* ---- the depot beside a list of what each slot is ----------------------------------------------------------------- */

enum { SEGMENTS = 3, STEPS = 24 };
enum sort { WHOLE, PART, CLEAN, TAKEN }; /* free and dirty; the same, but in part; free and never used; not free */

static struct {
    struct heap_segment *segment[SEGMENTS];
    uint64_t segments;
    enum sort slot[SEGMENTS][SEGMENT_SLOTS];
    bool old[SEGMENTS][SEGMENT_SLOTS]; /* was free and dirty at the last purge, and not taken since */
} list;

static void list_setup(void) {
    memset(&list, 0, sizeof list);
    memset(&depot, 0, sizeof depot);
    store_rlx(&heaps.decay_ms, -1); /* nothing is given back but by purge */
}

static uint32_t number_of(struct heap_segment *segment) {
    for (uint32_t i = 0; i < list.segments; i++)
        if (list.segment[i] == segment) return i;
    EXPECT(list.segments < SEGMENTS && load_rlx(&depot.segments) == list.segments + 1);
    uint32_t fresh = (uint32_t)list.segments++;
    list.segment[fresh] = segment;
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++) list.slot[fresh][i] = i < HEAD_SLOTS ? TAKEN : CLEAN;
    return fresh;
}

static uint32_t count_of(uint32_t segment, enum sort sort) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++) count += list.slot[segment][i] == sort;
    return count;
}
/* The best there is anywhere. */
static enum sort best_sort(void) {
    enum sort best = TAKEN;
    for (uint32_t i = 0; i < list.segments; i++)
        for (uint32_t k = 0; k < SEGMENT_SLOTS; k++)
            if (list.slot[i][k] < best) best = list.slot[i][k];
    return best;
}

/* The slots are the caller's now; they were what the depot says of them. */
static void list_take(struct slots got) {
    uint32_t segment = number_of(got.segment);
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if ((got.bits & bit) == 0) {
            EXPECT((got.dirty & bit) == 0 && (got.part & bit) == 0);
            continue;
        }
        enum sort sort = list.slot[segment][i];
        EXPECT(sort != TAKEN && ((got.dirty & bit) != 0) == (sort != CLEAN) && ((got.part & bit) != 0) == (sort == PART));
        list.slot[segment][i] = TAKEN;
    }
    if (explore_pick(4) == 0) { /* not used after all */
        depot_put(got.segment, got.bits);
        for (uint32_t i = 0; i < SEGMENT_SLOTS; i++)
            if ((got.bits >> i & 1) != 0)
                list.slot[segment][i] = (got.part >> i & 1) != 0 ? PART : (got.dirty >> i & 1) != 0 ? WHOLE : CLEAN;
        return;
    }
    depot_soil(got);
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++) {
        if ((got.bits >> i & 1) == 0) continue;
        list.old[segment][i] = false;
    }
}

static void take_some(void) {
    uint32_t count = 1 + explore_pick(4);
    enum sort sort = best_sort();
    struct slots got = depot_take(count);
    EXPECT(got.segment != NULL && got.bits != 0);
    uint64_t before = list.segments;
    uint32_t segment = number_of(got.segment);
    EXPECT((list.segments != before) == (sort == TAKEN));
    if (sort == TAKEN) sort = CLEAN;
    for (uint32_t i = 0; i < SEGMENT_SLOTS; i++)
        if ((got.bits >> i & 1) != 0) EXPECT(list.slot[segment][i] == sort);
    EXPECT((uint32_t)__builtin_popcountll(got.bits) == min_u64(count, count_of(segment, sort)));
    list_take(got);
}

static void take_part(void) {
    bool is_there = false;
    for (uint32_t i = 0; i < list.segments; i++) is_there |= count_of(i, PART) != 0;
    struct slots got = depot_take_part();
    EXPECT((got.segment != NULL) == is_there);
    if (got.segment == NULL) return;
    EXPECT(__builtin_popcountll(got.bits) == 1 && got.part == got.bits);
    list_take(got);
}

/* Of slots that are no worse. */
static bool is_run_of(enum sort worst, uint32_t segment, uint32_t at, uint32_t count, uint32_t align) {
    if (at % align != 0 || at + count > SEGMENT_SLOTS) return false;
    for (uint32_t i = at; i < at + count; i++)
        if (list.slot[segment][i] > worst) return false;
    return true;
}
static bool is_run(uint32_t segment, uint32_t at, uint32_t count, uint32_t align) {
    return is_run_of(CLEAN, segment, at, count, align);
}
static bool has_run(enum sort worst, uint32_t count, uint32_t align) {
    for (uint32_t i = 0; i < list.segments; i++)
        for (uint32_t at = 0; at < SEGMENT_SLOTS; at++)
            if (is_run_of(worst, i, at, count, align)) return true;
    return false;
}
/* How many slots side by side are free around that one, and the first of them. */
static uint32_t gap_at(uint32_t segment, uint32_t at, uint32_t *first) {
    uint32_t end = at;
    *first = at;
    while (*first > 0 && list.slot[segment][*first - 1] != TAKEN) --*first;
    while (end < SEGMENT_SLOTS && list.slot[segment][end] != TAKEN) end++;
    return end - *first;
}
/* The lowest in its gap; of those that are all in memory one in the narrowest gap of the segment. */
static bool is_best_run(enum sort worst, uint32_t segment, uint32_t at, uint32_t count, uint32_t align) {
    uint32_t first, other, width = gap_at(segment, at, &first);
    for (uint32_t lower = first; lower < at; lower++)
        if (is_run_of(worst, segment, lower, count, align)) return false;
    for (uint32_t i = 0; worst == PART && i < SEGMENT_SLOTS; i++)
        if (is_run_of(worst, segment, i, count, align) && gap_at(segment, i, &other) < width) return false;
    return true;
}
static void take_run(void) {
    uint32_t count = 1 + explore_pick(6), align = 1u << explore_pick(4);
    bool is_there = has_run(CLEAN, count, align);
    enum sort worst = has_run(PART, count, align) ? PART : CLEAN;
    struct slots got = depot_take_run(count, align);
    if (got.segment == NULL) { /* no segment has so many beside its head */
        EXPECT(!is_there && bits_find(SLOTS_ALL, count, align) == 0);
        return;
    }
    uint64_t before = list.segments;
    uint32_t segment = number_of(got.segment), at = (uint32_t)__builtin_ctzll(got.bits);
    EXPECT((list.segments == before) == is_there);
    EXPECT(is_run_of(worst, segment, at, count, align) && got.bits == ((UINT64_C(1) << count) - 1) << at);
    EXPECT(is_best_run(worst, segment, at, count, align));
    list_take(got);
}

/* Slots next to each other, wherever. */
static void take_at(void) {
    if (list.segments == 0) return;
    uint32_t segment = explore_pick((uint32_t)list.segments), at = explore_pick(SEGMENT_SLOTS), count = 1 + explore_pick(3);
    if (at == 0 || at + count > SEGMENT_SLOTS) return;
    struct slots got = {NULL, 0, 0, 0};
    bool is_free = is_run(segment, at, count, 1);
    EXPECT(depot_take_at(&got, list.segment[segment], ((UINT64_C(1) << count) - 1) << at) == is_free);
    if (is_free) list_take(got);
}

static void put_one(void) {
    for (uint32_t tries = 0; tries < 8 && list.segments != 0; tries++) {
        uint32_t segment = explore_pick((uint32_t)list.segments), at = explore_pick(SEGMENT_SLOTS);
        if (at < HEAD_SLOTS || list.slot[segment][at] != TAKEN) continue;
        bool in_part = explore_pick(2) == 0;
        (in_part ? depot_put_part : depot_put)(list.segment[segment], UINT64_C(1) << at);
        list.slot[segment][at] = in_part ? PART : WHOLE;
        return;
    }
}

static void purge(void) {
    bool all = explore_pick(2) == 0;
    size_t slots = 0;
    for (uint32_t i = 0; i < list.segments; i++) {
        for (uint32_t k = 0; k < SEGMENT_SLOTS; k++) {
            bool is_dirty = list.slot[i][k] == WHOLE || list.slot[i][k] == PART, goes = is_dirty && (all || list.old[i][k]);
            if (goes) list.slot[i][k] = CLEAN;
            list.old[i][k] = is_dirty && !goes;
            slots += goes;
        }
    }
    uint64_t purges = load_rlx(&depot.purges);
    EXPECT(depot_purge(all) == slots * SLOT_BYTES && (load_rlx(&depot.purges) != purges) == (slots != 0));
}

static void use_depot(void) {
    static void (*const steps[])(void) = {take_some, take_part, take_run, take_at, put_one, put_one, purge};
    for (int i = 0; i < STEPS; i++) {
        if (list.segments == SEGMENTS && best_sort() == TAKEN) return;
        uint32_t step = explore_pick(sizeof steps / sizeof steps[0]);
        if (list.segments == SEGMENTS && steps[step] == take_run) continue; /* it might make one more */
        steps[step]();
    }
}
EXPLORE_DRIVER(edge_depot, .about = "what the depot gives, keeps and purges, beside a list of all slots",
               .setup = list_setup, .threads = {use_depot});

/* ---- a run in a segment deep below -------------------------------------------------------------------------------- */

enum { MANY = 12, RUN = 3 }; /* more than depot_take_run looks at on the stack */

static struct {
    struct heap_segment *segment[MANY];
    struct slots got[2];
} far;

static void far_setup(void) {
    memset(&depot, 0, sizeof depot);
    memset(&far, 0, sizeof far);
    for (int i = 0; i < MANY; i++) { /* all taken */
        struct slots got = depot_take(SEGMENT_SLOTS);
        EXPECT(got.bits == SLOTS_ALL);
        depot_soil(got);
        far.segment[i] = got.segment;
    }
}
static void far_run(void) {
    uint32_t deep = explore_pick(MANY), deeper = explore_pick(MANY);
    const uint64_t run = ((UINT64_C(1) << RUN) - 1) << (SEGMENT_SLOTS - RUN), one = UINT64_C(1) << HEAD_SLOTS;
    depot_put(far.segment[deep], run);
    if (deeper != deep) depot_put(far.segment[deeper], run);
    for (int i = 0; i < MANY; i++) depot_put(far.segment[i], one);
    for (int i = 0; i < (deeper == deep ? 1 : 2); i++) {
        struct slots got = depot_take_run(RUN, 1);
        EXPECT((got.segment == far.segment[deep] || got.segment == far.segment[deeper]) && got.bits == run);
    }
    EXPECT(load_rlx(&depot.segments) == MANY);
    struct slots fresh = depot_take_run(RUN, 1);
    EXPECT(fresh.segment != NULL && load_rlx(&depot.segments) == MANY + 1);
}
EXPLORE_DRIVER(edge_depot_far, .about = "the only runs lie in segments deep below others", .setup = far_setup,
               .threads = {far_run});

/* Two want the same slots. */
static void at_setup(void) {
    far_setup();
    depot_put(far.segment[0], UINT64_C(3) << HEAD_SLOTS);
}
static void take_first(void) { depot_take_at(&far.got[0], far.segment[0], UINT64_C(1) << HEAD_SLOTS); }
static void take_both(void) {
    bool has = depot_take_at(&far.got[1], far.segment[0], UINT64_C(3) << HEAD_SLOTS);
    EXPECT(has == (far.got[1].segment != NULL));
}
static void at_check(void) {
    bool has_one = far.got[0].segment != NULL, has_two = far.got[1].segment != NULL;
    EXPECT(has_one != has_two);
    EXPECT((load_rlx(&far.segment[0]->free) & ~LISTED) == (has_one ? UINT64_C(2) << HEAD_SLOTS : 0));
}
EXPLORE_DRIVER(edge_depot_at, .about = "two take slots of which one is the same", .setup = at_setup,
               .threads = {take_first, take_both}, .check = at_check);
