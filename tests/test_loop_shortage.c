/* test_loop_shortage.c: loops, reductions and sorts for which there is no memory at the Nth call; loops that a worker runs for
 * a thread from outside. */
#define _GNU_SOURCE
#include "pool_help.h"
#include "shortage.h"

enum { COUNT = 3000, DEPTH = 300 }; /* loops inside loops, more than a new pool has memory for */

static struct {
    weft_pool *pool;
    atomic_uint run[COUNT];
    int items[COUNT];
} scene;

static int count_range(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)context, (void)self;
    for (size_t i = begin; i < end; i++) atomic_fetch_add(&scene.run[i], 1);
    return 0;
}

/* Loops once more, that deep; then counts. */
static int nested_range(size_t begin, size_t end, void *context, weft_worker *self) {
    const unsigned char *depth = context;
    if (*depth == 0) return count_range(begin, end, NULL, self);
    return weft_for(scene.pool, (weft_range){begin, end, end - begin}, nested_range, (void *)(depth + 1));
}

static int compare(const void *left, const void *right, void *context) {
    (void)context;
    return *(const int *)left - *(const int *)right;
}

/* Once a thread uses the pool, a loop needs no memory that it cannot do without, but for handing it over. A sort says that it
 * has none, and has changed nothing then. */
static void play(bool hands_over) {
    unsigned char depths[DEPTH];
    const weft_order order = {sizeof(int), compare, NULL};
    for (int i = 0; i < COUNT; i++) atomic_store(&scene.run[i], 0);
    memset(depths, 1, sizeof depths);
    depths[DEPTH - 1] = 0;
    bool is_user = weft_for(scene.pool, (weft_range){0, 0, 1}, count_range, NULL) == WEFT_OK;
    int error = weft_for(scene.pool, (weft_range){0, COUNT, COUNT}, nested_range, depths);
    REQUIRE(error == WEFT_OK || (error == WEFT_ENOMEM && (hands_over || !is_user)));
    for (int i = 0; i < COUNT; i++) REQUIRE(atomic_load(&scene.run[i]) == (error == WEFT_OK));

    for (int i = 0; i < COUNT; i++) scene.items[i] = COUNT - i;
    error = weft_sort(scene.pool, scene.items, COUNT, &order);
    REQUIRE(error == WEFT_OK || error == WEFT_ENOMEM);
    for (int i = 0; i < COUNT; i++) REQUIRE(scene.items[i] == (error == WEFT_OK ? i + 1 : COUNT - i));
}

static bool try_with_shortage(uint32_t flags, unsigned at, bool and_after) {
    weft_config config = config_of(2);
    config.flags = flags;
    scene.pool = make_pool_with(&config);
    shortage_begin(at, and_after);
    play(flags != 0);
    bool has_struck = shortage_end();
    play(flags != 0);
    end_pool(scene.pool);
    return has_struck;
}

static void test_shortage(void **state) {
    (void)state;
    const uint32_t flags[] = {0, WEFT_POOL_NO_HELP, WEFT_POOL_NO_HELP | WEFT_POOL_ORDERED};
    for (unsigned f = 0; f < 3; f++)
        for (int and_after = 0; and_after < 2; and_after++) {
            unsigned at = 1;
            while (try_with_shortage(flags[f], at, and_after != 0)) at++;
            assert_true(at > 2); /* the wrapper was in the way */
        }
}

static int failing_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return 7;
}
static int submit_failing(size_t begin, size_t end, void *context, weft_worker *self) {
    (void)begin, (void)end, (void)context;
    REQUIRE(weft_submit_child(self, failing_task, NULL, 0) == WEFT_OK);
    return 0;
}
/* What a body's children return is no error of the loop's. */
static void test_children(void **state) {
    (void)state;
    weft_config config = config_of(1);
    config.flags = WEFT_POOL_NO_HELP;
    scene.pool = make_pool_with(&config);
    assert_int_equal(weft_for(scene.pool, (weft_range){0, 1, 1}, submit_failing, NULL), WEFT_OK);
    assert_int_equal(stats_of(scene.pool).task_run_count, 2);
    end_pool(scene.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shortage), cmocka_unit_test(test_children)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
