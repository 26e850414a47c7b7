/* Secure mode: what it tells or stops, where blocks lie, and that what is right goes on as ever; and what memory a free takes,
 * also in checked mode. Every case runs in a child, since the modes never end. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "heap/heap.h"
#include "mistake_help.h"
#include "os/os.h"
#include "weft.h"

static int configure(uint32_t checks) {
    weft_heap_config config = {.struct_size = sizeof config, .checks = checks};
    return weft_heap_configure(&config);
}
static void begin(void) {
    signal(SIGSEGV, SIG_DFL); /* cmocka catches it, and would go on with the next case */
    REQUIRE(configure(WEFT_HEAP_SECURE) == WEFT_OK);
}

/* The access itself ends it. */
static void stops(void (*run)(void)) {
    if (is_emulated()) return; /* it knows no guards */
    int status = outcome(run);
    if (status != 1000 + SIGSEGV && !SANITIZED) print_error("status %d, said: %s\n", status, said);
    if (SANITIZED) /* which may tell first */
        assert_int_not_equal(status, 0);
    else
        assert_int_equal(status, 1000 + SIGSEGV);
}

/* Told or stopped: it depends on where the block lies. */
static void ends(void (*run)(void)) {
    int status = outcome(run);
    if (status == 0) print_error("nothing was seen\n");
    assert_int_not_equal(status, 0);
}

/* To something else than it was, past what the caller may touch. */
static void change(char *p) {
#if defined(SANITIZED_ADDRESS)
    __asan_unpoison_memory_region(p, 1);
#endif
    __asm__("" : "+r"(p));
    *p = (char)(*p ^ 1);
}

/* Page faults so far. */
static size_t pages_taken(void) {
    struct rusage usage;
    REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
    return (size_t)usage.ru_minflt;
}

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* ---- mistakes ----------------------------------------------------------------------------------------------------- */

static size_t size_now;
static void free_twice(void) {
    begin();
    void *p = weft_alloc(size_now);
    weft_free(p);
    weft_free(p);
}
/* It has left the quarantine long ago, and was perhaps handed out and freed again. */
static void free_twice_later(void) {
    begin();
    void *p = weft_alloc(size_now);
    weft_free(p);
    for (int i = 0; i < 20000; i++) weft_free(weft_alloc(size_now));
    weft_free(p);
}
static void free_inside(void) {
    begin();
    weft_free((char *)weft_alloc(size_now) + 16);
}
static void free_other_size(void) {
    begin();
    weft_free_sized(weft_alloc(size_now), size_now + 1);
}
static void write_past(void) {
    begin();
    char *p = weft_alloc(size_now);
    change(p + size_now);
    weft_free(p);
}
static void write_before(void) {
    begin();
    char *p = (char *)weft_alloc(size_now) - 1;
    change(p);
    weft_free(p + 1);
}
/* By the neighbour of a free block, which is handed out afterwards. */
static void write_beside(void) {
    enum { MANY = 5000 };
    static void *blocks[MANY];
    begin();
    char *p = (char *)weft_alloc(size_now) - 1;
    change(p);
    for (int i = 0; i < MANY; i++) REQUIRE((blocks[i] = weft_alloc(size_now)) != NULL);
}
static void write_freed(void) {
    begin();
    char *p = weft_alloc(size_now);
    weft_free(p);
    scribble(p, size_now / 2, 1);
    weft_trim(); /* the quarantine is emptied */
}
static void write_freed_and_go_on(void) {
    begin();
    char *p = weft_alloc(size_now);
    weft_free(p);
    scribble(p, 0, 1);
    for (int i = 0; i < 100000; i++) weft_free(weft_alloc(size_now));
}

static void test_told(void **state) {
    static const size_t sizes[] = {1, 40, 1000, 1024, 5000, 20000, 32000, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_now = sizes[i];
        dies(free_twice, "was freed already");
        if (size_now > 16) dies(free_inside, "at offset 16");
        dies(free_other_size, "was freed with another size");
        dies(write_past, "was written past its end");
        if (size_now < 1000) dies(free_twice_later, "was freed already");
        if (size_now <= MEDIUM_MAX) dies(write_freed, "was written after it was freed");
    }
    size_now = 100;
    dies(write_freed_and_go_on, "the block of 100 bytes|was written after it was freed: first at offset 0");
#if defined(WEFT_POISONS)
    SKIP("what is before a block: AddressSanitizer tells it");
#endif
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] - 1; i++) {
        size_now = sizes[i];
        ends(write_before);
    }
    size_now = 40;
    ends(write_beside);
}

