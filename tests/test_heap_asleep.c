/* What others freed of a sleeping thread's blocks goes back to the system, asked for or not, while that thread sleeps. */
#define _GNU_SOURCE
#include "help.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "weft.h"

enum { MANY = 200000, KEPT_BYTES = 12 << 20 }; /* some 100 MB; what caches, slabs in use and heads may hold */

static struct {
    void *blocks[MANY];
    pthread_barrier_t made, freed;
    int rounds; /* of frees; the owner allocates and frees a little between two */
    atomic_int end;
} scene;

static uint64_t resident_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts.resident_bytes;
}

/* 64 to 1024. */
static size_t size_of(int i) { return 64 + (size_t)i * 7919 % 961; }

static void fill_some(int first, int step) {
    for (int i = first; i < MANY; i += step) {
        scene.blocks[i] = weft_alloc(size_of(i));
        REQUIRE(scene.blocks[i] != NULL);
        memset(scene.blocks[i], i % 251, size_of(i));
    }
}

static void free_some(int first, int step) {
    for (int i = first; i < MANY; i += step) {
        const unsigned char *bytes = scene.blocks[i];
        REQUIRE(bytes[0] == i % 251 && bytes[size_of(i) - 1] == i % 251);
        weft_free(scene.blocks[i]);
    }
}

/* A few of each size, so that what others have freed so far comes home. */
static void owner_works(void) {
    void *few[300];
    for (size_t size = 64; size <= 1024; size += 64) {
        for (int i = 0; i < 300; i++) few[i] = weft_alloc(size);
        for (int i = 0; i < 300; i++) weft_free(few[i]);
    }
}

static void *owner_main(void *unused) {
    fill_some(0, 1);
    for (int round = 0; round < scene.rounds; round++) {
        pthread_barrier_wait(&scene.made);
        pthread_barrier_wait(&scene.freed); /* sleeps meanwhile */
        if (round + 1 < scene.rounds) owner_works();
    }
    fill_some(0, 1); /* what came home serves again */
    free_some(0, 1);
    return unused;
}

/* Frees all in that many rounds, while the owner sleeps. gives: makes what is free go back. Returns what is left. */
static uint64_t left_after(int rounds, void (*gives)(uint64_t)) {
    pthread_t owner;
    weft_trim();
    uint64_t before = resident_now(), left = 0;
    scene.rounds = rounds;
    assert_int_equal(pthread_barrier_init(&scene.made, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&scene.freed, NULL, 2), 0);
    assert_int_equal(pthread_create(&owner, NULL, owner_main, NULL), 0);
    for (int round = 0; round < rounds; round++) {
        pthread_barrier_wait(&scene.made);
        free_some(round, rounds);
        if (round + 1 == rounds) {
            gives(before);
            left = resident_now();
        }
        pthread_barrier_wait(&scene.freed);
    }
    assert_int_equal(pthread_join(owner, NULL), 0);
    pthread_barrier_destroy(&scene.made);
    pthread_barrier_destroy(&scene.freed);
    return left > before ? left - before : 0;
}

static void by_trim(uint64_t before) {
    (void)before;
    weft_trim();
}

static void test_trim(void **state) {
    (void)state;
    uint64_t left = left_after(1, by_trim);
    if (left > KEPT_BYTES) print_message("%lu bytes are left\n", (unsigned long)left);
    assert_true(left <= KEPT_BYTES);
}

/* The owner has collected a half before, so that its slabs are partly free by its own count. */
static void test_trim_in_parts(void **state) {
    (void)state;
    uint64_t left = left_after(2, by_trim);
    if (left > KEPT_BYTES) print_message("%lu bytes are left\n", (unsigned long)left);
    assert_true(left <= KEPT_BYTES);
}

/* Works a little, as any thread, until the memory has gone: an event, not a time. The owner sleeps for good. */
static void by_working(uint64_t before) {
    while (resident_now() > before + KEPT_BYTES) {
        void *few[6];
        for (int i = 0; i < 6; i++) few[i] = weft_alloc(100);
        for (int i = 0; i < 6; i++) weft_free(few[i]);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void decay_after(int64_t ms, uint32_t purge_thread) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = ms, .purge_thread = purge_thread};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

static void test_while_working(void **state) {
    (void)state;
    decay_after(20, 0);
    assert_true(left_after(1, by_working) <= KEPT_BYTES);
    decay_after(0, 0);
}

static void by_waiting(uint64_t before) {
    while (resident_now() > before + KEPT_BYTES) nanosleep(&(struct timespec){0, 5000000}, NULL);
}

static void test_purge_thread(void **state) {
    (void)state;
    decay_after(20, 1);
    assert_true(left_after(1, by_waiting) <= KEPT_BYTES);
    decay_after(0, 0);
}

/* Each part is freed by a thread that ends, after what the threads before it freed has gone. Nobody else frees. */
enum { PARTS = 4 };
static void *part_main(void *part) {
    free_some((int)(intptr_t)part, PARTS);
    return NULL;
}
static void test_ended_threads(void **state) {
    (void)state;
    decay_after(20, 1);
    weft_trim();
    uint64_t before = resident_now();
    for (int part = 0; part < PARTS; part++) fill_some(part, PARTS); /* each part has slabs of its own */
    uint64_t full = resident_now() - before;
    for (int part = 0; part < PARTS; part++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, part_main, (void *)(intptr_t)part), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        by_waiting(before + full / PARTS * (uint64_t)(PARTS - 1 - part));
    }
    decay_after(0, 0);
}

