/* late.h: the process's pool, made when it is first needed. For libraries that get weft before main, in programs that may
 * never call them. */
#ifndef WEFT_HOOKS_LATE_H
#define WEFT_HOOKS_LATE_H

#include <pthread.h>
#include <weft.h>

static weft_pool *hook_late;

static inline void hook_late_make(void) {
    if (weft_pool_default(&hook_late) != WEFT_OK) hook_late = NULL;
}

/* NULL: there is none. Any thread. */
static inline weft_pool *hook_late_pool(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, hook_late_make);
    return hook_late;
}

/* Whether the environment's settings for the pool are right. */
static inline int hook_late_can_be(void) {
    weft_config config;
    weft_config_init(&config);
    return weft_config_from_env(&config) == WEFT_OK;
}

#endif