/* ---- guards ------------------------------------------------------------------------------------------------------- */

static void write_on(char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) scribble(p, i, 1);
}
static void write_out_of_slab(void) {
    begin();
    write_on(weft_alloc(100), 2 * SLOT_BYTES);
}
static void write_out_of_run(void) {
    begin();
    write_on(weft_alloc(300000), 300000 + SLOT_BYTES);
}
static void write_out_of_mapping(void) {
    begin();
    write_on((char *)weft_alloc(5 << 20) + (5 << 20), SLOT_BYTES + 1);
}
static void write_before_run(void) {
    begin();
    write_on((char *)weft_alloc(300000) - 1, 1);
}
static void write_before_mapping(void) {
    begin();
    write_on((char *)weft_alloc(5 << 20) - 1, 1);
}
static void read_at(const char *p) {
    __asm__("" : "+r"(p));
    char byte = *p;
    __asm__("" : : "r"(byte));
}
static void read_freed_run(void) {
    begin();
    char *p = weft_alloc(300000);
    weft_free(p);
    read_at(p + 1000);
}
static void read_freed_mapping(void) {
    begin();
    char *p = weft_alloc(5 << 20);
    weft_free(p);
    read_at(p + 1000);
}
static void read_freed_mapping_later(void) {
    begin();
    char *p = weft_alloc(5 << 20);
    weft_free(p);
    memset(weft_alloc(5 << 20), 1, 5 << 20); /* which another's address has */
    read_at(p + 1000);
}
static void free_mapping_twice(void) {
    begin();
    void *p = weft_alloc(5 << 20);
    weft_free(p);
    weft_free(p);
}
static void end_the_mode(void) {
    begin();
    store_rlx(&heap_mode.checks, false);
}

static void test_guards(void **state) {
    (void)state;
    if (is_emulated()) SKIP("an emulator knows no guards");
    stops(write_out_of_slab);
    stops(write_out_of_run);
    stops(write_out_of_mapping);
    stops(write_before_run);
    stops(write_before_mapping);
    stops(read_freed_run);
    stops(read_freed_mapping);
    stops(read_freed_mapping_later);
    dies(free_mapping_twice, "was freed already");
    if (os_page_size() != MODE_BYTES) SKIP("the mode's words have no page of their own");
    stops(end_the_mode);
}

/* ---- places ------------------------------------------------------------------------------------------------------- */

enum { PLACED = 400 };
static char *placed[PLACED];

static void place(size_t size) {
    for (int i = 0; i < PLACED; i++) REQUIRE((placed[i] = weft_alloc(size)) != NULL);
}

static void small_places(void) {
    int beside = 0, rising = 0;
    begin();
    place(40);
    for (int i = 1; i < PLACED; i++) {
        beside += placed[i] - placed[i - 1] == 48;
        rising += placed[i] > placed[i - 1];
    }
    REQUIRE(beside < PLACED / 8 && rising > PLACED / 4 && rising < PLACED * 3 / 4);
}
static void slab_places(void) {
    int nearest = 0;
    begin();
    place(30000);
    for (int i = 1; i < PLACED; i++) {
        ptrdiff_t slots = (placed[i] - placed[i - 1]) / (ptrdiff_t)SLOT_BYTES;
        nearest += slots == 3;
    }
    REQUIRE(nearest < PLACED / 2);
}
/* Of a freed block none of the next allocations has the address; of many, they come back in no order. */
static void comes_back_late(void) {
    begin();
    for (int round = 0; round < 50; round++) {
        const char *freed = weft_alloc(40);
        weft_free((void *)(uintptr_t)freed);
        REQUIRE(weft_alloc(40) != freed);
    }
}
static void mapping_comes_back_late(void) {
    enum { WAITING = 16 };
    const char *freed[WAITING];
    begin();
    for (int i = 0; i < WAITING; i++) {
        REQUIRE((freed[i] = weft_alloc(5 << 20)) != NULL);
        for (int k = 0; k < i; k++) REQUIRE(freed[i] != freed[k]);
        weft_free((void *)(uintptr_t)freed[i]);
    }
    bool again = false;
    for (int i = 0; i < 1000 && !again; i++) { /* nor does address space run out */
        const char *p = weft_alloc(5 << 20);
        for (int k = 0; k < WAITING; k++) again |= p == freed[k];
        weft_free((void *)(uintptr_t)p);
    }
    REQUIRE(again);
}
static void comes_back(void) {
    bool again = false;
    begin();
    const char *freed = weft_alloc(30000);
    weft_free((void *)(uintptr_t)freed);
    for (int i = 0; i < 100000 && !again; i++) {
        const char *p = weft_alloc(30000);
        again = p == freed;
        weft_free((void *)(uintptr_t)p);
    }
    REQUIRE(again);
}
/* A canary is another one in each process. */
static uint64_t secret_of_child(void) {
    int pipes[2];
    uint64_t secret = 0;
    REQUIRE(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        begin();
        REQUIRE(write(pipes[1], &heap_mode.canary, sizeof secret) == sizeof secret);
        _exit(0);
    }
    REQUIRE(child_status(child) == 0 && read(pipes[0], &secret, sizeof secret) == sizeof secret);
    close(pipes[0]), close(pipes[1]);
    return secret;
}

