/* pools_scene.c: several pools of one process, made as the environment asks (WEFT_TRACE, WEFT_TOP, WEFT_STATS). Built twice: as a
 * program, and as a library that has a copy of weft of its own. What they write is checked by test_observe_files.py.
 *
 *   pools_scene once POOLS TASKS    all end at once, each in a thread of its own
 *   pools_scene after POOLS TASKS   one after another
 *   pools_scene copy PLUGIN TASKS   one of the program's and one of the plugin's, which live at the same time
 *   pools_scene exec POOLS TASKS    one that ends, one that does not; then the program becomes `pools_scene after POOLS TASKS`
 *   pools_scene stay POOLS TASKS    as `after`, but the last one waits for the end of the standard input */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "pool_help.h"

#if defined(PLUGIN)
#define EXPORTED __attribute__((visibility("default")))
#else
#define EXPORTED
#endif

EXPORTED weft_pool *pools_begin(unsigned tasks);
EXPORTED void pools_end(weft_pool *pool);

static int pool_task(void *payload, weft_worker *self) {
    (void)payload;
    (void)self;
    return 0;
}

weft_pool *pools_begin(unsigned tasks) {
    weft_group group = WEFT_GROUP_INIT;
    weft_config config = config_of(2);
    REQUIRE(weft_config_from_env(&config) == WEFT_OK);
    weft_pool *pool = make_pool_with(&config);
    for (unsigned i = 0; i < tasks; i++) REQUIRE(weft_submit(pool, &group, pool_task, NULL, 0) == WEFT_OK);
    REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    return pool;
}

void pools_end(weft_pool *pool) { end_pool(pool); }

#if !defined(PLUGIN)
struct one {
    pthread_t thread;
    pthread_barrier_t *all;
    unsigned tasks;
};

static void *begin_and_end(void *argument) {
    const struct one *one = argument;
    weft_pool *pool = pools_begin(one->tasks);
    pthread_barrier_wait(one->all);
    pools_end(pool);
    return NULL;
}

static void at_once(unsigned pools, unsigned tasks) {
    static struct one threads[64];
    pthread_barrier_t all;
    REQUIRE(pools <= 64 && pthread_barrier_init(&all, NULL, pools) == 0);
    for (unsigned i = 0; i < pools; i++) {
        threads[i] = (struct one){.all = &all, .tasks = tasks};
        REQUIRE(pthread_create(&threads[i].thread, NULL, begin_and_end, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < pools; i++) REQUIRE(pthread_join(threads[i].thread, NULL) == 0);
}

static void beside_a_copy(const char *plugin, unsigned tasks) {
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    weft_pool *(*begin)(unsigned);
    void (*end)(weft_pool *);
    *(void **)&begin = dlsym(library, "pools_begin");
    *(void **)&end = dlsym(library, "pools_end");
    REQUIRE(begin != NULL && end != NULL && begin != pools_begin);
    weft_pool *own = pools_begin(tasks), *copy = begin(tasks);
    puts("begun");
    fflush(stdout);
    while (getchar() != EOF) {}
    end(copy);
    pools_end(own);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    unsigned pools = (unsigned)strtoul(argv[2], NULL, 10), tasks = (unsigned)strtoul(argv[3], NULL, 10);
    if (strcmp(argv[1], "copy") == 0) {
        beside_a_copy(argv[2], tasks);
    } else if (strcmp(argv[1], "once") == 0) {
        at_once(pools, tasks);
    } else if (strcmp(argv[1], "exec") == 0) {
        pools_end(pools_begin(tasks));
        pools_begin(tasks);
        execl("/proc/self/exe", argv[0], "stay", argv[2], argv[3], (char *)NULL);
        return 1;
    } else {
        for (unsigned i = 1; i < pools; i++) pools_end(pools_begin(tasks));
        weft_pool *last = pools_begin(tasks);
        if (strcmp(argv[1], "stay") == 0) {
            puts("begun");
            fflush(stdout);
            while (getchar() != EOF) {}
        }
        pools_end(last);
    }
    return 0;
}
#endif
