/* table.c: glibc's behaviour, case by case. The same program runs on glibc and on libweft-malloc.so with the same
 * expectations; it knows neither. Prints a line for each case that fails, and how many there were. */
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNTOUCHED 4711 /* an errno that nobody sets */
#define MOST ((size_t)PTRDIFF_MAX)
#define HALF (SIZE_MAX / 2 + 1)

/* C23's, which glibc does not have before 2.42. */
void free_sized(void *block, size_t size) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t size) __attribute__((weak));

/* The functions under other names: neither the compiler nor an analyser answers in their place. */
void *call_malloc(size_t size) __asm__("malloc");
void *call_calloc(size_t count, size_t size) __asm__("calloc");
void *call_realloc(void *block, size_t size) __asm__("realloc");
void *call_reallocarray(void *block, size_t count, size_t size) __asm__("reallocarray");
void *call_memalign(size_t alignment, size_t size) __asm__("memalign");
void *call_aligned_alloc(size_t alignment, size_t size) __asm__("aligned_alloc");
int call_posix_memalign(void **block, size_t alignment, size_t size) __asm__("posix_memalign");
void *call_valloc(size_t size) __asm__("valloc");
void *call_pvalloc(size_t size) __asm__("pvalloc");
void call_free(void *block) __asm__("free");
#if defined(__x86_64__) && defined(__GLIBC__)
void call_cfree(void *block); /* which glibc has for old programs alone */
__asm__(".symver call_cfree, cfree@GLIBC_2.2.5");
#endif

static bool failed; /* the case that runs */