static void test_places(void **state) {
    (void)state;
    lives(small_places);
    lives(slab_places);
    lives(comes_back_late);
    lives(comes_back);
    lives(mapping_comes_back_late);
    assert_true(secret_of_child() != secret_of_child());
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static size_t resident_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts.resident_bytes;
}
/* A freed block is not filled where nobody can see it. */
static void free_brings_in_nothing(void) {
    begin();
    for (int i = 0; i < 8; i++) weft_free(weft_alloc(5 << 20)); /* the thread has all of its own */
    size_t before = pages_taken();
    for (int i = 0; i < 8; i++) {
        void *p = weft_alloc(5 << 20);
        REQUIRE(p != NULL);
        weft_free(p);
    }
    REQUIRE(pages_taken() - before < 8 * 32); /* of 1280 for each block */
}
/* Of a large block no page is touched behind its canary. */
static void end_brings_in_nothing(void) {
    enum { COUNT = 100, BYTES = 33000 };
    begin();
    weft_free(weft_alloc(BYTES));
    size_t before = resident_now();
    for (int i = 0; i < COUNT; i++) REQUIRE(weft_alloc(BYTES) != NULL);
    REQUIRE(resident_now() - before < COUNT * 4096 * 3 / 2);
}

static void begin_checked(void) { REQUIRE(configure(WEFT_HEAP_CHECKED) == WEFT_OK); }
/* Pages of a large block that its program never touched are not filled when it is freed; those that it had are. */
static void checked_free_brings_in_nothing(void) {
    enum { COUNT = 200, BYTES = 33000, QUARANTINE = 1 << 16 };
    static unsigned char *blocks[COUNT];
    begin_checked();
    for (int i = 0; i < COUNT; i++) REQUIRE((blocks[i] = memset(weft_alloc(BYTES), 1, BYTES)) != NULL);
    size_t before = resident_now();
    for (int i = 0; i < COUNT; i++) weft_free(blocks[i]);
    REQUIRE(resident_now() <= before + QUARANTINE + COUNT * 4096);
}
static void checked_large_written_after_free(void) {
    begin_checked();
    char *p = weft_alloc(33000);
    weft_free(p);
    scribble(p, 32999, 1);
    weft_trim();
}

static void test_memory(void **state) {
    (void)state;
    lives(checked_free_brings_in_nothing);
    dies(checked_large_written_after_free, "was written after it was freed: first at offset 32999");
    if (SANITIZED) SKIP("a sanitizer's own pages count as well");
    lives(free_brings_in_nothing);
    if (os_page_size() == 4096) lives(end_brings_in_nothing);
}

/* ---- what is right ------------------------------------------------------------------------------------------------ */

