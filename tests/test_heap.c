/* The heap through its public functions: sizes, alignment, resizing, threads that come and go, failures, counts. */
#include "help.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "heap/heap.h"
#include "weft.h"

/* ---- mmap that fails ---------------------------------------------------------------------------------------------- */

void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);

static atomic_long maps_left = -1; /* negative: no limit */

void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    long left = atomic_load(&maps_left);
    if (left == 0) return NULL;
    if (left > 0) atomic_fetch_sub(&maps_left, 1);
    return __real_os_map_aligned(bytes, alignment);
}

/* -1: nothing is given back unless it is asked for, however slow the machine. 0: as ever. */
static void decay_after(int64_t ms) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = ms};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

/* ---- blocks that know what they hold ------------------------------------------------------------------------------ */

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void paint(void *p, size_t size, unsigned char color) { memset(p, color, size); }

static bool is_painted(const void *p, size_t size, unsigned char color) {
    const unsigned char *bytes = p;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != color) return false;
    return true;
}

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

/* ---- one thread --------------------------------------------------------------------------------------------------- */

static void check_block(unsigned char *p, size_t size, size_t alignment) {
    REQUIRE(p != NULL);
    REQUIRE(((uintptr_t)p & (alignment - 1)) == 0);
    size_t usable = weft_usable_size(p);
    REQUIRE(usable >= size && usable >= 1);
    p[0] = 1;
    p[usable - 1] = 2;
}

static void test_sizes(void **state) {
    (void)state;
    for (size_t size = 0; size <= 70000; size = size < 2100 ? size + 1 : size + 997) {
        unsigned char *p = weft_alloc(size);
        check_block(p, size, 16);
        if (size >= 128 && size <= MEDIUM_MAX) assert_true(weft_usable_size(p) <= size + size / 4);
        weft_free(p);
    }
    static const size_t with_header[] = {1024 + 8, 1024 + 64, 4096 + 16, 4096 + 272};
    for (size_t i = 0; i < sizeof with_header / sizeof *with_header; i++) {
        unsigned char *p = weft_alloc(with_header[i]);
        assert_true(weft_usable_size(p) < with_header[i] + with_header[i] / 8);
        weft_free(p);
    }
    for (unsigned log2 = 16; log2 <= 30; log2++)
        for (int off = -1; off <= 1; off++) {
            size_t size = ((size_t)1 << log2) + (size_t)off;
            unsigned char *p = weft_alloc(size);
            check_block(p, size, 16);
            weft_free(p);
        }
    weft_free(NULL);
    assert_int_equal(weft_usable_size(NULL), 0);
}

static void test_sizes_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {PTRDIFF_MAX,  (size_t)PTRDIFF_MAX + 1, SIZE_MAX,
                                   SIZE_MAX - 1, SIZE_MAX - 4096,         (size_t)1 << 62};
    void *p = weft_alloc(100);
    paint(p, 100, 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_null(weft_alloc(sizes[i]));
        assert_null(weft_alloc_zeroed(1, sizes[i]));
        assert_null(weft_alloc_zeroed(sizes[i], 16));
        assert_null(weft_alloc_aligned(64, sizes[i]));
        assert_null(weft_alloc_aligned((size_t)1 << 62, sizes[i]));
        assert_null(weft_realloc(p, sizes[i]));
        assert_true(is_painted(p, 100, 7));
    }
    assert_null(weft_alloc_zeroed((size_t)1 << 33, (size_t)1 << 33));
    weft_free(p);
}

