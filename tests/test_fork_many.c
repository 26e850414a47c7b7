/* test_fork_many.c: more forked calls open at once than a span holds. */
#define _GNU_SOURCE
#include "os_help.h"
#include "pool_help.h"

enum { CALLS = 800 }; /* three spans are full, a fourth is begun */

typedef sem_t *semaphore;
static void tell(weft_fork_slot *here, semaphore done) {
    (void)here;
    sem_post(done);
}
WEFT_FORK_VOID(tell, semaphore)

/* While the caller is in something long, all that it has forked is run by another, whichever place it was noted at. */
static void test_long_leaf_strands_no_span(void **state) {
    (void)state;
    static weft_fork_slot *place[CALLS];
    weft_pool *pool = make_pool(1);
    sem_t done;
    semaphore argument = &done;
    REQUIRE(sem_init(&done, 0, 0) == 0);
    for (unsigned round = 0; round < 3; round++) {
        weft_fork_slot *here = NULL;
        assert_int_equal(weft_fork_enter(pool, &here), WEFT_OK);
        for (unsigned i = 0; i < CALLS; i++) {
            place[i] = here;
            here = tell_fork(here, &argument);
        }
        for (unsigned i = 0; i < CALLS; i++) await(&done);
        for (unsigned i = CALLS; i-- > 0;) tell_join(place[i], &argument);
        assert_int_equal(sem_trywait(&done), -1); /* none ran twice */
        weft_fork_leave(place[0]);
        nap();
    }
    sem_destroy(&done);
    end_pool(pool);
}

/* Calls forked while nobody was idle are taken several at once. A worker that is long in the oldest leaves the others to
 * another worker, the caller being long in something, too. */
static void hold(weft_fork_slot *here, semaphore until) {
    (void)here;
    await(until);
}
WEFT_FORK_VOID(hold, semaphore)

static void test_what_is_taken_at_once_is_for_all(void **state) {
    (void)state;
    static weft_fork_slot *place[CALLS];
    weft_pool *pool = make_pool(2);
    sem_t done, all_done;
    semaphore argument = &done, until = &all_done;
    REQUIRE(sem_init(&done, 0, 0) == 0 && sem_init(&all_done, 0, 0) == 0);
    for (unsigned round = 0; round < 6; round++) {
        gate g[2];
        weft_group group = WEFT_GROUP_INIT;
        weft_fork_slot *first = NULL;
        for (unsigned i = 0; i < 2; i++) gate_occupy(&g[i], pool, &group);
        assert_int_equal(weft_fork_enter(pool, &first), WEFT_OK);
        weft_fork_slot *here = hold_fork(first, &until);
        for (unsigned i = 0; i < CALLS; i++) {
            place[i] = here;
            here = tell_fork(here, &argument);
        }
        for (unsigned i = 0; i < 2; i++) gate_open(&g[i]);
        for (unsigned i = 0; i < CALLS; i++) await(&done);
        sem_post(&all_done);
        for (unsigned i = CALLS; i-- > 0;) tell_join(place[i], &argument);
        hold_join(first, &until);
        assert_int_equal(sem_trywait(&done), -1);
        weft_fork_leave(first);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    sem_destroy(&done);
    sem_destroy(&all_done);
    end_pool(pool);
}

/* Calls forked while the system's barrier worked, and taken when that has been lost and their thread forks no more. */
static int take_without_barrier(void *nothing) {
    (void)nothing;
    static weft_fork_slot *place[CALLS];
    weft_pool *pool = make_pool(1);
    sem_t done;
    semaphore argument = &done;
    gate g;
    weft_group group = WEFT_GROUP_INIT;
    weft_fork_slot *here = NULL;
    REQUIRE(sem_init(&done, 0, 0) == 0);
    gate_occupy(&g, pool, &group);
    REQUIRE(weft_fork_enter(pool, &here) == WEFT_OK);
    for (unsigned i = 0; i < CALLS; i++) {
        place[i] = here;
        here = tell_fork(here, &argument);
    }
    if (!forbid_call(SYS_membarrier, ANY_SECOND, EPERM)) return 77;
    gate_open(&g);
    for (unsigned i = 0; i < CALLS; i++) await(&done);
    for (unsigned i = CALLS; i-- > 0;) tell_join(place[i], &argument);
    REQUIRE(sem_trywait(&done) == -1);
    weft_fork_leave(place[0]);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    sem_destroy(&done);
    end_pool(pool);
    return 0;
}

static void test_barrier_is_lost_below_calls(void **state) {
    (void)state;
    int status = in_child(take_without_barrier, NULL);
    if (status == 77) SKIP("no seccomp filters");
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_leaf_strands_no_span),
                                       cmocka_unit_test(test_what_is_taken_at_once_is_for_all),
                                       cmocka_unit_test(test_barrier_is_lost_below_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
