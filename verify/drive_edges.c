/* drive_edges.c: what headers promise at the edges, where larger drivers come too rarely or do not look. */
#include "os/os.h"
#include "explore.h"

#include <string.h>

/* ---- the asymmetric fence ----------------------------------------------------------------------------------------- */

static void fence_setup(void) { fence_begin(); }
/* While the barrier serves, light fences stay light. */
static void fence_thrice(void) {
    for (int i = 0; i < 3; i++) {
        os_fence_heavy_slow();
        EXPECT(load_rlx(&os_fence_asymmetric));
    }
}
EXPLORE_DRIVER(edge_fence_serves, .about = "heavy fences with a barrier that serves", .setup = fence_setup,
               .threads = {fence_thrice}, .flags = EXPLORE_ALWAYS_LIGHT);