#define CHECK(x)                                                                                                            \
    do {                                                                                                                    \
        if (!(x)) {                                                                                                         \
            printf("    line %d: not true: %s\n", __LINE__, #x);                                                            \
            failed = true;                                                                                                  \
        }                                                                                                                   \
    } while (0)

/* ---- one call, its result and its errno --------------------------------------------------------------------------- */

enum function {
    MALLOC,        /* (second) */
    CALLOC,        /* (first, second) */
    REALLOC_NULL,  /* (NULL, second) */
    REALLOC,       /* (block, second) */
    ARRAY_NULL,    /* reallocarray (NULL, first, second) */
    ARRAY,         /* reallocarray (block, first, second) */
    MEMALIGN,      /* (first, second) */
    ALIGNED_ALLOC, /* (first, second) */
    POSIX,         /* posix_memalign (&block, first, second) */
    VALLOC,        /* (second) */
    PVALLOC        /* (second) */
};

/* What comes back: a block and errno as before; NULL and errno as before; NULL and that errno. posix_memalign returns it. */
enum outcome { BLOCK, NOTHING, NO_MEMORY, INVALID };

struct row {
    enum function function;
    size_t first, second;
    enum outcome outcome;
    size_t alignment; /* of the block */
    size_t usable;    /* bytes of it at least */
};

static const struct row rows[] = {
    {MALLOC, 0, 0, BLOCK, 16, 1},
    {MALLOC, 0, 1, BLOCK, 16, 1},
    {MALLOC, 0, 24, BLOCK, 16, 24},
    {MALLOC, 0, 1000, BLOCK, 16, 1000},
    {MALLOC, 0, 100000, BLOCK, 16, 100000},
    {MALLOC, 0, 10000000, BLOCK, 16, 10000000},
    {MALLOC, 0, MOST, NO_MEMORY, 0, 0},
    {MALLOC, 0, MOST + 1, NO_MEMORY, 0, 0},
    {MALLOC, 0, SIZE_MAX, NO_MEMORY, 0, 0},
    {MALLOC, 0, SIZE_MAX - 4095, NO_MEMORY, 0, 0},
    {CALLOC, 0, 0, BLOCK, 16, 1},
    {CALLOC, 0, 8, BLOCK, 16, 1},
    {CALLOC, 8, 0, BLOCK, 16, 1},
    {CALLOC, 7, 9, BLOCK, 16, 63},
    {CALLOC, 1, 1000000, BLOCK, 16, 1000000},
    {CALLOC, HALF, 2, NO_MEMORY, 0, 0},
    {CALLOC, SIZE_MAX, SIZE_MAX, NO_MEMORY, 0, 0},
    {CALLOC, (size_t)1 << 33, (size_t)1 << 31, NO_MEMORY, 0, 0},
    {CALLOC, MOST, 1, NO_MEMORY, 0, 0},
    {CALLOC, 1, MOST + 1, NO_MEMORY, 0, 0},
    {REALLOC_NULL, 0, 0, BLOCK, 16, 1},
    {REALLOC_NULL, 0, 100, BLOCK, 16, 100},
    {REALLOC_NULL, 0, SIZE_MAX, NO_MEMORY, 0, 0},
    {REALLOC, 0, 0, NOTHING, 0, 0},
    {REALLOC, 0, 1, BLOCK, 16, 1},
    {REALLOC, 0, 100000, BLOCK, 16, 100000},
    {REALLOC, 0, MOST, NO_MEMORY, 0, 0},
    {REALLOC, 0, MOST + 1, NO_MEMORY, 0, 0},
    {REALLOC, 0, SIZE_MAX, NO_MEMORY, 0, 0},
    {ARRAY_NULL, 0, 0, BLOCK, 16, 1},
    {ARRAY_NULL, 3, 5, BLOCK, 16, 15},
    {ARRAY_NULL, HALF, 2, NO_MEMORY, 0, 0},
    {ARRAY, 0, 8, NOTHING, 0, 0},
    {ARRAY, 8, 0, NOTHING, 0, 0},
    {ARRAY, 100, 100, BLOCK, 16, 10000},
    {ARRAY, SIZE_MAX, 2, NO_MEMORY, 0, 0},
    {ARRAY, MOST, 1, NO_MEMORY, 0, 0},
    {MEMALIGN, 0, 10, BLOCK, 16, 10},
    {MEMALIGN, 1, 10, BLOCK, 16, 10},
    {MEMALIGN, 3, 10, BLOCK, 16, 10},
    {MEMALIGN, 32, 0, BLOCK, 32, 1},
    {MEMALIGN, 48, 10, BLOCK, 64, 10},
    {MEMALIGN, 64, 1000, BLOCK, 64, 1000},
    {MEMALIGN, 4096, 1, BLOCK, 4096, 1},
    {MEMALIGN, (size_t)1 << 21, 100000, BLOCK, (size_t)1 << 21, 100000},
    {MEMALIGN, 16, SIZE_MAX, NO_MEMORY, 0, 0},
    {MEMALIGN, 64, MOST, NO_MEMORY, 0, 0},
    {MEMALIGN, 64, SIZE_MAX, NO_MEMORY, 0, 0},
    {MEMALIGN, 4096, SIZE_MAX - 4095, NO_MEMORY, 0, 0},
    {MEMALIGN, HALF, 1, NO_MEMORY, 0, 0},
    {MEMALIGN, HALF + 1, 1, INVALID, 0, 0},
    {MEMALIGN, SIZE_MAX, 1, INVALID, 0, 0},
    {ALIGNED_ALLOC, 8, 8, BLOCK, 16, 8},
    {ALIGNED_ALLOC, 64, 100, BLOCK, 64, 100},
    {ALIGNED_ALLOC, 1024, 0, BLOCK, 1024, 1},
    {ALIGNED_ALLOC, 65536, 65536, BLOCK, 65536, 65536},
    {ALIGNED_ALLOC, 64, SIZE_MAX, NO_MEMORY, 0, 0},
    {ALIGNED_ALLOC, SIZE_MAX, 64, INVALID, 0, 0},
    {POSIX, 8, 10, BLOCK, 16, 10},
    {POSIX, 16, 10, BLOCK, 16, 10},
    {POSIX, 64, 0, BLOCK, 64, 1},
    {POSIX, 4096, 5000, BLOCK, 4096, 5000},
    {POSIX, (size_t)1 << 23, 10, BLOCK, (size_t)1 << 23, 10},
    {POSIX, 0, 10, INVALID, 0, 0},
    {POSIX, 1, 10, INVALID, 0, 0},
    {POSIX, 4, 10, INVALID, 0, 0},
    {POSIX, 24, 10, INVALID, 0, 0},
    {POSIX, SIZE_MAX, 10, INVALID, 0, 0},
    {POSIX, HALF, 10, NO_MEMORY, 0, 0},
    {POSIX, 64, SIZE_MAX, NO_MEMORY, 0, 0},
    {POSIX, 8, MOST + 1, NO_MEMORY, 0, 0},
    {VALLOC, 0, 0, BLOCK, 4096, 1},
    {VALLOC, 0, 1, BLOCK, 4096, 1},
    {VALLOC, 0, 5000, BLOCK, 4096, 5000},
    {VALLOC, 0, SIZE_MAX, NO_MEMORY, 0, 0},
    {PVALLOC, 0, 0, BLOCK, 4096, 1},
    {PVALLOC, 0, 1, BLOCK, 4096, 4096},
    {PVALLOC, 0, 4097, BLOCK, 4096, 8192},
    {PVALLOC, 0, SIZE_MAX, NO_MEMORY, 0, 0},
    {PVALLOC, 0, MOST, NO_MEMORY, 0, 0},
};

static void *call(const struct row *row, char *old, int *returned) {
    size_t first = row->first, second = row->second;
    void *block = NULL;
    switch (row->function) {
    case MALLOC: return call_malloc(second);
    case CALLOC: return call_calloc(first, second);
    case REALLOC_NULL: return call_realloc(NULL, second);
    case REALLOC: return call_realloc(old, second);
    case ARRAY_NULL: return call_reallocarray(NULL, first, second);
    case ARRAY: return call_reallocarray(old, first, second);
    case MEMALIGN: return call_memalign(first, second);
    case ALIGNED_ALLOC: return call_aligned_alloc(first, second);
    case POSIX: *returned = call_posix_memalign(&block, first, second); return block;
    case VALLOC: return call_valloc(second);
    case PVALLOC: return call_pvalloc(second);
    }
    return NULL;
}

static void check_block(const struct row *row, unsigned char *block) {
    CHECK(block != NULL);
    if (block == NULL) return;
    CHECK((uintptr_t)block % row->alignment == 0);
    CHECK(malloc_usable_size(block) >= row->usable);
    if (row->function == CALLOC) {
        for (size_t i = 0; i < row->first * row->second; i++) CHECK(block[i] == 0 || failed);
    }
    memset(block, 0xa5, malloc_usable_size(block));
    call_free(block);
}

static void run_row(const struct row *row) {
    bool has_old = row->function == REALLOC || row->function == ARRAY;
    char *old = has_old ? call_malloc(16) : NULL;
    int returned = UNTOUCHED, expected = row->outcome == NO_MEMORY ? ENOMEM : row->outcome == INVALID ? EINVAL : UNTOUCHED;
    if (has_old) memcpy(old, "fifteen letters", 16);
    errno = UNTOUCHED;
    char *block = call(row, old, &returned);
    int error = errno;
    if (row->function != POSIX)
        CHECK(error == expected);
    else
        CHECK(returned == (row->outcome == BLOCK ? 0 : expected));
    if (row->function == POSIX && row->outcome == INVALID) CHECK(error == UNTOUCHED);
    if (row->outcome == BLOCK) {
        if (has_old) CHECK(block != NULL && memcmp(block, "fifteen letters", row->usable < 16 ? row->usable : 16) == 0);
        check_block(row, (unsigned char *)block);
        return;
    }
    CHECK(block == NULL);
    if (!has_old || row->outcome == NOTHING) return;
    /* A realloc that failed leaves its block alone. */
    CHECK(memcmp(old, "fifteen letters", 16) == 0);
    call_free(old);
}

static const char *const function_names[] = {
    "malloc",        "calloc",         "realloc of NULL", "realloc", "reallocarray of NULL", "reallocarray", "memalign",
    "aligned_alloc", "posix_memalign", "valloc",          "pvalloc"};

/* ---- cases of more than one call ---------------------------------------------------------------------------------- */

static void zero_sizes_are_distinct(void) {
    void *blocks[100];
    for (int i = 0; i < 100; i++) blocks[i] = i % 2 == 0 ? call_malloc(0) : call_calloc(0, 1);
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < i; k++) CHECK(blocks[i] != blocks[k] || failed);
    }
    for (int i = 0; i < 100; i++) call_free(blocks[i]);
}

