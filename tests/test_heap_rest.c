/* What the heap keeps and what it gives back, asked or not: while a thread works, when a pool idles. */
#define _GNU_SOURCE
#include "help.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "weft.h"

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

enum { MANY = 40000 }; /* of 200 bytes on average */

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

static void make_and_free_many(void) {
    static void *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        blocks[i] = weft_alloc(100 + (size_t)(i % 3) * 100);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, 100);
    }
    for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
}

/* 16 to 1024. */
static size_t next_size(uint32_t *random) {
    *random = *random * 1664525 + 1013904223;
    return 16 + (*random >> 8) % 1009;
}

static void decay_after(int64_t ms) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = ms};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

static void test_trim(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    void **blocks = calloc(COUNT, sizeof *blocks);
    assert_non_null(blocks);
    decay_after(-1);
    weft_trim();
    weft_heap_counts before = counts_now();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = weft_alloc(600);
        memset(blocks[i], 1, 600);
    }
    /* not resident_bytes: the system may have taken pages away meanwhile */
    assert_true(counts_now().mapped_bytes >= before.live_bytes + (size_t)COUNT * 600);
    for (int i = 0; i < COUNT; i++) weft_free(blocks[i]);
    assert_true(weft_trim() >= (size_t)COUNT * 600 / 2);
    assert_true(counts_now().resident_bytes <= before.resident_bytes + 300000);
    unsigned char *p = weft_alloc_zeroed(1, 600);
    for (int i = 0; i < 600; i++) assert_int_equal(p[i], 0);
    weft_free(p);
    free(blocks);
    decay_after(0);
}

/* A thread that goes on with so little that its caches are never refilled and never overflow. It waits for the event, not
 * for a time. */
static void test_decay_while_working(void **state) {
    (void)state;
    weft_trim();
    decay_after(20);
    uint64_t empty = counts_now().resident_bytes, misses = 0;
    make_and_free_many();
    while (counts_now().resident_bytes > empty + UINT64_C(25) * MANY) {
        void *few[6];
        misses = counts_now().miss_count;
        for (int i = 0; i < 6; i++) few[i] = weft_alloc(100 + (size_t)(i % 3) * 100);
        misses = counts_now().miss_count - misses;
        for (int i = 0; i < 6; i++) weft_free(few[i]);
        pause_ms(1);
    }
    assert_int_equal(misses, 0);
    decay_after(0);
}

static _Atomic uint64_t looks;    /* at the clock */
static _Atomic uint64_t later_ns; /* than it is */
uint64_t __real_os_now_ns(void);
uint64_t __wrap_os_now_ns(void);
static _Atomic uint64_t steady_ns; /* nonzero: what it said at first; from look to look it goes faster, by 2 ns */
uint64_t __wrap_os_now_ns(void) {
    uint64_t look = atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed), from_ns = atomic_load(&steady_ns);
    if (from_ns != 0) return from_ns + look * look;
    return __real_os_now_ns() + atomic_load_explicit(&later_ns, memory_order_relaxed);
}

/* A shorter time holds at once: a turn that was due by the longer one is not waited for. */
static void test_decay_shortened(void **state) {
    (void)state;
    enum { STEPS = 200, LARGE = 4 << 20 };
    decay_after(1000000);
    atomic_fetch_add(&later_ns, UINT64_C(1000000000)); /* so that this look begins a long period */
    weft_free(weft_alloc(LARGE));
    weft_trim();
    decay_after(20);
    weft_free(memset(weft_alloc(LARGE), 1, 100));
    int steps = 0;
    for (; steps < STEPS && counts_now().kept_bytes != 0; steps++) {
        for (int i = 0; i < 3; i++) weft_free(weft_alloc(40));
        atomic_fetch_add(&later_ns, UINT64_C(10000000));
    }
    print_message("shortened: %d ms\n", steps * 10);
    assert_in_range(steps, 1, STEPS - 1);
    decay_after(0);
}

enum { BATCH = 64, BATCHES = 3000 };

/* So many live, and none, again and again: nothing that a cache does not hold. */
static void free_batches(void) {
    void *batch[BATCH];
    for (int i = 0; i < BATCHES; i++) {
        for (int k = 0; k < BATCH; k++) batch[k] = weft_alloc(100 + (size_t)(i % 3) * 100);
        for (int k = 0; k < BATCH; k++) weft_free(batch[k]);
    }
}

