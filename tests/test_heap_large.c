/* Blocks of several slots, and of mappings: which memory they have, what is kept of it when they are freed, and what small blocks
 * left for them or for the system. */
#define _GNU_SOURCE
#include "help.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pages/depot.h"
#include "weft.h"

static unsigned unmaps;
int __real_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes) {
    unmaps++;
    return __real_munmap(memory, bytes);
}

static weft_heap_counts counts_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return counts;
}

static void pause_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

static void decay_after(int64_t ms) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = ms};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
}

/* Blocks of several slots that a thread keeps for itself: counted once, zeroed when asked, given back by trim. */
static void test_runs_kept(void **state) {
    (void)state;
    decay_after(-1);
    weft_trim();
    weft_heap_counts before = counts_now();
    for (int i = 0; i < 100; i++) {
        size_t size = 40000 + (size_t)(i % 5) * 50000;
        unsigned char *p = weft_alloc(size), *q = weft_alloc_zeroed(1, size), *r = weft_alloc_aligned(4096, size);
        REQUIRE(p != NULL && q != NULL && r != NULL);
        for (size_t k = 0; k < size; k++) REQUIRE(q[k] == 0);
        memset(p, 1, size), memset(q, 2, size), memset(r, 3, size);
        REQUIRE(p[0] == 1 && p[size - 1] == 1 && q[0] == 2 && q[size - 1] == 2);
        weft_free(p), weft_free_sized(q, size), weft_free(r);
    }
    weft_heap_counts after = counts_now();
    assert_int_equal(after.alloc_count - before.alloc_count, 300);
    assert_int_equal(after.free_count - before.free_count, 300);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_true(weft_trim() >= 65536);
    assert_int_equal(counts_now().live_bytes, before.live_bytes);
    decay_after(0);
}

static char *slots_make(size_t slots) {
    char *block = weft_alloc(slots * SLOT_BYTES);
    REQUIRE(block != NULL);
    return block;
}

/* A block has the narrowest of the gaps that are wide enough, so that the wide ones stay for others. */
static void test_runs_fit(void **state) {
    (void)state;
    const size_t wide = 40, between = 8, narrow = 10, all = SEGMENT_SLOTS - HEAD_SLOTS;
    decay_after(-1);
    weft_trim();
    weft_free(slots_make(all)); /* a segment of which all is free and in memory, as none of others is */
    char *first = slots_make(wide), *second = slots_make(between), *third = slots_make(narrow);
    char *fourth = slots_make(all - wide - between - narrow);
    REQUIRE(second == first + wide * SLOT_BYTES && third == second + between * SLOT_BYTES);
    REQUIRE(fourth == third + narrow * SLOT_BYTES);
    weft_free(first), weft_free(third);
    assert_ptr_equal(slots_make(narrow), third);
    assert_ptr_equal(slots_make(wide), first);
    weft_free(first), weft_free(second), weft_free(third), weft_free(fourth);
    decay_after(0);
}

/* Bytes in blocks of that size until there are no more; all are freed. */
static size_t take_all(size_t size) {
    struct link {
        struct link *next;
    } *first = NULL, *link;
    size_t bytes = 0;
    for (; (link = weft_alloc(size)) != NULL; bytes += size) {
        link->next = first;
        first = link;
        ((unsigned char *)link)[size - 1] = 1;
    }
    while ((link = first) != NULL) {
        first = link->next;
        weft_free(link);
    }
    return bytes;
}

enum { SPACE = 300 << 20 };

static void limit_space(void) {
    const struct rlimit limit = {SPACE, SPACE};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}

static int is_limit_kept(void *unused) {
    (void)unused;
    limit_space();
    return mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED;
}

/* What would take all memory of the machine where nothing stops it. NULL if something does. */
static const char *why_unlimited(void) {
    if (SANITIZED) return "a sanitizer needs more address space than that";
    return in_child(is_limit_kept, NULL) == 1 ? NULL : "the limit of address space is not kept (qemu-user keeps none)";
}

