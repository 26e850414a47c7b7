/* fault_scene_rest.c: see fault_scene.h. Graphs, the heap, what is seen of pools, and pools of other kinds. */
#define _GNU_SOURCE
#include "fault_scene.h"

#include <fcntl.h>
#include <sys/mman.h>

/* ---- graphs ------------------------------------------------------------------------------------------------------- */

enum { NODES = 24 };
static atomic_uint nodes_ran;

static int node_task(void *payload, weft_worker *self) {
    (void)self;
    atomic_fetch_add((atomic_uint *)payload, 1);
    return 0;
}

/* A ladder: each node comes after the two before it. Whether there was memory for it. */
static bool graph_fill(weft_graph *graph, weft_node nodes[NODES]) {
    for (unsigned i = 0; i < NODES; i++) {
        if (SHORT(weft_graph_add(graph, &nodes[i], node_task, &nodes_ran)) != WEFT_OK) return false;
        for (unsigned back = 1; back <= 2 && back <= i; back++)
            if (SHORT(weft_graph_edge(graph, nodes[i - back], nodes[i])) != WEFT_OK) return false;
    }
    return SHORT(weft_graph_build(graph, NULL)) == WEFT_OK;
}

static void graph_runs(weft_pool *pool, weft_graph *graph) {
    for (int round = 0; round < 3; round++) {
        atomic_store(&nodes_ran, 0);
        int error = SHORT(weft_graph_run(pool, graph));
        REQUIRE(atomic_load(&nodes_ran) == (error == WEFT_OK ? NODES : 0));
    }
    REQUIRE(weft_graph_cancel(pool, graph) == WEFT_OK); /* it does not run */
}

void scene_graphs(weft_pool *pool) {
    weft_graph *graph = NULL;
    weft_node nodes[NODES], on_cycle = 0;
    if (SHORT(weft_graph_create(&graph)) != WEFT_OK) {
        REQUIRE(graph == NULL);
        return;
    }
    if (graph_fill(graph, nodes)) {
        graph_runs(pool, graph);
        if (SHORT(weft_graph_edge(graph, nodes[NODES - 1], nodes[2])) == WEFT_OK) {
            int error = weft_graph_build(graph, &on_cycle);
            REQUIRE(error == WEFT_ECYCLE || (error == WEFT_ENOMEM && !scene_now.is_strict));
            REQUIRE(error != WEFT_ECYCLE || on_cycle == nodes[2]);
            REQUIRE(weft_graph_run(pool, graph) == WEFT_EINVAL);
        }
    }
    REQUIRE(weft_graph_destroy(&graph) == WEFT_OK && graph == NULL);
}

/* ---- the heap ----------------------------------------------------------------------------------------------------- */

static const size_t block_sizes[] = {1, 24, 100, 700, 3000, 20000, 70000, 300000, 3u << 20};
enum { BLOCK_SIZES = sizeof block_sizes / sizeof block_sizes[0], BLOCKS = 5 * BLOCK_SIZES };

static void *had(void *block) {
    REQUIRE(block != NULL || !scene_now.is_strict);
    return block;
}

static void mark(void *block, size_t size, unsigned number) {
    unsigned char *bytes = block;
    if (block == NULL) return;
    REQUIRE(weft_usable_size(block) >= size);
    bytes[0] = bytes[size / 2] = bytes[size - 1] = (unsigned char)number;
}

static void check_mark(const void *block, size_t size, unsigned number) {
    const unsigned char *bytes = block;
    if (block == NULL) return;
    REQUIRE(bytes[0] == (unsigned char)number && bytes[size / 2] == (unsigned char)number);
    REQUIRE(bytes[size - 1] == (unsigned char)number);
}

struct blocks {
    void *at[BLOCKS];
    size_t size[BLOCKS];
};

static void *blocks_free(void *argument) {
    struct blocks *b = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        check_mark(b->at[i], b->size[i], i);
        if (b->at[i] != NULL && i % 5 == 1)
            weft_free_sized(b->at[i], b->size[i]);
        else
            weft_free(b->at[i]);
    }
    void *own = had(weft_alloc(64)); /* this thread has a heap, too, which ends with it */
    weft_free(own);
    return NULL;
}

static void *block_new(unsigned way, size_t size) {
    if (way == 2) return had(weft_alloc_zeroed(1, size));
    if (way == 3) return had(weft_alloc_aligned(4096, size));
    return had(weft_alloc(size));
}