static void test_alignment(void **state) {
    (void)state;
    assert_null(weft_alloc_aligned(0, 1));
    assert_null(weft_alloc_aligned(3, 1));
    assert_null(weft_alloc_aligned(48, 100));
    static const size_t sizes[] = {0, 1, 17, 100, 1000, 5000, 32767, 32768, 32769, 70000, 3000000, 5000000};
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = weft_alloc_aligned(alignment, sizes[i]), *q = weft_alloc_aligned(alignment, sizes[i]);
            check_block(p, sizes[i], alignment);
            check_block(q, sizes[i], alignment);
            assert_true(p + weft_usable_size(p) <= q || q + weft_usable_size(q) <= p);
            q = weft_realloc(q, sizes[i] + 50);
            check_block(q, sizes[i] + 50, 16);
            weft_free(p);
            weft_free(q);
        }
}

/* Where a processor cache has 64 sets of lines, blocks at multiples of a page would all share one. */
static void test_margins(void **state) {
    (void)state;
    enum { BLOCKS = 256 };
    static const size_t sizes[] = {10240, 12288, 20480, 24576, 28672};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *blocks[BLOCKS];
        unsigned in_set[64] = {0}, most = 0;
        for (int k = 0; k < BLOCKS; k++) {
            blocks[k] = weft_alloc(sizes[i]);
            assert_true(weft_usable_size(blocks[k]) < sizes[i] + sizes[i] / 4);
            unsigned count = ++in_set[(uintptr_t)blocks[k] / 64 % 64];
            if (count > most) most = count;
        }
        for (int k = 0; k < BLOCKS; k++) weft_free(blocks[k]);
        assert_in_range(most, BLOCKS / 64, BLOCKS / 4); /* without margins: half of them, or all */
    }
}

static void test_zeroed(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 16, 100, 5000, 32768, 40000, 200000, 1500000, 9000000};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = weft_alloc_zeroed(sizes[i], 1);
            assert_true(is_painted(p, sizes[i], 0));
            paint(p, weft_usable_size(p), 0xee);
            weft_free(p);
        }
}

static void test_resizing(void **state) {
    (void)state;
    static const size_t sizes[] = {1,     40,      16,      1000,     900,     400,    33000, 64,       70000,   140000,
                                   65000, 3000000, 9000000, 40000000, 8000000, 100000, 5,     20000000, 2500000, 0};
    unsigned char *p = NULL;
    size_t before = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char color = (unsigned char)(i + 1);
        p = weft_realloc(p, sizes[i]);
        check_block(p, sizes[i], 16);
        (void)color;
        if (before > 2 && sizes[i] > 2) {
            size_t kept = before < sizes[i] ? before : sizes[i];
            assert_true(is_painted(p + 1, kept - 2, (unsigned char)i));
        }
        paint(p, weft_usable_size(p), color);
        before = sizes[i];
    }
    weft_free(p);
}

static void test_sized_free(void **state) {
    (void)state;
    for (size_t size = 0; size < 100000; size += 77) {
        for (int i = 0; i < 40; i++) weft_free_sized(weft_alloc(size), size);
    }
    weft_free_sized(NULL, 0);
    weft_free_sized(NULL, 100);
}

/* Random sizes and lives; no block overlaps another, none loses what it holds. */
enum { LIVE = 3000 };

static void churn(uint32_t seed, int steps, size_t size_max) {
    uint32_t random = seed;
    struct {
        unsigned char *p;
        size_t size;
        unsigned char color;
    } *blocks = calloc(LIVE, sizeof *blocks);
    REQUIRE(blocks != NULL);
    for (int i = 0; i < steps; i++) {
        uint32_t at = next_random(&random) % LIVE;
        size_t size = next_random(&random) % (next_random(&random) % 64 == 0 ? 300000 : size_max);
        if (blocks[at].p != NULL) REQUIRE(is_painted(blocks[at].p, blocks[at].size, blocks[at].color));
        if (next_random(&random) % 4 == 0) {
            blocks[at].p = weft_realloc(blocks[at].p, size);
        } else {
            weft_free(blocks[at].p);
            blocks[at].p = weft_alloc(size);
        }
        REQUIRE(blocks[at].p != NULL);
        blocks[at].size = size;
        blocks[at].color = (unsigned char)(i * 7 + 1);
        paint(blocks[at].p, size, blocks[at].color);
    }
    for (int i = 0; i < LIVE; i++) {
        if (blocks[i].p != NULL) REQUIRE(is_painted(blocks[i].p, blocks[i].size, blocks[i].color));
        weft_free(blocks[i].p);
    }
    free(blocks);
}

