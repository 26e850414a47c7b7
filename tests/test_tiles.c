/* test_tiles.c: weft_for_tiles, from the contract of weft.h alone. */
#define _GNU_SOURCE
#include "pool_help.h"

enum { SIDE = 150 };

struct picture {
    weft_tiles tiles;
    size_t height, width; /* of a tile; 0: weft's choice */
    atomic_uint mark[SIDE][SIDE];
};

static int mark_tile(const weft_tile *tile, void *context, weft_worker *self) {
    struct picture *picture = context;
    const weft_range *rows = &picture->tiles.rows, *columns = &picture->tiles.columns;
    REQUIRE(self != NULL && tile->row_begin < tile->row_end && tile->column_begin < tile->column_end);
    REQUIRE(tile->row_begin >= rows->begin && tile->row_end <= rows->end);
    REQUIRE(tile->column_begin >= columns->begin && tile->column_end <= columns->end);
    if (picture->height != 0) {
        REQUIRE((tile->row_begin - rows->begin) % picture->height == 0);
        REQUIRE(tile->row_end - tile->row_begin == picture->height || tile->row_end == rows->end);
    }
    if (picture->width != 0) {
        REQUIRE((tile->column_begin - columns->begin) % picture->width == 0);
        REQUIRE((tile->column_end - columns->begin) % picture->width == 0 || tile->column_end == columns->end);
    }
    for (size_t row = tile->row_begin; row < tile->row_end; row++)
        for (size_t column = tile->column_begin; column < tile->column_end; column++)
            atomic_fetch_add(&picture->mark[row - rows->begin][column - columns->begin], 1);
    return 0;
}

static void test_every_place_once(void **state) {
    (void)state;
    static const size_t sides[] = {0, 1, 2, 63, 64, SIDE}, grains[] = {0, 1, 7, 64, SIZE_MAX}, begins[] = {0, 5};
    static struct picture picture;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        weft_pool *pool = make_pool(workers);
        for (size_t i = 0; i < (size_t)6 * 6 * 5 * 5; i++) {
            size_t rows = sides[i % 6], columns = sides[i / 6 % 6], height = grains[i / 36 % 5], width = grains[i / 180];
            size_t begin = begins[i % 2];
            memset(&picture, 0, sizeof picture);
            picture.tiles = (weft_tiles){{begin, begin + rows, height}, {SIZE_MAX - columns, SIZE_MAX, width}};
            picture.height = height;
            picture.width = width;
            assert_int_equal(weft_for_tiles(pool, picture.tiles, mark_tile, &picture), WEFT_OK);
            for (size_t row = 0; row < SIDE; row++)
                for (size_t column = 0; column < SIDE; column++)
                    if (atomic_load(&picture.mark[row][column]) != (row < rows && column < columns))
                        fail_msg("place %zu, %zu of %zu x %zu, tiles of %zu x %zu", row, column, rows, columns, height,
                                 width);
        }
        end_pool(pool);
    }
}

/* Fails at some places; every place of earlier tiles must have been handled. */
struct failing {
    struct picture picture;
    size_t rows[2], columns[2];
};
static int failing_tile(const weft_tile *tile, void *context, weft_worker *self) {
    struct failing *failing = context;
    for (size_t column = tile->column_begin; column < tile->column_end; column += 10) {
        weft_tile one = *tile;
        one.column_begin = column;
        one.column_end = column + 10;
        for (int i = 0; i < 2; i++)
            if (failing->rows[i] == tile->row_begin && failing->columns[i] == column) return i + 1;
        REQUIRE(mark_tile(&one, &failing->picture, self) == 0);
    }
    return 0;
}
static void test_first_error(void **state) {
    (void)state;
    static struct failing failing;
    weft_pool *pool = make_pool(3);
    for (unsigned round = 0; round < 200; round++) {
        memset(&failing, 0, sizeof failing);
        failing.picture.tiles = (weft_tiles){{0, SIDE, 10}, {0, SIDE, 10}};
        failing.picture.height = failing.picture.width = 10;
        failing.rows[0] = failing.rows[1] = (size_t)(round % 15) * 10;
        failing.columns[0] = (size_t)(round % 14) * 10;
        failing.columns[1] = failing.columns[0] + 10;
        assert_int_equal(weft_for_tiles(pool, failing.picture.tiles, failing_tile, &failing), 1);
        size_t first = failing.rows[0] / 10 * 15 + failing.columns[0] / 10;
        for (size_t i = 0; i < first; i++)
            assert_int_equal(atomic_load(&failing.picture.mark[i / 15 * 10 + 9][i % 15 * 10 + 9]), 1);
    }
    end_pool(pool);
}

