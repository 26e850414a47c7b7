/* test_fork_many.c: more forked calls open at once than a span holds. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { CALLS = 800 }; /* three spans are full, a fourth is begun */

typedef sem_t *semaphore;
static void tell(weft_place *here, semaphore done) {
    (void)here;
    sem_post(done);
}
WEFT_FORK_VOID(tell, semaphore)

/* While the caller is in something long, all that it has forked is run by another, whichever place it was noted at. */
static void test_long_leaf_strands_no_span(void **state) {
    (void)state;
    static weft_place *place[CALLS];
    weft_pool *pool = make_pool(1);
    sem_t done;
    semaphore argument = &done;
    REQUIRE(sem_init(&done, 0, 0) == 0);
    for (unsigned round = 0; round < 3; round++) {
        weft_place *here = NULL;
        assert_int_equal(weft_enter(pool, &here), WEFT_OK);
        for (unsigned i = 0; i < CALLS; i++) {
            place[i] = here;
            here = tell_fork(here, &argument);
        }
        for (unsigned i = 0; i < CALLS; i++) await(&done);
        for (unsigned i = CALLS; i-- > 0;) tell_join(place[i], &argument);
        assert_int_equal(sem_trywait(&done), -1); /* none ran twice */
        weft_leave(place[0]);
        nap();
    }
    sem_destroy(&done);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_leaf_strands_no_span)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