static void test_churn(void **state) {
    (void)state;
    churn(1, SANITIZED ? 20000 : 60000, 1024);
    churn(2, SANITIZED ? 4000 : 20000, 9000);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

static void *churn_thread(void *seed) {
    churn((uint32_t)(uintptr_t)seed, SANITIZED ? 3000 : 15000, 2000);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        pthread_t threads[6];
        for (uintptr_t i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, churn_thread, (void *)(i + 10)), 0);
        for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    }
}

/* Blocks go both ways between two threads; each is freed by who did not make it, some by who did. */
enum { RING = 512, SENT = SANITIZED ? 6400 : 32000 };
typedef struct ring {
    _Atomic(unsigned char *) places[RING];
} ring;
static ring rings[2];

static size_t size_of_nth(int n) { return 17 + (size_t)(n * 31) % 700; }

static void receive(ring *from, int n) {
    unsigned char *p;
    while ((p = atomic_exchange(&from->places[n % RING], NULL)) == NULL) sched_yield();
    REQUIRE(is_painted(p, size_of_nth(n), (unsigned char)(n | 1)));
    weft_free(p);
}

static void send_to(ring *to, int n) {
    unsigned char *p = weft_alloc(size_of_nth(n)), *none = NULL;
    REQUIRE(p != NULL);
    paint(p, size_of_nth(n), (unsigned char)(n | 1));
    while (!atomic_compare_exchange_strong(&to->places[n % RING], &none, p)) {
        none = NULL;
        sched_yield();
    }
}

static void *exchange_thread(void *which) {
    uintptr_t me = (uintptr_t)which;
    for (int n = 0; n < SENT; n += 64) {
        for (int i = 0; i < 64; i++) send_to(&rings[me], n + i);
        for (int i = 0; i < 64; i++) receive(&rings[1 - me], n + i);
    }
    return NULL;
}

static void *receive_thread(void *unused) {
    (void)unused;
    for (int n = 0; n < SENT; n++) receive(&rings[0], n);
    return NULL;
}

static void exchange_and_send(void) {
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, exchange_thread, (void *)1), 0);
    exchange_thread(NULL);
    pthread_join(other, NULL);
    assert_int_equal(pthread_create(&other, NULL, receive_thread, NULL), 0);
    for (int n = 0; n < SENT; n++) send_to(&rings[0], n);
    pthread_join(other, NULL);
}

static void test_remote(void **state) {
    (void)state;
    for (uint32_t policy = WEFT_HEAP_REMOTE_HYBRID; policy <= WEFT_HEAP_REMOTE_KEEP; policy++) {
        weft_heap_config config = {.struct_size = sizeof config, .remote = policy};
        weft_heap_counts before = counts_now();
        assert_int_equal(weft_heap_configure(&config), WEFT_OK);
        exchange_and_send();
        weft_heap_counts after = counts_now();
        assert_int_equal(after.live_bytes, before.live_bytes);
        assert_true(after.remote_free_count > before.remote_free_count);
    }
    weft_heap_config config = {.struct_size = sizeof config};
    assert_int_equal(weft_heap_configure(&config), WEFT_OK);
}

/* Threads end while others still hold and free their blocks; what they leave serves the next. */
enum { LEFT = 2000 };
static unsigned char *left_blocks[LEFT];

