/* Between Box2D's programs and b2CreateWorld, by the linker's --wrap: as many workers as WORLD_WORKERS in the environment says, for the
 * benchmark gives no more than there are CPUs; and, with -DON_WEFT, weft instead of Box2D's own threads. The worlds' pool, made
 * for the first of them, ends with the process. */
#include <stdio.h>
#include <stdlib.h>

#include <box2d/box2d.h>

b2WorldId __real_b2CreateWorld(const b2WorldDef *def);
b2WorldId __wrap_b2CreateWorld(const b2WorldDef *def);

#ifdef ON_WEFT
#include <hooks/box2d.h>
#include <pthread.h>

static weft_box2d tasks;

static void start(void) {
    weft_config config;
    weft_config_init(&config);
    config.workers = 1; /* beside the stepping thread, on two CPUs */
    int error = weft_config_from_env(&config);
    if (error == WEFT_OK) error = weft_pool_create(&tasks.pool, &config);
    if (error == WEFT_OK) return;
    fprintf(stderr, "no pool: %s\n", weft_strerror(error));
    exit(1);
}

static void use_weft(b2WorldDef *def) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (def->workerCount < 2) return; /* Box2D has no tasks then */
    pthread_once(&once, start);
    def->enqueueTask = weft_box2d_enqueue;
    def->finishTask = weft_box2d_finish;
    def->userTaskContext = &tasks;
}
#else
static void use_weft(b2WorldDef *def) { (void)def; }
#endif

b2WorldId __wrap_b2CreateWorld(const b2WorldDef *def) {
    b2WorldDef world = *def;
    const char *workers = getenv("WORLD_WORKERS");
    if (workers != NULL) world.workerCount = atoi(workers);
    if (world.enqueueTask == NULL) use_weft(&world);
    return __real_b2CreateWorld(&world);
}
