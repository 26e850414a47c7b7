/* pressure.c: see pressure.h.
 *
 * Memory freed in one size often cannot serve another: slots that small blocks left are no range for a large one, and the ranges that
 * large ones left have no slots. Decay gives it back, but takes time, in which the process holds both; and where the kernel counts
 * what a group of processes holds, it kills before anybody was told. So who is about to use memory that is not there has as much given
 * back first, as long as more than an eighth of what lives is free that cannot serve, or more than half of it altogether, for between blocks of
 * many sizes some is always free: what the process holds does not rise. That costs a page fault and a
 * system call's share for each page, where the pages' first use costs a fault as well.
 *
 * Both are counts that threads change without synchronisation: in between, too much or too little is seen to be free. */
#include "heap/pressure.h"

#include "heap/heap.h"
#include "heap/kept.h"

#ifndef PRESSURE_MIN
#define PRESSURE_MIN ((size_t)8 << 20) /* free memory that is left to decay in any case */
#endif
#define OTHERS_PART 8 /* of what lives: as much may be free for the other side, */
#define OWN_PART 2    /* and as much altogether */
#define BATCH ((size_t)1 << 20)

static size_t above(size_t held, size_t live, size_t part) {
    size_t most = (size_t)max_u64(PRESSURE_MIN, live / part);
    return held > most ? held - most : 0;
}

/* Of what is free for the other side twice as much as is used: slots may be in memory in part. */
void pressure_before(size_t bytes, enum pressure side) {
    size_t spare = depot_spare_bytes(), kept = kept_held();
    if (LIKELY(spare + kept <= PRESSURE_MIN) || load_rlx(&heaps.decay_ms) < 0) return;
    size_t live = depot_taken_bytes() + large_live_bytes();
    size_t others =
        (size_t)min_u64(above(side == PRESSURE_SLOTS ? kept : spare, live, OTHERS_PART), max_u64(2 * bytes, BATCH));
    size_t all = (size_t)min_u64(above(spare + kept, live, OWN_PART), max_u64(bytes, BATCH));
    size_t wanted = (size_t)max_u64(others, all);
    if (wanted == 0) return;
    size_t gone = side == PRESSURE_SLOTS ? kept_give(wanted) : 0;
    if (gone < wanted) depot_give(wanted - gone);
}