static int exhaust_in_child(void *unused) {
    (void)unused;
    static const size_t sizes[] = {65536, 300000, 1 << 20, 2 << 20, 3500000, 5 << 20, 600, 20 << 20, 65536};
    limit_space();
    size_t small = take_all(600);
    REQUIRE(small > (size_t)64 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bytes = take_all(sizes[i]);
        REQUIRE(bytes > small / 5 * 2);
    }
    return 0;
}

/* Address space that small blocks had serves large ones when there is no other. */
static void test_large_after_small(void **state) {
    (void)state;
    const char *why = why_unlimited();
    if (why != NULL) SKIP(why);
    assert_int_equal(in_child(exhaust_in_child, NULL), 0);
}

static int align_in_child(void *unused) {
    (void)unused;
    enum { PIECE = 1 << 16, LEFT = 72 }; /* room for a segment at its multiple, none for what the block would map */
    static void *pieces[SPACE / PIECE];
    size_t count = 0;
    weft_free(weft_alloc_aligned(2 << 20, 3 << 20));
    weft_trim();
    limit_space();
    while ((pieces[count] = mmap(NULL, PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) count++;
    REQUIRE(count > LEFT);
    for (int i = 0; i < LEFT; i++) REQUIRE(munmap(pieces[--count], PIECE) == 0);
    REQUIRE(weft_alloc_aligned(2 << 20, 3 << 20) == NULL);
    void *block = weft_alloc(3 << 20);
    REQUIRE(block != NULL && ((uintptr_t)block & ((4 << 20) - 1)) != 0);
    weft_free(block);
    return 0;
}

/* Some aligned blocks lie in no segment, though they are smaller than one. */
static void test_aligned_without_room(void **state) {
    (void)state;
    const char *why = why_unlimited();
    if (why != NULL) SKIP(why);
    assert_int_equal(in_child(align_in_child, NULL), 0);
}

enum { FRAME = 5 << 20 };

/* ---- a change of phase -------------------------------------------------------------------------------------------- */

#define PHASE (80L << 20)

/* KiB, of /proc/self/status. */
static long status_of(const char *name) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) kib = strtol(line + strlen(name), NULL, 10);
    fclose(file);
    return kib;
}

static void phase_of(size_t size) {
    static void *blocks[PHASE / 512];
    size_t count = PHASE / size;
    REQUIRE(count <= sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = weft_alloc(size);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) weft_free(blocks[i]);
}

/* As little as a quarter more than what lived at a time, whatever its sizes were. Decay comes too late, and does not come. */
static int phases_in_child(void *unused) {
    (void)unused;
    static const size_t sizes[] = {600, 4 << 20, 100000, 5000000, 600, 9 << 20};
    decay_after(100000);
    weft_trim();
    long before = status_of("VmRSS:");
    for (int i = 0; i < 12; i++) phase_of(sizes[i % 6]);
    long peak = status_of("VmHWM:");
    if (peak < 0) return 0; /* a system without it */
    if (peak - before > PHASE / 1024 / 4 * 5) fprintf(stderr, "%ld KiB at first, %ld at peak\n", before, peak);
    REQUIRE(peak - before <= PHASE / 1024 / 4 * 5);
    return 0;
}

static void test_phases(void **state) {
    (void)state;
    if (SANITIZED || is_emulated()) SKIP("what is resident is not the heap's alone");
    assert_int_equal(in_child(phases_in_child, NULL), 0);
}

/* ---- what is used again ------------------------------------------------------------------------------------------- */

/* Blocks of several slots that do not divide a segment leave a slot or more of each; all are freed, then made again. */
static void test_middle_used_again(void **state) {
    (void)state;
    enum { MIDDLES = 700 };
    static const size_t sizes[] = {60000, 100000, 300000, 1000000};
    static void *blocks[MIDDLES];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t mapped = 0;
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < MIDDLES; i++) REQUIRE((blocks[i] = weft_alloc(sizes[s])) != NULL);
            if (round == 0) mapped = counts_now().mapped_bytes;
            assert_int_equal(counts_now().mapped_bytes, mapped);
            for (int i = 0; i < MIDDLES; i++) weft_free(blocks[i]);
        }
    }
}

static unsigned char *frame_make(size_t size) {
    unsigned char *frame = weft_alloc(size);
    REQUIRE(frame != NULL && weft_usable_size(frame) >= size);
    memset(frame, 7, size);
    return frame;
}