static void every_size_is_aligned_and_usable(void) {
    for (size_t size = 0; size < 20000; size += size < 2100 ? 1 : 97) {
        unsigned char *block = call_malloc(size);
        CHECK((block != NULL && (uintptr_t)block % 16 == 0 && malloc_usable_size(block) >= size) || failed);
        memset(block, 1, malloc_usable_size(block));
        call_free(block);
    }
}

static void every_alignment(void) {
    for (size_t alignment = 1; alignment <= (size_t)1 << 24; alignment *= 2) {
        for (size_t size = 1; size < (size_t)1 << 18; size = size * 3 + 1) {
            char *block = call_memalign(alignment, size);
            CHECK((block != NULL && (uintptr_t)block % alignment == 0 && malloc_usable_size(block) >= size) || failed);
            memset(block, 1, size);
            call_free(block);
        }
    }
}

static void blocks_do_not_overlap(void) {
    enum { COUNT = 3000 };
    static unsigned char *blocks[COUNT];
    static size_t sizes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = i * 7919 % 3000;
        blocks[i] = i % 3 == 0 ? call_memalign((size_t)16 << i % 8, sizes[i]) : call_malloc(sizes[i]);
        memset(blocks[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < sizes[i]; k++) CHECK(blocks[i][k] == i % 251 || failed);
        call_free(blocks[i]);
    }
}

