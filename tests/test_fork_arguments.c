/* test_fork_arguments.c: where arguments of forked calls lie. */
#define _GNU_SOURCE
#include "pool_help.h"

/* An argument lies where its type may, not where the payload does. */
typedef struct pair {
    double left, right;
} pair;
typedef struct holder {
    double before;
    pair argument;
} __attribute__((aligned(16))) holder;

static double add(weft_fork_slot *here, pair both);
WEFT_FORK(add, double, pair)
static double add(weft_fork_slot *here, pair both) {
    (void)here;
    return both.left + both.right;
}
static __attribute__((noinline)) double add_held(weft_fork_slot *here, const pair *both) {
    add_fork(here, both);
    return add_join(here, both);
}

static void test_arguments_of_less_alignment(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_fork_slot *here = NULL;
    assert_int_equal(weft_fork_enter(pool, &here), WEFT_OK);
    for (unsigned i = 0; i < 200; i++) {
        holder held = {0, {i, 1}};
        assert_true((uintptr_t)&held.argument % 16 == 8);
        assert_true(add_held(here, &held.argument) == i + 1);
    }
    weft_fork_leave(here);
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arguments_of_less_alignment)};
    return cmocka_run_group_tests_name("fork arguments", tests, NULL, NULL);
}