/* Of the calls below; all that is refused stays so. */
void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
bool __real_os_guard(void *memory, size_t bytes);
bool __wrap_os_guard(void *memory, size_t bytes);
static bool no_maps, no_guards;
void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    return no_maps ? NULL : __real_os_map_aligned(bytes, alignment);
}
bool __wrap_os_guard(void *memory, size_t bytes) { return !no_guards && __real_os_guard(memory, bytes); }
bool __real_os_unguard(void *memory, size_t bytes);
bool __wrap_os_unguard(void *memory, size_t bytes);
static bool some_stay; /* of the guards, every third */
static ATOMIC(unsigned) opened;
bool __wrap_os_unguard(void *memory, size_t bytes) {
    if (some_stay && add_rlx(&opened, 1) % 3 == 0) return false;
    return __real_os_unguard(memory, bytes);
}

static void *churn(void *start) {
    enum { LIVE = 256 };
    unsigned char *blocks[LIVE] = {NULL};
    size_t sizes[LIVE] = {0};
    uint32_t seed = (uint32_t)(uintptr_t)start;
    for (int i = 0; i < (SANITIZED ? 5000 : 20000); i++) {
        uint32_t at = next(&seed) >> 8 & (LIVE - 1);
        size_t size = next(&seed) >> 8 & (i % 64 == 0 ? 0x3ffff : i % 8 == 0 ? 0x7fff : 0x7ff);
        if (i % 4096 == 0) size += 5 << 20;
        for (size_t k = 0; k < sizes[at]; k += sizes[at] / 64 + 1) REQUIRE(blocks[at][k] == (unsigned char)sizes[at]);
        switch (next(&seed) >> 8 & 3) {
        case 0: blocks[at] = weft_realloc(blocks[at], size); break;
        case 1:
            weft_free(blocks[at]);
            blocks[at] = weft_alloc_aligned((size_t)16 << (size & 15), size);
            REQUIRE(((uintptr_t)blocks[at] & (((size_t)16 << (size & 15)) - 1)) == 0);
            break;
        case 2:
            weft_free_sized(blocks[at], sizes[at]);
            blocks[at] = weft_alloc_zeroed(1, size);
            for (size_t k = 0; k < size; k++) REQUIRE(blocks[at][k] == 0);
            break;
        default: weft_free(blocks[at]); blocks[at] = weft_alloc(size);
        }
        REQUIRE(blocks[at] != NULL && weft_usable_size(blocks[at]) == size + (size == 0));
        memset(blocks[at], (int)size, sizes[at] = size);
    }
    for (int i = 0; i < LIVE; i++) weft_free(blocks[i]);
    return NULL;
}

static void churn_in_threads(void) {
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) REQUIRE(pthread_create(&threads[i], NULL, churn, (void *)(i + 2)) == 0);
    for (int i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
}
static void churns(void) {
    begin();
    churn((void *)1);
    churn_in_threads();
    weft_trim();
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    if (some_stay) return; /* their blocks count as alive */
    REQUIRE(counts.live_bytes == 0 && counts.alloc_count == counts.free_count);
}
/* Separation is all that is left then. */
static void churns_without_guards(void) {
    no_guards = true;
    churns();
}

/* As where a process has as many mappings as it may: what is behind them is lost, and nothing else. */
static void churns_with_guards_that_stay(void) {
    some_stay = true;
    churns();
    REQUIRE(load_rlx(&opened) > 0);
}
/* No mark can be in locked memory, nor does it go back: what was in it is lost all the same. */
static void a_guard_forgets(void) {
    if (is_emulated()) return; /* it knows no guards */
    size_t bytes = 2 * os_page_size();
    unsigned char *memory = os_map(bytes);
    REQUIRE(memory != NULL);
    memset(memory, 7, bytes);
    REQUIRE(os_guard(memory, bytes) && os_unguard(memory, bytes));
    for (size_t i = 0; i < bytes; i++) REQUIRE(memory[i] == 0);
    os_unmap(memory, bytes);
}
static void churns_in_locked_memory(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        printf("skipped, locked memory: the system refuses it\n");
        return;
    }
    a_guard_forgets();
    churns();
}