static bool is_zero(const unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) return false;
    }
    return true;
}

static void calloc_clears_what_was_used(void) {
    for (size_t size = 1; size < 1000000; size = size * 2 + 1) {
        unsigned char *dirty = call_malloc(size);
        memset(dirty, 0xff, malloc_usable_size(dirty));
        call_free(dirty);
        unsigned char *clean = call_calloc(size, 1);
        CHECK(clean != NULL && is_zero(clean, size));
        memset(clean, 0xff, size);
        call_free(clean);
    }
}

static void realloc_keeps_contents(void) {
    unsigned char *block = NULL;
    size_t size = 0;
    for (size_t next = 1; next < 40000000; next = next * 3 + 5) {
        block = call_realloc(block, next);
        for (size_t i = 0; i < size; i++) CHECK(block[i] == (unsigned char)(i * 31 + 7) || failed);
        for (size_t i = size; i < next; i++) block[i] = (unsigned char)(i * 31 + 7);
        size = next;
    }
    for (; size > 1; size /= 3) {
        block = call_realloc(block, size);
        for (size_t i = 0; i < size; i++) CHECK(block[i] == (unsigned char)(i * 31 + 7) || failed);
    }
    call_free(block);
}

static void realloc_of_an_aligned_block(void) {
    for (size_t alignment = 32; alignment <= 65536; alignment *= 2) {
        char *block = call_memalign(alignment, 100);
        memset(block, 'x', 100);
        block = call_realloc(block, 100000);
        CHECK(block != NULL && block[0] == 'x' && block[99] == 'x');
        block = call_realloc(block, 10);
        CHECK(block != NULL && block[9] == 'x');
        call_free(block);
    }
}

static void realloc_to_the_same_size_stays(void) {
    for (size_t size = 16; size < 100000; size *= 3) {
        char *block = call_malloc(size);
        uintptr_t address = (uintptr_t)block;
        block = call_realloc(block, size);
        CHECK((uintptr_t)block == address);
        call_free(block);
    }
}

static void realloc_that_fails_leaves_a_large_block(void) {
    size_t impossible = MOST - 100000;
    char *block = call_malloc(5000000), *other;
    memset(block, 'y', 5000000);
    other = call_realloc(block, impossible);
    CHECK(other == NULL && errno == ENOMEM);
    CHECK(block[0] == 'y' && block[4999999] == 'y');
    call_free(block);
}

static void free_keeps_errno(void) {
    for (size_t size = 1; size < 100000000; size = size * 5 + 3) {
        void *block = call_malloc(size);
        errno = UNTOUCHED;
        call_free(block);
        CHECK(errno == UNTOUCHED);
    }
    errno = UNTOUCHED;
    call_free(NULL);
    CHECK(errno == UNTOUCHED);
}

