/* Checked mode: each mistake ends the process with a message that names it; what is right goes on as ever. Every case
 * runs in a child, since checked mode never ends. */
#include <errno.h>
#include <pthread.h>

#include "heap/heap.h"
#include "mistake_help.h"
#include "os/os.h"
#include "weft.h"

static void begin(void) {
    weft_heap_config config = {.struct_size = sizeof config, .checks = 1};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

/* ---- freeing ------------------------------------------------------------------------------------------------------ */

static void free_twice(void) {
    begin();
    void *p = weft_alloc(48);
    weft_free(p);
    weft_free(p);
}
static void free_twice_later(void) {
    begin();
    void *p = weft_alloc(48), *others[100];
    weft_free(p);
    for (int i = 0; i < 100; i++) others[i] = weft_alloc(48);
    for (int i = 0; i < 100; i++) weft_free(others[i]);
    weft_free(p);
}
static void free_twice_large(void) {
    begin();
    void *p = weft_alloc(100000);
    weft_free(p);
    weft_free(p);
}
static void *free_it(void *p) {
    weft_free(p);
    return NULL;
}
static void free_in_thread(void *p) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_it, p) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}
static void free_twice_elsewhere(void) {
    begin();
    void *p = weft_alloc(48);
    free_in_thread(p);
    weft_free(p);
}
static void free_foreign(void) {
    begin();
    weft_free(weft_alloc(48));
    weft_free(malloc(48));
}
static void free_stack(void) {
    char local[64];
    begin();
    weft_free(local + 16);
}
static void free_nowhere(void) {
    begin();
    weft_free((void *)(uintptr_t)0x123456789000);
}
static void free_inside(void) {
    begin();
    weft_free((char *)weft_alloc(48) + 16);
}
static void free_inside_with_margin(void) {
    begin();
    char *p = NULL;
    for (int i = 0; i < 8; i++) p = weft_alloc(20000); /* one slab holds three */
    weft_free(p + 19968);
}
static void free_inside_large(void) {
    begin();
    weft_free((char *)weft_alloc(300000) + 70000);
}
static void free_inside_mapping(void) {
    begin();
    weft_free((char *)weft_alloc((size_t)16 << 20) + ((size_t)8 << 20));
}
static void free_never_made(void) {
    begin();
    char *p = weft_alloc(48);
    weft_free(p + weft_usable_size(p) / 48 * 64 * 100); /* a block of the same slab, never handed out */
}
static void free_other_size(void) {
    begin();
    weft_free_sized(weft_alloc(48), 40);
}

static void test_freeing(void **state) {
    (void)state;
    dies(free_twice, "free of 0x|the block of 48 bytes at 0x|was freed already");
    dies(free_twice_later, "the block of 48 bytes|was freed already");
    dies(free_twice_large, "the block of 100000 bytes|was freed already");
    dies(free_twice_elsewhere, "the block of 48 bytes|was freed already");
    dies(free_foreign, "no block of this heap has that address");
    dies(free_stack, "no block of this heap has that address");
    dies(free_nowhere, "free of 0x123456789000: no block of this heap has that address");
    dies(free_inside, "the block of 48 bytes|at offset 16");
    dies(free_inside_with_margin, "the block of 20000 bytes|at offset 19968");
    dies(free_inside_large, "the block of 300000 bytes|at offset 70000");
    dies(free_inside_mapping, "the block of 16777216 bytes|at offset 8388608");
    dies(free_never_made, "no block was handed out there");
    dies(free_other_size, "the block of 48 bytes|was freed with another size: 40");
}

/* ---- without checked mode ------------------------------------------------------------------------------------------ */