/* Blocks go from thread to thread: each frees what the other has made, beside its own. */
static ATOMIC(void *) handed[64];
static void *hand_over(void *start) {
    uint32_t seed = (uint32_t)(uintptr_t)start;
    for (int i = 0; i < 30000; i++) {
        size_t size = (next(&seed) >> 8 & 0x1ff) + 1;
        char *p = weft_alloc(size);
        REQUIRE(p != NULL);
        memset(p, 3, size);
        weft_free(__atomic_exchange_n(&handed[next(&seed) >> 8 & 63].raw, p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}
static void hands_over(void) {
    pthread_t threads[3];
    begin();
    for (uintptr_t i = 0; i < 3; i++) REQUIRE(pthread_create(&threads[i], NULL, hand_over, (void *)(i + 7)) == 0);
    for (int i = 0; i < 3; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 64; i++) weft_free(handed[i].raw);
    weft_trim();
}

static void *churn_and_fork(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn((void *)9);
            _exit(0);
        }
        REQUIRE(child_status(child) == 0);
    }
    return NULL;
}
static void forks(void) {
    pthread_t threads[2];
    begin();
    churn((void *)1);
    REQUIRE(pthread_create(&threads[0], NULL, churn, (void *)5) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, churn_and_fork, NULL) == 0);
    for (int i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
}

/* Blocks handed out before are freed, resized and freed twice as they should be. */
static void begins_late(void) {
    void *blocks[60];
    for (int i = 0; i < 60; i++) REQUIRE((blocks[i] = weft_alloc((size_t)i * 700 + 1)) != NULL);
    void *mapping = weft_alloc((size_t)5 << 20);
    for (int i = 0; i < 20; i++) weft_free(blocks[i]);
    begin();
    begin();
    REQUIRE(configure(WEFT_HEAP_CHECKED) == WEFT_EBUSY && configure(WEFT_HEAP_PLAIN) == WEFT_EBUSY);
    REQUIRE(configure(WEFT_HEAP_SECURE + 1) == WEFT_EINVAL);
    for (int i = 20; i < 40; i++) blocks[i] = weft_realloc(blocks[i], (size_t)i * 900);
    churn((void *)3);
    for (int i = 20; i < 60; i++) weft_free(blocks[i]);
    weft_free(mapping);
    weft_trim();
    churn((void *)4);
}
static void begins_late_and_frees_twice(void) {
    void *p = weft_alloc(48);
    begin();
    weft_free(p);
    weft_free(p);
}
static void checked_first(void) {
    REQUIRE(configure(WEFT_HEAP_CHECKED) == WEFT_OK);
    REQUIRE(configure(WEFT_HEAP_SECURE) == WEFT_EBUSY);
    weft_free(weft_alloc(10));
}

/* What waits in quarantine is handed out before there is no memory; then there is none; then there is again. */
static void short_of_memory(void) {
    enum { MANY = 4000 };
    static void *blocks[MANY];
    begin();
    const void *freed = weft_alloc(5000);
    weft_free((void *)(uintptr_t)freed);
    no_maps = true;
    bool is_again = false;
    int count = 0;
    while (count < MANY && (blocks[count] = weft_alloc(5000)) != NULL) is_again |= blocks[count++] == freed;
    REQUIRE(is_again && count < MANY && weft_alloc(3 << 20) == NULL && weft_alloc(9 << 20) == NULL);
    while (count > 0) weft_free(blocks[--count]);
    REQUIRE(weft_alloc(5000) != NULL);
    no_maps = false;
    churn((void *)1);
}

static void private_heaps(void) {
    begin();
    for (int round = 0; round < 3; round++) {
        weft_arena *heap;
        char *p[100];
        REQUIRE(weft_arena_create(&heap) == WEFT_OK);
        for (size_t i = 0; i < 100; i++) {
            REQUIRE((p[i] = weft_arena_alloc(heap, i * 700)) != NULL);
            memset(p[i], 1, i * 700);
        }
        for (size_t i = 0; i < 100; i += 3) REQUIRE(weft_arena_free(heap, p[i]) == WEFT_OK);
        for (size_t i = 1; i < 100; i += 3) weft_free(p[i]);
        REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
        churn((void *)9);
    }
}

static void test_right(void **state) {
    (void)state;
    lives(churns);
    lives(churns_without_guards);
    lives(churns_with_guards_that_stay);
    lives(a_guard_forgets);
    lives(churns_in_locked_memory);
    lives(hands_over);
    lives(begins_late);
    lives(checked_first);
    lives(short_of_memory);
    lives(private_heaps);
    dies(begins_late_and_frees_twice, "was freed already");
    if (SANITIZED || is_emulated()) SKIP("sanitizers do not fork with threads, nor does the emulator");
    lives(forks);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),   cmocka_unit_test(test_guards), cmocka_unit_test(test_places),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
