/* test_os_memory.c: memory as os.h promises it. */
#define _GNU_SOURCE
#include "os_help.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

static size_t unmapped_bytes;
static unsigned unmaps;
int __real_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes);
int __wrap_munmap(void *memory, size_t bytes) {
    unmapped_bytes += bytes;
    unmaps++;
    return __real_munmap(memory, bytes);
}

/* Of address space that is mapped. */
static size_t bytes_mapped(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    return pages * os_page_size();
}

/* What a move finds in the end: nothing where it was to go, or a mapping that another thread has made there meanwhile. */
static enum { MOVES, LEAVES_HOLE, LEAVES_OTHER } given_up;
void *__real_mremap(void *from, size_t bytes, size_t wanted, int flags, ...);
void *__wrap_mremap(void *from, size_t bytes, size_t wanted, int flags, ...);
void *__wrap_mremap(void *from, size_t bytes, size_t wanted, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void *) : NULL;
    va_end(rest);
    if (to == NULL) return __real_mremap(from, bytes, wanted, flags);
    if (given_up == MOVES) return __real_mremap(from, bytes, wanted, flags, to);
    REQUIRE(__real_munmap(to, wanted) == 0);
    if (given_up == LEAVES_OTHER) {
        REQUIRE(mmap(to, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == to);
        memset(to, 0x77, wanted);
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

static bool all_equal(const unsigned char *bytes, size_t size, unsigned char value) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value) return false;
    return true;
}

static void test_map(void **state) {
    (void)state;
    size_t page = os_page_size(), size = 8 * page;
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    unsigned char *memory = os_map(size);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % page, 0);
    assert_true(all_equal(memory, size, 0));
    memset(memory, 0xa5, size);
    os_purge(memory + page, 2 * page);
    assert_true(all_equal(memory, page, 0xa5));
    assert_true(all_equal(memory + page, 2 * page, 0));
    assert_true(all_equal(memory + 3 * page, size - 3 * page, 0xa5));
    os_unmap(memory, size);
    unsigned char resident;
    assert_true(mincore(memory, page, &resident) == -1 && errno == ENOMEM);
}

/* A part of what was mapped is not left behind, in front of the range or after it. */
static void test_map_aligned(void **state) {
    (void)state;
    size_t page = os_page_size(), size = 3 * page;
    assert_null(os_map_aligned(SIZE_MAX - page, 2 * page));
    for (size_t alignment = page; alignment <= 1024 * page; alignment *= 2) {
        size_t before = bytes_mapped();
        unsigned char *memory = os_map_aligned(size, alignment);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % alignment, 0);
        if (!is_emulated()) assert_int_equal(bytes_mapped(), before + size);
        assert_true(all_equal(memory, size, 0));
        memset(memory, 0xa5, size);
        assert_true(os_unmap(memory, size));
    }
}

/* Multiples of their alignment, one after the other, are mapped side by side, and hardly anything is unmapped for it. */
static void test_map_side_by_side(void **state) {
    (void)state;
    enum { COUNT = 64, MOST = COUNT / 4 };
    size_t alignment = 1024 * os_page_size(), size = 2 * alignment, before = bytes_mapped();
    char *ranges[COUNT];
    unmaps = 0;
    for (int i = 0; i < COUNT; i++) assert_non_null(ranges[i] = os_map_aligned(size, alignment));
    if (!SANITIZED && !is_emulated()) assert_in_range(unmaps, 0, MOST);
    for (int i = 0; i < COUNT; i++) assert_true(os_unmap(ranges[i], size));
    if (!is_emulated()) assert_int_equal(bytes_mapped(), before);
}

/* Where the system would begin elsewhere, the next place below is taken; if that is not free, any other. */
static void test_map_below(void **state) {
    (void)state;
    size_t page = os_page_size(), alignment = 1024 * page, size = 2 * alignment, before = bytes_mapped();
    char *around = os_map_aligned(4 * size, alignment), *room = around + size + page;
    assert_true(around != NULL && os_unmap(room, size)); /* what is below the room's first multiple is taken */
    char *elsewhere = os_map_aligned(size, alignment);
    assert_true(elsewhere != NULL && (uintptr_t)elsewhere % alignment == 0);
    assert_true(elsewhere + size <= around || elsewhere >= around + 4 * size);
    if (!is_emulated()) assert_int_equal(bytes_mapped(), before + 4 * size);
    assert_true(os_unmap(around, size + page) && os_unmap(room + size, 2 * size - page) && os_unmap(elsewhere, size));
    char *last = os_map(page), *below = os_map_aligned(size, alignment);
    assert_true(last != NULL && below != NULL && (uintptr_t)below % alignment == 0);
    if (!is_emulated()) assert_int_equal(bytes_mapped(), before + page + size);
    assert_true(os_unmap(last, page) && os_unmap(below, size));
}