static void plain_twice(void) {
    void *p = weft_alloc(40);
    weft_free(p);
    weft_free(p);
}
static void plain_twice_around(void) {
    void *p = weft_alloc(40), *other = weft_alloc(40);
    weft_free(p);
    weft_free(other);
    weft_free(p);
}
static void plain_twice_later(void) {
    void *p = weft_alloc(5000), *others[5];
    for (int i = 0; i < 5; i++) others[i] = weft_alloc(5000);
    weft_free(p);
    for (int i = 0; i < 5; i++) weft_free(others[i]);
    weft_free(p);
    weft_trim();
}
static void plain_twice_large(void) {
    void *p = weft_alloc(1 << 20);
    weft_free(p);
    weft_free(p);
}
static void plain_twice_trimmed(void) {
    void *p = weft_alloc(40), *other = weft_alloc(40);
    weft_free(p), weft_trim(), weft_free(p), weft_free(other);
}
static void plain_inside(void) { weft_free((char *)weft_alloc(100) + 48); }
static void plain_inside_with_margin(void) {
    weft_free((char *)weft_alloc(20000) + 128);
    weft_trim();
}
static void plain_sized(void) { weft_free_sized(weft_alloc(100), 1000); }
static void plain_realloc(void) {
    void *p = weft_alloc(100);
    weft_free(p);
    if (weft_realloc(p, 1000) == p) _exit(1);
}
static void plain_private_twice(void) {
    weft_arena *heap;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    void *p = weft_arena_alloc(heap, 100);
    weft_arena_free(heap, p);
    weft_arena_free(heap, p);
}
static void plain_twice_remote(void) {
    void *p = weft_alloc(100);
    for (int i = 0; i < 2; i++) free_in_thread(p);
}

/* What a cache leaves in its places is no block of the next cache, whose lowest block is compared with the places below it. */
static void plain_right(void) {
    enum { SMALLER = 16, LARGER = 60, SHIFTS = 6 };
    void *smaller[SMALLER], *larger[LARGER];
    for (int shift = 0; shift < SHIFTS; shift++) {
        for (int i = 0; i < 8 * SMALLER; i++) {
            if (i % SMALLER == 0)
                for (int k = 0; k < SMALLER; k++) smaller[k] = weft_alloc(120000);
            weft_free(smaller[i % SMALLER]);
        }
        weft_trim();
        void *one = weft_alloc(60000);
        for (int i = 0; i < LARGER; i++) larger[i] = weft_alloc(190000);
        for (int i = 0; i < LARGER; i++) {
            weft_free(larger[i]);
            weft_trim();
        }
        if (shift % 2 != 0) weft_free(one);
    }
}

/* A right call asks of its own block alone: with the lists of segments and of mappings cut short it goes on as ever. */
static void plain_lists_cut(void) {
    enum { RUN = 500000, RUNS_MADE = 20, MAPPED = 5 << 20 };
    void *small = weft_alloc(100), *large = weft_alloc(3000000), *mapped = weft_alloc(MAPPED), *aligned;
    REQUIRE((aligned = weft_alloc_aligned(SEGMENT_BYTES, MAPPED)) != NULL && (uintptr_t)aligned % SEGMENT_BYTES == 0);
    for (int i = 0; i < RUNS_MADE; i++) REQUIRE(weft_alloc(RUN) != NULL);
    REQUIRE(segment_of(small) != depot_all() && segment_of(large) != depot_all() && mapping_chunks() != NULL);
    store_rlx(&depot_all()->older, NULL);
    for (size_t i = 0; i < CHUNK_WORDS; i++) store_rlx(&mapping_chunks()->used[i], 0);
    REQUIRE(weft_realloc(small, 101) == small && weft_usable_size(small) >= 101);
    REQUIRE(weft_realloc(large, 2999999) == large && weft_usable_size(large) >= 2999999);
    REQUIRE(weft_realloc(mapped, MAPPED - 1) == mapped && weft_usable_size(mapped) >= MAPPED - 1);
    REQUIRE(weft_usable_size(aligned) >= MAPPED);
}
/* What a large block holds says nothing of whether it is free: it may be what stands in a freed small one. */
static void plain_holds_a_tag(void) {
    char *run = weft_alloc(1 << 20);
    REQUIRE(run != NULL && kind_of(run) == KIND_RUN);
    first_word_set(run, tag_of(run, KIND_RUN));
    REQUIRE(weft_usable_size(run) >= 1 << 20);
    weft_free(run);
}
static void *asked;
static void ask(void) { REQUIRE(weft_usable_size(asked) != 0); }
static void tells(void *p, const char *words) { asked = p, dies(ask, words); }

