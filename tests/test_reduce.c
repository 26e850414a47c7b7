/* test_reduce.c: reductions: the same bits for any number of workers, errors, misuse, shortage. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "shortage.h"

static const uint32_t worker_counts[] = {1, 2, 3, 8};
enum { POOLS = 4 };

/* ---- floats: neither associative nor exact ------------------------------------------------------------------------ */

static double term(size_t index) {
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return ((double)(x >> 12) - 1e15) * (x % 7 == 0 ? 1e-20 : 1.0);
}
static int sum_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    double sum = 0;
    (void)context;
    REQUIRE(begin < end && self != NULL);
    for (size_t i = begin; i < end; i++) sum += term(i);
    *(double *)value = sum;
    return 0;
}
static void sum_combine(void *left, const void *right, void *context) {
    (void)context;
    *(double *)left += *(const double *)right;
}

/* The tree, written down a second time: halves at the greatest power of two below. */
static double sum_tree(size_t leaves, size_t first, weft_range range) {
    if (leaves == 1) {
        size_t begin = range.begin + first * range.grain;
        double sum = 0;
        for (size_t i = begin; i < range.end && i - begin < range.grain; i++) sum += term(i);
        return sum;
    }
    size_t half = 1;
    while (half * 2 < leaves) half *= 2;
    return sum_tree(half, first, range) + sum_tree(leaves - half, first + half, range);
}

static size_t grain_of_few(size_t count) { return count < 32 ? 1 : count < 48 ? 2 : count < 64 ? 3 : 4; }

static void test_same_bits(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 3, 7, 64, 255, 256, 257, 1000, 4095, 65537, 200000};
    static const size_t grains[] = {0, 1, 3, 100, 5000, SIZE_MAX};
    const weft_reduction how = {.size = sizeof(double), .leaf = sum_leaf, .combine = sum_combine};
    weft_pool *pools[POOLS];
    for (int i = 0; i < POOLS; i++) pools[i] = make_pool(worker_counts[i]);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            weft_range range = {11, 11 + counts[c], grains[g]};
            double results[POOLS];
            for (int i = 0; i < POOLS; i++) assert_int_equal(weft_reduce(pools[i], range, &how, &results[i]), WEFT_OK);
            if (range.grain == 0) range.grain = counts[c] > 1024 ? (counts[c] + 255) / 256 : grain_of_few(counts[c]);
            size_t leaves = (counts[c] - 1) / range.grain + 1;
            double expected = sum_tree(leaves, 0, range);
            for (int i = 0; i < POOLS; i++) assert_memory_equal(&results[i], &expected, sizeof expected);
        }
    }
    for (int i = 0; i < POOLS; i++) end_pool(pools[i]);
}

/* ---- order: values of any size that remember what they cover ------------------------------------------------------ */

struct span {
    size_t begin, end;
    unsigned char fill[1000];
};
static size_t span_size;
static int span_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    struct span span = {.begin = begin, .end = end};
    (void)self;
    (void)context;
    REQUIRE((uintptr_t)value % 16 == 0);
    memset(span.fill, (int)(begin & 0xff), sizeof span.fill);
    memcpy(value, &span, span_size);
    return 0;
}
static void span_combine(void *left, const void *right, void *context) {
    size_t to[2], from[2];
    (void)context;
    memcpy(to, left, sizeof to);
    memcpy(from, right, sizeof from);
    REQUIRE(to[1] == from[0]);
    to[1] = from[1];
    memcpy(left, to, sizeof to);
}
static void test_in_order(void **state) {
    (void)state;
    static const size_t sizes[] = {16, 17, 24, 100, 500, 1000};
    weft_pool *pool = make_pool(3);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        span_size = sizes[s];
        const weft_reduction how = {.size = span_size, .leaf = span_leaf, .combine = span_combine};
        for (size_t count = 1; count < 3000; count = count * 3 / 2 + 1) {
            struct span span = {0};
            assert_int_equal(weft_reduce(pool, (weft_range){5, 5 + count, 1}, &how, &span), WEFT_OK);
            assert_true(span.begin == 5 && span.end == 5 + count);
            for (size_t i = 0; i < span_size - 16; i++) assert_int_equal(span.fill[i], 5);
        }
    }
    end_pool(pool);
}

/* ---- how many leaves, and who may have them ----------------------------------------------------------------------- */

static int counting_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)value, (void)self;
    atomic_fetch_add((atomic_uint *)context, 1);
    return 0;
}
static void combine_nothing(void *left, const void *right, void *context) { (void)left, (void)right, (void)context; }

static void test_leaves_of_grain_zero(void **state) {
    (void)state;
    static const struct {
        size_t count, size;
        unsigned leaves;
    } cases[] = {{1, 8, 1},         {31, 8, 31},       {32, 8, 16},          {100, 8, 25},         {1000, 8, 250},
                 {1025, 8, 205},    {1 << 22, 8, 256}, {1 << 22, 4096, 256}, {1 << 22, 8192, 128}, {1 << 22, 1 << 18, 16},
                 {16, 1 << 18, 16}, {7, 1 << 18, 7}};
    weft_pool *pool = make_pool(2);
    unsigned char *result = malloc(1 << 18);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        atomic_uint leaves = 0;
        const weft_reduction how = {
            .size = cases[i].size, .leaf = counting_leaf, .combine = combine_nothing, .context = &leaves};
        assert_int_equal(weft_reduce(pool, (weft_range){3, 3 + cases[i].count, 0}, &how, result), WEFT_OK);
        assert_int_equal(atomic_load(&leaves), cases[i].leaves);
    }
    free(result);
    end_pool(pool);
}