static void test_frames_used_again(void **state) {
    (void)state;
    decay_after(-1);
    weft_trim();
    weft_heap_counts before = counts_now();
    for (int i = 0; i < 50; i++) {
        unsigned char *frame = frame_make((size_t)FRAME - (size_t)(i % 5) * 100000), *other = frame_make(2 * (size_t)FRAME);
        weft_free(frame), weft_free(other);
    }
    weft_heap_counts after = counts_now();
    assert_int_equal(after.alloc_count - before.alloc_count, 100);
    assert_int_equal(after.free_count - before.free_count, 100);
    assert_int_equal(after.reuse_count - before.reuse_count, 98); /* all but the first two */
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_true(after.kept_bytes <= (uint64_t)20 << 20); /* both, in multiples of 4 MiB */
    assert_true(weft_trim() >= after.kept_bytes);
    assert_int_equal(counts_now().kept_bytes, 0);
    assert_true(counts_now().mapped_bytes <= before.mapped_bytes);
    decay_after(0);
}

/* What larger blocks left behind smaller ones stays after a trim, and counts as in memory. */
static void test_memory_behind_counts(void **state) {
    (void)state;
    enum { BLOCKS = 8, LARGER = 7900000, SMALLER = 4300000, BEHIND = 12 << 20 };
    unsigned char *blocks[BLOCKS];
    decay_after(-1);
    weft_trim();
    weft_heap_counts before = counts_now();
    for (int larger = 1; larger >= 0; larger--) {
        size_t size = larger ? LARGER : SMALLER;
        for (int i = 0; i < BLOCKS; i++)
            REQUIRE((blocks[i] = weft_alloc(size)) != NULL && memset(blocks[i], 1, size) != NULL);
        for (int i = 0; larger && i < BLOCKS; i++) weft_free(blocks[i]);
    }
    weft_trim();
    weft_heap_counts after = counts_now();
    assert_true(after.resident_bytes - before.resident_bytes >= (size_t)BLOCKS * SMALLER + BEHIND);
    assert_true(after.mapped_bytes - before.mapped_bytes >= after.resident_bytes - before.resident_bytes);
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    weft_trim();
    assert_true(counts_now().resident_bytes <= before.resident_bytes && counts_now().mapped_bytes <= before.mapped_bytes);
    decay_after(0);
}

/* Page faults of the thread that writes to each page of a new block. */
static uint64_t faults_of(size_t size, void **block) {
    uint64_t before = counts_now().page_fault_count;
    unsigned char *p = *block = weft_alloc(size);
    REQUIRE(p != NULL);
    for (size_t i = 0; i < size; i += 4096) p[i] = 1;
    return counts_now().page_fault_count - before;
}

#define MIB (1L << 20)
#define PAGES_OF_MIB (MIB / 4096)

/* A smaller block has a part of it, and the rest is there for others; not one of an alignment that it cannot have. */
static void test_frames_in_part(void **state) {
    (void)state;
    weft_trim();
    decay_after(-1);
    weft_free(frame_make((size_t)31 << 20));
    uint64_t reused = counts_now().reuse_count;
    unsigned char *aligned = weft_alloc_aligned((size_t)8 << 20, FRAME);
    REQUIRE(aligned != NULL && ((uintptr_t)aligned & (((size_t)8 << 20) - 1)) == 0);
    assert_int_equal(counts_now().reuse_count, reused);
    void *parts[4];
    uint64_t faults = 0;
    for (int i = 0; i < 4; i++) faults += faults_of((size_t)7 << 20, &parts[i]);
    assert_int_equal(counts_now().reuse_count, reused + 4);
    if (!SANITIZED) assert_true(faults < 2 * PAGES_OF_MIB);
    unsigned char *less = weft_alloc_aligned(131072, FRAME - 131072);
    REQUIRE(less != NULL && ((uintptr_t)less & 131071) == 0);
    memset(less, 3, FRAME - 131072);
    for (int i = 0; i < 4; i++) weft_free(parts[(i * 3 + 1) % 4]);
    void *whole;
    faults = faults_of((size_t)31 << 20, &whole);
    assert_int_equal(counts_now().reuse_count, reused + 5);
    if (!SANITIZED) assert_true(faults < 6 * PAGES_OF_MIB);
    weft_free(whole), weft_free(less), weft_free(aligned);
    decay_after(0);
    weft_trim();
}

