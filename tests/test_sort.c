/* test_sort.c: the stable sort: against a simple one, cancelled, with orders that contradict themselves, with no memory. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "shortage.h"

static const size_t sizes[] = {4, 8, 16, 5, 12, 24, 100, 400};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* An item: its key in the first two bytes, its place before in the last two or three of four. */
static uint64_t next_random(uint64_t *state) { return *state = *state * 6364136223846793005u + 1442695040888963407u; }

static unsigned key_of(const unsigned char *item) { return item[0]; }
static unsigned place_of(const unsigned char *item) { return item[1] | (unsigned)item[2] << 8 | (unsigned)item[3] << 16; }

static int compare_keys(const void *left, const void *right, void *context) {
    (void)context;
    return (int)key_of(left) - (int)key_of(right);
}

enum shape { RANDOM, RISING, FALLING, EQUAL, SAW, SHAPES };

static unsigned char *make_items(size_t count, size_t size, enum shape shape) {
    unsigned char *items = calloc(count + 1, size);
    uint64_t state = count * 31 + size;
    REQUIRE(items != NULL);
    for (size_t i = 0; i < count; i++) {
        const size_t keys[SHAPES] = {next_random(&state) >> 56, i * 256 / count, 255 - i * 256 / count, 7, i % 19};
        unsigned char *item = items + i * size;
        memset(item, (int)(i * 7 & 0xff), size);
        item[0] = (unsigned char)keys[shape];
        item[1] = (unsigned char)i;
        item[2] = (unsigned char)(i >> 8);
        item[3] = (unsigned char)(i >> 16);
    }
    return items;
}

/* Sorted, stable, and every item whole: keys rise, places rise among equals, each place once. */
static void check_sorted(const unsigned char *items, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        const unsigned char *item = items + i * size;
        for (size_t k = 4; k < size; k++) REQUIRE(item[k] == (unsigned char)(place_of(item) * 7));
        if (i == 0) continue;
        const unsigned char *before = item - size;
        REQUIRE(key_of(before) < key_of(item) || (key_of(before) == key_of(item) && place_of(before) < place_of(item)));
    }
}
static void check_all_there(const unsigned char *items, size_t count, size_t size) {
    unsigned char *seen = calloc(count + 1, 1);
    for (size_t i = 0; i < count; i++) {
        unsigned place = place_of(items + i * size);
        REQUIRE(place < count && !seen[place]);
        seen[place] = 1;
    }
    free(seen);
}

static void test_sorts(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 8, 9, 17, 100, 511, 1023, 1024, 1025, 5000, 16384, 40001, 100000};
    weft_pool *pools[] = {make_pool(1), make_pool(2), make_pool(3)};
    size_t all = sizeof counts / sizeof *counts - (SANITIZED ? 2 : 0); /* the largest take most of the time */
    for (size_t c = 0; c < all; c++)
        for (size_t s = 0; s < SIZES; s++)
            for (enum shape shape = RANDOM; shape < SHAPES; shape++) {
                unsigned char *items = make_items(counts[c], sizes[s], shape);
                const weft_order order = {sizes[s], compare_keys, NULL};
                REQUIRE(weft_sort(pools[(c + s + shape) % 3], items, counts[c], &order) == WEFT_OK);
                check_all_there(items, counts[c], sizes[s]);
                check_sorted(items, counts[c], sizes[s]);
                free(items);
            }
    for (int i = 0; i < 3; i++) end_pool(pools[i]);
}

/* ---- few comparisons ---------------------------------------------------------------------------------------------- */

static int compare_counting(const void *left, const void *right, void *context) {
    atomic_fetch_add_explicit((atomic_ulong *)context, 1, memory_order_relaxed);
    return compare_keys(left, right, NULL);
}
static void test_comparisons(void **state) {
    (void)state;
    enum { COUNT = 1 << 17 };
    weft_pool *pool = make_pool(2);
    for (enum shape shape = RANDOM; shape < SHAPES; shape++) {
        unsigned char *items = make_items(COUNT, 4, shape);
        atomic_ulong comparisons = 0;
        const weft_order order = {4, compare_counting, &comparisons};
        assert_int_equal(weft_sort(pool, items, COUNT, &order), WEFT_OK);
        assert_true(atomic_load(&comparisons) <= COUNT * 17ul);
        free(items);
    }
    end_pool(pool);
}