#if defined(__x86_64__) && defined(__GLIBC__)
static void free_of_old_programs(void) {
    for (size_t size = 1; size < 10000000; size *= 9) call_cfree(call_malloc(size));
    call_cfree(NULL);
}
#endif

static void usable_size_of_null(void) { CHECK(malloc_usable_size(NULL) == 0); }

static void all_usable_bytes_survive_realloc(void) {
    unsigned char *block = call_malloc(100);
    size_t usable = malloc_usable_size(block);
    memset(block, 0x3c, usable);
    block = call_realloc(block, usable + 100000);
    for (size_t i = 0; i < usable; i++) CHECK(block[i] == 0x3c || failed);
    call_free(block);
}

static void trim_says_yes_or_no(void) {
    errno = UNTOUCHED;
    int first = malloc_trim(0);
    CHECK((first == 0 || first == 1) && errno == UNTOUCHED);
    int second = malloc_trim(1 << 20);
    CHECK(second == 0 || second == 1);
}

static void trim_gives_back(void) {
    static void *blocks[20000];
    for (int i = 0; i < 20000; i++) memset(blocks[i] = call_malloc(1000), 1, 1000);
    void *guard = call_malloc(1000);
    for (int i = 0; i < 20000; i++) call_free(blocks[i]);
    int released = malloc_trim(0);
    CHECK(released == 1);
    call_free(guard);
}

static void mallinfo_counts_live_bytes(void) {
    static void *blocks[1000];
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 1000; i++) blocks[i] = call_malloc(1000);
    struct mallinfo2 during = mallinfo2();
    CHECK(during.uordblks >= before.uordblks + 1000000 && during.uordblks < before.uordblks + 3000000);
    CHECK(during.arena >= during.uordblks);
    for (int i = 0; i < 1000; i++) call_free(blocks[i]);
}

static void blocks_of_libc_are_freed(void) {
    char *copy = strdup("a string"), *made = NULL;
    CHECK(copy != NULL && strcmp(copy, "a string") == 0);
    copy = call_realloc(copy, 1000);
    CHECK(strcmp(copy, "a string") == 0);
    call_free(copy);
    int length = asprintf(&made, "%d and %s", 42, "more");
    CHECK(length == 11 && strcmp(made, "42 and more") == 0);
    call_free(made);
    char *line = NULL;
    size_t room = 0;
    FILE *file = tmpfile();
    CHECK(file != NULL);
    if (file == NULL) return;
    fputs("one line\n", file);
    rewind(file);
    CHECK(getline(&line, &room, file) == 9 && room <= malloc_usable_size(line));
    fclose(file);
    call_free(line);
}

static void *free_it(void *block) {
    call_free(block);
    return call_malloc(100);
}

static void *grow_it(void *block) { return call_realloc(block, 100000); }

static void *in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    pthread_join(thread, &result);
    return result;
}

static void blocks_cross_threads(void) {
    for (size_t size = 8; size < 3000000; size *= 7) {
        char *block = call_malloc(size);
        block[0] = 'z';
        block = in_thread(grow_it, block);
        CHECK(block != NULL && block[0] == 'z');
        char *other = in_thread(free_it, block);
        CHECK(other != NULL);
        call_free(other);
    }
}

static void large_blocks_cost_what_is_touched(void) {
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    char *block = call_malloc((size_t)1 << 30);
    CHECK(block != NULL);
    if (block == NULL) return;
    block[0] = block[((size_t)1 << 30) - 1] = 1;
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_minflt - before.ru_minflt < 5000);
    call_free(block);
}