/* A move that the system begins and gives up leaves a hole: it is filled, or told where another mapping came into it. After that
 * nothing is moved any more. */
static void test_move_given_up(void **state) {
    (void)state;
    if (is_emulated()) SKIP("an emulator places mappings of its own");
    size_t size = 2 * os_page_size();
    unsigned char *from = os_map(size), *to = os_map(size);
    assert_true(from != NULL && to != NULL);
    memset(from, 0xa5, size);
    memset(to, 0x5a, size);
    for (unsigned round = 0; round < 2; round++) {
        given_up = round == 0 ? LEAVES_HOLE : LEAVES_OTHER;
        unmapped_bytes = 0;
        errno = EDOM;
        assert_int_equal(os_move(from, size, to), round == 0 ? OS_STAYED : OS_LOST);
        assert_int_equal(errno, EDOM);
        assert_true(all_equal(from, size, 0xa5));
        assert_true(all_equal(to, size, round == 0 ? 0 : 0x77));
        assert_int_equal(unmapped_bytes, 0);
    }
    given_up = MOVES;
    assert_int_equal(os_move(from, size, to), OS_STAYED);
    assert_true(all_equal(from, size, 0xa5));
    assert_true(all_equal(to, size, 0x77));
    assert_true(os_unmap(from, size));
    assert_true(os_unmap(to, size));
}

/* Zeros in the range and nowhere else, wherever in a page it begins and ends. */
static void test_purge_of_parts(void **state) {
    (void)state;
    size_t page = os_page_size(), size = 4 * page;
    const size_t edges[] = {0, 64, page / 2, page, page + 64, 2 * page, 3 * page - 64, 3 * page, size - 64, size};
    unsigned char *memory = os_map(size);
    assert_non_null(memory);
    for (size_t b = 0; b < sizeof edges / sizeof edges[0]; b++)
        for (size_t e = b; e < sizeof edges / sizeof edges[0]; e++) {
            size_t begin = edges[b], end = edges[e];
            memset(memory, 0xa5, size);
            os_purge(memory + begin, end - begin);
            assert_true(all_equal(memory, begin, 0xa5));
            assert_true(all_equal(memory + begin, end - begin, 0));
            assert_true(all_equal(memory + end, size - end, 0xa5));
        }
    os_unmap(memory, size);
}

static void test_purge_of_locked_memory(void **state) {
    (void)state;
    size_t size = 4 * os_page_size();
    unsigned char *memory = os_map(size);
    assert_non_null(memory);
    memset(memory, 0xa5, size);
    if (mlock(memory, size) != 0) SKIP("no right to lock memory");
    errno = EDOM;
    os_purge(memory, size);
    assert_int_equal(errno, EDOM);
    assert_true(all_equal(memory, size, 0));
    os_unmap(memory, size);
}

static void test_no_memory(void **state) {
    (void)state;
    errno = EDOM;
    assert_null(os_map((size_t)1 << 62));
    assert_int_equal(errno, EDOM);
    void *memory = os_alloc(100);
    assert_non_null(memory);
    memset(memory, 1, 100);
    os_free(memory);
    os_free(NULL);
    assert_int_equal(errno, EDOM);
    if (SANITIZED) SKIP("the sanitizer's malloc ends the process instead of failing");
    assert_null(os_alloc((size_t)1 << 62));
    assert_int_equal(errno, EDOM);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_aligned),
        cmocka_unit_test(test_map_side_by_side),
        cmocka_unit_test(test_map_below),
        cmocka_unit_test(test_move_given_up),
        cmocka_unit_test(test_purge_of_parts),
        cmocka_unit_test(test_purge_of_locked_memory),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