/* While a thread is busy it seldom looks, though its caches rise and fall and slabs emptied just before; when it goes on
 * with little, what emptied goes back. */
static void test_decay_after_batches(void **state) {
    (void)state;
    enum { ROUNDS = 20000 };
    weft_trim();
    decay_after(200);
    uint64_t empty = counts_now().resident_bytes;
    make_and_free_many();
    uint64_t before = atomic_load(&looks);
    free_batches();
    assert_in_range(atomic_load(&looks) - before, 0, BATCH * BATCHES / 32);
    int rounds = 0;
    for (; rounds < ROUNDS && counts_now().resident_bytes > empty + UINT64_C(25) * MANY; rounds++) {
        weft_free(weft_alloc(100 + (size_t)(rounds % 3) * 100));
        pause_ms(1);
    }
    assert_in_range(rounds, 0, ROUNDS - 1);
    decay_after(0);
}

/* What refills and finds take is what the clock says, less what a look takes: 2 ns at least by that clock. */
static void test_times(void **state) {
    (void)state;
    weft_heap_counts before = counts_now(), after;
    atomic_store(&steady_ns, __real_os_now_ns());
    make_and_free_many();
    free_batches();
    after = counts_now();
    atomic_store(&steady_ns, 0);
    uint64_t refills = after.refill_timed_count - before.refill_timed_count;
    uint64_t finds = after.find_timed_count - before.find_timed_count;
    assert_true(refills > 0 && finds > 0);
    assert_true(after.refill_ns - before.refill_ns >= 2 * refills);
    assert_true(after.find_ns - before.find_ns >= 2 * finds);
}

enum { FOREIGN = 20000 };

struct freed {
    void *blocks[2 * FOREIGN];
    uint64_t looks, empty;
    int rounds;
};

/* Its own slabs have emptied when it frees what is another's: in haste, then two at a time until memory went back. */
static void *free_foreign(void *argument) {
    struct freed *freed = argument;
    static void *own[FOREIGN];
    int next = FOREIGN;
    for (int i = 0; i < FOREIGN; i++) REQUIRE((own[i] = memset(weft_alloc(200), 1, 200)) != NULL);
    for (int i = 0; i < FOREIGN; i++) weft_free(own[i]);
    uint64_t before = atomic_load(&looks);
    for (int i = 0; i < FOREIGN; i++) weft_free(freed->blocks[i]);
    freed->looks = atomic_load(&looks) - before;
    for (; next < 2 * FOREIGN && counts_now().resident_bytes > freed->empty + UINT64_C(50) * FOREIGN; freed->rounds++) {
        weft_free(freed->blocks[next++]);
        weft_free(freed->blocks[next++]);
        pause_ms(1);
    }
    for (; next < 2 * FOREIGN; next++) weft_free(freed->blocks[next]);
    return NULL;
}

/* A thread that only frees what others made, fast, looks about as often as its cache overflows. */
static void test_decay_of_who_only_frees(void **state) {
    (void)state;
    static struct freed freed;
    pthread_t thread;
    weft_trim();
    decay_after(200);
    for (int i = 0; i < 2 * FOREIGN; i++) REQUIRE((freed.blocks[i] = memset(weft_alloc(200), 1, 200)) != NULL);
    freed.empty = counts_now().resident_bytes;
    assert_int_equal(pthread_create(&thread, NULL, free_foreign, &freed), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(freed.looks, 1, FOREIGN / 32);
    assert_in_range(freed.rounds, 0, FOREIGN / 2 - 1); /* 0: the haste took longer than the turns of decay */
    decay_after(0);
}

/* After blocks of all small sizes were freed, which takes longer than turns of decay do, the thread goes on with two of any
 * of them at a time. The rounds, of a millisecond or more, are so many that only memory which stays for good reaches their
 * end. */
static void test_decay_with_any_size(void **state) {
    (void)state;
    enum { ROUNDS = 20000 };
    static void *blocks[MANY];
    uint32_t random = 1;
    weft_trim();
    decay_after(100);
    uint64_t empty = counts_now().resident_bytes;
    for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = memset(weft_alloc(next_size(&random)), 1, 16)) != NULL);
    for (int i = 0; i < MANY; i++) {
        weft_free(blocks[i]);
        if (i % 1000 == 0) pause_ms(4);
    }
    int rounds = 0;
    for (; rounds < ROUNDS && counts_now().resident_bytes > empty + UINT64_C(100) * MANY; rounds++) {
        void *one = weft_alloc(next_size(&random)), *two = weft_alloc(next_size(&random));
        weft_free(one);
        weft_free(two);
        pause_ms(1);
    }
    assert_in_range(rounds, 0, ROUNDS - 1);
    decay_after(0);
}

