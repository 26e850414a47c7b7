/* heap_asleep.c: gives back what others have freed of a sleeping thread's blocks. Layer 2.
 *
 * Such blocks wait in the owner's inbox until it allocates again, which may be never. So a turn of decay visits the heaps
 * whose owners have neither allocated nor freed since the turn before, and a trim visits all heaps: slabs in the inbox all of
 * whose blocks are free lose their pages. They stay the owner's, who finds them in its inbox when it wakes up, as if they had
 * arrived just then. The owner waits for a visitor only if it finds no memory elsewhere: then a visitor may have what it needs.
 *
 *   A visitor                                            The owner, for each slab that it takes blocks from
 *     1. visitors + 1; takes the whole inbox; the slabs      1. carves: used + count
 *        in it are held: the owner cannot collect            2. (light fence)
 *        from them                                           3. visitors is not 0, and the slab is HELD? Frees what it
 *     2. state + HELD of each slab                              has carved and puts the slab aside (DRAINING)
 *     3. heavy fence                                         No memory: waits until visitors is 0, and collects again
 *     4. for each slab: counts the remote bits. If there
 *        are as many as used, gives the pages back and
 *        marks the slab GIVEN
 *     5. state - HELD
 *     6. pushes the slabs onto the inbox again
 *     7. visitors - 1; wakes the owner
 *
 * Why no page goes that holds a block in use: remote bits are blocks that their users have freed, and nobody but the owner
 * takes such bits away, in collecting, which needs the slab from the inbox. As many as used: no block is in a cache or in
 * use. `used` grows only when the owner carves. If that store comes before the heavy fence, the visitor sees it and lets the
 * slab be. If not, the owner sees HELD and uses nothing of what it carved. Once HELD is gone, the owner may carve, and by
 * then the pages are gone.
 *
 * The last uses of those blocks come before the pages go: of blocks that others freed by the remote bits, of blocks that the
 * owner freed by `used`, and of blocks that the owner collected because it lowered the state (B5) before the sender raised it
 * again (B1) and pushed the slab.
 *
 * A slab in a visitor's hands has announced frees, so nobody abandons or reuses it: for its owner it is one that is about to
 * be pushed. A slab that the owner has put aside comes back through the inbox. GIVEN keeps the next visitor from giving the
 * same pages back, until the owner collects. The heap of an ended thread, or one that a new thread takes, changes nothing:
 * whoever carves is its owner. In a child of fork, slabs that a visitor held at that moment are lost. The word of visitors
 * holds the count of forks, so that nobody in the child waits for a visitor of the parent's.
 *
 * Private heaps are not visited, because destroying one must find its slabs; nor are any in checked mode, whose blocks end in
 * patterns that must stay.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   H8  heap_visit: heavy fence         heavy    H9      pages of blocks in use are given back
 *   H10 visit_end: state - HELD         release  H12     the owner's new block loses its contents
 *   H11 visit_end: visitors - 1         release  H13     see H10
 *   H15 visit_begin: CAS visitors       relaxed  -       split: a visitor is not counted, see H8
 *   H16 heap_visit_wait: load visitors  acquire  H11     the inbox is found empty, and memory is refused, while it is full
 *   H17 heap_visit: fence               sc       H18     the owner finds the inbox empty, but no visitor: as H16
 *   H18 heap_visit_wait: fence          sc       H17     see H17
 *   H19 heap_visit_wait: load first     acquire  H17     see H17, of a visitor who came after the first look
 *   H14 may_give: load used             acquire  B17     see B16 (slab.c), of blocks that the owner frees
 */
#include "heap/heap.h"

/* ---- a visit ------------------------------------------------------------------------------------------------------ */

/* Whether the slab, which the caller holds, has only free blocks, and its pages were not given back yet. */
static bool may_give(struct slab *slab) {
    if ((load_rlx(&slab->state) & SLAB_GIVEN) != 0 || slot_kind(segment_of(slab), slab_slot(slab)) >= CLASSES) return false;
    uint32_t used = load_acq(H14, &slab->used);
    return used != 0 && slab_arrived(slab) == used;
}

static size_t give(struct slab *slab) {
    size_t bytes = os_resident(slab_start(slab), SLOT_BYTES);
    depot_purge_pages(slab_start(slab), SLOT_BYTES);
    add_rlx(&slab->state, SLAB_GIVEN);
    add_rlx(&depot.given, 1);
    return bytes;
}

/* The word of visitors: how many there are, how many came so far, and forks; each of them only by its lowest bits. */
#define FORKS_SHIFT 24
static uint32_t no_visitors(void) { return (uint32_t)os_fork_count() << FORKS_SHIFT; }
static bool is_ours(uint32_t visitors) { return visitors >> FORKS_SHIFT == no_visitors() >> FORKS_SHIFT; }
static uint32_t visitor_more(uint32_t visitors) {
    return no_visitors() | (((is_ours(visitors) ? visitors : 0) + VISITORS + 1) & ((1u << FORKS_SHIFT) - 1));
}