/* Made here, resized here, freed by another thread. */
static void shared_blocks(void) {
    static struct blocks b;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = block_sizes[i / 5];
        unsigned char *block = block_new(i % 5, size);
        if (i % 5 == 3) REQUIRE((uintptr_t)block % 4096 == 0);
        if (i % 5 == 2 && block != NULL) REQUIRE(block[0] == 0 && block[size / 2] == 0 && block[size - 1] == 0);
        mark(block, size, i);
        void *resized = i % 5 == 4 && block != NULL ? had(weft_realloc(block, size * 3)) : NULL;
        b.at[i] = resized != NULL ? resized : block;
        b.size[i] = resized != NULL ? size * 3 : size;
        if (resized == NULL) continue;
        REQUIRE(((unsigned char *)resized)[size / 2] == (unsigned char)i);
        mark(resized, size * 3, i);
    }
    thread_end(thread_begin(blocks_free, &b));
}

/* By more than the heap keeps of freed blocks: the mapping itself becomes longer. */
static void grown_block(void) {
    enum { BEFORE = 8 << 20, AFTER = 200 << 20 };
    unsigned char *block = had(weft_alloc(BEFORE));
    if (block == NULL) return;
    block[BEFORE - 1] = 7;
    unsigned char *grown = had(weft_realloc(block, AFTER));
    if (grown != NULL) block = grown;
    REQUIRE(block[BEFORE - 1] == 7);
    weft_free(block);
}

static void private_heap(void) {
    weft_arena *heap = NULL;
    if (SHORT(weft_arena_create(&heap)) != WEFT_OK) {
        REQUIRE(heap == NULL);
        return;
    }
    for (unsigned i = 0; i < 3 * BLOCK_SIZES; i++) {
        size_t size = block_sizes[i % BLOCK_SIZES];
        void *block = had(weft_arena_alloc(heap, size));
        mark(block, size, i);
        check_mark(block, size, i);
        if (i % 2 == 0) REQUIRE(weft_arena_free(heap, block) == WEFT_OK);
    }
    REQUIRE(weft_arena_destroy(&heap) == WEFT_OK && heap == NULL);
}

static int count_area(const weft_heap_area *area, void *context) {
    REQUIRE(area->blocks_used <= area->blocks);
    ++*(unsigned *)context;
    return 0;
}

static void seen_of_heap(void) {
    weft_heap_counts counts = {.struct_size = sizeof counts};
    char text[256];
    size_t block_size = 0;
    unsigned areas = 0;
    REQUIRE(weft_heap_stats(&counts) == WEFT_OK && counts.classes > 0);
    REQUIRE(weft_heap_class_stats(3, &block_size, &counts) == WEFT_OK && block_size > 0);
    REQUIRE(weft_heap_stats_json(text, sizeof text) > 0);
    REQUIRE(weft_heap_walk(count_area, &areas) == 0);
}

static int written(int error);

/* Where it cannot begin there is none to write. */
static void profiled(void) {
    weft_heap_profile_config config = {.struct_size = sizeof config, .interval_bytes = 64, .seed = 1};
    unsigned others = CODE(WEFT_ENOMEM) /* it wants to know of forks */ | (scene_now.is_forked ? CODE(WEFT_EFORK) : 0);
    bool is_begun = OUGHT(weft_heap_profile_start(&config), others) == WEFT_OK;
    shared_blocks();
    grown_block();
    int file = memfd_create("profile", 0);
    REQUIRE(file >= 0);
    for (uint32_t form = WEFT_HEAP_PROFILE_PPROF; is_begun && form <= WEFT_HEAP_PROFILE_FOLDED_ALLOCATED; form += 2) {
        int error = weft_heap_profile_write(file, form);
        REQUIRE(error == WEFT_ENOMEM ? !scene_now.is_strict : written(error) == error);
    }
    REQUIRE((close)(file) == 0);
    if (is_begun) REQUIRE(weft_heap_profile_stop() == WEFT_OK);
}

void scene_heap(void) {
    unsigned others = scene_now.is_left ? CODE(WEFT_EBUSY) : 0;
    int error;
    weft_heap_config config = {.struct_size = sizeof config, .purge_thread = 1, .decay_ms = 1};
    OUGHT(weft_heap_configure(&config), others);
    shared_blocks();
    grown_block();
    private_heap();
    seen_of_heap();
    profiled();
    config = (weft_heap_config){.struct_size = sizeof config};
    error = OUGHT(weft_heap_configure(&config), others);
    REQUIRE(error == WEFT_OK || error == WEFT_EBUSY); /* it needs nothing */
    shared_blocks();
    weft_trim();
}

