/* drive_edges.c: what headers promise at the edges, where larger drivers come too rarely or do not look: a claim in each of its
 * states. */
#include "queue/claim.h"
#include "explore.h"

#include <string.h>

/* ---- a claim, by its runner and one other ------------------------------------------------------------------------- */

static struct {
    struct claim claim;
    struct segment segment;
    struct cell cells[SEGMENT_CELLS];
    struct piece piece, rest;
} claimed;

/* Three tasks, whose first `started` have begun. */
static void claim_setup(void) {
    memset(&claimed, 0, sizeof claimed);
    claimed.segment.cells = claimed.cells;
    store_rlx(&claimed.segment.shape, shape_make(1, SEGMENT_CELLS));
    claimed.piece = (struct piece){&claimed.segment, 0, 3, 1};
}
static uint64_t changes(void) { return load_rlx(&claimed.claim.state) >> 16; }
static bool revoke(bool force) { return claim_revoke(&claimed.claim, force, &claimed.rest); }
static bool has_rest(void) {
    bool has = claim_has_rest(&claimed.claim);
    EXPECT(has == (claim_mark(&claimed.claim) != 0));
    return has;
}

/* Nobody may take anything, and asking changes nothing: the runner is not made to look. */
static void expect_nothing(void) {
    uint64_t before = changes();
    EXPECT(!has_rest() && !revoke(false) && !revoke(true) && !claim_offer(&claimed.claim));
    claim_unoffer(&claimed.claim);
    EXPECT(!claim_is_offered(&claimed.claim) && changes() == before);
}

static void claim_life(void) {
    expect_nothing(); /* never opened */
    claim_open(&claimed.claim, &claimed.piece, 1, false);
    EXPECT(has_rest() && !revoke(false) && !claim_is_offered(&claimed.claim));
    uint64_t mark = claim_mark(&claimed.claim);
    EXPECT(claim_start(&claimed.claim, &claimed.piece, 1, 2) && claim_mark(&claimed.claim) != mark);
    /* Offered, what was not begun is taken in one change. */
    EXPECT(claim_offer(&claimed.claim) && claim_is_offered(&claimed.claim) && has_rest());
    uint64_t before = changes();
    EXPECT(revoke(false) && changes() == before + 1);
    EXPECT(claimed.rest.segment == &claimed.segment && claimed.rest.begin == 2 && claimed.rest.end == 3);
    expect_nothing(); /* taken */
    claim_close(&claimed.claim, &claimed.piece);
    EXPECT(claimed.piece.end == 2);
    expect_nothing(); /* closed, though its last task was not begun by its runner */
}
EXPLORE_DRIVER(edge_claim_life, .about = "a claim opened, offered, taken, closed: who may do what", .setup = claim_setup,
               .threads = {claim_life});

/* An offer that ends; a claim whose last task has begun. */
static void claim_end(void) {
    claim_open(&claimed.claim, &claimed.piece, 2, false);
    EXPECT(claim_offer(&claimed.claim));
    claim_unoffer(&claimed.claim);
    EXPECT(!claim_is_offered(&claimed.claim) && has_rest() && !revoke(false));
    EXPECT(claim_start(&claimed.claim, &claimed.piece, 2, 3));
    expect_nothing();
    claim_close(&claimed.claim, &claimed.piece);
    EXPECT(claimed.piece.end == 3);
    expect_nothing();
}
EXPLORE_DRIVER(edge_claim_end, .about = "a claim offered in vain, then begun to its end", .setup = claim_setup,
               .threads = {claim_end});

/* A loose claim: from the first on one change takes what was not begun, and only that. */
static void claim_loose(void) {
    claim_open(&claimed.claim, &claimed.piece, 1, true);
    EXPECT(has_rest() && claim_is_offered(&claimed.claim) && !claim_offer(&claimed.claim));
    uint64_t before = changes();
    EXPECT(claim_start(&claimed.claim, &claimed.piece, 1, 2) && changes() == before + 1 && claim_is_offered(&claimed.claim));
    if (explore_pick(2) == 0) {
        EXPECT(revoke(false) && claimed.rest.begin == 2 && claimed.rest.end == 3 && changes() == before + 2);
        EXPECT(!claim_start(&claimed.claim, &claimed.piece, 2, 3) && claimed.piece.end == 2);
    } else {
        EXPECT(claim_start(&claimed.claim, &claimed.piece, 2, 3) && claimed.piece.end == 3);
    }
    EXPECT(!has_rest() && !claim_is_offered(&claimed.claim) && !revoke(false) && !revoke(true));
    claim_close(&claimed.claim, &claimed.piece);
    expect_nothing();
}
EXPLORE_DRIVER(edge_claim_loose, .about = "a loose claim, begun to its end or taken", .setup = claim_setup,
               .threads = {claim_loose});

/* Another wants the rest and has not got it yet: it counts as there, may be offered, and another start ends the wish. */
static void claim_wanted(void) {
    claim_open(&claimed.claim, &claimed.piece, 1, false);
    store_rlx(&claimed.claim.state, (changes() + 1) << 16 | CLAIM_WANTED);
    EXPECT(has_rest() && !revoke(true));
    if (explore_pick(2) == 0) {
        EXPECT(claim_offer(&claimed.claim) && revoke(false) && claimed.rest.begin == 1);
    } else {
        uint64_t before = changes();
        EXPECT(claim_start(&claimed.claim, &claimed.piece, 1, 2) && changes() == before + 1);
        EXPECT((load_rlx(&claimed.claim.state) & 0xff) == CLAIM_OPEN);
    }
}
EXPLORE_DRIVER(edge_claim_wanted, .about = "a claim whose rest somebody has begun to take", .setup = claim_setup,
               .threads = {claim_wanted});

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