/* Items in order take one comparison each. */
static void test_runs(void **state) {
    (void)state;
    enum { COUNT = 1 << 17, LARGE = COUNT / 64 };
    weft_pool *pool = make_pool(2);
    static const size_t run_sizes[] = {4, 24, 400};
    for (int s = 0; s < 3; s++) {
        size_t size = run_sizes[s], count = size > 384 ? LARGE : COUNT;
        unsigned char *items = make_items(count, size, RISING), *before = make_items(count, size, RISING);
        atomic_ulong comparisons = 0;
        const weft_order order = {size, compare_counting, &comparisons};
        assert_int_equal(weft_sort(pool, items, count, &order), WEFT_OK);
        assert_memory_equal(items, before, count * size);
        assert_true(atomic_load(&comparisons) < count);
        free(items);
        free(before);
    }
    end_pool(pool);
}

/* Items that fall strictly: each piece is reversed, and a merge sees that all of one come before the other. */
static int compare_places(const void *left, const void *right, void *context) {
    atomic_fetch_add_explicit((atomic_ulong *)context, 1, memory_order_relaxed);
    return (place_of(left) < place_of(right)) - (place_of(left) > place_of(right));
}
static void test_falling_runs(void **state) {
    (void)state;
    enum { COUNT = 1 << 17 };
    weft_pool *pool = make_pool(2);
    unsigned char *items = make_items(COUNT, 4, EQUAL);
    atomic_ulong comparisons = 0;
    const weft_order order = {4, compare_places, &comparisons};
    assert_int_equal(weft_sort(pool, items, COUNT, &order), WEFT_OK);
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(place_of(items + 4 * i), COUNT - 1 - i);
    assert_true(atomic_load(&comparisons) < 2ul * COUNT);
    free(items);
    end_pool(pool);
}

/* ---- orders that contradict themselves ---------------------------------------------------------------------------- */

static int compare_always(const void *left, const void *right, void *context) {
    (void)left;
    (void)right;
    return *(int *)context;
}
static int compare_scrambled(const void *left, const void *right, void *context) {
    (void)context;
    uint64_t mix = (uint64_t)place_of(left) * 2654435761u ^ (uint64_t)place_of(right) * 40503u;
    return (int)(mix >> 7 & 3) - 1;
}
static void test_contradictions(void **state) {
    (void)state;
    enum { COUNT = 70000 };
    weft_pool *pools[] = {make_pool(1), make_pool(2), make_pool(3)};
    int codes[] = {1, -1, INT32_MIN, INT32_MAX};
    for (int k = 0; k < 5; k++) {
        unsigned char *results[3];
        for (int i = 0; i < 3; i++) {
            weft_order order = {4, compare_always, &codes[k % 4]};
            if (k == 4) order.compare = compare_scrambled;
            results[i] = make_items(COUNT, 4, RANDOM);
            memcpy(results[i] + (size_t)COUNT * 4, "end", 4);
            assert_int_equal(weft_sort(pools[i], results[i], COUNT, &order), WEFT_OK);
            assert_memory_equal(results[i] + (size_t)COUNT * 4, "end", 4);
            assert_memory_equal(results[i], results[0], (size_t)COUNT * 4);
        }
        for (int i = 0; i < 3; i++) free(results[i]);
    }
    for (int i = 0; i < 3; i++) end_pool(pools[i]);
}

/* The cycles of large items cross those of an order that contradicts itself. */
static void test_large_items_stay(void **state) {
    (void)state;
    enum { COUNT = 5000, SIZE = 400 };
    weft_pool *pool = make_pool(2);
    int codes[] = {1, -1};
    for (int k = 0; k < 3; k++) {
        unsigned char *items = make_items(COUNT, SIZE, RANDOM);
        weft_order order = {SIZE, compare_always, &codes[k % 2]};
        if (k == 2) order.compare = compare_scrambled;
        assert_int_equal(weft_sort(pool, items, COUNT, &order), WEFT_OK);
        check_all_there(items, COUNT, SIZE);
        free(items);
    }
    end_pool(pool);
}

/* ---- cancelled ---------------------------------------------------------------------------------------------------- */