/* ---- what is seen of a pool --------------------------------------------------------------------------------------- */

/* A file refused, or a descriptor that does not take it. */
static int written(int error) {
    REQUIRE(error == WEFT_OK || (error == WEFT_EINVAL && !scene_now.is_strict));
    return error;
}

static void timeline(weft_pool *pool) {
    SHORT(weft_trace_start(pool));
    for (int i = 0; i < 20; i++) item_submit(pool, NULL, sizeof(struct item), 0);
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
    REQUIRE(weft_trace_stop(pool) == WEFT_OK);
    int file = memfd_create("timeline", 0);
    REQUIRE(file >= 0);
    if (written(weft_trace_write(pool, file)) == WEFT_OK) {
        char ends[2] = {0, 0};
        REQUIRE(pread(file, ends, 1, 0) == 1 && ends[0] == '{');
    }
    REQUIRE((close)(file) == 0);
    written(weft_trace_save(pool, "/dev/null"));
}

void scene_observe(weft_pool *pool) {
    weft_stats stats = {.struct_size = sizeof stats};
    weft_worker_counts counts = {.struct_size = sizeof counts};
    weft_wake_costs costs = {.struct_size = sizeof costs};
    weft_config config = {.struct_size = sizeof config};
    weft_real_time real = {.struct_size = sizeof real};
    char text[512];
    REQUIRE(weft_pool_stats(pool, &stats) == WEFT_OK);
    REQUIRE(weft_worker_stats(pool, 0, &counts) == WEFT_OK && counts.kind == WEFT_KIND_WORKER);
    REQUIRE(weft_pool_wake_costs(pool, &costs) == WEFT_OK);
    REQUIRE(weft_pool_config(pool, &config) == WEFT_OK && config.workers == weft_pool_workers(pool));
    REQUIRE(weft_pool_real_time(pool, &real) == WEFT_OK && real.policy_refused == 0);
    REQUIRE(weft_pool_stats_json(pool, text, sizeof text) > 0);
    REQUIRE(weft_config_format(&config, text, sizeof text) > 0 && weft_config_wrong(&config) == NULL);
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    REQUIRE(sink >= 0);
    written(weft_pool_stats_print(pool, sink));
    written(weft_pool_dump(pool, sink));
    REQUIRE((close)(sink) == 0);
    timeline(pool);
}

/* ---- other pools -------------------------------------------------------------------------------------------------- */

static void bounded_pool(void) {
    weft_config config = scene_config(1);
    config.flags = WEFT_POOL_NO_HELP;
    config.queue_max = 4;
    config.full = WEFT_FULL_ERROR;
    weft_pool *pool = scene_pool(&config);
    if (pool == NULL) return;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 30; i++) item_submit(pool, &group, sizeof(struct item), CODE(WEFT_EFULL));
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    scene_end(pool);
}

enum { WAITERS = 3 };
static weft_group waited_inside[WAITERS];

/* Where every thread waits, one of them gets WEFT_EAGAIN: its thread has to go on to other tasks. */
static int wait_inside(void *payload, weft_worker *self) {
    const struct item *item = payload;
    weft_group *group = &waited_inside[item->index % WAITERS];
    for (int i = 0; i < 4; i++) item_submit(weft_worker_pool(self), group, 100, 0);
    OUGHT(weft_group_wait(weft_worker_pool(self), group), CODE(WEFT_EAGAIN));
    return item_task(payload, self);
}

static void ordered_pool(void) {
    weft_config config = scene_config(2);
    config.flags = WEFT_POOL_ORDERED;
    config.full = WEFT_FULL_RUN;
    weft_pool *pool = scene_pool(&config);
    if (pool == NULL) return;
    struct item items[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        waited_inside[i] = (weft_group)WEFT_GROUP_INIT;
        items[i] = item_new();
    }
    for (int i = 0; i < WAITERS; i++) {
        item_entrust(items[i], SHORT(weft_submit(pool, NULL, wait_inside, &items[i], sizeof items[i])));
        item_submit(pool, NULL, 500, 0);
    }
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
    for (int i = 0; i < WAITERS; i++) REQUIRE(weft_group_wait(pool, &waited_inside[i]) == WEFT_OK);
    scene_end(pool);
}

