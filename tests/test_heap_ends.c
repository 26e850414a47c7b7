/* test_heap_ends.c: heaps taken in the rounds of a thread's destructors, by those that come before the heap's own in a round
 * and by those that come after, also in the last round, after which nobody is told any more. Each must come back. And what of
 * ended threads' heaps stays in memory. */
#define _GNU_SOURCE
#include "help.h"

#include "heap/heap.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    assert_int_equal(weft_heap_stats(&counts), WEFT_OK);
    return counts;
}
static uint32_t heaps_made(void) { return counts_now().heap_count; }

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

enum { THREADS = 40, BLOCKS = 60 };
static pthread_barrier_t all_have;

static void *have_blocks(void *unused) {
    void *blocks[BLOCKS];
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) REQUIRE((blocks[i] = weft_alloc(16 + i * 500)) != NULL);
    pthread_barrier_wait(&all_have);
    for (size_t i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    return NULL;
}

static void threads_end(void) {
    pthread_t threads[THREADS];
    REQUIRE(pthread_barrier_init(&all_have, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, have_blocks, NULL) == 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&all_have);
}

static size_t most_resident_of_ended(void) {
    size_t most = 0;
    for (const struct heap *heap = heaps_all(); heap != NULL; heap = load_rlx(&heap->older))
        if (heap != heap_mine()) most = (size_t)max_u64(most, os_resident(heap, SLOT_BYTES));
    return most;
}

/* A page of each is left, and what they counted; threads that take them over find their caches and bins as they should be. */
static void test_ended_leave_a_page(void **state) {
    (void)state;
    weft_free(weft_alloc(100));
    weft_trim();
    uint32_t made = 0;
    for (int i = 0; i < 4; i++) {
        weft_heap_counts before = counts_now(), after, of_class, of_all = {0};
        threads_end();
        if (i == 0) made = heaps_made();
        assert_int_equal(heaps_made(), made);
        weft_trim();
        assert_true(most_resident_of_ended() <= os_page_size());
        after = counts_now();
        assert_int_equal(after.alloc_count - before.alloc_count, THREADS * BLOCKS);
        assert_int_equal(after.free_count - before.free_count, THREADS * BLOCKS);
        assert_int_equal(after.live_bytes, before.live_bytes);
        assert_true(after.miss_count > before.miss_count);
        for (unsigned k = 0; k < CLASSES; k++) {
            size_t size;
            of_class = (weft_heap_counts){.struct_size = sizeof of_class};
            REQUIRE(weft_heap_class_stats(k, &size, &of_class) == WEFT_OK);
            of_all.miss_count += of_class.miss_count;
        }
        assert_int_equal(of_all.miss_count, after.miss_count);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounds), cmocka_unit_test(test_ended_leave_a_page)};
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