static void test_told_by_default(void **state) {
    (void)state;
    lives(plain_right);
    lives(plain_lists_cut);
    lives(plain_holds_a_tag);
#if defined(WEFT_POISONS)
    SKIP("AddressSanitizer tells first");
#endif
    dies(plain_twice, "free of 0x|the block of at most 48 bytes at 0x|was freed already");
    dies(plain_twice_around, "was freed already");
    dies(plain_twice_later, "the block of at most 5120 bytes|was freed");
    dies(plain_twice_large, "no block of this heap has that address");
    dies(plain_twice_trimmed, "free of 0x|the block of at most 48 bytes at 0x|was freed already");
    dies(plain_inside, "the block of at most 112 bytes|at offset 48");
    dies(plain_inside_with_margin, "at offset 128");
    dies(plain_sized, "was freed with another size: 1000");
    dies(plain_realloc, "realloc of 0x|was freed already");
    dies(plain_private_twice, "was freed twice, some time ago");
    dies(plain_twice_remote, "freed");
    char *p[] = {weft_alloc(9 << 20), weft_alloc(1 << 20), weft_alloc(20000), weft_alloc(40)}, *beside = weft_alloc(40);
    tells(said + 512, "use of 0x|no block of this heap has that address");
    tells(p[0] + (1 << 20), "at offset 1048576");
    tells(p[0] + (5 << 20), "at offset 5242880");
    tells(p[1] + SLOT_BYTES, "at offset 65536");
    tells(p[2] + 128, "at offset 128");
    for (int i = 0; i < 4; i++) weft_free(p[i]);
    weft_trim();
    tells(p[0], "no block of this heap has that address");
    tells(p[1], "no block of this heap has that address");
    tells(p[3], "was freed already");
    weft_free(beside);
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static size_t write_size, write_offset;
static void write_past(void) {
    begin();
    void *p = weft_alloc(write_size);
    scribble(p, write_offset, 1);
    weft_free(p);
}
static void write_past_and_resize(void) {
    begin();
    void *p = weft_alloc(100);
    scribble(p, 100, 1);
    weft_free(weft_realloc(p, 200));
}
static void write_past_aligned(void) {
    begin();
    void *p = weft_alloc_aligned(4096, 4096);
    REQUIRE(((uintptr_t)p & 4095) == 0);
    scribble(p, 4096, 1);
    weft_free(p);
}
/* What stands before it is no block, but what is left of the segment's head. */
static void write_before_first(void) {
    char *p;
    begin();
    do REQUIRE((p = weft_alloc(SLOT_BYTES * 3 / 4)) != NULL);
    while (slot_of(p) != HEAD_SLOTS || slot_offset(p) != 0);
    scribble(p - 1, 0, 1);
    weft_free(p);
}
static void write_freed(void) {
    begin();
    char *p = weft_alloc(200);
    weft_free(p);
    scribble(p, 77, 1);
    weft_trim(); /* the quarantine is emptied */
}
static void write_freed_far(void) {
    begin();
    char *p = weft_alloc(1000000);
    weft_free(p);
    scribble(p, 999999, 1);
    weft_trim();
}
static void write_freed_and_go_on(void) {
    begin();
    char *p = weft_alloc(200);
    weft_free(p);
    scribble(p, 0, 1);
    for (int i = 0; i < 5000; i++) weft_free(weft_alloc(200));
}
static void use_freed(void) {
    begin();
    char *p = weft_alloc(200);
    weft_free(p);
    REQUIRE(weft_usable_size(p) == 0);
}

static void test_writing(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 1008, 1024, 1025, 32752, 32768, 32769, 100000, 262144, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t past = 0; past < 16; past += 15) {
            write_size = sizes[i];
            write_offset = sizes[i] + past;
            char words[96];
            snprintf(words, sizeof words, "the block of %zu bytes|past its end|at offset %zu", write_size, write_offset);
            dies(write_past, words);
        }
    dies(write_past_and_resize, "use of 0x|the block of 100 bytes|past its end|at offset 100");
    dies(write_past_aligned, "the block of 4096 bytes|past its end");
    dies(write_before_first, "free of 0x|was written before its start");
    dies(write_freed, "quarantine of 0x|the block of 200 bytes|after it was freed|at offset 77");
    dies(write_freed_far, "the block of 1000000 bytes|after it was freed|at offset 999999");
    dies(write_freed_and_go_on, "the block of 200 bytes|after it was freed|at offset 0");
    dies(use_freed, "the block of 200 bytes|was freed already");
}