struct cancelling {
    unsigned char *items;
    size_t count;
    weft_group *group;
    weft_pool *pool;
    atomic_ulong comparisons;
    unsigned long limit; /* then the group is cancelled */
    int result;
};
static int compare_cancelling(const void *left, const void *right, void *context) {
    struct cancelling *c = context;
    if (atomic_fetch_add(&c->comparisons, 1) == c->limit) REQUIRE(weft_group_cancel(c->pool, c->group) == WEFT_OK);
    return compare_keys(left, right, NULL);
}
static int sort_task(void *payload, weft_worker *self) {
    struct cancelling *c = *(struct cancelling **)payload;
    const weft_order order = {8, compare_cancelling, c};
    c->result = weft_sort(weft_worker_pool(self), c->items, c->count, &order);
    return 0;
}
static void test_cancelled(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    unsigned cancelled = 0;
    for (unsigned long limit = 1; limit < 700000; limit = limit * 5 / 4 + 1000) {
        for (size_t count = 30000; count <= 50000; count += 20000) {
            weft_group group = WEFT_GROUP_INIT;
            struct cancelling c = {.count = count, .group = &group, .pool = pool, .limit = limit}, *pointer = &c;
            c.items = make_items(count, 8, RANDOM);
            assert_int_equal(weft_submit(pool, &group, sort_task, &pointer, sizeof pointer), WEFT_OK);
            weft_group_wait(pool, &group);
            REQUIRE(c.result == WEFT_OK || c.result == WEFT_ECANCELED);
            check_all_there(c.items, count, 8);
            if (c.result == WEFT_OK) check_sorted(c.items, count, 8);
            cancelled += c.result == WEFT_ECANCELED;
            free(c.items);
        }
    }
    assert_true(cancelled > 10);
    end_pool(pool);
}

/* ---- misuse ------------------------------------------------------------------------------------------------------- */

static int in_fork(void *argument) {
    unsigned char items[8] = {2, 0, 0, 0, 1};
    const weft_order order = {4, compare_keys, NULL};
    for (size_t count = 0; count <= 2; count++)
        if (weft_sort(argument, items, count, &order) != WEFT_EFORK) return 1;
    return 0;
}
static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(1);
    unsigned char items[8] = {2, 0, 0, 0, 1};
    const weft_order order = {4, compare_keys, NULL}, no_size = {0, compare_keys, NULL}, no_compare = {4, NULL, NULL};
    assert_int_equal(weft_sort(NULL, items, 2, &order), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, NULL, 2, &order), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, items, 2, NULL), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, items, 2, &no_size), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, items, 2, &no_compare), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, items, SIZE_MAX, &order), WEFT_EINVAL);
    assert_int_equal(weft_sort(pool, items, SIZE_MAX / 4 + 2, &order), WEFT_EINVAL);
    assert_int_equal(items[0], 2);
    assert_int_equal(weft_sort(pool, NULL, 0, &order), WEFT_OK);
    if (!SANITIZED && !is_emulated()) assert_int_equal(in_child(in_fork, pool), 0);
    end_pool(pool);
}

static void test_shortage(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    const weft_order order = {8, compare_keys, NULL};
    unsigned char *items = make_items(50000, 8, RANDOM), *before = make_items(50000, 8, RANDOM);
    shortage_begin(1, false);
    assert_int_equal(weft_sort(pool, items, 50000, &order), WEFT_ENOMEM);
    assert_true(shortage_end());
    assert_memory_equal(items, before, (size_t)50000 * 8);
    shortage_begin(0, false);
    assert_int_equal(weft_sort(pool, items, 200, &order), WEFT_OK); /* on the stack */
    assert_int_equal(weft_sort(pool, items, 50000, &order), WEFT_OK);
    shortage_end();
    check_sorted(items, 200, 8);
    free(items);
    free(before);
    const weft_order large = {400, compare_keys, NULL};
    items = make_items(5000, 400, RANDOM), before = make_items(5000, 400, RANDOM);
    for (unsigned fails = 1; fails <= 2; fails++) { /* the pointers, the second array of them */
        shortage_begin(fails, false);
        assert_int_equal(weft_sort(pool, items, 5000, &large), WEFT_ENOMEM);
        assert_true(shortage_end());
        assert_memory_equal(items, before, (size_t)5000 * 400);
    }
    free(items);
    free(before);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts),     cmocka_unit_test(test_comparisons),  cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_cancelled), cmocka_unit_test(test_misuse),       cmocka_unit_test(test_shortage),
        cmocka_unit_test(test_runs),      cmocka_unit_test(test_falling_runs), cmocka_unit_test(test_large_items_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
