/* What weft.h calls WEFT_EINVAL: each call with each argument that it must not have. Nothing is done then: afterwards the pool
 * and the group work as before. */
#define _GNU_SOURCE
#include <limits.h>

#include "pool_help.h"

static weft_pool *pool;
static weft_pool *const no_pool;
static int ran;

static int note_task(void *payload, weft_worker *self) {
    (void)payload, (void)self;
    return ran++, 0;
}
static int body(size_t from, size_t to, void *context, weft_worker *self) {
    (void)from, (void)to, (void)context, (void)self;
    return ran++, 0;
}
static int tile_body(const weft_tile *tile, void *context, weft_worker *self) {
    (void)tile, (void)context, (void)self;
    return ran++, 0;
}
static void nothing_told(void *payload, int result, int has_ended) { (void)payload, (void)result, (void)has_ended, ran++; }
static void move_byte(void *payload, void *object) { memcpy(payload, object, 1); }

static void begin(void) {
    pool = make_pool(1);
    ran = 0;
}

/* Nothing has run; a task does. */
static void end(weft_group *group) {
    assert_int_equal(ran, 0);
    assert_int_equal(weft_submit(pool, group, note_task, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, group), WEFT_OK);
    assert_int_equal(ran, 1);
    end_pool(pool);
}

#define REFUSED(call) assert_int_equal(call, WEFT_EINVAL)

static void test_submit(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT, unknown = {.flags = 1u << 31},
               both = {.flags = WEFT_GROUP_URGENT | WEFT_GROUP_BACKGROUND};
    const char bytes[1] = {0}; /* not read: the size is looked at first */
    begin();
    REFUSED(weft_submit(no_pool, &group, note_task, NULL, 0));
    REFUSED(weft_submit(pool, &group, NULL, NULL, 0));
    REFUSED(weft_submit(pool, &group, note_task, bytes, WEFT_PAYLOAD_MAX + 1));
    REFUSED(weft_submit(pool, &group, note_task, bytes, SIZE_MAX));
    REFUSED(weft_submit(pool, &unknown, note_task, NULL, 0));
    REFUSED(weft_submit(pool, &both, note_task, NULL, 0));
    REFUSED(weft_submit_child(NULL, note_task, NULL, 0));
    REFUSED(weft_run(no_pool, &group, note_task, NULL));
    REFUSED(weft_run(pool, &group, NULL, NULL));
    REFUSED(weft_run(pool, &unknown, note_task, NULL));
    end(&group);
}

static void test_objects(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT, then = WEFT_GROUP_INIT;
    const weft_object good = {1, note_task, NULL}, no_run = {1, NULL, NULL}, moved = {1, note_task, move_byte},
                      large = {WEFT_INLINE_MAX + 1, note_task, NULL}, larger = {113, note_task, NULL},
                      too_large = {97, note_task, NULL};
    const weft_after after = {&group, &then};
    char bytes[WEFT_INLINE_MAX + 1] = {0};
    begin();
    REFUSED(weft_submit_object(no_pool, &group, &good, bytes));
    REFUSED(weft_submit_object(pool, &group, NULL, bytes));
    REFUSED(weft_submit_object(pool, &group, &no_run, bytes));
    REFUSED(weft_submit_object(pool, &group, &large, bytes));
    REFUSED(weft_submit_object(pool, &group, &good, NULL));
    REFUSED(weft_submit_plain(no_pool, &group, note_task, bytes, 1));
    REFUSED(weft_submit_plain(pool, &group, NULL, bytes, 1));
    REFUSED(weft_submit_plain(pool, &group, note_task, NULL, 0));
    REFUSED(weft_submit_plain(pool, &group, note_task, bytes, WEFT_INLINE_MAX + 1));
    REFUSED(weft_submit_after_object(no_pool, after, &good, bytes));
    REFUSED(weft_submit_after_object(pool, after, NULL, bytes));
    REFUSED(weft_submit_after_object(pool, after, &no_run, bytes));
    REFUSED(weft_submit_after_object(pool, after, &moved, bytes));
    REFUSED(weft_submit_after_object(pool, after, &larger, bytes));
    REFUSED(weft_submit_after_object(pool, after, &good, NULL));
    REFUSED(weft_submit_await(no_pool, after, &good, bytes, nothing_told));
    REFUSED(weft_submit_await(pool, after, NULL, bytes, nothing_told));
    REFUSED(weft_submit_await(pool, after, &no_run, bytes, nothing_told));
    REFUSED(weft_submit_await(pool, after, &moved, bytes, nothing_told));
    REFUSED(weft_submit_await(pool, after, &too_large, bytes, nothing_told));
    REFUSED(weft_submit_await(pool, after, &good, NULL, nothing_told));
    REFUSED(weft_submit_await(pool, after, &good, bytes, NULL));
    end(&group);
}