static void *leave_blocks(void *unused) {
    (void)unused;
    for (int i = 0; i < LEFT; i++) {
        left_blocks[i] = weft_alloc(40 + (size_t)i % 300);
        REQUIRE(left_blocks[i] != NULL);
        paint(left_blocks[i], 40, 9);
    }
    return NULL;
}
static void *free_left_blocks(void *unused) {
    (void)unused;
    for (int i = 0; i < LEFT; i++) {
        REQUIRE(is_painted(left_blocks[i], 40, 9));
        weft_free(left_blocks[i]);
    }
    return NULL;
}

static void run_thread(void *(*entry)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, entry, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void test_exits(void **state) {
    (void)state;
    weft_heap_counts before = {0};
    for (int i = 0; i < 60; i++) {
        run_thread(leave_blocks);
        if (i % 2 == 0)
            run_thread(free_left_blocks);
        else
            free_left_blocks(NULL);
        if (i == 9) before = counts_now();
    }
    weft_heap_counts after = counts_now();
    assert_int_equal(after.live_bytes, before.live_bytes);
    /* what 50 rounds leave would be 19 MB; decay may give a segment back at any time, and the next round maps it again */
    assert_true(after.mapped_bytes <= before.mapped_bytes + ((uint64_t)4 << 20));
    assert_true(after.heap_count == before.heap_count);
}

/* The next thread's heap is the last one's, also when all of that has been taken from it. */
static void test_heaps_again(void **state) {
    (void)state;
    uint64_t made = 0;
    for (int i = 0; i < 20; i++) {
        run_thread(leave_blocks);
        free_left_blocks(NULL);
        if (i % 2 == 0) weft_trim();
        if (i == 4) made = counts_now().heap_count;
    }
    assert_int_equal(counts_now().heap_count, made);
}

/* The main thread gets at the memory of those that have ended. */
static void test_adopted_by_main(void **state) {
    (void)state;
    decay_after(-1); /* whose turns adopt, too */
    weft_trim();
    run_thread(leave_blocks);
    for (int i = 0; i < LEFT; i += 2) weft_free(left_blocks[i]);
    weft_heap_counts before = counts_now();
    void *blocks[LEFT];
    for (int i = 0; i < LEFT; i++) blocks[i] = weft_alloc(40 + (size_t)i % 300);
    weft_heap_counts after = counts_now();
    assert_true(after.from_orphans_count > before.from_orphans_count);
    for (int i = 0; i < LEFT; i++) weft_free(blocks[i]);
    for (int i = 1; i < LEFT; i += 2) weft_free(left_blocks[i]);
    decay_after(0);
}

/* ThreadSanitizer forgets a thread in the last round of destructors: none of ours may come so late there. */
#if defined(SANITIZED_THREAD)
#define LATE_AGAIN 0
#else
#define LATE_AGAIN 1
#endif

static pthread_key_t late_key;
static atomic_int late_runs;
static void late(void *value) {
    atomic_fetch_add(&late_runs, 1);
    weft_free(value);
    unsigned char *p = weft_alloc(200);
    REQUIRE(p != NULL);
    paint(p, 200, 3);
    if (LATE_AGAIN && atomic_load(&late_runs) % 3 != 0) pthread_setspecific(late_key, weft_alloc(50));
    weft_free(p);
}
static void *late_thread(void *unused) {
    (void)unused;
    pthread_setspecific(late_key, weft_alloc(50));
    return NULL;
}
static void test_destructors(void **state) {
    (void)state;
    if (!LATE_AGAIN)
        printf("skipped, %s: ThreadSanitizer does not follow threads that far\n", "several rounds of destructors");
    assert_int_equal(pthread_key_create(&late_key, late), 0);
    uint32_t made = 0;
    for (int i = 0; i < 100; i++) {
        run_thread(late_thread);
        if (i == 20) made = counts_now().heap_count;
    }
    assert_true(atomic_load(&late_runs) >= 100);
    assert_int_equal(counts_now().heap_count, made);
    pthread_key_delete(late_key);
}

/* ---- a process without a key left --------------------------------------------------------------------------------- */

int __real_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));
int __wrap_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));
static atomic_bool no_keys;
int __wrap_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self)) {
    return atomic_load(&no_keys) ? EAGAIN : __real_os_self_watch(who, on_exit);
}

