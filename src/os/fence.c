/* fence.c: the asymmetric fence. Layer 1; its contract is in os.h.
 *
 * While the system's barrier (membarrier) serves heavy fences, light ones are for the compiler alone. It may stop working, by
 * a seccomp filter installed late; then both sides make full fences, from this on:
 *
 *   Heavy                                        Light
 *     1. its store                                 1. its store
 *     2. the barrier fails                         2. asymmetric: nothing, else a full fence
 *     3. asymmetric = false                        3. its load
 *     4. waits (O8)
 *     5. barrier_used = false
 *     6. full fence (O4), its load
 *
 * Light fences that read `asymmetric` before 3 order nothing, but the wait is far longer than any store stays in a processor's
 * buffer, or a thread takes to see another's: at its end what they ordered has become visible. So heavy fences that find
 * barrier_used cleared meet full fences on the other side, or stores that they see. Those that find the barrier failing
 * meanwhile wait themselves. A light fence reads the flag after its store, so a thread that is stopped between the two has
 * that store out: C11 lets a compiler change that order, but none of those that weft is built with does; a barrier between
 * the two would have gcc cut weft_submit in two.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   O4  os_fence_heavy_slow: fence  sc  light fences  without the barrier each side could miss the other's store
 *   O8  fence_degrade: settles      heavy  O4  a light fence under way when the barrier was lost: each side misses the other's store
 */
#include "os/os.h"

PROCESS_STATE os_flag os_fence_asymmetric;

/* Whether heavy fences still try the barrier. Cleared later than os_fence_asymmetric. */
static PROCESS_STATE os_flag barrier_used;

static NOINLINE void fence_degrade(void) {
    store_rlx(&os_fence_asymmetric, false);
    os_settle_heavy(O8);
    store_rlx(&barrier_used, false);
}

void os_fence_heavy_slow(void) {
    if (LIKELY(load_rlx(&barrier_used))) {
        if (LIKELY(os_barrier())) return;
        fence_degrade();
    }
    fence_sc(O4);
}

void fence_begin(void) {
    store_rlx(&barrier_used, true);
    store_rlx(&os_fence_asymmetric, true);
}
