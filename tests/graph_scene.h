/* graph_scene.h: graphs whose nodes check their order. */
#ifndef WEFT_TESTS_GRAPH_SCENE_H
#define WEFT_TESTS_GRAPH_SCENE_H

#include "pool_help.h"

enum { NODES_MAX = 4096 };

/* One node of the test. `stamp` is plain memory: the graph alone orders its readers after its writer. */
struct item {
    struct scene *scene;
    uint32_t index;
    uint32_t stamp; /* the number of the last run it took part in */
    int result;
    uint32_t before[8];
    uint32_t before_count;
};

struct scene {
    weft_graph *graph;
    weft_pool *pool;
    uint32_t run;
    uint32_t count;
    struct item items[NODES_MAX];
    weft_node nodes[NODES_MAX];
};

static inline int item_fn(void *context, weft_worker *self) {
    struct item *item = context;
    struct scene *scene = item->scene;
    REQUIRE(weft_worker_pool(self) != NULL);
    REQUIRE(item->stamp < scene->run);
    for (uint32_t i = 0; i < item->before_count; i++) REQUIRE(scene->items[item->before[i]].stamp == scene->run);
    item->stamp = scene->run;
    return item->result;
}

static inline struct scene *scene_make(uint32_t count) {
    struct scene *scene = calloc(1, sizeof *scene);
    REQUIRE(scene != NULL && count <= NODES_MAX);
    REQUIRE(weft_graph_create(&scene->graph) == WEFT_OK);
    scene->count = count;
    for (uint32_t i = 0; i < count; i++) {
        scene->items[i] = (struct item){.scene = scene, .index = i};
        REQUIRE(weft_graph_add(scene->graph, &scene->nodes[i], item_fn, &scene->items[i]) == WEFT_OK);
    }
    return scene;
}

static inline void scene_edge(struct scene *scene, uint32_t before, uint32_t after) {
    struct item *item = &scene->items[after];
    REQUIRE(item->before_count < 8);
    item->before[item->before_count++] = before;
    REQUIRE(weft_graph_edge(scene->graph, scene->nodes[before], scene->nodes[after]) == WEFT_OK);
}

static inline void scene_build(struct scene *scene) { REQUIRE(weft_graph_build(scene->graph, NULL) == WEFT_OK); }

static inline void scene_end(struct scene *scene) {
    REQUIRE(weft_graph_destroy(&scene->graph) == WEFT_OK && scene->graph == NULL);
    free(scene);
}

static inline int scene_run(struct scene *scene, weft_pool *pool) {
    scene->run++;
    return weft_graph_run(pool, scene->graph);
}

static inline void check_all_ran(const struct scene *scene) {
    for (uint32_t i = 0; i < scene->count; i++) REQUIRE(scene->items[i].stamp == scene->run);
}

static inline struct scene *wavefront(uint32_t side) {
    struct scene *scene = scene_make(side * side);
    for (uint32_t i = 0; i < side * side; i++) {
        if (i % side > 0) scene_edge(scene, i - 1, i);
        if (i >= side) scene_edge(scene, i - side, i);
    }
    scene_build(scene);
    return scene;
}

/* Each node after up to 8 earlier ones, in some order of addition. */
static inline struct scene *random_graph(uint32_t count, uint32_t seed) {
    struct scene *scene = scene_make(count);
    uint32_t order[NODES_MAX] = {0};
    uint64_t state = seed;
    for (uint32_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t other = (uint32_t)(state >> 33) % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t i = 1; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t edges = (uint32_t)(state >> 60) % 9;
        for (uint32_t k = 0; k < edges; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            scene_edge(scene, order[(uint32_t)(state >> 33) % i], order[i]);
        }
    }
    scene_build(scene);
    return scene;
}

#endif