static void test_no_keys(void **state) {
    (void)state;
    run_thread(churn_thread);
    uint32_t made = counts_now().heap_count;
    atomic_store(&no_keys, true);
    for (int i = 0; i < 20; i++) run_thread(churn_thread);
    atomic_store(&no_keys, false);
    assert_int_equal(counts_now().heap_count, made);
}

/* ---- counts, walk, JSON ------------------------------------------------------------------------------------------- */

static void test_counts(void **state) {
    (void)state;
    assert_int_equal(weft_heap_stats(NULL), WEFT_EINVAL);
    weft_trim();
    weft_heap_counts before = counts_now();
    void *blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = weft_alloc(100);
    void *large = weft_alloc(5000000);
    weft_heap_counts after = counts_now();
    assert_int_equal(after.alloc_count - before.alloc_count, 1001);
    assert_int_equal(after.free_count, before.free_count);
    assert_true(after.live_bytes - before.live_bytes >= 1000 * 112 + 5000000);
    assert_true(after.live_bytes - before.live_bytes <= 1000 * 112 + 5000000 + SLOT_BYTES);
    assert_int_equal(after.hit_count + after.miss_count,
                     after.alloc_count - before.alloc_count + before.hit_count + before.miss_count - 1);
    weft_free(large);
    for (int i = 0; i < 1000; i++) weft_free(blocks[i]);
    after = counts_now();
    assert_int_equal(after.free_count - before.free_count, 1001);
    assert_int_equal(after.live_bytes, before.live_bytes);
    struct {
        size_t struct_size;
        uint64_t allocs, untouched;
    } small = {sizeof(size_t) + sizeof(uint64_t), 0, 77};
    assert_int_equal(weft_heap_stats((weft_heap_counts *)(void *)&small), WEFT_OK);
    assert_int_equal(small.allocs, after.alloc_count);
    assert_int_equal(small.untouched, 77);
}

static void test_json(void **state) {
    (void)state;
    assert_int_equal(weft_heap_stats_json(NULL, 1), WEFT_EINVAL);
    int length = weft_heap_stats_json(NULL, 0);
    assert_true(length > 100);
    char *text = malloc((size_t)length + 1000), cut[20];
    assert_non_null(text);
    length = weft_heap_stats_json(text, (size_t)length + 1000);
    assert_int_equal(strlen(text), length);
    assert_true(text[0] == '{' && strstr(text, "\"page_fault_count\"") != NULL && strstr(text, "\"classes\"") != NULL);
    assert_true(weft_heap_stats_json(cut, sizeof cut) >= 100);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_int_equal(strncmp(cut, text, 10), 0);
    free(text);
}

enum { WALKED = 5 };
static const size_t walked_sizes[WALKED] = {100, 33000, 60000, 100000, 9000000};
typedef struct wanted {
    const char *blocks[WALKED];
    int found[WALKED];
} wanted;
static int look(const weft_heap_area *area, void *context) {
    wanted *w = context;
    REQUIRE(area->blocks_used >= 1 && area->blocks_used <= area->blocks && area->block_size * area->blocks <= area->size);
    for (int i = 0; i < WALKED; i++) {
        if ((const char *)area->start > w->blocks[i] || w->blocks[i] >= (const char *)area->start + area->size) continue;
        w->found[i]++;
        REQUIRE(area->block_size >= walked_sizes[i]);
    }
    return 0;
}
static int stop_at_once(const weft_heap_area *area, void *context) {
    (void)area, (void)context;
    return 42;
}
static void test_walk(void **state) {
    (void)state;
    assert_int_equal(weft_heap_walk(NULL, NULL), WEFT_EINVAL);
    wanted w = {0};
    for (int i = 0; i < WALKED; i++) w.blocks[i] = weft_alloc(walked_sizes[i]);
    assert_int_equal(weft_heap_walk(look, &w), 0);
    for (int i = 0; i < WALKED; i++) assert_int_equal(w.found[i], 1);
    assert_int_equal(weft_heap_walk(stop_at_once, NULL), 42);
    for (int i = 0; i < WALKED; i++) weft_free((void *)(uintptr_t)w.blocks[i]);
}