/* ---- what is right ------------------------------------------------------------------------------------------------ */

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static void fill_block(unsigned char *p, size_t size) {
    for (size_t k = 0; k < size; k += size / 64 + 1) p[k] = (unsigned char)size;
}
static void check_block(const unsigned char *p, size_t size) {
    for (size_t k = 0; k < size; k += size / 64 + 1) REQUIRE(p[k] == (unsigned char)size);
}

static void *churn(void *start) {
    enum { LIVE = 300 };
    unsigned char *blocks[LIVE] = {NULL};
    size_t sizes[LIVE] = {0};
    uint32_t seed = (uint32_t)(uintptr_t)start;
    for (int i = 0; i < 20000; i++) {
        uint32_t at = next(&seed) >> 8 & 255;
        if (blocks[at] != NULL) check_block(blocks[at], sizes[at]);
        size_t size = next(&seed) >> 8 & (i % 64 == 0 ? 0x3ffff : 0x7ff);
        switch (next(&seed) >> 8 & 3) {
        case 0: blocks[at] = weft_realloc(blocks[at], size); break;
        case 1:
            weft_free(blocks[at]);
            blocks[at] = weft_alloc_aligned((size_t)16 << (size & 7), size);
            break;
        case 2:
            weft_free_sized(blocks[at], sizes[at]);
            blocks[at] = weft_alloc_zeroed(1, size);
            for (size_t k = 0; k < size; k++) REQUIRE(blocks[at][k] == 0);
            break;
        default: weft_free(blocks[at]); blocks[at] = weft_alloc(size);
        }
        REQUIRE(blocks[at] != NULL && weft_usable_size(blocks[at]) == size);
        fill_block(blocks[at], sizes[at] = size);
    }
    for (int i = 0; i < LIVE; i++) weft_free(blocks[i]);
    return NULL;
}

static void churn_checked(void) {
    begin();
    churn((void *)1);
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) REQUIRE(pthread_create(&threads[i], NULL, churn, (void *)(i + 2)) == 0);
    for (int i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    weft_trim();
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    REQUIRE(counts.live_bytes == 0 && counts.alloc_count == counts.free_count);
}

/* Blocks handed out before checked mode began are freed, resized and freed twice as they should be. */
static void begin_late(void) {
    void *small[50], *run = weft_alloc(100000), *mapping = weft_alloc((size_t)5 << 20);
    void *larger[50]; /* in slabs that begin with a margin */
    for (int i = 0; i < 50; i++) small[i] = weft_alloc((size_t)i * 20 + 1);
    for (int i = 0; i < 50; i++) larger[i] = weft_alloc((size_t)i * 700 + 1);
    for (int i = 0; i < 25; i++) weft_free(small[i]);
    for (int i = 0; i < 50; i += 2) weft_free(larger[i]);
    begin();
    begin();
    for (int i = 1; i < 50; i += 2) weft_free(larger[i]);
    for (int i = 25; i < 50; i++) small[i] = weft_realloc(small[i], (size_t)i * 40);
    for (int i = 25; i < 50; i++) weft_free(small[i]);
    weft_free(run);
    weft_free(mapping);
    weft_trim();
}
static void begin_late_and_free_twice(void) {
    void *p = weft_alloc(48);
    begin();
    weft_free(p);
    weft_free(p);
}

