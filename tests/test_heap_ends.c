/* test_heap_ends.c: heaps taken in the rounds of a thread's destructors, by those that come before the heap's own in a round
 * and by those that come after, also in the last round, after which nobody is told any more. Each must come back. */
#define _GNU_SOURCE
#include "help.h"
#include "weft.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

static uint32_t heaps_made(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    assert_int_equal(weft_heap_stats(&counts), WEFT_OK);
    return counts.heap_count;
}

/* A key's value: bit i: it allocates and frees in round i; above eight bits, the number of the round. */
static pthread_key_t early_key, last_key;
static void round_ended(pthread_key_t key, void *value) {
    uintptr_t rounds = (uintptr_t)value & 0xff, round = (uintptr_t)value >> 8;
    if ((rounds >> round & 1) != 0) weft_free(weft_alloc(100 + round));
    if (round + 1 < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(key, (char *)value + (1 << 8));
}
static void early(void *value) { round_ended(early_key, value); }
static void last(void *value) { round_ended(last_key, value); }

struct rounds {
    uintptr_t early, last;
    bool uses; /* the heap, before it ends */
};
static void *end_in_rounds(void *argument) {
    const struct rounds *rounds = argument;
    if (rounds->uses) weft_free(weft_alloc(100));
    pthread_setspecific(early_key, (void *)rounds->early);
    pthread_setspecific(last_key, (void *)rounds->last);
    return NULL;
}
static void *use(void *argument) {
    weft_free(weft_alloc(100));
    return argument;
}
static void run_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run, argument) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* Who first needs a heap in the last round but one, behind the heap's key, has it for good: its end is told once more at most,
 * and nothing says which round is the last. */
static bool is_too_late(uintptr_t rounds) { return rounds != 0 && (rounds & 3) == 0; }

/* Keys end in the order of their making: this one is made before the heap makes its own. */
static void test_rounds(void **state) {
    (void)state;
#if defined(SANITIZED_THREAD)
    printf("skipped, %s: ThreadSanitizer does not follow threads that far\n", "a heap in each round of destructors");
    return;
#endif
    enum { VALUES = 1 << PTHREAD_DESTRUCTOR_ITERATIONS };
    assert_int_equal(pthread_key_create(&early_key, early), 0);
    run_thread(use, NULL);
    assert_int_equal(pthread_key_create(&last_key, last), 0);
    uint32_t made = heaps_made();
    for (uintptr_t i = 0; i < (uintptr_t)VALUES * VALUES; i++)
        for (int uses = 0; uses <= 1; uses++) {
            const uintptr_t always = 1u << (CHAR_BIT - 1); /* no value is 0, which ends no key */
            struct rounds rounds = {i / VALUES | always, i % VALUES | always, uses != 0};
            if (!uses && is_too_late(i % VALUES)) continue;
            run_thread(end_in_rounds, &rounds);
            if (heaps_made() != made)
                fail_msg("rounds %#zx, %s: a heap was left behind", (size_t)i, uses ? "used" : "unused");
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds)};
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