/* false: there are too many. */
static bool visit_begin(struct inbox *inbox) {
    uint32_t found = load_rlx(&inbox->visitors), more;
    do {
        more = visitor_more(found);
        if (more % VISITORS == 0) return false;
    } while (!cas_rlx(H15, &inbox->visitors, &found, more));
    return true;
}

/* first: the slabs taken, if any. */
static void visit_end(struct inbox *inbox, struct slab *first) {
    struct slab *last = first;
    for (struct slab *slab = first; slab != NULL; slab = load_rlx(&slab->link)) {
        add_rel(H10, &slab->state, -(uint64_t)SLAB_HELD);
        last = slab;
    }
    if (first != NULL) slabs_push_row(&inbox->first, first, last);
    add_rel(H11, &inbox->visitors, (uint32_t)-1);
    os_wake(&inbox->visitors, 1);
}

size_t heap_visit(struct heap *heap) {
    size_t bytes = 0;
    if (load_rlx(&heap->inbox.first) == NULL || !visit_begin(&heap->inbox)) return 0;
    fence_sc(H17);
    struct slab *first = slabs_take(&heap->inbox.first);
    for (struct slab *slab = first; slab != NULL; slab = load_rlx(&slab->link)) add_rlx(&slab->state, SLAB_HELD);
    if (first != NULL) os_fence_heavy(H8);
    for (struct slab *slab = first; slab != NULL; slab = load_rlx(&slab->link))
        if (may_give(slab)) bytes += give(slab);
    visit_end(&heap->inbox, first);
    return bytes;
}

/* If the word is the same before and after, nobody has taken the inbox in between. */
bool heap_visit_wait(struct heap *heap) {
    bool has_waited = false;
    fence_sc(H18);
    for (;;) {
        uint32_t found = load_acq(H16, &heap->inbox.visitors);
        if (found % VISITORS != 0 && is_ours(found)) {
            os_wait(&heap->inbox.visitors, found, 0);
            has_waited = true;
            continue;
        }
        if (has_waited || load_acq(H19, &heap->inbox.first) != NULL) return true;
        if (load_rlx(&heap->inbox.visitors) == found) return false;
    }
}

/* ---- whom to visit ------------------------------------------------------------------------------------------------ */

static bool may_visit(const struct heap *heap) {
    return load_rlx(&heap->privacy) == PRIVACY_NONE && load_rlx(&heap->inbox.first) != NULL;
}

/* Changes with each allocation and free of the owner's, but for a change in some 2^60. */
static uint64_t activity_of(const struct heap *heap) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < CACHED; i++)
        sum = (sum + load_rlx(&heap->frees[i])) * 31 + (uint64_t)(uintptr_t)load_rlx(&heap->top[i]);
    return sum;
}

/* Messages of frees sent so far, also by threads that have ended, plus 1. They are counted when they have arrived. The sum
 * does not shrink, except for a moment while a heap becomes bare, so as long as it is the same, nothing was sent. */
static uint64_t sends_now(const struct heap *first) {
    uint64_t sum = 1;
    for (unsigned i = 0; i < CLASSES; i++) sum += load_rlx(&heaps.past[i][COUNT_REMOTE_SENDS]);
    for (const struct heap *heap = first; heap != NULL; heap = load_rlx(&heap->older))
        for (unsigned i = 0; i < CLASSES && !load_rlx(&heap->has_no_bins); i++)
            sum += load_rlx(&heap->bins[i].count[COUNT_REMOTE_SENDS]);
    return sum;
}

/* The next heap from there on that may be visited. */
static struct heap *heap_to_visit(struct heap *heap) {
    while (heap != NULL && !may_visit(heap)) heap = load_rlx(&heap->older);
    return mode_checks() ? NULL : heap;
}

/* Whether something was sent, to whomever, or the owner did something, since the heap was last visited with its owner
 * asleep. */
static bool has_news(const struct heap *heap, uint64_t sends) { return load_rlx(&heap->visited_at) != sends; }

bool heap_asleep_waits(struct heap *first) {
    struct heap *heap = heap_to_visit(first);
    uint64_t sends = heap == NULL ? 0 : sends_now(first);
    while (heap != NULL && !has_news(heap, sends)) heap = heap_to_visit(load_rlx(&heap->older));
    return heap != NULL;
}

void heap_asleep_turn(struct heap *first) {
    struct heap *heap = heap_to_visit(first);
    uint64_t sends = heap == NULL ? 0 : sends_now(first);
    for (; heap != NULL; heap = heap_to_visit(load_rlx(&heap->older))) {
        uint64_t activity = activity_of(heap), before = load_rlx(&heap->activity);
        store_rlx(&heap->activity, activity);
        if (activity != before) store_rlx(&heap->visited_at, 0); /* it may have freed the rest of a slab */
        if (activity != before || !has_news(heap, sends)) continue;
        heap_visit(heap);
        store_rlx(&heap->visited_at, sends);
    }
}

size_t heap_asleep_trim(struct heap *first) {
    size_t bytes = 0;
    struct heap *heap = heap_to_visit(first);
    for (; heap != NULL; heap = heap_to_visit(load_rlx(&heap->older))) bytes += heap_visit(heap);
    return bytes;
}
