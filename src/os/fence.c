/* fence.c: the asymmetric fence. Layer 1; its contract is in os.h.
 *
 * While the system's barrier (membarrier) serves heavy fences, light ones bind only the compiler. The barrier may stop
 * working, if a seccomp filter is installed late. From then on both sides make full fences:
 *
 *   Heavy                                        Light
 *     1. its store                                 1. its store
 *     2. the barrier fails                         2. asymmetric: nothing, else a full fence
 *     3. asymmetric = false                        3. its load
 *     4. waits (O8)
 *     5. barrier_used = false
 *     6. full fence (O4), its load
 *
 * A light fence that read `asymmetric` before step 3 orders nothing in the processor. But the wait is far longer than any
 * store stays in a store buffer, or than another thread takes to see it: when the wait ends, what that light fence was to
 * order is visible. So a heavy fence that finds barrier_used cleared meets full fences on the other side, or stores that it
 * sees. A heavy fence that finds the barrier failing meanwhile waits itself. A light fence reads the flag after its store,
 * so a thread that is stopped between the two has already issued that store. C11 lets a compiler reorder them, but none that
 * weft is built with does; a compiler barrier between the two would make gcc split weft_submit in two.
 *
 * Ordering table (tag, site, order, pairs with, what breaks without it)
 *   O4  os_fence_heavy_slow: fence  sc  light fences  without the barrier each side could miss the other's store
 *   O8  fence_degrade: settles      heavy  O4  a light fence under way when the barrier was lost: each side misses the other's store
 */
#include "os/os.h"

PROCESS_STATE os_flag os_fence_asymmetric;

/* Whether heavy fences still try the barrier. Cleared after os_fence_asymmetric. */
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