/* Blocks of other sizes come and go without the system clearing again what is behind them; but of many blocks only a part
 * keeps it. */
static void test_frames_of_near_sizes(void **state) {
    (void)state;
    enum { ROUNDS = 20, COUNT = 8, LESS = 4 }; /* LESS: of COUNT, those that lose more than 3 MiB */
    static const size_t small = (4 * MIB) + (MIB / 8), large = 8 * MIB - (MIB / 8);
    void *blocks[COUNT];
    uint64_t faults = 0;
    weft_trim();
    decay_after(-1);
    faults_of(large, &blocks[0]);
    for (int i = 0; i < ROUNDS; i++) {
        weft_free(blocks[0]);
        faults += faults_of(i % 2 == 0 ? small : large, &blocks[0]);
    }
    weft_free(blocks[0]);
    if (!SANITIZED && !is_emulated()) assert_true(faults < PAGES_OF_MIB);
    for (int i = 0; i < COUNT; i++) faults_of(large, &blocks[i]);
    for (int i = 0; i < COUNT; i++) weft_free(blocks[i]);
    for (int i = 0; i < COUNT; i++) faults_of(small, &blocks[i]);
    for (int i = 0; i < COUNT; i++) weft_free(blocks[i]);
    faults = 0;
    for (int i = 0; i < COUNT; i++) faults += faults_of(large, &blocks[i]);
    for (int i = 0; i < COUNT; i++) weft_free(blocks[i]);
    decay_after(0);
    weft_trim();
    if (SANITIZED || is_emulated()) return;
    print_message("what is brought in again: %lu pages\n", faults);
    assert_in_range(faults, LESS * 3 * PAGES_OF_MIB, LESS * 4 * PAGES_OF_MIB);
}

static bool can_move_pages(void) {
    enum { BYTES = 1 << 16 };
    char *from = mmap(NULL, (size_t)2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(from != MAP_FAILED);
    void *moved = mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED | 4, from + BYTES); /* MREMAP_DONTUNMAP */
    munmap(from, (size_t)2 * BYTES);
    return moved != MAP_FAILED;
}

/* What small blocks left has the pages for a large one, which are zeros if it asks, and grows and shrinks as any. */
static void test_frames_after_small(void **state) {
    (void)state;
    enum { SMALL = 600, LARGE = 40 * MIB, SMALLS = 2 * LARGE / SMALL };
    static void *small[SMALLS];
    weft_trim();
    decay_after(100000);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SMALLS; i++) {
            REQUIRE((small[i] = weft_alloc(SMALL)) != NULL);
            memset(small[i], 9, SMALL);
        }
        for (int i = 0; i < SMALLS; i++) weft_free(small[i]);
        void *large;
        uint64_t faults = faults_of(LARGE, &large);
        if (round == 0 && !SANITIZED && can_move_pages()) assert_true(faults < 10 * PAGES_OF_MIB);
        unsigned char *zeros = weft_alloc_zeroed(1, 17 * MIB), *p = weft_realloc(large, LARGE + 30 * MIB);
        REQUIRE(zeros != NULL && p != NULL);
        for (size_t i = 0; i < 17 * MIB; i++) REQUIRE(zeros[i] == 0);
        for (size_t i = 0; i < LARGE; i += 4096) REQUIRE(p[i] == 1);
        memset(p, 2, LARGE + 30 * MIB);
        REQUIRE((p = weft_realloc(p, 9 * MIB)) != NULL && p[9 * MIB - 1] == 2);
        weft_free(p), weft_free(zeros);
    }
    decay_after(0);
    weft_trim();
}