/* What a batch left: freed in its order, in another, or followed by small batches that the caches hold. */
enum batch_end { IN_ORDER, SHUFFLED, WITH_BATCHES, BATCH_ENDS };

static void end_batch(enum batch_end end, void **blocks) {
    uint32_t random = 7;
    if (end == SHUFFLED) {
        for (int i = 0; i < MANY; i++) {
            random = random * 1664525 + 1013904223;
            int other = (int)((random >> 8) % MANY);
            void *block = blocks[i];
            blocks[i] = blocks[other];
            blocks[other] = block;
        }
    }
    for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
    if (end != WITH_BATCHES) return;
    for (int i = 0; i < BATCHES; i++) {
        for (int k = 0; k < BATCH; k++) blocks[k] = weft_alloc(next_size(&random));
        for (int k = 0; k < BATCH; k++) weft_free(blocks[k]);
    }
}

/* The thread goes on with one block of one size at a time, one in a millisecond of the test's own: those until most of what
 * the batch took is back, at most `most`. */
static int ms_until_back(enum batch_end end, size_t size, int most) {
    static void *blocks[MANY];
    uint32_t random = 1;
    int ms = 0;
    weft_trim();
    uint64_t empty = counts_now().resident_bytes;
    for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = memset(weft_alloc(next_size(&random)), 1, 16)) != NULL);
    uint64_t taken = counts_now().resident_bytes - empty;
    REQUIRE(taken > UINT64_C(100) * MANY);
    end_batch(end, blocks);
    for (; ms < most && counts_now().resident_bytes > empty + taken / 5; ms++) {
        weft_free(weft_alloc(size));
        atomic_fetch_add(&later_ns, 1000000);
    }
    return ms;
}

static void test_decay_within_a_second(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 100, 1000, 3000};
    decay_after(0);
    for (int end = IN_ORDER; end < BATCH_ENDS; end++)
        for (int i = 0; i < 4; i++) {
            int ms = ms_until_back((enum batch_end)end, sizes[i], 1000);
            print_message("batch %d, then %zu bytes: %d ms\n", end, sizes[i], ms);
            assert_in_range(ms, 0, 999);
        }
}

/* ---- what a thread that goes on gives back beside its own slabs ---------------------------------------------------- */

enum { LATER_BLOCKS = 160, LATER_MS = 2000 };
struct leaver {
    size_t size;
    pthread_barrier_t freed, seen;
    bool sleeps;
};

static void make_and_free(size_t size) {
    static void *blocks[MANY];
    int count = size < 1000 ? MANY : LATER_BLOCKS;
    for (int i = 0; i < count; i++) REQUIRE((blocks[i] = memset(weft_alloc(size), 1, size)) != NULL);
    for (int i = 0; i < count; i++) weft_free(blocks[i]);
}

static void *make_and_leave(void *argument) {
    struct leaver *leaver = argument;
    make_and_free(leaver->size);
    if (!leaver->sleeps) return NULL;
    pthread_barrier_wait(&leaver->freed);
    pthread_barrier_wait(&leaver->seen);
    return NULL;
}

/* The thread goes on with one block of 100 bytes in a millisecond of the test's own: those until no more than `left` bytes
 * are in memory. */
static int ms_until_gone(uint64_t left) {
    int ms = 0;
    for (; ms < LATER_MS && counts_now().resident_bytes > left; ms++) {
        weft_free(weft_alloc(100));
        atomic_fetch_add(&later_ns, 1000000);
    }
    return ms;
}

