/* pressure.c: gives free memory back to the system before the heap asks for more. Layer 2.
 *
 * Memory freed in one size often cannot serve another: slots left by small blocks are no range for a large one, and the ranges left
 * by large ones have no slots. Decay gives them back, but takes time, during which the process holds both. A cgroup with a memory
 * limit may kill the process meanwhile. So before a thread uses memory that is not present yet, it gives back as much free memory.
 * It does so only while the free memory that cannot serve it exceeds a fifth of the live memory, or all free memory exceeds half of
 * it, because between blocks of many sizes some memory is always free. So the process does not hold more than before. That costs a
 * page fault and part of a system call for each page; the first use of a new page costs a fault as well.
 *
 * Threads change both counts without synchronisation, so the amounts may be seen too large or too small for a moment. */
#include "heap/heap.h"

#ifndef PRESSURE_MIN
#define PRESSURE_MIN ((size_t)8 << 20) /* free memory that is always left to decay */
#endif
#define OTHERS_PART 5 /* free memory for the other side may be this part of live memory, */
#define OWN_PART 2    /* and all free memory this part */
#define BATCH ((size_t)1 << 20)

static size_t above(size_t held, size_t live, size_t part) {
    size_t most = (size_t)max_u64(PRESSURE_MIN, live / part);
    return held > most ? held - most : 0;
}

/* Gives back twice as many bytes of the other side's free memory as are about to be used: its slots may be only partly in
 * memory. */
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