/* Ranges with live blocks between them serve a block larger than each: their pages move, or the kernel's refuse to and all are new. */
static void test_frames_gathered(void **state) {
    (void)state;
    enum { FRAMES = 8 };
    unsigned char *frames[FRAMES];
    void *large;
    weft_trim();
    decay_after(-1);
    for (int i = 0; i < FRAMES; i++) frames[i] = frame_make((size_t)7 * MIB);
    for (int i = 0; i < FRAMES; i += 2) weft_free(frames[i]);
    uint64_t reused = counts_now().reuse_count, faults = faults_of((size_t)30 * MIB, &large);
    assert_int_equal(counts_now().reuse_count, reused + 1);
    assert_int_equal(counts_now().kept_bytes, 0);
    if (!SANITIZED) assert_true(faults < 8 * PAGES_OF_MIB);
    memset(large, 5, (size_t)30 * MIB);
    for (int i = 1; i < FRAMES; i += 2) {
        for (size_t k = 0; k < (size_t)7 * MIB; k++) REQUIRE(frames[i][k] == 7);
        weft_free(frames[i]);
    }
    unsigned char *more = weft_realloc(large, (size_t)50 * MIB); /* whose pages are of several mappings */
    REQUIRE(more != NULL);
    for (size_t k = 0; k < (size_t)30 * MIB; k++) REQUIRE(more[k] == 5);
    memset(more, 6, (size_t)50 * MIB);
    weft_free(more);
    decay_after(0);
    weft_trim();
}

/* Blocks of random sizes that come and go have few pages of the system's: of each block the most are there. */
static void test_frames_of_many_sizes(void **state) {
    (void)state;
    enum { LIVE = 8, ROUNDS = 200 };
    static const size_t most[] = {1, 4, 16}; /* MiB */
    void *blocks[LIVE] = {NULL};
    decay_after(-1);
    for (size_t s = 0; s < sizeof most / sizeof most[0]; s++) {
        uint64_t random = 12345, pages = 0, faults = 0;
        for (int i = 0; i < ROUNDS; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            size_t size = (most[s] << 18) + (size_t)(random >> 33) % (most[s] * 3 << 18);
            weft_free(blocks[i % LIVE]);
            faults += faults_of(size, &blocks[i % LIVE]);
            pages += size / 4096;
        }
        if (!SANITIZED) assert_true(faults < pages / 4);
        for (int i = 0; i < LIVE; i++) weft_free(blocks[i]), blocks[i] = NULL;
    }
    decay_after(0);
    weft_trim();
}

/* Whether all of it was written before or a page. */
static void test_frames_zeroed(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        unsigned char *frame = weft_alloc((size_t)FRAME);
        REQUIRE(frame != NULL);
        memset(frame + (i % 3 == 0 ? 1 << 20 : 0), 7, i % 3 == 0 ? 5000 : FRAME);
        weft_free(frame);
        frame = weft_alloc_zeroed(1, FRAME - 70000);
        REQUIRE(frame != NULL);
        for (size_t k = 0; k < FRAME - 70000; k++) REQUIRE(frame[k] == 0);
        weft_free(frame);
    }
}

/* The head of a block of whole segments takes address space of one more, which is not kept; their pages serve the next one. */
static void test_frames_of_whole_segments(void **state) {
    (void)state;
    enum { FRAMES = 4 };
    void *frames[FRAMES];
    weft_trim();
    decay_after(-1);
    for (int i = 0; i < FRAMES; i++) frames[i] = frame_make(SEGMENT_BYTES);
    for (int i = 0; i < FRAMES; i++) weft_free(frames[i]);
    assert_int_equal(counts_now().kept_bytes, FRAMES * SEGMENT_BYTES);
    uint64_t reused = counts_now().reuse_count, faults = 0;
    for (int i = 0; i < FRAMES; i++) faults += faults_of(SEGMENT_BYTES, &frames[i]);
    assert_int_equal(counts_now().reuse_count, reused + FRAMES);
    if (!SANITIZED && can_move_pages()) assert_true(faults < PAGES_OF_MIB);
    for (int i = 0; i < FRAMES; i++) weft_free(frames[i]);
    decay_after(0);
    weft_trim();
}

/* At most 64 MiB are kept, and a block that is larger is not. */
static void test_frames_bounded(void **state) {
    (void)state;
    enum { FRAMES = 40 };
    static unsigned char *frames[FRAMES];
    weft_trim();
    for (int i = 0; i < FRAMES; i++) {
        frames[i] = weft_alloc((size_t)FRAME + (size_t)i * 65536);
        REQUIRE(frames[i] != NULL);
    }
    for (int i = 0; i < FRAMES; i++) {
        weft_free(frames[i]);
        assert_true(counts_now().kept_bytes <= (uint64_t)64 << 20);
    }
    weft_trim();
    weft_free(weft_alloc((size_t)65 << 20));
    assert_int_equal(counts_now().kept_bytes, 0);
}

