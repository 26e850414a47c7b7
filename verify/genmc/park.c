/* park.c: one that publishes work and one that goes to sleep (src/queue/park.c): no wake-up is lost. */
#include "genmc.h"

#include "../../src/queue/park.c"

/* The store's part is not what is looked at. */
void *store_get(struct store *store, size_t bytes) {
    (void)store;
    return calloc(1, bytes);
}

static struct park park;
static ATOMIC(uint32_t) work;
static bool has_slept, was_woken;

static void *submitter(void *unused) {
    store_rel(L6, &work, 1);
    fence_sc(T1);
    uint64_t word = park_glance(&park);
    if (word != 0 && word < PARK_SEARCHER) was_woken = park_wake(&park);
    return unused;
}
static void *worker(void *unused) {
    park_announce(&park, 0, false);
    if (load_rlx(&work) != 0) {
        park_retract(&park, 0);
    } else {
        has_slept = true;
        assert(park_sleep(&park, 0, 0, 0) == PARK_WOKEN); /* blocked for ever, if the wake-up is lost */
        assert(load_acq(L6, &work) == 1);
    }
    park_unscout(&park, 0);
    return unused;
}

int main(void) {
    assert(park_init(&park, NULL, 1));
    run_threads((void *(*const[])(void *)){submitter, worker}, 2);
    struct park_view view = park_look(&park);
    assert(view.parked == 0 && view.searchers == 0);
    assert(!has_slept || was_woken);
    return 0;
}