/* Real time, as far as the system lets it: the pool goes without what is refused. */
static void real_time_pool(uint32_t policy) {
    weft_config config = scene_config(2);
    config.flags = WEFT_POOL_LOCK | (policy == WEFT_POLICY_FIFO ? WEFT_POOL_BIND : 0);
    config.policy = policy;
    config.priority = policy == WEFT_POLICY_FIFO ? 1 : 0;
    config.spin_ns = WEFT_SPIN_NONE;
    config.cpus = NULL;
    if (policy == WEFT_POLICY_DEADLINE) config.runtime_ns = 1000000, config.period_ns = 100000000;
    REQUIRE(weft_config_wrong(&config) == NULL);
    weft_pool *pool = scene_pool(&config);
    if (pool == NULL) return;
    weft_real_time real = {.struct_size = sizeof real};
    for (int i = 0; i < 10; i++) item_submit(pool, NULL, 300, 0);
    REQUIRE(weft_group_wait(pool, NULL) == WEFT_OK);
    REQUIRE(weft_pool_real_time(pool, &real) == WEFT_OK);
    REQUIRE((real.policy_refused == 0) == (real.policy_errno == 0) && (real.bind_refused == 0) == (real.bind_errno == 0));
    REQUIRE((real.unlocked_bytes == 0) == (real.lock_errno == 0) && real.locked_bytes + real.unlocked_bytes > 0);
    if (real.lock_errno != 0) atomic_fetch_or(&outcome->lock_errnos, 1u << real.lock_errno % 32);
    if (real.policy_errno != 0) atomic_fetch_or(&outcome->policy_errnos, 1u << real.policy_errno % 32);
    scene_end(pool);
}

/* Pools whose CPUs are named ask for their workers' affinity. */
static void pool_on_cpus(void) {
    cpu_set_t allowed;
    char text[16];
    unsigned cpu = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    while (!CPU_ISSET(cpu, &allowed)) cpu++;
    snprintf(text, sizeof text, "%u", cpu);
    weft_config config = scene_config(1);
    config.cpus = text;
    weft_pool *pool = NULL;
    /* Where it may not say so, a thread cannot be told from one whose CPU is absent. */
    int error = OUGHT(weft_pool_create(&pool, &config), scene_now.is_strict ? 0 : CODE(WEFT_EINVAL));
    if (error != WEFT_OK) return;
    item_submit(pool, NULL, 100, 0);
    scene_end(pool);
}

/* Several threads ask for the process's pool at once: one makes it, the others wait for the lock. */
static void *default_pool(void *nothing) {
    weft_pool *first = NULL, *second = NULL;
    if (SHORT(weft_pool_default(&first)) != WEFT_OK) {
        REQUIRE(first == NULL);
        return nothing;
    }
    if (SHORT(weft_pool_default(&second)) == WEFT_OK) {
        REQUIRE(first == second);
        REQUIRE(weft_pool_abort(&second, NULL, NULL) == WEFT_EINVAL);
        scene_end(second);
    }
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 20; i++) item_submit(first, &group, 200, 0);
    REQUIRE(weft_group_wait(first, &group) == WEFT_OK);
    scene_end(first);
    return nothing;
}

static void default_pools(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) threads[i] = thread_begin(default_pool, NULL);
    for (int i = 0; i < 3; i++) thread_end(threads[i]);
}

static void aborted_pool(void) {
    weft_config config = scene_config(1);
    weft_pool *pool = NULL;
    if (SHORT(weft_pool_create(&pool, &config)) != WEFT_OK) return;
    weft_group group = WEFT_GROUP_INIT;
    for (int i = 0; i < 40; i++) item_submit(pool, &group, i % 2 == 0 ? sizeof(struct item) : 3000, 0);
    REQUIRE(weft_pool_abort(&pool, item_clean, NULL) == WEFT_OK && pool == NULL);
}

void scene_other_pools(void) {
    weft_config config;
    REQUIRE(strcmp(weft_strerror(WEFT_EFULL), weft_strerror(12345)) != 0 && weft_version()[0] != 0);
    REQUIRE(weft_config_init(&config) == WEFT_OK && weft_config_from_env(&config) == WEFT_OK);
    REQUIRE(weft_cpu_count() >= 1);
    bounded_pool();
    ordered_pool();
    real_time_pool(WEFT_POLICY_FIFO);
    real_time_pool(WEFT_POLICY_DEADLINE);
    pool_on_cpus();
    default_pools();
    aborted_pool();
}
