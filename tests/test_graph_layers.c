/* test_graph_layers.c: graphs whose layers are wider than what a walk arrives at by itself. */
#define _GNU_SOURCE
#include "graph_scene.h"

#include <sched.h>

/* Two nodes before all others. The second stays until threads have come for parts of the rest, of which no node is ready. */
enum { WIDTH = 128, RUNS = 100, STAY = 2000 };

static int stay(void *context, weft_worker *self) {
    for (int i = 0; i < STAY; i++) (void)sched_yield();
    return item_fn(context, self);
}

static struct scene *fan_of_two(void) {
    struct scene *scene = scene_make(1);
    REQUIRE(weft_graph_add(scene->graph, &scene->nodes[1], stay, &scene->items[1]) == WEFT_OK);
    for (uint32_t i = 2; i < 2 + WIDTH; i++)
        REQUIRE(weft_graph_add(scene->graph, &scene->nodes[i], item_fn, &scene->items[i]) == WEFT_OK);
    scene->count = 2 + WIDTH;
    for (uint32_t i = 1; i < scene->count; i++) scene->items[i] = (struct item){.scene = scene, .index = i};
    for (uint32_t i = 2; i < scene->count; i++)
        for (uint32_t before = 0; before < 2; before++) scene_edge(scene, before, i);
    scene_build(scene);
    return scene;
}

static void test_none_of_many_is_ready(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        weft_pool *pool = make_pool(workers);
        struct scene *scene = fan_of_two();
        for (int i = 0; i < RUNS; i++) {
            assert_int_equal(scene_run(scene, pool), WEFT_OK);
            check_all_ran(scene);
        }
        scene_end(scene);
        end_pool(pool);
    }
}

/* Layers of random widths, each node after up to eight nodes of the layer before. */
static struct scene *layers(uint64_t seed) {
    struct scene *scene = scene_make(600);
    uint64_t state = seed;
    for (uint32_t first = 0, next = 4; next < scene->count;) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t width = 1 + (uint32_t)(state >> 33) % 150;
        uint32_t end = next + width < scene->count ? next + width : scene->count;
        uint32_t step = (next - first) / 8 + 1;
        for (uint32_t i = next; i < end; i++)
            for (uint32_t k = first; k < next; k += step) scene_edge(scene, k, i);
        first = next;
        next = end;
    }
    scene_build(scene);
    return scene;
}

static void test_layers(void **state) {
    (void)state;
    weft_pool *pool = make_pool(4);
    for (uint32_t seed = 0; seed < 40; seed++) {
        struct scene *scene = layers(seed);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(scene_run(scene, pool), WEFT_OK);
            check_all_ran(scene);
        }
        scene_end(scene);
    }
    end_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_of_many_is_ready),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
