/* What is in memory behind blocks that realloc has made larger or smaller where they are: no more than behind new ones, an eighth of
 * each and 16 MiB in all. */
#include "help.h"

#include <stdbool.h>

#include "weft.h"

#define MIB ((size_t)1 << 20)
#define SLACK_ALL (16 * MIB)
#define ROUNDING 65536 /* sizes of larger blocks are multiples of it */

enum { BLOCKS = 100 };

static size_t resident_now(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK);
    return (size_t)counts.resident_bytes;
}

static unsigned char *make(size_t size) {
    unsigned char *block = weft_alloc(size);
    REQUIRE(block != NULL);
    return memset(block, 5, size);
}

static unsigned char *resize(unsigned char *block, size_t before, size_t size) {
    unsigned char *other = weft_realloc(block, size);
    REQUIRE(other != NULL && other[0] == 5 && other[(before < size ? before : size) - 1] == 5);
    if (size > before) memset(other + before, 5, size - before);
    return other;
}

static size_t none; /* in memory without the blocks */

static void begin(void) {
    weft_heap_config config = {.struct_size = sizeof config, .decay_ms = -1};
    REQUIRE(weft_heap_configure(&config) == WEFT_OK);
    weft_trim();
    none = resident_now();
}

/* `live` bytes were asked for. Frees the blocks. */
static void expect_bound(unsigned char **blocks, size_t live) {
    weft_trim();
    size_t has = resident_now() - none, most = live + live / 8 + SLACK_ALL + (size_t)BLOCKS * 2 * ROUNDING;
    if (has > most) print_message("%zu KiB in memory, of which %zu are wanted\n", has >> 10, live >> 10);
    for (int i = 0; i < BLOCKS; i++) weft_free(blocks[i]);
    if (!SANITIZED) assert_true(has <= most);
}

/* Each grows into memory that its neighbour has just freed. */
static void test_grown(void **state) {
    (void)state;
    const size_t less = 8 * MIB - ROUNDING, more = less + ROUNDING / 2;
    unsigned char *blocks[BLOCKS];
    begin();
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *one = make(less), *other = make(less);
        bool is_below = one < other;
        weft_free(is_below ? other : one);
        blocks[i] = resize(is_below ? one : other, less, more);
    }
    expect_bound(blocks, BLOCKS * more);
}

/* Each has gone back and forth before, so that it might keep its end. */
static void test_shrunk(void **state) {
    (void)state;
    const size_t less = 5 * MIB, more = 8 * MIB;
    unsigned char *blocks[BLOCKS];
    begin();
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *block = make(more);
        for (int turn = 0; turn < 2; turn++) block = resize(resize(block, more, less), less, more);
        blocks[i] = resize(block, more, less);
    }
    expect_bound(blocks, BLOCKS * less);
}

/* The same below the size from which blocks are mappings. */
static void test_shrunk_runs(void **state) {
    (void)state;
    const size_t less = 600000, more = MIB;
    unsigned char *blocks[BLOCKS];
    begin();
    for (int i = 0; i < BLOCKS; i++) blocks[i] = make(more);
    for (int i = 0; i < BLOCKS; i++) blocks[i] = resize(blocks[i], more, less);
    expect_bound(blocks, BLOCKS * less);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grown),
        cmocka_unit_test(test_shrunk),
        cmocka_unit_test(test_shrunk_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