static void *allocate(void *unused) {
    (void)unused;
    weft_free(weft_alloc(10));
    return NULL;
}
static void begin_too_late(void) {
    pthread_t thread;
    weft_free(weft_alloc(10));
    REQUIRE(pthread_create(&thread, NULL, allocate, NULL) == 0);
    pthread_join(thread, NULL);
    weft_heap_config config = {.struct_size = sizeof config, .checks = 1};
    REQUIRE(weft_heap_configure(&config) == WEFT_EBUSY);
    config.checks = 3;
    REQUIRE(weft_heap_configure(&config) == WEFT_EINVAL);
    weft_free(weft_alloc(10));
}
static void begin_after_private(void) {
    weft_arena *ended, *next;
    weft_heap_config config = {.struct_size = sizeof config, .checks = 1};
    REQUIRE(weft_arena_create(&ended) == WEFT_OK && weft_arena_alloc(ended, 40) != NULL);
    REQUIRE(weft_heap_configure(&config) == WEFT_EBUSY);
    REQUIRE(weft_arena_destroy(&ended) == WEFT_OK);
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
    REQUIRE(weft_arena_create(&next) == WEFT_OK);
    void *p = weft_arena_alloc(next, 40);
    REQUIRE(p != NULL && weft_usable_size(p) == 40); /* what was asked for: it is checked */
    REQUIRE(weft_arena_destroy(&next) == WEFT_OK);
}
int __real_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument);
static bool no_threads;
int __wrap_os_thread_start(os_thread *thread, const os_thread_options *options, void (*entry)(void *), void *argument) {
    return no_threads ? EAGAIN : __real_os_thread_start(thread, options, entry, argument);
}

/* What fails changes neither the checks nor the purge thread. */
static void begin_with_purge_thread(void) {
    weft_heap_config config = {.struct_size = sizeof config, .checks = 1, .purge_thread = 1};
    weft_heap_config neither = {.struct_size = sizeof neither};
    no_threads = true;
    REQUIRE(weft_heap_configure(&config) == WEFT_EAGAIN);
    REQUIRE(weft_heap_configure(&neither) == WEFT_OK); /* checks do not end: they had not begun */
    no_threads = false;
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
    REQUIRE(weft_heap_configure(&neither) == WEFT_EBUSY);
    weft_free(weft_alloc(10));
}
static void purge_thread_without_checks(void) {
    begin_too_late();
    weft_heap_config config = {.struct_size = sizeof config, .checks = 1, .purge_thread = 1};
    REQUIRE(weft_heap_configure(&config) == WEFT_EBUSY);
    no_threads = true; /* so none was left running */
    config.checks = 0;
    REQUIRE(weft_heap_configure(&config) == WEFT_EAGAIN);
}

/* A child of a process in the middle of a change has no purge thread, and may have one. */
static int purge_in_child(void) {
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(purge_set(true, NULL) == WEFT_OK);
        REQUIRE(purge_set(false, NULL) == WEFT_OK);
        _exit(3);
    }
    REQUIRE(purge_set(true, NULL) == WEFT_EBUSY);
    REQUIRE(child_status(child) == 3);
    return WEFT_OK;
}
static void fork_in_a_change(void) {
    /* Sanitizers do not fork with threads, nor does the emulator. */
    int (*also)(void) = SANITIZED || is_emulated() ? NULL : purge_in_child;
    REQUIRE(purge_set(true, also) == WEFT_OK);
    REQUIRE(purge_set(true, also) == WEFT_OK);
    REQUIRE(purge_set(false, also) == WEFT_OK);
}