/* The same heap watches no more, and no turn is left to take. */
static uint64_t empty_and_calm(void) {
    weft_trim();
    for (int i = 0; i < 8 * 250; i++) {
        weft_free(weft_alloc(100));
        atomic_fetch_add(&later_ns, 1000000);
    }
    uint64_t before = atomic_load(&looks);
    for (int i = 0; i < 200; i++) weft_free(weft_alloc(100));
    assert_int_equal(atomic_load(&looks) - before, 0);
    return counts_now().resident_bytes;
}

/* Of the blocks of 64 KiB or more the caches keep a few; of those freed, at most a fifth may stay. */
static void test_decay_of_large(void **state) {
    (void)state;
    static const size_t sizes[] = {40000, 70000, 140000, 250000, 300000, (size_t)5 << 20};
    decay_after(0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t empty = empty_and_calm();
        make_and_free(sizes[i]);
        int ms = ms_until_gone(empty + sizes[i] * LATER_BLOCKS / 5);
        print_message("%zu bytes: %d ms\n", sizes[i], ms);
        assert_in_range(ms, 0, LATER_MS - 1);
    }
}

/* What a thread freed before it ended, or before it sleeps, goes back by one that works; but a sleeping one's caches stay. */
static void test_decay_of_others(void **state) {
    (void)state;
    static const size_t sizes[] = {100, 70000, 300000, (size_t)5 << 20};
    decay_after(0);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        struct leaver leaver = {.size = sizes[i / 2], .sleeps = i % 2 != 0};
        uint64_t empty = empty_and_calm();
        uint64_t taken = leaver.size < 1000 ? (uint64_t)MANY * leaver.size : (uint64_t)LATER_BLOCKS * leaver.size;
        pthread_t thread;
        REQUIRE(pthread_barrier_init(&leaver.freed, NULL, 2) == 0 && pthread_barrier_init(&leaver.seen, NULL, 2) == 0);
        assert_int_equal(pthread_create(&thread, NULL, make_and_leave, &leaver), 0);
        if (leaver.sleeps)
            pthread_barrier_wait(&leaver.freed);
        else
            pthread_join(thread, NULL);
        int ms = ms_until_gone(empty + taken / 4);
        print_message("%zu bytes, then it %s: %d ms\n", leaver.size, leaver.sleeps ? "sleeps" : "ends", ms);
        assert_in_range(ms, 0, LATER_MS - 1);
        if (!leaver.sleeps) continue;
        pthread_barrier_wait(&leaver.seen);
        pthread_join(thread, NULL);
    }
}

/* A busy thread seldom looks for the sake of others. Its own caches neither refill nor overflow. */
static void test_looks_for_others(void **state) {
    (void)state;
    enum { CALLS = 256, STEP = 63 };
    struct leaver leaver = {.size = 70000, .sleeps = true};
    pthread_t thread;
    decay_after(0);
    empty_and_calm();
    REQUIRE(pthread_barrier_init(&leaver.freed, NULL, 2) == 0 && pthread_barrier_init(&leaver.seen, NULL, 2) == 0);
    assert_int_equal(pthread_create(&thread, NULL, make_and_leave, &leaver), 0);
    pthread_barrier_wait(&leaver.freed);
    uint64_t before = atomic_load(&looks);
    for (int i = 0; i < CALLS * STEP; i++) weft_free(weft_alloc(100));
    uint64_t looked = atomic_load(&looks) - before;
    pthread_barrier_wait(&leaver.seen);
    pthread_join(thread, NULL);
    print_message("for others: %d looks in %d frees\n", (int)looked, CALLS * STEP);
    assert_in_range(looked, 1, CALLS / 4);
}

/* What an ended thread made goes back once another has freed it. */
static void *make_for_other(void *argument) {
    void **blocks = argument;
    for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = memset(weft_alloc(200), 1, 200)) != NULL);
    return NULL;
}