static void test_groups(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT;
    begin();
    REFUSED(weft_group_wait(no_pool, &group));
    REFUSED(weft_group_wait_until(no_pool, &group, WEFT_HELP_NONE, 0));
    REFUSED(weft_group_wait_until(pool, &group, (enum weft_help)(WEFT_HELP_NONE + 1), 0));
    REFUSED(weft_group_wait_until(pool, &group, (enum weft_help)UINT_MAX, 0));
    REFUSED(weft_group_help(no_pool, &group));
    REFUSED(weft_group_cancel(no_pool, &group));
    REFUSED(weft_group_boost(no_pool, &group));
    REFUSED(weft_group_deadline(no_pool, &group, 1));
    REFUSED(weft_group_deadline(pool, &group, 0));
    end(&group);
}

static int block_wrongly(void *payload, weft_worker *self) {
    (void)payload;
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    REQUIRE(weft_block_begin(self) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_OK);
    REQUIRE(weft_block_end(self) == WEFT_EINVAL);
    return 0;
}

static void test_sections(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT;
    begin();
    REFUSED(weft_block_begin(NULL));
    REFUSED(weft_block_end(NULL));
    assert_int_equal(weft_submit(pool, &group, block_wrongly, NULL, 0), WEFT_OK);
    assert_int_equal(weft_group_wait(pool, &group), WEFT_OK);
    end(&group);
}

static void test_pools(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT;
    weft_config config = {.struct_size = sizeof config}, no_size = {.struct_size = 0};
    weft_real_time outcome = {.struct_size = sizeof outcome}, outcome_no_size = {.struct_size = 0};
    weft_pool *none = NULL;
    begin();
    REFUSED(weft_pool_create(NULL, NULL));
    REFUSED(weft_pool_destroy(NULL));
    REFUSED(weft_pool_destroy(&none));
    REFUSED(weft_pool_abort(NULL, NULL, NULL));
    REFUSED(weft_pool_abort(&none, NULL, NULL));
    REFUSED(weft_pool_default(NULL));
    REFUSED(weft_pool_config(no_pool, &config));
    REFUSED(weft_pool_config(pool, NULL));
    REFUSED(weft_pool_config(pool, &no_size));
    REFUSED(weft_pool_real_time(no_pool, &outcome));
    REFUSED(weft_pool_real_time(pool, NULL));
    REFUSED(weft_pool_real_time(pool, &outcome_no_size));
    REFUSED(weft_pool_resize(no_pool, 1));
    REFUSED(weft_pool_resize(pool, WEFT_WORKERS_MAX + 1));
    REFUSED(weft_pool_resize(pool, 0)); /* it does not follow the CPUs */
    REFUSED(weft_pool_expect(no_pool, 1, 1));
    REFUSED(weft_pool_expect(pool, 0, 1));
    REFUSED(weft_config_init(NULL));
    REFUSED(weft_config_from_env(NULL));
    REFUSED(weft_config_format(NULL, NULL, 0));
    REFUSED(weft_config_format(&config, NULL, 1));
    end(&group);
}

static void test_patterns(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT;
    const weft_range range = {0, 4, 1}, backwards = {4, 0, 1};
    const weft_tiles tiles = {.rows = {0, 4, 1}, .columns = {0, 4, 1}};
    weft_graph *graph, *other, *none = NULL;
    weft_node node = 0;
    begin();
    REFUSED(weft_for(no_pool, range, body, NULL));
    REFUSED(weft_for(pool, range, NULL, NULL));
    REFUSED(weft_for(pool, backwards, body, NULL));
    REFUSED(weft_for_tiles(no_pool, tiles, tile_body, NULL));
    REFUSED(weft_for_tiles(pool, tiles, NULL, NULL));
    REFUSED(weft_graph_create(NULL));
    REFUSED(weft_graph_destroy(NULL));
    REFUSED(weft_graph_destroy(&none));
    assert_int_equal(weft_graph_create(&graph), WEFT_OK);
    assert_int_equal(weft_graph_create(&other), WEFT_OK);
    REFUSED(weft_graph_add(NULL, &node, note_task, NULL));
    REFUSED(weft_graph_add(graph, &node, NULL, NULL));
    REFUSED(weft_graph_edge(NULL, node, node));
    REFUSED(weft_graph_build(NULL, NULL));
    REFUSED(weft_graph_run(pool, graph)); /* not built */
    assert_int_equal(weft_graph_add(graph, &node, note_task, NULL), WEFT_OK);
    REFUSED(weft_graph_edge(other, node, node));
    assert_int_equal(weft_graph_build(graph, NULL), WEFT_OK);
    REFUSED(weft_graph_run(no_pool, graph));
    REFUSED(weft_graph_run(pool, NULL));
    REFUSED(weft_graph_cancel(no_pool, graph));
    REFUSED(weft_graph_cancel(pool, NULL));
    assert_int_equal(weft_graph_destroy(&graph), WEFT_OK);
    assert_int_equal(weft_graph_destroy(&other), WEFT_OK);
    end(&group);
}