/* A thread that goes on with little after frames; the event is waited for, not a time. */
static void test_frames_decay(void **state) {
    (void)state;
    decay_after(20);
    for (int i = 0; i < 3; i++) weft_free(weft_alloc(40));
    weft_free(frame_make(FRAME));
    while (counts_now().kept_bytes != 0) {
        void *few[3];
        for (int i = 0; i < 3; i++) few[i] = weft_alloc(40);
        for (int i = 0; i < 3; i++) weft_free(few[i]);
        pause_ms(1);
    }
    decay_after(0);
}

/* ---- realloc ------------------------------------------------------------------------------------------------------ */

static unsigned char *resize(unsigned char *p, size_t before, size_t size) {
    size_t least = before < size ? before : size;
    p[0] = 1, p[least - 1] = 2;
    unsigned char *q = weft_realloc(p, size);
    REQUIRE(q != NULL && weft_usable_size(q) >= size && q[0] == 1 && q[least - 1] == 2);
    memset(q, 3, size);
    return q;
}

/* Of many, each is unmapped once and nothing else; if it is kept meanwhile, and has one more segment for its head, that one
 * before. */
static void test_frames_unmapped_once(void **state) {
    (void)state;
    enum { FRAMES = 100 };
    static void *frames[FRAMES];
    if (SANITIZED || is_emulated()) SKIP("the system places mappings otherwise");
    weft_trim();
    for (size_t times = 1; times <= 2; times++) {
        size_t size = times == 1 ? SEGMENT_BYTES + (1 << 20) : SEGMENT_BYTES;
        unmaps = 0;
        for (int i = 0; i < FRAMES; i++) REQUIRE((frames[i] = weft_alloc(size)) != NULL);
        for (int i = 0; i < FRAMES; i++) weft_free(frames[i]);
        weft_trim();
        assert_in_range(unmaps, 1, times * FRAMES + FRAMES / 4);
    }
}

/* Sizes that alternate stay where they are, and bring in no page again, from the second time on: across the bound between
 * slabs and runs, between runs of which the lesser is less than half, across the bound between runs and mappings, and between
 * mappings. */
static void test_realloc_alternates(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{30000, 40000},     {17000, 65536},     {200000, 1000000},   {1000000, 2100000},
                                      {3900000, 4200000}, {6000000, 8000000}, {30 * MIB, 40 * MIB}};
    decay_after(-1);
    weft_trim();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t low = sizes[s][0], high = sizes[s][1];
        uint64_t live = counts_now().live_bytes;
        unsigned char *p = weft_alloc(high);
        REQUIRE(p != NULL);
        memset(p, 3, high);
        p = resize(resize(p, high, low), low, high);
        weft_heap_counts before = counts_now();
        for (int i = 0; i < 20; i++) {
            unsigned char *q = resize(p, high, low);
            if (q != p) fprintf(stderr, "%zu to %zu moves\n", high, low);
            assert_ptr_equal(q, p);
            assert_ptr_equal(resize(q, low, high), p);
        }
        weft_heap_counts after = counts_now();
        if (!SANITIZED) assert_true(after.page_fault_count - before.page_fault_count < 8);
        weft_free(p);
        assert_int_equal(counts_now().live_bytes, live);
    }
    decay_after(0);
}

static size_t resident_of(void) { return (size_t)counts_now().resident_bytes; }