static void test_decay_of_ended_freed_by_other(void **state) {
    (void)state;
    static void *blocks[MANY];
    pthread_t thread;
    decay_after(0);
    uint64_t empty = empty_and_calm();
    assert_int_equal(pthread_create(&thread, NULL, make_for_other, blocks), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
    assert_in_range(ms_until_gone(empty + UINT64_C(200) * MANY / 5), 0, LATER_MS - 1);
}

/* It goes on with eight blocks of any size in 10 ms: of no class are there many. How many of its frees are left to the next
 * look is chance. */
static void test_decay_with_few_of_each(void **state) {
    (void)state;
    enum { SEEDS = 24, EIGHT = 8, STEPS = 300, SECOND = 100, LONG_MAX = 3 };
    int longer = 0;
    static void *blocks[MANY];
    decay_after(0);
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t random = seed;
        int steps = 0;
        weft_trim();
        uint64_t empty = counts_now().resident_bytes;
        for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = memset(weft_alloc(next_size(&random)), 1, 16)) != NULL);
        uint64_t taken = counts_now().resident_bytes - empty;
        for (int i = 0; i < MANY; i++) weft_free(blocks[i]);
        for (; steps < STEPS && counts_now().resident_bytes > empty + taken / 5; steps++) {
            for (int i = 0; i < EIGHT; i++) blocks[i] = weft_alloc(next_size(&random));
            for (int i = 0; i < EIGHT; i++) weft_free(blocks[i]);
            atomic_fetch_add(&later_ns, 10000000);
        }
        print_message("seed %u: %d ms\n", seed, steps * 10);
        assert_in_range(steps, 0, STEPS - 1);
        longer += steps >= SECOND;
    }
    assert_in_range(longer, 0, LONG_MAX);
}

static int many_in_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    make_and_free_many();
    return 0;
}

/* A pool that idles gives back what its workers leave, while nobody else does anything. */
static void test_decay_in_idle_pool(void **state) {
    (void)state;
    weft_trim();
    weft_pool *pool;
    assert_int_equal(weft_pool_create(&pool, NULL), WEFT_OK);
    weft_group group = WEFT_GROUP_INIT;
    uint64_t empty = counts_now().resident_bytes;
    assert_int_equal(weft_submit(pool, &group, many_in_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    while (counts_now().resident_bytes > empty + UINT64_C(25) * MANY) pause_ms(10);
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
}

/* ---- the purge thread --------------------------------------------------------------------------------------------- */

static int purge_thread(bool on) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = 20, .purge_thread = on};
    return weft_heap_configure(&config);
}

static bool is_purge_thread(const char *task) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false; /* it has ended */
    bool is_read = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    return is_read && strcmp(name, "weft-purge\n") == 0;
}

/* By their names: a sanitizer has threads of its own. */
static int purge_threads_now(void) {
    DIR *folder = opendir("/proc/self/task");
    REQUIRE(folder != NULL);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += is_purge_thread(entry->d_name);
    closedir(folder);
    return count;
}

/* One that was joined may be listed for a moment yet. */
static void await_purge_threads(int count) {
    while (purge_threads_now() != count) pause_ms(1);
}

/* Nobody allocates or frees any more. Waits for the event, not for a time. */
static void expect_given_back(uint64_t empty) {
    while (counts_now().resident_bytes > empty + UINT64_C(25) * MANY) pause_ms(1);
}

static int use_in_child(void *empty) {
    await_purge_threads(0);
    make_and_free_many();
    REQUIRE(purge_thread(true) == WEFT_OK);
    await_purge_threads(1);
    expect_given_back(*(uint64_t *)empty);
    REQUIRE(purge_thread(false) == WEFT_OK);
    await_purge_threads(0);
    return 0;
}

static int exit_in_child(void *unused) {
    (void)unused;
    REQUIRE(purge_thread(true) == WEFT_OK);
    make_and_free_many();
    exit(7); /* with the thread running */
}

static void test_purge_thread(void **state) {
    (void)state;
    weft_trim();
    uint64_t empty = counts_now().resident_bytes;
    weft_heap_config never = {.struct_size = sizeof never, .decay_ms = -1, .purge_thread = 1};
    assert_int_equal(weft_heap_configure(&never), WEFT_EINVAL);
    assert_int_equal(purge_thread(true), WEFT_OK);
    assert_int_equal(purge_thread(true), WEFT_OK);
    await_purge_threads(1);
    for (int round = 0; round < 5; round++) {
        make_and_free_many();
        expect_given_back(empty);
        pause_ms(30L * round); /* it sleeps by then, or not */
    }
    if (!SANITIZED && !is_emulated()) assert_int_equal(in_child(use_in_child, &empty), 0);
    if (!SANITIZED && !is_emulated()) assert_int_equal(in_child(exit_in_child, NULL), 7);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(purge_thread(false), WEFT_OK);
        await_purge_threads(0);
        assert_int_equal(purge_thread(true), WEFT_OK);
    }
    assert_int_equal(purge_thread(false), WEFT_OK);
    decay_after(0);
}