/* ---- configuration ------------------------------------------------------------------------------------------------ */

static void test_configure(void **state) {
    (void)state;
    assert_int_equal(weft_heap_configure(NULL), WEFT_EINVAL);
    weft_heap_config bad[] = {{.pool_capacity = -2}, {.pool_capacity = 4097},
                              {.pool_prefill = -1},  {.pool_prefill = 4097},
                              {.remote = 3},         {.checks = 3},
                              {.purge_thread = 2},   {.purge_thread = 1, .decay_ms = -1},
                              {.decay_ms = -2},      {.decay_ms = (int64_t)INT32_MAX + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bad[i].struct_size = sizeof *bad;
        assert_int_equal(weft_heap_configure(&bad[i]), WEFT_EINVAL);
    }
    weft_heap_config sized = {.struct_size = 0};
    assert_int_equal(weft_heap_configure(&sized), WEFT_EINVAL);
    struct {
        weft_heap_config config;
        uint64_t wish; /* of a later version: must not be passed over in silence */
    } newer = {.config = {.struct_size = sizeof newer}, .wish = 1};
    assert_int_equal(weft_heap_configure(&newer.config), WEFT_EINVAL);
    weft_heap_config good[] = {{.pool_capacity = 4096, .pool_prefill = 4096, .remote = 2, .decay_ms = INT32_MAX},
                               {.pool_capacity = WEFT_HEAP_POOL_NONE},
                               {.purge_thread = 1, .decay_ms = 0},
                               {.pool_capacity = 4, .pool_prefill = 1},
                               {.pool_capacity = 16, .pool_prefill = 3},
                               {.pool_capacity = 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        good[i].struct_size = sizeof *good;
        assert_int_equal(weft_heap_configure(&good[i]), WEFT_OK);
        weft_heap_counts before = counts_now();
        weft_trim(); /* the caches are empty: there will be refills */
        churn((uint32_t)i + 3, SANITIZED ? 20000 : 40000, 1000);
        weft_heap_counts after = counts_now();
        if (good[i].pool_capacity == WEFT_HEAP_POOL_NONE)
            assert_int_equal(after.from_pool_count, before.from_pool_count);
        else
            assert_true(after.from_pool_count > before.from_pool_count);
    }
}

/* ---- no memory ---------------------------------------------------------------------------------------------------- */

/* In a child: every N-th mapping fails, and from then on all do. What was allocated stays good. */
static int starve(void *argument) {
    long n = *(long *)argument;
    enum { COUNT = SANITIZED ? 600 : 1200 };
    static unsigned char *blocks[COUNT];
    atomic_store(&maps_left, n);
    int got = 0;
    for (int i = 0; i < COUNT; i++) {
        size_t size = (size_t)(i % 37) * 997;
        blocks[i] = i % 5 == 0 ? weft_alloc_aligned(256, size) : i % 7 == 0 ? weft_alloc_zeroed(3, size) : weft_alloc(size);
        if (blocks[i] == NULL) continue;
        got++;
        paint(blocks[i], size, (unsigned char)i);
        unsigned char *moved = weft_realloc(blocks[i], size * 2);
        if (moved != NULL) blocks[i] = moved;
        REQUIRE(is_painted(blocks[i], size, (unsigned char)i));
    }
    for (int i = 0; i < COUNT; i++) {
        if (blocks[i] != NULL) REQUIRE(is_painted(blocks[i], (size_t)(i % 37) * 997, (unsigned char)i));
        weft_free(blocks[i]);
    }
    atomic_store(&maps_left, -1);
    void *p = weft_alloc(100000);
    REQUIRE(p != NULL);
    weft_free(p);
    return got == COUNT ? 1 : 0;
}

static void test_starving(void **state) {
    (void)state;
    long n = 0;
    int status = 0;
    for (; status == 0 && n < 500; n++) {
        status = in_child(starve, &n);
        assert_in_range(status, 0, 1);
    }
    assert_int_equal(status, 1); /* at last enough mappings were allowed */
    assert_true(n > 3);
}

/* A pool's large payloads come from the heap: without memory the submit fails and nothing is lost. */
static int see_payload(void *payload, weft_worker *self) {
    (void)self;
    return is_painted(payload, 5000000, 8) ? 0 : 1;
}
static void test_pool_payloads(void **state) {
    (void)state;
    weft_pool *pool;
    unsigned char *payload = malloc(5000000);
    assert_non_null(payload);
    paint(payload, 5000000, 8);
    weft_heap_counts before = counts_now();
    assert_int_equal(weft_pool_create(&pool, NULL), WEFT_OK);
    for (int i = 0; i < 20; i++) {
        weft_group group = WEFT_GROUP_INIT;
        bool starves = i % 2 == 1;
        if (starves) weft_trim(); /* or the one before is used again */
        if (starves) atomic_store(&maps_left, 0);
        assert_int_equal(weft_submit(pool, &group, see_payload, payload, 5000000), starves ? WEFT_ENOMEM : WEFT_OK);
        atomic_store(&maps_left, -1);
        assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    }
    assert_int_equal(weft_pool_destroy(&pool), WEFT_OK);
    weft_heap_counts after = counts_now();
    assert_int_equal(after.alloc_count - before.alloc_count, 10);
    assert_int_equal(after.live_bytes, before.live_bytes);
    free(payload);
}

/* ---- fork --------------------------------------------------------------------------------------------------------- */

static atomic_bool churning;
static void *churn_on(void *seed) {
    for (uint32_t i = 0; atomic_load(&churning); i++) churn((uint32_t)(uintptr_t)seed + i, 3000, 1500);
    return NULL;
}

static int use_in_child(void *block) {
    REQUIRE(is_painted(block, 500, 5));
    weft_free(block);
    churn(99, 3000, 3000);
    weft_trim();
    run_thread(churn_thread);
    REQUIRE(counts_now().alloc_count > 0);
    return 0;
}

static void test_fork(void **state) {
    (void)state;
    if (SANITIZED) SKIP("fork with threads under a sanitizer");
    if (is_emulated()) SKIP("fork with threads under an emulator");
    atomic_store(&churning, true);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn_on, (void *)(i * 1000 + 1)), 0);
    for (int i = 0; i < 60; i++) {
        void *block = weft_alloc(500);
        paint(block, 500, 5);
        assert_int_equal(in_child(use_in_child, block), 0);
        weft_free(block);
    }
    atomic_store(&churning, false);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starving), /* first: a heap that has mapped nothing yet */
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_sizes_refused), cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_margins),       cmocka_unit_test(test_zeroed),        cmocka_unit_test(test_resizing),
        cmocka_unit_test(test_sized_free),

        cmocka_unit_test(test_churn),         cmocka_unit_test(test_threads),       cmocka_unit_test(test_remote),
        cmocka_unit_test(test_exits),         cmocka_unit_test(test_heaps_again),   cmocka_unit_test(test_adopted_by_main),
        cmocka_unit_test(test_destructors),   cmocka_unit_test(test_no_keys),       cmocka_unit_test(test_counts),
        cmocka_unit_test(test_json),          cmocka_unit_test(test_walk),          cmocka_unit_test(test_configure),
        cmocka_unit_test(test_pool_payloads), cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