/* Both sized frees, with the size that was asked for. glibc 2.36 has neither. */
static void sized_frees(void) {
    if (free_sized == NULL || free_aligned_sized == NULL) {
        printf("skipped, sized_frees: this C library has none\n");
        return;
    }
    errno = UNTOUCHED;
    free_sized(NULL, 0);
    free_aligned_sized(NULL, 64, 0);
    for (size_t size = 0; size < 1000000; size = size * 2 + 1) {
        free_sized(call_malloc(size), size);
        free_sized(call_calloc(1, size), size);
        free_sized(call_realloc(call_malloc(10), size + 1), size + 1);
        free_aligned_sized(call_aligned_alloc(64, size), 64, size);
        free_aligned_sized(call_aligned_alloc(4096, size), 4096, size);
    }
    CHECK(errno == UNTOUCHED);
}

/* In a child whose address space is full; the exit status is the line that failed. */
#define REQUIRE(x)                                                                                                          \
    do {                                                                                                                    \
        if (!(x)) _exit(__LINE__ % 255 + 1);                                                                                \
    } while (0)

static void without_memory(void) {
    struct rlimit none = {(rlim_t)1 << 20, RLIM_INFINITY}, plenty = {RLIM_INFINITY, RLIM_INFINITY};
    char *kept = call_malloc(100);
    void *block = NULL;
    REQUIRE(setrlimit(RLIMIT_AS, &none) == 0);
    errno = UNTOUCHED;
    REQUIRE(call_malloc((size_t)64 << 20) == NULL && errno == ENOMEM);
    errno = UNTOUCHED;
    REQUIRE(call_calloc((size_t)64 << 10, 1024) == NULL && errno == ENOMEM);
    errno = UNTOUCHED;
    REQUIRE(call_realloc(kept, (size_t)64 << 20) == NULL && errno == ENOMEM);
    errno = UNTOUCHED;
    REQUIRE(call_memalign(4096, (size_t)64 << 20) == NULL && errno == ENOMEM);
    REQUIRE(call_posix_memalign(&block, 4096, (size_t)64 << 20) == ENOMEM && block == NULL);
    size_t count = 0;
    while (count < 100000000 && call_malloc(1000) != NULL) count++;
    REQUIRE(errno == ENOMEM);
    call_free(kept);
    REQUIRE(setrlimit(RLIMIT_AS, &plenty) == 0);
    REQUIRE(call_malloc((size_t)64 << 20) != NULL && call_malloc(1000) != NULL);
    _exit(0);
}

static void memory_runs_out_and_comes_back(void) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) without_memory();
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) printf("    line %d modulo 255\n", WEXITSTATUS(status) - 1);
}

#define NAMED(function)                                                                                                     \
    { #function, function }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    NAMED(zero_sizes_are_distinct),
    NAMED(every_size_is_aligned_and_usable),
    NAMED(every_alignment),
    NAMED(blocks_do_not_overlap),
    NAMED(calloc_clears_what_was_used),
    NAMED(realloc_keeps_contents),
    NAMED(realloc_of_an_aligned_block),
    NAMED(realloc_to_the_same_size_stays),
    NAMED(realloc_that_fails_leaves_a_large_block),
    NAMED(free_keeps_errno),
    NAMED(usable_size_of_null),
    NAMED(all_usable_bytes_survive_realloc),
    NAMED(trim_says_yes_or_no),
    NAMED(trim_gives_back),
    NAMED(mallinfo_counts_live_bytes),
    NAMED(blocks_of_libc_are_freed),
    NAMED(blocks_cross_threads),
    NAMED(large_blocks_cost_what_is_touched),
    NAMED(sized_frees),
    NAMED(memory_runs_out_and_comes_back),
#if defined(__x86_64__) && defined(__GLIBC__)
    NAMED(free_of_old_programs),
#endif
};

int main(int argc, char **argv) {
    int failures = 0;
    require_server(argc == 2 ? argv[1] : NULL);
    const size_t row_count = sizeof rows / sizeof rows[0], case_count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < row_count; i++) {
        failed = false;
        run_row(&rows[i]);
        failures += failed;
        if (failed) printf("FAILED %s (%zu, %zu)\n", function_names[rows[i].function], rows[i].first, rows[i].second);
    }
    for (size_t i = 0; i < case_count; i++) {
        failed = false;
        cases[i].run();
        failures += failed;
        if (failed) printf("FAILED %s\n", cases[i].name);
    }
    printf("%zu cases, %d failed\n", row_count + case_count, failures);
    return failures != 0;
}