static int cancel_tile(const weft_tile *tile, void *context, weft_worker *self) {
    (void)tile;
    return weft_group_cancel(weft_worker_pool(self), context);
}
static int cancelled_task(void *payload, weft_worker *self) {
    const weft_tiles tiles = {{0, 1000, 1}, {0, 1000, 1}};
    REQUIRE(weft_for_tiles(weft_worker_pool(self), tiles, cancel_tile, *(void **)payload) == WEFT_ECANCELED);
    return 0;
}
static void test_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    weft_group group = WEFT_GROUP_INIT, *it = &group;
    assert_int_equal(weft_submit(pool, &group, cancelled_task, &it, sizeof it), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_ECANCELED);
    end_pool(pool);
}

/* A blur whose every place is a sum of floats: the same bits as one thread's. */
static float before[SIDE][SIDE], after[SIDE][SIDE];
static int blur_tile(const weft_tile *tile, void *context, weft_worker *self) {
    (void)context;
    (void)self;
    for (size_t row = tile->row_begin; row < tile->row_end; row++)
        for (size_t column = tile->column_begin; column < tile->column_end; column++) {
            float sum = 0;
            for (size_t i = 0; i < 9; i++) sum += before[(row + i / 3) % SIDE][(column + i % 3) % SIDE] / (float)(i + 3);
            after[row][column] = sum;
        }
    return 0;
}
static void test_same_bits(void **state) {
    (void)state;
    static float expected[SIDE][SIDE];
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) before[i / SIDE][i % SIDE] = (float)(i * 7919 % 1000) / 7;
    const weft_tile all = {0, SIDE, 0, SIDE};
    blur_tile(&all, NULL, NULL);
    memcpy(expected, after, sizeof after);
    static const uint32_t workers[] = {1, 2, 3, 8};
    for (unsigned w = 0; w < 4; w++) {
        weft_pool *pool = make_pool(workers[w]);
        for (size_t grain = 0; grain < 40; grain += 13) {
            memset(after, 0, sizeof after);
            assert_int_equal(weft_for_tiles(pool, (weft_tiles){{0, SIDE, grain}, {0, SIDE, grain}}, blur_tile, NULL),
                             WEFT_OK);
            assert_memory_equal(after, expected, sizeof after);
        }
        end_pool(pool);
    }
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    struct picture *none = NULL;
    assert_int_equal(weft_for_tiles(NULL, (weft_tiles){{0, 1, 1}, {0, 1, 1}}, mark_tile, none), WEFT_EINVAL);
    assert_int_equal(weft_for_tiles(pool, (weft_tiles){{0, 1, 1}, {0, 1, 1}}, NULL, none), WEFT_EINVAL);
    assert_int_equal(weft_for_tiles(pool, (weft_tiles){{1, 0, 1}, {0, 1, 1}}, mark_tile, none), WEFT_EINVAL);
    assert_int_equal(weft_for_tiles(pool, (weft_tiles){{0, 1, 1}, {1, 0, 1}}, mark_tile, none), WEFT_EINVAL);
    assert_int_equal(weft_for_tiles(pool, (weft_tiles){{0, SIZE_MAX, 1}, {0, 2, 1}}, mark_tile, none), WEFT_EINVAL);
    assert_int_equal(weft_for_tiles(pool, (weft_tiles){{0, 0, 0}, {0, SIZE_MAX, 0}}, mark_tile, none), WEFT_OK);
    end_pool(pool);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place_once), cmocka_unit_test(test_first_error), cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_same_bits),        cmocka_unit_test(test_misuse),
    };
    choose_cases(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
