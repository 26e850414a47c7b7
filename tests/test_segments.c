/* test_segments.c: the free segments' pages go back to the system, and no segment with them. */
#include "help.h"
#include "queue/lane.h"

enum { SEGMENTS = 150 };

static void shuffle(struct segment **segments, unsigned seed) {
    for (unsigned i = SEGMENTS - 1; i > 0; i--) {
        seed = seed * 1664525u + 1013904223u;
        unsigned other = (seed >> 8) % (i + 1);
        struct segment *segment = segments[i];
        segments[i] = segments[other];
        segments[other] = segment;
    }
}

static bool is_zero(const struct segment *segment) {
    const unsigned char *bytes = (const unsigned char *)segment->cells;
    for (size_t i = 0; i < (size_t)SEGMENT_CELLS * CELL_BYTES; i++)
        if (bytes[i] != 0) return false;
    return true;
}

/* So many are in use, the others free and written, in whatever order. */
static void purge_beside(struct pile *pile, struct segment **segments, unsigned in_use, unsigned seed) {
    shuffle(segments, seed);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        memset(segments[i]->cells, 0xa5, (size_t)SEGMENT_CELLS * CELL_BYTES);
        segments[i]->purged = false; /* as a lane takes it */
    }
    for (unsigned i = in_use; i < SEGMENTS; i++) pile_put(pile, segments[i]);
    segments_purge(pile);
    segments_purge(pile); /* there is nothing left to do */
    uint32_t made = load_rlx(&pile->made);
    for (unsigned i = 0; i < in_use; i++) assert_false(is_zero(segments[i]));
    for (unsigned i = in_use; i < SEGMENTS; i++) {
        segments[i] = pile_pop(pile);
        assert_non_null(segments[i]);
        assert_true(is_zero(segments[i]));
        segments[i]->cells->meta = 1; /* handed out once */
    }
    assert_int_equal(load_rlx(&pile->made), made);
}

static void test_purge(void **state) {
    (void)state;
    static struct segment *segments[SEGMENTS];
    struct store store = {.blocks = NULL};
    struct pile pile;
    os_init();
    assert_true(segments_init(&pile, &store));
    for (unsigned i = 0; i < SEGMENTS; i++) assert_non_null(segments[i] = pile_get(&pile));
    for (unsigned in_use = 0; in_use < SEGMENTS; in_use += 7) purge_beside(&pile, segments, in_use, in_use);
    segments_end(&pile);
    store_end(&store);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_purge)};
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
