/* test_fork_misuse.c: places mixed up are told in code compiled with WEFT_CHECKED, whatever the library is compiled with. */
#define _GNU_SOURCE
#if !defined(WEFT_CHECKED)
#define WEFT_CHECKED
#endif
#include "pool_help.h"

static int twice(weft_fork_slot *here, int n) {
    (void)here;
    return 2 * n;
}
WEFT_FORK(twice, int, int)

static weft_fork_slot *enter(weft_pool **pool) {
    weft_fork_slot *here;
    *pool = make_pool(1);
    REQUIRE(weft_fork_enter(*pool, &here) == WEFT_OK);
    return here;
}

/* As it should be, over several spans. */
static void test_in_order(void **state) {
    (void)state;
    enum { CALLS = 800 };
    static weft_fork_slot *place[CALLS + 1];
    static int numbers[CALLS];
    weft_pool *pool;
    place[0] = enter(&pool);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CALLS; i++) {
            numbers[i] = i;
            place[i + 1] = twice_fork(place[i], &numbers[i]);
        }
        for (int i = CALLS; i-- > 0;) assert_int_equal(twice_join(place[i], &numbers[i]), 2 * i);
    }
    weft_fork_leave(place[0]);
    end_pool(pool);
}

/* What is wrong, in a child. */
static int same_place_twice(void *argument) {
    (void)argument;
    weft_pool *pool;
    weft_fork_slot *here = enter(&pool);
    int first = 1, second = 2;
    twice_fork(here, &first);
    twice_fork(here, &second); /* the first's is lost */
    return 0;
}
static int here_for_deeper(weft_fork_slot *here, int n) {
    if (n < 2) return n;
    int less = n - 1;
    twice_fork(here, &less);
    int other = here_for_deeper(here, n - 2);
    return twice_join(here, &less) + other;
}
static int wrong_place_below(void *argument) {
    (void)argument;
    weft_pool *pool;
    weft_fork_slot *here = enter(&pool);
    return here_for_deeper(here, 5) & 1;
}
static int joined_twice(void *argument) {
    (void)argument;
    weft_pool *pool;
    weft_fork_slot *here = enter(&pool);
    int number = 1;
    twice_fork(here, &number);
    twice_join(here, &number);
    twice_join(here, &number);
    return 0;
}
static int out_of_order(void *argument) {
    (void)argument;
    weft_pool *pool;
    weft_fork_slot *here = enter(&pool);
    int number = 1;
    twice_fork(twice_fork(here, &number), &number);
    twice_join(here, &number);
    return 0;
}

static void check_told(int (*wrong)(void *), const char *said) {
    char all[512];
    (void)in_child_said(wrong, NULL, all, sizeof all); /* ends by a signal */
    if (strstr(all, said) == NULL) fail_msg("said: %s", all);
}
static void test_told(void **state) {
    (void)state;
    if (is_emulated()) SKIP("the emulator does not survive fork() in a program with threads");
#if defined(SANITIZED_THREAD)
    SKIP("ThreadSanitizer lets no child of a threaded process start threads");
#endif
    check_told(same_place_twice, "a fork at a slot in use");
    check_told(wrong_place_below, "a fork at a slot in use");
    check_told(joined_twice, "a join of a call that is not");
    check_told(out_of_order, "a join of a call that is not");
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