static void test_observers(void **state) {
    (void)state;
    weft_group group = WEFT_GROUP_INIT;
    weft_stats stats = {.struct_size = 0};
    weft_wake_costs costs = {.struct_size = 0};
    begin();
    REFUSED(weft_pool_stats(no_pool, &stats));
    REFUSED(weft_pool_stats(pool, NULL));
    REFUSED(weft_pool_stats(pool, &stats));
    REFUSED(weft_pool_wake_costs(no_pool, &costs));
    REFUSED(weft_pool_wake_costs(pool, NULL));
    REFUSED(weft_pool_wake_costs(pool, &costs));
    REFUSED(weft_trace_start(no_pool));
    REFUSED(weft_trace_stop(no_pool));
    REFUSED(weft_trace_write(no_pool, 1));
    REFUSED(weft_trace_write(pool, -1));
    REFUSED(weft_trace_save(no_pool, "/dev/null"));
    REFUSED(weft_trace_save(pool, NULL));
    REFUSED(weft_pool_dump(no_pool, 1));
    REFUSED(weft_pool_dump(pool, -1));
    end(&group);
}

/* Each number is refused just outside its range, alone, and taken at its ends. */
static void test_heap_settings(void **state) {
    (void)state;
    const weft_heap_config bad[] = {
        {.pool_capacity = WEFT_HEAP_POOL_NONE - 1},
        {.pool_capacity = 4097},
        {.pool_prefill = -1},
        {.pool_prefill = 4097},
        {.remote = WEFT_HEAP_REMOTE_KEEP + 1},
        {.checks = 3},
        {.purge_thread = 2},
        {.purge_thread = 1, .decay_ms = -1},
        {.decay_ms = -2},
        {.decay_ms = (int64_t)INT32_MAX + 1},
    };
    const weft_heap_config good[] = {
        {.pool_capacity = WEFT_HEAP_POOL_NONE},
        {.pool_capacity = 4096},
        {.pool_prefill = 4096},
        {.remote = WEFT_HEAP_REMOTE_KEEP},
        {.decay_ms = -1},
        {.decay_ms = INT32_MAX},
        {.pool_capacity = 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_heap_config config = bad[i];
        config.struct_size = sizeof config;
        REFUSED(weft_heap_configure(&config));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        weft_heap_config config = good[i];
        config.struct_size = sizeof config;
        assert_int_equal(weft_heap_configure(&config), WEFT_OK);
    }
}

static void test_heap(void **state) {
    (void)state;
    weft_heap_counts counts = {.struct_size = sizeof counts}, no_size = {.struct_size = 0};
    size_t size;
    weft_arena *none = NULL;
    REFUSED(weft_heap_configure(NULL));
    REFUSED(weft_heap_stats(NULL));
    REFUSED(weft_heap_stats(&no_size));
    REFUSED(weft_heap_class_stats(0, NULL, &counts));
    REFUSED(weft_heap_class_stats(0, &size, NULL));
    REFUSED(weft_heap_class_stats(0, &size, &no_size));
    REFUSED(weft_heap_class_stats(UINT_MAX, &size, &counts));
    REFUSED(weft_heap_stats_json(NULL, 1));
    REFUSED(weft_heap_walk(NULL, NULL));
    REFUSED(weft_arena_create(NULL));
    REFUSED(weft_arena_free(NULL, &size));
    REFUSED(weft_arena_destroy(NULL));
    REFUSED(weft_arena_destroy(&none));
}

int main(int argc, char **argv) {
    choose_cases(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit),    cmocka_unit_test(test_objects),       cmocka_unit_test(test_groups),
        cmocka_unit_test(test_sections),  cmocka_unit_test(test_pools),         cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_observers), cmocka_unit_test(test_heap_settings), cmocka_unit_test(test_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
