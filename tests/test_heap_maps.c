/* Blocks with mappings of their own, where the process has nearly as many mappings as the system allows (vm.max_map_count): none is
 * refused for which there is room in what was freed, and few mappings are made that need not be. */
#define _GNU_SOURCE
#include "help.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "weft.h"

#define MIB ((size_t)1 << 20)
enum { PAGE = 4096, BLOCKS = 600, STEPS = 20000, FILLED_MAX = 70000 };

static uint32_t drawn;
static uint32_t draw(uint32_t below) {
    drawn = drawn * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(drawn >> 8) * below >> 24);
}

static unsigned maps_count(void) {
    char line[512];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) count++;
    fclose(file);
    return count;
}

static char *blocks[BLOCKS];

/* Large blocks of sizes up to `most` come and go; half of them live. Returns how many the heap refused. */
static unsigned mix(int steps, size_t least, size_t most) {
    unsigned refused = 0;
    for (int i = 0; i < steps; i++) {
        uint32_t which = draw(BLOCKS);
        if (blocks[which] != NULL) {
            REQUIRE(blocks[which][0] == (char)which);
            weft_free(blocks[which]);
            blocks[which] = NULL;
            if (draw(2) == 0) continue;
        }
        size_t size = least + draw((uint32_t)(most - least));
        blocks[which] = weft_alloc(size);
        if (blocks[which] == NULL)
            refused++;
        else
            blocks[which][0] = blocks[which][size - 1] = (char)which;
    }
    return refused;
}

static void end_all(void) {
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]), blocks[i] = NULL;
    weft_trim();
}

/* Pages that may and may not be read in turn, each a mapping, until the system makes `left` more only. Returns them. */
static char *fill_maps(unsigned left, size_t *bytes) {
    unsigned long most = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu", &most) == 1);
    fclose(file);
    if (most > FILLED_MAX) {
        print_message("not tried: vm.max_map_count is %lu, and filling so many takes too long\n", most);
        return NULL;
    }
    unsigned has = maps_count();
    unsigned more = most > has + left ? (unsigned)most - has - left + 8 : 0; /* some of /proc/self/maps do not count */
    *bytes = (size_t)more * PAGE;
    char *pages = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    for (size_t at = 0; at < *bytes && mprotect(pages + at, PAGE, PROT_NONE) == 0; at += (size_t)2 * PAGE) {}
    return pages;
}

static void make(int which, size_t size, unsigned *refused) {
    blocks[which] = weft_alloc(size);
    if (blocks[which] == NULL)
        ++*refused;
    else
        blocks[which][0] = blocks[which][size - 1] = (char)which;
}

/* Nothing can be unmapped between blocks that live, as that would make one mapping of two. What is freed there serves again, in
 * the same sizes, in lesser ones, and for small blocks. */
static void freed_serves_again(void) {
    size_t bytes = 0;
    unsigned refused = 0;
    /* the first and the last stay: what is freed at an edge is unmapped, and the system does not map it again */
    for (int i = 0; i < BLOCKS; i++) make(i, 7 * MIB, &refused);
    char *pages = fill_maps(0, &bytes);
    if (pages == NULL) return;
    for (int round = 0; round < 3; round++) {
        for (int i = 2 + round % 2; i < BLOCKS - 2; i += 2) weft_free(blocks[i]), blocks[i] = NULL;
        if (round == 1) weft_trim();
        for (int i = 2 + round % 2; i < BLOCKS - 2; i += 2) make(i, round == 2 ? 5 * MIB : 7 * MIB, &refused);
    }
    for (int i = 2; i < BLOCKS - 2; i += 2) weft_free(blocks[i]), blocks[i] = NULL;
    for (int i = 2; i < BLOCKS - 2; i += 2) make(i, MIB, &refused);
    munmap(pages, bytes);
    end_all();
    if (refused != 0) print_message("%u blocks refused\n", refused);
    REQUIRE(refused == 0);
}

/* Moving pages instead of making new ones leaves mappings that do not merge: so only so many are moved. */
static void moves_are_few(void) {
    enum { MANY = 30000, MAPS_MOST = 14000 }; /* a half live; of PIECES_MAX that are moved, each makes two at most */
    static char *many[MANY];
    drawn = 1;
    for (int i = 0; i < 5 * MANY; i++) {
        uint32_t which = draw(MANY);
        bool was = many[which] != NULL;
        weft_free(many[which]);
        uint32_t part = draw(2048); /* of the range, squared: more are small */
        size_t size = was && draw(2) == 0 ? 0 : MIB + (size_t)part * part * 7 / 4;
        many[which] = size == 0 ? NULL : weft_alloc(size);
        if (many[which] != NULL) many[which][0] = many[which][size - 1] = 1;
    }
    unsigned count = maps_count();
    for (int i = 0; i < MANY; i++) weft_free(many[i]);
    weft_trim();
    print_message("%u mappings\n", count);
    REQUIRE(count <= MAPS_MOST);
}

/* Blocks of many sizes come and go. */
static void mixed(void) {
    size_t bytes = 0;
    drawn = 1;
    REQUIRE(mix(STEPS, MIB, 9 * MIB) == 0);
    unsigned most = maps_count();
    char *pages = fill_maps(40, &bytes);
    if (pages == NULL) return;
    unsigned refused = mix(STEPS, MIB, 9 * MIB);
    munmap(pages, bytes);
    end_all();
    print_message("%u mappings before, %u blocks refused\n", most, refused);
    REQUIRE(refused == 0);
}

/* In a process of its own: a move that fails at the limit ends all moves. */
static void apart(void (*body)(void)) {
    if (SANITIZED || is_emulated()) {
        print_message("not tried: a sanitizer or an emulator has mappings of its own\n");
        skip();
    }
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void test_moves_are_few(void **state) {
    (void)state;
    apart(moves_are_few);
}
static void test_freed_serves_again(void **state) {
    (void)state;
    apart(freed_serves_again);
}
static void test_mixed(void **state) {
    (void)state;
    apart(mixed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_are_few),
        cmocka_unit_test(test_freed_serves_again),
        cmocka_unit_test(test_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