/* The first leaf waits for the other ones, which another thread may all have. */
enum { SHARED_LEAVES = 256, SHARED_NAPS = 2000 };
struct shared {
    atomic_uint begun, vain;
};
static int shared_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    struct shared *shared = context;
    (void)end, (void)value, (void)self;
    atomic_fetch_add(&shared->begun, 1);
    unsigned naps = 0;
    for (; begin == 0 && naps < SHARED_NAPS && atomic_load(&shared->begun) < SHARED_LEAVES; naps++) nap();
    if (naps == SHARED_NAPS) atomic_fetch_add(&shared->vain, 1);
    return 0;
}
static void test_leaves_of_large_values_are_shared(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    struct shared shared = {.begun = 0};
    unsigned char result[512];
    const weft_reduction how = {.size = sizeof result, .leaf = shared_leaf, .combine = combine_nothing, .context = &shared};
    assert_int_equal(weft_reduce(pool, (weft_range){0, SHARED_LEAVES, 1}, &how, result), WEFT_OK);
    assert_int_equal(atomic_load(&shared.vain), 0);
    end_pool(pool);
}

/* ---- errors ------------------------------------------------------------------------------------------------------- */

static int failing_leaf(size_t begin, size_t end, void *value, void *context, weft_worker *self) {
    (void)value;
    (void)self;
    for (size_t i = begin; i < end; i++)
        if (i >= *(size_t *)context) return (int)i + 1;
    return 0;
}
static void no_combine(void *left, const void *right, void *context) {
    (void)left;
    (void)right;
    (void)context;
}
static void test_errors(void **state) {
    (void)state;
    weft_pool *pool = make_pool(3);
    for (size_t from = 0; from < 5000; from += 97) {
        const weft_reduction how = {.size = 8, .leaf = failing_leaf, .combine = no_combine, .context = &from};
        for (size_t grain = 0; grain < 40; grain += 13) {
            uint64_t result = 77;
            assert_int_equal(weft_reduce(pool, (weft_range){0, 5000, grain}, &how, &result), (int)from + 1);
            assert_int_equal(result, 77);
        }
    }
    end_pool(pool);
}

static int in_fork(void *argument) {
    const weft_reduction how = {.size = 8, .leaf = sum_leaf, .combine = sum_combine};
    double result;
    for (size_t end = 0; end <= 10; end += 5) /* an empty range, too */
        if (weft_reduce(argument, (weft_range){0, end, 1}, &how, &result) != WEFT_EFORK) return 1;
    return 0;
}

static void test_misuse(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    const weft_range range = {0, 10, 1};
    const double one = 1;
    double result = 5;
    weft_reduction how = {.size = sizeof(double), .leaf = sum_leaf, .combine = sum_combine, .identity = &one};
    assert_int_equal(weft_reduce(NULL, range, &how, &result), WEFT_EINVAL);
    assert_int_equal(weft_reduce(pool, range, NULL, &result), WEFT_EINVAL);
    assert_int_equal(weft_reduce(pool, range, &how, NULL), WEFT_EINVAL);
    assert_int_equal(weft_reduce(pool, (weft_range){2, 1, 1}, &how, &result), WEFT_EINVAL);
    weft_reduction wrong = how;
    wrong.leaf = NULL;
    assert_int_equal(weft_reduce(pool, range, &wrong, &result), WEFT_EINVAL);
    wrong = how;
    wrong.combine = NULL;
    assert_int_equal(weft_reduce(pool, range, &wrong, &result), WEFT_EINVAL);
    wrong = how;
    wrong.size = 0;
    assert_int_equal(weft_reduce(pool, range, &wrong, &result), WEFT_EINVAL);
    wrong.size = SIZE_MAX;
    assert_int_equal(weft_reduce(pool, range, &wrong, &result), WEFT_EINVAL);
    assert_true(result == 5);
    assert_int_equal(weft_reduce(pool, (weft_range){3, 3, 1}, &how, &result), WEFT_OK);
    assert_true(result == 1);
    how.identity = NULL;
    assert_int_equal(weft_reduce(pool, (weft_range){SIZE_MAX, SIZE_MAX, 0}, &how, &result), WEFT_OK);
    assert_true(result == 0);
    if (!SANITIZED && !is_emulated()) assert_int_equal(in_child(in_fork, pool), 0);
    end_pool(pool);
}

static void test_shortage(void **state) {
    (void)state;
    weft_pool *pool = make_pool(2);
    span_size = 1000;
    const weft_reduction how = {.size = span_size, .leaf = span_leaf, .combine = span_combine};
    struct span span;
    for (unsigned at = 1;; at++) {
        shortage_begin(at, false);
        int error = weft_reduce(pool, (weft_range){0, 5000, 1}, &how, &span);
        if (!shortage_end()) {
            assert_int_equal(error, WEFT_OK);
            assert_true(at > 2); /* the wrapper was in the way */
            break;
        }
        assert_true(error == WEFT_OK || error == WEFT_ENOMEM);
    }
    /* Small values need none. */
    const weft_reduction small = {.size = sizeof(double), .leaf = sum_leaf, .combine = sum_combine};
    double result;
    assert_int_equal(weft_reduce(pool, (weft_range){0, 100000, 10}, &small, &result), WEFT_OK);
    shortage_begin(0, false);
    assert_int_equal(weft_reduce(pool, (weft_range){0, 100000, 10}, &small, &result), WEFT_OK);
    assert_int_equal(atomic_load(&shortage.calls), 0);
    end_pool(pool);
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_leaves_of_grain_zero),
        cmocka_unit_test(test_leaves_of_large_values_are_shared),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_shortage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