/* What waits in quarantine is handed out again before there is no memory. */
void *__real_os_map_aligned(size_t bytes, size_t alignment);
void *__wrap_os_map_aligned(size_t bytes, size_t alignment);
static bool no_maps;
void *__wrap_os_map_aligned(size_t bytes, size_t alignment) {
    return no_maps ? NULL : __real_os_map_aligned(bytes, alignment);
}
static void short_of_memory(void) {
    begin();
    const void *freed = weft_alloc(5000);
    weft_free((void *)(uintptr_t)freed);
    no_maps = true;
    bool is_again = false;
    for (const void *p; (p = weft_alloc(5000)) != NULL;) is_again |= p == freed;
    REQUIRE(is_again);
}

/* A block that is freed where there is no memory for a heap goes home at once. */
static void free_without_a_heap(void) {
    begin();
    weft_heap_counts before = {.struct_size = sizeof before}, after = before;
    void *p = weft_alloc(5000);
    REQUIRE(p != NULL);
    no_maps = true;
    while (weft_alloc(5000) != NULL) {}
    REQUIRE(weft_heap_stats(&before) == WEFT_OK);
    free_in_thread(p);
    REQUIRE(weft_heap_stats(&after) == WEFT_OK && after.heap_count == before.heap_count);
    REQUIRE(weft_alloc(5000) == p);
}

/* A thread that is not told of its end borrows a heap for each call. */
int __real_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));
int __wrap_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self));
static bool no_keys;
int __wrap_os_self_watch(enum os_exit who, void (*on_exit)(os_self *self)) {
    return no_keys ? EAGAIN : __real_os_self_watch(who, on_exit);
}
static void borrowed(void) {
    begin();
    no_keys = true;
    weft_heap_counts first = {.struct_size = sizeof first}, last = first;
    for (int i = 0; i < 20; i++) {
        free_in_thread(weft_alloc(100));
        if (i == 4) REQUIRE(weft_heap_stats(&first) == WEFT_OK);
    }
    REQUIRE(weft_heap_stats(&last) == WEFT_OK);
    REQUIRE(last.heap_count == first.heap_count);
}

static void never_ends(void) {
    begin();
    weft_heap_config config = {.struct_size = sizeof config};
    REQUIRE(weft_heap_configure(&config) == WEFT_EBUSY);
    free_twice();
}

static void test_right(void **state) {
    (void)state;
    lives(churn_checked);
    lives(begin_late);
    lives(begin_too_late);
    lives(begin_after_private);
    lives(begin_with_purge_thread);
    lives(purge_thread_without_checks);
    lives(fork_in_a_change);
    lives(short_of_memory);
    lives(free_without_a_heap);
    lives(borrowed);
    dies(begin_late_and_free_twice, "was freed already");
    dies(never_ends, "was freed already");
}

/* ---- private heaps ------------------------------------------------------------------------------------------------ */