/* A block has less than twice what it needs, however it came to its size; one that only shrinks has just that. */
static void test_realloc_gives_back(void **state) {
    (void)state;
    decay_after(-1);
    weft_trim();
    size_t none = resident_of();
    unsigned char *p = frame_make(40 * MIB);
    p = resize(p, 40 * MIB, 30 * MIB);
    if (!SANITIZED) assert_true(resident_of() - none < (size_t)32 * MIB);
    p = resize(resize(p, 30 * MIB, 40 * MIB), 40 * MIB, 21 * MIB);
    if (!SANITIZED) assert_true(resident_of() - none < (size_t)42 * MIB);
    p = resize(p, 21 * MIB, 19 * MIB);
    if (!SANITIZED) assert_true(resident_of() - none < (size_t)21 * MIB);
    p = resize(p, 19 * MIB, 1000000); /* a run */
    if (!SANITIZED) assert_true(counts_now().kept_bytes >= (size_t)16 * MIB);
    weft_trim();
    p = resize(p, 1000000, 3 * MIB);
    p = resize(p, 3 * MIB, MIB);
    assert_int_equal(weft_usable_size(p), MIB);
    assert_true(weft_trim() >= (size_t)2 * MIB); /* its former end */
    weft_free_sized(resize(p, MIB, 17000), 17000);
    decay_after(0);
}

static void *frames_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        unsigned char *frame = weft_alloc((size_t)(3 + i % 4) << 20);
        REQUIRE(frame != NULL);
        frame[0] = frame[weft_usable_size(frame) - 1] = (unsigned char)i;
        if (i % 50 == 0) weft_trim();
        frame = weft_realloc(frame, (size_t)(3 + (i + 1) % 4) << 20);
        REQUIRE(frame != NULL && frame[0] == (unsigned char)i);
        weft_free(frame);
    }
    return NULL;
}

static void test_frames_of_threads(void **state) {
    (void)state;
    uint64_t live = counts_now().live_bytes;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&threads[i], NULL, frames_thread, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(counts_now().live_bytes, live);
}

/* Pages between blocks that stay go back at a trim, and come again with blocks that overlap no other. */
static void trim_between(size_t size, size_t stays_each) {
    enum { MOST = 40000 };
    static unsigned char *blocks[MOST];
    const size_t count = ((size_t)16 << 20) / size;
    REQUIRE(count <= MOST);
    weft_trim();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            if (round == 0 || i % stays_each != 0) blocks[i] = weft_alloc(size);
            REQUIRE(blocks[i] != NULL);
            memset(blocks[i], (int)(i % 251), size);
        }
        size_t free_bytes = 0;
        for (size_t i = 0; i < count; i++)
            if (i % stays_each != 0) weft_free(blocks[i]), free_bytes += size;
        size_t given = weft_trim();
        if (sysconf(_SC_PAGESIZE) == 4096 && !is_emulated()) {
            if (given < free_bytes / 4 * 3) fprintf(stderr, "of %zu bytes in blocks of %zu, %zu\n", free_bytes, size, given);
            assert_true(given >= free_bytes / 4 * 3);
        }
        assert_true(weft_trim() < free_bytes / 16); /* nothing is given back twice */
        for (size_t i = 0; i < count; i += stays_each)
            for (size_t k = 0; k < size; k++) REQUIRE(blocks[i][k] == i % 251);
    }
    for (size_t i = 0; i < count; i += stays_each) weft_free(blocks[i]);
}
static void test_trim_between(void **state) {
    (void)state;
    trim_between(448, 120);
    trim_between(1536, 40);
    trim_between(12288, 5);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_kept),
        cmocka_unit_test(test_runs_fit),
        cmocka_unit_test(test_large_after_small),
        cmocka_unit_test(test_aligned_without_room),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_middle_used_again),
        cmocka_unit_test(test_frames_used_again),
        cmocka_unit_test(test_memory_behind_counts),
        cmocka_unit_test(test_frames_in_part),
        cmocka_unit_test(test_frames_of_near_sizes),
        cmocka_unit_test(test_frames_after_small),
        cmocka_unit_test(test_frames_gathered),
        cmocka_unit_test(test_frames_of_many_sizes),
        cmocka_unit_test(test_frames_decay),
        cmocka_unit_test(test_frames_zeroed),
        cmocka_unit_test(test_frames_of_whole_segments),
        cmocka_unit_test(test_frames_bounded),
        cmocka_unit_test(test_frames_of_threads),
        cmocka_unit_test(test_frames_unmapped_once),
        cmocka_unit_test(test_realloc_alternates),
        cmocka_unit_test(test_realloc_gives_back),
        cmocka_unit_test(test_trim_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
