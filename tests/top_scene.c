/* top_scene.c: a pool made as the environment asks (WEFT_TOP) that runs small tasks until its standard input ends. An
 * argument is a directory to which it changes once the pool is made. */
#define _GNU_SOURCE
#include <poll.h>

#include "pool_help.h"

static bool goes_on(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 1) == 0;
}

int main(int argc, char **argv) {
    weft_config config = config_of(2);
    config.name = "scene";
    REQUIRE(weft_config_from_env(&config) == WEFT_OK);
    weft_pool *pool = NULL;
    int error = weft_pool_create(&pool, &config);
    if (error != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_strerror(error));
        return 1;
    }
    if (argc > 1) REQUIRE(chdir(argv[1]) == 0);
    puts("begun");
    fflush(stdout);
    while (goes_on()) {
        weft_group group = WEFT_GROUP_INIT;
        for (int i = 0; i < 100; i++) REQUIRE(weft_submit(pool, &group, empty_task, NULL, 0) == WEFT_OK);
        REQUIRE(weft_group_wait(pool, &group) == WEFT_OK);
    }
    end_pool(pool);
    return 0;
}