/* Others have freed a half, and a turn has looked at it, before the owner frees the other half and sleeps again. */
static void *half_main(void *unused) {
    fill_some(0, 1);
    pthread_barrier_wait(&scene.made);
    pthread_barrier_wait(&scene.freed);
    free_some(0, 2);
    pthread_barrier_wait(&scene.freed);
    pthread_barrier_wait(&scene.freed); /* sleeps for good */
    return unused;
}
static void test_owner_frees_last(void **state) {
    (void)state;
    pthread_t owner;
    decay_after(20, 1);
    weft_trim();
    uint64_t before = resident_now();
    assert_int_equal(pthread_barrier_init(&scene.made, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&scene.freed, NULL, 2), 0);
    assert_int_equal(pthread_create(&owner, NULL, half_main, NULL), 0);
    pthread_barrier_wait(&scene.made);
    free_some(1, 2);
    nanosleep(&(struct timespec){0, 300000000}, NULL); /* long enough for a visit, or else the test proves less */
    pthread_barrier_wait(&scene.freed);
    pthread_barrier_wait(&scene.freed);
    by_waiting(before);
    pthread_barrier_wait(&scene.freed);
    assert_int_equal(pthread_join(owner, NULL), 0);
    pthread_barrier_destroy(&scene.made);
    pthread_barrier_destroy(&scene.freed);
    decay_after(0, 0);
}

/* Trims while the owner takes what others free to it: no block that it has handed out changes. */
static void *trims_main(void *unused) {
    while (atomic_load(&scene.end) == 0) weft_trim();
    return unused;
}
enum { ROUNDS = 300, HELD = 512 };
static _Atomic(unsigned char *) given[HELD];
static void *frees_main(void *unused) {
    while (atomic_load(&scene.end) != 2)
        for (int i = 0; i < HELD; i++) {
            unsigned char *block = atomic_exchange(&given[i], NULL);
            if (block == NULL) continue;
            REQUIRE(block[0] == i % 251 && block[300] == i % 251);
            weft_free(block);
        }
    return unused;
}
static void test_trim_beside(void **state) {
    (void)state;
    pthread_t trims, frees;
    atomic_store(&scene.end, 0);
    assert_int_equal(pthread_create(&trims, NULL, trims_main, NULL), 0);
    assert_int_equal(pthread_create(&frees, NULL, frees_main, NULL), 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < HELD; i++) {
            if (atomic_load(&given[i]) != NULL) continue;
            unsigned char *block = weft_alloc(301);
            memset(block, i % 251, 301);
            atomic_store(&given[i], block);
        }
    atomic_store(&scene.end, 1);
    assert_int_equal(pthread_join(trims, NULL), 0);
    for (int i = 0; i < HELD; i++)
        while (atomic_load(&given[i]) != NULL) sched_yield();
    atomic_store(&scene.end, 2);
    assert_int_equal(pthread_join(frees, NULL), 0);
}

/* Where address space has a limit, the owner finds again what others have freed, also while a visitor has it. */
static void *trims_on_main(void *unused) {
    while (atomic_load(&scene.end) == 0) weft_trim();
    return unused;
}
static void *owner_again_main(void *unused) {
    for (int round = 0; round < 12; round++) {
        fill_some(0, 1); /* requires each block */
        pthread_barrier_wait(&scene.made);
        pthread_barrier_wait(&scene.freed);
    }
    return unused;
}
static void limit_more(uint64_t bytes) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    struct rlimit limit = {pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes, RLIM_INFINITY};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}
static void test_limit(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("not run: sanitizers need address space without a limit\n");
#else
    pthread_t owner, trims;
    atomic_store(&scene.end, 0);
    assert_int_equal(pthread_barrier_init(&scene.made, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&scene.freed, NULL, 2), 0);
    assert_int_equal(pthread_create(&owner, NULL, owner_again_main, NULL), 0);
    pthread_barrier_wait(&scene.made);
    limit_more(24 << 20); /* little beside the owner's 110 MB */
    assert_int_equal(pthread_create(&trims, NULL, trims_on_main, NULL), 0);
    for (int round = 0; round < 12; round++) {
        free_some(0, 1);
        pthread_barrier_wait(&scene.freed);
        if (round < 11) pthread_barrier_wait(&scene.made);
    }
    assert_int_equal(pthread_join(owner, NULL), 0);
    atomic_store(&scene.end, 1);
    assert_int_equal(pthread_join(trims, NULL), 0);
    pthread_barrier_destroy(&scene.made);
    pthread_barrier_destroy(&scene.freed);
    REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_trim_in_parts),
        cmocka_unit_test(test_while_working),
        cmocka_unit_test(test_purge_thread),
        cmocka_unit_test(test_trim_beside),
        cmocka_unit_test(test_ended_threads),
        cmocka_unit_test(test_owner_frees_last),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