static void private_right(void) {
    begin();
    for (int round = 0; round < 3; round++) {
        weft_arena *heap;
        void *p[100];
        REQUIRE(weft_arena_create(&heap) == WEFT_OK);
        for (size_t i = 0; i < 100; i++) REQUIRE((p[i] = weft_arena_alloc(heap, i * 700)) != NULL);
        for (size_t i = 0; i < 100; i += 3) REQUIRE(weft_arena_free(heap, p[i]) == WEFT_OK);
        for (size_t i = 1; i < 100; i += 3) free_in_thread(p[i]);
        REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
        churn((void *)9);
    }
}
/* What is freed is the heap's again; what is another's is refused, and stays. */
static void private_owned(void) {
    begin();
    weft_arena *heap, *other;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK && weft_arena_create(&other) == WEFT_OK);
    void *shared = weft_alloc(50), *others = weft_arena_alloc(other, 50), *mapped = weft_alloc(5 << 20);
    REQUIRE(weft_arena_free(heap, shared) == WEFT_EINVAL && weft_arena_free(heap, mapped) == WEFT_EINVAL);
    REQUIRE(weft_arena_free(heap, &other) == WEFT_EINVAL && weft_arena_free(heap, (void *)(uintptr_t)48) == WEFT_EINVAL);
    weft_free(mapped);
    REQUIRE(weft_arena_free(other, weft_arena_alloc(other, 5 << 20)) == WEFT_OK);
    REQUIRE(weft_arena_free(heap, others) == WEFT_EINVAL);
    REQUIRE(weft_arena_free(other, others) == WEFT_OK);
    weft_free(shared);
    weft_heap_counts before = {.struct_size = sizeof before}, after = before;
    REQUIRE(weft_heap_stats(&before) == WEFT_OK);
    for (int i = 0; i < 20000; i++) REQUIRE(weft_arena_free(heap, weft_arena_alloc(heap, 5000)) == WEFT_OK);
    REQUIRE(weft_heap_stats(&after) == WEFT_OK);
    REQUIRE(after.live_bytes == before.live_bytes && after.mapped_bytes <= before.mapped_bytes + ((uint64_t)8 << 20));
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK && weft_arena_destroy(&other) == WEFT_OK);
}
static void private_freed_after(void) {
    begin();
    weft_arena *heap;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    void *p = weft_arena_alloc(heap, 50);
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    weft_free(p);
}
static void private_freed_twice(void) {
    begin();
    weft_arena *heap;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    void *p = weft_arena_alloc(heap, 50);
    free_in_thread(p);
    weft_arena_free(heap, p);
}
static void private_past(void) {
    begin();
    weft_arena *heap;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    void *p = weft_arena_alloc(heap, 50);
    scribble(p, 50, 0);
    weft_arena_free(heap, p);
}
static void test_private(void **state) {
    (void)state;
    lives(private_right);
    lives(private_owned);
    dies(private_freed_after, "free of 0x");
    dies(private_freed_twice, "the block of 50 bytes|was freed already");
    dies(private_past, "the block of 50 bytes|past its end");
}

/* ---- AddressSanitizer --------------------------------------------------------------------------------------------- */

#if defined(SANITIZED_ADDRESS)
static int sum;
static void read_at(const char *p) {
    __asm__("" : "+r"(p));
    sum += *p;
}
static void read_freed(void) {
    char *p = weft_alloc(48);
    weft_free(p);
    read_at(p);
}
static void read_past(void) { read_at((char *)weft_alloc(40) + 40); }
static void read_freed_large(void) {
    char *p = weft_alloc(100000);
    weft_free(p);
    read_at(p + 99999);
}
static void read_never_made(void) { read_at((char *)weft_alloc(48) + 4096); }
static void read_destroyed(void) {
    weft_arena *heap;
    REQUIRE(weft_arena_create(&heap) == WEFT_OK);
    char *p = weft_arena_alloc(heap, 50);
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK);
    read_at(p);
}
static void read_detained(void) {
    begin();
    read_freed();
}
static void free_twice_poisoned(void) {
    void *p = weft_alloc(48);
    weft_free(p);
    weft_free(p);
}
static void reported(void (*run)(void)) {
    int status = outcome(run);
    assert_int_not_equal(status, 0);
    if (strstr(said, "use-after-poison") == NULL) print_error("said: %s\n", said);
    assert_non_null(strstr(said, "use-after-poison"));
}
#endif

static void test_poison(void **state) {
    (void)state;
#if defined(SANITIZED_ADDRESS)
    reported(read_freed);
    reported(read_past);
    reported(read_freed_large);
    reported(read_never_made);
    reported(read_destroyed);
    reported(read_detained);
    reported(free_twice_poisoned);
#else
    SKIP("not built with AddressSanitizer");
#endif
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freeing), cmocka_unit_test(test_told_by_default), cmocka_unit_test(test_writing),
        cmocka_unit_test(test_right),   cmocka_unit_test(test_private),         cmocka_unit_test(test_poison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