/* What a thread that ended left behind, freed by another or not at all by it. */
static void *leave_many(void *unused) {
    (void)unused;
    make_and_free_many();
    return NULL;
}

static void test_purge_ended(void **state) {
    (void)state;
    weft_trim();
    uint64_t empty = counts_now().resident_bytes;
    assert_int_equal(purge_thread(true), WEFT_OK);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, leave_many, NULL), 0);
        pthread_join(thread, NULL);
        expect_given_back(empty);
        pause_ms(60);
    }
    assert_int_equal(purge_thread(false), WEFT_OK);
    decay_after(0);
}

/* All memory is private heaps', and the thread has no heap of its own that would look at the clock. */
static void test_decay_with_private_heaps_only(void **state) {
    (void)state;
    enum { BLOCKS = 20000, BYTES = 1000, TURNS = 6 };
    decay_after(0);
    weft_trim();
    uint64_t before = counts_now().resident_bytes;
    for (int turn = 0; turn < TURNS; turn++) {
        weft_arena *heap;
        REQUIRE(weft_arena_create(&heap) == WEFT_OK);
        for (int i = 0; i < (turn == 0 ? BLOCKS : 1); i++) memset(weft_arena_alloc(heap, BYTES), 1, BYTES);
        if (turn == 0) assert_true(counts_now().resident_bytes - before > BLOCKS * BYTES / 2);
        atomic_fetch_add(&later_ns, UINT64_C(1000000000));
        REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    }
    assert_true(counts_now().resident_bytes < before + BLOCKS * BYTES / 10);
}

enum { LEFT = 20000, LEFT_BYTES = 1000 };
static void *left[LEFT];

static void *make_left(void *unused) {
    for (int i = 0; i < LEFT; i++) memset(left[i] = weft_alloc(LEFT_BYTES), 1, LEFT_BYTES);
    return unused;
}

/* What an ended thread has left goes back by a thread that has a heap, but uses private ones alone. */
static void test_decay_of_ended_with_private_heaps_only(void **state) {
    (void)state;
    pthread_t thread;
    decay_after(0);
    weft_free(weft_alloc(LEFT_BYTES));
    weft_trim();
    uint64_t before = counts_now().resident_bytes;
    assert_int_equal(pthread_create(&thread, NULL, make_left, NULL), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < LEFT; i++) weft_free(left[i]);
    assert_true(counts_now().resident_bytes - before > LEFT * LEFT_BYTES / 2);
    for (int turn = 0; turn < 6; turn++) {
        weft_arena *heap;
        REQUIRE(weft_arena_create(&heap) == WEFT_OK);
        memset(weft_arena_alloc(heap, LEFT_BYTES), 1, LEFT_BYTES);
        atomic_fetch_add(&later_ns, UINT64_C(1000000000));
        REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    }
    assert_true(counts_now().resident_bytes < before + LEFT * LEFT_BYTES / 10);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decay_in_idle_pool), /* sleeps by the system's clock: before ours is later */
        cmocka_unit_test(test_purge_thread),
        cmocka_unit_test(test_purge_ended),
        cmocka_unit_test(test_decay_while_working),
        cmocka_unit_test(test_decay_shortened),
        cmocka_unit_test(test_decay_after_batches),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_decay_of_who_only_frees),
        cmocka_unit_test(test_decay_with_any_size),
        cmocka_unit_test(test_decay_within_a_second),
        cmocka_unit_test(test_decay_with_few_of_each),
        cmocka_unit_test(test_decay_of_large),
        cmocka_unit_test(test_decay_of_others),
        cmocka_unit_test(test_looks_for_others),
        cmocka_unit_test(test_decay_of_ended_freed_by_other),
        cmocka_unit_test(test_decay_with_private_heaps_only),
        cmocka_unit_test(test_decay_of_ended_with_private_heaps_only),
        cmocka_unit_test(test_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
